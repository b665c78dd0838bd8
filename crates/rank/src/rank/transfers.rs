//! Memory of others: regions, writes, reads.

use tabane_proto::Time;
use tabane_proto::op::{Get, OpError, Put, Region};
use tabane_proto::wire::{MemoryStatus, PutTarget, Stretch};

use super::beside::{NoWay, Way};
use super::messages::checked_length;
use super::peers::OWN;
use super::{Pending, Rank};
use crate::memory::{self, Buffer};
use crate::{
    Access, Completion, Ended, Failure, INJECT_BYTES_MAX, Peer, Piece, PostError, Ticket, Transfer,
};

/// Why the owner of a region refused.
pub(super) const fn failure(status: MemoryStatus) -> Option<Failure> {
    match status {
        MemoryStatus::Done => None,
        MemoryStatus::BadKey => Some(Failure::BadKey),
        MemoryStatus::NoAccess => Some(Failure::NoAccess),
        MemoryStatus::OutOfBounds => Some(Failure::OutOfBounds),
        MemoryStatus::Broken => Some(Failure::PeerGone),
    }
}

const fn post_error(error: OpError) -> PostError {
    match error {
        OpError::Full => PostError::Again,
        OpError::TooLarge { .. } => PostError::TooLarge,
        OpError::KeyInUse => PostError::Invalid,
        _ => PostError::NoPeer,
    }
}

/// The largest offset in a region for a put or get (`docs/protocol.md`, numbers).
const PLACE_MAX: u64 = (1 << 62) - 1;

impl Rank {
    /// As [`Core::register`](crate::Core::register).
    pub(super) fn add_region(
        &mut self,
        key: u64,
        piece: Piece,
        access: Access,
        origin: u64,
    ) -> Result<(), PostError> {
        if piece.base.addr().checked_add(piece.bytes).is_none() {
            return Err(PostError::Invalid);
        }
        let buffer = Buffer::of(&[piece]);
        let region = Region {
            handle: buffer.handle(),
            bytes: piece.bytes as u64,
            origin,
            is_readable: access.remote_read,
            is_writable: access.remote_write,
            is_told: access.is_told,
        };
        let node = &mut self.engine.node;
        node.register_region(key, region).map_err(post_error)?;
        self.regions.insert(key, buffer);
        Ok(())
    }

    /// A part of a region of this endpoint's own, or of a message that it has announced.
    pub(super) fn own_part(
        &self,
        stretch: &Stretch,
        writes: bool,
    ) -> Result<Box<Buffer>, MemoryStatus> {
        let region = self.engine.node.region(stretch.key);
        let region = region.ok_or(MemoryStatus::BadKey)?;
        let skip = region.admits(stretch, writes)?;
        // SAFETY: regions are deregistered before their buffers are dropped.
        Ok(unsafe { Buffer::part_of(region.handle, skip as usize, stretch.total as usize) })
    }

    /// As [`Core::write`](crate::Core::write).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn post_write(&mut self, transfer: &Transfer<'_>) -> Result<(), PostError> {
        let bytes = checked_length(transfer.pieces)?;
        if transfer.inject && bytes > INJECT_BYTES_MAX as u64 {
            return Err(PostError::TooLarge);
        }
        let buffer = match transfer.inject {
            // SAFETY: as the caller promises.
            true => unsafe { Buffer::copy(transfer.pieces) },
            false => Buffer::of(transfer.pieces),
        };
        let to = stretch(transfer, bytes);
        let ticket = transfer.ticket;
        if transfer.peer == OWN {
            let mut all = Vec::new();
            // SAFETY: as the caller promises.
            unsafe { memory::append(transfer.pieces, &mut all) };
            let written = self.own_part(&to, true).map(|part| {
                // SAFETY: a registered region is writable.
                unsafe { memory::scatter(part.pieces(), 0, &all) };
            });
            self.end(ticket, Ended::Write, written.err().and_then(failure));
            if written.is_ok() {
                self.tell_written(OWN, &to, transfer.data);
            }
            return Ok(());
        }
        let now = self.engine.now();
        let handle = buffer.handle();
        let token = self.pendings.insert(Pending::Transfer {
            peer: transfer.peer,
            ended: Ended::Write,
            bytes,
            buffer,
            ticket,
        });
        let put = Put {
            handle,
            target: PutTarget {
                to,
                immediate: transfer.data,
            },
            token,
        };
        let begun = self.start(now, transfer.peer, bytes as usize, |rank, way| match way {
            Way::Bundle(id) => rank.engine.node.put(now, id, put),
            Way::Beside(slot) => rank.put_beside(now, (transfer.peer, slot), &put),
        });
        self.not_started(now, begun, transfer.peer, token, (ticket, Ended::Write))
    }

    /// Has something begun with a peer, by the way that leads there.
    fn start(
        &mut self,
        now: Time,
        peer: Peer,
        bytes: usize,
        begin: impl FnOnce(&mut Rank, Way) -> Result<(), OpError>,
    ) -> Result<(), PostError> {
        let way = self.way(now, peer).map_err(|no| match no {
            NoWay::Later => PostError::Again,
            NoWay::Gone(_) => PostError::NoPeer,
        })?;
        let is_quiet = match way {
            Way::Bundle(id) => self.engine.node.is_quiet(id),
            Way::Beside(_) => false,
        };
        begin(self, way).map_err(post_error)?;
        if let Way::Bundle(_) = way {
            self.posted(now, bytes + 64, is_quiet);
        }
        Ok(())
    }

    /// If something was not begun, it is not under way.
    pub(super) fn not_started(
        &mut self,
        now: Time,
        begun: Result<(), PostError>,
        peer: Peer,
        token: u64,
        gone: (Ticket, Ended),
    ) -> Result<(), PostError> {
        let Err(error) = begun else {
            return Ok(());
        };
        match self.pendings.remove(token) {
            Some(_) => self.not_said(now, error, peer, gone),
            // Its peer was lost meanwhile, which was reported.
            None => Ok(()),
        }
    }

    /// As [`Core::read`](crate::Core::read).
    pub(super) fn post_read(&mut self, transfer: &Transfer<'_>) -> Result<(), PostError> {
        let bytes = checked_length(transfer.pieces)?;
        let from = stretch(transfer, bytes);
        let ticket = transfer.ticket;
        if transfer.peer == OWN {
            let read = self.own_part(&from, false).map(|part| {
                let mut all = Vec::new();
                // SAFETY: a registered region is readable, and where the bytes go is writable, as the caller of `Core::read`
                // promises.
                unsafe {
                    memory::append(part.pieces(), &mut all);
                    memory::scatter(transfer.pieces, 0, &all);
                }
            });
            self.end(ticket, Ended::Read, read.err().and_then(failure));
            if read.is_ok() {
                self.tell_read(OWN, &from, false);
            }
            return Ok(());
        }
        let now = self.engine.now();
        let buffer = Buffer::of(transfer.pieces);
        let handle = buffer.handle();
        let token = self.pendings.insert(Pending::Transfer {
            peer: transfer.peer,
            ended: Ended::Read,
            bytes,
            buffer,
            ticket,
        });
        let get = Get {
            from,
            handle,
            token,
        };
        let begun = self.start(now, transfer.peer, 0, |rank, way| {
            rank.get_by(now, way, get)
        });
        self.not_started(now, begun, transfer.peer, token, (ticket, Ended::Read))
    }

    fn get_by(&mut self, now: Time, way: Way, get: Get) -> Result<(), OpError> {
        match way {
            Way::Bundle(id) => self.engine.node.get(now, id, get),
            Way::Beside(slot) => self.get_beside(now, slot, &get),
        }
    }

    /// Begins a get of this endpoint's own; if there is no room, when there is.
    pub(super) fn begin_get(&mut self, now: Time, peer: Peer, token: u64, get: Get) {
        let way = match self.way(now, peer) {
            Ok(way) => way,
            Err(NoWay::Later) => return self.owed_gets.push_back((peer, get)),
            Err(NoWay::Gone(why)) => {
                if let Some(pending) = self.pendings.remove(token) {
                    self.fail(pending, why);
                }
                return;
            }
        };
        let is_quiet = matches!(way, Way::Bundle(id) if self.engine.node.is_quiet(id));
        match (self.get_by(now, way, get), way) {
            (Ok(()), Way::Bundle(_)) => self.posted(now, 64, is_quiet),
            (Ok(()), Way::Beside(_)) => {}
            (Err(OpError::Full), _) => self.owed_gets.push_back((peer, get)),
            (Err(_), _) => self.lose(now, peer, Failure::PeerGone),
        }
    }

    /// A put or a get has ended.
    pub(super) fn on_operation(&mut self, now: Time, token: u64, status: MemoryStatus) {
        match self.pendings.remove(token) {
            Some(Pending::Transfer {
                ended,
                bytes,
                ticket,
                ..
            }) => {
                self.end(ticket, ended, failure(status));
                if let Some(completion) = self.completions.back_mut() {
                    completion.bytes = bytes;
                }
            }
            Some(fetching @ Pending::Fetching { .. }) => self.on_fetched(now, fetching, status),
            // Its peer was lost before.
            _ => {}
        }
    }

    /// Whether the program is notified of accesses to a region. Then no other process reads its bytes directly, because nobody
    /// here would know when it has them.
    pub(super) fn is_told(&self, key: u64) -> bool {
        self.engine
            .node
            .region(key)
            .is_some_and(|region| region.is_told)
    }

    /// A peer has written to a region here: notifies the program if the peer or the region asks for it.
    pub(super) fn tell_written(&mut self, peer: Peer, to: &Stretch, immediate: Option<u64>) {
        if immediate.is_some() || self.is_told(to.key) {
            let ended = Ended::Written { key: to.key };
            self.on_accessed(peer, ended, immediate, to.total);
        }
    }

    /// A peer has read a region here, and `written` if it was an atomic operation: notifies the program if the region asks for
    /// it.
    pub(super) fn tell_read(&mut self, peer: Peer, from: &Stretch, written: bool) {
        if self.is_told(from.key) {
            let key = from.key;
            self.on_accessed(peer, Ended::WasRead { key, written }, None, from.total);
        }
    }

    /// A peer has written to or read from a region here, and the program is to know.
    pub(super) fn on_accessed(&mut self, peer: Peer, ended: Ended, data: Option<u64>, bytes: u64) {
        let completion = Completion {
            ticket: Ticket::default(),
            ended,
            bytes,
            tag: None,
            data,
            source: self.source(peer),
            failure: None,
        };
        self.completions.push_back(completion);
    }
}

const fn stretch(transfer: &Transfer<'_>, bytes: u64) -> Stretch {
    Stretch {
        key: transfer.remote.key,
        // An offset too large for the wire is beyond every region, too.
        base: match transfer.remote.offset {
            offset if offset > PLACE_MAX => PLACE_MAX,
            offset => offset,
        },
        total: bytes,
    }
}
