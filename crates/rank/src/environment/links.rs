//! Which of this node's links an endpoint uses, and their numbers.
//!
//! Links of the same number must be on the same network, on every node. If the networks are listed, the number is the
//! index in the list. Otherwise every node must compute the same number by itself: the low three bits of the network's own
//! number.

use std::net::{IpAddr, Ipv6Addr};

use tabane_cluster::{LINKS_MAX, Network};
use tabane_io::netlink::{Interface, InterfaceAddress};

use super::Problem;

/// Beginnings of names of devices that lead to containers and virtual machines of this host, or are tabane's own.
const LOCAL_DEVICES: &[&str] = &[
    "lo", "docker", "br-", "veth", "virbr", "cni", "flannel", "tab0", "podman", "lxcbr", "lxdbr",
    "cali", "kube-",
];

/// A link: number and address.
type Link = (u8, IpAddr);

/// The links that `TABANE_LINKS` names, or the existing ones; and oddities.
///
/// # Errors
/// It names nothing that is here, or too many links.
pub fn choose(
    value: Option<&str>,
    interfaces: &[Interface],
) -> Result<(Vec<Link>, Vec<Problem>), Problem> {
    match value {
        Some(value) => listed(value, interfaces),
        None => found(interfaces),
    }
}

fn listed(value: &str, interfaces: &[Interface]) -> Result<(Vec<Link>, Vec<Problem>), Problem> {
    let wrong = |what: &str, right: &str| Problem::of("LINKS", value, what, right);
    let items: Vec<_> = value.split(',').map(str::trim).collect();
    if items.len() > LINKS_MAX {
        return Err(wrong("more than 8 links", "list 8 at most"));
    }
    let (mut links, mut odd) = (Vec::<Link>::new(), Vec::new());
    for (number, item) in items.iter().enumerate() {
        let Some(address) = named(item, interfaces) else {
            let what = format!("\"{item}\" is no device, address or network of this node");
            odd.push(wrong(&what, &right(interfaces)));
            continue;
        };
        if links.iter().any(|(_, used)| *used == address) {
            let what = format!("\"{item}\" is {address}, which is listed before");
            return Err(wrong(&what, "name each link once"));
        }
        // There are no more than LINKS_MAX.
        links.push((number as u8, address));
    }
    if links.is_empty() {
        return Err(wrong("nothing of it is here", &right(interfaces)));
    }
    Ok((links, odd))
}

/// The possible names.
fn right(interfaces: &[Interface]) -> String {
    let devices = interfaces.iter().filter(|nic| !nic.addresses.is_empty());
    let devices = devices.take(16).map(|nic| {
        let addresses = nic.addresses.iter().filter(|a| is_usable(a.ip));
        let addresses: Vec<_> = addresses
            .map(|a| format!("{}/{}", a.ip, a.prefix))
            .collect();
        format!("{} ({})", nic.name, addresses.join(", "))
    });
    format!("here are {}", devices.collect::<Vec<_>>().join(", "))
}

/// The address of this node that a word means.
fn named(item: &str, interfaces: &[Interface]) -> Option<IpAddr> {
    let own = || interfaces.iter().flat_map(|nic| &nic.addresses);
    if let Ok(address) = item.parse::<IpAddr>() {
        // All of 127.0.0.0/8 is this node's, though the device has one address of it.
        let is_own = |have: &InterfaceAddress| {
            have.ip == address
                || have.ip.is_loopback() && Network::new(have.ip, have.prefix).contains(address)
        };
        return own().any(is_own).then_some(address);
    }
    if let Some((base, prefix)) = item.split_once('/') {
        let network = Network::new(base.parse().ok()?, prefix.parse().ok()?);
        return own().map(|have| have.ip).find(|ip| network.contains(*ip));
    }
    let nic = interfaces.iter().find(|nic| nic.name == item)?;
    first(nic, is_usable).map(|have| have.ip)
}

/// Link-local addresses are excluded: they would need a device, at the peer's end too.
fn is_usable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    }
}

/// Whether it is an address as a cluster's networks have, and not a provider's or the internet's (RFC 1918, RFC 4193).
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private(),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

/// A device's first address of this kind, of IPv4 if there is one: an endpoint's address has room for more of them.
fn first(nic: &Interface, is_right: fn(IpAddr) -> bool) -> Option<InterfaceAddress> {
    let right = nic.addresses.iter().filter(|have| is_right(have.ip));
    right.min_by_key(|have| have.ip.is_ipv6()).copied()
}

fn found(interfaces: &[Interface]) -> Result<(Vec<Link>, Vec<Problem>), Problem> {
    // The others are beginnings of names.
    let is_local = |name: &str| {
        let known = |local: &&str| match *local {
            "lo" => name == "lo",
            local => name.starts_with(local),
        };
        LOCAL_DEVICES.iter().any(known)
    };
    let nics = interfaces
        .iter()
        .filter(|nic| nic.up && nic.carrier && !is_local(&nic.name));
    let mut addresses: Vec<_> = nics.filter_map(|nic| first(nic, is_private)).collect();
    // An endpoint's address is of one family.
    if addresses.iter().any(|have| have.ip.is_ipv4()) {
        addresses.retain(|have| have.ip.is_ipv4());
    }
    addresses.sort_by_key(|have| (base(*have), have.ip));
    let mut odd = Vec::new();
    if addresses.len() > LINKS_MAX {
        let what = "TABANE_LINKS is not set, and this node has more than 8 links; set it to those that are to be used";
        odd.push(Problem(what.into()));
        addresses.truncate(LINKS_MAX);
    }
    if addresses.is_empty() {
        return Err(Problem(format!(
            "no link: no device of this node is connected and has a private address; set TABANE_LINKS to the links \
             that are to be used; {}",
            right(interfaces)
        )));
    }
    Ok((numbered(&addresses), odd))
}

/// Each link's number, by its network; a number that is taken makes way for the next free one.
fn numbered(addresses: &[InterfaceAddress]) -> Vec<Link> {
    let mut is_taken = [false; LINKS_MAX];
    let mut links = Vec::new();
    for have in addresses {
        let wanted = preferred(*have);
        // There are no more addresses than numbers.
        let free = (0..LINKS_MAX).map(|step| (wanted + step) % LINKS_MAX);
        if let Some(number) = free.into_iter().find(|number| !is_taken[*number]) {
            is_taken[number] = true;
            links.push((number as u8, have.ip));
        }
    }
    links
}

/// The low three bits of the number of an address's network.
fn preferred(have: InterfaceAddress) -> usize {
    let (bits, width) = match have.ip {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let host_bits = u32::from(width - have.prefix.min(width));
    let network = bits.checked_shr(host_bits).unwrap_or(0);
    (network % LINKS_MAX as u128) as usize
}

/// The first address of its network: the sort key of links.
fn base(have: InterfaceAddress) -> Ipv6Addr {
    let (bits, width) = match have.ip {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let host_bits = u32::from(width - have.prefix.min(width));
    let keep = u128::MAX.checked_shl(host_bits).unwrap_or(0);
    Ipv6Addr::from_bits(bits & keep)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A device that is connected, with such addresses.
    pub fn nic(name: &str, addresses: &[&str]) -> Interface {
        let address = |text: &&str| {
            let (ip, prefix) = text.split_once('/').unwrap();
            InterfaceAddress {
                ip: ip.parse().unwrap(),
                prefix: prefix.parse().unwrap(),
            }
        };
        Interface {
            index: 1,
            name: name.to_owned(),
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            up: true,
            carrier: true,
            addresses: addresses.iter().map(address).collect(),
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn node() -> Vec<Interface> {
        vec![
            nic("lo", &["127.0.0.1/8", "::1/128"]),
            nic("eth0", &["192.0.2.7/24", "fe80::1/64"]),
            nic("eth1", &["fd00:1::1/64", "10.77.1.5/24"]),
            nic("eth2", &["10.77.0.5/24"]),
            nic("docker0", &["172.17.0.1/16"]),
            nic("br-0a1b", &["172.18.0.1/16"]),
            nic("tab0", &["10.99.0.2/24"]),
            nic("long", &["192.168.9.1/24"]),
        ]
    }

    #[test]
    fn without_a_list_it_is_every_connected_device_with_a_private_address() {
        let (links, odd) = choose(None, &node()).unwrap();
        let expected = [
            (0, ip("10.77.0.5")),
            (1, ip("10.77.1.5")),
            (2, ip("192.168.9.1")),
        ];
        assert_eq!(links, expected);
        assert!(odd.is_empty());
        let mut node = node();
        node[2].carrier = false;
        node[7].up = false;
        assert_eq!(choose(None, &node).unwrap().0, [(0, ip("10.77.0.5"))]);
    }

    #[test]
    fn a_number_follows_from_the_network_whatever_else_is_there() {
        for (address, number) in [
            ("10.77.13.1/24", 5),
            ("10.0.0.9/30", 2),
            ("172.16.0.1/12", 1),
        ] {
            let (links, _) = choose(None, &[nic("a", &[address])]).unwrap();
            assert_eq!(links[0].0, number, "{address}");
        }
        let (links, _) = choose(None, &[nic("a", &["fd00:0:0:6::1/64"])]).unwrap();
        assert_eq!(links[0].0, 6);
        // Two that want the same number.
        let both = [nic("a", &["10.77.9.1/24"]), nic("b", &["10.77.1.1/24"])];
        let (links, _) = choose(None, &both).unwrap();
        assert_eq!(links, [(1, ip("10.77.1.1")), (2, ip("10.77.9.1"))]);
    }

    #[test]
    fn a_list_names_devices_addresses_or_networks_in_the_order_of_their_numbers() {
        let list = |value| choose(Some(value), &node()).map(|(links, _)| links);
        let both = [(0, ip("10.77.1.5")), (1, ip("10.77.0.5"))];
        for value in [
            "eth1,eth2",
            "10.77.1.0/24, 10.77.0.0/24",
            "10.77.1.5,10.77.0.5",
        ] {
            assert_eq!(list(value).unwrap(), both, "{value}");
        }
        let loopback = [(0, ip("127.0.0.1")), (1, ip("127.0.0.2"))];
        assert_eq!(list("lo,127.0.0.2").unwrap(), loopback);
        assert_eq!(list("eth0").unwrap(), [(0, ip("192.0.2.7"))]);
        assert_eq!(list("fd00:1::/64").unwrap(), [(0, ip("fd00:1::1"))]);
    }

    #[test]
    fn a_network_that_this_node_lacks_leaves_its_number_free() {
        let (links, odd) = choose(Some("10.78.0.0/24,eth2"), &node()).unwrap();
        assert_eq!(links, [(1, ip("10.77.0.5"))]);
        assert!(
            odd[0].0.contains("\"10.78.0.0/24\" is no device"),
            "{odd:?}"
        );
    }

    #[test]
    fn what_cannot_be_is_said() {
        let said = |value| choose(Some(value), &node()).unwrap_err().0;
        for value in ["eth7", "10.78.0.1", "10.78.0.0/x", "ETH1", "10.77.0.6"] {
            assert!(said(value).contains("nothing of it is here"), "{value}");
            assert!(said(value).contains("eth2 (10.77.0.5/24)"), "{value}");
        }
        assert!(said("eth2,10.77.0.0/24").contains("listed before"));
        assert!(said("a,b,c,d,e,f,g,h,i").contains("more than 8"));
        let lonely = [nic("lo", &["127.0.0.1/8"]), nic("eth0", &["192.0.2.7/24"])];
        assert!(
            choose(None, &lonely)
                .unwrap_err()
                .0
                .contains("TABANE_LINKS")
        );
    }
}
