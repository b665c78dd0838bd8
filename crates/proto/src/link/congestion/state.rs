//! What a path does to learn how fast it is.

use core::time::Duration;

use super::loss_cause::LossProbe;
use crate::Time;

/// The states of [`QueueTarget`](super::QueueTarget), in BBR's words where BBR (draft-ietf-ccwg-bbr, section 3) has the same.
///
/// ```text
///                 the rate no longer grows, the queue is long or overflowed
///      ┌─────────┐ ──────────────────────────────────────────────────► ┌────────┐
///  ───►│ Startup │                                                     │ Cruise │
///      └──┬───▲──┘ ◄────────────────────────────────────────────────── └──▲──┬──┘
///         │   │          the rate is in doubt, the path begins anew       │  │
///         │   │                                                           │  │
///         │   │    ┌─────────────────────────────────────────────────┐    │  │
///         │   └────┤ ProbeRtt   for 5 s nobody saw the queue empty,  ├────┘  │
///         ├───────►│            or the rate fell by half             │◄──────┤
///         │        ├─────────────────────────────────────────────────┤       │
///         └───────►│ ProbeLoss  2% and more is lost                  │◄──────┘
///                  └─────────────────────────────────────────────────┘
/// ```
/// A probe ends where it began, unless it showed that the queue had overflowed: then in Cruise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum State {
    /// The window doubles each round trip (BBR: Startup).
    Startup,
    /// The window keeps the queue that is aimed at (BBR: ProbeBW, Cruise).
    Cruise,
    /// The window is cut for a moment, so that the least round trip is seen (BBR: ProbeRTT).
    ProbeRtt(RttProbe),
    /// The queue aimed at is cut to a quarter: if the loss goes with it, it was the queue's.
    ProbeLoss(LossProbe),
}

/// The window is cut so that the queue runs empty.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RttProbe {
    /// What was sent since then met no queue of this path's own.
    pub unqueued_from: Time,
    pub ends_at: Time,
    /// Shortest wait of what was sent since.
    pub queue: Option<Duration>,
}

impl State {
    /// How it is called in traces.
    pub const fn name(&self) -> &'static str {
        match self {
            State::Startup => "startup",
            State::Cruise => "cruise",
            State::ProbeRtt(_) => "probe_rtt",
            State::ProbeLoss(_) => "probe_loss",
        }
    }

    /// Whether `next` may follow. From any state a path may begin anew.
    pub const fn may_become(&self, next: &State) -> bool {
        match (self, next) {
            (_, State::Startup) => true,
            (State::Cruise, State::Cruise) => false,
            (_, State::Cruise) => true,
            (State::Startup | State::Cruise, State::ProbeRtt(_) | State::ProbeLoss(_)) => true,
            (State::ProbeRtt(_) | State::ProbeLoss(_), _) => false,
        }
    }

    /// Whether the path tries something that is over in a moment.
    pub const fn is_probe(&self) -> bool {
        matches!(self, State::ProbeRtt(_) | State::ProbeLoss(_))
    }
}
