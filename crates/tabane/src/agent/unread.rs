//! Connections that stand still because a program does not read: which they are, how much waits, since
//! when.
//!
//! Stalled relays are in a list of their own, so that nothing iterates over all relays. Once a second that
//! list is surveyed, a part in each turn of the loop; reports show the last survey.

use core::time::Duration;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;

use slab::Slab;
use tabane_proto::{Node, PeerId, Time};

use super::Agent;
use super::relay::Relay;
use super::relays::without_links;
use crate::status::{
    Reader, UNREAD_LISTED_MAX, UNREAD_USERS_MAX, UnreadConnection, UnreadOfUser, UnreadStatus,
};

/// A connection that has stood still for this long is reported: even a program that reads is full for
/// moments.
const UNREAD_MIN: Duration = Duration::from_secs(1);
/// Relays looked at in a turn of the loop: half a millisecond.
const TURN_RELAYS: usize = 2048;

/// Since when a relay waits for each side's reader: since that side last accepted something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stands {
    /// For its program.
    pub here: Option<Time>,
    /// For the far end.
    pub there: Option<Time>,
}

impl Stands {
    /// Whether it waits for anybody.
    pub const fn is_any(&self) -> bool {
        self.here.is_some() || self.there.is_some()
    }

    /// Since when it waits for one of them.
    const fn since(&self, reader: Reader) -> Option<Time> {
        match reader {
            Reader::Program => self.here,
            Reader::Peer => self.there,
        }
    }
}

/// Connections of one user, or of the users that are not distinguished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sum {
    connections: usize,
    bytes: u64,
    since: Time,
}

impl Sum {
    fn add(sum: Option<Sum>, other: Sum) -> Sum {
        sum.map_or(other, |sum| Sum {
            connections: sum.connections + other.connections,
            bytes: sum.bytes + other.bytes,
            since: sum.since.min(other.since),
        })
    }
}

/// Result of a survey.
#[derive(Debug, Default)]
struct Survey {
    /// By user and reader.
    sums: BTreeMap<(Option<u32>, Reader), Sum>,
    /// Those that stand longest, the shortest of them first: relays by their places in the slab.
    longest: BinaryHeap<(Time, usize, Reader)>,
}

/// Relays that wait for a reader.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// In no order; a relay knows its place here.
    waiting: Vec<usize>,
    /// The place here of the next one that is surveyed; `None`: none is under way.
    next: Option<usize>,
    begun: Survey,
    done: Survey,
}

impl Unread {
    /// Keeps a relay in the list for as long as it waits for anybody.
    pub fn note(&mut self, relays: &mut Slab<Relay>, index: usize) {
        let Some(relay) = relays.get_mut(index) else {
            return;
        };
        match (relay.stands.is_any(), relay.unread_at) {
            (true, None) => {
                relay.unread_at = Some(self.waiting.len());
                self.waiting.push(index);
            }
            (false, Some(at)) => {
                relay.unread_at = None;
                self.remove(relays, at);
            }
            _ => {}
        }
    }

    /// Removes the entry at this index, whose relay may be gone.
    pub fn remove(&mut self, relays: &mut Slab<Relay>, at: usize) {
        self.waiting.swap_remove(at);
        let moved = self
            .waiting
            .get(at)
            .and_then(|moved| relays.get_mut(*moved));
        if let Some(moved) = moved {
            moved.unread_at = Some(at);
        }
        if self.waiting.capacity() > 4 * self.waiting.len() {
            self.waiting.shrink_to(2 * self.waiting.len());
        }
    }

    /// It is time to look again.
    pub fn begin_survey(&mut self) {
        self.next.get_or_insert(0);
    }
}

impl Agent {
    /// Goes on with a survey, if one is under way. Returns whether it is not at its end.
    pub(super) fn survey_unread(&mut self, now: Time, node: &Node) -> bool {
        let Some(first) = self.unread.next else {
            return false;
        };
        let end = self.unread.waiting.len().min(first + TURN_RELAYS);
        // Whether a path to a peer works.
        let mut is_there: BTreeMap<PeerId, bool> = BTreeMap::new();
        for at in first..end {
            let index = self.unread.waiting[at];
            let Some(relay) = self.relays.get(index) else {
                continue;
            };
            let uid = self.books.get(relay.place()).map(|book| book.uid);
            for reader in [Reader::Program, Reader::Peer] {
                let since = relay.stands.since(reader);
                let Some(since) = since.filter(|at| now.since(*at) >= UNREAD_MIN) else {
                    continue;
                };
                if let (Reader::Peer, Some((peer, _))) = (reader, relay.stream()) {
                    let works = || without_links(now, node, peer).is_none();
                    if !*is_there.entry(peer).or_insert_with(works) {
                        continue;
                    }
                }
                let bytes = relay.waiting_bytes(node, reader);
                self.unread.begun.add(index, uid, reader, since, bytes);
            }
        }
        self.unread.next = (end < self.unread.waiting.len()).then_some(end);
        if self.unread.next.is_none() {
            self.unread.done = std::mem::take(&mut self.unread.begun);
        }
        self.unread.next.is_some()
    }

    /// The last survey's result, for a report made at this wall-clock time.
    pub(super) fn unread_status(&self, now: Time, node: &Node, unix_ms: u64) -> UnreadStatus {
        let done = &self.unread.done;
        let of_users: Vec<_> = done.of_users().collect();
        let of_programs = done
            .sums
            .iter()
            .filter(|((_, by), _)| *by == Reader::Program);
        let all = of_programs.map(|(_, sum)| *sum);
        let all = all.reduce(|all, sum| Sum::add(Some(all), sum));
        let age = |since| now.since(since).as_secs();
        let mut longest: Vec<_> = done.longest.iter().copied().collect();
        longest.sort_unstable();
        let listed = longest.into_iter().filter_map(|(since, index, reader)| {
            // One that has gone on meanwhile is not unread any more.
            let relay = self.relays.get(index)?;
            (relay.stands.since(reader) == Some(since)).then_some(())?;
            let book = self.books.get(relay.place());
            let program = book.and_then(|book| book.program.as_ref());
            let peer = relay.stream().and_then(|(peer, _)| node.peer_name(peer));
            let waits_ms = now.since(since).as_millis() as u64;
            Some(UnreadConnection {
                reader,
                pid: program.map(|program| program.pid),
                uid: book.map(|book| book.uid),
                command: program.map(|program| program.command.clone()),
                local: canonical(relay.near().peer_addr().ok()?),
                remote: canonical(relay.near().local_addr().ok()?),
                peer: peer.map(str::to_owned),
                bytes: relay.waiting_bytes(node, reader),
                since_unix_ms: unix_ms.saturating_sub(waits_ms),
                since_s: age(since),
            })
        });
        UnreadStatus {
            connections: all.map_or(0, |all| all.connections),
            bytes: all.map_or(0, |all| all.bytes),
            longest_s: all.map_or(0, |all| age(all.since)),
            of_users: of_users
                .into_iter()
                .map(|(uid, reader, sum)| UnreadOfUser {
                    uid,
                    reader,
                    connections: sum.connections,
                    bytes: sum.bytes,
                    longest_s: age(sum.since),
                })
                .collect(),
            listed: listed.collect(),
        }
    }
}

/// An address of IPv4 is one, also of a socket that is for both families.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Survey {
    /// A connection was found.
    fn add(&mut self, index: usize, uid: Option<u32>, reader: Reader, since: Time, bytes: u64) {
        let one = Sum {
            connections: 1,
            bytes,
            since,
        };
        let sum = self.sums.get(&(uid, reader)).copied();
        self.sums.insert((uid, reader), Sum::add(sum, one));
        self.longest.push((since, index, reader));
        if self.longest.len() > UNREAD_LISTED_MAX {
            self.longest.pop();
        }
    }

    /// The users with most waiting bytes, and all others together as nobody.
    fn of_users(&self) -> impl Iterator<Item = (Option<u32>, Reader, Sum)> {
        let mut order: Vec<_> = self.sums.iter().collect();
        order.sort_by_key(|(_, sum)| core::cmp::Reverse((sum.bytes, sum.connections)));
        let mut told: BTreeMap<(Option<u32>, Reader), Sum> = BTreeMap::new();
        for ((uid, reader), sum) in order {
            let is_told = told.len() < UNREAD_USERS_MAX;
            let key = (uid.filter(|_| is_told), *reader);
            let before = told.get(&key).copied();
            told.insert(key, Sum::add(before, *sum));
        }
        told.into_iter().map(|((uid, by), sum)| (uid, by, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_longest_are_listed_and_all_are_counted() {
        let mut survey = Survey::default();
        let all = UNREAD_LISTED_MAX + 10;
        for index in 0..all {
            // In another order than they are listed.
            let since = at((all - 1 - index) as u64);
            survey.add(index, Some(1000), Reader::Program, since, 3);
        }
        assert_eq!(survey.longest.len(), UNREAD_LISTED_MAX);
        let latest = survey.longest.iter().map(|(since, ..)| *since).max();
        assert_eq!(latest, Some(at(UNREAD_LISTED_MAX as u64 - 1)));
        let sums: Vec<_> = survey.of_users().collect();
        let sum = Sum {
            connections: all,
            bytes: 3 * all as u64,
            since: at(0),
        };
        assert_eq!(sums, [(Some(1000), Reader::Program, sum)]);
    }

    #[test]
    fn so_many_users_are_told_apart_and_no_more() {
        let mut survey = Survey::default();
        for uid in 0..2 * UNREAD_USERS_MAX as u32 {
            survey.add(
                0,
                Some(uid),
                Reader::Program,
                at(u64::from(uid)),
                u64::from(uid),
            );
        }
        let sums: Vec<_> = survey.of_users().collect();
        assert_eq!(sums.len(), UNREAD_USERS_MAX + 1);
        let (_, _, others) = sums.iter().find(|(uid, ..)| uid.is_none()).unwrap();
        assert_eq!(
            (others.connections, others.since),
            (UNREAD_USERS_MAX, at(0))
        );
    }
}
