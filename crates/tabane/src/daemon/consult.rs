//! What nodes say each other when one's `tabane doctor` asks what the others find wrong: this node's own questions, and
//! those that peers ask it.

use core::time::Duration;

use tabane_engine::{Engine, LoopTurn};
use tabane_proto::op::{OpEvent, Policy};
use tabane_proto::{Node, PeerId, StreamId, Time};

use super::conversation::Conversation;
use super::run::Daemon;
use crate::agent::{CODE_REFUSED, give_up};
use crate::doctor::finding::{Finding, Opinion};
use crate::doctor::words::{Answer, CODE_UNWANTED, FINDINGS_MAX, Question, SERVICE, VERSION};
use crate::status::{ConsultBegun, to_line};

/// How long answers are waited for: a look takes 2 s and waits for one that is under way, and pings wait for theirs.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The most peers that are asked at a time, those that are connected.
const ASKED_MAX: usize = 64;
/// The most questions of one peer at a time; further ones are refused.
const OF_PEER_MAX: usize = 2;
/// Interval of seeing whether a look is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// All questions and answers under way.
#[derive(Debug, Default)]
pub(super) struct Consult {
    ours: Vec<Ours>,
    theirs: Vec<Theirs>,
}

/// A client's question to all peers.
#[derive(Debug)]
struct Ours {
    client: u64,
    until: Time,
    asked: Vec<Asked>,
}

/// A peer that has not said everything yet.
#[derive(Debug)]
struct Asked {
    it: Conversation,
    name: String,
    findings: Vec<Finding>,
    /// The stream is broken: why, in words.
    trouble: Option<String>,
}

/// A peer's question.
#[derive(Debug)]
struct Theirs {
    it: Conversation,
    /// The number of the look that answers it; none before it was understood.
    look: Option<u64>,
}

impl Asked {
    fn opinion(&mut self, trouble: Option<String>) -> Opinion {
        Opinion {
            node: self.name.clone(),
            findings: core::mem::take(&mut self.findings),
            trouble,
        }
    }

    /// Hears what was said; returns all of it when that is over.
    fn turn(&mut self, now: Time, node: &mut Node) -> Option<Opinion> {
        loop {
            let line = match self.it.hear(now, node) {
                Ok(Some(line)) => line,
                Ok(None) if self.trouble.is_some() => {
                    let trouble = self.trouble.take();
                    return Some(self.opinion(trouble));
                }
                Ok(None) if !self.it.is_over => return None,
                Ok(None) | Err(_) => return Some(self.nonsense()),
            };
            match Answer::parse(&line) {
                Ok(Answer::Finding(finding)) if self.findings.len() < FINDINGS_MAX => {
                    self.findings.push(*finding);
                }
                Ok(Answer::Over {}) => return Some(self.opinion(None)),
                Ok(Answer::Refused { text }) => return Some(self.opinion(Some(text))),
                Ok(Answer::Finding(_)) | Err(_) => return Some(self.nonsense()),
            }
        }
    }

    fn nonsense(&mut self) -> Opinion {
        self.opinion(Some("its daemon's answer is not understood".to_owned()))
    }
}

impl Consult {
    /// Something happened to a stream. Returns whether it was one of a question. What is said on it is read in
    /// [`Daemon::turn_consult`].
    pub fn event(&mut self, now: Time, node: &mut Node, peer: PeerId, event: OpEvent) -> bool {
        match event {
            OpEvent::StreamOpened {
                id,
                service: SERVICE,
            } => {
                let of_peer = self.theirs.iter().filter(|theirs| theirs.it.peer == peer);
                if of_peer.count() < OF_PEER_MAX {
                    let it = Conversation::new(peer, id);
                    self.theirs.push(Theirs { it, look: None });
                } else {
                    give_up(now, node, peer, id, CODE_UNWANTED);
                }
                true
            }
            OpEvent::Readable(id) => self.has(peer, id),
            OpEvent::Reset { id, code } | OpEvent::Stopped { id, code } => {
                self.broken(peer, id, Some(code))
            }
            OpEvent::Broken(id) => self.broken(peer, id, None),
            _ => false,
        }
    }

    fn has(&self, peer: PeerId, stream: StreamId) -> bool {
        let mut asked = self.ours.iter().flat_map(|ours| &ours.asked);
        asked.any(|asked| asked.it.is(peer, stream))
            || (self.theirs.iter()).any(|theirs| theirs.it.is(peer, stream))
    }

    fn broken(&mut self, peer: PeerId, stream: StreamId, code: Option<u32>) -> bool {
        let was_there = self.has(peer, stream);
        self.theirs.retain(|theirs| !theirs.it.is(peer, stream));
        let mut asked = self.ours.iter_mut().flat_map(|ours| &mut ours.asked);
        if let Some(asked) = asked.find(|asked| asked.it.is(peer, stream)) {
            let why = match code {
                Some(CODE_REFUSED) => "its daemon is of a version that cannot be asked",
                Some(_) => "its daemon refuses to look now",
                None => "it is not connected any more",
            };
            asked.trouble.get_or_insert(why.to_owned());
        }
        was_there
    }

    /// How long the loop may wait, at most `patience`.
    pub fn patience(&self, now: Time, patience: Duration) -> Duration {
        let due = self.ours.iter().map(|ours| ours.until.since(now));
        let patience = due.fold(patience, Duration::min);
        match self.theirs.iter().any(|theirs| theirs.look.is_some()) {
            true => patience.min(LOOK_EVERY),
            false => patience,
        }
    }
}

impl Daemon {
    /// Asks the connected peers, or only `peer`, for a client.
    ///
    /// # Errors
    /// There is no such peer, in words for people.
    pub(super) fn begin_consult(
        &mut self,
        turn: &mut LoopTurn<'_>,
        client: u64,
        peer: Option<&str>,
    ) -> Result<ConsultBegun, String> {
        let only = peer.map(|name| self.find_peer(name)).transpose()?;
        let (now, node) = (turn.now, &mut *turn.node);
        let is_meant = |peer: &PeerId| only.is_none_or(|only| only == *peer);
        let peers = self.peers.iter().map(|(peer, _)| *peer).filter(is_meant);
        let connected: Vec<PeerId> = peers.filter(|peer| node.is_connected(*peer)).collect();
        let mut asked = Vec::new();
        for peer in connected.into_iter().take(ASKED_MAX) {
            let Ok(stream) = node.open_stream(now, peer, SERVICE, Policy::Auto) else {
                continue;
            };
            let it = Conversation::new(peer, stream);
            it.say(now, node, &Question::Look { version: VERSION }.to_line());
            // A half that is over already needs no end.
            let _ = node.finish_stream(now, peer, stream);
            asked.push(Asked {
                it,
                name: self.name(peer),
                findings: Vec::new(),
                trouble: None,
            });
        }
        let begun = ConsultBegun {
            node: self.cluster.nodes[self.me].name.clone(),
            asked: asked.iter().map(|asked| asked.name.clone()).collect(),
        };
        self.consult.ours.push(Ours {
            client,
            until: now + ANSWER_MAX,
            asked,
        });
        Ok(begun)
    }

    /// Goes on with questions and answers, if there are any: once a turn of the loop.
    pub(super) fn turn_consult(&mut self, engine: &mut Engine) {
        let now = engine.now();
        self.turn_own_questions(now, &mut engine.node);
        self.turn_their_questions(now, &mut engine.node);
    }

    /// Tells clients what peers have said.
    fn turn_own_questions(&mut self, now: Time, node: &mut Node) {
        let control = &mut self.control;
        self.consult.ours.retain_mut(|ours| {
            let client = control.as_mut().and_then(|it| it.client(ours.client));
            let Some(client) = client else {
                let asked = ours.asked.iter();
                asked.for_each(|asked| asked.it.give_up(now, node, CODE_UNWANTED));
                return false;
            };
            let is_late = now >= ours.until;
            ours.asked.retain_mut(|asked| {
                let late = || format!("it did not answer within {} s", ANSWER_MAX.as_secs());
                let mut opinion = asked.turn(now, node);
                if opinion.is_none() && is_late {
                    opinion = Some(asked.opinion(Some(late())));
                }
                let Some(opinion) = opinion else {
                    return true;
                };
                client.add(&to_line(&opinion));
                asked.it.give_up(now, node, CODE_UNWANTED);
                false
            });
            if ours.asked.is_empty() {
                client.end();
            }
            !ours.asked.is_empty()
        });
    }

    /// Answers peers' questions whose look is over.
    fn turn_their_questions(&mut self, now: Time, node: &mut Node) {
        for mut theirs in core::mem::take(&mut self.consult.theirs) {
            if theirs.look.is_none() {
                match theirs
                    .it
                    .hear(now, node)
                    .map(|line| line.map(|line| Question::parse(&line)))
                {
                    Ok(Some(Ok(Question::Look { version: VERSION }))) => {
                        theirs.look = self.health.wish(&self.name(theirs.it.peer));
                        if theirs.look.is_none() {
                            let text =
                                "its daemon serves one user's programs, and looks at nothing";
                            let text = text.to_owned();
                            answer(now, node, &theirs.it, &[Answer::Refused { text }]);
                            continue;
                        }
                    }
                    Ok(None) if !theirs.it.is_over => {}
                    _ => {
                        theirs.it.give_up(now, node, CODE_UNWANTED);
                        continue;
                    }
                }
            }
            match theirs.look.and_then(|look| self.health.answer(look)) {
                Some(Ok(found)) => {
                    let found = found.into_iter().take(FINDINGS_MAX);
                    let mut said: Vec<_> = found.map(|it| Answer::Finding(Box::new(it))).collect();
                    said.push(Answer::Over {});
                    answer(now, node, &theirs.it, &said);
                }
                Some(Err(text)) => answer(now, node, &theirs.it, &[Answer::Refused { text }]),
                None => self.consult.theirs.push(theirs),
            }
        }
    }
}

/// Says all that is to be said, and that this was all.
fn answer(now: Time, node: &mut Node, it: &Conversation, said: &[Answer]) {
    for line in said {
        it.say(now, node, &line.to_line());
    }
    // A half that is over already needs no end.
    let _ = node.finish_stream(now, it.peer, it.stream);
}
