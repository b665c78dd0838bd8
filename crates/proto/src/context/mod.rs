//! What all bundles of a node share: its configuration, keys and links, its counters, the events and
//! datagrams that wait for the driver. It is the floor that [`bundle`](crate::bundle) and
//! [`Node`](crate::Node) both stand on.

mod budget;
mod config;
mod crowd;
mod event;
mod questions;
mod sessions;
mod stats;
mod transmit;

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::Random;
use crate::crypto::{ClusterKey, Identity};
use crate::limits::LINKS_MAX;
use crate::mesh::{Measurement, Members, Mesh};
use crate::op::{OpEvent, Reach, Rest};
use crate::wire::{Hello, Member, MembersDigest, Name, VERSION};
use crate::{LinkId, PeerId, Time};

pub(crate) use budget::{Account, Budget};
pub use config::{ConfigError, Guests, LinkConfig, NodeConfig, PeerConfig};
pub(crate) use crowd::Crowd;
pub use event::{DownReason, Event, PartedWhy, Refusal};
pub(crate) use questions::Questions;
pub(crate) use sessions::SessionNumbers;
pub use stats::{NodeStats, Rejection};
pub use transmit::{RanOut, Transmit};

/// Events kept for a driver that does not collect them; further ones are
/// dropped and counted. Those of streams and messages wait with their bundle when half of it is used.
const EVENTS_MAX: usize = 65_536;
/// Handshake answers waiting to be sent at most; further ones are dropped (the
/// caller repeats).
const ANSWERS_MAX: usize = 256;

/// State of the node that its bundles read and write.
pub(crate) struct Context {
    pub config: NodeConfig,
    pub name: Name,
    pub keys: Vec<ClusterKey>,
    pub identity: Identity,
    pub links: [Option<LinkConfig>; LINKS_MAX],
    /// Links (a bit each) that take nothing now: their socket would block, or they are down.
    pub blocked: u8,
    pub random: Random,
    pub stats: NodeStats,
    /// Session numbers of ours, and whose they are.
    pub sessions: SessionNumbers,
    pub events: VecDeque<Event>,
    /// Of each stream that an event says is broken: what is left to read.
    pub rests: VecDeque<Option<Rest>>,
    /// Peers that have events for which there was no room, each once.
    pub events_waiting: VecDeque<PeerId>,
    /// Handshake answers and cookies to be sent.
    pub answers: VecDeque<(LinkId, SocketAddr, Vec<u8>)>,
    /// What all bundles hold.
    pub budget: Budget,
    /// What all bundles ask on paths in doubt.
    pub questions: Questions,
    /// Who sends how much to us.
    pub crowd: Crowd,
    /// Who reaches whom.
    pub mesh: Mesh,
    /// Who belongs to the cluster, where nodes may join.
    pub members: Members,
    /// What this node measures, for a survey of its own or of a peer's: one path at a time.
    pub measuring: Option<Box<Measurement>>,
    /// No train is sent for others before.
    pub train_at: Time,
    /// The memory that operations of all bundles reach.
    pub reach: Reach,
    /// Who has sent all there was, since it was last asked.
    pub ran_out: RanOut,
    /// Content came since it was last asked.
    pub content_arrived: bool,
    /// Peers that are traced, each once.
    pub traced: Vec<PeerId>,
}

impl Context {
    /// Whether the peer is traced.
    pub fn is_traced(&self, peer: PeerId) -> bool {
        self.traced.contains(&peer)
    }

    pub fn event(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else {
            self.stats.events_dropped += 1;
        }
    }

    /// As [`event`](Context::event), but something happened to a stream or message; `rest` is for one that is
    /// broken. Never dropped: whoever has it asks [`takes_op_events`](Context::takes_op_events).
    pub fn op_event(&mut self, peer: PeerId, event: OpEvent, rest: Option<Rest>) {
        if matches!(event, OpEvent::Broken(_)) {
            self.rests.push_back(rest);
        }
        self.events.push_back(Event::Op { peer, event });
    }

    /// Whether there is room for events of streams and messages, which may be many at once.
    pub fn takes_op_events(&self) -> bool {
        self.events.len() < EVENTS_MAX / 2
    }

    pub fn answer(&mut self, link: LinkId, to: SocketAddr, datagram: Vec<u8>) {
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push_back((link, to, datagram));
        }
    }

    /// As [`answer`](Context::answer), but never dropped: there is one for each path of each peer at most.
    pub fn goodbye(&mut self, link: LinkId, to: SocketAddr, datagram: Vec<u8>) {
        self.answers.push_back((link, to, datagram));
    }

    /// Takes the answers that go through other nodes.
    pub fn take_relayed_answers(&mut self) -> Vec<(LinkId, SocketAddr, Vec<u8>)> {
        let all = core::mem::take(&mut self.answers);
        let (relayed, direct) = all.into_iter().partition(|(link, ..)| link.is_relayed());
        self.answers = VecDeque::from(direct);
        relayed
    }

    /// What this node says of itself to the peer `to` in a handshake.
    pub fn hello(&self, to: Name, session: u32, bundle: u64, peer_bundle: u64) -> Hello {
        Hello {
            version: VERSION,
            wire: self.config.wire,
            cipher_aes: self.config.cipher_aes,
            session,
            from: self.name,
            to,
            bundle,
            peer_bundle,
            receive_buffer_bytes: self.config.receive_buffer_bytes,
            features: self.config.features,
            verdict: None,
        }
    }

    /// Who this node is, for others, if nodes may join.
    pub fn own_member(&self) -> Option<Member> {
        let joining = self.members.config?;
        Some(Member {
            name: self.name,
            incarnation: joining.incarnation,
            age_s: 0,
            leaves: self.members.leaves,
            addresses: self.links.map(|link| Some(link?.address)),
            inside: joining.inside,
            public: self.config.public,
        })
    }

    /// Whom this node knows, in short.
    pub fn members_digest(&self) -> Option<MembersDigest> {
        Some(self.members.digest(&self.own_member()?))
    }

    /// The links that there are, a bit each.
    pub fn link_bits(&self) -> u8 {
        let there = self.links.iter().flatten();
        there.fold(0, |bits, link| bits | 1 << link.id.0)
    }

    /// The first answer whose link takes datagrams now.
    pub fn next_answer(&mut self) -> Option<(LinkId, SocketAddr, Vec<u8>)> {
        let open = |link: LinkId| u16::from(self.blocked) & link.bit() == 0;
        let first = self.answers.iter().position(|(link, ..)| open(*link))?;
        self.answers.remove(first)
    }

    /// A session number that nobody can guess and no session of ours has.
    pub fn new_session(&mut self, peer: PeerId) -> u32 {
        loop {
            let number = self.random.u32();
            if self.sessions.insert(number, peer) {
                return number;
            }
        }
    }
}
