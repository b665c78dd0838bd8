//! Messages between nodes about the gateway.

use std::net::IpAddr;

use tabane_proto::gateway::{Refused, Said, TAG};
use tabane_proto::{Node, PeerId, Time};

use super::super::front::Owner;
use super::Gateway;

/// The most claims that wait until all nodes have told what they have.
const DEFERRED_MAX: usize = 65_536;
/// Words of one peer, before others have their turn.
const WORDS_PER_TURN: usize = 1024;

impl Gateway {
    /// Handles a peer's gateway messages, a bounded number before others have their turn.
    pub fn hear(&mut self, now: Time, node: &mut Node, peer: PeerId) {
        self.unheard.remove(&peer);
        for count in 0.. {
            if count == WORDS_PER_TURN {
                self.unheard.insert(peer);
                return;
            }
            let Some(message) = node.receive_message(now, peer) else {
                return;
            };
            let said = (message.tag == Some(TAG)).then(|| Said::parse(&message.data));
            if let Some(said) = said.flatten() {
                self.heard(now, node, peer, said);
            }
            node.recycle_message(peer, message.data);
        }
    }

    /// Goes on with peers that have said more than has been heard. Returns whether there are any.
    pub(super) fn hear_more(&mut self, now: Time, node: &mut Node) -> bool {
        for peer in self.unheard.clone() {
            self.hear(now, node, peer);
        }
        !self.unheard.is_empty()
    }

    fn heard(&mut self, now: Time, node: &mut Node, peer: PeerId, said: Said) {
        let Some(from) = self.roster.id(peer) else {
            return;
        };
        let is_gateway = self.part.electorate.gateways.contains(&from);
        match said {
            Said::Election(word) => {
                self.election.hear(now, from, word);
                self.say_election(now, node);
            }
            Said::Claimed { id, result } if is_gateway => {
                let (claims, programs, mut asker) = self.asker(now, node);
                claims.answered(programs, &mut asker, id, result);
            }
            Said::Translated { inside, outer } if is_gateway => {
                self.outer.insert(inside, outer);
            }
            Said::Able { is_able } if is_gateway => drop(self.able.insert(from, is_able)),
            Said::Has { id, node } if is_gateway => self.owners.push_back((id, node)),
            Said::Move { to } if self.serving.is_some() => {
                if let Err(why) = self.move_to(now, node, to) {
                    self.lines.push(format!("serves on: {why}"));
                }
            }
            Said::Claim { .. }
            | Said::Released { .. }
            | Said::Stands { .. }
            | Said::Told
            | Said::Whose { .. }
            | Said::Named { .. }
            | Said::Over { .. } => self.serve_word(now, node, Owner::Peer(peer), said),
            Said::Claimed { .. }
            | Said::Translated { .. }
            | Said::Able { .. }
            | Said::Has { .. }
            | Said::Move { .. } => {}
        }
    }

    /// A node says something to the gateway, which is here, if it is.
    pub(super) fn serve_word(&mut self, now: Time, node: &mut Node, owner: Owner, said: Said) {
        let Some(service) = &mut self.serving else {
            return;
        };
        let serving = &mut service.serving;
        match said {
            Said::Claim { id, port, claim } => {
                if let Owner::Peer(peer) = owner
                    && id != 0
                    && service.learns(now)
                {
                    // A node that gets no answer goes on without.
                    if service.deferred.len() < DEFERRED_MAX {
                        service.deferred.push((peer, id, port, claim));
                    }
                    return;
                }
                let serving = &mut service.serving;
                if id == 0 {
                    return serving.front.has(&mut serving.machine, owner, port, claim);
                }
                let result = serving
                    .front
                    .claim(&mut serving.machine, owner, port, claim);
                if let Owner::Peer(peer) = owner {
                    self.ports_refused += u64::from(result == Err(Refused::TooMany));
                    self.roster
                        .say(now, node, peer, Said::Claimed { id, result });
                }
            }
            Said::Released { port } => {
                serving.front.release(&mut serving.machine, owner, port);
            }
            Said::Stands {
                inside,
                outer,
                shifts,
            } => {
                let ends = (inside, outer);
                serving
                    .front
                    .stands(now, &mut serving.machine, owner, ends, shifts);
            }
            Said::Told => {
                if let Owner::Peer(peer) = owner {
                    service.has_told(now, peer);
                }
            }
            Said::Named { port, command } => serving.front.name(owner, port, command),
            Said::Over { inside } => serving.front.is_over(&mut serving.machine, owner, inside),
            Said::Whose { id, port } => {
                let whose = match serving.front.whose(&serving.machine, port) {
                    Some(Owner::Here) => Some(self.part.me),
                    Some(Owner::Peer(peer)) => self.roster.id(peer),
                    None => None,
                };
                match owner {
                    Owner::Here => self.owners.push_back((id, whose)),
                    Owner::Peer(peer) => {
                        self.roster
                            .say(now, node, peer, Said::Has { id, node: whose });
                    }
                }
            }
            Said::Election(_)
            | Said::Claimed { .. }
            | Said::Translated { .. }
            | Said::Able { .. }
            | Said::Has { .. }
            | Said::Move { .. } => {}
        }
    }

    /// When all nodes have told what they have, goes on with what waited for that.
    pub(super) fn look_whether_learned(&mut self, now: Time, node: &mut Node) {
        let Some(service) = &mut self.serving else {
            return;
        };
        if service.has_learned || service.learns(now) {
            return;
        }
        service.has_learned = true;
        for peer in service.learning.clone() {
            service.has_told(now, peer);
        }
        let inside = &mut self.inside;
        let is_of_nodes = |address: IpAddr| self.nodes_at.contains(&address);
        let serving = &mut service.serving;
        serving.has_learned(now, is_of_nodes, |owner, packet, only_known| {
            inside.hand_to(now, node, owner, packet, only_known);
        });
        for (peer, id, port, claim) in core::mem::take(&mut service.deferred) {
            let said = Said::Claim { id, port, claim };
            self.serve_word(now, node, Owner::Peer(peer), said);
        }
        // This node's own programs have waited for it as well.
        self.ask_again(now, node);
    }
}
