//! Which bundles a node keeps, and how many of them go over links.
//!
//! While the cluster is not larger than the limit, each node has a bundle over links with everybody. Beyond, it keeps those
//! that make the mesh ([`Few`]); all others are there only while something is to be carried, through others or,
//! if that is much, over links as far as the limit allows.

use core::time::Duration;

use super::{Node, Peer, met};
use crate::context::Rejection;
use crate::mesh::{Few, Wish};
use crate::wire::Switches;
use crate::{LinkId, PeerId, Time};

/// With fewer bundles over links a node is hardly part of a mesh.
pub const BUNDLES_LEAST: u16 = 4;
/// A bundle gives up its links to one that carries more than so many times as much: else bundles that all carry
/// about the same would take them from each other, and do nothing but handshakes.
const TIMES_MORE: u64 = 2;
/// The node looks which bundles it keeps after a peer came or went, once all that came with it was handled.
const LOOK_AFTER: Duration = Duration::from_micros(1);
/// … or so long after the last word of a node that is on other switches than before, and so much longer for each node there
/// is: a survey moves all of them, and each tells it.
const REGROUP_AFTER: Duration = Duration::from_secs(1);
const REGROUP_AFTER_NODE: Duration = Duration::from_millis(2);

/// How many bundles over links a node has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BundleCount {
    /// Those that have a session and use links.
    pub direct: usize,
    /// Those that are kept for the mesh's sake, whether they are connected or not.
    pub kept: usize,
    /// How many there may be; `None`: one with each peer.
    pub limit: Option<usize>,
}

/// What is noted of them.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    /// When it is to be looked which are kept.
    look_at: Option<Time>,
    /// The same, because nodes are on other switches.
    regroup_at: Option<Time>,
    /// Those that are kept, if not all of them are.
    kept: Option<usize>,
    /// On demand, and over links.
    shortcuts: Vec<PeerId>,
}

impl Bundles {
    /// Peers came or went, or there is another limit.
    pub fn look(&mut self, now: Time) {
        self.look_at = Some(now + LOOK_AFTER);
    }

    /// Nodes are on other switches, of so many.
    pub fn regroup(&mut self, now: Time, nodes: usize) {
        self.regroup_at = Some(now + REGROUP_AFTER + REGROUP_AFTER_NODE * nodes as u32);
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.look_at.into_iter().chain(self.regroup_at).min()
    }
}

impl Node {
    /// How many bundles go over links, and how many may.
    pub fn bundle_count(&self) -> BundleCount {
        let bundles = self.peers.iter().flatten().filter_map(Peer::met);
        let direct = |bundle: &&crate::bundle::Bundle| {
            bundle.has_links() && bundle.sessions().current.is_some()
        };
        BundleCount {
            direct: bundles.filter(direct).count(),
            kept: self.bundles.kept.unwrap_or(self.names.len()),
            limit: self
                .bundles
                .kept
                .map(|kept| kept + self.shortcuts_max(kept)),
        }
    }

    /// A survey has found out on which switches this node is: all others are told.
    pub fn set_switches(&mut self, now: Time, switches: Switches) {
        self.context.mesh.set_switches(now, switches);
        self.regroup_if_moved(now);
    }

    /// The same of a connected peer, which is told. Returns whether it can be.
    pub fn tell_switches(&mut self, peer: PeerId, switches: Switches) -> bool {
        let told = met(&mut self.peers, peer).is_some_and(|bundle| bundle.tell_switches(switches));
        self.turns.touch(peer);
        told
    }

    /// On which switches a node is, as far as it says so; none: this one.
    pub fn switches(&self, of: Option<PeerId>) -> Option<&Switches> {
        self.context.mesh.switches(of)
    }

    pub(super) fn regroup_if_moved(&mut self, now: Time) {
        if self.context.mesh.takes_moved() {
            self.bundles.regroup(now, self.names.len());
        }
    }

    /// How many bundles on demand may go over links, beside those that are kept.
    fn shortcuts_max(&self, kept: usize) -> usize {
        let limit = self.context.mesh.bundles_max().unwrap_or(u16::MAX);
        usize::from(limit.max(BUNDLES_LEAST)).saturating_sub(kept)
    }

    /// Decides which bundles are kept if that may have changed.
    pub(super) fn settle_bundles(&mut self, now: Time) {
        let regroups = self.bundles.regroup_at.take_if(|at| *at <= now).is_some();
        if self.bundles.look_at.take().is_none() && !regroups {
            return;
        }
        let max = self.context.mesh.bundles_max();
        let names: Vec<PeerId> = self.names.values().copied().collect();
        let is_few = max.is_some_and(|max| names.len() > usize::from(max.max(BUNDLES_LEAST)));
        if !is_few && self.bundles.kept.is_none() {
            return;
        }
        let me = self.names.range(..self.context.config.name.clone()).count();
        let few = is_few.then(|| self.few(&names, me));
        let keeps = |place: usize| {
            let other = place + usize::from(place >= me);
            few.as_ref().is_none_or(|few| few.keeps(me, other))
        };
        let kept = (0..names.len()).filter(|place| keeps(*place)).count();
        self.bundles.kept = is_few.then_some(kept);
        for (place, peer) in names.iter().copied().enumerate() {
            self.set_kept(now, peer, keeps(place), kept);
        }
        self.context.mesh.set_plan(now, few, &names, me);
        self.shed_shortcuts(now);
    }

    /// Who keeps bundles with whom; this node is the `me`-th among all names.
    fn few(&self, names: &[PeerId], me: usize) -> Few {
        let mut nodes: Vec<Option<PeerId>> = names.iter().copied().map(Some).collect();
        nodes.insert(me, None);
        let switches = nodes
            .into_iter()
            .map(|node| self.context.mesh.switches(node));
        Few::of(&switches.collect::<Vec<_>>())
    }

    fn set_kept(&mut self, now: Time, peer: PeerId, keeps: bool, kept: usize) {
        let at = now + self.spread(kept);
        let context = &mut self.context;
        context.mesh.set_kept(now, peer, keeps);
        match self.peers[peer.0 as usize].as_mut() {
            Some(Peer::Absent(absent)) => absent.set_kept(at, keeps, context),
            Some(Peer::Met(bundle)) => {
                let was_kept = !bundle.is_on_demand();
                bundle.set_kept(now, keeps, context);
                if was_kept && bundle.is_on_demand() && bundle.has_links() {
                    self.bundles.shortcuts.push(peer);
                }
            }
            None => return,
        }
        self.turns.touch(peer);
    }

    /// Those that still are shortcuts.
    fn shortcuts(&mut self, now: Time) -> usize {
        let (peers, mesh) = (&mut self.peers, &mut self.context.mesh);
        self.bundles.shortcuts.retain(|peer| {
            let bundle = met(peers, *peer);
            let (is_on_demand, has_links) =
                bundle.map_or((false, false), |b| (b.is_on_demand(), b.has_links()));
            if is_on_demand && !has_links {
                mesh.set_kept(now, *peer, false);
            }
            is_on_demand && has_links
        });
        self.bundles.shortcuts.len()
    }

    /// The shortcut that carried least lately, and how much that was.
    fn coldest(&mut self, now: Time) -> Option<(u64, PeerId)> {
        let peers = &mut self.peers;
        let carried = |peer: &PeerId| Some((met(peers, *peer)?.carried_lately(now), *peer));
        self.bundles.shortcuts.iter().filter_map(carried).min()
    }

    /// Lets shortcuts go that are too many.
    fn shed_shortcuts(&mut self, now: Time) {
        let most = self
            .bundles
            .kept
            .map_or(usize::MAX, |kept| self.shortcuts_max(kept));
        while self.shortcuts(now) > most
            && let Some((_, coldest)) = self.coldest(now)
        {
            self.let_rest(now, coldest);
        }
    }

    fn let_rest(&mut self, now: Time, peer: PeerId) {
        if let Some(bundle) = met(&mut self.peers, peer) {
            bundle.let_rest(now, &mut self.context);
            self.relay_answers(now);
            self.touch(peer);
        }
    }

    /// Whether there is room for one more shortcut; for one that carried so much lately, the coldest one makes room if it
    /// carried far less.
    fn has_room(&mut self, now: Time, carried: u64, makes_room: bool) -> bool {
        let Some(kept) = self.bundles.kept else {
            return true;
        };
        let most = self.shortcuts_max(kept);
        if self.shortcuts(now) < most {
            return true;
        }
        let coldest = self.coldest(now).filter(|_| most > 0);
        let Some((least, coldest)) = coldest.filter(|(least, _)| carried > TIMES_MORE * least)
        else {
            return false;
        };
        debug_assert!(carried > least);
        if makes_room {
            self.let_rest(now, coldest);
        }
        true
    }

    /// Does what bundles want.
    pub(super) fn grant_wishes(&mut self, now: Time) {
        while let Some((peer, wish)) = self.context.mesh.wishes.pop() {
            let Some(bundle) = met(&mut self.peers, peer) else {
                // Links to it are wanted for others of its group.
                self.want(now, peer);
                continue;
            };
            let (carried, has_links) = (bundle.carried_lately(now), bundle.has_links());
            match wish {
                Wish::Links if has_links => {}
                Wish::Links if !bundle.connected() => self.want(now, peer),
                Wish::Links => {
                    if self.has_room(now, carried, false) {
                        self.say_of_links(peer, Wish::ASK);
                    }
                }
                Wish::Asked => {
                    let gives = has_links || self.has_room(now, carried, true);
                    if gives {
                        self.use_links(now, peer);
                    } else {
                        self.context.stats.links_refused += 1;
                    }
                    self.say_of_links(peer, if gives { Wish::GIVE } else { Wish::REFUSE });
                }
                Wish::Given => {
                    if !has_links && self.has_room(now, carried, true) {
                        self.use_links(now, peer);
                    }
                }
                Wish::Stranded => {
                    if !has_links && self.has_room(now, 0, false) {
                        self.use_links(now, peer);
                        self.context.mesh.set_kept(now, peer, true);
                        self.hasten(now, peer);
                    }
                }
                // It asks again if it still carries as much in a while.
                Wish::Refused => {}
            }
        }
    }

    fn say_of_links(&mut self, peer: PeerId, word: &'static [u8]) {
        if let Some(bundle) = met(&mut self.peers, peer) {
            bundle.say_of_links(word);
            self.turns.touch(peer);
        }
    }

    fn use_links(&mut self, now: Time, peer: PeerId) {
        if let Some(bundle) = met(&mut self.peers, peer) {
            bundle.use_links(now, &self.context);
            if bundle.is_on_demand() && !self.bundles.shortcuts.contains(&peer) {
                self.bundles.shortcuts.push(peer);
            }
            self.touch(peer);
        }
    }

    fn hasten(&mut self, now: Time, peer: PeerId) {
        if let Some(bundle) = met(&mut self.peers, peer) {
            bundle.hasten(now);
            self.touch(peer);
        }
    }

    /// A peer calls over a link whose bundle is on demand here: because no way leads here, or since it knows other nodes or
    /// another limit.
    pub(super) fn take_call(
        &mut self,
        now: Time,
        link: LinkId,
        peer: PeerId,
    ) -> Result<(), Rejection> {
        if link.is_relayed() || !self.is_through_others(peer) {
            return Ok(());
        }
        if !self.has_room(now, 0, false) {
            self.context.stats.links_refused += 1;
            return Err(Rejection::NoLinksLeft);
        }
        self.meet(now, peer);
        self.use_links(now, peer);
        // No way led here: from now on one does, for others as well.
        self.context.mesh.set_kept(now, peer, true);
        Ok(())
    }

    /// Something is about to be carried to `peer`: connects to it, if that is done on demand and it is not connected.
    pub fn want(&mut self, now: Time, peer: PeerId) {
        self.settle_bundles(now);
        let there = self.peers.get(peer.0 as usize).and_then(Option::as_ref);
        let on_demand = match there {
            Some(Peer::Absent(absent)) => absent.on_demand,
            Some(Peer::Met(bundle)) => bundle.is_on_demand(),
            None => false,
        };
        if on_demand {
            self.meet(now, peer);
            if let Some(bundle) = met(&mut self.peers, peer) {
                bundle.ask_for();
            }
            self.touch(peer);
        }
    }
}
