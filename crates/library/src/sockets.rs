//! The program's open streams and listeners, and the calls that wait for them. The engine's host.

use core::task::{Poll, Waker};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use slab::Slab;
use tabane_engine::{HOST_TOKENS, Host, LoopTurn};
use tabane_io::poll::{Poller, Ready};
use tabane_proto::link::PathState;
use tabane_proto::op::{CODE_REFUSED, OpEvent, Rest};
use tabane_proto::{Event as Happened, Node, PeerId, StreamId, Time};

use crate::loopback::{Loopback, Operations};
use crate::waiting::{Key, Place, Waiter, Wakers};
use crate::{Event, Message, Peer, StreamError};

/// The poller's token that wakes the driver.
pub(crate) const TOKEN_KICK: u64 = HOST_TOKENS;
/// Events kept for a program that does not collect them; the oldest go first.
pub(crate) const EVENTS_MAX: usize = 1024;
/// Connections that wait to be accepted at one listener; further ones are turned away.
pub(crate) const BACKLOG_MAX: usize = 4096;

/// Why a stream is refused: nothing listens for the service.
pub(crate) const CODE_NO_LISTENER: u32 = 1;
/// Why a stream is refused: too many wait to be accepted.
pub(crate) const CODE_BACKLOG_FULL: u32 = 2;
/// The program will not read what still comes.
pub(crate) const CODE_DROPPED: u32 = 3;
/// No link to this end has worked for too long.
pub(crate) const CODE_CUT_OFF: u32 = 4;
/// First byte from the end that accepts a stream.
pub(crate) const ACCEPTED: u8 = 0;

/// A stream of the program, by its index in the table: stream numbers are reused when a peer
/// restarts.
pub(crate) type SlotId = usize;

/// A stream that the program has.
pub(crate) struct Slot {
    pub peer: PeerId,
    pub stream: StreamId,
    /// Waiters for data to read, or the end.
    pub readers: Wakers,
    /// Waiters for room to write, or for everything to have arrived.
    pub writers: Wakers,
    /// Data that had arrived when it broke, to be read before `reading_ended` counts.
    pub rest: Option<Rest>,
    /// Why reading ended, if not by the normal end.
    pub reading_ended: Option<StreamError>,
    /// Why writing ended, if not by the normal end.
    pub writing_ended: Option<StreamError>,
    /// Everything written and the end were acknowledged.
    pub is_finished: bool,
    /// This end reset it before they were.
    pub is_reset: bool,
    /// No link to the peer has worked for too long; arrived data can still be read.
    pub is_cut_off: bool,
}

impl Slot {
    /// Whether this end's direction is still open. The node may not know a closed one, or may use
    /// its number for another stream: the peer may have restarted.
    pub fn sends(&self) -> bool {
        match self.writing_ended {
            None => true,
            Some(StreamError::Finished) => !self.is_finished && !self.is_reset,
            Some(_) => false,
        }
    }

    /// The same for the peer's direction.
    pub const fn receives(&self) -> bool {
        self.reading_ended.is_none()
    }
}

/// Streams that wait to be accepted.
#[derive(Default)]
pub(crate) struct Backlog {
    pub streams: VecDeque<SlotId>,
    pub acceptors: Wakers,
}

/// Waiters for one peer.
#[derive(Default)]
struct PeerWaiters {
    /// For room for a message.
    room: Wakers,
    /// For it to be there.
    up: Wakers,
}

/// What the program has open.
#[derive(Default)]
pub(crate) struct Sockets {
    pub slots: Slab<Slot>,
    by_stream: HashMap<(PeerId, StreamId), SlotId>,
    pub listeners: BTreeMap<u32, Backlog>,
    /// By their numbers.
    known: Vec<Option<Peer>>,
    /// Peers that may have messages for the program.
    pub mail: VecDeque<PeerId>,
    /// A message that was too long for the last caller: the next one to deliver.
    pub kept: Option<Message>,
    pub mail_waiters: Wakers,
    /// By the numbers of the peers.
    peers: Vec<PeerWaiters>,
    pub events: VecDeque<Event>,
    /// How many went since the program last asked.
    events_missed: u64,
    pub event_waiters: Wakers,
    /// Peers to which more than one path works, as last reported to the program.
    redundant: BTreeSet<PeerId>,
    /// When to break the streams of peers to which no link works (or check again).
    cut_off_at: BTreeMap<PeerId, Time>,
    /// The node as a peer of its own.
    pub own: Loopback,
    /// How long no link may have worked; `None`: however long.
    pub peer_timeout: Option<Duration>,
    /// A task or descriptor waits: the helper must not leave the node alone.
    pub has_tasks: bool,
    woken: Vec<Waker>,
    /// Wakers of calls that no longer wait: dropped without the lock, because they may own tasks.
    dropped: Vec<Waker>,
    /// The driver, if it waits for something: it need not be woken for that.
    pub driving: Option<Key>,
    /// Numbers calls that wait.
    calls: u64,
    /// The program wrote something small, and will wait for an answer.
    pub wrote_small: bool,
    /// A buffer.
    pub ready: Vec<Ready>,
}

impl Sockets {
    /// There is this peer.
    pub fn know(&mut self, peer: Peer) {
        let number = peer.id.0 as usize;
        if number >= self.known.len() {
            self.known.resize(number + 1, None);
        }
        self.known[number] = Some(peer);
    }

    /// The peer of this number.
    pub fn peer(&self, id: PeerId) -> Peer {
        let known = self.known.get(id.0 as usize).cloned().flatten();
        known.unwrap_or_else(|| Peer::new(id, ""))
    }

    pub fn insert(&mut self, peer: PeerId, stream: StreamId) -> SlotId {
        let slot = self.slots.insert(Slot {
            peer,
            stream,
            readers: Wakers::default(),
            writers: Wakers::default(),
            rest: None,
            reading_ended: None,
            writing_ended: None,
            is_finished: false,
            is_reset: false,
            is_cut_off: false,
        });
        self.by_stream.insert((peer, stream), slot);
        slot
    }

    /// The program has done with a stream.
    pub fn remove(&mut self, id: SlotId) -> Slot {
        let slot = self.slots.remove(id);
        let key = (slot.peer, slot.stream);
        if self.by_stream.get(&key) == Some(&id) {
            self.by_stream.remove(&key);
        }
        slot
    }

    /// Those to be woken since the last time.
    pub fn take_woken(&mut self) -> Vec<Waker> {
        core::mem::take(&mut self.woken)
    }

    /// Wakers to be dropped without the lock.
    pub fn take_dropped(&mut self) -> Vec<Waker> {
        core::mem::take(&mut self.dropped)
    }

    fn waiters(&mut self, place: Place) -> Option<&mut Wakers> {
        match place {
            Place::Mail => Some(&mut self.mail_waiters),
            Place::Events => Some(&mut self.event_waiters),
            Place::Room(peer) => Some(&mut self.peer_waiters(peer).room),
            Place::Peer(peer) => Some(&mut self.peer_waiters(peer).up),
            Place::Accept(service) => Some(&mut self.listeners.get_mut(&service)?.acceptors),
            Place::Read(slot) => Some(&mut self.slots.get_mut(slot)?.readers),
            Place::Write(slot) => Some(&mut self.slots.get_mut(slot)?.writers),
        }
    }

    fn peer_waiters(&mut self, peer: PeerId) -> &mut PeerWaiters {
        let index = peer.0 as usize;
        if index >= self.peers.len() {
            self.peers.resize_with(index + 1, PeerWaiters::default);
        }
        &mut self.peers[index]
    }

    #[cfg(test)]
    pub fn waiting_for_peers(&self) -> usize {
        let waiters = self
            .peers
            .iter()
            .map(|peer| peer.up.count() + peer.room.count());
        waiters.sum()
    }

    /// The caller is woken when it may be there.
    pub fn wait(&mut self, place: Place, waiter: &mut Waiter) {
        let mut calls = self.calls;
        let (key, waker) = waiter.note(place, &mut calls);
        self.calls = calls;
        if let Some(waiters) = self.waiters(place) {
            let before = waiters.add(key, waker);
            self.dropped.extend(before);
        }
    }

    /// A call has ended, or was given up. If it had been woken for something, another one may have that.
    pub fn forget(&mut self, waiter: &mut Waiter) {
        let Some(key) = waiter.key() else { return };
        for place in waiter.take_places() {
            let Some(waiters) = self.waiters(place) else {
                continue;
            };
            match waiters.remove(key) {
                Some(waker) => self.dropped.push(waker),
                None => self.pass_on(place),
            }
        }
    }

    /// The caller got what it waited for there; if there is more, the next waiter is woken.
    pub fn serve(&mut self, place: Place, waiter: &mut Waiter) {
        waiter.strike(place);
        let waker = waiter
            .key()
            .and_then(|key| self.waiters(place)?.remove(key));
        self.dropped.extend(waker);
    }

    fn pass_on(&mut self, place: Place) {
        let is_there = match place {
            Place::Mail => self.kept.is_some() || !self.mail.is_empty(),
            Place::Events => !self.events.is_empty(),
            // A caller without room keeps waiting.
            Place::Room(_) => true,
            Place::Accept(service) => self
                .listeners
                .get(&service)
                .is_some_and(|backlog| !backlog.streams.is_empty()),
            // All of them were woken.
            Place::Peer(_) | Place::Read(_) | Place::Write(_) => false,
        };
        if is_there {
            self.wake_one(place);
        }
    }

    /// Wakes one waiter.
    fn wake_one(&mut self, place: Place) {
        let mut woken = core::mem::take(&mut self.woken);
        let driving = self.driving;
        if let Some(waiters) = self.waiters(place) {
            waiters.wake_one(driving, &mut woken);
        }
        self.woken = woken;
    }

    /// Wakes all waiters.
    pub fn wake_all(&mut self) {
        for (_, slot) in &mut self.slots {
            slot.readers.wake(&mut self.woken);
            slot.writers.wake(&mut self.woken);
        }
        for backlog in self.listeners.values_mut() {
            backlog.acceptors.wake(&mut self.woken);
        }
        for peer in &mut self.peers {
            peer.room.wake(&mut self.woken);
            peer.up.wake(&mut self.woken);
        }
        self.mail_waiters.wake(&mut self.woken);
        self.event_waiters.wake(&mut self.woken);
    }

    /// Wakes all waiters for a stream.
    pub fn wake_slot(&mut self, id: SlotId) {
        self.slots[id].readers.wake(&mut self.woken);
        self.slots[id].writers.wake(&mut self.woken);
    }

    /// The next event, if there is one; else the caller is woken by it.
    pub fn poll_event(&mut self, waiter: &mut Waiter) -> Poll<Event> {
        let missed = core::mem::take(&mut self.events_missed);
        if missed > 0 {
            return Poll::Ready(Event::Missed { count: missed });
        }
        match self.events.pop_front() {
            Some(event) => {
                if self.events.is_empty() {
                    self.event_waiters.lower();
                }
                Poll::Ready(event)
            }
            None => {
                self.event_waiters.lower();
                self.wait(Place::Events, waiter);
                Poll::Pending
            }
        }
    }

    /// Keeps a message for the next caller, because no current one could take it.
    pub fn keep(&mut self, message: Message) {
        self.kept = Some(message);
        self.wake_one(Place::Mail);
    }

    /// Keeps an event until the program asks; if there are too many, the oldest goes and is counted.
    pub fn tell(&mut self, event: Event) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
            self.events_missed += 1;
        }
        self.events.push_back(event);
        self.wake_one(Place::Events);
    }

    fn slot(&mut self, peer: PeerId, stream: StreamId) -> Option<&mut Slot> {
        let id = *self.by_stream.get(&(peer, stream))?;
        self.slots.get_mut(id)
    }

    fn wake_readers(&mut self, peer: PeerId, stream: StreamId) {
        if let Some(id) = self.by_stream.get(&(peer, stream)) {
            self.slots[*id].readers.wake(&mut self.woken);
        }
    }

    fn wake_writers(&mut self, peer: PeerId, stream: StreamId) {
        if let Some(id) = self.by_stream.get(&(peer, stream)) {
            self.slots[*id].writers.wake(&mut self.woken);
        }
    }

    fn opened(&mut self, now: Time, node: &mut Node, peer: PeerId, id: StreamId, service: u32) {
        let own = &mut self.own;
        let mut operations = Operations { node, own };
        let mut refuse = |code| {
            // The refused stream may be gone already.
            let _ = operations.reset(now, peer, id, code);
            let _ = operations.stop(now, peer, id, code);
        };
        match self.listeners.get(&service) {
            None => return refuse(CODE_NO_LISTENER),
            Some(backlog) if backlog.streams.len() >= BACKLOG_MAX => {
                return refuse(CODE_BACKLOG_FULL);
            }
            Some(_) => {}
        }
        // A stream that was just opened takes a byte, unless it is broken, which an event reports.
        let _ = operations.write(now, peer, id, &[ACCEPTED]);
        let slot = self.insert(peer, id);
        if let Some(backlog) = self.listeners.get_mut(&service) {
            backlog.streams.push_back(slot);
        }
        self.wake_one(Place::Accept(service));
    }

    /// A stream ended before its time, in one direction or both.
    fn ended(
        &mut self,
        peer: PeerId,
        stream: StreamId,
        reading: Option<StreamError>,
        writing: Option<StreamError>,
    ) {
        if let Some(slot) = self.slot(peer, stream) {
            slot.reading_ended = slot.reading_ended.or(reading);
            // A finished stream may be stopped by the peer, or broken, before its end has arrived.
            slot.writing_ended = match (slot.writing_ended, writing) {
                (None | Some(StreamError::Finished), Some(why)) => Some(why),
                (_, Some(StreamError::Broken)) => writing,
                (ended, _) => ended,
            };
        }
        self.wake_readers(peer, stream);
        self.wake_writers(peer, stream);
    }

    /// When the next streams are to be broken.
    pub fn next_cut_off(&self) -> Option<Time> {
        self.cut_off_at.values().copied().min()
    }

    /// Notes since when no link to a peer works. That may have changed with any event of it.
    fn watch(&mut self, now: Time, node: &Node, peer: PeerId) {
        let Some(timeout) = self.peer_timeout else {
            return;
        };
        let works = |state| matches!(state, PathState::Up | PathState::Suspect);
        let has_links = node.path_states(peer).next().is_some();
        let through_others = !has_links && node.is_connected(peer);
        if through_others || node.path_states(peer).any(|(_, state)| works(state)) {
            self.cut_off_at.remove(&peer);
        } else {
            self.cut_off_at.entry(peer).or_insert(now + timeout);
        }
    }

    /// Breaks the streams of peers to which no link has worked for too long.
    pub fn cut_off(&mut self, now: Time, node: &mut Node) {
        let Some(timeout) = self.peer_timeout else {
            return;
        };
        if self.next_cut_off().is_none_or(|at| at > now) {
            return;
        }
        let due = self.cut_off_at.iter().filter(|(_, at)| **at <= now);
        for peer in due.map(|(peer, _)| *peer).collect::<Vec<_>>() {
            self.break_streams(now, node, peer);
            // It may not be known for down yet: then streams can still be opened.
            match node.is_connected(peer) {
                true => self.cut_off_at.insert(peer, now + timeout),
                false => self.cut_off_at.remove(&peer),
            };
        }
    }

    fn break_streams(&mut self, now: Time, node: &mut Node, peer: PeerId) {
        let slots = self.slots.iter_mut().map(|(_, slot)| slot);
        for slot in slots.filter(|slot| slot.peer == peer && !slot.is_cut_off) {
            slot.is_cut_off = true;
            if slot.sends() {
                // The peer gets to know if it comes back.
                let _ = node.reset_stream(now, peer, slot.stream, CODE_CUT_OFF);
                slot.writing_ended = Some(StreamError::Unreachable);
            }
            slot.readers.wake(&mut self.woken);
            slot.writers.wake(&mut self.woken);
        }
    }

    /// Reports events of streams and messages from this node to itself.
    pub fn tell_own(&mut self, now: Time, node: &mut Node) {
        while let Some((own, event)) = self.own.id().zip(self.own.events.pop_front()) {
            self.on_op(now, node, own, event);
        }
    }

    fn on_op(&mut self, now: Time, node: &mut Node, peer: PeerId, event: OpEvent) {
        match event {
            OpEvent::StreamOpened { id, service } => self.opened(now, node, peer, id, service),
            OpEvent::Readable(id) => self.wake_readers(peer, id),
            OpEvent::Writable(id) => self.wake_writers(peer, id),
            OpEvent::Finished(id) => {
                if let Some(slot) = self.slot(peer, id) {
                    slot.is_finished = true;
                }
                self.wake_writers(peer, id);
            }
            OpEvent::Reset { id, code } => {
                self.ended(peer, id, Some(StreamError::Reset(code)), None);
            }
            OpEvent::Stopped { id, code } => {
                self.ended(peer, id, None, Some(StreamError::Stopped(code)));
            }
            OpEvent::Broken(id) => {
                if let Some(slot) = self
                    .slot(peer, id)
                    .filter(|slot| slot.reading_ended.is_none())
                {
                    slot.rest = node.take_rest();
                }
                let broken = Some(StreamError::Broken);
                self.ended(peer, id, broken, broken);
                // Its number may be another stream's from now on.
                self.by_stream.remove(&(peer, id));
            }
            OpEvent::MessageReady => {
                self.mail.push_back(peer);
                self.wake_one(Place::Mail);
            }
            OpEvent::MessageRoom => self.wake_one(Place::Room(peer)),
            OpEvent::MessagesBroken { count } => {
                let name = node.peer_name(peer).unwrap_or_default().to_owned();
                self.tell(Event::MessagesBroken { peer: name, count });
                self.wake_one(Place::Room(peer));
            }
            // A node of the library begins no memory operations, and has no region.
            OpEvent::Operation { .. } | OpEvent::Written { .. } | OpEvent::Read { .. } => {}
        }
    }

    /// Reports redundancy that a path's failure or return took or gave. Several paths may have
    /// changed since the last event; they are reported one by one.
    fn tell_redundancy(&mut self, node: &Node, happened: &Happened) {
        let (Happened::LinkDown { peer, .. }
        | Happened::LinkUp { peer, .. }
        | Happened::PeerDown { peer, .. }) = happened
        else {
            return;
        };
        let Some(name) = node.peer_name(*peer) else {
            return;
        };
        let has_failed = matches!(happened, Happened::LinkDown { .. });
        let working = paths_up(node, *peer);
        if let Some(event) = self.redundancy(*peer, name.to_owned(), working, has_failed) {
            self.tell(event);
        }
    }

    /// The event for this number of working paths to a peer, if any.
    fn redundancy(
        &mut self,
        id: PeerId,
        peer: String,
        working: usize,
        has_failed: bool,
    ) -> Option<Event> {
        if working > 1 {
            let is_new = self.redundant.insert(id);
            return is_new.then_some(Event::RedundancyRestored { peer });
        }
        let was_lost = self.redundant.remove(&id);
        (was_lost && has_failed).then_some(Event::RedundancyLost { peer })
    }
}

/// How many paths to a peer work.
fn paths_up(node: &Node, peer: PeerId) -> usize {
    let states = node.path_states(peer);
    states.filter(|(_, state)| *state == PathState::Up).count()
}

/// Whether a stream was refused for good or for now; `None`: the code is no refusal.
pub(crate) const fn refusal(code: u32) -> Option<crate::ConnectError> {
    match code {
        CODE_NO_LISTENER => Some(crate::ConnectError::Refused),
        CODE_BACKLOG_FULL | CODE_REFUSED => Some(crate::ConnectError::Busy),
        _ => None,
    }
}

impl Host for Sockets {
    fn event(&mut self, now: Time, node: &mut Node, event: Happened) {
        if let Some(event) = Event::of(node, &event) {
            self.tell(event);
        }
        self.tell_redundancy(node, &event);
        if let Happened::PeerUp { peer, .. }
        | Happened::PeerDown { peer, .. }
        | Happened::LinkUp { peer, .. }
        | Happened::LinkDown { peer, .. } = event
        {
            self.watch(now, node, peer);
        }
        if let Happened::PeerUp { peer, .. } = event {
            let mut woken = core::mem::take(&mut self.woken);
            self.peer_waiters(peer).up.wake(&mut woken);
            self.woken = woken;
        }
        if let Happened::Op { peer, event } = event {
            self.on_op(now, node, peer, event);
        }
    }

    fn frame(&mut self, _from: PeerId, _frame: &mut Vec<u8>) {}

    fn ready(&mut self, _turn: &mut LoopTurn<'_>, _ready: Ready) {}

    fn produce(&mut self, _now: Time, _node: &mut Node) -> bool {
        core::mem::take(&mut self.wrote_small)
    }

    fn before_wait(&mut self, _node: &Node, _poller: &Poller) -> bool {
        false
    }

    fn link_changed(&mut self, text: &str) {
        let text = text.to_owned();
        self.tell(Event::Link { text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redundancy_is_told_when_it_changes_however_many_paths_did() {
        let (id, up, down) = (PeerId(0), false, true);
        let peer = || "b".to_owned();
        let (lost, restored) = (
            Some(Event::RedundancyLost { peer: peer() }),
            Some(Event::RedundancyRestored { peer: peer() }),
        );
        let mut sockets = Sockets::default();
        // Paths that work when the event is reported: several may have changed at once.
        for (working, has_failed, told) in [
            (1, up, &None),
            (3, up, &restored),
            (3, up, &None),
            (2, down, &None),
            (0, down, &lost),
            (0, down, &None),
            (2, up, &restored),
            (2, up, &None),
            (1, down, &lost),
            (0, down, &None),
            (1, up, &None),
        ] {
            assert_eq!(&sockets.redundancy(id, peer(), working, has_failed), told);
        }
    }

    #[test]
    fn who_looks_late_is_told_how_many_events_went() {
        let mut sockets = Sockets::default();
        let event = |number: usize| Event::Link {
            text: number.to_string(),
        };
        (0..EVENTS_MAX + 2).for_each(|number| sockets.tell(event(number)));
        let mut waiter = Waiter::new(Waker::noop().clone());
        let mut next = || sockets.poll_event(&mut waiter);
        assert_eq!(next(), Poll::Ready(Event::Missed { count: 2 }));
        for number in 2..EVENTS_MAX + 2 {
            assert_eq!(next(), Poll::Ready(event(number)));
        }
        assert_eq!(next(), Poll::Pending);
    }
}
