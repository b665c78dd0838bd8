//! What is true of the paths: the observer's knowledge that the checkers hold
//! against what the nodes believe.

use super::channel::{Channel, Conditions};
use super::events::{MS, Ns};

/// How good a path is, both directions together, as far as its wires go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quality {
    /// Nothing passes in at least one direction.
    Dead,
    /// So bad that a node may call it failed or not: more than half is lost, losses
    /// come in bursts, or packets take longer than [`WORKING_DELAY_MAX_NS`].
    Poor,
    /// A node must not call it failed while packets pass: at most half of them are
    /// lost in either direction.
    Working,
    /// Nothing is lost but for full queues, and packets take at most
    /// `CLEAN_DELAY_MAX_NS`.
    Clean,
}

/// One way, queue included, on a path that is at least [`Quality::Working`].
pub const WORKING_DELAY_MAX_NS: Ns = 250 * MS;
/// One way, queue included, on a path that is [`Quality::Clean`].
pub const CLEAN_DELAY_MAX_NS: Ns = 150 * MS;
/// Below this rate a path is [`Quality::Poor`]: probes alone fill it.
pub const WORKING_RATE_MIN_BPS: u64 = 1_000_000;

/// Quality of one direction: a host's wire to the switch and the switch's wire to
/// the other host.
pub fn quality_one_way(up: &Channel, down: &Channel) -> Quality {
    let (u, d) = (&up.conditions, &down.conditions);
    let smallest = tabane_proto::limits::DATAGRAM_BYTES_MIN;
    if u.dead || d.dead || u.handshakes_only || d.handshakes_only {
        return Quality::Dead;
    }
    let lost = lost_ppm(u, d);
    let delay = u.delay_max_ns() + d.delay_max_ns();
    let bursts = u.burst_begins_ppm > 0 || d.burst_begins_ppm > 0;
    let too_small = u.datagram_bytes_max.min(d.datagram_bytes_max) < smallest;
    let slow = u.rate_bps.min(d.rate_bps) < WORKING_RATE_MIN_BPS;
    if lost > 500_000 || bursts || too_small || slow || delay > WORKING_DELAY_MAX_NS {
        Quality::Poor
    } else if lost > 0 || delay > CLEAN_DELAY_MAX_NS {
        Quality::Working
    } else {
        Quality::Clean
    }
}

fn lost_ppm(up: &Conditions, down: &Conditions) -> u32 {
    let passes = |c: &Conditions| {
        u64::from(1_000_000 - c.loss_ppm.min(1_000_000))
            * u64::from(1_000_000 - c.corrupt_ppm.min(1_000_000))
            / 1_000_000
    };
    (1_000_000 - passes(up) * passes(down) / 1_000_000) as u32
}

/// What a path was like for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum During {
    /// Clean, and nothing changed.
    Clean,
    /// Dead all the while.
    Dead,
    /// It died or came back, once.
    Failing,
    /// Anything else.
    Troubled,
}

/// The past of a path: when its quality or anything else about it changed.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<(Ns, Quality)>,
}

impl History {
    /// Notes the quality from `now` on. With `touched`, also when it is the same as
    /// before: something about the path has changed.
    pub fn note(&mut self, now: Ns, quality: Quality, touched: bool) {
        if touched || self.entries.last().is_none_or(|(_, last)| *last != quality) {
            self.entries.push((now, quality));
        }
    }

    /// The quality now.
    pub fn now(&self) -> Quality {
        self.entries.last().map_or(Quality::Dead, |(_, q)| *q)
    }

    /// Since when nothing has changed.
    pub fn steady_since(&self) -> Ns {
        self.entries.last().map_or(0, |(at, _)| *at)
    }

    /// Since when the quality has been at least `least` without a break; `None` if it
    /// is not now.
    pub fn at_least_since(&self, least: Quality) -> Option<Ns> {
        let good = self.entries.iter().rev().take_while(|(_, q)| *q >= least);
        good.last().map(|(at, _)| *at)
    }

    /// What the path was like between two instants.
    pub fn during(&self, from: Ns, to: Ns) -> During {
        let before = self.entries.iter().take_while(|(at, _)| *at < from).last();
        let within = self
            .entries
            .iter()
            .filter(|(at, _)| (from..=to).contains(at));
        let qualities: Vec<Quality> = before.into_iter().chain(within).map(|e| e.1).collect();
        match qualities.as_slice() {
            [Quality::Clean] => During::Clean,
            [Quality::Dead] => During::Dead,
            [Quality::Clean, Quality::Dead] | [Quality::Dead, Quality::Clean] => During::Failing,
            _ => During::Troubled,
        }
    }

    /// The worst quality between two instants.
    pub fn worst_between(&self, from: Ns, to: Ns) -> Quality {
        let mut worst = Quality::Clean;
        for (i, (at, quality)) in self.entries.iter().enumerate() {
            let ends = self.entries.get(i + 1).map_or(Ns::MAX, |(next, _)| *next);
            if *at <= to && ends > from {
                worst = worst.min(*quality);
            }
        }
        worst
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_answers_what_was_when() {
        let mut h = History::default();
        h.note(0, Quality::Clean, false);
        h.note(10, Quality::Dead, false);
        h.note(20, Quality::Working, false);
        h.note(25, Quality::Working, false);
        h.note(30, Quality::Clean, false);
        h.note(40, Quality::Clean, true);
        assert_eq!(h.now(), Quality::Clean);
        assert_eq!(h.steady_since(), 40);
        assert_eq!(h.at_least_since(Quality::Clean), Some(30));
        assert_eq!(h.at_least_since(Quality::Working), Some(20));
        assert_eq!(h.worst_between(0, 9), Quality::Clean);
        assert_eq!(h.worst_between(5, 12), Quality::Dead);
        assert_eq!(h.during(1, 9), During::Clean);
        assert_eq!(h.during(5, 12), During::Failing);
        assert_eq!(h.during(11, 19), During::Dead);
        assert_eq!(h.during(35, 45), During::Troubled);
        assert_eq!(h.worst_between(21, 22), Quality::Working);
    }
}
