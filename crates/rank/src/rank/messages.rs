//! Messages: sent at once or announced, matched, and placed.
//!
//! A short message is one message of the bundle. A long one is announced, and the receiver *gets* it into its buffer
//! (`crates/proto/src/op/memory/`). What has found no buffer yet has a bound for each peer: beyond it short messages are
//! announced as well, and stay with their sender.

use tabane_proto::Time;
use tabane_proto::op::{Get, Region};
use tabane_proto::wire::{MemoryStatus, Stretch};

use super::beside::{INLINE_BYTES_MAX, Way};
use super::peers::OWN;
use super::{Pending, Rank, UNFILLED};
use crate::matching::{Arrived, Body, Landing, Posted, Wanted};
use crate::memory::{self, Buffer, Pieces};
use crate::wire::{Envelope, FLOW_CONTROL, FLOW_MESSAGES, Head};
use crate::{
    Completion, Core, Ended, Failure, INJECT_BYTES_MAX, OPERATION_BYTES_MAX, PIECES_MAX, Peek,
    Peer, Piece, PostError, Receive, Send, Ticket, Until,
};

/// Messages that may be announced to a peer and not fetched: each takes some of its memory.
const ANNOUNCED_MAX: u32 = 65_536;

/// Cost of an eager message beside its bytes, within the limit of what is kept for a peer.
const EAGER_OVERHEAD_BYTES: u64 = 128;

/// How many bytes an operation with these pieces has.
pub(super) fn checked_length(pieces: &[Piece]) -> Result<u64, PostError> {
    match memory::length(pieces) {
        Some(bytes) if bytes <= OPERATION_BYTES_MAX && pieces.len() <= PIECES_MAX => Ok(bytes),
        _ => Err(PostError::TooLarge),
    }
}

impl Rank {
    /// As [`Core::send`].
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn post_send(&mut self, send: &Send<'_>) -> Result<(), PostError> {
        let bytes = checked_length(send.pieces)?;
        if send.inject && bytes > INJECT_BYTES_MAX as u64 {
            return Err(PostError::TooLarge);
        }
        let entry = self.peers.get(send.to).ok_or(PostError::NoPeer)?;
        let now = self.engine.now();
        let envelope = Envelope {
            tag: send.tag,
            data: send.data,
            receipt: None,
            on_arrival: false,
        };
        if send.to == OWN {
            // SAFETY: as the caller promises.
            unsafe { self.send_to_self(now, envelope, send) };
            return Ok(());
        }
        if let Some(why) = entry.gone {
            self.end(send.ticket, Ended::Send, Some(why));
            return Ok(());
        }
        let charge = bytes + EAGER_OVERHEAD_BYTES;
        let has_room = entry.eager_out_bytes + charge <= self.settings.unexpected_bytes as u64;
        let way = self.way(now, send.to);
        let eager_bytes = match way {
            Ok(Way::Beside(_)) => self.settings.eager_bytes.min(INLINE_BYTES_MAX),
            _ => self.settings.eager_bytes,
        };
        let is_short = bytes <= eager_bytes as u64;
        if !is_short || !has_room {
            // SAFETY: as the caller promises.
            return unsafe { self.announce(now, envelope, bytes, send) };
        }
        let mut envelope = envelope;
        if send.until != Until::Reusable {
            let (to, ticket) = (send.to, send.ticket);
            let pending = Pending::Receipted { to, ticket };
            envelope.receipt = Some(self.pendings.insert(pending));
            envelope.on_arrival = send.until == Until::Arrived;
        }
        let head = Head::Eager(envelope);
        // SAFETY: as the caller promises.
        let said = unsafe { self.say_by(now, way, FLOW_MESSAGES, &head, send.pieces) };
        if let Err(error) = said {
            envelope.receipt.and_then(|id| self.pendings.remove(id));
            return self.not_said(now, error, send.to, (send.ticket, Ended::Send));
        }
        if let Some(entry) = self.peers.get_mut(send.to) {
            entry.eager_out_bytes += charge;
        }
        if envelope.receipt.is_none() {
            self.end(send.ticket, Ended::Send, None);
        }
        Ok(())
    }

    /// A message could not be sent. If the peer is gone, a completion says so, as if it had gone
    /// later.
    pub(super) fn not_said(
        &mut self,
        now: Time,
        error: PostError,
        to: Peer,
        (ticket, ended): (Ticket, Ended),
    ) -> Result<(), PostError> {
        if error != PostError::NoPeer {
            return Err(error);
        }
        let why = self.meet(now, to).err().unwrap_or(Failure::Unreachable);
        self.lose(now, to, why);
        self.end(ticket, ended, Some(why));
        Ok(())
    }

    /// # Safety
    /// The pieces are readable.
    unsafe fn send_to_self(&mut self, now: Time, envelope: Envelope, send: &Send<'_>) {
        let mut buffer = Vec::new();
        // SAFETY: as the caller promises.
        unsafe { memory::append(send.pieces, &mut buffer) };
        let arrived = Arrived {
            from: OWN,
            envelope,
            bytes: buffer.len() as u64,
            body: Body::Here { buffer, begin: 0 },
        };
        self.arrive(now, arrived);
        self.end(send.ticket, Ended::Send, None);
    }

    /// Tells the peer of a message, and lets it fetch the bytes.
    ///
    /// # Safety
    /// As [`post_send`](Rank::post_send).
    unsafe fn announce(
        &mut self,
        now: Time,
        mut envelope: Envelope,
        bytes: u64,
        send: &Send<'_>,
    ) -> Result<(), PostError> {
        let announced = self.peers.get(send.to).map(|entry| entry.announced_out);
        if announced.is_some_and(|announced| announced >= ANNOUNCED_MAX) {
            return Err(PostError::Again);
        }
        let buffer = match send.inject {
            // SAFETY: as the caller promises.
            true => unsafe { Buffer::copy(send.pieces) },
            false => Buffer::of(send.pieces),
        };
        let region = Region {
            handle: buffer.handle(),
            bytes,
            origin: 0,
            is_readable: true,
            is_writable: false,
            is_told: false,
        };
        let key = self.random.u64();
        (self.engine.node.register_region(key, region)).map_err(|_| PostError::Again)?;
        let id = self.pendings.insert(Pending::Announced {
            to: send.to,
            key,
            buffer,
            ticket: send.ticket,
        });
        envelope.receipt = Some(id);
        let head = Head::Announce {
            envelope,
            key,
            bytes,
        };
        // SAFETY: there are no pieces.
        let said = unsafe { self.say(now, send.to, FLOW_MESSAGES, &head, &[]) };
        if let Err(error) = said {
            self.engine.node.deregister_region(key);
            self.pendings.remove(id);
            return self.not_said(now, error, send.to, (send.ticket, Ended::Send));
        }
        if let Some(entry) = self.peers.get_mut(send.to) {
            entry.announced_out += 1;
        }
        Ok(())
    }

    /// The peer has the message for which it gives a receipt.
    pub(super) fn on_receipt(&mut self, from: Peer, id: u64) {
        let is_theirs = |pending: &Pending| {
            let is_sent = matches!(
                pending,
                Pending::Announced { .. } | Pending::Receipted { .. }
            );
            is_sent && pending.peer() == from
        };
        if !self.pendings.get(id).is_some_and(is_theirs) {
            return;
        }
        match self.pendings.remove(id) {
            Some(Pending::Announced {
                key,
                ticket,
                buffer,
                ..
            }) => {
                self.engine.node.deregister_region(key);
                // Only now: nobody fetches from it any more.
                drop(buffer);
                if let Some(entry) = self.peers.get_mut(from) {
                    entry.announced_out -= 1;
                }
                self.end(ticket, Ended::Send, None);
            }
            Some(Pending::Receipted { ticket, .. }) => self.end(ticket, Ended::Send, None),
            _ => {}
        }
    }

    /// A message came, or word of one.
    pub(super) fn arrive(&mut self, now: Time, mut arrived: Arrived) {
        if arrived.envelope.on_arrival
            && let Some(id) = arrived.envelope.receipt.take()
        {
            let head = Head::Receipt { id };
            self.owe(now, arrived.from, FLOW_CONTROL, &head, &[]);
        }
        let tag = arrived.envelope.tag;
        match self.matching.land(arrived.from, tag, arrived.bytes) {
            Some(landing) => self.land(now, arrived, landing),
            None => self.matching.keep(arrived),
        }
    }

    /// As [`Core::receive`].
    pub(super) fn post_receive(&mut self, receive: &Receive<'_>) -> Result<(), PostError> {
        checked_length(receive.pieces)?;
        if receive.multi.is_some() && receive.pieces.len() > 1 {
            return Err(PostError::Invalid);
        }
        let mut posted = Posted {
            wanted: self.wanted(receive)?,
            pieces: receive.pieces.into(),
            multi: receive.multi.map(|least| (least, 0)),
            ticket: receive.ticket,
        };
        let now = self.engine.now();
        while let Some(arrived) = self.matching.take(&posted.wanted) {
            let landing = posted.land(arrived.bytes);
            let released = landing.released;
            self.land(now, arrived, landing);
            if released {
                return Ok(());
            }
        }
        let from = posted.wanted.from;
        match from.and_then(|from| self.peers.get(from)?.gone) {
            Some(why) => self.end(posted.ticket, UNFILLED, Some(why)),
            None => self.matching.post(posted),
        }
        Ok(())
    }

    fn wanted(&self, receive: &Receive<'_>) -> Result<Wanted, PostError> {
        let from = receive.from;
        if from.is_some_and(|from| self.peers.get(from).is_none()) {
            return Err(PostError::NoPeer);
        }
        Ok(Wanted {
            from,
            tag: receive.tag,
        })
    }

    /// Brings a message to its buffer.
    fn land(&mut self, now: Time, arrived: Arrived, landing: Landing) {
        let Arrived {
            from,
            envelope,
            bytes,
            body,
        } = arrived;
        let (buffer, begin) = match body {
            Body::Here { buffer, begin } => (buffer, begin),
            Body::There { key } => {
                return self.fetch(now, (from, envelope, bytes), key, landing);
            }
        };
        // SAFETY: the pieces are a posted buffer's, which the program has lent until its completion.
        let copied = unsafe { memory::scatter(&landing.pieces, 0, &buffer[begin..]) } as u64;
        match self.peers.get(from).and_then(|entry| entry.id) {
            Some(id) => self.engine.node.recycle_message(id, buffer),
            None => self.recycle(buffer),
        }
        self.consumed(now, from, bytes);
        self.received((from, envelope, bytes), copied, &landing);
        if let Some(id) = envelope.receipt {
            self.owe(now, from, FLOW_CONTROL, &Head::Receipt { id }, &[]);
        }
    }

    /// An eager message of `bytes` is no longer kept.
    fn consumed(&mut self, now: Time, from: Peer, bytes: u64) {
        let enough = self.settings.unexpected_bytes as u64 / 4;
        let Some(entry) = self.peers.get_mut(from).filter(|_| from != OWN) else {
            return;
        };
        entry.consumed_bytes += bytes + EAGER_OVERHEAD_BYTES;
        if entry.consumed_bytes >= enough {
            let bytes = core::mem::take(&mut entry.consumed_bytes);
            self.owe(now, from, FLOW_CONTROL, &Head::Consumed { bytes }, &[]);
        }
    }

    /// A message is in its buffer, as much of it as fits.
    fn received(
        &mut self,
        (from, envelope, bytes): (Peer, Envelope, u64),
        copied: u64,
        landing: &Landing,
    ) {
        let completion = Completion {
            ticket: landing.ticket,
            ended: Ended::Receive {
                at: landing.at,
                released: landing.released,
            },
            bytes: copied,
            tag: envelope.tag,
            data: envelope.data,
            source: self.source(from),
            failure: (copied < bytes).then(|| Failure::Truncated(bytes - copied)),
        };
        self.completions.push_back(completion);
    }

    /// Begins to fetch a message that was announced.
    fn fetch(
        &mut self,
        now: Time,
        (from, envelope, bytes): (Peer, Envelope, u64),
        key: u64,
        landing: Landing,
    ) {
        let room = memory::length(&landing.pieces).unwrap_or(0);
        let total = bytes.min(room);
        let buffer = Buffer::part(&landing.pieces, 0, total as usize);
        let handle = buffer.handle();
        let token = self.pendings.insert(Pending::Fetching {
            from,
            envelope,
            bytes: (total, bytes),
            at: landing.at,
            released: landing.released,
            buffer,
            ticket: landing.ticket,
        });
        let stretch = Stretch {
            key,
            base: 0,
            total,
        };
        self.begin_get(
            now,
            from,
            token,
            Get {
                from: stretch,
                handle,
                token,
            },
        );
    }

    /// All bytes of a message that was announced are in its buffer, or it has failed.
    pub(super) fn on_fetched(&mut self, now: Time, pending: Pending, status: MemoryStatus) {
        let Pending::Fetching {
            from,
            envelope,
            bytes,
            at,
            released,
            ticket,
            ..
        } = pending
        else {
            return;
        };
        if status != MemoryStatus::Done {
            // The sender has taken its message back.
            let ended = Ended::Receive { at, released };
            return self.end(ticket, ended, Some(Failure::Cancelled));
        }
        let landing = Landing {
            pieces: Pieces::default(),
            ticket,
            at,
            released,
        };
        self.received((from, envelope, bytes.1), bytes.0, &landing);
        if let Some(id) = envelope.receipt {
            self.owe(now, from, FLOW_CONTROL, &Head::Receipt { id }, &[]);
        }
    }

    /// As [`Core::peek`].
    pub(super) fn look_for(&mut self, receive: &Receive<'_>, peek: Peek) {
        self.progress();
        let now = self.engine.now();
        let found = self.wanted(receive).ok().and_then(|wanted| {
            let arrived = self.matching.find(&wanted)?;
            Some((wanted, arrived.from, arrived.envelope, arrived.bytes))
        });
        let Some((wanted, from, envelope, bytes)) = found else {
            return self.end(receive.ticket, Ended::Peek, Some(Failure::NoMessage));
        };
        let completion = Completion {
            ticket: receive.ticket,
            ended: Ended::Peek,
            bytes,
            tag: envelope.tag,
            data: envelope.data,
            source: self.source(from),
            failure: None,
        };
        match peek {
            Peek::Look => {}
            Peek::Claim => {
                let taken = self.matching.take(&wanted);
                let context = receive.ticket.context;
                self.claimed.extend(taken.map(|arrived| (context, arrived)));
            }
            Peek::Discard => {
                if let Some(arrived) = self.matching.take(&wanted) {
                    self.discard(now, arrived);
                }
            }
        }
        self.completions.push_back(completion);
    }

    /// Nobody wants a message.
    fn discard(&mut self, now: Time, arrived: Arrived) {
        if matches!(arrived.body, Body::Here { .. }) {
            self.consumed(now, arrived.from, arrived.bytes);
        }
        if let Some(id) = arrived.envelope.receipt {
            let head = Head::Receipt { id };
            self.owe(now, arrived.from, FLOW_CONTROL, &head, &[]);
        }
    }

    /// As [`Core::receive_claimed`].
    pub(super) fn land_claimed(
        &mut self,
        pieces: &[Piece],
        ticket: Ticket,
    ) -> Result<(), PostError> {
        checked_length(pieces)?;
        let mut claimed = self.claimed.iter();
        let index = claimed.position(|(context, _)| *context == ticket.context);
        let (_, arrived) = self.claimed.remove(index.ok_or(PostError::Invalid)?);
        let now = self.engine.now();
        let at = pieces.first().map_or(core::ptr::null_mut(), |p| p.base);
        if pieces.is_empty() {
            let landing = Landing {
                pieces: Pieces::default(),
                ticket,
                at,
                released: true,
            };
            self.received((arrived.from, arrived.envelope, 0), 0, &landing);
            self.discard(now, arrived);
            return Ok(());
        }
        let landing = Landing {
            pieces: pieces.into(),
            ticket,
            at,
            released: true,
        };
        self.land(now, arrived, landing);
        Ok(())
    }
}
