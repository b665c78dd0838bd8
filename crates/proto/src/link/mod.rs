//! One path of a bundle: what was sent on it and what became of it, what arrived
//! on it, how fast it is, how large its packets may be, and whether it is alive.
//!
//! A [`Path`] knows nothing of other paths except that they progress
//! ([`Path::on_others_progress`]): a path is only failed when its silence stands
//! out against others. It sends nothing itself: the bundle asks it for
//! [room](Flight::room_bytes), tells it what was [sent](Path::on_sent) and
//! collects the [control](Path::poll_control) it wants sent.
//!
//! ```text
//!                      path.rs                     what the bundle calls
//!          ┌──────────────┼──────────────────┐
//!      flight.rs     received.rs        liveness.rs
//!   ┌──────┼───────┐                    evidence.rs
//! sent.rs  │  congestion/               probes.rs, agreement.rs
//! loss.rs  │  pace.rs, bucket.rs
//! rtt.rs mtu.rs
//! ```
//! Every threshold lies in [`thresholds`], with its reason.

mod agreement;
mod bucket;
mod congestion;
mod evidence;
mod flight;
mod liveness;
mod loss;
mod mtu;
mod pace;
mod path;
mod probes;
mod received;
mod rtt;
mod sent;
mod stats;
pub mod thresholds;

#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod speed_tests;
#[cfg(test)]
mod toy;

pub use congestion::{CongestionControl, State as CongestionState};
pub use flight::Flight;
pub use liveness::{PathControl, PathEvent, PathState, Progress, Watch};
pub use path::{AckResult, Path, PathConfig};
pub use sent::{Decided, GivenUp};
pub use stats::PathStats;
