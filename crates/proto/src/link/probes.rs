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
#[derive(Debug)]
pub struct Probes {
    last: [Option<Probe>; KEPT],
    /// When the last one left, or was put off; never yet: [`Time::NEVER`].
    last_sent: Time,
    /// Where the next one is remembered.
    next: u8,
    /// Wraps.
    answered_ever: u16,
    /// How long the last answer took, µs; 0 before the first one. (A path is one of thousands: each byte counts.)
    last_rtt_us: u32,
}

impl Default for Probes {
    fn default() -> Probes {
        Probes {
            last: [None; KEPT],
            last_sent: Time::NEVER,
            next: 0,
            answered_ever: 0,
            last_rtt_us: 0,
        }
    }
}

impl Probes {
    /// A probe leaves now.
    pub const fn on_sent(&mut self, now: Time, token: u32) {
        self.last[self.next as usize % KEPT] = Some(Probe {
            token,
            sent: now,
            answered: false,
        });
        self.next = self.next.wrapping_add(1);
        self.last_sent = now;
    }

    /// No probe leaves now, but the next one waits as if one had.
    pub const fn put_off(&mut self, now: Time) {
        self.last_sent = now;
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
        self.answered_ever = self.answered_ever.wrapping_add(1);
        self.last_rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX).max(1);
        Some(rtt)
    }

    /// How many of those remembered were answered.
    pub fn answered(&self) -> u32 {
        self.last.iter().flatten().filter(|p| p.answered).count() as u32
    }

    /// How many were answered since the path began; wraps.
    pub const fn answered_ever(&self) -> u16 {
        self.answered_ever
    }

    /// How long the last answer took.
    pub const fn last_rtt(&self) -> Option<Duration> {
        match self.last_rtt_us {
            0 => None,
            us => Some(Duration::from_micros(us as u64)),
        }
    }

    /// When the last one left, or was put off.
    pub fn last_sent(&self) -> Option<Time> {
        Some(self.last_sent).filter(|at| *at != Time::NEVER)
    }

    /// Forgets all.
    pub const fn clear(&mut self) {
        self.last = [None; KEPT];
    }
}
