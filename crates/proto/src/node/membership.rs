//! What can change while a node runs: its peers, its links, its keys.

use std::net::SocketAddr;

use super::Node;
use crate::bundle::Bundle;
use crate::context::{ConfigError, DownReason, Event, LinkConfig, PeerConfig};
use crate::crypto::ClusterKey;
use crate::limits::LINKS_MAX;
use crate::wire::Name;
use crate::{LinkId, PeerId, Time};

impl Node {
    /// Adds a peer and begins to connect to it, for ever. It may get the number of
    /// one that was removed, after the events of that one were collected.
    ///
    /// # Errors
    /// [`ConfigError::BadName`], [`ConfigError::DuplicateName`].
    pub fn add_peer(&mut self, now: Time, peer: PeerConfig) -> Result<PeerId, ConfigError> {
        let name = Name::new(&peer.name).map_err(|_| ConfigError::BadName(peer.name.clone()))?;
        if peer.name == self.context.config.name || self.names.contains_key(&peer.name) {
            return Err(ConfigError::DuplicateName(peer.name));
        }
        let id = self.free_number();
        self.names.insert(peer.name.clone(), id);
        let mut bundle = Bundle::new(now, id, name, peer, &mut self.context);
        bundle.handle_timeout(now, &mut self.context);
        self.peers[id.0 as usize] = Some(bundle);
        self.touch(id);
        Ok(id)
    }

    /// A number that no peer has, and of which no event speaks.
    fn free_number(&mut self) -> PeerId {
        let is_spoken_of = |id| self.context.events.iter().any(|e| e.peer() == Some(id));
        let mut free = (0..self.peers.len()).filter(|i| self.peers[*i].is_none());
        let free = free.find(|i| !is_spoken_of(PeerId(*i as u32)));
        let index = free.unwrap_or_else(|| {
            self.peers.push(None);
            self.is_ready.push(false);
            self.has_arrivals.push(false);
            self.timeouts.push(Time::NEVER);
            self.peers.len() - 1
        });
        PeerId(index as u32)
    }

    /// Forgets a peer; it is told so with the next transmits if it is connected. Its streams end
    /// with [`OpEvent::Broken`](crate::op::OpEvent::Broken).
    pub fn remove_peer(&mut self, now: Time, peer: PeerId) {
        let Some(slot) = self.peers.get_mut(peer.0 as usize) else {
            return;
        };
        let Some(mut bundle) = slot.take() else {
            return;
        };
        self.names.retain(|_, id| *id != peer);
        for number in bundle.session_numbers() {
            self.context.sessions.remove(&number);
        }
        bundle.end(now, &mut self.context);
        self.context.budget.leave(&bundle.account);
        self.timeouts[peer.0 as usize] = Time::NEVER;
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
            self.for_each_peer(|bundle, context| {
                bundle.rebuild_path(now, id, context);
                bundle.renew_path(now, id, context);
            });
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
        let bundle = self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut);
        if let (Some(bundle), true) = (bundle, link.index() < LINKS_MAX) {
            bundle.set_address(now, link, address, &self.context);
            self.touch(peer);
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
        self.for_each_peer(|bundle, context| bundle.on_new_keys(now, context));
        Ok(())
    }
}
