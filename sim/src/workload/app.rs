//! The application of one host: it opens, writes and reads what the plan says and
//! shows everything it gets to the checkers.

use super::{
    Ending, FlowPlan, GIVE_UP_CODE, Pace, Reader, StreamPlan, UnitKind, content, stream_key,
    transfer_key,
};
use crate::check::{Checked, Observer, Violation, handle};
use crate::mutant::Tap;
use crate::net::{MS, Ns};
use std::collections::BTreeMap;
use tabane_proto::op::{Get, OpError, OpEvent, Put, Region};
use tabane_proto::wire::{PutTarget, Stretch};
use tabane_proto::{Node, PeerId, StreamId, Time};

/// A refused operation is tried again after this long.
const RETRY_NS: Ns = 2 * MS;
/// How soon the sender of a flow with a full window learns that there is room.
const WINDOW_POLL_NS: Ns = MS / 5;
/// Bytes moved by one read or write at most.
const CHUNK_BYTES: usize = 64 * 1024;

/// One end of a stream.
#[derive(Debug)]
struct End {
    peer: usize,
    id: StreamId,
    service: u32,
    opener: bool,
    write_at: Option<Ns>,
    blocked: bool,
    read_at: Option<Ns>,
    readable: bool,
}

/// What surrounds an application while it acts.
pub struct Scene<'a> {
    /// Virtual time.
    pub now: Ns,
    /// The host's own time.
    pub local: Time,
    /// Its node.
    pub node: &'a mut Node,
    /// The node's number for each host.
    pub peer_ids: &'a [Option<PeerId>],
    /// The checkers.
    pub observer: &'a mut Observer,
    /// What may tamper with what passes, to test the checkers.
    pub tap: &'a mut Tap,
}

/// The application of one host.
#[derive(Debug)]
pub struct App {
    host: usize,
    connected: Vec<bool>,
    /// Streams to open: when, and the plan's index.
    openings: Vec<(Ns, usize)>,
    /// Flows to send on: the plan's index, and when the next unit is due.
    flows: Vec<(usize, Ns)>,
    ends: Vec<End>,
    by_id: BTreeMap<(usize, StreamId), usize>,
    buffer: Vec<u8>,
}

impl App {
    /// The application of `host`, starting (again) at `now`: it does what is left of the plan.
    pub fn new(now: Ns, host: usize, hosts: usize, observer: &Observer) -> App {
        let streams = observer.streams.plans().iter().enumerate();
        let openings = streams
            .filter(|(i, p)| p.from == host && !observer.streams.complete(*i))
            .map(|(i, p)| (p.start.max(now), i))
            .collect();
        let flows = observer.units.plans().iter().enumerate();
        let flows = flows
            .filter(|(_, p)| p.from == host)
            .map(|(i, p)| (i, p.start.max(now)))
            .collect();
        App {
            host,
            connected: vec![false; hosts],
            openings,
            flows,
            ends: Vec::new(),
            by_id: BTreeMap::new(),
            buffer: vec![0; CHUNK_BYTES],
        }
    }

    /// A peer is connected; with `restarted`, what was under way with it is gone.
    pub fn on_peer_up(&mut self, now: Ns, peer: usize, restarted: bool, observer: &mut Observer) {
        self.connected[peer] = true;
        if restarted {
            observer.units.excuse(self.host, peer);
            observer.transfers.excuse(self.host, peer);
            self.replan(now, peer, observer);
        }
    }

    /// A peer is not connected now. Its streams stand.
    pub fn on_peer_down(&mut self, peer: usize) {
        self.connected[peer] = false;
    }

    /// A peer was taken out of the cluster file, and what was under way with it is gone.
    pub fn forget_peer(&mut self, now: Ns, peer: usize, observer: &Observer) {
        self.connected[peer] = false;
        for end in self.ends.iter_mut().filter(|end| end.peer == peer) {
            end.write_at = None;
            end.read_at = None;
        }
        self.forget_ended();
        self.replan(now, peer, observer);
    }

    /// Opens again what is neither complete nor being tried.
    fn replan(&mut self, now: Ns, peer: usize, observer: &Observer) {
        let plans = observer.streams.plans();
        let mut taken = vec![false; plans.len()];
        for end in self.ends.iter().filter(|e| e.opener) {
            let attempt = &observer.streams.attempts()[end.service as usize];
            taken[attempt.plan] |= !attempt.void;
        }
        for (_, plan) in &self.openings {
            taken[*plan] = true;
        }
        for (i, plan) in plans.iter().enumerate() {
            let ours = (plan.from, plan.to) == (self.host, peer);
            if ours && !taken[i] && !observer.streams.complete(i) {
                self.openings.push((plan.start.max(now + RETRY_NS), i));
            }
        }
    }

    /// The node says that something happened to a stream or message.
    pub fn on_op(&mut self, s: &mut Scene<'_>, peer: usize, event: OpEvent) -> Checked {
        let (now, find) = (s.now, |app: &App, id| app.by_id.get(&(peer, id)).copied());
        match event {
            OpEvent::StreamOpened { id, service } => {
                s.observer.streams.accepted(now, self.host, peer, service)?;
                self.add_end(now, peer, id, service, false);
            }
            OpEvent::Readable(id) => {
                if let Some(i) = find(self, id) {
                    self.ends[i].readable = true;
                }
            }
            OpEvent::Writable(id) => {
                if let Some(i) = find(self, id) {
                    self.ends[i].blocked = false;
                }
            }
            OpEvent::Reset { id, code } => {
                if let Some(i) = find(self, id) {
                    self.ends[i].read_at = None;
                    let (service, back) = (self.ends[i].service, self.ends[i].opener);
                    s.observer.streams.saw_reset(now, service, back, code)?;
                }
            }
            OpEvent::Stopped { id, code } => {
                if let Some(i) = find(self, id) {
                    self.ends[i].write_at = None;
                    s.observer
                        .streams
                        .saw_stop(now, self.ends[i].service, code)?;
                }
            }
            OpEvent::Broken(id) => {
                if let Some(i) = find(self, id) {
                    self.read_rest(i, s)?;
                    s.observer.streams.void(self.ends[i].service);
                    self.ends[i].write_at = None;
                    self.ends[i].read_at = None;
                    self.by_id.remove(&(peer, id));
                    self.replan(now, peer, s.observer);
                }
            }
            OpEvent::MessagesBroken { .. } => s.observer.units.excuse(self.host, peer),
            OpEvent::Finished(_) | OpEvent::MessageReady | OpEvent::MessageRoom => {}
            OpEvent::Operation { token, status } => {
                for _ in 0..s.tap.endings() {
                    s.observer.transfers.ended(now, token, status)?;
                }
            }
            OpEvent::Written {
                key,
                immediate,
                bytes,
            } => {
                let is_right = immediate == Some(!key);
                s.observer.transfers.told(now, key, is_right, bytes)?;
            }
            OpEvent::Read { key, bytes } => {
                s.observer.transfers.told_of_get(now, key, bytes)?;
            }
        }
        Ok(())
    }

    /// What had arrived of a stream before it broke is right as well.
    fn read_rest(&mut self, i: usize, s: &mut Scene<'_>) -> Checked {
        let (service, back) = (self.ends[i].service, self.ends[i].opener);
        let Some(mut rest) = s
            .node
            .take_rest()
            .filter(|_| self.ends[i].read_at.is_some())
        else {
            return Ok(());
        };
        loop {
            let read = rest.read(&mut self.buffer);
            let data = &self.buffer[..read.len];
            let streams = &mut s.observer.streams;
            streams.read(s.now, service, back, data, read.fin)?;
            if read.len == 0 || read.fin {
                return Ok(());
            }
        }
    }

    fn add_end(&mut self, now: Ns, peer: usize, id: StreamId, service: u32, opener: bool) {
        self.by_id.insert((peer, id), self.ends.len());
        self.ends.push(End {
            peer,
            id,
            service,
            opener,
            write_at: Some(now),
            blocked: false,
            read_at: Some(now),
            readable: true,
        });
    }

    /// Does everything that is due. Returns when it wants to act next.
    pub fn act(&mut self, s: &mut Scene<'_>) -> Checked<Option<Ns>> {
        if s.observer.on_demand {
            self.want(s);
        }
        self.open_streams(s);
        self.send_units(s);
        for i in 0..self.ends.len() {
            self.read(i, s)?;
            self.write(i, s)?;
        }
        self.receive_units(s)?;
        let transfers_at = self.transfer(s);
        s.observer.transfers.look(s.now)?;
        self.forget_ended();
        Ok(self.next_act(s).into_iter().chain(transfers_at).min())
    }

    /// Connects to those that something is due to.
    fn want(&mut self, s: &mut Scene<'_>) {
        let o = &s.observer;
        let openings = self.openings.iter().filter(|(at, _)| *at <= s.now);
        let openings = openings.map(|(_, plan)| o.streams.plans()[*plan].to);
        let flows = self.flows.iter().filter(|(_, at)| *at <= s.now);
        let flows = flows.map(|(plan, _)| o.units.plans()[*plan].to);
        for to in openings.chain(flows).filter(|to| !self.connected[*to]) {
            if let Some(peer) = s.peer_ids[to] {
                s.node.want(s.local, peer);
            }
        }
    }

    /// Registers regions that others are to reach, and begins what is due. Returns when it is to be looked again.
    fn transfer(&mut self, s: &mut Scene<'_>) -> Option<Ns> {
        let mut next = None;
        for index in 0..s.observer.transfers.count() {
            let Some((plan, attempt)) = s.observer.transfers.due(index) else {
                continue;
            };
            let key = transfer_key(index, attempt);
            if plan.to == self.host && !s.observer.transfers.is_registered(index) {
                let region = Region {
                    handle: handle(index, attempt),
                    bytes: plan.bytes,
                    origin: 0,
                    is_readable: !plan.is_put,
                    is_writable: plan.is_put,
                    is_told: true,
                };
                let registered = s.node.register_region(key, region);
                if matches!(registered, Ok(()) | Err(OpError::KeyInUse)) {
                    s.observer.transfers.registered(index);
                }
            }
            // Of what is under way its end is told; the other end registers unseen.
            if plan.from == self.host || plan.to == self.host {
                let at = (s.now + RETRY_NS).max(plan.start);
                next = Some(next.map_or(at, |next: Ns| next.min(at)));
            }
            let is_due = plan.from == self.host && plan.start <= s.now && self.connected[plan.to];
            let Some(peer) = s.peer_ids[plan.to].filter(|_| is_due) else {
                continue;
            };
            if !s.observer.transfers.may_begin(index) {
                continue;
            }
            let (handle, stretch) = (
                handle(index, attempt),
                Stretch {
                    key,
                    base: 0,
                    total: plan.bytes,
                },
            );
            let begun = match plan.is_put {
                true => s.node.put(
                    s.local,
                    peer,
                    Put {
                        handle,
                        target: PutTarget {
                            to: stretch,
                            immediate: Some(!key),
                        },
                        token: handle,
                    },
                ),
                false => s.node.get(
                    s.local,
                    peer,
                    Get {
                        from: stretch,
                        handle,
                        token: handle,
                    },
                ),
            };
            if begun.is_ok() {
                s.observer.transfers.begun(index);
            }
        }
        next
    }

    fn forget_ended(&mut self) {
        let live = |e: &End| e.write_at.is_some() || e.read_at.is_some();
        if self.ends.iter().all(live) {
            return;
        }
        self.ends.retain(live);
        let ends = self.ends.iter().enumerate();
        self.by_id = ends.map(|(i, e)| ((e.peer, e.id), i)).collect();
    }

    fn next_act(&self, s: &Scene<'_>) -> Option<Ns> {
        let connected = |peer: usize| self.connected[peer];
        let openings = self
            .openings
            .iter()
            .filter(|(_, p)| connected(s.observer.streams.plans()[*p].to))
            .map(|(at, _)| *at);
        let flows = self
            .flows
            .iter()
            .filter(|(p, _)| connected(s.observer.units.plans()[*p].to))
            .map(|(_, at)| *at);
        let writes = self.ends.iter().filter(|e| !e.blocked);
        let writes = writes.filter_map(|e| e.write_at);
        let reads = self.ends.iter().filter(|e| e.readable);
        let reads = reads.filter_map(|e| e.read_at);
        openings.chain(flows).chain(writes).chain(reads).min()
    }

    fn open_streams(&mut self, s: &mut Scene<'_>) {
        let mut i = 0;
        while i < self.openings.len() {
            let (at, index) = self.openings[i];
            let plan = s.observer.streams.plans()[index];
            if at > s.now || !self.connected[plan.to] {
                i += 1;
                continue;
            }
            let Some(peer) = s.peer_ids[plan.to] else {
                i += 1;
                continue;
            };
            let service = s.observer.streams.begin(index);
            match s.node.open_stream(s.local, peer, service, plan.policy) {
                Ok(id) => {
                    self.openings.swap_remove(i);
                    self.add_end(s.now, plan.to, id, service, true);
                }
                Err(_) => {
                    s.observer.streams.void(service);
                    self.openings[i].0 = s.now + RETRY_NS;
                    i += 1;
                }
            }
        }
    }

    /// What one end has to write, and how: its share of the plan.
    fn share(plan: &StreamPlan, opener: bool) -> u64 {
        match plan.ending {
            Ending::Reset { after_bytes } if opener => after_bytes.min(plan.forward_bytes),
            _ if opener => plan.forward_bytes,
            _ => plan.back_bytes,
        }
    }

    fn write(&mut self, i: usize, s: &mut Scene<'_>) -> Checked {
        let Some(peer) = s.peer_ids[self.ends[i].peer] else {
            return Ok(());
        };
        while let Some(at) = self.ends[i].write_at.filter(|at| *at <= s.now) {
            let end = &self.ends[i];
            if end.blocked {
                break;
            }
            let (service, back, opener, id) = (end.service, !end.opener, end.opener, end.id);
            let plan = s.observer.streams.plan_of(service);
            let written = s.observer.streams.attempts()[service as usize].directions
                [usize::from(back)]
            .written;
            let left = Self::share(&plan, opener) - written;
            if left == 0 {
                self.ends[i].write_at = None;
                return self.end_writing(i, &plan, peer, s);
            }
            let most = match plan.pace {
                Pace::Bulk => CHUNK_BYTES as u64,
                Pace::Paced { bytes, .. } => bytes.min(CHUNK_BYTES as u64),
            };
            let chunk = &mut self.buffer[..left.min(most) as usize];
            content::fill(stream_key(service, back), written, chunk);
            match s.node.write_stream(s.local, peer, id, chunk) {
                Ok(0) => self.ends[i].blocked = true,
                Ok(taken) => {
                    s.observer.streams.wrote(service, back, taken as u64);
                    if let Pace::Paced { every_ns, .. } = plan.pace {
                        self.ends[i].write_at =
                            Some(at.max(s.now - s.now.min(every_ns)) + every_ns);
                    }
                }
                // Stopped, or broken by a restart: the event says which.
                Err(_) => self.ends[i].write_at = None,
            }
        }
        Ok(())
    }

    fn end_writing(
        &mut self,
        i: usize,
        plan: &StreamPlan,
        peer: PeerId,
        s: &mut Scene<'_>,
    ) -> Checked {
        let end = &self.ends[i];
        let (service, back, id) = (end.service, !end.opener, end.id);
        let resets = matches!(plan.ending, Ending::Reset { .. }) && end.opener;
        let done = if resets {
            s.node.reset_stream(s.local, peer, id, GIVE_UP_CODE)
        } else {
            s.node.finish_stream(s.local, peer, id)
        };
        if done.is_ok() {
            s.observer.streams.finished(service, back, resets);
        }
        Ok(())
    }

    fn read(&mut self, i: usize, s: &mut Scene<'_>) -> Checked {
        let Some(peer) = s.peer_ids[self.ends[i].peer] else {
            return Ok(());
        };
        while let Some(at) = self.ends[i].read_at.filter(|at| *at <= s.now) {
            let end = &self.ends[i];
            if !end.readable {
                break;
            }
            let (service, back, id) = (end.service, end.opener, end.id);
            let plan = s.observer.streams.plan_of(service);
            if s.tap.withholds(service) {
                self.ends[i].readable = false;
                break;
            }
            let reader = s.tap.reader(plan.reader);
            let most = match reader {
                Reader::Late { since } if s.now < since => {
                    self.ends[i].read_at = Some(since);
                    break;
                }
                Reader::Eager | Reader::Late { .. } => CHUNK_BYTES,
                Reader::Slow { bytes, .. } => (bytes as usize).min(CHUNK_BYTES),
            };
            match s
                .node
                .read_stream(s.local, peer, id, &mut self.buffer[..most])
            {
                Ok(read) => {
                    let (data, fin) = s.tap.stream(&mut self.buffer[..read.len], read.fin);
                    let streams = &mut s.observer.streams;
                    streams.read(s.now, service, back, data, fin)?;
                    let total =
                        streams.attempts()[service as usize].directions[usize::from(back)].read;
                    let end = &mut self.ends[i];
                    end.readable = read.len > 0;
                    if let Reader::Slow { every_ns, .. } = reader {
                        end.read_at = Some(at.max(s.now - s.now.min(every_ns)) + every_ns);
                    }
                    if read.fin {
                        end.read_at = None;
                    } else if let (Ending::Stop { after_bytes }, false) = (plan.ending, back)
                        && total >= after_bytes
                    {
                        end.read_at = None;
                        if s.node.stop_stream(s.local, peer, id, GIVE_UP_CODE).is_ok() {
                            streams.stopped(service);
                        }
                    }
                }
                Err(OpError::Reset(code)) => {
                    self.ends[i].read_at = None;
                    s.observer.streams.saw_reset(s.now, service, back, code)?;
                }
                Err(_) => self.ends[i].readable = false,
            }
        }
        Ok(())
    }

    fn send_units(&mut self, s: &mut Scene<'_>) {
        for i in 0..self.flows.len() {
            while self.flows[i].1 <= s.now {
                let index = self.flows[i].0;
                let plan = s.observer.units.plans()[index];
                let (Some(sequence), Some(peer), true) = (
                    s.observer.units.next_to_send(index),
                    s.peer_ids[plan.to],
                    self.connected[plan.to],
                ) else {
                    break;
                };
                if s.observer.units.in_flight_bytes(index) >= plan.window_bytes {
                    self.flows[i].1 = s.now + WINDOW_POLL_NS;
                    break;
                }
                if send_unit(s, peer, &plan, index, sequence, &mut self.buffer) {
                    s.observer.units.sent(s.now, index);
                    self.flows[i].1 += plan.every_ns;
                } else {
                    self.flows[i].1 = s.now + RETRY_NS;
                }
            }
        }
        let units = &s.observer.units;
        self.flows
            .retain(|(index, _)| units.next_to_send(*index).is_some());
    }

    fn receive_units(&mut self, s: &mut Scene<'_>) -> Checked {
        let host_of = |ids: &[Option<PeerId>], peer| ids.iter().position(|p| *p == Some(peer));
        while let Some((peer, frame)) = s.node.receive_frame() {
            let from = host_of(s.peer_ids, peer).unwrap_or(usize::MAX);
            for frame in s.tap.frame(frame) {
                s.observer
                    .unit(s.now, (self.host, from), UnitKind::Frame, &frame)?;
                s.node.recycle_frame(frame);
            }
        }
        for (from, peer) in s.peer_ids.iter().enumerate() {
            let Some(peer) = *peer else { continue };
            while let Some(message) = s.node.receive_message(s.local, peer) {
                for message in s.tap.message(message) {
                    let ends = (self.host, from);
                    let (index, sequence) =
                        s.observer
                            .unit(s.now, ends, UnitKind::Message, &message.data)?;
                    let plan = s.observer.units.plans()[index];
                    if (message.flow, message.tag) != (plan.flow, plan.tag(index, sequence)) {
                        return Err(Violation::new(
                            crate::check::Rule::MessageUnchanged,
                            s.now,
                            format!("message {sequence} of flow {index} has another flow or tag"),
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

fn send_unit(
    s: &mut Scene<'_>,
    peer: PeerId,
    plan: &FlowPlan,
    index: usize,
    sequence: u32,
    buffer: &mut Vec<u8>,
) -> bool {
    match plan.kind {
        UnitKind::Frame => {
            let mut frame = s.node.frame_buffer();
            frame.clear();
            plan.write(index, sequence, &mut frame);
            s.node
                .send_frame(s.local, peer, (plan.flow as u8, plan.policy), frame)
                .is_ok()
        }
        UnitKind::Message => {
            buffer.clear();
            plan.write(index, sequence, buffer);
            let tag = plan.tag(index, sequence);
            let sent = s
                .node
                .send_message(s.local, peer, plan.flow, tag, buffer, plan.policy);
            buffer.resize(CHUNK_BYTES, 0);
            sent.is_ok()
        }
    }
}
