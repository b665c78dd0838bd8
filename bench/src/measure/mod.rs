//! The measurements.

mod choose;
mod connections;
mod crowd;
mod failover;
mod flood;
pub mod gateway;
mod idle;
pub mod latency;
mod matrix;
mod peers;
mod programs;
mod race;
mod ranks;
mod relay;
mod start;
pub mod throughput;
mod unequal;
mod unread;

use super::{Measurement, Report, Settings};
use tabane_lab::{LabConfig, LabError, LinkSpec};

/// Take one of them.
///
/// # Errors
/// A lab, a daemon or a program it needs does not start.
pub fn run(measurement: Measurement, settings: &Settings) -> Result<Report, LabError> {
    match measurement {
        Measurement::OneWay => throughput::one_way(settings),
        Measurement::BothWays => throughput::both_ways(settings),
        Measurement::Unshaped => throughput::unshaped(settings),
        Measurement::Failover => failover::measure(settings),
        Measurement::Steered => failover::steered(settings),
        Measurement::Unequal => unequal::measure(settings),
        Measurement::Matrix => matrix::measure(settings),
        Measurement::Crowd => crowd::measure(settings),
        Measurement::Beside => crowd::beside(settings),
        Measurement::Relay => relay::measure(settings),
        Measurement::Unread => unread::measure(settings),
        Measurement::Gateway => gateway::measure(settings),
        Measurement::GatewayAbuse => gateway::measure_abuse(settings),
        Measurement::Flood => flood::measure(settings),
        Measurement::Latency => latency::measure(settings),
        Measurement::Choose => choose::measure(settings),
        Measurement::Idle => idle::measure(settings),
        Measurement::Peers => peers::measure(settings),
        Measurement::Http => programs::http(settings),
        Measurement::Redis => programs::redis(settings),
        Measurement::Tunnel => programs::tunnel(settings),
        Measurement::Ranks => ranks::measure(settings),
        Measurement::Mpi => programs::mpi(settings),
        Measurement::Kernels => programs::kernels(settings),
        Measurement::MpiFailures => programs::mpi_failures(settings),
        Measurement::MpiStart => programs::mpi_start(settings),
        Measurement::Place => programs::placed(settings),
        Measurement::Connections => connections::measure(settings),
        Measurement::Start => start::measure(settings),
    }
}

/// Two nodes joined by these links.
fn two_nodes(links: Vec<LinkSpec>) -> LabConfig {
    LabConfig {
        links,
        ..LabConfig::default()
    }
}
