use super::*;
use crate::wire::{UnitClass, UnitSegment};

fn messages(ops: &mut Ops) -> Vec<Message> {
    core::iter::from_fn(|| ops.receive_message()).collect()
}

#[test]
fn messages_keep_their_bounds_tags_and_order() {
    let mut p = pair();
    let sent: Vec<_> = [0, 1, 1500, 70_000, MESSAGE_DATA_BYTES_MAX]
        .into_iter()
        .enumerate()
        .map(|(i, len)| Message {
            flow: u32::MAX - (i as u32 % 2),
            tag: (i % 2 == 0).then_some(u64::MAX - i as u64),
            data: pattern(i as u64, 0, len),
        })
        .collect();
    for m in &sent {
        p.ends[0]
            .send_message(m.flow, m.tag, &m.data, Policy::Stripe)
            .unwrap();
    }
    p.run(Duration::from_millis(100));
    assert_eq!(p.events(1), [OpEvent::MessageReady]);
    let mut got = messages(&mut p.ends[1]);
    got.sort_by_key(|m| m.data.len());
    assert_eq!(got, sent);
    let stats = p.ends[0].stats();
    assert_eq!((stats.messages_acked, stats.in_flight_bytes), (5, 0));
    p.ends[0]
        .send_message(1, None, b"again", Policy::Auto)
        .unwrap();
    p.run(Duration::from_millis(5));
    assert_eq!(p.events(1), [OpEvent::MessageReady]);
}

#[test]
fn too_large_and_too_many() {
    let mut p = Pair::new(&OpLimits {
        message_queue_bytes: 64 << 20,
        ..OpLimits::default()
    });
    let ops = &mut p.ends[0];
    let too_large = vec![0; MESSAGE_DATA_BYTES_MAX + 1];
    assert_eq!(
        ops.send_message(0, None, &too_large, Policy::Stripe),
        Err(OpError::TooLarge {
            bytes_max: MESSAGE_DATA_BYTES_MAX
        })
    );
    for flow in 0..MESSAGE_FLOWS_MAX as u32 {
        ops.send_message(flow, None, b"", Policy::Stripe).unwrap();
    }
    let one_more = ops.send_message(u32::MAX, None, b"", Policy::Stripe);
    assert_eq!(one_more, Err(OpError::TooManyFlows));
}

#[test]
fn a_reader_that_does_not_read_stops_the_sender_and_loses_nothing() {
    let limits = OpLimits {
        bundle_window_bytes: 0,
        message_queue_bytes: 4_000_000,
        ..OpLimits::default()
    };
    let mut p = Pair::new(&limits);
    let mut sent = 0u64;
    loop {
        match p.ends[0].send_message(5, Some(sent), &pattern(sent, 0, 50_000), Policy::Stripe) {
            Ok(()) => sent += 1,
            Err(e) => {
                assert_eq!(e, OpError::Full);
                if p.ends[0].queued_bytes() > 2_000_000 && !p.ends[0].has_pending() {
                    break;
                }
            }
        }
        p.run(Duration::from_micros(500));
        assert!(sent < 1000);
    }
    p.run(Duration::from_secs(1));
    assert!(p.ends[1].memory_bytes() < 2 * BUNDLE_WINDOW_BYTES_INITIAL as usize);
    assert!(!p.events(0).contains(&OpEvent::MessageRoom));
    let mut got = 0;
    for _ in 0..1000 {
        for m in messages(&mut p.ends[1]) {
            assert_eq!((m.tag, &m.data), (Some(got), &pattern(got, 0, 50_000)));
            got += 1;
            p.ends[1].recycle(m.data);
        }
        p.run(Duration::from_millis(1));
    }
    assert_eq!(got, sent);
    assert!(p.events(0).contains(&OpEvent::MessageRoom));
    assert_eq!(p.ends[0].in_flight_bytes(), 0);
}

#[test]
fn a_large_message_is_not_starved_by_streams() {
    let limits = OpLimits {
        bundle_window_bytes: MESSAGE_WINDOW_BYTES,
        ..OpLimits::default()
    };
    let mut p = Pair::new(&limits);
    let ids = open(&mut p, 4);
    let data = vec![1; 1_000_000];
    let mut message_came = false;
    for round in 0..300 {
        for id in &ids {
            p.ends[0].write_stream(*id, &data).unwrap();
        }
        if round == 20 {
            let large = vec![2; MESSAGE_DATA_BYTES_MAX];
            p.ends[0]
                .send_message(0, None, &large, Policy::Stripe)
                .unwrap();
        }
        p.run(Duration::from_millis(1));
        let mut buffer = [0; 10_000];
        for id in &ids {
            // Slower than the sender, so that the window is always short.
            for _ in 0..5 {
                let _ = p.ends[1].read_stream(*id, &mut buffer);
            }
        }
        message_came |= !messages(&mut p.ends[1]).is_empty();
    }
    assert!(message_came);
}

#[test]
fn a_message_larger_than_the_window_waits_until_there_is_room() {
    let mut p = pair();
    let share = |bytes| Holdings([bytes, u64::MAX, u64::MAX, u64::MAX]);
    p.ends[1].set_share(&share(0));
    p.run(Duration::from_millis(5));
    let send = |p: &mut Pair, len| {
        let data = vec![2; len];
        p.ends[0].send_message(0, None, &data, Policy::Stripe)
    };
    send(&mut p, 100_000).unwrap();
    send(&mut p, MESSAGE_DATA_BYTES_MAX).unwrap();
    send(&mut p, 1).unwrap();
    p.run(Duration::from_millis(100));
    let lengths = |p: &mut Pair| -> Vec<usize> {
        let messages = messages(&mut p.ends[1]);
        messages.iter().map(|m| m.data.len()).collect()
    };
    assert_eq!(lengths(&mut p), [100_000]);
    p.run(Duration::from_millis(100));
    assert_eq!(lengths(&mut p), [0; 0]);
    p.ends[1].set_share(&share(MESSAGE_WINDOW_BYTES));
    p.run(Duration::from_millis(100));
    assert_eq!(lengths(&mut p), [MESSAGE_DATA_BYTES_MAX, 1]);
}

#[test]
fn what_a_burst_took_is_freed() {
    let mut p = pair();
    p.underway_max = 2000;
    let idle = p.ends.each_ref().map(Ops::memory_bytes);
    for n in 0..20_000 {
        let _ = p.ends[0].send_message(n % 7, None, &[1; 8], Policy::Auto);
        let _ = p.ends[0].send_frame(p.now, 3, Policy::Auto, vec![7; 60]);
        if n % 3 == 0 {
            let _ = p.ends[0].open_stream(0, Policy::Auto);
        }
    }
    p.run(Duration::from_millis(500));
    while p.ends[1].receive_message().is_some() || p.ends[1].receive_frame().is_some() {}
    for event in p.events(1) {
        if let OpEvent::StreamOpened { id, .. } = event {
            let _ = p.ends[1].stop_stream(id, 0);
            let _ = p.ends[1].reset_stream(id, 0);
        }
    }
    p.run(Duration::from_millis(500));
    for id in (0..).step_by(2).take(7_000) {
        let _ = p.ends[0].stop_stream(crate::StreamId(id), 0);
    }
    p.run(Duration::from_millis(500));
    p.events(0);
    for (ops, idle) in p.ends.iter_mut().zip(idle) {
        assert_eq!(ops.stats().streams_open, 0);
        ops.trim();
        let more = ops.memory_bytes() - idle;
        assert!(more < 300_000, "{more}");
    }
}

#[test]
fn violations() {
    let mut p = pair();
    let ops = &mut p.ends[1];
    let seg = UnitSegment {
        class: UnitClass::Message,
        flow: 0,
        sequence: 0,
        offset: 0,
        total: 4,
        data: &[1, 2, 3, 9],
    };
    assert_eq!(ops.on_unit(p.now, &seg), Err(Violation::BadMessage));
    let short_tag = UnitSegment {
        sequence: 1,
        data: &[1, 2, 3, 1],
        ..seg
    };
    assert_eq!(ops.on_unit(p.now, &short_tag), Err(Violation::BadMessage));
    let far = UnitSegment {
        sequence: 1_000_000,
        ..seg
    };
    assert_eq!(ops.on_unit(p.now, &far), Err(Violation::BeyondBundleWindow));
    // More than the window holds.
    let mut result = Ok(());
    for flow in 1..100 {
        let seg = UnitSegment {
            flow,
            total: MESSAGE_DATA_BYTES_MAX as u32,
            ..seg
        };
        result = result.and(ops.on_unit(p.now, &seg));
    }
    assert_eq!(result, Err(Violation::BeyondBundleWindow));
}

#[test]
fn a_restart_is_told() {
    let mut p = pair();
    for _ in 0..3 {
        p.ends[0]
            .send_message(1, None, b"x", Policy::Stripe)
            .unwrap();
    }
    p.ends[0].reset();
    assert!(p.events(0).contains(&OpEvent::MessagesBroken { count: 3 }));
    p.ends[0]
        .send_message(1, None, b"y", Policy::Stripe)
        .unwrap();
    p.run(Duration::from_millis(5));
    assert_eq!(messages(&mut p.ends[1]).len(), 1);
}

/// A piece of a message that is far ahead in its flow.
fn far_piece(flow: u32, sequence: u32) -> UnitSegment<'static> {
    UnitSegment {
        class: UnitClass::Message,
        flow,
        sequence,
        offset: 0,
        total: 2,
        data: &[0],
    }
}

#[test]
fn what_is_far_ahead_in_many_flows_is_bounded() {
    let mut p = pair();
    p.run(Duration::from_millis(1));
    let now = p.now;
    let ahead = 12_000;
    let results: Vec<_> = (0..100)
        .map(|flow| p.ends[1].on_unit(now, &far_piece(flow, ahead)))
        .collect();
    // 32 MB of window are paid for by 131,072 messages at most.
    let taken = results.iter().filter(|r| r.is_ok()).count();
    assert_eq!(taken, 10);
    assert_eq!(results[10], Err(Violation::BeyondBundleWindow));
    assert!(p.ends[1].memory_bytes() < 6 << 20);
}

#[test]
fn short_messages_count_with_the_memory_they_take() {
    let mut p = pair();
    p.underway_max = 0;
    let mut sent = 0;
    while p.ends[0]
        .send_message(sent % 7, None, &[1; 8], Policy::Auto)
        .is_ok()
    {
        sent += 1;
    }
    assert!(sent > 30_000, "{sent}");
    assert!(p.ends[0].memory_bytes() < 24 << 20);
}
