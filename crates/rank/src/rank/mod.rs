//! The work of an endpoint.

mod atomics;
mod beside;
mod lost;
mod messages;
mod partings;
mod peers;
mod pending;
mod streams;
mod transfers;
mod turns;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use tabane_engine::{Engine, EngineConfig, HOST_TOKENS, Host, LinkSpec, LoopTurn};
use tabane_io::entropy;
use tabane_io::poll::{Poller, Ready};
use tabane_io::udp::Claim;
use tabane_proto::op::{Get, OpEvent};
use tabane_proto::wire::{FEATURE_MEMORY, WireMode};
use tabane_proto::{DownReason, Event, Guests, LinkId, Node, PeerId, Random, RelayConfig, Time};

use crate::local::{Local, PROBE_BYTES};
use crate::matching::{Arrived, Body, Matching};
use crate::memory::{Buffer, Buffers};
use crate::wire::Head;
use crate::{
    Address, Atomic, Completion, Core, Ended, Failure, LinkStatistics, Lost, OpenError, Peek, Peer,
    Piece, PostError, Receive, Send, Settings, SharedMemory, Source, Statistics, Ticket, Transfer,
};
use beside::{NoWay, Way};
use lost::LostPeers;
use peers::{OWN, Peers};
use pending::{Pending, Pendings};
use streams::Stream;

/// Endpoints that may call without being named here.
const GUESTS_MAX: usize = 65_536;
/// Small operations posted behind something under way wait this long for more to share a packet.
const SHARE_FOR: Duration = Duration::from_micros(10);
/// So many bytes are sent without waiting for more: a few packets, in one call.
const SHARE_BYTES: usize = 16 * 1024;
/// Time for posted data to arrive when the endpoint is closed.
const LINGER: Duration = Duration::from_secs(1);
/// Ports that are tried for one that is free on all links.
const PORTS_TRIED: usize = 64;

/// The end of a buffer that no message came to.
const UNFILLED: Ended = Ended::Receive {
    at: core::ptr::null_mut(),
    released: true,
};

/// The poller's token for neighbours that have called or rung.
const TOKEN_NEIGHBOURS: u64 = HOST_TOKENS;
/// The poller's token for ending a wait.
pub(crate) const TOKEN_INTERRUPT: u64 = HOST_TOKENS + 1;

/// Events of the engine that are not processed yet.
#[derive(Default)]
struct Happenings {
    events: VecDeque<Event>,
    /// A neighbour has called or rung.
    has_rung: bool,
    /// There is work that no event announces.
    is_eager: bool,
}

impl Host for Happenings {
    fn event(&mut self, _: Time, _: &mut Node, event: Event) {
        self.events.push_back(event);
    }

    fn frame(&mut self, _: PeerId, _: &mut Vec<u8>) {}

    fn ready(&mut self, _: &mut LoopTurn<'_>, ready: Ready) {
        self.has_rung |= ready.token == TOKEN_NEIGHBOURS;
    }

    fn produce(&mut self, _: Time, _: &mut Node) -> bool {
        false
    }

    fn before_wait(&mut self, _: &Node, _: &Poller) -> bool {
        self.is_eager || !self.events.is_empty()
    }

    fn link_changed(&mut self, _: &str) {}
}

/// An endpoint, without what its threads share.
pub(crate) struct Rank {
    engine: Engine,
    host: Happenings,
    address: Address,
    settings: Settings,
    /// The link to endpoints of the same node.
    loopback: Option<LinkId>,
    random: Random,
    peers: Peers,
    matching: Matching,
    /// Messages that were claimed, by context.
    claimed: Vec<(usize, Arrived)>,
    pendings: Pendings,
    /// Registered regions, by key.
    regions: BTreeMap<u64, Box<Buffer>>,
    /// Messages that found no room when they were to be sent.
    owed: VecDeque<(Peer, u32, Vec<u8>)>,
    /// Gets that there was no room for.
    owed_gets: VecDeque<(Peer, Get)>,
    /// Endpoints of the same node, and operations under way to them.
    local: Option<Local>,
    streams: VecDeque<Stream>,
    /// Buffers of messages, to be used again.
    spare: Vec<Vec<u8>>,
    polled_at: Time,
    came_at: Time,
    /// Somebody else takes the processor until then, whenever it is given away.
    crowded_until: Time,
    /// Other endpoints that the program has named.
    named: usize,
    completions: VecDeque<Completion>,
    /// When a sleeper must wake up even if nothing has ended.
    look_at: Option<Time>,
    /// Bytes posted since something was last sent.
    unsent_bytes: usize,
    sent_at: Time,
    looked_at: Time,
    /// When others were called last because a peer did not answer.
    called_others_at: Option<Time>,
    /// Bundles over links, the most there were at once.
    bundles_most: usize,
    link_failures: [u64; 8],
    refused_accesses: u64,
    lost: LostPeers,
}

impl Rank {
    /// Opens the links and takes a port.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(settings: &Settings) -> Result<Rank, OpenError> {
        let mut random = Random::from_seed(entropy::seed().map_err(OpenError::System)?);
        let mut links = settings.links.clone();
        let free = loopback(&links);
        links.extend(free.map(|n| (n, IpAddr::V4(Ipv4Addr::LOCALHOST))));
        let (port, claims) = claim_port(&links, settings, &mut random)?;
        let address = Address::new(&settings.links, port, random.u64())
            .map_err(|_| OpenError::Settings("a link number above 7, or twice".into()))?;
        let (mut engine, _) = Engine::with_claims(config(settings, &address, port, &links), claims)
            .map_err(|error| OpenError::Settings(error.to_string()))?;
        engine.node.set_memory(Box::new(Buffers));
        let local = match settings.shared_memory {
            SharedMemory::Off => None,
            _ => open_local(settings, &address, engine.poller(), random.array()),
        };
        let now = engine.now();
        let mut peers = Peers::default();
        peers.at(&address);
        Ok(Rank {
            engine,
            host: Happenings::default(),
            address,
            settings: settings.clone(),
            loopback: free.map(LinkId),
            random,
            peers,
            matching: Matching::default(),
            claimed: Vec::new(),
            pendings: Pendings::default(),
            regions: BTreeMap::new(),
            owed: VecDeque::new(),
            owed_gets: VecDeque::new(),
            local,
            streams: VecDeque::new(),
            spare: Vec::new(),
            polled_at: now,
            came_at: now,
            crowded_until: Time::ZERO,
            named: 0,
            completions: VecDeque::new(),
            look_at: None,
            unsent_bytes: 0,
            sent_at: now,
            looked_at: now,
            called_others_at: None,
            bundles_most: 0,
            link_failures: [0; 8],
            refused_accesses: 0,
            lost: LostPeers::default(),
        })
    }

    /// The address for the other processes.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// The engine, to be waited for.
    pub const fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Whether there is something that was not told: an operation has ended, a peer is gone, or it is time to look.
    pub fn has_news(&self) -> bool {
        let is_due = || self.look_at.is_some_and(|at| at <= self.engine.now());
        !self.completions.is_empty() || self.lost.are_any() || is_due()
    }

    /// Whether a peer is not known to have all that was sent to it. Also if it has not answered the first call yet: a short
    /// program ends before that.
    fn owes(&self) -> bool {
        let node = &self.engine.node;
        self.peers.met().any(|(_, id)| node.has_unacknowledged(id))
    }

    /// Sends posted data, and says goodbye to all, so that they know at once. Waits only briefly for a peer that does not
    /// answer.
    pub fn close(&mut self) {
        let until = self.engine.now() + LINGER;
        while (self.owes() || self.owes_beside() || !self.owed.is_empty())
            && self.engine.now() < until
        {
            let wait = self.before_wait(LINGER);
            let mut ready = Vec::new();
            let poller = Arc::clone(self.engine.poller());
            let _ = wait.wait(&poller, &[], &mut ready);
            self.after_wait(&ready);
        }
        if let Some(local) = &mut self.local {
            local.close();
        }
        let now = self.engine.now();
        self.engine.node.close(now);
        self.engine.flush(now);
        self.cancel_all(now);
    }

    /// Nothing is under way any more, nor will be.
    fn cancel_all(&mut self, now: Time) {
        for peer in self.peers.all() {
            self.lose(now, peer, Failure::Cancelled);
        }
        // Nobody is lost who is left.
        self.lost = LostPeers::default();
        for posted in self.matching.drain() {
            self.end(posted.ticket, UNFILLED, Some(Failure::Cancelled));
        }
    }

    fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Guest { peer, name } => self.on_guest(now, peer, name.as_str()),
            // How long that may last is the program's to say (`look_after`).
            Event::PeerDown {
                reason: DownReason::AllPathsDown,
                ..
            } => {}
            Event::PeerUp {
                peer,
                restarted: true,
            }
            | Event::PeerDown { peer, .. } => {
                if let Some(peer) = self.peers.of(peer) {
                    self.lose(now, peer, Failure::PeerGone);
                }
            }
            Event::LinkDown { link, .. } => self.link_failures[link.index()] += 1,
            Event::Op { peer: id, event } => {
                if let Some(peer) = self.peers.of(id) {
                    self.on_op(now, peer, id, event);
                }
            }
            Event::Refused { from, why, .. } => self.lost.refused(from, &why),
            Event::PeerUp { .. }
            | Event::LinkUp { .. }
            | Event::Measured { .. }
            // Of nodes that join clusters: ranks are guests by their names.
            | Event::Member { .. }
            | Event::Parted { .. }
            | Event::NotAdmitted { .. } => {}
        }
    }

    fn on_op(&mut self, now: Time, peer: Peer, id: PeerId, event: OpEvent) {
        match event {
            OpEvent::MessageReady => {
                while let Some(message) = self.engine.node.receive_message(now, id) {
                    self.on_message(now, peer, message.data);
                }
            }
            OpEvent::Operation { token, status } => self.on_operation(now, token, status),
            OpEvent::Written {
                key,
                immediate,
                bytes,
            } => self.on_accessed(peer, Ended::Written { key }, immediate, bytes),
            OpEvent::Read { key, bytes } => {
                let written = false;
                self.on_accessed(peer, Ended::WasRead { key, written }, None, bytes);
            }
            OpEvent::MessagesBroken { .. } => self.lose(now, peer, Failure::PeerGone),
            _ => {}
        }
    }

    fn on_message(&mut self, now: Time, from: Peer, message: Vec<u8>) {
        let Some((head, begin)) = Head::read(&message) else {
            // No endpoint sends this: it is none.
            return self.lose(now, from, Failure::PeerGone);
        };
        match head {
            Head::Eager(envelope) => {
                let arrived = Arrived {
                    from,
                    envelope,
                    bytes: (message.len() - begin) as u64,
                    body: Body::Here {
                        buffer: message,
                        begin,
                    },
                };
                self.arrive(now, arrived);
            }
            Head::Announce {
                envelope,
                key,
                bytes,
            } => {
                let arrived = Arrived {
                    from,
                    envelope,
                    bytes,
                    body: Body::There { key },
                };
                self.arrive(now, arrived);
            }
            Head::Receipt { id } => self.on_receipt(from, id),
            Head::Consumed { bytes } => {
                if let Some(entry) = self.peers.get_mut(from) {
                    entry.eager_out_bytes = entry.eager_out_bytes.saturating_sub(bytes);
                }
            }
            Head::Atomic(atomic) => self.on_atomic(now, from, &atomic, &message[begin..]),
            Head::AtomicDone { id, status } => {
                self.on_atomic_done(from, id, status, &message[begin..]);
            }
        }
    }

    /// Sends a head and the pieces behind it to a peer.
    ///
    /// # Safety
    /// The pieces are readable.
    unsafe fn say(
        &mut self,
        now: Time,
        to: Peer,
        flow: u32,
        head: &Head,
        pieces: &[Piece],
    ) -> Result<(), PostError> {
        let way = self.way(now, to);
        // SAFETY: as the caller promises.
        unsafe { self.say_by(now, way, flow, head, pieces) }
    }

    /// The same, by this way to the peer.
    ///
    /// # Safety
    /// As of [`say`](Rank::say).
    unsafe fn say_by(
        &mut self,
        now: Time,
        way: Result<Way, NoWay>,
        flow: u32,
        head: &Head,
        pieces: &[Piece],
    ) -> Result<(), PostError> {
        let id = match way {
            Ok(Way::Bundle(id)) => id,
            Ok(Way::Beside(slot)) => {
                // SAFETY: as the caller promises.
                let said = unsafe { self.message_beside(now, slot, head, pieces) };
                return said.map_err(|_| PostError::Again);
            }
            Err(NoWay::Later) => return Err(PostError::Again),
            Err(NoWay::Gone(_)) => return Err(PostError::NoPeer),
        };
        let is_quiet = self.engine.node.is_quiet(id);
        let head = head.write();
        let bytes = head.as_slice().len() + crate::memory::length(pieces).unwrap_or(0) as usize;
        let fill = |unit: &mut Vec<u8>| {
            unit.extend_from_slice(head.as_slice());
            // SAFETY: as the caller promises.
            unsafe { crate::memory::append(pieces, unit) };
        };
        let node = &mut self.engine.node;
        node.send_message_with(now, id, flow, bytes, fill)
            .map_err(|_| PostError::Again)?;
        self.posted(now, bytes, is_quiet);
        Ok(())
    }

    /// Sends a message that must not be dropped, when there is room.
    fn owe(&mut self, now: Time, to: Peer, flow: u32, head: &Head, bytes: &[u8]) {
        if let Ok(Way::Beside(slot)) = self.way(now, to) {
            return self.owe_message_beside(slot, head, bytes);
        }
        let mut copy = bytes.to_vec();
        let piece = Piece {
            base: copy.as_mut_ptr(),
            bytes: copy.len(),
        };
        let said = match self.owed.is_empty() {
            // SAFETY: the piece is `copy`.
            true => unsafe { self.say(now, to, flow, head, &[piece]) },
            false => Err(PostError::Again),
        };
        if said == Err(PostError::Again) {
            let mut whole = head.write().as_slice().to_vec();
            whole.extend_from_slice(bytes);
            self.owed.push_back((to, flow, whole));
        }
    }

    fn say_owed(&mut self, now: Time) {
        while let Some((to, flow, whole)) = self.owed.pop_front() {
            let id = match self.way(now, to) {
                Ok(Way::Bundle(id)) => id,
                Ok(Way::Beside(slot)) => {
                    self.owe_whole_beside(slot, &whole);
                    continue;
                }
                Err(NoWay::Later) => return self.owed.push_front((to, flow, whole)),
                Err(NoWay::Gone(_)) => continue,
            };
            let fill = |unit: &mut Vec<u8>| unit.extend_from_slice(&whole);
            let node = &mut self.engine.node;
            if (node.send_message_with(now, id, flow, whole.len(), fill)).is_err() {
                return self.owed.push_front((to, flow, whole));
            }
        }
    }

    /// `bytes` were posted. The first message goes at once, the rest together.
    fn posted(&mut self, now: Time, bytes: usize, is_quiet: bool) {
        self.unsent_bytes += bytes;
        let waited = now.since(self.sent_at) >= SHARE_FOR;
        if is_quiet || waited || self.unsent_bytes >= SHARE_BYTES {
            self.flush(now);
        }
    }

    fn flush(&mut self, now: Time) {
        self.engine.flush(now);
        self.unsent_bytes = 0;
        self.sent_at = now;
    }

    /// A peer is gone: fails everything that waits for it.
    fn lose(&mut self, now: Time, peer: Peer, why: Failure) {
        let Some(entry) = self.peers.get_mut(peer) else {
            return;
        };
        if entry.gone.is_some() || peer == OWN {
            return;
        }
        entry.gone = Some(why);
        self.lost.note(entry.address, why);
        self.lost.watched.remove(&peer);
        if let Some(id) = entry.id {
            // From here on nothing uses the buffers of operations under way.
            self.engine.node.remove_peer(now, id);
            self.peers.set_id(peer, None);
        }
        let slot = self.peers.get(peer).and_then(|entry| entry.slot);
        if let (Some(local), Some(slot)) = (&mut self.local, slot) {
            local.part(slot);
            self.peers.set_slot(peer, None);
        }
        self.owed.retain(|(to, ..)| *to != peer);
        self.owed_gets.retain(|(of, _)| *of != peer);
        for pending in self.pendings.of(peer) {
            self.fail(pending, why);
        }
        for posted in self.matching.give_up(peer) {
            self.end(posted.ticket, UNFILLED, Some(why));
        }
    }

    /// An operation under way has failed.
    fn fail(&mut self, pending: Pending, why: Failure) {
        let (ticket, ended) = match pending {
            Pending::Announced { key, ticket, .. } => {
                self.engine.node.deregister_region(key);
                (ticket, Ended::Send)
            }
            Pending::Receipted { ticket, .. } => (ticket, Ended::Send),
            Pending::Fetching {
                at,
                released,
                ticket,
                ..
            } => (ticket, Ended::Receive { at, released }),
            Pending::Transfer { ended, ticket, .. } => (ticket, ended),
            Pending::Atomic { ticket, .. } => (ticket, Ended::Atomic),
        };
        self.end(ticket, ended, Some(why));
    }

    /// An operation of this end's is over.
    fn end(&mut self, ticket: Ticket, ended: Ended, failure: Option<Failure>) {
        self.completions.push_back(Completion {
            ticket,
            ended,
            bytes: 0,
            tag: None,
            data: None,
            source: Source::Own,
            failure,
        });
    }

    fn source(&self, peer: Peer) -> Source {
        match self.peers.get(peer).is_some_and(|entry| entry.is_named) {
            true => Source::Peer(peer),
            false => Source::Stranger(peer),
        }
    }
}

/// The engine's configuration for an endpoint at this address.
fn config(
    settings: &Settings,
    address: &Address,
    port: u16,
    links: &[(u8, IpAddr)],
) -> EngineConfig {
    let spec = |(number, address): &(u8, IpAddr)| LinkSpec {
        id: LinkId(*number),
        address: *address,
    };
    EngineConfig {
        name: address.to_name(),
        keys: vec![settings.key],
        private: None,
        public: None,
        wire: match settings.encrypted {
            true => WireMode::Encrypted,
            false => WireMode::Plain,
        },
        port,
        links: links.iter().map(spec).collect(),
        spin: Duration::ZERO,
        features: FEATURE_MEMORY,
        relay: Some(RelayConfig {
            bundles_max: settings.bundles_max,
            ..RelayConfig::default()
        }),
        guests: Some(Guests::Located {
            count_max: GUESTS_MAX,
            locate: |name| Some(Address::from_name(name).ok()?.links()),
        }),
    }
}

/// Makes the endpoint visible to others of this node. If that fails, they use the loopback device.
fn open_local(
    settings: &Settings,
    address: &Address,
    poller: &Poller,
    probe: [u8; PROBE_BYTES],
) -> Option<Local> {
    let pulls = settings.shared_memory == SharedMemory::Pull;
    let local = Local::open(&settings.key, address, probe, pulls).ok()?;
    local.register(poller, TOKEN_NEIGHBOURS).ok()?;
    Some(local)
}

/// The number of a link of its own that the loopback device is to have.
fn loopback(links: &[(u8, IpAddr)]) -> Option<u8> {
    let has_one = links.iter().any(|(_, address)| address.is_loopback());
    let is_used = |n: &u8| links.iter().any(|(number, _)| number == n);
    (0..8).rev().find(|n| !has_one && !is_used(n))
}

/// A port of this rank's own, on all links that are there.
fn claim_port(
    links: &[(u8, IpAddr)],
    settings: &Settings,
    random: &mut Random,
) -> Result<(u16, Vec<Claim>), OpenError> {
    let (low, high) = (u64::from(*settings.ports.start()), *settings.ports.end());
    let count = u64::from(high).saturating_sub(low) + 1;
    let first = random.below(count);
    for n in 0..count.min((count / 4).max(PORTS_TRIED as u64)) {
        let port = (low + (first + n) % count) as u16;
        let Some(claims) = claim(links, port)? else {
            continue;
        };
        let mut own = settings.links.iter().map(|(_, address)| *address);
        let is_here = |address| claims.iter().any(|claim| claim.address().ip() == address);
        return match own.any(is_here) {
            true => Ok((port, claims)),
            false => Err(OpenError::NoLink(
                settings.links.iter().map(|(_, address)| *address).collect(),
            )),
        };
    }
    Err(OpenError::NoPort(settings.ports.clone()))
}

/// Claims a port on all existing links; `None` if it is another's on one of them. Everybody claims links in order and releases all
/// at the first refusal, so one of several rivals gets the port.
fn claim(links: &[(u8, IpAddr)], port: u16) -> Result<Option<Vec<Claim>>, OpenError> {
    let mut claims = Vec::new();
    for (_, address) in links {
        match Claim::new((*address, port).into()) {
            Ok(claim) => claims.push(claim),
            Err(error) if error.is_link_down() => {}
            Err(error) => match error.source.kind() {
                ErrorKind::AddrInUse | ErrorKind::PermissionDenied => return Ok(None),
                _ => return Err(OpenError::System(error.source)),
            },
        }
    }
    Ok(Some(claims))
}

impl Core for Rank {
    fn peer(&mut self, address: &Address) -> Peer {
        let peer = self.peers.at(address);
        if let Some(entry) = self.peers.get_mut(peer)
            && !core::mem::replace(&mut entry.is_named, true)
        {
            self.named += usize::from(peer != OWN);
            self.tell_of_all();
        }
        peer
    }

    fn address_of(&self, peer: Peer) -> Option<Address> {
        self.peers.get(peer).map(|entry| entry.address)
    }

    fn forget(&mut self, peer: Peer) {
        if let Some(entry) = self.peers.get_mut(peer)
            && core::mem::replace(&mut entry.is_named, false)
        {
            self.named -= usize::from(peer != OWN);
        }
    }

    fn lost(&mut self) -> Option<Lost> {
        self.lost.next()
    }

    fn watch(&mut self, peer: Peer) {
        self.lost.watched.insert(peer);
    }

    fn wake_after(&mut self, after: Duration) {
        let at = self.engine.now() + after;
        self.look_at = Some(self.look_at.map_or(at, |before| before.min(at)));
    }

    fn close(&mut self) {
        Rank::close(self);
    }

    unsafe fn send(&mut self, send: &Send<'_>) -> Result<(), PostError> {
        // SAFETY: as the caller promises.
        unsafe { self.post_send(send) }
    }

    unsafe fn receive(&mut self, receive: &Receive<'_>) -> Result<(), PostError> {
        self.post_receive(receive)
    }

    fn peek(&mut self, receive: &Receive<'_>, peek: Peek) -> Result<(), PostError> {
        self.look_for(receive, peek);
        Ok(())
    }

    unsafe fn receive_claimed(
        &mut self,
        pieces: &[Piece],
        ticket: Ticket,
    ) -> Result<(), PostError> {
        self.land_claimed(pieces, ticket)
    }

    fn cancel(&mut self, context: usize) -> bool {
        let Some(posted) = self.matching.cancel(context) else {
            return false;
        };
        self.end(posted.ticket, UNFILLED, Some(Failure::Cancelled));
        true
    }

    unsafe fn register(
        &mut self,
        key: u64,
        piece: Piece,
        access: crate::Access,
        origin: u64,
    ) -> Result<(), PostError> {
        self.add_region(key, piece, access, origin)
    }

    fn deregister(&mut self, key: u64) -> bool {
        let was_there = self.regions.contains_key(&key) && self.engine.node.deregister_region(key);
        // Only now: nobody reaches the buffer any more.
        self.regions.remove(&key);
        was_there
    }

    unsafe fn write(&mut self, transfer: &Transfer<'_>) -> Result<(), PostError> {
        // SAFETY: as the caller promises.
        unsafe { self.post_write(transfer) }
    }

    unsafe fn read(&mut self, transfer: &Transfer<'_>) -> Result<(), PostError> {
        self.post_read(transfer)
    }

    unsafe fn atomic(&mut self, atomic: &Atomic<'_>) -> Result<(), PostError> {
        // SAFETY: as the caller promises.
        unsafe { self.post_atomic(atomic) }
    }

    fn progress(&mut self) {
        self.take_a_turn();
        // Whoever asks for this polls now.
        let now = self.engine.now();
        self.look_at.take_if(|at| *at <= now);
    }

    fn completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    fn statistics(&self) -> Statistics {
        let mut all = Statistics {
            refused_accesses: self.refused_accesses,
            bundles: (self.engine.node.bundle_count().direct).max(self.bundles_most),
            ..Statistics::default()
        };
        for status in self.engine.link_status() {
            if Some(status.id) == self.loopback {
                continue;
            }
            all.links.push(LinkStatistics {
                number: status.id.0,
                address: status.address.ip(),
                up: status.up,
                sent_bytes: 0,
                received_bytes: 0,
                failures: self.link_failures[status.id.index()],
            });
        }
        if let Some(local) = &self.local {
            all.peers += local.iter().count();
            all.local_sent_bytes = local.sent_bytes;
            all.local_received_bytes = local.received_bytes;
        }
        for (_, id) in self.peers.met() {
            let Some(stats) = self.engine.node.peer_stats(id) else {
                continue;
            };
            all.peer_bytes += stats.memory_bytes;
            all.peers += usize::from(self.engine.node.has_been_connected(id));
            all.refused_accesses += stats.op.accesses_refused;
            for path in stats.paths {
                let link = all.links.iter_mut().find(|l| l.number == path.link.0);
                if let Some(link) = link {
                    link.sent_bytes += path.stats.bytes_sent;
                    link.received_bytes += path.stats.bytes_received;
                }
                all.packets_lost += path.stats.packets_lost;
            }
        }
        all
    }
}
