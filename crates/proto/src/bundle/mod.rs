//! A bundle: the session with one peer over all its paths.
//!
//! It joins the rooms: what is carried ([`crate::op`]), the paths
//! ([`crate::link`]), the keys (`session`). `receive` goes up, `transmit` goes
//! down, `handshake` makes keys.

mod absent;
mod demand;
mod diagnosis;
mod explore;
mod handshake;
mod paths;
mod receive;
mod relays;
mod roaming;
mod schedule;
mod session;
mod status;
mod surveys;
mod tracing;
mod transmit;
mod twins;

use crate::link::thresholds::KEEPALIVE_IDLE;
pub use crate::link::thresholds::PEER_SILENT_MAX;
use core::time::Duration;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use crate::context::{Account, Context, DownReason, Event, PeerConfig};
use crate::limits::{DATAGRAM_BYTES_WIDE, LINKS_MAX};
use crate::link::{Path, PathControl, PathEvent, PathState, Progress, Watch};
use crate::op::{Ops, Outlet};
use crate::segment::{Content, Fate};
use crate::trace::Recorder;
use crate::wire::{ACK_BYTES_MAX, Name, Record};
use crate::{LinkId, PeerId, Time};

pub(crate) use absent::Absent;
use demand::Demand;
use explore::Explorer;
use paths::Paths;
use relays::{RELAYED, Relays};
use roaming::Candidate;
pub use schedule::Standby;
pub use session::{HANDSHAKE_PATIENCE, KEY_REMOVED_GRACE, RETRY_FIRST, RETRY_MAX};
use session::{InitId, Sessions};
use status::path_status;
pub use status::{PathStatus, PeerStats, RelayedStatus};
use twins::Twins;

/// A bundle that carried nothing for this long gives its spare buffers back, as an idle path does.
const TRIM_AFTER: Duration = KEEPALIVE_IDLE;
/// Events of streams and messages that wait for a driver; beyond it the oldest are dropped and
/// counted. A stream has a handful at most at a time.
const EVENTS_WAITING_MAX: usize = 1 << 18;
/// Receive buffer assumed of a peer before its handshake tells.
const PEER_BUFFER_BYTES_UNKNOWN: u32 = 256 * 1024;

/// One path of a bundle and how to reach its far end.
struct BundlePath {
    path: Path,
    /// Where packets go now: the configured address, or where the peer has answered since.
    remote: SocketAddr,
    /// Where it seems to be now, until it has answered there.
    candidate: Option<Candidate>,
    /// Whether the last probe, of a path that does not work, went to the configured address instead.
    probes_configured: bool,
    /// When the peer was last told how much was sent here ([`Record::Sent`]).
    sent_told_at: Time,
    /// When a packet that authenticated last came on it.
    heard_at: Option<Time>,
    /// Length of the last packet with content that came.
    content_bytes: usize,
    /// When the peer was last told what it is granted here.
    granted_at: Time,
    /// The answer to the last probe, if the link takes nothing now. It waits: of a link that others
    /// fill all the time nothing else may show the peer that it works.
    unsent_answer: Option<Box<Record<'static>>>,
}

impl BundlePath {
    fn new(path: Path, remote: SocketAddr) -> BundlePath {
        BundlePath {
            path,
            remote,
            candidate: None,
            probes_configured: false,
            sent_told_at: Time::ZERO,
            heard_at: None,
            content_bytes: 0,
            granted_at: Time::ZERO,
            unsent_answer: None,
        }
    }
}

/// Whether a peer is connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// No handshake has succeeded yet, or the peer said goodbye.
    Connecting,
    /// The bundle works over at least one path.
    Up,
    /// A handshake succeeded, but no path works, and none has for [`PEER_SILENT_MAX`].
    Down,
    /// Nothing is to be carried: it is connected to when something is.
    OnDemand,
}

/// A goodbye has an acknowledgement of every path in it.
const _: () = assert!(ACK_BYTES_MAX * LINKS_MAX + 64 <= DATAGRAM_BYTES_WIDE);

/// Reasons of a [`Record::Close`]: the node stops, …
pub const CLOSE_STOPS: u32 = 0;
/// … it took the peer out of its configuration, …
pub const CLOSE_REMOVED: u32 = 1;
/// … it no longer accepts the cluster key that admitted the session, …
pub const CLOSE_KEY_REMOVED: u32 = 2;
/// … another node has its name or an address of it, …
pub const CLOSE_TAKEN: u32 = 3;
/// … or the bundle rests, and goes on when one of both has something for it.
pub const CLOSE_RESTS: u32 = 4;

/// The session with one peer over all its paths.
pub(crate) struct Bundle {
    pub peer: PeerId,
    pub name: Name,
    config: PeerConfig,
    sessions: Sessions,
    paths: Paths,
    /// Paths whose link was taken away: kept for as long as the session lives,
    /// since a path that began anew would use its numbers twice under the same
    /// keys, and accept again what it had accepted before.
    parked: Paths,
    peer_buffer_bytes: u32,
    pub ops: Ops,
    /// What the node knows of what it holds.
    pub account: Account,
    /// Content to go out once more, on the path named.
    mirror: VecDeque<(LinkId, Content)>,
    /// Small answers: a record and the path it must take, or any.
    replies: VecDeque<(Option<LinkId>, Record<'static>)>,
    /// Paths (a bit each) that had arrivals, and that had acknowledgements, since the others were told.
    arrived: u16,
    acked: u16,
    state: PeerState,
    since: Time,
    /// Whether it has been connected.
    pub was_up: bool,
    restarted: bool,
    stopped: bool,
    /// The other end asks whether idle paths work.
    yields: bool,
    /// Others than this bundle have packets on the paths.
    watch: Watch,
    /// It stands in the node's list of those whose events wait.
    pub events_listed: bool,
    explorer: Explorer,
    /// When content was last sent, until the memory it took was given back.
    busy_until: Time,
    twins: Twins,
    /// What there is of relays and surveys, once there is something.
    relays: Option<Box<Relays>>,
    /// No path over a link carries.
    lost_links: bool,
    /// When ways through others are to be looked after, if they are.
    ways_at: Time,
    /// They have time while nothing is to be carried: links are in doubt, and may work.
    ways_can_wait: bool,
    /// Of one that is there only while something is to be carried.
    demand: Option<Box<Demand>>,
    /// The largest datagram that a link to the peer carries, if one works and the peer has to do with relays.
    near: Option<u16>,
    /// The peer's first messages that were answered, the newest last: each counts once.
    answered_inits: VecDeque<InitId>,
    /// First messages of another key from its address, and packets on a wrong
    /// link, so far: one may be an accident.
    wrong_keys: u8,
    wrong_links: u8,
    /// All content goes over this link, while it works ([`Bundle::confine`]).
    confined: Option<LinkId>,
    /// Of the last burst of own content.
    outlet: Outlet,
    /// While it is traced.
    recorder: Option<Box<Recorder>>,
    /// Scratch, kept for its memory.
    fates: Vec<(Content, Fate)>,
    contents: Vec<Content>,
}

/// What may be chance once is told to the operator when it was seen this often: first messages of another key from
/// the peer's address, packets on a wrong link, two machines that take turns.
const SEEN_OFTEN: u8 = 3;
/// Of so many of the peer's first messages it is remembered that they were answered. It makes one
/// every ten seconds at most, so these are all of the 240 s for which a cookie is good.
const ANSWERED_INITS: usize = 32;
/// Answers waiting to be sent at most; more are only caused by a peer that
/// floods probes, and are dropped.
const REPLIES_MAX: usize = 64;

impl Bundle {
    /// The bundle with a peer that is met just now.
    pub fn new(now: Time, absent: Absent, context: &Context) -> Bundle {
        let opens_even_streams = context.config.name < absent.config.name;
        let mut bundle = Bundle {
            peer: absent.peer,
            name: absent.name,
            config: absent.config,
            sessions: absent.sessions,
            paths: Paths::default(),
            parked: Paths::default(),
            peer_buffer_bytes: PEER_BUFFER_BYTES_UNKNOWN,
            ops: Ops::new(opens_even_streams, &context.config.op_limits),
            account: Account::default(),
            mirror: VecDeque::new(),
            replies: VecDeque::new(),
            arrived: 0,
            acked: 0,
            state: PeerState::Connecting,
            since: if absent.on_demand { now } else { absent.since },
            was_up: false,
            restarted: false,
            stopped: absent.stopped,
            yields: !opens_even_streams,
            watch: absent.watch,
            events_listed: false,
            explorer: Explorer::new(now),
            busy_until: Time::NEVER,
            twins: Twins::default(),
            relays: None,
            lost_links: false,
            ways_at: Time::NEVER,
            ways_can_wait: false,
            demand: absent.on_demand.then(|| Demand::new(now)),
            near: None,
            answered_inits: VecDeque::new(),
            wrong_keys: absent.wrong_keys,
            wrong_links: 0,
            confined: None,
            outlet: Outlet::Any,
            recorder: context.is_traced(absent.peer).then(Box::default),
            fates: Vec::new(),
            contents: Vec::new(),
        };
        bundle.rebuild_links(now, context);
        if bundle.is_on_demand() {
            bundle.hasten(now);
        }
        bundle
    }

    /// Creates or removes the path over `id` as both ends' configurations say.
    pub fn rebuild_path(&mut self, now: Time, id: LinkId, context: &Context) {
        let link = context.links[id.index()];
        let remote = self.config.addresses[id.index()];
        let there = link.zip(remote).filter(|_| self.has_links());
        let Some((link, remote)) = there else {
            self.park_path(now, id);
            return;
        };
        let config = paths::config(&link, self.peer_buffer_bytes, context);
        if let Some(mut parked) = self.parked.take(id) {
            parked.remote = remote;
            parked.candidate = None;
            parked.unsent_answer = None;
            parked.path.on_new_link(now, &config);
            self.paths.put(id, parked);
        }
        if self.paths.get(id).is_none() {
            let path = BundlePath::new(Path::new(id, now, &config), remote);
            self.paths.put(id, Box::new(path));
        }
        self.watch(self.watch);
    }

    /// Whether others than this bundle have packets on its paths, so that a failure is to be found
    /// as soon as under load.
    pub fn watch(&mut self, watch: Watch) {
        self.watch = watch;
        for p in self.paths.values_mut() {
            p.path.watch(watch);
            p.path.set_yields(self.yields);
        }
    }

    /// If a probe goes out, those that are due soon on watched and idle paths go along.
    fn ask_along(&mut self, now: Time) {
        if self.paths.values().any(|p| p.path.is_probe_due(now)) {
            let paths = self.paths.values_mut();
            paths.for_each(|p| p.path.ask_along(now));
        }
    }

    /// The link of a path is another one now, if it is there.
    pub fn renew_path(&mut self, now: Time, id: LinkId, context: &Context) {
        if let (Some(p), Some(link)) = (self.paths.get_mut(id), context.links[id.index()]) {
            let config = paths::config(&link, self.peer_buffer_bytes, context);
            p.path.on_new_link(now, &config);
        }
    }

    /// The link of a path was taken away. The peer is told, over the others.
    fn park_path(&mut self, now: Time, id: LinkId) {
        let Some(mut gone) = self.paths.take(id) else {
            return;
        };
        gone.path.on_kernel(now, false, &mut self.fates);
        self.deliver_fates(now);
        // Whoever took it away need not hear that it failed, least of all when it is back.
        while gone.path.poll_event().is_some() {}
        if let Some(PathControl::LinkState {
            generation,
            verdict,
            witness,
        }) = gone.path.poll_control(now, 0, false)
        {
            let path = id.0;
            self.reply(
                None,
                Record::LinkState {
                    path,
                    generation,
                    verdict,
                    witness,
                },
            );
        }
        self.parked.put(id, gone);
    }

    /// The path over `id`, whether its link is there or not.
    fn any_path(&mut self, id: LinkId) -> Option<&mut Path> {
        let path = self.paths.get_mut(id);
        path.or(self.parked.get_mut(id)).map(|p| &mut p.path)
    }

    /// The peer has another address on `id` now (configuration).
    pub fn set_address(
        &mut self,
        now: Time,
        id: LinkId,
        address: Option<SocketAddr>,
        context: &Context,
    ) {
        self.config.addresses[id.index()] = address;
        if let (Some(p), Some(address)) = (self.paths.get_mut(id), address)
            && p.remote != address
        {
            p.remote = address;
            p.path.on_new_address(now);
        }
        self.rebuild_path(now, id, context);
    }

    /// The paths begin afresh, with numbers from 0 on. Nothing is in flight.
    fn renew_paths(&mut self, now: Time, context: &Context) {
        self.mirror.clear();
        self.replies.clear();
        if let Some(relays) = &mut self.relays {
            relays.survey = None;
        }
        self.parked = Paths::default();
        for (id, path) in self.paths.iter_mut() {
            let link = context.links.get(id.index()).copied().flatten();
            let config = match link {
                Some(link) => Some(paths::config(&link, self.peer_buffer_bytes, context)),
                None if id.is_relayed() => {
                    Some(relays::config(path.remote, self.peer_buffer_bytes, context))
                }
                None => None,
            };
            if let Some(config) = config {
                path.path = Path::new(id, now, &config);
                path.path.watch(self.watch);
                path.path.set_yields(self.yields);
                path.sent_told_at = Time::ZERO;
                path.unsent_answer = None;
            }
        }
    }

    /// All begins afresh: the peer restarted, or this is the first session.
    fn reset(&mut self, now: Time) {
        self.restarted |= self.was_up;
        if self.was_up || self.state == PeerState::Down {
            self.state = PeerState::Connecting;
            self.since = now;
        }
    }

    /// Tells the node what it holds, and takes what it may hold.
    pub fn settle_account(&mut self, context: &mut Context) {
        let (held, wanted) = (self.ops.holdings(), context.config.op_limits.of_peer());
        let budget = &mut context.budget;
        let (share, is_short) = budget.settle(self.peer, &mut self.account, held, &wanted);
        context.stats.memory_short += u64::from(is_short);
        self.ops.set_share(&share);
    }

    /// Whether nothing is in flight on any path.
    pub fn is_quiet(&self) -> bool {
        let mut paths = self.paths.values();
        paths.all(|p| p.path.flight().in_flight_bytes() == 0)
    }

    fn path_ids(&self) -> paths::Ids {
        self.paths.ids()
    }

    /// A bit for every path that exists, resting or not.
    pub const fn path_mask(&self) -> u16 {
        self.paths.mask()
    }

    /// The paths that may be given something now, if their socket takes it: those over links while one of them carries.
    fn open_paths(&self, blocked: u8) -> impl Iterator<Item = (LinkId, &Path)> + Clone {
        let paths = self.paths.iter().map(|(id, p)| (id, &p.path));
        let is_wide = |path: &Path| path.carries() && !path.flight().is_narrow();
        let any_direct = self.direct().any(Path::carries);
        let paths = paths.filter(move |(id, _)| !(any_direct && id.is_relayed()));
        let any_wide = paths.clone().any(|(_, path)| is_wide(path));
        let closed = self.closed(blocked) | self.longer_ways();
        paths.filter(move |(id, path)| {
            closed & id.bit() == 0 && !(any_wide && path.flight().is_narrow())
        })
    }

    /// Those of them that are over links.
    fn open_links(&self, blocked: u8) -> impl Iterator<Item = (LinkId, &Path)> + Clone {
        let open = self.open_paths(blocked);
        open.filter(|(id, _)| !id.is_relayed())
    }

    /// Tells every path what the others saw since the last call: only then may
    /// it be judged by them.
    fn share_progress(&mut self, now: Time) {
        let (arrived, acked) = (
            core::mem::take(&mut self.arrived),
            core::mem::take(&mut self.acked),
        );
        if arrived | acked == 0 {
            return;
        }
        for id in self.path_ids() {
            let these = |showed: u16| self.these(showed & !id.bit());
            let sent = these(acked).map(Path::answered_sent).max();
            let arrivals = these(arrived).map(Path::patience).max();
            let acks = these(acked).map(Path::patience).max();
            let Some(p) = self.paths.get_mut(id) else {
                continue;
            };
            if let Some(patience) = arrivals {
                p.path.on_others_progress(now, Progress::Arrivals, patience);
            }
            if let (Some(patience), Some(sent)) = (acks, sent) {
                p.path
                    .on_others_progress(now, Progress::Acks(sent), patience);
            }
        }
    }

    /// These paths (a bit each), as far as they exist.
    fn these(&self, paths: u16) -> impl Iterator<Item = &Path> {
        let all = self.paths.iter();
        all.filter(move |(id, _)| paths & id.bit() != 0)
            .map(|(_, p)| &p.path)
    }

    pub fn handle_timeout(&mut self, now: Time, context: &mut Context) {
        self.share_progress(now);
        for p in self.paths.values_mut() {
            p.path.on_timeout(now, &mut self.fates);
        }
        self.seek_comparison(now);
        self.ask_along(now);
        self.deliver_fates(now);
        self.ops.on_timeout(now);
        if self.busy_until <= now {
            self.busy_until = Time::NEVER;
            self.trim();
        }
        let paths = self.path_mask() & !self.closed(0);
        if let Some(dropped) = self.sessions.on_timeout(now, paths) {
            context.sessions.remove(&dropped);
        }
        self.end_removed_key(now, context);
        self.tend_demand(now, context);
        self.update_state(now, context);
        if !self.stopped
            && self.is_wanted()
            && self
                .sessions
                .wants_initiation(now, self.state == PeerState::Down)
        {
            self.initiate(now, context);
        }
    }

    /// Gives back the memory that it took to carry something.
    fn trim(&mut self) {
        self.ops.trim();
        self.fates = Vec::new();
        self.contents = Vec::new();
        self.mirror.shrink_to(0);
        self.replies.shrink_to(0);
    }

    /// A path that is silent is judged by the others: if they are idle, ask them. (Not those that are silent, too: they are asked
    /// as it is. Nor those that are down: of their probes the last few alone are remembered, and must be answered for a return.)
    fn seek_comparison(&mut self, now: Time) {
        if self.paths.values().any(|p| p.path.lacks_comparison(now)) {
            let is_idle = |state| matches!(state, PathState::Up | PathState::Untested);
            let paths = self.paths.values_mut();
            for p in paths.filter(|p| is_idle(p.path.state())) {
                p.path.request_probe();
            }
        }
    }

    /// When something is due that can be done; `blocked` are the links whose socket takes nothing.
    pub fn next_timeout(&self, blocked: u8) -> Option<Time> {
        if self.stopped {
            return None;
        }
        // Without keys nothing can be sent, so what paths want is not due; nor are
        // acknowledgements while no path could carry them.
        let keyed = self.sessions.current.is_some();
        let closed = self.closed(blocked);
        let paths = self.paths.values().filter(|_| keyed);
        let path = self.paths.iter().filter(|_| keyed);
        let path = path
            .filter_map(|(id, p)| p.path.next_timeout(closed & id.bit() == 0))
            .min();
        let carried = schedule::any_eligible(self.open_paths(blocked));
        let sendable = paths.filter(|_| carried);
        let ack = sendable.clone();
        let ack = ack.filter_map(|p| p.path.ack_deadline()).min();
        let waits = self.ops.has_pending() || self.has_relayed();
        let paced = sendable
            .filter(|_| waits)
            .filter_map(|p| p.path.flight().room_at())
            .min();
        let silent = self.silent_at().filter(|_| self.state != PeerState::Down);
        [
            path,
            ack,
            paced,
            silent,
            (self.busy_until < Time::NEVER).then_some(self.busy_until),
            self.ways_due(),
            self.ops.next_timeout(),
            self.sessions.next_timeout(self.is_wanted()),
            self.demand_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The kernel says that a link of ours is up or down.
    pub fn handle_link(&mut self, now: Time, id: LinkId, up: bool, context: &mut Context) {
        if let Some(p) = self.paths.get_mut(id) {
            p.path.on_kernel(now, up, &mut self.fates);
            p.unsent_answer = None;
        }
        self.deliver_fates(now);
        self.update_state(now, context);
    }

    /// The kernel refused a datagram of this size on a link of ours.
    pub fn handle_refused(&mut self, now: Time, id: LinkId, datagram_bytes: usize) {
        if let Some(p) = self.paths.get_mut(id) {
            p.path.on_refused(now, datagram_bytes);
        }
    }

    fn any_path_works(&self) -> bool {
        self.paths
            .values()
            .any(|p| matches!(p.path.state(), PathState::Up | PathState::Suspect))
    }

    /// When the session under which no path works is given up. (The peer may have forgotten it: then
    /// what is sent under it is never answered.)
    fn silent_at(&self) -> Option<Time> {
        let session = self.sessions.current.as_ref()?;
        let changes = self.paths.values().map(|p| p.path.since());
        let since = changes.max().unwrap_or(self.since).max(session.since);
        (!self.any_path_works()).then(|| since + PEER_SILENT_MAX)
    }

    /// Turns what paths report into events, and notices that the peer came or went.
    pub fn update_state(&mut self, now: Time, context: &mut Context) {
        for (id, p) in self.paths.iter_mut() {
            while let Some(event) = p.path.poll_event() {
                if !id.is_relayed() {
                    context.event(path_event(self.peer, id, event));
                }
            }
        }
        self.tend_relays(now, context);
        let works = self.sessions.current.is_some() && self.any_path_works();
        let silent = self.silent_at().is_some_and(|at| now >= at) || self.is_missed(now);
        if works && self.state != PeerState::Up {
            let before = core::mem::replace(&mut self.state, PeerState::Up);
            let has_been_up = core::mem::replace(&mut self.was_up, true);
            self.since = now;
            self.set_away(now, false);
            let goes_on = before == PeerState::OnDemand && has_been_up && !self.restarted;
            // What it took to come up is given back, whether anything is carried or not.
            self.busy_until = self.busy_until.min(now + TRIM_AFTER);
            let restarted = core::mem::take(&mut self.restarted);
            if !goes_on {
                context.event(Event::PeerUp {
                    peer: self.peer,
                    restarted,
                });
            }
        } else if silent && !self.is_wanted() {
            self.begin_rest(now, context);
        } else if silent && self.state != PeerState::Down {
            self.go_down(now, DownReason::AllPathsDown, context);
        }
        self.tell_events(context);
        self.trace_states(now);
    }

    /// Hands on what happened to streams and messages, as far as there is room for it.
    pub fn tell_events(&mut self, context: &mut Context) {
        let peer = self.peer;
        while self.ops.waiting_events() > 0 {
            let room = context.takes_op_events();
            if !room && self.ops.waiting_events() <= EVENTS_WAITING_MAX {
                if !core::mem::replace(&mut self.events_listed, true) {
                    context.events_waiting.push_back(peer);
                }
                return;
            }
            match self.ops.poll_event() {
                Some(event) if room => context.op_event(peer, event, self.ops.take_rest()),
                Some(_) => context.stats.events_dropped += 1,
                None => {}
            }
        }
    }

    /// The peer is forgotten. Whoever has a stream with it is told that it is broken.
    pub fn end(&mut self, now: Time, code: u32, context: &mut Context) {
        self.farewell(now, code, context);
        self.ops.reset();
        // At most one for each stream, at the word of an operator: there is no later time for them.
        while let Some(event) = self.ops.poll_event() {
            context.op_event(self.peer, event, self.ops.take_rest());
        }
    }

    fn go_down(&mut self, now: Time, reason: DownReason, context: &mut Context) {
        if self.state == PeerState::Up || self.connected() {
            context.event(Event::PeerDown {
                peer: self.peer,
                reason,
            });
        }
        self.state = PeerState::Down;
        self.since = now;
        self.set_away(now, true);
    }

    /// Whether the whole peer is away, and not only paths to it.
    fn set_away(&mut self, now: Time, away: bool) {
        let paths = self.paths.values_mut().chain(self.parked.values_mut());
        paths.for_each(|p| p.path.set_away(now, away));
    }

    /// Something changed, so that the peer may be there again: it is asked from `at` on as if it had just gone.
    pub fn hasten(&mut self, at: Time) {
        self.sessions.hasten(at);
    }

    /// Says goodbye for good and forgets the keys.
    pub fn farewell(&mut self, now: Time, code: u32, context: &mut Context) {
        self.say_goodbye(now, code, context);
        self.stopped = true;
        self.sessions.current = None;
    }

    /// Says goodbye on every path (in `context.answers`).
    fn say_goodbye(&mut self, now: Time, code: u32, context: &mut Context) {
        self.say_goodbye_on(RELAYED, now, code, context);
        self.say_goodbye_on(!RELAYED, now, code, context);
    }

    /// Says goodbye on these paths (a bit each), and what has arrived until now by all of
    /// them, or the peer would never know what became of the last that it sent.
    fn say_goodbye_on(&mut self, paths: u16, now: Time, code: u32, context: &mut Context) {
        let mut packet = [0; DATAGRAM_BYTES_WIDE];
        let mut records = Vec::new();
        for (_, p) in self
            .paths
            .iter_mut()
            .filter(|(id, _)| paths & id.bit() != 0)
        {
            if p.path.ack_pending() {
                records.extend(p.path.take_ack(now).map(Record::Ack));
            }
        }
        records.push(Record::Close { code });
        let open = paths & !self.closed(0);
        for id in self.path_ids().filter(|id| open & id.bit() != 0) {
            let sealed = self.transmit_records(now, id, &records, 0, &mut packet, context);
            if let Some(t) = sealed {
                context.goodbye(t.link, t.to, packet[..t.bytes].to_vec());
            }
        }
    }

    fn reply(&mut self, path: Option<LinkId>, record: Record<'static>) {
        if self.replies.len() < REPLIES_MAX {
            self.replies.push_back((path, record));
        }
    }

    /// Whether the configuration has the peer's link at this address.
    pub fn is_configured_at(&self, link: LinkId, address: IpAddr) -> bool {
        let configured = self.config.addresses.get(link.index()).copied().flatten();
        configured.is_some_and(|configured| configured.ip() == address)
    }

    /// Whether packets to the peer on a link go to this address.
    pub fn is_at(&self, link: LinkId, address: SocketAddr) -> bool {
        self.paths.get(link).is_some_and(|p| p.remote == address)
    }

    /// Where the peer is on a link, if it is known to be there at all.
    pub fn address_on(&self, link: LinkId) -> Option<SocketAddr> {
        let path = self.paths.get(link).or_else(|| self.parked.get(link));
        let configured = || self.config.addresses.get(link.index()).copied().flatten();
        path.map(|p| p.remote).or_else(configured)
    }

    /// A first message of another key came from the peer's address. Whether that is more than an accident.
    pub fn notices_wrong_key(&mut self) -> bool {
        self.wrong_keys = self.wrong_keys.saturating_add(1);
        self.wrong_keys >= SEEN_OFTEN
    }

    /// A packet of a session came on a wrong link. Whether that is more than an accident.
    pub fn notices_wrong_link(&mut self) -> bool {
        self.wrong_links = self.wrong_links.saturating_add(1);
        self.wrong_links >= SEEN_OFTEN
    }

    /// Whether frames for this peer have somewhere to go.
    pub fn connected(&self) -> bool {
        let is_up = self.sessions.current.is_some() && self.state == PeerState::Up;
        is_up || self.sessions.rests && self.state == PeerState::OnDemand
    }

    /// What both ends can beyond this version, a bit each; nothing while there is no session.
    pub fn features(&self) -> u64 {
        self.sessions.current.as_ref().map_or(0, |s| s.features)
    }

    pub const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The state of each path, by its link.
    pub fn path_states(&self) -> impl Iterator<Item = (LinkId, PathState)> {
        let direct = self.paths.iter().filter(|(id, _)| !id.is_relayed());
        direct.map(|(id, p)| (id, p.path.state()))
    }
}

fn path_event(peer: PeerId, link: LinkId, event: PathEvent) -> Event {
    match event {
        PathEvent::Down { witness, at } => Event::LinkDown {
            peer,
            link,
            witness,
            at,
        },
        PathEvent::Up { at, .. } => Event::LinkUp { peer, link, at },
    }
}
