use super::*;
use crate::limits::FRAME_BYTES_MAX;
use crate::wire::{UnitClass, UnitSegment};

fn frame(key: u64, len: usize) -> Vec<u8> {
    pattern(key, 0, len)
}

/// All frames an end has ready.
fn frames(ops: &mut Ops) -> Vec<Vec<u8>> {
    core::iter::from_fn(|| ops.receive_frame()).collect()
}

/// A whole small frame in one piece.
fn piece(flow: u32, sequence: u32, data: &[u8]) -> UnitSegment<'_> {
    UnitSegment {
        class: UnitClass::Frame,
        flow,
        sequence,
        offset: 0,
        total: data.len() as u32,
        data,
    }
}

#[test]
fn frames_of_all_sizes_arrive_unchanged_and_in_order() {
    let mut p = pair();
    p.run(Duration::from_millis(1));
    let sent: Vec<_> = [1, 60, 1400, 1401, 2049, 62_000, 180_000, FRAME_BYTES_MAX]
        .into_iter()
        .enumerate()
        .map(|(key, len)| frame(key as u64, len))
        .collect();
    for f in &sent {
        p.ends[0]
            .send_frame(p.now, 3, Policy::Auto, f.clone())
            .unwrap();
    }
    assert!(p.ends[0].has_pending());
    p.run(Duration::from_millis(50));
    assert_eq!(frames(&mut p.ends[1]), sent);
    let stats = p.ends[0].stats();
    assert_eq!((stats.frames_sent, stats.in_flight_bytes), (8, 0));
    assert!(!p.ends[0].has_pending());
    assert_eq!(p.ends[0].next_timeout(), None);
    assert_eq!(p.ends[1].next_timeout(), None);
}

#[test]
fn a_buffer_is_used_again_and_nothing_grows() {
    let mut p = pair();
    p.run(Duration::from_millis(1));
    let mut memory = 0;
    for round in 0..50 {
        for key in 0..20 {
            let mut f = p.ends[0].frame_buffer();
            f.extend_from_slice(&frame(key, 62_000));
            p.ends[0].send_frame(p.now, 0, Policy::Auto, f).unwrap();
        }
        p.run(Duration::from_millis(20));
        let got = frames(&mut p.ends[1]);
        assert_eq!(got.len(), 20);
        for f in got {
            p.ends[1].recycle(f);
        }
        let now = p.ends[0].memory_bytes() + p.ends[1].memory_bytes();
        if round == 10 {
            memory = now;
        }
        assert!(round <= 10 || now <= memory, "{now} > {memory}");
    }
}

#[test]
fn what_is_no_frame_is_dropped_and_counted() {
    let mut p = pair();
    for bad in [Vec::new(), vec![0; FRAME_BYTES_MAX + 1]] {
        assert_eq!(p.ends[0].send_frame(p.now, 0, Policy::Auto, bad), Ok(()));
    }
    assert_eq!(p.ends[0].stats().frames_dropped, 2);
    assert_eq!(p.ends[0].queued_bytes(), 0);
}

#[test]
fn a_full_queue_gives_the_frame_back() {
    let limits = OpLimits {
        frame_queue_bytes: 100_000,
        ..OpLimits::default()
    };
    let mut p = Pair::new(&limits);
    p.ends[0]
        .send_frame(p.now, 0, Policy::Auto, frame(0, 90_000))
        .unwrap();
    let refused = p.ends[0].send_frame(p.now, 0, Policy::Auto, frame(1, 20_000));
    assert_eq!(refused, Err(frame(1, 20_000)));
    assert!(!p.ends[0].has_frame_room(20_000));
    p.run(Duration::from_millis(10));
    assert!(p.ends[0].has_frame_room(20_000));
    // One is always accepted, however small the limit.
    p.ends[0]
        .send_frame(p.now, 0, Policy::Auto, frame(1, 200_000))
        .unwrap();
}

#[test]
fn unacknowledged_frames_are_bounded_and_given_up() {
    let limits = OpLimits {
        frame_held_bytes: 1_000_000,
        ..OpLimits::default()
    };
    let mut p = Pair::new(&limits);
    p.faults.loss = 100;
    p.underway_max = usize::MAX;
    let mut sent = 0;
    while p.ends[0]
        .send_frame(p.now, 0, Policy::Auto, frame(0, 60_000))
        .is_ok()
    {
        p.transmit();
        sent += 1;
        assert!(sent < 100);
    }
    assert!(p.ends[0].memory_bytes() < 3_000_000);
    p.run(FRAME_LIFETIME * 2);
    assert_eq!(p.ends[0].stats().frames_given_up, sent);
    assert_eq!(p.ends[0].stats().in_flight_bytes, 0);
    assert!(
        p.ends[0]
            .send_frame(p.now, 0, Policy::Auto, frame(0, 60_000))
            .is_ok()
    );
}

#[test]
fn a_missing_frame_is_waited_for_but_not_longer() {
    let mut p = pair();
    let start = p.now;
    let ops = &mut p.ends[1];
    ops.on_unit(start, &piece(7, 1, b"second")).unwrap();
    ops.on_unit(start + Duration::from_millis(30), &piece(7, 2, b"third"))
        .unwrap();
    ops.on_unit(start, &piece(8, 0, b"other flow")).unwrap();
    assert_eq!(frames(ops), [b"other flow"]);
    assert_eq!(ops.next_timeout(), Some(start + FRAME_WAIT));
    ops.on_timeout(start + FRAME_WAIT - Duration::from_nanos(1));
    assert!(frames(ops).is_empty());
    ops.on_timeout(start + FRAME_WAIT);
    assert_eq!(frames(ops), [b"second".to_vec(), b"third".to_vec()]);
    assert_eq!(ops.next_timeout(), None);
    // Too late now.
    ops.on_unit(start + FRAME_WAIT, &piece(7, 0, b"first"))
        .unwrap();
    assert!(frames(ops).is_empty());
    let stats = ops.stats();
    assert_eq!((stats.frames_skipped, stats.frame_pieces_late), (1, 1));
}

#[test]
fn every_frame_waits_at_most_once() {
    let mut p = pair();
    let at = |ms: u64| Time::from_ms(100 + ms);
    let ops = &mut p.ends[1];
    // 0 is missing, 1 whole at 0 ms, 2 missing, 3 whole at 40 ms, 4 whole at 10 ms.
    ops.on_unit(at(0), &piece(0, 1, b"1")).unwrap();
    ops.on_unit(at(10), &piece(0, 4, b"4")).unwrap();
    ops.on_unit(at(40), &piece(0, 3, b"3")).unwrap();
    ops.on_timeout(at(60));
    assert_eq!(frames(ops), [b"1"]);
    assert_eq!(ops.next_timeout(), Some(at(70)));
    ops.on_timeout(at(70));
    assert_eq!(frames(ops), [b"3", b"4"]);
}

#[test]
fn sequences_wrap() {
    let mut p = pair();
    let ops = &mut p.ends[1];
    let mut next = 0u32;
    // By large jumps, past the end of 32 bits, and always with a frame missing.
    for _ in 0..20 {
        next = next.wrapping_add(1 << 29);
        ops.on_unit(p.now, &piece(0, next, b"far")).unwrap();
        assert!(ops.memory_bytes() < 2_000_000);
        p.now += FRAME_WAIT;
        ops.on_timeout(p.now);
        assert_eq!(frames(ops), [b"far"]);
        next = next.wrapping_add(1);
    }
    // One by one over the end, each pair turned round.
    let mut next = u32::MAX - 100;
    for start in [1 << 30, 1 << 31, 3 << 30, next - 1] {
        ops.on_unit(p.now, &piece(1, start, b"start")).unwrap();
        p.now += FRAME_WAIT;
        ops.on_timeout(p.now);
        assert_eq!(frames(ops), [b"start"]);
    }
    for _ in 0..100 {
        ops.on_unit(p.now, &piece(1, next.wrapping_add(1), b"b"))
            .unwrap();
        ops.on_unit(p.now, &piece(1, next, b"a")).unwrap();
        next = next.wrapping_add(2);
        p.now += FRAME_WAIT;
        ops.on_timeout(p.now);
        assert_eq!(frames(ops), [b"a", b"b"]);
    }
}

#[test]
fn memory_for_rejoining_is_bounded() {
    let limits = OpLimits {
        frame_reassembly_bytes: 2_000_000,
        pool_bytes: 0,
        ..OpLimits::default()
    };
    let mut p = Pair::new(&limits);
    let ops = &mut p.ends[1];
    let data = [5; 1000];
    for n in 0..10_000u32 {
        let seg = UnitSegment {
            total: 60_000,
            ..piece(n % 256, n / 256, &data)
        };
        ops.on_unit(p.now + Duration::from_micros(u64::from(n)), &seg)
            .unwrap();
        if n % 1000 == 0 {
            assert!(ops.memory_bytes() < 3_000_000, "{}", ops.memory_bytes());
        }
    }
    assert!(ops.stats().frames_skipped > 0);
    // A new frame still gets through.
    ops.on_unit(p.now, &piece(255, 40, b"new")).unwrap();
    ops.on_timeout(p.now + FRAME_WAIT);
    assert_eq!(frames(ops), [b"new"]);
}

#[test]
fn frames_nobody_fetches_do_not_grow_without_bound() {
    let limits = OpLimits {
        frame_reassembly_bytes: 1_000_000,
        pool_bytes: 0,
        ..OpLimits::default()
    };
    let mut p = Pair::new(&limits);
    let data = [5; 1000];
    for n in 0..5_000 {
        p.ends[1].on_unit(p.now, &piece(0, n, &data)).unwrap();
    }
    assert!(p.ends[1].memory_bytes() < 2_000_000);
    assert!(p.ends[1].stats().frames_dropped > 0);
}

#[test]
fn nonsense_is_a_violation() {
    let mut p = pair();
    let ops = &mut p.ends[1];
    let data = [1; 100];
    let good = UnitSegment {
        total: 1000,
        ..piece(0, 0, &data)
    };
    ops.on_unit(p.now, &good).unwrap();
    let bad = [
        UnitSegment { total: 999, ..good },
        UnitSegment { flow: 256, ..good },
        UnitSegment {
            offset: 950,
            ..good
        },
        UnitSegment { data: &[], ..good },
        UnitSegment {
            total: FRAME_BYTES_MAX as u32 + 1,
            sequence: 1,
            ..good
        },
    ];
    for seg in bad {
        assert!(ops.on_unit(p.now, &seg).is_err(), "{seg:?}");
    }
}

#[test]
fn lost_pieces_are_sent_again_until_the_frame_is_too_old() {
    let mut p = pair();
    p.faults.loss = 30;
    for key in 0..200 {
        p.ends[0]
            .send_frame(p.now, (key % 3) as u8, Policy::Auto, frame(key, 30_000))
            .unwrap();
        p.run(Duration::from_millis(1));
    }
    p.run(Duration::from_millis(200));
    assert_eq!(frames(&mut p.ends[1]).len(), 200);
    assert!(p.ends[0].stats().segments_resent > 500);
    assert_eq!(p.ends[1].stats().frames_skipped, 0);
    p.faults.loss = 100;
    p.ends[0]
        .send_frame(p.now, 0, Policy::Auto, frame(0, 30_000))
        .unwrap();
    p.run(Duration::from_millis(300));
    assert_eq!(p.ends[0].stats().frames_given_up, 1);
    assert!(!p.ends[0].has_pending());
}

#[test]
fn a_lone_small_frame_is_mirrored_bulk_is_not() {
    let mut p = pair();
    p.run(Duration::from_millis(5));
    let mut slot = [0; 1430];
    let mut first = |ops: &mut Ops, now| {
        let mut w = Writer::new(&mut slot);
        ops.write_segment(now, &Reach::default(), &mut w).unwrap()
    };
    p.ends[0]
        .send_frame(p.now, 0, Policy::Auto, frame(0, 100))
        .unwrap();
    let content = first(&mut p.ends[0], p.now);
    assert!(p.ends[0].mirrored(&content));
    p.ends[0].on_fate(p.now, content, Fate::Acked);
    assert!(!p.ends[0].mirrored(&content), "it arrived");
    let mut again = [0; 1430];
    let mut w = Writer::new(&mut again);
    assert_eq!(
        p.ends[0].write_again(p.now, &content, &Reach::default(), &mut w),
        None
    );
    p.ends[0]
        .send_frame(p.now, 0, Policy::Auto, frame(0, 60_000))
        .unwrap();
    p.ends[0]
        .send_frame(p.now, 1, Policy::Auto, frame(0, 100))
        .unwrap();
    let content = first(&mut p.ends[0], p.now);
    assert!(!p.ends[0].mirrored(&content));
}

#[test]
fn a_quiet_flow_does_not_wait_behind_a_busy_one() {
    let mut p = pair();
    p.underway_max = 0;
    for key in 0..40 {
        p.ends[0]
            .send_frame(p.now, 0, Policy::Auto, frame(key, 62_000))
            .unwrap();
    }
    p.underway_max = 10;
    p.transmit();
    p.ends[0]
        .send_frame(p.now, 9, Policy::Auto, frame(0, 84))
        .unwrap();
    let mut between = 0;
    let mut slot = [0; 1430];
    loop {
        let mut w = Writer::new(&mut slot);
        p.ends[0]
            .write_segment(p.now, &Reach::default(), &mut w)
            .unwrap();
        let Some(Ok(Record::Unit(seg))) = Records::new(&slot).next() else {
            panic!()
        };
        if seg.flow == 9 {
            break;
        }
        between += 1;
    }
    // The frame that has begun stays together.
    assert!(between <= 44, "{between}");
}

#[test]
fn a_restarted_peer_gets_what_was_not_sent_yet() {
    let mut p = pair();
    p.faults.loss = 100;
    p.underway_max = 5;
    for key in 0..5 {
        p.ends[0]
            .send_frame(p.now, 1, Policy::Auto, frame(key, 30_000))
            .unwrap();
    }
    p.transmit();
    let mut fresh = pair();
    core::mem::swap(&mut p.ends[0], &mut fresh.ends[0]);
    fresh.ends[0].reset();
    fresh.run(Duration::from_millis(20));
    let got = frames(&mut fresh.ends[1]);
    assert_eq!(
        got,
        (1..5).map(|key| frame(key, 30_000)).collect::<Vec<_>>()
    );
    assert_eq!(fresh.ends[0].stats().frames_given_up, 1);
}

#[test]
fn gaps_of_a_frame_are_bounded_by_its_length() {
    let mut p = pair();
    let total = 6_400;
    let now = p.now;
    let mut result = Ok(());
    for n in 0..total / 2 {
        let seg = UnitSegment {
            offset: n * 2,
            total,
            ..piece(0, 1, &[7])
        };
        result = p.ends[1].on_unit(now, &seg);
        if result.is_err() {
            assert!((100..110).contains(&n), "{n}");
            break;
        }
    }
    assert_eq!(result, Err(Violation::TooScattered));
}

#[test]
fn over_the_limit_the_frame_that_began_first_is_given_up() {
    let limits = OpLimits {
        frame_reassembly_bytes: 400_000,
        ..OpLimits::default()
    };
    let mut p = Pair::new(&limits);
    let begun = |flow| UnitSegment {
        total: 60_000,
        ..piece(flow, 0, &[7])
    };
    for flow in [9, 3, 200, 5, 7] {
        p.ends[1].on_unit(p.now, &begun(flow)).unwrap();
    }
    assert_eq!(p.ends[1].stats().frames_skipped, 1);
    // What comes of it now is too late; of the others it is not.
    for (flow, late) in [(9, 1), (3, 1), (7, 1)] {
        p.ends[1].on_unit(p.now, &begun(flow)).unwrap();
        assert_eq!(p.ends[1].stats().frame_pieces_late, late, "{flow}");
    }
}
