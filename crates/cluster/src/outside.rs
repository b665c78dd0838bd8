//! `addresses` and `routers` of `[gateway]`: the cluster's addresses outside, and the ways from there.

use std::net::IpAddr;

use toml::de::DeTable;

use super::checks::named;
use super::document::{entry, printable};
use super::gateway::{count, required, texts};
use super::network::width;
use super::problem::Findings;
use super::{Network, NodeSpec, node};

const RIGHT_ADDRESSES: &str = "write one address of a family at most, with the length of its network, as in addresses = \
                               [\"203.0.113.1/24\", \"2001:db8::1/64\"]";
const RIGHT_ADDRESS: &str =
    "write an address and the length of its network, such as \"203.0.113.1/24\"";
const RIGHT_OUTSIDE: &str = "write one that the outside reaches the cluster at";
const RIGHT_ROUTERS: &str = "write one address of a family at most, as in routers = [\"203.0.113.254\", \"2001:db8::fe\"], \
                             or leave it out if there are none";

/// An address outside, and where it stands in the file.
struct Outside {
    address: IpAddr,
    prefix: u8,
    line: u32,
}

impl Outside {
    fn network(&self) -> Network {
        Network::new(self.address, self.prefix)
    }
}

/// The addresses with their prefix lengths, and the routers; IPv4 first. Errors are reported, including conflicts with `nodes`.
pub(super) fn read(
    table: &DeTable<'_>,
    table_line: u32,
    nodes: &[NodeSpec],
    findings: &mut Findings,
) -> (Vec<(IpAddr, u8)>, Vec<IpAddr>) {
    let (addresses, is_whole) = read_addresses(table, table_line, findings);
    for outside in &addresses {
        check_beside_nodes(outside, nodes, findings);
    }
    let mut routers = read_routers(table, &addresses, is_whole, findings);
    routers.sort_by_key(IpAddr::is_ipv6);
    let mut addresses: Vec<_> = (addresses.into_iter())
        .map(|outside| (outside.address, outside.prefix))
        .collect();
    addresses.sort_by_key(|(address, _)| address.is_ipv6());
    (addresses, routers)
}

/// Those that can be read, and whether these are all.
fn read_addresses(
    table: &DeTable<'_>,
    table_line: u32,
    findings: &mut Findings,
) -> (Vec<Outside>, bool) {
    let mut addresses: Vec<Outside> = Vec::new();
    let found = required(table, table_line, "addresses", RIGHT_ADDRESSES, findings);
    let Some((value, line)) = found else {
        return (addresses, false);
    };
    if value.as_array().is_some() && count(value) == 0 {
        findings.error(line, "`addresses` has none", RIGHT_ADDRESSES);
    }
    for (text, line) in texts((value, line), "addresses", RIGHT_ADDRESSES, findings) {
        let Some((address, prefix)) = check_address(text, line, findings) else {
            continue;
        };
        let is_alike = |other: &&Outside| other.address.is_ipv4() == address.is_ipv4();
        if let Some(first) = addresses.iter().find(is_alike) {
            let what = format!(
                "address {address} is the second one of {}, beside {} (line {})",
                family(address),
                first.address,
                first.line
            );
            findings.error(line, what, "one of each family is possible");
        }
        addresses.push(Outside {
            address,
            prefix,
            line,
        });
    }
    let is_whole = !addresses.is_empty() && addresses.len() == count(value);
    (addresses, is_whole)
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Checks an entry of `addresses` by itself, and reports errors.
fn check_address(text: &str, line: u32, findings: &mut Findings) -> Option<(IpAddr, u8)> {
    let wrong = |what: &str| format!("address \"{}\" {what}", printable(text));
    let (alone, length) = match text.split_once('/') {
        Some((alone, length)) => (alone, Some(length)),
        None => (text, None),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (Ok(address), true) = (alone.parse::<IpAddr>(), length.is_none_or(is_number)) else {
        let what = wrong("is not an address with the length of its network");
        findings.error(line, what, RIGHT_ADDRESS);
        return None;
    };
    if let Some(what) = unusable(address) {
        findings.error(line, wrong(what), RIGHT_OUTSIDE);
        return None;
    }
    let usual = if address.is_ipv4() { 24 } else { 64 };
    let Some(length) = length else {
        let right = format!("write it behind the address, such as \"{address}/{usual}\"");
        findings.error(line, wrong("has no length of its network"), right);
        return None;
    };
    // Digits only: a value that does not parse is out of range.
    let prefix = length.parse().unwrap_or(u8::MAX);
    if prefix == 0 || prefix >= width(address) {
        let right = format!(
            "write a length from 1 to {}, such as /{usual}",
            width(address) - 1
        );
        findings.error(line, wrong("is in no network with others"), right);
        return None;
    }
    let network = Network::new(address, prefix);
    if !network.is_host(address) {
        let what = wrong("is the network's own or its broadcast address");
        findings.error(line, what, format!("take another address of {network}"));
        return None;
    }
    Some((address, prefix))
}

/// Why the outside cannot know a cluster by this address.
fn unusable(address: IpAddr) -> Option<&'static str> {
    match address {
        _ if address.is_loopback() => Some("is a loopback address"),
        IpAddr::V4(v4) if v4.is_link_local() => Some("is a link-local address"),
        _ => node::unusable(address).map(|(what, _)| what),
    }
}

/// Traffic to nodes must not be for the outside address, and vice versa.
fn check_beside_nodes(outside: &Outside, nodes: &[NodeSpec], findings: &mut Findings) {
    const RIGHT: &str = "take one that no node has: it is the cluster's, whichever gateway serves";
    let Outside { address, line, .. } = *outside;
    for node in nodes {
        for (number, _) in node.addresses().filter(|(_, link)| *link == address) {
            let what = format!(
                "address {address} is link {number} of {} (line {})",
                named(node),
                node.link_line(number)
            );
            findings.error(line, what, RIGHT);
        }
    }
    let vnics = nodes.iter().filter_map(|node| node.vnic);
    let mut networks = vnics.map(|(vnic, prefix)| Network::new(vnic, prefix));
    if let Some(network) = networks.find(|network| network.contains(address)) {
        let what = format!("address {address} is in the network of the virtual NICs, {network}");
        let right = "take one of the network outside; virtual NICs have one that nothing else uses";
        findings.error(line, what, right);
    }
}

/// The routers. `is_whole`: no address is missing in `addresses` because of something that is reported already.
fn read_routers(
    table: &DeTable<'_>,
    addresses: &[Outside],
    is_whole: bool,
    findings: &mut Findings,
) -> Vec<IpAddr> {
    let mut routers: Vec<(IpAddr, u32)> = Vec::new();
    let Some(found) = entry(table, "routers", findings) else {
        return Vec::new();
    };
    for (text, line) in texts(found, "routers", RIGHT_ROUTERS, findings) {
        let Some(router) = parse_router(text, line, findings) else {
            continue;
        };
        let is_alike = |(other, _): &&(IpAddr, u32)| other.is_ipv4() == router.is_ipv4();
        if let Some((first, first_line)) = routers.iter().find(is_alike) {
            let what = format!(
                "router {router} is the second one of {}, beside {first} (line {first_line})",
                family(router)
            );
            findings.error(line, what, "one of each family is possible");
        }
        match addresses
            .iter()
            .find(|outside| outside.address.is_ipv4() == router.is_ipv4())
        {
            Some(outside) => check_router(router, line, outside, findings),
            None if is_whole => {
                let what = format!(
                    "router {router} has no address of {} beside it",
                    family(router)
                );
                let right = "add one to `addresses`, or leave the router out";
                findings.error(line, what, right);
            }
            None => {}
        }
        routers.push((router, line));
    }
    routers.into_iter().map(|(router, _)| router).collect()
}

/// Of IPv6, and of one link only.
fn is_link_local(router: IpAddr) -> bool {
    matches!(router, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

fn parse_router(text: &str, line: u32, findings: &mut Findings) -> Option<IpAddr> {
    if let Ok(router) = text.parse() {
        return Some(router);
    }
    let alone = text.split(['/', '%']).next().unwrap_or_default();
    let is_address = alone.parse::<IpAddr>().is_ok();
    let right = if text.contains('%') && is_address {
        format!("write \"{alone}\", without a device: it is that of `interface`")
    } else if text.contains('/') && is_address {
        format!("write \"{alone}\", without the length of the network")
    } else {
        RIGHT_ROUTERS.to_owned()
    };
    let what = format!("router \"{}\" is not an IP address", printable(text));
    findings.error(line, what, right);
    None
}

/// A router must be on the network outside, where the gateway asks for it, and another host.
fn check_router(router: IpAddr, line: u32, outside: &Outside, findings: &mut Findings) {
    let network = outside.network();
    let (what, right) = if router == outside.address {
        let right =
            "write the router's own address; without a router the outside is that network only";
        (
            format!("router {router} is the address of the cluster itself"),
            right,
        )
    } else if is_link_local(router) {
        // Every network of IPv6 has such addresses, and routers tell hosts of no others (RFC 4861, section 4.2). The device is `interface`.
        return;
    } else if !network.contains(router) {
        let right = "write its address in that network, or of IPv6 the one of its link (fe80::…): it is reached without another router";
        (
            format!("router {router} is not in the network outside, {network}"),
            right,
        )
    // In IPv6 the first address of a network is that of any router there (RFC 4291, section 2.6.1).
    } else if router.is_ipv4() && !network.is_host(router) {
        let right = "write the address of the router";
        (
            format!("router {router} is the own or the broadcast address of {network}"),
            right,
        )
    } else {
        return;
    };
    findings.error(line, what, right);
}
