//! The streams this node sends.

use tabane_lab::pattern::{WORD_BYTES, fill};
use tabane_proto::op::{OpError, Policy};
use tabane_proto::{Node, PeerId, StreamId, Time};

use super::ms;
use super::report::{Pinged, Sent};
use crate::bench::quantile;

/// Service of a stream that is read to its end.
pub const SERVICE_TAKE: u32 = 1;
/// Service of a stream that is sent back.
pub const SERVICE_ECHO: u32 = 2;
/// Written at a time.
pub const BLOCK_BYTES: usize = 128 * 1024;
/// Writing pauses while this much waits to be sent to the peer: data that is still in
/// the program can be cancelled, and the first packets leave early.
const QUEUE_BYTES: usize = 512 * 1024;
const MESSAGE_BYTES: usize = 16;

/// A stream that is written as fast as the peer takes it.
pub struct Sending {
    pub peer: PeerId,
    stream: Option<StreamId>,
    bytes: u64,
    began: Time,
    ended: Time,
    is_full: bool,
    is_finished: bool,
    is_over: bool,
    error: Option<String>,
}

impl Sending {
    pub fn new(peer: PeerId) -> Sending {
        Sending {
            peer,
            stream: None,
            bytes: 0,
            began: Time::ZERO,
            ended: Time::ZERO,
            is_full: false,
            is_finished: false,
            is_over: false,
            error: None,
        }
    }

    pub fn open(&mut self, now: Time, node: &mut Node) {
        self.began = now;
        let opened = node.open_stream(now, self.peer, SERVICE_TAKE, Policy::Stripe);
        match opened {
            Ok(stream) => self.stream = Some(stream),
            Err(error) => self.fail(now, error.to_string()),
        }
    }

    /// Whether there is room to write.
    pub fn wants(&self, node: &Node) -> bool {
        let is_open = self.stream.is_some() && !self.is_finished && !self.is_over;
        is_open && !self.is_full && node.queued_bytes(self.peer) < QUEUE_BYTES
    }

    /// Writes until there is no room.
    pub fn write(&mut self, now: Time, node: &mut Node, block: &mut [u8], is_checked: bool) {
        while self.wants(node)
            && let Some(stream) = self.stream
        {
            let skew = self.bytes % WORD_BYTES;
            if is_checked {
                fill(block, self.bytes - skew);
            }
            let rest = &block[skew as usize..];
            match node.write_stream(now, self.peer, stream, rest) {
                Ok(taken) => {
                    self.bytes += taken as u64;
                    self.is_full = taken < rest.len();
                }
                Err(error) => self.fail(now, error.to_string()),
            }
        }
    }

    /// Whether anything was written.
    pub fn has_sent(&self) -> bool {
        self.bytes > 0
    }

    /// Ends the stream after the written data.
    pub fn finish(&mut self, now: Time, node: &mut Node) {
        if let Some(stream) = self.stream.filter(|_| !self.is_finished && !self.is_over) {
            self.is_finished = true;
            let finished = node.finish_stream(now, self.peer, stream);
            finished.unwrap_or_else(|error: OpError| self.fail(now, error.to_string()));
        }
    }

    pub fn is(&self, peer: PeerId, stream: StreamId) -> bool {
        self.peer == peer && self.stream == Some(stream)
    }

    pub fn writable(&mut self) {
        self.is_full = false;
    }

    pub fn arrived(&mut self, now: Time) {
        (self.is_over, self.ended) = (true, now);
    }

    pub fn fail(&mut self, now: Time, why: String) {
        if !self.is_over {
            (self.is_over, self.ended) = (true, now);
            self.error = Some(why);
        }
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }

    pub fn report(self, to: String) -> Sent {
        Sent {
            to,
            bytes: self.bytes,
            ms: self.stream.map_or(0.0, |_| ms(self.began, self.ended)),
            error: self.error,
        }
    }
}

/// A stream of small messages, each sent after the echo of the one before.
pub struct Pinging {
    pub peer: PeerId,
    stream: Option<StreamId>,
    sent_at: Option<Time>,
    /// Bytes of the echo that came so far.
    came: usize,
    /// Half of each round trip, microseconds.
    half_us: Vec<f64>,
    is_finished: bool,
    is_over: bool,
    error: Option<String>,
}

impl Pinging {
    pub fn new(peer: PeerId) -> Pinging {
        Pinging {
            peer,
            stream: None,
            sent_at: None,
            came: 0,
            half_us: Vec::new(),
            is_finished: false,
            is_over: false,
            error: None,
        }
    }

    pub fn open(&mut self, now: Time, node: &mut Node) {
        let opened = node.open_stream(now, self.peer, SERVICE_ECHO, Policy::Stripe);
        match opened {
            Ok(stream) => self.stream = Some(stream),
            Err(error) => self.fail(error.to_string()),
        }
    }

    /// Whether to send the next message.
    pub fn wants(&self) -> bool {
        self.stream.is_some() && self.sent_at.is_none() && !self.is_finished && !self.is_over
    }

    pub fn write(&mut self, now: Time, node: &mut Node) {
        if let Some(stream) = self.stream.filter(|_| self.wants()) {
            self.sent_at = Some(now);
            let written = node.write_stream(now, self.peer, stream, &[7; MESSAGE_BYTES]);
            if let Err(error) = written {
                self.fail(error.to_string());
            }
        }
    }

    pub fn finish(&mut self, now: Time, node: &mut Node) {
        if let Some(stream) = self.stream.filter(|_| self.wants()) {
            self.is_finished = true;
            let finished = node.finish_stream(now, self.peer, stream);
            finished.unwrap_or_else(|error: OpError| self.fail(error.to_string()));
        }
    }

    /// Reads the echo; round trips count `from` then on.
    pub fn read(&mut self, now: Time, node: &mut Node, buffer: &mut [u8], from: Time) {
        let Some(stream) = self.stream else { return };
        match node.read_stream(now, self.peer, stream, buffer) {
            Ok(read) => {
                self.came += read.len;
                self.is_over |= read.fin;
            }
            Err(error) => self.fail(error.to_string()),
        }
        if self.came >= MESSAGE_BYTES
            && let Some(sent_at) = self.sent_at.take()
        {
            self.came = 0;
            if sent_at >= from {
                self.half_us.push(ms(sent_at, now) * 1e3 / 2.0);
            }
        }
    }

    pub fn is(&self, peer: PeerId, stream: StreamId) -> bool {
        self.peer == peer && self.stream == Some(stream)
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

    pub fn report(mut self, to: String) -> Pinged {
        self.half_us.sort_by(f64::total_cmp);
        Pinged {
            to,
            count: self.half_us.len(),
            p50_us: quantile(&self.half_us, 0.5),
            p99_us: quantile(&self.half_us, 0.99),
            error: self.error,
        }
    }
}
