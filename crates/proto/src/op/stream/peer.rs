//! Handling of the peer's stream records.

use super::{
    CODE_REFUSED, Counts, OpEvent, Policy, ReceiveHalf, SendHalf, Shared, Stream, StreamId, Streams,
};
use crate::Time;
use crate::op::Violation;
use crate::op::limits::{OPENS_MAX, STREAM_GAPS_BYTES_MAX};
use crate::wire::StreamSegment;

/// How many times as many streams as may be open a peer may have begun: those
/// beyond the limit are refused one by one, those beyond this end the session.
const REFUSED_FACTOR: usize = 2;

impl Streams {
    /// A segment came.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_segment(
        &mut self,
        seg: &StreamSegment<'_>,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        let id = seg.id;
        if !self.expect(id, shared)? {
            shared.stats.pieces_duplicate += 1;
            return Ok(());
        }
        let Some(stream) = self.table.get_mut(id) else {
            return Ok(());
        };
        let arrived = stream.receive.on_segment(
            shared.now,
            seg,
            &mut shared.receive_window,
            &mut shared.chunks,
        )?;
        self.sums.count_received(stream);
        if self.sums.all.gaps_bytes > STREAM_GAPS_BYTES_MAX {
            return Err(Violation::TooScattered);
        }
        if seg.service.is_some() {
            self.unheard -= u64::from(!core::mem::replace(&mut stream.heard, true));
        }
        shared.stats.pieces_duplicate += u64::from(arrived.duplicate);
        let opens = !stream.known
            && seg.service.is_some()
            && stream.receive.stop.is_none()
            && stream.receive.reset.is_none();
        if opens {
            stream.known = true;
            let (id, service) = (StreamId(id), seg.service.unwrap_or_default());
            shared
                .events
                .push_back(OpEvent::StreamOpened { id, service });
            if let Some(code) = stream.send.reset.filter(|_| stream.send.stopped) {
                shared.events.push_back(OpEvent::Stopped { id, code });
            }
        }
        // Data that came before the opening can be reported only now.
        let news = arrived.readable || (opens && stream.receive.has_news());
        if stream.known && news && !stream.receive.announced {
            stream.receive.announced = true;
            shared.events.push_back(OpEvent::Readable(StreamId(id)));
        }
        shared.credit(arrived.credit);
        if stream.receive.is_done() {
            self.forget_if_done(id, shared);
        }
        Ok(())
    }

    /// The peer gave up sending on a stream.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_reset(
        &mut self,
        id: u64,
        code: u32,
        final_offset: u64,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        if !self.expect(id, shared)? {
            return Ok(());
        }
        let Some(stream) = self.table.get_mut(id) else {
            return Ok(());
        };
        let credit = stream.receive.on_reset(
            code,
            final_offset,
            &mut shared.receive_window,
            &mut shared.chunks,
        )?;
        self.unheard -= u64::from(!core::mem::replace(&mut stream.heard, true));
        let Some(credit) = credit else {
            return Ok(());
        };
        self.sums.count(stream);
        let (known, stopped) = (stream.known, stream.receive.stop.is_some());
        let sends = stream.send.reset.is_none();
        shared.credit(credit);
        if known && !stopped {
            let id = StreamId(id);
            shared.events.push_back(OpEvent::Reset { id, code });
        }
        if !known && sends {
            // Reset before its purpose was known: nobody here will ever close it.
            self.give_up_sending(id, code, shared);
        }
        self.forget_if_done(id, shared);
        Ok(())
    }

    /// The peer wants no more of a stream.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_stop(&mut self, id: u64, code: u32, shared: &mut Shared) -> Result<(), Violation> {
        if !self.expect(id, shared)? {
            return Ok(());
        }
        let Some(stream) = self.table.get_mut(id) else {
            return Ok(());
        };
        if stream.send.reset.is_some() || stream.send.is_done() {
            return Ok(());
        }
        stream.send.stopped = true;
        if stream.known {
            let id = StreamId(id);
            shared.events.push_back(OpEvent::Stopped { id, code });
        }
        self.give_up_sending(id, code, shared);
        Ok(())
    }

    /// The peer admits more of a stream.
    ///
    /// # Errors
    /// [`Violation`].
    pub fn on_window(
        &mut self,
        now: Time,
        id: u64,
        limit: u64,
        window: u64,
        shared: &mut Shared,
    ) -> Result<(), Violation> {
        if !self.expect(id, shared)? {
            return Ok(());
        }
        if let Some(stream) = self.table.get_mut(id) {
            stream.send.on_window(now, limit, window);
            self.sums.count(stream);
            // Its owner's other streams have more room now, too. And if this stream waits in line, this may be
            // the only thing that makes the line be checked.
            if stream.owner != 0 || stream.send.in_line {
                self.waiters.see_all();
            }
        }
        self.wake(id, shared);
        self.offer_room(id, shared);
        Ok(())
    }

    /// Whether stream `id` is here; it and all that the peer must have opened before it
    /// are made if they are new. `false`: it was forgotten.
    fn expect(&mut self, id: u64, shared: &mut Shared) -> Result<bool, Violation> {
        if self.table.get_mut(id).is_some() {
            return Ok(true);
        }
        if self.openings.is_own(id) {
            return if self.openings.has_opened(id) {
                Ok(false)
            } else {
                Err(Violation::UnknownStream)
            };
        }
        if id < self.next_peer {
            return Ok(false);
        }
        let new = (id - self.next_peer) / 2 + 1;
        let past = id.checked_add(2).ok_or(Violation::TooManyStreams)?;
        let count_max = shared.limits.streams_max.saturating_mul(REFUSED_FACTOR);
        let count = (self.peer_count as u64).saturating_add(new);
        if self.unheard.saturating_add(new) > OPENS_MAX || count > count_max as u64 {
            return Err(Violation::TooManyStreams);
        }
        for id in (self.next_peer..past).step_by(2) {
            self.insert_peers(id, shared);
        }
        self.next_peer = past;
        Ok(true)
    }

    /// Makes a stream that the peer opened; it is refused if there are too many.
    fn insert_peers(&mut self, id: u64, shared: &mut Shared) {
        self.peer_count += 1;
        self.unheard += 1;
        self.table.insert(Stream {
            id,
            service: 0,
            owner: 0,
            known: false,
            heard: false,
            send: SendHalf::new(Policy::default(), false),
            receive: ReceiveHalf::new(),
            counted: Counts::default(),
        });
        if self.peer_count > shared.limits.streams_max {
            shared.stats.streams_refused += 1;
            self.give_up_sending(id, CODE_REFUSED, shared);
            self.give_up_receiving(id, CODE_REFUSED, shared);
        }
    }
}
