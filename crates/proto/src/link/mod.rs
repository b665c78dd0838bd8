//! One path of a bundle: what was sent on it and what became of it, what arrived
//! on it, how fast it is, how large its packets may be, and whether it is alive.
//!
//! A [`Path`] knows nothing of other paths except that they progress
//! ([`Path::on_others_progress`]): a path is only failed when its silence stands
//! out against others. It sends nothing itself: the bundle asks it for
//! [room](Path::room_bytes), tells it what was [sent](Path::on_sent) and
//! collects the [control](Path::poll_control) it wants sent.
//!
//! ```text
//!            path.rs, path_live.rs         what the bundle calls
//!   ┌──────────┬──────┴────────┬────────────────┬────────────┐
//! sent.rs   received.rs   congestion.rs     liveness.rs   mtu.rs
//! loss.rs                 rate.rs           evidence.rs
//! rtt.rs                  loss_cause.rs     probes.rs, agreement.rs
//!                         pace.rs, bucket.rs
//! ```
//! Every threshold lies in [`thresholds`], with its reason.

mod agreement;
mod bucket;
mod congestion;
mod evidence;
mod liveness;
mod loss;
mod loss_cause;
mod mtu;
mod pace;
mod path;
mod path_live;
mod probes;
mod rate;
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

pub use liveness::{PathControl, PathEvent, PathState, Progress, Watch};
pub use path::{AckResult, Path, PathConfig};
pub use stats::PathStats;
