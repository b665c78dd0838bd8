//! The TCP connections of this network namespace and what holds them up
//! (sock_diag(7), `tcp_info` of linux/tcp.h).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::message::{Message, Request, attributes, u32_at, u64_at};
use super::read_ip;
use super::socket::Socket;

/// linux/sock_diag.h, linux/inet_diag.h; not in the libc crate.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
/// `TCP_ESTABLISHED` as a bit in a set of states.
pub(super) const ESTABLISHED: u32 = 1 << 1;
/// The same of `TCP_LISTEN`.
const LISTENING: u32 = 1 << 10;
/// The same of `TCP_SYN_SENT`.
pub(super) const SYN_SENT: u32 = 1 << 2;
/// The same of `TCP_FIN_WAIT1`, `TCP_LAST_ACK` and `TCP_CLOSING`.
const CLOSING: u32 = 1 << 4 | 1 << 9 | 1 << 11;
/// `struct inet_diag_req_v2` and `struct inet_diag_msg`.
const REQUEST_BYTES: usize = 56;
const ANSWER_BYTES: usize = 72;

/// One established TCP connection. Times and bytes run from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpConnection {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Bytes that have arrived and that the program here has not read.
    pub unread_bytes: u32,
    /// Bytes that the program here has written and that are not acknowledged.
    pub unacked_bytes: u32,
    /// How long there was something to send.
    pub busy: Duration,
    /// For how much of that the other end granted no window: it reads slowly, or its
    /// buffer is small.
    pub window_limited: Duration,
    /// For how much of that the send buffer here was the limit.
    pub send_buffer_limited: Duration,
    /// Bytes acknowledged by the other end.
    pub acked_bytes: u64,
    /// Bytes received from it.
    pub received_bytes: u64,
}

/// All established TCP connections, IPv4 and IPv6, of any program.
///
/// # Errors
/// The kernel has no sock_diag or refuses it. Needs no privileges.
pub fn tcp_connections() -> io::Result<Vec<TcpConnection>> {
    list(&mut Socket::diagnosis()?, ESTABLISHED, TcpConnection::read)
}

/// All ports that programs listen at with TCP, IPv4 and IPv6, some more than once. The kernel looks at listeners alone
/// for that, not at the connections of the whole machine, as it does for `/proc/net/tcp`.
///
/// # Errors
/// The kernel has no sock_diag or refuses it. Needs no privileges.
pub fn listening_ports() -> io::Result<Vec<u16>> {
    let port = |message: Message<'_>| Some(ends(message)?.0.port());
    list(&mut Socket::diagnosis()?, LISTENING, port)
}

/// This end of all TCP connections that programs have closed and that still have something to say, IPv4 and IPv6.
///
/// # Errors
/// The kernel has no sock_diag or refuses it. Needs no privileges.
pub fn closing_connections() -> io::Result<Vec<SocketAddr>> {
    let local = |message: Message<'_>| Some(ends(message)?.0);
    list(&mut Socket::diagnosis()?, CLOSING, local)
}

/// The parsed answers about all sockets in a set of states, IPv4 and IPv6.
pub(super) fn list<T>(
    socket: &mut Socket,
    states: u32,
    read: impl Fn(Message<'_>) -> Option<T>,
) -> io::Result<Vec<T>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        found.extend(socket.dump(|| request(family as u8, states), &read)?);
    }
    Ok(found)
}

/// Asks for all connections of an address family in a set of states.
fn request(family: u8, states: u32) -> Request {
    let mut body = [0; REQUEST_BYTES];
    body[0] = family;
    body[1] = libc::IPPROTO_TCP as u8;
    body[2] = 1 << (INET_DIAG_INFO - 1);
    body[4..8].copy_from_slice(&states.to_ne_bytes());
    Request::new(SOCK_DIAG_BY_FAMILY, libc::NLM_F_DUMP, &body)
}

impl TcpConnection {
    fn read(message: Message<'_>) -> Option<TcpConnection> {
        let info = attributes(details(message)?)
            .find(|(kind, _)| *kind == INET_DIAG_INFO)
            .map_or(&[][..], |(_, value)| value);
        let (body, (local, remote)) = (message.body, ends(message)?);
        // Older kernels have a shorter tcp_info: missing fields are zero.
        let number = |at| u64_at(info, at).unwrap_or(0);
        Some(TcpConnection {
            local,
            remote,
            unread_bytes: u32_at(body, 56)?,
            unacked_bytes: u32_at(body, 60)?,
            acked_bytes: number(120),
            received_bytes: number(128),
            busy: Duration::from_micros(number(168)),
            window_limited: Duration::from_micros(number(176)),
            send_buffer_limited: Duration::from_micros(number(184)),
        })
    }
}

/// Both ends of the connection that an answer is about, this one first.
pub(super) fn ends(message: Message<'_>) -> Option<(SocketAddr, SocketAddr)> {
    let body = message.body;
    let address_bytes = match i32::from(*body.first()?) {
        libc::AF_INET => 4,
        libc::AF_INET6 => 16,
        _ => return None,
    };
    // Ports and addresses are in network order.
    let port = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
    let ip = |at: usize| -> Option<IpAddr> { read_ip(body.get(at..at + address_bytes)?) };
    Some((
        SocketAddr::new(ip(8)?.to_canonical(), port(4)?),
        SocketAddr::new(ip(24)?.to_canonical(), port(6)?),
    ))
}

/// The attributes of an answer.
pub(super) fn details(message: Message<'_>) -> Option<&[u8]> {
    message.body.get(ANSWER_BYTES..)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_is_listed_with_what_waits_in_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        // It arrives within the call, and nobody reads it.
        client.write_all(&[1; 1000]).unwrap();
        let all = tcp_connections().unwrap();
        let of = |stream: &TcpStream| {
            let local = stream.local_addr().unwrap();
            *all.iter().find(|c| c.local == local).unwrap()
        };
        assert_eq!(of(&client).remote, server.local_addr().unwrap());
        assert_eq!(of(&server).unread_bytes, 1000);
        assert_eq!(of(&server).received_bytes, 1000);
        assert!(of(&client).acked_bytes <= 1001, "SYN counts as one");
    }

    #[test]
    fn listeners_are_found_and_connections_are_not() {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ports = listening_ports().unwrap();
        assert!(ports.contains(&listener.local_addr().unwrap().port()));
        assert!(!ports.contains(&client.local_addr().unwrap().port()));
    }

    #[test]
    fn a_connection_whose_reader_sleeps_is_limited_by_the_window() {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        let block = [0; 1 << 16];
        loop {
            while client.write(&block).is_ok() {}
            let local = client.local_addr().unwrap();
            let all = tcp_connections().unwrap();
            let found = all.iter().find(|c| c.local == local).unwrap();
            if found.window_limited > Duration::from_millis(20) {
                assert!(found.window_limited <= found.busy);
                break;
            }
            std::thread::yield_now();
        }
        drop(server);
    }
}
