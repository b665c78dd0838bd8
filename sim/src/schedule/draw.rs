//! Draws the network and the hosts.

use super::{HostPlan, Schedule, Size, draw_faults, draw_identity, draw_plan, draw_reload};
use crate::host::HostTraits;
use crate::net::{Conditions, MS, Ns, SECOND, US};
use crate::random::Random;
use tabane_proto::CongestionControl;
use tabane_proto::op::OpLimits;

const MBIT: u64 = 1_000_000;
const KB: u64 = 1024;

/// Everything, from the seed; but of this size.
pub fn draw(seed: u64, size: Size) -> Schedule {
    let mut r = Random::new(seed);
    let drawn = r.pick(&[2, 2, 2, 2, 3, 4]);
    let hosts = size.hosts.unwrap_or(drawn);
    let links = r.pick(&[1, 2, 2, 2, 2, 3, 4]);
    let mut wires = r.fork(1);
    let mut links_plan: Vec<Conditions> = (0..links).map(|_| draw_link(&mut wires)).collect();
    if hosts > FEW {
        links_plan.iter_mut().for_each(carry_many);
    }
    let mut each = r.fork(2);
    let hosts: Vec<HostPlan> = (0..hosts)
        .map(|_| draw_host(&mut each, &links_plan))
        .collect();
    let slowest = links_plan.iter().map(|c| c.rate_bps).min().unwrap_or(MBIT);
    let mut schedule = Schedule {
        seed,
        links,
        congestion: CongestionControl::default(),
        bundles_max: None,
        encrypted: r.percent(50),
        identities: vec![false; hosts.len()],
        op_limits: draw_limits(&mut r),
        faults: Vec::new(),
        attack_every_ns: r.percent(30).then(|| r.pick(&[MS, 5 * MS, 30 * MS])),
        plan: draw_plan::draw(&mut r.fork(3), hosts.len(), slowest),
        closes: r.percent(20).then(|| r.below(hosts.len() as u64) as usize),
        hosts,
    };
    schedule.faults = draw_faults::draw(&mut r.fork(4), &schedule);
    let changes = draw_reload::draw(&mut r.fork(5), &schedule);
    schedule.faults.extend(changes);
    draw_identity::draw(&mut r.fork(6), &mut schedule);
    let apart = draw_faults::apart(&mut r.fork(9), &schedule);
    schedule.faults.extend(apart);
    schedule.faults.sort_by_key(|(at, _)| *at);
    let mut crowd = r.fork(7);
    let crowd = draw_plan::crowd(&mut crowd, schedule.hosts.len(), slowest, size.streams);
    schedule.plan.streams.extend(crowd);
    let count = schedule.hosts.len();
    schedule.plan.transfers = draw_plan::transfers(&mut r.fork(8), count, slowest);
    schedule
}

/// With more hosts than this on a link it is not slow: the probes of all would be all that it carries.
const FEW: usize = 8;

fn carry_many(link: &mut Conditions) {
    link.rate_bps = link.rate_bps.max(100 * MBIT);
    link.queue_bytes = link.queue_bytes.max(512 * KB);
}

/// A link as all hosts have it at the start: mostly a good LAN.
fn draw_link(r: &mut Random) -> Conditions {
    let rate = r.pick(&[10, 50, 100, 100, 250, 1000, 1000, 1000, 10_000]) * MBIT;
    let delay = r.pick(&[
        5 * US,
        20 * US,
        50 * US,
        50 * US,
        200 * US,
        MS,
        3 * MS,
        10 * MS,
    ]);
    // What waits at most takes 2 to 50 ms.
    let wait = r.pick(&[2 * MS, 10 * MS, 50 * MS]);
    let queue = (rate / 8 * wait / SECOND).clamp(24 * KB, 4096 * KB);
    let mut c = Conditions::clean(rate, delay, queue);
    c.burst_bytes = r.pick(&[1538, 16 * KB, 128 * KB]);
    if r.percent(15) {
        c.loss_ppm = r.pick(&[1_000, 10_000, 50_000, 150_000]);
    }
    if r.percent(10) {
        c.jitter_ns = r.pick(&[20 * US, 200 * US, MS]);
        c.reorders = r.percent(60);
    }
    if r.percent(5) {
        c.duplicate_ppm = r.pick(&[1_000, 50_000]);
    }
    if r.percent(5) {
        c.corrupt_ppm = r.pick(&[1_000, 20_000]);
    }
    // One in twelve is narrow.
    c.datagram_bytes_max = r.pick(&[
        1472, 1472, 1472, 1472, 1472, 1472, 1400, 1232, 1232, 8972, 8972, 700,
    ]);
    c
}

fn draw_host(r: &mut Random, links: &[Conditions]) -> HostPlan {
    let traits = HostTraits {
        wake_ns: r.pick(&[0, 5 * US, 20 * US, 60 * US]),
        timer_slack_ns: r.pick(&[1, 50 * US, 100 * US, MS]),
        socket_bytes: r.pick(&[256, 1024, 8192]) * KB as usize,
        batch: r.pick(&[1, 16, 64]),
        blocks_at_bytes: r.percent(30).then(|| r.pick(&[8 * KB, 16 * KB])),
    };
    HostPlan {
        // They may be decades apart: nobody sets them.
        clock_ns: r.below(1_000_000) * 1_000 * SECOND,
        clock_ppm: r.between(0, 400) as i64 - 200,
        start: if r.percent(70) { 0 } else { r.below(200) * MS },
        traits,
        wires: links.iter().map(|c| (*c, *c)).collect(),
        datagram_bytes_max: links.iter().map(|c| interface(r, c)).collect(),
    }
}

/// What the interface says it takes; the path may carry less.
fn interface(r: &mut Random, c: &Conditions) -> u16 {
    let path = c.datagram_bytes_max;
    if r.percent(80) {
        path.max(1472) as u16
    } else {
        r.pick(&[1232, 1472, 8972])
    }
}

fn draw_limits(r: &mut Random) -> OpLimits {
    let mut limits = OpLimits::default();
    if r.percent(40) {
        let kb = KB as usize;
        limits.stream_send_bytes = r.pick(&[64, 256, 1024]) * kb;
        limits.streams_send_bytes = limits.stream_send_bytes * 4;
        limits.frame_queue_bytes = r.pick(&[64, 512]) * kb;
        limits.frame_held_bytes = 4096 * kb;
        limits.frame_reassembly_bytes = 4096 * kb;
        limits.message_queue_bytes = 2048 * kb;
        limits.bundle_window_bytes = 2048 * KB;
        limits.pool_bytes = 512 * kb;
    }
    limits
}

/// The length of the run's eventful part.
pub(super) fn eventful_ns(r: &mut Random) -> Ns {
    r.pick(&[300 * MS, 600 * MS, 1200 * MS, 2500 * MS])
}
