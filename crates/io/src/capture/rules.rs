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

use crate::netlink::{Request, RouteSocket};

const TABLE: &str = "tabane";
/// All packets come by here.
const HELD: &str = "held";
/// And those to the namespace's own addresses by here.
const WITHIN: &str = "within";

/// The first table of a namespace that is only ours.
const PRIORITY_MANGLE: i32 = -150;
/// `lo` is the first device of every network namespace.
const LOOPBACK: u32 = 1;
/// Addresses that every host has, by the first bytes of their networks.
const OF_EVERY_HOST: [(IpAddr, usize); 2] = [
    (IpAddr::V4(Ipv4Addr::LOCALHOST), 1),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 16),
];

// linux/netfilter/nfnetlink.h, nf_tables.h; not in the libc crate.
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const FAMILY_INET: u8 = 1;
const VERDICT_REGISTER: u32 = 0;
const REGISTER: u32 = 1;
const DROP: i32 = 0;
const ACCEPT: i32 = 1;
const JUMP: i32 = -3;
const RETURN: i32 = -5;
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const META_MARK: u32 = 3;
const META_IIF: u32 = 4;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const HOOK_PREROUTING: u32 = 0;
const SOCKET_TRANSPARENT: u32 = 0;
const SOCKET_MARK: u32 = 1;
const REJECT_TCP_RESET: u32 = 1;
const REJECT_ICMPX: u32 = 2;
const ICMPX_PORT_UNREACHABLE: u8 = 1;

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
        let mut messages = vec![batch(BATCH_BEGIN), table(), chain(HELD), chain(WITHIN)];
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
        let own = self.own.iter().map(|own| (*own, octets_of(*own).len()));
        let jumps = own.chain(OF_EVERY_HOST).map(|(address, network_bytes)| {
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

/// `struct nfgenmsg`.
fn header(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

fn batch(kind: u16) -> Request {
    Request::new(kind, 0, &header(0, SUBSYSTEM))
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
    let (family, offset) = match address {
        IpAddr::V4(_) => (libc::NFPROTO_IPV4, 16),
        IpAddr::V6(_) => (libc::NFPROTO_IPV6, 24),
    };
    meta(list, META_NFPROTO, EQUAL, &[family as u8]);
    load_payload(list, NETWORK_HEADER, offset, bytes as u32);
    compare(list, EQUAL, &octets_of(address)[..bytes]);
}

fn octets_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// Of TCP or UDP.
fn is_to_port(list: &mut Request, port: u16) {
    const DESTINATION_AT: u32 = 2;
    load_payload(list, TRANSPORT_HEADER, DESTINATION_AT, 2);
    compare(list, EQUAL, &port.to_be_bytes());
}

/// SYN without FIN, RST, ACK; or all else.
fn begins_connection(list: &mut Request, whether: u32) {
    const FLAGS_AT: u32 = 13;
    const MASK: u8 = 0x17;
    const SYN: u8 = 0x02;
    load_payload(list, TRANSPORT_HEADER, FLAGS_AT, 1);
    expression(list, "bitwise", |data| {
        big_endian(data, 1, REGISTER);
        big_endian(data, 2, REGISTER);
        big_endian(data, 3, 1);
        nest(data, 4, |mask| value(mask, &[MASK]));
        nest(data, 5, |xor| value(xor, &[0]));
    });
    compare(list, whether, &[SYN]);
}

fn meta(list: &mut Request, key: u32, whether: u32, expected: &[u8]) {
    expression(list, "meta", |data| {
        big_endian(data, 1, REGISTER);
        big_endian(data, 2, key);
    });
    compare(list, whether, expected);
}

/// Looks for the socket that a packet is for; if there is none, or it has no such thing, the rule ends.
fn socket(list: &mut Request, key: u32) {
    expression(list, "socket", |data| {
        big_endian(data, 1, key);
        big_endian(data, 2, REGISTER);
    });
}

fn load_payload(list: &mut Request, base: u32, offset: u32, bytes: u32) {
    expression(list, "payload", |data| {
        big_endian(data, 1, REGISTER);
        big_endian(data, 2, base);
        big_endian(data, 3, offset);
        big_endian(data, 4, bytes);
    });
}

fn compare(list: &mut Request, whether: u32, expected: &[u8]) {
    expression(list, "cmp", |data| {
        big_endian(data, 1, REGISTER);
        big_endian(data, 2, whether);
        nest(data, 3, |data| value(data, expected));
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

fn verdict(list: &mut Request, code: i32) {
    immediate(list, VERDICT_REGISTER, |data| {
        nest(data, 2, |verdict| big_endian(verdict, 1, code as u32));
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

fn immediate(list: &mut Request, register: u32, fill: impl FnOnce(&mut Request)) {
    expression(list, "immediate", |data| {
        big_endian(data, 1, register);
        nest(data, 2, fill);
    });
}

fn value(data: &mut Request, bytes: &[u8]) {
    data.attribute(1, bytes);
}

fn expression(list: &mut Request, name: &str, fill: impl FnOnce(&mut Request)) {
    nest(list, 1, |element| {
        element.text(1, name);
        nest(element, 2, fill);
    });
}

fn big_endian(request: &mut Request, kind: u16, number: u32) {
    request.attribute(kind, &number.to_be_bytes());
}

/// Adds a nested attribute with the flag that this part of the kernel wants.
fn nest(request: &mut Request, kind: u16, fill: impl FnOnce(&mut Request)) {
    request.nested(libc::NLA_F_NESTED as u16 | kind, fill);
}
