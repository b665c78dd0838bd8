//! The rules of a program's network namespace. What begins a TCP connection for which the namespace has
//! no socket, to another host or to one of its own addresses, is told of and dropped: it waits. When it
//! is sent once more, with our mark, it reaches our listener, whatever address and port it was for.
//! Datagrams for which the namespace has no socket reach ours.
//!
//! A socket is looked for only at the namespace's own addresses: one that is bound to any address is not
//! at another host's, though every address is local.
//!
//! By nf_tables' own netlink messages (linux/netfilter/nf_tables.h), not by the program `nft`,
//! which need not be installed where a program is run.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::nft::{
    ACCEPT, BATCH_BEGIN, BATCH_END, DROP, EQUAL, NETWORK_HEADER, NEW_CHAIN, NEW_RULE, NEW_SET,
    NEW_TABLE, REGISTER, TRANSPORT_HEADER, VERDICT_REGISTER, batch, big_endian, compare,
    expression, header, immediate, load_payload, meta, nest, octets_of, value, verdict,
};
use crate::netlink::{Request, RouteSocket};

const TABLE: &str = "tabane";
/// All packets come by here.
const HELD: &str = "held";
/// And those to the namespace's own addresses by here.
const WITHIN: &str = "within";
/// And those by here that say that nobody knows of a connection.
const STRAY: &str = "stray";
/// Those that were said once.
const SEEN: &str = "seen";
/// How long it is known that one was said: longer than a kernel waits before it repeats something for the first time.
const SEEN_MS: u64 = 10_000;
const SEEN_MAX: u32 = 4096;
/// Both ports and the sequence number, with which a header of TCP begins.
const STRAY_BYTES: u32 = 8;

/// The first table of a namespace that is only ours.
const PRIORITY_MANGLE: i32 = -150;
/// `lo` is the first device of every network namespace.
const LOOPBACK: u32 = 1;
/// Addresses that every host has, by the first bytes of their networks.
const OF_EVERY_HOST: [(IpAddr, usize); 2] = [
    (IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 16),
];

const SET_TIMEOUT: u32 = 0x10;
/// Rules add to it.
const SET_EVAL: u32 = 0x20;
const FAMILY_INET: u8 = 1;
const JUMP: i32 = -3;
const RETURN: i32 = -5;
const NOT_EQUAL: u32 = 1;
const META_MARK: u32 = 3;
const META_IIF: u32 = 4;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
const HOOK_PREROUTING: u32 = 0;
const SOCKET_TRANSPARENT: u32 = 0;
const SOCKET_MARK: u32 = 1;
const REJECT_TCP_RESET: u32 = 1;
const REJECT_ICMPX: u32 = 2;
const ICMPX_PORT_UNREACHABLE: u8 = 1;

// Flags of TCP (RFC 9293 section 3.1).
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;
const FAMILIES: [i32; 2] = [libc::NFPROTO_IPV4, libc::NFPROTO_IPV6];

/// What the rules are to do.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Addresses of the namespace's own, besides those of loopback: what is for a socket there goes its
    /// way.
    pub own: Vec<IpAddr>,
    /// What a SYN bears that is sent once more.
    pub mark: u32,
    /// What packets bear that speak for other hosts: they go their way.
    pub mark_inward: u32,
    /// What packets bear that nobody is to hear.
    pub mark_silent: u32,
    /// Where the listener for those listens and the socket for datagrams is bound, on any address. To
    /// everybody it is a port at which nobody listens.
    pub port: u16,
    /// Which group of listeners of the log is told of SYNs that are held.
    pub group: u16,
    /// How many bytes of a SYN it is told.
    pub bytes_told_max: u32,
}

impl Rules {
    /// Puts them into force in the network namespace this thread is in.
    ///
    /// # Errors
    /// The kernel refuses: it lacks nf_tables, or of its expressions tproxy, socket, log or reject, or the
    /// thread may not.
    pub fn apply(&self) -> io::Result<()> {
        let mut socket = RouteSocket::netfilter()?;
        Ok(socket.execute_batch(self.messages())?)
    }

    fn messages(&self) -> Vec<Request> {
        let chains = [HELD, WITHIN, STRAY].map(chain);
        let mut messages = vec![batch(BATCH_BEGIN), table()];
        messages.extend(chains);
        messages.push(set(SEEN, STRAY_BYTES));
        messages.extend(self.what_strays());
        messages.extend(self.what_passes());
        messages.extend(self.what_is_within());
        messages.extend(self.what_is_held());
        let last = messages.pop().map(Request::acknowledged);
        messages.extend(last);
        messages.push(batch(BATCH_END));
        messages
    }

    /// All that is told by itself. Most packets are segments of connections: they are told first.
    fn what_passes(&self) -> Vec<Request> {
        let mut rules = vec![
            rule(HELD, |list| {
                meta(list, META_IIF, NOT_EQUAL, &LOOPBACK.to_ne_bytes());
                verdict(list, ACCEPT);
            }),
            rule(HELD, |list| {
                meta(list, META_MARK, EQUAL, &self.mark_silent.to_ne_bytes());
                verdict(list, DROP);
            }),
            rule(HELD, |list| {
                meta(list, META_L4PROTO, EQUAL, &[TCP]);
                has_flags(list, RST | ACK, EQUAL, RST);
                jump(list, STRAY);
            }),
            rule(HELD, |list| {
                meta(list, META_L4PROTO, EQUAL, &[TCP]);
                begins_connection(list, NOT_EQUAL);
                verdict(list, ACCEPT);
            }),
        ];
        // Our sockets' port: a host where nobody listens answers so.
        for protocol in [TCP, UDP] {
            rules.push(rule(HELD, |list| {
                meta(list, META_MARK, EQUAL, &self.mark_inward.to_ne_bytes());
                meta(list, META_L4PROTO, EQUAL, &[protocol]);
                is_to_port(list, self.port);
                reject(list, protocol);
            }));
        }
        rules.push(rule(HELD, |list| {
            meta(list, META_MARK, EQUAL, &self.mark_inward.to_ne_bytes());
            verdict(list, ACCEPT);
        }));
        for family in FAMILIES {
            rules.push(rule(HELD, |list| {
                meta(list, META_MARK, EQUAL, &self.mark.to_ne_bytes());
                to_us(list, family, TCP, self.port);
            }));
        }
        // A connection that begins where there is one already does not reach our listener. Were it told of, it
        // would be sent again without end.
        rules.push(rule(HELD, |list| {
            meta(list, META_MARK, EQUAL, &self.mark.to_ne_bytes());
            verdict(list, DROP);
        }));
        rules
    }

    /// A reset without ACK answers a segment for which the kernel finds no socket (RFC 9293 section 3.10.7.1). While a
    /// connection is being accepted, Linux before 6.19 has a moment in which it finds none though there is one
    /// (`inet_ehash_insert` takes the request out of its list before the socket is in it): what a program says at once is
    /// answered so if another processor sees to it. So one in another host's name is heard only the second time: the
    /// program's kernel repeats what it said, which finds the socket, or is answered by the same reset.
    fn what_strays(&self) -> Vec<Request> {
        let own = self.own_networks().map(|(address, network_bytes)| {
            rule(STRAY, |list| {
                is_from(list, address, network_bytes);
                verdict(list, RETURN);
            })
        });
        let was_seen = rule(STRAY, |list| {
            load_stray(list);
            lookup(list, SEEN);
            verdict(list, RETURN);
        });
        // If as many are known as may be, it is heard.
        let is_new = rule(STRAY, |list| {
            load_stray(list);
            note(list, SEEN);
            verdict(list, DROP);
        });
        own.chain([was_seen, is_new]).collect()
    }

    /// The namespace's own addresses, as networks: each with how many of its bytes count.
    fn own_networks(&self) -> impl Iterator<Item = (IpAddr, usize)> + '_ {
        let own = self.own.iter().map(|own| (*own, octets_of(*own).len()));
        own.chain(OF_EVERY_HOST)
    }

    /// What is for an address of the namespace's own, and for a socket there.
    fn what_is_within(&self) -> Vec<Request> {
        let is_ours = rule(WITHIN, |list| {
            is_to_port(list, self.port);
            verdict(list, RETURN);
        });
        // Where there is no socket, these rules end at the expression. Most programs' are not transparent, and
        // take a SYN also if all that is left is a connection's end (TIME_WAIT): it begins anew from there.
        let is_theirs = rule(WITHIN, |list| {
            socket(list, SOCKET_TRANSPARENT);
            compare(list, EQUAL, &[0]);
            verdict(list, ACCEPT);
        });
        // One that is transparent may be ours. Of a connection that our listener had the end is not to take
        // what connects from the same port again, which is held as before: an end has no mark.
        let is_live = rule(WITHIN, |list| {
            socket(list, SOCKET_MARK);
            verdict(list, ACCEPT);
        });
        let jumps = self.own_networks().map(|(address, network_bytes)| {
            rule(HELD, |list| {
                is_for(list, address, network_bytes);
                jump(list, WITHIN);
            })
        });
        [is_ours, is_theirs, is_live]
            .into_iter()
            .chain(jumps)
            .collect()
    }

    /// The rest, of which what is neither TCP nor UDP passes.
    fn what_is_held(&self) -> Vec<Request> {
        let mut rules = vec![rule(HELD, |list| {
            meta(list, META_L4PROTO, EQUAL, &[TCP]);
            log(list, self.group, self.bytes_told_max);
            verdict(list, DROP);
        })];
        for family in FAMILIES {
            rules.push(rule(HELD, |list| to_us(list, family, UDP, self.port)));
        }
        rules
    }
}

fn table() -> Request {
    let mut request = Request::new(NEW_TABLE, libc::NLM_F_CREATE, &header(FAMILY_INET, 0));
    request.text(1, TABLE);
    request
}

fn chain(name: &str) -> Request {
    let mut request = Request::new(NEW_CHAIN, libc::NLM_F_CREATE, &header(FAMILY_INET, 0));
    request.text(1, TABLE).text(3, name);
    if name == HELD {
        nest(&mut request, 4, |hook| {
            big_endian(hook, 1, HOOK_PREROUTING);
            big_endian(hook, 2, PRIORITY_MANGLE as u32);
        });
        request.text(7, "filter");
    }
    request
}

/// A set of keys, to which rules add; each is forgotten after a while.
fn set(name: &str, key_bytes: u32) -> Request {
    /// Has no meaning to the kernel.
    const KEY_TYPE: u32 = 0;
    /// By it a batch would refer to a set that has no name yet.
    const ID: u32 = 1;
    let mut request = Request::new(NEW_SET, libc::NLM_F_CREATE, &header(FAMILY_INET, 0));
    request.text(1, TABLE).text(2, name);
    big_endian(&mut request, 3, SET_TIMEOUT | SET_EVAL);
    big_endian(&mut request, 4, KEY_TYPE);
    big_endian(&mut request, 5, key_bytes);
    nest(&mut request, 9, |shape| big_endian(shape, 1, SEEN_MAX));
    big_endian(&mut request, 10, ID);
    request.attribute(11, &SEEN_MS.to_be_bytes());
    request
}

/// Adds a rule behind those that its chain has.
fn rule(chain: &str, expressions: impl FnOnce(&mut Request)) -> Request {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
    let mut request = Request::new(NEW_RULE, flags, &header(FAMILY_INET, 0));
    request.text(1, TABLE).text(2, chain);
    nest(&mut request, 4, expressions);
    request
}

/// Of packets for an address, or for the network that its first bytes are.
fn is_for(list: &mut Request, address: IpAddr, bytes: usize) {
    let offset = if address.is_ipv4() { 16 } else { 24 };
    has_address(list, address, bytes, offset);
}

/// Of packets from an address, or from the network that its first bytes are.
fn is_from(list: &mut Request, address: IpAddr, bytes: usize) {
    let offset = if address.is_ipv4() { 12 } else { 8 };
    has_address(list, address, bytes, offset);
}

fn has_address(list: &mut Request, address: IpAddr, bytes: usize, offset: u32) {
    let family = match address {
        IpAddr::V4(_) => libc::NFPROTO_IPV4,
        IpAddr::V6(_) => libc::NFPROTO_IPV6,
    };
    meta(list, META_NFPROTO, EQUAL, &[family as u8]);
    load_payload(list, NETWORK_HEADER, offset, bytes as u32);
    compare(list, EQUAL, &octets_of(address)[..bytes]);
}

/// Of TCP or UDP.
fn is_to_port(list: &mut Request, port: u16) {
    const DESTINATION_AT: u32 = 2;
    load_payload(list, TRANSPORT_HEADER, DESTINATION_AT, 2);
    compare(list, EQUAL, &port.to_be_bytes());
}

/// SYN without FIN, RST, ACK; or all else.
fn begins_connection(list: &mut Request, whether: u32) {
    has_flags(list, FIN | SYN | RST | ACK, whether, SYN);
}

/// Of TCP: of these flags, those.
fn has_flags(list: &mut Request, of: u8, whether: u32, flags: u8) {
    const FLAGS_AT: u32 = 13;
    load_payload(list, TRANSPORT_HEADER, FLAGS_AT, 1);
    expression(list, "bitwise", |data| {
        big_endian(data, 1, REGISTER);
        big_endian(data, 2, REGISTER);
        big_endian(data, 3, 1);
        nest(data, 4, |mask| value(mask, &[of]));
        nest(data, 5, |xor| value(xor, &[0]));
    });
    compare(list, whether, &[flags]);
}

/// Looks for the socket that a packet is for; if there is none, or it has no such thing, the rule ends.
fn socket(list: &mut Request, key: u32) {
    expression(list, "socket", |data| {
        big_endian(data, 1, key);
        big_endian(data, 2, REGISTER);
    });
}

fn load_stray(list: &mut Request) {
    load_payload(list, TRANSPORT_HEADER, 0, STRAY_BYTES);
}

/// Whether a set has what was loaded.
fn lookup(list: &mut Request, set: &str) {
    expression(list, "lookup", |data| {
        data.text(1, set);
        big_endian(data, 2, REGISTER);
    });
}

/// Adds what was loaded to a set; if that is full, the rule ends.
fn note(list: &mut Request, set: &str) {
    const ADD: u32 = 0;
    expression(list, "dynset", |data| {
        data.text(1, set);
        big_endian(data, 3, ADD);
        big_endian(data, 4, REGISTER);
    });
}

/// Gives what is of this family and protocol to our socket at this port.
fn to_us(list: &mut Request, family: i32, protocol: u8, port: u16) {
    meta(list, META_NFPROTO, EQUAL, &[family as u8]);
    meta(list, META_L4PROTO, EQUAL, &[protocol]);
    immediate(list, REGISTER, |data| value(data, &port.to_be_bytes()));
    expression(list, "tproxy", |data| {
        big_endian(data, 1, family as u32);
        big_endian(data, 3, REGISTER);
    });
    verdict(list, ACCEPT);
}

/// Tells those that listen for this group, of each packet at once.
fn log(list: &mut Request, group: u16, bytes_max: u32) {
    expression(list, "log", |data| {
        data.attribute(1, &group.to_be_bytes());
        big_endian(data, 3, bytes_max);
        data.attribute(4, &1u16.to_be_bytes());
    });
}

/// Answers as a host does where nobody is at the port.
fn reject(list: &mut Request, protocol: u8) {
    expression(list, "reject", |data| match protocol {
        TCP => big_endian(data, 1, REJECT_TCP_RESET),
        _ => {
            big_endian(data, 1, REJECT_ICMPX);
            data.attribute(2, &[ICMPX_PORT_UNREACHABLE]);
        }
    });
}

/// Goes on in another chain, and then behind this rule if nothing was decided there.
fn jump(list: &mut Request, chain: &str) {
    immediate(list, VERDICT_REGISTER, |data| {
        nest(data, 2, |verdict| {
            big_endian(verdict, 1, JUMP as u32);
            verdict.text(2, chain);
        });
    });
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::thread;

    use super::*;
    use crate::capture::tests::{FAR, OWN, capture, connecting, next_syn, wait_for};
    use crate::isolated::isolated;
    use crate::sys::{get_option, set_option};

    /// Of `struct tcp_info`, in words: where it says how many segments were repeated, up to there.
    const REPEATED_AT: usize = 25;

    /// Of the end of a connection whose other end its kernel knows no more: how often it said its first word before it
    /// heard so.
    fn said_until_heard(mut end: TcpStream, other: TcpStream) -> u32 {
        // It goes without a word.
        set_option(&other, libc::IPPROTO_TCP, libc::TCP_REPAIR, 1).unwrap();
        drop(other);
        end.write_all(b"x").unwrap();
        end.set_nonblocking(false).unwrap();
        let error = end.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let initial = [0; REPEATED_AT + 1];
        let info = get_option(&end, libc::IPPROTO_TCP, libc::TCP_INFO, initial).unwrap();
        1 + info[REPEATED_AT]
    }

    #[test]
    fn a_far_end_that_is_not_found_once_is_looked_for_again() {
        let name = "capture::rules::tests::a_far_end_that_is_not_found_once_is_looked_for_again";
        isolated(name, || {
            let capture = capture();
            for far in FAR {
                let program = connecting(far);
                let syn = next_syn(&capture);
                capture.admit(&syn).unwrap();
                wait_for(capture.accept_descriptor());
                let (ours, ..) = capture.accept().unwrap().unwrap();
                let program = program.join().unwrap().unwrap();
                assert_eq!(said_until_heard(program, ours), 2, "{far}");
            }
        });
    }

    #[test]
    fn an_own_end_that_is_not_found_is_told_of_at_once() {
        let name = "capture::rules::tests::an_own_end_that_is_not_found_is_told_of_at_once";
        isolated(name, || {
            let _capture = capture();
            for own in OWN.into_iter().chain(["127.0.0.1", "::1"]) {
                let own: IpAddr = own.parse().unwrap();
                let listener = TcpListener::bind((own, 0)).unwrap();
                let to: SocketAddr = listener.local_addr().unwrap();
                let program = thread::spawn(move || TcpStream::connect(to));
                let (theirs, _) = listener.accept().unwrap();
                let program = program.join().unwrap().unwrap();
                assert_eq!(said_until_heard(program, theirs), 1, "{own}");
            }
        });
    }
}
