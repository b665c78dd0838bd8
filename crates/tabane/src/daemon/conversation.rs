//! Streams on which daemons say lines to each other.

use tabane_proto::{Node, PeerId, StreamId, Time};

use crate::agent::give_up;
use crate::json_lines::{Lines, Malformed};

/// A stream on which lines are said.
#[derive(Debug)]
pub(super) struct Conversation {
    pub peer: PeerId,
    pub stream: StreamId,
    pub lines: Lines,
    /// The other end has said everything.
    pub is_over: bool,
}

impl Conversation {
    pub fn new(peer: PeerId, stream: StreamId) -> Conversation {
        Conversation {
            peer,
            stream,
            lines: Lines::default(),
            is_over: false,
        }
    }

    pub fn is(&self, peer: PeerId, stream: StreamId) -> bool {
        (self.peer, self.stream) == (peer, stream)
    }

    /// Reads what came, as far as lines may be long; returns the next one.
    pub fn hear(&mut self, now: Time, node: &mut Node) -> Result<Option<Vec<u8>>, Malformed> {
        loop {
            if let Some(line) = self.lines.take()? {
                return Ok(Some(line));
            }
            let lines = &mut self.lines;
            let read = node.take_stream(now, self.peer, self.stream, |bytes| {
                let taken = bytes.len().min(lines.room());
                lines.add(&bytes[..taken]);
                taken
            });
            match read {
                Ok(read) if read.fin => self.is_over = true,
                Err(_) => self.is_over = true,
                Ok(_) => {}
            }
            if read.map_or(0, |read| read.len) == 0 {
                return Ok(None);
            }
        }
    }

    /// Says a line. Returns whether there was room for it, as there is unless the other end does not read.
    pub fn say(&self, now: Time, node: &mut Node, line: &[u8]) -> bool {
        let written = node.write_stream(now, self.peer, self.stream, line);
        written.is_ok_and(|len| len == line.len())
    }

    pub fn give_up(&self, now: Time, node: &mut Node, code: u32) {
        give_up(now, node, self.peer, self.stream, code);
    }
}
