//! Faults that the simulator once found, each as a schedule of its own.

use tabane_proto::op::Policy;
use tabane_sim::net::{MS, Ns, US};
use tabane_sim::schedule::{Change, Fault, Side};
use tabane_sim::workload::{Ending, Pace, Reader, StreamPlan};
use tabane_sim::{Options, Schedule, run};

/// A stream both ways for most of a second.
fn stream() -> StreamPlan {
    StreamPlan {
        from: 0,
        to: 1,
        policy: Policy::Stripe,
        forward_bytes: 800_000,
        back_bytes: 80_000,
        start: 0,
        pace: Pace::Paced {
            bytes: 5_000,
            every_ns: 5 * MS,
        },
        reader: Reader::Eager,
        ending: Ending::Finish,
    }
}

fn passes(hosts: usize, links: usize, faults: &[(Ns, Fault)], change: impl Fn(&mut Schedule)) {
    let mut s = Schedule::quiet(hosts, links);
    s.plan.streams.push(stream());
    s.faults = faults.to_vec();
    change(&mut s);
    holds(&s);
}

fn holds(schedule: &Schedule) {
    let violation = run(schedule, &Options::default()).violation;
    assert!(violation.is_none(), "{}", violation.unwrap());
}

/// A path that wanted to send a probe had its timer due for ever while there were no keys.
#[test]
fn a_peer_that_is_not_there_keeps_nobody_busy() {
    passes(2, 2, &[], |s| s.hosts[1].start = 500 * MS);
}

/// An acknowledgement that no path could carry had its timer due for ever.
#[test]
fn an_acknowledgement_that_cannot_be_sent_keeps_nobody_busy() {
    let faults = [
        (100 * MS, Fault::Carrier(0, 0, false)),
        (400 * MS, Fault::Carrier(0, 0, true)),
    ];
    passes(2, 1, &faults, |_| {});
    passes(2, 1, &faults, |s| {
        s.hosts[1].traits.blocks_at_bytes = Some(2_000)
    });
}

/// Handshake answers went to links whose socket was blocked.
#[test]
fn handshakes_respect_blocked_links() {
    passes(4, 1, &[], |s| {
        for host in &mut s.hosts {
            host.traits.blocks_at_bytes = Some(200);
            host.wires[0].0.rate_bps = 1_000_000;
        }
    });
}

/// A link that was taken away and came back began its packet numbers anew under the
/// same keys: nonces were used twice, and the peer took the packets for replays.
#[test]
fn a_link_that_comes_back_goes_on_with_its_numbers() {
    for links in [1, 2] {
        let faults = [
            (100 * MS, Fault::Link(0, 0, false)),
            (150 * MS, Fault::Link(0, 0, true)),
            (400 * MS, Fault::Link(1, 0, false)),
            (600 * MS, Fault::Link(1, 0, true)),
        ];
        passes(2, links, &faults, |_| {});
    }
}

/// The same for a whole path that is silent in between.
#[test]
fn a_silent_switch_is_survived() {
    let faults = [
        (100 * MS, Fault::Switch(1, true)),
        (300 * MS, Fault::Switch(1, false)),
        (500 * MS, Fault::Wire(0, 0, Side::Up, Change::Dead)),
        (700 * MS, Fault::Wire(0, 0, Side::Up, Change::Restore)),
    ];
    passes(2, 2, &faults, |_| {});
}

/// A handshake of one's own, still under way when the peer's came through, went on
/// and made both begin afresh a moment later.
#[test]
fn one_handshake_that_came_through_ends_the_others() {
    let faults = [
        (0, Fault::Wire(1, 0, Side::Up, Change::Dead)),
        (250 * MS, Fault::Wire(1, 0, Side::Up, Change::Restore)),
    ];
    for drop_at in [300, 310, 320, 350, 400] {
        let mut faults = faults.to_vec();
        faults.push((
            drop_at * MS,
            Fault::Wire(0, 0, Side::Up, Change::Loss(500_000)),
        ));
        faults.push((900 * MS, Fault::Wire(0, 0, Side::Up, Change::Restore)));
        passes(2, 1, &faults, |_| {});
    }
}

/// While idle, a path that failed one way was never found out if the others needed
/// longer than a few milliseconds to answer: each time they did, it was excused.
#[test]
fn a_path_that_fails_one_way_is_found_out_while_idle() {
    for delay_us in [50, 1_000, 3_000, 10_000] {
        let fault = (1_500 * MS, Fault::Wire(0, 0, Side::Up, Change::Dead));
        passes(2, 2, &[fault], |s| {
            for wire in s.hosts.iter_mut().flat_map(|h| &mut h.wires) {
                wire.0.delay_ns = delay_us * US;
                wire.1.loss_ppm = 10_000;
            }
        });
    }
}

/// The first answers on a path tell nothing of its queue. That passed for a long one, and a link of 1 Gb/s with 40 ms
/// there and back for one of 3 Mb/s.
#[test]
fn a_queue_that_is_not_known_is_none() {
    holds(&Schedule::draw(2662));
}

/// While the near path's socket took nothing, a frame went by one that had become 90 ms long.
#[test]
fn a_frame_may_stray_to_a_far_path_while_the_near_one_is_blocked() {
    holds(&Schedule::draw(710_107));
}

/// A path of 1 Gb/s that had failed was good for 2 kB/s, and owed for what had been urgent before: seconds of silence.
#[test]
fn what_a_failed_path_owes_is_paid_in_time() {
    holds(&Schedule::draw(937_792));
}

/// What the true host had sent to one that stood still was taken for what the impostor in its place said.
#[test]
fn what_waits_for_a_host_to_go_on_is_of_who_sent_it() {
    for step in 0..40 {
        let mut s = Schedule::quiet(2, 1);
        s.identities = vec![true; 2];
        s.faults = vec![
            (step * 50 * US, Fault::Pause(0)),
            (500 * MS, Fault::Impostor(1, true)),
            (600 * MS, Fault::Resume(0)),
            (900 * MS, Fault::Crash(1)),
            (950 * MS, Fault::Start(1)),
        ];
        holds(&s);
    }
}
