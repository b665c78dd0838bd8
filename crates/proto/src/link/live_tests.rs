//! Whether failures are found, working paths left alone, and both ends agree, over toy links in virtual time.

use core::time::Duration;

use super::toy::{Toy, Wire, ms, us};
use super::{Path, PathConfig, PathControl, PathEvent, PathState, Progress, Watch};
use crate::segment::{Content, Fate};
use crate::wire::{Ack, Witness};
use crate::{LinkId, Time};

fn lan() -> Wire {
    Wire::new(1000.0, us(50))
}

/// Two paths that have come up; `bulk`: end 0 sends without end.
fn pair(wire: Wire, seed: u64, bulk: bool) -> Toy {
    let mut toy = Toy::new(&[wire.clone(), wire], seed);
    toy.run_for(ms(500));
    if bulk {
        toy.ends[0].backlog = u64::MAX;
    }
    toy.run_for(ms(300));
    toy
}

/// Runs until both ends have `path` in `state`; how long it took.
fn until(toy: &mut Toy, path: usize, state: PathState, most: Duration) -> Duration {
    let from = toy.now;
    let reached = toy.run_until(from + most, |t| {
        t.state(0, path) == state && t.state(1, path) == state
    });
    assert!(reached, "path {path} not {state:?} within {most:?}");
    toy.now - from
}

fn failures(toy: &Toy) -> Vec<(usize, PathEvent)> {
    let all = toy.ends.iter().flat_map(|e| e.events.iter().copied());
    all.filter(|e| matches!(e.1, PathEvent::Down { .. }))
        .collect()
}

/// A piece of a stream.
fn content(offset: u64) -> Content {
    Content::Stream {
        id: 1,
        offset,
        len: 1000,
        fin: false,
    }
}

/// Up to `largest` all has arrived on a path.
fn ack_of(path: u8, largest: u64) -> Ack {
    Ack {
        path,
        largest,
        delay_us: 0,
        arrived_us: 0,
        word_count: 0,
        words: [0; 16],
    }
}

#[test]
fn silent_failure_under_load_is_found_and_healed() {
    for seed in 0..10 {
        let path = seed as usize % 2;
        let mut toy = pair(Wire::new(500.0, us(50)), seed, true);
        toy.run_for(us(277 * seed));
        toy.both(path, |w| w.silent = true);
        let found = until(&mut toy, path, PathState::Down, ms(500));
        assert!(found < ms(25), "{found:?}");
        toy.run_for(ms(700));
        toy.both(path, |w| w.silent = false);
        let healed = until(&mut toy, path, PathState::Up, ms(2000));
        assert!(healed < ms(400), "{healed:?}");
        toy.run_for(ms(200));
        assert_eq!(failures(&toy).len(), 2, "{:?}", failures(&toy));
    }
}

#[test]
fn content_of_a_failed_path_is_released_at_once() {
    let mut path = Path::new(LinkId(0), Time::ZERO, &PathConfig::default());
    path.on_validated(Time::ZERO, None);
    for i in 0..100 {
        path.on_sent(Time::from_us(i), 1100, &[content(i)], true);
    }
    let mut fates = Vec::new();
    path.on_kernel(Time::from_ms(1), false, &mut fates);
    assert_eq!(path.state(), PathState::Down);
    let lost: Vec<_> = (0..100).map(|i| (content(i), Fate::Lost)).collect();
    assert_eq!(fates, lost);
    let down = PathEvent::Down {
        witness: Witness::KernelLink,
        at: Time::from_ms(1),
    };
    let up = PathEvent::Up {
        witness: Witness::ProbesAnswered,
        at: Time::ZERO,
    };
    assert_eq!(path.poll_event(), Some(up));
    assert_eq!(path.poll_event(), Some(down));
    // An acknowledgement that comes late still counts.
    fates.clear();
    let ack = ack_of(0, 99);
    path.on_ack(Time::from_ms(2), &ack, &mut fates);
    assert_eq!(fates, [(content(99), Fate::Acked)]);
    path.on_ack(Time::from_ms(2), &ack, &mut fates);
    assert_eq!(fates.len(), 1, "once");
}

/// The other end waits for it, and twice as long is all the time that an application has.
#[test]
fn what_a_silent_path_carries_does_not_wait_for_its_failure() {
    for seed in 0..10 {
        let mut toy = pair(Wire::new(500.0, us(50)), seed, true);
        toy.run_for(us(277 * seed));
        toy.both(0, |w| w.silent = true);
        let from = toy.now;
        let released = toy.run_until(from + ms(14), |t| {
            t.ends[0].paths[0].stats().in_flight_bytes < 10_000
        });
        assert!(released, "{:?}", toy.ends[0].paths[0].stats());
        assert_eq!(toy.state(0, 0), PathState::Suspect, "not failed yet");
        // It need not fail: what was carried twice arrives, and nothing is wrong.
        toy.both(0, |w| w.silent = false);
        toy.run_for(ms(50));
        assert_eq!(toy.state(0, 0), PathState::Up);
        assert!(failures(&toy).is_empty(), "{:?}", failures(&toy));
    }
}

/// Nothing of this bundle is on the path, but packets of others are.
#[test]
fn silence_of_a_watched_path_is_found_as_under_load() {
    for seed in 0..10 {
        let mut toy = pair(lan(), seed, false);
        toy.run_for(Duration::from_secs(10));
        for (end, watch) in toy.ends.iter_mut().zip([Watch::Asks, Watch::IsAsked]) {
            end.paths.iter_mut().for_each(|path| path.watch(watch));
        }
        toy.run_for(ms(20) + us(377 * seed));
        toy.both(0, |w| w.silent = true);
        let found = until(&mut toy, 0, PathState::Down, ms(500));
        assert!(found < ms(45), "{found:?}");
        assert_eq!(toy.state(0, 1), PathState::Up);
    }
}

#[test]
fn a_path_that_works_one_way_is_failed_at_both_ends() {
    for silent in 0..2 {
        let mut toy = pair(lan(), 1, true);
        toy.wires[silent][1].silent = true;
        let found = until(&mut toy, 1, PathState::Down, ms(500));
        assert!(found < ms(30), "bulk, direction {silent}: {found:?}");
        toy.run_for(ms(3000));
        assert_eq!(toy.state(0, 1), PathState::Down);
        assert_eq!(toy.state(1, 1), PathState::Down);
        assert_eq!(toy.state(0, 0), PathState::Up);

        let mut toy = pair(lan(), 1, false);
        toy.wires[silent][1].silent = true;
        until(&mut toy, 1, PathState::Down, Duration::from_secs(8));
        assert!(failures(&toy).iter().all(|f| f.0 == 1));
    }
}

#[test]
fn small_talk_fails_a_silent_path_soon() {
    let mut toy = pair(lan(), 1, false);
    for _ in 0..20 {
        toy.ends[0].backlog = 500;
        toy.run_for(ms(10));
    }
    toy.both(0, |w| w.silent = true);
    let from = toy.now;
    while toy.state(0, 0) != PathState::Down {
        toy.ends[0].backlog = 500;
        toy.run_for(ms(10));
        assert!(toy.now - from < ms(120));
    }
    assert_eq!(toy.state(0, 1), PathState::Up);
}

#[test]
fn loss_jitter_and_a_slow_link_are_no_failure() {
    for (seed, loss) in [(1, 0.0), (2, 0.05), (3, 0.3), (4, 0.5), (5, 0.5), (6, 0.5)] {
        for mbit in [10.0, 400.0] {
            for bulk in [false, true] {
                let mut wire = Wire::new(mbit, us(100));
                wire.loss = loss;
                wire.jitter = us(400);
                let mut toy = Toy::new(&[wire, Wire::new(200.0, us(50))], seed);
                toy.run_for(ms(300));
                toy.ends[0].backlog = if bulk { u64::MAX } else { 0 };
                for _ in 0..100 {
                    if !bulk {
                        toy.ends[0].backlog = 1 + toy.dice.next() % 20_000;
                    }
                    toy.run_for(ms(20));
                }
                assert!(
                    failures(&toy).is_empty(),
                    "{loss} {mbit} {bulk}: {:?}",
                    failures(&toy)
                );
            }
        }
    }
}

#[test]
fn a_queue_filled_by_others_is_no_failure() {
    for bulk in [false, true] {
        let mut toy = pair(lan(), 1, bulk);
        for _ in 0..5 {
            // A TCP flow starts: it doubles every round trip until the FIFO of 50 ms is full.
            let mut queue = ms(1);
            while queue < ms(45) {
                let now = toy.now;
                toy.wires[0][0].crowd(now, queue / 2);
                if !bulk {
                    toy.ends[0].backlog = 3000;
                }
                toy.run_for(queue);
                queue = queue * 3 / 2;
            }
            toy.run_for(ms(300));
        }
        assert!(failures(&toy).is_empty(), "{:?}", failures(&toy));
    }
}

#[test]
fn a_stopped_process_is_no_failed_path() {
    for seed in 0..60 {
        let mut wire = Wire::new(100.0, us(50));
        wire.loss = [0.0, 0.02, 0.1][seed as usize % 3];
        wire.jitter = us(200);
        let bulk = seed % 2 == 0;
        let mut toy = pair(wire, seed, bulk);
        for _ in 0..15 {
            let end = (toy.dice.next() % 2) as usize;
            let pause = toy.dice.next() % 100;
            let now = toy.now;
            toy.pause(end, now + ms(pause));
            if !bulk {
                toy.ends[0].backlog = 1 + toy.dice.next() % 100_000;
            }
            let run = toy.dice.next() % 120;
            toy.run_for(ms(run));
        }
        let now = toy.now;
        toy.pause(1, now + ms(2000));
        toy.run_for(ms(2500));
        assert!(
            failures(&toy).is_empty(),
            "seed {seed}: {:?}",
            failures(&toy)
        );
    }
}

#[test]
fn a_dead_peer_is_noticed_and_its_return_too() {
    let mut toy = pair(Wire::new(100.0, us(50)), 1, true);
    let now = toy.now;
    toy.pause(1, now + Duration::from_secs(20));
    toy.run_for(Duration::from_secs(5));
    assert_eq!(toy.state(0, 0), PathState::Down);
    assert_eq!(toy.state(0, 1), PathState::Down);
    toy.run_for(Duration::from_secs(15));
    until(&mut toy, 0, PathState::Up, ms(500));
    until(&mut toy, 1, PathState::Up, ms(500));
    let before = toy.ends[1].got_bytes;
    toy.run_for(ms(100));
    assert!(toy.ends[1].got_bytes - before > 2_000_000);
}

#[test]
fn flapping_is_damped_but_a_path_that_lived_returns_at_once() {
    let mut toy = pair(Wire::new(50.0, us(50)), 1, true);
    let mut healed = Vec::new();
    for _ in 0..8 {
        toy.both(1, |w| w.silent = true);
        until(&mut toy, 1, PathState::Down, ms(500));
        toy.both(1, |w| w.silent = false);
        healed.push(until(&mut toy, 1, PathState::Up, Duration::from_secs(12)));
        toy.run_for(ms(50));
    }
    assert!(healed[0] < ms(300), "{healed:?}");
    assert!(healed[7] > ms(3000), "{healed:?}");
    toy.run_for(Duration::from_secs(20));
    for _ in 0..20 {
        toy.both(1, |w| w.silent = true);
        until(&mut toy, 1, PathState::Down, ms(500));
        toy.run_for(ms(300));
        toy.both(1, |w| w.silent = false);
        let healed = until(&mut toy, 1, PathState::Up, ms(1000));
        assert!(healed < ms(900), "{healed:?}");
        toy.run_for(ms(1500));
    }
}

#[test]
fn where_no_other_path_works_one_that_flaps_returns_at_once() {
    let mut toy = pair(Wire::new(50.0, us(50)), 1, true);
    // First one, then the other, each up for 600 ms of every 800: the hold of both grows to seconds.
    for cycle in 0..60 {
        let path = cycle % 2;
        toy.both(path, |w| w.silent = true);
        toy.run_for(ms(200));
        toy.both(path, |w| w.silent = false);
        toy.run_for(ms(200));
    }
    let before = toy.ends[1].got_bytes;
    for cycle in 0..20 {
        let path = cycle % 2;
        toy.both(path, |w| w.silent = true);
        toy.run_for(ms(200));
        toy.both(path, |w| w.silent = false);
        toy.run_for(ms(200));
    }
    let carried = toy.ends[1].got_bytes - before;
    // Of the 100 MB that two links carry in these 8 s.
    assert!(carried > 10_000_000, "{carried}");
}

#[test]
fn both_ends_agree_whatever_is_lost() {
    for seed in 0..40 {
        let mut wire = Wire::new(20.0, us(50));
        wire.loss = 0.4;
        let mut toy = pair(wire, seed, seed % 2 == 0);
        for _ in 0..10 {
            let path = (toy.dice.next() % 2) as usize;
            let direction = (toy.dice.next() % 2) as usize;
            toy.wires[direction][path].silent ^= true;
            let run = toy.dice.next() % 700;
            toy.run_for(ms(run));
        }
        toy.both(0, |w| w.silent = false);
        toy.both(1, |w| w.silent = false);
        let healed = |t: &Toy| (0..2).all(|p| (0..2).all(|e| t.state(e, p) != PathState::Down));
        let until = toy.now + Duration::from_secs(60);
        assert!(toy.run_until(until, healed), "seed {seed}");
    }
}

#[test]
fn an_idle_pair_sleeps() {
    let mut toy = pair(lan(), 1, false);
    toy.run_for(Duration::from_secs(20));
    let before = toy.wakeups;
    toy.run_for(Duration::from_secs(60));
    let per_second = (toy.wakeups - before) / 60;
    assert!(per_second <= 2, "{per_second} wake-ups a second");
}

#[test]
fn a_smaller_path_mtu_is_found_without_failing_the_path() {
    let mut toy = pair(lan(), 1, true);
    assert_eq!(toy.ends[0].paths[1].flight().mtu_bytes(), 1472);
    toy.wires[0][1].mtu = 1380;
    toy.run_for(ms(400));
    assert_eq!(toy.ends[0].paths[1].flight().mtu_bytes(), 1372);
    let before = toy.ends[1].path_bytes[1];
    toy.run_for(ms(100));
    assert!(toy.ends[1].path_bytes[1] - before > 10_000_000);
    assert!(failures(&toy).is_empty(), "{:?}", failures(&toy));
    toy.wires[0][1].mtu = 8972;
    toy.run_for(Duration::from_secs(6));
    assert_eq!(toy.ends[0].paths[1].flight().mtu_bytes(), 8972);
}

#[test]
fn a_path_that_never_worked_stays_untested_and_quiet() {
    let mut toy = Toy::new(&[lan(), lan()], 1);
    toy.both(1, |w| w.silent = true);
    toy.run_for(Duration::from_secs(10));
    assert_eq!(toy.state(0, 1), PathState::Untested);
    let before = toy.ends[0].paths[1].stats().packets_sent;
    toy.run_for(Duration::from_secs(10));
    assert!(toy.ends[0].paths[1].stats().packets_sent - before < 50);
    toy.both(1, |w| w.silent = false);
    until(&mut toy, 1, PathState::Up, ms(1000));
}

#[test]
fn acknowledgements_of_the_unsent_are_refused() {
    let mut path = Path::new(LinkId(0), Time::ZERO, &PathConfig::default());
    path.on_sent(Time::ZERO, 100, &[], true);
    let ack = Ack {
        path: 0,
        largest: 1,
        delay_us: 0,
        arrived_us: 0,
        word_count: 255,
        words: [u64::MAX; 16],
    };
    let mut fates = Vec::new();
    assert!(path.on_ack(Time::ZERO, &ack, &mut fates).is_invalid);
    let ack = Ack { largest: 0, ..ack };
    assert_eq!(path.on_ack(Time::ZERO, &ack, &mut fates).packets_acked, 1);
}

/// A peer whose own way is not validated probes a little more often than a keepalive is due:
/// its probes kept this end from ever asking whether its packets arrive.
#[test]
fn what_only_arrives_is_no_answer() {
    let mut now = Time::from_ms(1000);
    let mut path = Path::new(LinkId(0), now, &PathConfig::default());
    path.on_validated(now, Some(ms(1)));
    let asks = |path: &mut Path, now| {
        let control = core::iter::from_fn(|| path.poll_control(now, 1, true));
        let is_probe = |c: &PathControl| {
            matches!(
                c,
                PathControl::Probe {
                    pad_to_bytes: 0,
                    ..
                }
            )
        };
        control.filter(is_probe).count()
    };
    assert_eq!(asks(&mut path, now), 1, "at the beginning");
    let asked = (0..20).map(|number| {
        now += ms(200);
        path.on_received(now, number, 33, true);
        asks(&mut path, now)
    });
    assert!(asked.sum::<usize>() > 0);
}

/// What stands in a queue still comes while the peer's process has no processor: it shows nobody who could have
/// answered on the other path.
#[test]
fn a_queue_that_empties_while_the_peer_is_stopped_fails_no_path() {
    for seed in 0..10 {
        let mut toy = pair(lan(), seed, false);
        toy.ends[0].allowed[0] = false;
        toy.ends[0].backlog = u64::MAX;
        toy.run_for(ms(100));
        toy.wires[0][1].set_mbit(toy.now, 100.0);
        toy.run_for(ms(3));
        // An answer shows that path 0 works; the next probe finds nobody.
        toy.ends[1].paths[0].request_probe();
        toy.run_for(ms(2));
        toy.ends[1].paths[0].request_probe();
        toy.pause(0, toy.now + ms(40));
        let stopped_at = toy.now;
        toy.run_for(ms(20));
        let still_comes = toy.ends[1].last_got.since(stopped_at);
        assert!(still_comes > ms(15), "{still_comes:?}");
        toy.run_for(ms(200));
        assert!(failures(&toy).is_empty(), "{:?}", failures(&toy));
        assert_eq!(toy.state(1, 0), PathState::Up);
    }
}

/// The peer fills its own queue at once (seed 805508 of the simulator): answers stand behind what it sent before them.
/// Where all of that has come and no answer, there is none.
#[test]
fn answers_that_stand_in_the_peers_queue_are_waited_for() {
    // How long the path lives without an answer, if the peer had sent that many packets before its answer.
    let lives = |queued: u64| {
        let mut now = Time::from_ms(1000);
        let mut path = Path::new(LinkId(0), now, &PathConfig::default());
        path.on_validated(now, Some(ms(1)));
        let mut fates = Vec::new();
        for number in 0..40 {
            now += ms(1);
            path.on_sent(now, 1100, &[content(number)], true);
            path.on_received(now, number, 1100, true);
            let ack = ack_of(0, number);
            path.on_ack(now, &ack, &mut fates);
        }
        let from = now;
        for number in 40..1000 {
            path.on_sent(now, 1100, &[content(number)], true);
            now += ms(1);
            path.on_received(now, number, 1100, true);
            path.on_peer_sent(now, 40 + queued.max(number - 40));
            path.on_others_progress(now, Progress::Acks(now), ms(1));
            path.on_timeout(now, &mut fates);
            while path.poll_control(now, number as u32, true).is_some() {}
            if path.state() == PathState::Down {
                break;
            }
        }
        now - from
    };
    let [nothing, a_little, much, without_end] = [0, 60, 120, 1000].map(lives);
    assert!(nothing < ms(50), "{nothing:?}");
    assert!(a_little >= ms(60) && a_little < ms(65), "{a_little:?}");
    assert!(much >= ms(120) && much < ms(125), "{much:?}");
    assert!(without_end < ms(320), "{without_end:?}");
}

/// The end of a burst is lost in a queue on a far path, and the peer sends nothing more there for a while (seed 662112):
/// the probe that asks is answered on the path itself, while acknowledgements come by a near one.
#[test]
fn a_lost_end_of_a_burst_on_a_far_path_is_asked_about_before_the_path_fails() {
    let (way, near) = (ms(20), ms(2));
    let mut now = Time::from_ms(1000);
    let mut path = Path::new(LinkId(1), now, &PathConfig::default());
    path.on_validated(now, Some(way + near));
    let mut fates = Vec::new();
    for number in 0..40 {
        path.on_sent(now, 1100, &[content(number)], true);
        while path.poll_control(now, number as u32, true).is_some() {}
        now += way + near;
        path.on_received(now, number, 1100, true);
        path.on_ack_via(now, &ack_of(1, number), LinkId(0), &mut fates);
    }
    let (last, mut answered_at) = (now, None);
    while answered_at.is_none_or(|at| now < at) {
        now += ms(1);
        path.on_peer_sent(now, 40 + 31);
        path.on_others_progress(now, Progress::Arrivals, near);
        path.on_timeout(now, &mut fates);
        while path.poll_control(now, now.as_us_wrapping(), true).is_some() {
            if path.state() == PathState::Suspect {
                answered_at.get_or_insert(now + way * 2);
            }
        }
        let silent = now.since(last);
        assert_ne!(path.state(), PathState::Down, "after {silent:?}");
        assert!(silent < Duration::from_secs(1), "nobody asks");
    }
}

/// The way back of a far path fails while nothing is carried (seed 558799): its probes are acknowledged by way of a
/// near one, which itself is asked more seldom than an answer takes there. That is no silence of both.
#[test]
fn a_far_path_whose_way_back_fails_is_found_though_a_near_one_is_asked_seldom() {
    let (far, near) = (ms(20), us(200));
    let mut now = Time::from_ms(1000);
    let mut path = Path::new(LinkId(1), now, &PathConfig::default());
    path.on_validated(now, Some(far));
    let mut fates = Vec::new();
    // Number, and when it is acknowledged.
    let mut sent = std::collections::VecDeque::new();
    let from = now;
    while path.state() != PathState::Down {
        now += us(100);
        assert!(
            now.since(from) < Duration::from_secs(5),
            "{:?}",
            path.state()
        );
        path.on_timeout(now, &mut fates);
        while let Some(control) = path.poll_control(now, sent.len() as u32, true) {
            if let PathControl::Probe { pad_to_bytes, .. } = control {
                let number = path.flight().next_number();
                path.on_sent(now, 33, &[], pad_to_bytes == 0);
                sent.push_back((number, now + far));
            }
        }
        while let Some((largest, _)) = sent.pop_front_if(|(_, at)| *at <= now) {
            let ack = ack_of(1, largest);
            path.on_ack_via(now, &ack, LinkId(0), &mut fates);
        }
        if now.since(from).as_micros().is_multiple_of(23_000) {
            path.on_others_progress(now, Progress::Acks(now - near), near * 2);
        }
    }
}
