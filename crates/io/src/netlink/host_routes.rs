//! Routes to single addresses: they lead traffic for an address that is not directly reachable to its
//! host over another network, and set how soon TCP notices a failure.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use super::message::{Message, Request, attributes, u32_at};
use super::read_ip;
use super::rules::PROTOCOL;
use super::socket::{Refused, Socket};

/// The table that everybody uses, unless rules (`ip rule`) say otherwise.
pub const MAIN_TABLE: u32 = libc::RT_TABLE_MAIN as u32;

// linux/rtnetlink.h; not in the libc crate.
const METRIC_LOCK: u16 = 1;
const METRIC_RTO_MIN: u16 = 13;
/// `struct rtmsg`.
const HEADER_BYTES: usize = 12;
/// Offsets of the prefix length, the protocol and the kind of route in the header.
const HEADER_PREFIX: usize = 1;
const HEADER_TABLE: usize = 4;
const HEADER_PROTOCOL: usize = 5;
const HEADER_KIND: usize = 7;
const HEADER_FROM_PREFIX: usize = 2;
/// Offset of the flags: for the route as it was made, and for its table (IPv6 returns it unasked).
const HEADER_FLAGS: usize = 8;
const FIB_MATCH: u32 = 0x2000;
const LOOKUP_TABLE: u32 = 0x1000;

/// The index of `lo`, which every network namespace has.
const LOOPBACK: u32 = 1;

/// A route to one address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostRoute {
    /// Whom it leads to.
    pub to: IpAddr,
    /// The next hop; `None`: the address itself, which is on the device's network.
    pub via: Option<IpAddr>,
    /// The device's number; `None`: the one whose network has `via`.
    pub device: Option<u32>,
    /// Whom they come from, if the sender does not say; `None`: the kernel chooses.
    pub source: Option<IpAddr>,
    /// Other attributes of the route (`RTA_METRICS`): kinds and values.
    pub metrics: Vec<(u16, Vec<u8>)>,
}

impl HostRoute {
    /// Sets TCP's minimum retransmission timeout (`rto_min`). The other end delays its
    /// acknowledgements less if its route has the same (Linux 6.4).
    #[must_use]
    pub fn with_least_timeout(mut self, timeout: Duration) -> HostRoute {
        let is_other = |(kind, _): &(u16, Vec<u8>)| ![METRIC_LOCK, METRIC_RTO_MIN].contains(kind);
        let lock = self.metrics.iter().find(|(kind, _)| *kind == METRIC_LOCK);
        let lock = lock.and_then(|(_, bits)| u32_at(bits, 0)).unwrap_or(0) | 1 << METRIC_RTO_MIN;
        self.metrics.retain(is_other);
        let ms = timeout.as_millis() as u32;
        let set = [(METRIC_LOCK, lock), (METRIC_RTO_MIN, ms)];
        let bytes = |(kind, value): (u16, u32)| (kind, value.to_ne_bytes().to_vec());
        self.metrics.extend(set.map(bytes));
        self
    }
}

/// A route that the kernel takes to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// It, made one to that address alone.
    pub route: HostRoute,
    /// It leads to everything without another route: nothing says that the address is there.
    pub is_default: bool,
    /// It leads to that address alone.
    pub is_to_one: bool,
    /// It was made here.
    pub is_ours: bool,
    /// The number of the table that it is in.
    pub table: u32,
}

/// Makes and removes them, in the network namespace that it was opened in.
#[derive(Debug)]
pub struct HostRoutes {
    socket: Socket,
    table: u32,
}

impl HostRoutes {
    /// # Errors
    /// The kernel refuses the socket.
    pub fn open() -> io::Result<HostRoutes> {
        let socket = Socket::choosing()?;
        Ok(HostRoutes {
            socket,
            table: MAIN_TABLE,
        })
    }

    /// The table that routes are made in: [`MAIN_TABLE`] at first.
    #[must_use]
    pub const fn table(&self) -> u32 {
        self.table
    }

    /// Makes routes in another table from now on. Those that were made stay where they are.
    pub const fn use_table(&mut self, table: u32) {
        self.table = table;
    }

    /// The route that packets to an address take now, as a route to that address alone; for packets
    /// from `from`, if given.
    ///
    /// # Errors
    /// There is none, or none to another host; or the host does not have `from`.
    pub fn lookup(&mut self, to: IpAddr, from: Option<IpAddr>) -> io::Result<Found> {
        let (family, prefix, octets) = parts(to);
        let mut header = [0; HEADER_BYTES];
        header[..2].copy_from_slice(&[family, prefix]);
        let flags = match to {
            IpAddr::V4(_) => FIB_MATCH | LOOKUP_TABLE,
            IpAddr::V6(_) => FIB_MATCH,
        };
        header[HEADER_FLAGS..].copy_from_slice(&flags.to_ne_bytes());
        header[HEADER_FROM_PREFIX] = from.map_or(0, |_| prefix);
        let mut request = Request::new(libc::RTM_GETROUTE, libc::NLM_F_ACK, &header);
        request.attribute(libc::RTA_DST, &octets);
        if let Some(from) = from {
            request.attribute(libc::RTA_SRC, &parts(from).2);
        }
        let read = |message: Message<'_>| {
            let body = message.body;
            let found_prefix = *body.get(HEADER_PREFIX)?;
            Some(Found {
                route: read(message, to)?,
                is_default: found_prefix == 0,
                is_to_one: found_prefix == prefix,
                is_ours: *body.get(HEADER_PROTOCOL)? == PROTOCOL,
                table: table_of(message)?,
            })
        };
        let found = self.socket.ask(request, read)?;
        found.ok_or_else(|| io::ErrorKind::NetworkUnreachable.into())
    }

    /// Makes one.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]: there is a route to that address alone, this one or
    /// another. Needs CAP_NET_ADMIN.
    pub fn add(&mut self, route: &HostRoute) -> io::Result<()> {
        let how = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let request = write(libc::RTM_NEWROUTE, how, route, self.table);
        self.execute(request)
    }

    /// Makes one, replacing any route to the same address, whoever made that.
    ///
    /// # Errors
    /// Needs CAP_NET_ADMIN.
    pub fn replace(&mut self, route: &HostRoute) -> io::Result<()> {
        let how = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let request = write(libc::RTM_NEWROUTE, how, route, self.table);
        self.execute(request)
    }

    /// Removes the one to an address, if it was made here.
    ///
    /// # Errors
    /// There is none. Needs CAP_NET_ADMIN.
    pub fn delete(&mut self, to: IpAddr) -> io::Result<()> {
        self.delete_from(self.table, to)
    }

    fn delete_from(&mut self, table: u32, to: IpAddr) -> io::Result<()> {
        let (family, prefix, octets) = parts(to);
        let mut header = [0; HEADER_BYTES];
        header[..2].copy_from_slice(&[family, prefix]);
        header[5..7].copy_from_slice(&[PROTOCOL, libc::RT_SCOPE_NOWHERE]);
        let mut request = Request::new(libc::RTM_DELROUTE, libc::NLM_F_ACK, &header);
        request
            .attribute(libc::RTA_DST, &octets)
            .number(libc::RTA_TABLE, table);
        self.execute(request)
    }

    /// Removes all that were made here, in any table, as far as possible.
    pub fn remove_all(&mut self) {
        for (table, route) in self.list_all().unwrap_or_default() {
            let _ = self.delete_from(table, route.to);
        }
    }

    /// Those that were made here, in the table that is used.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn list(&mut self) -> io::Result<Vec<HostRoute>> {
        let all = self.list_all()?.into_iter();
        let here = all.filter(|(table, _)| *table == self.table);
        Ok(here.map(|(_, route)| route).collect())
    }

    fn list_all(&mut self) -> io::Result<Vec<(u32, HostRoute)>> {
        let mut header = [0; HEADER_BYTES];
        header[HEADER_PROTOCOL] = PROTOCOL;
        let make = || Request::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &header);
        let read_one = |message: Message<'_>| {
            let body = message.body;
            // A kernel that cannot choose tells them all.
            if *body.get(HEADER_PROTOCOL)? != PROTOCOL {
                return None;
            }
            let route = read(message, destination(message)?)?;
            Some((table_of(message)?, route))
        };
        Ok(self.socket.dump(make, read_one)?)
    }

    /// Makes this host keep an address that no device has: it accepts packets for it on any device,
    /// and sockets bound to it can go on sending (an IPv4 socket without an address of its own finds
    /// no route).
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]: it is kept, or (IPv4) a device has it. Needs CAP_NET_ADMIN.
    pub fn keep_address(&mut self, address: IpAddr) -> io::Result<()> {
        let how = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.execute(keep(libc::RTM_NEWROUTE, how, address))
    }

    /// Ends what [`keep_address`](Self::keep_address) made; an address of a device stays.
    ///
    /// # Errors
    /// It is not kept. Needs CAP_NET_ADMIN.
    pub fn release_address(&mut self, address: IpAddr) -> io::Result<()> {
        self.execute(keep(libc::RTM_DELROUTE, libc::NLM_F_ACK, address))
    }

    /// The addresses that are kept.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn kept_addresses(&mut self) -> io::Result<Vec<IpAddr>> {
        let mut header = [0; HEADER_BYTES];
        header[HEADER_TABLE] = libc::RT_TABLE_LOCAL;
        header[HEADER_PROTOCOL] = PROTOCOL;
        header[HEADER_KIND] = libc::RTN_LOCAL;
        let make = || Request::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP, &header);
        let read_one = |message: Message<'_>| {
            let body = message.body;
            let is_kept = *body.get(HEADER_PROTOCOL)? == PROTOCOL
                && *body.get(HEADER_TABLE)? == libc::RT_TABLE_LOCAL
                && *body.get(HEADER_KIND)? == libc::RTN_LOCAL;
            destination(message).filter(|_| is_kept)
        };
        Ok(self.socket.dump(make, read_one)?)
    }

    fn execute(&mut self, request: Request) -> io::Result<()> {
        self.socket
            .execute(request)
            .map_err(|refused: Refused| refused.into())
    }
}

/// Family, length of the prefix that is the address itself, and octets.
fn parts(address: IpAddr) -> (u8, u8, Vec<u8>) {
    match address {
        IpAddr::V4(ip) => (libc::AF_INET as u8, 32, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6 as u8, 128, ip.octets().to_vec()),
    }
}

/// Table, protocol, scope, kind and flags of the route that keeps an address.
const KEPT: [u8; 8] = [
    libc::RT_TABLE_LOCAL,
    PROTOCOL,
    libc::RT_SCOPE_HOST,
    libc::RTN_LOCAL,
    0,
    0,
    0,
    0,
];

fn keep(kind: u16, how: i32, address: IpAddr) -> Request {
    let (family, prefix, octets) = parts(address);
    let mut header = [0; HEADER_BYTES];
    header[..2].copy_from_slice(&[family, prefix]);
    header[HEADER_TABLE..].copy_from_slice(&KEPT);
    let mut request = Request::new(kind, how, &header);
    request
        .attribute(libc::RTA_DST, &octets)
        .number(libc::RTA_OIF, LOOPBACK);
    request
}

/// The address that a route leads to.
fn destination(message: Message<'_>) -> Option<IpAddr> {
    let mut attributes = attributes(message.body.get(HEADER_BYTES..)?);
    read_ip(attributes.find(|(kind, _)| *kind == libc::RTA_DST)?.1)
}

/// The number of the table that a route is in.
fn table_of(message: Message<'_>) -> Option<u32> {
    let mut attributes = attributes(message.body.get(HEADER_BYTES..)?);
    u32_at(attributes.find(|(kind, _)| *kind == libc::RTA_TABLE)?.1, 0)
}

fn write(kind: u16, how: i32, route: &HostRoute, table: u32) -> Request {
    let (family, prefix, octets) = parts(route.to);
    let scope = match route.via {
        None if route.to.is_ipv4() => libc::RT_SCOPE_LINK,
        _ => libc::RT_SCOPE_UNIVERSE,
    };
    let mut header = [0; HEADER_BYTES];
    header[..2].copy_from_slice(&[family, prefix]);
    header[5..8].copy_from_slice(&[PROTOCOL, scope, libc::RTN_UNICAST]);
    let mut request = Request::new(kind, how, &header);
    request
        .attribute(libc::RTA_DST, &octets)
        .number(libc::RTA_TABLE, table);
    if let Some(source) = route.source {
        request.attribute(libc::RTA_PREFSRC, &parts(source).2);
    }
    if let Some(via) = route.via {
        request.attribute(libc::RTA_GATEWAY, &parts(via).2);
    }
    if let Some(device) = route.device {
        request.number(libc::RTA_OIF, device);
    }
    request.nested(libc::RTA_METRICS, |metrics| {
        for (kind, value) in &route.metrics {
            metrics.attribute(*kind, value);
        }
    });
    request
}

fn read(message: Message<'_>, to: IpAddr) -> Option<HostRoute> {
    let body = message.body;
    if *body.get(HEADER_KIND)? != libc::RTN_UNICAST {
        return None;
    }
    let (mut via, mut device, mut source, mut metrics) = (None, None, None, Vec::new());
    for (kind, value) in attributes(body.get(HEADER_BYTES..)?) {
        match kind {
            libc::RTA_GATEWAY => via = read_ip(value),
            libc::RTA_OIF => device = u32_at(value, 0),
            libc::RTA_PREFSRC => source = read_ip(value),
            libc::RTA_METRICS => {
                let own = |(kind, value): (u16, &[u8])| (kind, value.to_vec());
                metrics.extend(attributes(value).map(own));
            }
            _ => {}
        }
    }
    Some(HostRoute {
        to,
        via,
        device,
        source,
        metrics,
    })
}
