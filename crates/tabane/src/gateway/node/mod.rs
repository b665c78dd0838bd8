//! A node's part in the outside address: its programs' packets, its vote, and, on a gateway, the service itself.

mod leaving;
mod packets;
mod programs;
mod reporting;
mod service;
mod votes;
mod words;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use tabane_proto::gateway::{Election, Electorate, Ends, Unchangeable};
use tabane_proto::wire::NodeId;
use tabane_proto::{Node, PeerId, Time};

use super::claims::Claims;
use super::devices::Devices;
use super::front::Owner;
use super::probe::Probe;
use super::programs::{Place, Programs};
use super::roster::Roster;
use super::serving::{Carried, Site};
use leaving::{Leaving, Moving};
use packets::Inside;
use service::Service;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How this node is to take part.
#[derive(Debug)]
pub struct Part {
    /// The node.
    pub me: NodeId,
    /// A random number.
    pub life: u64,
    /// Who may serve, and who votes.
    pub electorate: Electorate,
    /// The outside addresses.
    pub addresses: Vec<IpAddr>,
    /// Ports and conversations of each node at most.
    pub ports_max: usize,
    /// As well.
    pub conversations_max: usize,
}

/// Whom packets go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Serves {
    Here,
    Peer(PeerId),
}

/// All of it.
#[derive(Debug)]
pub struct Gateway {
    part: Part,
    devices: Rc<dyn Devices>,
    roster: Roster,
    /// Peers that have said more than has been heard.
    unheard: BTreeSet<PeerId>,
    /// Peers without a working link.
    away: BTreeSet<PeerId>,
    /// Addresses of nodes: nothing from outside may have them as its source.
    nodes_at: BTreeSet<IpAddr>,
    /// This gateway's outside, if it is complete.
    site: Option<Site>,
    election: Election,
    inside: Inside,
    claims: Claims,
    /// The last question about a port's owner, and answers.
    asked: u32,
    owners: VecDeque<(u32, Option<NodeId>)>,
    /// Packets that programs of places have sent to the outside address.
    turning: VecDeque<(Place, Vec<u8>)>,
    /// Packets given back by a gateway that no longer serves.
    returned: VecDeque<Vec<u8>>,
    /// Which gateways could serve, as they say.
    able: BTreeMap<NodeId, bool>,
    /// What the others were told about this gateway.
    told_able: Option<bool>,
    /// The gateway and term to which everything that this node has was told, and when.
    since: Time,
    told: Option<(Serves, u64)>,
    /// Ports outside of conversations that have another one at this node.
    outer: BTreeMap<Ends, u16>,
    serving: Option<Service>,
    /// The successor during a handover, and this gateway's remains afterwards.
    moving: Option<Moving>,
    leaving: Option<Leaving>,
    /// When serving is tried again that has failed.
    retry_at: Option<Time>,
    /// Asks whether another host has the addresses, before this node takes them.
    probe: Option<Probe>,
    /// None has answered.
    is_free: bool,
    /// One has, when it was asked last.
    was_taken: bool,
    /// The last logged reason why this node cannot serve.
    told_why: Option<String>,
    /// Why this gateway has no outside, in words.
    has_not: Option<String>,
    /// What was carried while this node served.
    carried: Carried,
    /// Ports that were refused since one has as many as one may: to programs of this node, and by this gateway to others.
    ports_refused: u64,
    look_at: Time,
    /// Lines for the log.
    lines: Vec<String>,
    packet: Vec<u8>,
}

impl Gateway {
    /// Of a node that begins now.
    pub fn new(now: Time, devices: Rc<dyn Devices>, part: Part) -> Gateway {
        let election = Election::new(now, part.me, part.life, part.electorate.clone());
        let programs = Programs::new(&part.addresses, part.ports_max, part.conversations_max);
        Gateway {
            part,
            devices,
            roster: Roster::default(),
            unheard: BTreeSet::new(),
            away: BTreeSet::new(),
            nodes_at: BTreeSet::new(),
            site: None,
            election,
            inside: Inside::new(programs),
            claims: Claims::default(),
            asked: 0,
            owners: VecDeque::new(),
            turning: VecDeque::new(),
            returned: VecDeque::new(),
            able: BTreeMap::new(),
            told_able: None,
            since: now,
            told: None,
            outer: BTreeMap::new(),
            serving: None,
            moving: None,
            leaving: None,
            retry_at: None,
            probe: None,
            is_free: false,
            was_taken: false,
            told_why: None,
            has_not: None,
            carried: Carried::default(),
            ports_refused: 0,
            look_at: now,
            lines: Vec::new(),
            packet: Vec::new(),
        }
    }

    /// The outside addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.part.addresses
    }

    /// Sets the peers, by their ids, and all nodes' addresses.
    pub fn set_peers(
        &mut self,
        peers: impl IntoIterator<Item = (NodeId, PeerId)>,
        nodes_at: BTreeSet<IpAddr>,
    ) {
        self.roster.set(peers);
        self.nodes_at = nodes_at;
    }

    /// Whether the cluster's nodes may be these from now on: see [`Election::may_change`].
    ///
    /// # Errors
    /// Why not.
    pub fn may_change(&self, now: Time, to: &Electorate) -> Result<(), Unchangeable> {
        self.election.may_change(now, to)
    }

    /// Changes the cluster's nodes; the first ones vote: see [`Election::change`].
    pub fn change(&mut self, now: Time, to: Electorate) {
        self.part.electorate = to.clone();
        self.election.change(to);
        // New nodes are told who serves.
        self.election.tell_again(now);
    }

    /// Changes each node's limits of ports and conversations.
    pub const fn set_limits(&mut self, ports_max: usize, conversations_max: usize) {
        (self.part.ports_max, self.part.conversations_max) = (ports_max, conversations_max);
        self.inside
            .programs
            .set_limits(ports_max, conversations_max);
    }

    /// Takes the lines for the log.
    pub fn take_lines(&mut self) -> Vec<String> {
        core::mem::take(&mut self.lines)
    }

    // ---- peers ----

    /// A peer is connected; if it has restarted, what it had is gone.
    pub fn peer_up(&mut self, now: Time, peer: PeerId, restarted: bool) {
        if restarted {
            if let Some(id) = self.roster.id(peer) {
                self.election.begins_anew(id);
            }
            self.forget_peer(now, peer);
        }
        self.told_able = None;
        self.election.tell_again(now);
        self.set_away(peer, false);
        self.tell_anew(peer);
    }

    /// A peer is gone, with all it had.
    pub fn peer_down(&mut self, now: Time, peer: PeerId) {
        if let Some(id) = self.roster.id(peer) {
            self.able.remove(&id);
        }
        self.forget_peer(now, peer);
        self.tell_anew(peer);
    }

    fn tell_anew(&mut self, peer: PeerId) {
        self.told = self.told.filter(|(whom, _)| *whom != Serves::Peer(peer));
    }

    /// Whether no link to a peer works: new connections are for others.
    pub fn set_away(&mut self, peer: PeerId, is_away: bool) {
        match is_away {
            true => self.away.insert(peer),
            false => self.away.remove(&peer),
        };
        let is_waited_for = self.is_waited_for(peer);
        if let Some(service) = &mut self.serving {
            let away = &mut service.serving.machine.away;
            match is_away {
                true => away.insert(Owner::Peer(peer)),
                false => away.remove(&Owner::Peer(peer)),
            };
            if !is_waited_for {
                service.learning.remove(&peer);
            }
        }
    }

    /// Whether a connected peer will tell what it has. A node without a link may be back in a moment; a gateway without
    /// one has most likely crashed, and that is why another one serves.
    fn is_waited_for(&self, peer: PeerId) -> bool {
        let id = self.roster.id(peer);
        let is_gateway = id.is_some_and(|id| self.part.electorate.gateways.contains(&id));
        !(is_gateway && self.away.contains(&peer))
    }

    fn forget_peer(&mut self, now: Time, peer: PeerId) {
        self.roster.forget_unsaid(peer);
        self.inside.carriage.forget(peer);
        if let Some(service) = &mut self.serving {
            service.learning.remove(&peer);
            service.deferred.retain(|(of, ..)| *of != peer);
            let serving = &mut service.serving;
            serving
                .front
                .doubt(now, &mut serving.machine, Owner::Peer(peer));
        }
    }

    // ---- the loop ----

    /// Once a turn of the loop. Returns whether there is more to do at once.
    pub fn turn(&mut self, now: Time, node: &mut Node) -> bool {
        let hears = self.hear_more(now, node);
        self.follow_votes(now, node);
        self.go_on_moving(now, node);
        self.tell_able(now, node);
        self.tell(now, node);
        self.look_whether_learned(now, node);
        if self.claims.are_unasked() {
            self.ask_again(now, node);
        }
        self.claims.look(now, &mut self.inside.programs);
        self.read_programs(now, node);
        let more = self.serve(now, node);
        self.roster.go_on(now, node);
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            let outer = &mut self.outer;
            self.inside.programs.look(now, |ends| {
                outer.remove(&ends);
            });
            if let Some(service) = &mut self.serving {
                service.serving.look(now);
            }
        }
        more | hears | self.watch(node)
    }

    /// Waits for the TUNs that should be read and are empty. Returns whether one may be readable.
    fn watch(&mut self, node: &Node) -> bool {
        let waits = packets::must_wait(node, self.serves().map(|(whom, _)| whom));
        let mut is_eager = false;
        for door in self.inside.doors.values_mut() {
            let wants = !door.readable && !waits;
            if wants != door.watched && door.way.watch(wants).is_ok() {
                door.watched = wants;
            }
            is_eager |= door.readable && !waits;
        }
        is_eager
    }

    /// When something is due, if nothing happens before.
    pub fn next_timeout(&self) -> Option<Time> {
        let of_service = self.serving.as_ref().and_then(|service| {
            let learns = (!service.has_learned).then_some(service.learns_until);
            [service.serving.next_timeout(), learns]
                .into_iter()
                .flatten()
                .min()
        });
        let due = [
            self.election.next_timeout(),
            of_service,
            self.claims.next_timeout(),
            self.retry_at,
            self.probe.as_ref().map(Probe::due),
            self.moving.as_ref().map(Moving::until),
            self.leaving.as_ref().map(Leaving::until),
        ];
        due.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests;
