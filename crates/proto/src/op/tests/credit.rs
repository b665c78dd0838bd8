//! Nobody's back-pressure is another's: streams that nobody reads, beside streams that are read.

use super::*;

/// Writes as much as each takes, until none takes any more; returns how much that is.
fn fill(p: &mut Pair, ids: &[StreamId]) -> u64 {
    fill_by(p, ids, 200_000)
}

/// As [`fill`], so many bytes at a time.
fn fill_by(p: &mut Pair, ids: &[StreamId], bytes: usize) -> u64 {
    let data = vec![1; bytes];
    let mut all = 0;
    loop {
        let mut written = 0;
        for id in ids {
            written += p.ends[0].write_stream(*id, &data).unwrap() as u64;
        }
        p.run(Duration::from_millis(20));
        all += written;
        if written == 0 {
            p.run(Duration::from_millis(500));
            return all;
        }
    }
}

/// Writes to a stream and reads it, for so long; returns how much was read.
fn progress(p: &mut Pair, id: StreamId, for_: Duration) -> usize {
    let (data, mut buffer) = (vec![1; 200_000], vec![0; 200_000]);
    let (until, mut all) = (p.now + for_, 0);
    loop {
        let _ = p.ends[0].write_stream(id, &data);
        while let Ok(Read { len, .. }) = p.ends[1].read_stream(id, &mut buffer)
            && len > 0
        {
            all += len;
        }
        if !p.step(until) {
            return all;
        }
    }
}

#[test]
fn a_stream_that_is_read_goes_on_however_many_are_not() {
    let alone = {
        let mut p = pair();
        let id = open(&mut p, 1)[0];
        progress(&mut p, id, Duration::from_millis(300))
    };
    for count in [100, 1000] {
        let mut p = pair();
        let old = open(&mut p, 1)[0];
        progress(&mut p, old, Duration::from_millis(100));
        let unread = open(&mut p, count);
        fill(&mut p, &unread);
        assert!(p.ends[1].memory_bytes() < 130 << 20);
        let beside = progress(&mut p, old, Duration::from_millis(300));
        assert!(beside > alone / 10 * 8, "{beside} of {alone}, {count}");
        // A new one as well.
        let new = open(&mut p, 1)[0];
        let beside = progress(&mut p, new, Duration::from_millis(300));
        assert!(beside > alone / 10 * 8, "{beside} of {alone}, {count}");
    }
}

/// A writer that comes when it is told of room need not wait for a turn of those that nobody reads.
#[test]
fn whoever_fills_its_own_queue_is_told_of_room_however_many_wait_for_others() {
    let told = |count: usize| {
        let mut p = pair();
        let ids = open(&mut p, count + 1);
        for id in &ids {
            p.ends[0].set_stream_owner(*id, 1000).unwrap();
        }
        let (id, unread) = ids.split_first().unwrap();
        fill(&mut p, unread);
        let (data, mut buffer) = (vec![1; 200_000], vec![0; 200_000]);
        let (until, mut all) = (p.now + Duration::from_millis(300), 0);
        let mut may_write = true;
        loop {
            let events = p.events(0);
            may_write |= events.contains(&OpEvent::Writable(*id));
            while may_write {
                may_write = p.ends[0].write_stream(*id, &data).unwrap() == data.len();
            }
            while let Ok(Read { len, .. }) = p.ends[1].read_stream(*id, &mut buffer)
                && len > 0
            {
                all += len;
            }
            if !p.step(until) {
                return all;
            }
        }
    };
    let (alone, beside) = (told(0), told(1000));
    assert!(beside > alone / 2, "{beside} of {alone}");
}

/// Alone it stands in line, too, where little may be unread for all streams together.
#[test]
fn whoever_comes_only_when_told_of_room_is_told_whatever_the_limits() {
    let kb = [64, 256, 1024, 8192].map(|kb| kb * 1024);
    let all = kb.iter().flat_map(|window| kb.map(|kept| (*window, kept)));
    for (bundle_window_bytes, streams_send_bytes) in all {
        for owner in [0, 1000] {
            let limits = OpLimits {
                bundle_window_bytes,
                streams_send_bytes: streams_send_bytes as usize,
                ..OpLimits::default()
            };
            let mut p = Pair::new(&limits);
            let id = open(&mut p, 1)[0];
            p.ends[0].set_stream_owner(id, owner).unwrap();
            let (data, mut buffer) = (vec![1; 64 * 1024], vec![0; 64 * 1024]);
            let (until, mut left) = (p.now + Duration::from_secs(2), 500_000);
            let mut may_write = true;
            while p.step(until) {
                may_write |= p.events(0).contains(&OpEvent::Writable(id));
                while may_write {
                    may_write = p.ends[0].write_stream(id, &data).unwrap() == data.len();
                }
                while let Ok(Read { len, .. }) = p.ends[1].read_stream(id, &mut buffer)
                    && len > 0
                {
                    left -= len.min(left);
                }
            }
            assert_eq!(
                left, 0,
                "{owner} {bundle_window_bytes} {streams_send_bytes}"
            );
        }
    }
}

#[test]
fn readers_that_kept_up_and_then_stand_still_stop_nobody() {
    let mut p = pair();
    p.underway_max = 256;
    let ids = open(&mut p, 60);
    for id in &ids {
        progress(&mut p, *id, Duration::from_millis(20));
    }
    p.run(Duration::from_secs(2));
    fill(&mut p, &ids);
    let window = p.ends[1].shared.receive_window.unread();
    assert!(window < 128 << 20, "{window}");
    let new = open(&mut p, 1)[0];
    assert!(progress(&mut p, new, Duration::from_millis(100)) > 1_000_000);
    // And those that are read again go on.
    assert!(progress(&mut p, ids[7], Duration::from_millis(100)) > 1_000_000);
}

#[test]
fn what_is_ahead_of_what_peers_read_is_a_part_of_what_may_be_kept() {
    let limits = OpLimits {
        streams_send_bytes: 4 << 20,
        ..OpLimits::default()
    };
    let mut p = Pair::new(&limits);
    let unread = open(&mut p, 500);
    fill(&mut p, &unread);
    let kept = p.ends[0].streams.kept_bytes();
    assert!(kept <= 1 << 20, "{kept}");
    let new = open(&mut p, 1)[0];
    assert!(progress(&mut p, new, Duration::from_millis(100)) > 500_000);
}

#[test]
fn an_owner_leaves_half_of_what_there_is_to_others() {
    let mut p = pair();
    let ids = open(&mut p, 2000);
    for id in &ids {
        p.ends[0].set_stream_owner(*id, 1000).unwrap();
    }
    fill(&mut p, &ids);
    let held = p.ends[1].shared.receive_window.unread();
    assert!(held < 64 << 20, "{held}");
    let others = open(&mut p, 100);
    for id in &others {
        p.ends[0].set_stream_owner(*id, 1001).unwrap();
    }
    let more = fill(&mut p, &others);
    assert!(more > 8 << 20, "{more}");
    // Owners are forgotten with their streams.
    for id in ids.iter().chain(&others) {
        p.ends[0].reset_stream(*id, 0).unwrap();
        p.ends[0].stop_stream(*id, 0).unwrap();
    }
    p.run(Duration::from_secs(1));
    assert_eq!(p.ends.each_ref().map(|e| e.stats().streams_open), [0, 0]);
    assert!(p.ends[0].streams.sums_are_empty());
}

#[test]
fn an_owner_with_many_unread_streams_goes_on_with_one_more() {
    let of_one_owner = |p: &mut Pair, count| {
        let ids = open(p, count);
        for id in &ids {
            p.ends[0].set_stream_owner(*id, 1000).unwrap();
        }
        ids
    };
    // All of them write a little at a time, so that none takes what the others would; or all they can.
    for step in [2000, 200_000] {
        let mut p = pair();
        let unread = of_one_owner(&mut p, 2000);
        fill_by(&mut p, &unread, step);
        // A few bytes at first; more when they are known to be read.
        let late = of_one_owner(&mut p, 1)[0];
        assert!(progress(&mut p, late, REPORT_AFTER) >= 64);
        let read = progress(&mut p, late, Duration::from_millis(100));
        assert!(read > 1_000_000, "{read}, {step}");
    }
}

#[test]
fn a_message_passes_streams_that_nobody_reads_and_a_stream_messages_that_nobody_fetches() {
    let mut p = pair();
    let unread = open(&mut p, 1000);
    fill(&mut p, &unread);
    let large = vec![2; MESSAGE_DATA_BYTES_MAX];
    let send = |p: &mut Pair| p.ends[0].send_message(0, None, &large, Policy::Stripe);
    send(&mut p).unwrap();
    p.run(Duration::from_millis(100));
    assert!(p.ends[1].receive_message().is_some());
    for _ in 0..100 {
        let _ = send(&mut p);
        p.run(Duration::from_millis(30));
    }
    assert_eq!(send(&mut p), Err(OpError::Full));
    let new = open(&mut p, 1)[0];
    assert!(progress(&mut p, new, Duration::from_millis(100)) > 500_000);
}

#[test]
fn many_writers_are_woken_no_faster_than_there_is_room() {
    let mut p = pair();
    p.run(Duration::from_millis(5));
    p.underway_max = 0;
    let ids = open(&mut p, 5000);
    let data = vec![1; 64 << 10];
    for id in &ids {
        p.ends[0].write_stream(*id, &data).unwrap();
    }
    p.underway_max = 1000;
    let until = p.now + Duration::from_millis(200);
    let (mut told, mut most) = (0, 0);
    let mut buffer = vec![0; 64 << 10];
    while p.step(until) {
        let events = p.events(0);
        most = most.max(events.len());
        for event in events {
            if let OpEvent::Writable(id) = event {
                told += 1;
                assert!(p.ends[0].write_stream(id, &data).unwrap() > 0);
            }
        }
        for event in p.events(1) {
            if let OpEvent::Readable(id) = event {
                while p.ends[1].read_stream(id, &mut buffer).unwrap().len > 0 {}
            }
        }
    }
    assert!(told > 300 && most <= OFFERS_MAX + 1, "{told}, {most}");
}

#[test]
fn many_are_opened_at_once_and_few_at_the_word_of_a_packet() {
    let mut p = pair();
    p.faults.loss = 20;
    p.faults.jitter_us = 3000;
    let ids = open(&mut p, 20_000);
    for id in ids.iter().step_by(3) {
        p.ends[0].reset_stream(*id, 1).unwrap();
        p.ends[0].stop_stream(*id, 1).unwrap();
    }
    // `Pair` holds that nothing of it is a violation.
    p.run(Duration::from_secs(3));
    assert_eq!(p.ends[1].stats().streams_open, 20_000 - 6_667);
    let now = p.now;
    let far = |past: u64| StreamSegmentAt(40_000 + 2 * past);
    let beyond = p.ends[1].on_stream(now, &far(OPENS_MAX).segment());
    assert_eq!(beyond, Err(Violation::TooManyStreams));
    p.ends[1]
        .on_stream(now, &far(OPENS_MAX - 1).segment())
        .unwrap();
    let beyond = p.ends[1].on_stream(now, &far(OPENS_MAX + 1).segment());
    assert_eq!(beyond, Err(Violation::TooManyStreams));
}

/// The first piece of a stream.
struct StreamSegmentAt(u64);

impl StreamSegmentAt {
    fn segment(&self) -> crate::wire::StreamSegment<'static> {
        crate::wire::StreamSegment {
            id: self.0,
            offset: 0,
            fin: false,
            held: false,
            service: Some(0),
            data: b"x",
        }
    }
}

#[test]
fn what_is_read_is_told_though_nothing_else_is_to_be_said() {
    let mut p = pair();
    let id = open(&mut p, 1)[0];
    p.ends[0].write_stream(id, &[1; 10_000]).unwrap();
    p.run(Duration::from_millis(5));
    let unread = |p: &Pair| p.ends[0].streams.unread_there();
    assert_eq!(unread(&p), 10_000 - REPORT_BYTES);
    p.ends[1].read_stream(id, &mut [0; 10_000]).unwrap();
    p.run(REPORT_AFTER / 2);
    assert_eq!(unread(&p), 10_000 - REPORT_BYTES);
    p.run(REPORT_AFTER);
    assert_eq!(unread(&p), 0);
    assert_eq!(p.ends[1].next_timeout(), None, "idle costs nothing");
}

#[test]
fn a_slow_reader_is_granted_little() {
    let mut p = pair();
    let id = open(&mut p, 1)[0];
    let (data, mut most) = (vec![1; 200_000], 0);
    for second in 0..60 {
        let _ = p.ends[0].write_stream(id, &data);
        p.run(Duration::from_millis(500));
        p.ends[1].read_stream(id, &mut [0; 2048]).unwrap();
        p.run(Duration::from_millis(500));
        if second > 50 {
            most = most.max(p.ends[1].shared.receive_window.unread());
        }
    }
    assert!(most <= STREAM_WINDOW_BYTES_MIN, "{most}");
}
