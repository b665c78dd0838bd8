//! A failover to look at: one stream over two equal links, and the switch of one falls silent under it.

use crate::bulk::STREAM;
use crate::net::{MS, Ns, SECOND};
use crate::schedule::{Fault, Schedule};
use crate::workload::StreamPlan;

/// When the switch falls silent.
pub const FAILS_AT: Ns = 300 * MS;
/// When it passes packets again.
pub const HEALS_AT: Ns = 800 * MS;
/// The link that it joins.
pub const LINK: usize = 1;
/// Of each link, in bits per second: slow, so that there are not too many packets to look at.
const RATE_BPS: u64 = 50_000_000;

/// One link alone would be busy with the stream for so long.
const BUSY_NS: Ns = 1500 * MS;

/// The schedule.
pub fn schedule() -> Schedule {
    let mut schedule = Schedule::quiet(2, 2);
    for (up, down) in schedule.hosts.iter_mut().flat_map(|host| &mut host.wires) {
        up.rate_bps = RATE_BPS;
        down.rate_bps = RATE_BPS;
    }
    let forward_bytes = RATE_BPS / 8 * BUSY_NS / SECOND;
    schedule.plan.streams.push(StreamPlan {
        forward_bytes,
        ..STREAM
    });
    schedule.faults = vec![
        (FAILS_AT, Fault::Switch(LINK, true)),
        (HEALS_AT, Fault::Switch(LINK, false)),
    ];
    schedule
}
