//! What an operator wants to know of a path.

use core::time::Duration;

/// Figures of one path. Counters run from the path's beginning.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PathStats {
    /// Smoothed round-trip time; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// Its mean deviation.
    pub rtt_variation: Duration,
    /// Least round-trip time lately: the path without its queue.
    pub rtt_least: Duration,
    /// What the path is thought to be able to carry, in bytes per second; 0 before the first sample.
    pub capacity_bytes_per_s: f64,
    /// Whether the path was given all it can carry when that was estimated.
    pub capacity_is_proven: bool,
    /// What the peer grants while many send to it, in bytes per second; `None` if it does not limit this path.
    pub granted_bytes_per_s: Option<f64>,
    /// Share of packets lost lately, 0 to 1.
    pub loss_ratio: f64,
    /// Largest datagram used now, in bytes.
    pub mtu_bytes: usize,
    /// Whether only small packets pass, fewer bytes than
    /// [`DATAGRAM_BYTES_WIDE`](crate::limits::DATAGRAM_BYTES_WIDE): content goes here only where no other path works.
    pub is_narrow: bool,
    /// Congestion window in bytes.
    pub window_bytes: u64,
    /// Bytes sent and neither answered nor given up.
    pub in_flight_bytes: u64,
    /// Datagrams sent.
    pub packets_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Those of them that carried content.
    pub content_packets_sent: u64,
    /// Datagrams that arrived, duplicates not counted.
    pub packets_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Datagrams that arrived more than once, or too late to tell.
    pub duplicates: u64,
    /// Bytes that the peer acknowledged.
    pub bytes_acked: u64,
    /// Packets given up.
    pub packets_lost: u64,
    /// Their bytes: content that had to be sent once more.
    pub bytes_lost: u64,
    /// Packets given up that had arrived after all.
    pub packets_lost_falsely: u64,
    /// Second copies of mirrored content that were left out since the path had no room for them.
    pub copies_left_out: u64,
    /// Probes of this end that were answered; wraps.
    pub probes_answered: u16,
    /// How long the answer to the last one of them took.
    pub probe_rtt: Option<Duration>,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Times the path failed.
    pub failures: u64,
    /// Memory held for packets in flight, in bytes.
    pub memory_bytes: usize,
}
