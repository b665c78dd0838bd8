//! Atomic operations: computed by the owner of the region, one after the other.

use tabane_proto::Time;
use tabane_proto::wire::{MemoryStatus, Stretch};

use super::messages::checked_length;
use super::peers::OWN;
use super::transfers::failure;
use super::{Pending, Rank};
use crate::arithmetic;
use crate::memory;
use crate::wire::{AtomicHead, FLOW_ATOMICS, Head};
use crate::{ATOMIC_BYTES_MAX, Atomic, Ended, Failure, Number, Operation, Peer, Piece, PostError};

/// How an atomic operation ended, beside what [`MemoryStatus`] says.
const UNSUPPORTED: u8 = 255;

impl Rank {
    /// As [`Core::atomic`](crate::Core::atomic).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn post_atomic(&mut self, atomic: &Atomic<'_>) -> Result<(), PostError> {
        let bytes = checked_length(atomic.operand)?;
        let bytes = match atomic.result {
            // A pure read has no operand.
            Some(result) if atomic.operation == Operation::Read => checked_length(result)?,
            _ => bytes,
        };
        if bytes > ATOMIC_BYTES_MAX as u64 {
            return Err(PostError::TooLarge);
        }
        let fits = |pieces: Option<&[Piece]>| {
            pieces.is_none_or(|pieces| checked_length(pieces) == Ok(bytes))
        };
        let is_whole = bytes % atomic.number.bytes() as u64 == 0;
        let compares = atomic.operation.compares();
        if !is_whole
            || !fits(atomic.result)
            || !fits(atomic.compare)
            || compares != atomic.compare.is_some()
            || !atomic.operation.takes(atomic.number)
        {
            return Err(PostError::Invalid);
        }
        let now = self.engine.now();
        let mut operands = Vec::new();
        // SAFETY: as the caller promises.
        unsafe {
            memory::append(atomic.operand, &mut operands);
            operands.resize(bytes as usize, 0);
            memory::append(atomic.compare.unwrap_or(&[]), &mut operands);
        }
        let pending = Pending::Atomic {
            peer: atomic.peer,
            result: atomic.result.map(<[Piece]>::to_vec),
            bytes,
            ticket: atomic.ticket,
        };
        let id = self.pendings.insert(pending);
        let head = AtomicHead {
            id,
            key: atomic.remote.key,
            offset: atomic.remote.offset,
            operation: atomic.operation as u8,
            number: atomic.number as u8,
            fetches: atomic.result.is_some(),
            compares,
        };
        if atomic.peer == OWN {
            let (status, before) = self.compute(OWN, &head, &operands);
            self.on_atomic_done(OWN, id, status, &before);
            return Ok(());
        }
        let piece = Piece {
            base: operands.as_mut_ptr(),
            bytes: operands.len(),
        };
        let head = Head::Atomic(head);
        // SAFETY: the piece is `operands`.
        let said = unsafe { self.say(now, atomic.peer, FLOW_ATOMICS, &head, &[piece]) };
        let gone = (atomic.ticket, Ended::Atomic);
        self.not_started(now, said, atomic.peer, id, gone)
    }

    /// A peer asks for an atomic operation on a region here.
    pub(super) fn on_atomic(&mut self, now: Time, from: Peer, head: &AtomicHead, operands: &[u8]) {
        let (status, before) = self.compute(from, head, operands);
        let answer = Head::AtomicDone {
            id: head.id,
            status,
        };
        self.owe(now, from, FLOW_ATOMICS, &answer, &before);
    }

    /// Executes it; returns its status, and the old value if that is wanted.
    fn compute(&mut self, from: Peer, head: &AtomicHead, operands: &[u8]) -> (u8, Vec<u8>) {
        let known =
            arithmetic::number(head.number).zip(Operation::from_number(head.operation.into()));
        let Some((number, operation)) = known.filter(|(n, o)| o.takes(*n)) else {
            return (UNSUPPORTED, Vec::new());
        };
        let bytes = match head.compares {
            true => operands.len() / 2,
            false => operands.len(),
        };
        let (operand, compare) = operands.split_at(bytes);
        let is_whole = bytes % number.bytes() == 0 && bytes <= ATOMIC_BYTES_MAX;
        if !is_whole || head.compares != operation.compares() {
            return (UNSUPPORTED, Vec::new());
        }
        let stretch = Stretch {
            key: head.key,
            base: head.offset,
            total: bytes as u64,
        };
        match self.own_atomic(&stretch, (operation, number), operand, compare) {
            Ok(before) if head.fetches => {
                self.tell_read(from, &stretch, operation != Operation::Read);
                (MemoryStatus::Done as u8, before)
            }
            Ok(_) => {
                self.tell_written(from, &stretch, None);
                (MemoryStatus::Done as u8, Vec::new())
            }
            Err(status) => {
                self.refused_accesses += 1;
                (status as u8, Vec::new())
            }
        }
    }

    fn own_atomic(
        &mut self,
        stretch: &Stretch,
        (operation, number): (Operation, Number),
        operand: &[u8],
        compare: &[u8],
    ) -> Result<Vec<u8>, MemoryStatus> {
        if operation != Operation::Read {
            self.own_part(stretch, true)?;
        }
        let part = self.own_part(stretch, operation == Operation::Write)?;
        let mut before = vec![0; operand.len()];
        // SAFETY: a registered region is readable and writable as its access says, which was looked at.
        unsafe { memory::gather(part.pieces(), 0, &mut before) };
        let mut after = before.clone();
        arithmetic::compute(operation, number, &mut after, operand, compare);
        if operation != Operation::Read {
            // SAFETY: as above.
            unsafe { memory::scatter(part.pieces(), 0, &after) };
        }
        Ok(before)
    }

    /// An atomic operation of this end's is over.
    pub(super) fn on_atomic_done(&mut self, from: Peer, id: u64, status: u8, before: &[u8]) {
        let is_theirs = |p: &Pending| matches!(p, Pending::Atomic { peer, .. } if *peer == from);
        if !self.pendings.get(id).is_some_and(is_theirs) {
            return;
        }
        if let Some(slot) = self.peers.get(from).and_then(|entry| entry.slot) {
            self.answered(slot);
        }
        let Some(Pending::Atomic {
            result,
            bytes,
            ticket,
            ..
        }) = self.pendings.remove(id)
        else {
            return;
        };
        let failure = match MemoryStatus::from_byte(status) {
            Ok(status) => failure(status),
            Err(_) => Some(Failure::Unsupported),
        };
        if let Some(result) = result.filter(|_| failure.is_none()) {
            // SAFETY: the program has lent it until the completion.
            unsafe { memory::scatter(&result, 0, before) };
        }
        self.end(ticket, Ended::Atomic, failure);
        if let Some(completion) = self.completions.back_mut() {
            completion.bytes = bytes;
        }
    }
}
