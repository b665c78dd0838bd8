//! Path MTU discovery for datagrams (RFC 8899): the largest datagram that passes.
//!
//! A path is as large as it was shown to be. It begins with what every IPv4 host takes, and the first question is the
//! size of plain Ethernet, which costs one round trip. A *narrow* path would cost the processor as much as three, and
//! would have a share of the content at once: so it waits until no wider path works. Each sender decides that for itself;
//! nothing is told to the peer.

use core::time::Duration;

use super::thresholds::{
    LOSS_ASSUMED, MTU_FALSE, MTU_PROBE_TIMEOUT, MTU_PROBES, MTU_RAISE, RECHECK, unanswered_packets,
};
use crate::Time;
use crate::limits::DATAGRAM_BYTES_WIDE;

/// UDP payloads worth trying: what common links leave after IP and UDP headers. 1472 and 1452 are
/// Ethernet under IPv4 and IPv6, 8972 and 8952 jumbo frames, those between tunnels and odd switches.
/// (Those below the least of IPv6 are of links that somebody has set so.)
const SIZES: [usize; 12] = [
    768,
    988,
    DATAGRAM_BYTES_WIDE,
    1332,
    1372,
    1412,
    1452,
    1472,
    2972,
    4472,
    8152,
    8952,
];
/// Tried first: nearly every link is plain Ethernet under IPv4.
const FIRST: usize = 1472;

#[derive(Clone, Copy, Debug)]
struct Trial {
    size: usize,
    attempts: u32,
    token: u32,
    give_up_at: Time,
}

/// Search for the path MTU.
#[derive(Debug)]
pub struct Mtu {
    current: usize,
    min: usize,
    max: usize,
    /// Smallest size known not to pass; more than `max` if none is.
    failed: usize,
    trial: Option<Trial>,
    /// When to search (again).
    search_at: Time,
    retried: bool,
    /// Large packets lost since the last one of such a size that arrived.
    large_lost: u32,
    /// The least size of those.
    lost_bytes: usize,
    /// Whether anything smaller was answered since the first of those.
    small_arrived: bool,
    /// [`DATAGRAM_BYTES_WIDE`] does not pass.
    is_narrow: bool,
}

impl Mtu {
    pub fn new(now: Time, min: usize, max: usize) -> Mtu {
        Mtu {
            current: min,
            min,
            max: max.max(min),
            failed: max.max(min) + 1,
            trial: None,
            search_at: now,
            retried: false,
            large_lost: 0,
            lost_bytes: 0,
            small_arrived: false,
            is_narrow: max < DATAGRAM_BYTES_WIDE,
        }
    }

    /// The largest datagram to use now.
    pub const fn current(&self) -> usize {
        self.current
    }

    /// Whether it was found that [`DATAGRAM_BYTES_WIDE`] does not pass. As long as it is not known it may.
    pub const fn is_narrow(&self) -> bool {
        self.is_narrow
    }

    fn candidate(&self) -> Option<usize> {
        let open = |s: usize| self.current < s && s < self.failed;
        if FIRST <= self.max && open(FIRST) {
            return Some(FIRST);
        }
        if open(self.max) {
            return Some(self.max);
        }
        let count = SIZES.iter().filter(|&&s| open(s)).count();
        SIZES.iter().copied().filter(|&s| open(s)).nth(count / 2)
    }

    /// The size of the probe to send now, if one is due, and what it is to bear: `token`, or, if it repeats one that is
    /// not answered yet, the same as that. (The answer may only be late: a process that waits for its processor.)
    /// `patience` is how long an answer can take.
    pub fn poll(
        &mut self,
        now: Time,
        token: u32,
        patience: Duration,
        loss_ratio: f64,
    ) -> Option<(usize, u32)> {
        if let Some(trial) = self.trial {
            if now < trial.give_up_at {
                return None;
            }
            if trial.attempts >= attempts_max(loss_ratio) {
                self.failed = self.failed.min(trial.size);
                self.is_narrow |= self.failed <= DATAGRAM_BYTES_WIDE;
                self.trial = None;
            }
        } else if now < self.search_at {
            return None;
        }
        let Some(size) = self.candidate() else {
            self.finish(now);
            return None;
        };
        let (attempts, token) = self.trial.map_or((1, token), |t| (t.attempts + 1, t.token));
        self.trial = Some(Trial {
            size,
            attempts,
            token,
            give_up_at: now + MTU_PROBE_TIMEOUT.max(patience * 2),
        });
        Some((size, token))
    }

    /// The search is over; when it is done again.
    fn finish(&mut self, now: Time) {
        self.trial = None;
        self.search_at = match self.failed > self.max {
            true => Time::NEVER,
            false if self.retried && !self.is_narrow => now + MTU_RAISE,
            false => now + RECHECK,
        };
        self.retried = true;
        self.failed = self.max + 1;
    }

    /// An answer; it is to a probe of `datagram_bytes`. Returns whether `token` is of the probe awaited.
    pub fn on_reply(&mut self, now: Time, token: u32, datagram_bytes: usize) -> bool {
        let Some(trial) = self.trial.filter(|t| t.token == token) else {
            return false;
        };
        if datagram_bytes >= trial.size {
            self.current = trial.size;
            self.is_narrow &= trial.size < DATAGRAM_BYTES_WIDE;
            self.large_lost = 0;
            self.trial = None;
            self.search_at = now;
        }
        true
    }

    /// A packet of this size arrived.
    pub const fn on_acked(&mut self, bytes: usize) {
        if self.large_lost == 0 {
            return;
        }
        self.small_arrived = bytes < self.lost_bytes;
        if !self.small_arrived {
            self.large_lost = 0;
        }
    }

    /// Packets were lost, the largest of this size. Returns whether the path has become a black hole for large
    /// packets: the MTU is the least again and a new search begins.
    pub fn on_lost(&mut self, now: Time, packets: u32, largest: usize, loss_ratio: f64) -> bool {
        if largest <= self.min || self.current == self.min {
            return false;
        }
        self.lost_bytes = match self.large_lost {
            0 => largest,
            _ => largest.min(self.lost_bytes),
        };
        self.large_lost = self.large_lost.saturating_add(packets);
        let enough = unanswered_packets(loss_ratio);
        if self.large_lost < enough || !self.small_arrived {
            return false;
        }
        self.fall(now, self.current);
        true
    }

    /// The local interface refused a datagram of this size.
    pub fn on_refused(&mut self, now: Time, bytes: usize) {
        if bytes <= self.current {
            self.fall(now, bytes);
        }
    }

    fn fall(&mut self, now: Time, failed: usize) {
        self.current = self.min;
        self.failed = failed.max(self.min + 1);
        self.trial = None;
        self.search_at = now;
        self.retried = false;
        self.large_lost = 0;
        self.small_arrived = false;
    }

    /// The path may be another one now: the search begins again from what works.
    pub const fn search_again(&mut self, now: Time) {
        self.failed = self.max + 1;
        self.search_at = now;
        self.trial = None;
        self.retried = false;
    }

    /// When a probe is due or given up.
    pub fn next_timeout(&self) -> Time {
        self.trial.map_or(self.search_at, |t| t.give_up_at)
    }
}

/// Probes of one size before it has failed: enough that loss alone seldom fails it.
fn attempts_max(loss_ratio: f64) -> u32 {
    let answered = (1.0 - loss_ratio.min(LOSS_ASSUMED)).powi(2);
    let needed = (MTU_FALSE.ln() / (1.0 - answered).max(f64::MIN_POSITIVE).ln()).ceil() as u32;
    needed.max(MTU_PROBES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DATAGRAM_BYTES_MIN;

    /// Runs the search over a path that passes `passes` bytes; returns the probes used.
    fn search(mtu: &mut Mtu, now: &mut Time, passes: usize) -> u32 {
        let mut probes = 0;
        while mtu.next_timeout() <= *now + MTU_PROBE_TIMEOUT * 2 {
            *now = (*now).max(mtu.next_timeout());
            if let Some((size, token)) = mtu.poll(*now, probes, Duration::from_millis(3), 0.0) {
                if size <= passes {
                    mtu.on_reply(*now, token, size);
                }
                probes += 1;
            }
        }
        probes
    }

    #[test]
    fn finds_what_passes_in_a_few_probes() {
        for (max, passes, found, most) in [
            (1472, 1472, 1472, 1),
            (8972, 8972, 8972, 2),
            (8972, 1472, 1472, 13),
            (1472, 1400, 1372, 13),
            (8972, 4500, 4472, 14),
            (1472, 1232, 1232, 13),
            (1472, 1000, 988, 13),
            (1472, 600, DATAGRAM_BYTES_MIN, 13),
            (1232, 1232, 1232, 1),
            (1000, 1000, 1000, 1),
        ] {
            let mut now = Time::from_ms(1);
            let mut mtu = Mtu::new(now, DATAGRAM_BYTES_MIN, max);
            let probes = search(&mut mtu, &mut now, passes);
            assert_eq!(mtu.current(), found, "{max} {passes}");
            assert!(probes <= most, "{probes} probes for {max} {passes}");
            assert_eq!(mtu.is_narrow(), found < DATAGRAM_BYTES_WIDE);
        }
    }

    #[test]
    fn a_path_is_narrow_from_when_it_is_known_until_more_passes() {
        let mut now = Time::from_ms(1);
        let mut mtu = Mtu::new(now, DATAGRAM_BYTES_MIN, 1472);
        assert!(!mtu.is_narrow(), "not known");
        search(&mut mtu, &mut now, 700);
        assert!(mtu.is_narrow());
        for _ in 0..3 {
            let next = mtu.next_timeout().since(now);
            assert!(next <= RECHECK, "it is asked again and again");
            now = mtu.next_timeout();
            search(&mut mtu, &mut now, 700);
        }
        now = mtu.next_timeout();
        search(&mut mtu, &mut now, 1472);
        assert!(!mtu.is_narrow());
    }

    #[test]
    fn a_black_hole_falls_back_and_searches_again() {
        let mut now = Time::from_ms(1);
        let mut mtu = Mtu::new(now, DATAGRAM_BYTES_MIN, 1472);
        search(&mut mtu, &mut now, 1472);
        for _ in 0..unanswered_packets(0.0) * 3 {
            assert!(!mtu.on_lost(now, 1, 1472, 0.0), "nothing arrives at all");
        }
        mtu.on_acked(100);
        // Smaller ones that arrive say nothing of the larger ones.
        mtu.on_acked(1300);
        assert!(mtu.on_lost(now, 1, 1472, 0.0));
        assert_eq!(mtu.current(), DATAGRAM_BYTES_MIN);
        search(&mut mtu, &mut now, 1400);
        assert_eq!(mtu.current(), 1372);
        now = mtu.next_timeout();
        search(&mut mtu, &mut now, 1472);
        assert_eq!(mtu.current(), 1472);
    }

    #[test]
    fn random_loss_is_no_black_hole() {
        let now = Time::from_ms(1);
        let mut mtu = Mtu::new(now, DATAGRAM_BYTES_MIN, 1472);
        search(&mut mtu, &mut { now }, 1472);
        for _ in 0..10_000 {
            for _ in 0..9 {
                assert!(!mtu.on_lost(now, 1, 1472, 0.0));
            }
            mtu.on_acked(60);
            mtu.on_acked(1472);
        }
    }
}
