//! All connections that are carried on: from the moment both sides stand until both have said
//! everything, or one breaks.

use core::time::Duration;
use std::collections::BTreeMap;

use tabane_proto::link::PathState;
use tabane_proto::{Node, PeerId, Time};

use super::relay::{Far, Near, Relay, Standing, Told};
use super::{Agent, Kind, Owner, token};
use crate::daemon::log;

impl Agent {
    /// Both sides stand: carries what they say.
    pub(super) fn begin(&mut self, now: Time, node: &mut Node, place: usize, near: Near, far: Far) {
        let number = self.places.get(place).map_or(0, |place| place.number);
        let mut relay = Relay::new(number, near, far);
        let index = self.relays.vacant_key();
        if !self.has_room_to_carry() {
            let uid = self.books.uid(number);
            return self.close_aside(uid, relay.reset(now, node));
        }
        match relay.stream() {
            Some(stream) => {
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

    /// Moves what can be moved in this turn of the loop.
    pub(super) fn relay(&mut self, now: Time, node: &mut Node, index: usize, told: Told) {
        if self.turns.is_over() {
            return self.wait_for_turn(index);
        }
        let Some(relay) = self.relays.get_mut(index) else {
            return;
        };
        let standing = relay.turn(now, node, told, &mut self.buffer);
        self.turns.spend(relay.moved());
        if relay.announces().is_some() && standing != Standing::Reset {
            self.announce(now, node, index);
        }
        let Some(relay) = self.relays.get_mut(index) else {
            return;
        };
        match standing {
            Standing::Goes { eager } => {
                let (near, plain) = (token(Kind::Near, index), token(Kind::Plain, index));
                if relay.watch(&self.poller, near, plain).is_err() {
                    self.reset(now, node, index);
                    return;
                }
                self.unread.note(&mut self.relays, index);
                if eager {
                    self.wait_for_turn(index);
                }
            }
            Standing::Over => {
                if let Some((relay, uid)) = self.remove(index) {
                    self.close_aside(uid, relay.finish());
                }
            }
            Standing::Reset => self.reset(now, node, index),
        }
    }

    /// One side is broken: so is the other.
    pub(super) fn reset(&mut self, now: Time, node: &mut Node, index: usize) {
        if let Some((relay, uid)) = self.remove(index) {
            self.close_aside(uid, relay.reset(now, node));
        }
    }

    /// Closes what a user has handed over, if it is anything.
    pub(super) fn close_aside(&mut self, uid: u32, thing: Option<impl Send + 'static>) {
        if let Some(thing) = thing {
            self.closing.close(uid, thing);
        }
    }

    /// Resets what has waited too long for a link to its far end.
    pub(super) fn reset_cut_off(&mut self, now: Time, node: &mut Node, at_most: Duration) {
        let is_cut_off =
            |peer| without_links(now, node, peer).is_some_and(|lasts| lasts >= at_most);
        // `None` of a peer that is not.
        let mut relays_of: BTreeMap<PeerId, Option<Vec<usize>>> = BTreeMap::new();
        for (index, relay) in &self.relays {
            let Some((peer, _)) = relay.stream() else {
                continue;
            };
            let relays = relays_of.entry(peer);
            if let Some(relays) = relays.or_insert_with(|| is_cut_off(peer).then(Vec::new)) {
                relays.push(index);
            }
        }
        let cut_off = relays_of.into_iter();
        for (peer, relays) in cut_off.filter_map(|(peer, relays)| Some((peer, relays?))) {
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

    /// Takes a relay out; whose it is, too.
    fn remove(&mut self, index: usize) -> Option<(Relay, u32)> {
        let relay = self.relays.try_remove(index)?;
        let uid = self.books.uid(relay.place());
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
        Some((relay, uid))
    }
}

/// How long no path to a peer has worked; `None`: one does.
pub(super) fn without_links(now: Time, node: &Node, peer: PeerId) -> Option<Duration> {
    let paths = node.peer_stats(peer)?.paths;
    let works = |state| matches!(state, PathState::Up | PathState::Suspect);
    if paths.iter().any(|path| works(path.state)) {
        return None;
    }
    Some(now.since(paths.iter().map(|path| path.since).max()?))
}
