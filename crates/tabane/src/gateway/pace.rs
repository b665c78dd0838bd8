//! The line's rate, if the cluster file gives it: the gateway sends no faster, so that packets wait here, where connections take
//! turns.

use core::time::Duration;

use tabane_proto::Time;

/// A frame's bytes on the line besides its IP packet (IEEE 802.3: header, checksum, preamble, gap).
const FRAMING_BYTES: u64 = 38;
/// It may be this much ahead: loops do not wake on the nanosecond.
const AHEAD: Duration = Duration::from_micros(300);

/// The clock of a line.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    bits_per_s: u64,
    /// When the line is done with all that was sent.
    free_at: Time,
}

impl Pace {
    /// Of a line of this rate.
    pub const fn new(bits_per_s: u64) -> Pace {
        Pace {
            bits_per_s,
            free_at: Time::ZERO,
        }
    }

    /// When something may be sent; `None`: now.
    pub fn waits_until(&self, now: Time) -> Option<Time> {
        let may_at = self.free_at - AHEAD;
        (may_at > now).then_some(may_at)
    }

    /// This many packets, of this many bytes in total, were sent.
    pub fn sent(&mut self, now: Time, bytes: usize, packets: usize) {
        let bytes = bytes as u64 + FRAMING_BYTES * packets as u64;
        let took_ns = bytes.saturating_mul(8_000_000_000) / self.bits_per_s.max(1);
        self.free_at = self.free_at.max(now) + Duration::from_nanos(took_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sends_as_fast_as_the_line_and_no_faster() {
        let mut pace = Pace::new(100_000_000);
        let (mut now, mut sent) = (Time::from_ms(1000), 0_u64);
        let end = now + Duration::from_millis(100);
        while now < end {
            match pace.waits_until(now) {
                Some(until) => now = until,
                None => {
                    pace.sent(now, 1500, 1);
                    sent += 1538;
                }
            }
        }
        // 100 ms of 100 Mb/s are 1.25 MB.
        assert!((1_250_000..1_260_000).contains(&sent), "{sent}");
    }
}
