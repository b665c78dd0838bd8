//! A measurement that this node makes: probes of one size over one path, and the least round trip of them.

use core::time::Duration;

use crate::wire::{Measure, Measured};
use crate::{LinkId, PeerId, Time};

/// The last probes have so long to be answered: on a path that is shorter nobody waits for it.
const PATIENCE: Duration = Duration::from_millis(100);
/// While the link has something to carry, probes are put off, in all for so many times as long as they would take.
const PUT_OFF_MAX: u32 = 3;

/// What a measurement wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Probes are to be sent: [`Measurement::is_due`].
    Probe,
    /// Nothing yet.
    Wait,
    /// It is over, with this outcome.
    Over(Measured),
}

/// One measurement.
#[derive(Debug)]
pub(crate) struct Measurement {
    /// Who wants it; none: this node itself.
    pub asker: Option<PeerId>,
    /// What the asker calls it.
    pub token: u32,
    /// To whom.
    pub to: PeerId,
    pub how: Measure,
    /// Two probes are sent each time, one right behind the other.
    in_pairs: bool,
    /// So many times more.
    left: u8,
    /// When the next ones are due.
    next_at: Time,
    /// When it is over at the latest.
    end_at: Time,
    /// Probes that are due now.
    due: u8,
    /// Those that were sent and not answered: token, when, and whether it is the second of a pair.
    open: Vec<(u32, Time, bool)>,
    sent: u8,
    /// The least round trips, of first ones and of second ones.
    least: [Option<Duration>; 2],
}

impl Measurement {
    pub fn new(
        now: Time,
        asker: Option<PeerId>,
        token: u32,
        to: PeerId,
        how: Measure,
        in_pairs: bool,
    ) -> Measurement {
        let lasts = Duration::from_micros(u64::from(how.pause_us)) * u32::from(how.probes);
        Measurement {
            asker,
            token,
            to,
            how,
            in_pairs,
            left: how.probes,
            next_at: now,
            end_at: now + lasts * PUT_OFF_MAX + PATIENCE * 2,
            due: 0,
            open: Vec::new(),
            sent: 0,
            least: [None; 2],
        }
    }

    /// When [`on_timeout`](Measurement::on_timeout) wants to be called.
    pub fn next_timeout(&self) -> Time {
        match self.left {
            0 => self.end_at,
            _ => self.next_at.min(self.end_at),
        }
    }

    /// Something is due. The path carries such probes (`works`) and has nothing else to carry (`idle`) or not; `share` is
    /// a random number below 1024: measurements of others that began at the same time are not to go in step.
    pub fn on_timeout(&mut self, now: Time, works: bool, idle: bool, share: u64) -> Step {
        if !works {
            return Step::Over(Measured::Unreached);
        }
        if now >= self.end_at {
            return Step::Over(self.outcome());
        }
        if self.left == 0 || now < self.next_at {
            return Step::Wait;
        }
        let pause_ns = u64::from(self.how.pause_us) * 1_000;
        self.next_at = now + Duration::from_nanos(pause_ns / 2 + pause_ns * share / 1024);
        if !idle {
            return Step::Wait;
        }
        self.left -= 1;
        self.due = 1 + u8::from(self.in_pairs);
        if self.left == 0 {
            self.end_at = self.end_at.min(now + PATIENCE);
        }
        Step::Probe
    }

    /// The link on which a probe to `peer` is to be sent now, if one is.
    pub fn is_due(&self, peer: PeerId) -> Option<LinkId> {
        (self.due > 0 && self.to == peer).then_some(self.how.link)
    }

    /// A probe that is due leaves.
    pub fn on_sent(&mut self, now: Time, token: u32) {
        let is_second = self.in_pairs && self.due == 1;
        self.due = self.due.saturating_sub(1);
        self.open.push((token, now, is_second));
        self.sent = self.sent.saturating_add(1);
    }

    /// A probe of `peer`'s was answered. Returns whether it is one of this measurement.
    pub fn on_reply(&mut self, now: Time, peer: PeerId, link: LinkId, token: u32) -> bool {
        if (peer, link) != (self.to, self.how.link) {
            return false;
        }
        let Some(at) = self.open.iter().position(|open| open.0 == token) else {
            return false;
        };
        let (_, sent, is_second) = self.open.swap_remove(at);
        let least = &mut self.least[usize::from(is_second)];
        let took = now.since(sent);
        *least = Some(least.map_or(took, |before| before.min(took)));
        if self.left == 0 && self.due == 0 && self.open.is_empty() {
            self.end_at = now;
        }
        true
    }

    /// How much later than the first of a pair the second came at least.
    pub fn behind(&self) -> Option<Duration> {
        let [Some(first), Some(second)] = self.least else {
            return None;
        };
        Some(second.saturating_sub(first))
    }

    /// What it came to. Fewer than half of the probes say too little.
    fn outcome(&self) -> Measured {
        let of_each = 1 + u32::from(self.in_pairs);
        let is_short = u32::from(self.sent) * 2 < u32::from(self.how.probes) * of_each;
        match self.least[0] {
            _ if is_short => Measured::Busy,
            None => Measured::Unreached,
            Some(least) => Measured::Least {
                ns: u32::try_from(least.as_nanos()).unwrap_or(u32::MAX),
            },
        }
    }
}
