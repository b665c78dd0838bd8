//! What the nodes of a run tell of themselves, as qlog: all in one file, a group for each end of each bundle.

use tabane_proto::Time;
use tabane_qlog::{Form, Header, Writer};

/// Writes times as they are on the network.
pub const fn writer() -> Writer {
    Writer::new(Form::Draft, Time::ZERO)
}

/// The beginning of a file.
pub fn header(title: &str) -> String {
    let mut text = String::new();
    let header = Header {
        title,
        vantage_point: "sim",
        group: None,
        wall_clock_unix_ms: None,
    };
    writer().header(&header, &mut text);
    text
}

/// What the events of host `host` about its bundle with host `peer` belong to.
pub fn group(host: usize, peer: usize) -> String {
    format!("host {host} to host {peer}")
}
