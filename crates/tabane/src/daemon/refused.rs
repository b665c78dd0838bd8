//! Peers that were not admitted: each is logged once, and listed in `status`.
//!
//! Addresses can be forged and first messages recorded, so the cost of a flood of them
//! is bounded: entries, and lines in the log.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use tabane_proto::crypto::HandshakeError;
use tabane_proto::{LinkId, Refusal, Time};

use super::lines::{Allowance, Lines};
use crate::status::RefusedReason;

/// Entries kept: one for each address, link and reason. Beyond that, the one
/// that has been silent longest goes for a new one.
pub const REFUSED_MAX: usize = 64;
/// The log repeats an entry after this time, if it goes on.
const TOLD_AGAIN: Duration = Duration::from_secs(3600);
/// An entry that has been silent for this long is no longer listed.
const LISTED: Duration = Duration::from_secs(3600);
/// For all entries together.
const ALLOWANCE: Allowance = Allowance {
    burst: 16,
    interval: Duration::from_secs(60),
};

/// Somebody at an address, refused on a link for one reason.
#[derive(Debug, Clone)]
pub struct Entry {
    pub address: SocketAddr,
    pub link: LinkId,
    pub reason: RefusedReason,
    pub text: String,
    pub count: u64,
    pub first: Time,
    pub last: Time,
    /// When the log told it.
    told: Option<Time>,
    /// It has been admitted since.
    settled: bool,
}

/// All of them.
#[derive(Debug)]
pub struct Refused {
    entries: Vec<Entry>,
    lines: Lines,
}

impl Refused {
    /// None yet.
    pub fn new(now: Time) -> Refused {
        Refused {
            entries: Vec::new(),
            lines: Lines::new(now, ALLOWANCE),
        }
    }

    /// Somebody was refused. Returns whether the log should tell.
    pub fn note(&mut self, now: Time, link: LinkId, from: SocketAddr, why: &Refusal) -> bool {
        let reason = reason(why);
        let same = |e: &Entry| e.address.ip() == from.ip() && e.link == link && e.reason == reason;
        let index = self.entries.iter().position(same).unwrap_or_else(|| {
            self.make_room();
            self.entries.push(Entry {
                address: from,
                link,
                reason,
                text: String::new(),
                count: 0,
                first: now,
                last: now,
                told: None,
                settled: false,
            });
            self.entries.len() - 1
        });
        let due = self.entries[index]
            .told
            .is_none_or(|told| now.since(told) >= TOLD_AGAIN);
        let tell = due && self.lines.take(now, ALLOWANCE).is_some();
        let entry = &mut self.entries[index];
        if entry.settled {
            (entry.count, entry.first, entry.settled) = (0, now, false);
        }
        entry.address = from;
        entry.text = super::events::refusal(why);
        entry.count += 1;
        entry.last = now;
        if tell {
            entry.told = Some(now);
        }
        tell
    }

    fn make_room(&mut self) {
        if self.entries.len() < REFUSED_MAX {
            return;
        }
        let oldest = (0..self.entries.len()).min_by_key(|&i| self.entries[i].last);
        if let Some(oldest) = oldest {
            self.entries.swap_remove(oldest);
        }
    }

    /// A peer with one of these addresses is connected: forgets its entries.
    pub fn settle(&mut self, own: impl Fn(IpAddr) -> bool) {
        for entry in self.entries.iter_mut().filter(|e| own(e.address.ip())) {
            entry.settled = true;
        }
    }

    /// The entries for the list, the newest first.
    pub fn listed(&self, now: Time) -> Vec<&Entry> {
        let is_new = |e: &&Entry| !e.settled && now.since(e.last) < LISTED;
        let mut listed: Vec<_> = self.entries.iter().filter(is_new).collect();
        listed.sort_by_key(|e| core::cmp::Reverse(e.last));
        listed
    }

    /// The newest message about one of these addresses.
    pub fn newest(&self, now: Time, own: impl Fn(IpAddr) -> bool) -> Option<&str> {
        let listed = self.listed(now);
        let mut of_these = listed.into_iter().filter(|e| own(e.address.ip()));
        of_these.next().map(|e| e.text.as_str())
    }
}

/// The word of `status` for a refusal.
fn reason(why: &Refusal) -> RefusedReason {
    match why {
        Refusal::Handshake(error) => match error {
            HandshakeError::WrongKey => RefusedReason::WrongKey,
            HandshakeError::WrongVersion { .. } => RefusedReason::WrongVersion,
            HandshakeError::WrongWire { .. } => RefusedReason::WrongWire,
            HandshakeError::WrongDestination { .. } => RefusedReason::WrongDestination,
            HandshakeError::WrongPeer { .. } => RefusedReason::WrongPeer,
            HandshakeError::NotThisKey => RefusedReason::WrongIdentity,
            HandshakeError::Malformed(_) | HandshakeError::NotThisHandshake => {
                RefusedReason::Malformed
            }
        },
        Refusal::UnknownNode(_) | Refusal::TooManyGuests(_) => RefusedReason::UnknownNode,
        Refusal::WrongIdentity { .. } => RefusedReason::WrongIdentity,
        Refusal::OwnName => RefusedReason::OwnName,
        Refusal::DuplicateName { .. } => RefusedReason::DuplicateName,
        Refusal::DuplicateAddress { .. } => RefusedReason::DuplicateAddress,
        Refusal::WrongLink { .. } => RefusedReason::WrongLink,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: u32) -> SocketAddr {
        (IpAddr::from(host.to_be_bytes()), 7577).into()
    }

    const LINK: LinkId = LinkId(0);
    const HOUR: u64 = 3_600_000;

    #[test]
    fn each_is_told_once_an_hour_and_counted() {
        let mut refused = Refused::new(Time::ZERO);
        let mut note = |ms, why| refused.note(Time::from_ms(ms), LINK, at(1), &why);
        assert!(note(0, Refusal::OwnName));
        assert!(!note(1, Refusal::OwnName));
        assert!(!note(HOUR - 1, Refusal::OwnName));
        assert!(note(2, Refusal::Handshake(HandshakeError::WrongKey)));
        assert!(note(HOUR, Refusal::OwnName));
        let listed = refused.listed(Time::from_ms(HOUR));
        assert_eq!(listed.len(), 2);
        assert_eq!(
            (listed[0].reason, listed[0].count),
            (RefusedReason::OwnName, 4)
        );
        assert_eq!(refused.listed(Time::from_ms(3 * HOUR)).len(), 0);
    }

    #[test]
    fn a_flood_of_addresses_costs_few_lines_and_little_memory() {
        let mut refused = Refused::new(Time::ZERO);
        let mut note = |host| refused.note(Time::from_ms(10), LINK, at(host), &Refusal::OwnName);
        assert_eq!(
            (0..100_000).filter(|&host| note(host)).count(),
            ALLOWANCE.burst as usize
        );
        assert_eq!(refused.entries.len(), REFUSED_MAX);
        let later = Time::from_ms(10 + 60_000);
        assert!(refused.note(later, LINK, at(1 << 20), &Refusal::OwnName));
        assert!(!refused.note(later, LINK, at(1 << 21), &Refusal::OwnName));
    }

    #[test]
    fn who_is_connected_is_no_longer_listed_until_it_is_refused_again() {
        let mut refused = Refused::new(Time::ZERO);
        let note = |r: &mut Refused, ms| r.note(Time::from_ms(ms), LINK, at(1), &Refusal::OwnName);
        assert!(note(&mut refused, 0));
        let is_it = |ip| ip == at(1).ip();
        assert!(refused.newest(Time::from_ms(1), is_it).is_some());
        refused.settle(is_it);
        assert_eq!(refused.newest(Time::from_ms(1), is_it), None);
        assert!(!note(&mut refused, 5), "the log has it already");
        assert_eq!(refused.listed(Time::from_ms(5))[0].count, 1);
    }
}
