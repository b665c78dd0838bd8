//! How much was carried lately.

use core::time::Duration;

use crate::Time;

/// Half-life of the weight of carried bytes.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// More halvings than this leave nothing.
const HALVINGS_MAX: u128 = 63;

/// Carried bytes, weighted so that older ones count less.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lately {
    bytes: u64,
    /// As of this time.
    at: Time,
}

impl Lately {
    pub const fn new(now: Time) -> Lately {
        Lately { bytes: 0, at: now }
    }

    pub fn bytes(&self, now: Time) -> u64 {
        let halvings = now.since(self.at).as_nanos() / HALF_LIFE.as_nanos();
        self.bytes >> halvings.min(HALVINGS_MAX)
    }

    /// So many more were carried. Returns how many that are now.
    pub fn add(&mut self, now: Time, bytes: u64) -> u64 {
        let lately = self.bytes(now).saturating_add(bytes);
        let halves = now.since(self.at) >= HALF_LIFE;
        *self = Lately {
            bytes: lately,
            at: if halves { now } else { self.at },
        };
        lately
    }
}
