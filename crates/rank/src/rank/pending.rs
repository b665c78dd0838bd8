//! Operations that are under way.

use slab::Slab;

use crate::memory::Buffer;
use crate::wire::Envelope;
use crate::{Ended, Peer, Piece, Ticket};

/// One of them.
pub(super) enum Pending {
    /// A message whose bytes the receiver fetches from the region of this key.
    Announced {
        to: Peer,
        key: u64,
        buffer: Box<Buffer>,
        ticket: Ticket,
    },
    /// A message whose receiver gives a receipt when it has found its buffer.
    Receipted { to: Peer, ticket: Ticket },
    /// A message that is being fetched into its buffer.
    Fetching {
        from: Peer,
        envelope: Envelope,
        /// How many bytes of how many.
        bytes: (u64, u64),
        at: *mut u8,
        released: bool,
        /// The destination of the bytes: kept until they are there.
        buffer: Box<Buffer>,
        ticket: Ticket,
    },
    /// A write to, or a read of, a peer's region.
    Transfer {
        peer: Peer,
        ended: Ended,
        bytes: u64,
        /// The bytes, or where they go: kept until it is over.
        buffer: Box<Buffer>,
        ticket: Ticket,
    },
    /// An atomic operation.
    Atomic {
        peer: Peer,
        result: Option<Vec<Piece>>,
        bytes: u64,
        ticket: Ticket,
    },
}

// SAFETY: the pointers are the program's memory, which is lent to the owner of this
// value.
unsafe impl Send for Pending {}

impl Pending {
    /// The destination of a get.
    fn getting(&self) -> Option<&Buffer> {
        match self {
            Pending::Fetching { buffer, .. }
            | Pending::Transfer {
                ended: Ended::Read,
                buffer,
                ..
            } => Some(buffer),
            _ => None,
        }
    }

    /// The source of a put.
    fn giving(&self) -> Option<&Buffer> {
        match self {
            Pending::Transfer {
                ended: Ended::Write,
                buffer,
                ..
            } => Some(buffer),
            _ => None,
        }
    }

    /// Whose answer it waits for.
    pub fn peer(&self) -> Peer {
        match self {
            Pending::Announced { to, .. } | Pending::Receipted { to, .. } => *to,
            Pending::Fetching { from, .. } => *from,
            Pending::Transfer { peer, .. } | Pending::Atomic { peer, .. } => *peer,
        }
    }
}

/// All of them, by numbers that are not used again soon.
#[derive(Default)]
pub(super) struct Pendings {
    slots: Slab<(u32, Pending)>,
    next: u32,
}

impl Pendings {
    /// Takes one in; returns its number.
    pub fn insert(&mut self, pending: Pending) -> u64 {
        self.next = self.next.wrapping_add(1);
        let slot = self.slots.insert((self.next, pending));
        u64::from(self.next) << 32 | slot as u64
    }

    fn slot(&self, number: u64) -> Option<usize> {
        let slot = (number & 0xffff_ffff) as usize;
        let (of, _) = self.slots.get(slot)?;
        (u64::from(*of) == number >> 32).then_some(slot)
    }

    /// The one of this number.
    pub fn get(&self, number: u64) -> Option<&Pending> {
        self.slots
            .get(self.slot(number)?)
            .map(|(_, pending)| pending)
    }

    /// The destination of a get from this peer.
    pub fn getting(&self, number: u64, from: Peer) -> Option<&Buffer> {
        let pending = self.get(number).filter(|pending| pending.peer() == from);
        pending.and_then(Pending::getting)
    }

    /// The source of a put to this peer.
    pub fn giving(&self, number: u64, to: Peer) -> Option<&Buffer> {
        let pending = self.get(number).filter(|pending| pending.peer() == to);
        pending.and_then(Pending::giving)
    }

    /// The same, and removes it.
    pub fn remove(&mut self, number: u64) -> Option<Pending> {
        let slot = self.slot(number)?;
        Some(self.slots.remove(slot).1)
    }

    /// Takes out all that wait for a peer.
    pub fn of(&mut self, peer: Peer) -> Vec<Pending> {
        let theirs = self.slots.iter().filter(|(_, (_, p))| p.peer() == peer);
        let theirs: Vec<_> = theirs.map(|(slot, _)| slot).collect();
        theirs
            .into_iter()
            .map(|slot| self.slots.remove(slot).1)
            .collect()
    }

    /// Whom they wait for, each as often as there are.
    pub fn peers(&self) -> impl Iterator<Item = Peer> + '_ {
        self.slots.iter().map(|(_, (_, pending))| pending.peer())
    }
}
