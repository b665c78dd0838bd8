//! The observer: sees the whole network from outside, and holds what the nodes
//! say and do against it.

use super::progress::needs_detour;
use super::{Calls, Checked, Relayed, Rule, StreamLedger, TransferLedger, UnitLedger, Violation};
use crate::attack::is_strangers;
use crate::net::{During, MS, Network, Ns, Packet, Quality, WORKING_DELAY_MAX_NS};
use crate::workload::{Plan, UnitKind};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tabane_proto::DownReason;
use tabane_proto::wire::Witness;

/// A path whose conditions changed, or whose ends began to run, this recently may
/// be called failed.
const STEADY_NS: Ns = 500 * MS;
/// A path on which packets waited longer than this in queues may be called failed
/// if nothing arrives.
const QUEUE_CALM_NS: Ns = 15 * MS;
/// A lossy path counts as working while packets arrived in both directions …
const ACTIVE_NS: Ns = 20 * MS;
/// … so many of them.
const ACTIVE_PACKETS: usize = 3;

/// A connection that only one side believed in is found out so long after the other
/// side took another one.
const NEVER_WAS_NS: Ns = 1000 * MS;
/// A path whose packets take longer than this may look failed to those who were
/// idle when it became so long, until their keepalives have shown it.
const FAR_NS: Ns = 20 * MS;
/// Until then.
const FAR_STEADY_NS: Ns = 6_000 * MS;
/// The incarnation of a host that took its peer out: one that never comes again.
const REMOVED: u32 = u32::MAX;
/// On a slower path, what waits in a queue may take longer than a frame lives.
const FRAME_RATE_MIN_BPS: u64 = 100_000_000;
/// On a farther one, its silence tells that it is dead after longer than the 60 ms that frames wait
/// for earlier ones: three round trips, and an answer's way.
const FRAME_RTT_MAX_NS: Ns = 15 * MS;
/// So long frames wait for earlier ones.
const FRAME_WAIT_NS: Ns = 60 * MS;

/// What the observer knows of a host.
#[derive(Clone, Debug)]
pub struct HostView {
    /// Since when its process has run without a break; `None`: it does not.
    pub runs_since: Option<Ns>,
    /// How often it was started.
    pub incarnation: u32,
    /// Its process is somebody else's, who has not the key that the cluster file has for it.
    poses_since: Option<Ns>,
    /// Which incarnation of each host it was last connected to.
    knows: Vec<Option<u32>>,
    /// When it was first connected to the incarnation that it knows of each host.
    known_since: Vec<Ns>,
    /// Which hosts it has nothing with any more because one took the other out, and
    /// when it was connected anew.
    renews: Vec<bool>,
    renewed_at: Vec<Ns>,
    /// Whose end in order it was told of.
    saw_end: Vec<bool>,
    /// To whom it says it is connected.
    pub connected: Vec<bool>,
    /// The largest datagram that each of its links carries.
    pub datagram_bytes_max: Vec<usize>,
    /// When the kernel last said something about each link.
    pub kernel_said_at: Vec<Option<Ns>>,
}

/// Everything the checkers know.
#[derive(Debug)]
pub struct Observer {
    /// The streams.
    pub streams: StreamLedger,
    /// Messages and frames.
    pub units: UnitLedger,
    /// Memory operations.
    pub transfers: TransferLedger,
    /// The hosts.
    pub hosts: Vec<HostView>,
    /// When the last datagrams on a path were handled: by receiver, sender, link.
    handled: BTreeMap<(usize, usize, usize), [Ns; ACTIVE_PACKETS]>,
    /// Bytes that each host got from, and sent to, each address of the attacker's.
    strangers: BTreeMap<(usize, SocketAddr), (u64, u64)>,
    /// The last packet number used: by sender, session, path.
    numbers: BTreeMap<(usize, u32, u8), u64>,
    /// Of each host.
    calls: Vec<Calls>,
    /// Hosts are connected to most others only while something is to be carried.
    pub on_demand: bool,
    /// What goes through other hosts, if packets travel in the clear.
    pub relayed: Option<Relayed>,
    /// Of what the nodes tell of themselves, if they are asked: the text of a qlog.
    pub qlog: Option<String>,
    traces: bool,
}

impl Observer {
    /// Bytes of streams and units that `to` got from `from`, and units left out.
    pub fn carried_bytes(&self, from: usize, to: usize) -> (u64, u64) {
        let (bytes, left_out) = self.units.carried_bytes(from, to);
        (bytes + self.streams.carried(from, to).0, left_out)
    }

    /// Knows the plan; nothing has happened.
    pub fn new(
        plan: &Plan,
        hosts: usize,
        datagram_bytes_max: Vec<Vec<usize>>,
        traces: bool,
    ) -> Self {
        let view = |datagram_bytes_max: Vec<usize>| HostView {
            runs_since: None,
            incarnation: 0,
            poses_since: None,
            knows: vec![None; hosts],
            known_since: vec![0; hosts],
            renews: vec![false; hosts],
            renewed_at: vec![0; hosts],
            saw_end: vec![false; hosts],
            connected: vec![false; hosts],
            kernel_said_at: vec![None; datagram_bytes_max.len()],
            datagram_bytes_max,
        };
        Observer {
            streams: StreamLedger::new(plan.streams.clone()),
            units: UnitLedger::new(plan.flows.clone()),
            transfers: TransferLedger::new(plan.transfers.clone()),
            hosts: datagram_bytes_max.into_iter().map(view).collect(),
            handled: BTreeMap::new(),
            strangers: BTreeMap::new(),
            numbers: BTreeMap::new(),
            calls: vec![Calls::default(); hosts],
            on_demand: false,
            relayed: None,
            qlog: None,
            traces,
        }
    }

    /// Prints what happens, if this run is traced.
    pub fn trace(&self, now: Ns, line: impl FnOnce() -> String) {
        if self.traces {
            println!("{:12.6} ms  {}", now as f64 / 1e6, line());
        }
    }

    /// A host's process starts.
    pub fn started(&mut self, now: Ns, host: usize) {
        self.hosts[host].incarnation += 1;
        self.calls[host] = Calls::default();
        self.hosts[host].poses_since = None;
        self.hosts[host].runs_since = Some(now);
    }

    /// The process that has just started is not the host's.
    pub fn poses(&mut self, now: Ns, host: usize) {
        self.hosts[host].poses_since = Some(now);
    }

    /// A host's process goes on.
    pub fn runs(&mut self, now: Ns, host: usize) {
        self.hosts[host].runs_since = Some(now);
    }

    /// A host's process stands still.
    pub fn stands(&mut self, host: usize) {
        self.hosts[host].runs_since = None;
    }

    /// A host's process is gone with all it knew.
    pub fn crashed(&mut self, host: usize) {
        let hosts = self.hosts.len();
        let view = &mut self.hosts[host];
        view.runs_since = None;
        view.knows = vec![None; hosts];
        view.connected = vec![false; hosts];
        for other in 0..hosts {
            self.streams.void_between(host, other);
            self.units.excuse(host, other);
            self.transfers.forgotten(host, other);
        }
    }

    /// A host takes another one out of its cluster file: what they had is gone, and
    /// to the other one it is as if the host had been started anew.
    pub fn removed(&mut self, host: usize, other: usize) {
        let view = &mut self.hosts[host];
        view.knows[other] = None;
        view.connected[other] = false;
        view.renews[other] = true;
        let view = &mut self.hosts[other];
        view.knows[host] = view.knows[host].map(|_| REMOVED);
        view.renews[host] = true;
        self.streams.void_between(host, other);
        self.units.excuse(host, other);
        self.transfers.forgotten(host, other);
    }

    /// Since when both of these run without a break.
    pub fn both_run_since(&self, a: usize, b: usize) -> Option<Ns> {
        let (a, b) = (self.hosts[a].runs_since?, self.hosts[b].runs_since?);
        Some(a.max(b))
    }

    /// The largest datagram that a host may send on a link.
    pub fn datagram_bytes_max(&self, host: usize, link: usize) -> usize {
        let links = &self.hosts[host].datagram_bytes_max;
        links.get(link).copied().unwrap_or(0)
    }

    /// A node handles a datagram.
    pub fn datagram(&mut self, now: Ns, host: usize, packet: &Packet) {
        if let Some(from) = packet.from_host {
            let times = self.handled.entry((host, from, packet.link)).or_default();
            times.rotate_left(1);
            times[ACTIVE_PACKETS - 1] = now;
        }
        if let Some(relayed) = &mut self.relayed {
            relayed.comes(host, &packet.bytes);
        }
        if is_strangers(packet.source) {
            let known = self.strangers.entry((host, packet.source)).or_default();
            known.0 += packet.bytes.len() as u64;
        }
    }

    /// A node sends so many bytes to an address: if nobody is there, no more than three times what came from it
    /// (RFC 9000 section 8).
    pub fn sends_to(&mut self, now: Ns, host: usize, to: SocketAddr, bytes: usize) -> Checked {
        if !is_strangers(to) {
            return Ok(());
        }
        let (came, sent) = self.strangers.entry((host, to)).or_default();
        *sent += bytes as u64;
        if *sent > 3 * *came {
            let what = format!("host {host} sends {sent} bytes to {to}, from where {came} came");
            return Err(Violation::new(Rule::Amplification, now, what));
        }
        Ok(())
    }

    /// A node sends a datagram: its number must not have been used under its keys, nor is it one handshake too many, nor
    /// relays it what it was not given.
    pub fn sends(&mut self, now: Ns, host: usize, datagram: &[u8]) -> Checked {
        let peers = self.hosts.len() - 1;
        self.calls[host].sent(now, peers, datagram)?;
        if let Some(relayed) = &mut self.relayed {
            relayed.goes(now, host, datagram)?;
        }
        let Some((&[0x10, path, s0, s1, s2, s3, ref number @ ..], _)) =
            datagram.split_first_chunk::<12>()
        else {
            return Ok(());
        };
        let session = u32::from_be_bytes([s0, s1, s2, s3]);
        let number = number.iter().fold(0u64, |n, b| (n << 8) | u64::from(*b));
        let last = self.numbers.entry((host, session, path)).or_insert(0);
        // The entry is one more than the last number.
        if number < *last {
            let what = format!(
                "host {host} uses number {number} of path {path} again under session {session:08x}"
            );
            return Err(Violation::new(Rule::Numbers, now, what));
        }
        *last = number + 1;
        Ok(())
    }

    /// A node says that a peer is connected.
    pub fn peer_up(
        &mut self,
        now: Ns,
        (host, peer): (usize, usize),
        restarted: bool,
        network: &Network,
    ) -> Checked {
        // What the true one sent last may still be on its way.
        let way_ns = |link| {
            let wait_ns = network.recent_wait_ns(now, host, peer, link);
            network.longest_ns(host, peer, link) + wait_ns
        };
        let last_ns = (0..network.links()).map(way_ns).max().unwrap_or(0);
        // Or have waited for this host to go on.
        let runs_since = self.hosts[host].runs_since;
        let poses = |host: usize| {
            let since = self.hosts[host].poses_since;
            since.is_some_and(|since| now > since.max(runs_since.unwrap_or(0)) + last_ns)
        };
        if poses(peer) || poses(host) {
            let what =
                format!("host {host} has a session with {peer}, of which one is an impostor");
            return Err(Violation::new(Rule::Identity, now, what));
        }
        let incarnation = self.hosts[peer].incarnation;
        let mine = self.hosts[host].incarnation;
        let other = &self.hosts[peer];
        let was = other.knows[host] == Some(mine) && other.known_since[host] + NEVER_WAS_NS < now;
        let view = &mut self.hosts[host];
        let known = view.knows[peer].replace(incarnation);
        view.connected[peer] = true;
        if core::mem::take(&mut view.renews[peer]) {
            view.renewed_at[peer] = now;
        }
        if known != Some(incarnation) {
            view.known_since[peer] = now;
        }
        let did_restart = known.is_some_and(|known| known != incarnation);
        // A handshake that the peer had given up (its answer came late) may have
        // passed for a connection; then what it began is gone indeed.
        let never_was = restarted && !was;
        if restarted != did_restart && !never_was {
            let what = format!(
                "host {host} says that {peer} is up with restarted = {restarted}; it was {did_restart}"
            );
            return Err(Violation::new(Rule::FalseRestart, now, what));
        }
        Ok(())
    }

    /// A node says that a peer is not connected now.
    pub fn peer_down(&mut self, host: usize, peer: usize, reason: DownReason) {
        let view = &mut self.hosts[host];
        view.connected[peer] = false;
        view.saw_end[peer] = matches!(reason, DownReason::Closed { .. });
    }

    /// The hosts that are to be told when this one ends: connected to it, as both of them say (a session that only one
    /// side has carries no word to the other), and reached over a clean path or through a third host.
    pub fn to_be_told(&self, host: usize, network: &Network) -> Vec<usize> {
        let is_told = |other: usize| {
            let clean = |link| network.history(host, other, link).now() == Quality::Clean;
            self.hosts[other].connected[host]
                && self.hosts[host].connected[other]
                && ((0..network.links()).any(clean) || needs_detour(host, other, self, network))
        };
        let others = (0..self.hosts.len()).filter(|other| *other != host);
        others.filter(|other| is_told(*other)).collect()
    }

    /// A host has ended in order a while ago: each of these that runs has been told.
    pub fn judge_end(&self, now: Ns, ended: usize, to_be_told: &[usize]) -> Checked {
        for &host in to_be_told {
            let view = &self.hosts[host];
            if view.runs_since.is_some() && !view.saw_end[ended] {
                let what = format!("host {host} was not told that {ended} has ended");
                return Err(Violation::new(Rule::Farewell, now, what));
            }
        }
        Ok(())
    }

    /// An application gets a message or frame.
    pub fn unit(
        &mut self,
        now: Ns,
        ends: (usize, usize),
        kind: UnitKind,
        data: &[u8],
    ) -> Checked<(usize, u32)> {
        self.units.arrived(now, ends, kind, data)
    }

    /// A node declares a path failed.
    pub fn link_down(
        &mut self,
        now: Ns,
        (host, peer): (usize, usize),
        link: usize,
        witness: Witness,
        network: &Network,
    ) -> Checked {
        let excuse = match witness {
            // What the peer says was checked where it said it first.
            Witness::Peer => true,
            Witness::KernelLink => {
                let said = |host: usize| self.hosts[host].kernel_said_at[link];
                said(host).or(said(peer)).is_some()
            }
            _ => self.may_look_failed(now, host, peer, link, network),
        };
        if excuse {
            return Ok(());
        }
        let quality = network.history(host, peer, link).now();
        let what = format!(
            "host {host} declares link {link} to {peer} failed ({witness:?}), but it is {quality:?}"
        );
        Err(Violation::new(Rule::FalseDown, now, what))
    }

    fn may_look_failed(&self, now: Ns, a: usize, b: usize, link: usize, network: &Network) -> bool {
        let history = network.history(a, b, link);
        let far = network.delay_ns(a, b, link) > FAR_NS;
        let settles = if far { FAR_STEADY_NS } else { STEADY_NS };
        let steady = history.steady_since() + settles <= now;
        let run = self
            .both_run_since(a, b)
            .is_some_and(|at| at + STEADY_NS <= now);
        // What was taken out and put back begins anew, as with a start.
        let renewed_at = self.hosts[a].renewed_at[b].max(self.hosts[b].renewed_at[a]);
        let run = run && renewed_at + STEADY_NS <= now;
        // A peer that restarted unseen answers nothing under the keys of before.
        let known = self.hosts[a].knows[b] == Some(self.hosts[b].incarnation);
        if !steady || !run || !known || history.now() < Quality::Working {
            return true;
        }
        let wait_ns = network.recent_wait_ns(now, a, b, link);
        // What queued on a wire that was slow a moment ago still leaves at that rate.
        if wait_ns > WORKING_DELAY_MAX_NS {
            return true;
        }
        let calm = wait_ns <= QUEUE_CALM_NS;
        let still_clean = history.now() == Quality::Clean && calm;
        !(still_clean || self.active(now, a, b, link) && self.active(now, b, a, link))
    }

    /// Whether enough datagrams from `from` were handled at `to` of late.
    fn active(&self, now: Ns, from: usize, to: usize, link: usize) -> bool {
        let times = self.handled.get(&(to, from, link));
        times.is_some_and(|t| t[0] > 0 && t[0] + ACTIVE_NS >= now)
    }

    /// Judges the frames that were left out, once the run is over. `dropped`: how many frames for
    /// the second host the first says it dropped, because more came than its paths carried.
    /// `blocks`: whether a host's sockets may take nothing for a while.
    pub fn judge_gaps(
        &self,
        network: &Network,
        dropped: impl Fn(usize, usize) -> u64,
        blocks: impl Fn(usize) -> bool,
    ) -> Checked {
        let mut left_out = BTreeMap::<(usize, usize), u64>::new();
        let plans = self.units.plans().iter().enumerate();
        let unseen = plans.filter_map(|(i, _)| {
            let gap = self.units.waiting(Ns::MAX, i)?;
            let noticed_at = gap.sent_at + 1000 * MS;
            Some(super::Gap { noticed_at, ..gap })
        });
        for gap in self.units.gaps().iter().copied().chain(unseen) {
            let plan = self.units.plans()[gap.plan];
            let (rule, excused) = match plan.kind {
                UnitKind::Message => (Rule::MessageArrives, false),
                UnitKind::Frame => {
                    let (from, to) = (plan.from, plan.to);
                    let strays = blocks(from) && may_stray(from, to, network);
                    let excused = strays || self.excuses_frames(&gap, network) || {
                        let count = left_out.entry((from, to)).or_default();
                        *count += u64::from(gap.end - gap.first);
                        *count <= dropped(from, to)
                    };
                    (Rule::FrameArrives, excused)
                }
            };
            if !excused {
                let what = format!("left out from {} to {}: {gap:?}", plan.from, plan.to);
                return Err(Violation::new(rule, gap.noticed_at, what));
            }
        }
        Ok(())
    }

    /// Frames may be left out unless one path was clean all the while, and of the
    /// others, steady and not lossy, at most one died or came back, and no queue was full.
    fn excuses_frames(&self, gap: &super::Gap, network: &Network) -> bool {
        let plan = self.units.plans()[gap.plan];
        let from = gap.sent_at.saturating_sub(200 * MS).max(1);
        let to = gap.noticed_at;
        let (a, b) = (plan.from, plan.to);
        let ran = self.both_run_since(a, b).is_some_and(|at| at <= from);
        let histories = (0..network.links()).map(|link| network.history(a, b, link));
        let count = |wanted| {
            histories
                .clone()
                .filter(|h| h.during(from, to) == wanted)
                .count()
        };
        let slow = |link| network.slowest_bps(a, b, link) < FRAME_RATE_MIN_BPS;
        // That a far path is dead is found later than frames wait for earlier ones.
        let far = |link| network.least_rtt_ns(a, b, link) > FRAME_RTT_MAX_NS;
        let broken = histories
            .clone()
            .any(|h| h.during(from, to) != During::Clean);
        let simple = count(During::Clean) > 0
            && count(During::Failing) <= 1
            && count(During::Troubled) == 0
            && !(0..network.links()).any(slow)
            && !(broken && (0..network.links()).any(far));
        let full = network.overflowed_between(from, to);
        !ran || !simple || full || network.hosts() > 2
    }
}

/// Whether a frame may come so late by one path that those behind it, by another, no longer wait.
/// While the socket of the near path takes nothing, what is urgent goes by the far one.
fn may_stray(a: usize, b: usize, network: &Network) -> bool {
    let links = 0..network.links();
    let nearest_ns = links.clone().map(|link| network.delay_ns(a, b, link)).min();
    let farthest_ns = links.map(|link| network.longest_ns(a, b, link)).max();
    farthest_ns.unwrap_or(0) > nearest_ns.unwrap_or(0) + FRAME_WAIT_NS
}
