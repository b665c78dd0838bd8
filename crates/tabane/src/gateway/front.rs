//! The gateway's work while it serves: owners of packets from outside, and what goes outside when. Pure except for its [`Host`].

use core::ops::Range;
use std::collections::VecDeque;
use std::net::IpAddr;

use tabane_io::capture::Unreachable;
use tabane_proto::gateway::{
    Claim, Command, Ends, FairQueue, Head, Inflow, Inward, LaneId, Outward, Parcel, Port, Refused,
    Shifts, Throttle, Tracker, Transport,
};
use tabane_proto::{PeerId, Time};

use super::begun::Begun;
use super::fragments::Fragments;
use super::packet::{Cuts, End, Seen, Segment, What, does_not_arrive};
use crate::vswitch::VNET_HDR_BYTES;

/// The most packets from nodes to the outside address itself that wait to be passed on.
const TURNED_MAX: usize = 1024;
/// The lane of packets without a conversation.
const LANE_OF_OTHERS: LaneId = 0;

/// Whose a port or a conversation is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// Of programs of this node.
    Here,
    /// Another node's programs.
    Peer(PeerId),
}

/// The machine's part in the gateway.
pub trait Host {
    /// Reserves a port on this machine; number 0 means any free one. Returns the number.
    ///
    /// # Errors
    /// A program of the machine has it, or no socket can be made.
    fn hold(&mut self, port: Port) -> Result<u16, Refused>;

    /// It is everybody's again.
    fn let_go(&mut self, port: Port);

    /// Whether the programs of an owner can be reached.
    fn is_there(&self, owner: Owner) -> bool;
}

/// Whom a packet from outside is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum For {
    /// This one.
    Owner(Owner),
    /// Whichever of these knows its conversation.
    Perhaps(Vec<Owner>),
    /// The machine's own kernel: if nobody has the port, it says so.
    Kernel,
    /// Nobody.
    Nobody,
}

/// Packets that went nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// From outside, in the name of a node.
    pub spoofed: u64,
    /// From a node, in another name than the cluster's, or from a port that is not its own.
    pub lies: u64,
    /// From outside: connections begin that nobody confirms, too many, and this may be one of them.
    pub greylisted: u64,
    /// A node had as many conversations as it may.
    pub full: u64,
    /// There was no room for it in front of the line.
    pub queue_full: u64,
    /// A node wanted a port, and has as many as one may have. (No packet.)
    pub ports_full: u64,
}

/// A packet that waits for the line.
#[derive(Debug)]
pub struct Waiting {
    /// A `virtio_net_hdr` and IP.
    pub frame: Vec<u8>,
    /// If it is longer than packets of the wire.
    pub cuts: Option<Cuts>,
    /// How much of its content has left.
    pub sent: usize,
    /// Whom it is for.
    pub to: IpAddr,
    ends: Option<Ends>,
    /// Behind the last byte of TCP that it carries.
    end: Option<u32>,
    /// The far end may send more when it has this; that went so far before.
    goes_on: Option<u32>,
}

impl Waiting {
    /// Its content, or all of it if it is not to be cut.
    fn content_bytes(&self) -> usize {
        match &self.cuts {
            Some(cuts) => cuts.content_bytes(&self.frame),
            None => self.frame.len() - VNET_HDR_BYTES,
        }
    }
}

impl Waiting {
    /// The next piece, of at most `most` bytes: its content's range in the frame, its headers, and its number of packets on the
    /// wire.
    pub fn next_piece(&self, most: usize, headers: &mut Vec<u8>) -> (Range<usize>, usize) {
        let Some(cuts) = &self.cuts else {
            headers.clear();
            headers.extend_from_slice(&self.frame[..VNET_HDR_BYTES]);
            return (VNET_HDR_BYTES..self.frame.len(), 1);
        };
        let bytes = cuts.piece_bytes(self.bytes(), most);
        cuts.write_headers(&self.frame, self.sent, bytes, headers);
        let from = VNET_HDR_BYTES + cuts.header_bytes() + self.sent;
        (from..from + bytes, cuts.count(bytes))
    }
}

impl Parcel for Waiting {
    fn bytes(&self) -> usize {
        self.content_bytes() - self.sent
    }
}

/// The serving gateway.
#[derive(Debug)]
pub struct Front {
    is_fair: bool,
    addresses: Vec<IpAddr>,
    tracker: Tracker<Owner>,
    queue: FairQueue<Waiting>,
    arriving: Fragments<Owner>,
    leaving: Fragments<LaneId>,
    begun: Begun,
    inflow: Inflow,
    /// Conversations with different ports outside and at their node, to be reported.
    translated: VecDeque<(Owner, Ends, u16)>,
    /// Packets from nodes to the outside address itself, and their receivers.
    turned: VecDeque<(Owner, Vec<u8>)>,
    /// Packets lost here.
    pub dropped: Dropped,
}

impl Front {
    /// For these addresses, with at most this many ports and conversations of each node. `is_fair`: packets queue here and take
    /// turns, and senders are held back; otherwise they queue in the device.
    pub fn new(
        addresses: &[IpAddr],
        ports_max: usize,
        conversations_max: usize,
        is_fair: bool,
    ) -> Front {
        Front {
            is_fair,
            addresses: addresses.to_vec(),
            tracker: Tracker::new(ports_max, conversations_max).with_greylist(),
            queue: FairQueue::default(),
            arriving: Fragments::default(),
            leaving: Fragments::default(),
            begun: Begun::default(),
            inflow: Inflow::default(),
            translated: VecDeque::new(),
            turned: VecDeque::new(),
            dropped: Dropped::default(),
        }
    }

    /// Changes the kind of queue, and each node's limits. Existing entries stay.
    pub const fn change(&mut self, is_fair: bool, (ports_max, conversations_max): (usize, usize)) {
        self.is_fair = is_fair;
        self.tracker.set_limits(ports_max, conversations_max);
    }

    /// A node says what its program is called that has a port.
    pub fn name(&mut self, owner: Owner, port: Port, command: Command) {
        self.tracker.ports.name(owner, port, command);
    }

    /// Its program's name, if it was reported.
    pub fn command_of(&self, owner: Owner, port: Port) -> Option<Command> {
        self.tracker.ports.command_of(owner, port)
    }

    /// A node wants a port for a program, once or again. The port's number.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn claim(
        &mut self,
        host: &mut impl Host,
        owner: Owner,
        port: Port,
        claim: Claim,
    ) -> Result<u16, Refused> {
        if port.number == 0 {
            let number = host.hold(port)?;
            let port = Port { number, ..port };
            let claimed = self.give(owner, port, claim);
            if claimed.is_err() || owner == Owner::Here {
                host.let_go(port);
            }
            return claimed.map(|_| number);
        }
        if self.tracker.ports.is_held_by(owner, port) {
            // A node that claims it again does not know whether it was heard, or has restarted.
            self.tracker.ports.confirm(owner, port);
            return Ok(port.number);
        }
        if self.tracker.is_lent(port) && !self.tracker.ports.is_held(port) {
            return Err(Refused::InUse);
        }
        self.take(host, owner, port, claim)
    }

    /// A node had a port from an earlier gateway. Its programs' traffic since may have been adopted meanwhile as if it had begun
    /// inside: that does not take the port from it.
    pub fn has(&mut self, host: &mut impl Host, owner: Owner, port: Port, claim: Claim) {
        if self.tracker.ports.is_held_by(owner, port) {
            self.tracker.ports.confirm(owner, port);
        } else if !self.tracker.is_lent_to_others(owner, port) {
            // One that is refused has lost it.
            let _ = self.take(host, owner, port, claim);
        }
    }

    fn give(&mut self, owner: Owner, port: Port, claim: Claim) -> Result<bool, Refused> {
        let given = self.tracker.ports.claim(owner, port, claim);
        self.dropped.ports_full += u64::from(given == Err(Refused::TooMany));
        given
    }

    fn take(
        &mut self,
        host: &mut impl Host,
        owner: Owner,
        port: Port,
        claim: Claim,
    ) -> Result<u16, Refused> {
        let is_new = self.give(owner, port, claim)?;
        if owner == Owner::Here {
            // The agent has its own socket there, by which plain programs elsewhere reach it.
            host.let_go(port);
        } else if is_new
            && !self.tracker.is_lent(port)
            && let Err(refused) = host.hold(port)
        {
            self.tracker.ports.release(owner, port);
            return Err(refused);
        }
        Ok(port.number)
    }

    /// A node gives one back.
    pub fn release(&mut self, host: &mut impl Host, owner: Owner, port: Port) {
        if self.tracker.ports.release(owner, port) && !self.tracker.is_lent(port) {
            host.let_go(port);
        }
    }

    /// The owner for the next connection to a port.
    pub fn whose(&self, host: &impl Host, port: Port) -> Option<Owner> {
        let chosen = self
            .tracker
            .ports
            .choose(port, |owner| host.is_there(owner));
        chosen.map(|(owner, _)| owner)
    }

    /// Bytes that wait for the line.
    pub const fn queued_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// A node has restarted, or is gone: it loses its ports, and conversations that it does not confirm soon are dropped.
    pub fn doubt(&mut self, now: Time, host: &mut impl Host, owner: Owner) {
        self.tracker.doubt_owner(now, owner);
        self.clean_up(host);
    }

    /// A conversation of a node's is over.
    pub fn is_over(&mut self, host: &mut impl Host, owner: Owner, inside: Ends) {
        if let Some(outer) = self.tracker.outer_of(owner, inside) {
            self.tracker.forget(Ends {
                own: outer,
                ..inside
            });
        }
        self.clean_up(host);
    }

    /// A conversation exists that this gateway has not seen begin.
    pub fn stands(
        &mut self,
        now: Time,
        host: &mut impl Host,
        owner: Owner,
        (inside, outer): (Ends, u16),
        shifts: Option<Shifts>,
    ) {
        let outside = Ends {
            own: outer,
            ..inside
        };
        if let Some(known) = self.tracker.get_mut(outside) {
            if known.throttle.is_none() && known.owner == owner {
                known.throttle = shifts.map(Throttle::new);
            }
            return;
        }
        let port = outside.port();
        let is_claimed = self.tracker.ports.is_held_by(owner, port);
        let is_had = is_claimed
            || self.tracker.is_lent(port)
            || is_portless(port)
            || host.hold(port).is_ok();
        if is_had
            && self
                .tracker
                .adopt(now, owner, outside, inside.own, (!is_claimed, true))
                .is_ok()
            && let Some(known) = self.tracker.get_mut(outside)
        {
            known.throttle = shifts.map(Throttle::new);
        }
    }

    /// Something came from outside. It may be changed. `is_of_nodes`: whether an address is of a node's inside.
    pub fn arrives(
        &mut self,
        now: Time,
        host: &impl Host,
        frame: &mut [u8],
        is_of_nodes: impl Fn(IpAddr) -> bool,
    ) -> For {
        let Some(seen) = Seen::of(frame).filter(|seen| self.addresses.contains(&seen.to)) else {
            return For::Nobody;
        };
        if is_of_nodes(seen.from) || self.addresses.contains(&seen.from) {
            self.dropped.spoofed += 1;
            return For::Nobody;
        }
        match seen.what {
            What::Said => self.is_said(now, host, &seen, frame),
            What::Error => match self.tracker.inner_of(seen.head(End::Destination).ends) {
                Some((owner, inner)) => {
                    seen.set_own_port(frame, End::Destination, inner);
                    For::Owner(owner)
                }
                None => For::Kernel,
            },
            What::Fragment => self.arriving.find(&seen).map_or(For::Kernel, For::Owner),
            What::Other => For::Kernel,
        }
    }

    fn is_said(&mut self, now: Time, host: &impl Host, seen: &Seen, frame: &mut [u8]) -> For {
        let head = seen.head(End::Destination);
        let segment = Segment::of(frame, seen);
        match self.tracker.inward(now, head, |owner| host.is_there(owner)) {
            Inward::To(owner, inner) => {
                if let Some(segment) = segment {
                    self.hold_back(now, head.ends, &segment, frame);
                }
                if inner != head.ends.own {
                    seen.set_own_port(frame, End::Destination, inner);
                }
                self.arriving.note(seen, owner);
                For::Owner(owner)
            }
            Inward::Perhaps(owners) => For::Perhaps(owners),
            Inward::Unclaimed => For::Kernel,
            Inward::Away => For::Nobody,
            Inward::Greylisted => {
                self.dropped.greylisted += 1;
                For::Nobody
            }
        }
    }

    /// Keeps the sender, whose bytes this segment of the far end acknowledges, from going too far ahead of the line.
    fn hold_back(&mut self, now: Time, ends: Ends, segment: &Segment, frame: &mut [u8]) {
        if !self.is_fair {
            return;
        }
        let room_bytes = self.queue.room_bytes();
        if let Some(scale) = segment.scale {
            // The window of a SYN is not shifted yet.
            return (self.begun).hear(&mut self.tracker, ends, End::Destination, scale);
        }
        let known = self.tracker.get_mut(ends);
        let Some(throttle) = known.and_then(|known| known.throttle.as_mut()) else {
            return;
        };
        if segment.content_bytes > 0 {
            let (host, inflow) = (ends.far.ip(), &mut self.inflow);
            (throttle.intake).has_come(now, inflow, host, segment.end, segment.content_bytes);
        }
        let window = (throttle.brake).window(segment.acknowledged, segment.window, room_bytes);
        if window != segment.window {
            segment.set_window(frame, window);
        }
    }

    /// A node sends a packet outside. It waits for the line, or is dropped and counted.
    pub fn leaves(&mut self, now: Time, host: &mut impl Host, owner: Owner, mut frame: Vec<u8>) {
        let seen = Seen::of(&frame).filter(|seen| self.addresses.contains(&seen.from));
        let Some(seen) = seen else {
            self.dropped.lies += 1;
            return;
        };
        let (lane, ends) = match seen.what {
            What::Said => match self.says(now, host, owner, &seen, &mut frame) {
                Some((lane, ends)) => (Some(lane), Some(ends)),
                None => return,
            },
            What::Error => {
                let outer = self.tracker.outer_of(owner, seen.head(End::Source).ends);
                if let Some(outer) = outer {
                    seen.set_own_port(&mut frame, End::Source, outer);
                }
                (outer.map(|_| LANE_OF_OTHERS), None)
            }
            What::Fragment => (self.leaving.find(&seen), None),
            What::Other => (None, None),
        };
        let Some(lane) = lane else {
            self.dropped.lies += 1;
            return;
        };
        if self.addresses.contains(&seen.to) {
            return self.turn_back(now, host, owner, frame);
        }
        let segment = Segment::of(&frame, &seen);
        let goes_on = (segment.as_ref().zip(ends))
            .and_then(|(segment, ends)| self.hold_far_end_back(now, ends, segment, &mut frame));
        let waiting = Waiting {
            cuts: Cuts::of(&frame),
            sent: 0,
            to: seen.to,
            end: segment.map(|segment| segment.end),
            goes_on,
            ends,
            frame,
        };
        let dropped = self.queue.dropped();
        let lane = if self.is_fair { lane } else { LANE_OF_OTHERS };
        self.queue.push(now, lane, waiting);
        self.dropped.queue_full += self.queue.dropped() - dropped;
    }

    /// Limits the far end, whose bytes this segment acknowledges, to its share of the line. If its window advances, returns where
    /// it ended before.
    fn hold_far_end_back(
        &mut self,
        now: Time,
        ends: Ends,
        segment: &Segment,
        frame: &mut [u8],
    ) -> Option<u32> {
        if !self.is_fair {
            return None;
        }
        if let Some(scale) = segment.scale {
            (self.begun).hear(&mut self.tracker, ends, End::Source, scale);
            return None;
        }
        let throttle = self.tracker.get_mut(ends)?.throttle.as_mut()?;
        let (host, acknowledged) = (ends.far.ip(), segment.acknowledged);
        let intake = &mut throttle.intake;
        let (window, goes_on) =
            intake.window(now, &self.inflow, host, acknowledged, segment.window);
        if window != segment.window {
            segment.set_window(frame, window);
        }
        goes_on
    }

    /// Packets of a node to the outside address itself go to the port's owner.
    fn turn_back(&mut self, now: Time, host: &impl Host, owner: Owner, mut frame: Vec<u8>) {
        let Some(seen) = Seen::of(&frame).filter(|seen| seen.what == What::Said) else {
            return;
        };
        if self.turned.len() >= TURNED_MAX {
            self.dropped.queue_full += 1;
            return;
        }
        match self.is_said(now, host, &seen, &mut frame) {
            For::Owner(other) => self.turned.push_back((other, frame)),
            For::Kernel => {
                let refused = does_not_arrive(&frame[VNET_HDR_BYTES..], Unreachable::Port);
                self.turned.extend(refused.map(|refused| (owner, refused)));
            }
            For::Perhaps(_) | For::Nobody => {}
        }
    }

    /// A packet of a node to the outside address itself, and its receiver.
    pub fn poll_turned(&mut self) -> Option<(Owner, Vec<u8>)> {
        self.turned.pop_front()
    }

    /// The lane of an outgoing packet, and its ends outside.
    fn says(
        &mut self,
        now: Time,
        host: &mut impl Host,
        owner: Owner,
        seen: &Seen,
        frame: &mut [u8],
    ) -> Option<(LaneId, Ends)> {
        let head = seen.head(End::Source);
        let (outer, lane) = match self.tracker.outward(now, owner, head) {
            Outward::Goes(outer, lane) => (outer, lane),
            Outward::Opens(wanted) => self.open(now, host, owner, head.ends, wanted)?,
            Outward::Stray => self.adopt(now, host, owner, head)?,
            Outward::Full => {
                self.dropped.full += 1;
                return None;
            }
        };
        // Conversations that were dropped to make room.
        self.clean_up(host);
        let outside = Ends {
            own: outer,
            ..head.ends
        };
        self.begun.hand_over(&mut self.tracker, outside);
        if outer != head.ends.own {
            seen.set_own_port(frame, End::Source, outer);
        }
        self.leaving.note(seen, lane);
        Some((lane, outside))
    }

    /// A packet that begins nothing, of an unknown conversation: after a restart of its node's daemon, or of this gateway's, a
    /// node continues its programs' connections. It could as well begin one from that port.
    fn adopt(
        &mut self,
        now: Time,
        host: &mut impl Host,
        owner: Owner,
        head: Head,
    ) -> Option<(u16, LaneId)> {
        let (ends, port) = (head.ends, head.ends.port());
        let is_free =
            self.tracker.may_go_on(head) && (self.tracker.is_lent(port) || host.hold(port).is_ok());
        let adopted = is_free
            && self
                .tracker
                .adopt(now, owner, ends, ends.own, (true, false))
                .is_ok();
        let lane = self.tracker.get_mut(ends).filter(|_| adopted);
        if lane.is_none() {
            self.dropped.lies += 1;
        }
        lane.map(|known| (ends.own, known.lane))
    }

    /// A conversation that begins inside: from the port it has there, from one that others have begun from, or from any.
    fn open(
        &mut self,
        now: Time,
        host: &mut impl Host,
        owner: Owner,
        inside: Ends,
        wanted: Option<u16>,
    ) -> Option<(u16, LaneId)> {
        let port = inside.port();
        let any = Port { number: 0, ..port };
        let own = wanted
            .filter(|_| self.tracker.is_lent(port) || is_portless(port) || host.hold(port).is_ok());
        let outer = own
            .or_else(|| self.tracker.lent_port(inside))
            .or_else(|| host.hold(any).ok());
        let Some(outer) = outer else {
            self.dropped.full += 1;
            return None;
        };
        match self.tracker.open(now, owner, inside, outer) {
            Ok(lane) => {
                if outer != inside.own {
                    self.translated.push_back((owner, inside, outer));
                }
                Some((outer, lane))
            }
            Err(_) => {
                self.dropped.full += 1;
                let port = Port {
                    number: outer,
                    ..port
                };
                if !self.tracker.is_lent(port) {
                    host.let_go(port);
                }
                None
            }
        }
    }

    /// Whose turn it is to send, and how much.
    pub fn turn(&mut self) -> Option<(LaneId, &mut Waiting, usize)> {
        self.queue.turn()
    }

    /// This many bytes from [`Front::turn`] have left: of content, or all. Returns the buffer when nothing is left.
    pub fn has_left(&mut self, now: Time, lane: LaneId, bytes: usize) -> Option<Vec<u8>> {
        let (_, waiting, _) = self.queue.turn()?;
        waiting.sent += bytes;
        let left = waiting.bytes() as u32;
        let passed = waiting.end.map(|end| end.wrapping_sub(left));
        let goes_on = waiting.goes_on.take();
        if let (Some(ends), Some(passed)) = (waiting.ends, passed)
            && let Some(known) = self.tracker.get_mut(ends)
            && let Some(throttle) = &mut known.throttle
        {
            throttle.brake.has_passed(passed);
            if let Some(before) = goes_on {
                throttle.intake.has_left(now, before);
            }
        }
        let done = self.queue.sent(now, lane, bytes)?;
        Some(done.frame)
    }

    /// Whether anything waits.
    pub fn waits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// A conversation with different ports outside and at its node, to be reported.
    pub fn poll_translated(&mut self) -> Option<(Owner, Ends, u16)> {
        self.translated.pop_front()
    }

    /// Forgets, now and then, conversations that were silent for too long.
    pub fn look(&mut self, now: Time, host: &mut impl Host) {
        self.tracker.look(now);
        self.clean_up(host);
    }

    fn clean_up(&mut self, host: &mut impl Host) {
        while let Some((ends, lane)) = self.tracker.poll_over() {
            self.begun.forget(ends);
            self.queue.forget(lane);
        }
        while let Some(port) = self.tracker.poll_freed() {
            // It may have been lent again since.
            let is_had = self.tracker.ports.is_held(port) || self.tracker.is_lent(port);
            if !is_had && !is_portless(port) {
                host.let_go(port);
            }
        }
    }

    /// How many conversations there are.
    pub fn conversations(&self) -> usize {
        self.tracker.count()
    }

    /// All claimed ports, their owners, and their numbers of connections.
    pub fn ports(&self) -> impl Iterator<Item = (Port, Owner, u32)> {
        self.tracker.ports.all()
    }
}

/// Whether no kernel gives this port to anybody: then it need not be reserved.
fn is_portless(port: Port) -> bool {
    port.transport == Transport::Echo
}

#[cfg(test)]
mod tests;
