//! One link: a socket on one address, bound to its device, and the burst that the socket refused.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use tabane_proto::GRANULARITY;
use tabane_proto::link::thresholds::PAUSE;

use tabane_io::netlink::Interface;
use tabane_io::poll::Interest;
use tabane_io::udp::{BufferSizes, SendError, UdpCounters};
use tabane_proto::limits::DATAGRAM_BYTES_MIN;
use tabane_proto::{LinkConfig, LinkId, Node, Time, Transmit};

use crate::setback;
use crate::shield::Shield;
use crate::system::{Socket, System};

/// IP and UDP headers in front of a datagram.
const fn header_bytes(address: SocketAddr) -> u32 {
    if address.is_ipv4() { 28 } else { 48 }
}

/// A link that refuses datagrams although its device looks fine, or whose socket
/// cannot be opened, is tried again this often.
pub(crate) const RECHECK: Duration = setback::FIRST;
/// Where there is no way to one peer's address, the devices are looked at, but no more often than a process may be kept from
/// running anyway.
const LOOK_EVERY: Duration = PAUSE;

/// One of this node's links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSpec {
    /// Its number.
    pub id: LinkId,
    /// Its address on its network.
    pub address: IpAddr,
}

/// State of one link, for people and machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Its number.
    pub id: LinkId,
    /// Its address.
    pub address: SocketAddr,
    /// The device that has the address, if one does.
    pub device: Option<String>,
    /// Whether the operating system says that it is usable.
    pub up: bool,
    /// Sizes of the kernel buffers, as granted.
    pub buffers: Option<BufferSizes>,
    /// What its socket counted since it was opened.
    pub counters: UdpCounters,
    /// Bursts that the system refused for another reason than a full queue or a link that is down: a
    /// firewall rule of this machine.
    pub refused: u64,
    /// Packets of a flood that the kernel dropped for us; not in `counters`.
    pub flood_drops: u64,
}

/// A burst that the socket refused, kept until it is accepted.
struct Held {
    transmit: Transmit,
    bytes: Vec<u8>,
    full: Full,
}

/// The kernel has no room for a burst: how we learn that it has room again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Full {
    /// The socket becomes writable.
    UntilWritable,
    /// Nothing signals it: retry at this time.
    Until(Time),
}

/// A link that came up a moment ago.
pub(crate) struct Waking {
    pub ask_at: Time,
    pub until: Time,
}

pub(crate) struct Link<S> {
    pub spec: LinkSpec,
    pub socket: Option<S>,
    pub device: Option<(u32, String)>,
    pub buffers: Option<BufferSizes>,
    pub mtu: u32,
    pub up: bool,
    /// Why its socket cannot be opened.
    pub trouble: Option<String>,
    /// The node knows its current configuration.
    pub told: bool,
    /// The kernel reported a change of its device since the last check.
    pub changed: bool,
    held: Option<Held>,
    watching_writable: bool,
    refused: u64,
    pub recheck_at: Option<Time>,
    /// When it was last compared with the devices.
    pub looked_at: Time,
    pub waking: Option<Waking>,
    pub shield: Shield,
}

impl<S: Socket> Link<S> {
    pub fn new(spec: LinkSpec, told: bool) -> Link<S> {
        Link {
            spec,
            socket: None,
            device: None,
            buffers: None,
            mtu: 1500,
            up: false,
            trouble: None,
            told,
            changed: false,
            held: None,
            watching_writable: false,
            refused: 0,
            recheck_at: None,
            looked_at: Time::from_ns(0),
            waking: None,
            shield: Shield::default(),
        }
    }

    /// The poller's token for its socket.
    pub fn token(&self) -> u64 {
        u64::from(self.spec.id.0)
    }

    pub fn status(&self, port: u16) -> LinkStatus {
        LinkStatus {
            id: self.spec.id,
            address: SocketAddr::new(self.spec.address, port),
            device: self.device.as_ref().map(|(_, name)| name.clone()),
            up: self.up,
            buffers: self.buffers,
            counters: self.counters(),
            refused: self.refused,
            flood_drops: self.shield.dropped(),
        }
    }

    fn counters(&self) -> UdpCounters {
        let mut counters = self.socket.as_ref().map(S::counters);
        if let Some(counters) = &mut counters {
            counters.kernel_drops = counters.kernel_drops.saturating_sub(self.shield.dropped());
        }
        counters.unwrap_or_default()
    }

    pub fn config(&self, port: u16) -> LinkConfig {
        let address = SocketAddr::new(self.spec.address, port);
        let datagram = self
            .mtu
            .saturating_sub(header_bytes(address))
            .min(u32::from(u16::MAX));
        LinkConfig {
            id: self.spec.id,
            address,
            datagram_bytes_max: datagram.max(DATAGRAM_BYTES_MIN as u32) as u16,
        }
    }

    /// Compares this link with the existing devices; returns what changed, in words.
    pub fn reconcile(
        &mut self,
        devices: &[Interface],
        system: &mut impl System<Socket = S>,
        port: u16,
    ) -> Option<String> {
        let has = |d: &&Interface| d.addresses.iter().any(|a| a.ip == self.spec.address);
        let device = devices.iter().find(has);
        let was_up = self.up;
        let name = device.map_or_else(|| "no device".to_owned(), |d| d.name.clone());
        let same = device.map(|d| d.index) == self.device.as_ref().map(|(index, _)| *index);
        if !same {
            self.drop_socket(system);
        }
        // Even if the index is the same, the name may have changed, and the next socket is bound by
        // name.
        self.device = device.map(|d| (d.index, d.name.clone()));
        let before = self.trouble.take();
        if let Some(device) = device {
            self.mtu = device.mtu;
            if self.socket.is_none() {
                self.trouble = self.open_socket(system, port).err();
            }
        }
        self.up = self.socket.is_some() && device.is_some_and(|d| d.up && d.carrier);
        let LinkSpec { id, address } = self.spec;
        match (was_up, self.up, &self.trouble) {
            // Logged once, however often it is retried.
            (_, _, Some(_)) if self.trouble == before => None,
            (_, _, Some(trouble)) => Some(format!("link {} ({address}): {trouble}", id.0)),
            (false, true, None) => Some(format!("link {} ({address}) is up on {name}", id.0)),
            (true, false, None) => Some(format!(
                "link {} ({address}) is down: {}",
                id.0,
                why_down(device)
            )),
            _ => None,
        }
    }

    fn open_socket(
        &mut self,
        system: &mut impl System<Socket = S>,
        port: u16,
    ) -> Result<(), String> {
        let address = SocketAddr::new(self.spec.address, port);
        let name = self.device.as_ref().map(|(_, name)| name.as_str());
        let (socket, buffers) = system.open(self.token(), address, name)?;
        self.socket = Some(socket);
        self.buffers = Some(buffers);
        self.watching_writable = false;
        Ok(())
    }

    pub fn drop_socket(&mut self, system: &mut impl System<Socket = S>) {
        self.shield = Shield::default();
        if let Some(socket) = self.socket.take() {
            system.close(socket);
        }
        self.held = None;
    }

    /// Whether it holds a burst, and so accepts no other.
    pub const fn is_full(&self) -> bool {
        self.held.is_some()
    }

    /// Drops the held burst.
    pub fn drop_held(&mut self) {
        self.held = None;
    }

    /// When to retry the held burst, if nothing will signal room.
    pub fn retry_at(&self) -> Option<Time> {
        match self.held.as_ref()?.full {
            Full::UntilWritable => None,
            Full::Until(at) => Some(at),
        }
    }

    /// Sends a burst. If the socket refuses it, the link keeps it, and the node produces nothing more
    /// for this link until it is gone.
    pub fn send(
        &mut self,
        now: Time,
        system: &mut impl System<Socket = S>,
        node: &mut Node,
        transmit: Transmit,
        bytes: &[u8],
    ) {
        if self.held.is_some() {
            // Only a handshake's answer arrives here while the link is blocked; the peer asks again.
            return;
        }
        if let Err(full) = self.offer(now, node, &transmit, bytes) {
            let bytes = bytes.to_vec();
            node.set_link_blocked(self.spec.id, true);
            self.hold(now, system, transmit, bytes, full);
        }
    }

    /// Retries the held burst. Only when it is gone may the node produce more for this link: it then
    /// asks every waiting peer.
    pub fn retry(&mut self, now: Time, system: &mut impl System<Socket = S>, node: &mut Node) {
        if let Some(held) = self.held.take() {
            match self.offer(now, node, &held.transmit, &held.bytes) {
                Ok(()) => node.set_link_blocked(self.spec.id, false),
                Err(full) => self.hold(now, system, held.transmit, held.bytes, full),
            }
        }
        if self.held.is_none() {
            self.watch_writable(system, false);
        }
    }

    fn hold(
        &mut self,
        now: Time,
        system: &mut impl System<Socket = S>,
        transmit: Transmit,
        bytes: Vec<u8>,
        mut full: Full,
    ) {
        // The socket may be writable all the time while the device's queue is full: the loop would
        // never sleep.
        let writable_tells = full == Full::UntilWritable;
        if self.watch_writable(system, writable_tells) != writable_tells && writable_tells {
            full = Full::Until(now + GRANULARITY);
        }
        self.held = Some(Held {
            transmit,
            bytes,
            full,
        });
    }

    /// Offers a burst to the socket. The burst is then sent or lost, unless there is no room for it.
    fn offer(
        &mut self,
        now: Time,
        node: &mut Node,
        transmit: &Transmit,
        bytes: &[u8],
    ) -> Result<(), Full> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        match socket.send(transmit, bytes) {
            Ok(()) => {}
            Err(SendError::WouldBlock) => return Err(Full::UntilWritable),
            Err(SendError::NoBuffers) => return Err(Full::Until(now + GRANULARITY)),
            Err(SendError::TooBig) => {
                node.handle_refused(now, self.spec.id, transmit.segment_bytes);
            }
            Err(SendError::LinkDown(_)) => {
                node.handle_link(now, self.spec.id, false);
                self.up = false;
                self.recheck_at = Some(now + RECHECK);
            }
            // If the device is gone, the check finds out; if not, other peers may be reachable.
            Err(SendError::NoRoute(_)) => {
                let look_at = (self.looked_at + LOOK_EVERY).max(now);
                self.recheck_at = Some(self.recheck_at.map_or(look_at, |at| at.min(look_at)));
            }
            // A local firewall refused it; the peer will not acknowledge it, as if it were lost.
            Err(SendError::Other(_)) => self.refused += 1,
        }
        Ok(())
    }

    /// Sets whether the socket wakes the loop when writable; returns whether it does.
    fn watch_writable(&mut self, system: &mut impl System<Socket = S>, wanted: bool) -> bool {
        if wanted != self.watching_writable
            && let Some(socket) = &self.socket
        {
            let interest = match wanted {
                true => Interest::ReadWrite,
                false => Interest::Read,
            };
            if system.watch(socket, self.token(), interest).is_ok() {
                self.watching_writable = wanted;
            }
        }
        self.watching_writable
    }
}

fn why_down(device: Option<&Interface>) -> &'static str {
    match device {
        None => "no device has this address now",
        Some(d) if !d.up => "the device is switched off",
        Some(d) if !d.carrier => "no carrier (cable, or the switch port)",
        Some(_) => "its socket could not be opened",
    }
}
