//! Datagrams, on their way between programs and the node's own network namespace.

use tabane_io::capture::reset;
use tabane_proto::{Node, Time};

use super::outbound::TURN_CONNECTIONS;
use super::words::Transport;
use super::{Agent, Kind, token};

/// Datagrams taken in from one socket before others have their turn.
pub(super) const TURN_DATAGRAMS: usize = 64;

impl Agent {
    /// What a program has sent: from its port, if it has one, or else as through a NAT. Returns whether
    /// there may be more.
    pub(super) fn send_datagrams_on(&mut self, now: Time, index: usize) -> bool {
        let Some(place) = self.places.get(index) else {
            return false;
        };
        let Some(capture) = &place.capture else {
            return false;
        };
        for _ in 0..TURN_DATAGRAMS {
            let Ok(Some((from, to, bytes))) = capture.next_datagram(&mut self.buffer) else {
                return false;
            };
            let data = &self.buffer[..bytes];
            let is_chosen = place.source_for(to.ip()) != Some(from.ip());
            if !self.hosted.send(now, index, from, is_chosen, to, data) {
                let token = |flow| token(Kind::Flow, flow);
                let (ends, poller) = ((index, from, to), &self.poller);
                self.flows.send(now, ends, capture, poller, token, data);
            }
        }
        true
    }

    /// What has come for a program that sent first.
    pub(super) fn give_datagrams_back(&mut self, now: Time, index: usize) {
        let place = self.flows.place_of(index);
        let place = place.and_then(|place| self.places.get(place));
        if let Some(capture) = place.and_then(|place| place.capture.as_ref()) {
            self.flows.give_back(now, index, capture, &mut self.buffer);
        }
    }

    /// What has come to a port of a program.
    pub(super) fn take_in(&mut self, now: Time, node: &mut Node, index: usize) {
        match self.hosted.place_of(index) {
            None => {}
            Some((_, Transport::Udp)) => self.take_datagrams_in(now, index),
            Some((place, Transport::Tcp)) => {
                let accept = |agent: &Agent| agent.hosted.accept(index);
                for _ in 0..TURN_CONNECTIONS {
                    let accepted = self.accepted(accept, |(plain, _)| reset(plain));
                    let Some((plain, opening)) = accepted else {
                        return;
                    };
                    self.came(now, node, place, plain, opening);
                }
            }
        }
    }

    fn take_datagrams_in(&mut self, now: Time, index: usize) {
        let place = self.hosted.place_of(index);
        let place = place.and_then(|(place, _)| self.places.get(place));
        let Some((place, capture)) = place.and_then(|p| Some((p, p.capture.as_ref()?))) else {
            return;
        };
        for _ in 0..TURN_DATAGRAMS {
            let Some((bound, to)) = self.hosted.next_refusal(index) else {
                break;
            };
            let mut from = bound;
            if let (true, Some(ip)) = (bound.ip().is_unspecified(), place.source_for(to.ip())) {
                from.set_ip(ip);
            }
            let _ = capture.refuse_datagram(from, to);
        }
        for _ in 0..TURN_DATAGRAMS {
            let Some((from, to, bytes)) = self.hosted.receive(now, index, &mut self.buffer) else {
                return;
            };
            // What is lost here might have been lost anywhere.
            let _ = capture.send_datagram(from, to, &self.buffer[..bytes]);
        }
    }
}
