//! Everything of tabane that reads foreign bytes, each as a function of those
//! bytes that panics where a promise is broken. libFuzzer calls them with
//! bytes it makes up (`fuzz/libfuzzer`), the tests with the seeds kept here.
#![forbid(unsafe_code)]

pub mod nodes;
pub mod targets {
    //! One module for each target.
    pub mod cluster_file;
    pub mod control;
    pub mod control_answer;
    pub mod frames;
    pub mod gate;
    pub mod handshake;
    pub mod head;
    pub mod header;
    pub mod hello;
    pub mod insider;
    pub mod key;
    pub mod measured;
    pub mod metrics_request;
    pub mod neighbour;
    pub mod netlink;
    pub mod open;
    pub mod opening;
    pub mod outside;
    pub mod pair;
    pub mod record;
    pub mod records;
    pub mod ring;
    pub mod scan;
    pub mod stranger;
    pub mod syn;
    pub mod vi_door;
    pub mod vi_said;
    pub mod words;
}

/// What a target does with some bytes.
pub type Run = fn(&[u8]);

/// All targets by the name that their seeds, and the programs of `fuzz/libfuzzer`, have.
pub const TARGETS: &[(&str, Run)] = &[
    ("cluster_file", targets::cluster_file::run),
    ("control", targets::control::run),
    ("control_answer", targets::control_answer::run),
    ("frames", targets::frames::run),
    ("gate", targets::gate::run),
    ("handshake", targets::handshake::run),
    ("head", targets::head::run),
    ("header", targets::header::run),
    ("hello", targets::hello::run),
    ("insider", targets::insider::run),
    ("key", targets::key::run),
    ("measured", targets::measured::run),
    ("metrics_request", targets::metrics_request::run),
    ("neighbour", targets::neighbour::run),
    ("netlink", targets::netlink::run),
    ("open", targets::open::run),
    ("opening", targets::opening::run),
    ("outside", targets::outside::run),
    ("pair", targets::pair::run),
    ("record", targets::record::run),
    ("records", targets::records::run),
    ("ring", targets::ring::run),
    ("scan", targets::scan::run),
    ("stranger", targets::stranger::run),
    ("syn", targets::syn::run),
    ("vi_door", targets::vi_door::run),
    ("vi_said", targets::vi_said::run),
    ("words", targets::words::run),
];
