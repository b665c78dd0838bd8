//! Measurements between pairs of nodes.

/// More is as good as this, in µs: an hour.
const LEAST_MAX_US: f64 = 3.6e9;
/// A pair that failed this often is not asked again.
pub(super) const LOST_MAX: u8 = 3;

/// The least round trip of a pair so far.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Least {
    /// In µs; meaningless while `times` is 0.
    pub us: f32,
    /// How often it was measured.
    pub times: u8,
    /// How often there was no answer.
    pub lost: u8,
}

/// For each node its pairs, ordered by the other node.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    of: Vec<Vec<(u16, Least)>>,
}

impl Pairs {
    pub fn new(nodes: usize) -> Pairs {
        Pairs {
            of: vec![Vec::new(); nodes],
        }
    }

    /// Records a measurement, in ns; `None`: nothing came back. The least one is kept.
    pub fn record(&mut self, one: usize, other: usize, least_ns: Option<u64>) {
        let us = least_ns.map(|ns| (ns as f64 / 1e3).min(LEAST_MAX_US) as f32);
        for (a, b) in [(one, other), (other, one)] {
            let entries = &mut self.of[a];
            let none = Least {
                us: f32::MAX,
                times: 0,
                lost: 0,
            };
            let at = match entries.binary_search_by_key(&(b as u16), |e| e.0) {
                Ok(at) => at,
                Err(at) => {
                    entries.insert(at, (b as u16, none));
                    at
                }
            };
            let least = &mut entries[at].1;
            match us {
                Some(us) => {
                    least.us = least.us.min(us);
                    least.times = least.times.saturating_add(1);
                }
                None => least.lost = least.lost.saturating_add(1),
            }
        }
    }

    /// The measurements of a pair.
    pub fn get(&self, one: usize, other: usize) -> Option<Least> {
        let entries = &self.of[one];
        let at = entries.binary_search_by_key(&(other as u16), |e| e.0);
        at.ok().map(|at| entries[at].1)
    }

    /// The nodes that one was measured with.
    pub fn measured(&self, node: usize) -> impl Iterator<Item = (usize, Least)> + '_ {
        let entries = self.of[node].iter().filter(|e| e.1.times > 0);
        entries.map(|&(other, least)| (usize::from(other), least))
    }

    /// Every measured pair once.
    pub fn all(&self) -> impl Iterator<Item = (usize, usize, Least)> + '_ {
        (0..self.of.len()).flat_map(move |one| {
            let measured = self.measured(one).filter(move |m| one < m.0);
            measured.map(move |(other, least)| (one, other, least))
        })
    }
}
