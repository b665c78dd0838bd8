//! Packets that a rule of nf_tables logs, each with its first bytes (NFLOG;
//! linux/netfilter/nfnetlink_log.h, whose numbers are not in the libc crate).

use std::io;
use std::os::fd::OwnedFd;

use socket2::SockRef;

use super::message::{Request, attributes, messages};
use super::socket::Socket;
use crate::sys::set_option;

const SUBSYSTEM: u16 = 4;
const PACKET: u16 = SUBSYSTEM << 8;
const CONFIGURE: u16 = SUBSYSTEM << 8 | 1;
/// `struct nfgenmsg`: the family, the version, the group.
const HEADER_BYTES: usize = 4;
const CFG_COMMAND: u16 = 1;
const CFG_MODE: u16 = 2;
const CFG_QUEUE_THRESHOLD: u16 = 5;
const COMMAND_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const PAYLOAD: u16 = 9;

/// A non-blocking socket that receives what rules log for `group` in this thread's network namespace:
/// each packet at once, in a message of its own, with at most `bytes_max` of its bytes.
///
/// # Errors
/// The kernel lacks it or does not permit it, or another socket has the group.
pub(crate) fn open_log(group: u16, bytes_max: u32) -> io::Result<OwnedFd> {
    let mut socket = Socket::netfilter()?;
    let [high, low] = group.to_be_bytes();
    let header = [libc::AF_UNSPEC as u8, 0, high, low];
    let mut request = Request::new(CONFIGURE, 0, &header).acknowledged();
    request.attribute(CFG_COMMAND, &[COMMAND_BIND]);
    let [b0, b1, b2, b3] = bytes_max.to_be_bytes();
    request.attribute(CFG_MODE, &[b0, b1, b2, b3, COPY_PACKET, 0]);
    request.attribute(CFG_QUEUE_THRESHOLD, &1u32.to_be_bytes());
    socket.execute(request)?;
    let socket = OwnedFd::from(socket);
    // Messages without room are dropped silently: their senders repeat them.
    set_option(&socket, libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, 1)?;
    SockRef::from(&socket).set_nonblocking(true)?;
    Ok(socket)
}

/// The first bytes of the packet in such a datagram; `None` if it has none.
pub fn logged_packet(datagram: &[u8]) -> Option<&[u8]> {
    let told = messages(datagram).flatten().find(|m| m.kind == PACKET)?;
    let mut facts = attributes(told.body.get(HEADER_BYTES..)?);
    facts.find_map(|(kind, value)| (kind == PAYLOAD).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: &[u8] = b"any bytes";

    /// As Linux sends it: of the attributes before the packet a few.
    fn told() -> Vec<u8> {
        let mut message = Request::new(PACKET, 0, &[2, 0, 0, 1]);
        message.attribute(1, &[8, 0, 0, 0]).number(4, 1);
        message.attribute(PAYLOAD, SYN).number(12, 0);
        message.finish(0)
    }

    fn other(kind: u16) -> Vec<u8> {
        let mut message = Request::new(kind, 0, &[0; HEADER_BYTES]);
        message.attribute(PAYLOAD, b"another");
        message.finish(0)
    }

    #[test]
    fn the_packet_is_found() {
        assert_eq!(logged_packet(&told()), Some(SYN));
        // Other messages in the datagram are skipped.
        let behind = [other(CONFIGURE), told(), other(PACKET)].concat();
        assert_eq!(logged_packet(&behind), Some(SYN));
    }

    #[test]
    fn what_tells_of_no_packet_is_passed_over() {
        assert_eq!(logged_packet(&other(CONFIGURE)), None);
        let empty = |body| Request::new(PACKET, 0, body).finish(0);
        for body in [&[][..], &[0; 3], &[0; HEADER_BYTES]] {
            assert_eq!(logged_packet(&empty(body)), None);
        }
    }

    #[test]
    fn a_datagram_that_is_cut_tells_of_no_packet() {
        let whole = told();
        for length in 0..whole.len() {
            assert_eq!(logged_packet(&whole[..length]), None);
        }
    }

    #[test]
    fn lengths_that_make_no_sense_are_no_packet() {
        let whole = told();
        for at in 0..whole.len() - 1 {
            for length in [0u16, 1, 3, 4, 5, 0x7fff, 0xffff] {
                let mut wrong = whole.clone();
                wrong[at..at + 2].copy_from_slice(&length.to_ne_bytes());
                // Any result is within the datagram.
                let found = logged_packet(&wrong).map_or(0, <[u8]>::len);
                assert!(found < whole.len());
            }
        }
    }
}
