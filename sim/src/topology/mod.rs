//! Trees of switches, surveyed: what `tabane_proto::topology` makes of round trips on networks of which the truth is known.

mod judge;
mod model;
mod report;
mod shape;

pub use judge::{SURE, Verdict, judge};
pub use model::{Liar, Model, Network};
pub use report::Report;
pub use shape::{Shape, Tree};

use tabane_proto::topology::{Config, Map, Survey};

/// A survey of one network, from the first probe to the map.
#[derive(Debug)]
pub struct Surveyed {
    /// What was found.
    pub map: Map,
    /// What the network was asked.
    pub network: Network,
    /// Rounds of pairs that were measured at the same time.
    pub rounds: u32,
}

/// Surveys the network that `seed` draws.
#[must_use]
pub fn survey(shape: Shape, model: &Model, seed: u64) -> Surveyed {
    let mut network = Network::draw(shape, model, seed);
    let mut config = Config::for_rate(1000);
    config.samples = model.samples;
    config.hop_ns = model.hop_ns();
    let mut survey = Survey::new(network.nodes(), config);
    let mut rounds = 0;
    loop {
        let round = survey.next_round();
        if round.is_empty() {
            break;
        }
        rounds += 1;
        for (probe, least_ns) in network.measure(&round) {
            survey.record(probe, least_ns);
        }
    }
    Surveyed {
        map: survey.map(),
        network,
        rounds,
    }
}
