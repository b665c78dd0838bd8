//! Datagrams, on their way between programs and the node's own network namespace.

use core::cell::Cell;
use std::io;
use std::net::SocketAddr;

use tabane_io::capture::{Capture, Outward, Told, Unreachable, datagram, reset};
use tabane_io::poll::Interest;
use tabane_proto::{Node, Time};

use super::flows::Ends;
use super::outbound::TURN_CONNECTIONS;
use super::words::Transport;
use super::{Agent, Kind, token};
use crate::closing::Lent;

/// Datagrams taken in from one socket before others have their turn.
pub(super) const TURN_DATAGRAMS: usize = 64;

impl Agent {
    /// Forwards a program's datagrams: from its port, if it has one, or else as through a NAT. Returns whether there
    /// may be more.
    pub(super) fn send_datagrams_on(&mut self, now: Time, index: usize) -> bool {
        for _ in 0..TURN_DATAGRAMS {
            let Some(place) = self.places.get(index) else {
                return false;
            };
            let Some(capture) = &place.capture else {
                return false;
            };
            if place.spares.hold_datagrams() {
                self.watch_datagrams(index);
                return false;
            }
            let (from, to, bytes) = match capture.next_datagram(&mut self.buffer) {
                Ok(Some(next)) => next,
                none => {
                    let _ = self.taken(none);
                    return false;
                }
            };
            let data = &self.buffer[..bytes];
            if place.is_outside(to.ip()) {
                if let Some(gateway) = &mut self.gateway {
                    gateway.turn_back(index, &datagram(from, to, data));
                }
                continue;
            }
            let is_chosen = place.source_for(to.ip()) != Some(from.ip());
            let ends = (index, from, to);
            let sent = self.hosted.send(now, index, from, is_chosen, to, data);
            match sent.or_else(|| self.flows.send(now, ends, capture, data)) {
                Some(sent) => tell_nowhere(capture, from, to, sent),
                None => {
                    let data = data.to_vec();
                    self.send_first(now, ends, data);
                }
            }
        }
        true
    }

    /// Makes the poller report a program's datagrams, unless they must wait.
    pub(super) fn watch_datagrams(&mut self, index: usize) {
        let place = self.places.get(index);
        let Some((place, capture)) = place.and_then(|it| Some((it, it.capture.as_ref()?))) else {
            return;
        };
        let interest = match place.spares.hold_datagrams() {
            true => Interest::Nothing,
            false => Interest::Read,
        };
        let token = token(Kind::Datagrams, index);
        let socket = capture.datagram_descriptor();
        let _ = self.poller.modify(socket, token, interest);
    }

    /// Begins a program's flow with a new correspondent, by this socket. Returns whether that worked.
    pub(super) fn begin_flow(&mut self, now: Time, ends: Ends, outward: Lent<Outward>) -> bool {
        let (index, from, to) = ends;
        let is_own = self.places.get(index).is_some_and(|it| it.is_own(to.ip()));
        let reached_at = match is_own {
            true => self.way_within_node(index, (from, to)).map(|way| way.to),
            false => Some(to),
        };
        let Some(reached_at) = reached_at else {
            return false;
        };
        let token = |flow| token(Kind::Flow, flow);
        let begun = self
            .flows
            .begin(now, ends, reached_at, outward, &self.poller, token);
        let has_begun = begun.is_ok();
        let place = self.places.get(index);
        if let Some(capture) = place.and_then(|it| it.capture.as_ref()) {
            tell_nowhere(capture, from, to, begun);
        }
        has_begun
    }

    /// Delivers datagrams to a program that sent first.
    pub(super) fn give_datagrams_back(&mut self, now: Time, index: usize, has_failed: bool) {
        if has_failed && self.flows.has_failed(index, &self.poller) {
            return;
        }
        let place = self.flows.place_of(index);
        let place = place.and_then(|place| self.places.get(place));
        if let Some(capture) = place.and_then(|place| place.capture.as_ref()) {
            let given = self.flows.give_back(now, index, capture, &mut self.buffer);
            let _ = self.taken(given.map(Some));
        }
    }

    /// Receives datagrams at a program's port.
    pub(super) fn take_in(&mut self, now: Time, node: &mut Node, index: usize) {
        let Some((place, transport)) = self.hosted.place_of(index) else {
            return;
        };
        let is_idle = match transport {
            Transport::Udp => !self.take_datagrams_in(now, place, index),
            Transport::Tcp => !self.take_connections_in(now, node, place, index),
        };
        if is_idle {
            // For example, its user has shut it down: it would be reported ready for ever.
            self.is_failing(place);
        }
    }

    /// Returns `false` if there was none, and no other reason for the poller's report.
    fn take_connections_in(
        &mut self,
        now: Time,
        node: &mut Node,
        place: usize,
        index: usize,
    ) -> bool {
        let is_idle = Cell::new(false);
        let accept = |agent: &Agent| {
            let accepted = agent.hosted.accept(index);
            is_idle.set(matches!(accepted, Ok(None)));
            accepted
        };
        for turn in 0..TURN_CONNECTIONS {
            let accepted = self.accepted_by(place, accept, |(plain, _)| reset(plain));
            let Some((plain, opening)) = accepted else {
                return turn > 0 || !is_idle.get();
            };
            self.came(now, node, place, plain, opening);
        }
        true
    }

    /// Likewise.
    fn take_datagrams_in(&mut self, now: Time, place: usize, index: usize) -> bool {
        let place = self.places.get(place);
        let Some((place, capture)) = place.and_then(|p| Some((p, p.capture.as_ref()?))) else {
            return false;
        };
        let mut is_any = false;
        for _ in 0..TURN_DATAGRAMS {
            let Some((bound, told)) = self.hosted.next_told(index) else {
                break;
            };
            is_any = true;
            let Told::Nobody(to) = told else {
                continue;
            };
            let mut from = bound;
            if let (true, Some(ip)) = (bound.ip().is_unspecified(), place.source_for(to.ip())) {
                from.set_ip(ip);
            }
            let _ = capture.refuse_datagram(from, to, Unreachable::Port);
        }
        for _ in 0..TURN_DATAGRAMS {
            let (from, to, bytes) = match self.hosted.receive(now, index, &mut self.buffer) {
                Ok(Some(next)) => next,
                Ok(None) => return is_any,
                Err(error) => {
                    let _ = self.taken::<()>(Err(error));
                    return true;
                }
            };
            is_any = true;
            // A datagram that is lost here might have been lost anywhere.
            let _ = capture.send_datagram(from, to, &self.buffer[..bytes]);
        }
        true
    }
}

/// Tells a program that there is no route to the target of its datagram. Without `tabane run`, connect() or send()
/// would say so at once, and a resolver need not wait for a time-out. Other errors are ignored: a datagram that is lost
/// here might have been lost anywhere.
pub(super) fn tell_nowhere(
    capture: &Capture,
    from: SocketAddr,
    to: SocketAddr,
    sent: io::Result<()>,
) {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable};
    let error = sent.err().map(|error| error.kind());
    if matches!(error, Some(NetworkUnreachable | HostUnreachable)) {
        let _ = capture.refuse_datagram(from, to, Unreachable::NetworkUnknown);
    }
}
