//! How fast the trunks of a network are, once its tree is known: two trains at once over each.

use core::time::Duration;
use std::collections::VecDeque;

use tabane_proto::topology::{Map, Probe, packets_per_s};

use super::measure::{Around, Asked, Job, ask_all};
use crate::topo::Network;

/// Two trains are sent at once so often: they may miss each other.
const TRIES: usize = 3;
/// And each by itself so often, of which the slower counts: a process that wakes late takes in a part of a train at once, which
/// then looks faster than any wire.
const TRIES_ALONE: usize = 2;
/// So long after the train before: nodes send trains for others every 50 ms at most.
const REST: Duration = Duration::from_millis(60);

/// A trunk to be measured.
#[derive(Debug)]
struct Trial {
    /// Its place in the network.
    trunk: usize,
    pairs: [Probe; 2],
    /// Of the two pairs in turn.
    alone_ns: Vec<u64>,
    at_once_ns: Vec<[u64; 2]>,
}

/// The trunks of a network that are still to be measured.
#[derive(Debug)]
pub struct Trunks {
    pub network: Network,
    left: VecDeque<Trial>,
    asked: Vec<Asked>,
}

impl Trial {
    /// The pairs that are to send trains now; none if all is known.
    fn next(&self) -> &[Probe] {
        match self.alone_ns.len() {
            alone if alone < 2 * TRIES_ALONE => &self.pairs[alone % 2..=alone % 2],
            _ if self.at_once_ns.len() < TRIES => &self.pairs,
            _ => &[],
        }
    }

    /// What came of it. Returns whether it can go on.
    fn take(&mut self, trains_ns: &[Option<u64>]) -> bool {
        // Answers that came all together say how slow a process is, and not how fast a wire.
        let ns = |train: &Option<u64>| train.filter(|ns| *ns > 0);
        match *trains_ns {
            [ref one] => self.alone_ns.extend(ns(one)),
            [ref one, ref other] => {
                self.at_once_ns
                    .extend(ns(one).zip(ns(other)).map(|(a, b)| [a, b]));
            }
            _ => return false,
        }
        trains_ns.iter().all(|train| ns(train).is_some())
    }

    fn packets_per_s(&self) -> Option<f64> {
        let slower = |pair| self.alone_ns.iter().skip(pair).step_by(2).max().copied();
        packets_per_s([slower(0)?, slower(1)?], &self.at_once_ns)
    }
}

impl Trunks {
    /// Those of a network, of which this is the map.
    pub fn new(network: Network, map: &Map) -> Trunks {
        let trial = |trunk| {
            Some(Trial {
                trunk,
                pairs: map.pairs_across(trunk)?,
                alone_ns: Vec::new(),
                at_once_ns: Vec::new(),
            })
        };
        Trunks {
            left: (0..map.trunks.len()).filter_map(trial).collect(),
            network,
            asked: Vec::new(),
        }
    }

    /// Those that are asked now.
    pub fn asked_mut(&mut self) -> &mut [Asked] {
        &mut self.asked
    }

    /// Those that are asked now.
    pub fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// Goes on. Returns whether all are measured.
    pub fn turn(&mut self, job: &Job, token: &mut u32, around: &mut Around<'_>) -> bool {
        let how = job.train();
        loop {
            let Some(trial) = self.left.front_mut() else {
                return true;
            };
            if self.asked.is_empty() {
                // Who sent a train a moment ago would be late, and the two would miss each other.
                let at = around.now + REST;
                let new = |probe: &Probe| Asked::new(at, *probe);
                self.asked = trial.next().iter().map(new).collect();
            }
            let Some(results) = ask_all(&mut self.asked, job, how, token, around) else {
                return false;
            };
            self.asked.clear();
            let trains_ns: Vec<Option<u64>> = results.into_iter().map(|r| r.1).collect();
            let goes_on = trial.take(&trains_ns);
            if goes_on && !trial.next().is_empty() {
                continue;
            }
            if let Some(trunk) = self.network.trunks.get_mut(trial.trunk).filter(|_| goes_on) {
                trunk.mbps = trial.packets_per_s().map(|rate| job.mbps_of(rate));
            }
            self.left.pop_front();
        }
    }
}
