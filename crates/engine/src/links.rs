//! The links of this node: each a socket on one address, held to its device.
//! What the kernel tells of devices and addresses is compared with what should
//! be; a link whose address is gone is down until it is back.

use core::time::Duration;
use std::io;
use std::net::SocketAddr;

use tabane_io::netlink::{Interface, LinkMonitor, Neighbours, interfaces};
use tabane_io::poll::{Interest, Poller};
use tabane_io::udp::{BufferSizes, LinkSocket, SendError, UdpCounters};
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::{LinkConfig, LinkId, Node, NodeStats, Time, Transmit};

use crate::engine::LinkSpec;
use crate::shield::Shield;

/// IP and UDP headers in front of a datagram.
const fn header_bytes(address: SocketAddr) -> u32 {
    if address.is_ipv4() { 28 } else { 48 }
}

/// A burst that the kernel had no room for is tried again after this long when
/// becoming writable will not tell (ENOBUFS).
const RETRY: Duration = Duration::from_millis(1);
/// A link that refuses datagrams although its device looks fine, or whose socket
/// cannot be opened, is tried again this often.
const RECHECK: Duration = Duration::from_millis(500);
/// Where there is no way to one peer's address, the devices are looked at, but no more often than this.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// A switch port forwards some time after the carrier is up: for so long the
/// link's neighbours …
const WAKING: Duration = Duration::from_secs(3);
/// … are asked for this often (the kernel itself does once a second).
const ASK_EVERY: Duration = Duration::from_millis(100);

/// What is known of one link, for people and machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    /// Its number.
    pub id: LinkId,
    /// Its address.
    pub address: SocketAddr,
    /// The device that has the address, if one does.
    pub device: Option<String>,
    /// Whether the operating system says that it can be used.
    pub up: bool,
    /// Kernel buffers, as granted.
    pub buffers: Option<BufferSizes>,
    /// What its socket counted since it was opened.
    pub counters: UdpCounters,
    /// Bursts that the system refused to send for another reason than a full
    /// queue or a link that is down: a firewall rule of this machine.
    pub refused: u64,
    /// Packets of a flood that the kernel dropped at our word; they are not in
    /// `counters`.
    pub flood_drops: u64,
}

/// A burst the socket would not take, kept until it does.
struct Held {
    transmit: Transmit,
    bytes: Vec<u8>,
    retry_at: Option<Time>,
}

pub(crate) struct Link {
    spec: LinkSpec,
    socket: Option<LinkSocket>,
    device: Option<(u32, String)>,
    buffers: Option<BufferSizes>,
    mtu: u32,
    up: bool,
    /// Why its socket cannot be opened.
    trouble: Option<String>,
    /// The node knows it as it is configured now.
    told: bool,
    held: Option<Held>,
    watching_writable: bool,
    refused: u64,
    recheck_at: Option<Time>,
    /// When it was last compared with the devices.
    looked_at: Time,
    waking: Option<Waking>,
    shield: Shield,
}

/// A link that came up a moment ago.
struct Waking {
    ask_at: Time,
    until: Time,
}

pub(crate) struct Links {
    links: Vec<Link>,
    /// As they were when links were last compared with them.
    devices: Vec<Interface>,
    monitor: LinkMonitor,
    /// None: not permitted.
    neighbours: Option<Neighbours>,
    port: u16,
}

/// The poller's token of the netlink socket; links have their own numbers below.
pub(crate) const TOKEN_MONITOR: u64 = LINKS_MAX as u64;

impl Links {
    pub fn new(poller: &Poller, specs: &[LinkSpec], port: u16) -> io::Result<Links> {
        let monitor = LinkMonitor::new()?;
        poller.register(&monitor, TOKEN_MONITOR, Interest::Read)?;
        // The node is made from these: it knows them.
        let links = specs.iter().map(|spec| Link::new(*spec, true));
        Ok(Links {
            links: links.collect(),
            devices: Vec::new(),
            monitor,
            neighbours: Some(Neighbours::new()?),
            port,
        })
    }

    /// Makes these the links: closes those that are not among them or have another
    /// address, opens those that are new. Returns what changed, in words.
    pub fn set(
        &mut self,
        now: Time,
        poller: &Poller,
        node: &mut Node,
        specs: &[LinkSpec],
    ) -> Vec<String> {
        // First all that go: a new one may have the address of an old one.
        for link in self
            .links
            .extract_if(.., |link| !specs.contains(&link.spec))
        {
            let mut link = link;
            link.drop_socket(poller);
            node.set_link_blocked(link.spec.id, false);
            if !specs.iter().any(|spec| spec.id == link.spec.id) {
                let _ = node.set_link(now, link.spec.id, None);
            }
        }
        for spec in specs {
            if !self.links.iter().any(|link| link.spec == *spec) {
                self.links.push(Link::new(*spec, false));
            }
        }
        self.links.sort_by_key(|link| link.spec.id);
        self.reconcile(now, poller, Some(node))
    }

    /// Closes and forgets all of them.
    pub fn close(&mut self, poller: &Poller) {
        for mut link in self.links.drain(..) {
            link.drop_socket(poller);
        }
    }

    pub fn get(&self, token: u64) -> Option<&LinkSocket> {
        let link = self
            .links
            .iter()
            .find(|l| u64::from(l.spec.id.0) == token)?;
        link.socket.as_ref()
    }

    pub fn receive_buffer_bytes(&self) -> u32 {
        let granted = self
            .links
            .iter()
            .filter_map(|l| l.buffers)
            .map(|b| b.receive_bytes)
            .min();
        granted.unwrap_or(256 * 1024).min(u32::MAX as usize) as u32
    }

    /// Reads what the kernel has to tell; returns whether anything may have changed.
    pub fn drain_monitor(&mut self) -> bool {
        // Whatever it says, even an error, the answer is to look again.
        !matches!(self.monitor.poll(), Ok(changes) if changes.is_empty())
    }

    /// Makes sockets for links whose address is there, drops those whose address
    /// is gone, and tells the node. Returns what changed, in words.
    pub fn reconcile(
        &mut self,
        now: Time,
        poller: &Poller,
        mut node: Option<&mut Node>,
    ) -> Vec<String> {
        let Ok(devices) = interfaces() else {
            // No descriptor is left, say. What changed is not told again, so look again.
            let again = Some(now + RECHECK);
            self.links.iter_mut().for_each(|l| l.recheck_at = again);
            return Vec::new();
        };
        let mut words = Vec::new();
        for link in &mut self.links {
            link.recheck_at = None;
            link.looked_at = now;
            let before = (link.up, link.mtu);
            let text = link.reconcile(&devices, poller, self.port);
            if link.trouble.is_some() {
                link.recheck_at = Some(now + RECHECK);
            }
            if link.up != before.0 {
                link.waking = link.up.then(|| Waking {
                    ask_at: now + ASK_EVERY,
                    until: now + WAKING,
                });
            }
            if let Some(node) = node.as_deref_mut() {
                if before.1 != link.mtu || !link.told {
                    // Larger or smaller: discovery starts anew within the new bound.
                    link.told = true;
                    let _ = node.set_link(now, link.spec.id, Some(link.config(self.port)));
                }
                node.handle_link(now, link.spec.id, link.up);
                if !link.up {
                    link.held = None;
                }
                // A socket that was dropped, because the address moved to another device, say,
                // has dropped what it held as well.
                if link.held.is_none() {
                    node.set_link_blocked(link.spec.id, false);
                }
            }
            words.extend(text);
        }
        self.devices = devices;
        words
    }

    /// The devices of this host, as they were when the links were last compared with them.
    pub fn devices(&self) -> &[Interface] {
        &self.devices
    }

    pub fn configs(&self) -> Vec<LinkConfig> {
        self.links.iter().map(|l| l.config(self.port)).collect()
    }

    pub fn status(&self) -> Vec<LinkStatus> {
        let status = |l: &Link| LinkStatus {
            id: l.spec.id,
            address: SocketAddr::new(l.spec.address, self.port),
            device: l.device.as_ref().map(|(_, name)| name.clone()),
            up: l.up,
            buffers: l.buffers,
            counters: l.counters(),
            refused: l.refused,
            flood_drops: l.shield.dropped(),
        };
        self.links.iter().map(status).collect()
    }

    /// Sends a burst; what the socket does not take is kept, and the node told
    /// to produce nothing more for this link until it is gone.
    pub fn send(
        &mut self,
        now: Time,
        poller: &Poller,
        node: &mut Node,
        transmit: Transmit,
        buffer: &[u8],
    ) {
        let Some(link) = self.links.iter_mut().find(|l| l.spec.id == transmit.link) else {
            return;
        };
        link.send(now, poller, node, transmit, &buffer[..transmit.bytes]);
    }

    /// Tries held bursts again: `token`'s socket became writable, or time passed.
    pub fn retry(&mut self, now: Time, poller: &Poller, node: &mut Node, token: Option<u64>) {
        for link in &mut self.links {
            let asked = token == Some(u64::from(link.spec.id.0));
            let due = link
                .held
                .as_ref()
                .is_some_and(|h| h.retry_at.is_some_and(|at| at <= now));
            if !(asked || due) {
                continue;
            }
            if let Some(held) = link.held.take() {
                node.set_link_blocked(link.spec.id, false);
                link.send(now, poller, node, held.transmit, &held.bytes);
            }
            if link.held.is_none() && link.watching_writable {
                link.watch(poller, Interest::Read);
            }
        }
    }

    /// Has the kernel ask again for the neighbours of links that came up a moment ago.
    pub fn wake_neighbours(&mut self, now: Time) {
        for link in &mut self.links {
            let Some(waking) = link.waking.as_mut().filter(|w| w.ask_at <= now) else {
                continue;
            };
            waking.ask_at = now + ASK_EVERY;
            if now >= waking.until {
                link.waking = None;
            }
            if let (Some(neighbours), Some((device, _))) = (&mut self.neighbours, &link.device)
                && let Err(error) = neighbours.forget_unresolved(*device)
                && error.kind() == io::ErrorKind::PermissionDenied
            {
                self.neighbours = None;
            }
        }
    }

    /// What became of a batch that came in on `link`.
    pub fn count(&mut self, link: LinkId, before: &NodeStats, after: &NodeStats) {
        let strangers = after.of_strangers() - before.of_strangers();
        let first = after.first_messages_turned_away() - before.first_messages_turned_away();
        if let Some(link) = self.links.iter_mut().find(|l| l.spec.id == link) {
            link.shield.count(strangers, first);
        }
    }

    /// Raises, lowers and renews what protects the links from floods; says so.
    pub fn shield(&mut self, now: Time, node: &Node) -> impl Iterator<Item = String> {
        self.links.iter_mut().filter_map(move |link| {
            let socket = link.socket.as_ref()?;
            link.shield.turn(now, link.spec.id, socket, node)
        })
    }

    pub fn recheck_due(&self, now: Time) -> bool {
        self.links
            .iter()
            .any(|l| l.recheck_at.is_some_and(|at| at <= now))
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let held = self
            .links
            .iter()
            .filter_map(|l| l.held.as_ref()?.retry_at)
            .min();
        let recheck = self.links.iter().filter_map(|l| l.recheck_at).min();
        let waking = self
            .links
            .iter()
            .filter_map(|l| Some(l.waking.as_ref()?.ask_at));
        [held, recheck, waking.min()].into_iter().flatten().min()
    }
}

impl Link {
    fn new(spec: LinkSpec, told: bool) -> Link {
        Link {
            spec,
            socket: None,
            device: None,
            buffers: None,
            mtu: 1500,
            up: false,
            trouble: None,
            told,
            held: None,
            watching_writable: false,
            refused: 0,
            recheck_at: None,
            looked_at: Time::from_ns(0),
            waking: None,
            shield: Shield::default(),
        }
    }

    fn counters(&self) -> UdpCounters {
        let mut counters = self.socket.as_ref().map(LinkSocket::counters);
        if let Some(counters) = &mut counters {
            counters.kernel_drops = counters.kernel_drops.saturating_sub(self.shield.dropped());
        }
        counters.unwrap_or_default()
    }

    fn config(&self, port: u16) -> LinkConfig {
        let address = SocketAddr::new(self.spec.address, port);
        let datagram = self
            .mtu
            .saturating_sub(header_bytes(address))
            .min(u32::from(u16::MAX));
        LinkConfig {
            id: self.spec.id,
            address,
            datagram_bytes_max: datagram.max(1232) as u16,
        }
    }

    /// Compares this link with the devices there are; says in words what changed.
    fn reconcile(&mut self, devices: &[Interface], poller: &Poller, port: u16) -> Option<String> {
        let has = |d: &&Interface| d.addresses.iter().any(|a| a.ip == self.spec.address);
        let device = devices.iter().find(has);
        let was_up = self.up;
        let name = device.map_or_else(|| "no device".to_owned(), |d| d.name.clone());
        let same = device.map(|d| d.index) == self.device.as_ref().map(|(index, _)| *index);
        if !same {
            self.drop_socket(poller);
        }
        // Also where it is the same: it may have been given another name, by which the next socket is held to it.
        self.device = device.map(|d| (d.index, d.name.clone()));
        let before = self.trouble.take();
        if let Some(device) = device {
            self.mtu = device.mtu;
            if self.socket.is_none() {
                self.trouble = self.open_socket(poller, port).err();
            }
        }
        self.up = self.socket.is_some() && device.is_some_and(|d| d.up && d.carrier);
        let LinkSpec { id, address } = self.spec;
        match (was_up, self.up, &self.trouble) {
            // Said once, however often it is tried.
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

    fn open_socket(&mut self, poller: &Poller, port: u16) -> Result<(), String> {
        let address = SocketAddr::new(self.spec.address, port);
        let name = self.device.as_ref().map(|(_, name)| name.as_str());
        let (socket, buffers) = LinkSocket::bind(address, name).map_err(|e| e.to_string())?;
        let token = u64::from(self.spec.id.0);
        poller
            .register(&socket, token, Interest::Read)
            .map_err(|e| e.to_string())?;
        self.socket = Some(socket);
        self.buffers = Some(buffers);
        self.watching_writable = false;
        Ok(())
    }

    fn drop_socket(&mut self, poller: &Poller) {
        self.shield = Shield::default();
        if let Some(socket) = self.socket.take() {
            // The descriptor is closed next, which would end the registration too.
            let _ = poller.deregister(&socket);
        }
        self.held = None;
    }

    fn send(
        &mut self,
        now: Time,
        poller: &Poller,
        node: &mut Node,
        transmit: Transmit,
        bytes: &[u8],
    ) {
        let Some(socket) = &self.socket else { return };
        if self.held.is_some() {
            // Only a handshake answer comes here while the link is blocked; it is asked for again.
            return;
        }
        let send = if transmit.peer_was_heard {
            LinkSocket::send_confirming
        } else {
            LinkSocket::send
        };
        let retry_at = match send(socket, transmit.to, bytes, transmit.segment_bytes) {
            Ok(()) => return,
            Err(SendError::TooBig) => {
                node.handle_refused(now, self.spec.id, transmit.segment_bytes);
                return;
            }
            Err(SendError::WouldBlock) => None,
            Err(SendError::NoBuffers) => Some(now + RETRY),
            Err(SendError::LinkDown(_)) => {
                node.handle_link(now, self.spec.id, false);
                self.up = false;
                self.recheck_at = Some(now + RECHECK);
                return;
            }
            // If the device is gone, looking finds it; if not, others may be reached.
            Err(SendError::NoRoute(_)) => {
                let look_at = (self.looked_at + LOOK_EVERY).max(now);
                self.recheck_at = Some(self.recheck_at.map_or(look_at, |at| at.min(look_at)));
                return;
            }
            // A local firewall refused it: the peer will not acknowledge it, that is all.
            Err(SendError::Other(_)) => {
                self.refused += 1;
                return;
            }
        };
        node.set_link_blocked(self.spec.id, true);
        self.held = Some(Held {
            transmit,
            bytes: bytes.to_vec(),
            retry_at,
        });
        if retry_at.is_none() && !self.watching_writable {
            self.watch(poller, Interest::ReadWrite);
        }
    }

    fn watch(&mut self, poller: &Poller, interest: Interest) {
        if let Some(socket) = &self.socket {
            let done = poller
                .modify(socket, u64::from(self.spec.id.0), interest)
                .is_ok();
            self.watching_writable = done && interest == Interest::ReadWrite;
        }
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
