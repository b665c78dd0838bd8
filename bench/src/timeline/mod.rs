//! One TCP stream, watched at one end: when bytes arrive, to the millisecond,
//! and whether they are the right ones.
//!
//! iperf3 tells tenths of a second at best; here the receiver notes the time
//! of every read, on the clock of [`tabane_lab::monotonic_ns`], so that what it saw
//! and what the lab did can be laid side by side.

mod analysis;
mod receive;
mod recorded;
mod send;

pub use analysis::{Failover, judge};
pub use receive::{receive, take};
pub use recorded::{KEPT_MS, Recorded};
pub use send::send;

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::transport::Stream;

/// Width of [`Timeline::bins`].
pub const BIN_NS: u64 = 1_000_000;
/// Shorter pauses between two reads are nothing to note.
const PAUSE_NOTED_NS: u64 = 2_000_000;

/// What the receiver saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// When the first byte came, nanoseconds of [`tabane_lab::monotonic_ns`].
    pub first_ns: u64,
    /// Bytes of each millisecond from then on.
    pub bins: Vec<u32>,
    /// When nothing came for a while: begin and end, same clock.
    pub pauses: Vec<(u64, u64)>,
    /// How many bytes came.
    pub bytes: u64,
    /// Where the first wrong one was.
    pub wrong_at: Option<u64>,
    /// Why the connection ended, if not as it should.
    pub error: Option<String>,
}

/// What the sender knows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Bytes its TCP took.
    pub bytes: u64,
    /// Why the connection ended, if not as it should.
    pub error: Option<String>,
}

/// What a stream is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// As [`tabane_lab::pattern`] says: any byte lost, doubled or in the wrong place shows.
    Counted,
    /// Whatever there is: nothing is written or looked at only to be checked.
    Any,
}

/// Send as fast as the connection takes it, for this long, and note what comes meanwhile, until
/// its end.
pub fn exchange(stream: &Stream, lasting: Duration, content: Content) -> Timeline {
    thread::scope(|scope| {
        scope.spawn(|| send::fill_up(stream, lasting, content));
        receive::take(stream, content)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Listener;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn both_ends_send_and_receive_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("is bound");
        let lasting = Duration::from_millis(20);
        let far = std::thread::spawn(move || {
            let stream = Stream::Tcp(listener.accept().expect("comes").0);
            exchange(&stream, lasting, Content::Counted)
        });
        let stream = Stream::Tcp(TcpStream::connect(address).expect("connects"));
        let near = exchange(&stream, lasting, Content::Counted);
        for timeline in [near, far.join().expect("ends")] {
            assert!(timeline.bytes > 0 && timeline.wrong_at.is_none());
            assert_eq!(timeline.error, None);
        }
    }

    #[test]
    fn what_is_sent_is_received_and_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("is bound");
        let receiver =
            std::thread::spawn(move || receive(&Listener::Tcp(listener), Content::Counted));
        let stream = Stream::Tcp(TcpStream::connect(address).expect("connects"));
        let sent = send(&stream, Duration::from_millis(20), Content::Counted);
        let timeline = receiver.join().expect("ends");
        assert_eq!((sent.error, timeline.error.as_ref()), (None, None));
        assert!(timeline.bytes > 0 && timeline.bytes == sent.bytes);
        assert_eq!(timeline.wrong_at, None);
        let binned: u64 = timeline.bins.iter().copied().map(u64::from).sum();
        assert_eq!(binned, timeline.bytes);
    }
}
