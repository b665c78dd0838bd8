//! What struck, and when it really did: what everything else is judged by.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::fault::{Kind, Strike};

/// Milliseconds since 1970, the clock of the daemons' logs.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}

/// A strike, from before it was asked for until after it was undone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Struck {
    /// What and where.
    pub strike: Strike,
    /// Unix time, milliseconds.
    pub begin_ms: u64,
    /// Unix time, milliseconds; `None` while it is in force.
    pub end_ms: Option<u64>,
}

impl Struck {
    fn end_or(&self, ms: u64) -> u64 {
        self.end_ms.unwrap_or(ms)
    }

    /// Whether it was in force at some instant between these two.
    pub fn meets(&self, begin_ms: u64, end_ms: u64) -> bool {
        self.begin_ms <= end_ms && begin_ms <= self.end_or(u64::MAX)
    }
}

/// All that struck so far.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Vec<Struck>>);

/// After a daemon is back, a program that could not connect may still be ending.
const EXCUSE_MS: u64 = 2_000;

impl Ledger {
    fn all(&self) -> MutexGuard<'_, Vec<Struck>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Note a strike that is about to begin; returns its number.
    pub fn begin(&self, strike: Strike) -> usize {
        let mut all = self.all();
        all.push(Struck {
            strike,
            begin_ms: unix_ms(),
            end_ms: None,
        });
        all.len() - 1
    }

    /// Note that a strike is undone.
    pub fn end(&self, number: usize) {
        if let Some(struck) = self.all().get_mut(number) {
            struck.end_ms = Some(unix_ms());
        }
    }

    pub fn copy(&self) -> Vec<Struck> {
        self.all().clone()
    }

    /// For how long two nodes had no way to each other since then.
    pub fn parted_ms(&self, nodes: [usize; 2], since_ms: u64) -> u64 {
        let now = unix_ms();
        let all = self.all();
        let parting = all.iter().filter(|one| one.strike.parts(nodes));
        parting
            .map(|one| one.end_or(now).saturating_sub(one.begin_ms.max(since_ms)))
            .sum()
    }

    /// Whether one of two nodes had no virtual NIC at some time since then.
    pub fn without_nic(&self, nodes: [usize; 2], since_ms: u64) -> bool {
        self.all().iter().any(|one| {
            one.strike.kind.takes_nic()
                && one.strike.concerns_nodes(nodes)
                && one.meets(since_ms.saturating_sub(EXCUSE_MS), u64::MAX)
        })
    }

    /// Whether a node's daemon may leave those unanswered who asked it since then.
    pub fn hinders_clients(&self, node: usize, since_ms: u64) -> bool {
        self.all().iter().any(|one| {
            let kind = one.strike.kind;
            let hinders = kind.takes_nic() || matches!(kind, Kind::Pause | Kind::Descriptors);
            hinders
                && one.strike.node == Some(node)
                && one.meets(since_ms.saturating_sub(EXCUSE_MS), u64::MAX)
        })
    }
}
