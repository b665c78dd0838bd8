//! Making and changing devices.

use core::time::Duration;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::LinkFacts;
use super::message::{Request, address_header, link_header};
use super::nft::octets_of;
use super::socket::{Refused, Socket};

// linux/if_link.h and linux/veth.h; not in the libc crate.
pub(super) const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_GRO_MAX_SIZE: u16 = 58;
pub(super) const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_GRO_IPV4_MAX_SIZE: u16 = 64;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const ADDR_GEN_MODE_NONE: u8 = 1;
const IFLA_INET_CONF: u16 = 1;
// linux/ip.h
const IPV4_DEVCONF_ACCEPT_REDIRECTS: u16 = 4;
const IPV4_DEVCONF_RP_FILTER: u16 = 8;
/// The largest packet that is no BIG TCP (linux/netdevice.h).
const GSO_LEGACY_MAX_SIZE: u32 = 65_536;

const ACK: i32 = libc::NLM_F_ACK;

/// Asks for all links.
pub(super) fn list_links() -> Request {
    Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &link_header(0, 0, 0))
}

/// Asks for all addresses.
pub(super) fn list_addresses() -> Request {
    Request::new(
        libc::RTM_GETADDR,
        libc::NLM_F_DUMP,
        &address_header(0, 0, 0, 0),
    )
}

/// Settings of a device; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkSettings<'a> {
    pub(crate) mtu: Option<u32>,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) tx_queue_length: Option<u32>,
    pub(crate) alias: Option<&'a str>,
    pub(crate) up: bool,
}

impl Socket {
    /// The device of this name, if there is one.
    pub(crate) fn link(&mut self, name: &str) -> Result<Option<LinkFacts>, Refused> {
        let links = self.dump(list_links, LinkFacts::read)?;
        Ok(links.into_iter().find(|link| link.name == name))
    }

    /// The device of this number; as quick on a host with many.
    pub(crate) fn link_at(&mut self, index: u32) -> Result<Option<LinkFacts>, Refused> {
        let request = Request::new(libc::RTM_GETLINK, ACK, &link_header(index, 0, 0));
        self.ask(request, LinkFacts::read)
    }

    /// Makes a veth pair: `name` here and `peer` in the network namespace
    /// `peer_namespace`, or here too.
    pub(crate) fn add_veth(
        &mut self,
        name: &str,
        peer: &str,
        peer_namespace: Option<BorrowedFd<'_>>,
    ) -> Result<(), Refused> {
        let flags = ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let mut request = Request::new(libc::RTM_NEWLINK, flags, &link_header(0, 0, 0));
        request
            .text(libc::IFLA_IFNAME, name)
            .nested(libc::IFLA_LINKINFO, |info| {
                info.text(IFLA_INFO_KIND, "veth")
                    .nested(IFLA_INFO_DATA, |data| {
                        data.nested(VETH_INFO_PEER, |other| {
                            other
                                .fixed(&link_header(0, 0, 0))
                                .text(libc::IFLA_IFNAME, peer);
                            if let Some(namespace) = peer_namespace {
                                other.number(libc::IFLA_NET_NS_FD, namespace.as_raw_fd() as u32);
                            }
                        });
                    });
            });
        self.execute(request)
    }

    /// Changes the device `index`.
    pub(crate) fn set_link(&mut self, index: u32, set: LinkSettings<'_>) -> Result<(), Refused> {
        let up = if set.up { libc::IFF_UP as u32 } else { 0 };
        let mut request = Request::new(libc::RTM_SETLINK, ACK, &link_header(index, up, up));
        if let Some(mtu) = set.mtu {
            request.number(libc::IFLA_MTU, mtu);
        }
        if let Some(mac) = set.mac {
            request.attribute(libc::IFLA_ADDRESS, &mac);
        }
        if let Some(length) = set.tx_queue_length {
            request.number(libc::IFLA_TXQLEN, length);
        }
        if let Some(alias) = set.alias {
            // The one string of rtnetlink that is not ended by a zero byte.
            request.attribute(libc::IFLA_IFALIAS, alias.as_bytes());
        }
        self.execute(request)
    }

    /// Sets the largest packets the stack may hand to (GSO) and join from (GRO)
    /// the device. More than 64 KiB is BIG TCP, which is left to IPv4 (since Linux 6.3; older
    /// ones ignore that half). One of IPv6 has its length in a header of its own, which the kernel
    /// takes away where we hand such a packet to it (`ipv6_gso_segment`, for it trusts no sizes of
    /// others'), and then does not know the length.
    pub(crate) fn set_offload_bytes(&mut self, index: u32, bytes: u32) -> Result<(), Refused> {
        let mut request = Request::new(libc::RTM_SETLINK, ACK, &link_header(index, 0, 0));
        request
            .number(IFLA_GSO_MAX_SIZE, bytes.min(GSO_LEGACY_MAX_SIZE))
            .number(IFLA_GRO_MAX_SIZE, bytes.min(GSO_LEGACY_MAX_SIZE))
            .number(IFLA_GSO_IPV4_MAX_SIZE, bytes)
            .number(IFLA_GRO_IPV4_MAX_SIZE, bytes);
        self.execute(request)
    }

    /// Keeps the device from giving itself an IPv6 address and from the
    /// multicast traffic that comes with one.
    pub(crate) fn silence_ipv6(&mut self, index: u32) -> Result<(), Refused> {
        let mut request = Request::new(libc::RTM_SETLINK, ACK, &link_header(index, 0, 0));
        request.nested(libc::IFLA_AF_SPEC, |families| {
            families.nested(libc::AF_INET6 as u16, |ipv6| {
                ipv6.attribute(IFLA_INET6_ADDR_GEN_MODE, &[ADDR_GEN_MODE_NONE]);
            });
        });
        self.execute(request)
    }

    /// Makes the device ignore ICMP redirects for IPv4.
    pub(crate) fn refuse_redirects(&mut self, index: u32) -> Result<(), Refused> {
        self.set_ipv4(index, IPV4_DEVCONF_ACCEPT_REDIRECTS, 0)
    }

    /// Makes it accept IPv4 packets from hosts whose route uses another device.
    pub(crate) fn take_from_anywhere(&mut self, index: u32) -> Result<(), Refused> {
        self.set_ipv4(index, IPV4_DEVCONF_RP_FILTER, 0)
    }

    fn set_ipv4(&mut self, index: u32, setting: u16, value: u32) -> Result<(), Refused> {
        let mut request = Request::new(libc::RTM_SETLINK, ACK, &link_header(index, 0, 0));
        request.nested(libc::IFLA_AF_SPEC, |families| {
            families.nested(libc::AF_INET as u16, |ipv4| {
                ipv4.nested(IFLA_INET_CONF, |settings| {
                    settings.number(setting, value);
                });
            });
        });
        self.execute(request)
    }

    /// Removes the device `index` and, if it is a veth, its peer.
    pub(crate) fn delete_link(&mut self, index: u32) -> Result<(), Refused> {
        self.execute(Request::new(
            libc::RTM_DELLINK,
            ACK,
            &link_header(index, 0, 0),
        ))
    }

    /// Gives the device `index` an address; the kernel adds the route to its network.
    pub(crate) fn add_address(
        &mut self,
        index: u32,
        address: IpAddr,
        prefix: u8,
    ) -> Result<(), Refused> {
        self.add_address_with(index, address, prefix, 0)
    }

    /// The same, without that route.
    pub(crate) fn add_address_alone(
        &mut self,
        index: u32,
        address: IpAddr,
        prefix: u8,
    ) -> Result<(), Refused> {
        self.add_address_with(index, address, prefix, libc::IFA_F_NOPREFIXROUTE)
    }

    fn add_address_with(
        &mut self,
        index: u32,
        address: IpAddr,
        prefix: u8,
        flags: u32,
    ) -> Result<(), Refused> {
        let (family, octets) = family_and_octets(address);
        let flags = match address {
            IpAddr::V4(_) => flags,
            // The cluster file says whose an address is, and for the second or two of duplicate
            // address detection it would be unusable.
            IpAddr::V6(_) => flags | libc::IFA_F_NODAD,
        };
        let header = address_header(family, prefix, 0, index);
        let how = ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let mut request = Request::new(libc::RTM_NEWADDR, how, &header);
        request
            .attribute(libc::IFA_LOCAL, &octets)
            .attribute(libc::IFA_ADDRESS, &octets)
            .number(libc::IFA_FLAGS, flags);
        if let (IpAddr::V4(ip), 1..=30) = (address, prefix) {
            let broadcast = u32::from(ip) | u32::MAX >> prefix;
            request.attribute(libc::IFA_BROADCAST, &broadcast.to_be_bytes());
        }
        self.execute(request)
    }

    /// Makes all addresses of a network, given by its first address and prefix length, local to
    /// `lo` ("AnyIP"). Packets to them come from `source` unless the sender says otherwise, and TCP
    /// connections use this congestion control. A narrower network precedes a wider one.
    pub(crate) fn add_network_local(
        &mut self,
        (first, prefix): (IpAddr, u8),
        source: Option<IpAddr>,
        congestion_control: &str,
    ) -> Result<(), Refused> {
        const LOOPBACK: u32 = 1;
        // linux/rtnetlink.h; not in the libc crate.
        const METRIC_CC_ALGO: u16 = 16;
        let (family, octets) = family_and_octets(first);
        let [table, protocol] = [libc::RT_TABLE_LOCAL, libc::RTPROT_STATIC];
        let [scope, kind] = [libc::RT_SCOPE_HOST, libc::RTN_LOCAL];
        // `struct rtmsg`.
        let header = [
            family, prefix, 0, 0, table, protocol, scope, kind, 0, 0, 0, 0,
        ];
        let how = ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let mut request = Request::new(libc::RTM_NEWROUTE, how, &header);
        request.number(libc::RTA_OIF, LOOPBACK);
        if prefix > 0 {
            request.attribute(libc::RTA_DST, &octets);
        }
        match source {
            Some(IpAddr::V4(ip)) => request.attribute(libc::RTA_PREFSRC, &ip.octets()),
            Some(IpAddr::V6(ip)) => request.attribute(libc::RTA_PREFSRC, &ip.octets()),
            None => &mut request,
        };
        request.nested(libc::RTA_METRICS, |metrics| {
            metrics.text(METRIC_CC_ALGO, congestion_control);
        });
        self.execute(request)
    }

    /// Adds a default route by a device, from `source` unless the sender says otherwise; TCP's
    /// minimum retransmission timeout is `least_timeout` (`rto_min`).
    pub(crate) fn add_default(
        &mut self,
        index: u32,
        source: IpAddr,
        least_timeout: Duration,
    ) -> Result<(), Refused> {
        // linux/rtnetlink.h; not in the libc crate.
        const METRIC_LOCK: u16 = 1;
        const METRIC_RTO_MIN: u16 = 13;
        let (family, octets) = family_and_octets(source);
        let [table, protocol] = [libc::RT_TABLE_MAIN, libc::RTPROT_STATIC];
        // There is no router in between, which matters for senders that forbid one (SO_DONTROUTE).
        let [scope, kind] = [libc::RT_SCOPE_LINK, libc::RTN_UNICAST];
        // `struct rtmsg`.
        let header = [family, 0, 0, 0, table, protocol, scope, kind, 0, 0, 0, 0];
        let how = ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let mut request = Request::new(libc::RTM_NEWROUTE, how, &header);
        request
            .number(libc::RTA_OIF, index)
            .attribute(libc::RTA_PREFSRC, &octets);
        request.nested(libc::RTA_METRICS, |metrics| {
            metrics.number(METRIC_LOCK, 1 << METRIC_RTO_MIN);
            metrics.number(METRIC_RTO_MIN, least_timeout.as_millis() as u32);
        });
        self.execute(request)
    }

    /// Takes an address away.
    pub(crate) fn delete_address(
        &mut self,
        index: u32,
        address: IpAddr,
        prefix: u8,
    ) -> Result<(), Refused> {
        let (family, octets) = family_and_octets(address);
        let header = address_header(family, prefix, 0, index);
        let mut request = Request::new(libc::RTM_DELADDR, ACK, &header);
        request.attribute(libc::IFA_LOCAL, &octets);
        self.execute(request)
    }

    /// Switches a device off.
    #[cfg(test)]
    pub(crate) fn set_down(&mut self, index: u32) -> Result<(), Refused> {
        let header = link_header(index, 0, libc::IFF_UP as u32);
        self.execute(Request::new(libc::RTM_SETLINK, ACK, &header))
    }
}

/// As messages of rtnetlink have an address.
fn family_and_octets(address: IpAddr) -> (u8, Vec<u8>) {
    let family = match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    (family as u8, octets_of(address))
}
