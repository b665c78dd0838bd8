//! The programs of this node: their ways outside, and their ports there.

use std::net::IpAddr;

use tabane_proto::gateway::{Claim, Command, Family, Port, Refused, Said, Transport};
use tabane_proto::wire::NodeId;
use tabane_proto::{Node, PeerId, Time};

use super::super::claims::{Ask, Claims, Given, Wish};
use super::super::devices::Way;
use super::super::front::Owner;
use super::super::programs::{Place, Programs};
use super::service::Asker;
use super::{Gateway, Serves};

/// The programs of a place, by the way that leads outside of their namespace.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) way: Box<dyn Way>,
    user: u32,
    /// The program's name.
    pub(super) command: Option<Command>,
    /// There may be something to read.
    pub(super) readable: bool,
    pub(super) watched: bool,
}

impl Gateway {
    /// The programs of a place leave by this way, which is watched.
    pub fn begin(&mut self, place: Place, user: u32, way: Box<dyn Way>) {
        let door = Door {
            way,
            user,
            command: None,
            readable: false,
            watched: true,
        };
        self.inside.doors.insert(place, door);
    }

    /// Sets the program name of a place.
    pub fn name(&mut self, place: Place, command: &str) {
        if let Some(door) = self.inside.doors.get_mut(&place) {
            door.command = Command::new(command);
        }
    }

    /// The programs of a place have ended; their ports and conversations are free.
    pub fn end(&mut self, now: Time, node: &mut Node, place: Place) {
        if self.inside.doors.remove(&place).is_none() {
            return;
        }
        self.claims.forget(place);
        let free = self.inside.programs.forget(place);
        let mut over = Vec::new();
        self.inside.programs.tell_over(|ends| over.push(ends));
        let (_, _, mut asker) = self.asker(now, node);
        for port in free {
            asker.tell_free(port);
        }
        for inside in over {
            self.outer.remove(&inside);
            self.tell_gateway(now, node, Said::Over { inside });
        }
    }

    fn tell_gateway(&mut self, now: Time, node: &mut Node, said: Said) {
        match self.serves() {
            Some((Serves::Here, _)) => self.serve_word(now, node, Owner::Here, said),
            Some((Serves::Peer(peer), _)) => self.roster.say(now, node, peer, said),
            None => {}
        }
    }

    /// The TUN of a place can be read.
    pub fn can_read(&mut self, place: Place) {
        if let Some(door) = self.inside.doors.get_mut(&place) {
            door.readable = true;
        }
    }

    /// A program of a place asks for a TCP or UDP port at an address. Returns the number by which [`Gateway::poll_claimed`]
    /// reports the result; `None`: it is no outside address.
    pub fn claim(
        &mut self,
        now: Time,
        node: &mut Node,
        place: Place,
        transport: Transport,
        address: (IpAddr, u16),
        (only_v6, is_shared): (bool, bool),
    ) -> Option<u32> {
        let user = self.inside.doors.get(&place)?.user;
        let families = self.families_at(address.0, only_v6);
        families[0]?;
        let wish = Wish {
            place,
            transport,
            families,
            number: address.1,
            claim: Claim { user, is_shared },
        };
        let (claims, programs, mut asker) = self.asker(now, node);
        Some(claims.begin(now, programs, &mut asker, wish))
    }

    /// Of which outside addresses a port is that is bound to this address.
    fn families_at(&self, address: IpAddr, only_v6: bool) -> [Option<Family>; 2] {
        let has = |is_v4: bool| self.part.addresses.iter().any(|own| own.is_ipv4() == is_v4);
        let v4 = has(true).then_some(Family::V4);
        let v6 = has(false).then_some(Family::V6);
        let both = match address {
            _ if self.part.addresses.contains(&address) => match address.is_ipv4() {
                true => [v4, None],
                false => [v6, None],
            },
            IpAddr::V4(ip) if ip.is_unspecified() => [v4, None],
            IpAddr::V6(ip) if ip.is_unspecified() && only_v6 => [v6, None],
            IpAddr::V6(ip) if ip.is_unspecified() => [v6, v4],
            _ => [None, None],
        };
        match both {
            [None, second] => [second, None],
            both => both,
        }
    }

    /// Another place of this node that has this port.
    pub fn holder(&self, transport: Transport, number: u16, place: Place) -> Option<Place> {
        let mut ports = self.inside.programs.ports();
        let other = ports.find(|(port, _, holder, _)| {
            port.transport == transport && port.number == number && *holder != place
        });
        other.map(|(_, _, holder, _)| holder)
    }

    /// The result of a claim: what the program got, or why nothing.
    pub fn poll_claimed(&mut self) -> Option<(u32, Result<Given, Refused>)> {
        let done = self.claims.poll_done();
        if let Some((_, Err(Refused::TooMany))) = done {
            self.ports_refused += 1;
        }
        done
    }

    /// The programs of a place have no use for a port any more.
    pub fn release(
        &mut self,
        now: Time,
        node: &mut Node,
        place: Place,
        transport: Transport,
        number: u16,
    ) {
        for family in [Family::V4, Family::V6] {
            let port = Port {
                transport,
                family,
                number,
            };
            if self.inside.programs.release(place, port) {
                let (_, _, mut asker) = self.asker(now, node);
                asker.tell_free(port);
            }
        }
    }

    pub(super) fn asker<'a>(
        &'a mut self,
        now: Time,
        node: &'a mut Node,
    ) -> (&'a mut Claims, &'a mut Programs, Asker<'a>) {
        let serves = self.serves().map(|(whom, _)| whom);
        let asker = Asker {
            now,
            node,
            roster: &mut self.roster,
            serves,
            doors: &self.inside.doors,
            service: self.serving.as_mut(),
        };
        (&mut self.claims, &mut self.inside.programs, asker)
    }

    pub(super) fn ask_again(&mut self, now: Time, node: &mut Node) {
        let (claims, programs, mut asker) = self.asker(now, node);
        claims.ask_again(programs, &mut asker);
    }

    /// Asks who has a port of the outside address. Returns the number by which [`Gateway::poll_owner`] reports it; `None`: nobody
    /// serves now.
    pub fn ask_owner(&mut self, now: Time, node: &mut Node, port: Port) -> Option<u32> {
        self.serves()?;
        self.asked = self.asked.wrapping_add(1);
        let id = self.asked;
        self.tell_gateway(now, node, Said::Whose { id, port });
        Some(id)
    }

    /// Whose it is, if it is anybody's.
    pub fn poll_owner(&mut self) -> Option<(u32, Option<NodeId>)> {
        self.owners.pop_front()
    }

    /// The peer that is this node; `None`: it is this one.
    pub fn peer(&self, id: NodeId) -> Option<PeerId> {
        self.roster.peer(id)
    }
}
