//! Peers on the same node: the same operations, through memory that both share (`crate::local`).
//!
//! A short put or get has its bytes in the record. For a long one, the receiving end reads the bytes from the other process's
//! memory if the system allows that; otherwise they come in records, too. Either way the owner of a region checks a peer's
//! access, each time before any of its bytes are touched.
//!
//! The way by which a peer is reached, this one or the links, is decided when something is first sent there. It stays so,
//! since messages must not overtake each other.

use core::time::Duration;

use tabane_io::shared_memory::{Stretch as Memory, read_process};
use tabane_proto::Time;
use tabane_proto::op::{Get, OpError, Put};
use tabane_proto::wire::{MemoryStatus, PutTarget};

use super::peers::OWN;
use super::streams::{Step, Stream, Work};
use super::{Pending, Rank};
use crate::local::{ASKED_MAX, Called, Caller, Record};
use crate::memory::{self, Buffer};
use crate::wire::Head;
use crate::{Failure, Peer, Piece};

/// Bytes that travel in one record at most. Messages above that are announced: to copy 16 KB into a ring and out again takes as long
/// (11 µs) as to announce and pull 64 KB (13 µs).
pub(super) const INLINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes that are read from another process at a time: meanwhile nothing else happens here.
const PULL_BYTES_MAX: u64 = 4 << 20;
/// Records that one neighbour has taken in before it is another one's turn.
const RECORDS_AT_A_TIME: usize = 64;
/// A process that was seen to live so short a time ago is the one that has its number: numbers are not used again so soon.
const SAME_PROCESS_FOR: Duration = Duration::from_secs(1);

/// How a peer is reached.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// By rings: it is this neighbour.
    Beside(usize),
    /// By the bundle: it is this peer of the node.
    Bundle(tabane_proto::PeerId),
}

/// Why a peer is not reached.
#[derive(Clone, Copy)]
pub(super) enum NoWay {
    /// Try again.
    Later,
    /// It is gone, or unreachable.
    Gone(Failure),
}

/// A part of pieces of memory.
fn part(pieces: &[Memory], mut skip: u64, mut take: u64) -> Vec<Memory> {
    let mut part = Vec::new();
    for (base, bytes) in pieces {
        let skipped = skip.min(*bytes);
        let taken = (bytes - skipped).min(take);
        if taken > 0 {
            part.push((base.wrapping_add(skipped), taken));
        }
        (skip, take) = (skip - skipped, take - taken);
    }
    part
}

fn total(pieces: &[Memory]) -> Option<u64> {
    (pieces.iter()).try_fold(0u64, |sum, (_, bytes)| sum.checked_add(*bytes))
}

fn places(pieces: &[Piece]) -> Vec<Memory> {
    let place = |piece: &Piece| (piece.base.expose_provenance() as u64, piece.bytes as u64);
    pieces.iter().map(place).collect()
}

impl Rank {
    /// The way to a peer. It never changes, so that the order of sending is kept.
    pub(super) fn way(&mut self, now: Time, peer: Peer) -> Result<Way, NoWay> {
        let entry = self
            .peers
            .get(peer)
            .ok_or(NoWay::Gone(Failure::Unreachable))?;
        if let Some(why) = entry.gone {
            return Err(NoWay::Gone(why));
        }
        let (address, slot, is_chosen) = (entry.address, entry.slot, entry.is_way_chosen);
        if let (Some(local), Some(slot)) = (&mut self.local, slot)
            && local
                .get(slot)
                .is_some_and(|neighbour| neighbour.is_called())
        {
            return Ok(Way::Beside(slot));
        }
        let is_here = !is_chosen && self.is_of_this_node(&address);
        if let Some(local) = self.local.as_mut().filter(|_| is_here) {
            match local.call(now, peer, &address, slot) {
                Called::At(slot) => {
                    self.peers.choose(peer, Some(slot));
                    return Ok(Way::Beside(slot));
                }
                Called::Later => return Err(NoWay::Later),
                Called::Elsewhere => {}
            }
        }
        self.peers.choose(peer, slot);
        self.meet(now, peer).map(Way::Bundle).map_err(NoWay::Gone)
    }

    /// Takes in neighbours' records, and continues operations under way. Returns whether anything came.
    pub(super) fn take_beside(&mut self, now: Time) -> bool {
        let Some(local) = &self.local else {
            return false;
        };
        let mut came = false;
        for slot in 0..local.slots() {
            came |= self.take_from(now, slot);
        }
        for _ in 0..self.streams.len() {
            let Some(mut stream) = self.streams.pop_front() else {
                break;
            };
            if !self.step(now, &mut stream) {
                self.streams.push_back(stream);
            } else if stream.work.is_theirs() {
                self.serves(stream.peer, -1);
            }
        }
        came
    }

    /// Takes in new callers. Returns whether somebody has called, or rung.
    pub(super) fn hear_neighbours(&mut self, now: Time) -> bool {
        let has_rung = core::mem::take(&mut self.host.has_rung);
        let Some(local) = self
            .local
            .as_mut()
            .filter(|local| has_rung || local.has_silent())
        else {
            return has_rung;
        };
        if has_rung {
            local.hush();
        }
        self.hear_callers(now);
        has_rung
    }

    /// Takes in new callers, whether somebody has rung or not.
    pub(super) fn hear_callers(&mut self, now: Time) {
        let callers = self.local.as_mut().map(|local| local.callers(now));
        for caller in callers.into_iter().flatten() {
            self.on_caller(now, caller);
        }
    }

    fn on_caller(&mut self, now: Time, caller: Caller) {
        let peer = self.peers.at(&caller.address);
        let is_here = self.is_of_this_node(&caller.address);
        let Some(entry) = self
            .peers
            .get(peer)
            .filter(|e| peer != OWN && e.gone.is_none())
        else {
            return caller.refuse();
        };
        let slot = entry.slot;
        let Some(local) = self.local.as_mut().filter(|_| is_here) else {
            return caller.refuse();
        };
        if let Some(slot) = local.admit(now, peer, slot, caller) {
            self.peers.set_slot(peer, Some(slot));
        }
    }

    fn take_from(&mut self, now: Time, slot: usize) -> bool {
        let neighbour = self.local.as_mut().and_then(|local| local.get(slot));
        if !neighbour.is_some_and(|neighbour| neighbour.has_record() || neighbour.has_owed()) {
            return false;
        }
        let mut body = self.spare.pop().unwrap_or_default();
        let mut came = false;
        for _ in 0..RECORDS_AT_A_TIME {
            let Some(local) = &mut self.local else {
                break;
            };
            let Some(peer) = local.get(slot).map(|neighbour| neighbour.peer) else {
                break;
            };
            match local.read(slot, &mut body) {
                Ok(Some(kind)) => {
                    came = true;
                    let Some((record, begin)) = Record::read(kind, &body) else {
                        self.lose(now, peer, Failure::PeerGone);
                        break;
                    };
                    if record == Record::Message {
                        self.on_message(now, peer, core::mem::take(&mut body));
                        body = self.spare.pop().unwrap_or_default();
                    } else {
                        self.on_record(now, (peer, slot), record, &body[begin..]);
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    self.lose(now, peer, Failure::PeerGone);
                    break;
                }
            }
        }
        self.recycle(body);
        let Some(local) = &mut self.local else {
            return came;
        };
        if came {
            local.tell(slot);
        }
        if let Some(neighbour) = local.get(slot) {
            let peer = neighbour.peer;
            if !neighbour.has_owed() {
                return came;
            }
            if local.say_owed(slot).is_err() {
                self.lose(now, peer, Failure::PeerGone);
            }
        }
        came
    }

    /// A buffer may be used again.
    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        const SPARE_MAX: usize = 64;
        if self.spare.len() < SPARE_MAX && buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
    }

    fn on_record(&mut self, now: Time, (from, slot): (Peer, usize), record: Record, bytes: &[u8]) {
        match record {
            Record::Message => {}
            Record::Put {
                token,
                target,
                offset,
                is_last,
            } => self.on_put((from, slot), (token, target), offset, bytes, is_last),
            Record::Take {
                token,
                target,
                pieces,
            } => match self.own_part(&target.to, true) {
                Ok(_) if total(&pieces) == Some(target.to.total) => {
                    let total = target.to.total;
                    self.begin_theirs(now, from, token, Work::Take(target, pieces), total);
                }
                Ok(_) => self.lose(now, from, Failure::PeerGone),
                Err(status) => self.refuse(slot, token, status),
            },
            Record::Get {
                token,
                from: stretch,
                is_inline,
            } => match self.own_part(&stretch, false) {
                Ok(_) if is_inline || self.is_told(stretch.key) => {
                    let total = stretch.total;
                    self.begin_theirs(now, from, token, Work::Serve(stretch), total);
                }
                Ok(part) => {
                    let pieces = places(part.pieces());
                    self.answer(slot, &Record::Grant { token, pieces });
                }
                Err(status) => self.refuse(slot, token, status),
            },
            Record::Bytes {
                token,
                offset,
                is_last,
            } => {
                if let Some(buffer) = self.pendings.getting(token, from) {
                    // SAFETY: the program has lent the pieces until the completion, to be written to.
                    unsafe { memory::scatter_at(buffer.pieces(), offset, bytes) };
                    if is_last {
                        self.finish(now, (from, slot), token, MemoryStatus::Done);
                    }
                }
            }
            Record::Grant { token, pieces } => {
                if let Some(buffer) = self.pendings.getting(token, from) {
                    let wanted = memory::length(buffer.pieces()).unwrap_or(0);
                    self.begin(from, token, Work::Fetch(pieces), wanted);
                }
            }
            Record::Done { token, status } => self.finish(now, (from, slot), token, status),
        }
    }

    /// Handles bytes of a peer's put.
    fn on_put(
        &mut self,
        (from, slot): (Peer, usize),
        (token, target): (u64, PutTarget),
        offset: u64,
        bytes: &[u8],
        is_last: bool,
    ) {
        match self.own_part(&target.to, true) {
            Err(status) => self.refuse(slot, token, status),
            Ok(part) => {
                // SAFETY: a registered region is writable as its access says, which was looked at.
                unsafe { memory::scatter_at(part.pieces(), offset, bytes) };
                if is_last {
                    self.on_put_done((from, slot), token, &target);
                }
            }
        }
    }

    fn on_put_done(&mut self, (from, slot): (Peer, usize), token: u64, target: &PutTarget) {
        let status = MemoryStatus::Done;
        self.answer(slot, &Record::Done { token, status });
        self.tell_written(from, &target.to, target.immediate);
    }

    fn refuse(&mut self, slot: usize, token: u64, status: MemoryStatus) {
        self.refused_accesses += 1;
        self.answer(slot, &Record::Done { token, status });
    }

    /// Says something that has no bytes behind it, when there is room.
    fn answer(&mut self, slot: usize, record: &Record) {
        let (kind, words) = record.write();
        self.owe_beside(slot, kind, &[words.as_slice()]);
    }

    /// Says something to a neighbour, when there is room.
    pub(super) fn owe_beside(&mut self, slot: usize, kind: u32, parts: &[&[u8]]) {
        let Some(local) = &mut self.local else {
            return;
        };
        // A caller that was not called yet needs a ring back first.
        let neighbour = local.get(slot).map(|n| (n.peer, n.is_called()));
        let Some((peer, is_called)) = neighbour else {
            return;
        };
        let now = self.engine.now();
        if !is_called && !matches!(self.way(now, peer), Ok(Way::Beside(_))) {
            return self.lose(now, peer, Failure::Unreachable);
        }
        let owed = self
            .local
            .as_mut()
            .map(|local| local.owe(slot, kind, parts));
        if owed.is_some_and(|owed| owed.is_err()) {
            self.lose(now, peer, Failure::PeerGone);
        }
    }

    /// Sends a head and the pieces to a neighbour.
    ///
    /// # Errors
    /// [`OpError::Full`]: there is no room. [`OpError::UnknownPeer`]: it is gone.
    ///
    /// # Safety
    /// The pieces are readable.
    pub(super) unsafe fn say_beside(
        &mut self,
        now: Time,
        slot: usize,
        (kind, head): (u32, &[u8]),
        pieces: &[Piece],
    ) -> Result<(), OpError> {
        let local = self.local.as_mut().ok_or(OpError::Full)?;
        // SAFETY: as the caller promises.
        let bytes = unsafe { memory::slices(pieces) };
        let said = local.say(slot, kind, core::iter::once(head).chain(bytes));
        match said {
            Ok(true) => Ok(()),
            Ok(false) => Err(OpError::Full),
            Err(_) => {
                let peer = local.get(slot).map(|neighbour| neighbour.peer);
                peer.into_iter()
                    .for_each(|peer| self.lose(now, peer, Failure::PeerGone));
                Err(OpError::Full)
            }
        }
    }

    /// Whether one more operation may be under way to a neighbour.
    fn may_ask(&mut self, slot: usize) -> Result<(), OpError> {
        let neighbour = self.local.as_mut().and_then(|local| local.get(slot));
        match neighbour.is_some_and(|neighbour| neighbour.asked < ASKED_MAX) {
            true => Ok(()),
            false => Err(OpError::Full),
        }
    }

    fn asked(&mut self, slot: usize) {
        if let Some(neighbour) = self.local.as_mut().and_then(|local| local.get(slot)) {
            neighbour.asked += 1;
        }
    }

    /// Begins a put to a neighbour.
    ///
    /// # Errors
    /// [`OpError::Full`].
    pub(super) fn put_beside(
        &mut self,
        now: Time,
        (peer, slot): (Peer, usize),
        put: &Put,
    ) -> Result<(), OpError> {
        self.may_ask(slot)?;
        let (token, target) = (put.token, put.target);
        let Some(buffer) = self.pendings.giving(token, peer) else {
            return Ok(());
        };
        let pieces = buffer.pieces().to_vec();
        let neighbour = self.local.as_mut().and_then(|local| local.get(slot));
        let pulls = neighbour.is_some_and(|neighbour| neighbour.pulls());
        if target.to.total > INLINE_BYTES_MAX as u64 && !pulls {
            self.begin(peer, token, Work::Give(target), target.to.total);
            self.asked(slot);
            return Ok(());
        }
        let is_short = target.to.total <= INLINE_BYTES_MAX as u64;
        let record = match is_short {
            true => Record::Put {
                token,
                target,
                offset: 0,
                is_last: true,
            },
            false => Record::Take {
                token,
                target,
                pieces: places(&pieces),
            },
        };
        let (kind, words) = record.write();
        let bytes = if is_short { &pieces[..] } else { &[] };
        // SAFETY: the pieces are of an operation under way, which its poster keeps readable.
        unsafe { self.say_beside(now, slot, (kind, words.as_slice()), bytes)? };
        self.asked(slot);
        Ok(())
    }

    /// Begins a get from a neighbour.
    ///
    /// # Errors
    /// [`OpError::Full`].
    pub(super) fn get_beside(&mut self, now: Time, slot: usize, get: &Get) -> Result<(), OpError> {
        self.may_ask(slot)?;
        let neighbour = self.local.as_mut().and_then(|local| local.get(slot));
        let can_pull = neighbour.is_some_and(|neighbour| neighbour.pid().is_some());
        let record = Record::Get {
            token: get.token,
            from: get.from,
            is_inline: get.from.total <= INLINE_BYTES_MAX as u64 || !can_pull,
        };
        let (kind, words) = record.write();
        // SAFETY: there are no pieces.
        unsafe { self.say_beside(now, slot, (kind, words.as_slice()), &[])? };
        self.asked(slot);
        Ok(())
    }

    /// An operation of this end's was answered.
    fn finish(&mut self, now: Time, (of, slot): (Peer, usize), token: u64, status: MemoryStatus) {
        let is_theirs = |pending: &Pending| {
            pending.peer() == of
                && matches!(pending, Pending::Transfer { .. } | Pending::Fetching { .. })
        };
        if self.pendings.get(token).is_some_and(is_theirs) {
            self.answered(slot);
            self.on_operation(now, token, status);
        }
    }

    /// A neighbour has answered.
    pub(super) fn answered(&mut self, slot: usize) {
        if let Some(neighbour) = self.local.as_mut().and_then(|local| local.get(slot)) {
            neighbour.asked = neighbour.asked.saturating_sub(1);
        }
    }

    fn begin(&mut self, peer: Peer, token: u64, work: Work, total: u64) {
        self.streams.push_back(Stream {
            peer,
            token,
            work,
            done: 0,
            total,
            waits: false,
        });
    }

    /// The same for a peer's operation. A peer that has more under way than allowed is no such endpoint.
    fn begin_theirs(&mut self, now: Time, peer: Peer, token: u64, work: Work, total: u64) {
        match self.serves(peer, 1) <= ASKED_MAX {
            true => self.begin(peer, token, work, total),
            false => self.lose(now, peer, Failure::PeerGone),
        }
    }

    /// So many more streams are under way that this neighbour has begun. How many there are now.
    fn serves(&mut self, peer: Peer, more: i32) -> u32 {
        let slot = self.peers.get(peer).and_then(|entry| entry.slot);
        let local = self.local.as_mut();
        let neighbour = local.zip(slot).and_then(|(local, slot)| local.get(slot));
        neighbour.map_or(0, |neighbour| {
            neighbour.serves = neighbour.serves.saturating_add_signed(more);
            neighbour.serves
        })
    }

    /// Whether a stream goes on without anybody's doing.
    pub(super) fn has_more(&self) -> bool {
        self.streams.iter().any(|stream| !stream.waits)
    }

    /// Continues a stream until the ring is full, or by a bounded part of another process's memory. Returns whether it has
    /// ended.
    fn step(&mut self, now: Time, stream: &mut Stream) -> bool {
        let is_pull = matches!(stream.work, Work::Fetch(_) | Work::Take(..));
        loop {
            match self.go_on(now, stream) {
                Step::Over => return true,
                Step::Waits => stream.waits = true,
                Step::Goes if !is_pull => continue,
                Step::Goes => stream.waits = false,
            }
            return false;
        }
    }

    /// Whether something of this end's waits for a neighbour to make room.
    pub(super) fn owes_beside(&self) -> bool {
        !self.streams.is_empty() || self.local.as_ref().is_some_and(|local| local.owes())
    }

    fn go_on(&mut self, now: Time, stream: &mut Stream) -> Step {
        let Some(slot) = self.peers.get(stream.peer).and_then(|entry| entry.slot) else {
            return Step::Over;
        };
        let left = stream.total - stream.done;
        match &stream.work {
            Work::Give(target) => {
                let (target, token) = (*target, stream.token);
                let Some(buffer) = self.pendings.giving(token, stream.peer) else {
                    return Step::Over;
                };
                let bytes = left.min(INLINE_BYTES_MAX as u64);
                let piece = Buffer::part(buffer.pieces(), stream.done as usize, bytes as usize);
                let record = Record::Put {
                    token,
                    target,
                    offset: stream.done,
                    is_last: bytes == left,
                };
                self.give(now, slot, stream, &record, (piece.pieces(), bytes))
            }
            Work::Serve(from) => match self.own_part(from, false) {
                Err(status) => {
                    self.refuse(slot, stream.token, status);
                    Step::Over
                }
                Ok(all) => {
                    let bytes = left.min(INLINE_BYTES_MAX as u64);
                    let piece = Buffer::part(all.pieces(), stream.done as usize, bytes as usize);
                    let record = Record::Bytes {
                        token: stream.token,
                        offset: stream.done,
                        is_last: bytes == left,
                    };
                    let (peer, from) = (stream.peer, *from);
                    let step = self.give(now, slot, stream, &record, (piece.pieces(), bytes));
                    if matches!(step, Step::Over) && stream.done == stream.total {
                        self.tell_read(peer, &from, false);
                    }
                    step
                }
            },
            Work::Fetch(_) => self.fetch_beside(now, slot, stream),
            Work::Take(..) => self.take_put(now, slot, stream),
        }
    }

    /// Writes the next bytes of a stream, as long as there is room.
    fn give(
        &mut self,
        now: Time,
        slot: usize,
        stream: &mut Stream,
        record: &Record,
        (pieces, bytes): (&[Piece], u64),
    ) -> Step {
        let (kind, words) = record.write();
        // A caller that was not called yet needs a ring back first.
        match self.way(now, stream.peer) {
            Ok(Way::Beside(_)) => {}
            Err(NoWay::Later) => return Step::Waits,
            Ok(Way::Bundle(_)) | Err(NoWay::Gone(_)) => {
                self.lose(now, stream.peer, Failure::Unreachable);
                return Step::Over;
            }
        }
        // SAFETY: the pieces are of an operation under way, or of a region that is registered and may be read.
        match unsafe { self.say_beside(now, slot, (kind, words.as_slice()), pieces) } {
            Err(_) => Step::Waits,
            Ok(()) => {
                stream.done += bytes;
                match stream.done == stream.total {
                    true => Step::Over,
                    false => Step::Goes,
                }
            }
        }
    }

    /// Reads the next bytes of a stream from a neighbour's memory.
    fn pull(
        &mut self,
        now: Time,
        slot: usize,
        stream: &Stream,
        theirs: &[Memory],
        ours: &Buffer,
    ) -> Option<u64> {
        let local = self.local.as_mut()?;
        let neighbour = local.get(slot)?;
        let (pid, seen_at) = (neighbour.pid()?, neighbour.seen_at());
        let bytes = (stream.total - stream.done).min(PULL_BYTES_MAX);
        let from = part(theirs, stream.done, bytes);
        let into = Buffer::part(ours.pieces(), stream.done as usize, bytes as usize);
        // SAFETY: the pieces belong to an operation under way, whose poster keeps them writable, or to a writable region.
        unsafe { read_process(pid, &from, &places(into.pieces())) }.ok()?;
        // Another process may have the number of one that has ended.
        let is_sure = now.since(seen_at) < SAME_PROCESS_FOR || !local.is_dead(slot);
        is_sure.then_some(bytes)
    }

    fn fetch_beside(&mut self, now: Time, slot: usize, stream: &mut Stream) -> Step {
        let (peer, token) = (stream.peer, stream.token);
        let Some(buffer) = self.pendings.getting(token, peer) else {
            return Step::Over;
        };
        let buffer = Buffer::of(buffer.pieces());
        let Work::Fetch(theirs) = &stream.work else {
            return Step::Over;
        };
        let pulled = match total(theirs) == Some(stream.total) {
            true => self.pull(now, slot, stream, theirs, &buffer),
            false => None,
        };
        let Some(bytes) = pulled else {
            self.finish(now, (peer, slot), token, MemoryStatus::NoAccess);
            return Step::Over;
        };
        stream.done += bytes;
        if stream.done < stream.total {
            return Step::Goes;
        }
        self.finish(now, (peer, slot), token, MemoryStatus::Done);
        Step::Over
    }

    fn take_put(&mut self, now: Time, slot: usize, stream: &mut Stream) -> Step {
        let Work::Take(target, theirs) = &stream.work else {
            return Step::Over;
        };
        let target = *target;
        let pulled = match self.own_part(&target.to, true) {
            Err(status) => Err(status),
            Ok(part) => (self.pull(now, slot, stream, theirs, &part)).ok_or(MemoryStatus::NoAccess),
        };
        match pulled {
            Err(status) => {
                self.refuse(slot, stream.token, status);
                Step::Over
            }
            Ok(bytes) => {
                stream.done += bytes;
                if stream.done < stream.total {
                    return Step::Goes;
                }
                self.on_put_done((stream.peer, slot), stream.token, &target);
                Step::Over
            }
        }
    }

    /// Says a message to a neighbour.
    ///
    /// # Errors
    /// [`OpError::Full`].
    ///
    /// # Safety
    /// The pieces are readable.
    pub(super) unsafe fn message_beside(
        &mut self,
        now: Time,
        slot: usize,
        head: &Head,
        pieces: &[Piece],
    ) -> Result<(), OpError> {
        let (kind, _) = Record::Message.write();
        let head = head.write();
        // SAFETY: as the caller promises.
        unsafe { self.say_beside(now, slot, (kind, head.as_slice()), pieces) }
    }

    /// The same for a whole message that must not be dropped.
    pub(super) fn owe_whole_beside(&mut self, slot: usize, whole: &[u8]) {
        let (kind, _) = Record::Message.write();
        self.owe_beside(slot, kind, &[whole]);
    }

    /// The same for a message that must not be dropped.
    pub(super) fn owe_message_beside(&mut self, slot: usize, head: &Head, bytes: &[u8]) {
        let (kind, _) = Record::Message.write();
        self.owe_beside(slot, kind, &[head.write().as_slice(), bytes]);
    }
}
