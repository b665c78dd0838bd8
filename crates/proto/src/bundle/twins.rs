//! Two machines that run under one name. Which of them is meant nobody can tell,
//! but that they are two: one comes from elsewhere while the other is there, or
//! each takes the other's place again and again.

use super::SEEN_OFTEN;
use super::session::HANDSHAKE_PATIENCE;
use crate::link::thresholds::{ABSENCE_MAX, RECHECK};
use core::time::Duration;
use std::net::SocketAddr;

use super::Bundle;
use super::session::Begins;
use crate::context::{Context, Event, Refusal};
use crate::wire::Hello;
use crate::{LinkId, Time};

/// A peer from whose address nothing came for this long may come from another one
/// under other keys: idle paths are probed every 5 s.
const LIVE_MAX: Duration =
    Duration::from_nanos(RECHECK.as_nanos() as u64 + HANDSHAKE_PATIENCE.as_nanos() as u64);
/// States of the peer that are remembered after others took their place.
const FORMER_MAX: usize = 4;
/// … with never so long in between, there are two machines.
const RETURN_INTERVAL_MAX: Duration = Duration::from_secs(2 * ABSENCE_MAX.as_secs());

/// States of the peer that others took the place of.
#[derive(Default)]
pub(super) struct Twins {
    former: [u64; FORMER_MAX],
    next: u8,
    returns: u8,
    returned_at: Time,
}

impl Twins {
    /// State `new` of the peer takes the place of `gone`. Whether two take turns.
    fn superseded(&mut self, now: Time, gone: u64, new: u64) -> bool {
        self.former[usize::from(self.next)] = gone;
        self.next = (self.next + 1) % FORMER_MAX as u8;
        if gone == 0 || !self.former.contains(&new) {
            return false;
        }
        if now.since(self.returned_at) > RETURN_INTERVAL_MAX {
            self.returns = 0;
        }
        self.returned_at = now;
        self.returns = self.returns.saturating_add(1);
        self.returns >= SEEN_OFTEN
    }
}

impl Bundle {
    /// Where else the peer is, if this first message of another state of it comes
    /// from an address that is not in the configuration while the peer is there.
    pub fn is_elsewhere(
        &self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        hello: &Hello,
    ) -> Option<SocketAddr> {
        match self.sessions.begins(hello) {
            Begins::GoesOn { .. } => None,
            Begins::Afresh => self.is_live_elsewhere(now, link, from),
        }
    }

    /// Where the peer is now, if that is another address than `from` and the configuration does not say that it may be
    /// there.
    pub fn is_live_elsewhere(
        &self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
    ) -> Option<SocketAddr> {
        let is_configured = self.is_configured_at(link, from.ip());
        self.live_elsewhere(now, link, from)
            .filter(|_| !is_configured)
    }

    /// Where the peer is now, if that is another address than `from`.
    fn live_elsewhere(&self, now: Time, link: LinkId, from: SocketAddr) -> Option<SocketAddr> {
        if link.is_relayed() {
            return None;
        }
        let p = self.paths.get(link)?;
        let is_live = p.heard_at.is_some_and(|at| now.since(at) < LIVE_MAX);
        let has_keys = self.sessions.current.is_some();
        (has_keys && is_live && p.remote.ip() != from.ip()).then_some(p.remote)
    }

    /// Another state of the peer, `new`, takes the place of the one there is.
    pub(super) fn notice_twins(
        &mut self,
        now: Time,
        (link, from): (LinkId, SocketAddr),
        new: u64,
        context: &mut Context,
    ) {
        let live = self.live_elsewhere(now, link, from);
        let take_turns = self.twins.superseded(now, self.sessions.peer_bundle, new);
        let there = self.paths.get(link).map(|p| p.remote);
        let Some(displaced) = live.or(there.filter(|_| take_turns)) else {
            return;
        };
        let why = Refusal::DuplicateName {
            name: self.name.as_str().into(),
            other: from,
        };
        let from = displaced;
        context.event(Event::Refused { link, from, why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_no_twin_and_taking_turns_is() {
        let mut twins = Twins::default();
        let at = |s: u64| Time::from_ms(1000 * s);
        assert!(!twins.superseded(at(0), 0, 1));
        for (s, restart) in (1..100).zip(1..) {
            assert!(!twins.superseded(at(s), restart, restart + 1));
        }
        for (s, (gone, new)) in (200..).zip([(7, 8), (8, 7), (7, 8)]) {
            assert!(!twins.superseded(at(s), gone, new));
        }
        assert!(twins.superseded(at(203), 8, 7));
        assert!(!twins.superseded(at(9000), 7, 8), "that was long ago");
    }
}
