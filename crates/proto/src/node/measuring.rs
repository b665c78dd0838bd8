//! Measurements: by this node, for itself or for a peer that asked, and by peers for this node.
//!
//! What is measured is how long a question takes to be answered that needs no session: nobody has a bundle with all others.

use std::net::SocketAddr;

use super::{Node, Peer, met};
use crate::context::{Event, Rejection};
use crate::crypto::{ClusterKey, HandshakeError, echo, echo_reply, echo_token};
use crate::mesh::{Measurement, Step};
use crate::wire::{FEATURE_SURVEYS, Measure, Measured, NodeId};
use crate::{LinkId, PeerId, Time};

impl Node {
    /// Measures the way to a peer over a link: [`Event::Measured`] says what came of it. With `in_trains` each probe has two more
    /// right behind it.
    pub fn measure(&mut self, now: Time, token: u32, to: PeerId, how: Measure, in_trains: bool) {
        if self.context.measuring.is_some() || !how.is_sound() {
            self.tell_own(token, Measured::Busy);
            return;
        }
        let new = Measurement::new(now, None, token, to, how, in_trains);
        self.context.measuring = Some(Box::new(new));
    }

    /// Whether a peer is there on a link, as far as others know: none of them reaches it where it is gone, and it says itself which
    /// of its links are down. False if no path of this node's own leads there and nodes do not relay.
    pub fn is_said_to_be_on(&self, now: Time, peer: PeerId, link: LinkId) -> bool {
        let mesh = &self.context.mesh;
        let is_up = |links: u8| u16::from(links) & link.bit() != 0;
        mesh.is_reached_by_any(now, peer) && mesh.links_up(peer).is_none_or(is_up)
    }

    /// Asks the peer `by` to measure its way to another one, or to this node (none): [`Event::Measured`] says what came
    /// of it, if the question and its answer arrive. Of several questions only the last one's answer is told. Returns
    /// false if it cannot be asked.
    pub fn ask_to_measure(
        &mut self,
        token: u32,
        by: PeerId,
        to: Option<PeerId>,
        how: Measure,
    ) -> bool {
        let mesh = &self.context.mesh;
        let to: Option<NodeId> = to.map_or(Some(mesh.me()), |to| mesh.id(to));
        let Some(to) = to.filter(|_| how.is_sound()) else {
            return false;
        };
        let asked =
            met(&mut self.peers, by).is_some_and(|bundle| bundle.ask_to_measure(token, to, how));
        self.turns.touch(by);
        asked
    }

    fn tell_own(&mut self, token: u32, outcome: Measured) {
        let behind = None;
        self.context.event(Event::Measured {
            token,
            outcome,
            behind,
        });
    }

    /// Goes on with the measurement, if something of it is due.
    pub(super) fn tend_measurement(&mut self, now: Time) {
        let due = self.context.measuring.as_ref();
        let Some((to, how)) = due
            .filter(|m| m.next_timeout() <= now)
            .map(|m| (m.to, m.how))
        else {
            return;
        };
        let own = self.context.links[how.link.index()];
        let takes = own.is_some_and(|own| how.datagram_bytes <= own.datagram_bytes_max);
        let works = takes && self.address_of(to, how.link).is_some();
        let mut all = self.peers.iter().flatten().filter_map(Peer::met);
        let idle = u16::from(self.context.blocked) & how.link.bit() == 0
            && !all.any(|bundle| bundle.is_loaded(how.link));
        let share = self.context.random.below(1024);
        let Some(measuring) = &mut self.context.measuring else {
            return;
        };
        match measuring.on_timeout(now, works, idle, share) {
            Step::Wait => {}
            Step::Probe => self.send_probes(now),
            Step::Over(outcome) => self.end_measurement(outcome),
        }
    }

    /// Sends the probes that are due now.
    fn send_probes(&mut self, now: Time) {
        let Some((to, link)) = self.context.measuring.as_ref().map(|m| (m.to, m.how.link)) else {
            return;
        };
        let Some(address) = self.address_of(to, link) else {
            return;
        };
        let context = &mut self.context;
        while let Some(measuring) = &mut context.measuring
            && let Some(bytes) = measuring.due_bytes()
        {
            let token = context.random.u32();
            measuring.on_sent(now, token);
            let probe = echo(&context.keys[0], token, bytes);
            context.answer(link, address, probe);
        }
    }

    /// Where a peer is on a link, as far as is known.
    fn address_of(&self, peer: PeerId, link: LinkId) -> Option<SocketAddr> {
        match self.peers.get(peer.0 as usize)?.as_ref()? {
            Peer::Met(bundle) => bundle.address_on(link),
            Peer::Absent(absent) => absent.config.addresses[link.index()],
        }
    }

    /// A node asks something that needs no session: it is answered in no more bytes, and nothing is kept of it.
    pub(super) fn on_echo(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        question: &[u8],
    ) -> Result<(), Rejection> {
        let reply = self.read_echo(question, echo_reply)?;
        if self.context.config.features & FEATURE_SURVEYS == 0 {
            return Err(Rejection::Refused);
        }
        if !self.admission.echoes.take(now) {
            return Err(Rejection::TooManyHandshakes);
        }
        self.context.answer(link, from, reply);
        Ok(())
    }

    /// Something that needs no session was answered.
    pub(super) fn on_echo_reply(
        &mut self,
        now: Time,
        link: LinkId,
        answer: &[u8],
    ) -> Result<(), Rejection> {
        let token = self.read_echo(answer, |_, token| token)?;
        let measuring = self.context.measuring.as_mut();
        if !measuring.is_some_and(|m| m.on_reply(now, link, token)) {
            return Err(Rejection::Stale);
        }
        self.send_probes(now);
        Ok(())
    }

    /// What `make` makes of the cluster key under which a question or an answer was sent, and of its token.
    fn read_echo<T>(
        &self,
        datagram: &[u8],
        make: impl Fn(&ClusterKey, u32) -> T,
    ) -> Result<T, Rejection> {
        let mut why = Rejection::Stranger;
        for key in &self.context.keys {
            match echo_token(key, datagram) {
                Ok(token) => return Ok(make(key, token)),
                Err(HandshakeError::WrongKey) => {}
                Err(_) => why = Rejection::Malformed,
            }
        }
        Err(why)
    }

    /// Tells who wanted the measurement what came of it.
    fn end_measurement(&mut self, outcome: Measured) {
        let Some(over) = self.context.measuring.take() else {
            return;
        };
        let Some(asker) = over.asker else {
            return self.context.event(Event::Measured {
                token: over.token,
                outcome,
                behind: over.behind(),
            });
        };
        if let Some(bundle) = met(&mut self.peers, asker) {
            let has_room = bundle.tell_measured(over.token, outcome);
            self.context.stats.violation += u64::from(!has_room);
            self.touch(asker);
        }
    }

    /// A peer goes: nothing of it is measured any more, nor for it.
    pub(super) fn end_measurements_of(&mut self, peer: PeerId) {
        let of_it = |m: &Measurement| m.to == peer || m.asker == Some(peer);
        if self.context.measuring.as_deref().is_some_and(of_it) {
            self.end_measurement(Measured::Unreached);
        }
    }
}
