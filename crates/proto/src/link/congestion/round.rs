//! What one round trip, or some milliseconds in which a link was busy, show.

use core::time::Duration;

use super::PeerTime;
use crate::Time;

/// One round trip of judgement.
#[derive(Debug)]
pub struct Round {
    pub began: Time,
    /// It ends when a packet of this number or higher is acknowledged.
    pub ends_at: u64,
    /// Shortest wait in queues.
    pub queue: Duration,
    pub rate_at_start: f64,
    /// Whether the window was full all the time.
    pub limited: bool,
    /// Whether it was full at some time.
    pub filled: bool,
    /// Bytes that arrived, and those of them that had waited for longer than is aimed at.
    pub bytes: u64,
    pub bytes_late: u64,
}

impl Round {
    pub const fn new(now: Time, ends_at: u64, rate: f64) -> Round {
        Round {
            began: now,
            ends_at,
            queue: Duration::MAX,
            rate_at_start: rate,
            limited: true,
            filled: false,
            bytes: 0,
            bytes_late: 0,
        }
    }
}

/// A few milliseconds of arrivals: what the link does while its queue is long.
#[derive(Debug)]
pub struct BusyPeriod {
    pub began: Time,
    pub began_there: PeerTime,
    /// Last arrival that is counted.
    pub last: Time,
    pub last_there: PeerTime,
    pub bytes: u64,
    pub packets: u32,
    /// Shortest wait in queues.
    pub queue: Duration,
    pub limited: bool,
}

impl BusyPeriod {
    pub const fn new(now: Time, there: PeerTime) -> BusyPeriod {
        BusyPeriod {
            began: now,
            began_there: there,
            last: now,
            last_there: there,
            bytes: 0,
            packets: 0,
            queue: Duration::MAX,
            limited: true,
        }
    }
}
