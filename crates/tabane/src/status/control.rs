//! The control protocol, daemon's side: one JSON line asks, one JSON line
//! answers, then the daemon closes. Never blocks and starts no thread.

use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use serde::{Deserialize, Serialize};
use tabane_io::handover::read_with_descriptors;

use super::members::MembersReport;
use super::nodes::NodesReport;
use super::report::StatusReport;
use super::topology::TopoReport;

/// Longest request, with its newline.
pub const REQUEST_BYTES_MAX: usize = 4096;

/// The most bytes that wait for a client with a continuing answer: some hundredths of a second of a trace
/// at full rate.
pub const ADDED_BYTES_MAX: usize = 4 << 20;

/// A client's request: `{"command":"status"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub enum Request {
    /// How are you?
    Status,
    /// Which nodes are there, and where?
    Nodes,
    /// Which other nodes are there, and how are they reached?
    Members,
    /// Leave the cluster, and end.
    Leave,
    /// Have another gateway serve.
    Gateway {
        /// This one; else the next one that can.
        #[serde(rename = "move")]
        to: Option<String>,
    },
    /// Which nodes share a switch?
    Topo {
        /// Measure it, if that is not under way.
        #[serde(default)]
        measure: bool,
    },
    /// Trace what is done for a peer from now on, and why.
    Trace {
        /// Its name.
        peer: String,
        /// In the older form that qvis reads.
        #[serde(default)]
        qvis: bool,
    },
    /// Measure the bundle to a peer.
    Bench {
        /// Its name.
        peer: String,
        /// How long.
        seconds: u32,
        /// With datagrams.
        #[serde(default)]
        udp: bool,
    },
    /// Probe all paths to a peer, again and again.
    Ping {
        /// Its name.
        peer: String,
        /// From one round to the next.
        interval_ms: u64,
    },
    /// Ask connected peers what they find wrong.
    Consult {
        /// Only this one.
        #[serde(default)]
        peer: Option<String>,
    },
    /// Read the cluster file anew, and do as it says.
    Reload {
        /// Only say what would change.
        #[serde(default)]
        check: bool,
    },
}

/// The answer: `{"status":{…}}` or `{"error":"…"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Response {
    /// To [`Request::Status`].
    Status(Box<StatusReport>),
    /// To [`Request::Nodes`].
    Nodes(NodesReport),
    /// To [`Request::Members`], and to [`Request::Leave`]: the nodes that are told.
    Members(MembersReport),
    /// To [`Request::Gateway`]: the result.
    Gateway(MoveReport),
    /// To [`Request::Topo`].
    Topo(TopoReport),
    /// To [`Request::Trace`]; the records of a qlog follow, until one of both ends closes.
    Trace(TraceReport),
    /// To [`Request::Bench`]; lines of [`Told`](crate::bench::Told) follow, the last one with the result.
    Bench(BenchBegun),
    /// To [`Request::Ping`]; lines of [`Round`](crate::ping::Round) follow, until one of both ends closes.
    Ping(PingBegun),
    /// To [`Request::Consult`]; a line with an [`Opinion`](crate::doctor::finding::Opinion) of each peer follows.
    Consult(ConsultBegun),
    /// To [`Request::Reload`].
    Reload(ReloadReport),
    /// The request was not understood; says why.
    Error(String),
}

/// The measurement that has begun: the answer to the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchBegun {
    /// This node.
    pub node: String,
    /// The peer.
    pub peer: String,
    /// How long it takes.
    pub seconds: u32,
}

/// The daemon pings from now on: its answer to the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingBegun {
    /// This node.
    pub node: String,
    /// The peer.
    pub peer: String,
}

/// The result of handing the gateway over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveReport {
    /// In words.
    pub done: String,
}

/// The traced peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceReport {
    /// This node.
    pub node: String,
    /// The peer.
    pub peer: String,
}

/// Which peers are asked what they find wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsultBegun {
    /// This node.
    pub node: String,
    /// The peers, those that are connected.
    pub asked: Vec<String>,
}

/// The result of rereading a cluster file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// The file can be used. If not, everything is as before.
    pub accepted: bool,
    /// What has changed (or would change), in words.
    pub changes: Vec<String>,
    /// Errors, and things perhaps not as meant: `FILE:LINE: …`.
    pub problems: Vec<String>,
}

impl Request {
    /// Reads one line, with or without its newline.
    ///
    /// # Errors
    /// The answer to give if it is no request.
    pub fn parse(line: &[u8]) -> Result<Self, Response> {
        serde_json::from_slice(line).map_err(|error| {
            Response::Error(format!(
                "not understood: {error}; a request is one line such as {{\"command\":\"status\"}}"
            ))
        })
    }

    /// The request as a line.
    pub fn to_line(&self) -> Vec<u8> {
        to_line(self)
    }
}

impl Response {
    /// Whether more follows it.
    pub fn goes_on(&self) -> bool {
        matches!(
            self,
            Self::Trace(_) | Self::Bench(_) | Self::Ping(_) | Self::Consult(_)
        )
    }

    /// The answer as a line.
    pub fn to_line(&self) -> Vec<u8> {
        to_line(self)
    }
}

/// A value as a line of JSON.
pub(crate) fn to_line(value: &impl Serialize) -> Vec<u8> {
    // These types have only string keys, so this does not fail; if it ever did, an answer is due.
    let mut line = serde_json::to_vec(value)
        .unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}").into_bytes());
    line.push(b'\n');
    line
}

/// What a [`Client`] waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Call again when its socket is readable.
    WaitReadable,
    /// Call again when its socket is writable.
    WaitWritable,
    /// Finished, one way or another: drop it.
    Done,
}

/// One accepted connection. Holds at most [`REQUEST_BYTES_MAX`] of request and
/// one answer.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    request: Vec<u8>,
    /// The answer is known.
    is_answered: bool,
    /// The answer, and what was [added](Client::add) since all of it was sent.
    answer: Vec<u8>,
    /// How much of it is sent.
    sent: usize,
    /// More is added to the answer until the client closes.
    goes_on: bool,
    /// Descriptors that the client has handed over.
    handed: Vec<OwnedFd>,
}

impl Client {
    /// For a stream that was just accepted.
    ///
    /// # Errors
    /// If the stream cannot be made non-blocking.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            request: Vec::new(),
            is_answered: false,
            answer: Vec::new(),
            sent: 0,
            goes_on: false,
            handed: Vec::new(),
        })
    }

    /// Reads the request. A client that hands descriptors over gets no answer: the daemon's loop must not
    /// close them.
    fn read(&mut self, chunk: &mut [u8]) -> io::Result<usize> {
        let (length, descriptors) = read_with_descriptors(&self.stream, chunk)?;
        self.handed.extend(descriptors);
        match self.handed.is_empty() {
            true => Ok(length),
            false => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Does as much as possible without waiting; `answer`, which makes the answer's line, is called at
    /// most once in a client's life, when the request is complete and valid.
    ///
    /// A client that closes before it has its answer is dropped; so is one that only closes its sending
    /// side, if the answer does not fit the socket's buffer.
    pub fn advance(&mut self, answer: impl FnOnce(Request) -> Vec<u8>) -> Progress {
        if !self.is_answered {
            match self.read_request() {
                Ok(Some(Ok(request))) => self.answer = answer(request),
                Ok(Some(Err(refusal))) => self.answer = refusal.to_line(),
                Ok(None) => return Progress::WaitReadable,
                Err(_) => return Progress::Done,
            }
            self.is_answered = true;
        } else if self.is_gone() {
            return Progress::Done;
        }
        self.write_answer()
    }

    /// The request once it is complete, `None` before.
    fn read_request(&mut self) -> io::Result<Option<Result<Request, Response>>> {
        let mut chunk = [0; 512];
        loop {
            let length = match self.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            self.request.extend_from_slice(&chunk[..length]);
            if let Some(end) = self.request.iter().position(|&b| b == b'\n')
                && end < REQUEST_BYTES_MAX
            {
                return Ok(Some(Request::parse(&self.request[..end])));
            }
            if self.request.len() >= REQUEST_BYTES_MAX {
                let what = format!("a request has at most {REQUEST_BYTES_MAX} bytes");
                return Ok(Some(Err(Response::Error(what))));
            }
        }
    }

    /// Whether the client closed while its answer waits; further input is ignored.
    fn is_gone(&mut self) -> bool {
        let mut ignored = [0; 512];
        match self.read(&mut ignored) {
            Ok(length) => length == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn write_answer(&mut self) -> Progress {
        while let Some(rest) = self.answer.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Progress::Done,
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return match self.goes_on {
                        // It is tried together with the next addition.
                        true => Progress::WaitReadable,
                        false => Progress::WaitWritable,
                    };
                }
                Err(_) => return Progress::Done,
            }
        }
        if !self.goes_on {
            return Progress::Done;
        }
        self.answer.clear();
        self.sent = 0;
        Progress::WaitReadable
    }

    /// Lets the answer continue, with [additions](Client::add), until the client closes.
    pub fn go_on(&mut self) {
        self.goes_on = true;
    }

    /// Adds to a continuing answer, and sends as much as possible now. Returns whether it was accepted:
    /// not while the client has [`ADDED_BYTES_MAX`] to read.
    pub fn add(&mut self, text: &[u8]) -> bool {
        let takes = self.answer.len() - self.sent + text.len() <= ADDED_BYTES_MAX;
        if takes {
            if self.sent > ADDED_BYTES_MAX {
                self.answer.drain(..core::mem::take(&mut self.sent));
            }
            self.answer.extend_from_slice(text);
        }
        // That it is gone is found when its socket is next looked at.
        let _ = self.write_answer();
        takes
    }

    /// Ends the conversation: nothing more is sent or read.
    pub fn end(&self) {
        // One that is gone has ended as it is.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
