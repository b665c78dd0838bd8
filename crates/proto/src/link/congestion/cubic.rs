//! CUBIC (RFC 9438), as published, to be compared with in the simulator: a window that loss cuts, whatever lost it.
//!
//! Equations and sections are the RFC's. It counts in packets of full size. Not in it: HyStart++ (RFC 9406), and the detection of
//! spurious losses (section 4.9), which the RFC leaves to the implementer.

use core::time::Duration;

use super::rate::MaxRate;
use super::state::State;
use super::{AckSample, Controller, Pacing};
use crate::Time;
use crate::link::rtt::Rtt;
use crate::link::thresholds::{
    ACK_DELAY_MAX, BURST_BYTES_MAX, WINDOW_INITIAL_PACKETS, WINDOW_MIN_PACKETS,
};

/// How steeply the window grows again (section 5.1).
const C: f64 = 0.4;
/// What is left of the window after a loss (section 4.6).
const BETA: f64 = 0.7;
/// A paced path sends so much faster than its window alone says, as Linux does (`tcp_pacing_ca_ratio`).
const PACING_GAIN: f64 = 1.2;

/// The window of one path.
#[derive(Debug)]
pub struct Cubic {
    /// In packets, as all windows here.
    window: f64,
    window_max: u64,
    packet: f64,
    slow_start_until: f64,
    /// The window just before the last loss (`W_max`).
    before_loss: f64,
    /// Since when it grows without loss; `None`: from the next acknowledgement on.
    epoch: Option<Epoch>,
    /// What is numbered lower was sent before the last cut: its loss is no news.
    recovery_until: u64,
    cut_at: Option<Time>,
    rtt: Duration,
    window_full_at: Option<Time>,
    rate: MaxRate,
}

/// Growth since the last loss.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Time,
    /// When the window is what it was before the loss (`K`), in seconds.
    back_s: f64,
    /// What Reno's window would be (`W_est`).
    reno: f64,
}

impl Cubic {
    /// For a path whose packets are of this size, and that may have `window_max` bytes in flight at most.
    pub fn new(now: Time, packet_bytes: usize, window_max: u64) -> Cubic {
        Cubic {
            window: WINDOW_INITIAL_PACKETS as f64,
            window_max,
            packet: packet_bytes as f64,
            slow_start_until: f64::INFINITY,
            before_loss: 0.0,
            epoch: None,
            recovery_until: 0,
            cut_at: None,
            rtt: Duration::ZERO,
            window_full_at: None,
            rate: MaxRate::new(now),
        }
    }

    /// Section 4.6, with fast convergence (section 4.7).
    fn cut(&mut self, now: Time) {
        self.before_loss = match self.window < self.before_loss {
            true => self.window * (1.0 + BETA) / 2.0,
            false => self.window,
        };
        self.window = (self.window * BETA).max(WINDOW_MIN_PACKETS as f64);
        self.slow_start_until = self.window;
        self.epoch = None;
        self.cut_at = Some(now);
    }

    /// Sections 4.2 to 4.5.
    fn grow(&mut self, now: Time, packets: f64) {
        if self.window < self.slow_start_until {
            self.window += packets;
            return;
        }
        let (window, before_loss) = (self.window, self.before_loss.max(self.window));
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: now,
            back_s: ((before_loss - window) / C).cbrt(),
            reno: window,
        });
        let at_s = (now.since(epoch.began) + self.rtt).as_secs_f64();
        let cubic = C * (at_s - epoch.back_s).powi(3) + before_loss;
        let target = cubic.clamp(window, 1.5 * window);
        let gain = match epoch.reno < before_loss {
            true => 3.0 * (1.0 - BETA) / (1.0 + BETA),
            false => 1.0,
        };
        epoch.reno += gain * packets / window;
        self.window = (window + (target - window) / window * packets).max(epoch.reno);
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, now: Time, in_flight: u64) {
        if in_flight + self.burst_bytes() as u64 >= self.window() {
            self.window_full_at = Some(now);
        }
    }

    fn on_ack(&mut self, now: Time, sample: &AckSample, rtt: &Rtt) -> Option<Duration> {
        let limited = self.window_full_at.is_some_and(|at| at >= sample.sent);
        self.rtt = rtt.smoothed();
        self.rate.sample(now, sample.rate, limited, self.rtt);
        let is_news = sample.number >= self.recovery_until;
        if sample.lost > 0 && is_news {
            self.cut(now);
            self.recovery_until = sample.next_number;
        } else if limited && is_news {
            self.grow(now, f64::from(sample.packets));
        }
        None
    }

    fn on_lost(&mut self, now: Time, packets: u32, rtt: &Rtt) {
        let was_cut = self.cut_at.is_some_and(|at| now.since(at) < rtt.smoothed());
        if packets > 0 && !was_cut {
            self.cut(now);
        }
    }

    fn window(&self) -> u64 {
        ((self.window * self.packet) as u64).min(self.window_max)
    }

    fn pace(&self, rtt: &Rtt) -> Option<Pacing> {
        let rate = self.window() as f64 / rtt.smoothed().as_secs_f64();
        let is_over = self.window >= self.slow_start_until;
        is_over.then_some(Pacing {
            rate: rate * PACING_GAIN,
            depth: self.burst_bytes() as f64,
        })
    }

    fn burst_bytes(&self) -> usize {
        let burst = (self.rate() * ACK_DELAY_MAX.as_secs_f64()) as usize;
        burst.clamp(self.packet as usize, BURST_BYTES_MAX)
    }

    fn known_rate(&self) -> f64 {
        self.rate.get()
    }

    fn rate_is_proven(&self) -> bool {
        self.rate.is_proven() && self.window >= self.slow_start_until
    }

    fn rate_is_settled(&self, _: &Rtt) -> bool {
        self.rate_is_proven()
    }

    fn set_packet_bytes(&mut self, packet_bytes: usize) {
        self.packet = packet_bytes as f64;
    }

    fn restart(&mut self, _: Time) {
        self.window = WINDOW_INITIAL_PACKETS as f64;
        self.doubt();
    }

    fn doubt(&mut self) {
        self.slow_start_until = f64::INFINITY;
        self.epoch = None;
    }

    fn state(&self) -> State {
        match self.window < self.slow_start_until {
            true => State::Startup,
            false => State::Cruise,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A window of so many packets that a loss has just cut, and that is full all the time.
    fn after_loss(packets: f64) -> Cubic {
        let mut cubic = Cubic::new(Time::ZERO, 1000, u64::MAX);
        cubic.window = packets;
        cubic.rtt = MS * 100;
        cubic.cut(Time::ZERO);
        cubic
    }

    /// What the window is after so long.
    fn grown(cubic: &mut Cubic, time: Duration) -> f64 {
        let round_trips = (time.as_millis() / 100) as u32;
        for n in 1..=round_trips {
            let acked = cubic.window;
            cubic.grow(Time::ZERO + MS * 100 * n, acked);
        }
        cubic.window
    }

    #[test]
    fn a_loss_leaves_seven_tenths_and_k_later_it_is_as_it_was() {
        let mut cubic = after_loss(10_000.0);
        assert_eq!(cubic.window, 7_000.0);
        // K is the cube root of 3,000 / 0.4.
        let window = grown(&mut cubic, Duration::from_secs(20));
        assert!((9_900.0..10_100.0).contains(&window), "{window}");
        // Before it is there it hardly grows, beyond it ever faster.
        let mut early = after_loss(10_000.0);
        let half = grown(&mut early, Duration::from_secs(10));
        assert!((9_600.0..9_900.0).contains(&half), "{half}");
        assert!(grown(&mut early, Duration::from_secs(40)) > 12_000.0);
    }

    #[test]
    fn a_small_window_grows_as_renos() {
        let mut cubic = after_loss(20.0);
        // A bit more than half a packet for each round trip (section 4.3).
        let window = grown(&mut cubic, Duration::from_secs(1));
        assert!((18.5..20.5).contains(&window), "{window}");
    }

    #[test]
    fn a_loss_before_the_window_was_back_makes_room_for_others() {
        let mut cubic = after_loss(1_000.0);
        cubic.cut(Time::from_ms(1));
        assert_eq!(
            (cubic.window.round(), cubic.before_loss.round()),
            (490.0, 595.0)
        );
    }
}
