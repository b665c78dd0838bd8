//! Down: records into packets, packets into bursts, a burst onto one path.

use crate::link::thresholds::{PEER_SILENT_MAX, SENT_EVERY, TOLD_EVERY};

use smallvec::SmallVec;

use super::schedule::Demand;
use super::tracing::trace_sent;
use super::{Bundle, Relays, TRIM_AFTER, schedule};
use crate::context::{Context, Transmit};
use crate::crypto::KEY_PACKETS_MAX;
use crate::limits::{DATAGRAM_BYTES_MIN, LINKS_MAX};
use crate::link::{Path, PathControl, PathState};
use crate::op::Outlet;
use crate::segment::Content;
use crate::trace::Why;
use crate::wire::{ACK_BYTES_MAX, GRANT_BYTES, HEADER_BYTES, Header, Record, Writer};
use crate::{GRANULARITY, LinkId, Time};

/// One GSO send: the kernel takes this many segments (UDP_MAX_SEGMENTS was 64
/// before Linux 6.9) …
const BURST_PACKETS_MAX: usize = 64;
/// … and this many bytes (a UDP payload in IPv4).
const BURST_BYTES_MAX: usize = 65_507;
/// Free bytes in a packet that are padded rather than ending the burst (all
/// packets of a GSO burst but the last must have the same size).
const PADDING_BYTES_MAX: usize = 128;

impl Bundle {
    /// The next datagrams to send, written to `buffer`; `None` when there is nothing to send now.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        self.share_progress(now);
        self.update_state(now, context);
        self.transmit_handshake(buffer, context)
            .or_else(|| self.transmit_control(now, buffer, context))
            .or_else(|| self.transmit_mirror(now, buffer, context))
            .or_else(|| self.transmit_burst(now, buffer, context))
            .or_else(|| self.transmit_acks(now, buffer, context))
    }

    fn transmit_handshake(&mut self, buffer: &mut [u8], context: &Context) -> Option<Transmit> {
        let (link, round, bytes) = self.sessions.next_first_message(buffer, context)?;
        let to = self.handshake_address(link, round % 2 == 1, bytes)?;
        Some(Transmit {
            link,
            to,
            bytes,
            segment_bytes: bytes,
            peer_was_heard: false,
        })
    }

    /// Probes and verdicts of paths, then small answers.
    fn transmit_control(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        self.sessions.current.as_ref()?;
        if let Some(transmit) = self.transmit_survey(now, buffer, context) {
            return Some(transmit);
        }
        for id in self.path_ids() {
            let token = context.random.u32();
            let open = self.closed(context.blocked) & id.bit() == 0;
            let Some(p) = self.paths.get_mut(id) else {
                continue;
            };
            if open && let Some(answer) = p.unsent_answer.take() {
                return self.transmit_reply(now, id, *answer, buffer, context);
            }
            if open && let Some(question) = self.transmit_question(now, id, token, buffer, context)
            {
                return Some(question);
            }
            let Some(p) = self.paths.get_mut(id) else {
                continue;
            };
            if open && p.path.asks_in_doubt(now) && !context.questions.take(now) {
                p.path.put_off_probe(now);
            }
            match p.path.poll_control(now, token, open) {
                Some(PathControl::Probe {
                    token,
                    pad_to_bytes,
                }) => {
                    let to = self.probe_address(id)?;
                    let records = [Record::Probe { token }];
                    let sent =
                        self.transmit_records(now, id, &records, pad_to_bytes, buffer, context);
                    return sent.map(|transmit| Transmit { to, ..transmit });
                }
                Some(PathControl::LinkState {
                    generation,
                    verdict,
                    witness,
                }) => {
                    let record = Record::LinkState {
                        path: id.0,
                        generation,
                        verdict,
                        witness,
                    };
                    self.reply(Some(id), record);
                    self.reply(None, record);
                }
                None => {}
            }
        }
        self.transmit_replies(now, buffer, context)
    }

    /// Small answers.
    fn transmit_replies(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        if let Some(refusal) = self.take_refusal()
            && let Some(id) = schedule::fastest(self.open_links(context.blocked), None)
        {
            let mut w = self.begin(id, DATAGRAM_BYTES_MIN, buffer)?;
            refusal.write(&mut w);
            let written = w.len();
            self.contents.clear();
            return self.send_alone(now, id, written, false, buffer, context);
        }
        while let Some((on, record)) = self.replies.pop_front() {
            let fastest = || schedule::fastest(self.open_paths(context.blocked), None);
            let Some(id) = on.or_else(fastest) else {
                continue;
            };
            let Some(p) = self.paths.get_mut(id) else {
                continue;
            };
            if u16::from(context.blocked) & id.bit() == 0 {
                return self.transmit_reply(now, id, record, buffer, context);
            }
            if matches!(record, Record::ProbeReply { .. }) {
                p.unsent_answer = Some(Box::new(record));
            }
        }
        None
    }

    /// A small answer. That to a probe takes the acknowledgement along that is due for it.
    fn transmit_reply(
        &mut self,
        now: Time,
        id: LinkId,
        record: Record<'_>,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        let mut w = self.begin(id, DATAGRAM_BYTES_MIN, buffer)?;
        record.write(&mut w);
        if matches!(record, Record::ProbeReply { .. }) {
            self.write_ack(now, id, context, &mut w);
        }
        let written = w.len();
        self.contents.clear();
        self.send_alone(now, id, written, record.is_ack_eliciting(), buffer, context)
    }

    /// One packet with these records alone, for which there is room in it, padded to `pad_to_bytes`.
    pub(super) fn transmit_records(
        &mut self,
        now: Time,
        id: LinkId,
        records: &[Record<'_>],
        pad_to_bytes: usize,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        let trailer = self.sessions.current.as_ref()?.keys.trailer_bytes;
        let mut w = self.begin(id, buffer.len(), buffer)?;
        records.iter().for_each(|record| record.write(&mut w));
        w.zeros(pad_to_bytes.saturating_sub(w.len() + trailer));
        let written = w.len();
        self.contents.clear();
        // A padded probe asks whether this size passes; it says nothing of loss.
        let eliciting = records.iter().any(Record::is_ack_eliciting) && pad_to_bytes == 0;
        self.send_alone(now, id, written, eliciting, buffer, context)
    }

    /// A burst of content for the path where it is delivered first.
    fn transmit_burst(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        // Those whose turn it is may turn out to wait for the peer's window; others do not.
        let outlets = 1 + self.ops.waiting_links().count();
        (0..outlets).find_map(|_| self.transmit_next_burst(now, buffer, context))
    }

    fn transmit_next_burst(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        let own_waits = self.ops.has_pending();
        if !(own_waits || self.has_relayed()) || self.sessions.current.is_none() {
            return None;
        }
        for p in self.paths.values_mut() {
            p.path.refill(now);
        }
        let (id, why, outlet) = self.next_burst(own_waits, context.blocked)?;
        let relayed = why == Why::Relayed;
        if !relayed {
            self.outlet = outlet;
            self.ops.take_turns_of(outlet);
        }
        if self.recorder.is_some() {
            self.trace_choice(now, id, why, context.blocked);
        }
        let p = self.paths.get(id)?;
        let flight = p.path.flight();
        let datagram_bytes = flight.mtu_bytes();
        let budget = (flight.burst_bytes() as u64).min(flight.room_bytes()) as usize;
        let packets = (budget / datagram_bytes)
            .clamp(1, BURST_PACKETS_MAX.min(BURST_BYTES_MAX / datagram_bytes));
        let mut end = 0;
        for n in 0..packets {
            let slot = &mut buffer[end..end + datagram_bytes];
            let bytes = self.content_packet(now, id, slot, (n == 0, relayed), context);
            end += bytes;
            if bytes < datagram_bytes {
                context.ran_out.here |= !self.contents.is_empty();
                break;
            }
        }
        if end == 0 {
            return None;
        }
        if let Some(relays) = self.relays.as_mut().filter(|_| !relayed) {
            relays.queue.on_own(end);
        }
        self.explorer.on_content(id, end);
        self.note_carried(now, end, context);
        self.busy_until = now + TRIM_AFTER;
        self.transmit(now, id, end, datagram_bytes.min(end), context)
    }

    /// The path for the next burst, why, and who has it; own content waits or not.
    fn next_burst(&mut self, own_waits: bool, blocked: u8) -> Option<(LinkId, Why, Outlet)> {
        let waits = |relays: &Relays| relays.queue.has_turn(own_waits);
        let relayed = self.relays.as_deref().is_some_and(waits);
        if relayed || !own_waits {
            // What is relayed to the peer goes no further way than a link. If none takes it, own content may have
            // another one.
            let least_bytes = self.next_relayed_bytes().unwrap_or_default();
            let demand = self.demand(relayed);
            // A link that does not carry datagrams as large is none for them.
            let takes = |link: &(LinkId, &Path)| link.1.flight().mtu_bytes() >= least_bytes;
            let link = schedule::choose(self.open_links(blocked).filter(takes), demand);
            if link.is_some() || !own_waits {
                let (id, why) = link?;
                return Some((id, if relayed { Why::Relayed } else { why }, Outlet::Any));
            }
        }
        self.next_own_burst(blocked)
    }

    /// Those that may use any link and those meant for one have a burst each in turn, as far as their paths have room: so
    /// nobody keeps others from a link.
    fn next_own_burst(&self, blocked: u8) -> Option<(LinkId, Why, Outlet)> {
        let any = self.ops.has_pending_for_any().then_some(Outlet::Any);
        let of_links = self.ops.waiting_links().map(Outlet::Link);
        let mut outlets: SmallVec<[Outlet; 1 + LINKS_MAX]> =
            any.into_iter().chain(of_links).collect();
        let had_theirs = outlets
            .iter()
            .filter(|outlet| **outlet <= self.outlet)
            .count();
        outlets.rotate_left(had_theirs);
        let burst = |outlet| {
            self.burst_of(outlet, blocked)
                .map(|(id, why)| (id, why, outlet))
        };
        outlets.into_iter().find_map(burst)
    }

    /// The path for a burst of this outlet. Content meant for a link that works, and takes packets of the usual size, waits for it, and for no other.
    fn burst_of(&self, outlet: Outlet, blocked: u8) -> Option<(LinkId, Why)> {
        let only = self.only_link();
        if let (Outlet::Link(link), None) = (outlet, only)
            && let Some(p) = self.paths.get(link)
            && p.path.state() == PathState::Up
            && !p.path.flight().is_narrow()
        {
            let takes = self.closed(blocked) & link.bit() == 0 && p.path.flight().has_room();
            return takes.then_some((link, Why::Meant));
        }
        let is_meant = move |(id, _): &(LinkId, &Path)| only.is_none_or(|only| only == *id);
        let paths = self.open_paths(blocked).filter(is_meant);
        schedule::choose(paths, self.demand(false))
    }

    /// What waits: of others, or own content.
    pub(super) fn demand(&self, relayed: bool) -> Demand<'_> {
        let (queued_bytes, lost_bytes) = match (relayed, &self.relays) {
            (true, Some(relays)) => (relays.queue.bytes(), 0),
            _ => {
                let lost_bytes = self.ops.lost_bytes();
                (self.ops.queued_bytes() + lost_bytes, lost_bytes)
            }
        };
        Demand {
            queued_bytes,
            lost_bytes,
            window_bytes: self.ops.window_bytes(),
            doubted: self.explorer.doubted(),
        }
    }

    /// Fills one packet with what is most urgent; returns its size, 0 if there was nothing to say.
    fn content_packet(
        &mut self,
        now: Time,
        id: LinkId,
        slot: &mut [u8],
        (first, relayed): (bool, bool),
        context: &Context,
    ) -> usize {
        let Some(session) = &self.sessions.current else {
            return 0;
        };
        let trailer = session.keys.trailer_bytes;
        let Some(mut w) = self.begin(id, slot.len(), slot) else {
            return 0;
        };
        // What is relayed may need all the room; acknowledgements go alone then.
        if first && !relayed {
            self.write_ack(now, id, context, &mut w);
            self.write_sent(now, id, &mut w);
            self.write_waited(now, &mut w);
        }
        self.contents.clear();
        if !id.is_relayed() {
            self.write_owed(now, context, &mut w);
        }
        let more = match relayed {
            true => self.write_relayed(now, &mut w),
            false => {
                while let Some(content) = self.ops.write_segment(now, &context.reach, &mut w) {
                    self.contents.push(content);
                }
                self.ops.has_pending()
            }
        };
        if self.contents.is_empty() && w.len() == HEADER_BYTES {
            return 0;
        }
        if w.room() <= PADDING_BYTES_MAX && more {
            let room = w.room();
            w.zeros(room);
        }
        let bytes = w.len() + trailer;
        if !relayed {
            self.mirror(now, id, first, context.blocked);
        }
        let eliciting = !self.contents.is_empty();
        self.seal(now, id, &mut slot[..bytes], eliciting);
        bytes
    }

    /// Notes which of the content just written for `id` is to go out once more: what is mirrored, on the best other path;
    /// and what a path on standby is explored with.
    ///
    /// Content is mirrored, and not packets: "every packet on two paths" would need packet numbers shared between paths.
    /// So the content is written a second time, into a packet of another path, and the receiver's range sets make the
    /// second arrival nothing.
    fn mirror(&mut self, now: Time, id: LinkId, first: bool, blocked: u8) {
        if first && self.explorer.is_due(now) {
            let given_others = |id| self.explorer.given_others_bytes(id);
            let paths = self.open_paths(blocked);
            let on_standby = schedule::on_standby(paths, &self.demand(false), given_others);
            self.explorer.begin(now, &on_standby);
        }
        let (paths, waiting) = (&self.paths, self.mirror.len() as u64 + 1);
        let explored = self.explorer.next_copy(|id| {
            let flight = paths.get(id).map(|p| p.path.flight());
            flight.is_some_and(|f| f.room_bytes() >= waiting * f.mtu_bytes() as u64)
        });
        let mut second = None;
        let own = |content: &&Content| !matches!(content, Content::News(_));
        for content in self.contents.iter().filter(own) {
            if self.ops.mirrored(content) {
                second = second.or_else(|| schedule::fastest(self.open_paths(blocked), Some(id)));
                self.mirror.extend(second.map(|path| (path, *content)));
            } else if self.outlet == Outlet::Any {
                self.mirror.extend(explored.map(|path| (path, *content)));
            }
        }
    }

    /// Content that goes out once more on another path. A copy is a favour: one for which its path has no room
    /// is left out, and counted.
    fn transmit_mirror(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        while let Some(&(id, _)) = self.mirror.front() {
            let open = self.closed(context.blocked) & id.bit() == 0;
            let Some(p) = self.paths.get_mut(id) else {
                self.mirror.pop_front();
                continue;
            };
            if !open || !p.path.flight().has_room() {
                p.path.copy_left_out();
                self.mirror.pop_front();
                continue;
            }
            let datagram_bytes = p.path.flight().mtu_bytes();
            let mut w = self.begin(id, datagram_bytes, buffer)?;
            self.contents.clear();
            while let Some(&(_, content)) = self.mirror.front().filter(|(path, _)| *path == id) {
                match self.ops.write_again(now, &content, &context.reach, &mut w) {
                    Some(written) => self.contents.push(written),
                    None if self.contents.is_empty() => {}
                    None => break,
                }
                self.mirror.pop_front();
            }
            if self.contents.is_empty() {
                continue;
            }
            // Behind the content, of which as much as possible is to be mirrored.
            if w.room() >= ACK_BYTES_MAX {
                self.write_ack(now, id, context, &mut w);
            }
            let written = w.len();
            self.trace_copy(now, id);
            return self.send_alone(now, id, written, true, buffer, context);
        }
        None
    }

    /// Acknowledgements that found no packet to ride on in time. Each goes on the path it speaks of, so that a path that
    /// dies takes only its own acknowledgements with it. (With other packets they go anywhere.)
    fn transmit_acks(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        for id in self.path_ids() {
            let due = |p: &super::BundlePath| p.path.ack_deadline().is_some_and(|at| at <= now);
            if !self.paths.get(id).is_some_and(due) {
                continue;
            }
            let carries = |p: &super::BundlePath| p.path.carries();
            let own = self.paths.get(id).is_some_and(carries)
                && self.closed(context.blocked) & id.bit() == 0;
            let fastest = || schedule::fastest(self.open_paths(context.blocked), None);
            let Some(on) = own.then_some(id).or_else(fastest) else {
                continue;
            };
            let mut w = self.begin(on, DATAGRAM_BYTES_MIN, buffer)?;
            self.write_ack(now, id, context, &mut w);
            if w.len() == HEADER_BYTES {
                continue;
            }
            self.write_sent(now, on, &mut w);
            let written = w.len();
            self.contents.clear();
            return self.send_alone(now, on, written, false, buffer, context);
        }
        None
    }

    /// Writes the acknowledgement of path `id` if one waits. That of a path that is farther than another (1 ms and more)
    /// also goes on the fastest: what a far, lossy path lost is known, and sent again on a near one, after one way
    /// instead of two.
    fn write_ack(&mut self, now: Time, id: LinkId, context: &Context, w: &mut Writer<'_>) {
        let Some(p) = self.paths.get_mut(id) else {
            return;
        };
        if !p.path.ack_pending() {
            return;
        }
        let far = p.path.flight().rtt_base().saturating_sub(GRANULARITY);
        let Some(ack) = p.path.take_ack(now) else {
            return;
        };
        Record::Ack(ack).write(w);
        self.write_grants(now, context, w);
        let nearer = schedule::fastest(self.open_paths(context.blocked), Some(id));
        let is_nearer = |n: &LinkId| {
            let path = self.paths.get(*n);
            path.is_some_and(|p| p.path.flight().rtt_base() < far)
        };
        if let Some(nearer) = nearer.filter(is_nearer) {
            self.reply(Some(nearer), Record::Ack(ack));
        }
    }

    /// Tells what this node grants on each path, if that is due and fits; the next packet takes
    /// the rest. (On those that carry nothing as well: what keeps the peer from using them may
    /// be the crowd.)
    pub(crate) fn write_grants(&mut self, now: Time, context: &Context, w: &mut Writer<'_>) {
        for (id, p) in self.paths.iter_mut() {
            if w.room() < GRANT_BYTES {
                return;
            }
            if now.since(p.granted_at) < TOLD_EVERY {
                continue;
            }
            let grant = match id.is_relayed() {
                true => None,
                false => context.crowd.grant(id, self.peer),
            };
            p.path.set_crowded(grant.is_some());
            if let Some(bytes_per_s) = grant {
                p.granted_at = now;
                let path = id.0;
                // Infinity saturates: no limit.
                let kb_per_s = (bytes_per_s / 1e3) as u32;
                Record::Grant { path, kb_per_s }.write(w);
            }
        }
    }

    /// Tells a crowded peer how long packets wait on their way to it, if that is due.
    fn write_waited(&mut self, now: Time, w: &mut Writer<'_>) {
        for (id, p) in self.paths.iter_mut() {
            let Some(queue) = p.path.take_waited(now) else {
                continue;
            };
            let queue_us = u16::try_from(queue.as_micros()).unwrap_or(u16::MAX);
            let path = id.0;
            Record::Waited { path, queue_us }.write(w);
        }
    }

    /// Tells, in a packet for path `on`, how much was sent on each other path, if that is due. (In a packet for the path
    /// itself it would come after what it tells of.)
    fn write_sent(&mut self, now: Time, on: LinkId, w: &mut Writer<'_>) {
        for (id, p) in self.paths.iter_mut().filter(|(id, _)| *id != on) {
            if now.since(p.sent_told_at) < SENT_EVERY || p.path.stats().in_flight_bytes == 0 {
                continue;
            }
            let sent = Record::Sent {
                path: id.0,
                next_number: p.path.flight().next_number(),
            };
            if w.room() < sent.encoded_len() {
                return;
            }
            p.sent_told_at = now;
            sent.write(w);
        }
    }

    fn header(&self, id: LinkId) -> Option<Header> {
        let session = self.sessions.current.as_ref()?;
        if session.packets_sealed >= KEY_PACKETS_MAX {
            // Rekeying has failed for long: rather silent than insecure.
            return None;
        }
        let number = self.paths.get(id)?.path.flight().next_number();
        Some(Header {
            path: id.0,
            session: session.remote,
            number,
        })
    }

    /// The beginning of a packet for path `id` of at most `datagram_bytes`.
    pub(super) fn begin<'b>(
        &self,
        id: LinkId,
        datagram_bytes: usize,
        buffer: &'b mut [u8],
    ) -> Option<Writer<'b>> {
        let trailer = self.sessions.current.as_ref()?.keys.trailer_bytes;
        let header = self.header(id)?;
        let mut w = Writer::new(&mut buffer[..datagram_bytes - trailer]);
        header.write(&mut w);
        Some(w)
    }

    /// Sends the packet whose first `written` bytes are in `buffer`, with
    /// `self.contents` in it, as a burst of one.
    pub(super) fn send_alone(
        &mut self,
        now: Time,
        id: LinkId,
        written: usize,
        eliciting: bool,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        let bytes = written + self.sessions.current.as_ref()?.keys.trailer_bytes;
        self.seal(now, id, &mut buffer[..bytes], eliciting);
        self.transmit(now, id, bytes, bytes, context)
    }

    /// Seals a finished packet and enters it, with `self.contents`, into its path's books.
    fn seal(&mut self, now: Time, id: LinkId, packet: &mut [u8], eliciting: bool) {
        if let (Some(session), Some(p)) = (&mut self.sessions.current, self.paths.get_mut(id)) {
            if let Some(recorder) = &mut self.recorder {
                let number = p.path.flight().next_number();
                trace_sent(
                    recorder,
                    now,
                    (id, number),
                    packet,
                    session.keys.trailer_bytes,
                );
            }
            session.keys.seal.seal(packet);
            session.packets_sealed += 1;
            p.path.on_sent(now, packet.len(), &self.contents, eliciting);
        }
    }

    fn transmit(
        &self,
        now: Time,
        id: LinkId,
        bytes: usize,
        segment_bytes: usize,
        context: &mut Context,
    ) -> Option<Transmit> {
        context.stats.datagrams_sent += bytes.div_ceil(segment_bytes.max(1)) as u64;
        let p = self.paths.get(id)?;
        Some(Transmit {
            link: id,
            to: p.remote,
            bytes,
            segment_bytes,
            peer_was_heard: now.since(p.path.last_heard()) <= PEER_SILENT_MAX,
        })
    }
}
