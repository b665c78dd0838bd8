//! Memory operations over a channel that loses, duplicates and reorders: each byte is placed once, nowhere else, and each
//! operation ends once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;
use crate::wire::{MemoryStatus, OPERATIONS_MAX, OperationKind, PutTarget, Stretch};

const KEY: u64 = 0xfeed;

/// Bytes, and how often each was written.
type Counted = (Vec<u8>, Vec<u8>);

/// A program's memory, by handle.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<BTreeMap<u64, Counted>>>);

impl Bytes {
    fn add(&self, handle: u64, bytes: Vec<u8>) {
        let counts = vec![0; bytes.len()];
        self.0.lock().unwrap().insert(handle, (bytes, counts));
    }

    fn of(&self, handle: u64) -> Counted {
        self.0.lock().unwrap()[&handle].clone()
    }
}

impl Memory for Bytes {
    fn read(&self, handle: u64, offset: u64, into: &mut [u8]) {
        let all = self.0.lock().unwrap();
        let at = offset as usize;
        into.copy_from_slice(&all[&handle].0[at..at + into.len()]);
    }

    fn write(&mut self, handle: u64, offset: u64, from: &[u8]) {
        let mut all = self.0.lock().unwrap();
        let (bytes, counts) = all.get_mut(&handle).unwrap();
        let at = offset as usize..offset as usize + from.len();
        bytes[at.clone()].copy_from_slice(from);
        counts[at]
            .iter_mut()
            .for_each(|count| *count = count.saturating_add(1));
    }
}

/// Two ends; end 1 has a region of so many bytes under [`KEY`], its handle is 1.
fn with_region(bytes: usize) -> (Pair, [Bytes; 2]) {
    let mut p = pair();
    let memories: [Bytes; 2] = Default::default();
    for (reach, memory) in p.reach.iter_mut().zip(&memories) {
        reach.memory = Box::new(memory.clone());
    }
    memories[1].add(1, vec![0; bytes]);
    let region = Region {
        handle: 1,
        bytes: bytes as u64,
        origin: 0,
        is_readable: true,
        is_writable: true,
        is_told: false,
    };
    p.reach[1].regions.register(KEY, region).unwrap();
    (p, memories)
}

fn stretch(base: u64, total: usize) -> Stretch {
    Stretch {
        key: KEY,
        base,
        total: total as u64,
    }
}

fn put(handle: u64, to: Stretch, immediate: Option<u64>) -> Put {
    Put {
        handle,
        target: PutTarget { to, immediate },
        token: handle,
    }
}

fn get(handle: u64, from: Stretch) -> Get {
    Get {
        from,
        handle,
        token: handle,
    }
}

fn ended(token: u64, status: MemoryStatus) -> OpEvent {
    OpEvent::Operation { token, status }
}

#[test]
fn a_put_and_a_get_bring_bytes_where_they_belong() {
    for len in [0, 1, 100, 5000, 1 << 20] {
        let (mut p, memories) = with_region(2 << 20);
        let bytes = pattern(7, 0, len);
        memories[0].add(10, bytes.clone());
        memories[0].add(11, vec![0; len]);
        p.ends[0].put(put(10, stretch(33, len), Some(42))).unwrap();
        p.run(Duration::from_secs(5));
        assert_eq!(p.events(0), [ended(10, MemoryStatus::Done)], "{len}");
        let told = OpEvent::Written {
            key: KEY,
            immediate: Some(42),
            bytes: len as u64,
        };
        assert_eq!(p.events(1), [told]);
        let (there, counts) = memories[1].of(1);
        assert!(there[33..33 + len] == bytes);
        assert!(
            counts[..33]
                .iter()
                .chain(&counts[33 + len..])
                .all(|n| *n == 0)
        );
        p.ends[0].get(get(11, stretch(33, len))).unwrap();
        p.run(Duration::from_secs(5));
        assert_eq!(p.events(0), [ended(11, MemoryStatus::Done)], "{len}");
        assert!(memories[0].of(11).0 == bytes);
        for end in &p.ends {
            assert_eq!((end.in_flight_bytes(), end.queued_bytes()), (0, 0));
            assert_eq!(end.lost_bytes(), 0);
            assert!(!end.has_ends_untold());
        }
    }
}

#[test]
fn whose_memory_it_is_knows_whether_the_other_end_knows_that_a_put_is_over() {
    let (mut p, memories) = with_region(10);
    memories[0].add(10, vec![1; 10]);
    p.ends[0].put(put(10, stretch(0, 10), Some(42))).unwrap();
    let (mut is_over, mut knows, mut was_untold) = (false, false, false);
    for _ in 0..10_000 {
        p.run(Duration::from_micros(10));
        is_over |= !p.events(1).is_empty();
        knows |= !p.events(0).is_empty();
        was_untold |= is_over && !knows && p.ends[1].has_ends_untold();
    }
    assert!(knows && was_untold && !p.ends[1].has_ends_untold());
}

#[test]
fn whatever_the_channel_does_each_byte_is_placed_once_and_each_operation_ends_once() {
    for seed in 0..60 {
        let (mut p, memories) = with_region(1 << 20);
        p.dice = Dice::new(seed);
        p.faults = Faults {
            loss: 10,
            duplicate: 10,
            spurious: 10,
            jitter_us: 1000,
            again: 10,
        };
        let (mut at, mut wanted, mut expected) = (0, vec![0; 1 << 20], Vec::new());
        for n in 0..40u64 {
            let len = [0, 1, 64, 900, 4000, 60_000][p.dice.below(6) as usize];
            let token = 100 + n;
            if n % 2 == 0 {
                let bytes = pattern(n, 0, len);
                wanted[at..at + len].copy_from_slice(&bytes);
                memories[0].add(token, bytes);
                let to = stretch(at as u64, len);
                p.ends[0].put(put(token, to, Some(n))).unwrap();
                at += len;
            } else {
                memories[1].add(token, pattern(n, 0, len));
                let region = Region {
                    handle: token,
                    bytes: len as u64,
                    origin: 0,
                    is_readable: true,
                    is_writable: false,
                    is_told: false,
                };
                p.reach[1].regions.register(n, region).unwrap();
                memories[0].add(token, vec![0; len]);
                let from = Stretch {
                    key: n,
                    ..stretch(0, len)
                };
                p.ends[0].get(get(token, from)).unwrap();
            }
            expected.push(token);
            let pause_us = p.dice.below(300);
            p.run(Duration::from_micros(pause_us));
        }
        p.run(Duration::from_secs(20));
        let mut tokens = Vec::new();
        for event in p.events(0) {
            let OpEvent::Operation { token, status } = event else {
                panic!("{event:?}");
            };
            assert_eq!(status, MemoryStatus::Done, "seed {seed}");
            tokens.push(token);
        }
        tokens.sort_unstable();
        assert_eq!(tokens, expected, "seed {seed}");
        let mut told: Vec<_> = (p.events(1).into_iter())
            .map(|event| match event {
                OpEvent::Written { immediate, .. } => immediate.expect("it has one"),
                other => panic!("{other:?}"),
            })
            .collect();
        told.sort_unstable();
        assert_eq!(told, (0..40).step_by(2).collect::<Vec<_>>());
        let (there, counts) = memories[1].of(1);
        assert!(there == wanted, "seed {seed}");
        assert!(counts[..at].iter().all(|n| *n == 1) && counts[at..].iter().all(|n| *n == 0));
        for n in (1..40).step_by(2) {
            let (bytes, counts) = memories[0].of(100 + n);
            assert!(bytes == pattern(n, 0, bytes.len()) && counts.iter().all(|n| *n == 1));
        }
    }
}

#[test]
fn a_region_may_be_told_of_all_that_is_done_with_it() {
    for len in [0, 100, 1 << 20] {
        let (mut p, memories) = with_region(0);
        let told = Region {
            handle: 2,
            bytes: len as u64,
            origin: 0,
            is_readable: true,
            is_writable: true,
            is_told: true,
        };
        memories[1].add(2, vec![0; len]);
        p.reach[1].regions.register(5, told).unwrap();
        memories[0].add(10, vec![1; len]);
        memories[0].add(11, vec![0; len]);
        let all = Stretch {
            key: 5,
            ..stretch(0, len)
        };
        let bytes = len as u64;
        for immediate in [Some(9), None] {
            p.ends[0].put(put(10, all, immediate)).unwrap();
            p.run(Duration::from_secs(5));
            let told = OpEvent::Written {
                key: 5,
                immediate,
                bytes,
            };
            assert_eq!(p.events(1), [told]);
        }
        p.ends[0].get(get(11, all)).unwrap();
        p.run(Duration::from_secs(5));
        assert_eq!(p.events(1), [OpEvent::Read { key: 5, bytes }]);
        // What is refused is nothing that was done.
        let beyond = Stretch {
            total: bytes + 1,
            ..all
        };
        p.ends[0].get(get(11, beyond)).unwrap();
        p.run(Duration::from_secs(5));
        assert_eq!(p.events(1), []);
    }
}

#[test]
fn what_is_not_allowed_is_refused_and_nothing_is_touched() {
    let (mut p, memories) = with_region(1000);
    let read_only = Region {
        handle: 1,
        bytes: 1000,
        origin: 0,
        is_readable: true,
        is_writable: false,
        is_told: false,
    };
    p.reach[1].regions.register(5, read_only).unwrap();
    memories[0].add(10, vec![1; 5000]);
    let of = |key, base, total| Stretch {
        key,
        ..stretch(base, total)
    };
    let cases = [
        (of(6, 0, 10), MemoryStatus::BadKey),
        (of(5, 0, 10), MemoryStatus::NoAccess),
        (of(KEY, 1, 1000), MemoryStatus::OutOfBounds),
        (of(KEY, 0, 5000), MemoryStatus::OutOfBounds),
        (of(KEY, (1 << 62) - 1, 10), MemoryStatus::OutOfBounds),
    ];
    for (to, status) in cases {
        p.ends[0].put(put(10, to, None)).unwrap();
        p.run(Duration::from_secs(1));
        assert_eq!(p.events(0), [ended(10, status)], "{to:?}");
        if status != MemoryStatus::NoAccess {
            p.ends[0].get(get(10, to)).unwrap();
            p.run(Duration::from_secs(1));
            assert_eq!(p.events(0), [ended(10, status)], "{to:?}");
        }
    }
    assert!(memories[1].of(1).1.iter().all(|n| *n == 0));
    assert_eq!(p.ends[1].stats().accesses_refused, 9);
    // And all goes on.
    p.ends[0].put(put(10, stretch(0, 1000), None)).unwrap();
    p.run(Duration::from_secs(1));
    assert_eq!(p.events(0), [ended(10, MemoryStatus::Done)]);
}

#[test]
fn a_region_that_goes_amid_an_operation_fails_that_and_is_not_touched_again() {
    for is_put in [true, false] {
        let (mut p, memories) = with_region(4 << 20);
        memories[0].add(10, vec![7; 4 << 20]);
        let all = stretch(0, 4 << 20);
        if is_put {
            p.ends[0].put(put(10, all, None)).unwrap();
        } else {
            p.ends[0].get(get(10, all)).unwrap();
        }
        p.run(Duration::from_micros(900));
        assert!(p.events(0).is_empty());
        assert!(p.reach[1].regions.deregister(KEY));
        let touched = |counts: Vec<u8>| counts.iter().filter(|n| **n > 0).count();
        let before = touched(memories[1].of(1).1);
        p.run(Duration::from_secs(1));
        assert_eq!(p.events(0), [ended(10, MemoryStatus::BadKey)]);
        assert_eq!(touched(memories[1].of(1).1), before);
        assert_eq!(p.ends[1].queued_bytes(), 0);
    }
}

#[test]
fn as_many_as_may_be_are_under_way_and_others_follow() {
    let (mut p, memories) = with_region(8);
    memories[0].add(10, pattern(1, 0, 8));
    for _ in 0..3 {
        for _ in 0..OPERATIONS_MAX {
            p.ends[0].put(put(10, stretch(0, 8), None)).unwrap();
            p.ends[0].get(get(10, stretch(0, 8))).unwrap();
        }
        let full = Err(OpError::Full);
        assert_eq!(p.ends[0].put(put(10, stretch(0, 8), None)), full);
        assert_eq!(p.ends[0].get(get(10, stretch(0, 8))), full);
        p.run(Duration::from_secs(5));
        assert_eq!(p.events(0).len(), 2 * OPERATIONS_MAX as usize);
    }
}

#[test]
fn a_peer_that_begins_afresh_breaks_what_is_under_way() {
    let (mut p, memories) = with_region(1 << 20);
    memories[0].add(10, vec![0; 1 << 20]);
    p.ends[0].put(put(10, stretch(0, 1 << 20), None)).unwrap();
    p.ends[0].get(get(11, stretch(0, 1 << 20))).unwrap();
    p.transmit();
    for end in &mut p.ends {
        end.reset();
    }
    let broken = |token| ended(token, MemoryStatus::Broken);
    assert_eq!(p.events(0), [broken(10), broken(11)]);
    assert_eq!(p.ends[0].in_flight_bytes() + p.ends[0].queued_bytes(), 0);
}

#[test]
fn what_breaks_the_rules_is_a_violation_and_changes_nothing() {
    let (mut p, memories) = with_region(1000);
    let mut give = |record| p.ends[1].on_memory(&record, &mut p.reach[1]);
    let piece = |operation, target, offset, data| MemoryRecord::Put {
        operation,
        target,
        offset,
        data,
    };
    let target = |total| {
        Some(PutTarget {
            to: stretch(0, total),
            immediate: None,
        })
    };
    let violations = [
        (piece(0, None, 0, &[1]), Violation::UnknownOperation),
        (
            piece(OPERATIONS_MAX, target(2), 0, &[1]),
            Violation::TooManyOperations,
        ),
        (
            MemoryRecord::Get {
                operation: OPERATIONS_MAX,
                open: 0,
                from: stretch(0, 1),
            },
            Violation::TooManyOperations,
        ),
        (
            MemoryRecord::Answer {
                operation: 0,
                offset: 0,
                data: &[1],
            },
            Violation::UnknownOperation,
        ),
        (
            MemoryRecord::Done {
                kind: OperationKind::Put,
                operation: 0,
                status: MemoryStatus::Done,
            },
            Violation::UnknownOperation,
        ),
        (
            MemoryRecord::Done {
                kind: OperationKind::Get,
                operation: 0,
                status: MemoryStatus::BadKey,
            },
            Violation::UnknownOperation,
        ),
    ];
    for (record, violation) in violations {
        assert_eq!(give(record), Err(violation), "{record:?}");
    }
    assert_eq!(give(piece(0, target(2), 0, &[1])), Ok(()));
    assert_eq!(
        give(piece(0, target(3), 0, &[1])),
        Err(Violation::UnitLength)
    );
    assert_eq!(give(piece(0, None, 1, &[1, 2])), Err(Violation::UnitLength));
    assert_eq!(give(piece(0, None, 1, &[2])), Ok(()));
    let (bytes, counts) = memories[1].of(1);
    assert_eq!(
        (&bytes[..3], &counts[..3]),
        (&[1, 2, 0][..], &[1, 1, 0][..])
    );
}
