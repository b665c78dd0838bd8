//! What must happen: things move on while a path works, and in the end both sides
//! agree on which paths those are.

use super::{Checked, Observer, Rule, Violation};
use crate::host::Host;
use crate::net::{MS, Network, Ns, Quality, SECOND};
use crate::workload::Reader;
use tabane_proto::link::PathState;

/// While a path has been clean from the start, something must move within this.
const STALL_NS_MAX: Ns = 3 * SECOND;
/// After failures, a path's return may be held back by so much (flap damping, and
/// handshakes repeated at growing intervals).
const STALL_AFTER_FAULTS_NS_MAX: Ns = 16 * SECOND;

/// A message to a host that is reached through another one only, on links that never failed, waits at most so long.
const DETOUR_NS_MAX: Ns = SECOND;

/// Over farther links a few round trips may take longer.
const DETOUR_RTT_NS_MAX: Ns = 50 * MS;

/// Watches that everything moves on.
#[derive(Debug)]
pub struct Progress {
    /// What was carried at the last change, and when that was: by sender and receiver.
    last: Vec<Vec<(u64, Ns)>>,
    /// The same of each planned stream.
    streams: Vec<(u64, Ns)>,
    /// Units of each pair that had arrived, and until when none had to be on its way through another host.
    detours: Vec<Vec<(u64, Ns)>>,
}

impl Progress {
    /// Watches this many hosts.
    pub fn new(hosts: usize) -> Progress {
        Progress {
            last: vec![vec![(0, 0); hosts]; hosts],
            streams: Vec::new(),
            detours: vec![vec![(0, 0); hosts]; hosts],
        }
    }

    /// Looks at every pair of hosts. To be called at regular intervals.
    pub fn check(&mut self, now: Ns, observer: &Observer, network: &Network) -> Checked {
        for from in 0..network.hosts() {
            for to in (0..network.hosts()).filter(|to| *to != from) {
                self.check_pair(now, from, to, observer, network)?;
                self.check_detour(now, (from, to), observer, network)?;
            }
        }
        self.check_streams(now, observer, network)
    }

    /// A stream that is read at once moves on, whatever is done about the others.
    fn check_streams(&mut self, now: Ns, o: &Observer, n: &Network) -> Checked {
        let plans = o.streams.plans();
        self.streams.resize(plans.len(), (0, 0));
        for (i, plan) in plans.iter().enumerate() {
            let (from, to) = (plan.from, plan.to);
            let connected = o.hosts[from].connected[to] && o.hosts[to].connected[from];
            if plan.reader != Reader::Eager {
                continue;
            }
            let (moved, waits) = o.streams.moved(i);
            let last = &mut self.streams[i];
            if moved != last.0 || !waits || !connected {
                *last = (moved, now);
                continue;
            }
            let Some(works_since) = works_since(from, to, o, n) else {
                continue;
            };
            if now >= works_since.max(last.1).max(plan.start) + stall_max(from, to, o, n) {
                let what = format!("stream {i} from {from} to {to} does not move");
                return Err(Violation::new(Rule::Neighbours, now, what));
            }
        }
        Ok(())
    }

    /// Messages between hosts that share no link that works go through a third one.
    fn check_detour(
        &mut self,
        now: Ns,
        (from, to): (usize, usize),
        o: &Observer,
        n: &Network,
    ) -> Checked {
        let (units, waiting) = o.units.carried(from, to);
        let last = &mut self.detours[from][to];
        if units != last.0 || waiting == 0 || !needs_detour(from, to, o, n) {
            *last = (units, now);
            return Ok(());
        }
        if now < last.1 + DETOUR_NS_MAX {
            return Ok(());
        }
        let what = format!("{waiting} messages from {from} to {to} do not move through others");
        Err(Violation::new(Rule::Detour, now, what))
    }

    fn check_pair(
        &mut self,
        now: Ns,
        from: usize,
        to: usize,
        o: &Observer,
        n: &Network,
    ) -> Checked {
        let (streamed, unread) = o.streams.carried(from, to);
        let (units, waiting) = o.units.carried(from, to);
        let connected = o.hosts[from].connected[to];
        let last = &mut self.last[from][to];
        let nothing_waits = (connected || o.on_demand) && unread + waiting == 0;
        if streamed + units != last.0 || nothing_waits {
            *last = (streamed + units, now);
            return Ok(());
        }
        let Some(works_since) = works_since(from, to, o, n) else {
            return Ok(());
        };
        if now < works_since.max(last.1) + stall_max(from, to, o, n) {
            return Ok(());
        }
        let what = if connected {
            format!("{unread} stream bytes and {waiting} messages from {from} to {to} do not move")
        } else {
            format!("host {from} does not connect to {to}")
        };
        Err(Violation::new(Rule::Progress, now, what))
    }
}

/// Whether two hosts, which run and are connected, share no link that passes anything, and have another one between them
/// that is connected to both over links that never failed.
pub(super) fn needs_detour(a: usize, b: usize, o: &Observer, n: &Network) -> bool {
    let links = || 0..n.links();
    let dead = links().all(|l| n.history(a, b, l).now() == Quality::Dead);
    let connected = |a: usize, b: usize| {
        let runs = [a, b].map(|host| &o.hosts[host]);
        let runs = runs.map(|host| host.runs_since.is_some() && host.incarnation == 1);
        let knows = o.hosts[a].connected[b] && o.hosts[b].connected[a];
        runs == [true; 2] && knows
    };
    let sound = |a: usize, b: usize| {
        let always_clean = |l| n.history(a, b, l).worst_between(0, Ns::MAX) == Quality::Clean;
        let near = |l| n.least_rtt_ns(a, b, l) < DETOUR_RTT_NS_MAX;
        connected(a, b) && links().any(|l| always_clean(l) && near(l))
    };
    let mut others = (0..n.hosts()).filter(|other| *other != a && *other != b);
    dead && connected(a, b) && others.any(|other| sound(a, other) && sound(other, b))
}

/// Since when both hosts run and some one path between them is clean.
fn works_since(a: usize, b: usize, o: &Observer, n: &Network) -> Option<Ns> {
    let paths = (0..n.links()).filter_map(|l| n.history(a, b, l).at_least_since(Quality::Clean));
    Some(paths.min()?.max(o.both_run_since(a, b)?))
}

/// How long nothing may move.
fn stall_max(a: usize, b: usize, o: &Observer, n: &Network) -> Ns {
    if ever_failed(a, b, o, n) {
        STALL_AFTER_FAULTS_NS_MAX
    } else {
        STALL_NS_MAX
    }
}

fn ever_failed(a: usize, b: usize, o: &Observer, n: &Network) -> bool {
    let paths = 0..n.links();
    let poor = |l: usize| n.history(a, b, l).worst_between(0, Ns::MAX) < Quality::Working;
    let restarted = o.hosts[a].incarnation + o.hosts[b].incarnation > 2;
    paths.into_iter().any(poor) || restarted
}

/// Whether both sides say the truth about every path that is clean or dead; if not,
/// which one is wrong.
pub fn agreement(now: Ns, hosts: &[Host], network: &Network) -> Checked {
    for host in hosts {
        let Some(node) = &host.node else { continue };
        for (peer, id) in host.peer_ids.iter().enumerate() {
            let Some(id) = *id else { continue };
            if hosts[peer].node.is_none() {
                continue;
            }
            let Some(stats) = node.peer_stats(id) else {
                continue;
            };
            for path in &stats.paths {
                let link = &path.link;
                let up = matches!(path.state, PathState::Up | PathState::Suspect);
                let says = host.tap.path_works(*link, up);
                let truth = network.history(host.index, peer, link.index()).now();
                if truth == Quality::Clean && !says || truth == Quality::Dead && says {
                    let what = format!(
                        "in the end host {} says of link {} to {peer}: {:?}; it is {truth:?}",
                        host.index, link.0, path.state
                    );
                    return Err(Violation::new(Rule::Agreement, now, what));
                }
            }
        }
    }
    Ok(())
}
