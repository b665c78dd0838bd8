//! How fast the trunks of a network are, once its tree is known: two trains at once over each.

use core::time::Duration;
use std::collections::VecDeque;

use tabane_proto::topology::{Map, Probe, packets_per_s};

use super::measure::{Around, Asked, Job, ask_all};
use crate::status::topology::Network;

/// Number of tries with two trains at once: they may miss each other.
const TRIES: usize = 3;
/// Number of trains alone, at most: they are sent until two agree. A process that wakes late receives part of a train at once, which then looks
/// faster than any wire, but hardly twice to the same degree.
const TRIES_ALONE: usize = 6;
/// Two trains agree if they differ by this factor at most.
const AGREE: f64 = 1.1;
/// So long after the train before: nodes send trains for others every 50 ms at most.
const REST: Duration = Duration::from_millis(60);

/// A trunk to be measured.
#[derive(Debug)]
struct Trial {
    /// Its place in the network.
    trunk: usize,
    pairs: [Probe; 2],
    alone_ns: [Vec<u64>; 2],
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
    /// The pair that is to send a train by itself now.
    fn next_alone(&self) -> Option<usize> {
        let is_open = |pair: &usize| {
            let trains_ns = &self.alone_ns[*pair];
            trains_ns.len() < TRIES_ALONE && settled(trains_ns).is_none()
        };
        (0..2).find(is_open)
    }

    /// The pairs that are to send trains now; none if all is known.
    fn next(&self) -> &[Probe] {
        match self.next_alone() {
            Some(pair) => &self.pairs[pair..=pair],
            None if self.at_once_ns.len() < TRIES => &self.pairs,
            None => &[],
        }
    }

    /// Takes the results. Returns whether it can go on.
    fn take(&mut self, trains_ns: &[Option<u64>]) -> bool {
        // Answers that came all together say how slow a process is, and not how fast a wire.
        let ns = |train: &Option<u64>| train.filter(|ns| *ns > 0);
        match *trains_ns {
            [ref one] => {
                if let Some(pair) = self.next_alone() {
                    self.alone_ns[pair].extend(ns(one));
                }
            }
            [ref one, ref other] => {
                self.at_once_ns
                    .extend(ns(one).zip(ns(other)).map(|(a, b)| [a, b]));
            }
            _ => return false,
        }
        trains_ns.iter().all(|train| ns(train).is_some())
    }

    fn packets_per_s(&self) -> Option<f64> {
        let [one, other] = &self.alone_ns;
        packets_per_s([settled(one)?, settled(other)?], &self.at_once_ns)
    }
}

/// What two of these trains agree in, the slowest such: none arrives faster than the wire, but for being taken in late.
fn settled(trains_ns: &[u64]) -> Option<u64> {
    let mut trains_ns = trains_ns.to_vec();
    trains_ns.sort_unstable_by_key(|ns| core::cmp::Reverse(*ns));
    let agree = |two: &&[u64]| two[0] as f64 <= two[1] as f64 * AGREE;
    trains_ns.windows(2).find(agree).map(|two| two[0])
}

impl Trunks {
    /// The trunks of a network, from its map.
    pub fn new(network: Network, map: &Map) -> Trunks {
        let trial = |trunk| {
            Some(Trial {
                trunk,
                pairs: map.pairs_across(trunk)?,
                alone_ns: [Vec::new(), Vec::new()],
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
                // A node that has just sent a train would be late, and the two would miss each other.
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

#[cfg(test)]
mod tests {
    use super::settled;

    #[test]
    fn trains_that_were_taken_in_late_do_not_count() {
        assert_eq!(settled(&[]), None);
        assert_eq!(settled(&[120_000]), None);
        assert_eq!(settled(&[120_000, 118_000]), Some(120_000));
        assert_eq!(settled(&[70_000, 120_000]), None);
        assert_eq!(settled(&[70_000, 120_000, 72_000, 119_000]), Some(120_000));
        assert_eq!(settled(&[300_000, 70_000, 119_000, 120_000]), Some(120_000));
    }
}
