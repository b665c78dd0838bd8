//! The peers, and whether they are there.
//!
//! An idle path is asked every five seconds only. So a peer that something is wanted of, and that has been silent for a
//! quarter of `peer_timeout`, is asked by a message that says nothing. That counts from the last packet, whatever the
//! paths' states are.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tabane_proto::limits::{LINKS_MAX, RELAYED_MAX};
use tabane_proto::{LinkId, PeerConfig, PeerId, Time};

use super::Rank;
use super::beside::{NoWay, Way};
use super::turns::LOOK_EVERY;
use crate::wire::{FLOW_CONTROL, Head};
use crate::{Address, Failure, Peer};

/// Another endpoint.
pub(super) struct Entry {
    pub address: Address,
    /// The node's number for it, once it was spoken with.
    pub id: Option<PeerId>,
    /// Its index among the neighbours, if there is a ring in either direction.
    pub slot: Option<usize>,
    /// By which way it is reached was decided.
    pub is_way_chosen: bool,
    /// The program has named it.
    pub is_named: bool,
    /// It is gone, for this reason. It does not come back: a process that starts at its address is another peer.
    pub gone: Option<Failure>,
    /// Since when it has called without coming in, if nothing is wanted of it.
    pub silent_since: Option<Time>,
    /// Its last sign of life.
    heard: Heard,
    /// Bytes of eager messages that have not found their buffers there.
    pub eager_out_bytes: u64,
    /// Messages that were announced there and not fetched.
    pub announced_out: u32,
    /// Bytes of eager messages that have found theirs here, and it does not know.
    pub consumed_bytes: u64,
}

/// Signs of life of a peer that something is wanted of.
#[derive(Clone, Copy, Default)]
struct Heard {
    /// Packets so far.
    packets: u64,
    /// When there were new ones, or when it was to be listened for.
    at: Time,
    looked_at: Time,
}

/// All of them. The first is this endpoint itself.
#[derive(Default)]
pub(super) struct Peers {
    entries: Vec<Entry>,
    by_address: BTreeMap<Address, Peer>,
    by_id: BTreeMap<PeerId, Peer>,
}

/// This endpoint.
pub(super) const OWN: Peer = Peer(0);

impl Peers {
    /// The peer at `address`; a new one is added.
    pub fn at(&mut self, address: &Address) -> Peer {
        if let Some(peer) = self.by_address.get(address) {
            return *peer;
        }
        let peer = Peer(self.entries.len() as u32);
        self.entries.push(Entry {
            address: *address,
            id: None,
            slot: None,
            is_way_chosen: false,
            is_named: false,
            gone: None,
            silent_since: None,
            heard: Heard::default(),
            eager_out_bytes: 0,
            announced_out: 0,
            consumed_bytes: 0,
        });
        self.by_address.insert(*address, peer);
        peer
    }

    pub fn get(&self, peer: Peer) -> Option<&Entry> {
        self.entries.get(peer.0 as usize)
    }

    pub fn get_mut(&mut self, peer: Peer) -> Option<&mut Entry> {
        self.entries.get_mut(peer.0 as usize)
    }

    pub fn of(&self, id: PeerId) -> Option<Peer> {
        self.by_id.get(&id).copied()
    }

    /// The node knows the peer by this number, or no more.
    pub fn set_id(&mut self, peer: Peer, id: Option<PeerId>) {
        if let Some(entry) = self.entries.get_mut(peer.0 as usize)
            && let Some(before) = core::mem::replace(&mut entry.id, id)
        {
            self.by_id.remove(&before);
        }
        if let Some(id) = id {
            self.by_id.insert(id, peer);
        }
    }

    /// The peer is this neighbour, or none any more.
    pub fn set_slot(&mut self, peer: Peer, slot: Option<usize>) {
        if let Some(entry) = self.entries.get_mut(peer.0 as usize) {
            entry.slot = slot;
        }
    }

    /// The same; and sets how it is reached: through this slot, or by the bundle.
    pub fn choose(&mut self, peer: Peer, slot: Option<usize>) {
        self.set_slot(peer, slot);
        if let Some(entry) = self.entries.get_mut(peer.0 as usize) {
            entry.is_way_chosen = true;
        }
    }

    /// Everybody.
    pub fn all(&self) -> impl Iterator<Item = Peer> + use<> {
        (0..self.entries.len() as u32).map(Peer)
    }

    /// Those that were spoken with over links.
    pub fn met(&self) -> impl Iterator<Item = (Peer, PeerId)> + '_ {
        self.by_id.iter().map(|(id, peer)| (*peer, *id))
    }
}

impl Rank {
    /// Whether an address is on this node: it has a link in common. It may still be in another network namespace.
    pub(super) fn is_of_this_node(&self, address: &Address) -> bool {
        let (links, own) = (address.links(), self.address.links());
        let is_here = |(a, b): (&Option<SocketAddr>, &Option<SocketAddr>)| {
            a.zip(*b).is_some_and(|(a, b)| a.ip() == b.ip())
        };
        links.iter().zip(&own).any(is_here)
    }

    /// The peer's addresses on the links that this endpoint reaches. A peer on the same node is reached through the loopback
    /// device only: packets to an own address do not come in by the device that has it.
    pub(super) fn reachable(&self, address: &Address) -> [Option<SocketAddr>; LINKS_MAX] {
        let links = address.links();
        match (self.is_of_this_node(address), self.loopback) {
            (true, Some(LinkId(number))) => {
                let port = links.iter().flatten().next().map_or(0, SocketAddr::port);
                let mut only = [None; LINKS_MAX];
                only[usize::from(number)] = Some((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into());
                only
            }
            _ => links,
        }
    }

    /// The node's id for a peer, to send something to it.
    ///
    /// # Errors
    /// It is gone, or nothing leads there.
    pub(super) fn meet(&mut self, now: Time, peer: Peer) -> Result<PeerId, Failure> {
        let entry = self.peers.get(peer).ok_or(Failure::Unreachable)?;
        if let Some(why) = entry.gone {
            return Err(why);
        }
        if let Some(id) = entry.id {
            return Ok(id);
        }
        let (name, addresses) = (entry.address.to_name(), self.reachable(&entry.address));
        let own = self.address.links();
        let leads = |n: usize| own[n].is_some() || self.loopback == Some(LinkId(n as u8));
        if !(0..LINKS_MAX).any(|n| addresses[n].is_some() && leads(n)) {
            return Err(Failure::Unreachable);
        }
        let config = PeerConfig {
            name: name.clone(),
            addresses,
            public: None,
        };
        let id = match self.engine.node.add_peer(now, config) {
            Ok(id) => id,
            // It has called meanwhile.
            Err(_) => (self.engine.node.peer_named(&name)).ok_or(Failure::Unreachable)?,
        };
        self.peers.set_id(peer, Some(id));
        Ok(id)
    }

    /// With few bundles, the node must know all named peers before anything is sent: which bundles are kept follows from the set
    /// of peers, and all endpoints compute the same.
    pub(super) fn tell_of_all(&mut self) {
        let max = self.settings.bundles_max.map(usize::from);
        if max.is_none_or(|max| self.named <= max) {
            return;
        }
        let now = self.engine.now();
        let is_new = |peer: &Peer| {
            let entry = self.peers.get(*peer);
            *peer != OWN && entry.is_some_and(|entry| entry.is_named && entry.id.is_none())
        };
        let new: Vec<Peer> = self.peers.all().filter(is_new).collect();
        for peer in new {
            // A peer that is gone, or on none of this node's networks, is sent nothing.
            let _ = self.meet(now, peer);
        }
    }

    /// An unnamed peer has called.
    pub(super) fn on_guest(&mut self, now: Time, id: PeerId, name: &str) {
        let Ok(address) = Address::from_name(name) else {
            return self.engine.node.remove_peer(now, id);
        };
        let addresses = self.reachable(&address);
        for (number, there) in addresses.into_iter().enumerate() {
            if there != address.links()[number] {
                let link = LinkId(number as u8);
                self.engine.node.set_peer_address(now, id, link, there);
            }
        }
        let peer = self.peers.at(&address);
        self.peers.set_id(peer, Some(id));
    }

    /// Packets that came from a peer.
    fn packets_of(&self, id: PeerId) -> u64 {
        let links = (0..(LINKS_MAX + RELAYED_MAX) as u8).map(LinkId);
        let paths = links.filter_map(|link| self.engine.node.path_stats(id, link));
        paths.map(|path| path.packets_received).sum()
    }

    /// Checks the peers that something is wanted of: one that is silent for too long is gone.
    pub(super) fn look_after(&mut self, now: Time) {
        let node = &self.engine.node;
        let mut wanted: Vec<_> = (self.pendings.peers())
            .chain(self.matching.awaited())
            .chain(self.lost.watched.iter().copied())
            .collect();
        let owed = (self.peers.met()).filter(|(_, id)| node.has_unacknowledged(*id));
        wanted.extend(owed.map(|(peer, _)| peer));
        wanted.extend(self.unread_beside());
        wanted.sort_unstable();
        wanted.dedup();
        self.see_off(now, &wanted);
        for peer in wanted {
            if peer == OWN {
                continue;
            }
            match self.way(now, peer) {
                Ok(Way::Beside(slot)) => self.look_at_beside(now, peer, slot),
                Ok(Way::Bundle(id)) => self.look_at(now, peer, id),
                Err(NoWay::Gone(why)) => self.lose(now, peer, why),
                Err(NoWay::Later) => {}
            }
        }
    }

    /// Forgets unnamed guests that never came in: otherwise recorded calls could fill the table. They may call again.
    fn see_off(&mut self, now: Time, wanted: &[Peer]) {
        let is_idle = |(peer, _): &(Peer, PeerId)| wanted.binary_search(peer).is_err();
        let idle: Vec<_> = self.peers.met().filter(is_idle).collect();
        for (peer, id) in idle {
            let has_come_in = self.engine.node.has_been_connected(id);
            let Some(entry) = self.peers.get_mut(peer) else {
                continue;
            };
            // Peers that the program names are known to exist, whether they called or not.
            if entry.is_named && self.settings.bundles_max.is_some() {
                continue;
            }
            let since = *entry.silent_since.get_or_insert(now);
            let is_late = now.since(since) >= self.settings.peer_timeout;
            if has_come_in || is_late {
                entry.silent_since = None;
            }
            if is_late && !has_come_in {
                self.engine.node.remove_peer(now, id);
                self.peers.set_id(peer, None);
            }
        }
    }

    /// Looks after one of another node that something is wanted of. A peer that is alive answers when it is asked, however idle it is.
    fn look_at(&mut self, now: Time, peer: Peer, id: PeerId) {
        let packets = self.packets_of(id);
        let timeout = self.settings.peer_timeout;
        let patience = match self.is_cut_off() {
            true => timeout.max(CUT_OFF_TIMEOUT),
            false if self.engine.node.is_through_others(id) => timeout * RELAYED_PATIENCE,
            false => timeout,
        };
        let Some(entry) = self.peers.get_mut(peer) else {
            return;
        };
        let heard = &mut entry.heard;
        // After a long pause in checking, because nothing was wanted or there was no processor, the beginning of the silence is
        // unknown.
        let is_late = now.since(heard.looked_at) >= (patience / 2).max(4 * LOOK_EVERY);
        // A path's counts vanish with it.
        if packets > heard.packets || is_late {
            heard.at = now;
        }
        (heard.packets, heard.looked_at) = (packets, now);
        let silent = now.since(heard.at);
        let node = &self.engine.node;
        // It may have been silent for one look longer than was seen, and the next one would be late.
        let unseen = (2 * LOOK_EVERY).min(patience / 2);
        if silent + unseen >= patience {
            let why = match node.has_been_connected(id) {
                true => Failure::PeerGone,
                false => Failure::Unreachable,
            };
            self.lose(now, peer, why);
        } else if silent >= OTHERS_AFTER && !node.has_been_connected(id) {
            self.call_others(now);
        } else if silent >= patience / ASKED_AFTER_PART && !node.has_unacknowledged(id) {
            // It is empty; only its acknowledgement matters.
            self.owe(now, peer, FLOW_CONTROL, &Head::Consumed { bytes: 0 }, &[]);
        }
    }

    /// A peer has never answered: perhaps no link leads there. Calls some that nothing was said to yet, since only those that
    /// are connected can be asked for a way.
    fn call_others(&mut self, now: Time) {
        let is_early = |at: Time| now.since(at) < OTHERS_AFTER;
        if self.called_others_at.is_some_and(is_early) {
            return;
        }
        self.called_others_at = Some(now);
        let is_new = |peer: &Peer| {
            let entry = self.peers.get(*peer);
            entry.is_some_and(|entry| {
                let is_free = entry.is_named && entry.id.is_none() && entry.gone.is_none();
                is_free && !self.is_of_this_node(&entry.address)
            })
        };
        let mut new: Vec<Peer> = self.peers.all().filter(is_new).collect();
        for _ in 0..OTHERS_AT_ONCE.min(new.len()) {
            let chosen = self.random.below(new.len() as u64) as usize;
            // One that cannot be called does not help.
            let _ = self.meet(now, new.swap_remove(chosen));
        }
    }

    /// No link of this node can be used: whether the peer is there is not known.
    fn is_cut_off(&self) -> bool {
        let mut links = self.engine.link_status().into_iter();
        links.all(|link| !link.up || Some(link.id) == self.loopback)
    }
}

/// A silent peer is probed after this part of the time after which it is gone.
const ASKED_AFTER_PART: u32 = 4;
/// A relayed peer has this many times as long: the relays may be busy with others' traffic.
const RELAYED_PATIENCE: u32 = 10;
/// After this time without an answer others are called, and again so long later.
const OTHERS_AFTER: core::time::Duration = core::time::Duration::from_millis(500);
/// So many at once: of half of all pairs that are cut off, one of eight is between any two ends nine times of ten.
const OTHERS_AT_ONCE: usize = 8;
/// A node whose links are all down waits for them at least this long.
const CUT_OFF_TIMEOUT: core::time::Duration = core::time::Duration::from_secs(10);
