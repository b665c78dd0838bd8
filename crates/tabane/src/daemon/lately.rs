//! By how much counters have grown lately: what was counted long ago is no news.

use core::time::Duration;
use std::collections::BTreeMap;

use tabane_proto::Time;

use crate::status::NodeStatus;

/// Growth is that of the last one to two of these. The daemon reports to itself once a minute, so none is missed.
const EPOCH: Duration = Duration::from_secs(300);

type Counts = BTreeMap<String, u64>;

/// The counters of `limits_hit` and `dropped`, as they were.
#[derive(Debug)]
pub(super) struct Lately {
    limits_hit: Growth,
    dropped: Growth,
}

/// Counters at the beginning of this epoch, and of the one before.
#[derive(Debug, Default)]
struct Growth {
    epochs: Vec<(Time, Counts)>,
}

impl Lately {
    /// A node that starts hits no limit, but drops some datagrams: peers call before it knows them. These are not told.
    pub fn new(now: Time) -> Lately {
        let none = (now, Counts::default());
        Lately {
            limits_hit: Growth { epochs: vec![none] },
            dropped: Growth::default(),
        }
    }

    /// Enters into a report by how much its counters have grown.
    pub fn note(&mut self, now: Time, node: &mut NodeStatus) {
        node.limits_hit_lately = self.limits_hit.of(now, &node.limits_hit);
        node.dropped_lately = self.dropped.of(now, &node.dropped);
    }
}

impl Growth {
    /// By how much each of `counts` has grown; those that have not are left out.
    fn of(&mut self, now: Time, counts: &Counts) -> Counts {
        let is_over = |(began, _): &(Time, Counts)| now.since(*began) >= EPOCH;
        if self.epochs.last().is_none_or(is_over) {
            self.epochs.push((now, counts.clone()));
        }
        if self.epochs.len() > 2 {
            self.epochs.remove(0);
        }
        let Some((_, before)) = self.epochs.first() else {
            return Counts::default();
        };
        let grown = counts.iter().map(|(name, count)| {
            let before = before.get(name).copied().unwrap_or_default();
            (name.clone(), count.saturating_sub(before))
        });
        grown.filter(|(_, grown)| *grown > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(full: u64) -> Counts {
        [("full".to_owned(), full)].into()
    }

    /// What it says at these seconds of a counter that stands at so much then.
    fn told(growth: &mut Growth, at: &[(u64, u64)]) -> Vec<u64> {
        let of = |(seconds, full): &(u64, u64)| {
            let grown = growth.of(Time::from_ms(seconds * 1000), &counts(*full));
            grown.get("full").copied().unwrap_or_default()
        };
        at.iter().map(of).collect()
    }

    #[test]
    fn what_grew_is_told_until_that_is_long_ago() {
        let mut growth = Growth {
            epochs: vec![(Time::ZERO, Counts::default())],
        };
        let at = [
            (10, 3),
            (60, 5),
            (299, 5),
            (360, 5),
            (600, 7),
            (660, 7),
            (1300, 7),
        ];
        assert_eq!(told(&mut growth, &at), [3, 5, 5, 5, 7, 2, 0]);
    }

    #[test]
    fn what_was_there_before_the_first_report_is_not_told() {
        assert_eq!(told(&mut Growth::default(), &[(2, 9), (3, 10)]), [0, 1]);
    }
}
