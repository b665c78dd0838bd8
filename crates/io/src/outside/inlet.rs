//! Where a gateway gives its own kernel what came from outside for the machine itself, and where the machine has the cluster's addresses.

use std::io;
use std::net::IpAddr;

use super::Tun;
use crate::netlink::RouteSocket;
use crate::netlink::route::LinkSettings;

/// What it is called.
pub const NAME: &str = "tabane-in";

/// A TUN without an address. It is gone when this is dropped.
#[derive(Debug)]
pub struct Inlet(Tun);

impl Inlet {
    /// Makes it, and switches it on.
    ///
    /// # Errors
    /// The process may not (CAP_NET_ADMIN, `/dev/net/tun`), or there is such a device.
    pub fn open() -> io::Result<Inlet> {
        let tun = Tun::make(NAME)?;
        let mut route = RouteSocket::new()?;
        let link = route.link(NAME)?.ok_or(io::ErrorKind::NotFound)?;
        // Fails where there is no IPv6; then there is nothing to silence.
        let _ = route.silence_ipv6(link.index);
        // Routes to those who sent what comes here lead elsewhere.
        route.take_from_anywhere(link.index)?;
        let settings = LinkSettings {
            up: true,
            ..LinkSettings::default()
        };
        route.set_link(link.index, settings)?;
        Ok(Inlet(tun))
    }

    /// Gives the kernel a packet: a `virtio_net_hdr` of 10 bytes, and IP.
    ///
    /// # Errors
    /// As [`Tun::write`].
    pub fn give(&self, packet: &[u8]) -> io::Result<()> {
        self.0.write(packet)
    }
}

/// The cluster's addresses on a device of this machine, as long as this is there.
#[derive(Debug)]
pub struct Addresses {
    device: u32,
    addresses: Vec<(IpAddr, u8)>,
}

impl Addresses {
    /// Gives them to a device, with the lengths of their networks' prefixes.
    ///
    /// # Errors
    /// There is no such device, or the process may not.
    pub fn give(device: u32, addresses: &[(IpAddr, u8)]) -> io::Result<Addresses> {
        let mut route = RouteSocket::new()?;
        let mut given = Addresses {
            device,
            addresses: Vec::new(),
        };
        for (address, prefix) in addresses {
            route.add_address(device, *address, *prefix)?;
            given.addresses.push((*address, *prefix));
        }
        Ok(given)
    }
}

/// Takes addresses off a device that a gateway which has died may have left there.
pub fn take_off(device: u32, addresses: &[(IpAddr, u8)]) {
    // One that is not there need not be taken off.
    if let Ok(mut route) = RouteSocket::new() {
        for (address, prefix) in addresses {
            let _ = route.delete_address(device, *address, *prefix);
        }
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        // Where this fails the device is gone, and they with it.
        take_off(self.device, &self.addresses);
    }
}
