//! The clocks.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine was started, never going backwards.
///
/// This is `CLOCK_BOOTTIME`, which counts while the machine is suspended,
/// rather than `CLOCK_MONOTONIC`, which does not: after a suspend the peers
/// have long given us up and the session keys have aged, and with a clock that
/// slept too we would go on using both. (WireGuard ages its keys by the same
/// clock.) It costs no system call (vDSO). A process that was stopped and
/// continued sees the same jump, so a user of this clock must bear it anyway.
#[must_use]
pub fn now_ns() -> u64 {
    // Since Linux 2.6.39.
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Microseconds of `CLOCK_MONOTONIC`, the clock of systemd's `MONOTONIC_USEC=`; for
/// nothing else.
#[must_use]
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// The wall clock: milliseconds since 1970-01-01 UTC, for people and other programs alone; it may be set at any time.
#[must_use]
pub fn unix_ms() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    wall.unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::now_ns;

    #[test]
    fn time_never_goes_back_and_does_go_on() {
        let start = now_ns();
        let mut last = start;
        for _ in 0..10_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(now_ns() - start >= 2_000_000);
    }
}
