//! The result, for the program that asked.

use serde::Serialize;

/// Width of [`Taken::interval_bytes`], milliseconds.
pub const INTERVAL_MS: u64 = 10;
/// An hour of intervals; later bytes are counted without their time.
pub const INTERVALS_MAX: usize = 360_000;

/// One line of JSON.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The reporting node.
    pub node: String,
    /// When sending began, nanoseconds since the machine was started.
    pub began_ns: Option<u64>,
    /// The streams it sent.
    pub sent: Vec<Sent>,
    /// The streams it took in.
    pub taken: Vec<Taken>,
    /// The messages it sent and got back.
    pub pinged: Option<Pinged>,
}

/// A stream to a peer.
#[derive(Debug, Serialize)]
pub struct Sent {
    /// The peer.
    pub to: String,
    /// Bytes its stream took.
    pub bytes: u64,
    /// From the first byte until the peer had acknowledged the last.
    pub ms: f64,
    /// Why it ended, if not as it should.
    pub error: Option<String>,
}

/// A stream of a peer.
#[derive(Debug, Serialize)]
pub struct Taken {
    /// The peer.
    pub from: String,
    /// Bytes that arrived.
    pub bytes: u64,
    /// When the first came, nanoseconds since the machine was started.
    pub first_ns: Option<u64>,
    /// Width of the intervals, milliseconds.
    pub interval_ms: u64,
    /// Bytes that arrived in each interval since the first came.
    pub interval_bytes: Vec<u64>,
    /// The offset of the first wrong byte, if checked.
    pub wrong_at: Option<u64>,
    /// Why it ended, if not as it should.
    pub error: Option<String>,
}

/// Small messages, each sent after the echo of the one before.
#[derive(Debug, Serialize)]
pub struct Pinged {
    /// The peer.
    pub to: String,
    /// How many came back, without the first tenth of the time.
    pub count: usize,
    /// Median of the round trips, in microseconds.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Why it ended, if not as it should.
    pub error: Option<String>,
}

impl Report {
    /// Whether everything arrived, and as it was sent.
    pub fn is_whole(&self) -> bool {
        let sent = self.sent.iter().all(|sent| sent.error.is_none());
        let is_right = |taken: &Taken| taken.error.is_none() && taken.wrong_at.is_none();
        let pinged = self.pinged.iter().all(|pinged| pinged.error.is_none());
        sent && self.taken.iter().all(is_right) && pinged
    }
}
