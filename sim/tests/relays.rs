//! Hosts that share no link that works go on through others.

use tabane_proto::op::Policy;
use tabane_sim::check::Rule;
use tabane_sim::mutant::Mutant;
use tabane_sim::net::{MS, Ns, SECOND};
use tabane_sim::run::run_until;
use tabane_sim::schedule::{Change, Fault, Side};
use tabane_sim::workload::{Ending, FlowPlan, Pace, Reader, StreamPlan, UnitKind};
use tabane_sim::{Options, Schedule, run};

/// Messages and frames both ways between host 0 and 1, and a stream each way, until `end`. In the clear, so that it is
/// seen what is relayed.
fn busy(hosts: usize, end: Ns) -> Schedule {
    let mut s = Schedule::quiet(hosts, 2);
    for (from, to) in [(0, 1), (1, 0)] {
        s.plan.streams.push(StreamPlan {
            from,
            to,
            policy: Policy::Stripe,
            forward_bytes: 20_000 * end / (5 * MS),
            back_bytes: 0,
            start: 0,
            pace: Pace::Paced {
                bytes: 20_000,
                every_ns: 5 * MS,
            },
            reader: Reader::Eager,
            ending: Ending::Finish,
        });
        for kind in [UnitKind::Message, UnitKind::Frame] {
            s.plan.flows.push(FlowPlan {
                kind,
                from,
                to,
                flow: s.plan.flows.len() as u32,
                tagged: false,
                policy: Policy::Stripe,
                count: (end / (2 * MS)) as u32,
                bytes_min: 100,
                bytes_max: 3_000,
                start: 0,
                every_ns: 2 * MS,
                window_bytes: u64::MAX,
            });
        }
    }
    s
}

/// Link 0 of host 0 and link 1 of host 1 are silent.
fn crosswise(s: &mut Schedule, at: Ns, heals_at: Option<Ns>) {
    for host in [0, 1] {
        let wire = |change| Fault::Wire(host, host, Side::Both, change);
        s.faults.push((at, wire(Change::Dead)));
        s.faults
            .extend(heals_at.map(|at| (at, wire(Change::Restore))));
    }
    s.faults.sort_by_key(|(at, _)| *at);
}

#[test]
fn what_flows_goes_on_through_a_third_host_when_links_fail_crosswise() {
    let mut s = busy(3, 3 * SECOND);
    crosswise(&mut s, SECOND, Some(2 * SECOND));
    let passed = run_until(&s, 4 * SECOND).expect("nothing is wrong");
    assert!(passed.longest_wait < 150 * MS, "{passed:?}");
    assert_eq!(run(&s, &Options::default()).violation, None);
}

#[test]
fn hosts_that_never_shared_a_link_connect_through_a_third_one() {
    let mut s = busy(3, 2 * SECOND);
    s.encrypted = true;
    crosswise(&mut s, 0, Some(3 * SECOND));
    s.plan.streams.clear();
    let passed = run_until(&s, 2 * SECOND).expect("nothing is wrong");
    assert!(passed.longest_wait < 500 * MS, "{passed:?}");
    assert_eq!(run(&s, &Options::default()).violation, None);
}

#[test]
fn another_relay_takes_over_when_one_is_killed() {
    for killed in [2, 3] {
        let mut s = busy(4, 3 * SECOND);
        crosswise(&mut s, SECOND, Some(5 * SECOND));
        s.faults.push((2 * SECOND, Fault::Crash(killed)));
        s.faults.push((4 * SECOND, Fault::Start(killed)));
        s.faults.sort_by_key(|(at, _)| *at);
        let passed = run_until(&s, 4 * SECOND).expect("nothing is wrong");
        assert!(passed.longest_wait < 150 * MS, "{killed}: {passed:?}");
        assert_eq!(run(&s, &Options::default()).violation, None);
    }
}

#[test]
fn a_host_that_ends_says_so_through_a_third_one() {
    let mut s = busy(3, 2 * SECOND);
    crosswise(&mut s, SECOND, None);
    s.closes = Some(0);
    assert_eq!(run(&s, &Options::default()).violation, None);
    let mutant = Some((0, Mutant::LeaveUnsaid));
    let options = Options {
        mutant,
        ..Options::default()
    };
    let unsaid = run(&s, &options).violation.expect("is noticed");
    assert_eq!(unsaid.rule, Rule::Farewell);
    assert!(unsaid.what.starts_with("host 1 was not told"), "{unsaid}");
}

/// Hosts in a line, of which each reaches the next one only.
#[test]
fn a_way_leads_through_two_hosts_if_it_must() {
    let mut s = busy(4, 2 * SECOND);
    // 0 - 2 - 3 - 1
    let apart = [(0, 1), (0, 3), (1, 2)];
    for link in 0..2 {
        for (a, b) in apart.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]) {
            s.faults.push((SECOND, Fault::Cut(link, (a, b), true)));
            s.faults.push((3 * SECOND, Fault::Cut(link, (a, b), false)));
        }
    }
    s.faults.sort_by_key(|(at, _)| *at);
    let passed = run_until(&s, 3 * SECOND).expect("nothing is wrong");
    assert!(passed.longest_wait < 500 * MS, "{passed:?}");
    assert_eq!(run(&s, &Options::default()).violation, None);
}
