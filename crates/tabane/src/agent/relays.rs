//! All connections that are carried on: from the moment both sides stand until both have said
//! everything, or one breaks.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::TcpStream;

use tabane_cluster::{FlowHeader, Protocol};
use tabane_io::failure::says_nothing;
use tabane_proto::link::PathState;
use tabane_proto::{Node, PeerId, PeerState, StreamId, Time};

use super::place::Ends;
use super::relay::{Far, Relay, Standing, Told};
use super::{Agent, Kind, Owner, token};
use crate::closing::Lent;
use crate::flow_rules::RuleId;
use crate::log;

impl Agent {
    /// Both sides are connected: carries their data.
    pub(super) fn begin(
        &mut self,
        now: Time,
        node: &mut Node,
        place: usize,
        near: Lent<TcpStream>,
        far: Far,
        ends: Ends,
    ) {
        let number = self.places.get(place).map_or(0, |place| place.number);
        let mut relay = Relay::new(number, near, far);
        let index = self.relays.vacant_key();
        if !self.has_room_to_carry() {
            return relay.reset(now, node);
        }
        match relay.stream() {
            Some(stream) => {
                relay.rule = self.begin_by_rule(node, stream, ends);
                self.stats.carried += 1;
                self.owners.insert(stream, Owner::Relay(index));
                for at in self.early_marks.remove(&stream).unwrap_or_default() {
                    relay.mark(at);
                }
            }
            None => {
                self.stats.plain += 1;
                self.plain_relays += 1;
            }
        }
        self.books.begin(number, relay.stream().is_none());
        self.relays.insert(relay);
        self.relay(now, node, index, Told::default());
    }

    /// Moves as much as possible in this turn of the loop.
    pub(super) fn relay(&mut self, now: Time, node: &mut Node, index: usize, told: Told) {
        if self.turns.is_over() {
            return self.wait_for_turn(index);
        }
        let Some(relay) = self.relays.get_mut(index) else {
            return;
        };
        let rule = relay.rule;
        let allowed_bytes = self.flow_rules.borrow().allowed_bytes(now, rule);
        let standing = relay.turn(now, node, told, &mut self.buffer, allowed_bytes);
        self.turns.spend(relay.moved());
        if rule.is_some() {
            (self.flow_rules.borrow_mut()).sent(now, rule, relay.moved_out());
            if relay.is_held && !core::mem::replace(&mut relay.is_paced, true) {
                self.paced.push_back(index);
            }
        }
        if relay.announces().is_some() && standing != Standing::Reset {
            self.announce(now, node, index);
        }
        let Some(relay) = self.relays.get_mut(index) else {
            return;
        };
        match standing {
            Standing::Goes { eager } => {
                let (near, plain) = (token(Kind::Near, index), token(Kind::Plain, index));
                if let Err(error) = relay.watch(&self.poller, near, plain) {
                    if !says_nothing(&error) {
                        return self.reset(now, node, index);
                    }
                    self.stumble("a connection cannot be waited for", &error);
                    return self.wait_for_turn(index);
                }
                self.unread.note(&mut self.relays, index);
                if eager {
                    self.wait_for_turn(index);
                }
            }
            Standing::Over => {
                if let Some(relay) = self.remove(index) {
                    relay.finish();
                }
            }
            Standing::Reset => self.reset(now, node, index),
        }
    }

    /// The rule of a connection that begins, by which its stream goes from now on.
    fn begin_by_rule(
        &self,
        node: &mut Node,
        (peer, stream): (PeerId, StreamId),
        (from, to): Ends,
    ) -> Option<RuleId> {
        let mut rules = self.flow_rules.borrow_mut();
        let rule = rules.find(&FlowHeader {
            protocol: Protocol::Tcp.number(),
            addresses: [from.ip(), to.ip()],
            ports: [from.port(), to.port()],
            dscp: None,
        })?;
        rules.begins(rule);
        // A stream that breaks now is reset in a moment.
        let _ = node.set_stream_policy(peer, stream, rules.policy(Some(rule)));
        Some(rule)
    }

    /// Relays whose rate lets something go again go on.
    pub(super) fn release_paced(&mut self, now: Time) {
        for _ in 0..self.paced.len() {
            let Some(index) = self.paced.pop_front() else {
                return;
            };
            let Some(relay) = self.relays.get_mut(index) else {
                continue;
            };
            let until = self.flow_rules.borrow().waits_until(now, relay.rule);
            if until.is_some() {
                self.paced.push_back(index);
                continue;
            }
            relay.is_paced = false;
            self.wait_for_turn(index);
        }
    }

    /// How long the loop may wait for relays that are held by their rate, at most `patience`.
    pub fn patience(&self, now: Time, patience: Duration) -> Duration {
        let rules = self.flow_rules.borrow();
        let relays = self
            .paced
            .iter()
            .filter_map(|index| self.relays.get(*index));
        let waits = relays.map(|relay| rules.waits_until(now, relay.rule));
        let waits = waits.map(|until| until.map_or(Duration::ZERO, |at| at.since(now)));
        waits.fold(patience, Duration::min)
    }

    /// One side is broken: so is the other.
    pub(super) fn reset(&mut self, now: Time, node: &mut Node, index: usize) {
        if let Some(relay) = self.remove(index) {
            relay.reset(now, node);
        }
    }

    /// A link to a peer works again, or has failed. If none works, the far ends are silent to programs.
    pub fn link_changed(&mut self, now: Time, node: &Node, peer: PeerId) {
        let is_silent = without_links(now, node, peer).is_some();
        let has_changed = match is_silent {
            true => self.silent.insert(peer),
            false => self.silent.remove(&peer),
        };
        if !has_changed {
            return;
        }
        if let Some(gateway) = &mut self.gateway {
            gateway.set_away(peer, is_silent);
        }
        for (_, relay) in &mut self.relays {
            if relay.stream().is_some_and(|(of, _)| of == peer) {
                relay.silence(is_silent);
            }
        }
    }

    /// Resets connections that have waited too long for a link to their far end; and silences far ends without a
    /// working link, also for connections that began since.
    pub(super) fn reset_cut_off(&mut self, now: Time, node: &mut Node, at_most: Duration) {
        // How long none has worked to a peer, and its relays if that is too long.
        let mut relays_of: BTreeMap<PeerId, (Option<Duration>, Vec<usize>)> = BTreeMap::new();
        for (index, relay) in &mut self.relays {
            let Some((peer, _)) = relay.stream() else {
                continue;
            };
            let known = relays_of.entry(peer);
            let (without, relays) =
                known.or_insert_with(|| (without_links(now, node, peer), Vec::new()));
            relay.silence(without.is_some());
            if without.is_some_and(|lasts| lasts >= at_most) {
                relays.push(index);
            }
        }
        let cut_off = relays_of.into_iter();
        for (peer, (_, relays)) in cut_off.filter(|(_, (_, relays))| !relays.is_empty()) {
            log::line(format!(
                "{}: no link to it has worked for {} s: {} connections of programs are reset",
                node.peer_name(peer).unwrap_or("?"),
                at_most.as_secs(),
                relays.len()
            ));
            self.stats.cut_off += relays.len() as u64;
            relays
                .into_iter()
                .for_each(|index| self.reset(now, node, index));
        }
    }

    /// Takes a relay out.
    fn remove(&mut self, index: usize) -> Option<Relay> {
        let relay = self.relays.try_remove(index)?;
        self.books.end(relay.place(), relay.stream().is_none());
        if let Some(at) = relay.unread_at {
            self.unread.remove(&mut self.relays, at);
        }
        let _ = self.poller.deregister(relay.near());
        if let Some(plain) = relay.plain() {
            self.plain_relays -= 1;
            let _ = self.poller.deregister(plain);
        }
        if let Some((peer, stream)) = relay.stream() {
            self.owners.remove(&(peer, stream));
            if let Some(urgent) = relay.announcement() {
                self.owners.remove(&(peer, urgent));
            }
        }
        Some(relay)
    }
}

/// How long no path to a peer has worked; `None`: one does.
pub(super) fn without_links(now: Time, node: &Node, peer: PeerId) -> Option<Duration> {
    let stats = node.peer_stats(peer)?;
    let paths = stats.paths;
    if paths.is_empty() {
        // It is reached through others, if at all.
        return (stats.state == PeerState::Down).then(|| now.since(stats.since));
    }
    let works = |state| matches!(state, PathState::Up | PathState::Suspect);
    if paths.iter().any(|path| works(path.state)) {
        return None;
    }
    Some(now.since(paths.iter().map(|path| path.since).max()?))
}
