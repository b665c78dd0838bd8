//! Who serves: votes, and beginning and ending to serve.

use core::time::Duration;

use tabane_proto::gateway::{Said, Throttle};
use tabane_proto::wire::NodeId;
use tabane_proto::{Node, PeerId, Time};

use super::super::front::Owner;
use super::super::probe::{Outcome, Probe};
use super::super::serving::{Serving, Site};
use super::service::Service;
use super::{Gateway, Serves};

/// A gateway that begins to serve answers nobody by itself until all nodes have told what they have, but waits at most this long.
/// A node that is busy, or has no link for a moment, would have its connections reset by a shorter wait; a longer one costs
/// little.
const LEARNING_MAX: Duration = Duration::from_secs(3);
/// A gateway that serves is heard of within this, by one that has just begun and is connected to it.
const HEARD_OF_AFTER: Duration = Duration::from_millis(500);
/// One that cannot serve tries again after this.
const RETRY_AFTER: Duration = Duration::from_secs(5);

impl Gateway {
    /// Who is known to serve, and for which term.
    pub(super) fn serves(&self) -> Option<(Serves, u64)> {
        if self.serving.is_some() {
            return Some((Serves::Here, self.election.serving()?.term));
        }
        let believed = self.election.serving()?;
        let peer = self.roster.peer(believed.gateway)?;
        Some((Serves::Peer(peer), believed.term))
    }

    /// Sets this gateway's outside, if it is complete, so that it can serve; or what is missing, in words.
    pub fn set_site(&mut self, now: Time, site: Result<Site, String>) {
        let (site, has_not) = match site {
            Ok(site) => (Some(site), None),
            Err(why) => (None, Some(why)),
        };
        self.has_not = has_not;
        let is_other = self.site.as_ref().map(|old| (old.index, old.mac))
            != site.as_ref().map(|new| (new.index, new.mac));
        if is_other {
            self.resign(now);
        }
        if is_other {
            (self.probe, self.is_free) = (None, false);
        }
        if let (Some(service), Some(site)) = (&mut self.serving, &site)
            && self.site.as_ref() != Some(site)
        {
            service.serving.change(site);
        }
        self.site = site;
        self.look_whether_able(now);
    }

    fn look_whether_able(&mut self, now: Time) {
        // Whom another gateway has them from, it need not ask.
        let is_known = self.election.serving().is_some();
        if is_known {
            self.probe = None;
        }
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        let Some(site) = self.site.as_ref().filter(|_| self.retry_at.is_none()) else {
            return self.election.set_able(now, false);
        };
        if !self.is_free && !is_known {
            let probe = match &mut self.probe {
                Some(probe) => Ok(probe),
                none => Probe::begin(now, &*self.devices, site).map(|probe| none.insert(probe)),
            };
            let outcome = probe.map(|probe| probe.turn(now));
            match outcome {
                Ok(Outcome::Open) => {}
                Ok(Outcome::Free) => (self.probe, self.is_free) = (None, true),
                Ok(Outcome::Taken(address)) if self.was_taken => {
                    let device = site.device.clone();
                    self.cannot(now, format!("another host at {device} has {address}"));
                }
                // It may be another gateway, whose election has not been heard of yet.
                Ok(Outcome::Taken(_)) => {
                    (self.probe, self.was_taken) = (None, true);
                    self.retry_at = Some(now + HEARD_OF_AFTER);
                }
                Err(why) => self.cannot(now, why),
            }
        }
        self.election.set_able(now, self.is_free || is_known);
    }

    /// It cannot serve now, and tries again later.
    fn cannot(&mut self, now: Time, why: String) {
        self.probe = None;
        self.retry_at = Some(now + RETRY_AFTER);
        self.election.set_able(now, false);
        let line = format!("cannot serve the outside addresses: {why}; still trying");
        if self.told_why.as_ref() != Some(&why) {
            self.lines.push(line);
        }
        self.told_why = Some(why);
    }

    /// Tells the others whether this gateway could serve.
    pub(super) fn tell_able(&mut self, now: Time, node: &mut Node) {
        let is_able = self.election.is_able();
        let is_gateway = self.part.electorate.gateways.contains(&self.part.me);
        if !is_gateway || self.told_able == Some(is_able) {
            return;
        }
        self.told_able = Some(is_able);
        let peers: Vec<_> = self.roster.peers().collect();
        for peer in peers {
            if node.is_connected(peer) {
                self.roster.say(now, node, peer, Said::Able { is_able });
            }
        }
    }

    /// The gateways, in the order of the file, and whether each could serve, as far as is known.
    pub(super) fn gateways(&self) -> impl Iterator<Item = (NodeId, bool)> {
        self.part.electorate.gateways.iter().map(|id| {
            let is_able = match *id == self.part.me {
                true => self.election.is_able(),
                false => self.able.get(id).copied().unwrap_or(false),
            };
            (*id, is_able)
        })
    }

    /// The gateway that could serve in place of this one: the one that is wanted, or the next.
    pub(super) fn heir(&self, wanted: Option<NodeId>) -> Option<NodeId> {
        let is_meant = |(id, is_able): &(NodeId, bool)| {
            *is_able && *id != self.part.me && wanted.is_none_or(|wanted| wanted == *id)
        };
        self.gateways().find(is_meant).map(|(id, _)| id)
    }

    /// Makes another gateway serve: this one, or the next one that can.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn move_to(
        &mut self,
        now: Time,
        node: &mut Node,
        to: Option<NodeId>,
    ) -> Result<(), String> {
        match self.serves() {
            None => Err("no gateway serves now".to_owned()),
            Some((Serves::Peer(peer), _)) => {
                self.roster.say(now, node, peer, Said::Move { to });
                Ok(())
            }
            Some((Serves::Here, _)) => {
                let heir = self.heir(to).ok_or(
                    "there is no other gateway that could serve (see `standby` of `tabane status`)",
                )?;
                self.begin_moving(now, heir);
                Ok(())
            }
        }
    }

    /// Another gateway is to serve, if there is one: this node ends.
    pub fn stop(&mut self, now: Time, node: &mut Node) {
        self.resign(now);
        self.say_election(now, node);
    }

    /// It serves no more, and another one that can is to do so at once.
    fn resign(&mut self, now: Time) {
        if let Some(heir) = self.heir(None).filter(|_| self.serving.is_some()) {
            self.election.hand_over(now, heir);
        }
        self.election.set_able(now, false);
        self.end_service();
    }

    pub(super) fn say_election(&mut self, now: Time, node: &mut Node) {
        while let Some((to, word)) = self.election.poll_word() {
            self.roster.say_now(now, node, to, Said::Election(word));
        }
    }

    /// Begins or ends to serve, as the votes are.
    pub(super) fn follow_votes(&mut self, now: Time, node: &mut Node) {
        self.look_whether_able(now);
        while self.election.next_timeout().is_some_and(|at| at <= now) {
            self.election.handle_timeout(now);
        }
        let serves = self.election.serves(now);
        match (serves, &self.serving) {
            (Some(_), None) => self.begin_service(now, node),
            (None, Some(_)) => self.end_service(),
            _ => {}
        }
        self.say_election(now, node);
    }

    fn begin_service(&mut self, now: Time, node: &Node) {
        self.end_leaving();
        let Some(site) = &self.site else {
            return self.election.set_able(now, false);
        };
        match Serving::begin(now, &self.devices, site) {
            Ok(mut serving) => {
                let away = self.away.iter().copied().map(Owner::Peer);
                serving.machine.away = away.collect();
                let says = |peer: &PeerId| node.is_connected(*peer) && self.is_waited_for(*peer);
                let learning = self.roster.peers().filter(says).collect();
                (self.told_why, self.was_taken) = (None, false);
                self.lines
                    .push(format!("serves the outside addresses at {}", site.device));
                self.serving = Some(Service {
                    serving,
                    learning,
                    learns_until: now + LEARNING_MAX,
                    has_learned: false,
                    deferred: Vec::new(),
                    readable: true,
                    writes: false,
                });
            }
            Err(error) => self.cannot(now, error),
        }
    }

    pub(super) fn end_service(&mut self) {
        self.moving = None;
        if let Some(service) = self.serving.take() {
            service.serving.end();
            self.lines
                .push("serves the outside addresses no more".to_owned());
        }
    }

    /// Tells the serving gateway what this node has, if that was not told.
    pub(super) fn tell(&mut self, now: Time, node: &mut Node) {
        let serves = self.serves();
        if serves == self.told {
            return;
        }
        let Some((whom, _)) = serves else {
            self.told = None;
            return;
        };
        if let Serves::Peer(peer) = whom
            && !node.is_connected(peer)
        {
            node.want(now, peer);
            return;
        }
        (self.told, self.since) = (serves, now);
        let mut words: Vec<Said> = Vec::new();
        for (port, claim, place, _) in self.inside.programs.ports() {
            // The gateway's answer to this claim is still to come.
            if !self.claims.awaits(place, port) {
                words.push(Said::Claim { id: 0, port, claim });
                let door = self.inside.doors.get(&place);
                if let Some(command) = door.and_then(|door| door.command) {
                    words.push(Said::Named { port, command });
                }
            }
        }
        for (inside, one) in self.inside.programs.conversations() {
            words.push(Said::Stands {
                inside,
                outer: self.outer.get(&inside).copied().unwrap_or(inside.own),
                shifts: one.throttle.as_ref().map(Throttle::shifts),
            });
        }
        words.push(Said::Told);
        for said in words {
            match whom {
                Serves::Here => self.serve_word(now, node, Owner::Here, said),
                Serves::Peer(peer) => self.roster.say(now, node, peer, said),
            }
        }
        self.ask_again(now, node);
    }
}
