//! The agent: carries the TCP connections of programs under `tabane run`. Part of the daemon's
//! loop.
//!
//! Each program (with all it starts) is in a network namespace of its own, a [`Place`]: the
//! supervisor that `tabane run` leaves there hands its sockets over, and stays for work that can
//! only be done inside. A connection begins as a [`Held`](place::Held) SYN, and becomes a
//! [`Relay`] when the far end has accepted, or is refused as the far end refuses. A connection
//! from another node's agent is an [`Inbound`] until a program here has accepted it.

mod access;
mod books;
mod claims;
mod correspondents;
mod datagrams;
mod flows;
mod hosted;
mod inbound;
mod opening;
mod outbound;
mod outside;
mod pipe;
mod place;
mod relay;
mod relays;
mod rights;
mod room;
mod spares;
mod stats;
mod turns;
mod unread;
mod urgent;
mod words;

use core::time::Duration;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;

use slab::Slab;
use tabane_cluster::RunSpec;
use tabane_io::alarm::Alarm;
use tabane_io::capture::Network;
use tabane_io::handover::{Handover, HandoverListener};
use tabane_io::poll::{Interest, Poller, Ready};
use tabane_io::sockets::{Audience, Sockets};
use tabane_proto::op::OpEvent;
use tabane_proto::{Node, PeerId, StreamId, Time};

pub use access::Access;
pub use opening::{CODE_REFUSED, Opening, SERVICE_TCP};
pub use relay::give_up;
pub use stats::AgentStats;
pub use urgent::Announcement;
pub use words::{Claim, EACCES, ToAgent, ToSupervisor, Transport};

use books::Books;
use claims::Waiting;
use flows::Flows;
use hosted::Hosted;
use inbound::Inbound;
use opening::CODE_RESET;
use place::{Ends, Place};
use relay::{Relay, Told};
use rights::Rights;
use room::Room;
use turns::Turns;
use unread::Unread;
use urgent::SERVICE_URGENT;

use crate::closing::{Closing, Lent};
use crate::flow_rules::SharedFlowRules;
use crate::gateway::Gateway;

/// Name of the supervisors' socket among a daemon's sockets.
pub const SOCKET_NAME: &str = "run";

/// Connects to the daemon for everybody, or to that of this user's programs. Blocking.
///
/// # Errors
/// `NotFound`: there is none.
pub fn find_daemon(audience: Audience) -> io::Result<Handover> {
    Sockets::of(audience).connect(SOCKET_NAME, Handover::connect)
}

/// The most bytes of one read from a program.
const BUFFER_BYTES: usize = 256 * 1024;
/// Places at once; further ones are turned away.
pub const PLACES_MAX: usize = 1024;
/// Places of one user at once that is neither root nor the daemon's; further ones are turned away.
pub const PLACES_OF_USER_MAX: usize = 64;
/// Words to a supervisor that wait until it has room for them; further ones are not said.
const UNSAID_MAX: usize = 65_536;
/// Answers to a supervisor that wait until it has room for them. One that asks more, and reads none, has ended.
const UNREAD_ANSWERS_MAX: usize = 256;
/// How long a call of the loop waits at most, of a descriptor that its user has set to wait.
const WAIT_MAX: Duration = Duration::from_millis(1);
/// Why a place has ended, for its supervisor.
const WAITS: &str = "a socket that was handed over has been set to wait";
/// Connections at once over all places; further ones are refused.
pub const RELAYS_MAX: usize = 65_536;
/// Interval of checking that.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Meaning of a poller's token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Listener = 1,
    Supervisor,
    Syn,
    Accept,
    Attempt,
    Inbound,
    Near,
    Plain,
    Datagrams,
    Flow,
    Hosted,
    /// The way outside of a place.
    Tunnel,
    /// The way outside of the cluster, at its gateway: to read, and to write.
    Outside,
}

const KINDS: [Kind; 13] = [
    Kind::Listener,
    Kind::Supervisor,
    Kind::Syn,
    Kind::Accept,
    Kind::Attempt,
    Kind::Inbound,
    Kind::Near,
    Kind::Plain,
    Kind::Datagrams,
    Kind::Flow,
    Kind::Hosted,
    Kind::Tunnel,
    Kind::Outside,
];

/// The tokens of the device outside: to read, and behind it to write.
pub const TOKEN_OUTSIDE: u64 = token(Kind::Outside, 0);

const fn token(kind: Kind, index: usize) -> u64 {
    (kind as u64) << 56 | index as u64
}

fn kind_of(token: u64) -> Option<(Kind, usize)> {
    let kind = KINDS.into_iter().find(|kind| *kind as u64 == token >> 56)?;
    Some((kind, (token & u64::from(u32::MAX)) as usize))
}

/// Whose a stream is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// Of a held connection: its place and its ends.
    Held(usize, Ends),
    Inbound(usize),
    Relay(usize),
    /// It announces an urgent byte of a relay.
    Announces(usize),
    /// It announces an urgent byte to us.
    Announcement,
}

/// A plain connection that a held one waits for.
#[derive(Debug)]
struct Attempt {
    plain: Lent<TcpStream>,
    place: usize,
    ends: Ends,
}

/// Finds other nodes by their addresses.
pub trait Directory {
    /// The peer with this address of its virtual NIC or of a link.
    fn peer_at(&self, address: IpAddr) -> Option<PeerId>;

    /// Whether this node has this address, for programs.
    fn is_own(&self, address: IpAddr) -> bool;
}

/// The agent of a node.
pub struct Agent {
    poller: Arc<Poller>,
    listener: HandoverListener,
    /// The only user whose programs it serves, if not all.
    only_of: Option<u32>,
    /// Who may begin.
    access: Access,
    started: Time,
    places: Slab<Place>,
    attempts: Slab<Attempt>,
    inbound: Slab<Inbound>,
    /// How many questions there were whether a program listens.
    questions: u64,
    relays: Slab<Relay>,
    /// How many of them are carried by plain TCP.
    plain_relays: usize,
    flows: Flows,
    hosted: Hosted,
    /// This node's part in the cluster's outside address, if there is one.
    pub gateway: Option<Gateway>,
    /// The kernel's rules of ports, as they were looked at last.
    rights: Rights,
    /// Whether this node has addresses that programs connected to, as it was looked last.
    here: HashMap<IpAddr, bool>,
    claims: Vec<Waiting>,
    room: Room,
    /// For each node, its connections that nobody here has accepted yet.
    openings: HashMap<PeerId, usize>,
    closing: Closing,
    alarm: Rc<Alarm>,
    /// This node's network namespace, if the kernel tells a socket's namespace.
    network: Option<Network>,
    /// Places, with their numbers, that must end because of what they did, and why.
    ending: Vec<(usize, u64, &'static str)>,
    /// Nobody is welcome until the next look.
    is_shut: bool,
    owners: HashMap<(PeerId, StreamId), Owner>,
    /// Incomplete announcements of urgent bytes from other agents.
    announcements: HashMap<(PeerId, StreamId), Vec<u8>>,
    /// Urgent bytes of connections that the program does not know to be established.
    early_marks: HashMap<(PeerId, StreamId), Vec<u64>>,
    /// Whose everything is.
    books: Books,
    /// Relays that have more to move than this turn lets them.
    turns: Turns,
    /// Relays that wait for a program to read.
    unread: Unread,
    /// Peers without a working link.
    silent: HashSet<PeerId>,
    buffer: Vec<u8>,
    /// A program has said something.
    said: bool,
    look_at: Time,
    /// How many places there were.
    places_begun: u64,
    /// Limits that the log has told of.
    told: HashSet<&'static str>,
    /// The cluster file's rules for connections.
    rules: RunSpec,
    /// Those for flows.
    flow_rules: SharedFlowRules,
    /// Relays whose rate lets nothing go now, in turn.
    paced: VecDeque<usize>,
    /// Counters.
    pub stats: AgentStats,
}

impl Agent {
    /// Serves the supervisors that connect to `listener`, or only those of this user.
    ///
    /// # Errors
    /// Those of the poller.
    pub fn new(
        poller: &Arc<Poller>,
        listener: HandoverListener,
        only_of: Option<u32>,
        access: Access,
        rules: RunSpec,
        now: Time,
    ) -> io::Result<Agent> {
        poller.register(&listener, token(Kind::Listener, 0), Interest::Read)?;
        let alarm = Rc::new(Alarm::new()?);
        Ok(Agent {
            poller: Arc::clone(poller),
            listener,
            only_of,
            access,
            started: now,
            places: Slab::new(),
            attempts: Slab::new(),
            inbound: Slab::new(),
            questions: 0,
            relays: Slab::new(),
            plain_relays: 0,
            flows: Flows::default(),
            hosted: Hosted::new(poller, &alarm),
            gateway: None,
            rights: Rights::look(),
            here: HashMap::new(),
            claims: Vec::new(),
            room: Room::new(),
            openings: HashMap::new(),
            closing: Closing::default(),
            alarm,
            network: Network::own()?,
            ending: Vec::new(),
            is_shut: false,
            owners: HashMap::new(),
            announcements: HashMap::new(),
            early_marks: HashMap::new(),
            books: Books::default(),
            turns: Turns::default(),
            unread: Unread::default(),
            silent: HashSet::new(),
            buffer: vec![0; BUFFER_BYTES],
            said: false,
            look_at: Time::ZERO,
            places_begun: 0,
            told: HashSet::new(),
            rules,
            flow_rules: SharedFlowRules::default(),
            paced: VecDeque::new(),
            stats: AgentStats::default(),
        })
    }

    /// Connections that begin are carried by these rules.
    pub fn set_flow_rules(&mut self, rules: SharedFlowRules) {
        self.flow_rules = rules;
    }

    /// These rules.
    pub fn flow_rules(&self) -> SharedFlowRules {
        Rc::clone(&self.flow_rules)
    }

    /// Is this token one of its own? Then call [`Agent::ready`].
    pub fn owns(token: u64) -> bool {
        kind_of(token).is_some()
    }

    /// Changes who may begin; programs that have begun go on.
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// How many programs there are (with all they started).
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// How many connections are carried now.
    pub fn relays(&self) -> usize {
        self.relays.len()
    }

    /// Whether a program has said something since this was last asked.
    pub fn take_said(&mut self) -> bool {
        core::mem::take(&mut self.said)
    }

    /// One of its descriptors is ready.
    pub fn ready(&mut self, now: Time, node: &mut Node, directory: &impl Directory, ready: Ready) {
        let Some((kind, index)) = kind_of(ready.token) else {
            return;
        };
        match kind {
            Kind::Listener => self.welcome(now),
            Kind::Supervisor => {
                self.go_on_saying(index, ready.writable);
                self.hear(now, node, index);
            }
            Kind::Syn | Kind::Accept | Kind::Datagrams
                if ready.failed && self.is_failing(index) => {}
            Kind::Syn => {
                // It waits for the answer.
                self.said = true;
                self.take_syns(now, node, directory, index);
            }
            Kind::Accept => {
                // A SYN that was repeated before its connection stood begins no other one.
                self.take_syns(now, node, directory, index);
                self.accept(now, node, index);
            }
            Kind::Attempt => self.attempted(now, index),
            Kind::Inbound => self.reached(now, node, index),
            Kind::Near | Kind::Plain => {
                let is_near = kind == Kind::Near;
                self.said |= is_near;
                let relay = self.relays.get_mut(index).filter(|_| ready.failed);
                if relay.is_some_and(|relay| {
                    relay.has_failed(is_near) || !relay.in_line && relay.is_failing()
                }) {
                    return self.reset(now, node, index);
                }
                self.relay(now, node, index, Told::by(is_near, ready));
            }
            Kind::Datagrams => {
                self.send_datagrams_on(now, index);
            }
            Kind::Flow => self.give_datagrams_back(now, index, ready.failed),
            Kind::Hosted => self.take_in(now, node, index),
            Kind::Tunnel => self.gateway.iter_mut().for_each(|it| it.can_read(index)),
            Kind::Outside if ready.readable => {
                self.gateway.iter_mut().for_each(Gateway::can_receive);
            }
            Kind::Outside => {}
        }
    }

    /// Something happened to a stream. Returns whether it was one of its own.
    pub fn event(
        &mut self,
        now: Time,
        node: &mut Node,
        directory: &impl Directory,
        peer: PeerId,
        event: OpEvent,
    ) -> bool {
        let is_broken = matches!(event, OpEvent::Broken(_));
        let (stream, broken) = match event {
            OpEvent::StreamOpened { id, service } => {
                match service {
                    SERVICE_TCP => self.opened(now, node, directory, peer, id),
                    SERVICE_URGENT => self.hear_announcement(now, node, peer, id),
                    _ => return false,
                }
                return true;
            }
            OpEvent::Readable(id) | OpEvent::Writable(id) | OpEvent::Finished(id) => (id, None),
            OpEvent::Reset { id, code } => (id, Some(code)),
            OpEvent::Stopped { id, code } => (id, Some(code)),
            OpEvent::Broken(id) => (id, Some(CODE_RESET)),
            OpEvent::MessageReady => {
                let Some(gateway) = &mut self.gateway else {
                    return false;
                };
                gateway.hear(now, node, peer);
                return true;
            }
            OpEvent::MessagesBroken { .. }
            | OpEvent::MessageRoom
            | OpEvent::Operation { .. }
            | OpEvent::Written { .. }
            | OpEvent::Read { .. } => {
                return false;
            }
        };
        let Some(&owner) = self.owners.get(&(peer, stream)) else {
            return false;
        };
        match (owner, broken) {
            (Owner::Relay(index), None) => self.relay(now, node, index, Told::default()),
            (Owner::Relay(index), Some(_)) => self.reset(now, node, index),
            (Owner::Inbound(index), None) => self.read_opening(now, node, directory, index),
            (Owner::Inbound(index), Some(_)) => drop(self.forget_inbound(index)),
            (Owner::Announces(index), None) => {
                let answer = node.read_stream(now, peer, stream, &mut [0]);
                if answer.is_err() || answer.is_ok_and(|read| read.len > 0 || read.fin) {
                    self.is_announced(now, node, peer, stream, index);
                }
            }
            (Owner::Announces(index), Some(_)) => {
                self.is_announced(now, node, peer, stream, index);
            }
            (Owner::Announcement, None) => self.hear_announcement(now, node, peer, stream),
            (Owner::Announcement, Some(_)) => {
                self.forget_announcement(now, node, peer, stream, CODE_RESET);
            }
            (Owner::Held(place, ends), None) => self.answered(now, node, place, ends),
            (Owner::Held(place, ends), Some(_)) if is_broken => {
                self.owners.remove(&(peer, stream));
                self.broke(now, node, place, ends);
            }
            (Owner::Held(place, ends), Some(code)) => {
                self.owners.remove(&(peer, stream));
                self.turned_away(now, place, ends, code);
            }
        }
        true
    }

    /// Call it once a turn of the loop: continues interrupted work, forgets what is too old, and
    /// resets connections that have waited too long for a link. `rules`: the current ones. Returns
    /// whether there is more to do at once.
    pub fn turn(&mut self, now: Time, node: &mut Node, rules: RunSpec) -> bool {
        self.rules = rules;
        self.end_misbehaved(now, node);
        let is_eager = self.turn_outside(now, node);
        self.release_paced(now);
        self.take_turns(now, node);
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            self.forget_old(now, node);
            self.tell_limits();
            self.reset_cut_off(now, node, rules.all_links_down);
            self.unread.begin_survey();
        }
        self.survey_unread(now, node) | !self.turns.is_empty() | is_eager
    }

    fn forget_old(&mut self, now: Time, node: &mut Node) {
        self.flows.forget_old(now, &self.poller);
        self.hosted.forget_old(now);
        self.here.clear();
        self.rights = Rights::look();
        let owners = &self.owners;
        self.early_marks
            .retain(|stream, _| owners.contains_key(stream));
        self.give_peers_up(now);
        self.refuse_waiting(now, node);
        self.pass_silent_over(now, node);
        self.refuse_unsaid(now, node);
        self.openings.retain(|_, openings| *openings > 0);
        self.closing.forget_idle();
        self.look_at_places(now, node);
        self.give_claims_up(now);
        for (_, place) in &mut self.places {
            place.held.retain(|_, held| {
                let keeps = held.is_wanted(now);
                if !keeps && let Some((peer, stream)) = held.stream() {
                    self.owners.remove(&(peer, stream));
                    give_up(now, node, peer, stream, CODE_RESET);
                }
                keeps
            });
        }
        self.keep_attempts(|places, attempt| {
            let place = places.get(attempt.place);
            place.is_some_and(|place| place.held.contains_key(&attempt.ends))
        });
    }
}
