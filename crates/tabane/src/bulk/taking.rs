//! The streams of others.

use tabane_lab::pattern::first_wrong;
use tabane_proto::op::OpError;
use tabane_proto::{Node, PeerId, StreamId, Time};

use super::report::{INTERVAL_MS, INTERVALS_MAX, Taken};
use super::sending::SERVICE_ECHO;

/// A stream that a peer opened.
pub struct Taking {
    pub peer: PeerId,
    stream: StreamId,
    is_echo: bool,
    bytes: u64,
    first: Option<Time>,
    interval_bytes: Vec<u64>,
    wrong_at: Option<u64>,
    is_over: bool,
    error: Option<String>,
}

impl Taking {
    pub fn new(peer: PeerId, stream: StreamId, service: u32) -> Taking {
        Taking {
            peer,
            stream,
            is_echo: service == SERVICE_ECHO,
            bytes: 0,
            first: None,
            interval_bytes: Vec::new(),
            wrong_at: None,
            is_over: false,
            error: None,
        }
    }

    /// Reads what has arrived.
    pub fn read(&mut self, now: Time, node: &mut Node, buffer: &mut [u8], is_checked: bool) {
        while !self.is_over {
            let read = match node.read_stream(now, self.peer, self.stream, buffer) {
                Ok(read) => read,
                Err(error) => return self.fail(error.to_string()),
            };
            self.note(now, &buffer[..read.len], is_checked);
            if self.is_echo
                && let Err(error) = self.echo(now, node, &buffer[..read.len], read.fin)
            {
                return self.fail(error.to_string());
            }
            self.is_over = read.fin;
            if read.len < buffer.len() {
                return;
            }
        }
    }

    fn note(&mut self, now: Time, piece: &[u8], is_checked: bool) {
        if piece.is_empty() {
            return;
        }
        if is_checked && !self.is_echo && self.wrong_at.is_none() {
            self.wrong_at = first_wrong(piece, self.bytes);
        }
        self.bytes += piece.len() as u64;
        let first = *self.first.get_or_insert(now);
        let interval = (now.since(first).as_millis() as u64 / INTERVAL_MS) as usize;
        if interval >= INTERVALS_MAX {
            return;
        }
        if self.interval_bytes.len() <= interval {
            self.interval_bytes.resize(interval + 1, 0);
        }
        self.interval_bytes[interval] += piece.len() as u64;
    }

    /// One message is underway at a time, so there is always room for it.
    fn echo(&self, now: Time, node: &mut Node, piece: &[u8], fin: bool) -> Result<(), OpError> {
        node.write_stream(now, self.peer, self.stream, piece)?;
        if fin {
            node.finish_stream(now, self.peer, self.stream)?;
        }
        Ok(())
    }

    pub fn is(&self, peer: PeerId, stream: StreamId) -> bool {
        self.peer == peer && self.stream == stream && !self.is_over
    }

    pub fn fail(&mut self, why: String) {
        if !self.is_over {
            self.is_over = true;
            self.error = Some(why);
        }
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }

    pub fn report(self, from: String) -> Taken {
        Taken {
            from,
            bytes: self.bytes,
            first_ns: self.first.map(Time::as_ns),
            interval_ms: INTERVAL_MS,
            interval_bytes: self.interval_bytes,
            wrong_at: self.wrong_at,
            error: self.error,
        }
    }
}
