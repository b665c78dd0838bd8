//! Memory operations: puts and gets between the programs' memory at both ends, without intermediate buffers.
//!
//! A *put* carries bytes to a region of the peer's, a *get* fetches some from there (RDMA write and read). Each byte is
//! placed once, at its destination, in whatever order packets arrive. The end of an operation is reported once
//! ([`OpEvent::Operation`](super::OpEvent::Operation)): a put ends when the peer says that all bytes are there, so that a
//! refused put never seems to succeed.
//!
//! The verbs are those of paper 003 and of the Virtual Interface Architecture (1.0, sections 2.4 and 3); that each piece
//! carries its destination is iWARP's idea (RFC 5041, section 5).

mod incoming;
mod outgoing;
mod owed;
mod regions;

pub use regions::{Memory, REGIONS_MAX, Reach, Region, Regions};

use incoming::Incoming;
pub(super) use outgoing::Outgoing;

use super::shared::Shared;
use super::{OpError, Violation};
use crate::segment::Content;
use crate::wire::{
    MemoryRecord, MemoryStatus, OPERATION_BYTES_MAX, OperationKind, PutTarget, Stretch,
};

/// A put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Put {
    /// Its bytes: as many as the target takes, from the beginning of this handle of the [`Memory`].
    pub handle: u64,
    /// Their destination, and the notification of the peer's program.
    pub target: PutTarget,
    /// Returned in the event of its end.
    pub token: u64,
}

/// A get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Get {
    /// Which bytes of the peer's.
    pub from: Stretch,
    /// Their destination: the beginning of this handle of the [`Memory`].
    pub handle: u64,
    /// Returned in the event of its end.
    pub token: u64,
}

/// The operations of both ends of a bundle.
#[derive(Debug, Default)]
pub(super) struct MemoryOperations {
    /// Outgoing: this end's puts, and answers to the peer's gets.
    pub out: Outgoing,
    /// Incoming: the peer's puts, and answers to this end's gets.
    incoming: Incoming,
}

impl MemoryOperations {
    /// Begins a put.
    ///
    /// # Errors
    /// [`OpError::TooLarge`], or [`OpError::Full`]: the oldest of the last [`OPERATIONS_MAX`](crate::wire::OPERATIONS_MAX)
    /// has not ended.
    pub fn put(&mut self, put: Put, shared: &mut Shared) -> Result<(), OpError> {
        check_length(put.target.to.total)?;
        self.out.put(put, shared)
    }

    /// Begins a get.
    ///
    /// # Errors
    /// As [`put`](MemoryOperations::put).
    pub fn get(&mut self, get: Get, shared: &mut Shared) -> Result<(), OpError> {
        check_length(get.from.total)?;
        self.incoming.get(get, shared)
    }

    /// The peer says something of an operation.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_record(
        &mut self,
        record: &MemoryRecord<'_>,
        reach: &mut Reach,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        match *record {
            MemoryRecord::Put {
                operation,
                target,
                offset,
                data,
            } => self
                .incoming
                .on_put(operation, target, (offset, data), reach, shared),
            MemoryRecord::Get {
                operation,
                open,
                from,
            } => self.out.on_get(operation, open, from, reach, shared),
            MemoryRecord::Answer {
                operation,
                offset,
                data,
            } => self
                .incoming
                .on_answer(operation, offset, data, reach, shared),
            MemoryRecord::Done {
                kind: OperationKind::Put,
                operation,
                status,
            } => self.out.on_done(operation, status, shared),
            MemoryRecord::Done {
                kind: OperationKind::Get,
                operation,
                status,
            } => self.incoming.on_get_failed(operation, status, shared),
        }
    }

    /// The request of a get that is still wanted.
    pub fn request(&self, operation: u32) -> Option<MemoryRecord<'static>> {
        self.incoming.request(operation)
    }

    /// The peer restarted: operations under way are broken.
    pub fn reset(&mut self, shared: &mut Shared) {
        self.out.reset(shared);
        self.incoming.reset(shared);
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        self.out.trim();
        self.incoming.trim();
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.out.memory_bytes() + self.incoming.memory_bytes()
    }
}

fn check_length(bytes: u64) -> Result<(), OpError> {
    match bytes {
        0..=OPERATION_BYTES_MAX => Ok(()),
        _ => Err(OpError::TooLarge {
            bytes_max: OPERATION_BYTES_MAX as usize,
        }),
    }
}

/// The weight of a piece: not 0 even if it is empty, so that it is owed as well.
const fn weight(bytes: u64) -> u64 {
    if bytes == 0 { 1 } else { bytes }
}

/// The control record that tells the peer how its operation ended.
const fn done(kind: OperationKind, operation: u32, status: MemoryStatus) -> Content {
    Content::OperationDone {
        kind,
        operation,
        status,
    }
}
