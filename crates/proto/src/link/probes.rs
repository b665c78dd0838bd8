//! Probes sent on a path and which of them were answered.

use core::time::Duration;

use crate::Time;

/// How many are remembered.
const KEPT: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Probe {
    token: u32,
    sent: Time,
    answered: bool,
}

/// The last eight probes of one path.
#[derive(Debug, Default)]
pub struct Probes {
    last: [Option<Probe>; KEPT],
    sent: usize,
    last_sent: Option<Time>,
    answered_ever: u64,
    last_rtt: Option<Duration>,
}

impl Probes {
    /// A probe leaves now.
    pub const fn on_sent(&mut self, now: Time, token: u32) {
        self.last[self.sent % KEPT] = Some(Probe {
            token,
            sent: now,
            answered: false,
        });
        self.sent += 1;
        self.last_sent = Some(now);
    }

    /// No probe leaves now, but the next one waits as if one had.
    pub const fn put_off(&mut self, now: Time) {
        self.last_sent = Some(now);
    }

    /// An answer. Returns how long it took, if it answers a probe that is remembered and was not answered before.
    pub fn on_reply(&mut self, now: Time, token: u32) -> Option<Duration> {
        let probe = self
            .last
            .iter_mut()
            .flatten()
            .find(|p| p.token == token && !p.answered)?;
        probe.answered = true;
        let rtt = now.since(probe.sent);
        self.answered_ever += 1;
        self.last_rtt = Some(rtt);
        Some(rtt)
    }

    /// How many of those remembered were answered.
    pub fn answered(&self) -> u32 {
        self.last.iter().flatten().filter(|p| p.answered).count() as u32
    }

    /// How many were answered since the path began.
    pub const fn answered_ever(&self) -> u64 {
        self.answered_ever
    }

    /// How long the last answer took.
    pub const fn last_rtt(&self) -> Option<Duration> {
        self.last_rtt
    }

    /// When the last one left, or was put off.
    pub const fn last_sent(&self) -> Option<Time> {
        self.last_sent
    }

    /// Forgets all.
    pub const fn clear(&mut self) {
        self.last = [None; KEPT];
    }
}
