//! Connections: callers, listeners, and how they get a common line.

use core::time::Duration;
use std::time::Instant;

use tabane_rank::{Address, Completion, Core, Peer, Receive, Ticket};

use crate::abi::{
    Code, ERROR_RESOURCE, INVALID_MTU, INVALID_PARAMETER, INVALID_QOS, INVALID_RELIABILITY_LEVEL,
    INVALID_STATE, NO_MATCH, NOT_REACHABLE, Outcome, REJECT, TIMEOUT,
};
use crate::address::Place;
use crate::completion::sender;
use crate::rendezvous::Question;
use crate::state::{Caller, Operation, State};
use crate::vi::{Condition, Line};
use crate::wire::{Manner, Refusal, SAID_BYTES_MAX, Said, TAG_SAID, Why, tag_word};

/// A listener that has stopped can still be found for this long, so that it can stop and wait again.
const LISTEN_FOR: Duration = Duration::from_secs(1);
/// If no listener was found for this long, there is none.
const SEEK_MAX: Duration = Duration::from_secs(3);
/// The first pause between two questions, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// The most unanswered callers for each discriminator.
const CALLERS_MAX: usize = 1024;
/// Buffers for others' messages.
pub const LISTENS: usize = 16;

/// How far a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The process that waits there is not known.
    Seeking,
    /// It was asked.
    Asked(Peer),
}

/// A VI that is being connected.
pub struct Request {
    /// Its line.
    pub line: u32,
    /// The other end is to ask, too.
    pub is_peer: bool,
    /// The caller's address.
    pub from: Place,
    /// Whom it asks.
    pub to: Place,
    /// When it times out.
    pub until: Option<Instant>,
    /// How far it is.
    pub step: Step,
    /// Since when the other process is sought.
    since: Instant,
    /// When it is asked for next, and the pause after that.
    next: Instant,
    pause: Duration,
    /// Nothing leads there.
    is_unreachable: bool,
    /// The other end has ended the line before its acceptance was taken in: its reason.
    pub end: Option<Option<u64>>,
    /// How it ended.
    pub outcome: Option<Outcome<Manner>>,
}

/// The return code for a refusal.
const fn code(refusal: Refusal) -> Code {
    match refusal {
        Refusal::NoMatch => NO_MATCH,
        Refusal::Rejected => REJECT,
        Refusal::Reliability => INVALID_RELIABILITY_LEVEL,
        Refusal::Size => INVALID_MTU,
        Refusal::Quality => INVALID_QOS,
    }
}

impl State {
    /// Posts a buffer for others' messages.
    ///
    /// # Errors
    /// The endpoint has no room.
    pub fn listen(&mut self, core: &mut dyn Core) -> Outcome<()> {
        (0..LISTENS).try_for_each(|_| self.listen_with(core, vec![0; SAID_BYTES_MAX].into()))
    }

    fn listen_with(&mut self, core: &mut dyn Core, mut buffer: Box<[u8]>) -> Outcome<()> {
        let piece = tabane_rank::Piece {
            base: buffer.as_mut_ptr(),
            bytes: buffer.len(),
        };
        let posted = self.post(Operation::Listens(buffer), |context| {
            let receive = Receive {
                from: None,
                tag: Some((TAG_SAID, 0)),
                pieces: &[piece],
                multi: None,
                ticket: Ticket { context, flags: 0 },
            };
            // SAFETY: the buffer is kept with the operation until its completion.
            unsafe { core.receive(&receive) }
        });
        posted.map(|_| ()).map_err(|_| ERROR_RESOURCE)
    }

    /// Something was said.
    pub fn on_said(&mut self, core: &mut dyn Core, buffer: Box<[u8]>, done: &Completion) {
        let said = match done.failure {
            None => Said::read(&buffer[..(done.bytes as usize).min(buffer.len())]),
            Some(_) => None,
        };
        // There was room for as many before.
        let _ = self.listen_with(core, buffer);
        let (Some(said), Some(peer)) = (said, sender(done)) else {
            return;
        };
        match said {
            Said::Request {
                line,
                is_peer,
                to,
                from,
                manner,
            } => {
                let caller = Caller {
                    peer,
                    line,
                    from,
                    manner,
                    to: to.discriminator,
                    is_withdrawn: false,
                    is_given: false,
                };
                match is_peer {
                    true => self.on_equal(core, &caller),
                    false => self.on_caller(core, caller),
                }
            }
            Said::Accept { to, line, manner } => self.on_accept(core, (peer, line), to, manner),
            Said::Refuse { to, why } => self.on_refuse(core, peer, to, why),
            Said::Withdraw { line } => self.on_withdraw(peer, line),
        }
    }

    /// A client calls a listener.
    fn on_caller(&mut self, core: &mut dyn Core, caller: Caller) {
        let id = self.new_id();
        match self.listening.get_mut(&caller.to) {
            Some(listening) if listening.callers.len() < CALLERS_MAX => {
                listening.callers.push_back(id);
                self.callers.insert(id, caller);
                self.is_news = true;
            }
            _ => self.refuse(core, caller.peer, caller.line, Refusal::NoMatch),
        }
    }

    fn refuse(&mut self, core: &mut dyn Core, peer: Peer, to: u32, why: Refusal) {
        let said = Said::Refuse { to, why };
        self.say(core, peer, TAG_SAID, None, said.write());
    }

    /// A peer calls that is called itself: both ends call each other.
    fn on_equal(&mut self, core: &mut dyn Core, caller: &Caller) {
        let own = self.own;
        let found = self.vis.iter().find(|(_, vi)| {
            vi.request.as_ref().is_some_and(|request| {
                let is_itself =
                    request.line == caller.line && core.address_of(caller.peer) == Some(own);
                request.outcome.is_none() && request.meets(&caller.to, &caller.from) && !is_itself
            })
        });
        let Some((&id, vi)) = found else {
            return self.refuse(core, caller.peer, caller.line, Refusal::NoMatch);
        };
        let manner = self.manner(&vi.attributes);
        if let Some(why) = manner.refusal(&caller.manner) {
            self.refuse(core, caller.peer, caller.line, why);
            return self.conclude(core, id, Err(code(why)));
        }
        let Some(line) = self.establish(core, id, (caller.peer, caller.line), caller.manner) else {
            return;
        };
        let said = Said::Accept {
            to: caller.line,
            line,
            manner,
        };
        self.say(core, caller.peer, TAG_SAID, None, said.write());
    }

    /// A VI's request is answered.
    fn on_accept(
        &mut self,
        core: &mut dyn Core,
        (peer, theirs): (Peer, u32),
        line: u32,
        manner: Manner,
    ) {
        let found = self.lines.get(&line).copied();
        let vi = found.and_then(|id| Some((id, self.vis.get(&id)?)));
        if let Some((id, vi)) = vi {
            let waits = (vi.request.as_ref())
                .is_some_and(|r| r.outcome.is_none() && r.step == Step::Asked(peer));
            let has = vi
                .line
                .is_some_and(|l| (l.peer, l.theirs) == (peer, theirs));
            if waits {
                self.establish(core, id, (peer, theirs), manner);
            }
            if waits || has {
                return;
            }
        }
        // Nobody wants it any more.
        let tag = tag_word(theirs);
        self.say(core, peer, tag, Some(Why::Disconnected as u64), Vec::new());
    }

    fn on_refuse(&mut self, core: &mut dyn Core, peer: Peer, line: u32, why: Refusal) {
        let Some(id) = self.lines.get(&line).copied() else {
            return;
        };
        let request = self.vis.get(&id).and_then(|vi| vi.request.as_ref());
        if request.is_none_or(|r| r.outcome.is_some() || r.step != Step::Asked(peer)) {
            return;
        }
        match why {
            Refusal::NoMatch => self.ask_again(core, id),
            _ => self.conclude(core, id, Err(code(why))),
        }
    }

    fn on_withdraw(&mut self, peer: Peer, line: u32) {
        let is_he = |caller: &Caller| caller.peer == peer && caller.line == line;
        let Some((&id, caller)) = self.callers.iter_mut().find(|(_, c)| is_he(c)) else {
            return;
        };
        caller.is_withdrawn = true;
        if !caller.is_given {
            if let Some(listening) = self.listening.get_mut(&caller.to) {
                listening.callers.retain(|caller| *caller != id);
            }
            self.callers.remove(&id);
        }
    }

    /// A thread waits for callers from now on.
    pub fn open_ears(&mut self, discriminator: &[u8]) {
        let listening = self.listening.entry(discriminator.to_vec()).or_default();
        listening.waiters += 1;
        listening.until = None;
    }

    /// It does not any more.
    pub fn shut_ears(&mut self, discriminator: &[u8]) {
        if let Some(listening) = self.listening.get_mut(discriminator) {
            listening.waiters -= 1;
            if listening.waiters == 0 {
                listening.until = Some(Instant::now() + LISTEN_FOR);
            }
        }
    }

    /// The next caller, with a handle for the program.
    pub fn next_caller(&mut self, discriminator: &[u8]) -> Option<(u32, Place, Manner)> {
        let id = (self.listening.get_mut(discriminator)?)
            .callers
            .pop_front()?;
        let caller = self.callers.get_mut(&id)?;
        caller.is_given = true;
        Some((id, caller.from.clone(), caller.manner))
    }

    /// Ends discriminators for which nobody waits any more.
    pub fn expire(&mut self, core: &mut dyn Core, now: Instant) {
        let mut over = Vec::new();
        self.listening.retain(|_, listening| {
            let is_over = listening.until.is_some_and(|until| until <= now);
            if is_over {
                over.extend(listening.callers.drain(..));
            }
            !is_over
        });
        for id in over {
            if let Some(caller) = self.callers.remove(&id) {
                self.refuse(core, caller.peer, caller.line, Refusal::NoMatch);
            }
        }
    }

    /// A caller gets this VI.
    ///
    /// # Errors
    /// There is no such caller or VI, the VI is not idle, they do not agree, or the caller waits no longer.
    pub fn accept(&mut self, core: &mut dyn Core, caller: u32, id: u32) -> Outcome<()> {
        let vi = self.vis.get(&id).ok_or(INVALID_PARAMETER)?;
        let found = self.callers.get(&caller).filter(|caller| caller.is_given);
        let found = found.ok_or(INVALID_PARAMETER)?;
        if vi.condition != Condition::Idle {
            return Err(INVALID_STATE);
        }
        let manner = self.manner(&vi.attributes);
        if let Some(why) = manner.refusal(&found.manner) {
            return Err(code(why));
        }
        let found = self.callers.remove(&caller).ok_or(INVALID_PARAMETER)?;
        if found.is_withdrawn {
            return Err(TIMEOUT);
        }
        let line = self.establish(core, id, (found.peer, found.line), found.manner);
        let said = Said::Accept {
            to: found.line,
            line: line.ok_or(INVALID_PARAMETER)?,
            manner,
        };
        self.say(core, found.peer, TAG_SAID, None, said.write());
        Ok(())
    }

    /// A caller gets none.
    ///
    /// # Errors
    /// There is no such caller.
    pub fn reject(&mut self, core: &mut dyn Core, caller: u32) -> Outcome<()> {
        let found = self.callers.get(&caller).filter(|caller| caller.is_given);
        let (peer, line) = found.map(|c| (c.peer, c.line)).ok_or(INVALID_PARAMETER)?;
        self.callers.remove(&caller);
        self.refuse(core, peer, line, Refusal::Rejected);
        Ok(())
    }

    /// A VI is connected: its line here, if there is such a VI.
    fn establish(
        &mut self,
        core: &mut dyn Core,
        id: u32,
        (peer, theirs): (Peer, u32),
        manner: Manner,
    ) -> Option<u32> {
        let new = self.new_id();
        let vi = self.vis.get_mut(&id)?;
        let own = vi.request.as_ref().map_or(new, |request| request.line);
        vi.line = Some(Line {
            peer,
            own,
            theirs,
            manner,
        });
        vi.condition = Condition::Connected;
        vi.unready_since = None;
        let request = vi.request.as_mut();
        let end = request.and_then(|request| {
            request.outcome = Some(Ok(manner));
            request.end.take()
        });
        self.lines.insert(own, id);
        self.is_news = true;
        self.watch(core, id, own, peer);
        self.settle(core, id);
        if let Some(why) = end {
            self.on_end(core, (id, own), why);
        }
        Some(own)
    }

    /// Watches for the end of a line, and of the process at its other end.
    fn watch(&mut self, core: &mut dyn Core, id: u32, line: u32, peer: Peer) {
        if let Some(before) = self.vis.get_mut(&id).and_then(|vi| vi.watch.take()) {
            core.cancel(before);
        }
        let posted = self.post(Operation::Watches { line }, |context| {
            let receive = Receive {
                from: Some(peer),
                tag: Some((tag_word(line), 0)),
                pieces: &[],
                multi: None,
                ticket: Ticket { context, flags: 0 },
            };
            // SAFETY: there are no pieces.
            unsafe { core.receive(&receive) }
        });
        // A peer that is gone already is no error: that ends the watch.
        if let (Ok(operation), Some(vi)) = (posted, self.vis.get_mut(&id)) {
            vi.watch = Some(operation);
        }
    }

    /// Begins to connect a VI.
    ///
    /// # Errors
    /// It is not idle, or there is none.
    pub fn request(
        &mut self,
        id: u32,
        (from, to): (Place, Place),
        until: Option<Instant>,
        is_peer: bool,
    ) -> Outcome<()> {
        let line = self.new_id();
        let vi = self.vi(id)?;
        if vi.condition != Condition::Idle {
            return Err(INVALID_STATE);
        }
        let now = Instant::now();
        vi.condition = Condition::Pending;
        vi.request = Some(Request {
            line,
            is_peer,
            from,
            to,
            until,
            step: Step::Seeking,
            since: now,
            next: now,
            pause: PAUSE,
            is_unreachable: false,
            end: None,
            outcome: None,
        });
        self.lines.insert(line, id);
        Ok(())
    }

    /// A request has failed, or the program does not want it any more.
    pub fn conclude(&mut self, core: &mut dyn Core, id: u32, outcome: Outcome<Manner>) {
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        let Some(request) = &mut vi.request else {
            return;
        };
        if request.outcome.is_some() {
            return;
        }
        request.outcome = Some(outcome);
        let (line, step) = (request.line, request.step);
        vi.condition = Condition::Idle;
        let watch = vi.watch.take();
        self.is_news = true;
        if let Some(watch) = watch {
            core.cancel(watch);
        }
        if let Step::Asked(peer) = step {
            let said = Said::Withdraw { line };
            self.say(core, peer, TAG_SAID, None, said.write());
        }
        self.bury(core, line);
    }

    /// The process that was asked does not wait any more, or is gone: there may be another.
    pub fn ask_again(&mut self, core: &mut dyn Core, id: u32) {
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        let watch = vi.watch.take();
        if let Some(request) = &mut vi.request {
            request.step = Step::Seeking;
        }
        if let Some(watch) = watch {
            core.cancel(watch);
        }
    }

    /// The questions to ask now, and when the next are due. Requests that have timed out end.
    pub fn questions(
        &mut self,
        core: &mut dyn Core,
        now: Instant,
    ) -> (Vec<Question>, Option<Instant>) {
        let (mut questions, mut over, mut next) = (Vec::new(), Vec::new(), None::<Instant>);
        for (id, vi) in &mut self.vis {
            let Some(request) = &mut vi.request else {
                continue;
            };
            if request.outcome.is_some() {
                continue;
            }
            let is_seeking = request.step == Step::Seeking;
            if request.until.is_some_and(|until| until <= now) {
                over.push((*id, TIMEOUT));
            } else if is_seeking && !request.is_peer && now - request.since >= SEEK_MAX {
                let is_unreachable = request.is_unreachable;
                over.push((
                    *id,
                    if is_unreachable {
                        NOT_REACHABLE
                    } else {
                        NO_MATCH
                    },
                ));
            } else if is_seeking && request.next <= now {
                request.next = now + request.pause;
                request.pause = (request.pause * 2).min(PAUSE_MAX);
                questions.push(Question {
                    line: request.line,
                    is_peer: request.is_peer,
                    to: request.to.clone(),
                    from: request.from.clone(),
                });
            }
            let wanted = match is_seeking {
                true => Some(
                    request
                        .until
                        .map_or(request.next, |until| until.min(request.next)),
                ),
                false => request.until,
            };
            next = [next, wanted].into_iter().flatten().min();
        }
        for (id, code) in over {
            self.conclude(core, id, Err(code));
        }
        (questions, next)
    }

    /// Sets whether there is a way to this line's target.
    pub fn reaches(&mut self, line: u32, is_reachable: bool) {
        let vi = self.lines.get(&line).and_then(|id| self.vis.get_mut(id));
        if let Some(request) = vi.and_then(|vi| vi.request.as_mut()) {
            request.is_unreachable = !is_reachable;
        }
    }

    /// Whether a process here answers this question.
    pub fn awaits(&self, question: &Question) -> bool {
        match question.is_peer {
            false => self.listening.contains_key(&question.to.discriminator),
            true => self.vis.values().any(|vi| {
                vi.request.as_ref().is_some_and(|request| {
                    request.outcome.is_none()
                        && request.meets(&question.to.discriminator, &question.from)
                })
            }),
        }
    }

    /// The process that a line asks for is there.
    pub fn found(&mut self, core: &mut dyn Core, line: u32, there: &Address) {
        let Some(id) = self.lines.get(&line).copied() else {
            return;
        };
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        let attributes = vi.attributes;
        let Some(request) = &mut vi.request else {
            return;
        };
        if request.outcome.is_some() || request.step != Step::Seeking {
            return;
        }
        let peer = core.peer(there);
        (request.step, request.end) = (Step::Asked(peer), None);
        let (is_peer, to, from) = (request.is_peer, request.to.clone(), request.from.clone());
        let said = Said::Request {
            line,
            is_peer,
            to,
            from,
            manner: self.manner(&attributes),
        };
        self.watch(core, id, line, peer);
        self.say(core, peer, TAG_SAID, None, said.write());
        self.drain(core);
    }

    /// Begins to disconnect a VI. It is idle when nothing of it is under way any more
    /// ([`State::is_disconnected`]).
    ///
    /// # Errors
    /// There is none.
    pub fn disconnect(&mut self, core: &mut dyn Core, id: u32) -> Outcome<()> {
        match self.vi(id)?.condition {
            Condition::Pending => self.conclude(core, id, Err(INVALID_STATE)),
            Condition::Connected => self.break_line(core, id, Some(Why::Disconnected)),
            Condition::Idle | Condition::Error => {}
        }
        self.flush(core, id);
        if let Some(line) = self.vi(id)?.line {
            self.bury(core, line.own);
        }
        Ok(())
    }

    /// Whether a VI that is being disconnected is idle now.
    pub fn is_disconnected(&mut self, id: u32) -> bool {
        let Some(vi) = self.vis.get_mut(&id) else {
            return true;
        };
        let is_over = !vi.sends.is_under_way() && !vi.receives.is_under_way();
        if is_over && vi.condition == Condition::Error {
            vi.condition = Condition::Idle;
            vi.line = None;
            vi.request = None;
        }
        is_over
    }
}

impl Request {
    /// Whether it and a call match: each one's target is the other.
    fn meets(&self, to: &[u8], from: &Place) -> bool {
        self.is_peer
            && self.from.discriminator == to
            && self.to.discriminator == from.discriminator
            && self.to.host.is_same(&from.host)
    }
}
