//! Matching messages to buffers: the oldest fitting pair (`fi_tagged(3)`, MPI 4.1 section 3.5).

use std::collections::VecDeque;

use crate::memory::Pieces;
use crate::wire::Envelope;
use crate::{Peer, Piece, Ticket};

/// Which messages a buffer accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Only from this one.
    pub from: Option<Peer>,
    /// The tag, and its ignored bits; `None`: messages without a tag.
    pub tag: Option<(u64, u64)>,
}

impl Wanted {
    fn fits(&self, from: Peer, tag: Option<u64>) -> bool {
        let is_from = self.from.is_none_or(|wanted| wanted == from);
        is_from
            && match (self.tag, tag) {
                (None, None) => true,
                (Some((wanted, ignored)), Some(tag)) => (wanted ^ tag) & !ignored == 0,
                _ => false,
            }
    }
}

/// A buffer that waits for a message.
#[derive(Debug)]
pub(crate) struct Posted {
    pub wanted: Wanted,
    pub pieces: Pieces,
    /// It takes several: the fewest bytes that must be free for another one, and how many are used.
    pub multi: Option<(usize, usize)>,
    pub ticket: Ticket,
}

/// A message that waits for a buffer.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub from: Peer,
    pub envelope: Envelope,
    /// Its length.
    pub bytes: u64,
    pub body: Body,
}

/// The location of a message's bytes.
#[derive(Debug)]
pub(crate) enum Body {
    /// In this buffer, from there on.
    Here { buffer: Vec<u8>, begin: usize },
    /// At the sender, in the region of this key.
    There { key: u64 },
}

/// The destination of a message.
#[derive(Debug)]
pub(crate) struct Landing {
    pub pieces: Pieces,
    pub ticket: Ticket,
    /// The address of its bytes, if they are contiguous.
    pub at: *mut u8,
    /// The buffer takes no more behind this message.
    pub released: bool,
}

/// Buffers that wait for messages, and messages that wait for buffers. Never is there one of each that fit.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    tagged: VecDeque<Posted>,
    untagged: VecDeque<Posted>,
    arrived: VecDeque<Arrived>,
}

// SAFETY: the pointers are the program's memory, which is lent to the owner of this value.
unsafe impl Send for Matching {}

impl Posted {
    /// The destination of a message of `bytes` in it. Do not use the buffer again if it is released.
    pub fn land(&mut self, bytes: u64) -> Landing {
        let mut landing = Landing {
            pieces: Pieces::default(),
            ticket: self.ticket,
            at: (self.pieces.first()).map_or(core::ptr::null_mut(), |p| p.base),
            released: true,
        };
        let Some((least, used)) = &mut self.multi else {
            landing.pieces = core::mem::take(&mut self.pieces);
            return landing;
        };
        let whole = self.pieces.first().map_or(0, |piece| piece.bytes);
        let bytes = usize::try_from(bytes).unwrap_or(whole).min(whole - *used);
        landing.at = landing.at.wrapping_add(*used);
        landing.pieces = Pieces::One(Piece {
            base: landing.at,
            bytes,
        });
        *used += bytes;
        landing.released = whole - *used < (*least).max(1);
        landing
    }
}

impl Matching {
    fn queue(&mut self, is_tagged: bool) -> &mut VecDeque<Posted> {
        match is_tagged {
            true => &mut self.tagged,
            false => &mut self.untagged,
        }
    }

    /// The oldest buffer that accepts this message of `bytes`.
    pub fn land(&mut self, from: Peer, tag: Option<u64>, bytes: u64) -> Option<Landing> {
        let queue = self.queue(tag.is_some());
        let index = queue.iter().position(|p| p.wanted.fits(from, tag))?;
        let landing = queue[index].land(bytes);
        if landing.released {
            queue.remove(index);
        }
        Some(landing)
    }

    /// Posts a buffer; nothing that has arrived fits it.
    pub fn post(&mut self, posted: Posted) {
        let is_tagged = posted.wanted.tag.is_some();
        self.queue(is_tagged).push_back(posted);
    }

    /// A message waits: no buffer fits it.
    pub fn keep(&mut self, arrived: Arrived) {
        self.arrived.push_back(arrived);
    }

    /// The oldest message that fits.
    pub fn find(&self, wanted: &Wanted) -> Option<&Arrived> {
        let fits = |a: &&Arrived| wanted.fits(a.from, a.envelope.tag);
        self.arrived.iter().find(fits)
    }

    /// The same, and removes it.
    pub fn take(&mut self, wanted: &Wanted) -> Option<Arrived> {
        let fits = |a: &Arrived| wanted.fits(a.from, a.envelope.tag);
        let index = self.arrived.iter().position(fits)?;
        self.arrived.remove(index)
    }

    /// Takes back a buffer that was posted with this context.
    pub fn cancel(&mut self, context: usize) -> Option<Posted> {
        for queue in [&mut self.tagged, &mut self.untagged] {
            if let Some(index) = queue.iter().position(|p| p.ticket.context == context) {
                return queue.remove(index);
            }
        }
        None
    }

    /// Removes buffers that accept only this peer's messages, and drops its messages that can no longer be
    /// fetched.
    pub fn give_up(&mut self, from: Peer) -> Vec<Posted> {
        let is_gone = |a: &Arrived| a.from == from && matches!(a.body, Body::There { .. });
        self.arrived.retain(|arrived| !is_gone(arrived));
        let mut gone = Vec::new();
        for queue in [&mut self.tagged, &mut self.untagged] {
            let (those, others) = core::mem::take(queue)
                .into_iter()
                .partition::<Vec<_>, _>(|posted| posted.wanted.from == Some(from));
            *queue = others.into();
            gone.extend(those);
        }
        gone
    }

    /// Takes back all buffers.
    pub fn drain(&mut self) -> impl Iterator<Item = Posted> + use<> {
        let queues = [&mut self.tagged, &mut self.untagged].map(core::mem::take);
        queues.into_iter().flatten()
    }

    /// Whom buffers wait for by name.
    pub fn awaited(&self) -> impl Iterator<Item = Peer> + '_ {
        let all = self.tagged.iter().chain(&self.untagged);
        all.filter_map(|posted| posted.wanted.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Peer = Peer(0);
    const B: Peer = Peer(1);

    fn posted(from: Option<Peer>, tag: Option<(u64, u64)>, context: usize) -> Posted {
        Posted {
            wanted: Wanted { from, tag },
            pieces: Pieces::default(),
            multi: None,
            ticket: Ticket { context, flags: 0 },
        }
    }

    fn arrived(from: Peer, tag: Option<u64>, bytes: u64) -> Arrived {
        let envelope = Envelope {
            tag,
            ..Envelope::default()
        };
        Arrived {
            from,
            envelope,
            bytes,
            body: Body::There { key: 0 },
        }
    }

    #[test]
    fn a_message_goes_to_the_oldest_buffer_that_fits() {
        let mut m = Matching::default();
        m.post(posted(Some(B), Some((7, 0)), 1));
        m.post(posted(None, Some((0x10, 0x0f)), 2));
        m.post(posted(None, Some((7, u64::MAX)), 3));
        m.post(posted(None, None, 4));
        let mut land = |from, tag| m.land(from, tag, 0).map(|landing| landing.ticket.context);
        assert_eq!(land(A, Some(0x13)), Some(2));
        assert_eq!(land(A, Some(7)), Some(3));
        assert_eq!(land(A, Some(7)), None);
        assert_eq!(land(B, Some(7)), Some(1));
        assert_eq!(land(B, None), Some(4));
        assert_eq!(land(B, None), None);
    }

    #[test]
    fn a_buffer_gets_the_oldest_message_that_fits() {
        let mut m = Matching::default();
        for (n, (from, tag)) in [(A, Some(1)), (B, Some(2)), (A, None), (A, Some(2))]
            .into_iter()
            .enumerate()
        {
            m.keep(arrived(from, tag, n as u64));
        }
        let wanted = |from, tag| Wanted { from, tag };
        let mut take = |w| m.take(&w).map(|a| a.bytes);
        assert_eq!(take(wanted(Some(A), Some((2, 0)))), Some(3));
        assert_eq!(take(wanted(None, None)), Some(2));
        assert_eq!(take(wanted(None, Some((0, u64::MAX)))), Some(0));
        assert_eq!(take(wanted(None, Some((2, 0)))), Some(1));
        assert_eq!(take(wanted(None, Some((2, 0)))), None);
    }

    #[test]
    fn a_buffer_for_several_is_released_when_too_little_is_free() {
        let mut m = Matching::default();
        let mut memory = [0u8; 100];
        let base = memory.as_mut_ptr();
        m.post(Posted {
            pieces: Pieces::One(Piece { base, bytes: 100 }),
            multi: Some((30, 0)),
            ..posted(None, None, 1)
        });
        let first = m.land(A, None, 40).expect("fits");
        assert_eq!((first.at, first.released), (base, false));
        let second = m.land(B, None, 35).expect("fits");
        assert_eq!(second.at, base.wrapping_add(40));
        assert!(second.released);
        assert!(m.land(A, None, 1).is_none());
    }

    #[test]
    fn what_can_only_come_from_who_is_gone_is_given_back() {
        let mut m = Matching::default();
        m.post(posted(Some(A), None, 1));
        m.post(posted(None, None, 2));
        m.keep(arrived(A, Some(1), 0));
        m.keep(arrived(B, Some(1), 0));
        assert_eq!(m.awaited().collect::<Vec<_>>(), [A]);
        let gone: Vec<_> = m.give_up(A).iter().map(|p| p.ticket.context).collect();
        assert_eq!(gone, [1]);
        assert_eq!(m.awaited().count(), 0);
        let any = Wanted {
            from: None,
            tag: Some((1, 0)),
        };
        assert_eq!(m.take(&any).map(|a| a.from), Some(B));
        assert!(m.take(&any).is_none());
        assert_eq!(m.cancel(2).map(|p| p.ticket.context), Some(2));
        assert!(m.cancel(2).is_none());
    }
}
