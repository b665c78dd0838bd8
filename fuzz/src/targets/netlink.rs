//! Any bytes as a datagram of rtnetlink. They come from the kernel alone; but a
//! newer one sends what this one does not know.

use tabane_io::netlink::{Change, read_changes};

/// `struct nlmsghdr`: no message is shorter.
const HEADER_BYTES: usize = 16;

/// Feeds it `datagram`.
pub fn run(datagram: &[u8]) {
    let changes = read_changes(datagram);
    assert!(changes.len() <= datagram.len().div_ceil(HEADER_BYTES));
    let resync = changes.iter().position(|c| *c == Change::Resync);
    assert!(resync.is_none_or(|at| at + 1 == changes.len()));
}
