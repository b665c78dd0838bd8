//! The provider's own environment variables; every door reads the others ([`tabane_rank::environment`]). Read when a program
//! asks for providers, and again when it opens a domain.

use core::ffi::CStr;

use tabane_rank::environment::value;

pub use tabane_rank::environment::{Configuration, Problem, links, shown, with_links};

/// All variables with their meanings, for `fi_info -g tabane`. libfabric lists each with `FI_TABANE_` before its name: it is
/// read under that name too.
pub const VARIABLES: &[(&CStr, &CStr)] = &[
    (
        c"links",
        c"TABANE_LINKS: which links are used: names of devices, addresses or networks (10.0.1.0/24), separated by \
          commas; every node has to list its networks in the same order (default: every device that is connected and \
          has a private address, without bridges of containers; a link's number follows from its network)",
    ),
    (
        c"key_file",
        c"TABANE_KEY_FILE: a file with the key that all processes of the job share: 64 hexadecimal digits (default: the \
          key of /etc/tabane/cluster.toml)",
    ),
    (
        c"key",
        c"TABANE_KEY: the key itself",
    ),
    (
        c"wire",
        c"TABANE_WIRE: encrypted or plain (default: encrypted, or what the cluster file says whose key is used)",
    ),
    (
        c"ports",
        c"TABANE_PORTS: the UDP ports of which each endpoint takes one: LOW-HIGH (default: 49152-65535)",
    ),
    (
        c"peer_timeout",
        c"TABANE_PEER_TIMEOUT: seconds after which a peer of which nothing has come is gone (default: 3)",
    ),
    (
        c"shm",
        c"TABANE_SHM: 0 has processes of the same node talk over the loopback device and not through shared memory; \
          copy keeps them from reading each other's memory (default: 1)",
    ),
    (
        c"eager",
        c"TABANE_EAGER: bytes of the longest message that travels before its receiver has a buffer for it; a longer one is \
          announced, and fetched (default: 32768)",
    ),
    (
        c"bundles",
        c"TABANE_BUNDLES: of how many peers each endpoint uses the links itself at most, once more are in its address vector; others \
          are reached through these (default: all)",
    ),
    (
        c"stats",
        c"TABANE_STATS: 1 prints what each link carried when an endpoint is closed (default: 0)",
    ),
];

/// The value of an environment variable, by its name without `TABANE_`. An empty one counts as none.
pub fn variable(name: &str) -> Option<String> {
    value(&format!("TABANE_{name}")).or_else(|| value(&format!("FI_TABANE_{name}")))
}

/// Whether the provider is asked for. Otherwise it is not offered: a program must not change its ways because a library
/// lies there, and a readable cluster file does not mean that this program wants it.
pub fn is_wanted() -> bool {
    let names = [
        "LINKS",
        "KEY_FILE",
        "KEY",
        "WIRE",
        "PORTS",
        "PEER_TIMEOUT",
        "SHM",
        "EAGER",
        "BUNDLES",
    ];
    let is_chosen = std::env::var("FI_PROVIDER").is_ok_and(|chosen| names_us(&chosen));
    is_chosen || names.into_iter().any(|name| variable(name).is_some())
}

/// Whether a list of providers (`FI_PROVIDER`, or the name in hints) names this one, and does not exclude it.
pub fn names_us(list: &str) -> bool {
    let mut names = list.split([',', ';']);
    !list.starts_with('^') && names.any(|name| name.eq_ignore_ascii_case("tabane"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_providers_may_name_it() {
        for list in ["tabane", "tcp,Tabane", "tabane;ofi_rxm"] {
            assert!(names_us(list), "{list}");
        }
        for list in ["", "tcp", "^tabane", "tabanes"] {
            assert!(!names_us(list), "{list}");
        }
    }
}
