//! The rules of a program's network namespace: what begins a TCP connection to another host is
//! dropped, for it was seen and waits; when it is sent once more, with our mark, it reaches our
//! listener, whatever address and port it was for. Datagrams to other hosts reach our socket.
//!
//! By nf_tables' own netlink messages (linux/netfilter/nf_tables.h), not by the program `nft`,
//! which need not be installed where a program is run.

use std::io;
use std::net::IpAddr;

use crate::netlink::{Request, RouteSocket};

const TABLE: &str = "tabane";
const CHAIN: &str = "held";

/// The first table of a namespace that is only ours.
const PRIORITY_MANGLE: i32 = -150;
/// `lo` is the first device of every network namespace.
const LOOPBACK: u32 = 1;

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
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const META_MARK: u32 = 3;
const META_IIF: u32 = 4;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const HOOK_PREROUTING: u32 = 0;

/// What the rules are to do.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Addresses of the namespace's own: what is for them goes its way.
    pub own: Vec<IpAddr>,
    /// What a SYN bears that is sent once more.
    pub mark: u32,
    /// What packets bear that speak for other hosts: they go their way.
    pub mark_inward: u32,
    /// Where the listener for those listens and the socket for datagrams is bound, on any address.
    pub port: u16,
}

impl Rules {
    /// Puts them into force in the network namespace this thread is in.
    ///
    /// # Errors
    /// The kernel refuses: it lacks nf_tables or its tproxy, or the thread may not.
    pub fn apply(&self) -> io::Result<()> {
        let mut socket = RouteSocket::netfilter()?;
        Ok(socket.execute_batch(self.messages())?)
    }

    fn messages(&self) -> Vec<Request> {
        let mut messages = vec![batch(BATCH_BEGIN), table(), chain()];
        messages.push(rule(|list| {
            on_loopback(list);
            meta_is(list, META_MARK, &self.mark_inward.to_ne_bytes());
            verdict(list, ACCEPT);
        }));
        for address in &self.own {
            messages.push(rule(|list| {
                on_loopback(list);
                is_for(list, *address, octets_of(*address).len());
                verdict(list, ACCEPT);
            }));
        }
        for (own, network_bytes) in [
            (IpAddr::from([127, 0, 0, 1]), 1),
            (IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), 16),
        ] {
            messages.push(rule(|list| {
                on_loopback(list);
                is_for(list, own, network_bytes);
                verdict(list, ACCEPT);
            }));
        }
        for family in [libc::NFPROTO_IPV4, libc::NFPROTO_IPV6] {
            messages.push(rule(|list| {
                on_loopback(list);
                meta_is(list, META_MARK, &self.mark.to_ne_bytes());
                meta_is(list, META_NFPROTO, &[family as u8]);
                meta_is(list, META_L4PROTO, &[libc::IPPROTO_TCP as u8]);
                to_port(list, family as u32, self.port);
                verdict(list, ACCEPT);
            }));
        }
        messages.push(rule(|list| {
            on_loopback(list);
            meta_is(list, META_L4PROTO, &[libc::IPPROTO_TCP as u8]);
            begins_connection(list);
            verdict(list, DROP);
        }));
        for family in [libc::NFPROTO_IPV4, libc::NFPROTO_IPV6] {
            messages.push(rule(|list| {
                on_loopback(list);
                meta_is(list, META_NFPROTO, &[family as u8]);
                meta_is(list, META_L4PROTO, &[libc::IPPROTO_UDP as u8]);
                to_port(list, family as u32, self.port);
                verdict(list, ACCEPT);
            }));
        }
        let last = messages.pop().map(Request::acknowledged);
        messages.extend(last);
        messages.push(batch(BATCH_END));
        messages
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

fn chain() -> Request {
    let mut request = Request::new(NEW_CHAIN, libc::NLM_F_CREATE, &header(FAMILY_INET, 0));
    request.text(1, TABLE).text(3, CHAIN);
    nest(&mut request, 4, |hook| {
        big_endian(hook, 1, HOOK_PREROUTING);
        big_endian(hook, 2, PRIORITY_MANGLE as u32);
    });
    request.text(7, "filter");
    request
}

fn rule(expressions: impl FnOnce(&mut Request)) -> Request {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
    let mut request = Request::new(NEW_RULE, flags, &header(FAMILY_INET, 0));
    request.text(1, TABLE).text(2, CHAIN);
    nest(&mut request, 4, expressions);
    request
}

fn on_loopback(list: &mut Request) {
    meta_is(list, META_IIF, &LOOPBACK.to_ne_bytes());
}

/// Of packets for an address, or for the network that its first bytes are.
fn is_for(list: &mut Request, address: IpAddr, bytes: usize) {
    let (family, offset) = match address {
        IpAddr::V4(_) => (libc::NFPROTO_IPV4, 16),
        IpAddr::V6(_) => (libc::NFPROTO_IPV6, 24),
    };
    meta_is(list, META_NFPROTO, &[family as u8]);
    load_payload(list, NETWORK_HEADER, offset, bytes as u32);
    compare(list, &octets_of(address)[..bytes]);
}

fn octets_of(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// SYN without FIN, RST, ACK.
fn begins_connection(list: &mut Request) {
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
    compare(list, &[SYN]);
}

fn meta_is(list: &mut Request, key: u32, expected: &[u8]) {
    expression(list, "meta", |data| {
        big_endian(data, 1, REGISTER);
        big_endian(data, 2, key);
    });
    compare(list, expected);
}

fn load_payload(list: &mut Request, base: u32, offset: u32, bytes: u32) {
    expression(list, "payload", |data| {
        big_endian(data, 1, REGISTER);
        big_endian(data, 2, base);
        big_endian(data, 3, offset);
        big_endian(data, 4, bytes);
    });
}

fn compare(list: &mut Request, expected: &[u8]) {
    const EQUAL: u32 = 0;
    expression(list, "cmp", |data| {
        big_endian(data, 1, REGISTER);
        big_endian(data, 2, EQUAL);
        nest(data, 3, |data| value(data, expected));
    });
}

fn to_port(list: &mut Request, family: u32, port: u16) {
    immediate(list, REGISTER, |data| value(data, &port.to_be_bytes()));
    expression(list, "tproxy", |data| {
        big_endian(data, 1, family);
        big_endian(data, 3, REGISTER);
    });
}

fn verdict(list: &mut Request, code: u32) {
    immediate(list, VERDICT_REGISTER, |data| {
        nest(data, 2, |verdict| {
            big_endian(verdict, 1, code);
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
