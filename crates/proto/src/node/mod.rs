//! A node: all its bundles behind one face. See the crate's documentation for
//! the driver contract.

mod admission;
mod app;
mod bundles;
mod diagnosis;
mod joining;
mod measuring;
mod membership;
mod relaying;
mod timers;
mod tracing;
mod turns;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use crate::Random;
use crate::bundle::{Absent, Bundle, CLOSE_STOPS, PeerStats};
use crate::context::{
    Budget, ConfigError, Context, Crowd, Event, Guests, NodeConfig, NodeStats, Questions, RanOut,
    Refusal, Rejection, SessionNumbers, Transmit,
};
use crate::crypto::{ClusterKey, CookieJar, Identity, PublicKey};
use crate::limits::LINKS_MAX;
use crate::link::PathState;
use crate::mesh::{Members, Mesh};
use crate::op::{OpEvent, Reach, Rest};
use crate::wire::{FEATURE_MEMBERS, FEATURE_RELAYS, Header, Kind, Name, Reader};
use crate::{LinkId, PathStats, PeerId, Time};

use admission::Admission;
use bundles::Bundles;
pub use bundles::{BUNDLES_LEAST, BundleCount};
use joining::Gate;
use turns::Turns;

/// This node and its bundles to all peers.
pub struct Node {
    context: Context,
    /// Links (a bit each) whose socket would block.
    socket_full: u8,
    /// Links (a bit each) that the kernel reports down.
    kernel_down: u8,
    /// By their numbers.
    peers: Vec<Option<Peer>>,
    /// Numbers of peers that were removed.
    free: Vec<PeerId>,
    names: BTreeMap<String, PeerId>,
    /// Those that were not added, but called or joined, and when.
    guests: BTreeMap<PeerId, Time>,
    gate: Gate,
    admission: Admission,
    cookies: CookieJar,
    turns: Turns,
    bundles: Bundles,
    /// Where frames were sent to or came from, the last one last: their pools are likely to have buffers.
    frame_peers: Vec<PeerId>,
    /// Of the event told last.
    rest: Option<Rest>,
}

/// A peer.
enum Peer {
    /// It is known, and was never met.
    Absent(Box<Absent>),
    Met(Box<Bundle>),
}

impl Peer {
    fn met(&self) -> Option<&Bundle> {
        match self {
            Peer::Met(bundle) => Some(bundle),
            Peer::Absent(_) => None,
        }
    }

    fn met_mut(&mut self) -> Option<&mut Bundle> {
        match self {
            Peer::Met(bundle) => Some(bundle),
            Peer::Absent(_) => None,
        }
    }

    /// A bit for every link over which there is a path to it.
    fn link_mask(&self, context: &Context) -> u8 {
        let paths = match self {
            Peer::Absent(absent) => absent.path_mask(context),
            Peer::Met(bundle) => bundle.path_mask(),
        };
        // Those over links come first.
        paths as u8
    }

    fn has_keys_besides(&self, init: &[u8]) -> bool {
        match self {
            Peer::Absent(_) => false,
            Peer::Met(bundle) => bundle.has_keys_besides(init),
        }
    }

    fn accepts(&self, shown: Option<PublicKey>) -> bool {
        match self {
            Peer::Absent(absent) => absent.config.accepts(shown),
            Peer::Met(bundle) => bundle.accepts(shown),
        }
    }

    fn is_configured_at(&self, link: LinkId, address: IpAddr) -> bool {
        match self {
            Peer::Absent(absent) => absent.is_configured_at(link, address),
            Peer::Met(bundle) => bundle.is_configured_at(link, address),
        }
    }

    fn notices_wrong_key(&mut self) -> bool {
        match self {
            Peer::Absent(absent) => absent.notices_wrong_key(),
            Peer::Met(bundle) => bundle.notices_wrong_key(),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Peer::Absent(absent) => absent.memory_bytes(),
            Peer::Met(bundle) => bundle.memory_bytes(),
        }
    }
}

impl Node {
    /// A node that knows no peer yet. `seed` must be unpredictable; it is the
    /// only source of all randomness.
    ///
    /// # Errors
    /// [`ConfigError`]: the configuration is at fault.
    pub fn new(now: Time, mut config: NodeConfig, seed: [u8; 32]) -> Result<Node, ConfigError> {
        let name =
            Name::new(&config.name).map_err(|_| ConfigError::BadName(config.name.clone()))?;
        if config.keys.is_empty() {
            return Err(ConfigError::NoKey);
        }
        let mut links = [None; LINKS_MAX];
        for link in &config.links {
            let link = link.check()?;
            if links[link.id.index()].replace(link).is_some() {
                return Err(ConfigError::BadLink(link.id));
            }
        }
        let identity = Identity::new(name, config.private, config.public)?;
        let mut random = Random::from_seed(seed);
        let joining = match config.guests {
            Some(Guests::Joining(joining)) => Some(joining),
            Some(Guests::Located { .. }) | None => None,
        };
        config.features |= if joining.is_some() {
            FEATURE_MEMBERS
        } else {
            0
        };
        // Ranks know whom they speak with, unless they keep few bundles.
        let alike = !matches!(config.guests, Some(Guests::Located { .. }));
        let relays = config.features & FEATURE_RELAYS != 0;
        let mesh = Mesh::new(relays, alike, config.relay, &name);
        let cookies = CookieJar::new(&mut random, now);
        let keys = config.keys.iter().copied().map(ClusterKey::new).collect();
        Ok(Node {
            context: Context {
                budget: Budget::new(&config.op_limits),
                questions: Questions::default(),
                config,
                name,
                keys,
                identity,
                links,
                blocked: 0,
                random,
                stats: NodeStats::default(),
                sessions: SessionNumbers::default(),
                events: VecDeque::new(),
                rests: VecDeque::new(),
                events_waiting: VecDeque::new(),
                answers: VecDeque::new(),
                crowd: Crowd::default(),
                mesh,
                members: Members::new(joining),
                measuring: None,
                train_at: now,
                ran_out: RanOut::default(),
                content_arrived: false,
                traced: Vec::new(),
                reach: Reach::default(),
            },
            socket_full: 0,
            kernel_down: 0,
            peers: Vec::new(),
            free: Vec::new(),
            names: BTreeMap::new(),
            guests: BTreeMap::new(),
            gate: Gate::default(),
            admission: Admission::new(),
            cookies,
            turns: Turns::default(),
            bundles: Bundles::default(),
            frame_peers: Vec::new(),
            rest: None,
        })
    }

    /// Tells every peer that this node stops. Drain [`Node::poll_transmit`] afterwards.
    pub fn close(&mut self, now: Time) {
        self.close_relayed(now);
        for peer in self.peers.iter_mut().flatten() {
            match peer {
                Peer::Absent(absent) => absent.stopped = true,
                Peer::Met(bundle) => bundle.farewell(now, CLOSE_STOPS, &mut self.context),
            }
        }
        self.touch_all();
    }

    /// A datagram came in on `link`. It is decrypted in place.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        datagram: &mut [u8],
    ) {
        self.context.stats.datagrams_received += 1;
        if from.port() == 0 {
            // Nobody can be answered there.
            self.context.stats.reject(Rejection::Malformed);
            return;
        }
        let taken = match datagram.first().copied().and_then(Kind::from_byte) {
            Some(Kind::Data) => self.on_data(now, link, from, datagram),
            Some(Kind::Init) => self.on_init(now, link, from, datagram),
            Some(Kind::Response | Kind::Cookie) => {
                self.on_handshake_answer(now, link, from, datagram)
            }
            Some(Kind::Echo) => self.on_echo(now, link, from, datagram),
            Some(Kind::EchoReply) => self.on_echo_reply(now, link, datagram),
            None => Err(Rejection::Malformed),
        };
        if let Err(reason) = taken {
            self.context.stats.reject(reason);
        }
    }

    fn on_data(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Result<(), Rejection> {
        let header = Header::read(&mut Reader::new(datagram)).map_err(|_| Rejection::Malformed)?;
        let sessions = &self.context.sessions;
        let peer = *sessions
            .get(&header.session)
            .ok_or(Rejection::UnknownSession)?;
        let bundle = met(&mut self.peers, peer).ok_or(Rejection::UnknownSession)?;
        let taken = bundle.on_datagram(now, link, from, &header, datagram, &mut self.context);
        if header.path != link.0 && bundle.notices_wrong_link() {
            let says = LinkId(header.path);
            self.tell_refusal(now, link, from, Refusal::WrongLink { says });
        }
        taken?;
        self.turns.note_arrival(peer);
        self.touch(peer);
        self.tend_mesh(now);
        Ok(())
    }

    /// Something that was due at or before `now` (see [`Node::poll_timeout`]).
    /// Hand in all datagrams that have arrived before calling this: paths are
    /// judged here by what came.
    pub fn handle_timeout(&mut self, now: Time) {
        self.settle_bundles(now);
        self.refresh();
        for peer in self.turns.take_due(now) {
            match self.peers[peer.0 as usize].as_mut() {
                Some(Peer::Met(bundle)) => {
                    bundle.handle_timeout(now, &mut self.context);
                    self.turns.note_arrival(peer);
                }
                Some(Peer::Absent(absent)) => absent.handle_timeout(now, &mut self.context),
                None => continue,
            }
            self.touch(peer);
        }
        self.on_mesh_timeout(now);
        self.on_gate_timeout(now);
        self.tend_mesh(now);
        self.tend_measurement(now);
    }

    /// The kernel says that `link` is up or down. Nothing is produced for a link
    /// that is down, probes included: they would only wait for an address that
    /// cannot be resolved, and delay its return. What was said before may be said again, at no cost.
    pub fn handle_link(&mut self, now: Time, link: LinkId, up: bool) {
        if link.index() >= LINKS_MAX {
            return;
        }
        let before = self.kernel_down;
        self.kernel_down = with_bit(before, link, !up);
        if self.kernel_down != before {
            self.context.mesh.set_links(now);
            self.for_each_met_on(link, |bundle, context| {
                bundle.handle_link(now, link, up, context)
            });
            self.close_links();
            if up {
                self.call_absent_on(now, 1 << link.0);
            }
        }
    }

    /// The kernel refused a datagram of `datagram_bytes` on `link` as larger than
    /// the interface's MTU, which must have shrunk.
    pub fn handle_refused(&mut self, now: Time, link: LinkId, datagram_bytes: usize) {
        if link.index() < LINKS_MAX {
            self.for_each_met_on(link, |bundle, _| {
                bundle.handle_refused(now, link, datagram_bytes);
            });
        }
    }

    /// Whether the socket of `link` takes datagrams. While it is blocked nothing
    /// is produced for it.
    pub fn set_link_blocked(&mut self, link: LinkId, blocked: bool) {
        self.socket_full = with_bit(self.socket_full, link, blocked);
        self.close_links();
    }

    /// Produces nothing for links that take nothing; those that take something
    /// again are served at once.
    fn close_links(&mut self) {
        let closed = self.socket_full | self.kernel_down;
        let opened = self.context.blocked & !closed;
        self.context.blocked = closed;
        if opened != 0 {
            self.turns.on_opened(opened);
        }
    }

    /// The next datagrams to send, written to `buffer` (of at least 65,535
    /// bytes); `None` when there is nothing to send now.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        while let Some((link, to, datagram)) = self.context.next_answer() {
            let bytes = datagram.len();
            buffer[..bytes].copy_from_slice(&datagram);
            let transmit = Transmit {
                link,
                to,
                bytes,
                segment_bytes: bytes,
                peer_was_heard: false,
            };
            if !link.is_relayed() {
                return Some(transmit);
            }
            self.send_relayed(now, &transmit, &buffer[..bytes]);
        }
        while let Some(peer) = self.turns.first_ready() {
            let transmit = match self.peers[peer.0 as usize].as_mut() {
                Some(Peer::Met(bundle)) => bundle.poll_transmit(now, buffer, &mut self.context),
                Some(Peer::Absent(absent)) => absent.poll_transmit(now, buffer, &self.context),
                None => None,
            };
            self.note_closed(peer);
            if let Some(transmit) = transmit {
                if !transmit.link.is_relayed() {
                    self.turns.on_sent(transmit.link);
                    return Some(transmit);
                }
                self.turns.on_relayed();
                self.send_relayed(now, &transmit, &buffer[..transmit.bytes]);
                continue;
            }
            self.turns.on_nothing();
        }
        None
    }

    /// Notes which links that take nothing now `peer` may want to send on.
    fn note_closed(&mut self, peer: PeerId) {
        let closed = self.context.blocked;
        if closed != 0
            && let Some(there) = &self.peers[peer.0 as usize]
        {
            let paths = there.link_mask(&self.context);
            self.turns.wait_for(peer, closed & paths);
        }
    }

    /// Whether [`poll_transmit`](Node::poll_transmit) is to be asked: something happened since it
    /// last had nothing.
    pub fn may_transmit(&self) -> bool {
        self.turns.first_ready().is_some() || !self.context.answers.is_empty()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.context.events.is_empty() {
            self.collect_events();
        }
        let event = self.context.events.pop_front()?;
        self.rest = None;
        if let Event::Op {
            event: OpEvent::Broken(_),
            ..
        } = event
        {
            self.rest = self.context.rests.pop_front().flatten();
        }
        Some(event)
    }

    /// Takes the events of those that have waited longest, as far as there is room for them.
    fn collect_events(&mut self) {
        while self.context.takes_op_events()
            && let Some(peer) = self.context.events_waiting.pop_front()
        {
            if let Some(bundle) = met(&mut self.peers, peer) {
                bundle.events_listed = false;
                bundle.tell_events(&mut self.context);
            }
        }
    }

    /// What is left to read of the stream that the last event says is
    /// [broken](crate::op::OpEvent::Broken).
    pub fn take_rest(&mut self) -> Option<Rest> {
        self.rest.take()
    }

    /// When [`Node::handle_timeout`] wants to be called, if nothing else happens before.
    pub fn poll_timeout(&mut self) -> Option<Time> {
        self.refresh();
        let mesh = self.context.mesh.next_timeout();
        let measuring = self.context.measuring.as_ref().map(|m| m.next_timeout());
        let others = [
            mesh,
            measuring,
            self.gate.next_timeout(),
            self.bundles.next_timeout(),
        ];
        let turns = self.turns.first_timeout();
        others.into_iter().flatten().chain(turns).min()
    }

    /// The name of a peer.
    pub fn peer_name(&self, peer: PeerId) -> Option<&str> {
        Some(match self.peers.get(peer.0 as usize)?.as_ref()? {
            Peer::Absent(absent) => absent.name.as_str(),
            Peer::Met(bundle) => bundle.name.as_str(),
        })
    }

    /// Whether there is a session with a peer, so that streams can be opened.
    pub fn is_connected(&self, peer: PeerId) -> bool {
        self.known(peer).is_some_and(Bundle::connected)
    }

    /// Whether a peer has been connected since it was added.
    pub fn has_been_connected(&self, peer: PeerId) -> bool {
        self.known(peer).is_some_and(|bundle| bundle.was_up)
    }

    /// Whether a peer is reached through other nodes, and over no link of its own: how soon it answers is their business, too.
    pub fn is_through_others(&self, peer: PeerId) -> bool {
        match self.peers.get(peer.0 as usize).and_then(Option::as_ref) {
            Some(Peer::Absent(absent)) => absent.on_demand,
            Some(Peer::Met(bundle)) => !bundle.has_links(),
            None => false,
        }
    }

    /// State and figures of a peer.
    pub fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        Some(match self.peers.get(peer.0 as usize)?.as_ref()? {
            Peer::Absent(absent) => absent.stats(&self.context),
            Peer::Met(bundle) => bundle.stats(),
        })
    }

    /// Figures of the path to `peer` over `link`, if there is one.
    pub fn path_stats(&self, peer: PeerId, link: LinkId) -> Option<PathStats> {
        self.known(peer)?.path_stats(link)
    }

    /// The paths to a peer and whether they work. Unlike [`peer_stats`](Node::peer_stats) it costs next to nothing.
    pub fn path_states(&self, peer: PeerId) -> impl Iterator<Item = (LinkId, PathState)> + '_ {
        let there = self.peers.get(peer.0 as usize).and_then(Option::as_ref);
        let (absent, met) = match there {
            Some(Peer::Absent(absent)) => (Some(absent.path_states(&self.context)), None),
            Some(Peer::Met(bundle)) => (None, Some(bundle.path_states())),
            None => (None, None),
        };
        absent
            .into_iter()
            .flatten()
            .chain(met.into_iter().flatten())
    }

    /// The bundle to `peer`, if it was ever met.
    fn known(&self, peer: PeerId) -> Option<&Bundle> {
        self.peers.get(peer.0 as usize)?.as_ref()?.met()
    }

    /// The node's own counters.
    pub fn node_stats(&self) -> &NodeStats {
        &self.context.stats
    }

    /// The numbers of all sessions, and of handshakes under way: every packet of
    /// a peer bears one of them, but for the first of a handshake. Ascending.
    pub fn session_numbers(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.context.sessions.keys().copied()
    }

    /// Differs whenever [`session_numbers`](Node::session_numbers) do.
    pub const fn sessions_generation(&self) -> u64 {
        self.context.sessions.generation()
    }

    /// Whether several peers send to this node in bulk, or it is one of several that send to
    /// another: everybody's bursts meet at a port then, and should be short.
    pub fn is_crowded(&self, now: Time) -> bool {
        self.context.crowd.is_near(now)
    }

    /// Memory held for what is known of who reaches whom, in bytes.
    pub fn mesh_bytes(&self) -> usize {
        self.context.mesh.memory_bytes()
    }

    /// Bytes of memory held for all peers together.
    pub fn memory_bytes(&self) -> usize {
        let answers: usize = self.context.answers.iter().map(|(_, _, d)| d.len()).sum();
        let rests = self.context.rests.iter().flatten();
        let events = self.context.events.len() * size_of::<Event>()
            + rests.map(Rest::memory_bytes).sum::<usize>();
        answers
            + events
            + self.context.crowd.memory_bytes()
            + self.context.mesh.memory_bytes()
            + self.context.members.memory_bytes()
            + self.turns.memory_bytes()
            + self.peers.capacity() * size_of::<Option<Peer>>()
            + self
                .peers
                .iter()
                .flatten()
                .map(Peer::memory_bytes)
                .sum::<usize>()
    }

    /// Does something for each peer that was ever met.
    fn for_each_met(&mut self, mut act: impl FnMut(&mut Bundle, &mut Context)) {
        for (index, peer) in self.peers.iter_mut().enumerate() {
            if let Some(bundle) = peer.as_mut().and_then(Peer::met_mut) {
                act(bundle, &mut self.context);
                self.turns.touch(PeerId(index as u32));
            }
        }
    }

    /// The same for those that have a path on `link`.
    fn for_each_met_on(&mut self, link: LinkId, mut act: impl FnMut(&mut Bundle, &mut Context)) {
        for (index, peer) in self.peers.iter_mut().enumerate() {
            if let Some(bundle) = peer.as_mut().and_then(Peer::met_mut)
                && bundle.path_mask() & link.bit() != 0
            {
                act(bundle, &mut self.context);
                self.turns.touch(PeerId(index as u32));
            }
        }
    }

    /// `peer`'s state changed: it may have something to send, another timeout, and hold more or less.
    fn touch(&mut self, peer: PeerId) {
        self.settle_account(peer);
        self.turns.touch(peer);
        for peer in self.context.budget.take_short() {
            if let Some(bundle) = met(&mut self.peers, peer) {
                bundle.account.on_told();
            }
            self.settle_account(peer);
            self.turns.touch(peer);
        }
    }

    /// What `peer`'s bundle holds may have changed, and what it may hold.
    fn settle_account(&mut self, peer: PeerId) {
        if let Some(bundle) = met(&mut self.peers, peer) {
            bundle.settle_account(&mut self.context);
        }
    }

    fn touch_all(&mut self) {
        for index in 0..self.peers.len() {
            self.turns.touch(PeerId(index as u32));
        }
    }

    /// Looks at those whose state changed: when they are due, and whether they have something to send.
    fn refresh(&mut self) {
        while let Some(peer) = self.turns.pop_stale() {
            self.settle_account(peer);
            let (timeout, sends) = match &self.peers[peer.0 as usize] {
                Some(Peer::Met(bundle)) => {
                    let timeout = bundle.next_timeout(self.context.blocked);
                    (timeout, bundle.ops.has_pending())
                }
                Some(Peer::Absent(absent)) => (absent.next_timeout(), false),
                None => (None, false),
            };
            self.note_closed(peer);
            self.turns
                .on_seen(peer, timeout.unwrap_or(Time::NEVER), sends);
        }
    }
}

/// The bundle to `peer`, if it was ever met.
fn met(peers: &mut [Option<Peer>], peer: PeerId) -> Option<&mut Bundle> {
    peers.get_mut(peer.0 as usize)?.as_mut()?.met_mut()
}

/// `mask` with the bit of `link` set or cleared.
fn with_bit(mask: u8, link: LinkId, set: bool) -> u8 {
    let bit = 1u8.checked_shl(u32::from(link.0)).unwrap_or(0);
    if set { mask | bit } else { mask & !bit }
}

#[cfg(test)]
mod tests;
