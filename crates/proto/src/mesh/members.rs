//! Membership of the cluster, if not only the files decide it (`docs/protocol.md`, 7.14).
//!
//! Each node announces itself ([`Member`]), and nodes pass news on. Of two records of one node, the
//! one with the larger incarnation is valid. Nodes compare their knowledge now and then, so that
//! nothing is missed for long.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use super::NodeId;
use crate::wire::{Member, MemberRecord, MembersDigest, Name};
use crate::{PeerId, Time};

/// A node's own data at its start, and how nodes join and are forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joining {
    /// Whether nodes may join; otherwise only configured nodes announce themselves to each other.
    pub admits: bool,
    /// How many nodes may have joined at once.
    pub count_max: usize,
    /// First incarnation of this node's records: the milliseconds since 1970 at its start.
    pub incarnation: u64,
    /// The address of its virtual NIC and the length of the network's prefix, for the others.
    pub inside: Option<(IpAddr, u8)>,
    /// Only nodes that show a key pair of their own may join.
    pub needs_key: bool,
    /// A node that has joined is forgotten when nothing was heard of it for this long.
    pub forget_after: Duration,
}

/// A node of the cluster.
#[derive(Debug)]
struct Known {
    member: Member,
    /// When it was there last, as far as anybody knows.
    seen_at: Time,
}

/// A node that has left.
#[derive(Debug)]
struct Former {
    number: u32,
    member: Member,
    /// Until then older records of it are void.
    until: Time,
}

/// The known members of the cluster.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub config: Option<Joining>,
    /// This node is about to go for good.
    pub leaves: bool,
    known: BTreeMap<PeerId, Known>,
    former: VecDeque<Former>,
    former_count: u32,
    /// Arrived records, and their senders.
    pub arrived: VecDeque<(PeerId, MemberRecord)>,
}

/// Records that wait for the node to look at them.
const ARRIVED_MAX: usize = 1024;

impl Members {
    pub fn new(config: Option<Joining>) -> Members {
        Members {
            config,
            ..Members::default()
        }
    }

    /// A record came; the node looks at it when the packet is done with.
    pub fn arrives(&mut self, from: PeerId, record: MemberRecord) {
        if self.config.is_some() && self.arrived.len() < ARRIVED_MAX {
            self.arrived.push_back((from, record));
        }
    }

    pub fn get(&self, peer: PeerId) -> Option<&Member> {
        Some(&self.known.get(&peer)?.member)
    }

    /// The record of another node, for telling others.
    pub fn to_tell(&self, now: Time, peer: PeerId) -> Option<Member> {
        let known = self.known.get(&peer)?;
        // Rounded up: passing a record on must never make a node seem younger.
        let age_s = now.since(known.seen_at).as_nanos().div_ceil(1_000_000_000);
        Some(Member {
            age_s: u32::try_from(age_s).unwrap_or(u32::MAX),
            ..known.member.clone()
        })
    }

    /// All others that are known.
    pub fn all(&self) -> impl Iterator<Item = (PeerId, &Member)> {
        self.known
            .iter()
            .map(|(peer, known)| (*peer, &known.member))
    }

    /// Sets a peer's new record.
    pub fn set(&mut self, now: Time, peer: PeerId, member: Member) {
        self.returns(&member.name);
        let seen_at = now - Duration::from_secs(member.age_s.into());
        self.known.insert(peer, Known { member, seen_at });
    }

    /// Some node knew, `age_s` seconds ago, that a peer was there.
    pub fn was_seen(&mut self, now: Time, peer: PeerId, age_s: u32) {
        if let Some(known) = self.known.get_mut(&peer) {
            known.seen_at = known.seen_at.max(now - Duration::from_secs(age_s.into()));
        }
    }

    /// When a peer was there last, as far as anybody knows.
    pub fn seen_at(&self, peer: PeerId) -> Option<Time> {
        Some(self.known.get(&peer)?.seen_at)
    }

    /// It is a peer no longer.
    pub fn remove(&mut self, peer: PeerId) {
        self.known.remove(&peer);
    }

    /// A node has left. Returns its index among those that left, by which others are told.
    pub fn part(&mut self, now: Time, member: Member) -> Option<u32> {
        let config = self.config?;
        self.former.retain(|former| former.until > now);
        if self.former.len() >= config.count_max {
            self.former.pop_front();
        }
        let number = self.former_count;
        self.former_count = self.former_count.wrapping_add(1);
        self.former.push_back(Former {
            number,
            member,
            until: now + config.forget_after,
        });
        Some(number)
    }

    /// The node at this index.
    pub fn former(&self, number: u32) -> Option<&Member> {
        let mut all = self.former.iter();
        let found = all.find(|former| former.number == number)?;
        Some(&found.member)
    }

    /// Whether a record is of a time before its node left.
    pub fn is_past(&self, now: Time, member: &Member) -> bool {
        let is_of = |former: &&Former| former.until > now && former.member.name == member.name;
        let mut all = self.former.iter().filter(is_of);
        all.any(|former| former.member.incarnation >= member.incarnation)
    }

    /// A node of this name is there: its past does not matter.
    pub fn returns(&mut self, name: &Name) {
        self.former.retain(|former| former.member.name != *name);
    }

    /// A digest of this node's knowledge.
    pub fn digest(&self, own: &Member) -> MembersDigest {
        let all = self.known.values().map(|known| &known.member).chain([own]);
        all.fold(MembersDigest::default(), |digest, member| {
            // The numbers of names are random bits; so is their product with an odd one.
            let of_one =
                NodeId::of(&member.name).0 ^ member.incarnation.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            MembersDigest {
                count: digest.count + 1,
                sum: digest.sum.wrapping_add(of_one),
            }
        })
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let known = self.known.len() * size_of::<(PeerId, Known)>();
        known + self.former.len() * size_of::<Former>() + self.arrived.len() * size_of::<Member>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LINKS_MAX;

    const NOW: Time = Time::from_ms(1000);

    fn member(name: &str, incarnation: u64) -> Member {
        Member {
            name: Name::new(name).unwrap(),
            incarnation,
            age_s: 0,
            leaves: false,
            addresses: [None; LINKS_MAX],
            inside: None,
            public: None,
        }
    }

    fn members() -> Members {
        Members::new(Some(Joining {
            admits: true,
            count_max: 3,
            incarnation: 1,
            inside: None,
            needs_key: false,
            forget_after: Duration::from_secs(600),
        }))
    }

    #[test]
    fn who_left_comes_back_by_what_is_newer_or_by_itself() {
        let mut members = members();
        let number = members.part(NOW, member("n1", 7)).unwrap();
        assert_eq!(members.former(number), Some(&member("n1", 7)));
        assert!(members.is_past(NOW, &member("n1", 7)));
        assert!(!members.is_past(NOW, &member("n1", 8)));
        assert!(!members.is_past(NOW, &member("n2", 1)));
        let later = NOW + Duration::from_secs(600);
        assert!(!members.is_past(later, &member("n1", 7)));
        members.returns(&Name::new("n1").unwrap());
        assert!(!members.is_past(NOW, &member("n1", 7)));
    }

    #[test]
    fn only_so_many_of_the_past_are_remembered() {
        let mut members = members();
        for n in 0..5 {
            members.part(NOW, member(&format!("n{n}"), 1));
        }
        let past = |n: u32| members.is_past(NOW, &member(&format!("n{n}"), 1));
        assert_eq!([0, 1, 2, 3, 4].map(past), [false, false, true, true, true]);
    }

    #[test]
    fn how_long_ago_a_node_was_there_goes_with_what_is_told() {
        let mut members = members();
        let told = Member {
            age_s: 5,
            ..member("n1", 7)
        };
        members.set(NOW + Duration::from_secs(10), PeerId(0), told);
        let age_s = |members: &Members, s| {
            let now = NOW + Duration::from_secs(s);
            members.to_tell(now, PeerId(0)).map(|member| member.age_s)
        };
        assert_eq!(age_s(&members, 12), Some(7));
        members.was_seen(NOW + Duration::from_secs(12), PeerId(0), 9);
        assert_eq!(age_s(&members, 12), Some(7), "that was before");
        members.was_seen(NOW + Duration::from_secs(12), PeerId(0), 1);
        assert_eq!(age_s(&members, 12), Some(1));
    }

    #[test]
    fn a_digest_tells_whether_two_nodes_know_the_same() {
        let (mut a, mut b) = (members(), members());
        let [n0, n1, n2] = ["n0", "n1", "n2"].map(|name| member(name, 5));
        a.set(NOW, PeerId(0), n1.clone());
        b.set(NOW, PeerId(4), n0.clone());
        assert_eq!(a.digest(&n0), b.digest(&n1));
        b.set(NOW, PeerId(5), n2.clone());
        assert_ne!(a.digest(&n0), b.digest(&n1));
        a.set(NOW, PeerId(1), member("n2", 6));
        assert_ne!(a.digest(&n0), b.digest(&n1), "another incarnation");
        a.set(NOW, PeerId(1), n2);
        assert_eq!(a.digest(&n0), b.digest(&n1));
    }
}
