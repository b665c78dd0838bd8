//! How much may be in flight on a path, and how fast the path is thought to be.
//!
//! A path asks one [`Controller`] and nobody else. [`QueueTarget`] is ours; [`Cubic`] is there to be compared with in the
//! simulator. Two things lie beside the controller, and only ever take away from what it allows: the least window of a link that
//! is full of others ([`Backoff`]), and what a crowded receiver grants (`pace.rs`).
//!
//! ```text
//! congestion/mod.rs      the interface
//!   queue_target.rs      ours: state, window
//!     state.rs           its states and their legal transitions
//!     round.rs           what one round trip, or one busy period, shows
//!     loss_cause.rs      what is believed of loss
//!   cubic.rs             RFC 9438
//!   rate.rs              delivery rate: samples, filters
//!   backoff.rs           less than the least window
//! ```

mod backoff;
mod cubic;
mod loss_cause;
mod queue_target;
mod rate;
mod round;
mod state;

use core::time::Duration;

pub use backoff::Backoff;
pub use cubic::Cubic;
pub use queue_target::QueueTarget;
pub use rate::{PeerTime, Sampler};
pub use state::State;

use super::rtt::Rtt;
use super::thresholds::RATE_INITIAL;
use crate::Time;

/// What an acknowledgement says about the path's speed.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Packets newly acknowledged.
    pub packets: u32,
    /// Delivery rate in bytes per second.
    pub rate: f64,
    /// How long the newest packet waited in queues on the way there; `Duration::MAX` if that is not known.
    pub queue: Duration,
    /// Number of the newest packet acknowledged.
    pub number: u64,
    /// When it was sent.
    pub sent: Time,
    /// When it arrived there.
    pub arrived: PeerTime,
    /// The next number to be sent.
    pub next_number: u64,
    /// Packets newly found lost.
    pub lost: u32,
    /// Share of packets lost lately.
    pub loss_ratio: f64,
    /// Others send to the same port: a queue that stays is theirs.
    pub crowded: bool,
    /// How much longer than a round trip a lost packet counts as in flight.
    pub lost_after: Duration,
}

/// How what the window allows is spread over time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pacing {
    /// Bytes per second.
    pub rate: f64,
    /// Most that goes at once, in bytes.
    pub depth: f64,
}

/// A congestion controller: what one path may have in flight. Times are of the node's clock, sizes in bytes, rates in bytes per second.
pub trait Controller {
    /// Something was sent that wants to be acknowledged; `in_flight` includes it.
    fn on_sent(&mut self, now: Time, in_flight: u64);
    /// Something arrived. Returns how much longer the way there has become, if that was found out.
    fn on_ack(&mut self, now: Time, sample: &AckSample, rtt: &Rtt) -> Option<Duration>;
    /// Packets were found lost without anything arriving.
    fn on_lost(&mut self, now: Time, packets: u32, rtt: &Rtt);
    /// Most that may be in flight.
    fn window(&self) -> u64;
    /// At which pace a far path sends; `None`: as the window opens.
    fn pace(&self, rtt: &Rtt) -> Option<Pacing>;
    /// How much to hand over at once.
    fn burst_bytes(&self) -> usize;

    /// Delivery rate; 0 before the first sample.
    fn known_rate(&self) -> f64;
    /// Whether the rate is what the path can do, and not what it was given.
    fn rate_is_proven(&self) -> bool;
    /// Whether it is, and no longer moves.
    fn rate_is_settled(&self, rtt: &Rtt) -> bool;

    /// The path's packets are of another size now.
    fn set_packet_bytes(&mut self, packet_bytes: usize);
    /// The path begins anew (it was failed): what is known is kept, but the window opens from the start.
    fn restart(&mut self, now: Time);
    /// What is known of the rate may be far too low.
    fn doubt(&mut self);
    /// What it is doing now.
    fn state(&self) -> State;

    /// Delivery rate; a guess before the first sample.
    fn rate(&self) -> f64 {
        match self.known_rate() {
            r if r > 0.0 => r,
            _ => RATE_INITIAL,
        }
    }

    /// What the path may be able to do: at least a guess, while it was never given as much as it can carry.
    fn hoped_rate(&self) -> f64 {
        match self.rate_is_proven() {
            true => self.rate(),
            false => self.rate().max(RATE_INITIAL),
        }
    }
}

/// Which controller a node's paths have.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CongestionControl {
    /// Ours: rate × (least RTT + a short queue).
    #[default]
    QueueTarget,
    /// CUBIC (RFC 9438), as published: for comparison.
    Cubic,
}

/// The controller of one path.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is what all paths have outside of comparisons"
)]
pub enum Congestion {
    /// Ours.
    QueueTarget(QueueTarget),
    /// For comparison.
    Cubic(Cubic),
}

impl Congestion {
    /// For a path whose packets are of this size, and that may have `window_max` bytes in flight at most.
    pub fn new(
        control: CongestionControl,
        now: Time,
        packet: usize,
        window_max: u64,
    ) -> Congestion {
        match control {
            CongestionControl::QueueTarget => {
                Congestion::QueueTarget(QueueTarget::new(now, packet, window_max))
            }
            CongestionControl::Cubic => Congestion::Cubic(Cubic::new(now, packet, window_max)),
        }
    }
}

/// Asks whichever it is.
macro_rules! ask {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self {
            Congestion::QueueTarget(one) => one.$method($($argument),*),
            Congestion::Cubic(one) => one.$method($($argument),*),
        }
    };
}

impl Controller for Congestion {
    fn on_sent(&mut self, now: Time, in_flight: u64) {
        ask!(self.on_sent(now, in_flight));
    }
    fn on_ack(&mut self, now: Time, sample: &AckSample, rtt: &Rtt) -> Option<Duration> {
        ask!(self.on_ack(now, sample, rtt))
    }
    fn on_lost(&mut self, now: Time, packets: u32, rtt: &Rtt) {
        ask!(self.on_lost(now, packets, rtt));
    }
    fn window(&self) -> u64 {
        ask!(self.window())
    }
    fn pace(&self, rtt: &Rtt) -> Option<Pacing> {
        ask!(self.pace(rtt))
    }
    fn burst_bytes(&self) -> usize {
        ask!(self.burst_bytes())
    }
    fn known_rate(&self) -> f64 {
        ask!(self.known_rate())
    }
    fn rate_is_proven(&self) -> bool {
        ask!(self.rate_is_proven())
    }
    fn rate_is_settled(&self, rtt: &Rtt) -> bool {
        ask!(self.rate_is_settled(rtt))
    }
    fn set_packet_bytes(&mut self, packet_bytes: usize) {
        ask!(self.set_packet_bytes(packet_bytes));
    }
    fn restart(&mut self, now: Time) {
        ask!(self.restart(now));
    }
    fn doubt(&mut self) {
        ask!(self.doubt());
    }
    fn state(&self) -> State {
        ask!(self.state())
    }
}
