//! Who sends next: streams, message flows and frame flows take turns of a burst each; those that
//! were quiet go first. Where links are slow for the load, a burst each would delay the next too
//! long; then a turn is a packet or two.
//!
//! Sources whose policy names a link take turns among themselves ([`Outlet`]): so the scheduler knows whether anything waits for
//! that link, and nobody who may use any link waits behind it.

use std::collections::VecDeque;

use super::Policy;
use super::limits::{FRESH_BYTES, TURN_BYTES};
use crate::LinkId;
use crate::limits::LINKS_MAX;
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

/// The sources that take turns with each other: those that may use any link, or those meant for one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug, Default)]
pub(crate) enum Outlet {
    /// Any link.
    #[default]
    Any,
    /// This one, while it works.
    Link(LinkId),
}

impl Outlet {
    /// That of sources with this policy. A number that no link has means any link.
    pub const fn of(policy: Policy) -> Outlet {
        match policy {
            Policy::Link(link) if link.index() < LINKS_MAX => Outlet::Link(link),
            _ => Outlet::Any,
        }
    }
}

/// A source's place in the turns; the source keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SourceState {
    phase: Phase,
    outlet: Outlet,
}

impl SourceState {
    /// Of a new source with this policy.
    pub const fn new(policy: Policy) -> SourceState {
        SourceState {
            phase: Phase::Idle,
            outlet: Outlet::of(policy),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
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

/// The lists of FQ-CoDel (RFC 8290) without its packet dropping, for each outlet: sources that
/// were idle go first for a packet or two, all others in turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    any: Round,
    /// Of sources meant for one link, by its number; `None` as long as there never was one.
    of_links: Option<Box<[Round; LINKS_MAX]>>,
    /// Whose turns are taken now.
    outlet: Outlet,
    /// Turns are short.
    short: bool,
}

/// The lists of one outlet.
#[derive(Debug, Default)]
struct Round {
    fresh: VecDeque<Source>,
    ring: VecDeque<Source>,
    /// Bytes that the source at the front has sent in its turn.
    spent: usize,
    /// Sources that are [`Phase::Active`].
    active: usize,
}

impl Round {
    fn drop_front(&mut self) -> Option<Source> {
        self.spent = 0;
        self.fresh.pop_front().or_else(|| self.ring.pop_front())
    }

    fn memory_bytes(&self) -> usize {
        (self.fresh.capacity() + self.ring.capacity()) * size_of::<Source>()
    }

    fn trim(&mut self) {
        self.fresh.shrink_to(2 * self.fresh.len());
        self.ring.shrink_to(2 * self.ring.len());
    }
}

impl Turns {
    /// Whether turns are short, and may end amid a frame or message.
    #[inline]
    pub const fn set_short(&mut self, short: bool) {
        self.short = short;
    }

    /// From now on the turns of this outlet are taken.
    #[inline]
    pub const fn take(&mut self, outlet: Outlet) {
        self.outlet = outlet;
    }

    #[inline]
    fn round(&mut self, outlet: Outlet) -> &mut Round {
        match outlet {
            Outlet::Any => &mut self.any,
            Outlet::Link(link) => &mut self.of_links.get_or_insert_default()[link.index()],
        }
    }

    /// That whose turns are taken.
    #[inline]
    fn current(&mut self) -> &mut Round {
        self.round(self.outlet)
    }

    /// `source`, whose state is `state`, has something to send.
    #[inline]
    pub fn wake(&mut self, source: Source, state: &mut SourceState) {
        let round = self.round(state.outlet);
        match state.phase {
            Phase::Active | Phase::Waiting => return,
            Phase::Resting => {}
            Phase::Idle => round.fresh.push_back(source),
        }
        state.phase = Phase::Active;
        round.active += 1;
    }

    /// `source` has this policy from now on.
    #[inline]
    pub fn set_policy(&mut self, source: Source, state: &mut SourceState, policy: Policy) {
        let outlet = Outlet::of(policy);
        if state.outlet == outlet {
            return;
        }
        let was = core::mem::replace(state, SourceState::new(policy));
        match was.phase {
            Phase::Idle => {}
            Phase::Waiting => state.phase = Phase::Waiting,
            Phase::Resting | Phase::Active => {
                let round = self.round(was.outlet);
                round.fresh.retain(|other| *other != source);
                round.ring.retain(|other| *other != source);
                round.spent = 0;
                if was.phase == Phase::Active {
                    round.active -= 1;
                    self.wake(source, state);
                }
            }
        }
    }

    /// The source of `state` has nothing to send at the moment.
    #[inline]
    pub fn rest(&mut self, state: &mut SourceState) {
        if state.phase == Phase::Active {
            state.phase = Phase::Resting;
            self.round(state.outlet).active -= 1;
        }
    }

    /// Whether no source has anything to send.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.any.active == 0 && self.waiting_links().next().is_none()
    }

    /// Whether no source that may use any link has anything to send.
    pub const fn is_any_idle(&self) -> bool {
        self.any.active == 0
    }

    /// The links that sources with something to send are meant for.
    #[inline]
    pub fn waiting_links(&self) -> impl Iterator<Item = LinkId> {
        let rounds = self.of_links.iter().flat_map(|rounds| rounds.iter());
        let waits = |(_, round): &(u8, &Round)| round.active > 0;
        (0u8..)
            .zip(rounds)
            .filter(waits)
            .map(|(link, _)| LinkId(link))
    }

    /// The source whose turn it is. If it is resting, [`retire`](Turns::retire) it.
    #[inline]
    pub fn front(&mut self) -> Option<Source> {
        let round = self.current();
        round.fresh.front().or_else(|| round.ring.front()).copied()
    }

    /// The source at the front has nothing to send: the first time it moves to the end, the
    /// second time it leaves the list.
    pub fn retire(&mut self, state: &mut SourceState) {
        self.rest(state);
        let round = self.current();
        round.spent = 0;
        if let Some(source) = round.fresh.pop_front() {
            round.ring.push_back(source);
        } else {
            round.ring.pop_front();
            state.phase = Phase::Idle;
        }
    }

    /// The next source of a list so long that resting ones are removed before their turns:
    /// removing all at once would take long.
    #[inline]
    pub fn next_swept(&mut self) -> Option<Source> {
        let round = self.current();
        let is_long = round.ring.len() > SWEPT_BEYOND;
        round.ring.front().filter(|_| is_long).copied()
    }

    /// Removes the source to be swept, which has this state, if it has nothing to send.
    pub fn sweep(&mut self, state: &mut SourceState) {
        if state.phase == Phase::Resting {
            self.sweep_gone();
            state.phase = Phase::Idle;
        }
    }

    /// The source to be swept no longer exists.
    pub fn sweep_gone(&mut self) {
        let round = self.current();
        if round.fresh.is_empty() {
            round.spent = 0;
        }
        round.ring.pop_front();
    }

    /// The source at the front is no more.
    pub fn drop_front(&mut self) {
        self.current().drop_front();
    }

    /// The source at the front is taken out to wait for the bundle's window.
    pub fn suspend(&mut self, state: &mut SourceState) {
        self.rest(state);
        self.drop_front();
        state.phase = Phase::Waiting;
    }

    /// A suspended source goes back, to the front.
    pub fn resume(&mut self, source: Source, state: &mut SourceState) {
        if state.phase == Phase::Waiting {
            state.phase = Phase::Active;
            let round = self.round(state.outlet);
            round.active += 1;
            round.spent = 0;
            round.ring.push_front(source);
        }
    }

    /// The source at the front sent `bytes`; `whole`: this is a good moment to
    /// let the next one have its turn.
    #[inline]
    pub fn spend(&mut self, bytes: usize, whole: bool) {
        let short = self.short;
        let round = self.current();
        round.spent += bytes;
        if !whole && !short {
            return;
        }
        let allowed = if round.fresh.is_empty() && !short {
            TURN_BYTES
        } else {
            FRESH_BYTES
        };
        if round.spent >= allowed {
            let front = round.drop_front();
            round.ring.extend(front);
        }
    }

    /// Forgets all sources. The caller must reset their states too.
    pub fn clear(&mut self) {
        *self = Turns::default();
    }

    fn rounds(&self) -> impl Iterator<Item = &Round> {
        let of_links = self.of_links.iter().flat_map(|rounds| rounds.iter());
        core::iter::once(&self.any).chain(of_links)
    }

    /// Frees memory that a burst needed.
    pub fn trim(&mut self) {
        self.any.trim();
        let of_links = self
            .of_links
            .iter_mut()
            .flat_map(|rounds| rounds.iter_mut());
        of_links.for_each(Round::trim);
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let lists: usize = self.rounds().map(Round::memory_bytes).sum();
        lists + self.of_links.as_deref().map_or(0, size_of_val)
    }
}
