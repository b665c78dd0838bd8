//! The devices of this host and their addresses.

use std::io;
use std::net::IpAddr;

use super::socket::Socket;
use super::{AddressFacts, LinkFacts, route};

/// An address of a device with the length of its network prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The host's own address.
    pub ip: IpAddr,
    /// 0..=32 for IPv4, 0..=128 for IPv6.
    pub prefix: u8,
}

/// A network device as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number for it; not reused while it exists.
    pub index: u32,
    /// Its name, as in `ip link`.
    pub name: String,
    /// Its Ethernet address; `None` where it is no Ethernet device.
    pub mac: Option<[u8; 6]>,
    /// The largest IP packet it takes, bytes.
    pub mtu: u32,
    /// Switched on by the administrator (`IFF_UP`).
    pub up: bool,
    /// Switched on and connected: a cable, a partner (`IFF_LOWER_UP`, and
    /// operstate not down).
    pub carrier: bool,
    /// Its addresses.
    pub addresses: Vec<InterfaceAddress>,
}

/// All network devices, in the order of their index.
///
/// # Errors
/// The kernel has no rtnetlink or refuses it (a seccomp filter), or links change faster
/// than they can be listed. Needs no privileges.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut socket = Socket::new()?;
    let links = socket.dump(route::list_links, LinkFacts::read)?;
    let addresses = socket.dump(route::list_addresses, AddressFacts::read)?;
    let mut interfaces: Vec<_> = links
        .into_iter()
        .map(|link| interface(link, &addresses))
        .collect();
    interfaces.sort_by_key(|interface| interface.index);
    Ok(interfaces)
}

fn interface(link: LinkFacts, addresses: &[AddressFacts]) -> Interface {
    let own = addresses.iter().filter(|facts| facts.index == link.index);
    Interface {
        addresses: own.map(|facts| facts.address).collect(),
        index: link.index,
        name: link.name,
        mac: link.mac,
        mtu: link.mtu,
        up: link.up,
        carrier: link.carrier,
    }
}
