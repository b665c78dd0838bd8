//! What a bundle tells while its peer is traced ([`crate::trace`]), and what becomes of packets, of which a trace tells.

use super::schedule::weigh;
use super::{Bundle, BundlePath};
use crate::limits::PATHS_MAX;
use crate::segment::{Content, Fate};
use crate::trace::{Chosen, Packet, PathView, RecordKinds, Recorder, TraceEvent, Why};
use crate::wire::{HEADER_BYTES, Header};
use crate::{LinkId, Time};

fn view(p: &BundlePath) -> PathView {
    let flight = p.path.flight();
    PathView {
        remote: p.remote,
        state: p.path.state(),
        witness: p.path.witness(),
        verdicts: p.path.verdicts(),
        congestion: flight.congestion_state().name(),
        mtu_bytes: flight.mtu_bytes() as u32,
        granted_bytes_per_s: flight.granted(),
    }
}

fn saturated(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Bundle {
    /// Has it be traced, or not any more; what nobody has fetched is forgotten then.
    pub fn set_traced(&mut self, now: Time, on: bool) {
        if self.recorder.is_some() == on {
            return;
        }
        self.recorder = on.then(Box::default);
        for p in self.paths.values_mut() {
            p.path.note_decided(on);
        }
        self.trace_states(now);
    }

    /// The oldest event of the trace that waits, and when it happened.
    pub fn poll_trace(&mut self) -> Option<(Time, TraceEvent)> {
        self.recorder.as_mut()?.pop()
    }

    /// Memory held for a trace, in bytes.
    pub fn trace_bytes(&self) -> usize {
        let recorder = self.recorder.as_deref();
        recorder.map_or(0, Recorder::memory_bytes)
    }

    /// Hands the fates that paths decided to what is carried.
    pub(super) fn deliver_fates(&mut self, now: Time) {
        let mut fates = core::mem::take(&mut self.fates);
        for (content, fate) in fates.drain(..) {
            match content {
                Content::Relayed => {}
                Content::News(news) if fate == Fate::Lost => self.owe(news),
                _ => self.ops.on_fate(now, content, fate),
            }
        }
        self.fates = fates;
        if self.recorder.is_some() {
            self.trace_decided(now);
        }
    }

    /// Tells what became of packets, and what is measured now.
    fn trace_decided(&mut self, now: Time) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        for (id, p) in self.paths.iter_mut() {
            recorder.see_decided(now, id, p.path.drain_decided());
            recorder.see_metrics(now, id, p.path.flight().metrics());
        }
        self.trace_states(now);
    }

    /// Tells the states that are not as they were told last.
    pub(super) fn trace_states(&mut self, now: Time) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let session = self.sessions.current.as_ref();
        recorder.see_peer(now, self.state, session.map(|session| session.since));
        for (id, p) in self.paths.iter_mut() {
            // It may be a new one.
            p.path.note_decided(true);
            recorder.see_path(now, id, &view(p));
        }
    }

    /// Tells of a packet that was opened.
    pub(super) fn trace_received(
        &mut self,
        now: Time,
        header: &Header,
        datagram_bytes: usize,
        payload: &[u8],
    ) {
        if let Some(recorder) = &mut self.recorder {
            let packet = Packet {
                path: LinkId(header.path),
                number: header.number,
                bytes: datagram_bytes as u32,
                records: RecordKinds::of(payload),
            };
            recorder.push(now, TraceEvent::Received(packet));
        }
    }

    /// Tells which path was chosen for a burst.
    pub(super) fn trace_choice(&mut self, now: Time, path: LinkId, why: Why, blocked: u8) {
        let Some(mut recorder) = self.recorder.take() else {
            return;
        };
        let demand = self.demand(why == Why::Relayed);
        let weighed = weigh(self.open_paths(blocked), &demand);
        let mut delivery_us = [Chosen::NO_CANDIDATE; PATHS_MAX];
        for one in weighed.iter().filter(|one| one.standby.is_none()) {
            let us = u32::try_from(one.delivery_us);
            delivery_us[one.id.index()] = us.unwrap_or(Chosen::NO_CANDIDATE - 1);
        }
        let chosen = Chosen {
            path,
            why,
            queued_bytes: saturated(demand.queued_bytes),
            lost_bytes: saturated(demand.lost_bytes),
            delivery_us,
        };
        let standby = weighed.iter().map(|one| (one.id, one.standby));
        recorder.see_choice(now, chosen, standby);
        self.recorder = Some(recorder);
    }

    /// Tells that a copy goes out, and what it is for.
    pub(super) fn trace_copy(&mut self, now: Time, path: LinkId) {
        if self.recorder.is_none() {
            return;
        }
        let is_mirrored = self
            .contents
            .iter()
            .any(|content| self.ops.mirrored(content));
        let why = match is_mirrored {
            true => Why::Mirrored,
            false => Why::Explores,
        };
        self.trace_choice(now, path, why, 0);
    }
}

/// Tells of a packet that is finished and not sealed yet: `payload` is what comes after its header.
pub(super) fn trace_sent(
    recorder: &mut Recorder,
    now: Time,
    (path, number): (LinkId, u64),
    packet: &[u8],
    trailer_bytes: usize,
) {
    let payload = packet.get(HEADER_BYTES..packet.len() - trailer_bytes);
    let records = RecordKinds::of(payload.unwrap_or_default());
    let bytes = packet.len() as u32;
    recorder.push(
        now,
        TraceEvent::Sent(Packet {
            path,
            number,
            bytes,
            records,
        }),
    );
}
