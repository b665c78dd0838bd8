//! Limits on log lines that others can cause.

use core::time::Duration;
use std::collections::BTreeMap;

use tabane_proto::{PeerId, Time};

use crate::log::Line;

/// So many lines at once, and one more for every interval that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Lines at once.
    pub burst: u32,
    /// How long one takes to be allowed again. At least a second.
    pub interval: Duration,
}

/// The allowance of one source of lines.
#[derive(Debug)]
pub struct Lines {
    left: u32,
    refilled: Time,
    /// Lines that were not allowed since the last one that was.
    left_out: u64,
}

impl Lines {
    /// All of `allowance` is left.
    pub fn new(now: Time, allowance: Allowance) -> Lines {
        Lines {
            left: allowance.burst,
            refilled: now,
            left_out: 0,
        }
    }

    /// Somebody wants to write a line. How many before it were left out, if it is allowed.
    pub fn take(&mut self, now: Time, allowance: Allowance) -> Option<u64> {
        let earned = now.since(self.refilled).as_secs() / allowance.interval.as_secs();
        if let Ok(earned) = u32::try_from(earned) {
            self.left = self.left.saturating_add(earned).min(allowance.burst);
            self.refilled += allowance.interval * earned;
        }
        if self.left == 0 {
            self.left_out += 1;
            return None;
        }
        self.left -= 1;
        Some(core::mem::take(&mut self.left_out))
    }
}

/// The limit for each peer: a link that fails every minute for an hour is logged in full.
const OF_PEER: Allowance = Allowance {
    burst: 64,
    interval: Duration::from_secs(10),
};

/// The allowance for each peer: it, or a holder of the key, can connect and disconnect as often as it
/// likes.
#[derive(Debug, Default)]
pub struct PeerLines(BTreeMap<PeerId, Lines>);

impl PeerLines {
    /// A line about `peer`: returns what to write of it, if anything.
    pub fn take(&mut self, now: Time, peer: PeerId, line: Line) -> Option<Line> {
        let lines = self.0.entry(peer);
        let lines = lines.or_insert_with(|| Lines::new(now, OF_PEER));
        let text = match lines.take(now, OF_PEER)? {
            0 => line.text,
            left_out => {
                let before = format!("({left_out} lines about this node were left out before)");
                format!("{} {before}", line.text)
            }
        };
        Some(Line { text, ..line })
    }

    /// There is no such peer any more.
    pub fn forget(&mut self, peer: PeerId) {
        self.0.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(name: &str) -> Line {
        Line::info(format!("{name}: connected"))
    }

    #[test]
    fn who_comes_and_goes_all_the_time_is_told_at_times_and_others_always() {
        let mut lines = PeerLines::default();
        let second = |s| Time::ZERO + Duration::from_secs(s);
        let mut told = Vec::new();
        for s in 0..3600 {
            told.extend(lines.take(second(s), PeerId(1), connected("n1")));
        }
        let most = OF_PEER.burst as usize + 3600 / 10;
        assert!((most - 1..=most).contains(&told.len()), "{}", told.len());
        assert_eq!(told[0], connected("n1"));
        assert!(
            told.last()
                .unwrap()
                .text
                .contains("9 lines about this node")
        );
        let other = lines.take(second(3600), PeerId(2), connected("n2"));
        assert_eq!(other, Some(connected("n2")));
        lines.forget(PeerId(1));
        let anew = lines.take(second(3600), PeerId(1), connected("n1"));
        assert_eq!(anew, Some(connected("n1")));
    }

    #[test]
    fn what_fails_every_minute_is_told_each_time() {
        let mut lines = PeerLines::default();
        for s in (0..36_000).step_by(10) {
            let now = Time::ZERO + Duration::from_secs(s);
            assert_eq!(
                lines.take(now, PeerId(0), connected("n0")),
                Some(connected("n0"))
            );
        }
    }
}
