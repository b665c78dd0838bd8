//! Time as an argument. The protocol never reads a clock.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// Times below this are not told apart (RFC 9002 section 6.1.2, kGranularity): a process wakes up this late, and the
/// backlogs of several processors reorder packets by this much.
pub const GRANULARITY: Duration = Duration::from_millis(1);

/// `duration` `times` times.
pub(crate) const fn times(duration: Duration, times: u32) -> Duration {
    Duration::from_nanos(duration.as_nanos() as u64 * times as u64)
}
/// `duration` divided by `by`.
pub(crate) const fn part(duration: Duration, by: u32) -> Duration {
    Duration::from_nanos(duration.as_nanos() as u64 / by as u64)
}

/// A point in time, in nanoseconds since an origin that the driver chooses.
///
/// Only differences matter. The driver must never let it run backwards; if it
/// does, differences saturate at zero instead of wrapping.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The driver's origin.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const NEVER: Time = Time(u64::MAX);

    /// The point `ns` nanoseconds after the origin.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns)
    }

    /// The point `us` microseconds after the origin.
    pub const fn from_us(us: u64) -> Time {
        Time(us.saturating_mul(1_000))
    }

    /// The point `ms` milliseconds after the origin.
    pub const fn from_ms(ms: u64) -> Time {
        Time(ms.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Microseconds since the origin, modulo 2^32: for the peer, who has another origin.
    pub const fn as_us_wrapping(self) -> u32 {
        (self.0 / 1_000) as u32
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(
            self.0
                .saturating_add(d.as_nanos().min(u64::MAX as u128) as u64),
        )
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, d: Duration) -> Time {
        Time(
            self.0
                .saturating_sub(d.as_nanos().min(u64::MAX as u128) as u64),
        )
    }
}

impl Sub<Time> for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}ms", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
