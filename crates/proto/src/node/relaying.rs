//! What goes through other nodes: out of one bundle into another, and at its end into the node again.
//!
//! A node that stops says goodbye through its relays first, past their queues and on every link, then to the relays
//! themselves: the last word must go before the session that carries it does.

use std::net::SocketAddr;

use super::{Node, Peer, met};
use crate::context::{Rejection, Transmit};
use crate::limits::LINKS_MAX;
use crate::mesh::{RelayConfig, Way};
use crate::segment::News;
use crate::wire::{
    Header, Kind, Name, NodeId, Reader, RefusedWhy, RelayRecord, Steps, advance, relayed_data,
};
use crate::{LinkId, PeerId, Time};

/// The path that a handshake through other nodes comes on: it does not say.
const PATH_OF_HANDSHAKES: LinkId = LinkId(LINKS_MAX as u8);

impl Node {
    /// What this node relays for others from now on. Nothing changes if its features have no relays.
    pub fn set_relay(&mut self, now: Time, config: RelayConfig) {
        self.context.mesh.set_config(now, config);
        self.bundles.look(now);
    }

    /// Does what the records of relays that came ask for, and what follows from a change of whom this node reaches.
    pub(super) fn tend_mesh(&mut self, now: Time) {
        self.tend_members(now);
        while let Some((from, code, mut data)) = self.context.mesh.arrived.pop_front() {
            if let Err(reason) = self.on_relay_record(now, from, code, &mut data) {
                self.context.stats.reject(reason);
            }
        }
        while let Some(neighbour) = self.context.mesh.risen.pop() {
            let mesh = &self.context.mesh;
            let news: Vec<News> = mesh.all_news_to(neighbour).collect();
            self.greet(now, neighbour);
            if self.context.mesh.listens(neighbour) {
                self.owe(neighbour, News::OwnReach);
            }
            for word in news {
                self.owe(neighbour, word);
            }
        }
        while let Some((peer, name)) = self.context.mesh.sought.pop() {
            if self.context.mesh.asks_for(peer, name) {
                let asked = self.context.mesh.whom_to_ask(peer);
                self.owe_all(asked, News::Sought(peer));
            }
        }
        while let Some((node, from, before)) = self.context.mesh.news.pop() {
            let mesh = &self.context.mesh;
            let is_told = |n: &PeerId| *n != from && mesh.is_news_to(*n, node);
            let told = mesh.listeners().filter(is_told).collect();
            self.pass_on_to_parted(node, before.as_ref());
            self.owe_all(told, News::Reach(node));
        }
        self.regroup_if_moved(now);
        self.grant_wishes(now);
    }

    /// Tells the neighbours whom this node reaches, and looks for ways, if either is due.
    pub(super) fn on_mesh_timeout(&mut self, now: Time) {
        let all = self.context.link_bits();
        let up = all & !self.kernel_down;
        if self.context.mesh.takes_tell(now, up, all) {
            let told = self.context.mesh.listeners().collect();
            self.owe_all(told, News::OwnReach);
        }
        if self.context.mesh.takes_look(now) {
            for index in 0..self.peers.len() {
                self.seek_ways(now, PeerId(index as u32));
            }
        }
    }

    /// There may be a way to `peer` now, or no longer.
    fn seek_ways(&mut self, now: Time, peer: PeerId) {
        let there = self.peers.get_mut(peer.0 as usize).and_then(Option::as_mut);
        match there {
            Some(Peer::Met(bundle)) => {
                if !bundle.seek_ways(now, &mut self.context) {
                    return;
                }
            }
            // The call may just be about to be answered.
            Some(Peer::Absent(absent)) if absent.on_demand || !absent.is_missed(now) => return,
            Some(Peer::Absent(absent)) => {
                let has_way = self.context.mesh.has_way(now, peer);
                if core::mem::replace(&mut absent.has_way, has_way) || !has_way {
                    return;
                }
                absent.sessions.hasten(now);
            }
            None => return,
        }
        self.touch(peer);
    }

    /// Hands what a bundle sends through other nodes to the first of these.
    pub(super) fn send_relayed(&mut self, now: Time, transmit: &Transmit, datagrams: &[u8]) {
        let Some((steps, first)) = self.steps_of(transmit.to) else {
            return;
        };
        let me = self.context.mesh.me();
        if let Some(bundle) = met(&mut self.peers, first) {
            for datagram in datagrams.chunks(transmit.segment_bytes) {
                bundle.relay(now, me, relayed_data(&steps, datagram));
            }
            self.turns.touch(first);
        }
    }

    /// Tells peers that are reached through others that this node stops, while the sessions with those are there.
    pub(super) fn close_relayed(&mut self, now: Time) {
        for peer in self.peers.iter_mut().flatten() {
            if let Peer::Met(bundle) = peer {
                bundle.farewell_relayed(now, &mut self.context);
            }
        }
        self.relay_answers(now);
    }

    /// Hands answers that go through other nodes to these at once: the way, or a session on it, is about to go.
    pub(super) fn relay_answers(&mut self, now: Time) {
        for (_, to, datagram) in self.context.take_relayed_answers() {
            let Some((steps, first)) = self.steps_of(to) else {
                continue;
            };
            if let Some(bundle) = met(&mut self.peers, first) {
                bundle.relay_at_once(now, &relayed_data(&steps, &datagram), &mut self.context);
            }
        }
    }

    /// The nodes on the way that an address stands for, and the first that relays there.
    fn steps_of(&self, way: SocketAddr) -> Option<(Steps, PeerId)> {
        let way = Way::of(way)?;
        let steps = self.context.mesh.steps(&way)?;
        Some((steps, *way.relays.first()?))
    }

    fn on_relay_record(
        &mut self,
        now: Time,
        from: PeerId,
        code: u8,
        data: &mut [u8],
    ) -> Result<(), Rejection> {
        match RelayRecord::read(code, data) {
            Err(_) => {
                self.context.stats.bad_record += 1;
                Ok(())
            }
            Ok(RelayRecord::Reach(reach)) => {
                let node = self.context.mesh.peer(reach.node);
                let knows_less = self.context.mesh.on_reach(now, from, reach);
                if let Some(node) = node.filter(|_| knows_less) {
                    self.owe(from, News::Reach(node));
                }
                Ok(())
            }
            Ok(RelayRecord::Sought { name }) => {
                self.on_sought(now, from, name);
                Ok(())
            }
            Ok(RelayRecord::Refused { steps, by, why }) => {
                self.on_refused(now, from, steps, (by, why))
            }
            Ok(RelayRecord::Relayed { steps, datagram }) => {
                let (was_at, is_mine) = (steps.beside(-1), steps.beside(0));
                let mesh = &self.context.mesh;
                if is_mine != Some(mesh.me()) || was_at != mesh.id(from) {
                    return Err(Rejection::Misrouted);
                }
                let start = data.len() - datagram.len();
                match steps.beside(1) {
                    Some(next) => self.forward(now, from, &steps, next, data),
                    None => self.deliver(now, &steps, &mut data[start..]),
                }
            }
        }
    }

    /// A neighbour seeks a way to somebody, who is called if it was never spoken with.
    fn on_sought(&mut self, now: Time, from: PeerId, name: Name) {
        let sought = self.context.mesh.peer(NodeId::of(&name));
        let is_told_of = |peer: &PeerId| self.context.mesh.reach(*peer).is_some();
        if let Some(peer) = sought.filter(is_told_of) {
            self.owe(from, News::Reach(peer));
        }
        let is_asked = self.context.mesh.on_question(now, from);
        if is_asked && sought.is_none() && name != self.context.name {
            // It is not admitted: then this node is no way there.
            let _ = self.take_guest_and_call(now, name, now);
        }
    }

    /// Hands a datagram to its next node.
    fn forward(
        &mut self,
        now: Time,
        from: PeerId,
        steps: &Steps,
        next: NodeId,
        data: &mut [u8],
    ) -> Result<(), Rejection> {
        let mesh = &mut self.context.mesh;
        let next = mesh
            .peer(next)
            .filter(|next| mesh.near_bytes(*next).is_some());
        let why = match next {
            _ if !mesh.forwards() => Some(RefusedWhy::Unwilling),
            None => Some(RefusedWhy::Unreached),
            Some(_) => None,
        };
        if let Some(why) = why {
            let by = steps.at;
            if let (Some(steps), Some(bundle)) = (steps.back(), met(&mut self.peers, from)) {
                bundle.refuse(now, RelayRecord::Refused { steps, by, why });
                self.turns.touch(from);
            }
            return Err(Rejection::NotRelayed);
        }
        if !mesh.may_forward(now, data.len()) {
            return Err(Rejection::NotRelayed);
        }
        if let Some(next) = next
            && let Some(bundle) = met(&mut self.peers, next)
        {
            self.context.stats.relayed += 1;
            self.context.stats.relayed_bytes += data.len() as u64;
            advance(data);
            bundle.relay(now, steps.first(), data.to_vec());
            self.turns.touch(next);
        }
        Ok(())
    }

    /// Something that this node sent, or relayed, was not relayed.
    fn on_refused(
        &mut self,
        now: Time,
        from: PeerId,
        steps: Steps,
        (by, why): (u8, RefusedWhy),
    ) -> Result<(), Rejection> {
        let mesh = &mut self.context.mesh;
        if steps.beside(0) != Some(mesh.me()) || steps.beside(1) != mesh.id(from) {
            return Err(Rejection::Misrouted);
        }
        let Some(back) = steps.back() else {
            let nodes = steps.nodes();
            let place = usize::from(by);
            mesh.on_refused(now, nodes[place], nodes[place + 1]);
            return Ok(());
        };
        let before = steps.beside(-1).and_then(|id| mesh.peer(id));
        if let Some(before) = before
            && let Some(bundle) = met(&mut self.peers, before)
        {
            let steps = back;
            bundle.refuse(now, RelayRecord::Refused { steps, by, why });
            self.turns.touch(before);
        }
        Ok(())
    }

    /// A datagram for this node came through others.
    fn deliver(&mut self, now: Time, steps: &Steps, datagram: &mut [u8]) -> Result<(), Rejection> {
        if self.context.mesh.peer(steps.first()).is_none() {
            self.admit_from_afar(now, steps, datagram)?;
        }
        let way = self.context.mesh.way_back(steps);
        let way = way.ok_or(Rejection::Misrouted)?;
        let from = way.address().ok_or(Rejection::Misrouted)?;
        match datagram.first().copied().and_then(Kind::from_byte) {
            Some(Kind::Data) => self.on_relayed_data(now, &way, datagram),
            Some(Kind::Init) => {
                let taken = self.on_init(now, PATH_OF_HANDSHAKES, from, datagram);
                // If this node's own call counts, that goes back the same way.
                if matches!(taken, Ok(()) | Err(Rejection::Crossed)) {
                    self.meet_relayed(now, way.to, PATH_OF_HANDSHAKES, &way);
                }
                taken
            }
            Some(Kind::Response | Kind::Cookie) => {
                self.on_handshake_answer(now, PATH_OF_HANDSHAKES, from, datagram)?;
                self.meet_relayed(now, way.to, PATH_OF_HANDSHAKES, &way);
                Ok(())
            }
            // What these measure is the way over a link.
            Some(Kind::Echo | Kind::EchoReply) | None => Err(Rejection::Malformed),
        }
    }

    /// The bundle to `peer` has a path over `way` from now on.
    fn meet_relayed(&mut self, now: Time, peer: PeerId, path: LinkId, way: &Way) {
        if let (Some(bundle), Some(address)) = (met(&mut self.peers, peer), way.address()) {
            bundle.meet_relayed(now, path, address, &mut self.context);
            self.touch(peer);
        }
    }

    fn on_relayed_data(
        &mut self,
        now: Time,
        way: &Way,
        datagram: &mut [u8],
    ) -> Result<(), Rejection> {
        let header = Header::read(&mut Reader::new(datagram)).map_err(|_| Rejection::Malformed)?;
        let path = LinkId(header.path);
        let peer = self.context.sessions.get(&header.session).copied();
        let peer = peer.ok_or(Rejection::UnknownSession)?;
        if !path.is_relayed() || path.bit() == 0 || peer != way.to {
            return Err(Rejection::Misrouted);
        }
        let from = way.address().ok_or(Rejection::Misrouted)?;
        self.meet_relayed(now, peer, path, way);
        let bundle = met(&mut self.peers, peer).ok_or(Rejection::UnknownSession)?;
        bundle.on_datagram(now, path, from, &header, datagram, &mut self.context)?;
        self.turns.note_arrival(peer);
        self.touch(peer);
        Ok(())
    }
}
