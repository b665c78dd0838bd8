//! Our controller: enough in flight to keep the link busy and a short queue before it, never less for random loss.
//!
//! window = rate × (least RTT + queue target + what answers wait on their way back), in the manner of BBR's rate and of
//! Vegas's queue. It follows rate and delay, so 30% of random loss costs 30%. On a LAN the queue target is many times the
//! RTT, so that an estimate that is too low raises itself within a round trip or two; on a long path the target is a
//! quarter of the RTT. While a process waits for its processor the link lives on the queue: the target is as long as the
//! wait ([`AckAggregation`]). Packets leave in bursts of at most half a millisecond, and without a pacing timer, but on
//! far paths (`bucket.rs`).

use core::time::Duration;

use super::loss_cause::LossCause;
use super::rate::{AckAggregation, MaxRate, Settling};
use super::round::{BusyPeriod, Round};
use super::state::{RttProbe, State};
use super::{AckSample, Controller, Pacing, PeerTime};
use crate::Time;
use crate::link::rtt::Rtt;
use crate::link::thresholds::{
    ACK_DELAY_MAX, BURST_BYTES_MAX, DRAIN_INTERVAL, DRAIN_PAUSE, FULL_RATE_ROUNDS, GAIN,
    HOPEFUL_ROUNDS, PAUSE, QUEUE_TARGET, RATE_DOUBTED, RATE_INITIAL, RATE_PACKETS, RATE_PERIOD,
    ROUND_MIN, WINDOW_INITIAL_PACKETS, WINDOW_MIN_PACKETS,
};

/// What one path believes of its speed.
#[derive(Debug)]
pub struct QueueTarget {
    state: State,
    rate: MaxRate,
    settling: Settling,
    round: Round,
    window: u64,
    window_max: u64,
    packet: u64,
    /// The rate no longer grows (BBR: full_bw_reached). Until then, how many rounds it has not grown, and what it must outgrow.
    full_rate_reached: bool,
    rounds_without_growth: u32,
    rate_to_outgrow: f64,
    /// Rounds in which the window was full. A restart leaves them: what the path did before still counts.
    rounds_filled: u32,
    period: BusyPeriod,
    aggregation: AckAggregation,
    loss_cause: LossCause,
    /// When the window was last full: samples of packets sent before say what the link can do.
    window_full_at: Option<Time>,
    queue_seen_empty: Time,
    drained_at: Time,
    /// The estimate when the queue was last known to be the path's own.
    rate_verified: f64,
}

impl QueueTarget {
    /// For a path whose packets are of this size, and that may have `window_max` bytes in flight at most.
    pub fn new(now: Time, packet_bytes: usize, window_max: u64) -> QueueTarget {
        let packet = packet_bytes as u64;
        let mut congestion = QueueTarget {
            state: State::Startup,
            rate: MaxRate::new(now),
            settling: Settling::default(),
            round: Round::new(now, 0, 0.0),
            window: 0,
            window_max,
            packet,
            full_rate_reached: false,
            rounds_without_growth: 0,
            rate_to_outgrow: 0.0,
            rounds_filled: 0,
            period: BusyPeriod::new(now, PeerTime::default()),
            aggregation: AckAggregation::new(now),
            loss_cause: LossCause::new(now),
            window_full_at: None,
            queue_seen_empty: now,
            drained_at: now,
            rate_verified: 0.0,
        };
        congestion.window = congestion.bounded(WINDOW_INITIAL_PACKETS * packet);
        congestion
    }

    fn begin_startup(&mut self) {
        self.full_rate_reached = false;
        self.rounds_without_growth = 0;
        self.rate_to_outgrow = 0.0;
        self.state = State::Startup;
    }

    fn become_(&mut self, next: State) {
        debug_assert!(self.state.may_become(&next), "{:?} to {next:?}", self.state);
        self.state = next;
    }

    /// Is in the state that follows from whether the rate still grows, unless a probe is under way.
    fn go_on(&mut self) {
        if !self.state.is_probe() {
            self.end_probe();
        }
    }

    fn end_probe(&mut self) {
        let next = match self.full_rate_reached {
            true => State::Cruise,
            false => State::Startup,
        };
        if self.state != next {
            self.become_(next);
        }
    }

    /// The rate grows no more.
    fn reach_full_rate(&mut self) {
        self.full_rate_reached = true;
        self.go_on();
    }

    fn learn_of_loss(&mut self, now: Time, acked: u32, lost: u32, rtt: &Rtt) {
        let Some(loss) = self.loss_cause.decided(now, acked, lost, rtt.base()) else {
            return;
        };
        match &mut self.state {
            State::Startup | State::Cruise => {
                if let Some(probe) = self.loss_cause.judge(now, loss) {
                    self.become_(State::ProbeLoss(probe));
                }
            }
            State::ProbeLoss(probe) => match probe.judge(loss) {
                Some(true) => {
                    self.loss_cause.is_the_queues(now);
                    self.full_rate_reached = true;
                    self.end_probe();
                }
                Some(false) => {
                    self.loss_cause.is_not_the_queues(now, loss);
                    self.end_probe();
                }
                None => {}
            },
            // A moment in which hardly anything is sent says little.
            State::ProbeRtt(_) => {}
        }
    }

    fn measure_round(&mut self, now: Time, sample: &AckSample, limited: bool, rtt: &Rtt) {
        let round = &mut self.round;
        round.queue = round.queue.min(sample.queue);
        round.limited &= limited;
        round.filled |= limited;
        round.bytes += sample.bytes;
        if sample.queue > self.queue_target(rtt) && sample.queue < Duration::MAX {
            self.round.bytes_late += sample.bytes;
        }
        let round_min = match self.full_rate_reached {
            false => ACK_DELAY_MAX,
            true => ROUND_MIN,
        };
        if sample.number >= self.round.ends_at && now.since(self.round.began) >= round_min {
            self.end_round(now, rtt);
            self.round = Round::new(now, sample.next_number, self.rate.get());
        }
    }

    fn end_round(&mut self, now: Time, rtt: &Rtt) {
        let queue = self.round.queue;
        let target = self.queue_target(rtt);
        if queue < target / 4 {
            self.queue_seen_empty = now;
        }
        self.rounds_filled += u32::from(self.round.filled);
        self.settling
            .end_round(self.rate.get(), self.round.limited, self.round.filled);
        if self.state == State::Startup && self.round.limited {
            self.judge_startup(queue, target);
        }
        // What comes in heaps leaves the window open in between, and the queue long all the same.
        let lasted = now.since(self.round.began);
        if lasted >= PAUSE && self.round.bytes_late > self.round.bytes / 2 {
            self.reach_full_rate();
        }
    }

    /// While the queue is long the link is busy, and what arrives is what it can do: no maximum, no waiting.
    fn measure_period(&mut self, now: Time, sample: &AckSample, limited: bool, rtt: &Rtt) {
        // After a pause of this process or the peer's, acknowledgements come in a heap: it ends with all of them.
        if now > self.period.last {
            self.judge_period(sample.next_number, rtt);
            // What arrives now waited for far less than nothing arrived: meanwhile the link was idle.
            if now.since(self.period.last) > sample.queue.saturating_add(RATE_PERIOD) {
                self.period = BusyPeriod::new(now, sample.arrived);
                self.period.limited = limited;
                return;
            }
        }
        self.period.last = now;
        self.period.last_there = sample.arrived;
        self.period.bytes += sample.bytes;
        self.period.packets += sample.packets;
        self.period.queue = self.period.queue.min(sample.queue);
        self.period.limited &= limited;
    }

    fn judge_period(&mut self, next_number: u64, rtt: &Rtt) {
        let now = self.period.last;
        let elapsed = now.since(self.period.began);
        if elapsed < RATE_PERIOD || self.period.packets < RATE_PACKETS {
            return;
        }
        let queue = self.period.queue;
        let target = self.queue_target(rtt);
        // An unknown queue is none.
        let is_long = queue > target + target / 2 + QUEUE_TARGET / 2 && queue < Duration::MAX;
        if self.period.limited && is_long {
            // Answers that wait longer and longer on their way back are no slowness of the way there; arrivals in a
            // heap, after a pause of the peer's, are none either.
            let there = self.period.last_there.since(self.period.began_there);
            let rate = self.period.bytes as f64 / elapsed.min(there).as_secs_f64();
            self.rate.lower(now, rate);
            self.round = Round::new(now, next_number, self.rate.get());
            self.reach_full_rate();
        }
        self.period = BusyPeriod::new(now, self.period.last_there);
    }

    fn judge_startup(&mut self, queue: Duration, target: Duration) {
        let rate = self.rate.get();
        if rate >= self.rate_to_outgrow * GAIN {
            self.rate_to_outgrow = rate;
            self.rounds_without_growth = 0;
        } else {
            self.rounds_without_growth += 1;
        }
        // An unknown queue is none.
        let queue_is_long = queue > target && queue < Duration::MAX;
        if self.rounds_without_growth >= FULL_RATE_ROUNDS || queue_is_long {
            self.reach_full_rate();
        }
    }

    /// Now and then, and when the estimate fell far, the window is cut for a moment: the path's own standing queue must
    /// not pass for distance, nor distance for a queue. Returns what is left of the queue then: it is distance.
    fn probe_rtt(&mut self, now: Time, sample: &AckSample, rtt: &Rtt) -> Option<Duration> {
        let rate = self.rate.get();
        self.rate_verified = self.rate_verified.max(rate);
        let target = self.queue_target(rtt);
        match &mut self.state {
            State::ProbeRtt(_) if sample.crowded => {
                self.queue_seen_empty = now;
                self.end_probe();
                None
            }
            _ if sample.crowded => {
                self.queue_seen_empty = now;
                None
            }
            State::ProbeRtt(probe) => {
                if sample.sent >= probe.unqueued_from && sample.queue < Duration::MAX {
                    let queue = probe.queue.map_or(sample.queue, |q| q.min(sample.queue));
                    probe.queue = Some(queue);
                }
                let patience = if probe.queue.is_none() {
                    DRAIN_PAUSE
                } else {
                    Duration::ZERO
                };
                if now < probe.ends_at + patience {
                    return None;
                }
                let left = probe.queue;
                self.end_probe();
                (self.drained_at, self.queue_seen_empty) = (now, now);
                self.rate_verified = rate;
                let least = (WINDOW_MIN_PACKETS * self.packet) as f64;
                let own = Duration::from_secs_f64(least / self.rate());
                left.filter(|&queue| queue > target / 2 + own)
            }
            State::ProbeLoss(_) => None,
            State::Startup | State::Cruise => {
                let stale = now.since(self.queue_seen_empty) > DRAIN_INTERVAL + rtt.base() * 50;
                let doubted = rate < self.rate_verified * RATE_DOUBTED && sample.queue > target;
                if stale || (doubted && now.since(self.drained_at) > DRAIN_PAUSE) {
                    let unqueued_from = now + rtt.smoothed();
                    self.become_(State::ProbeRtt(RttProbe {
                        unqueued_from,
                        ends_at: unqueued_from + rtt.base() + ROUND_MIN / 2,
                        queue: None,
                    }));
                }
                None
            }
        }
    }

    /// The queue aimed at, as a time on the link. However much it is cut, it covers the time between answers.
    fn queue_target(&self, rtt: &Rtt) -> Duration {
        let rate = self.rate().max(1.0);
        let scale = (RATE_INITIAL / rate).sqrt().sqrt();
        let usual = QUEUE_TARGET
            .mul_f64(scale)
            .max(QUEUE_TARGET)
            .max(rtt.base() / 4);
        let aggregate_s = self.aggregation.largest_bytes() as f64 / rate;
        usual
            .max(self.aggregation.longest_wait().mul_f64(GAIN))
            .mul_f64(self.loss_cause.queue_scale())
            .max(usual.min(Duration::from_secs_f64(aggregate_s * GAIN)))
            .max(ACK_DELAY_MAX)
    }

    fn wanted(&self, rtt: &Rtt, sample: &AckSample) -> u64 {
        let rate = self.rate.get();
        if rate == 0.0 {
            return self.window;
        }
        // What chance takes behind the bottleneck is in flight as well.
        let loss = match self.state {
            State::Startup => sample.loss_ratio.min(0.5),
            _ => self.loss_cause.chance(),
        };
        let sending = rate / (1.0 - loss);
        let base = rtt.base().as_secs_f64();
        if let State::ProbeRtt(_) = self.state {
            let window = (sending * base / 2.0) as u64;
            return window
                .min(self.window_max)
                .max(WINDOW_MIN_PACKETS * self.packet);
        }
        let gain = match self.state {
            State::Startup => 2.0,
            _ => 1.0,
        };
        let time = base * gain
            + self.queue_target(rtt).as_secs_f64()
            + rtt.back().as_secs_f64()
            + loss * sample.lost_after.as_secs_f64();
        let window = (sending * time) as u64;
        match self.full_rate_reached {
            false => self.bounded(window.max(WINDOW_INITIAL_PACKETS * self.packet)),
            true => self.bounded(window),
        }
    }

    fn bounded(&self, window: u64) -> u64 {
        let least = (WINDOW_MIN_PACKETS * self.packet).max(2 * self.burst_bytes() as u64);
        window.min(self.window_max).max(least)
    }
}

impl Controller for QueueTarget {
    fn on_sent(&mut self, now: Time, in_flight: u64) {
        if in_flight + self.burst_bytes() as u64 >= self.window {
            self.window_full_at = Some(now);
        }
    }

    fn on_ack(&mut self, now: Time, sample: &AckSample, rtt: &Rtt) -> Option<Duration> {
        let cut = matches!(self.state, State::ProbeRtt(_));
        let limited = !cut && self.window_full_at.is_some_and(|at| at >= sample.sent);
        if limited && self.rounds_filled == 0 {
            // What it carried until now said nothing of what it can.
            self.full_rate_reached = false;
            self.go_on();
        }
        let rate = match self.full_rate_reached {
            false => sample.rate,
            true => sample.rate.min(self.round.rate_at_start * 2.0),
        };
        self.rate.sample(now, rate, limited, rtt.smoothed());
        self.aggregation
            .acked(now, sample.bytes, sample.sent, rtt.base(), self.rate());
        self.measure_round(now, sample, limited, rtt);
        self.measure_period(now, sample, limited, rtt);
        self.learn_of_loss(now, sample.packets, sample.lost, rtt);
        let longer = self.probe_rtt(now, sample, rtt);
        self.window = self.wanted(rtt, sample);
        longer
    }

    fn on_lost(&mut self, now: Time, packets: u32, rtt: &Rtt) {
        self.learn_of_loss(now, 0, packets, rtt);
    }

    fn window(&self) -> u64 {
        self.window
    }

    /// Once the start is over: what it carries, chance loss included, and a quarter more: a rate once underestimated must not
    /// stay so. As deep as the queue aimed at.
    fn pace(&self, rtt: &Rtt) -> Option<Pacing> {
        let rate = self.rate.get() / (1.0 - self.loss_cause.chance());
        (rate > 0.0 && self.full_rate_reached).then(|| Pacing {
            rate: rate * GAIN,
            depth: self.rate() * self.queue_target(rtt).as_secs_f64(),
        })
    }

    fn burst_bytes(&self) -> usize {
        let burst = self.rate() * ACK_DELAY_MAX.as_secs_f64() * self.loss_cause.queue_scale();
        let burst = burst as usize;
        burst.clamp(self.packet as usize, BURST_BYTES_MAX)
    }

    fn known_rate(&self) -> f64 {
        self.rate.get()
    }

    /// Whether the rate was not app-limited, and the path takes no more than before, or was given all it takes often enough.
    fn rate_is_proven(&self) -> bool {
        self.rate.is_proven() && (self.full_rate_reached || self.rounds_filled >= HOPEFUL_ROUNDS)
    }

    /// If the path is far, it must have been for some rounds: of such a path a round trip only shows what was under
    /// way in it, and a burst that queues passes for a slow link.
    fn rate_is_settled(&self, rtt: &Rtt) -> bool {
        self.rate_is_proven() && (!rtt.is_far() || self.settling.is_settled())
    }

    fn set_packet_bytes(&mut self, packet_bytes: usize) {
        self.packet = packet_bytes as u64;
        self.window = self.bounded(self.window);
    }

    fn restart(&mut self, now: Time) {
        self.begin_startup();
        self.period = BusyPeriod::new(now, self.period.last_there);
        self.queue_seen_empty = now;
        self.window = self.bounded(WINDOW_INITIAL_PACKETS * self.packet);
    }

    fn doubt(&mut self) {
        self.begin_startup();
        self.rounds_filled = 0;
    }

    fn state(&self) -> State {
        self.state
    }
}
