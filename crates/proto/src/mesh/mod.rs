//! Who reaches whom, and the resulting ways through other nodes (`docs/protocol.md`, 7.13 and 9.9).
//!
//! Each node says whom it reaches over its own links ([`Reach`]) once that differs from what all expect, which follows
//! from the names as the kept bundles do (`plan.rs`): while all links work, nobody says anything. (At a cluster's start
//! each word about a bundle that was just coming up, passed on by all, was most of what nodes sent.) A word bears its
//! version and is acknowledged; no digests are compared. Nodes pass it on to neighbours that its origin does not say it
//! reaches (if that is wrong, the origin will say otherwise): in a full mesh to nobody. A restarted node hears its own
//! past, and counts on from there as in OSPF.
//!
//! A node that has no working link in common with a peer looks for relays between them, and lists all of them in its
//! packets: so nothing can go round in a circle, and a relay keeps no state but a short queue.

mod asking;
mod few;
mod groups;
mod lately;
mod measuring;
mod members;
mod plan;
mod queue;
mod statements;
#[cfg(test)]
mod tests;
pub mod topology;
mod way;
mod wish;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use smallvec::SmallVec;

use crate::limits::{RELAYED_MAX, RELAYS_MAX};
use crate::wire::{Name, NodeId, REACH_NODES_MAX, Reach, Steps, Switches};
use crate::{PeerId, Time};

pub(crate) use few::Few;
pub use few::bundles_needed;
pub(crate) use lately::Lately;
pub(crate) use measuring::{Measurement, Step};
pub use members::Joining;
pub(crate) use members::Members;
use plan::Plan;
pub(crate) use plan::WORTH_LINKS;
pub(crate) use queue::RelayQueue;
pub(crate) use way::{RelayList, Way};
pub(crate) use wish::Wish;

/// A loss of reachability is told after this delay: more may change just then.
const TELL_AFTER: Duration = Duration::from_millis(5);
/// Less urgent news is told after this delay, or together with the next urgent one.
const TELL_GAIN_AFTER: Duration = Duration::from_millis(250);
/// Nothing is told this soon after a node's start: not everybody can be there yet.
const START: Duration = Duration::from_secs(1);
/// Shortest interval between two tellings, fixed part.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// Shortest interval between two tellings, additional part for each node there is: any of them may have to hear it.
const TELL_EVERY_NODE: Duration = Duration::from_millis(2);
/// Ways are recomputed this long after a change.
const LOOK_AFTER: Duration = Duration::from_millis(2);
/// Shortest interval between two recomputations of ways, for each node: that is about the work it takes.
const LOOK_EVERY_NODE: Duration = Duration::from_micros(50);
/// Ways are tried at once to at most this many peers whose links are only in doubt. Of 128 nodes that fill the trunks
/// between their switches (`sim exchange halo all 1000`) all were in doubt after 2 ms, asked each other through each
/// other, came to doubt those, too, and never ended.
const DOUBTS_MAX: usize = 2;
/// A node that did not relay to another one is not asked to for this long.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// The most such refusals that are remembered.
const REFUSALS_MAX: usize = 32;
/// Unused allowance for relaying accumulates for this long, or up to this many bytes.
const ALLOWANCE_SAVED: Duration = Duration::from_millis(5);
const ALLOWANCE_LEAST: f64 = 64.0 * 1024.0;
/// A removed node is counted among the unreachable ones for this long: others may still know it.
const FORMER_FOR: Duration = Duration::from_secs(60);
/// So many of them are remembered.
const FORMER_MAX: usize = 32;
/// Datagrams to be relayed, or that were, that wait for the node to look at them.
const ARRIVED_MAX: usize = 1024;
/// The most wishes of bundles that wait at once.
const WISHES_MAX: usize = 1024;

/// State of another node.
#[derive(Debug)]
struct Known {
    id: NodeId,
    /// The largest datagram to it over a link that works now, if there is one; 0 if all are in doubt.
    near: Option<u16>,
    /// A bundle is kept with it for the mesh: its reachability is told to others.
    kept: bool,
    /// Its last statement.
    reach: Option<Reach>,
    /// Its place in the [`Plan`].
    place: usize,
}

impl Known {
    fn is_reached(&self) -> bool {
        self.near.is_some() && self.kept
    }
}

/// A node's relay settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelayConfig {
    /// Whether it relays what others send to others. It may use others as relays either way.
    pub forwards: bool,
    /// How much it relays for others at most, in Mb/s; `None`: what its links carry.
    pub mbps_max: Option<u32>,
    /// How many bundles over links it has at most, at least [`BUNDLES_LEAST`](crate::BUNDLES_LEAST); `None`: one with each peer.
    /// Bundles that the mesh needs are kept in any case ([`bundles_needed`]).
    pub bundles_max: Option<u16>,
}

impl Default for RelayConfig {
    fn default() -> RelayConfig {
        RelayConfig {
            forwards: true,
            mbps_max: None,
            bundles_max: None,
        }
    }
}

/// A node's knowledge of who reaches whom.
#[derive(Debug)]
pub(crate) struct Mesh {
    is_on: bool,
    /// Nodes know the same ones even where everybody keeps a bundle with everybody (see [`Mesh::are_alike`]).
    alike: bool,
    config: RelayConfig,
    me: NodeId,
    version: u64,
    /// What this node said last.
    told: Option<Reach>,
    /// Nodes that asked whom this node reaches, where only they are told.
    askers: Vec<PeerId>,
    /// How many neighbours were asked for a way, one after the other; wraps.
    asked: usize,
    /// Nodes that neighbours are asked for, and their names.
    asked_for: BTreeMap<PeerId, Name>,
    plan: Option<Plan>,
    /// This node's switches, as far as known.
    switches: Option<Switches>,
    /// Whether this node or another one has changed its switches.
    has_moved: bool,
    nodes: BTreeMap<PeerId, Known>,
    ids: BTreeMap<NodeId, PeerId>,
    /// Nodes that were known, and until when that is remembered.
    former: VecDeque<(NodeId, Time)>,
    /// Peers whose links are all in doubt, and to which ways through others are tried.
    doubts: SmallVec<[PeerId; DOUBTS_MAX]>,
    /// Until then a node is not asked to relay to another one, for it refused.
    refusals: VecDeque<(PeerId, PeerId, Time)>,
    allowance: Allowance,
    /// When this node first knew another one.
    began: Option<Time>,
    /// When to tell whom this node reaches, and when it was last told.
    tell_at: Option<Time>,
    told_at: Option<Time>,
    /// When to look for ways.
    look_at: Option<Time>,
    looked_at: Time,
    /// Neighbours that must be told everything that they may not know.
    pub risen: Vec<PeerId>,
    /// Nodes with new statements, who told them, and what the nodes stated before.
    pub news: Vec<(PeerId, PeerId, Option<Reach>)>,
    /// Nodes to which no way is known: neighbours will be asked.
    pub sought: Vec<(PeerId, Name)>,
    /// Arrived records of relays, and their senders.
    pub arrived: VecDeque<(PeerId, u8, Vec<u8>)>,
    /// Wishes of bundles to the node.
    pub wishes: Vec<(PeerId, Wish)>,
}

/// Allowance for relaying.
#[derive(Debug, Default)]
struct Allowance {
    bytes: f64,
    at: Time,
}

impl Mesh {
    pub fn new(is_on: bool, alike: bool, config: RelayConfig, name: &Name) -> Mesh {
        Mesh {
            is_on,
            alike,
            config,
            me: NodeId::of(name),
            version: 0,
            told: None,
            askers: Vec::new(),
            asked: 0,
            asked_for: BTreeMap::new(),
            plan: None,
            switches: None,
            has_moved: false,
            nodes: BTreeMap::new(),
            ids: BTreeMap::new(),
            former: VecDeque::new(),
            doubts: SmallVec::new(),
            refusals: VecDeque::new(),
            allowance: Allowance::default(),
            began: None,
            tell_at: None,
            told_at: None,
            look_at: None,
            looked_at: Time::ZERO,
            risen: Vec::new(),
            news: Vec::new(),
            sought: Vec::new(),
            arrived: VecDeque::new(),
            wishes: Vec::new(),
        }
    }

    /// Changes what this node does for others.
    pub fn set_config(&mut self, now: Time, config: RelayConfig) {
        if core::mem::replace(&mut self.config, config) != config {
            self.tell_after(now, TELL_AFTER);
        }
    }

    /// There is another node.
    pub fn add(&mut self, now: Time, peer: PeerId, name: &Name) {
        if !self.is_on {
            return;
        }
        let id = NodeId::of(name);
        self.ids.insert(id, peer);
        let known = Known {
            id,
            near: None,
            kept: true,
            reach: None,
            place: usize::MAX,
        };
        self.nodes.insert(peer, known);
        self.began.get_or_insert(now);
        self.tell_after(now, TELL_GAIN_AFTER);
    }

    /// Removes a node.
    pub fn remove(&mut self, now: Time, peer: PeerId) {
        if let Some(known) = self.nodes.remove(&peer) {
            self.ids.remove(&known.id);
            self.askers.retain(|asker| *asker != peer);
            self.asked_for.remove(&peer);
            self.ends_doubt(peer);
            self.former.truncate(FORMER_MAX - 1);
            self.former.push_front((known.id, now + FORMER_FOR));
            self.tell_after(now, TELL_AFTER);
            self.look_soon(now);
        }
    }

    /// Whether a bundle is kept with `peer` for the mesh's sake.
    pub fn set_kept(&mut self, now: Time, peer: PeerId, kept: bool) {
        if let Some(known) = self.nodes.get_mut(&peer)
            && core::mem::replace(&mut known.kept, kept) != kept
            && known.near.is_some()
        {
            self.risen.extend(kept.then_some(peer));
            self.tell_after(now, TELL_GAIN_AFTER);
        }
    }

    /// Not everybody keeps a bundle with everybody, but as `few` says for these nodes, in this order, with this node at the
    /// place `me`; or, without it, everybody does.
    pub fn set_plan(&mut self, now: Time, few: Option<Few>, peers: &[PeerId], me: usize) {
        self.plan = few.map(|few| Plan::new(few, peers, me));
        for (place, peer) in self.plan.iter().flat_map(Plan::places) {
            if let Some(known) = self.nodes.get_mut(&peer) {
                known.place = place;
            }
        }
        self.tell_after(now, TELL_GAIN_AFTER);
        self.look_soon(now);
    }

    /// The bundle with `peer` wants something.
    pub fn wish(&mut self, peer: PeerId, wish: Wish) {
        if self.wishes.len() < WISHES_MAX {
            self.wishes.push((peer, wish));
        }
    }

    /// So many bytes went to `peer` through others. If all that goes to its group so is much, links to one node of that are wanted,
    /// which is one relay less for all of it.
    pub fn note_relayed(&mut self, now: Time, peer: PeerId, bytes: u64) {
        let place = self.nodes.get(&peer).map(|known| known.place);
        let wanted = match (&mut self.plan, place) {
            (Some(plan), Some(place)) => plan.note_relayed(now, place, bytes),
            _ => None,
        };
        if let Some(counterpart) = wanted {
            self.wish(counterpart, Wish::Links);
        }
    }

    pub const fn me(&self) -> NodeId {
        self.me
    }

    pub fn id(&self, peer: PeerId) -> Option<NodeId> {
        self.nodes.get(&peer).map(|known| known.id)
    }

    pub fn peer(&self, id: NodeId) -> Option<PeerId> {
        self.ids.get(&id).copied()
    }

    /// Whether all nodes know the same nodes, except for a moment: then they have the same expectations of each other, and a
    /// statement can list exceptions only. Ranks are alike if they keep few bundles: they are told of all others then.
    const fn are_alike(&self) -> bool {
        self.alike || self.plan.is_some()
    }

    /// Whether there is a node that could be between two others.
    fn is_of_use(&self) -> bool {
        self.nodes.len() >= 2
    }

    // ---- whom this node reaches ----

    /// A link of `peer`'s and ours works and carries datagrams of this size (0: it is in doubt), or none does.
    pub fn set_near(&mut self, now: Time, peer: PeerId, near: Option<u16>) {
        let Some(known) = self.nodes.get_mut(&peer) else {
            return;
        };
        let before = core::mem::replace(&mut known.near, near);
        let kept = known.kept;
        let carries = |near: Option<u16>| near.is_some_and(|bytes| bytes > 0);
        if carries(before) != carries(near) {
            self.look_soon(now);
        }
        // A bundle on demand is nobody else's business.
        if before.is_some() == near.is_some() || !kept {
            return;
        }
        if near.is_some() {
            self.risen.push(peer);
        }
        // Who asked may have waited for just this one.
        let can_wait = near.is_some() && self.askers.is_empty();
        self.tell_after(
            now,
            if can_wait {
                TELL_GAIN_AFTER
            } else {
                TELL_AFTER
            },
        );
        self.look_soon(now);
    }

    /// All links to a peer are in doubt. Returns whether to try ways through others at once, to settle it; not with many
    /// such peers ([`DOUBTS_MAX`]): then the network in between is full.
    pub fn begins_doubt(&mut self, peer: PeerId) -> bool {
        let is_known = self.doubts.contains(&peer);
        if !is_known && self.doubts.len() < DOUBTS_MAX {
            self.doubts.push(peer);
        }
        self.doubts.contains(&peer)
    }

    /// Links to a peer work, or have failed. Whether they were in doubt, and ways were tried.
    pub fn ends_doubt(&mut self, peer: PeerId) -> bool {
        let before = self.doubts.len();
        self.doubts.retain(|doubt| *doubt != peer);
        self.doubts.len() < before
    }

    /// A link of this node's came or went.
    pub fn set_links(&mut self, now: Time) {
        self.tell_after(now, TELL_GAIN_AFTER);
    }

    /// The largest datagram to a neighbour.
    pub fn near_bytes(&self, peer: PeerId) -> Option<usize> {
        self.nodes.get(&peer)?.near.map(usize::from)
    }

    /// Peers with a kept bundle over links.
    pub fn neighbours(&self) -> impl Iterator<Item = PeerId> {
        let near = self.nodes.iter().filter(|(_, known)| known.is_reached());
        near.map(|(peer, _)| *peer)
    }

    fn tell_after(&mut self, now: Time, after: Duration) {
        if !self.is_of_use() {
            return;
        }
        let for_all = TELL_EVERY_NODE * self.nodes.len() as u32;
        let pause = self.told_at.map(|at| at + TELL_EVERY + for_all);
        let starts = self.are_alike() && self.told.is_none();
        let start = self.began.filter(|_| starts).map(|at| at + START + for_all);
        let at = pause.max(start).unwrap_or(now).max(now + after);
        self.tell_at = Some(self.tell_at.map_or(at, |before| before.min(at)));
    }

    fn look_soon(&mut self, now: Time) {
        let pause = LOOK_EVERY_NODE * self.nodes.len() as u32;
        let at = (self.looked_at + pause).max(now + LOOK_AFTER);
        self.look_at = Some(self.look_at.map_or(at, |before| before.min(at)));
    }

    /// Whether to tell now whom this node reaches; then it is a new version. `up`: the links that are up, one bit each; `all`:
    /// all links.
    pub fn takes_tell(&mut self, now: Time, up: u8, all: u8) -> bool {
        if self.tell_at.take_if(|at| *at <= now).is_none() {
            return false;
        }
        self.former.retain(|(_, until)| now < *until);
        let mut reach = self.reach_here(up);
        let is_expected = up == all && self.reaches_as_expected();
        if self.version == 0 && is_expected || self.told.as_ref() == Some(&reach) {
            return false;
        }
        self.told_at = Some(now);
        self.version += 1;
        reach.version = self.version;
        self.told = Some(reach);
        true
    }

    /// Whether this node reaches those whom all expect it to reach. Where nodes are not alike, nothing is expected, and only
    /// those who ask are told.
    fn reaches_as_expected(&self) -> bool {
        let is = |known: &Known| known.is_reached() == self.plans_here(known);
        match self.are_alike() {
            // Others may still expect it to reach a removed node.
            true => {
                let is_plain = self.config.forwards && self.switches.is_none();
                is_plain && self.former.is_empty() && self.nodes.values().all(is)
            }
            false => self.askers.is_empty(),
        }
    }

    /// Whether this node is to keep a bundle with another one, as all know.
    fn plans_here(&self, other: &Known) -> bool {
        let plan = self.plan.as_ref();
        plan.is_none_or(|plan| plan.keeps_here(other.place))
    }

    /// Whether to look for ways now.
    pub fn takes_look(&mut self, now: Time) -> bool {
        let is_due = self.look_at.take_if(|at| *at <= now).is_some();
        if is_due {
            self.looked_at = now;
        }
        is_due
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.tell_at.into_iter().chain(self.look_at).min()
    }

    /// This node's last statement of whom it reaches, if it made any.
    pub const fn own(&self) -> Option<&Reach> {
        self.told.as_ref()
    }

    fn reach_here(&self, links: u8) -> Reach {
        let ids = |near: bool| {
            let of = self.nodes.values().filter(|k| k.is_reached() == near);
            let mut ids: Vec<NodeId> = of.map(|known| known.id).collect();
            ids.sort_unstable();
            ids
        };
        let (mut near, mut far) = (ids(true), ids(false));
        let is_new = |(id, _): &&(NodeId, Time)| !self.ids.contains_key(id);
        far.extend(self.former.iter().filter(is_new).map(|(id, _)| *id));
        far.sort_unstable();
        far.dedup();
        let all_but = self.are_alike() && far.len() < near.len() && far.len() <= REACH_NODES_MAX;
        // A node that is left out can be reached by fewer ways.
        near.truncate(REACH_NODES_MAX);
        Reach {
            node: self.me,
            version: self.version,
            links,
            unwilling: !self.config.forwards,
            all_but,
            switches: self.switches,
            nodes: if all_but { far } else { near }.into(),
        }
    }

    // ---- switches ----

    /// A survey has found this node's switches.
    pub fn set_switches(&mut self, now: Time, switches: Switches) {
        if self.switches.replace(switches) != Some(switches) {
            self.has_moved = true;
            self.tell_after(now, TELL_GAIN_AFTER);
        }
    }

    /// On which switches a node is; none: this one.
    pub fn switches(&self, of: Option<PeerId>) -> Option<&Switches> {
        match of {
            None => self.switches.as_ref(),
            Some(peer) => self.reach(peer)?.switches.as_ref(),
        }
    }

    /// Whether nodes are on other switches than when this was asked last.
    pub fn takes_moved(&mut self) -> bool {
        core::mem::take(&mut self.has_moved)
    }

    /// Whether two nodes share a switch.
    fn are_beside(&self, one: Option<PeerId>, other: PeerId) -> bool {
        let both = self.switches(one).zip(self.switches(Some(other)));
        both.is_some_and(|(one, other)| one.meet(other))
    }

    // ---- ways ----

    /// `by` did not relay to `next`.
    pub fn on_refused(&mut self, now: Time, by: NodeId, next: NodeId) {
        let (Some(by), Some(next)) = (self.peer(by), self.peer(next)) else {
            return;
        };
        if self.refusals.len() == REFUSALS_MAX {
            self.refusals.pop_front();
        }
        self.refusals.push_back((by, next, now + REFUSED_FOR));
        self.look_soon(now);
    }

    fn refuses(&self, now: Time, by: PeerId, next: PeerId) -> bool {
        let is_one =
            |(b, n, until): &(PeerId, PeerId, Time)| (*b, *n) == (by, next) && now < *until;
        self.refusals.iter().any(is_one)
    }

    /// Whether `by` relays to `next`, as one of them says and the other one does not deny.
    fn relays(&self, now: Time, by: PeerId, next: PeerId) -> bool {
        let (Some(by_known), Some(next_known)) = (self.nodes.get(&by), self.nodes.get(&next))
        else {
            return false;
        };
        let is_willing = by_known.reach.as_ref().is_none_or(|reach| !reach.unwilling);
        let said = [
            self.reaches(by_known, next_known),
            self.reaches(next_known, by_known),
        ];
        is_willing
            && said.contains(&Some(true))
            && !said.contains(&Some(false))
            && !self.refuses(now, by, next)
    }

    /// Ways to a node, without those over `avoid`: the shortest, then the shortest that shares no relay with it.
    pub fn ways(&self, now: Time, to: PeerId, avoid: &[PeerId]) -> SmallVec<[Way; RELAYED_MAX]> {
        let mut ways = SmallVec::new();
        let mut avoid: Vec<PeerId> = avoid.to_vec();
        while ways.len() < RELAYED_MAX
            && let Some(relays) = self.shortest(now, to, &avoid)
        {
            avoid.extend(&relays);
            ways.push(Way { to, relays });
        }
        ways
    }

    /// Whether there is a way to a node.
    pub fn has_way(&self, now: Time, to: PeerId) -> bool {
        self.shortest(now, to, &[]).is_some()
    }

    /// Whether any node is known to reach a node over links: less informative than a way, but very cheap.
    pub fn is_reached_by_any(&self, now: Time, node: PeerId) -> bool {
        let around = self.around(node);
        around.iter().any(|by| self.relays(now, *by, node))
    }

    fn shortest(&self, now: Time, to: PeerId, avoid: &[PeerId]) -> Option<RelayList> {
        let target = self.nodes.get(&to)?.id;
        let carries = |known: &Known| known.near > Some(0);
        if !self.is_of_use() || !self.nodes.values().any(carries) {
            return None;
        }
        // On the switch of either end first: then trunks are crossed once. Among equals it is the same at both ends, and another
        // one for each pair: or all would take the same relay.
        let rank = |peer: PeerId| {
            let is_beside = self.are_beside(None, peer) || self.are_beside(Some(to), peer);
            let id = self.nodes.get(&peer).map_or(0, |known| known.id.0);
            let share = (id ^ self.me.0 ^ target.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (!is_beside, share)
        };
        let is_free = |peer: &PeerId| *peer != to && !avoid.contains(peer);
        // Backwards from the target: nodes that reach it over fewer relays come first.
        let mut reached = vec![to];
        let mut next: BTreeMap<PeerId, PeerId> = BTreeMap::new();
        for _ in 0..RELAYS_MAX {
            let mut further: Vec<PeerId> = Vec::new();
            for towards in reached {
                for node in self.around(towards).into_iter().filter(is_free) {
                    if !next.contains_key(&node) && self.relays(now, node, towards) {
                        next.insert(node, towards);
                        further.push(node);
                    }
                }
            }
            further.sort_by_cached_key(|peer| rank(*peer));
            let is_near = |node: &&PeerId| self.near_bytes(**node) > Some(0);
            if let Some(&first) = further.iter().find(is_near) {
                let on = |node: &PeerId| next.get(node).copied().filter(|node| *node != to);
                return Some(core::iter::successors(Some(first), on).collect());
            }
            reached = further;
        }
        None
    }

    /// The nodes that may relay to a node: those it reaches, by its statement or by plan.
    fn around(&self, node: PeerId) -> Vec<PeerId> {
        let known = self.nodes.get(&node);
        match (known.and_then(|known| known.reach.as_ref()), &self.plan) {
            (Some(reach), _) if !reach.all_but => {
                let named = reach.nodes.iter().filter_map(|id| self.ids.get(id));
                named.copied().collect()
            }
            (None, Some(plan)) => known.map_or(Vec::new(), |known| plan.kept_of(known.place)),
            _ => self.nodes.keys().copied().collect(),
        }
    }

    /// The addresses of [`ways`](Mesh::ways).
    pub fn addresses(
        &self,
        now: Time,
        to: PeerId,
        avoid: &[PeerId],
    ) -> SmallVec<[SocketAddr; RELAYED_MAX]> {
        let ways = self.ways(now, to, avoid);
        ways.iter().filter_map(Way::address).collect()
    }

    // ---- relaying ----

    /// The nodes that something passes that this node sends on a way.
    pub fn steps(&self, way: &Way) -> Option<Steps> {
        let mut nodes: SmallVec<[NodeId; 5]> = SmallVec::new();
        nodes.push(self.me);
        for peer in way.relays.iter().chain([&way.to]) {
            nodes.push(self.id(*peer)?);
        }
        Steps::new(&nodes, 1).ok()
    }

    /// The way back to the sender of a packet that came this way.
    pub fn way_back(&self, steps: &Steps) -> Option<Way> {
        let relays = steps.nodes().get(1..usize::from(steps.at))?;
        let relays: Option<RelayList> = relays.iter().rev().map(|id| self.peer(*id)).collect();
        Some(Way {
            to: self.peer(steps.first())?,
            relays: relays?,
        })
    }

    pub const fn bundles_max(&self) -> Option<u16> {
        self.config.bundles_max
    }

    pub const fn forwards(&self) -> bool {
        self.config.forwards
    }

    /// Whether this many bytes may be relayed for others now.
    pub fn may_forward(&mut self, now: Time, bytes: usize) -> bool {
        let Some(mbps) = self.config.mbps_max else {
            return true;
        };
        let rate = f64::from(mbps) * 1e6 / 8.0;
        let most = (rate * ALLOWANCE_SAVED.as_secs_f64()).max(ALLOWANCE_LEAST);
        let allowance = &mut self.allowance;
        let earned = rate * now.since(allowance.at).as_secs_f64();
        allowance.bytes = (allowance.bytes + earned).min(most);
        allowance.at = now;
        let may = allowance.bytes >= bytes as f64;
        if may {
            allowance.bytes -= bytes as f64;
        }
        may
    }

    /// A record of relays came; the node looks at it when the packet is done with.
    pub fn arrives(&mut self, from: PeerId, code: u8, data: &[u8]) -> bool {
        let has_room = self.arrived.len() < ARRIVED_MAX;
        if has_room {
            self.arrived.push_back((from, code, data.to_vec()));
        }
        has_room
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let named = |reach: &Reach| reach.nodes.len() * size_of::<NodeId>();
        let reaches = self.nodes.values().filter_map(|known| known.reach.as_ref());
        let waiting: usize = self.arrived.iter().map(|(_, _, data)| data.len()).sum();
        let plan = self.plan.as_ref().map_or(0, Plan::memory_bytes);
        let entry = size_of::<Known>() + size_of::<NodeId>() + 2 * size_of::<PeerId>();
        let asked_for = self.asked_for.len() * size_of::<(PeerId, Name)>();
        self.nodes.len() * entry + reaches.map(named).sum::<usize>() + asked_for + waiting + plan
    }
}
