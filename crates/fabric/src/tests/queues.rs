//! Queues and counters: formats, waiting, events.

use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};
use core::time::Duration;
use std::time::Instant;

use super::c_side::{Plan, Rank, context, control, minus, pair, zeros};
use crate::abi::constants as c;
use crate::abi::errors;
use crate::abi::fabric::Fid;
use crate::abi::queues::{EqEntry, EqErrEntry};

impl Rank {
    fn tinject(&self, to: u64, bytes: &[u8]) {
        let ep = self.ep;
        // SAFETY: as a program calls it.
        let status =
            unsafe { ((*(*ep).tagged).inject)(ep, bytes.as_ptr().cast(), bytes.len(), to, 5) };
        assert_eq!(status, 0);
    }

    fn trecv_any(&self, bytes: &mut [u8], number: usize) {
        let ep = self.ep;
        // SAFETY: as a program calls it.
        let status = unsafe {
            let recv = (*(*ep).tagged).recv;
            let buffer = bytes.as_mut_ptr().cast();
            recv(
                ep,
                buffer,
                bytes.len(),
                null_mut(),
                u64::MAX,
                5,
                0,
                context(number),
            )
        };
        assert_eq!(status, 0);
    }

    fn sread(&self, timeout: c_int) -> isize {
        let mut words = [0u64; 6];
        // SAFETY: as a program calls it.
        unsafe {
            let sread = (*(*self.cq).ops).sread;
            sread(self.cq, words.as_mut_ptr().cast(), 1, null(), timeout)
        }
    }

    fn trywait(&self) -> isize {
        let mut fids = [self.cq.cast::<Fid>(), self.eq.cast()];
        // SAFETY: as a program calls it.
        let status = unsafe {
            let trywait = (*(*self.fabric).ops).trywait;
            trywait(self.fabric, fids.as_mut_ptr(), 2)
        };
        status as isize
    }
}

#[test]
fn a_completion_is_as_long_as_its_format() {
    for (format, words) in [
        (c::CQ_FORMAT_CONTEXT, 1),
        (c::CQ_FORMAT_MSG, 3),
        (c::CQ_FORMAT_DATA, 5),
        (c::CQ_FORMAT_TAGGED, 6),
    ] {
        let a = Rank::new(Plan {
            cq_format: format,
            ..Plan::default()
        });
        let to_a = a.insert(&a.name());
        let mut buffer = [0; 4];
        for number in [11, 12] {
            a.trecv_any(&mut buffer, number);
            a.tinject(to_a, b"four");
        }
        let mut read = [u64::MAX; 18];
        // SAFETY: as a program calls it; there is room for three.
        let count = unsafe { ((*(*a.cq).ops).read)(a.cq, read.as_mut_ptr().cast(), 3) };
        assert_eq!(count, 2);
        let whole = [11, c::TAGGED | c::RECV, 4, 0, 0, 5];
        assert_eq!(read[..words], whole[..words]);
        assert_eq!(read[words], 12);
        assert_eq!(read[2 * words], u64::MAX);
    }
}

#[test]
fn an_error_is_read_in_its_turn() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let (mut long, mut short) = ([0; 4], [0; 1]);
    b.trecv_any(&mut long, 1);
    b.trecv_any(&mut short, 2);
    b.trecv_any(&mut long, 3);
    (0..3).for_each(|_| a.tinject(to_b, b"four"));
    let mut read = [0u64; 18];
    // SAFETY: as a program calls it.
    let mut some = |count| unsafe { ((*(*b.cq).ops).read)(b.cq, read.as_mut_ptr().cast(), count) };
    // What comes before the error, first; and the error is not skipped.
    assert_eq!(some(3), 1);
    assert_eq!(some(3), minus(errors::AVAIL));
    assert_eq!(some(0), minus(errors::AVAIL));
    assert_eq!(b.read_error().op_context, context(2));
    assert_eq!(some(0), 0);
    assert_eq!(some(3), 1);
    assert_eq!(some(3), minus(errors::AGAIN));
}

#[test]
fn who_waits_is_woken_or_gives_up() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let began = Instant::now();
    assert_eq!(b.sread(20), minus(errors::AGAIN));
    assert!(began.elapsed() >= Duration::from_millis(20));
    // SAFETY: as a program calls it.
    assert_eq!(unsafe { ((*(*b.cq).ops).signal)(b.cq) }, 0);
    assert_eq!(b.sread(-1), minus(errors::AGAIN));
    let mut buffer = [0; 4];
    b.trecv_any(&mut buffer, 1);
    a.tinject(to_b, b"four");
    assert_eq!(b.sread(-1), 1);
}

#[test]
fn a_queue_without_a_wait_object_is_not_waited_for() {
    let a = Rank::new(Plan {
        cq_wait: c::WAIT_NONE,
        ..Plan::default()
    });
    assert_eq!(a.sread(-1), minus(errors::NOSYS));
    let mut fd = -1;
    let got = control(a.cq, c::GETWAIT, (&raw mut fd).cast());
    assert_eq!(got, minus(errors::NODATA));
}

#[test]
fn a_descriptor_is_waited_for_when_nothing_is_there() {
    let with_descriptor = || Plan {
        cq_wait: c::WAIT_FD,
        ..Plan::default()
    };
    let ((a, to_b), (b, _)) = pair(with_descriptor);
    let mut fd: c_int = -1;
    assert_eq!(control(b.cq, c::GETWAIT, (&raw mut fd).cast()), 0);
    assert!(fd >= 0);
    let mut kind = 0u32;
    assert_eq!(control(b.cq, c::GETWAITOBJ, (&raw mut kind).cast()), 0);
    assert_eq!(kind, c::WAIT_FD);
    assert_eq!(b.trywait(), 0);
    let mut buffer = [0; 4];
    b.trecv_any(&mut buffer, 1);
    a.tinject(to_b, b"four");
    assert_eq!(b.trywait(), minus(errors::AGAIN));
    assert!(b.read().is_ok());
    assert_eq!(b.trywait(), 0);
}

#[test]
fn a_counter_is_waited_for() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    // SAFETY: as a program calls it.
    let ops = unsafe { &*(*b.counter).ops };
    // SAFETY: as a program calls it.
    let wait = |threshold, timeout| unsafe { (ops.wait)(b.counter, threshold, timeout) } as isize;
    assert_eq!(wait(0, -1), 0);
    assert_eq!(wait(1, 10), minus(errors::TIMEDOUT));
    let mut buffer = [0; 4];
    b.trecv_any(&mut buffer, 1);
    a.tinject(to_b, b"four");
    assert_eq!(wait(1, -1), 0);
    // SAFETY: as a program calls it.
    unsafe {
        assert_eq!((ops.add)(b.counter, 4), 0);
        assert_eq!(b.counted(), (5, 0));
        assert_eq!((ops.set)(b.counter, 2), 0);
        assert_eq!((ops.adderr)(b.counter, 3), 0);
        assert_eq!(b.counted(), (2, 3));
        assert_eq!((ops.seterr)(b.counter, 0), 0);
        assert_eq!(b.counted(), (2, 0));
    }
    // What fails meanwhile ends the waiting.
    b.trecv_any(&mut buffer[..1], 1);
    a.tinject(to_b, b"four");
    assert_eq!(wait(9, -1), minus(errors::AVAIL));
}

#[test]
fn a_poll_set_tells_who_has_something() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let (mut set, mut contexts) = (null_mut(), [context(99); 2]);
    // SAFETY: as a program calls it.
    unsafe {
        let open = (*(*b.domain).ops).poll_open;
        assert_eq!(open(b.domain, null_mut(), &raw mut set), 0);
        let ops = &*(*set).ops;
        assert_eq!((ops.poll_add)(set, b.cq.cast(), 0), 0);
        assert_eq!((ops.poll_add)(set, b.counter.cast(), 0), 0);
        let ep = (ops.poll_add)(set, b.ep.cast(), 0);
        assert_eq!(ep as isize, minus(errors::INVAL));
        let mut poll = || (ops.poll)(set, contexts.as_mut_ptr(), 2);
        assert_eq!(poll(), 0);
        let mut buffer = [0; 4];
        b.trecv_any(&mut buffer, 1);
        a.tinject(to_b, b"four");
        assert_eq!(poll(), 2);
        // The counter was told of; the queue still has something.
        assert_eq!(poll(), 1);
        assert!(b.read().is_ok());
        assert_eq!(poll(), 0);
        assert_eq!((ops.poll_del)(set, b.cq.cast(), 0), 0);
        b.trecv_any(&mut buffer, 1);
        a.tinject(to_b, b"four");
        assert_eq!(poll(), 1);
    }
    assert_eq!(contexts[0], null_mut());
    assert_eq!(super::c_side::close(set), 0);
}

#[test]
fn events_are_written_and_read() {
    let a = Rank::new(Plan::default());
    // SAFETY: as a program calls it.
    let ops = unsafe { &*(*a.eq).ops };
    let entry = EqEntry {
        fid: null_mut(),
        context: context(1),
        data: 2,
    };
    let (mut event, mut room) = (0, [0u8; 64]);
    let mut read = |len, flags| {
        // SAFETY: as a program calls it.
        unsafe { (ops.read)(a.eq, &raw mut event, room.as_mut_ptr().cast(), len, flags) }
    };
    assert_eq!(read(64, 0), minus(errors::AGAIN));
    let bytes = (&raw const entry).cast::<c_void>();
    // SAFETY: as a program calls it.
    assert_eq!(unsafe { (ops.write)(a.eq, 3, bytes, 24, 0) }, 24);
    assert_eq!(a.trywait(), minus(errors::AGAIN));
    assert_eq!(read(23, 0), minus(errors::TOOSMALL));
    assert_eq!(read(64, c::PEEK), 24);
    assert_eq!(read(64, 0), 24);
    assert_eq!(read(64, 0), minus(errors::AGAIN));
    assert_eq!(event, 3);
    assert_eq!(room[8..16], 1u64.to_ne_bytes());
    let began = Instant::now();
    // SAFETY: as a program calls it.
    let waited = unsafe { (ops.sread)(a.eq, &raw mut event, room.as_mut_ptr().cast(), 64, 15, 0) };
    assert_eq!(waited, minus(errors::AGAIN));
    assert!(began.elapsed() >= Duration::from_millis(15));
}

#[test]
fn addresses_can_be_inserted_by_events() {
    let a = Rank::new(Plan::default());
    let mut attr: crate::abi::domain::AvAttr = zeros();
    attr.flags = c::EVENT;
    let mut av = null_mut();
    let all = [a.name(), [0; crate::name::BYTES]].concat();
    let mut numbers = [7; 2];
    let mut told: EqErrEntry = zeros();
    let (mut event, mut entry) = (0, zeros::<EqEntry>());
    // SAFETY: as a program calls it.
    unsafe {
        let open = (*(*a.domain).ops).av_open;
        assert_eq!(open(a.domain, &raw mut attr, &raw mut av, null_mut()), 0);
        let insert = (*(*av).ops).insert;
        let mut both = || {
            let raws = all.as_ptr().cast();
            insert(av, raws, 2, numbers.as_mut_ptr(), 0, context(6))
        };
        assert_eq!(both() as isize, minus(errors::NOEQ));
        assert_eq!(super::c_side::bind(av, a.eq, 0), 0);
        assert_eq!(both(), 0);
        let ops = &*(*a.eq).ops;
        let place = (&raw mut entry).cast();
        let first = (ops.read)(a.eq, &raw mut event, place, 24, 0);
        assert_eq!(first, minus(errors::AVAIL));
        assert_eq!(
            (ops.readerr)(a.eq, &raw mut told, 0),
            size_of::<EqErrEntry>() as isize
        );
        assert_eq!((told.data, told.err), (1, errors::INVAL.0));
        assert_eq!((ops.read)(a.eq, &raw mut event, place, 24, 0), 24);
    }
    assert_eq!(
        (event, entry.data, entry.context),
        (c::AV_COMPLETE, 1, context(6))
    );
    assert_eq!(entry.fid, av.cast());
    assert_eq!(numbers, [0, c::NOT_AVAILABLE]);
    assert_eq!(super::c_side::close(av), 0);
}
