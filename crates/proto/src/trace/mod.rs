//! What a node does for one peer, and why: events for whoever asks.
//!
//! A bundle records events only while a trace of its peer is on ([`Node::trace`](crate::Node::trace)); otherwise each
//! place that could record one tests whether there is a recorder, and does nothing more. Events hold numbers, times
//! and reasons. They hold no content and no keys.
//!
//! Two kinds of places record. The ones see something happen: a packet sent, received, acknowledged, lost; a path
//! chosen. The others compare what is true now with what was told last ([`Recorder::see_path`]): states, verdicts,
//! windows. So what a path decides in its own rooms ([`link`](crate::link)) needs no hook there.

mod recorder;
mod records;

use std::net::SocketAddr;

use crate::bundle::{PeerState, Standby};
use crate::limits::PATHS_MAX;
use crate::link::{GivenUp, PathState};
use crate::wire::{LinkVerdict, Witness};
use crate::{LinkId, PeerId, Time};

pub(crate) use recorder::{PathView, Recorder};
pub use records::RecordKinds;

/// If an event is this many events behind the newest, the driver does not keep up: further events are left out, and
/// counted. An engine's turn records some thousands at most.
pub const EVENTS_WAITING_MAX: usize = 32_768;

/// One event of a trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Traced {
    /// When it happened, by the driver's clock.
    pub at: Time,
    /// The peer that it concerns.
    pub peer: PeerId,
    /// What happened.
    pub event: TraceEvent,
}

/// An event. Small and `Copy`: while a trace is on, thousands wait in a ring.
///
/// The first event of each kind of state gives the state at the beginning of the trace (`before` is `None` then).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum TraceEvent {
    /// Packets for the peer on this path go to this address from now on.
    Address {
        /// The path.
        path: LinkId,
        /// Address of its far end.
        remote: SocketAddr,
    },
    /// The peer came, went or rests.
    PeerState {
        /// The state until now.
        before: Option<PeerState>,
        /// The state from now on.
        now: PeerState,
    },
    /// Other keys are in use from now on.
    Session,
    /// A path works, is in doubt, or has failed.
    PathState {
        /// The path.
        path: LinkId,
        /// The state until now.
        before: Option<PathState>,
        /// The state from now on, by both ends' verdicts.
        now: PathState,
        /// The witness.
        witness: Witness,
    },
    /// An end has judged a path.
    Verdict {
        /// The path.
        path: LinkId,
        /// Which end.
        end: End,
        /// Its verdict.
        verdict: LinkVerdict,
        /// The other end's witness.
        witness: Witness,
    },
    /// A path carries content of its own again, or no longer does though it works.
    Standby {
        /// The path.
        path: LinkId,
        /// Why it did not until now.
        before: Option<Standby>,
        /// Why it does not from now on; `None`: it does.
        now: Option<Standby>,
    },
    /// A path was chosen for a burst.
    Chosen(Chosen),
    /// A packet was handed over to be sent.
    Sent(Packet),
    /// A packet arrived that was authentic and new.
    Received(Packet),
    /// The peer has these packets: `count` of them with consecutive numbers.
    Acked {
        /// The path that they went on.
        path: LinkId,
        /// The lowest number.
        first: u64,
        /// How many.
        count: u32,
    },
    /// A packet was declared lost; its content goes out again. It may have arrived nevertheless.
    Lost {
        /// The path that it went on.
        path: LinkId,
        /// Its number.
        number: u64,
        /// Length of its datagram.
        bytes: u32,
        /// Why.
        cause: GivenUp,
    },
    /// Measurements of a path have changed.
    Metrics {
        /// The path.
        path: LinkId,
        /// The figures now.
        metrics: PathMetrics,
    },
    /// Congestion control of a path went on to another state.
    Congestion {
        /// The path.
        path: LinkId,
        /// The state until now.
        before: Option<&'static str>,
        /// The state from now on.
        now: &'static str,
    },
    /// Datagrams on a path are of another length from now on.
    Mtu {
        /// The path.
        path: LinkId,
        /// The largest until now, in bytes.
        before: Option<u32>,
        /// The largest from now on, in bytes.
        now: u32,
    },
    /// The peer, to which many send, grants this much on a path.
    Granted {
        /// The path.
        path: LinkId,
        /// In bytes per second; `None`: no limit any more.
        bytes_per_s: Option<f64>,
    },
    /// Events are missing here, because nobody fetched them in time.
    LeftOut {
        /// How many.
        events: u64,
    },
}

/// One of the two ends of a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// This node.
    Own,
    /// The peer.
    Peer,
}

/// A packet, as far as it is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The path that it goes on, or came on.
    pub path: LinkId,
    /// Its number on that path.
    pub number: u64,
    /// Length of its datagram.
    pub bytes: u32,
    /// Kinds of the records in it.
    pub records: RecordKinds,
}

/// Which path was chosen, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// The path.
    pub path: LinkId,
    /// Why this one.
    pub why: Why,
    /// Bytes that waited to be sent, first time or again (saturates).
    pub queued_bytes: u32,
    /// Bytes of these that had been lost: they go first (saturates).
    pub lost_bytes: u32,
    /// For each path, by number: time until a burst handed to it now would be delivered, in microseconds;
    /// [`NO_CANDIDATE`](Chosen::NO_CANDIDATE) if it may carry nothing now.
    pub delivery_us: [u32; PATHS_MAX],
}

impl Chosen {
    /// Stands for "no candidate" among delivery times.
    pub const NO_CANDIDATE: u32 = u32::MAX;
}

/// Why a path was chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Why {
    /// It is the only one that may carry content now.
    Only,
    /// The burst is delivered first over it.
    Fastest,
    /// The fastest path is full, and so much waits that every path is used.
    Bulk,
    /// The fastest path is full, and all that waits would arrive there later than the burst does here.
    Sooner,
    /// The content is meant for it.
    Meant,
    /// Lost content goes first, where it is least likely to be lost again.
    Resent,
    /// Content of others: it takes no path through other nodes.
    Relayed,
    /// The second copy of mirrored content.
    Mirrored,
    /// A copy that shows whether a path on standby has become better.
    Explores,
}

/// Measurements of a path.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PathMetrics {
    /// Congestion window in bytes.
    pub window_bytes: u64,
    /// Bytes sent and neither answered nor given up.
    pub in_flight_bytes: u64,
    /// Packets sent and neither answered nor given up.
    pub in_flight_packets: u32,
    /// Smoothed round-trip time in microseconds; 0 before the first sample.
    pub smoothed_rtt_us: u32,
    /// Its mean deviation, in microseconds.
    pub rtt_variation_us: u32,
    /// Least round-trip time lately, in microseconds.
    pub least_rtt_us: u32,
    /// The newest sample, in microseconds; 0 before the first.
    pub latest_rtt_us: u32,
    /// Estimated rate of the path, in bytes per second; 0 before the first sample.
    pub rate_bytes_per_s: f64,
    /// Share of packets lost lately, 0 to 1.
    pub loss_ratio: f64,
    /// Probe timeouts since something was last answered.
    pub probe_timeouts: u32,
}
