//! Metrics in the OpenMetrics text format, over HTTP, for Prometheus and what
//! understands it. Off unless the cluster file has `metrics`.
//!
//! A thread of the daemon's own serves them. It asks the daemon through the
//! control socket, as `tabane status` does, so a slow or hostile scraper has
//! no hold on the daemon's loop. `docs/metrics.md` has all names.

mod exposition;
mod families;
mod gateway;
pub mod http;
mod server;
#[cfg(test)]
mod tests;

pub use exposition::{CONTENT_TYPE, render};
pub use families::{Family, Kind, PATHS_MAX, Unit, families};
pub use server::{CLIENTS_MAX, LISTEN_RETRY, MetricsServer, PATIENCE, REPORT_AGE_MIN};
