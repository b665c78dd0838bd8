//! Nodes that join, and are forgotten (`docs/protocol.md`, 4.6 and 7.14).
//!
//! Who wants to join knows addresses, not names: it asks who is there, and is told whether it may join. Then it calls as
//! any other, says who it is, and is told of the others; these are told of it.

use crate::bundle::{PEER_SILENT_MAX, RETRY_FIRST, RETRY_MAX};
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use super::{Node, Peer, met};
use crate::bundle::{CLOSE_REMOVED, CLOSE_TAKEN};
use crate::context::{Event, PartedWhy, PeerConfig, Refusal, Rejection};
use crate::crypto::{ClusterKey, HandshakeError, Identity, Initiator, Responder};
use crate::limits::LINKS_MAX;
use crate::mesh::Joining;
use crate::segment::News;
use crate::wire::{Hello, Kind, Member, MemberRecord, MembersDigest, Name, Reach, Verdict};
use crate::{LinkId, PeerId, Time};

/// The session numbers of questions are nobody's.
pub(super) const ASKED: PeerId = PeerId(u32::MAX);
/// What nodes know is compared, and who is silent looked for, so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// An address where somebody may be who admits this node.
struct Seed {
    link: LinkId,
    address: SocketAddr,
    /// The question under way.
    question: Option<(u32, Box<Initiator>)>,
    ask_at: Time,
    pause: Duration,
    /// What was answered last.
    verdict: Option<Verdict>,
}

/// What a node does so that it belongs to a cluster, and others may.
#[derive(Default)]
pub(super) struct Gate {
    seeds: Vec<Seed>,
    look_at: Option<Time>,
    /// When this node's own record was made newer than one of its past.
    renewed_at: Option<Time>,
    /// Who was sent everything, and when.
    told_all: Vec<(PeerId, Time)>,
}

impl Gate {
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let asks = self.seeds.iter().map(|seed| seed.ask_at).min();
        asks.into_iter().chain(self.look_at).min()
    }
}

impl Node {
    /// How nodes join, if they may.
    fn joining(&self) -> Option<&Joining> {
        let joining = self.context.members.config.as_ref();
        joining.filter(|joining| joining.admits && !self.context.members.leaves)
    }

    /// Where somebody may be who admits this node, on which link. They are asked until one of them is connected, and
    /// again when none of them is.
    pub fn set_seeds(&mut self, now: Time, seeds: &[(LinkId, SocketAddr)]) {
        for (session, _) in self
            .gate
            .seeds
            .iter()
            .filter_map(|seed| seed.question.as_ref())
        {
            self.context.sessions.remove(session);
        }
        let seed = |&(link, address): &(LinkId, SocketAddr)| Seed {
            link,
            address,
            question: None,
            ask_at: now,
            pause: RETRY_FIRST,
            verdict: None,
        };
        self.gate.seeds = match self.joining() {
            Some(_) => seeds.iter().map(seed).collect(),
            None => Vec::new(),
        };
    }

    /// This node leaves the cluster: all are told, and forget it. To be [closed](Node::close) a moment later, when they
    /// have heard it.
    pub fn leave(&mut self) {
        self.gate.seeds.clear();
        self.context.members.leaves = true;
        self.renew_member();
    }

    /// Who a peer says that it is, where nodes may join.
    pub fn member(&self, peer: PeerId) -> Option<&Member> {
        self.context.members.get(peer)
    }

    /// The links of a peer that are up, as it says itself, a bit each, if it has said so.
    pub fn links_of(&self, peer: PeerId) -> Option<u8> {
        self.context.mesh.links_up(peer)
    }

    /// Whether a peer was not added, but joined, or called as a guest.
    pub fn is_guest(&self, peer: PeerId) -> bool {
        self.guests.contains_key(&peer)
    }

    /// What is said of this node is new.
    pub(super) fn renew_member(&mut self) {
        if let Some(joining) = &mut self.context.members.config {
            joining.incarnation += 1;
            self.tell_all_neighbours(News::OwnMember, None);
        }
    }

    pub(super) fn tell_all_neighbours(&mut self, news: News, but: Option<PeerId>) {
        let neighbours = self.context.mesh.neighbours();
        let told = neighbours.filter(|n| Some(*n) != but).collect();
        self.owe_all(told, news);
    }

    pub(super) fn owe_all(&mut self, neighbours: Vec<PeerId>, news: News) {
        for neighbour in neighbours {
            self.owe(neighbour, news);
        }
    }

    // ---- who asks ----

    /// Asks, looks for who is silent, and compares what is known, if it is time.
    pub(super) fn on_gate_timeout(&mut self, now: Time) {
        for index in 0..self.gate.seeds.len() {
            if self.gate.seeds[index].ask_at <= now {
                self.ask(now, index);
            }
        }
        if self.gate.look_at.is_some_and(|at| at <= now) {
            self.gate.look_at = Some(now + LOOK_EVERY);
            self.forget_silent(now);
            self.compare();
        }
    }

    fn ask(&mut self, now: Time, index: usize) {
        let seed = &mut self.gate.seeds[index];
        let (link, address) = (seed.link, seed.address);
        if let Some((session, _)) = seed.question.take() {
            self.context.sessions.remove(&session);
        }
        let own = self.context.links[link.index()];
        let is_there = |peer: &Peer| {
            peer.met()
                .is_some_and(|b| b.connected() && b.is_at(link, address))
        };
        let is_own = own.is_none_or(|own| own.address == address);
        if is_own || self.peers.iter().flatten().any(is_there) {
            seed.pause = RETRY_FIRST;
            seed.ask_at = now + RETRY_MAX;
            return;
        }
        seed.ask_at = now + seed.pause;
        seed.pause = (seed.pause * 2).min(RETRY_MAX);
        let session = self.context.new_session(ASKED);
        let name = self.context.name;
        let hello = self.hello_of_question(name, session);
        let key = &self.context.keys[0];
        // Whoever answers is asked for no more than the cluster key: the name that it says is what is wanted.
        let identity = Identity::shared(name);
        let initiator = Initiator::new(key, &identity, None, &hello, &mut self.context.random);
        self.context
            .answer(link, address, initiator.datagram().to_vec());
        self.gate.seeds[index].question = Some((session, Box::new(initiator)));
    }

    fn hello_of_question(&mut self, to: Name, session: u32) -> Hello {
        let bundle = self.context.random.u64().max(1);
        self.context.hello(to, session, bundle, 0)
    }

    /// An answer to a question, or a cookie for it.
    pub(super) fn on_answer_to_question(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        session: u32,
        answer: &[u8],
    ) -> Result<(), HandshakeError> {
        let is_asked =
            |seed: &&mut Seed| seed.question.as_ref().is_some_and(|(s, _)| *s == session);
        let Some(seed) = self.gate.seeds.iter_mut().find(is_asked) else {
            return Err(HandshakeError::NotThisHandshake);
        };
        let Some((_, initiator)) = &mut seed.question else {
            return Err(HandshakeError::NotThisHandshake);
        };
        if answer.first() == Some(&(Kind::Cookie as u8)) {
            initiator.on_cookie(answer)?;
            let datagram = initiator.datagram().to_vec();
            self.context.answer(link, from, datagram);
            return Ok(());
        }
        let (hello, _) = initiator.on_response(answer)?;
        seed.question = None;
        self.context.sessions.remove(&session);
        let Some(verdict) = hello.verdict else {
            return Ok(());
        };
        let has_key = self.context.config.public.is_some();
        let may = verdict == Verdict::Welcome || verdict == Verdict::NeedsKey && has_key;
        let is_new = seed.verdict.replace(verdict) != Some(verdict);
        let address = seed.address;
        if !may {
            if is_new {
                let by = hello.from;
                self.context.event(Event::NotAdmitted {
                    link,
                    address,
                    by,
                    verdict,
                });
            }
            return Ok(());
        }
        self.meet_seed(now, link, address, hello.from);
        Ok(())
    }

    /// The node of this name is where somebody was asked for.
    fn meet_seed(&mut self, now: Time, link: LinkId, address: SocketAddr, name: Name) {
        if let Some(peer) = self.names.get(name.as_str()).copied() {
            if self.is_guest(peer) && !self.is_connected(peer) {
                self.set_peer_address(now, peer, link, Some(address));
            }
            return;
        }
        let mut addresses = [None; LINKS_MAX];
        addresses[link.index()] = Some(address);
        self.insert_guest(now, now, name, addresses, None);
    }

    // ---- who is asked ----

    /// Somebody asks who is there, and whether it may join.
    pub(super) fn on_question(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        (hello, responder): (Hello, Responder),
    ) -> Result<(), Rejection> {
        let verdict = match self.may_join(now, link, from, &hello.from) {
            Ok(()) if self.joining().is_some_and(|joining| joining.needs_key) => Verdict::NeedsKey,
            Ok(()) => Verdict::Welcome,
            Err((verdict, why)) => {
                self.tell_refusal(now, link, from, why);
                verdict
            }
        };
        let answer = Hello {
            verdict: Some(verdict),
            ..self.hello_of_question(hello.from, 0)
        };
        let (response, _) = responder.respond(&answer);
        self.context.answer(link, from, response);
        Ok(())
    }

    /// Whether a node of this name may join that calls from this address.
    fn may_join(
        &self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        name: &Name,
    ) -> Result<(), (Verdict, Refusal)> {
        let text = || name.as_str().into();
        let Some(joining) = self.joining() else {
            return Err((Verdict::FileOnly, Refusal::UnknownNode(text())));
        };
        if *name == self.context.name {
            return Err((Verdict::NameTaken, Refusal::OwnName));
        }
        let known = self.names.get(name.as_str()).copied();
        if let Some(other) =
            known.and_then(|peer| self.known(peer)?.is_live_elsewhere(now, link, from))
        {
            return Err((
                Verdict::NameTaken,
                Refusal::DuplicateName {
                    name: text(),
                    other,
                },
            ));
        }
        if let Some(holder) = self.holder_of(link, from.ip(), known) {
            return Err((
                Verdict::AddressTaken,
                Refusal::DuplicateAddress {
                    name: text(),
                    holder,
                },
            ));
        }
        if known.is_none() && self.guests.len() >= joining.count_max {
            return Err((Verdict::Full, Refusal::TooManyGuests(text())));
        }
        Ok(())
    }

    /// Whether what a peer has is nobody else's: the configuration names it, or it has joined and is there.
    fn holds(&self, peer: PeerId) -> bool {
        !self.is_guest(peer) || self.is_connected(peer)
    }

    /// Who has this address on a network: this node, or another than `but` that [holds](Node::holds) it.
    fn holder_of(&self, link: LinkId, address: IpAddr, but: Option<PeerId>) -> Option<String> {
        let own = self.context.links[link.index()];
        if own.is_some_and(|own| own.address.ip() == address) {
            return Some(self.context.config.name.clone());
        }
        let has = |peer: PeerId, there: &Peer| {
            Some(peer) != but && self.holds(peer) && there.is_configured_at(link, address)
        };
        let mut all = self.peers.iter().zip(0..);
        all.find_map(|(there, number)| {
            let (there, peer) = (there.as_ref()?, PeerId(number));
            has(peer, there).then(|| self.peer_name(peer).unwrap_or_default().to_owned())
        })
    }

    /// Somebody calls that nobody told of: it may say who it is.
    pub(super) fn take_joining(
        &mut self,
        now: Time,
        (link, from): (LinkId, SocketAddr),
        name: Name,
        responder: &Responder,
        key: &ClusterKey,
    ) -> Result<PeerId, Refusal> {
        self.may_join(now, link, from, &name)
            .map_err(|(_, why)| why)?;
        let shown = responder
            .peer()
            .filter(|shown| *shown != key.public_of(&name));
        if shown.is_none() && self.joining().is_some_and(|joining| joining.needs_key) {
            let name = name.as_str().into();
            return Err(Refusal::WrongIdentity { name, shown });
        }
        let mut addresses = [None; LINKS_MAX];
        if let Some(address) = addresses.get_mut(link.index()) {
            *address = Some(from);
        }
        self.context.members.returns(&name);
        let peer = self.insert_guest(now, now + Duration::from_secs(1), name, addresses, None);
        self.gate.told_all.retain(|(told, _)| *told != peer);
        Ok(peer)
    }

    fn insert_guest(
        &mut self,
        now: Time,
        first_call: Time,
        name: Name,
        addresses: [Option<SocketAddr>; LINKS_MAX],
        public: Option<crate::crypto::PublicKey>,
    ) -> PeerId {
        let config = PeerConfig {
            name: name.as_str().into(),
            addresses,
            public,
        };
        let peer = self.insert_peer(now, first_call, name, config);
        self.guests.insert(peer, now);
        self.gate.look_at.get_or_insert(now + LOOK_EVERY);
        peer
    }

    // ---- who belongs to the cluster ----

    /// Does what records about members ask for.
    pub(super) fn tend_members(&mut self, now: Time) {
        while let Some((from, record)) = self.context.members.arrived.pop_front() {
            match record {
                MemberRecord::Member(member) => self.on_member(now, from, *member),
                MemberRecord::Digest(digest) => self.on_digest(now, from, digest),
            }
        }
    }

    /// A neighbour has come: it is told who this node is, and who the others are if it has just joined.
    pub(super) fn greet(&mut self, now: Time, neighbour: PeerId) {
        self.owe(neighbour, News::OwnMember);
        if self.joining().is_none() {
            return;
        }
        self.gate.look_at.get_or_insert(now + LOOK_EVERY);
        let is_new = self.is_guest(neighbour) && self.context.members.get(neighbour).is_none();
        if is_new {
            self.tell_all(now, neighbour);
        }
    }

    /// Tells a neighbour of all others, unless it was told so just now. Whether it is told.
    fn tell_all(&mut self, now: Time, neighbour: PeerId) -> bool {
        let told = &mut self.gate.told_all;
        told.retain(|(_, at)| now.since(*at) < LOOK_EVERY);
        if told.iter().any(|(told, _)| *told == neighbour) {
            return false;
        }
        told.push((neighbour, now));
        let all: Vec<PeerId> = self.context.members.all().map(|(peer, _)| peer).collect();
        for peer in all.into_iter().filter(|peer| *peer != neighbour) {
            self.owe(neighbour, News::Member(peer));
        }
        true
    }

    /// Whoever knows something else than this node is told what it knows, and that it does.
    fn on_digest(&mut self, now: Time, from: PeerId, theirs: MembersDigest) {
        let is_other = self.context.members_digest() != Some(theirs);
        if self.joining().is_some() && is_other && self.tell_all(now, from) {
            self.owe(from, News::OwnMember);
            self.owe(from, News::Digest);
        }
    }

    /// Compares what this node knows with what some neighbour does.
    fn compare(&mut self) {
        let count = self.context.mesh.neighbours().count();
        if count > 0 {
            let nth = self.context.random.below(count as u64) as usize;
            let chosen = self.context.mesh.neighbours().nth(nth);
            chosen
                .into_iter()
                .for_each(|peer| self.owe(peer, News::Digest));
        }
    }

    fn on_member(&mut self, now: Time, from: PeerId, member: Member) {
        if self.context.members.leaves {
            return;
        }
        if member.name == self.context.name {
            self.on_own_past(now, &member);
            return;
        }
        let known = self.names.get(member.name.as_str()).copied();
        if self.joining().is_none() && known != Some(from) {
            // Where nobody joins, what a node says of itself is enough.
            return;
        }
        let before = known.and_then(|peer| Some((peer, self.context.members.get(peer)?)));
        // It may have begun anew, and know nobody, while this node takes it for one that knows all.
        let is_renewed = before.is_some() && known == Some(from);
        if let Some((peer, before)) = before
            && before.incarnation >= member.incarnation
        {
            match before.incarnation > member.incarnation {
                true => self.owe(from, News::Member(peer)),
                false => self.context.members.was_seen(now, peer, member.age_s),
            }
            return;
        }
        if member.leaves {
            self.on_leaving(now, from, known, member);
            return;
        }
        let forget_after = self.joining().map(|joining| joining.forget_after);
        let is_old = |after: Duration| u64::from(member.age_s) >= after.as_secs();
        if known.is_none() && forget_after.is_some_and(is_old) {
            return;
        }
        if known != Some(from) && self.context.members.is_past(now, &member) {
            return;
        }
        let Some(peer) = self.admit(now, from, known, &member) else {
            return;
        };
        self.context.members.set(now, peer, member);
        self.context.event(Event::Member { peer });
        if self.joining().is_some() {
            self.pass_on(from, peer);
            if is_renewed {
                self.tell_all(now, from);
            }
        }
    }

    /// What is known of a peer goes on to neighbours that do not hear it from that themselves.
    fn pass_on(&mut self, from: PeerId, peer: PeerId) {
        let mesh = &self.context.mesh;
        let is_told = |n: &PeerId| *n != from && *n != peer && !mesh.hears(*n, peer);
        let neighbours: Vec<PeerId> = mesh.neighbours().filter(is_told).collect();
        for neighbour in neighbours {
            self.owe(neighbour, News::Member(peer));
        }
    }

    /// A node has stated whom it reaches; before, it stated `before`. Neighbours that were thought to hear of it from itself, and
    /// do not, hear of it from here: when it came, they were left out.
    pub(super) fn pass_on_to_parted(&mut self, node: PeerId, before: Option<&Reach>) {
        if self.joining().is_none() {
            return;
        }
        let mesh = &self.context.mesh;
        let is_parted = |n: &PeerId| mesh.hears_by(before, *n, node) && !mesh.hears(*n, node);
        let parted = mesh.neighbours().filter(is_parted).collect();
        self.owe_all(parted, News::Member(node));
    }

    /// What a node that joins says of itself counts, if nobody has its name or one of its addresses. Its number.
    fn admit(
        &mut self,
        now: Time,
        from: PeerId,
        known: Option<PeerId>,
        member: &Member,
    ) -> Option<PeerId> {
        if let Some(peer) = known.filter(|peer| !self.is_guest(*peer)) {
            // Where it is the configuration says.
            return Some(peer);
        }
        if let Some(holder) = self.holder_of_any(known, member) {
            let name = member.name.as_str().into();
            let first = member.addresses.iter().flatten().next();
            let why = Refusal::DuplicateAddress { name, holder };
            if let Some(address) = first {
                self.tell_refusal(now, LinkId(0), *address, why);
            }
            if known == Some(from) {
                self.part(now, from, PartedWhy::Taken);
            }
            return None;
        }
        if let Some(peer) = known {
            for (link, address) in (0..).map(LinkId).zip(member.addresses) {
                self.set_peer_address(now, peer, link, address);
            }
            self.set_peer_public(now, peer, member.public);
            return Some(peer);
        }
        if self.guests.len() >= self.joining()?.count_max {
            return None;
        }
        let first_call = now + self.spread(self.names.len());
        let peer = self.insert_guest(
            now,
            first_call,
            member.name,
            member.addresses,
            member.public,
        );
        // Whom it reaches, who told of it may know.
        if self.context.mesh.asks_for(peer, member.name) {
            self.owe(from, News::Sought(peer));
        }
        Some(peer)
    }

    /// As [`holder_of`](Node::holder_of), for all that a node has.
    fn holder_of_any(&self, but: Option<PeerId>, member: &Member) -> Option<String> {
        let links = (0..).map(LinkId).zip(member.addresses);
        let at = |(link, address): (LinkId, Option<SocketAddr>)| {
            self.holder_of(link, address?.ip(), but)
        };
        if let Some(holder) = links.into_iter().find_map(at) {
            return Some(holder);
        }
        let inside = member.inside?.0;
        let is = |other: Option<(IpAddr, u8)>| other.is_some_and(|(address, _)| address == inside);
        if is(self.joining()?.inside) {
            return Some(self.context.config.name.clone());
        }
        let mut others = self.context.members.all();
        let holder = others
            .find(|(peer, other)| Some(*peer) != but && self.holds(*peer) && is(other.inside));
        holder.map(|(_, other)| other.name.as_str().to_owned())
    }

    /// Somebody tells of this node what it said before it restarted, or what it never said.
    fn on_own_past(&mut self, now: Time, member: &Member) {
        let is_late = self
            .gate
            .renewed_at
            .is_some_and(|at| now.since(at) < LOOK_EVERY);
        let Some(joining) = &mut self.context.members.config else {
            return;
        };
        if member.incarnation < joining.incarnation || is_late {
            return;
        }
        joining.incarnation = joining.incarnation.max(member.incarnation);
        if self.context.own_member().as_ref() != Some(member) {
            self.gate.renewed_at = Some(now);
            self.renew_member();
        }
    }

    fn on_leaving(&mut self, now: Time, from: PeerId, known: Option<PeerId>, member: Member) {
        match known {
            // The configuration names it: it will be back.
            Some(peer) if !self.is_guest(peer) => return,
            Some(peer) => self.part(now, peer, PartedWhy::Left),
            None if self.context.members.is_past(now, &member) => return,
            None => {}
        }
        if let Some(number) = self.context.members.part(now, member) {
            self.tell_all_neighbours(News::Left(number), Some(from));
        }
    }

    /// A guest is one no more.
    fn part(&mut self, now: Time, peer: PeerId, why: PartedWhy) {
        let Some(name) = self.peer_name(peer).and_then(|name| Name::new(name).ok()) else {
            return;
        };
        self.context.event(Event::Parted { peer, name, why });
        let code = match why {
            PartedWhy::Left | PartedWhy::Silent => CLOSE_REMOVED,
            PartedWhy::Taken => CLOSE_TAKEN,
        };
        self.end_peer(now, peer, code);
    }

    /// Notes who is there, and forgets guests that have not been for long.
    fn forget_silent(&mut self, now: Time) {
        let Some(forget_after) = self.joining().map(|joining| joining.forget_after) else {
            return;
        };
        let all: Vec<PeerId> = self.context.members.all().map(|(peer, _)| peer).collect();
        for peer in all {
            let mesh = &self.context.mesh;
            if mesh.near_bytes(peer).is_some() || mesh.has_way(now, peer) {
                self.context.members.was_seen(now, peer, 0);
            }
        }
        let members = &self.context.members;
        let forgotten_at = |(peer, came_at): (&PeerId, &Time)| match members.seen_at(*peer) {
            Some(seen_at) => (*peer, seen_at + forget_after),
            None => (*peer, *came_at + PEER_SILENT_MAX),
        };
        let due = self
            .guests
            .iter()
            .map(forgotten_at)
            .filter(|(_, at)| *at <= now);
        let due: Vec<PeerId> = due.map(|(peer, _)| peer).collect();
        for peer in due {
            self.part(now, peer, PartedWhy::Silent);
        }
    }

    /// The bundle to a peer, if there is one, is told something of a node.
    pub(super) fn owe(&mut self, neighbour: PeerId, news: News) {
        if let Some(bundle) = met(&mut self.peers, neighbour) {
            bundle.owe(news);
            self.turns.touch(neighbour);
        }
    }
}
