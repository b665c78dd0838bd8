//! The program around the loop: opens streams when all peers are there, writes into
//! them, and reads the others'.

use core::time::Duration;

use tabane_engine::{Host, LoopTurn};
use tabane_io::poll::{Poller, Ready};
use tabane_proto::op::OpEvent;
use tabane_proto::{Event, Node, PeerId, StreamId, Time};

use super::report::Report;
use super::sending::{BLOCK_BYTES, Pinging, Sending};
use super::taking::Taking;

/// Bytes of one read.
const BUFFER_BYTES: usize = 256 * 1024;
/// Leading share of the time whose round trips do not count: the first ones meet cold
/// caches.
const WARM_SHARE: u32 = 10;

/// The task.
#[derive(Debug)]
pub struct Plan {
    /// Whom to send a stream.
    pub to: Vec<PeerId>,
    /// Whom to send small messages.
    pub ping: Option<PeerId>,
    /// How long to send.
    pub lasting: Duration,
    /// How many streams of others to take in.
    pub take: usize,
    /// Whether the content matters.
    pub is_checked: bool,
}

/// What the loop calls back.
pub struct Bulk {
    sending: Vec<Sending>,
    pinging: Option<Pinging>,
    taking: Vec<Taking>,
    /// Peers to be waited for before sending begins.
    missing: Vec<PeerId>,
    plan: Plan,
    began: Option<Time>,
    block: Vec<u8>,
    buffer: Vec<u8>,
}

impl Bulk {
    pub fn new(plan: Plan) -> Bulk {
        Bulk {
            sending: plan.to.iter().copied().map(Sending::new).collect(),
            pinging: plan.ping.map(Pinging::new),
            taking: Vec::new(),
            missing: plan.to.iter().copied().chain(plan.ping).collect(),
            plan,
            began: None,
            block: vec![0; BLOCK_BYTES],
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// When sending began, or the first stream of another.
    pub fn began(&self) -> Option<Time> {
        self.began
    }

    /// Whether everything was sent and taken in.
    pub fn is_done(&self) -> bool {
        let sent = self.sending.iter().all(Sending::is_over);
        let pinged = self.pinging.iter().all(Pinging::is_over);
        let taken = self.taking.len() >= self.plan.take && self.taking.iter().all(Taking::is_over);
        sent && pinged && taken
    }

    /// Whatever is not over by now will not be.
    pub fn give_up(&mut self, now: Time) {
        let why = match self.missing.len() {
            0 => "not over in time",
            _ => "a peer does not answer",
        };
        let all = self.sending.iter_mut();
        all.for_each(|sending| sending.fail(now, why.into()));
        let all = self.pinging.iter_mut();
        all.for_each(|pinging| pinging.fail(why.into()));
        let all = self.taking.iter_mut();
        all.for_each(|taking| taking.fail(why.into()));
        self.plan.take = 0;
    }

    /// The result; `name` gives peers' names.
    pub fn report(self, node: String, name: impl Fn(PeerId) -> String) -> Report {
        let sent = self.sending.into_iter();
        let taken = self.taking.into_iter();
        Report {
            node,
            began_ns: self.began.map(Time::as_ns),
            sent: sent
                .map(|s| {
                    let to = name(s.peer);
                    s.report(to)
                })
                .collect(),
            taken: taken
                .map(|t| {
                    let from = name(t.peer);
                    t.report(from)
                })
                .collect(),
            pinged: self.pinging.map(|p| {
                let to = name(p.peer);
                p.report(to)
            }),
        }
    }

    fn begin(&mut self, now: Time, node: &mut Node) {
        self.began = Some(now);
        self.sending
            .iter_mut()
            .for_each(|sending| sending.open(now, node));
        self.pinging
            .iter_mut()
            .for_each(|pinging| pinging.open(now, node));
    }

    fn readable(&mut self, now: Time, node: &mut Node, peer: PeerId, stream: StreamId) {
        if let Some(taking) = self.taking.iter_mut().find(|t| t.is(peer, stream)) {
            taking.read(now, node, &mut self.buffer, self.plan.is_checked);
        } else if let Some(pinging) = self.pinging.iter_mut().find(|p| p.is(peer, stream)) {
            let warm = self.began.unwrap_or(now) + self.plan.lasting / WARM_SHARE;
            pinging.read(now, node, &mut self.buffer, warm);
        }
    }

    /// A stream will not end as it should.
    fn broken(&mut self, now: Time, peer: PeerId, stream: StreamId, why: &str) {
        let sending = self.sending.iter_mut().filter(|s| s.is(peer, stream));
        sending.for_each(|sending| sending.fail(now, why.into()));
        let pinging = self.pinging.iter_mut().filter(|p| p.is(peer, stream));
        pinging.for_each(|pinging| pinging.fail(why.into()));
        let taking = self.taking.iter_mut().filter(|t| t.is(peer, stream));
        taking.for_each(|taking| taking.fail(why.into()));
    }

    fn on_stream(&mut self, now: Time, node: &mut Node, peer: PeerId, event: OpEvent) {
        let sending = |stream| move |s: &&mut Sending| s.is(peer, stream);
        match event {
            OpEvent::StreamOpened { id, service } => {
                self.began.get_or_insert(now);
                self.taking.push(Taking::new(peer, id, service));
            }
            OpEvent::Readable(stream) => self.readable(now, node, peer, stream),
            OpEvent::Writable(stream) => {
                let found = self.sending.iter_mut().find(sending(stream));
                found.into_iter().for_each(Sending::writable);
            }
            OpEvent::Finished(stream) => {
                let found = self.sending.iter_mut().find(sending(stream));
                found.into_iter().for_each(|sending| sending.arrived(now));
            }
            OpEvent::Reset { id, .. } => self.broken(now, peer, id, "the peer reset it"),
            OpEvent::Stopped { id, .. } => self.broken(now, peer, id, "the peer stopped it"),
            OpEvent::Broken(id) => self.broken(now, peer, id, "the peer started afresh"),
            OpEvent::MessagesBroken { .. }
            | OpEvent::MessageReady
            | OpEvent::MessageRoom
            | OpEvent::Operation { .. }
            | OpEvent::Written { .. }
            | OpEvent::Read { .. } => {}
        }
    }
}

impl Host for Bulk {
    fn event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::PeerUp { peer, .. } => {
                let is_waiting = !self.missing.is_empty();
                self.missing.retain(|missing| *missing != peer);
                if is_waiting && self.missing.is_empty() {
                    self.begin(now, node);
                }
            }
            Event::Op { peer, event } => self.on_stream(now, node, peer, event),
            _ => {}
        }
    }

    fn frame(&mut self, _from: PeerId, _frame: &mut Vec<u8>) {}

    fn ready(&mut self, _turn: &mut LoopTurn<'_>, _ready: Ready) {}

    fn produce(&mut self, now: Time, node: &mut Node) -> bool {
        let until = self.began.map(|began| began + self.plan.lasting);
        let is_time_up = until.is_some_and(|until| now >= until);
        for sending in &mut self.sending {
            // Even a sender that got no processor all that time sends a little.
            if is_time_up && sending.has_sent() {
                sending.finish(now, node);
            } else {
                sending.write(now, node, &mut self.block, self.plan.is_checked);
            }
        }
        let is_small = self.sending.is_empty() && self.pinging.is_some();
        if let Some(pinging) = &mut self.pinging {
            if is_time_up {
                pinging.finish(now, node);
            } else {
                pinging.write(now, node);
            }
        }
        is_small
    }

    fn before_wait(&mut self, node: &Node, _poller: &Poller) -> bool {
        let wants = |pinging: &Pinging| pinging.wants();
        self.sending.iter().any(|sending| sending.wants(node)) || self.pinging.iter().any(wants)
    }

    fn link_changed(&mut self, _text: &str) {}
}
