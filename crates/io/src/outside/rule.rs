//! The rule by which a host's kernel hears nothing that comes from outside for the cluster's addresses, but what it has asked itself.
//!
//! It stands when its maker is gone, however that ended: a host whose gateway has died must not answer, for another one has the addresses
//! by then. The next one that is made takes its place.

use std::io;
use std::net::IpAddr;

use crate::netlink::nft::{
    ACCEPT, BATCH_BEGIN, BATCH_END, DELETE_TABLE, DROP, EQUAL, NETWORK_HEADER, NEW_CHAIN, NEW_RULE,
    NEW_TABLE, batch, big_endian, compare, header, load_payload, meta, nest, octets_of, verdict,
};
use crate::netlink::{Request, RouteSocket};

const TABLE: &str = "tabane-outside";
const CHAIN: &str = "silence";
/// Before all other rules.
const PRIORITY: i32 = i32::MIN;
// linux/netfilter.h, nf_tables.h
const FAMILY_NETDEV: u8 = 5;
const HOOK_INGRESS: u32 = 0;
const META_PROTOCOL: u32 = 1;
const ARP_REQUEST: u16 = 1;
const ICMPV6: u8 = libc::IPPROTO_ICMPV6 as u8;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Puts the rule into force for what comes from this device for these addresses.
///
/// # Errors
/// There is no such device, the process may not (CAP_NET_ADMIN), or the kernel lacks nf_tables' netdev family.
pub fn keep_silent(device: &str, addresses: &[IpAddr]) -> io::Result<()> {
    let mut rules = vec![rule(|list| {
        is_icmpv6(list, NEIGHBOUR_ADVERTISEMENT);
        verdict(list, ACCEPT);
    })];
    for address in addresses {
        match address {
            IpAddr::V4(_) => {
                rules.push(rule(|list| {
                    is_protocol(list, libc::ETH_P_IP);
                    is_at(list, 16, &octets_of(*address));
                    verdict(list, DROP);
                }));
                rules.push(rule(|list| {
                    is_protocol(list, libc::ETH_P_ARP);
                    is_at(list, 6, &ARP_REQUEST.to_be_bytes());
                    is_at(list, 24, &octets_of(*address));
                    verdict(list, DROP);
                }));
            }
            IpAddr::V6(_) => {
                rules.push(rule(|list| {
                    is_protocol(list, libc::ETH_P_IPV6);
                    is_at(list, 24, &octets_of(*address));
                    verdict(list, DROP);
                }));
                rules.push(rule(|list| {
                    is_icmpv6(list, NEIGHBOUR_SOLICITATION);
                    is_at(list, 48, &octets_of(*address));
                    verdict(list, DROP);
                }));
            }
        }
    }
    let mut messages = vec![batch(BATCH_BEGIN), table(), without_table(), table()];
    messages.push(chain(device));
    messages.extend(rules);
    let last = messages.pop().map(Request::acknowledged);
    messages.extend(last);
    messages.push(batch(BATCH_END));
    Ok(RouteSocket::netfilter()?.execute_batch(messages)?)
}

/// Takes it away, whoever has put it there, if anybody has.
///
/// # Errors
/// The process may not.
pub fn speak_again() -> io::Result<()> {
    let messages = vec![
        batch(BATCH_BEGIN),
        table(),
        without_table().acknowledged(),
        batch(BATCH_END),
    ];
    Ok(RouteSocket::netfilter()?.execute_batch(messages)?)
}

fn table() -> Request {
    let mut request = Request::new(NEW_TABLE, libc::NLM_F_CREATE, &header(FAMILY_NETDEV, 0));
    request.text(1, TABLE);
    request
}

fn without_table() -> Request {
    let mut request = Request::new(DELETE_TABLE, 0, &header(FAMILY_NETDEV, 0));
    request.text(1, TABLE);
    request
}

fn chain(device: &str) -> Request {
    let mut request = Request::new(NEW_CHAIN, libc::NLM_F_CREATE, &header(FAMILY_NETDEV, 0));
    request.text(1, TABLE).text(3, CHAIN);
    nest(&mut request, 4, |hook| {
        big_endian(hook, 1, HOOK_INGRESS);
        big_endian(hook, 2, PRIORITY as u32);
        hook.text(3, device);
    });
    request.text(7, "filter");
    request
}

fn rule(expressions: impl FnOnce(&mut Request)) -> Request {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
    let mut request = Request::new(NEW_RULE, flags, &header(FAMILY_NETDEV, 0));
    request.text(1, TABLE).text(2, CHAIN);
    nest(&mut request, 4, expressions);
    request
}

fn is_protocol(list: &mut Request, protocol: i32) {
    meta(list, META_PROTOCOL, EQUAL, &(protocol as u16).to_be_bytes());
}

/// What stands there behind the start of the network's header.
fn is_at(list: &mut Request, at: u32, expected: &[u8]) {
    load_payload(list, NETWORK_HEADER, at, expected.len() as u32);
    compare(list, EQUAL, expected);
}

/// Without extension headers (RFC 4861, 7.1).
fn is_icmpv6(list: &mut Request, kind: u8) {
    is_protocol(list, libc::ETH_P_IPV6);
    is_at(list, 6, &[ICMPV6]);
    is_at(list, 40, &[kind]);
}
