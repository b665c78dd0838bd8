//! Measurements of peers' in which this node takes part.

use core::time::Duration;

use tabane_engine::Engine;
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::{LinkId, Time};

use super::super::conversation::Conversation;
use super::super::run::Daemon;
use super::figures::figures;
use crate::bench::words::{Answer, CODE_UNWANTED, Question, SECONDS_MAX, VERSION};
use crate::json_lines::Malformed;
use crate::log::Line;

/// A measurement that lasts for so much longer than was said is ended.
const GRACE: Duration = Duration::from_secs(10);
/// Streams of one measurement at a time, at most; further ones are refused.
const STREAMS_MAX: usize = 8;

/// A peer's measurement.
#[derive(Debug)]
pub struct Theirs {
    pub session: Conversation,
    /// When it is ended at the latest.
    pub until: Time,
}

impl Daemon {
    /// Hears what new streams are for.
    pub(super) fn hear_newcomers(&mut self, now: Time, engine: &mut Engine) {
        for mut it in core::mem::take(&mut self.bench.newcomers) {
            match it.hear(now, &mut engine.node) {
                Ok(Some(line)) => match Question::parse(&line) {
                    Ok(question) => self.welcome(now, engine, it, question),
                    Err(_) => it.give_up(now, &mut engine.node, CODE_UNWANTED),
                },
                Ok(None) if !it.is_over => self.bench.newcomers.push(it),
                Ok(None) | Err(Malformed(_)) => it.give_up(now, &mut engine.node, CODE_UNWANTED),
            }
        }
    }

    /// Does what a new stream is for.
    fn welcome(&mut self, now: Time, engine: &mut Engine, it: Conversation, question: Question) {
        if let Question::Begin { version, seconds } = question {
            return self.take_part(now, engine, it, (version, seconds));
        }
        let is_theirs = |theirs: &Theirs| theirs.session.peer == it.peer;
        let bench = &mut self.bench;
        if !bench.theirs.as_deref().is_some_and(is_theirs) || bench.flows.count() >= STREAMS_MAX {
            return it.give_up(now, &mut engine.node, CODE_UNWANTED);
        }
        let node = &mut engine.node;
        let (peer, stream) = (it.peer, it.stream);
        match question {
            Question::Take {} => bench.flows.take(peer, stream),
            Question::Echo {} => bench.flows.echo(peer, stream),
            Question::Give { link } => {
                let link = link.filter(|link| usize::from(*link) < LINKS_MAX);
                bench.flows.give(node, peer, stream, link.map(LinkId));
            }
            Question::GiveDatagrams {} => bench.flows.give_datagrams(peer, stream),
            Question::Begin { .. } | Question::Look {} => {
                return it.give_up(now, node, CODE_UNWANTED);
            }
        }
        // What came behind the line may be all there is for now: nobody tells of it again.
        bench
            .flows
            .begin(now, node, (peer, stream), it.lines.rest());
    }

    /// Takes part in a peer's measurement, or says why not.
    fn take_part(
        &mut self,
        now: Time,
        engine: &mut Engine,
        it: Conversation,
        (version, seconds): (u32, u32),
    ) {
        let me = &self.cluster.nodes[self.me].name;
        let refusal = match self.bench_is_busy(now) {
            _ if version != VERSION => Some(format!(
                "{me} knows version {VERSION} of these measurements, and was asked for {version}"
            )),
            _ if !(1..=SECONDS_MAX).contains(&seconds) => Some(format!(
                "{me} takes part for 1 to {SECONDS_MAX} s, and was asked for {seconds}"
            )),
            busy => busy,
        };
        let node = &mut engine.node;
        if let Some(text) = refusal {
            it.say(now, node, &Answer::Refused { text }.to_line());
            // A half that is over already needs no end.
            let _ = node.finish_stream(now, it.peer, it.stream);
            return;
        }
        let name = self.name(it.peer);
        let text = format!("takes part in a measurement of {name}'s, for {seconds} s");
        self.tell_of(now, it.peer, Line::info(text));
        let figures = figures(now, engine, it.peer, self.bench.flows.counts);
        it.say(now, &mut engine.node, &Answer::Figures(figures).to_line());
        self.bench.theirs = Some(Box::new(Theirs {
            session: it,
            until: now + Duration::from_secs(seconds.into()) + GRACE,
        }));
    }

    /// Answers the peer, and ends its measurement when it is over.
    pub(super) fn turn_theirs(&mut self, now: Time, engine: &mut Engine) {
        let Some(mut theirs) = self.bench.theirs.take() else {
            return;
        };
        let mut is_over = now >= theirs.until;
        while let Ok(Some(line)) = theirs.session.hear(now, &mut engine.node) {
            let asks = matches!(Question::parse(&line), Ok(Question::Look {}));
            let figures = figures(now, engine, theirs.session.peer, self.bench.flows.counts);
            let answer = Answer::Figures(figures).to_line();
            is_over |= !asks || !theirs.session.say(now, &mut engine.node, &answer);
        }
        is_over |= theirs.session.is_over || !engine.node.is_connected(theirs.session.peer);
        self.bench.theirs = Some(theirs);
        if is_over {
            self.bench.end_theirs(now, &mut engine.node);
        }
    }
}
