//! Who sends next: streams, message flows and frame flows take turns of a burst each; those that
//! were quiet go first. Where links are slow for the load, a burst each would delay the next too
//! long; then a turn is a packet or two.

use std::collections::VecDeque;

use super::limits::{FRESH_BYTES, TURN_BYTES};
use crate::segment::Content;

/// More sources in turn than this are too many to find one with something to send at a time.
const SWEPT_BEYOND: usize = 1024;

/// Something that sends new content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A frame flow.
    Frames(u8),
    /// A message flow, by its index at this end.
    Messages(u32),
    /// A stream, by its id.
    Stream(u64),
    /// Bytes of a memory operation, by slot and generation.
    Transfer(u32, u32),
}

/// Result of asking a source for new content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    /// This was written.
    Content(Content),
    /// It does not fit into the packet.
    NoRoom,
    /// It has nothing to send.
    Nothing,
    /// It must wait for the bundle's window.
    Blocked,
}

/// A source's place in the turns; the source keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum SourceState {
    /// In no list: it had nothing to send for a round, and goes first when it has.
    #[default]
    Idle,
    /// In a list, with nothing to send: a source that empties its queue and fills it again at
    /// once does not go first again (RFC 8290 section 4.2).
    Resting,
    /// In a list, with something to send.
    Active,
    /// It waits for the bundle's window, outside of these lists.
    Waiting,
}

/// The lists of FQ-CoDel (RFC 8290) without its packet dropping: sources that
/// were idle go first for a packet or two, all others in turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    fresh: VecDeque<Source>,
    ring: VecDeque<Source>,
    /// Bytes that the source at the front has sent in its turn.
    spent: usize,
    /// Sources that are [`SourceState::Active`].
    active: usize,
    /// Turns are short.
    short: bool,
}

impl Turns {
    /// Whether turns are short, and may end amid a frame or message.
    #[inline]
    pub const fn set_short(&mut self, short: bool) {
        self.short = short;
    }

    /// `source`, whose state is `state`, has something to send.
    #[inline]
    pub fn wake(&mut self, source: Source, state: &mut SourceState) {
        match state {
            SourceState::Active | SourceState::Waiting => return,
            SourceState::Resting => {}
            SourceState::Idle => self.fresh.push_back(source),
        }
        *state = SourceState::Active;
        self.active += 1;
    }

    /// The source of `state` has nothing to send at the moment.
    #[inline]
    pub fn rest(&mut self, state: &mut SourceState) {
        if *state == SourceState::Active {
            *state = SourceState::Resting;
            self.active -= 1;
        }
    }

    /// Whether no source has anything to send.
    #[inline]
    pub const fn is_idle(&self) -> bool {
        self.active == 0
    }

    /// The source whose turn it is. If it is resting, [`retire`](Turns::retire) it.
    #[inline]
    pub fn front(&self) -> Option<Source> {
        self.fresh.front().or_else(|| self.ring.front()).copied()
    }

    /// The source at the front has nothing to send: the first time it moves to the end, the
    /// second time it leaves the list.
    pub fn retire(&mut self, state: &mut SourceState) {
        self.rest(state);
        self.spent = 0;
        if let Some(source) = self.fresh.pop_front() {
            self.ring.push_back(source);
        } else {
            self.ring.pop_front();
            *state = SourceState::Idle;
        }
    }

    /// The next source of a list so long that resting ones are removed before their turns:
    /// removing all at once would take long.
    #[inline]
    pub fn to_sweep(&self) -> Option<Source> {
        let is_long = self.ring.len() > SWEPT_BEYOND;
        self.ring.front().filter(|_| is_long).copied()
    }

    /// Removes the source to be swept, which has this state, if it has nothing to send.
    pub fn sweep(&mut self, state: &mut SourceState) {
        if *state == SourceState::Resting {
            self.sweep_gone();
            *state = SourceState::Idle;
        }
    }

    /// The source to be swept no longer exists.
    pub fn sweep_gone(&mut self) {
        if self.fresh.is_empty() {
            self.spent = 0;
        }
        self.ring.pop_front();
    }

    /// The source at the front is no more.
    pub fn drop_front(&mut self) {
        self.spent = 0;
        if self.fresh.pop_front().is_none() {
            self.ring.pop_front();
        }
    }

    /// The source at the front is taken out to wait for the bundle's window.
    pub fn suspend(&mut self, state: &mut SourceState) {
        self.rest(state);
        self.drop_front();
        *state = SourceState::Waiting;
    }

    /// A suspended source goes back, to the front.
    pub fn resume(&mut self, source: Source, state: &mut SourceState) {
        if *state == SourceState::Waiting {
            *state = SourceState::Active;
            self.active += 1;
            self.spent = 0;
            self.ring.push_front(source);
        }
    }

    /// The source at the front sent `bytes`; `whole`: this is a good moment to
    /// let the next one have its turn.
    #[inline]
    pub fn spend(&mut self, bytes: usize, whole: bool) {
        self.spent += bytes;
        if !whole && !self.short {
            return;
        }
        let allowed = if self.fresh.is_empty() && !self.short {
            TURN_BYTES
        } else {
            FRESH_BYTES
        };
        if self.spent >= allowed {
            self.spent = 0;
            let front = self.fresh.pop_front().or_else(|| self.ring.pop_front());
            self.ring.extend(front);
        }
    }

    /// Forgets all sources. The caller must reset their states too.
    pub fn clear(&mut self) {
        *self = Turns::default();
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        self.fresh.shrink_to(2 * self.fresh.len());
        self.ring.shrink_to(2 * self.ring.len());
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        (self.fresh.capacity() + self.ring.capacity()) * size_of::<Source>()
    }
}
