//! Nodes cannot reach each other, in every way, and daemons stop, begin anew and hand over meanwhile: two gateways never speak for
//! the outside addresses at once, and what is said is heard when there is a way again.

use tabane_sim::mix;
use tabane_sim::net::{MS, Ns, SECOND};

use super::crashes::settled;
use super::mutant::Mutant;
use super::talk::Kind;
use super::town::{Conversation, Crash, Town};
use super::{LINKS, count};

/// All nodes reach each other again after this: longer, and a node's ports and conversations are not believed any more.
const PARTED_MAX: Ns = 2500 * MS;
/// All that was begun is done so long after all is well again (what is repeated doubles its pause each time).
const DONE_WITHIN: Ns = 25 * SECOND;

/// What happens to a town.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// One side does not hear the other; nor the other way round, if so.
    Cut { side: u32, both_ways: bool },
    /// Between two nodes nothing passes on one link, or on all.
    Pair {
        from: usize,
        to: usize,
        links: u8,
        both_ways: bool,
    },
    /// All is well again.
    Heal,
    /// A daemon does nothing for so long.
    Stop { host: usize, time: Ns },
    /// A host fails.
    Fail { host: usize, crash: Crash },
    /// The gateway is to move on.
    Move { asked: usize },
    /// The gateway is to end, in order.
    End,
}

impl Town {
    fn cuts(&mut self, from: usize, to: usize, links: u8, both_ways: bool) {
        for link in 0..links {
            self.cut.insert((from, to, link));
            if both_ways {
                self.cut.insert((to, from, link));
            }
        }
    }

    fn suffers(&mut self, fault: Fault) {
        self.trace(|| format!("{fault:?}"));
        let hosts = self.hosts.len();
        match fault {
            Fault::Cut { side, both_ways } => {
                for (from, to) in (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))) {
                    if side >> from & 1 == 1 && side >> to & 1 == 0 {
                        self.cuts(from, to, LINKS, both_ways);
                    }
                }
            }
            Fault::Pair {
                from,
                to,
                links,
                both_ways,
            } => self.cuts(from, to, links, both_ways),
            Fault::Heal => self.cut.clear(),
            Fault::Stop { host, time } => self.hosts[host].stopped_until = self.now + time,
            Fault::Fail { host, crash } => self.crash(host, crash),
            Fault::Move { asked } => {
                self.at_daemon(asked, |now, node, gateway| {
                    drop(gateway.move_to(now, node, None))
                });
            }
            Fault::End => {
                if let Some(serving) = self.serving() {
                    self.at_daemon(serving, |now, _, gateway| {
                        let _ = gateway.begin_ending(now);
                    });
                }
            }
        }
    }

    /// Draws what happens, and what is said meanwhile.
    fn goes_through(&mut self, kinds: &[u64], faults: u32) {
        let hosts = self.hosts.len();
        for _ in 0..faults {
            let serving = self.serving().unwrap_or_default();
            let inner = self
                .random
                .between(self.hosts[0].size.0 as u64, hosts as u64 - 1)
                as usize;
            for _ in 0..2 {
                let (kind, ways) = (
                    self.random.pick(&Kind::ALL),
                    (self.random.percent(50), self.random.percent(50)),
                );
                self.converse(kind, inner, 0, ways);
            }
            let (from, both_ways) = (
                self.random.below(hosts as u64) as usize,
                self.random.percent(60),
            );
            let to = (from + 1 + self.random.below(hosts as u64 - 1) as usize) % hosts;
            let links = self.random.between(1, LINKS.into()) as u8;
            let side = self.random.between(1, (1 << hosts) - 2) as u32;
            let time = self.random.between(20 * MS, 400 * MS);
            let fault = match self.random.pick(kinds) {
                0 => Fault::Cut { side, both_ways },
                1 => Fault::Cut {
                    side: 1 << serving,
                    both_ways,
                },
                2 => Fault::Pair {
                    from,
                    to,
                    links,
                    both_ways,
                },
                3 => Fault::Stop { host: from, time },
                4 => Fault::Move { asked: from },
                5 => Fault::End,
                6 => Fault::Fail {
                    host: inner,
                    crash: Crash::Daemon,
                },
                _ => Fault::Fail {
                    host: serving,
                    crash: Crash::Daemon,
                },
            };
            self.suffers(fault);
            if matches!(fault, Fault::Fail { .. }) {
                // A gateway that begins meanwhile would hear nothing of what that node's programs have.
                self.run_while(5 * SECOND, |town| !town.is_ready());
                self.finish(0);
            }
            let lasts = self.random.between(MS, PARTED_MAX);
            self.run_until(self.now + lasts);
            self.suffers(Fault::Heal);
            let rests = self.random.between(MS, 400 * MS);
            self.run_until(self.now + rests);
        }
        self.run_while(DONE_WITHIN, |town| {
            !town.conversations.iter().all(Conversation::is_over)
        });
    }
}

fn parted(seed: u64, mutant: Option<(usize, Mutant)>) -> Town {
    let hosts = 3 + (mix(seed) % 3) as usize;
    let mut town = settled(seed, (2, hosts), mutant);
    town.may_reset = true;
    town.goes_through(&[0, 0, 1, 1, 2, 2, 3, 4, 5], 4);
    town.finish(0);
    town
}

#[test]
fn two_gateways_never_speak_at_once_whoever_can_reach_whom() {
    let schedules = count("TABANE_SIM_PARTITIONS", 100);
    let (mut digest, mut resets, mut conversations) = (0, 0, 0);
    let first = count("TABANE_SIM_SEED", 0) as u64;
    for seed in first..first + schedules as u64 {
        let town = parted(seed, None);
        assert_eq!(town.broken, None);
        digest ^= mix(town.digest ^ seed);
        resets += town.resets;
        conversations += town.conversations.len();
    }
    println!("{schedules} schedules, {conversations} conversations, {resets} reset, {digest:016x}");
    assert_eq!(parted(0, None).digest, parted(0, None).digest);
}

#[test]
fn connections_go_on_when_the_gateway_moves_or_a_nodes_daemon_begins_anew() {
    let first = count("TABANE_SIM_SEED", 0) as u64;
    for seed in first..first + count("TABANE_SIM_MOVES", 40) as u64 {
        let mut town = settled(seed, (2, 4), None);
        town.goes_through(&[4, 5, 6], 6);
        town.finish(0);
        assert_eq!(town.broken, None);
    }
}

/// Also those that only receive, of which their node's next daemon hears nothing.
#[test]
fn connections_go_on_when_their_nodes_daemon_begins_anew_at_any_moment() {
    let first = count("TABANE_SIM_SEED", 0) as u64;
    for seed in first..first + count("TABANE_SIM_MOVES", 40) as u64 {
        let mut town = settled(seed, (2, 4), None);
        for kind in Kind::ALL {
            let ways = (town.random.percent(50), town.random.percent(50));
            town.converse(kind, 2, 0, ways);
        }
        let until = town.now + town.random.below(30 * MS);
        town.run_until(until);
        town.crash(2, Crash::Daemon);
        town.finish(0);
        assert_eq!(town.broken, None);
    }
}
