//! Up: a datagram that claims to belong to this bundle, opened and taken apart.

use core::time::Duration;
use std::net::SocketAddr;

use super::session::Which;
use super::{Bundle, BundlePath, TRIM_AFTER};
use crate::context::{Context, Rejection};
use crate::crypto::OpenError;
use crate::limits::LINKS_MAX;
use crate::link::PathState;
use crate::mesh::Wish;
use crate::wire::{
    FEATURE_MEMBERS, FEATURE_MEMORY, FEATURE_RELAYS, FEATURE_SURVEYS, Header, LinkVerdict,
    MemberRecord, MemoryRecord, Record, Records, RelayRecord, SurveyRecord,
};
use crate::{LinkId, Time};

/// How a packet came.
struct Arrival {
    now: Time,
    link: LinkId,
    from: SocketAddr,
    datagram_bytes: usize,
}

/// What kinds of records a packet had.
#[derive(Default)]
struct Kinds {
    /// The peer wants to know that it arrived.
    eliciting: bool,
    content: bool,
}

impl Bundle {
    /// Opens `datagram` and acts on its records.
    ///
    /// # Errors
    /// Why it was dropped: nothing has changed then.
    pub fn on_datagram(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        header: &Header,
        datagram: &mut [u8],
        context: &mut Context,
    ) -> Result<(), Rejection> {
        if header.path != link.0 {
            return Err(Rejection::WrongLink);
        }
        let which = self
            .sessions
            .find(header)
            .ok_or(Rejection::UnknownSession)?;
        let unconfirmed = self.sessions.unconfirmed.as_ref();
        let fresh =
            which == Which::Unconfirmed && unconfirmed.is_some_and(|u| u.begins.numbers_anew());
        let p = self.paths.get(link).ok_or(Rejection::WrongLink)?;
        // A fresh session numbers its packets anew: the window does not apply yet.
        if !fresh && !p.path.may_accept(header.number) {
            let is_too_old = p.path.is_too_old(header.number);
            return Err(match is_too_old {
                true => Rejection::TooOld,
                false => Rejection::Replayed,
            });
        }
        let newest = fresh || p.path.is_newest(header.number);
        let datagram_bytes = datagram.len();
        let session = self.sessions.get(which).ok_or(Rejection::UnknownSession)?;
        let opened = session.keys.open.open(datagram);
        let payload = opened.map_err(|error| match error {
            OpenError::TooShort => Rejection::Malformed,
            OpenError::NotAuthentic => Rejection::Forged,
        })?;
        self.trace_received(now, header, datagram_bytes, payload);
        if which == Which::Unconfirmed {
            self.confirm(now, link, from, context);
        }
        if which != Which::Previous
            && let Some(given_up) = self.sessions.on_heard()
        {
            context.sessions.remove(&given_up);
        }
        // An older packet may have been held back and sent again from elsewhere by
        // whoever sits on the wire (RFC 9000 section 9.3).
        if newest {
            self.on_source(now, link, from, datagram_bytes);
        }
        let arrival = Arrival {
            now,
            link,
            from,
            datagram_bytes,
        };
        let kinds = self.on_records(&arrival, payload, context);
        context.content_arrived |= kinds.content;
        if let Some(p) = self.paths.get_mut(link) {
            p.path
                .on_received(now, header.number, datagram_bytes, kinds.eliciting);
            p.heard_at = Some(now);
            if kinds.content {
                // As long as more waits, a packet is filled up.
                context.ran_out.peer |= datagram_bytes < p.content_bytes;
                p.content_bytes = datagram_bytes;
            }
        }
        if !link.is_relayed() {
            let crowd = &mut context.crowd;
            crowd.on_arrival(now, link, self.peer, datagram_bytes);
        }
        self.arrived |= link.bit();
        Ok(())
    }

    /// Acts on every record; returns what kinds there were.
    fn on_records(&mut self, arrival: &Arrival, payload: &[u8], context: &mut Context) -> Kinds {
        let now = arrival.now;
        let mut kinds = Kinds::default();
        for record in Records::new(payload) {
            let Ok(record) = record else {
                context.stats.bad_record += 1;
                break;
            };
            kinds.eliciting |= record.is_ack_eliciting();
            if record.is_content() {
                if !core::mem::replace(&mut kinds.content, true) {
                    self.note_carried(now, arrival.datagram_bytes, context);
                }
                self.busy_until = now + TRIM_AFTER;
            }
            let result = match record {
                Record::Unit(segment) => self.ops.on_unit(now, &segment),
                Record::Stream(segment) => self.ops.on_stream(now, &segment),
                Record::StreamReset {
                    id,
                    code,
                    final_offset,
                } => self.ops.on_stream_reset(now, id, code, final_offset),
                Record::StreamStop { id, code } => self.ops.on_stream_stop(now, id, code),
                Record::StreamWindow { id, limit, window } => {
                    self.ops.on_stream_window(now, id, limit, window)
                }
                Record::BundleWindow { limit, window } => {
                    self.ops.on_bundle_window(limit, window);
                    Ok(())
                }
                Record::MessageWindow { limit, window } => {
                    self.ops.on_message_window(limit, window);
                    Ok(())
                }
                Record::Extension { code, data } => {
                    self.on_extension(arrival, code, data, context);
                    Ok(())
                }
                other => {
                    self.on_path_record(arrival, other, context);
                    Ok(())
                }
            };
            if result.is_err() {
                context.stats.violation += 1;
            }
        }
        kinds
    }

    /// Records of a feature, if it is in use.
    fn on_extension(&mut self, arrival: &Arrival, code: u8, data: &[u8], context: &mut Context) {
        if code == RelayRecord::LINKS {
            if let Some(wish) = Wish::read(data).filter(|_| self.features() & FEATURE_RELAYS != 0) {
                context.mesh.wish(self.peer, wish);
            }
            return;
        }
        if RelayRecord::is_one(code) {
            // What came through another node cannot go on through one.
            let is_neighbour = !arrival.link.is_relayed();
            if self.features() & FEATURE_RELAYS != 0 && is_neighbour {
                context.mesh.arrives(self.peer, code, data);
            }
            return;
        }
        if MemberRecord::is_one(code) {
            if self.features() & FEATURE_MEMBERS != 0 {
                match MemberRecord::read(code, data) {
                    Ok(record) => context.members.arrives(self.peer, record),
                    Err(_) => context.stats.bad_record += 1,
                }
            }
            return;
        }
        if SurveyRecord::is_one(code) {
            if self.features() & FEATURE_SURVEYS != 0 {
                self.on_survey_record(arrival.now, code, data, context);
            }
            return;
        }
        if !MemoryRecord::is_one(code) || self.features() & FEATURE_MEMORY == 0 {
            return;
        }
        match MemoryRecord::read(code, data) {
            Err(_) => context.stats.bad_record += 1,
            Ok(record) => {
                let result = self.ops.on_memory(&record, &mut context.reach);
                context.stats.violation += u64::from(result.is_err());
            }
        }
    }

    /// Records about paths and the bundle itself.
    fn on_path_record(&mut self, arrival: &Arrival, record: Record<'_>, context: &mut Context) {
        let &Arrival {
            now,
            link,
            datagram_bytes,
            ..
        } = arrival;
        match record {
            Record::Ack(ack) => {
                let Some(p) = self.paths.get_mut(LinkId(ack.path)) else {
                    return;
                };
                let result = p.path.on_ack_via(now, &ack, link, &mut self.fates);
                if result.packets_acked > 0 {
                    self.acked |= LinkId(ack.path).bit();
                }
                self.deliver_fates(now);
            }
            Record::Sent { path, next_number } => {
                if let Some(p) = self.paths.get_mut(LinkId(path)) {
                    p.path.on_peer_sent(now, next_number);
                }
            }
            Record::Probe { token } => {
                let datagram_bytes = datagram_bytes.min(usize::from(u16::MAX)) as u16;
                let reply = Record::ProbeReply {
                    token,
                    datagram_bytes,
                };
                self.reply(Some(link), reply);
                if let Some(p) = self.paths.get_mut(link) {
                    p.path.on_probed(now);
                }
            }
            Record::ProbeReply {
                token,
                datagram_bytes,
            } => {
                self.on_probe_reply(arrival, token, usize::from(datagram_bytes));
            }
            Record::LinkState {
                path,
                generation,
                verdict,
                witness,
            } => {
                self.on_link_state(now, link, path, generation, verdict, witness);
            }
            Record::LinkStateAck { path, generation } => {
                if let Some(path) = self.any_path(LinkId(path)) {
                    path.on_link_state_ack(generation);
                }
            }
            Record::Grant { path, kb_per_s } => self.on_grant(now, path, kb_per_s, context),
            Record::Waited { path, queue_us } => {
                let queue = Duration::from_micros(u64::from(queue_us));
                if usize::from(path) < LINKS_MAX {
                    context.crowd.on_waited(LinkId(path), self.peer, queue);
                }
            }
            Record::Close { code } => self.on_close(now, code, context),
            _ => {}
        }
    }

    /// A probe was answered, one of so many bytes.
    fn on_probe_reply(&mut self, arrival: &Arrival, token: u32, bytes: usize) {
        let &Arrival {
            now, link, from, ..
        } = arrival;
        if self.proves_address(now, link, from, token) {
            return;
        }
        let works = |p: &BundlePath| p.path.state() != PathState::Down;
        let works_beside =
            |(other, p): (LinkId, &BundlePath)| other != link && !other.is_relayed() && works(p);
        let others_work = self.paths.iter().any(works_beside);
        if let Some(p) = self.paths.get_mut(link)
            && p.path.on_probe_reply(now, token, bytes, others_work)
        {
            self.acked |= link.bit();
        }
    }

    /// Many send to the peer: so much is ours on a path.
    fn on_grant(&mut self, now: Time, path: u8, kb_per_s: u32, context: &mut Context) {
        let bytes_per_s = match kb_per_s {
            u32::MAX => f64::INFINITY,
            kb => f64::from(kb) * 1e3,
        };
        context.crowd.on_grant(now);
        if let Some(p) = self.paths.get_mut(LinkId(path)) {
            p.path.on_grant(now, bytes_per_s);
        }
    }

    /// The peer's verdict on a path. It is confirmed even for a path that does
    /// not exist here, or the peer would repeat it for ever.
    fn on_link_state(
        &mut self,
        now: Time,
        link: LinkId,
        path: u8,
        generation: u32,
        verdict: LinkVerdict,
        witness: crate::wire::Witness,
    ) {
        let mut fates = core::mem::take(&mut self.fates);
        if let Some(path) = self.any_path(LinkId(path)) {
            path.on_peer_verdict(now, generation, verdict, witness, &mut fates);
        }
        self.fates = fates;
        self.deliver_fates(now);
        let ack = Record::LinkStateAck { path, generation };
        self.reply(Some(link), ack);
        self.reply(None, ack);
    }
}
