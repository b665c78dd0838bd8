//! A peer that moved: where its packets come from now is used once it has answered there.
//!
//! Whoever can copy a packet on its way, and is faster than the original, makes it come from any
//! address. So a new address is only a candidate. It is asked with a probe of its own, and a handshake
//! may go there; all of that is at most three times what came from it. Everything else goes where it
//! went before (RFC 9000 sections 8 and 9.3).

use crate::GRANULARITY;
use std::net::SocketAddr;

use super::Bundle;
use crate::context::{Context, Transmit};
use crate::limits::DATAGRAM_BYTES_MIN;
use crate::wire::Record;
use crate::{LinkId, Time};

/// So many times what came from an address may be sent there before it has answered (RFC 9000 section 8).
const UNPROVEN_FACTOR: usize = 3;

/// An address that the peer seems to have on a path now.
#[derive(Debug)]
pub(super) struct Candidate {
    address: SocketAddr,
    /// What may be sent there before it has answered.
    allowed_bytes: usize,
    /// What it is to answer with, once it was asked.
    token: Option<u32>,
    /// When it may be asked (again).
    ask_at: Time,
}

impl Candidate {
    /// Its address, if so many bytes may be sent there; they are counted as sent.
    fn spend(&mut self, bytes: usize) -> Option<SocketAddr> {
        self.allowed_bytes = self.allowed_bytes.checked_sub(bytes)?;
        Some(self.address)
    }
}

impl Bundle {
    /// The newest packet of a path, or a handshake, of so many bytes came from `from`.
    pub(super) fn on_source(&mut self, now: Time, link: LinkId, from: SocketAddr, bytes: usize) {
        if !self.follows(link) {
            return;
        }
        let Some(p) = self.paths.get_mut(link) else {
            return;
        };
        if p.remote == from {
            p.candidate = None;
            return;
        }
        if p.candidate.as_ref().is_none_or(|c| c.address != from) {
            p.candidate = Some(Candidate {
                address: from,
                allowed_bytes: 0,
                token: None,
                ask_at: now,
            });
        }
        if let Some(candidate) = &mut p.candidate {
            candidate.allowed_bytes += bytes * UNPROVEN_FACTOR;
        }
    }

    /// So many bytes were sent to where the peer seems to be, beside what is sent from here.
    pub(super) fn was_sent(&mut self, link: LinkId, bytes: usize) {
        let candidate = self.paths.get_mut(link).and_then(|p| p.candidate.as_mut());
        // Less than came from there.
        candidate.and_then(|candidate| candidate.spend(bytes));
    }

    /// Where a handshake of so many bytes goes on `id`: by turns where the peer seems to be, or was, and where the
    /// configuration says.
    pub(super) fn handshake_address(
        &mut self,
        id: LinkId,
        configured: bool,
        bytes: usize,
    ) -> Option<SocketAddr> {
        let candidate = self.paths.get_mut(id)?.candidate.as_mut();
        let candidate = candidate.filter(|_| !configured);
        let seems = candidate.and_then(|candidate| candidate.spend(bytes));
        seems.or_else(|| self.address(id, configured))
    }

    /// A probe was answered from `from`. Whether that was the question to a candidate, which
    /// thereby is the peer's address.
    pub(super) fn proves_address(
        &mut self,
        now: Time,
        link: LinkId,
        from: SocketAddr,
        token: u32,
    ) -> bool {
        let Some(p) = self.paths.get_mut(link) else {
            return false;
        };
        let answers = |c: &mut Candidate| c.address == from && c.token == Some(token);
        if p.candidate.take_if(answers).is_none() {
            return false;
        }
        p.remote = from;
        p.path.on_new_address(now);
        true
    }

    /// The question to a candidate that is due on a path.
    pub(super) fn transmit_question(
        &mut self,
        now: Time,
        id: LinkId,
        token: u32,
        buffer: &mut [u8],
        context: &mut Context,
    ) -> Option<Transmit> {
        let p = self.paths.get(id)?;
        p.candidate.as_ref().filter(|c| now >= c.ask_at)?;
        let again_at = now + p.path.patience().max(GRANULARITY);
        // The same question again: the answer may be farther than the next one.
        let token = p.candidate.as_ref()?.token.unwrap_or(token);
        let mut w = self.begin(id, DATAGRAM_BYTES_MIN, buffer)?;
        Record::Probe { token }.write(&mut w);
        let written = w.len();
        let bytes = written + self.sessions.current.as_ref()?.keys.trailer_bytes;
        let candidate = self.paths.get_mut(id)?.candidate.as_mut()?;
        let to = candidate.spend(bytes)?;
        candidate.token = Some(token);
        candidate.ask_at = again_at;
        self.contents.clear();
        // Its loss says nothing of the path: nobody may be there.
        let sent = self.send_alone(now, id, written, false, buffer, context)?;
        Some(Transmit { to, ..sent })
    }
}
