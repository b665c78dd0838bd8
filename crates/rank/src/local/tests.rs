use std::io::Write;

use super::*;
use crate::{Endpoint, Settings, SharedMemory};

const KEY: [u8; 32] = [1; 32];

fn address(instance: u64) -> Address {
    let ip = "10.77.0.1".parse().expect("is one");
    let own = instance << 32 | u64::from(std::process::id());
    Address::new(&[(0, ip)], 4000, own).expect("is one")
}

/// One of an address that no other test uses.
fn local(instance: u64) -> Local {
    Local::open(&KEY, &address(instance), [instance as u8; 16], true).expect("opens")
}

/// The neighbours that two have become of each other; the second has called the first.
fn met(a: &mut Local, b: &mut Local) -> (usize, usize) {
    let now = Time::ZERO;
    let Called::At(there) = b.call(now, Peer(1), &a.own.clone(), None) else {
        panic!("is not found");
    };
    let mut callers = a.callers(now);
    assert_eq!(callers.len(), 1);
    let caller = callers.remove(0);
    assert_eq!(caller.address, b.own);
    let here = a.admit(now, Peer(1), None, caller).expect("is admitted");
    (here, there)
}

fn read(local: &mut Local, slot: usize) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    let kind = local.read(slot, &mut body).expect("is not broken");
    kind.map(|_| body)
}

#[test]
fn who_calls_is_heard_and_answered() {
    let (mut a, mut b) = (local(1), local(2));
    let (here, there) = met(&mut a, &mut b);
    for word in [&b"first"[..], b"second"] {
        assert_eq!(b.say(there, 0, [word].into_iter()), Ok(true));
    }
    assert_eq!(read(&mut a, here), Some(b"first".to_vec()));
    assert_eq!(read(&mut a, here), Some(b"second".to_vec()));
    assert_eq!(read(&mut a, here), None);
    // This process's own memory.
    assert!(b.get(there).is_some_and(|neighbour| neighbour.pulls()));
    let to = b.own;
    assert!(
        matches!(a.call(Time::ZERO, Peer(1), &to, Some(here)), Called::At(slot) if slot == here)
    );
    let caller = b.callers(Time::ZERO).remove(0);
    assert_eq!(
        b.admit(Time::ZERO, Peer(1), Some(there), caller),
        Some(there)
    );
    assert_eq!(a.owe(here, 0, &[b"an", b"swer"]), Ok(()));
    assert_eq!(read(&mut b, there), Some(b"answer".to_vec()));
}

#[test]
fn what_was_said_before_the_end_is_heard_after_it() {
    let (mut a, mut b) = (local(3), local(4));
    assert!(matches!(
        b.call(Time::ZERO, Peer(1), &a.own.clone(), None),
        Called::At(_)
    ));
    assert_eq!(b.say(0, 0, [&b"last"[..]].into_iter()), Ok(true));
    b.close();
    drop(b);
    let caller = a.callers(Time::ZERO).remove(0);
    let here = a
        .admit(Time::ZERO, Peer(1), None, caller)
        .expect("is admitted");
    assert!(!a.get(here).is_some_and(|neighbour| neighbour.is_closed()));
    assert_eq!(read(&mut a, here), Some(b"last".to_vec()));
    assert!(a.get(here).is_some_and(|neighbour| neighbour.is_closed()));
    assert!(a.is_dead(here));
}

#[test]
fn what_waits_for_room_goes_in_order_when_there_is_some() {
    let (mut a, mut b) = (local(5), local(6));
    let (here, there) = met(&mut a, &mut b);
    let record = |n: u32| [n.to_ne_bytes().as_slice(), &[0; 5000]].concat();
    for n in 0..100 {
        assert_eq!(b.owe(there, 0, &[&record(n)]), Ok(()));
    }
    assert!(b.owes());
    assert_eq!(b.say(there, 0, [&b"later"[..]].into_iter()), Ok(false));
    let mut next = 0;
    while next < 100 {
        while let Some(body) = read(&mut a, here) {
            assert_eq!(body, record(next));
            next += 1;
        }
        a.tell(here);
        assert_eq!(b.say_owed(there), Ok(()));
    }
    assert!(!b.owes());
    // Who asks and never reads is given up.
    let fills = (0..10_000).map(|n| b.owe(there, 0, &[&record(n)]));
    assert!(fills.into_iter().any(|owed| owed == Err(Broken)));
}

#[test]
fn whoever_says_nonsense_is_not_let_in() {
    let mut a = local(7);
    let keyed = Keyed::new(&KEY);
    let other = Keyed::new(&[2; 32]);
    let path = keyed.path(LISTENER, &a.own);
    let hello = Hello {
        from: address(8),
        probe_at: 8,
        probe: [0; PROBE_BYTES],
    };
    let (_ring, good) = Writer::create().expect("is made");
    let loose = no_ring();
    let said = keyed.write(&hello, &a.own);
    let foreign = other.write(&hello, &a.own);
    let mut calls = Vec::new();
    for (message, file) in [
        (&b"nonsense"[..], Some(&good)),
        (&foreign, Some(&good)),
        (&said, None),
        (&said, Some(&loose)),
    ] {
        let call = Handover::connect_now(&path).expect("listens");
        let files: Vec<_> = file.into_iter().map(AsFd::as_fd).collect();
        call.send(message, &files).expect("is sent");
        calls.push(call);
    }
    // Some say nothing at all.
    calls.extend((0..3).map(|_| Handover::connect_now(&path).expect("listens")));
    assert!(a.callers(Time::ZERO).is_empty());
    assert_eq!(a.silent.len(), 3);
    // The ring is good, and where the writer's memory is said to be is none.
    let call = Handover::connect_now(&path).expect("listens");
    call.send(&said, &[good.as_fd()]).expect("is sent");
    let callers = a.callers(Time::ZERO + SILENT_MAX);
    assert_eq!(callers.len(), 1);
    assert_eq!(callers[0].pid, None);
    assert!(a.silent.is_empty());
}

/// A file that is no memory of a ring.
fn no_ring() -> OwnedFd {
    let (reader, mut writer) = std::io::pipe().expect("is made");
    writer.write_all(b"x").expect("is written");
    reader.into()
}

#[test]
fn who_calls_is_heard_by_one_that_calls_nobody_any_more_or_is_told() {
    let (mut a, mut b) = (local(14), local(15));
    let to = a.own;
    for n in 0..=ADMITTED_MAX {
        let Called::At(there) = b.call(Time::ZERO, Peer(1), &to, None) else {
            panic!("is not found");
        };
        let caller = a.callers(Time::ZERO).remove(0);
        let here = a.admit(Time::ZERO, Peer(2 + n as u32), None, caller);
        let is_told = b.get(there).is_some_and(|neighbour| neighbour.is_closed());
        assert_eq!(
            (here.is_some(), is_told),
            (n < ADMITTED_MAX, n == ADMITTED_MAX)
        );
        b.part(there);
    }
    let called = a.call(Time::ZERO, Peer(1), &b.own, None);
    assert!(matches!(called, Called::Elsewhere));
    assert!(a.slots() >= ADMITTED_MAX);
}

#[test]
fn a_second_ring_of_the_same_one_is_not_read() {
    let (mut a, mut b) = (local(16), local(17));
    let (here, there) = met(&mut a, &mut b);
    assert!(matches!(
        b.call(Time::ZERO, Peer(1), &a.own.clone(), Some(there)),
        Called::At(_)
    ));
    let caller = a.callers(Time::ZERO).remove(0);
    assert_eq!(a.admit(Time::ZERO, Peer(1), Some(here), caller), None);
    assert!(b.get(there).is_some_and(|neighbour| neighbour.is_closed()));
    assert!(!a.get(here).is_some_and(|neighbour| neighbour.is_closed()));
}

#[test]
fn nobody_is_found_by_another_key_or_where_nobody_is() {
    let a = local(9);
    let mut other = Local::open(&[2; 32], &address(10), [0; 16], true).expect("opens");
    for to in [a.own, address(11)] {
        let called = other.call(Time::ZERO, Peer(1), &to, None);
        assert!(matches!(called, Called::Elsewhere));
    }
    assert!(Local::open(&KEY, &a.own, [0; 16], true).is_err());
}

#[test]
fn who_is_rung_for_wakes() {
    let (mut a, mut b) = (local(12), local(13));
    let poller = Poller::new().expect("is made");
    a.register(&poller, 5).expect("is registered");
    let mut ready = Vec::new();
    let (here, there) = met(&mut a, &mut b);
    a.hush();
    poller
        .wait(Some(Duration::ZERO), &mut ready)
        .expect("waits");
    assert!(ready.is_empty());
    assert!(a.sleep());
    assert_eq!(b.say(there, 0, [&b"x"[..]].into_iter()), Ok(true));
    poller.wait(None, &mut ready).expect("waits");
    assert_eq!(ready[0].token, 5);
    a.hush();
    assert!(!a.sleep(), "something is there");
    assert!(read(&mut a, here).is_some());
    assert!(a.sleep());
    b.part(there);
    poller.wait(None, &mut ready).expect("waits");
    assert!(a.get(here).is_some_and(|neighbour| neighbour.is_closed()));
}

/// An endpoint, and somebody who has the key, and says it what is to be said.
fn endpoint_and(instance: u64) -> (Endpoint, Local, usize) {
    let settings = Settings {
        links: vec![(0, "127.0.0.1".parse().expect("is one"))],
        key: KEY,
        encrypted: true,
        ports: 20_000..=60_000,
        peer_timeout: Duration::from_secs(60),
        eager_bytes: 16 * 1024,
        unexpected_bytes: 256 * 1024,
        shared_memory: SharedMemory::Pull,
        bundles_max: None,
    };
    let end = Endpoint::open(&settings).expect("opens");
    let instance = instance << 32 | u64::from(std::process::id());
    let own = Address::new(&settings.links, 4000, instance).expect("is one");
    let mut local = Local::open(&KEY, &own, [3; 16], true).expect("opens");
    let Called::At(slot) = local.call(Time::ZERO, Peer(1), end.address(), None) else {
        panic!("is not found");
    };
    (end, local, slot)
}

/// Lets an endpoint work until something is so.
fn until(end: &Endpoint, mut is_so: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(std::time::Instant::now() < until);
        end.lock().progress();
    }
}

#[test]
fn who_writes_what_nobody_says_is_parted_with() {
    let put = Record::Done {
        token: 1,
        status: tabane_proto::wire::MemoryStatus::Done,
    };
    let (done, words) = put.write();
    let cut = &words.as_slice()[..9];
    for (n, (kind, body)) in [(99, &b""[..]), (0, b"\xff\xff"), (0, b""), (done, cut)]
        .into_iter()
        .enumerate()
    {
        let (end, mut local, slot) = endpoint_and(20 + n as u64);
        assert_eq!(local.say(slot, kind, [body].into_iter()), Ok(true));
        until(&end, || local.get(slot).is_some_and(|n| n.is_closed()));
    }
}

#[test]
fn what_is_asked_of_nothing_is_refused_and_harms_nobody() {
    use tabane_proto::wire::{MemoryStatus, PutTarget, Stretch};
    let (end, mut local, slot) = endpoint_and(30);
    let mut region = vec![0u8; 100];
    let piece = crate::Piece {
        base: region.as_mut_ptr(),
        bytes: region.len(),
    };
    let access = crate::Access {
        remote_read: true,
        remote_write: true,
        is_told: false,
    };
    // SAFETY: `region` outlives the endpoint's work.
    unsafe { end.lock().register(7, piece, access, 0) }.expect("is registered");
    let to = |key, base, total| Stretch { key, base, total };
    let target = |to| PutTarget {
        to,
        immediate: None,
    };
    let put = |target, offset| Record::Put {
        token: 5,
        target,
        offset,
        is_last: true,
    };
    let get = |from, is_inline| Record::Get {
        token: 5,
        from,
        is_inline,
    };
    let take = |target, pieces: &[(u64, u64)]| Record::Take {
        token: 5,
        target,
        pieces: pieces.to_vec(),
    };
    let refused = [
        (put(target(to(8, 0, 4)), 0), MemoryStatus::BadKey),
        (put(target(to(7, 98, 4)), 0), MemoryStatus::OutOfBounds),
        (get(to(7, u64::MAX, 4), true), MemoryStatus::OutOfBounds),
        (get(to(8, 0, 4), false), MemoryStatus::BadKey),
        (take(target(to(8, 0, 4)), &[(1, 4)]), MemoryStatus::BadKey),
        (take(target(to(7, 0, 4)), &[(1, 4)]), MemoryStatus::NoAccess),
    ];
    let count = refused.len() as u64;
    for (record, status) in refused {
        let (kind, words) = record.write();
        let parts = [words.as_slice(), b"1234"];
        let parts = &parts[..if matches!(record, Record::Put { .. }) {
            2
        } else {
            1
        }];
        assert_eq!(local.owe(slot, kind, parts), Ok(()));
        let mut answer = None;
        until(&end, || {
            for caller in local.callers(Time::ZERO) {
                local.admit(Time::ZERO, Peer(1), Some(slot), caller);
            }
            let mut body = Vec::new();
            let kind = local.read(slot, &mut body).expect("is not broken");
            answer = kind.and_then(|kind| Record::read(kind, &body));
            answer.is_some()
        });
        let wanted = Record::Done { token: 5, status };
        assert_eq!(answer.map(|(record, _)| record), Some(wanted));
    }
    // Answers to what nobody has asked, and bytes beyond what they belong to.
    let odd = [
        put(target(to(7, 0, 4)), 3),
        put(target(to(7, 0, 4)), u64::MAX),
        Record::Bytes {
            token: 9,
            offset: u64::MAX,
            is_last: true,
        },
        Record::Grant {
            token: 9,
            pieces: vec![(1, u64::MAX); 16],
        },
    ];
    for record in odd {
        let (kind, words) = record.write();
        assert_eq!(local.owe(slot, kind, &[words.as_slice()]), Ok(()));
    }
    let (kind, words) = put(target(to(7, 0, 4)), 2).write();
    assert_eq!(local.owe(slot, kind, &[words.as_slice(), b"1234"]), Ok(()));
    until(&end, || !local.get(slot).is_some_and(|n| n.has_unread()));
    assert_eq!(end.lock().statistics().refused_accesses, count);
    drop(end);
    assert_eq!(region[..6], [0, 0, b'1', b'2', 0, 0]);
}
