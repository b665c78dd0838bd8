//! How much each path carries now, from the counters of a moment ago.

use core::time::Duration;
use std::collections::BTreeMap;

use tabane_proto::{LinkId, Node, PeerId, Time};

/// Rates are taken over at least this long.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// A path's rates in both directions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Sent, megabits of UDP payload per second.
    pub tx_mbps: f64,
    /// Received.
    pub rx_mbps: f64,
}

/// Counters of a path when they were last looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sent: u64,
    received: u64,
    rates: Rates,
}

/// The rates of all paths.
#[derive(Debug, Default)]
pub struct RateMeter {
    paths: BTreeMap<(PeerId, LinkId), Seen>,
    taken: Time,
}

impl RateMeter {
    /// Takes the counters if the last time is long enough ago.
    pub fn turn(&mut self, now: Time, node: &Node, peers: impl Iterator<Item = PeerId>) {
        let elapsed = now.since(self.taken);
        if elapsed < INTERVAL {
            return;
        }
        self.taken = now;
        let mbps = |bytes: u64| bytes as f64 * 8e-6 / elapsed.as_secs_f64();
        for peer in peers {
            for (link, _) in node.path_states(peer) {
                // Peers that were never met have none, however many they are.
                let Some(stats) = node.path_stats(peer, link) else {
                    continue;
                };
                let seen = self.paths.entry((peer, link)).or_default();
                let (sent, received) = (stats.bytes_sent, stats.bytes_received);
                seen.rates = Rates {
                    tx_mbps: mbps(sent.saturating_sub(seen.sent)),
                    rx_mbps: mbps(received.saturating_sub(seen.received)),
                };
                (seen.sent, seen.received) = (sent, received);
            }
        }
    }

    /// This number is another peer's now.
    pub fn forget(&mut self, peer: PeerId) {
        self.paths.retain(|(known, _), _| *known != peer);
    }

    /// The rates of one path, as of the last interval.
    pub fn of(&self, peer: PeerId, link: LinkId) -> Rates {
        self.paths
            .get(&(peer, link))
            .map(|seen| seen.rates)
            .unwrap_or_default()
    }
}
