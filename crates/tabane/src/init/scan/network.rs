//! The networks that this machine may have links on, and a socket on each.

use std::io::{self, ErrorKind};
use std::net::IpAddr;

use tabane_cluster::{VNIC_NAME, is_node_name, plain};
use tabane_io::netlink::Interface;
use tabane_io::probe::Broadcast;

use super::links::Own;
use super::words::{Run, Words};

/// That of the bundle: it has to be let through a firewall anyway.
pub const PORT: u16 = tabane_cluster::DEFAULT_PORT;
/// The longest datagram is a question.
const BUFFER_BYTES: usize = super::words::QUESTION_BYTES + 1;

/// An interface, and everybody on its network.
pub struct Network {
    /// The interface, and those of its addresses that a link may have.
    pub own: Own,
    socket: Broadcast,
}

impl Network {
    /// Says it to everybody there.
    pub fn say(&self, words: &Words) {
        self.socket.say(&words.encode());
    }

    /// The next words of somebody there, if there are any.
    pub fn hear(&self) -> Option<Words> {
        let mut buffer = [0; BUFFER_BYTES];
        loop {
            let length = self.socket.hear(&mut buffer)?;
            if let Some(words) = Words::parse(&buffer[..length]) {
                return Some(words);
            }
        }
    }
}

/// A number that nobody guesses.
///
/// # Errors
/// The system gives no random bytes: why, in words.
pub fn new_run() -> Result<Run, String> {
    let seed = tabane_io::entropy::seed();
    let seed = seed.map_err(|error| format!("no random bytes: {}", plain(&error)))?;
    let (run, _) = seed.split_first_chunk().ok_or("too few random bytes")?;
    Ok(*run)
}

/// The name of this machine, as far as it can be a node's.
pub fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().split('.').next().unwrap_or_default();
    match is_node_name(name) {
        true => name.to_owned(),
        false => "n0".to_owned(),
    }
}

/// A socket on each network that this machine may have a link on.
///
/// # Errors
/// There is none, or none that can be spoken on: why, and what to do, in words.
pub fn all() -> Result<Vec<Network>, String> {
    let found = tabane_io::netlink::interfaces();
    let found = found.map_err(|error| format!("the interfaces: {}", plain(&error)))?;
    let candidates: Vec<(Interface, Own)> = found
        .into_iter()
        .filter_map(|it| Some((it.clone(), candidate(&it)?)))
        .collect();
    if candidates.is_empty() {
        return Err(
            "no interface that is up has a private address; give each link's one an address of its network, \
             such as 10.77.0.1/24 for the first link and 10.77.1.1/24 for the second"
                .to_owned(),
        );
    }
    let (mut open, mut refused) = (Vec::new(), String::new());
    for (interface, own) in candidates {
        match open_on(&interface) {
            Ok(socket) => open.push(Network { own, socket }),
            Err(error) => refused = refusal(&interface.name, &error),
        }
    }
    match open.is_empty() {
        true => Err(refused),
        false => Ok(open),
    }
}

fn open_on(interface: &Interface) -> io::Result<Broadcast> {
    let has = |of: fn(&IpAddr) -> bool| interface.addresses.iter().any(|a| of(&a.ip));
    let (ipv4, ipv6) = (has(IpAddr::is_ipv4), has(IpAddr::is_ipv6));
    Broadcast::open(&interface.name, interface.index, PORT, ipv4, ipv6)
}

fn refusal(interface: &str, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => format!(
            "UDP port {PORT} on {interface} is taken; if tabane runs here already, stop it first"
        ),
        _ => format!("{interface}: {}", plain(error)),
    }
}

/// The interface with its private addresses, if a link could be there: an Ethernet device that is connected, not one that
/// tabane made.
fn candidate(interface: &Interface) -> Option<Own> {
    let is_ethernet = interface.mac.is_some_and(|mac| mac != [0; 6]);
    if !is_ethernet || !interface.carrier || interface.name == VNIC_NAME {
        return None;
    }
    let private = interface.addresses.iter().filter(|a| is_private(a.ip));
    let addresses: Vec<(IpAddr, u8)> = private.map(|a| (a.ip, a.prefix)).collect();
    (!addresses.is_empty()).then(|| Own {
        interface: interface.name.clone(),
        addresses,
    })
}

/// RFC 1918, RFC 4193.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private(),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

/// The networks in words: `eth0 (10.77.0.1/24), eth1 (10.77.1.1/24)`.
pub fn shown(networks: &[Network]) -> String {
    let one = |network: &Network| {
        let own = &network.own;
        let addresses = own.addresses.iter();
        let addresses: Vec<String> = addresses.map(|(ip, n)| format!("{ip}/{n}")).collect();
        format!("{} ({})", own.interface, addresses.join(", "))
    };
    networks.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_io::netlink::InterfaceAddress;

    fn interface(name: &str, addresses: &[&str]) -> Interface {
        let one = |text: &&str| {
            let (ip, prefix) = text.split_once('/').unwrap();
            InterfaceAddress {
                ip: ip.parse().unwrap(),
                prefix: prefix.parse().unwrap(),
            }
        };
        Interface {
            index: 2,
            name: name.to_owned(),
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            up: true,
            carrier: true,
            addresses: addresses.iter().map(one).collect(),
        }
    }

    #[test]
    fn a_link_may_be_where_an_ethernet_device_has_a_private_address() {
        let all = ["10.77.0.1/24", "fe80::1/64", "203.0.113.5/24", "fd00::1/64"];
        let eth0 = interface("eth0", &all);
        let private = |text: &str, prefix| (text.parse::<IpAddr>().unwrap(), prefix);
        let own = candidate(&eth0).unwrap();
        assert_eq!(
            own.addresses,
            [private("10.77.0.1", 24), private("fd00::1", 64)]
        );
        assert_eq!(candidate(&interface("eth0", &all[1..3])), None);
        assert_eq!(candidate(&interface("tab0", &all)), None);
        let without_cable = Interface {
            carrier: false,
            ..eth0.clone()
        };
        assert_eq!(candidate(&without_cable), None);
        for mac in [None, Some([0; 6])] {
            let other = Interface {
                mac,
                ..eth0.clone()
            };
            assert_eq!(candidate(&other), None, "no Ethernet");
        }
    }
}
