//! The node as a peer of its own: streams and messages that never leave the process.
//!
//! [`Operations`] has the same functions for this peer and for all others, and this peer reports through
//! the same events. So no other code needs to know which peer it is.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read as _;

use tabane_proto::op::{MESSAGE_DATA_BYTES_MAX, Message, OpError, OpEvent, Policy, Read};
use tabane_proto::{Node, PeerId, StreamId, Time};

/// Bytes of one direction of a stream that wait to be read; then writing waits.
const WINDOW_BYTES: usize = 64 * 1024;
/// Streams that are open at once, so that all of them take 512 MB at most.
const STREAMS_MAX: usize = 4096;
/// Bytes of messages that wait to be received; then sending waits.
const MAIL_BYTES: usize = 4 << 20;
/// The same limit in messages: short ones take more memory than their bytes.
const MAIL_MESSAGES: usize = 16 * 1024;

/// One direction of a stream.
#[derive(Default)]
struct Direction {
    data: VecDeque<u8>,
    /// Nothing comes behind `data`.
    is_ended: bool,
    /// Nobody writes to it or reads from it any more.
    is_over: bool,
    /// It was full, and its writer has to know when it is not.
    writer_waits: bool,
}

impl Direction {
    fn give_up(&mut self) {
        self.is_over = true;
        self.data = VecDeque::new();
    }
}

/// Streams and messages from this node to itself.
#[derive(Default)]
pub(crate) struct Loopback {
    /// The number that the node has as a peer of its own.
    id: Option<PeerId>,
    /// By the number that the stream has at the end that reads; the other end has its [`twin`].
    directions: BTreeMap<StreamId, Direction>,
    streams: u64,
    mail: VecDeque<Message>,
    mail_bytes: usize,
    /// A message found no room.
    sender_waits: bool,
    /// Events to be delivered.
    pub events: VecDeque<OpEvent>,
}

/// The number of the same stream at its other end.
const fn twin(id: StreamId) -> StreamId {
    StreamId(id.0 ^ 1)
}

impl Loopback {
    pub fn new(id: PeerId) -> Loopback {
        Loopback {
            id: Some(id),
            ..Loopback::default()
        }
    }

    pub const fn id(&self) -> Option<PeerId> {
        self.id
    }

    fn open(&mut self, service: u32) -> Result<StreamId, OpError> {
        if self.directions.len() >= 2 * STREAMS_MAX {
            return Err(OpError::TooManyStreams);
        }
        let near = StreamId(2 * self.streams);
        self.streams += 1;
        let id = twin(near);
        self.directions.insert(near, Direction::default());
        self.directions.insert(id, Direction::default());
        self.events.push_back(OpEvent::StreamOpened { id, service });
        Ok(near)
    }

    /// A stream is not known any more when both directions are over.
    fn direction(&mut self, reader: StreamId) -> Result<&mut Direction, OpError> {
        let direction = self.directions.get_mut(&reader);
        direction.ok_or(OpError::UnknownStream)
    }

    fn settle(&mut self, id: StreamId) {
        let ends = [id, twin(id)];
        let is_over = |id| self.directions.get(id).is_none_or(|it| it.is_over);
        if ends.iter().all(is_over) {
            ends.iter().for_each(|id| drop(self.directions.remove(id)));
        }
    }

    fn read(&mut self, id: StreamId, into: &mut [u8]) -> Result<Read, OpError> {
        let direction = self.direction(id)?;
        let len = direction.data.read(into).unwrap_or_default();
        let fin = direction.is_ended && direction.data.is_empty();
        direction.is_over |= fin;
        let has_room = direction.data.len() <= WINDOW_BYTES / 2;
        let wakes = has_room && core::mem::take(&mut direction.writer_waits);
        if wakes {
            self.events.push_back(OpEvent::Writable(twin(id)));
        }
        self.settle(id);
        Ok(Read { len, fin })
    }

    fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, OpError> {
        let direction = self.direction(twin(id))?;
        if direction.is_over {
            return Err(OpError::Closed);
        }
        let len = data.len().min(WINDOW_BYTES - direction.data.len());
        direction.data.extend(&data[..len]);
        direction.writer_waits |= len < data.len();
        if len > 0 {
            self.events.push_back(OpEvent::Readable(twin(id)));
        }
        Ok(len)
    }

    fn finish(&mut self, id: StreamId) -> Result<(), OpError> {
        self.direction(twin(id))?.is_ended = true;
        self.events.push_back(OpEvent::Readable(twin(id)));
        // It arrives at once: nothing can get lost on the way.
        self.events.push_back(OpEvent::Finished(id));
        Ok(())
    }

    fn reset(&mut self, id: StreamId, code: u32) -> Result<(), OpError> {
        let direction = self.direction(twin(id))?;
        if !direction.is_over {
            direction.give_up();
            let id = twin(id);
            self.events.push_back(OpEvent::Reset { id, code });
        }
        self.settle(id);
        Ok(())
    }

    fn stop(&mut self, id: StreamId, code: u32) -> Result<(), OpError> {
        let direction = self.direction(id)?;
        if !direction.is_over {
            direction.give_up();
            if !direction.is_ended {
                let id = twin(id);
                self.events.push_back(OpEvent::Stopped { id, code });
            }
        }
        self.settle(id);
        Ok(())
    }

    fn is_readable(&self, id: StreamId) -> bool {
        let direction = self.directions.get(&id);
        direction.is_some_and(|it| it.is_ended || !it.data.is_empty())
    }

    fn send(&mut self, flow: u32, tag: Option<u64>, data: &[u8]) -> Result<(), OpError> {
        if data.len() > MESSAGE_DATA_BYTES_MAX {
            let bytes_max = MESSAGE_DATA_BYTES_MAX;
            return Err(OpError::TooLarge { bytes_max });
        }
        if self.mail_bytes + data.len() > MAIL_BYTES || self.mail.len() >= MAIL_MESSAGES {
            self.sender_waits = true;
            return Err(OpError::Full);
        }
        if self.mail.is_empty() {
            self.events.push_back(OpEvent::MessageReady);
        }
        self.mail_bytes += data.len();
        let data = data.to_vec();
        self.mail.push_back(Message { flow, tag, data });
        Ok(())
    }

    fn receive(&mut self) -> Option<Message> {
        let message = self.mail.pop_front()?;
        self.mail_bytes -= message.data.len();
        if core::mem::take(&mut self.sender_waits) {
            self.events.push_back(OpEvent::MessageRoom);
        }
        Some(message)
    }
}

/// Operations on streams and messages of any peer, including this node. Functions and errors are those of
/// [`Node`].
pub(crate) struct Operations<'a> {
    pub node: &'a mut Node,
    pub own: &'a mut Loopback,
}

impl Operations<'_> {
    fn is_own(&self, peer: PeerId) -> bool {
        self.own.id == Some(peer)
    }

    pub fn is_connected(&self, peer: PeerId) -> bool {
        self.is_own(peer) || self.node.is_connected(peer)
    }

    /// As [`is_connected`](Operations::is_connected); it is connected to if it is not.
    pub fn connects(&mut self, now: Time, peer: PeerId) -> bool {
        let is_connected = self.is_connected(peer);
        if !is_connected {
            self.node.want(now, peer);
        }
        is_connected
    }

    pub fn open(&mut self, now: Time, peer: PeerId, service: u32) -> Result<StreamId, OpError> {
        match self.is_own(peer) {
            true => self.own.open(service),
            false => self.node.open_stream(now, peer, service, Policy::default()),
        }
    }

    /// Traffic within the process uses no links.
    pub fn set_policy(&mut self, peer: PeerId, id: StreamId, policy: Policy) {
        if !self.is_own(peer) {
            let _ = self.node.set_stream_policy(peer, id, policy);
        }
    }

    pub fn read(
        &mut self,
        now: Time,
        peer: PeerId,
        id: StreamId,
        into: &mut [u8],
    ) -> Result<Read, OpError> {
        match self.is_own(peer) {
            true => self.own.read(id, into),
            false => self.node.read_stream(now, peer, id, into),
        }
    }

    pub fn write(
        &mut self,
        now: Time,
        peer: PeerId,
        id: StreamId,
        data: &[u8],
    ) -> Result<usize, OpError> {
        match self.is_own(peer) {
            true => self.own.write(id, data),
            false => self.node.write_stream(now, peer, id, data),
        }
    }

    pub fn finish(&mut self, now: Time, peer: PeerId, id: StreamId) -> Result<(), OpError> {
        match self.is_own(peer) {
            true => self.own.finish(id),
            false => self.node.finish_stream(now, peer, id),
        }
    }

    pub fn reset(
        &mut self,
        now: Time,
        peer: PeerId,
        id: StreamId,
        code: u32,
    ) -> Result<(), OpError> {
        match self.is_own(peer) {
            true => self.own.reset(id, code),
            false => self.node.reset_stream(now, peer, id, code),
        }
    }

    pub fn stop(
        &mut self,
        now: Time,
        peer: PeerId,
        id: StreamId,
        code: u32,
    ) -> Result<(), OpError> {
        match self.is_own(peer) {
            true => self.own.stop(id, code),
            false => self.node.stop_stream(now, peer, id, code),
        }
    }

    pub fn is_readable(&self, peer: PeerId, id: StreamId) -> bool {
        match self.is_own(peer) {
            true => self.own.is_readable(id),
            false => self.node.is_readable(peer, id),
        }
    }

    pub fn send(
        &mut self,
        now: Time,
        peer: PeerId,
        message: (u32, Option<u64>, &[u8]),
        policy: Policy,
    ) -> Result<(), OpError> {
        let (flow, tag, data) = message;
        match self.is_own(peer) {
            true => self.own.send(flow, tag, data),
            false => self.node.send_message(now, peer, flow, tag, data, policy),
        }
    }

    pub fn receive(&mut self, now: Time, peer: PeerId) -> Option<Message> {
        match self.is_own(peer) {
            true => self.own.receive(),
            false => self.node.receive_message(now, peer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_have_a_bound_and_are_forgotten_when_both_ends_are_done() {
        let mut own = Loopback::default();
        let streams: Vec<_> = (0..STREAMS_MAX).map(|_| own.open(1).unwrap()).collect();
        assert_eq!(own.open(1), Err(OpError::TooManyStreams));
        for (id, ends) in streams.into_iter().zip((0..3).cycle()) {
            for end in [id, twin(id)] {
                match ends {
                    0 => own.reset(end, 0).and_then(|()| own.stop(twin(end), 0)),
                    1 => own.finish(end).and_then(|()| own.stop(twin(end), 0)),
                    _ => own.finish(end).and_then(|()| {
                        let read = own.read(twin(end), &mut [0; 8])?;
                        assert_eq!((read.len, read.fin), (0, true));
                        Ok(())
                    }),
                }
                .or_else(|error| match error {
                    // The first end has done with both directions.
                    OpError::UnknownStream => Ok(()),
                    error => Err(error),
                })
                .unwrap();
            }
        }
        assert!(own.directions.is_empty());
    }

    #[test]
    fn messages_have_a_bound_and_who_waits_is_told_of_room() {
        let mut own = Loopback::default();
        for _ in 0..MAIL_MESSAGES {
            own.send(0, None, b"").unwrap();
        }
        assert_eq!(own.send(0, None, b""), Err(OpError::Full));
        assert_eq!(own.events.pop_back(), Some(OpEvent::MessageReady));
        assert!(own.receive().is_some());
        assert_eq!(own.events.pop_back(), Some(OpEvent::MessageRoom));
        let longest = vec![0; MESSAGE_DATA_BYTES_MAX];
        while own.receive().is_some() {}
        (0..4).for_each(|_| own.send(0, None, &longest).unwrap());
        assert_eq!(own.send(0, None, &longest), Err(OpError::Full));
        let too_long = own.send(0, None, &vec![0; MESSAGE_DATA_BYTES_MAX + 1]);
        assert!(matches!(too_long, Err(OpError::TooLarge { .. })));
    }
}
