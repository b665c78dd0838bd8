//! A measurement that this node makes: phase after phase, and two looks at both ends' counters in each.

use core::time::Duration;
use std::collections::VecDeque;

use tabane_engine::{Engine, LoopTurn};
use tabane_proto::link::PathState;
use tabane_proto::op::Policy;
use tabane_proto::{LinkId, Node, PeerId, StreamId, Time};

use super::super::conversation::Conversation;
use tabane_io::clock::unix_ms;

use super::figures::figures;
use super::flows::Flows;
use super::plan::{Phase, Traffic, plan};
use crate::agent::{CODE_REFUSED, give_up};
use crate::bench::judge::{LinkSeen, judge};
use crate::bench::sample::{Look, Sample, Way};
use crate::bench::words::{Answer, CODE_OVER, Question, SERVICE, VERSION};
use crate::bench::{BenchReport, LinkResult, RoundTrips, SCHEMA, Told, WayResult};

/// The peer answers a question within this time, or it does not answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Datagrams that have not arrived this long after the last was sent are lost.
const DRAIN: Duration = Duration::from_millis(300);
/// Small messages leave no more often than this: they are to find the processors as they are, not to keep them busy.
const ECHO_EVERY: Duration = Duration::from_millis(5);
const MESSAGE_BYTES: usize = 16;

/// How far the present phase is.
#[derive(Debug)]
enum Step {
    /// The peer was asked for its figures.
    Asked { since: Time, then: Then },
    /// Nothing counts until then.
    Warming { until: Time },
    /// What happens counts from the look on.
    Dwelling { from: Look, until: Time },
    /// What was sent still arrives.
    Draining { sample: Sample, until: Time },
}

/// What the answer begins or ends.
#[derive(Debug)]
enum Then {
    /// The measurement.
    Begin,
    /// What counts.
    First,
    /// What counted.
    Last(Look),
    /// What arrived of datagrams.
    Drained(Sample),
}

/// Small messages, each sent after the echo of the one before.
#[derive(Debug)]
struct Echo {
    stream: StreamId,
    sent_at: Option<Time>,
    next_at: Time,
    came_bytes: usize,
    idle_us: Vec<u32>,
    loaded_us: Vec<u32>,
}

/// This node's measurement.
#[derive(Debug)]
pub struct Ours {
    /// The client of the control socket that waits for it.
    pub client: u64,
    peer: PeerId,
    /// This node's, and the peer's.
    names: [String; 2],
    session: Conversation,
    begins: Time,
    /// How long it lasts.
    lasting: Duration,
    phases: VecDeque<Phase>,
    phase: Option<Phase>,
    step: Step,
    /// Streams of the phase.
    streams: Vec<StreamId>,
    /// The last look before the phase.
    before: Look,
    echo: Option<Echo>,
    report: BenchReport,
    /// Why it goes no further.
    failed: Option<String>,
}

impl Ours {
    /// Asks the peer to take part.
    ///
    /// # Errors
    /// It cannot be asked; for people.
    pub fn begin(
        turn: &mut LoopTurn<'_>,
        client: u64,
        (peer, names): (PeerId, [String; 2]),
        (seconds, datagrams): (u32, bool),
    ) -> Result<Ours, String> {
        let [node, name] = names.clone();
        turn.node.want(turn.now, peer);
        let opened = turn
            .node
            .open_stream(turn.now, peer, SERVICE, Policy::Stripe);
        let stream = opened.map_err(|error| format!("{name}: {error}"))?;
        let session = Conversation::new(peer, stream);
        let begin = Question::Begin {
            version: VERSION,
            seconds,
        };
        session.say(turn.now, turn.node, &begin.to_line());
        let is_up = |(link, state): (LinkId, PathState)| {
            (state == PathState::Up && !link.is_relayed()).then_some(link.0)
        };
        let links: Vec<u8> = turn.node.path_states(peer).filter_map(is_up).collect();
        let result = |link: &u8| LinkResult {
            link: *link,
            ..LinkResult::default()
        };
        Ok(Ours {
            client,
            peer,
            names,
            session,
            begins: turn.now,
            lasting: Duration::from_secs(seconds.into()),
            phases: plan(seconds, &links, datagrams),
            phase: None,
            step: Step::Asked {
                since: turn.now,
                then: Then::Begin,
            },
            streams: Vec::new(),
            before: Look::default(),
            echo: None,
            report: BenchReport {
                schema: SCHEMA,
                node,
                peer: name,
                seconds,
                links: links.iter().map(result).collect(),
                ..BenchReport::default()
            },
            failed: None,
        })
    }

    /// With whom.
    pub const fn peer(&self) -> PeerId {
        self.peer
    }

    /// The peer's name.
    pub fn peer_name(&self) -> &str {
        &self.names[1]
    }

    /// When it will have ended, about.
    pub fn until(&self) -> Time {
        self.begins + self.lasting
    }

    /// When something is to be done next.
    pub fn due(&self) -> Time {
        let step = self.due_step();
        let waits = self.echo.as_ref().filter(|echo| echo.sent_at.is_none());
        waits.map_or(step, |echo| step.min(echo.next_at))
    }

    /// Whether a stream is the session's or that of small messages.
    pub fn has(&self, peer: PeerId, stream: StreamId) -> bool {
        let is_echo = self.echo.as_ref().is_some_and(|it| it.stream == stream);
        self.peer == peer && (self.session.stream == stream || is_echo)
    }

    /// A stream is over, for this reason of the peer's.
    pub fn broken(&mut self, stream: StreamId, code: Option<u32>) {
        let is_new = matches!(
            self.step,
            Step::Asked {
                then: Then::Begin,
                ..
            }
        );
        let is_session = self.session.stream == stream;
        let why = why_over(self.peer_name(), code, is_new, is_session);
        self.failed.get_or_insert(why);
    }

    /// Something came of a small message.
    pub fn hear_echo(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        let is_loaded = self.phase.as_ref().is_some_and(Phase::is_loaded);
        let is_idle = self
            .phase
            .as_ref()
            .is_some_and(|it| it.traffic == Traffic::Idle);
        let counts = matches!(self.step, Step::Dwelling { .. });
        let Some(echo) = self.echo.as_mut().filter(|echo| echo.stream == stream) else {
            return;
        };
        let read = node.take_stream(now, self.peer, stream, |bytes| bytes.len());
        echo.came_bytes += read.map_or(0, |read| read.len);
        if echo.came_bytes < MESSAGE_BYTES {
            return;
        }
        echo.came_bytes = 0;
        let Some(sent_at) = echo.sent_at.take() else {
            return;
        };
        let took_us = u32::try_from(now.since(sent_at).as_micros()).unwrap_or(u32::MAX);
        match (counts, is_idle, is_loaded) {
            (true, true, _) => echo.idle_us.push(took_us),
            (true, _, true) => echo.loaded_us.push(took_us),
            _ => {}
        }
    }

    /// Does what is due; returns what the client is to be told.
    pub fn turn(&mut self, now: Time, engine: &mut Engine, flows: &mut Flows) -> Vec<Told> {
        let mut told = Vec::new();
        self.hear(now, engine, flows, &mut told);
        self.go_on(now, &mut engine.node, flows);
        self.send_echo(now, &mut engine.node);
        if let Some(text) = self.failed.take() {
            told.push(Told::Failed { text });
        }
        told
    }

    /// Reads the peer's answer, if one is awaited and there.
    fn hear(&mut self, now: Time, engine: &mut Engine, flows: &mut Flows, told: &mut Vec<Told>) {
        while self.failed.is_none() {
            let heard = self.session.hear(now, &mut engine.node);
            let Ok(Some(line)) = heard else {
                let is_malformed = heard.is_err();
                if self.session.is_over || is_malformed {
                    self.broken(self.session.stream, None);
                }
                return;
            };
            match (Answer::parse(&line), &self.step) {
                (Ok(Answer::Figures(there)), Step::Asked { .. }) => {
                    let here = figures(now, engine, self.peer, flows.counts);
                    self.answered(now, engine, flows, Look { here, there }, told);
                }
                (Ok(Answer::Refused { text }), _) => {
                    self.failed = Some(format!("{} refuses: {text}", self.peer_name()));
                }
                _ => {
                    let name = self.peer_name();
                    self.failed = Some(format!(
                        "{name} has answered what is not understood here: is its tabane of another version?"
                    ));
                }
            }
        }
    }

    /// The figures that were asked for are there.
    fn answered(
        &mut self,
        now: Time,
        engine: &mut Engine,
        flows: &mut Flows,
        look: Look,
        told: &mut Vec<Told>,
    ) {
        let Step::Asked { then, .. } =
            core::mem::replace(&mut self.step, Step::Warming { until: now })
        else {
            return;
        };
        let lasting = self
            .phase
            .as_ref()
            .map(|phase| (phase.lasting, phase.warm()));
        let (lasting, warm) = lasting.unwrap_or_default();
        match then {
            Then::Begin => {
                self.before = look;
                self.open_echo(now, &mut engine.node);
                self.next_phase(now, &mut engine.node, flows, told);
            }
            Then::First => {
                let until = now + (lasting - warm);
                self.step = Step::Dwelling { from: look, until };
            }
            Then::Last(from) => {
                let sample = Sample { from, to: look };
                self.end_streams(now, &mut engine.node, flows);
                let is_datagrams = |phase: &Phase| phase.traffic == Traffic::Datagrams;
                if self.phase.as_ref().is_some_and(is_datagrams) {
                    let until = now + DRAIN;
                    self.step = Step::Draining { sample, until };
                    return;
                }
                // Others may have been in the way before anything counted: they are until the phase ends.
                let whole = Sample {
                    from: core::mem::replace(&mut self.before, sample.to.clone()),
                    to: sample.to.clone(),
                };
                self.note(&sample, &whole);
                self.next_phase(now, &mut engine.node, flows, told);
            }
            Then::Drained(sample) => {
                let all = Sample {
                    from: core::mem::replace(&mut self.before, look.clone()),
                    to: look,
                };
                self.note_datagrams(&sample, &all);
                self.next_phase(now, &mut engine.node, flows, told);
            }
        }
    }

    /// Takes the next step, if it is time for it.
    fn go_on(&mut self, now: Time, node: &mut Node, flows: &mut Flows) {
        if now < self.due_step() || self.failed.is_some() {
            return;
        }
        let step = core::mem::replace(&mut self.step, Step::Warming { until: Time::NEVER });
        let then = match step {
            Step::Asked { .. } => {
                let name = self.peer_name();
                let wait_s = ANSWER_MAX.as_secs();
                self.failed = Some(match node.is_connected(self.peer) {
                    true => format!("{name} has not answered for {wait_s} s"),
                    false => format!("{name} is not connected; `tabane status {name}` says more"),
                });
                return self.end_streams(now, node, flows);
            }
            Step::Warming { .. } => Then::First,
            Step::Dwelling { from, .. } => Then::Last(from),
            Step::Draining { sample, .. } => Then::Drained(sample),
        };
        self.session.say(now, node, &Question::Look {}.to_line());
        self.step = Step::Asked { since: now, then };
    }

    fn due_step(&self) -> Time {
        match &self.step {
            Step::Asked { since, .. } => *since + ANSWER_MAX,
            Step::Warming { until }
            | Step::Dwelling { until, .. }
            | Step::Draining { until, .. } => *until,
        }
    }

    /// Begins the next phase, or ends the measurement.
    fn next_phase(&mut self, now: Time, node: &mut Node, flows: &mut Flows, told: &mut Vec<Told>) {
        self.phase = self.phases.pop_front();
        let Some(phase) = self.phase.clone() else {
            told.push(Told::Report(Box::new(self.reported())));
            return;
        };
        told.push(Told::Phase {
            name: phase.name(self.peer_name()),
        });
        let until = now + phase.warm();
        self.step = Step::Warming { until };
        for way in &phase.ways {
            if let Err(error) = self.send_way(now, node, flows, &phase, *way) {
                self.failed = Some(format!("{}: {error}", self.peer_name()));
            }
        }
    }

    /// Has one way of a phase begin.
    fn send_way(
        &mut self,
        now: Time,
        node: &mut Node,
        flows: &mut Flows,
        phase: &Phase,
        way: Way,
    ) -> Result<(), tabane_proto::op::OpError> {
        let peer = self.peer;
        let link = phase.link;
        let question = match (phase.traffic, way) {
            (Traffic::Datagrams, Way::Out) => {
                flows.give_datagrams(peer, self.session.stream);
                return Ok(());
            }
            (Traffic::Datagrams, Way::Back) => Question::GiveDatagrams {},
            (_, Way::Out) => Question::Take {},
            (_, Way::Back) => Question::Give { link },
        };
        let stream = node.open_stream(now, peer, SERVICE, Policy::Stripe)?;
        node.write_stream(now, peer, stream, &question.to_line())?;
        match way {
            Way::Out => flows.give(node, peer, stream, link.map(LinkId)),
            Way::Back => flows.take(peer, stream),
        }
        self.streams.push(stream);
        Ok(())
    }

    /// Ends what the phase sends.
    fn end_streams(&mut self, now: Time, node: &mut Node, flows: &mut Flows) {
        flows.over(node, self.peer, self.session.stream);
        for stream in self.streams.drain(..) {
            flows.over(node, self.peer, stream);
            give_up(now, node, self.peer, stream, CODE_OVER);
        }
    }

    fn open_echo(&mut self, now: Time, node: &mut Node) {
        let opened = node.open_stream(now, self.peer, SERVICE, Policy::Stripe);
        let Ok(stream) = opened else {
            return;
        };
        // One that is broken is told of by an event.
        let _ = node.write_stream(now, self.peer, stream, &Question::Echo {}.to_line());
        self.echo = Some(Echo {
            stream,
            sent_at: None,
            next_at: now,
            came_bytes: 0,
            idle_us: Vec::new(),
            loaded_us: Vec::new(),
        });
    }

    fn send_echo(&mut self, now: Time, node: &mut Node) {
        let peer = self.peer;
        let Some(echo) = self.echo.as_mut() else {
            return;
        };
        if echo.sent_at.is_none() && now >= echo.next_at {
            let written = node.write_stream(now, peer, echo.stream, &[7; MESSAGE_BYTES]);
            echo.sent_at = written.is_ok().then_some(now);
            echo.next_at = now + ECHO_EVERY;
        }
    }

    /// Enters what a phase showed; `whole` is all of it, before anything counted too.
    fn note(&mut self, sample: &Sample, whole: &Sample) {
        let Some(phase) = &self.phase else {
            return;
        };
        for &way in &phase.ways {
            if let Some(link) = phase.link {
                let was_alone = !whole.was_in_the_way(way);
                let mbps = was_alone.then(|| sample.mbps(way));
                let mut links = self.report.links.iter_mut();
                if let Some(of) = links.find(|of| of.link == link) {
                    *of.alone_mut(way) = mbps;
                }
                continue;
            }
            let is_both = phase.ways.len() > 1;
            for of in &mut self.report.links {
                let seen = sample.of_link(way, of.link);
                if !is_both {
                    of.filled(way, seen);
                }
            }
            let result = self.judged(sample, way);
            *self.report.way_mut(way, is_both) = Some(result);
        }
    }

    /// One way, and what limited it.
    fn judged(&self, sample: &Sample, way: Way) -> WayResult {
        let links = self.report.links.iter().map(|of| LinkSeen {
            link: of.link,
            alone_mbps: of.alone(way),
            loss_percent: sample.of_link(way, of.link).loss_percent(),
        });
        let links: Vec<LinkSeen> = links.collect();
        let mut result = sample.way(way, &self.names);
        result.limit = judge(&result, &links);
        result
    }

    fn note_datagrams(&mut self, sample: &Sample, all: &Sample) {
        let ways = self.phase.as_ref().map(|phase| phase.ways.clone());
        for way in ways.unwrap_or_default() {
            let result = Some(sample.datagrams(way, all));
            match way {
                Way::Out => self.report.datagrams_out = result,
                Way::Back => self.report.datagrams_back = result,
            }
        }
    }

    fn reported(&mut self) -> BenchReport {
        let mut report = core::mem::take(&mut self.report);
        report.ended_unix_ms = unix_ms();
        if let Some(echo) = self.echo.as_mut() {
            report.idle = RoundTrips::of(core::mem::take(&mut echo.idle_us));
            report.loaded = RoundTrips::of(core::mem::take(&mut echo.loaded_us));
        }
        report
    }

    /// It is over, one way or another: the peer is told.
    pub fn end(&mut self, now: Time, node: &mut Node) {
        let echo = self.echo.take().map(|echo| echo.stream);
        let streams = self.streams.drain(..).chain(echo);
        for stream in streams {
            give_up(now, node, self.peer, stream, CODE_OVER);
        }
        self.session.give_up(now, node, CODE_OVER);
    }
}

/// Why a stream of the measurement is over that the peer has ended for this reason: the session's, or another one; and
/// whether the peer had not said anything yet.
fn why_over(name: &str, code: Option<u32>, is_new: bool, is_session: bool) -> String {
    match code {
        Some(CODE_REFUSED) if is_new => format!(
            "{name} does not know this measurement: its tabane is older, or it is a program and not a daemon; upgrade it"
        ),
        _ if is_session => format!(
            "{name} has ended the measurement: its daemon stops or was restarted, or the time that it takes part is over"
        ),
        _ => format!("{name} has ended a stream of the measurement"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_does_not_know_of_measurements_is_told_of() {
        let older = why_over("n1", Some(CODE_REFUSED), true, true);
        assert!(older.contains("n1 does not know this measurement: its tabane is older"));
        for (code, is_new) in [(None, true), (None, false), (Some(CODE_REFUSED), false)] {
            let why = why_over("n1", code, is_new, true);
            assert!(why.contains("n1 has ended the measurement"), "{why}");
        }
        assert!(why_over("n1", None, false, false).contains("a stream"));
    }
}
