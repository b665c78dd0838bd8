use super::*;
use crate::wire::StreamSegment;

fn segment(id: u64, offset: u64, fin: bool, data: &[u8]) -> StreamSegment<'_> {
    StreamSegment {
        id,
        offset,
        fin,
        held: false,
        service: (offset == 0).then_some(0),
        data,
    }
}

/// Reads what is there.
fn read(p: &mut Pair, end: usize, id: StreamId) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    let mut buffer = [0; 5000];
    loop {
        let Read { len, fin } = p.ends[end].read_stream(id, &mut buffer).unwrap();
        all.extend_from_slice(&buffer[..len]);
        if fin || len == 0 {
            return (all, fin);
        }
    }
}

#[test]
fn a_stream_is_seen_before_anything_is_written() {
    let mut p = pair();
    let id = p.ends[0].open_stream(80, Policy::Stripe).unwrap();
    p.run(Duration::from_millis(2));
    assert_eq!(p.events(1), [OpEvent::StreamOpened { id, service: 80 }]);
    // The one who was called may speak first.
    assert_eq!(p.ends[1].write_stream(id, b"hello"), Ok(5));
    p.run(Duration::from_millis(2));
    assert_eq!(p.events(0), [OpEvent::Readable(id)]);
    assert_eq!(read(&mut p, 0, id), (b"hello".to_vec(), false));
}

#[test]
fn both_directions_end_by_themselves_and_the_stream_is_forgotten() {
    let mut p = pair();
    let id = p.ends[1].open_stream(7, Policy::Stripe).unwrap();
    assert_eq!(p.ends[1].write_stream(id, b"question"), Ok(8));
    p.ends[1].finish_stream(id).unwrap();
    assert_eq!(p.ends[1].write_stream(id, b"more"), Err(OpError::Closed));
    assert_eq!(p.ends[1].finish_stream(id), Err(OpError::Closed));
    p.run(Duration::from_millis(2));
    assert_eq!(p.events(1), [OpEvent::Finished(id)]);
    let events = p.events(0);
    assert_eq!(
        events,
        [
            OpEvent::StreamOpened { id, service: 7 },
            OpEvent::Readable(id)
        ]
    );
    assert_eq!(read(&mut p, 0, id), (b"question".to_vec(), true));
    let answer = pattern(1, 0, 60_000);
    assert_eq!(p.ends[0].write_stream(id, &answer), Ok(answer.len()));
    p.ends[0].finish_stream(id).unwrap();
    p.run(Duration::from_millis(100));
    assert_eq!(read(&mut p, 1, id), (answer, true));
    p.run(Duration::from_millis(100));
    for ops in &mut p.ends {
        assert_eq!(ops.stats().streams_open, 0);
        assert_eq!(
            ops.read_stream(id, &mut [0; 8]),
            Err(OpError::UnknownStream)
        );
        // What comes late is ignored.
        ops.on_stream_window(Time::ZERO, id.0, 1 << 40, 0).unwrap();
        ops.on_stream_stop(Time::ZERO, id.0, 1).unwrap();
        ops.on_stream_reset(Time::ZERO, id.0, 1, 5).unwrap();
        ops.on_stream(Time::ZERO, &segment(id.0, 0, false, b"question"))
            .unwrap();
        assert_eq!(ops.stats().streams_open, 0);
        assert_eq!(ops.stats().in_flight_bytes, 0);
    }
}

#[test]
fn a_slow_reader_holds_the_writer_and_the_writer_is_told_of_room() {
    let limits = OpLimits {
        stream_send_bytes: 500_000,
        ..OpLimits::default()
    };
    let mut p = Pair::new(&limits);
    let id = p.ends[0].open_stream(0, Policy::Stripe).unwrap();
    let mut written = 0u64;
    for _ in 0..100 {
        let data = pattern(3, written, 100_000);
        written += p.ends[0].write_stream(id, &data).unwrap() as u64;
        p.run(Duration::from_millis(5));
    }
    // What the peer admits, and a little ahead.
    assert_eq!(written, STREAM_WINDOW_BYTES_INITIAL + AHEAD_BYTES_MAX);
    assert!(!p.ends[0].has_pending());
    assert!(p.ends[1].memory_bytes() < 2 * STREAM_WINDOW_BYTES_INITIAL as usize);
    p.events(0);
    let mut got = read(&mut p, 1, id).0;
    p.run(Duration::from_millis(100));
    assert_eq!(p.events(0), [OpEvent::Writable(id)]);
    while got.len() < written as usize {
        got.extend(read(&mut p, 1, id).0);
        p.run(Duration::from_millis(10));
    }
    assert_eq!(got, pattern(3, 0, got.len()));
    assert_eq!(got.len() as u64, written);
}

#[test]
fn memory_is_lent_while_there_is_room_and_what_is_left_of_it_is_known() {
    let limits = OpLimits {
        stream_queue_bytes: 10_000,
        ..OpLimits::default()
    };
    let mut p = Pair::new(&limits);
    let id = p.ends[0].open_stream(0, Policy::Stripe).unwrap();
    let filled = p.ends[0].fill_stream(id, 8_000, |room| {
        room[..5].copy_from_slice(b"hello");
        5
    });
    assert_eq!(filled, Ok(5));
    assert_eq!(p.ends[0].fill_stream(id, 8_000, |_| 0), Ok(0));
    let all = p.ends[0].write_stream(id, &[7; 10_000]);
    assert_eq!(all, Ok(9_995));
    let full = p.ends[0].fill_stream(id, 1, |_| unreachable!("there is no room"));
    assert_eq!(full, Ok(0));
    p.run(Duration::from_millis(5));
    assert_eq!(p.events(0), [OpEvent::Writable(id)]);
    assert_eq!(p.events(1).len(), 2);
    let mut seen = Vec::new();
    let read = p.ends[1].take_stream(id, |bytes| {
        seen.extend_from_slice(&bytes[..5]);
        5
    });
    assert_eq!(
        (read, &seen[..]),
        (Ok(Read { len: 5, fin: false }), &b"hello"[..])
    );
    // What it left it knows of.
    p.ends[0].write_stream(id, b"more").unwrap();
    p.ends[0].finish_stream(id).unwrap();
    p.run(Duration::from_millis(5));
    assert_eq!(p.events(1), []);
    let read = p.ends[1].take_stream(id, <[u8]>::len);
    assert_eq!(
        read,
        Ok(Read {
            len: 9_999,
            fin: true
        })
    );
    let ended = p.ends[1].take_stream(id, |_| unreachable!("there is nothing"));
    assert_eq!(ended, Ok(Read { len: 0, fin: true }));
    assert_eq!(p.ends[0].fill_stream(id, 1, |_| 1), Err(OpError::Closed));
}

/// Streams that may keep 300,000 bytes together, and of which nothing is sent yet.
fn scarce(count: usize) -> (Pair, Vec<StreamId>) {
    let limits = OpLimits {
        streams_send_bytes: 300_000,
        ..OpLimits::default()
    };
    let mut p = Pair::new(&limits);
    p.run(Duration::from_millis(5));
    p.underway_max = 0;
    let ids = open(&mut p, count);
    (p, ids)
}

#[test]
fn all_streams_together_are_bounded_too() {
    let (mut p, ids) = scarce(100);
    let data = vec![1; 10_000];
    let taken: Vec<_> = ids
        .iter()
        .map(|id| p.ends[0].write_stream(*id, &data).unwrap())
        .collect();
    assert_eq!(taken[..30], [10_000; 30]);
    // What a stream is for can always be said.
    assert_eq!(taken[30..], [STREAM_FIRST_BYTES as usize; 70]);
    assert_eq!(p.ends[0].write_stream(ids[99], &data), Ok(0));
    p.underway_max = 64;
    let mut told = Vec::new();
    while told.len() < 70 {
        p.run(Duration::from_millis(5));
        let events = p.events(0).into_iter();
        let now = events.filter_map(|event| match event {
            OpEvent::Writable(id) => Some(id),
            _ => None,
        });
        let now: Vec<_> = now.collect();
        // Nobody is told of room that another was told of.
        assert!(!now.is_empty() && now.len() <= 30, "{}", now.len());
        for id in &now {
            let rest = &data[STREAM_FIRST_BYTES as usize..];
            assert_eq!(p.ends[0].write_stream(*id, rest), Ok(rest.len()));
        }
        told.extend(now);
    }
    assert_eq!(told, ids[30..], "who waited longest is told first");
}

#[test]
fn room_that_nobody_takes_is_offered_to_others() {
    let (mut p, ids) = scarce(200);
    for id in &ids {
        p.ends[0].write_stream(*id, &[1; 10_000]).unwrap();
    }
    p.underway_max = 64;
    let until = p.now + REPORT_AFTER * 8;
    let mut told = 0;
    while p.step(until) {
        let events = p.events(0);
        told += events
            .iter()
            .filter(|e| matches!(e, OpEvent::Writable(_)))
            .count();
    }
    assert_eq!(told, 170);
}

#[test]
fn the_window_grows_for_a_reader_that_keeps_up() {
    let mut p = pair();
    p.underway_max = 4096;
    p.datagram_bytes = 8900;
    let id = p.ends[0].open_stream(0, Policy::Stripe).unwrap();
    let data = vec![1; 4_000_000];
    let mut most = 0;
    for _ in 0..100 {
        while p.ends[0].write_stream(id, &data).unwrap() > 0 {
            p.transmit();
        }
        most = most.max(p.ends[0].in_flight_bytes());
        p.run(Duration::from_micros(400));
        if !p.events(1).is_empty() {
            read(&mut p, 1, id);
        }
    }
    let most = most as u64;
    assert!(most > 3 * STREAM_WINDOW_BYTES_INITIAL, "{most}");
    assert!(most <= OpLimits::default().stream_window_bytes_max);
}

#[test]
fn a_reset_ends_one_direction() {
    let mut p = pair();
    let id = p.ends[0].open_stream(0, Policy::Stripe).unwrap();
    p.ends[0].write_stream(id, &[1; 50_000]).unwrap();
    p.run(Duration::from_millis(5));
    p.events(1);
    p.ends[0].write_stream(id, &[1; 50_000]).unwrap();
    p.ends[0].reset_stream(id, 42).unwrap();
    assert_eq!(p.ends[0].reset_stream(id, 42), Err(OpError::Closed));
    assert_eq!(p.ends[0].write_stream(id, b"x"), Err(OpError::Closed));
    assert_eq!(p.ends[0].queued_bytes(), 0);
    p.run(Duration::from_millis(5));
    assert_eq!(p.events(1), [OpEvent::Reset { id, code: 42 }]);
    assert_eq!(
        p.ends[1].read_stream(id, &mut [0; 9]),
        Err(OpError::Reset(42))
    );
    p.ends[1].write_stream(id, b"still here").unwrap();
    p.ends[1].finish_stream(id).unwrap();
    p.run(Duration::from_millis(5));
    assert_eq!(read(&mut p, 0, id), (b"still here".to_vec(), true));
    p.run(Duration::from_millis(5));
    assert_eq!(p.ends.each_ref().map(|e| e.stats().streams_open), [0, 0]);
}

#[test]
fn an_end_is_owed_until_the_peer_has_it() {
    let mut p = pair();
    let owed = |p: &Pair, end: usize| p.ends[end].stats().ends_owed;
    let ids = [1, 2, 3].map(|_| p.ends[0].open_stream(0, Policy::Stripe).unwrap());
    p.ends[0].write_stream(ids[0], b"hello").unwrap();
    p.run(Duration::from_millis(5));
    assert_eq!(owed(&p, 0), 0);
    // Nothing of the second is in flight but its end.
    p.faults.loss = 100;
    p.ends[0].finish_stream(ids[0]).unwrap();
    p.ends[0].finish_stream(ids[1]).unwrap();
    p.ends[0].reset_stream(ids[2], 1).unwrap();
    assert_eq!(owed(&p, 0), 3);
    p.run(Duration::from_millis(50));
    assert_eq!((owed(&p, 0), p.ends[0].in_flight_bytes()), (3, 0));
    p.faults.loss = 0;
    p.run(Duration::from_millis(50));
    assert_eq!(owed(&p, 0), 0);
    // Who is asked to stop owes a reset.
    p.ends[0].stop_stream(ids[0], 1).unwrap();
    p.run(Duration::from_micros(120));
    assert_eq!(owed(&p, 1), 1);
    p.run(Duration::from_millis(5));
    assert_eq!(owed(&p, 1), 0);
}

#[test]
fn a_stop_makes_the_peer_reset() {
    let mut p = pair();
    let id = p.ends[0].open_stream(0, Policy::Stripe).unwrap();
    p.ends[0].write_stream(id, &[1; 3_000_000]).unwrap();
    p.run(Duration::from_millis(5));
    p.events(1);
    p.ends[1].stop_stream(id, 9).unwrap();
    assert_eq!(p.ends[1].read_stream(id, &mut [0; 9]), Err(OpError::Closed));
    p.run(Duration::from_millis(50));
    assert!(p.events(0).contains(&OpEvent::Stopped { id, code: 9 }));
    assert_eq!(p.ends[0].write_stream(id, b"x"), Err(OpError::Closed));
    p.ends[1].reset_stream(id, 1).unwrap();
    p.run(Duration::from_millis(5));
    assert_eq!(p.ends.each_ref().map(|e| e.stats().streams_open), [0, 0]);
}

#[test]
fn given_up_at_once_nothing_remains_at_either_end() {
    let mut p = pair();
    p.faults.loss = 40;
    for _ in 0..50 {
        let id = p.ends[0].open_stream(0, Policy::Stripe).unwrap();
        p.ends[0].reset_stream(id, 1).unwrap();
        p.ends[0].stop_stream(id, 2).unwrap();
    }
    p.run(Duration::from_millis(500));
    assert_eq!(p.ends.each_ref().map(|e| e.stats().streams_open), [0, 0]);
    assert_eq!(p.events(1), [], "nobody needs to hear of them");
}

#[test]
fn streams_come_in_any_order() {
    let mut p = pair();
    let ops = &mut p.ends[1];
    let now = p.now;
    ops.on_stream(now, &segment(4, 0, true, b"third")).unwrap();
    ops.on_stream(now, &segment(0, 5, true, b"second half"))
        .unwrap();
    assert_eq!(ops.stats().streams_open, 3);
    let [four, zero] = [4, 0].map(StreamId);
    assert_eq!(
        p.events(1),
        [
            OpEvent::StreamOpened {
                id: four,
                service: 0
            },
            OpEvent::Readable(four)
        ]
    );
    p.ends[1]
        .on_stream(now, &segment(0, 0, false, b"first"))
        .unwrap();
    assert_eq!(
        p.events(1),
        [
            OpEvent::StreamOpened {
                id: zero,
                service: 0
            },
            OpEvent::Readable(zero)
        ]
    );
    assert_eq!(read(&mut p, 1, zero), (b"firstsecond half".to_vec(), true));
    let unseen = p.ends[1].write_stream(StreamId(2), b"");
    assert_eq!(unseen, Err(OpError::UnknownStream));
}

#[test]
fn too_many_are_refused_and_the_opener_is_told() {
    let limits = OpLimits {
        streams_max: 10,
        ..OpLimits::default()
    };
    let mut p = pair();
    p.ends[1] = Ops::new(false, &limits);
    let ids = open(&mut p, 15);
    p.run(Duration::from_millis(5));
    assert_eq!(p.ends[1].stats().streams_refused, 5);
    let refused: Vec<_> = p
        .events(0)
        .into_iter()
        .filter_map(|e| match e {
            OpEvent::Stopped { id, code } if code == CODE_REFUSED => Some(id),
            _ => None,
        })
        .collect();
    assert_eq!(refused, ids[10..]);
    assert_eq!(p.events(1).len(), 10);
    let far = segment(1000, 0, false, b"x");
    assert_eq!(
        p.ends[1].on_stream(p.now, &far),
        Err(Violation::TooManyStreams)
    );
    let own: Vec<_> = (0..11)
        .map(|_| p.ends[1].open_stream(0, Policy::Stripe))
        .collect();
    assert_eq!(own[10], Err(OpError::TooManyStreams));
    assert!(own[..10].iter().all(Result::is_ok));
}

#[test]
fn violations() {
    let mut p = pair();
    let now = p.now;
    let ops = &mut p.ends[1];
    ops.on_stream(now, &segment(0, 10, true, b"end")).unwrap();
    let window = STREAM_WINDOW_BYTES_INITIAL;
    for (seg, violation) in [
        (segment(0, 12, false, b"beyond"), Violation::FinalSize),
        (segment(0, 0, true, b"shorter"), Violation::FinalSize),
        (
            segment(2, window, false, b"x"),
            Violation::BeyondStreamWindow,
        ),
        (
            segment(2, u64::MAX, false, b"x"),
            Violation::BeyondStreamWindow,
        ),
        (segment(1, 0, false, b"mine"), Violation::UnknownStream),
    ] {
        assert_eq!(ops.on_stream(now, &seg), Err(violation));
    }
    assert_eq!(ops.on_stream_reset(now, 0, 0, 5), Err(Violation::FinalSize));
    let beyond = ops.on_stream_reset(now, 2, 0, window + 1);
    assert_eq!(beyond, Err(Violation::BeyondStreamWindow));
    // As much as the streams' windows admit is more than the bundle's does.
    let mut result = Ok(());
    for id in (4..100).step_by(2) {
        result = result.and(ops.on_stream(now, &segment(id, window - 1, false, b"x")));
    }
    assert_eq!(result, Err(Violation::BeyondBundleWindow));
    let mut scattered = Ok(());
    for n in 0..2 * RANGES_MAX as u64 {
        scattered = scattered.and(ops.on_stream(now, &segment(2, 1 + 2 * n, false, b"x")));
    }
    assert_eq!(scattered, Err(Violation::TooScattered));
}

#[test]
fn a_restart_breaks_streams_and_new_ones_work() {
    let mut p = pair();
    let id = p.ends[0].open_stream(0, Policy::Stripe).unwrap();
    p.ends[0].write_stream(id, &[1; 10_000]).unwrap();
    p.run(Duration::from_millis(5));
    p.events(1);
    for ops in &mut p.ends {
        ops.reset();
    }
    assert_eq!(p.events(0), [OpEvent::Broken(id)]);
    assert_eq!(p.events(1), [OpEvent::Broken(id)]);
    let id = p.ends[0].open_stream(5, Policy::Stripe).unwrap();
    p.ends[0].write_stream(id, b"fresh").unwrap();
    p.run(Duration::from_millis(5));
    assert_eq!(read(&mut p, 1, id), (b"fresh".to_vec(), false));
}

#[test]
fn many_idle_streams_cost_little() {
    let mut p = pair();
    p.underway_max = 1000;
    for _ in 0..20 {
        for _ in 0..100 {
            let id = p.ends[0].open_stream(0, Policy::Stripe).unwrap();
            p.ends[0].write_stream(id, &[1; 2000]).unwrap();
        }
        p.run(Duration::from_millis(5));
    }
    for event in p.events(1) {
        if let OpEvent::Readable(id) = event {
            read(&mut p, 1, id);
        }
    }
    for ops in &mut p.ends {
        ops.trim();
        assert!(ops.memory_bytes() < 2000 * 1500, "{}", ops.memory_bytes());
    }
}

#[test]
fn gaps_of_all_streams_together_are_bounded() {
    let mut p = pair();
    p.run(Duration::from_millis(1));
    let now = p.now;
    let window = p.ends[1].memory_bytes() + (16 << 20);
    let mut result = Ok(());
    // Every other byte of stream after stream, as far as the initial windows go.
    'streams: for id in (0..).step_by(2) {
        for n in 0..RANGES_MAX as u64 - 1 {
            let seg = StreamSegment {
                service: (n == 0).then_some(0),
                ..segment(id, n * 2, false, &[7])
            };
            result = p.ends[1].on_stream(now, &seg);
            if result.is_err() {
                break 'streams;
            }
        }
        assert!(id < 200, "no end");
    }
    assert_eq!(result, Err(Violation::TooScattered));
    assert!(p.ends[1].memory_bytes() < window + STREAM_GAPS_BYTES_MAX as usize);
}
