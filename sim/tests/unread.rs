//! Streams that nobody reads, beside one that is read.

use tabane_proto::op::Policy;
use tabane_sim::Schedule;
use tabane_sim::net::{MS, Ns, SECOND};
use tabane_sim::run::goodput_between;
use tabane_sim::workload::{Ending, Pace, Reader, StreamPlan};

/// What a stream gets that is read, in Mb/s, over two links of 1 Gb/s, beside so many that are not.
fn beside(unread: usize) -> f64 {
    let mut schedule = Schedule::quiet(2, 2);
    let stream = |start: Ns, reader, forward_bytes| StreamPlan {
        from: 0,
        to: 1,
        policy: Policy::Stripe,
        forward_bytes,
        back_bytes: 0,
        start,
        pace: Pace::Bulk,
        reader,
        ending: Ending::Finish,
    };
    let late = Reader::Late {
        since: 100 * SECOND,
    };
    let unread = (0..unread).map(|_| stream(0, late, 1 << 20));
    schedule.plan.streams.extend(unread);
    // It begins when the others stand.
    let read = stream(1500 * MS, Reader::Eager, 1 << 40);
    schedule.plan.streams.push(read);
    let span = (1700 * MS, 2200 * MS);
    let carried = goodput_between(&schedule, span, &[(0, 1)]).unwrap_or_else(|v| panic!("{v}"));
    carried[0].0 as f64 * 8e-6 / 0.5
}

#[test]
fn a_stream_that_is_read_has_the_links_however_many_are_not() {
    let alone = beside(0);
    for unread in [80, 1000] {
        let mbps = beside(unread);
        println!("{unread} unread: {mbps:.0} of {alone:.0} Mb/s");
        assert!(mbps > alone * 0.95, "{unread}: {mbps} of {alone}");
    }
}
