//! Two nodes in one process, over two links: 127.0.0.1 and ::1.
#![allow(dead_code, missing_docs, reason = "each test program uses its part")]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::time::Duration;

use tabane_library::{Node, Options};

pub const LINKS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
pub const KEY: [u8; 32] = [7; 32];
pub const SERVICE: u32 = 1;
pub const LONG: Duration = Duration::from_secs(20);

/// A port that is free on both links at this moment, and that no other test here was given: it may
/// have closed its node for a moment.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let first = UdpSocket::bind((LINKS[0], 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        if UdpSocket::bind((LINKS[1], port)).is_ok() && GIVEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}

/// A node at a port, with a peer at another.
pub fn open(name: &str, own: u16, other: &str, port: u16) -> Node {
    let addresses = LINKS.map(|link| SocketAddr::new(link, port));
    let options = Options::new(name, KEY, LINKS)
        .port(own)
        .peer(other, addresses);
    Node::open(options).unwrap()
}

pub fn two_nodes() -> (Node, Node) {
    let ports = [free_port(), free_port()];
    let a = open("a", ports[0], "b", ports[1]);
    (a, open("b", ports[1], "a", ports[0]))
}
