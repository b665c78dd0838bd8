//! A measurement that this node makes: probes of one size over one path, and the least round trip of them.
//!
//! A host takes longer to wake up for a packet than a switch takes to pass it on, and it falls asleep after a pause of
//! some milliseconds. So each probe of a survey follows the answer to a small one, which wakes both hosts. Without that,
//! round trips at 100 Mb/s were longer by 70 to 180 µs now and then. Trains of three probes show how fast a network is:
//! by how much later the third one is answered than the second.

use core::time::Duration;

use crate::wire::{Measure, Measured, PAUSE_US};
use crate::{LinkId, PeerId, Time};

/// Time for the last probes' answers: on any shorter path nobody waits that long.
const PATIENCE: Duration = Duration::from_millis(100);
/// While the link has something to carry, probes are delayed, in total at most this many times their own duration.
const PUT_OFF_MAX: u32 = 3;

/// Bytes of a probe that only wakes both hosts: as few as possible.
const WAKING_BYTES: usize = 64;

/// The purpose of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// Both hosts wake up for it, so that what follows its answer finds them awake.
    Waking,
    /// Its round trip is measured.
    First,
    /// Sent right behind the first one, in case the hosts on the way still had to wake up for that.
    Second,
    Third,
}

/// A measurement's next step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Send probes: [`Measurement::due_bytes`].
    Probe,
    /// Nothing yet.
    Wait,
    /// It is over, with this outcome.
    Over(Measured),
}

/// One measurement.
#[derive(Debug)]
pub(crate) struct Measurement {
    /// Who asked for it; `None`: this node.
    pub asker: Option<PeerId>,
    /// The asker's token.
    pub token: u32,
    /// To whom.
    pub to: PeerId,
    pub how: Measure,
    /// Three probes are sent each time, one right behind the other.
    in_trains: bool,
    /// So many times more.
    left: u8,
    /// When the next ones are due.
    next_at: Time,
    /// When it is over at the latest.
    end_at: Time,
    /// The probe that is due now.
    due: Option<Purpose>,
    /// Those that were sent and not answered.
    open: Vec<(u32, Time, Purpose)>,
    /// The least round trips, of first, second and third ones.
    least: [Option<Duration>; 3],
    train: Train,
}

/// State of a train, in which every probe is a first one.
#[derive(Debug, Default)]
struct Train {
    sent: u8,
    answered: u32,
    /// When the first answer came, and the last one.
    first: Option<Time>,
    last: Option<Time>,
}

impl Measurement {
    pub fn new(
        now: Time,
        asker: Option<PeerId>,
        token: u32,
        to: PeerId,
        how: Measure,
        in_trains: bool,
    ) -> Measurement {
        let lasts = Duration::from_micros(u64::from(how.pause_us)) * u32::from(how.probes);
        Measurement {
            asker,
            token,
            to,
            how,
            in_trains,
            left: if how.is_train() { 1 } else { how.probes },
            next_at: now,
            end_at: now + lasts * PUT_OFF_MAX + PATIENCE * 2,
            due: None,
            open: Vec::new(),
            least: [None; 3],
            train: Train::default(),
        }
    }

    /// When [`on_timeout`](Measurement::on_timeout) wants to be called.
    pub fn next_timeout(&self) -> Time {
        match self.left {
            0 => self.end_at,
            _ => self.next_at.min(self.end_at),
        }
    }

    /// Something is due. `works`: the path carries such probes; `idle`: it has nothing else to carry; `share`: a
    /// random number below 1024, so that measurements that others began at the same time do not stay in step.
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
        let pause_ns = u64::from(self.how.pause_us.max(*PAUSE_US.start())) * 1_000;
        self.next_at = now + Duration::from_nanos(pause_ns / 2 + pause_ns * share / 1024);
        if !idle {
            return Step::Wait;
        }
        self.left -= 1;
        self.due = Some(Purpose::Waking);
        if self.left == 0 {
            self.end_at = self.end_at.min(now + PATIENCE);
        }
        Step::Probe
    }

    /// The size of the probe to send now, if any.
    pub fn due_bytes(&self) -> Option<usize> {
        Some(match self.due? {
            Purpose::Waking => WAKING_BYTES,
            Purpose::First | Purpose::Second | Purpose::Third => self.how.datagram_bytes.into(),
        })
    }

    /// The probe that is due leaves.
    pub fn on_sent(&mut self, now: Time, token: u32) {
        let Some(purpose) = self.due.take() else {
            return;
        };
        self.due = match purpose {
            Purpose::First if self.how.is_train() => {
                self.train.sent += 1;
                (self.train.sent < self.how.probes).then_some(Purpose::First)
            }
            Purpose::First => self.in_trains.then_some(Purpose::Second),
            Purpose::Second => Some(Purpose::Third),
            Purpose::Waking | Purpose::Third => None,
        };
        self.open.push((token, now, purpose));
    }

    /// A probe was answered on a link. Returns whether it is one of this measurement.
    pub fn on_reply(&mut self, now: Time, link: LinkId, token: u32) -> bool {
        if link != self.how.link {
            return false;
        }
        let Some(at) = self.open.iter().position(|open| open.0 == token) else {
            return false;
        };
        let (_, sent, purpose) = self.open.swap_remove(at);
        let least = match purpose {
            Purpose::Waking => {
                self.due = Some(Purpose::First);
                return true;
            }
            Purpose::First => {
                self.train.answered += 1;
                self.train.first.get_or_insert(now);
                self.train.last = Some(now);
                &mut self.least[0]
            }
            Purpose::Second => &mut self.least[1],
            Purpose::Third => &mut self.least[2],
        };
        let took = now.since(sent);
        *least = Some(least.map_or(took, |before| before.min(took)));
        if self.left == 0 && self.due.is_none() && self.open.is_empty() {
            self.end_at = now;
        }
        true
    }

    /// How much longer the last of a train took at least than the one before it did at least.
    pub fn behind(&self) -> Option<Duration> {
        let [_, Some(second), Some(third)] = self.least else {
            return None;
        };
        Some(third.saturating_sub(second))
    }

    /// The result. Fewer than half of the probes are not conclusive.
    fn outcome(&self) -> Measured {
        if self.how.is_train() {
            return self.train.outcome(self.how.probes, self.left > 0);
        }
        let tried = self.how.probes - self.left;
        let is_short = tried * 2 < self.how.probes;
        match self.least[0] {
            _ if is_short => Measured::Busy,
            None => Measured::Unreached,
            Some(least) => Measured::Least {
                ns: u32::try_from(least.as_nanos()).unwrap_or(u32::MAX),
            },
        }
    }
}

impl Train {
    /// The result of a train of `probes`, which may not have left because the link was not idle.
    fn outcome(&self, probes: u8, waits: bool) -> Measured {
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return match waits {
                true => Measured::Busy,
                false => Measured::Unreached,
            };
        };
        if self.answered < 2 || self.answered * 2 < u32::from(probes) {
            return Measured::Unreached;
        }
        // Those that were lost did not take the place of others.
        let apart = last.since(first) / (self.answered - 1);
        Measured::Least {
            ns: u32::try_from(apart.as_nanos()).unwrap_or(u32::MAX),
        }
    }
}
