//! The kernel's knowledge of links: a list now ([`interfaces()`]), changes as they
//! happen ([`LinkMonitor`]), and their neighbours ([`Neighbours`]). All see the network
//! namespace of the thread that asks (or asked first).

mod devices;
mod host_routes;
mod interfaces;
mod log;
mod message;
mod monitor;
mod mptcp;
mod neighbours;
pub(crate) mod nft;
mod qdisc;
pub(crate) mod route;
mod rules;
mod socket;
mod subflows;
mod tcp;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use devices::{DeviceChange, Devices};
pub use host_routes::{Found, HostRoute, HostRoutes, MAIN_TABLE};
pub use interfaces::{Interface, InterfaceAddress, interfaces};
pub use log::logged_packet;
pub use monitor::{Change, LinkMonitor};
pub use mptcp::{MPTCP_LIMIT_MAX, MptcpEndpoint, MptcpLimits, MptcpPaths};
pub use neighbours::{Neighbour, Neighbours, neighbours};
pub use qdisc::{Qdisc, qdisc};
pub use rules::{RoutingMonitor, Rule, RuleAction, Rules};
pub use subflows::{Subflow, Subflows};
pub use tcp::{TcpConnection, closing_connections, listening_ports, tcp_connections};

pub(crate) use log::open_log;
pub(crate) use message::Request;
pub(crate) use message::text;
pub(crate) use socket::Socket as RouteSocket;

use message::{Message, attributes, u32_at, u64_at};

/// `operstate` values that mean "no packets pass" (RFC 2863, `IF_OPER_…` of
/// linux/if.h): not present, down, lower layer down.
const OPERSTATES_DOWN: [u8; 3] = [1, 2, 3];

/// Offset of `tx_dropped` in `struct rtnl_link_stats64`, its eighth number.
const STATS64_TX_DROPPED: usize = 56;

/// The changes in one datagram of rtnetlink, as [`LinkMonitor::poll`] reads it: for
/// callers with bytes from elsewhere (a fuzzer).
pub fn read_changes(datagram: &[u8]) -> Vec<Change> {
    let mut changes = Vec::new();
    monitor::read_changes(datagram, &mut changes);
    changes
}

/// The content of an `RTM_NEWLINK` or `RTM_DELLINK` about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkFacts {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) mtu: u32,
    pub(crate) up: bool,
    pub(crate) carrier: bool,
    /// IFLA_IFALIAS, the free text of a device.
    pub(crate) alias: String,
    pub(crate) gso_bytes_max: u32,
    pub(crate) gso_ipv4_bytes_max: u32,
    /// Packets the device dropped instead of sending.
    pub(crate) tx_dropped: u64,
}

impl LinkFacts {
    /// `None` for other messages and for those about a bridge port (AF_BRIDGE) instead
    /// of a device.
    fn read(message: Message<'_>) -> Option<LinkFacts> {
        if ![libc::RTM_NEWLINK, libc::RTM_DELLINK].contains(&message.kind) {
            return None;
        }
        let body = message.body;
        if i32::from(*body.first()?) != libc::AF_UNSPEC {
            return None;
        }
        let flags = u32_at(body, 8)?;
        let set = |flag: libc::c_int| flags & flag as u32 != 0;
        let mut facts = LinkFacts {
            index: u32_at(body, 4)?,
            name: String::new(),
            mac: None,
            mtu: 0,
            up: set(libc::IFF_UP),
            carrier: set(libc::IFF_LOWER_UP),
            alias: String::new(),
            gso_bytes_max: 0,
            gso_ipv4_bytes_max: 0,
            tx_dropped: 0,
        };
        for (kind, value) in attributes(body.get(16..)?) {
            facts.note(kind, value);
        }
        (!facts.name.is_empty()).then_some(facts)
    }

    /// Takes in one attribute; one that is too short is ignored.
    fn note(&mut self, kind: u16, value: &[u8]) {
        let number = u32_at(value, 0).unwrap_or(0);
        match kind {
            libc::IFLA_IFNAME => self.name = text(value),
            libc::IFLA_ADDRESS => self.mac = value.try_into().ok(),
            libc::IFLA_MTU => self.mtu = number,
            libc::IFLA_OPERSTATE => {
                self.carrier &= !value
                    .first()
                    .is_some_and(|state| OPERSTATES_DOWN.contains(state));
            }
            libc::IFLA_IFALIAS => self.alias = text(value),
            libc::IFLA_STATS64 => {
                self.tx_dropped = u64_at(value, STATS64_TX_DROPPED).unwrap_or(0);
            }
            route::IFLA_GSO_MAX_SIZE => self.gso_bytes_max = number,
            route::IFLA_GSO_IPV4_MAX_SIZE => self.gso_ipv4_bytes_max = number,
            _ => {}
        }
    }
}

/// The content of an `RTM_NEWADDR` or `RTM_DELADDR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressFacts {
    pub(crate) index: u32,
    pub(crate) address: InterfaceAddress,
}

impl AddressFacts {
    fn read(message: Message<'_>) -> Option<AddressFacts> {
        if ![libc::RTM_NEWADDR, libc::RTM_DELADDR].contains(&message.kind) {
            return None;
        }
        let body = message.body;
        let (mut local, mut plain) = (None, None);
        for (kind, value) in attributes(body.get(8..)?) {
            match kind {
                // On a point-to-point device IFA_ADDRESS is the other end and
                // IFA_LOCAL is ours; IPv6 mostly has IFA_ADDRESS alone.
                libc::IFA_LOCAL => local = read_ip(value),
                libc::IFA_ADDRESS => plain = read_ip(value),
                _ => {}
            }
        }
        let address = InterfaceAddress {
            ip: local.or(plain)?,
            prefix: *body.get(1)?,
        };
        Some(AddressFacts {
            index: u32_at(body, 4)?,
            address,
        })
    }
}

fn read_ip(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(<[u8; 4]>::try_from(value).ok()?.into()),
        16 => Some(<[u8; 16]>::try_from(value).ok()?.into()),
        _ => None,
    }
}
