//! `[[flow]]`: how the traffic of some programs is carried.

use core::fmt;
use core::ops::RangeInclusive;
use std::net::IpAddr;

use toml::de::{DeTable, DeValue};

use super::document::{entry, printable, unknown_keys};
use super::gateway::read_rate;
use super::problem::Findings;
use super::{LINKS_MAX, Network, NodeSpec};

/// Most `[[flow]]` of a cluster file: each packet may be held against all of them.
pub const FLOWS_MAX: usize = 32;
/// Most ports and ranges of one.
const PORTS_MAX: usize = 64;

const KEYS: &[&str] = &["port", "protocol", "dscp", "net", "carry", "link", "rate"];

const RIGHT_FLOW: &str =
    "write `[[flow]]` on a line of its own before each, with `port = 5060` or the like below it";
const RIGHT_WHICH: &str = "say which with `port`, `protocol`, `dscp` or `net`";
const RIGHT_HOW: &str = "say how with `carry`, `link` or `rate`";
const RIGHT_PORT: &str =
    "write a number from 1 to 65535, a range as in \"5000-5010\", or a list of these";
const RIGHT_PROTOCOL: &str = "write \"tcp\" or \"udp\", or leave it out for all";
const RIGHT_DSCP: &str =
    "write a number from 0 to 63, or a name such as \"ef\", \"cs5\" or \"af41\" (RFC 4594)";
const RIGHT_NET: &str =
    "write an address or a network of either end, such as \"10.99.0.3\" or \"10.99.0.0/28\"";
const RIGHT_CARRY: &str = "write \"mirror\" (each packet on two links), \"stripe\" (each packet on the link that delivers it \
                           soonest), or leave it out";
const RIGHT_RATE: &str = "write a whole number and kbit, mbit or gbit, such as \"200mbit\", from 1mbit to 400gbit, or leave it \
                          out";

/// A `[[flow]]` of the cluster file: which traffic, and how it is carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSpec {
    /// It has one of these ports at either end; any if there are none.
    pub ports: Vec<RangeInclusive<u16>>,
    /// It is of this protocol.
    pub protocol: Option<Protocol>,
    /// It has this differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: Option<u8>,
    /// Either end is in this network.
    pub network: Option<Network>,
    /// How it is spread over the links.
    pub carry: Carry,
    /// How much of it each node sends at most, bits a second, 1,000,000 to 400,000,000,000.
    pub rate_bps: Option<u64>,
}

/// A protocol with ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Its number (IANA).
    pub const fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        }
    }
}

/// How traffic is spread over the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carry {
    /// As all other traffic.
    #[default]
    Usual,
    /// Each packet on the link that delivers it soonest.
    Stripe,
    /// Each packet on two links.
    Mirror,
    /// All on this link, 0 to 7, while it works.
    Link(u8),
}

/// What of a packet or connection a `[[flow]]` may look at.
#[derive(Debug, Clone, Copy)]
pub struct FlowHeader {
    /// Number of the protocol behind IP (IANA).
    pub protocol: u8,
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// Source and destination; 0 if there are none.
    pub ports: [u16; 2],
    /// `None` if it is not known.
    pub dscp: Option<u8>,
}

impl FlowSpec {
    /// Whether it speaks of this.
    pub fn takes(&self, header: &FlowHeader) -> bool {
        let has_port = |range: &RangeInclusive<u16>| header.ports.iter().any(|p| range.contains(p));
        (self.ports.is_empty() || self.ports.iter().any(has_port))
            && self.protocol.is_none_or(|p| p.number() == header.protocol)
            && self.dscp.is_none_or(|dscp| header.dscp == Some(dscp))
            && (self.network).is_none_or(|net| header.addresses.iter().any(|ip| net.contains(*ip)))
    }

    /// Which traffic, in words.
    pub fn which(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.protocol.map(|protocol| match protocol {
            Protocol::Tcp => "tcp".to_owned(),
            Protocol::Udp => "udp".to_owned(),
        }));
        if !self.ports.is_empty() {
            let port = |range: &RangeInclusive<u16>| match range.start() == range.end() {
                true => range.start().to_string(),
                false => format!("{}-{}", range.start(), range.end()),
            };
            let ports: Vec<_> = self.ports.iter().map(port).collect();
            words.push(format!("port {}", ports.join(",")));
        }
        words.extend(self.dscp.map(|dscp| format!("dscp {dscp}")));
        words.extend(self.network.map(|network| format!("net {network}")));
        words.join(" ")
    }

    /// How it is carried, in words.
    pub fn how(&self) -> String {
        let carry = match self.carry {
            Carry::Usual => None,
            Carry::Stripe => Some("stripe".to_owned()),
            Carry::Mirror => Some("mirror".to_owned()),
            Carry::Link(link) => Some(format!("link {link}")),
        };
        let rate = self.rate_bps.map(|bps| match bps {
            bps if bps % 1_000_000_000 == 0 => format!("at most {}gbit", bps / 1_000_000_000),
            bps if bps % 1_000_000 == 0 => format!("at most {}mbit", bps / 1_000_000),
            bps => format!("at most {}kbit", bps / 1000),
        });
        let words: Vec<_> = carry.into_iter().chain(rate).collect();
        words.join(", ")
    }
}

impl fmt::Display for FlowSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.which(), self.how())
    }
}

/// Reads all of them, in the order of the file: the first that speaks of a packet is the one that holds. Errors are reported,
/// and their entries left out.
pub(super) fn read(
    root: &DeTable<'_>,
    nodes: &[NodeSpec],
    findings: &mut Findings,
) -> Vec<FlowSpec> {
    let Some((value, line)) = entry(root, "flow", findings) else {
        return Vec::new();
    };
    let Some(array) = value.as_array() else {
        findings.error(line, "`flow` is not a list of flows", RIGHT_FLOW);
        return Vec::new();
    };
    if array.len() > FLOWS_MAX {
        let what = format!("there are {} `[[flow]]`", array.len());
        findings.error(line, what, format!("at most {FLOWS_MAX} are possible"));
    }
    let mut flows: Vec<FlowSpec> = Vec::new();
    for item in array.iter().take(FLOWS_MAX) {
        let line = findings.line_of(&item.span());
        match item.get_ref() {
            DeValue::Table(table) => {
                let flow = read_one((table, line), nodes, findings);
                if flows.iter().any(|before| before.which() == flow.which()) {
                    let what = "this `[[flow]]` speaks of the same traffic as one before it";
                    findings.error(line, what, "keep one of them: the first would hold");
                }
                flows.push(flow);
            }
            _ => findings.error(line, "`flow` has an entry that is no flow", RIGHT_FLOW),
        }
    }
    flows
}

fn read_one(
    (table, line): (&DeTable<'_>, u32),
    nodes: &[NodeSpec],
    findings: &mut Findings,
) -> FlowSpec {
    unknown_keys(table, KEYS, " of `[[flow]]`", findings);
    let has = |keys: &[&str]| keys.iter().any(|key| table.get(*key).is_some());
    if !has(&KEYS[..4]) {
        findings.error(
            line,
            "this `[[flow]]` does not say which traffic",
            RIGHT_WHICH,
        );
    }
    if !has(&KEYS[4..]) {
        findings.error(
            line,
            "this `[[flow]]` says nothing of its traffic",
            RIGHT_HOW,
        );
    }
    FlowSpec {
        ports: read_ports(table, findings),
        protocol: read_protocol(table, findings),
        dscp: read_dscp(table, findings),
        network: read_network(table, findings),
        carry: read_carry(table, nodes, findings),
        rate_bps: read_rate(table, RIGHT_RATE, findings),
    }
}

fn read_ports(table: &DeTable<'_>, findings: &mut Findings) -> Vec<RangeInclusive<u16>> {
    let Some((value, line)) = entry(table, "port", findings) else {
        return Vec::new();
    };
    let ports: Option<Vec<_>> = match value.as_array() {
        Some(array) => array.iter().map(|item| port(item.get_ref())).collect(),
        None => port(value).map(|port| vec![port]),
    };
    let ports = ports.filter(|ports| (1..=PORTS_MAX).contains(&ports.len()));
    ports.unwrap_or_else(|| {
        findings.error(
            line,
            "port is neither a port nor a range of ports",
            RIGHT_PORT,
        );
        Vec::new()
    })
}

/// A port or a range of ports.
fn port(value: &DeValue<'_>) -> Option<RangeInclusive<u16>> {
    let number = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0);
    if let Some(integer) = value.as_integer() {
        let port = u16::from_str_radix(integer.as_str(), integer.radix()).ok()?;
        return (port != 0).then_some(port..=port);
    }
    let text = value.as_str()?;
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (number(from)?, number(to)?);
    (from <= to).then_some(from..=to)
}

fn read_protocol(table: &DeTable<'_>, findings: &mut Findings) -> Option<Protocol> {
    let (value, line) = entry(table, "protocol", findings)?;
    let protocol = match value.as_str() {
        Some("tcp") => Some(Protocol::Tcp),
        Some("udp") => Some(Protocol::Udp),
        _ => None,
    };
    if protocol.is_none() {
        findings.error(line, "protocol is neither tcp nor udp", RIGHT_PROTOCOL);
    }
    protocol
}

fn read_dscp(table: &DeTable<'_>, findings: &mut Findings) -> Option<u8> {
    let (value, line) = entry(table, "dscp", findings)?;
    let dscp = match value.as_str() {
        Some(name) => dscp_named(name),
        None => value
            .as_integer()
            .and_then(|n| u8::from_str_radix(n.as_str(), n.radix()).ok()),
    };
    let dscp = dscp.filter(|dscp| *dscp < 64);
    if dscp.is_none() {
        findings.error(line, "dscp is not a code point", RIGHT_DSCP);
    }
    dscp
}

/// A code point by its name: EF (RFC 3246), CSn (RFC 2474), AFnm (RFC 2597).
fn dscp_named(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase();
    let digit = |byte: &u8, most| Some(byte.wrapping_sub(b'0')).filter(|n| *n <= most);
    match name.as_bytes() {
        b"ef" => Some(46),
        [b'c', b's', class] => Some(digit(class, 7)? * 8),
        [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
            Some(digit(class, 4)? * 8 + digit(drop, 3)? * 2)
        }
        _ => None,
    }
}

fn read_network(table: &DeTable<'_>, findings: &mut Findings) -> Option<Network> {
    let (value, line) = entry(table, "net", findings)?;
    let network = value.as_str().and_then(network);
    if network.is_none() {
        findings.error(line, "net is neither an address nor a network", RIGHT_NET);
    }
    network
}

fn network(text: &str) -> Option<Network> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.unwrap_or(width);
    (prefix <= width).then(|| Network::new(address, prefix))
}

fn read_carry(table: &DeTable<'_>, nodes: &[NodeSpec], findings: &mut Findings) -> Carry {
    let carry = entry(table, "carry", findings).map(|(value, line)| match value.as_str() {
        Some("mirror") => Carry::Mirror,
        Some("stripe") => Carry::Stripe,
        other => {
            let what = match other {
                Some(text) => format!("carry cannot be \"{}\"", printable(text)),
                None => "`carry` is not a text in quotes".to_owned(),
            };
            findings.error(line, what, RIGHT_CARRY);
            Carry::Usual
        }
    });
    let Some((value, line)) = entry(table, "link", findings) else {
        return carry.unwrap_or_default();
    };
    if carry.is_some() {
        let right = "keep one of them: one says over which links, the other names the one";
        findings.error(line, "there are both `carry` and `link`", right);
    }
    let link = value
        .as_integer()
        .and_then(|n| usize::from_str_radix(n.as_str(), n.radix()).ok())
        .filter(|link| *link < LINKS_MAX);
    let Some(link) = link else {
        let right = format!("write one from 0 to {} without quotes", LINKS_MAX - 1);
        findings.error(line, "link is not the number of a link", right);
        return Carry::Usual;
    };
    let has_it = |node: &NodeSpec| node.addresses().any(|(of, _)| of == link);
    // That there are no nodes is said already.
    if !nodes.is_empty() && !nodes.iter().any(has_it) {
        let right = "count the addresses in `links` from 0";
        findings.error(line, format!("no node has a link {link}"), right);
    }
    Carry::Link(link as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_have_the_names_of_their_standards() {
        for (name, dscp) in [
            ("ef", 46),
            ("EF", 46),
            ("cs0", 0),
            ("cs7", 56),
            ("af11", 10),
            ("AF41", 34),
            ("af43", 38),
        ] {
            assert_eq!(dscp_named(name), Some(dscp), "{name}");
        }
        for name in ["", "cs8", "cs", "af10", "af14", "af51", "ef0", "46"] {
            assert_eq!(dscp_named(name), None, "{name}");
        }
    }

    #[test]
    fn networks_are_addresses_or_have_a_prefix() {
        let shown = |text| network(text).map(|network| network.to_string());
        assert_eq!(shown("10.99.0.3").as_deref(), Some("10.99.0.3/32"));
        assert_eq!(shown("10.99.0.3/24").as_deref(), Some("10.99.0.0/24"));
        assert_eq!(shown("fd77::1").as_deref(), Some("fd77::1/128"));
        for wrong in [
            "",
            "n1",
            "10.99.0.3/33",
            "10.99.0.3/",
            "fd77::/129",
            "10.99.0/24",
        ] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_flow_takes_what_it_names_at_either_end() {
        let spec = FlowSpec {
            ports: vec![5060..=5060, 10_000..=20_000],
            protocol: Some(Protocol::Udp),
            dscp: None,
            network: network("10.99.0.0/24"),
            carry: Carry::Mirror,
            rate_bps: Some(1_500_000),
        };
        let header = FlowHeader {
            protocol: 17,
            addresses: ["10.99.0.1", "10.98.0.1"].map(|ip| ip.parse().unwrap()),
            ports: [40_000, 5060],
            dscp: None,
        };
        let with_ports = |ports| FlowHeader { ports, ..header };
        assert!(spec.takes(&header));
        assert!(spec.takes(&with_ports([12_345, 1])));
        assert!(!spec.takes(&with_ports([5061, 1])));
        assert!(!spec.takes(&FlowHeader {
            protocol: 6,
            ..header
        }));
        let elsewhere = [header.addresses[1]; 2];
        assert!(!spec.takes(&FlowHeader {
            addresses: elsewhere,
            ..header
        }));
        let marked = FlowSpec {
            dscp: Some(46),
            ..spec.clone()
        };
        assert!(!marked.takes(&header), "it is not known");
        assert!(marked.takes(&FlowHeader {
            dscp: Some(46),
            ..header
        }));
        assert_eq!(
            spec.to_string(),
            "udp port 5060,10000-20000 net 10.99.0.0/24: mirror, at most 1500kbit"
        );
    }
}
