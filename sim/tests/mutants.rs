//! Each checker catches a protocol that is broken in its way, and none complains
//! about the same run without the breakage.

use tabane_proto::op::Policy;
use tabane_sim::check::Rule;
use tabane_sim::mutant::Mutant;
use tabane_sim::net::MS;
use tabane_sim::schedule::{Change, Fault, Side};
use tabane_sim::workload::{Ending, FlowPlan, Pace, Reader, StreamPlan, TransferPlan, UnitKind};
use tabane_sim::{Options, Schedule, run};

/// Two hosts on two good links, with some of everything for a second and a half: beyond the
/// moment from which a link may not be said to have failed. Then host 1 ends in order.
fn schedule() -> Schedule {
    let mut s = Schedule::quiet(2, 2);
    s.closes = Some(1);
    for (from, to) in [(0, 1), (1, 0)] {
        s.plan.streams.push(StreamPlan {
            from,
            to,
            policy: Policy::Stripe,
            forward_bytes: 500_000,
            back_bytes: 100_000,
            start: 0,
            pace: Pace::Paced {
                bytes: 5_000,
                every_ns: 5 * MS,
            },
            reader: Reader::Eager,
            ending: Ending::Finish,
        });
        for is_put in [true, false] {
            s.plan.transfers.push(TransferPlan {
                from,
                to,
                is_put,
                bytes: 50_000,
                start: 0,
            });
        }
        for kind in [UnitKind::Frame, UnitKind::Message] {
            s.plan.flows.push(FlowPlan {
                kind,
                from,
                to,
                flow: s.plan.flows.len() as u32,
                tagged: true,
                policy: Policy::Stripe,
                count: 300,
                bytes_min: 100,
                bytes_max: 4_000,
                start: 0,
                every_ns: 5 * MS,
                window_bytes: u64::MAX,
            });
        }
    }
    s
}

/// For a while somebody else runs in the place of host 0, which has a public key.
fn posing() -> Schedule {
    let mut s = Schedule::quiet(2, 2);
    s.identities = vec![true; 2];
    for (at, has_key) in [(200, true), (1_500, false)] {
        s.faults.push((at * MS, Fault::Impostor(0, has_key)));
        s.faults.push(((at + 1_200) * MS, Fault::Crash(0)));
        s.faults.push(((at + 1_200) * MS, Fault::Start(0)));
    }
    s
}

/// From the beginning hosts 0 and 2 share no link that works; host 1 reaches both.
fn crosswise() -> Schedule {
    let mut s = schedule();
    let hosts = Schedule::quiet(3, 2);
    (s.hosts, s.identities) = (hosts.hosts, hosts.identities);
    s.closes = None;
    for (host, link) in [(0, 0), (2, 1)] {
        let dead = Fault::Wire(host, link, Side::Both, Change::Dead);
        s.faults.push((500 * MS, dead));
        let restored = Fault::Wire(host, link, Side::Both, Change::Restore);
        s.faults.push((3_000 * MS, restored));
    }
    s.faults.sort_by_key(|(at, _)| *at);
    for flow in &mut s.plan.flows {
        (flow.from, flow.to) = (flow.from * 2, flow.to * 2);
    }
    s
}

/// More hosts than each may have bundles over links with.
fn crowded() -> Schedule {
    let mut s = schedule();
    let hosts = Schedule::quiet(12, 2);
    (s.hosts, s.identities) = (hosts.hosts, hosts.identities);
    s.bundles_max = Some(5);
    s.closes = None;
    s.plan.transfers.clear();
    for flow in &mut s.plan.flows {
        (flow.from, flow.to) = (flow.from * 11, flow.to * 11);
    }
    s
}

/// The rule that a mutant on host 1 is seen to break.
fn broken_by(mutant: Option<Mutant>) -> Option<Rule> {
    let options = Options {
        mutant: mutant.map(|mutant| (1, mutant)),
        ..Options::default()
    };
    let schedule = match mutant {
        Some(Mutant::TrustAnybody) => posing(),
        Some(Mutant::RelayNothing | Mutant::RelayTwice) => crosswise(),
        Some(Mutant::KeepAll) => crowded(),
        _ => schedule(),
    };
    run(&schedule, &options).violation.map(|v| v.rule)
}

#[test]
fn without_a_mutant_nothing_is_wrong() {
    assert_eq!(broken_by(None), None);
    for schedule in [posing(), crosswise(), crowded()] {
        let outcome = run(&schedule, &Options::default());
        assert_eq!(outcome.violation, None);
    }
}

#[test]
fn every_checker_catches_what_it_is_there_for() {
    let expected = [
        (Mutant::FlipStreamByte, Rule::StreamBytes),
        (Mutant::SwallowStreamBytes, Rule::StreamBytes),
        (Mutant::EndStreamEarly, Rule::StreamEnds),
        (Mutant::RepeatMessage, Rule::MessageOnce),
        (Mutant::SwapMessages, Rule::MessageOrder),
        (Mutant::FlipMessageByte, Rule::MessageUnchanged),
        (Mutant::DropMessage, Rule::MessageArrives),
        (Mutant::ForgeMessage, Rule::Forgery),
        (Mutant::RepeatFrame, Rule::FrameOnce),
        (Mutant::SwapFrames, Rule::FrameOrder),
        (Mutant::FlipFrameByte, Rule::FrameUnchanged),
        (Mutant::DropFrame, Rule::FrameArrives),
        (Mutant::PlaceTwice, Rule::TransferOnce),
        (Mutant::MisplaceBytes, Rule::TransferBytes),
        (Mutant::EndTwice, Rule::TransferEnds),
        (Mutant::HoardMemory, Rule::Memory),
        (Mutant::Overfill, Rule::Window),
        (Mutant::FalseLinkDown, Rule::FalseDown),
        (Mutant::FalseRestart, Rule::FalseRestart),
        (Mutant::FallSilent, Rule::Progress),
        (Mutant::Crawl, Rule::Completion),
        (Mutant::Starve, Rule::Neighbours),
        (Mutant::WrongInTheEnd, Rule::Agreement),
        (Mutant::LeaveUnsaid, Rule::Farewell),
        (Mutant::BusyTimer, Rule::Calm),
        (Mutant::Oversize, Rule::Contract),
        (Mutant::Divert, Rule::Amplification),
        (Mutant::RepeatPackets, Rule::Numbers),
        (Mutant::CallAnew, Rule::Calls),
        (Mutant::TrustAnybody, Rule::Identity),
        (Mutant::RelayNothing, Rule::Detour),
        (Mutant::RelayTwice, Rule::Relayed),
        (Mutant::KeepAll, Rule::Bundles),
    ];
    for (mutant, rule) in expected {
        assert_eq!(broken_by(Some(mutant)), Some(rule), "{mutant:?}");
    }
    for rule in Rule::ALL {
        assert!(
            expected.iter().any(|(_, r)| r == rule),
            "nothing breaks {rule:?}"
        );
    }
}
