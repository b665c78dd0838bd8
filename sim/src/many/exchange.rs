//! How long nodes take that all have something for each other, over trunks, with few bundles and with all (paper 002, figure 5).

use core::fmt;
use std::time::Duration;

use super::{Layout, Many};
use crate::random::Random;

/// All are there and settled after this.
const SETTLED: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(120);

/// Who has something for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Everybody for everybody.
    All,
    /// Everybody for those beside it in a grid of two dimensions, and 2% of all pairs.
    Halo,
}

impl Pattern {
    /// Who sends to whom.
    fn pairs(self, nodes: usize) -> Vec<(usize, usize)> {
        match self {
            // In the order in which MPI goes: whom comes first is another one for each.
            Pattern::All => (0..nodes)
                .flat_map(|from| (1..nodes).map(move |n| (from, (from + n) % nodes)))
                .collect(),
            Pattern::Halo => {
                let mut random = Random::new(nodes as u64);
                let mut other = |from| (from + 1 + random.below(nodes as u64 - 1) as usize) % nodes;
                let side = (nodes as f64).sqrt() as usize;
                let beside = [1, nodes - 1, side, nodes - side];
                let near = (0..nodes).flat_map(|from| beside.map(|by| (from, (from + by) % nodes)));
                let far = (0..nodes * nodes / 50).map(|n| (n % nodes, other(n % nodes)));
                let mut pairs: Vec<_> = near.chain(far).collect();
                pairs.sort_unstable();
                pairs.dedup();
                pairs
            }
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged {
    /// Until the last message was there; `None`: it was not within two minutes.
    pub time: Option<Duration>,
    /// Bundles over links, the most that a node had.
    pub direct_max: usize,
    /// Datagrams that were dropped.
    pub lost: u64,
    /// Datagrams that nodes sent, for each that the messages fill.
    pub sent: f64,
}

/// Lets them exchange messages of so many bytes, `rounds` times: in the first one nobody knows yet who needs what.
pub fn exchange(
    layout: Layout,
    bundles_max: Option<u16>,
    pattern: Pattern,
    (bytes, rounds): (usize, usize),
) -> Vec<Exchanged> {
    let nodes = layout.switches * layout.nodes_each;
    let mut many = Many::on(layout, bundles_max);
    many.run(Duration::from_secs(1));
    many.tell_switches(1, |host| (host / layout.nodes_each) as u16);
    many.run(SETTLED);
    let pairs = pattern.pairs(nodes);
    let data = vec![7; bytes];
    let mut all = Vec::new();
    for round in 1..=rounds {
        let (began, sent, lost) = (many.age(), many.sent, many.lost());
        for &(from, to) in &pairs {
            assert!(many.message(from, to, &data), "there is room");
        }
        let wanted = (round * pairs.len()) as u64;
        let time = loop {
            many.run(LOOK_EVERY);
            if (0..nodes).map(|host| many.messages(host)).sum::<u64>() == wanted {
                break Some(many.age() - began);
            }
            if many.age() - began > PATIENCE {
                break None;
            }
        };
        let filled = pairs.len() as f64 * bytes as f64 / 1400.0;
        all.push(Exchanged {
            time,
            direct_max: (0..nodes)
                .map(|host| many.direct_max(host))
                .max()
                .unwrap_or(0),
            lost: many.lost() - lost,
            sent: (many.sent - sent) as f64 / filled,
        });
    }
    all
}

impl fmt::Display for Exchanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.time {
            Some(time) => write!(f, "{} ms", time.as_millis())?,
            None => write!(f, "not within {} s", PATIENCE.as_secs())?,
        }
        let Exchanged {
            direct_max,
            lost,
            sent,
            ..
        } = self;
        write!(
            f,
            " ({direct_max} bundles at most, {lost} dropped, {sent:.2} datagrams for one)"
        )
    }
}
