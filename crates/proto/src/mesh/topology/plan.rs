//! Which pairs to measure next.
//!
//! First a few nodes, all with each other; then each other node with those that best reveal its place. A placed node
//! meets some of its neighbours, and pairs close to a doubtful trunk measure the trunk.

use std::collections::VecDeque;

use super::pairs::{LOST_MAX, Pairs};
use super::solve::{SEED_NODES, Solver, shuffled};
use super::{Config, Probe};

/// Number of rounds until the next planning.
const ROUNDS: usize = 8;
/// The most pairs of one round that cross unknown trunks.
const UNKNOWN_MAX: usize = 14;
/// Number of nodes of its switch that a placed node must have met.
const MET_WANTED: usize = 3;
/// A node is measured until its place has this probability.
const CERTAIN: f32 = 0.9995;
/// The most measurements of a node; the next constant is that of a pair.
const LOOKED_MAX: usize = 48;
const TIMES_MAX: u8 = 4;
/// A trunk is measured until it is in less doubt than this.
const DOUBT_MAX: f32 = 0.001;
/// For each trunk in doubt: groups of nodes on each side, pairs of them at a time.
const SIDE_GROUPS: usize = 4;
const TRUNK_PAIRS: usize = 6;
/// Costs, in nats, of asking a distant node, and of asking one that is asked often.
const HOP_NATS: f32 = 0.03;
const ASKED_NATS: f32 = 0.2;

/// The planned measurements.
#[derive(Debug)]
pub(super) struct Plan {
    rounds: VecDeque<Vec<Probe>>,
    done: u32,
    used: Vec<u32>,
    epoch: usize,
    is_over: bool,
}

/// A pair that is wanted, and whether its way is known.
struct Want {
    one: usize,
    other: usize,
    is_known: bool,
}

impl Plan {
    pub fn new(nodes: usize) -> Plan {
        Plan {
            rounds: VecDeque::new(),
            done: 0,
            used: vec![0; nodes],
            epoch: 0,
            is_over: nodes < 2,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    pub fn is_over(&self, config: &Config) -> bool {
        self.is_over || self.done >= config.rounds_max
    }

    pub fn next(&mut self) -> Vec<Probe> {
        self.done += 1;
        self.rounds.pop_front().unwrap_or_default()
    }

    /// Plans some rounds; none if nothing is left to measure.
    pub fn fill(&mut self, config: &Config, pairs: &Pairs, solver: &Solver) {
        let wants = if self.epoch == 0 {
            first_pairs(solver.nodes())
        } else {
            let mut wants = self.for_nodes(pairs, solver);
            wants.extend(self.for_trunks(pairs, solver));
            wants
        };
        let most = if self.epoch == 0 { usize::MAX } else { ROUNDS };
        self.epoch += 1;
        self.pack(config, solver, &wants, most);
        self.is_over = self.rounds.is_empty();
    }

    /// Packs wants into rounds, each into the first one where both nodes are free and no trunk is overloaded.
    fn pack(&mut self, config: &Config, solver: &Solver, wants: &[Want], most: usize) {
        let mut rounds: Vec<Round> = Vec::new();
        for want in wants {
            if [want.one, want.other]
                .iter()
                .any(|n| self.used[*n] >= config.measurements_max)
            {
                continue;
            }
            let way = self.way(solver, want);
            let fitting = rounds.iter_mut().find_map(|r| r.take(config, want, &way));
            let probe = match fitting {
                Some(probe) => probe,
                None if rounds.len() < most => {
                    let mut round = Round::new(solver.nodes(), solver.tree.len());
                    let probe = round.take(config, want, &way);
                    rounds.push(round);
                    let Some(probe) = probe else { continue };
                    probe
                }
                None => continue,
            };
            self.used[probe.from] += 1;
            self.used[probe.to] += 1;
        }
        let full = rounds.into_iter().map(|r| r.probes);
        self.rounds = full.filter(|probes| !probes.is_empty()).collect();
    }

    /// The trunks that a pair crosses; `None` if unknown.
    fn way(&self, solver: &Solver, want: &Want) -> Option<Vec<(usize, usize)>> {
        let place = |node: usize| {
            let main = solver.standings[node].main().map(|s| s.switch);
            solver.switch_of[node].or(main)
        };
        if !want.is_known {
            return None;
        }
        Some(solver.tree.way(place(want.one)?, place(want.other)?))
    }

    fn for_nodes(&self, pairs: &Pairs, solver: &Solver) -> Vec<Want> {
        let mut asked = vec![0.0; solver.tree.len()];
        let mut order = shuffled(solver.nodes());
        // Finish nodes that were begun: then they can be asked themselves.
        order.sort_by_key(|n| usize::MAX - solver.standings[*n].measured.min(LOOKED_MAX));
        let mut wants = Vec::new();
        let mut unknown = 0;
        for node in order {
            let standing = &solver.standings[node];
            let main = solver.switch_of[node].or_else(|| {
                let main = standing.main().filter(|s| s.beyond == 0);
                main.map(|s| s.switch)
            });
            if let Some(own) = main {
                let others = solver.members[own].iter().filter(|m| **m != node);
                let met = others.clone().filter(|m| {
                    let least = pairs.get(node, **m);
                    least.is_some_and(|l| l.times > 0 || l.lost >= LOST_MAX)
                });
                if met.count() < MET_WANTED.min(others.count())
                    && let Some(other) = self.pick(pairs, node, &solver.members[own])
                {
                    wants.push(Want {
                        one: node,
                        other,
                        is_known: true,
                    });
                    continue;
                }
                if solver.switch_of[node].is_some() && standing.at(own) > CERTAIN {
                    continue;
                }
            }
            if standing.measured >= LOOKED_MAX {
                continue;
            }
            let is_known = standing.main().is_some() || solver.switch_of[node].is_some();
            if !is_known {
                unknown += 1;
                if unknown > ROUNDS * UNKNOWN_MAX {
                    continue;
                }
            }
            if let Some(other) = self.telling(pairs, solver, node, &mut asked) {
                wants.push(Want {
                    one: node,
                    other,
                    is_known,
                });
            }
        }
        wants
    }

    /// The node that tells most about where another one is.
    fn telling(
        &self,
        pairs: &Pairs,
        solver: &Solver,
        node: usize,
        asked: &mut [f32],
    ) -> Option<usize> {
        let spots = &solver.standings[node].spots;
        let mut best: Option<(f32, usize)> = None;
        for (switch, members) in solver.members.iter().enumerate() {
            if members.is_empty() {
                continue;
            }
            let mut bins = [0.0f32; 32];
            let mut mean = 0.0;
            for spot in spots {
                let hops = solver.tree.hops(switch, spot.switch) + spot.beyond;
                bins[bin(hops)] += spot.p;
                mean += spot.p * hops as f32;
            }
            let entropy: f32 = bins.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
            let cost = HOP_NATS * mean + ASKED_NATS * asked[switch] / members.len() as f32;
            if best.is_none_or(|b| entropy - cost > b.0)
                && self.pick(pairs, node, members).is_some()
            {
                best = Some((entropy - cost, switch));
            }
        }
        let (_, switch) = best?;
        asked[switch] += 1.0;
        self.pick(pairs, node, &solver.members[switch])
    }

    /// The one of some nodes that a node was measured with least often, and that was asked least.
    fn pick(&self, pairs: &Pairs, node: usize, of: &[usize]) -> Option<usize> {
        let others = of.iter().filter(|m| **m != node);
        let rated = others.filter_map(|other| {
            let least = pairs.get(node, *other);
            let (times, lost) = least.map_or((0, 0), |l| (l.times, l.lost));
            let open = times < TIMES_MAX && lost < LOST_MAX;
            open.then_some((times.max(lost), self.used[*other], *other))
        });
        rated.min().map(|rated| rated.2)
    }

    fn for_trunks(&self, pairs: &Pairs, solver: &Solver) -> Vec<Want> {
        let mut doubts: Vec<_> = solver.doubts.iter().filter(|d| d.1 > DOUBT_MAX).collect();
        doubts.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut wants = Vec::new();
        for &&((one, other), _) in &doubts {
            let near = self.nearest_groups(solver, other, one);
            let far = self.nearest_groups(solver, one, other);
            let mut both: Vec<(usize, usize, usize)> = Vec::new();
            for a in &near {
                both.extend(far.iter().map(|b| (solver.tree.hops(*a, *b), *a, *b)));
            }
            both.sort_unstable();
            let turn = self.epoch * TRUNK_PAIRS / 2;
            let kept = TRUNK_PAIRS.min(both.len());
            for nth in 0..kept {
                // Half of them are the nearest ones, the others take turns.
                let at = if nth < kept / 2 {
                    nth
                } else {
                    (turn + nth) % both.len()
                };
                let (_, a, b) = both[at];
                let from = solver.members[a].iter().copied();
                let Some(from) = from.min_by_key(|n| (self.used[*n], *n)) else {
                    continue;
                };
                if let Some(to) = self.pick(pairs, from, &solver.members[b]) {
                    wants.push(Want {
                        one: from,
                        other: to,
                        is_known: true,
                    });
                }
            }
        }
        wants
    }

    /// The switches with nodes on the side of `to` of a trunk that are nearest to it.
    fn nearest_groups(&self, solver: &Solver, from: usize, to: usize) -> Vec<usize> {
        let side = solver.tree.side(from, to).into_iter();
        let groups = side.filter(|s| !solver.members[*s].is_empty());
        groups.take(SIDE_GROUPS).collect()
    }
}

/// Hops that a measurement tells apart well, nearly, or hardly.
fn bin(hops: usize) -> usize {
    match hops {
        0..=4 => hops,
        5..=10 => 5 + (hops - 5) / 2,
        _ => (8 + (hops - 11) / 3).min(31),
    }
}

/// All pairs of the first nodes, so that as many as possible go at the same time.
fn first_pairs(nodes: usize) -> Vec<Want> {
    let mut first = shuffled(nodes);
    first.truncate(SEED_NODES);
    // A round robin: one stays, the others go round.
    if first.len() % 2 == 1 {
        first.push(usize::MAX);
    }
    let mut wants = Vec::new();
    for _ in 1..first.len() {
        for at in 0..first.len() / 2 {
            let (one, other) = (first[at], first[first.len() - 1 - at]);
            if one != usize::MAX && other != usize::MAX {
                wants.push(Want {
                    one,
                    other,
                    is_known: false,
                });
            }
        }
        first[1..].rotate_right(1);
    }
    wants
}

/// Pairs that are measured at the same time.
struct Round {
    probes: Vec<Probe>,
    is_busy: Vec<bool>,
    /// By switch: its trunk towards the first switch, up and down.
    crossing: Vec<[u32; 2]>,
    unknown: usize,
}

impl Round {
    fn new(nodes: usize, switches: usize) -> Round {
        Round {
            probes: Vec::new(),
            is_busy: vec![false; nodes],
            crossing: vec![[0; 2]; switches],
            unknown: 0,
        }
    }

    fn take(
        &mut self,
        config: &Config,
        want: &Want,
        way: &Option<Vec<(usize, usize)>>,
    ) -> Option<Probe> {
        if self.is_busy[want.one] || self.is_busy[want.other] {
            return None;
        }
        let mut probe = Probe {
            from: want.one,
            to: want.other,
        };
        match way {
            None if self.unknown >= UNKNOWN_MAX => return None,
            None => {
                if self.unknown % 2 == 1 {
                    probe = Probe {
                        from: want.other,
                        to: want.one,
                    };
                }
                self.unknown += 1;
            }
            Some(way) => {
                // A switch has a higher number than the one before it on the way to the first.
                let most = |back: bool| {
                    let each = way
                        .iter()
                        .map(|&(a, b)| self.crossing[a.max(b)][usize::from((a < b) != back)]);
                    each.max().unwrap_or(0)
                };
                let (there, back) = (most(false), most(true));
                // Pairs with unknown ways may share a trunk.
                let limit = config
                    .crossing_max
                    .saturating_sub(self.unknown as u32 / 3)
                    .max(1);
                if there.min(back) >= limit {
                    return None;
                }
                if back < there {
                    probe = Probe {
                        from: want.other,
                        to: want.one,
                    };
                }
                for &(a, b) in way {
                    self.crossing[a.max(b)][usize::from((a < b) != (back < there))] += 1;
                }
            }
        }
        self.is_busy[want.one] = true;
        self.is_busy[want.other] = true;
        self.probes.push(probe);
        Some(probe)
    }
}
