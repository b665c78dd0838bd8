//! Draws what the applications do: little enough that ten thousand runs are quick,
//! spread over the time in which faults happen.

use crate::net::{MS, Ns};
use crate::random::Random;
use crate::workload::{
    Ending, FlowPlan, Pace, Plan, Reader, StreamPlan, TransferPlan, UNIT_HEADER_BYTES, UnitKind,
};
use tabane_proto::LinkId;
use tabane_proto::op::Policy;

const KB: u64 = 1024;

/// The work of `hosts` hosts on links of which the slowest has this rate.
pub fn draw(r: &mut Random, hosts: usize, slowest_bps: u64) -> Plan {
    let mut plan = Plan::default();
    let items = r.between(1, 5);
    // At most about a second on the slowest link, and never more than this.
    let budget = (slowest_bps / 8 / items).min(600 * KB);
    for _ in 0..items {
        let (from, to) = two_of(r, hosts);
        if r.percent(50) {
            plan.streams.push(stream(r, from, to, budget));
        } else {
            let flow = plan.flows.len() as u32;
            plan.flows.push(flow_plan(r, from, to, flow, budget));
        }
    }
    if r.percent(10) {
        let flow = plan.flows.len() as u32;
        plan.flows.push(small_and_many(r, flow, slowest_bps));
    }
    if r.percent(8) {
        unread(r, hosts, budget, &mut plan);
    }
    plan
}

/// Small units, one by one, faster than the slowest link carries them: nothing is ever queued that looks like bulk.
fn small_and_many(r: &mut Random, flow: u32, slowest_bps: u64) -> FlowPlan {
    let bytes = r.pick(&[300, 1_000, 1_400]);
    let times = r.pick(&[1, 2, 4, 10]);
    FlowPlan {
        kind: r.pick(&[UnitKind::Frame, UnitKind::Message]),
        from: 0,
        to: 1,
        flow,
        tagged: false,
        policy: policy(r),
        count: r.between(100, 600) as u32,
        bytes_min: bytes,
        bytes_max: bytes,
        start: start(r),
        every_ns: u64::from(bytes) * 8 * 1_000_000_000 / slowest_bps / times,
        window_bytes: u64::MAX,
    }
}

/// Hundreds of streams that nobody reads for a while, and one beside them that is read.
fn unread(r: &mut Random, hosts: usize, budget: u64, plan: &mut Plan) {
    let (from, to) = two_of(r, hosts);
    let (count, start) = (r.between(100, 400), start(r));
    let since = start + r.between(500, 2000) * MS;
    let late = StreamPlan {
        from,
        to,
        policy: Policy::Stripe,
        // Together they would fill a small window, and more than is kept to be sent.
        forward_bytes: (r.pick(&[1, 2, 5]) * budget / count).max(100),
        back_bytes: 0,
        start,
        pace: Pace::Bulk,
        reader: Reader::Late { since },
        ending: Ending::Finish,
    };
    plan.streams.extend((0..count).map(|_| late));
    plan.streams.push(StreamPlan {
        forward_bytes: budget,
        back_bytes: budget / 10,
        start: start + r.below(500) * MS,
        reader: Reader::Eager,
        ..late
    });
}

/// So many streams: some from the start, the others over the time in which faults happen. Each way they
/// have at most what the slowest link carries in a second, or 16 bytes each if that is more.
pub fn crowd(
    r: &mut Random,
    hosts: usize,
    slowest_bps: u64,
    count: usize,
) -> impl Iterator<Item = StreamPlan> {
    let budget = (slowest_bps / 8 / count.max(1) as u64).clamp(16, 64 * KB);
    (0..count).map(move |_| {
        let (from, to) = two_of(r, hosts);
        stream(r, from, to, budget)
    })
}

/// Puts and gets between some hosts' memories.
pub fn transfers(r: &mut Random, hosts: usize, slowest_bps: u64) -> Vec<TransferPlan> {
    if !r.percent(35) {
        return Vec::new();
    }
    let count = r.pick(&[1, 3, 10, 60]);
    let budget = (slowest_bps / 8 / count).min(600 * KB);
    let one = |_| {
        let (from, to) = two_of(r, hosts);
        TransferPlan {
            from,
            to,
            is_put: r.percent(50),
            bytes: pick_bytes(r, budget),
            start: start(r) + r.below(600) * MS,
        }
    };
    (0..count).map(one).collect()
}

/// Two of so many hosts.
fn two_of(r: &mut Random, hosts: usize) -> (usize, usize) {
    let from = r.below(hosts as u64) as usize;
    let to = (from + 1 + r.below(hosts as u64 - 1) as usize) % hosts;
    (from, to)
}

fn policy(r: &mut Random) -> Policy {
    // One link is not there in most schedules.
    let link = LinkId(r.below(3) as u8);
    r.pick(&[
        Policy::Stripe,
        Policy::Stripe,
        Policy::Mirror,
        Policy::Auto,
        Policy::Link(link),
    ])
}

fn stream(r: &mut Random, from: usize, to: usize, budget: u64) -> StreamPlan {
    let forward_bytes = pick_bytes(r, budget);
    let back_bytes = if r.percent(50) {
        pick_bytes(r, budget)
    } else {
        0
    };
    let largest = forward_bytes.max(back_bytes).max(1);
    // Spread over up to a second and a half.
    let pace = if r.percent(40) {
        Pace::Bulk
    } else {
        let every_ns = r.pick(&[MS, 5 * MS, 20 * MS]);
        let steps = r.between(200 * MS, 1500 * MS) / every_ns;
        Pace::Paced {
            bytes: largest.div_ceil(steps),
            every_ns,
        }
    };
    let reader = if r.percent(80) {
        Reader::Eager
    } else {
        let every_ns = r.pick(&[MS, 10 * MS]);
        Reader::Slow {
            bytes: (largest * every_ns / (800 * MS)).max(512),
            every_ns,
        }
    };
    let after_bytes = r.below(forward_bytes + 1);
    let ending = match r.below(10) {
        0 => Ending::Reset { after_bytes },
        1 => Ending::Stop { after_bytes },
        _ => Ending::Finish,
    };
    StreamPlan {
        from,
        to,
        policy: policy(r),
        forward_bytes,
        back_bytes,
        start: start(r),
        pace,
        reader,
        ending,
    }
}

/// Often little, seldom all.
fn pick_bytes(r: &mut Random, budget: u64) -> u64 {
    let most = r.pick(&[1, 100, 5_000, budget / 4, budget / 2, budget]);
    r.between(1, most.clamp(1, budget.max(1)))
}

fn start(r: &mut Random) -> Ns {
    r.pick(&[0, 0, 20, 100, 300]) * MS + r.below(50) * MS
}

fn flow_plan(r: &mut Random, from: usize, to: usize, flow: u32, budget: u64) -> FlowPlan {
    let kind = r.pick(&[UnitKind::Frame, UnitKind::Message]);
    let most = r
        .pick(&[64, 1_500, 1_500, 9_000, 64_000])
        .min(budget / 4)
        .max(64);
    let least = if r.percent(50) {
        most
    } else {
        UNIT_HEADER_BYTES as u64
    };
    let count = (budget / ((most + least) / 2)).clamp(1, 400);
    let span = r.pick(&[1, 100 * MS, 500 * MS, 1500 * MS]);
    FlowPlan {
        kind,
        from,
        to,
        flow,
        tagged: r.percent(50),
        policy: policy(r),
        count: count as u32,
        bytes_min: least as u32,
        bytes_max: most as u32,
        start: start(r),
        every_ns: span / count,
        window_bytes: u64::MAX,
    }
}
