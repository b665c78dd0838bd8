//! Urgent bytes of TCP (RFC 9293 section 3.8.5; MSG_OOB): which of a stream's bytes they are is said
//! by a stream of its own, before they go (docs/protocol.md, 9.6.2).

use tabane_proto::op::Policy;
use tabane_proto::{Node, PeerId, StreamId, Time};

use super::opening::{CODE_MALFORMED, CODE_REFUSED, CODE_RESET};
use super::pipe::MARKS_MAX;
use super::relay::{Told, give_up};
use super::{Agent, Owner};

/// The service of streams that announce urgent bytes: "TCPU".
pub const SERVICE_URGENT: u32 = 0x5443_5055;
/// Length of an encoding.
pub const ANNOUNCEMENT_BYTES: usize = 17;

const VERSION: u8 = 1;

/// One byte of a connection is urgent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// The stream that carries the connection.
    pub stream: StreamId,
    /// How many bytes of the connection are before it.
    pub offset: u64,
}

impl Announcement {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.stream.0.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes
    }

    /// Parses a stream's announcement; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Announcement> {
        let (version, bytes) = bytes.split_first()?;
        let (stream, offset) = bytes.split_at_checked(8)?;
        (*version == VERSION).then_some(Announcement {
            stream: StreamId(u64::from_be_bytes(stream.try_into().ok()?)),
            offset: u64::from_be_bytes(offset.try_into().ok()?),
        })
    }
}

impl Agent {
    /// A program here sends an urgent byte: announces its offset to the other agent.
    pub(super) fn announce(&mut self, now: Time, node: &mut Node, index: usize) {
        let Some(relay) = self.relays.get_mut(index) else {
            return;
        };
        let (Some((peer, stream)), Some(offset)) = (relay.stream(), relay.announces()) else {
            return;
        };
        let owner = self.books.owner(relay.place());
        let said = Announcement { stream, offset }.encode();
        let opened = node.open_stream(now, peer, SERVICE_URGENT, Policy::Auto);
        // A new stream takes so few bytes.
        let opened = opened.and_then(|urgent| {
            node.set_stream_owner(peer, urgent, owner)?;
            node.write_stream(now, peer, urgent, &said)?;
            Ok(urgent)
        });
        match opened {
            Ok(urgent) => {
                self.owners.insert((peer, urgent), Owner::Announces(index));
                relay.announced_by(urgent);
            }
            // It is a byte as others.
            Err(_) => {
                relay.is_announced();
                self.wait_for_turn(index);
            }
        }
    }

    /// The other agent knows which byte is urgent, or does not want to.
    pub(super) fn is_announced(
        &mut self,
        now: Time,
        node: &mut Node,
        peer: PeerId,
        urgent: StreamId,
        index: usize,
    ) {
        self.owners.remove(&(peer, urgent));
        give_up(now, node, peer, urgent, CODE_RESET);
        if let Some(relay) = self.relays.get_mut(index) {
            relay.is_announced();
        }
        self.relay(now, node, index, Told::default());
    }

    /// Another node's agent announces an urgent byte, or a part of the announcement has come.
    pub(super) fn hear_announcement(
        &mut self,
        now: Time,
        node: &mut Node,
        peer: PeerId,
        urgent: StreamId,
    ) {
        let mut buffer = [0; ANNOUNCEMENT_BYTES];
        let heard = self.announcements.entry((peer, urgent)).or_default();
        let missing = ANNOUNCEMENT_BYTES - heard.len();
        match node.read_stream(now, peer, urgent, &mut buffer[..missing]) {
            Ok(read) if read.len > 0 || !read.fin => heard.extend(&buffer[..read.len]),
            _ => return self.forget_announcement(now, node, peer, urgent, CODE_MALFORMED),
        }
        if heard.len() < ANNOUNCEMENT_BYTES {
            self.owners.insert((peer, urgent), Owner::Announcement);
            return;
        }
        let marked = Announcement::decode(heard).ok_or(CODE_MALFORMED);
        match marked.and_then(|said| self.mark(peer, said).ok_or(CODE_REFUSED)) {
            Err(code) => self.forget_announcement(now, node, peer, urgent, code),
            Ok(()) => {
                self.announcements.remove(&(peer, urgent));
                self.owners.remove(&(peer, urgent));
                // A stream that was just opened takes a byte, or is broken.
                let _ = node.write_stream(now, peer, urgent, &[0]);
                let _ = node.finish_stream(now, peer, urgent);
            }
        }
    }

    pub(super) fn forget_announcement(
        &mut self,
        now: Time,
        node: &mut Node,
        peer: PeerId,
        urgent: StreamId,
        code: u32,
    ) {
        self.announcements.remove(&(peer, urgent));
        self.owners.remove(&(peer, urgent));
        give_up(now, node, peer, urgent, code);
    }

    fn mark(&mut self, peer: PeerId, said: Announcement) -> Option<()> {
        match self.owners.get(&(peer, said.stream))? {
            Owner::Relay(index) => self.relays.get_mut(*index)?.mark(said.offset).then_some(()),
            // The program here does not know yet that it is connected.
            Owner::Held(..) => {
                let marks = self.early_marks.entry((peer, said.stream)).or_default();
                let has_room = marks.len() < MARKS_MAX;
                has_room.then(|| marks.push(said.offset))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let said = Announcement {
            stream: StreamId(7),
            offset: u64::MAX - 1,
        };
        let bytes = said.encode();
        assert_eq!(bytes.len(), ANNOUNCEMENT_BYTES);
        assert_eq!(Announcement::decode(&bytes), Some(said));
        for cut in 0..bytes.len() {
            assert_eq!(Announcement::decode(&bytes[..cut]), None);
        }
        assert_eq!(Announcement::decode(&[2; ANNOUNCEMENT_BYTES]), None);
    }
}
