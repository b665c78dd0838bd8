//! A node's side of the outside address: which of its programs a packet belongs to.
//!
//! A node whose daemon begins anew knows nothing of its programs' conversations. What their kernels go on to say is
//! adopted, here and at the gateway: the program could as well begin a conversation from that port. Such a port is in
//! doubt for 5 s, and lost only to another node that wants it.

use std::net::IpAddr;

use tabane_proto::Time;
use tabane_proto::gateway::{
    Claim, Conversation, Ends, Head, Inward, Outward, Port, Refused, Tracker, Transport,
};

use super::begun::Begun;
use super::fragments::Fragments;
use super::packet::{End, Seen, Segment, What};

/// Ports for conversations whose own port is taken between their ends (RFC 6335: dynamic ones).
const PORTS: core::ops::RangeInclusive<u16> = 49_152..=65_535;
/// How many of them.
const TRIES: u16 = 64;

/// A program (with all that it started), by the agent's number.
pub type Place = usize;

/// Packets that went nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Packets from a program with another source address than the cluster's, or packets that are carried for nobody.
    pub foreign: u64,
    /// They belong to no conversation, and begin none.
    pub stray: u64,
    /// There were as many conversations as may be.
    pub full: u64,
    /// A program wanted a port, and has as many as one may have. (No packet.)
    pub ports_full: u64,
}

/// All programs' conversations with the outside.
#[derive(Debug)]
pub struct Programs {
    addresses: Vec<IpAddr>,
    tracker: Tracker<Place>,
    arriving: Fragments<Place>,
    leaving: Fragments<()>,
    begun: Begun,
    /// Where to start the search for a port.
    next_port: u16,
    /// Packets lost here.
    pub dropped: Dropped,
}

impl Programs {
    /// With these outside addresses, and at most this many ports and conversations of each program.
    pub fn new(addresses: &[IpAddr], ports_max: usize, conversations_max: usize) -> Programs {
        Programs {
            addresses: addresses.to_vec(),
            tracker: Tracker::new(ports_max, conversations_max),
            arriving: Fragments::default(),
            leaving: Fragments::default(),
            begun: Begun::default(),
            next_port: *PORTS.start(),
            dropped: Dropped::default(),
        }
    }

    /// So many ports and conversations may each program have from now on.
    pub const fn set_limits(&mut self, ports_max: usize, conversations_max: usize) {
        self.tracker.set_limits(ports_max, conversations_max);
    }

    /// The outside addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// A program is to have a port. Returns whether no other one here has it.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn claim(&mut self, place: Place, port: Port, claim: Claim) -> Result<bool, Refused> {
        let claimed = self.tracker.ports.claim(place, port, claim);
        self.dropped.ports_full += u64::from(claimed == Err(Refused::TooMany));
        claimed
    }

    /// Whether a program has it.
    pub fn has(&self, place: Place, port: Port) -> bool {
        self.tracker.ports.is_held_by(place, port)
    }

    /// A program no longer needs a port. Returns whether it is free here now.
    pub fn release(&mut self, place: Place, port: Port) -> bool {
        self.tracker.ports.release(place, port)
    }

    /// A program has ended. Returns the ports that are free here now.
    pub fn forget(&mut self, place: Place) -> Vec<Port> {
        self.tracker.forget_owner(place)
    }

    /// A program sends a packet: from the cluster's address, of a conversation of its own. It may be changed. Returns whether it may
    /// leave; else it is dropped.
    pub fn leaves(&mut self, now: Time, place: Place, frame: &mut [u8]) -> bool {
        let seen = Seen::of(frame).filter(|seen| self.addresses.contains(&seen.from));
        let Some(seen) = seen else {
            self.dropped.foreign += 1;
            return false;
        };
        match seen.what {
            What::Said => self.says(now, place, &seen, frame).is_some(),
            What::Error => {
                let inside = seen.head(End::Source).ends;
                let outer = self.tracker.outer_of(place, inside);
                self.dropped.stray += u64::from(outer.is_none());
                if let Some(outer) = outer {
                    seen.set_own_port(frame, End::Source, outer);
                }
                outer.is_some()
            }
            What::Fragment => {
                let sent = self.leaving.find(&seen);
                self.dropped.stray += u64::from(sent.is_none());
                sent.is_some()
            }
            What::Other => {
                self.dropped.foreign += 1;
                false
            }
        }
    }

    fn says(&mut self, now: Time, place: Place, seen: &Seen, frame: &mut [u8]) -> Option<()> {
        let head = seen.head(End::Source);
        let outer = match self.tracker.outward(now, place, head) {
            Outward::Goes(outer, _) => outer,
            Outward::Opens(wanted) => {
                let outer = wanted.or_else(|| self.free_port(head.ends))?;
                match self.tracker.open(now, place, head.ends, outer) {
                    Ok(_) => outer,
                    Err(_) => {
                        self.dropped.full += 1;
                        return None;
                    }
                }
            }
            Outward::Stray if self.adopt(now, place, head) => head.ends.own,
            Outward::Stray => {
                self.dropped.stray += 1;
                return None;
            }
            Outward::Full => {
                self.dropped.full += 1;
                return None;
            }
        };
        if outer != head.ends.own {
            seen.set_own_port(frame, End::Source, outer);
        }
        let outside = Ends {
            own: outer,
            ..head.ends
        };
        self.hear_scale(seen, frame, End::Source, outside);
        self.begun.hand_over(&mut self.tracker, outside);
        self.leaving.note(seen, ());
        Some(())
    }

    /// The packets that begin a connection contain its window shifts: the next gateway is told of them.
    fn hear_scale(&mut self, seen: &Seen, frame: &[u8], from: End, outside: Ends) {
        if seen.flags.syn
            && let Some(scale) = Segment::of(frame, seen).and_then(|segment| segment.scale)
        {
            (self.begun).hear(&mut self.tracker, outside, from, scale);
        }
    }

    /// Something of a conversation that is not known: the daemon before this one knew it.
    fn adopt(&mut self, now: Time, place: Place, head: Head) -> bool {
        let ends = head.ends;
        self.tracker.may_go_on(head)
            && self
                .tracker
                .adopt(now, place, ends, ends.own, (true, false))
                .is_ok()
    }

    /// A port that is free here between these ends.
    fn free_port(&mut self, inside: Ends) -> Option<u16> {
        for _ in 0..TRIES {
            let own = self.next_port;
            self.next_port = own.checked_add(1).unwrap_or(*PORTS.start());
            let ends = Ends { own, ..inside };
            if !self.tracker.ports.is_held(ends.port()) && self.tracker.get_mut(ends).is_none() {
                return Some(own);
            }
        }
        self.dropped.full += 1;
        None
    }

    /// A packet from outside, which may be changed: its owner, and what was parsed. `only_known`: it is dropped if its
    /// conversation is not known here.
    pub fn arrives(
        &mut self,
        now: Time,
        frame: &mut [u8],
        only_known: bool,
    ) -> Option<(Place, Seen)> {
        let seen = Seen::of(frame).filter(|seen| self.addresses.contains(&seen.to))?;
        let place = match seen.what {
            What::Said => {
                let head = seen.head(End::Destination);
                if only_known && self.tracker.get_mut(head.ends).is_none() {
                    return None;
                }
                let Inward::To(place, inner) = self.tracker.inward(now, head, |_| true) else {
                    return None;
                };
                self.hear_scale(&seen, frame, End::Destination, head.ends);
                if inner != head.ends.own {
                    seen.set_own_port(frame, End::Destination, inner);
                }
                self.arriving.note(&seen, place);
                Some(place)
            }
            What::Error => {
                let outside = seen.head(End::Destination).ends;
                let (place, inner) = self.tracker.inner_of(outside)?;
                seen.set_own_port(frame, End::Destination, inner);
                Some(place)
            }
            What::Fragment => self.arriving.find(&seen),
            What::Other => None,
        };
        Some((place?, seen))
    }

    /// Whether a packet that has no owner here may belong to a connection that the previous daemon knew: while its program only
    /// receives, it sends nothing by which it would be known again.
    pub fn may_be_of_before(&mut self, frame: &[u8]) -> bool {
        let seen = Seen::of(frame).filter(|seen| seen.what == What::Said);
        let Some(seen) = seen.filter(|seen| self.addresses.contains(&seen.to)) else {
            return false;
        };
        let head = seen.head(End::Destination);
        head.ends.transport == Transport::Tcp
            && !head.flags.syn
            && !self.tracker.ports.is_held(head.ends.port())
            && self.tracker.get_mut(head.ends).is_none()
    }

    /// All conversations, as the gateway knows them: their ends outside of this node.
    pub fn conversations(&self) -> impl Iterator<Item = (Ends, &Conversation<Place>)> {
        self.tracker.all()
    }

    /// All ports: the claim, the owner, and its number of connections there.
    pub fn ports(&self) -> impl Iterator<Item = (Port, Claim, Place, u32)> {
        let ports = &self.tracker.ports;
        ports.all().filter_map(|(port, place, connections)| {
            Some((port, ports.claim_of(port)?, place, connections))
        })
    }

    /// Forgets, now and then, conversations that were silent for too long, and reports them to `over`.
    pub fn look(&mut self, now: Time, over: impl FnMut(Ends)) {
        self.tracker.look(now);
        self.tell_over(over);
    }

    /// Reports conversations that are over, also by the end of their programs.
    pub fn tell_over(&mut self, mut over: impl FnMut(Ends)) {
        while let Some((ends, _)) = self.tracker.poll_over() {
            over(ends);
        }
        // Here a freed port needs no action.
        while self.tracker.poll_freed().is_some() {}
    }
}
