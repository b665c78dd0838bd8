//! Many trees of one kind, in one line.

use super::{Model, Shape, Surveyed, Verdict, judge, survey};
use crate::runner::share_out;
use std::fmt;
use std::ops::Range;

/// What many surveys came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Surveys.
    pub trees: usize,
    /// Nodes of all.
    pub nodes: usize,
    /// Nodes in a group of which most share their switch.
    pub right: usize,
    /// Trees of which every group and every distance is right.
    pub exact: usize,
    /// What was wrong although it was said with a confidence of 0.95 or more: seed, and what.
    pub sure_and_wrong: Vec<(u64, String)>,
    /// Switches and trunks that were said, and those with that confidence.
    pub said: usize,
    /// See `said`.
    pub sure: usize,
    /// Nodes of which it was said that it is not known where they are.
    pub doubtful: usize,
    /// Probes that a node took part in: the mean of the worst tree, and the busiest node of all.
    pub probes_mean: f64,
    /// See `probes_mean`.
    pub probes_most: u64,
    /// The longest survey, in seconds.
    pub seconds: f64,
    /// What of a trunk the probes took in one round, at most, from 0 to 1.
    pub trunk_share: f64,
    /// Nodes that were asked for two measurements at once.
    pub clashes: u32,
}

impl Report {
    /// Surveys the trees of these seeds, on so many threads.
    #[must_use]
    pub fn of(shape: Shape, model: &Model, seeds: Range<u64>, threads: usize) -> Report {
        let seeds: Vec<u64> = seeds.collect();
        let all = share_out(&seeds, threads, |&seed| {
            let surveyed = survey(shape, model, seed);
            let verdict = judge(&surveyed);
            Report::of_one(seed, &surveyed, verdict)
        });
        all.into_iter().fold(Report::default(), Report::and)
    }

    fn of_one(seed: u64, surveyed: &Surveyed, verdict: Verdict) -> Report {
        let network = &surveyed.network;
        let probes: u64 = network.probes.iter().sum();
        Report {
            trees: 1,
            nodes: verdict.nodes,
            right: verdict.right,
            exact: usize::from(verdict.is_exact),
            sure_and_wrong: verdict
                .sure_and_wrong
                .into_iter()
                .map(|what| (seed, what))
                .collect(),
            said: verdict.said,
            sure: verdict.sure,
            doubtful: verdict.doubtful,
            probes_mean: probes as f64 / verdict.nodes.max(1) as f64,
            probes_most: network.probes.iter().copied().max().unwrap_or(0),
            seconds: f64::from(surveyed.rounds) * network.round_seconds(),
            trunk_share: network.trunk_share_max,
            clashes: network.clashes,
        }
    }

    fn and(mut self, other: Report) -> Report {
        self.trees += other.trees;
        self.nodes += other.nodes;
        self.right += other.right;
        self.exact += other.exact;
        self.sure_and_wrong.extend(other.sure_and_wrong);
        self.said += other.said;
        self.sure += other.sure;
        self.doubtful += other.doubtful;
        self.probes_mean = self.probes_mean.max(other.probes_mean);
        self.probes_most = self.probes_most.max(other.probes_most);
        self.seconds = self.seconds.max(other.seconds);
        self.trunk_share = self.trunk_share.max(other.trunk_share);
        self.clashes += other.clashes;
        self
    }

    /// Nodes that were grouped right, from 0 to 1.
    #[must_use]
    pub fn part_right(&self) -> f64 {
        self.right as f64 / self.nodes.max(1) as f64
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
        write!(
            f,
            "grouped right {:.2}%, exact {} of {}, sure {:.1}%, wrong though sure {}, doubtful nodes {:.2}%, \
             probes a node {:.0} (busiest {}), {:.1} s, trunk {:.0}%",
            100.0 * self.part_right(),
            self.exact,
            self.trees,
            percent(self.sure, self.said),
            self.sure_and_wrong.len(),
            percent(self.doubtful, self.nodes),
            self.probes_mean,
            self.probes_most,
            self.seconds,
            100.0 * self.trunk_share,
        )
    }
}
