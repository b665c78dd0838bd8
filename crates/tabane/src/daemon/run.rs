//! The daemon: an engine with the virtual NIC, the control socket and signals around it.

use core::time::Duration;
use std::collections::BTreeSet;

use tabane_cluster::{Cluster, Problem, VNIC_NAME};
use tabane_engine::{Engine, HOST_TOKENS, Host, LoopTurn, Setback};
use tabane_io::clock::unix_ms;
use tabane_io::credentials::own_uid;
use tabane_io::handover::HandoverListener;
use tabane_io::netlink::Interface;
use tabane_io::poll::{Interest, Poller, Ready};
use tabane_io::privileges;
use tabane_io::signals::{Signal, Signals};
use tabane_io::sockets::{Audience, Lease, Sockets};
use tabane_io::systemd::State;
use tabane_io::udp::RECEIVE_BUFFER_BYTES;
use tabane_proto::op::OpEvent;
use tabane_proto::{Event, Node, PeerId, Time};

use super::bench::Bench;
use super::configured::{add_peers, engine};
use super::consult::Consult;
use super::health::Health;
use super::lately::Lately;
use super::lines::{Allowance, Lines, PeerLines};
use super::manager::Manager;
use super::metrics::serve_own_metrics;
use super::naming::Naming;
use super::nic::{Condition, Nic, open_nic};
use super::outside;
use super::pinging::Pings;
use super::rates::{self, RateMeter};
use super::redundancy::Watch;
use super::refused::Refused;
use super::steering::Helm;
use super::survey::Surveys;
use super::tracing::Traces;
use crate::agent::{self, Access, Agent, CODE_REFUSED, find_daemon, give_up};
use crate::exit_codes;
use crate::flow_rules::{FlowRules, SharedFlowRules};
use crate::gateway;
use crate::log::{self, ALREADY, Line};
use crate::metrics::MetricsServer;
use crate::say;
use crate::status::{Caller, ControlServer, NodesReport, Request, Response};

/// The host's descriptors, as the loop numbers them; the control server has several.
const TOKEN_SIGNALS: u64 = HOST_TOKENS;
pub(super) const TOKEN_NIC: u64 = HOST_TOKENS + 1;
/// The keeper of Multipath TCP.
pub(super) const TOKEN_KEEPER: u64 = HOST_TOKENS + 2;
/// The thread of a survey.
const TOKEN_SURVEY: u64 = HOST_TOKENS + 3;
/// The scribe of names.
pub(super) const TOKEN_SCRIBE: u64 = HOST_TOKENS + 4;
const TOKEN_CONTROL: u64 = HOST_TOKENS + 5;

/// How long a daemon lives, and for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Until it is told to stop; for all users.
    UntilTold,
    /// As long as programs of this user run under `tabane run`: for them alone, without a virtual NIC.
    WhileUsed,
}

/// The user that root's daemon becomes, if the machine has one.
const OWN_USER: &str = "tabane";

/// How long an unused daemon waits for the next program.
const UNUSED_MAX: Duration = Duration::from_secs(5);
/// Interval of checking that.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Of what cannot be waited for.
const OF_DEAFNESS: Allowance = Allowance {
    burst: 1,
    interval: Duration::from_secs(60),
};

impl Life {
    /// Whether it is here for everybody.
    fn is_for_all(self) -> bool {
        self == Life::UntilTold
    }

    fn audience(self) -> Audience {
        match self {
            Life::UntilTold => Audience::Everybody,
            Life::WhileUsed => Audience::User,
        }
    }

    /// The only user whose programs it serves, if not all.
    fn only_of(self) -> Option<u32> {
        (self == Life::WhileUsed).then(own_uid)
    }

    /// Whether a daemon for one user's programs can carry anything. (One for everybody may wait for
    /// its links.)
    fn check(self, engine: &Engine, words: &[String]) -> Result<(), String> {
        let links = engine.link_status();
        let can = links.iter().any(|link| link.buffers.is_some());
        if self.is_for_all() || can {
            return Ok(());
        }
        Err(format!(
            "no link can be used: {}; a daemon of another user, perhaps",
            words.join("; ")
        ))
    }
}

/// Runs node `me` of `cluster` until it is told to stop; returns the exit code.
pub fn up(cluster: &Cluster, me: usize, warnings: &[Problem], life: Life) -> u8 {
    for warning in warnings {
        log::warn(warning);
    }
    match Daemon::start(cluster, me, life) {
        Ok((engine, daemon)) => {
            daemon.run(engine);
            exit_codes::OK
        }
        Err(message) => say::failure(message),
    }
}

/// The callbacks of the loop.
pub(super) struct Daemon {
    pub cluster: Cluster,
    pub me: usize,
    /// The cluster's other nodes and their numbers in the loop.
    pub peers: Vec<(PeerId, usize)>,
    /// Those of them that the file does not name.
    pub joined: BTreeSet<String>,
    pub nic: Option<Nic>,
    /// Taken out while it works.
    pub agent: Option<Agent>,
    pub started: Time,
    /// The start by the wall clock, milliseconds since 1970-01-01 UTC.
    pub started_unix_ms: u64,
    pub flow_rules: SharedFlowRules,
    pub rates: RateMeter,
    pub redundancy: Watch,
    pub refused: Refused,
    pub peer_lines: PeerLines,
    pub manager: Manager,
    pub helm: Helm,
    pub naming: Naming,
    pub surveys: Surveys,
    pub traces: Traces,
    pub bench: Bench,
    pub pings: Pings,
    pub health: Health,
    pub lately: Lately,
    pub consult: Consult,
    pub control: Option<ControlServer>,
    _lease: Lease,
    pub metrics: Option<MetricsServer>,
    signals: Signals,
    life: Life,
    /// When a program was last there, and when to look again.
    used_at: Time,
    look_at: Time,
    /// The agent has more to do at once.
    is_eager: bool,
    pub stop: bool,
    /// When it stops, since this node leaves.
    pub stop_at: Option<Time>,
    /// When to make a virtual NIC in place of a lost one, and whether the last try failed.
    make_nic_at: Option<Time>,
    no_nic: Setback,
    /// Limits on log lines about events, and about the virtual NIC's, that the loop cannot wait for.
    no_events: Lines,
    no_word_of_nic: Lines,
}

/// What serves programs under `tabane run`.
fn new_agent(
    engine: &Engine,
    handover: HandoverListener,
    cluster: &Cluster,
    life: Life,
) -> Result<Agent, String> {
    let access = access(cluster, life.is_for_all());
    let (poller, now) = (engine.poller(), engine.now());
    let mut agent = Agent::new(poller, handover, life.only_of(), access, cluster.run, now)
        .map_err(|e| format!("cannot open the socket for `tabane run`: {e}"))?;
    agent.set_flow_rules(FlowRules::shared(&cluster.flows));
    Ok(agent)
}

/// Who looks after this node, if it is here for everybody.
fn health(cluster: &Cluster, me: usize, life: Life) -> Result<Health, String> {
    if !life.is_for_all() {
        return Ok(Health::default());
    }
    Health::start(&cluster.file, &cluster.nodes[me].name)
        .map_err(|e| format!("cannot look after this node: {e}"))
}

impl Daemon {
    fn start(cluster: &Cluster, me: usize, life: Life) -> Result<(Engine, Daemon), String> {
        let spec = &cluster.nodes[me];
        let signals = Signals::new().map_err(|e| format!("cannot take signals: {e}"))?;
        // The first visible action: only one daemon can have these sockets, and their owner may remove a
        // device that another daemon left behind. They are given up last.
        let sockets = Sockets::of(life.audience());
        let mut lease = sockets.take().map_err(|e| control_failure(&e))?;
        let (mut engine, words) = engine(cluster, me)?;
        let control = ControlServer::bind(&mut lease, engine.poller(), TOKEN_CONTROL)
            .map_err(|e| control_failure(&e))?;
        let handover = lease
            .bind(agent::SOCKET_NAME, HandoverListener::bind)
            .map_err(|e| control_failure(&e))?;
        life.check(&engine, &words)?;
        words.iter().for_each(log::line);
        let peers = add_peers(&mut engine, cluster, me)?;
        let nic = spec
            .vnic
            .filter(|_| life.is_for_all())
            .map(|address| open_nic(cluster, address, &peers))
            .transpose()?;
        let mut agent = new_agent(&engine, handover, cluster, life)?;
        agent.gateway = outside::open(&engine, cluster, me, &peers, life.is_for_all());
        wait_for_signals(&engine, &signals)?;
        let surveys = surveys(&engine).map_err(|e| format!("cannot make surveys: {e}"))?;
        let names = || Naming::start(engine.poller(), cluster, me);
        let naming = life.is_for_all().then(names).unwrap_or_default();
        // Not before what only root can make is there, and not after the first thread: each has its own.
        give_up_privileges(&lease);
        let metrics = serve_own_metrics(cluster, me, life.is_for_all())?;
        let health = health(cluster, me, life)?;
        let started = engine.now();
        let steers = cluster.mptcp && life.is_for_all();
        let helm = steers.then(|| Helm::start(engine.poller(), started));
        let daemon = Daemon {
            cluster: cluster.clone(),
            me,
            peers,
            joined: BTreeSet::new(),
            nic,
            flow_rules: agent.flow_rules(),
            agent: Some(agent),
            started,
            started_unix_ms: unix_ms(),
            rates: RateMeter::default(),
            redundancy: Watch::default(),
            refused: Refused::new(started),
            peer_lines: PeerLines::default(),
            manager: Manager::from_environment(),
            helm: helm.unwrap_or_default(),
            naming,
            surveys,
            traces: Traces::default(),
            bench: Bench::default(),
            pings: Pings::default(),
            health,
            lately: Lately::new(started),
            consult: Consult::default(),
            control: Some(control),
            _lease: lease,
            metrics,
            signals,
            life,
            used_at: started,
            look_at: started,
            is_eager: false,
            stop: false,
            stop_at: None,
            make_nic_at: None,
            no_nic: Setback::default(),
            no_events: Lines::new(started, OF_DEAFNESS),
            no_word_of_nic: Lines::new(started, OF_DEAFNESS),
        };
        Ok((engine, daemon))
    }

    /// The loop, until a signal ends it.
    fn run(mut self, mut engine: Engine) {
        warn_of_small_buffers(&engine);
        log::line(format!("{} is ready", self.cluster.nodes[self.me].name));
        let _ = say::print("ready\n");
        self.manager.tell(State::Ready);
        while !self.stop {
            let patience = self.surveys.patience(engine.now(), rates::INTERVAL);
            let patience = self.manager.patience(patience);
            let patience = self.outside_patience(engine.now(), patience);
            let patience = self.bench.patience(engine.now(), patience);
            let patience = self.pings.patience(engine.now(), patience);
            let patience = self.consult.patience(engine.now(), patience);
            let patience = self.flow_patience(engine.now(), patience);
            match engine.turn(&mut self, Some(patience)) {
                Ok(()) => self.manager.turned(engine.now()),
                // If it lasts, the service manager ends the daemon.
                Err(error) => tell_deafness(engine.now(), &mut self.no_events, "events", &error),
            }
            self.turn_bench(&mut engine);
            self.turn_pings(&mut engine);
            self.turn_consult(&mut engine);
            self.stop |= self.is_unused(engine.now(), &engine.node);
            self.stop |= self.stop_at.is_some_and(|at| at <= engine.now());
        }
        self.manager.tell(State::Stopping);
        let now = engine.now();
        self.leave_outside(now, &mut engine.node);
        engine.flush(now);
        engine.node.close(now);
        engine.flush(engine.now());
        self.helm.stop(engine.poller());
        self.naming.stop(engine.poller());
        log::line("stopped");
    }

    /// How long the loop may wait for what the rates of `[[flow]]` hold back, at most `patience`.
    fn flow_patience(&self, now: Time, patience: Duration) -> Duration {
        let patience = self.flow_rules.borrow().patience(now, patience);
        let agent = self.agent.as_ref();
        agent.map_or(patience, |agent| agent.patience(now, patience))
    }

    /// Makes another virtual NIC in place of one that is gone, if that is due.
    fn make_nic_again(&mut self, now: Time) {
        let due = self.make_nic_at.take_if(|at| *at <= now);
        let Some(address) = due.and(self.cluster.nodes[self.me].vnic) else {
            return;
        };
        match open_nic(&self.cluster, address, &self.peers) {
            Ok(nic) => {
                self.no_nic.end();
                self.nic = Some(nic);
            }
            Err(error) => {
                if !self.no_nic.lasts() {
                    log::warn(format!(
                        "{VNIC_NAME} cannot be made again: {error}; still trying"
                    ));
                }
                self.make_nic_at = Some(now + self.no_nic.pause());
            }
        }
    }

    /// Records a refusal for `status`; returns whether the event must be logged.
    fn note_refusal(&mut self, now: Time, event: &Event) -> bool {
        match event {
            Event::PeerUp { peer, .. } => {
                if let Some((_, node)) = self.peers.iter().find(|(id, _)| id == peer) {
                    let spec = &self.cluster.nodes[*node];
                    self.refused.settle(|address| spec.has_address(address));
                }
                true
            }
            Event::Refused { link, from, why } => self.refused.note(now, *link, *from, why),
            _ => true,
        }
    }

    fn tell_redundancy(&mut self, now: Time, told: impl IntoIterator<Item = (PeerId, Line)>) {
        for (peer, line) in told {
            let text = format!("{}: {}", self.name(peer), line.text);
            self.tell_of(now, peer, Line { text, ..line });
        }
    }

    /// Logs a line about a peer, within that peer's limit.
    pub(super) fn tell_of(&mut self, now: Time, peer: PeerId, line: Line) {
        if let Some(line) = self.peer_lines.take(now, peer, line) {
            line.say();
        }
    }

    /// Answers a client of the control socket.
    fn answer(
        &mut self,
        turn: &mut LoopTurn<'_>,
        request: Request,
        caller: Caller,
        client: u64,
    ) -> Response {
        match request {
            Request::Status => {
                let mut report = super::report::report(self, turn);
                self.lately.note(turn.now, &mut report.node);
                Response::Status(Box::new(report))
            }
            Request::Nodes => Response::Nodes(NodesReport::of(&self.cluster, self.me)),
            Request::Members => Response::Members(self.members(turn)),
            Request::Reload { .. } | Request::Leave if caller == Caller::Anyone => Response::Error(
                "only root, or the user that the daemon runs as, may tell it so".to_owned(),
            ),
            Request::Gateway { .. } if caller == Caller::Anyone => Response::Error(
                "only root, or the user that the daemon runs as, may move the gateway".to_owned(),
            ),
            Request::Gateway { to } => self
                .move_gateway(turn, to.as_deref())
                .map_or_else(Response::Error, Response::Gateway),
            Request::Leave => self
                .leave(turn)
                .map_or_else(Response::Error, Response::Members),
            Request::Reload { check } => Response::Reload(self.reload(turn, check)),
            Request::Topo { measure: true } if caller == Caller::Anyone => Response::Error(
                "only root, or the user that the daemon runs as, may tell it to measure".to_owned(),
            ),
            Request::Trace { peer, qvis } => self
                .begin_trace(turn, (client, caller), &peer, qvis)
                .map_or_else(Response::Error, Response::Trace),
            Request::Bench { peer, seconds, udp } => self
                .begin_bench(turn, (client, caller), &peer, (seconds, udp))
                .map_or_else(Response::Error, Response::Bench),
            Request::Ping { peer, interval_ms } => self
                .begin_ping(turn.now, (client, caller), &peer, interval_ms)
                .map_or_else(Response::Error, Response::Ping),
            Request::Consult { peer } => self
                .begin_consult(turn, client, peer.as_deref())
                .map_or_else(Response::Error, Response::Consult),
            Request::Topo { measure } => {
                if measure {
                    self.begin_survey(turn.now, turn.node);
                }
                Response::Topo(self.surveys.report())
            }
        }
    }

    /// Whether it served programs that have all ended (and their last words are on their way), or another
    /// daemon serves everybody now.
    fn is_unused(&mut self, now: Time, node: &Node) -> bool {
        if self.life.is_for_all() || now < self.look_at {
            return false;
        }
        self.look_at = now + LOOK_EVERY;
        let serves = |agent: &Agent| agent.places() > 0 || agent.relays() > 0;
        let mut peers = self.peers.iter();
        if self.agent.as_ref().is_some_and(serves)
            || peers.any(|(peer, _)| node.queued_bytes(*peer) > 0)
        {
            self.used_at = now;
        }
        let is_superseded = find_daemon(Audience::Everybody).is_ok();
        if is_superseded {
            log::line("a daemon for everybody runs here now: this one ends");
        }
        is_superseded || now.since(self.used_at) > UNUSED_MAX
    }

    /// Handles a stream's event: the stream is a measurement's, the agent's, or nobody's.
    fn on_stream(&mut self, now: Time, node: &mut Node, peer: PeerId, event: OpEvent) {
        if self.bench.event(now, node, peer, event) || self.consult.event(now, node, peer, event) {
            return;
        }
        if let Some(mut agent) = self.agent.take() {
            let is_its = agent.event(now, node, self, peer, event);
            self.agent = Some(agent);
            if is_its {
                return;
            }
        }
        if let OpEvent::StreamOpened { id, .. } = event {
            give_up(now, node, peer, id, CODE_REFUSED);
        }
    }

    /// Whether it is here for everybody.
    pub(super) fn is_for_all(&self) -> bool {
        self.life.is_for_all()
    }

    pub(super) fn name(&self, peer: PeerId) -> String {
        let node = self
            .peers
            .iter()
            .find(|(id, _)| *id == peer)
            .map(|(_, node)| *node);
        node.map_or_else(
            || "?".to_owned(),
            |node| self.cluster.nodes[node].name.clone(),
        )
    }
}

/// Logs, at most once in a while, that the loop gets no events of `what`: that may come and go.
fn tell_deafness(now: Time, lines: &mut Lines, what: &str, error: &std::io::Error) {
    if lines.take(now, OF_DEAFNESS).is_some() {
        log::warn(format!(
            "the kernel does not tell of {what} ({error}); still trying"
        ));
    }
}

fn control_failure(error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::AddrInUse {
        return format!("{ALREADY} (see `tabane status`); only one can run in a network namespace");
    }
    format!("cannot open the sockets for `tabane status` and `tabane run`: {error}")
}

/// Who may use this daemon for `tabane run`; logs users that this machine does not know.
pub(super) fn access(cluster: &Cluster, is_for_all: bool) -> Access {
    if !is_for_all {
        return Access::Everybody;
    }
    let (access, unknown) = Access::of(&cluster.run_users);
    unknown.iter().for_each(log::line);
    access
}

/// Drops the privileges that the service manager would not give (`dist/systemd/tabane.service`), whoever
/// has started the daemon.
fn give_up_privileges(lease: &Lease) {
    match privileges::give_up(OWN_USER, |uid| lease.give_to(uid)) {
        Ok(Some(uid)) => log::line(format!("goes on as user {uid} ({})", OWN_USER)),
        Ok(None) => {}
        Err(error) => log::warn(format!("keeps more privileges than it needs: {error}")),
    }
}

fn wait_for_signals(engine: &Engine, signals: &Signals) -> Result<(), String> {
    let poller = engine.poller();
    let registered = poller.register(signals, TOKEN_SIGNALS, Interest::Read);
    registered.map_err(|e| format!("cannot wait for signals: {e}"))
}

/// The surveys of a node; their threads wake the loop.
fn surveys(engine: &Engine) -> std::io::Result<Surveys> {
    let surveys = Surveys::new(engine.now())?;
    let poller = engine.poller();
    poller.register(&*surveys.notify, TOKEN_SURVEY, Interest::Read)?;
    Ok(surveys)
}

/// A socket buffer that is too small loses packets whenever the loop is late.
fn warn_of_small_buffers(engine: &Engine) {
    let granted = engine.link_status().into_iter().filter_map(|l| l.buffers);
    if let Some(bytes) = granted.map(|b| b.receive_bytes).min()
        && bytes < RECEIVE_BUFFER_BYTES
    {
        log::warn(format!(
            "warning: the kernel grants receive buffers of {bytes} bytes only; for full speed run \
             `sysctl -w net.core.rmem_max={RECEIVE_BUFFER_BYTES}`, or give CAP_NET_ADMIN"
        ));
    }
}

impl Host for Daemon {
    fn event(&mut self, now: Time, node: &mut Node, event: Event) {
        self.on_members_event(now, node, &event);
        if let Event::Measured {
            token,
            outcome,
            behind,
        } = event
        {
            self.surveys.on_measured(now, token, outcome, behind);
            return self.turn_survey(now, node);
        }
        // Its removal from the cluster file is logged instead.
        let is_gone = |peer| !self.peers.iter().any(|(id, _)| *id == peer);
        if event.peer().is_some_and(is_gone) {
            // But programs with a connection to it must learn that it is over.
            if let Event::Op { peer, event } = event {
                self.on_stream(now, node, peer, event);
            }
            return;
        }
        if self.note_refusal(now, &event)
            && let Some(line) = super::events::describe(
                &event,
                |peer| self.name(peer),
                |address| self.cluster.node_at(address).map(|node| node.name.clone()),
            )
        {
            match event.peer() {
                Some(peer) => self.tell_of(now, peer, line),
                None => line.say(),
            }
        }
        self.helm.event(now, &event);
        if let Event::PeerUp { peer, .. } = event {
            self.survey_peer_up(now, node, peer);
        }
        let told = self.redundancy.event(now, node, &event);
        self.tell_redundancy(now, told);
        match (event, &mut self.agent) {
            (Event::Op { peer, event }, _) => self.on_stream(now, node, peer, event),
            (Event::PeerUp { peer, restarted }, Some(agent)) => {
                if let Some(gateway) = &mut agent.gateway {
                    gateway.peer_up(now, peer, restarted);
                }
                agent.peer_up(now, node, peer);
            }
            (Event::PeerDown { peer, .. }, Some(agent)) => {
                agent
                    .gateway
                    .iter_mut()
                    .for_each(|it| it.peer_down(now, peer));
            }
            (Event::LinkUp { peer, .. } | Event::LinkDown { peer, .. }, Some(agent)) => {
                agent.link_changed(now, node, peer);
            }
            _ => {}
        }
    }

    fn frame(&mut self, from: PeerId, frame: &mut Vec<u8>) {
        if gateway::is_packet(frame) {
            let gateway = self.agent.iter_mut().flat_map(|agent| &mut agent.gateway);
            gateway.for_each(|it| it.carried(tabane_engine::now(), from, frame));
            return;
        }
        if self.bench.frame(from, frame) {
            return;
        }
        if let Some(nic) = &mut self.nic {
            nic.deliver(from, frame);
        }
    }

    fn frames_end(&mut self) {
        if let Some(nic) = &mut self.nic {
            nic.delivered();
        }
    }

    fn ready(&mut self, turn: &mut LoopTurn<'_>, ready: Ready) {
        if Agent::owns(ready.token) {
            if let Some(mut agent) = self.agent.take() {
                agent.ready(turn.now, turn.node, self, ready);
                self.agent = Some(agent);
            }
            return;
        }
        match ready.token {
            TOKEN_SIGNALS => {
                while let Ok(Some(signal)) = self.signals.read() {
                    match signal {
                        Signal::Abort => self.stop = true,
                        Signal::Terminate | Signal::Interrupt => self.stop_soon(turn.now),
                        Signal::Hangup => drop(self.reload(turn, false)),
                    }
                }
            }
            TOKEN_KEEPER => self.steered(turn),
            TOKEN_SCRIBE => self.scribe_said(turn),
            TOKEN_SURVEY => self.turn_survey(turn.now, turn.node),
            TOKEN_NIC => {
                if let Some(nic) = &mut self.nic {
                    nic.ready();
                }
            }
            _ => {
                // Taken out while it works, because the report is made from all of `self`.
                let Some(mut control) = self.control.take() else {
                    return;
                };
                if let Err(error) = control.turn(turn.poller, |request, caller, client| {
                    self.answer(turn, request, caller, client)
                }) {
                    log::warn(format!("control socket: {error}"));
                }
                self.control = Some(control);
            }
        }
    }

    fn produce(&mut self, now: Time, node: &mut Node) -> bool {
        self.rates
            .turn(now, node, self.peers.iter().map(|(peer, _)| *peer));
        let told = self.redundancy.turn(now, node);
        self.tell_redundancy(now, told);
        self.turn_survey(now, node);
        self.consider_survey(now, node);
        let rules = self.cluster.run;
        let mut said = false;
        if let Some(agent) = &mut self.agent {
            self.is_eager = agent.turn(now, node, rules);
            said = agent.take_said();
        }
        self.tell_of_outside();
        self.tell_traces(now, node);
        self.make_nic_again(now);
        let Some(nic) = &mut self.nic else {
            return said;
        };
        if let Some(overrun) = nic.look_for_overrun(now) {
            log::warn(overrun);
        }
        said | nic.produce(now, node, &mut self.flow_rules.borrow_mut())
    }

    fn before_wait(&mut self, node: &Node, poller: &Poller) -> bool {
        self.draw(node, poller);
        self.tell_names(tabane_engine::now(), poller);
        let is_eager = self.is_eager || self.bench.before_wait(node);
        let Some(nic) = &mut self.nic else {
            return is_eager;
        };
        let is_pending = nic.before_wait(node, poller).unwrap_or_else(|error| {
            let now = tabane_engine::now();
            tell_deafness(now, &mut self.no_word_of_nic, VNIC_NAME, &error);
            false
        });
        is_pending || is_eager
    }

    fn link_changed(&mut self, text: &str) {
        log::line(text);
    }

    fn devices_changed(&mut self, devices: &[Interface]) {
        self.look_outside(devices);
        let Some(nic) = &mut self.nic else {
            return;
        };
        if !nic.look(devices) {
            return;
        }
        match nic.condition().trouble() {
            None => log::line(format!("{VNIC_NAME} is as it was made again")),
            Some(trouble) => log::warn(format!("{VNIC_NAME}: {trouble}")),
        }
        if nic.condition() == Condition::Gone {
            let now = tabane_engine::now();
            self.nic = None;
            self.make_nic_at = Some(now);
            self.make_nic_again(now);
        }
    }
}
