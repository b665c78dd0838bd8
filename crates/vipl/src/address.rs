//! The address of a process: its node's addresses, and the discriminator bytes of processes and VIs
//! there.
//!
//! The node's part has no numbers of links: two processes may know a node in different ways, and it is
//! only used to find the process that waits there ([`crate::rendezvous`]), which then gives its full
//! address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::abi::{INVALID_PARAMETER, NetAddress, Outcome};
use crate::guard;

/// Bytes of a node's part (`NicAddressLen`): kind, count, two that are zero, and addresses.
pub const HOST_BYTES: usize = 20;
/// Bytes of a discriminator at most (`MaxDiscriminatorLen`; the specification wants 16 at least).
pub const DISCRIMINATOR_BYTES_MAX: usize = 32;
/// Addresses of IPv4 that it has room for; of IPv6, one.
const V4_MAX: usize = 4;

/// A node's addresses, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Host(pub [u8; HOST_BYTES]);

impl Host {
    /// A node with these addresses, as many as find room. IPv4 is taken if there is any.
    pub fn of(addresses: impl IntoIterator<Item = IpAddr>) -> Option<Host> {
        let mut addresses: Vec<_> = addresses.into_iter().collect();
        addresses.sort_unstable();
        addresses.dedup();
        let mut bytes = [0; HOST_BYTES];
        let v4 = addresses.iter().filter_map(|address| match address {
            IpAddr::V4(v4) => Some(v4.octets()),
            IpAddr::V6(_) => None,
        });
        let mut count = 0;
        for (octets, place) in v4.zip(bytes[4..].chunks_exact_mut(4)) {
            place.copy_from_slice(&octets);
            count += 1;
        }
        if count > 0 {
            bytes[..2].copy_from_slice(&[4, count]);
            return Some(Host(bytes));
        }
        let IpAddr::V6(v6) = addresses.first()? else {
            return None;
        };
        bytes[..2].copy_from_slice(&[6, 1]);
        bytes[4..].copy_from_slice(&v6.octets());
        Some(Host(bytes))
    }

    /// Parses a node's address.
    ///
    /// # Errors
    /// It is none.
    pub fn from_bytes(bytes: &[u8]) -> Outcome<Host> {
        let bytes: [u8; HOST_BYTES] = bytes.try_into().map_err(|_| INVALID_PARAMETER)?;
        let host = Host(bytes);
        let is_one = match bytes[..4] {
            [4, count, 0, 0] => (1..=V4_MAX).contains(&usize::from(count)),
            [6, 1, 0, 0] => true,
            _ => false,
        };
        // Each has one form only.
        match is_one && Host::of(host.addresses()) == Some(host) {
            true => Ok(host),
            false => Err(INVALID_PARAMETER),
        }
    }

    /// The addresses.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let (head, tail) = self.0.split_at(4);
        let count = usize::from(head[1]);
        match head[0] {
            4 => (tail.chunks_exact(4).take(count))
                .map(|o| Ipv4Addr::new(o[0], o[1], o[2], o[3]).into())
                .collect(),
            _ => <[u8; 16]>::try_from(tail)
                .map(|octets| vec![Ipv6Addr::from(octets).into()])
                .unwrap_or_default(),
        }
    }

    /// Whether both are of one node: they have an address in common.
    pub fn is_same(&self, other: &Host) -> bool {
        let others = other.addresses();
        self.addresses().iter().any(|own| others.contains(own))
    }
}

/// The bytes that tell processes and VIs of a node apart.
pub type Discriminator = Vec<u8>;

/// A whole address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The node.
    pub host: Host,
    /// The discriminator there.
    pub discriminator: Discriminator,
}

impl Place {
    /// Parses C's address. If the node's part is missing, it is `own`.
    ///
    /// # Errors
    /// It is null or no address.
    ///
    /// # Safety
    /// It is null, or points to a `VIP_NET_ADDRESS` with its bytes.
    pub unsafe fn read(address: *const NetAddress, own: Option<&Host>) -> Outcome<Place> {
        // SAFETY: as above.
        let head = unsafe { guard::given(address) }?;
        let (host, who) = (
            usize::from(head.host_bytes),
            usize::from(head.discriminator_bytes),
        );
        if who > DISCRIMINATOR_BYTES_MAX || host > HOST_BYTES {
            return Err(INVALID_PARAMETER);
        }
        // SAFETY: the caller promises that this many bytes follow the head.
        let bytes = unsafe {
            core::slice::from_raw_parts((&raw const (*address).host).cast::<u8>(), host + who)
        };
        let (host, who) = bytes.split_at(host);
        let host = match (host.is_empty(), own) {
            (true, Some(own)) => *own,
            _ => Host::from_bytes(host)?,
        };
        Ok(Place {
            host,
            discriminator: who.to_vec(),
        })
    }

    /// Gives C the address.
    ///
    /// # Errors
    /// The place is null.
    ///
    /// # Safety
    /// It is null, or has room for an address of this NIC's (`NicAddressLen` and `MaxDiscriminatorLen`).
    pub unsafe fn write(&self, place: *mut NetAddress) -> Outcome<()> {
        if place.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let who = self.discriminator.len();
        // SAFETY: as above; a discriminator is never longer than its maximum.
        unsafe {
            (*place).host_bytes = HOST_BYTES as u16;
            (*place).discriminator_bytes = who as u16;
            let bytes = (&raw mut (*place).host).cast::<u8>();
            bytes.copy_from_nonoverlapping(self.host.0.as_ptr(), HOST_BYTES);
            (bytes.add(HOST_BYTES)).copy_from_nonoverlapping(self.discriminator.as_ptr(), who);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("is one")
    }

    #[test]
    fn a_node_is_the_same_in_whatever_order_its_addresses_come() {
        let one = Host::of([ip("10.77.1.1"), ip("10.77.0.1")]).expect("is one");
        let other = Host::of([ip("10.77.0.1"), ip("10.77.1.1"), ip("10.77.1.1")]);
        assert_eq!(Some(one), other);
        assert_eq!(one.addresses(), [ip("10.77.0.1"), ip("10.77.1.1")]);
        assert_eq!(Host::from_bytes(&one.0), Ok(one));
        let part = Host::of([ip("10.77.1.1")]).expect("is one");
        let else_ = Host::of([ip("10.77.1.2")]).expect("is one");
        assert!(one.is_same(&part) && !one.is_same(&else_));
    }

    #[test]
    fn of_ipv6_there_is_one() {
        let host = Host::of([ip("fd00::2"), ip("fd00::1")]).expect("is one");
        assert_eq!(host.addresses(), [ip("fd00::1")]);
        assert_eq!(Host::from_bytes(&host.0), Ok(host));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        assert_eq!(Host::of([]), None);
        let good = Host::of([ip("10.77.0.1")]).expect("is one").0;
        for (at, value) in [(0, 5), (1, 0), (1, 5), (2, 1), (9, 1)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(Host::from_bytes(&bad), Err(INVALID_PARAMETER), "{at}");
        }
        assert_eq!(Host::from_bytes(&good[..19]), Err(INVALID_PARAMETER));
    }
}
