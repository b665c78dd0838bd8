//! What a node has in flight on a path: no more than the path's window, nor than the peer grants.

use tabane_proto::PathStats;

use super::{Checked, Rule, Violation};
use crate::net::{MS, Ns};

/// What a grant leaves unused for so long may be made up for: a process wakes up late.
const LATE_NS: Ns = 2 * MS;
/// Two bursts of the largest size. A grant is kept to in bursts, and a new one may come while one is under way.
const BURSTS_BYTES: f64 = 128.0 * 1024.0;

/// One path of one host, at its last transmit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flight {
    content_packets: u64,
    /// What a grant still allows, in bytes, …
    allowed_bytes: f64,
    /// … as of then.
    at: Ns,
}

impl Flight {
    /// A burst of so many bytes went out on a path, of which this is known now.
    ///
    /// # Errors
    /// [`Rule::Window`]: it carried content that there was no room for.
    pub fn sent(&mut self, now: Ns, bytes: usize, stats: &PathStats) -> Checked {
        let before = core::mem::replace(&mut self.content_packets, stats.content_packets_sent);
        let carries_content = before < stats.content_packets_sent;
        let grant = stats.granted_bytes_per_s.unwrap_or(f64::INFINITY);
        let most = grant * LATE_NS as f64 / 1e9 + BURSTS_BYTES;
        let earned = grant * (now - self.at) as f64 / 1e9;
        self.allowed_bytes = match grant.is_finite() {
            true => (self.allowed_bytes + earned).min(most),
            false => f64::INFINITY,
        };
        self.at = now;
        if !carries_content {
            return Ok(());
        }
        self.allowed_bytes -= bytes as f64;
        let (in_flight, window) = (stats.in_flight_bytes, stats.window_bytes);
        let what = if in_flight > window + bytes as u64 {
            format!("{in_flight} bytes are in flight, {bytes} just sent; the window is {window}")
        } else if self.allowed_bytes < 0.0 {
            format!("{grant:.0} bytes a second are granted, and {bytes} more were sent")
        } else {
            return Ok(());
        };
        Err(Violation::new(Rule::Window, now, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(in_flight_bytes: u64, packets: u64, granted: Option<f64>) -> PathStats {
        PathStats {
            in_flight_bytes,
            window_bytes: 10_000,
            content_packets_sent: packets,
            granted_bytes_per_s: granted,
            ..PathStats::default()
        }
    }

    #[test]
    fn content_past_the_window_is_seen_and_probes_are_not() {
        let mut flight = Flight::default();
        assert!(flight.sent(MS, 1_000, &stats(11_000, 1, None)).is_ok());
        assert!(
            flight.sent(MS, 1_000, &stats(20_000, 1, None)).is_ok(),
            "a probe"
        );
        assert!(flight.sent(MS, 1_000, &stats(11_001, 2, None)).is_err());
    }

    #[test]
    fn more_than_is_granted_is_seen_however_small() {
        let mut flight = Flight::default();
        let sent = (1..2_000).map(|ms| flight.sent(ms * MS, 2_000, &stats(0, ms, Some(1e6))));
        assert!(sent.into_iter().any(|sent| sent.is_err()), "2 MB/s");
        let mut flight = Flight::default();
        for ms in 1..2_000 {
            assert!(
                flight
                    .sent(ms * MS, 1_000, &stats(0, ms, Some(1e6)))
                    .is_ok()
            );
        }
    }
}
