//! A node: all its bundles behind one face. See the crate's documentation for
//! the driver contract.

mod admission;
mod app;
mod membership;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use crate::Random;
use crate::bundle::{Bundle, CLOSE_STOPS, PeerStats};
use crate::context::{
    Budget, ConfigError, Context, Crowd, Event, NodeConfig, NodeStats, RanOut, Refusal, Rejection,
    Transmit,
};
use crate::crypto::{ClusterKey, CookieJar};
use crate::limits::LINKS_MAX;
use crate::op::{OpEvent, Rest};
use crate::wire::{Header, Kind, Name, Reader};
use crate::{LinkId, PeerId, Time};

use admission::Admission;

/// This node and its bundles to all peers.
pub struct Node {
    context: Context,
    /// Links (a bit each) whose socket would block.
    socket_full: u8,
    /// Links (a bit each) that the kernel reports down.
    kernel_down: u8,
    peers: Vec<Option<Bundle>>,
    names: BTreeMap<String, PeerId>,
    admission: Admission,
    cookies: CookieJar,
    /// Peers that may have something to transmit.
    ready: VecDeque<PeerId>,
    is_ready: Vec<bool>,
    /// The peer (an index) after the one that sent last on each link.
    next_turn: [usize; LINKS_MAX],
    /// When each peer wants its next timeout, as of when it was last touched.
    timeouts: Vec<Time>,
    stale: Vec<PeerId>,
    /// Peers whose frames may have been completed.
    arrivals: VecDeque<PeerId>,
    has_arrivals: Vec<bool>,
    /// Where a frame was last sent to or came from: its pool is likely to have buffers.
    frame_peer: usize,
    /// Of the event told last.
    rest: Option<Rest>,
}

impl Node {
    /// A node that knows no peer yet. `seed` must be unpredictable; it is the
    /// only source of all randomness.
    ///
    /// # Errors
    /// [`ConfigError`]: the configuration is at fault.
    pub fn new(now: Time, config: NodeConfig, seed: [u8; 32]) -> Result<Node, ConfigError> {
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
        let mut random = Random::from_seed(seed);
        let cookies = CookieJar::new(&mut random, now);
        let keys = config.keys.iter().copied().map(ClusterKey::new).collect();
        Ok(Node {
            context: Context {
                budget: Budget::new(&config.op_limits),
                config,
                name,
                keys,
                links,
                blocked: 0,
                random,
                stats: NodeStats::default(),
                sessions: BTreeMap::new(),
                events: VecDeque::new(),
                rests: VecDeque::new(),
                events_wait: false,
                answers: VecDeque::new(),
                crowd: Crowd::default(),
                ran_out: RanOut::default(),
                content_arrived: false,
            },
            socket_full: 0,
            kernel_down: 0,
            peers: Vec::new(),
            names: BTreeMap::new(),
            admission: Admission::new(),
            cookies,
            ready: VecDeque::new(),
            is_ready: Vec::new(),
            next_turn: [0; LINKS_MAX],
            timeouts: Vec::new(),
            stale: Vec::new(),
            arrivals: VecDeque::new(),
            has_arrivals: Vec::new(),
            frame_peer: 0,
            rest: None,
        })
    }

    /// Tells every peer that this node stops. Drain [`Node::poll_transmit`] afterwards.
    pub fn close(&mut self, now: Time) {
        self.for_each_peer(|bundle, context| bundle.farewell(now, CLOSE_STOPS, context));
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
        let bundle = self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut);
        let bundle = bundle.ok_or(Rejection::UnknownSession)?;
        let taken = bundle.on_datagram(now, link, from, &header, datagram, &mut self.context);
        if header.path != link.0 && bundle.notices_wrong_link() {
            let says = LinkId(header.path);
            self.tell_refusal(now, link, from, Refusal::WrongLink { says });
        }
        taken?;
        self.note_arrival(peer);
        self.touch(peer);
        Ok(())
    }

    fn note_arrival(&mut self, peer: PeerId) {
        if !core::mem::replace(&mut self.has_arrivals[peer.0 as usize], true) {
            self.arrivals.push_back(peer);
        }
    }

    /// Something that was due at or before `now` (see [`Node::poll_timeout`]).
    /// Hand in all datagrams that have arrived before calling this: paths are
    /// judged here by what came.
    pub fn handle_timeout(&mut self, now: Time) {
        self.refresh_timeouts();
        for index in 0..self.peers.len() {
            if self.timeouts[index] <= now
                && let Some(bundle) = &mut self.peers[index]
            {
                bundle.handle_timeout(now, &mut self.context);
                self.note_arrival(PeerId(index as u32));
                self.touch(PeerId(index as u32));
            }
        }
    }

    /// The kernel says that `link` is up or down. Nothing is produced for a link
    /// that is down, probes included: they would only wait for an address that
    /// cannot be resolved, and delay its return.
    pub fn handle_link(&mut self, now: Time, link: LinkId, up: bool) {
        if link.index() >= LINKS_MAX {
            return;
        }
        self.kernel_down = with_bit(self.kernel_down, link, !up);
        self.for_each_peer(|bundle, context| bundle.handle_link(now, link, up, context));
        self.close_links();
    }

    /// The kernel refused a datagram of `datagram_bytes` on `link` as larger than
    /// the interface's MTU, which must have shrunk.
    pub fn handle_refused(&mut self, now: Time, link: LinkId, datagram_bytes: usize) {
        if link.index() < LINKS_MAX {
            self.for_each_peer(|bundle, _| bundle.handle_refused(now, link, datagram_bytes));
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
        if opened == 0 {
            return;
        }
        // Whoever sent last on the link comes last, or one peer would have it all: what the others
        // sent elsewhere meanwhile does not count.
        let count = self.peers.len();
        let first = self.next_turn[opened.trailing_zeros() as usize].min(count);
        self.ready.clear();
        self.is_ready.fill(false);
        for index in (first..count).chain(0..first) {
            self.touch(PeerId(index as u32));
        }
    }

    /// The next datagrams to send, written to `buffer` (of at least 65,535
    /// bytes); `None` when there is nothing to send now.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<Transmit> {
        if let Some((link, to, datagram)) = self.context.next_answer() {
            let bytes = datagram.len();
            buffer[..bytes].copy_from_slice(&datagram);
            return Some(Transmit {
                link,
                to,
                bytes,
                segment_bytes: bytes,
                peer_was_heard: false,
            });
        }
        while let Some(&peer) = self.ready.front() {
            let bundle = self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut);
            if let Some(transmit) =
                bundle.and_then(|b| b.poll_transmit(now, buffer, &mut self.context))
            {
                // The next one has its turn: many peers share the line evenly.
                self.ready.rotate_left(1);
                self.next_turn[transmit.link.index()] = peer.0 as usize + 1;
                self.mark_stale(peer);
                return Some(transmit);
            }
            self.ready.pop_front();
            self.is_ready[peer.0 as usize] = false;
            self.mark_stale(peer);
        }
        None
    }

    /// Whether [`poll_transmit`](Node::poll_transmit) is to be asked: something happened since it
    /// last had nothing.
    pub fn may_transmit(&self) -> bool {
        !self.ready.is_empty() || !self.context.answers.is_empty()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.context.events.is_empty() && core::mem::take(&mut self.context.events_wait) {
            for bundle in self.peers.iter_mut().flatten() {
                bundle.tell_events(&mut self.context);
            }
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

    /// What is left to read of the stream that the last event says is
    /// [broken](crate::op::OpEvent::Broken).
    pub fn take_rest(&mut self) -> Option<Rest> {
        self.rest.take()
    }

    /// When [`Node::handle_timeout`] wants to be called, if nothing else happens before.
    pub fn poll_timeout(&mut self) -> Option<Time> {
        self.refresh_timeouts();
        self.timeouts
            .iter()
            .copied()
            .min()
            .filter(|at| *at < Time::NEVER)
    }

    /// The name of a peer.
    pub fn peer_name(&self, peer: PeerId) -> Option<&str> {
        Some(self.known(peer)?.name.as_str())
    }

    /// Whether there is a session with a peer, so that streams can be opened.
    pub fn is_connected(&self, peer: PeerId) -> bool {
        self.known(peer).is_some_and(Bundle::connected)
    }

    /// Whether a peer has been connected since it was added.
    pub fn has_been_connected(&self, peer: PeerId) -> bool {
        self.known(peer).is_some_and(|bundle| bundle.was_up)
    }

    /// State and figures of a peer.
    pub fn peer_stats(&self, peer: PeerId) -> Option<PeerStats> {
        self.known(peer).map(Bundle::stats)
    }

    /// The bundle to `peer`, if there is such a peer.
    fn known(&self, peer: PeerId) -> Option<&Bundle> {
        self.peers.get(peer.0 as usize)?.as_ref()
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

    /// Whether several peers send to this node in bulk, or it is one of several that send to
    /// another: everybody's bursts meet at a port then, and should be short.
    pub fn is_crowded(&self, now: Time) -> bool {
        self.context.crowd.is_near(now)
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
            + self
                .peers
                .iter()
                .flatten()
                .map(Bundle::memory_bytes)
                .sum::<usize>()
    }

    fn for_each_peer(&mut self, mut act: impl FnMut(&mut Bundle, &mut Context)) {
        for index in 0..self.peers.len() {
            if let Some(bundle) = &mut self.peers[index] {
                act(bundle, &mut self.context);
                self.touch(PeerId(index as u32));
            }
        }
    }

    /// `peer`'s state changed: it may have something to send, and another timeout.
    fn touch(&mut self, peer: PeerId) {
        self.settle(peer);
        self.wake(peer);
        for peer in self.context.budget.take_short() {
            if let Some(Some(bundle)) = self.peers.get_mut(peer.0 as usize) {
                bundle.account.on_told();
            }
            self.settle(peer);
            self.wake(peer);
        }
    }

    /// What `peer`'s bundle holds may have changed, and what it may hold.
    fn settle(&mut self, peer: PeerId) {
        if let Some(Some(bundle)) = self.peers.get_mut(peer.0 as usize) {
            bundle.settle_account(&mut self.context);
        }
    }

    /// `peer` may have something to send, and another timeout.
    fn wake(&mut self, peer: PeerId) {
        let index = peer.0 as usize;
        if !self.is_ready[index] {
            self.is_ready[index] = true;
            self.ready.push_back(peer);
        }
        self.mark_stale(peer);
    }

    fn mark_stale(&mut self, peer: PeerId) {
        if self.stale.last() != Some(&peer) {
            self.stale.push(peer);
        }
    }

    fn refresh_timeouts(&mut self) {
        while let Some(peer) = self.stale.pop() {
            let index = peer.0 as usize;
            if let Some(bundle) = &mut self.peers[index] {
                self.timeouts[index] = bundle
                    .next_timeout(self.context.blocked)
                    .unwrap_or(Time::NEVER);
            }
        }
    }
}

/// `mask` with the bit of `link` set or cleared.
fn with_bit(mask: u8, link: LinkId, set: bool) -> u8 {
    let bit = 1u8.checked_shl(u32::from(link.0)).unwrap_or(0);
    if set { mask | bit } else { mask & !bit }
}

#[cfg(test)]
mod tests;
