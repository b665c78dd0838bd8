//! The result of a measurement, as `tabane bench --json` prints it (docs/operation.md).

use serde::{Deserialize, Serialize};

use super::sample::{OfLink, Way};

/// The version of the description.
pub const SCHEMA: u32 = 1;

/// All that was measured. Rates are of programs' bytes, except where they are said to be of a wire.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The node that measured.
    pub node: String,
    /// The peer.
    pub peer: String,
    /// When it ended, in milliseconds since 1970-01-01 UTC.
    pub ended_unix_ms: u64,
    /// How long it lasted.
    pub seconds: u32,
    /// One for each link that worked at the beginning.
    pub links: Vec<LinkResult>,
    /// Over all links, to the peer.
    pub out: Option<WayResult>,
    /// From the peer.
    pub back: Option<WayResult>,
    /// To the peer while as much as possible comes from it.
    pub both_out: Option<WayResult>,
    /// From the peer at the same time.
    pub both_back: Option<WayResult>,
    /// Round trips of 16 bytes while nothing else of the measurement is under way.
    pub idle: RoundTrips,
    /// Round trips while all links are filled.
    pub loaded: RoundTrips,
    /// Datagrams to the peer, if they were asked for.
    pub datagrams_out: Option<DatagramsResult>,
    /// Datagrams from the peer.
    pub datagrams_back: Option<DatagramsResult>,
}

/// One link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// Its number.
    pub link: u8,
    /// What it carries alone, to the peer; `None` if that was not measured: others' traffic was in the way, or it is the only
    /// link.
    pub alone_out_mbps: Option<f64>,
    /// From the peer.
    pub alone_back_mbps: Option<f64>,
    /// What it carried on its wire (bytes of UDP) while all links were filled, to the peer.
    pub wire_out_mbps: Option<f64>,
    /// From the peer.
    pub wire_back_mbps: Option<f64>,
    /// Packets of it that were lost while all links were filled one way, to the peer, in percent.
    pub loss_out_percent: Option<f64>,
    /// From the peer.
    pub loss_back_percent: Option<f64>,
}

/// One way, over all links.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WayResult {
    /// What arrived.
    pub mbps: f64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Those that were lost: their content was sent again.
    pub resent_packets: u64,
    /// Packets that the receiver's kernel dropped because its socket's buffer was full, whoever sent them.
    pub buffer_dropped_packets: u64,
    /// The daemon that sent.
    pub sender: Processor,
    /// The daemon that received.
    pub receiver: Processor,
    /// What set the pace.
    pub limit: Limit,
}

/// The processor time of one end's daemon, all its work included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Processor {
    /// The node.
    pub node: String,
    /// For 1 GB that arrived; `None` if the kernel does not tell.
    pub cpu_s_per_gb: Option<f64>,
    /// Share of one processor that it used.
    pub busy_percent: Option<f64>,
    /// Share of the time in which it waited for a processor that others had.
    pub waited_percent: Option<f64>,
}

/// What set the pace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// For machines.
    pub cause: Cause,
    /// The node that it is about.
    pub node: Option<String>,
    /// The link that it is about.
    pub link: Option<u8>,
    /// A sentence.
    pub text: String,
}

/// See [`Limit`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// All links carry what each carries alone.
    LinksFull,
    /// The links carry less together than alone: they have something in common.
    LinksShare,
    /// A link loses packets.
    Loss,
    /// The receiver's socket buffer was full.
    ReceiveBuffer,
    /// A daemon's loop has no more time.
    Processor,
    /// Other programs have the processors.
    ProcessorShared,
    /// Nothing that was measured explains it.
    #[default]
    Unknown,
}

/// How long small messages take there and back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// How many were measured.
    pub count: usize,
    /// The shortest.
    pub min_us: Option<u32>,
    /// Half of them took no longer.
    pub median_us: Option<u32>,
    /// All but one in a hundred took no longer.
    pub p99_us: Option<u32>,
    /// The longest.
    pub max_us: Option<u32>,
}

/// Datagrams one way, as UDP of programs goes over `tab0`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DatagramsResult {
    /// What arrived, with Ethernet headers.
    pub mbps: f64,
    /// How many arrived in a second.
    pub per_s: f64,
    /// How many were sent.
    pub sent: u64,
    /// Those of them that did not arrive, in percent.
    pub loss_percent: f64,
}

impl BenchReport {
    /// The result over all links, one way, alone or beside the other.
    pub fn way_mut(&mut self, way: Way, is_both: bool) -> &mut Option<WayResult> {
        match (way, is_both) {
            (Way::Out, false) => &mut self.out,
            (Way::Back, false) => &mut self.back,
            (Way::Out, true) => &mut self.both_out,
            (Way::Back, true) => &mut self.both_back,
        }
    }
}

impl LinkResult {
    /// What it carries alone.
    pub fn alone(&self, way: Way) -> Option<f64> {
        match way {
            Way::Out => self.alone_out_mbps,
            Way::Back => self.alone_back_mbps,
        }
    }

    /// The same, to be entered.
    pub fn alone_mut(&mut self, way: Way) -> &mut Option<f64> {
        match way {
            Way::Out => &mut self.alone_out_mbps,
            Way::Back => &mut self.alone_back_mbps,
        }
    }

    /// Enters what was seen of it while all links were filled.
    pub fn filled(&mut self, way: Way, seen: OfLink) {
        let (wire_mbps, loss_percent) = match way {
            Way::Out => (&mut self.wire_out_mbps, &mut self.loss_out_percent),
            Way::Back => (&mut self.wire_back_mbps, &mut self.loss_back_percent),
        };
        *wire_mbps = Some(seen.wire_mbps);
        *loss_percent = seen.loss_percent();
    }
}

/// The value of a sorted list that this share of them does not exceed.
pub fn quantile<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

impl RoundTrips {
    /// Of these, in any order.
    pub fn of(mut took_us: Vec<u32>) -> RoundTrips {
        took_us.sort_unstable();
        let at = |share| (!took_us.is_empty()).then(|| quantile(&took_us, share));
        RoundTrips {
            count: took_us.len(),
            min_us: at(0.0),
            median_us: at(0.5),
            p99_us: at(0.99),
            max_us: at(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_of_many_and_of_none() {
        let many = RoundTrips::of((1..=100).rev().collect());
        assert_eq!(
            (many.count, many.min_us, many.max_us),
            (100, Some(1), Some(100))
        );
        assert_eq!((many.median_us, many.p99_us), (Some(51), Some(99)));
        assert_eq!(RoundTrips::of(Vec::new()), RoundTrips::default());
    }
}
