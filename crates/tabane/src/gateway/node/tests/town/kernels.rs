//! Kernels with programs, inside and outside: whose a packet is, and what becomes of conversations.

use std::net::SocketAddr;

use tabane_sim::mix;
use tabane_sim::net::Ns;

use super::super::ADDRESSES;
use super::super::machine::refusal;
use super::super::outside::client_address;
use super::super::packets::{SYN, Said};
use super::super::talk::{Asker, Kind, Side};
use super::super::tcp::End;
use super::{Conversation, Seat, Town, What, listens_at};

impl Town {
    /// A conversation begins, from a program of a host or from a client.
    pub fn converse(
        &mut self,
        kind: Kind,
        host: usize,
        client: usize,
        (is_inward, is_v4): (bool, bool),
    ) -> usize {
        let number = self.conversations.len();
        self.next_port = self.next_port.checked_add(1).unwrap_or(20_000);
        let outside = ADDRESSES.iter().find(|(ip, _)| ip.is_ipv4() == is_v4);
        let outside = outside.expect("there are both").0;
        let there = client_address(client, is_v4);
        // Kernels of several hosts choose the same ports.
        let ends = match is_inward {
            true => (
                (there, self.next_port).into(),
                (outside, listens_at(host)).into(),
            ),
            false => {
                let port = &mut self.begins_at[host];
                *port = port.checked_add(1).unwrap_or(32_768);
                ((outside, *port).into(), (there, 7000).into())
            }
        };
        let seats = match is_inward {
            true => [Seat::Outside(client), Seat::Host(host)],
            false => [Seat::Host(host), Seat::Outside(client)],
        };
        let side = match kind {
            Kind::Datagrams => Side::Udp(Asker::new(self.now, ends, number as u32, true)),
            _ => {
                let first = mix(self.seed ^ number as u64) as u32;
                self.by_first.insert(first, number);
                let steps = kind.steps();
                let end = End::opens(self.now, ends, first, 2 * number as u64, &steps[0]);
                Side::Tcp(Box::new(match is_inward {
                    true => end,
                    false => end.offloaded(),
                }))
            }
        };
        self.table.insert(
            (seats[0], kind != Kind::Datagrams, ends.0, ends.1),
            (number, 0),
        );
        self.conversations.push(Conversation {
            kind,
            host,
            began: self.now,
            sides: [Some(side), None],
            seats,
            is_excused: false,
            due: [Ns::MAX; 2],
        });
        self.goes_on(number, 0);
        number
    }

    /// The far end's address as it is outside, by which a fuse knows the conversation.
    pub fn far_of(&self, number: usize) -> SocketAddr {
        let conversation = &self.conversations[number];
        let side = conversation.sides[0].as_ref().expect("it has begun");
        let (own, far) = side.ends();
        match conversation.seats[0] {
            Seat::Outside(_) => own,
            Seat::Host(_) => far,
        }
    }

    pub(super) fn timer(&mut self, number: usize, side: usize) {
        let conversation = &mut self.conversations[number];
        if conversation.due[side] > self.now {
            return;
        }
        conversation.due[side] = Ns::MAX;
        if let Some(it) = &mut conversation.sides[side] {
            it.handle_timeout(self.now);
            self.goes_on(number, side);
        }
    }

    /// A packet comes to a kernel with programs.
    pub(super) fn kernel_of(&mut self, seat: Seat, packet: &[u8]) {
        let said = match Said::parse(packet) {
            Ok(Some(said)) => said,
            Ok(None) => return,
            Err(wrong) => return self.fail(wrong),
        };
        self.trace(|| {
            format!(
                "{seat:?} hears {} -> {} {:?} {} bytes",
                said.from,
                said.to,
                said.tcp,
                said.data.len()
            )
        });
        let is_tcp = said.tcp.is_some();
        let key = (seat, is_tcp, said.to, said.from);
        let known = self.table.get(&key).copied();
        if let Some((number, side)) = known.filter(|(number, _)| !self.is_anew(*number, &said)) {
            if let Some(it) = &mut self.conversations[number].sides[side] {
                it.hears(self.now, &said);
            }
            return self.goes_on(number, side);
        }
        match self.accepted(seat, &said) {
            Some(number) => {
                self.table.insert(key, (number, 1));
                self.goes_on(number, 1);
            }
            None => {
                if let Some(refused) = refusal(packet) {
                    self.trace(|| format!("{seat:?} refuses {} -> {}", said.from, said.to));
                    self.send(seat, &refused, 1460);
                }
            }
        }
    }

    /// Whether a packet begins another conversation between the ends of one that is over.
    fn is_anew(&self, number: usize, said: &Said) -> bool {
        let one = &self.conversations[number];
        let other = match &said.tcp {
            Some(tcp) if tcp.flags == SYN => self.by_first.get(&tcp.sequence).copied(),
            Some(_) => None,
            None => Asker::conversation_of(said),
        };
        (one.is_done() || one.is_excused) && other.is_some_and(|other| other != number)
    }

    /// A program is asked for a connection, or by a datagram. The conversation's number.
    fn accepted(&mut self, seat: Seat, said: &Said) -> Option<usize> {
        let listens = match seat {
            Seat::Outside(_) => true,
            Seat::Host(host) => said.to.port() == listens_at(host),
        };
        let number = match &said.tcp {
            Some(tcp) if tcp.flags == SYN => *self.by_first.get(&tcp.sequence)?,
            Some(_) => return None,
            None => Asker::conversation_of(said)?,
        };
        let conversation = self.conversations.get_mut(number)?;
        if !listens || conversation.seats[1] != seat || conversation.sides[1].is_some() {
            return None;
        }
        conversation.sides[1] = Some(match said.tcp {
            Some(_) => {
                let first = mix(self.seed ^ !(number as u64)) as u32;
                let steps = conversation.kind.steps();
                let end = End::accepts(self.now, said, first, 2 * number as u64 + 1, &steps[1]);
                Side::Tcp(Box::new(match seat {
                    Seat::Outside(_) => end,
                    Seat::Host(_) => end.offloaded(),
                }))
            }
            None => {
                let mut asker = Asker::new(self.now, (said.to, said.from), number as u32, false);
                asker.hears(self.now, said);
                Side::Udp(asker)
            }
        });
        Some(number)
    }

    /// What an end has to say is sent, its timer is set, and it is looked whether all is as promised.
    pub(super) fn goes_on(&mut self, number: usize, side: usize) {
        let conversation = &mut self.conversations[number];
        let seat = conversation.seats[side];
        let Some(it) = &mut conversation.sides[side] else {
            return;
        };
        let said = it.take_said();
        let segment_bytes = match it {
            Side::Tcp(end) => end.segment_bytes(),
            Side::Udp(_) => 1460,
        };
        if let Some(due) = it
            .next_timeout()
            .filter(|due| *due < conversation.due[side])
        {
            conversation.due[side] = due;
            self.events
                .plan(due.max(self.now), What::Timer(number, side));
        }
        self.look_at(number);
        for said in said {
            self.send(seat, &said, segment_bytes);
        }
    }

    fn look_at(&mut self, number: usize) {
        let conversation = &self.conversations[number];
        if conversation.is_excused {
            return;
        }
        if self.may_reset && conversation.is_reset() {
            self.resets += 1;
            self.conversations[number].is_excused = true;
            return;
        }
        let mut broken = conversation
            .sides
            .iter()
            .flatten()
            .find_map(|side| side.broken().cloned());
        let end = |side: usize| match &conversation.sides[side] {
            Some(Side::Tcp(end)) => (end.acknowledged, end.got),
            _ => (0, 0),
        };
        for (one, other) in [(0, 1), (1, 0)] {
            if end(one).0 > end(other).1 {
                broken.get_or_insert_with(|| {
                    "something was acknowledged that never arrived".to_owned()
                });
            }
        }
        if let Some(broken) = broken {
            let kind = conversation.kind;
            self.fail(format!("conversation {number} ({kind:?}): {broken}"));
        }
    }

    fn send(&mut self, seat: Seat, said: &Said, segment_bytes: usize) {
        match seat {
            Seat::Host(host) => {
                let here = &self.hosts[host];
                here.machine
                    .0
                    .borrow_mut()
                    .push_from_program(said.offloaded(segment_bytes));
                self.wake(host);
            }
            Seat::Outside(client) => {
                let now = self.local();
                let port = self.hosts.len() + client;
                for frame in self.clients[client].sends(now, said) {
                    self.passes(port, self.now, &frame);
                }
            }
        }
    }
}
