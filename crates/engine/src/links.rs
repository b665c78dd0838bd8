//! The links of this node: compares the configuration with the kernel's devices and addresses. A link
//! whose address is gone is down until it is back.

use core::time::Duration;
use std::io;
use tabane_proto::link::thresholds::REPEAT_MAX;

use tabane_io::netlink::Interface;
use tabane_proto::{LinkConfig, LinkId, Node, NodeStats, Time, Transmit};

use crate::link::{Link, LinkSpec, LinkStatus, RECHECK, Waking};
use crate::setback::Setback;
use crate::system::{Socket, System};

/// A switch port starts to forward some time after the carrier is up. For so long the link's neighbours
/// are solicited.
const WAKING: Duration = Duration::from_secs(3);
/// … are asked for this often, as whatever must be repeated is (the kernel itself does once a second).
const ASK_EVERY: Duration = REPEAT_MAX;

pub(crate) struct Links<S: System> {
    pub system: S,
    links: Vec<Link<S::Socket>>,
    /// The devices when links were last compared with them.
    devices: Vec<Interface>,
    /// Whether the kernel's last answer about devices was an error.
    blindness: Setback,
    /// After an error the kernel is not asked again before this time.
    blind_until: Time,
    port: u16,
}

/// The host's view of the links.
pub(crate) trait LinkTable {
    fn status(&self) -> Vec<LinkStatus>;

    /// Makes these the links: closes links that are gone or have another address, opens new ones. Returns
    /// what changed, in words.
    fn set(&mut self, now: Time, node: &mut Node, specs: &[LinkSpec]) -> Vec<String>;
}

impl<S: System> LinkTable for Links<S> {
    fn status(&self) -> Vec<LinkStatus> {
        self.links.iter().map(|l| l.status(self.port)).collect()
    }

    fn set(&mut self, now: Time, node: &mut Node, specs: &[LinkSpec]) -> Vec<String> {
        // Removals first: a new link may take the address of an old one.
        for link in self
            .links
            .extract_if(.., |link| !specs.contains(&link.spec))
        {
            let mut link = link;
            link.drop_socket(&mut self.system);
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
        self.reconcile(now, Some(node))
    }
}

impl<S: System> Links<S> {
    pub fn new(system: S, specs: &[LinkSpec], port: u16) -> Links<S> {
        // The node was created with these, so it knows them.
        let links = specs.iter().map(|spec| Link::new(*spec, true));
        Links {
            system,
            links: links.collect(),
            devices: Vec::new(),
            blindness: Setback::default(),
            blind_until: Time::ZERO,
            port,
        }
    }

    /// Closes and forgets all of them.
    pub fn close(&mut self) {
        for mut link in self.links.drain(..) {
            link.drop_socket(&mut self.system);
        }
    }

    pub fn get(&self, token: u64) -> Option<&S::Socket> {
        let link = self.links.iter().find(|l| l.token() == token)?;
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

    /// Reads the kernel's notifications; returns whether the links must be compared again.
    pub fn hear(&mut self) -> bool {
        let changes = self.system.changes();
        for link in &mut self.links {
            let own = link.device.as_ref().map(|(index, _)| *index);
            // If notifications were lost, each may have been about this link.
            let is_own = |about: Option<u32>| about.is_none() || about == own;
            link.changed |= changes.iter().any(|change| is_own(change.device()));
        }
        !changes.is_empty() && !self.blindness.lasts()
    }

    /// Opens sockets for links whose address is there, closes those whose address is gone, and tells the
    /// node. Returns what changed, in words.
    pub fn reconcile(&mut self, now: Time, mut node: Option<&mut Node>) -> Vec<String> {
        let mut words = Vec::new();
        let devices = match self.system.interfaces() {
            Ok(devices) => devices,
            // For example, no descriptor is left.
            Err(error) => return self.go_blind(now, &error),
        };
        if self.blindness.end() {
            words.push("the kernel tells this host's devices again".to_owned());
        }
        for link in &mut self.links {
            link.recheck_at = None;
            link.looked_at = now;
            let before = (link.up, link.mtu);
            let text = link.reconcile(&devices, &mut self.system, self.port);
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
                tell(now, node, link, before, self.port);
            }
            words.extend(text);
        }
        self.devices = devices;
        words
    }

    /// Keeps the last known state: a failed query does not mean that anything is gone. The kernel does not
    /// repeat its notification, so the query is retried, at growing intervals. Returns a message, once.
    fn go_blind(&mut self, now: Time, error: &io::Error) -> Vec<String> {
        let is_known = self.blindness.lasts();
        self.blind_until = now + self.blindness.pause();
        let words = format!(
            "the kernel does not tell this host's devices ({error}): links and virtual NIC stay as they were last seen"
        );
        (!is_known).then_some(words).into_iter().collect()
    }

    /// The devices of this host; `None`: the kernel's last answer was an error.
    pub fn devices(&self) -> Option<&[Interface]> {
        (!self.blindness.lasts()).then_some(&self.devices)
    }

    pub fn configs(&self) -> Vec<LinkConfig> {
        self.links.iter().map(|l| l.config(self.port)).collect()
    }

    /// Sends a burst. If the socket refuses it, the link keeps it, and the node produces nothing more for
    /// this link until it is gone.
    pub fn send(&mut self, now: Time, node: &mut Node, transmit: Transmit, buffer: &[u8]) {
        let Some(link) = self.links.iter_mut().find(|l| l.spec.id == transmit.link) else {
            return;
        };
        let bytes = &buffer[..transmit.bytes];
        link.send(now, &mut self.system, node, transmit, bytes);
    }

    /// Retries held bursts: `token`'s socket became writable, or time passed.
    pub fn retry(&mut self, now: Time, node: &mut Node, token: Option<u64>) {
        for link in &mut self.links {
            let asked = token == Some(link.token());
            if asked || link.retry_at().is_some_and(|at| at <= now) {
                link.retry(now, &mut self.system, node);
            }
        }
    }

    /// Makes the kernel solicit the neighbours of links that came up a moment ago.
    pub fn wake_neighbours(&mut self, now: Time) {
        for link in &mut self.links {
            let Some(waking) = link.waking.as_mut().filter(|w| w.ask_at <= now) else {
                continue;
            };
            waking.ask_at = now + ASK_EVERY;
            if now >= waking.until {
                link.waking = None;
            }
            if let Some((device, _)) = &link.device {
                self.system.ask_again(*device);
            }
        }
    }

    /// Counts what became of a batch that arrived on `link`.
    pub fn count(&mut self, link: LinkId, before: &NodeStats, after: &NodeStats) {
        let strangers = after.of_strangers() - before.of_strangers();
        let first = after.first_messages_turned_away() - before.first_messages_turned_away();
        if let Some(link) = self.links.iter_mut().find(|l| l.spec.id == link) {
            link.shield.count(strangers, first);
        }
    }

    /// Raises, lowers and renews the links' protection from floods; returns messages about it.
    pub fn shield(&mut self, now: Time, node: &Node) -> impl Iterator<Item = String> {
        self.links.iter_mut().filter_map(move |link| {
            let socket = link.socket.as_ref()?;
            link.shield.turn(now, link.spec.id, socket, node)
        })
    }

    pub fn recheck_due(&self, now: Time) -> bool {
        self.recheck_at().is_some_and(|at| at <= now)
    }

    /// When to check the devices even if the kernel reports no change.
    fn recheck_at(&self) -> Option<Time> {
        match self.blindness.lasts() {
            true => Some(self.blind_until),
            false => self.links.iter().filter_map(|l| l.recheck_at).min(),
        }
    }

    pub fn next_timeout(&self) -> Option<Time> {
        let held = self.links.iter().filter_map(Link::retry_at).min();
        let waking = self
            .links
            .iter()
            .filter_map(|l| Some(l.waking.as_ref()?.ask_at));
        [held, self.recheck_at(), waking.min()]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Tells the node about a link that was just checked, unless it knows: `before` is whether it was up, and
/// its MTU. Telling makes the node ask every peer, and most changes are of other devices.
fn tell<S: Socket>(now: Time, node: &mut Node, link: &mut Link<S>, before: (bool, u32), port: u16) {
    let id = link.spec.id;
    let reconfigured = before.1 != link.mtu || !link.told;
    if reconfigured {
        // With a larger or smaller MTU, discovery starts anew within the new bound.
        link.told = true;
        let _ = node.set_link(now, id, Some(link.config(port)));
    }
    let changed = core::mem::take(&mut link.changed);
    if reconfigured || changed || before.0 != link.up {
        node.handle_link(now, id, link.up);
    }
    if !link.up {
        link.drop_held();
    }
    // A closed socket (the address moved to another device, say) has dropped its burst as well.
    if !link.is_full() {
        node.set_link_blocked(id, false);
    }
}
