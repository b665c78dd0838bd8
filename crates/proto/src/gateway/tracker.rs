//! The conversations of the outside address: whose a packet is. At the gateway they belong to nodes, at a node to programs.
//!
//! A packet to a port with only one owner needs no entry, so a flood of first packets creates none; the owner's answer creates
//! one. A conversation that begins inside keeps its port, or gets another one if two owners would have the same.
//!
//! An owner at its limit first gives up conversations that are over, or that the far end has not confirmed: otherwise spoofed
//! connections would leave no room for real ones, and an owner with many short ones would wait for [`CLOSED_MAX`].

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

use super::greylist::Greylist;
use super::ports::{Family, Port, Ports, Transport};
use super::queue::LaneId;
use super::{Refused, Throttle};
use crate::Time;

/// A TCP connection is forgotten after this silence (as in Linux's conntrack).
const REST_MAX: Duration = Duration::from_secs(5 * 24 * 3600);
/// A TCP connection that was not answered is forgotten after this time (all repetitions of a SYN take 127 s).
const UNANSWERED_MAX: Duration = Duration::from_secs(130);
/// A TCP connection is forgotten after this time if one end has closed; next, if both have; then, if it was reset.
const HALF_CLOSED_MAX: Duration = Duration::from_secs(3600);
const CLOSED_MAX: Duration = Duration::from_secs(60);
const RESET_MAX: Duration = Duration::from_secs(2);
/// A restarted owner confirms what it has within this time: programs' supervisors look for the next daemon every second.
const DOUBT_MAX: Duration = Duration::from_secs(5);
/// Other conversations: answered and not.
const SPOKEN_MAX: Duration = Duration::from_secs(180);
const SAID_MAX: Duration = Duration::from_secs(30);
/// Interval of checking for conversations that are over; next, the most that are checked at once.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_AT_MAX: usize = 1024;
/// Number of ports tried for a conversation that may share one: an owner with many to one far end must not make others wait for a
/// full search.
const LENT_TRIES: usize = 64;
/// The lane of packets without a known conversation.
const LANE_OF_OTHERS: LaneId = 0;

/// Both ends of a conversation, as the cluster sees them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ends {
    /// Their protocol.
    pub transport: Transport,
    /// The port here, of the outside address of the other end's family.
    pub own: u16,
    /// The other end; of an echo without a port.
    pub far: SocketAddr,
}

impl Ends {
    /// The port here.
    pub const fn port(&self) -> Port {
        Port {
            transport: self.transport,
            family: if self.far.is_ipv4() {
                Family::V4
            } else {
                Family::V6
            },
            number: self.own,
        }
    }
}

/// The flags of a TCP header that matter for the connection's state; empty for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are the header's")]
pub struct Flags {
    /// It begins.
    pub syn: bool,
    /// It answers.
    pub ack: bool,
    /// One end closes.
    pub fin: bool,
    /// It is reset.
    pub rst: bool,
}

/// The relevant headers of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Its ends.
    pub ends: Ends,
    /// Its flags.
    pub flags: Flags,
}

impl Head {
    /// Whether it asks for a connection.
    const fn begins(&self) -> bool {
        match self.ends.transport {
            Transport::Tcp => self.flags.syn && !self.flags.ack && !self.flags.rst,
            Transport::Udp | Transport::Echo => true,
        }
    }

    /// Whether only an end of an existing connection sends this.
    const fn confirms(&self) -> bool {
        match self.ends.transport {
            Transport::Tcp => self.flags.ack && !self.flags.syn && !self.flags.rst,
            Transport::Udp | Transport::Echo => true,
        }
    }
}

/// Whom something from outside is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inward<O> {
    /// For this one, at this port of its.
    To(O, u16),
    /// For the one of these that knows the conversation.
    Perhaps(Vec<O>),
    /// Nobody here has the port.
    Unclaimed,
    /// It has an owner, who is not there now.
    Away,
    /// Too many connections begin that nobody confirms, and this may be one of them: it is lost.
    Greylisted,
}

/// What happens to an outgoing packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outward {
    /// It goes, from this port of the outside address, and waits in this lane.
    Goes(u16, LaneId),
    /// It begins a conversation. [`open`](Tracker::open) it, from this port if possible.
    Opens(Option<u16>),
    /// It belongs to no conversation, and begins none.
    Stray,
    /// Its owner has as many as one may have.
    Full,
}

/// A conversation.
#[derive(Debug)]
pub struct Conversation<O> {
    /// Its owner, and its port there.
    pub owner: O,
    /// The port that the owner's end has there.
    pub inner: u16,
    /// The lane of its outgoing packets.
    pub lane: LaneId,
    /// Limits both ends, once their window shifts are known.
    pub throttle: Option<Throttle>,
    /// It counts as one of the port's.
    is_counted: bool,
    /// The port is there for it, and others that began inside.
    begun_inside: bool,
    /// Its owner has the port in any case, and its protocol has no beginning: the entry can be dropped without loss.
    is_spare: bool,
    /// The owner has said something.
    spoken: bool,
    answered: bool,
    closed_inside: bool,
    closed_outside: bool,
    reset: bool,
    seen_at: Time,
    /// Its owner may not know it any more; since when.
    doubted_at: Option<Time>,
    /// Its index among those that are dropped first.
    fades: Option<u64>,
}

impl<O> Conversation<O> {
    fn rest_max(&self, transport: Transport) -> Duration {
        match transport {
            Transport::Tcp if self.reset => RESET_MAX,
            Transport::Tcp if self.closed_inside && self.closed_outside => CLOSED_MAX,
            Transport::Tcp if self.closed_inside || self.closed_outside => HALF_CLOSED_MAX,
            Transport::Tcp if !self.answered => UNANSWERED_MAX,
            Transport::Tcp => REST_MAX,
            Transport::Udp | Transport::Echo if self.answered => SPOKEN_MAX,
            Transport::Udp | Transport::Echo => SAID_MAX,
        }
    }

    /// Tracks a packet. Returns whether it has become droppable, or has ceased to be.
    fn note(&mut self, now: Time, head: Head, from_inside: bool) -> bool {
        self.seen_at = now;
        self.reset |= head.flags.rst;
        if from_inside {
            self.doubted_at = None;
            self.spoken = true;
            self.closed_inside |= head.flags.fin;
        } else {
            // Whoever spoofs another host's address does not see what it would have to confirm.
            self.answered |= self.begun_inside || self.spoken && head.confirms();
            self.closed_outside |= head.flags.fin;
        }
        self.may_go() != self.fades.is_some()
    }

    /// Whether it goes before others when its owner has as many as one may have.
    const fn may_go(&self) -> bool {
        let is_closed = self.closed_inside && self.closed_outside;
        self.reset || is_closed || !self.answered || self.is_spare
    }
}

/// All ports and conversations.
#[derive(Debug)]
pub struct Tracker<O> {
    /// Who has which port.
    pub ports: Ports<O>,
    conversations: BTreeMap<Ends, Conversation<O>>,
    /// Outside ports of conversations that have another one inside: by owner and inside ends.
    translated: BTreeMap<(O, Ends), u16>,
    counts: BTreeMap<O, usize>,
    per_owner_max: usize,
    /// For each port that nobody has claimed, the number of conversations that began inside.
    lent: BTreeMap<Port, u32>,
    /// Ports of these that are free again.
    freed: VecDeque<Port>,
    /// Each owner's conversations that are dropped first when there is no room, the longest droppable first.
    fading: BTreeMap<(O, u64), Ends>,
    faded: u64,
    /// At a gateway: of who begins connections from outside.
    greylist: Option<Greylist>,
    /// Conversations that are over, and their lanes.
    over: VecDeque<(Ends, LaneId)>,
    lanes: LaneId,
    /// Owners that have restarted, and when.
    doubted: BTreeMap<O, Time>,
    look_at: Time,
    /// Where to continue the search.
    looked_until: Option<Ends>,
}

impl<O: Copy + Ord> Tracker<O> {
    /// With at most this many ports and conversations for each owner.
    pub const fn new(ports_max: usize, conversations_max: usize) -> Tracker<O> {
        Tracker {
            ports: Ports::new(ports_max),
            conversations: BTreeMap::new(),
            translated: BTreeMap::new(),
            counts: BTreeMap::new(),
            per_owner_max: conversations_max,
            lent: BTreeMap::new(),
            freed: VecDeque::new(),
            fading: BTreeMap::new(),
            faded: 0,
            greylist: None,
            over: VecDeque::new(),
            lanes: LANE_OF_OTHERS,
            doubted: BTreeMap::new(),
            look_at: Time::ZERO,
            looked_until: None,
        }
    }

    /// Strangers who begin connections and do not confirm them have a bound here.
    #[must_use]
    pub fn with_greylist(self) -> Tracker<O> {
        Tracker {
            greylist: Some(Greylist::default()),
            ..self
        }
    }

    /// Changes the limits for one owner. An owner that has more keeps them.
    pub const fn set_limits(&mut self, ports_max: usize, conversations_max: usize) {
        self.ports.set_per_owner_max(ports_max);
        self.per_owner_max = conversations_max;
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.conversations.len()
    }

    /// How many are of this owner.
    pub fn count_of(&self, owner: O) -> usize {
        self.counts.get(&owner).copied().unwrap_or_default()
    }

    /// All of them, by their ends outside.
    pub fn all(&self) -> impl Iterator<Item = (Ends, &Conversation<O>)> {
        self.conversations.iter().map(|(ends, one)| (*ends, one))
    }

    /// The one between these ends.
    pub fn get_mut(&mut self, ends: Ends) -> Option<&mut Conversation<O>> {
        self.conversations.get_mut(&ends)
    }

    /// The outside port of an owner's conversation with these inside ends; `None`: it is the inside port.
    pub fn outer_of(&self, owner: O, inside: Ends) -> Option<u16> {
        let translated = self.translated.get(&(owner, inside)).copied();
        let outer = translated.unwrap_or(inside.own);
        let known = self.conversations.get(&Ends {
            own: outer,
            ..inside
        });
        let is_its = match known {
            Some(known) => known.owner == owner,
            None => self.ports.is_held_by(owner, inside.port()),
        };
        is_its.then_some(outer)
    }

    /// Whose something between these ends is, and the port that it has there.
    pub fn inner_of(&self, outside: Ends) -> Option<(O, u16)> {
        if let Some(known) = self.conversations.get(&outside) {
            return Some((known.owner, known.inner));
        }
        let (owner, is_choice) = self.ports.choose(outside.port(), |_| true)?;
        (!is_choice).then_some((owner, outside.own))
    }

    /// Something came from outside.
    pub fn inward(&mut self, now: Time, head: Head, is_there: impl Fn(O) -> bool) -> Inward<O> {
        let ends = head.ends;
        if let Some(known) = self.conversations.get_mut(&ends) {
            // An end that begins again has forgotten the former conversation.
            let is_anew = known.reset || known.closed_inside && known.closed_outside;
            if !(is_anew && head.begins()) {
                let to = Inward::To(known.owner, known.inner);
                let was_answered = known.answered;
                let is_moved = known.note(now, head, false);
                let is_confirmed = known.answered && !was_answered;
                if is_moved {
                    self.sort(ends);
                }
                if is_confirmed {
                    self.has_confirmed(now, ends);
                }
                return to;
            }
            self.forget(ends);
        }
        let port = ends.port();
        let Some((owner, is_choice)) = self.ports.choose(port, &is_there) else {
            return match self.ports.is_held(port) {
                true => Inward::Away,
                false => Inward::Unclaimed,
            };
        };
        let is_tcp = ends.transport == Transport::Tcp;
        if is_tcp
            && head.begins()
            && let Some(greylist) = &mut self.greylist
            && !greylist.admits(now, ends)
        {
            return Inward::Greylisted;
        }
        if !is_choice {
            return Inward::To(owner, ends.own);
        }
        if is_tcp && !head.begins() {
            return Inward::Perhaps(self.ports.holders(port).collect());
        }
        // If there is a choice of owners, it must stay the same.
        if self.insert(now, owner, ends, ends.own, false).is_ok() {
            return Inward::To(owner, ends.own);
        }
        Inward::Away
    }

    /// Something goes outside, of this owner, from the port that it has there.
    pub fn outward(&mut self, now: Time, owner: O, head: Head) -> Outward {
        let inside = head.ends;
        let translated = self.translated.get(&(owner, inside)).copied();
        let outside = Ends {
            own: translated.unwrap_or(inside.own),
            ..inside
        };
        let known = self.conversations.get_mut(&outside);
        let is_taken = known.is_some();
        if let Some(known) = known
            && known.owner == owner
            && known.inner == inside.own
        {
            let lane = known.lane;
            if known.note(now, head, true) {
                self.sort(outside);
            }
            return Outward::Goes(outside.own, lane);
        }
        let port = inside.port();
        if self.ports.is_held_by(owner, port) && !is_taken {
            if !head.confirms() && !head.begins() {
                return Outward::Goes(inside.own, LANE_OF_OTHERS);
            }
            let Ok(lane) = self.insert(now, owner, inside, inside.own, head.begins()) else {
                return Outward::Full;
            };
            if let Some(known) = self.conversations.get_mut(&inside) {
                known.spoken = true;
            }
            return Outward::Goes(inside.own, lane);
        }
        if !head.begins() {
            return Outward::Stray;
        }
        if !self.has_room(owner) {
            return Outward::Full;
        }
        let is_free = !is_taken && !self.ports.is_held(port);
        Outward::Opens(is_free.then_some(inside.own))
    }

    /// A conversation begins that goes outside from the port `outer`, which is there for it.
    ///
    /// # Errors
    /// The owner has as many as one may have, or the port is in use between these ends.
    pub fn open(
        &mut self,
        now: Time,
        owner: O,
        inside: Ends,
        outer: u16,
    ) -> Result<LaneId, Refused> {
        let outside = Ends {
            own: outer,
            ..inside
        };
        if self.conversations.contains_key(&outside) {
            return Err(Refused::InUse);
        }
        let lane = self.insert(now, owner, outside, inside.own, true)?;
        if outer != inside.own {
            self.translated.insert((owner, inside), outer);
        }
        *self.lent.entry(outside.port()).or_default() += 1;
        Ok(lane)
    }

    /// Whether a packet that begins nothing may belong to a connection that is no longer known here: only an end of one sends it,
    /// and neither it nor its port has an owner.
    pub fn may_go_on(&self, head: Head) -> bool {
        head.ends.transport == Transport::Tcp
            && head.confirms()
            && !self.conversations.contains_key(&head.ends)
            && !self.ports.is_held(head.ends.port())
    }

    /// One that stands already, and was begun inside or by the far end. `is_proven`: both ends know it; else it is over soon unless the
    /// far end says something. As [`Tracker::open`].
    ///
    /// # Errors
    /// As [`Tracker::open`].
    pub fn adopt(
        &mut self,
        now: Time,
        owner: O,
        outside: Ends,
        inner: u16,
        (begun_inside, is_proven): (bool, bool),
    ) -> Result<(), Refused> {
        if begun_inside {
            let inside = Ends {
                own: inner,
                ..outside
            };
            self.open(now, owner, inside, outside.own)?;
        } else {
            self.insert(now, owner, outside, inner, false)?;
        }
        if let Some(known) = self.conversations.get_mut(&outside) {
            known.answered = is_proven;
        }
        if is_proven {
            self.has_confirmed(now, outside);
        }
        self.sort(outside);
        Ok(())
    }

    /// A port for it that is lent already, and is free between these ends: another one need not be had.
    pub fn lent_port(&self, inside: Ends) -> Option<u16> {
        let wanted = inside.port();
        let of = |number| Port { number, ..wanted };
        let above = self.lent.range(wanted..=of(u16::MAX));
        let all = above.chain(self.lent.range(of(0)..wanted));
        let mut ports = all.take(LENT_TRIES).map(|(port, _)| port.number);
        let is_free = |own: &u16| {
            !self.conversations.contains_key(&Ends {
                own: *own,
                ..inside
            })
        };
        ports.find(is_free)
    }

    /// Whether the port is lent to conversations that began inside.
    pub fn is_lent(&self, port: Port) -> bool {
        self.lent.contains_key(&port)
    }

    /// Whether the port is lent to another owner's conversation.
    pub fn is_lent_to_others(&self, owner: O, port: Port) -> bool {
        let first = Ends {
            transport: port.transport,
            own: port.number,
            far: (Ipv4Addr::UNSPECIFIED, 0).into(),
        };
        let is_at_port = |ends: &Ends| (ends.transport, ends.own) == (first.transport, first.own);
        self.is_lent(port)
            && self
                .conversations
                .range(first..)
                .take_while(|(ends, _)| is_at_port(ends))
                .any(|(ends, one)| ends.port() == port && one.begun_inside && one.owner != owner)
    }

    fn insert(
        &mut self,
        now: Time,
        owner: O,
        ends: Ends,
        inner: u16,
        begun_inside: bool,
    ) -> Result<LaneId, Refused> {
        self.make_room(owner)?;
        *self.counts.entry(owner).or_default() += 1;
        self.lanes = self.lanes.wrapping_add(1).max(LANE_OF_OTHERS + 1);
        let is_at_own_port = self.ports.is_held_by(owner, ends.port());
        let is_counted = !begun_inside && is_at_own_port;
        if is_counted {
            self.ports.begins(owner, ends.port());
        }
        let conversation = Conversation {
            owner,
            inner,
            lane: self.lanes,
            throttle: None,
            is_counted,
            begun_inside,
            is_spare: is_at_own_port && ends.transport != Transport::Tcp,
            spoken: false,
            answered: false,
            closed_inside: false,
            closed_outside: false,
            reset: false,
            seen_at: now,
            doubted_at: None,
            fades: None,
        };
        self.conversations.insert(ends, conversation);
        self.sort(ends);
        Ok(self.lanes)
    }

    /// The far end of a conversation hears what is sent to it: it is no flood.
    fn has_confirmed(&mut self, now: Time, ends: Ends) {
        if let Some(greylist) = &mut self.greylist
            && ends.transport == Transport::Tcp
        {
            greylist.is_true(now, ends.far.ip());
        }
    }

    fn first_fading(&self, owner: O) -> Option<Ends> {
        let of_owner = self.fading.range((owner, 0)..=(owner, u64::MAX));
        of_owner.map(|(_, ends)| *ends).next()
    }

    fn has_room(&self, owner: O) -> bool {
        self.count_of(owner) < self.per_owner_max || self.first_fading(owner).is_some()
    }

    /// Has an owner have room for one more.
    fn make_room(&mut self, owner: O) -> Result<(), Refused> {
        if self.count_of(owner) >= self.per_owner_max {
            let first = self.first_fading(owner).ok_or(Refused::TooMany)?;
            self.forget(first);
        }
        Ok(())
    }

    /// Updates whether a conversation is among those that are dropped first.
    fn sort(&mut self, ends: Ends) {
        let Some(known) = self.conversations.get_mut(&ends) else {
            return;
        };
        match (known.may_go(), known.fades) {
            (true, None) => {
                self.faded += 1;
                known.fades = Some(self.faded);
                self.fading.insert((known.owner, self.faded), ends);
            }
            (false, Some(place)) => {
                known.fades = None;
                self.fading.remove(&(known.owner, place));
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Forgets one. Returns its lane.
    pub fn forget(&mut self, ends: Ends) -> Option<LaneId> {
        let gone = self.conversations.remove(&ends)?;
        let owner = gone.owner;
        if let Some(place) = gone.fades {
            self.fading.remove(&(owner, place));
        }
        if let Some(count) = self.counts.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&owner);
            }
        }
        if gone.is_counted {
            self.ports.ends(owner, ends.port());
        }
        let inside = Ends {
            own: gone.inner,
            ..ends
        };
        self.translated.remove(&(owner, inside));
        if let Some(lent) = self
            .lent
            .get_mut(&ends.port())
            .filter(|_| gone.begun_inside)
        {
            *lent -= 1;
            if *lent == 0 {
                self.lent.remove(&ends.port());
                self.freed.push_back(ends.port());
            }
        }
        self.over.push_back((ends, gone.lane));
        Some(gone.lane)
    }

    /// An owner is gone, with all that it had. Returns the ports that nobody has claimed any more.
    pub fn forget_owner(&mut self, owner: O) -> Vec<Port> {
        let of_owner = self
            .conversations
            .iter()
            .filter(|(_, one)| one.owner == owner);
        let ends: Vec<_> = of_owner.map(|(ends, _)| *ends).collect();
        for ends in ends {
            self.forget(ends);
        }
        self.ports.forget(owner)
    }

    /// An owner has restarted, or is gone: ports and conversations that it does not confirm soon are dropped.
    pub fn doubt_owner(&mut self, now: Time, owner: O) {
        let all = self.conversations.values_mut();
        for one in all.filter(|one| one.owner == owner) {
            one.doubted_at.get_or_insert(now);
        }
        self.ports.doubt(owner);
        self.doubted.insert(owner, now);
    }

    /// Frees the ports of owners whose time to confirm them is over.
    fn free_doubted(&mut self, now: Time) {
        let is_over = |since: &Time| now.since(*since) > DOUBT_MAX;
        let over = self.doubted.iter().filter(|(_, since)| is_over(since));
        let over: Vec<O> = over.map(|(owner, _)| *owner).collect();
        self.doubted.retain(|_, since| !is_over(since));
        for owner in over {
            self.freed.extend(self.ports.forget_doubted(owner));
        }
    }

    /// Forgets, now and then, conversations that were silent for too long.
    pub fn look(&mut self, now: Time) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        self.free_doubted(now);
        let from = self.looked_until.take();
        let range = match from {
            Some(from) => self.conversations.range(from..),
            None => self.conversations.range(..),
        };
        let mut silent = Vec::new();
        for (count, (ends, one)) in range.enumerate() {
            if count == LOOK_AT_MAX {
                self.looked_until = Some(*ends);
                break;
            }
            let is_doubted = one.doubted_at.is_some_and(|at| now.since(at) > DOUBT_MAX);
            if is_doubted || now.since(one.seen_at) > one.rest_max(ends.transport) {
                silent.push(*ends);
            }
        }
        for ends in silent {
            self.forget(ends);
        }
    }

    /// When [`Tracker::look`] has something to look at.
    pub fn next_look(&self) -> Option<Time> {
        (!self.conversations.is_empty()).then_some(self.look_at)
    }

    /// A port that was lent, and is free again.
    pub fn poll_freed(&mut self) -> Option<Port> {
        self.freed.pop_front()
    }

    /// A conversation that is over, and its lane.
    pub fn poll_over(&mut self) -> Option<(Ends, LaneId)> {
        self.over.pop_front()
    }
}

#[cfg(test)]
mod tests;
