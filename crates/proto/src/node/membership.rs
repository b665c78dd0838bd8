//! What can change while a node runs: its peers, its links, its keys.

use crate::bundle::HANDSHAKE_PATIENCE;
use core::time::Duration;
use std::net::SocketAddr;

use super::{Node, Peer};
use crate::bundle::{Absent, CLOSE_REMOVED};
use crate::context::{ConfigError, DownReason, Event, Guests, LinkConfig, PeerConfig, Refusal};
use crate::crypto::{ClusterKey, Identity, PrivateKey, PublicKey};
use crate::limits::LINKS_MAX;
use crate::wire::Name;
use crate::{LinkId, PeerId, Time};

/// Peers that are called for the first time are called so far apart, on average: a call takes half of it.
const CALL_SPACING: Duration = Duration::from_micros(200);

impl Node {
    /// Adds a peer and begins to connect to it, for ever. It may get the number of
    /// one that was removed, after the events of that one were collected.
    ///
    /// A guest of its name is no guest any more.
    ///
    /// # Errors
    /// [`ConfigError::BadName`], [`ConfigError::DuplicateName`].
    pub fn add_peer(&mut self, now: Time, peer: PeerConfig) -> Result<PeerId, ConfigError> {
        let name = Name::new(&peer.name).map_err(|_| ConfigError::BadName(peer.name.clone()))?;
        let known = self.names.get(&peer.name).copied();
        if let Some(guest) = known.filter(|known| self.guests.remove(known).is_some()) {
            for (link, address) in (0..).map(LinkId).zip(peer.addresses) {
                self.set_peer_address(now, guest, link, address);
            }
            self.set_peer_public(now, guest, peer.public);
            return Ok(guest);
        }
        if peer.name == self.context.config.name || known.is_some() {
            return Err(ConfigError::DuplicateName(peer.name));
        }
        let first_call = now + self.spread(self.names.len());
        Ok(self.insert_peer(now, first_call, name, peer))
    }

    pub(super) fn insert_peer(
        &mut self,
        now: Time,
        first_call: Time,
        name: Name,
        peer: PeerConfig,
    ) -> PeerId {
        let id = self.free_number();
        self.names.insert(peer.name.clone(), id);
        self.context.mesh.add(now, id, &name);
        let mut absent = Absent::new(now, first_call, id, name, peer, &mut self.context);
        if self.context.mesh.bundles_max().is_none() {
            absent.handle_timeout(now, &mut self.context);
        }
        self.bundles.look(now);
        self.peers[id.0 as usize] = Some(Peer::Absent(Box::new(absent)));
        self.turns.touch(id);
        id
    }

    /// Somebody who was not added calls: it is a peer from now on if guests are admitted.
    pub(super) fn take_guest(&mut self, now: Time, name: Name) -> Result<PeerId, Refusal> {
        self.take_guest_and_call(now, name, now + HANDSHAKE_PATIENCE)
    }

    /// As [`take_guest`](Node::take_guest); it is called at the time `first_call` if it does not call first.
    pub(super) fn take_guest_and_call(
        &mut self,
        now: Time,
        name: Name,
        first_call: Time,
    ) -> Result<PeerId, Refusal> {
        let Some(Guests::Located { count_max, locate }) = self.context.config.guests else {
            return Err(Refusal::UnknownNode(name.as_str().into()));
        };
        let Some(addresses) = locate(name.as_str()) else {
            return Err(Refusal::UnknownNode(name.as_str().into()));
        };
        if self.guests.len() >= count_max {
            return Err(Refusal::TooManyGuests(name.as_str().into()));
        }
        let config = PeerConfig {
            name: name.as_str().into(),
            addresses,
            public: None,
        };
        let peer = self.insert_peer(now, first_call, name, config);
        self.guests.insert(peer, now);
        self.context.event(Event::Guest { peer, name });
        Ok(peer)
    }

    /// The peer of this name: one that was added, or a guest.
    pub fn peer_named(&self, name: &str) -> Option<PeerId> {
        self.names.get(name).copied()
    }

    /// Some time within which so many peers can be called without anything else having to wait.
    pub(super) fn spread(&mut self, peers: usize) -> Duration {
        let all_ns = CALL_SPACING.as_nanos() as u64 * peers as u64;
        Duration::from_nanos(self.context.random.below(all_ns))
    }

    /// Something changed, so that peers may be there that were not: those that are called ever more rarely, since they
    /// have not answered, are called as if they had just been missed. For when the operator says that all is well now;
    /// the node does it by itself when a link comes back, and when it is told of another address or other keys.
    pub fn call_absent(&mut self, now: Time) {
        self.call_absent_on(now, u8::MAX);
    }

    /// The same for those that have a path on one of these links (a bit each).
    pub(super) fn call_absent_on(&mut self, now: Time, links: u8) {
        let count = self.peers.len();
        for index in 0..count {
            let at = now + self.spread(count);
            let Some(peer) = self.peers[index].as_mut() else {
                continue;
            };
            if peer.link_mask(&self.context) & links == 0 {
                continue;
            }
            match peer {
                Peer::Absent(absent) => absent.sessions.hasten(at),
                Peer::Met(bundle) if !bundle.connected() => bundle.hasten(at),
                Peer::Met(_) => continue,
            }
            self.turns.touch(PeerId(index as u32));
        }
    }

    /// A number that no peer has, and of which no event speaks.
    fn free_number(&mut self) -> PeerId {
        let is_spoken_of = |id| self.context.events.iter().any(|e| e.peer() == Some(id));
        if let Some(free) = self.free.iter().position(|id| !is_spoken_of(*id)) {
            return self.free.remove(free);
        }
        let id = PeerId(self.peers.len() as u32);
        self.peers.push(None);
        self.turns.add(id);
        id
    }

    /// Forgets a peer; it is told so with the next transmits if it is connected. Its streams end
    /// with [`OpEvent::Broken`](crate::op::OpEvent::Broken).
    pub fn remove_peer(&mut self, now: Time, peer: PeerId) {
        self.end_peer(now, peer, CLOSE_REMOVED);
    }

    /// Forgets a peer, which is told this code.
    pub(super) fn end_peer(&mut self, now: Time, peer: PeerId, code: u32) {
        let Some(slot) = self.peers.get_mut(peer.0 as usize) else {
            return;
        };
        let Some(gone) = slot.take() else {
            return;
        };
        let (name, sessions) = match &gone {
            Peer::Absent(absent) => (absent.name, &absent.sessions),
            Peer::Met(bundle) => (bundle.name, bundle.sessions()),
        };
        self.names.remove(name.as_str());
        self.guests.remove(&peer);
        for number in sessions.numbers() {
            self.context.sessions.remove(&number);
        }
        if let Peer::Met(mut bundle) = gone {
            bundle.end(now, code, &mut self.context);
            self.context.budget.leave(&bundle.account);
            self.relay_answers(now);
        }
        self.context.mesh.remove(now, peer);
        self.context.members.remove(peer);
        self.context.traced.retain(|traced| *traced != peer);
        self.end_measurements_of(peer);
        self.bundles.look(now);
        self.turns.forget(peer);
        let free = self.free.partition_point(|id| *id < peer);
        self.free.insert(free, peer);
        self.context.event(Event::PeerDown {
            peer,
            reason: DownReason::Removed,
        });
    }

    /// A link of this node appeared, changed (its address, or what its interface
    /// takes) or went.
    ///
    /// # Errors
    /// [`ConfigError::BadLink`], [`ConfigError::LinkTooSmall`].
    pub fn set_link(
        &mut self,
        now: Time,
        id: LinkId,
        link: Option<LinkConfig>,
    ) -> Result<(), ConfigError> {
        if id.index() >= LINKS_MAX {
            return Err(ConfigError::BadLink(id));
        }
        let link = link.map(LinkConfig::check).transpose()?;
        let before = core::mem::replace(&mut self.context.links[id.index()], link);
        if before != link {
            self.for_each_met(|bundle, context| {
                bundle.rebuild_path(now, id, context);
                bundle.renew_path(now, id, context);
            });
            self.call_absent_on(now, 1 << id.0);
            self.renew_member();
        }
        Ok(())
    }

    /// The configuration has another address for a peer on `link` now, or none. If
    /// the peer still sends from where it was, packets go there until it moves.
    pub fn set_peer_address(
        &mut self,
        now: Time,
        peer: PeerId,
        link: LinkId,
        address: Option<SocketAddr>,
    ) {
        let there = self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut);
        match there {
            _ if link.index() >= LINKS_MAX => return,
            Some(Peer::Met(bundle)) => {
                bundle.set_address(now, link, address, &self.context);
                bundle.hasten(now);
            }
            Some(Peer::Absent(absent)) => {
                absent.config.addresses[link.index()] = address;
                absent.sessions.hasten(now);
            }
            None => return,
        }
        self.turns.touch(peer);
    }

    /// There is a bundle to `peer` from now on, if it is one: it speaks, or something is to be kept for it.
    pub(super) fn meet(&mut self, now: Time, peer: PeerId) {
        if let Some(slot) = self.peers.get_mut(peer.0 as usize)
            && let Some(Peer::Absent(absent)) = slot.take_if(|peer| peer.met().is_none())
        {
            *slot = Some(Peer::Met(absent.meet(now, &self.context)));
        }
    }

    /// Replaces the cluster keys: the first is used to connect, all are accepted.
    ///
    /// Bundles of other keys than the first move to it by a new handshake; what they
    /// carry goes on. If the key that admitted a session is not among `keys`, the
    /// session ends after
    /// [`KEY_REMOVED_GRACE`](crate::bundle::KEY_REMOVED_GRACE) if no new handshake
    /// succeeds; the peer is told.
    ///
    /// # Errors
    /// [`ConfigError::NoKey`].
    pub fn set_keys(&mut self, now: Time, keys: Vec<[u8; 32]>) -> Result<(), ConfigError> {
        if keys.is_empty() {
            return Err(ConfigError::NoKey);
        }
        self.context.keys = keys.iter().copied().map(ClusterKey::new).collect();
        self.context.config.keys = keys;
        for peer in self.peers.iter_mut().flatten() {
            match peer {
                Peer::Absent(absent) => absent.on_new_keys(now, &mut self.context),
                Peer::Met(bundle) => bundle.on_new_keys(now, &mut self.context),
            }
        }
        self.touch_all();
        Ok(())
    }

    /// Replaces the key pair of this node, as in [`NodeConfig`](crate::NodeConfig). Sessions go on:
    /// whether this node may have them is for its peers to say.
    ///
    /// # Errors
    /// [`ConfigError::Identity`]; nothing has changed.
    pub fn set_identity(
        &mut self,
        now: Time,
        private: Option<PrivateKey>,
        public: Option<PublicKey>,
    ) -> Result<(), ConfigError> {
        let config = &mut self.context.config;
        if (config.private, config.public) == (private, public) {
            return Ok(());
        }
        self.context.identity = Identity::new(self.context.name, private, public)?;
        (config.private, config.public) = (private, public);
        self.renew_member();
        for peer in self.peers.iter_mut().flatten() {
            match peer {
                Peer::Absent(absent) => absent.call_anew(now, &mut self.context),
                Peer::Met(bundle) => bundle.initiate_anew(now, &mut self.context),
            }
        }
        self.touch_all();
        Ok(())
    }

    /// The configuration has another public key for a peer now, or none. A session that its
    /// holder did not show itself in ends after
    /// [`KEY_REMOVED_GRACE`](crate::bundle::KEY_REMOVED_GRACE) if it does not before; what is
    /// carried goes on if it does.
    pub fn set_peer_public(&mut self, now: Time, peer: PeerId, public: Option<PublicKey>) {
        match self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut) {
            Some(Peer::Absent(absent)) => absent.set_public(now, public, &mut self.context),
            Some(Peer::Met(bundle)) => bundle.set_public(now, public, &mut self.context),
            None => return,
        }
        self.turns.touch(peer);
    }
}
