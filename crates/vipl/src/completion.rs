//! The endpoint's reports: ended operations, others' messages, lost peers.

use core::time::Duration;
use std::time::Instant;

use tabane_rank::{
    Completion, Core, Ended, Failure, Peek, Peer, PostError, Receive, Send, Source, Ticket, Until,
};

use crate::abi;
use crate::queue::{Ending, Work};
use crate::state::{Operation, Side, State};
use crate::vi::Condition;
use crate::wire::{ANY_LINE, Label, TAG_SAID, Why, tag_content, tag_word};
use crate::work::scatter;

/// Interval of checking time-outs.
pub const TICK: Duration = Duration::from_millis(50);
/// Time that a message waits for a descriptor.
const UNREADY_MAX: Duration = Duration::from_secs(1);
/// Messages for an ended line are dropped for this long: by then everything under way has arrived.
const DEAD_FOR: Duration = Duration::from_secs(10);
/// The ignored bits of a tag when looking for messages that nobody waits for.
const ANY: u64 = ANY_LINE | TAG_SAID;

impl State {
    /// Takes in the endpoint's reports, and repeats what it had no room for.
    pub fn drain(&mut self, core: &mut dyn Core) {
        self.retry(core);
        while let Some(done) = core.completion() {
            // A peer's write with data, which VIs do not send, belongs to no operation.
            if !matches!(done.ended, Ended::Written { .. })
                && let Some(operation) = self.operations.try_remove(done.ticket.context)
            {
                self.on_completion(core, operation, &done);
            }
        }
        // The operations that waited for a lost peer report that.
        while core.lost().is_some() {}
        let now = Instant::now();
        if now.duration_since(self.ticked) >= TICK {
            self.ticked = now;
            self.tick(core, now);
        }
    }

    fn retry(&mut self, core: &mut dyn Core) {
        for id in core::mem::take(&mut self.stalled) {
            self.settle(core, id);
        }
        for (id, number) in core::mem::take(&mut self.owed_notes) {
            self.note(core, id, number);
        }
        for _ in 0..self.unsaid.len() {
            if let Some((peer, tag, data, bytes)) = self.unsaid.pop_front() {
                self.say(core, peer, tag, data, bytes);
            }
        }
    }

    /// Says something to another end; if there is no room, when there is.
    pub fn say(
        &mut self,
        core: &mut dyn Core,
        to: Peer,
        tag: u64,
        data: Option<u64>,
        mut bytes: Vec<u8>,
    ) {
        let piece = tabane_rank::Piece {
            base: bytes.as_mut_ptr(),
            bytes: bytes.len(),
        };
        let said = self.post(Operation::Says, |context| {
            let send = Send {
                to,
                tag: Some(tag),
                data,
                pieces: &[piece],
                inject: true,
                until: Until::Reusable,
                ticket: Ticket { context, flags: 0 },
            };
            // SAFETY: the piece is `bytes`.
            unsafe { core.send(&send) }
        });
        // No other error is possible here: the endpoint knows the peer, and the message is short enough to be injected.
        if said == Err(PostError::Again) {
            self.unsaid.push_back((to, tag, data, bytes));
        }
    }

    fn on_completion(&mut self, core: &mut dyn Core, operation: Operation, done: &Completion) {
        match operation {
            Operation::Descriptor { vi, side, number } => {
                self.on_descriptor(core, (vi, side, number), done);
                self.settle(core, vi);
            }
            Operation::Note { vi, number } => {
                self.on_sent(core, (vi, Side::Send, number), done.failure);
                self.settle(core, vi);
            }
            Operation::Listens(buffer) => self.on_said(core, buffer, done),
            // The watch of each line to a lost peer reports that.
            Operation::Says => {}
            Operation::Watches { line } => self.on_word(core, line, done),
            Operation::Looks(None) => self.on_anything_unready(core, done),
            Operation::Looks(Some(line)) => self.on_unready(core, line, done.failure.is_none()),
            // There may be more.
            Operation::Drops { line } if done.failure.is_none() => {
                self.drop_content(core, line, done.tag);
            }
            Operation::Drops { .. } => {}
        }
    }

    /// A descriptor's operation is over.
    fn on_descriptor(&mut self, core: &mut dyn Core, at: (u32, Side, u64), done: &Completion) {
        let (id, side, number) = at;
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        let is_connected = vi.condition == Condition::Connected;
        let Some(entry) = vi.queue(side).get_mut(number) else {
            return;
        };
        match (entry.work, done.failure) {
            (Work::Receive, None | Some(Failure::Truncated(_))) => self.on_received(core, at, done),
            (Work::Receive, Some(Failure::Cancelled)) if !is_connected => {
                let ending = Ending::of(entry.kind() | abi::STATUS_DESC_FLUSHED_ERROR);
                vi.queue(side).end(number, ending);
            }
            (Work::Write, None) if entry.immediate.is_some() && is_connected => {
                self.note(core, id, number);
            }
            (Work::Send, failure) => self.on_sent(core, at, failure),
            (_, None) => {
                let ending = Ending::of(entry.kind());
                vi.queue(side).end(number, ending);
            }
            (work, Some(Failure::BadKey | Failure::NoAccess | Failure::OutOfBounds)) => {
                let why = match work {
                    Work::Read => Why::ReadRefused,
                    _ => Why::WriteRefused,
                };
                self.fail(core, at, abi::STATUS_RDMA_PROT_ERROR, Some(why));
            }
            (_, Some(_)) => {
                self.lose(core, id);
                self.fail(core, at, abi::STATUS_TRANSPORT_ERROR, None);
            }
        }
    }

    /// A message is where it belongs, or as much of it as found room.
    fn on_received(&mut self, core: &mut dyn Core, at: (u32, Side, u64), done: &Completion) {
        let (id, side, number) = at;
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        vi.unready_since = None;
        let Some(entry) = vi.queue(side).get_mut(number) else {
            return;
        };
        let came = usize::try_from(done.bytes).unwrap_or(usize::MAX);
        if let Some(between) = &entry.between {
            let came = &between[..came.min(between.len())];
            // SAFETY: the pieces lie in registered memory for as long as the descriptor is not done.
            unsafe { scatter(&entry.pieces, came) };
        }
        let label = Label::from_data(done.data.unwrap_or(0));
        let kind = match label.written {
            Some(_) => abi::STATUS_OP_REMOTE_RDMA_WRITE,
            None => abi::STATUS_OP_RECEIVE,
        };
        let immediate = label.immediate.map_or(0, |_| abi::STATUS_IMMEDIATE);
        let error = done.failure.map_or(0, |_| abi::STATUS_LENGTH_ERROR);
        let ending = Ending {
            status: kind | immediate | error,
            // It is less than a descriptor's room.
            bytes: Some(label.written.unwrap_or(came as u32)),
            immediate: label.immediate,
        };
        vi.queue(side).end(number, ending);
        if error != 0 && vi.attributes.is_reliable() {
            self.break_line(core, id, Some(Why::TooShort));
        }
    }

    /// A message, or the word of a write, is sent; or not.
    fn on_sent(&mut self, core: &mut dyn Core, at: (u32, Side, u64), failure: Option<Failure>) {
        let (id, side, number) = at;
        if failure.is_some() {
            self.lose(core, id);
        }
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        let Some(entry) = vi.queue(side).get_mut(number) else {
            return;
        };
        // The line may have ended meanwhile: then it is not known whether anybody has got it.
        let error = match failure {
            Some(_) => abi::STATUS_TRANSPORT_ERROR,
            None => entry.wrong,
        };
        let ending = Ending::of(entry.kind() | error);
        vi.queue(side).end(number, ending);
    }

    /// The peer of a VI is gone.
    pub fn lose(&mut self, core: &mut dyn Core, id: u32) {
        let is_connected = |condition| condition == Condition::Connected;
        if (self.vis.get(&id)).is_some_and(|vi| is_connected(vi.condition)) {
            self.error(id, abi::ERROR_CONN_LOST);
            self.break_line(core, id, None);
        }
    }

    /// A connected VI is in error now; tells the other end why, if it does not know.
    pub fn break_line(&mut self, core: &mut dyn Core, id: u32, why: Option<Why>) {
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        let (Condition::Connected, Some(line)) = (vi.condition, vi.line) else {
            return;
        };
        vi.condition = Condition::Error;
        self.is_news = true;
        if let Some(why) = why {
            let tag = tag_word(line.theirs);
            self.say(core, line.peer, tag, Some(why as u64), Vec::new());
        }
        self.flush(core, id);
    }

    /// A line has ended: messages for it are dropped.
    pub fn bury(&mut self, core: &mut dyn Core, line: u32) {
        self.lines.remove(&line);
        self.dead_lines.push((line, Instant::now() + DEAD_FOR));
        self.drop_content(core, line, Some(tag_content(line)));
    }

    /// The other end says why a line ends, or is gone.
    fn on_word(&mut self, core: &mut dyn Core, line: u32, done: &Completion) {
        let Some(id) = self.lines.get(&line).copied() else {
            return;
        };
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        // One that was taken back ends after its successor has begun.
        vi.watch.take_if(|watch| *watch == done.ticket.context);
        match (done.failure, vi.condition) {
            (Some(Failure::Cancelled), _) => {}
            (Some(_), Condition::Pending) => self.ask_again(core, id),
            (Some(_), _) => self.lose(core, id),
            (None, Condition::Connected) => self.on_end(core, (id, line), done.data),
            // The acceptance is there, too, but had to wait for a buffer.
            (None, Condition::Pending) => {
                if let Some(request) = &mut vi.request {
                    request.end = Some(done.data);
                }
            }
            (None, Condition::Idle | Condition::Error) => {}
        }
    }

    /// The other end of a connected VI's line has said why the line ends.
    pub fn on_end(&mut self, core: &mut dyn Core, (id, line): (u32, u32), why: Option<u64>) {
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        let why = Why::from_data(why);
        let code = match why {
            Why::WriteRefused => abi::ERROR_RDMAW_PROT,
            Why::ReadRefused => abi::ERROR_RDMAR_PROT,
            _ => abi::ERROR_CONN_LOST,
        };
        let blame = match why {
            Why::NoDescriptor | Why::TooShort => abi::STATUS_REMOTE_DESC_ERROR,
            _ => abi::STATUS_DESC_FLUSHED_ERROR,
        };
        vi.sends.blame(blame);
        self.error(id, code);
        self.break_line(core, id, None);
        // All that was sent before the word has come.
        self.drop_content(core, line, Some(tag_content(line)));
    }

    /// Checks time-outs.
    fn tick(&mut self, core: &mut dyn Core, now: Instant) {
        self.dead_lines.retain(|(_, until)| *until > now);
        self.expire(core, now);
        self.peek(core, Operation::Looks(None), (0, ANY), Peek::Look);
    }

    fn peek(&mut self, core: &mut dyn Core, operation: Operation, tag: (u64, u64), peek: Peek) {
        // It is posted always.
        let _ = self.post(operation, |context| {
            let receive = Receive {
                from: None,
                tag: Some(tag),
                pieces: &[],
                multi: None,
                ticket: Ticket { context, flags: 0 },
            };
            core.peek(&receive, peek)
        });
    }

    /// Drops arrived messages for a line.
    fn drop_content(&mut self, core: &mut dyn Core, line: u32, tag: Option<u64>) {
        let tag = (tag.unwrap_or_else(|| tag_content(line)), 0);
        self.peek(core, Operation::Drops { line }, tag, Peek::Discard);
    }

    /// The result of looking for a message that nobody waits for.
    fn on_anything_unready(&mut self, core: &mut dyn Core, done: &Completion) {
        if done.failure.is_some() {
            return;
        }
        let of_line = done.tag.filter(|tag| tag & TAG_SAID != TAG_SAID);
        let oldest = of_line.map(|tag| (tag & ANY_LINE) as u32);
        if let Some(line) = oldest.filter(|line| !self.lines.contains_key(line)) {
            self.drop_content(core, line, done.tag);
        }
        let in_error = self.vis.values().filter_map(|vi| match vi.condition {
            Condition::Error => vi.line.map(|line| line.own),
            _ => None,
        });
        let dead = self.dead_lines.iter().map(|(line, _)| *line);
        for line in dead.chain(in_error).collect::<Vec<_>>() {
            self.drop_content(core, line, Some(tag_content(line)));
        }
        let unready = self.vis.values().filter_map(|vi| {
            let is_unready = vi.condition == Condition::Connected && !vi.receives.is_under_way();
            vi.line.filter(|_| is_unready).map(|line| line.own)
        });
        for line in unready.collect::<Vec<_>>() {
            let tag = (tag_content(line), 0);
            self.peek(core, Operation::Looks(Some(line)), tag, Peek::Look);
        }
    }

    /// A message waits on this line, or none does.
    fn on_unready(&mut self, core: &mut dyn Core, line: u32, waits: bool) {
        let Some(id) = self.lines.get(&line).copied() else {
            return;
        };
        let Some(vi) = self.vis.get_mut(&id) else {
            return;
        };
        if !waits {
            vi.unready_since = None;
            return;
        }
        let since = *vi.unready_since.get_or_insert_with(Instant::now);
        if since.elapsed() < UNREADY_MAX {
            return;
        }
        vi.unready_since = None;
        let is_reliable = vi.attributes.is_reliable();
        self.error(id, abi::ERROR_RECVQ_EMPTY);
        match is_reliable {
            true => self.break_line(core, id, Some(Why::NoDescriptor)),
            false => self.drop_content(core, line, Some(tag_content(line))),
        }
    }
}

/// Whom something came from.
pub fn sender(done: &Completion) -> Option<Peer> {
    match done.source {
        Source::Peer(peer) | Source::Stranger(peer) => Some(peer),
        Source::Own => None,
    }
}
