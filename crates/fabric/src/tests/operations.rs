//! Reads, writes and atomic operations on another's memory.

use core::ffi::c_void;
use core::ptr::null_mut;

use libc::iovec;

use super::c_side::{Hints, Plan, Rank, close, context, minus, pair, zeros};
use crate::abi::constants as c;
use crate::abi::domain::AtomicAttr;
use crate::abi::errors;
use crate::abi::transfers::{Ioc, MsgAtomic, MsgRma, RmaIoc, RmaIov};

pub const BOTH: u64 = c::REMOTE_READ | c::REMOTE_WRITE;
pub const U64: u32 = 7;
pub const SUM: u32 = 2;
pub const ATOMIC_READ: u32 = 10;
const CSWAP: u32 = 12;

impl Rank {
    pub fn write(&self, to: u64, bytes: &[u8], (offset, key): (u64, u64), number: usize) -> isize {
        let (ep, buffer, len) = (self.ep, bytes.as_ptr().cast(), bytes.len());
        // SAFETY: as a program calls it.
        unsafe {
            let write = (*(*ep).rma).write;
            write(
                ep,
                buffer,
                len,
                null_mut(),
                to,
                offset,
                key,
                context(number),
            )
        }
    }

    pub fn fetch(
        &self,
        from: u64,
        bytes: &mut [u8],
        (offset, key): (u64, u64),
        number: usize,
    ) -> isize {
        let (ep, buffer, len) = (self.ep, bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: as a program calls it.
        unsafe {
            let read = (*(*ep).rma).read;
            read(
                ep,
                buffer,
                len,
                null_mut(),
                from,
                offset,
                key,
                context(number),
            )
        }
    }
}

#[test]
fn memory_is_written_and_read_under_the_owner_s_key() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let mut memory = [0; 64];
    let (region, key) = b.register(&mut memory, BOTH, 4711);
    assert_eq!(key, 4711);
    assert_eq!(a.write(to_b, b"written", (8, key), 1), 0);
    let told = a.read().unwrap();
    assert_eq!(
        (told.op_context, told.flags),
        (context(1), c::RMA | c::WRITE)
    );
    assert_eq!(&memory[8..15], b"written");
    let mut back = [0; 7];
    assert_eq!(a.fetch(to_b, &mut back, (8, key), 2), 0);
    assert_eq!(a.read().unwrap().flags, c::RMA | c::READ);
    assert_eq!(&back, b"written");
    assert!(b.is_quiet());
    assert_eq!(a.counted(), (2, 0));
    assert_eq!(close(region), 0);
    assert_eq!(a.write(to_b, b"late", (0, key), 3), 0);
    assert_eq!(a.read_error().err, errors::NOKEY.0);
    assert_eq!(a.counted(), (2, 1));
}

#[test]
fn a_write_with_data_is_told_at_the_other_end() {
    let ((a, to_b), (b, to_a)) = pair(Plan::default);
    let mut memory = [0; 8];
    let (region, key) = b.register(&mut memory, c::REMOTE_WRITE, 1);
    let ep = a.ep;
    let bytes = b"data".as_ptr().cast::<c_void>();
    // SAFETY: as a program calls it.
    unsafe {
        let rma = &*(*ep).rma;
        assert_eq!(
            (rma.writedata)(ep, bytes, 4, null_mut(), 77, to_b, 0, key, context(1)),
            0
        );
        assert_eq!((rma.injectdata)(ep, bytes, 4, 78, to_b, 4, key), 0);
        assert_eq!((rma.inject)(ep, bytes, 4, to_b, 4, key), 0);
    }
    for data in [77, 78] {
        let (told, source) = b.read_from().unwrap();
        assert_eq!(told.flags, c::RMA | c::REMOTE_WRITE | c::REMOTE_CQ_DATA);
        assert_eq!((told.data, told.len, source), (data, 4, to_a));
    }
    assert_eq!((b.counted(), a.counted()), ((2, 0), (3, 0)));
    assert_eq!(a.read().unwrap().op_context, context(1));
    assert!(a.is_quiet());
    assert_eq!(close(region), 0);
}

#[test]
fn pieces_go_to_one_place() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let mut memory = [0; 8];
    let (region, key) = b.register(&mut memory, BOTH, 2);
    let iov = [b"ab", b"cd"].map(|piece| iovec {
        iov_base: piece.as_ptr().cast_mut().cast(),
        iov_len: piece.len(),
    });
    let mut there = RmaIov {
        addr: 1,
        len: 4,
        key,
    };
    let mut msg: MsgRma = zeros();
    (msg.msg_iov, msg.iov_count, msg.addr) = (iov.as_ptr(), 2, to_b);
    (msg.rma_iov, msg.rma_iov_count) = (&raw const there, 1);
    // SAFETY: as a program calls it.
    let write = |msg: &MsgRma| unsafe { ((*(*a.ep).rma).writemsg)(a.ep, msg, c::COMPLETION) };
    assert_eq!(write(&msg), 0);
    assert!(a.read().is_ok());
    assert_eq!(&memory, b"\0abcd\0\0\0");
    msg.rma_iov_count = 2;
    assert_eq!(write(&msg), minus(errors::INVAL));
    msg.rma_iov_count = 1;
    there.len = 5;
    msg.rma_iov = &raw const there;
    assert_eq!(write(&msg), minus(errors::INVAL));
    assert_eq!(close(region), 0);
}

#[test]
fn what_the_owner_does_not_allow_fails() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let mut memory = [0; 8];
    let (region, key) = b.register(&mut memory, c::REMOTE_READ, 3);
    for (place, err) in [((0, key), errors::ACCES), ((0, key + 1), errors::NOKEY)] {
        assert_eq!(a.write(to_b, b"no", place, 1), 0);
        assert_eq!(a.read_error().err, err.0);
    }
    let mut back = [0; 2];
    for offset in [7, 8, u64::MAX] {
        assert_eq!(a.fetch(to_b, &mut back, (offset, key), 1), 0);
        let told = a.read_error();
        assert_eq!(told.err, errors::FAULT.0);
        // SAFETY: as a program calls it.
        let words = unsafe {
            let strerror = (*(*a.cq).ops).strerror;
            let words = strerror(a.cq, told.prov_errno, told.err_data, null_mut(), 0);
            core::ffi::CStr::from_ptr(words)
        };
        assert!(words.to_str().unwrap().contains("beyond"), "{words:?}");
    }
    assert_eq!(memory, [0; 8]);
    assert_eq!(close(region), 0);
}

#[test]
fn regions_are_known_by_every_endpoint_whenever_it_is_enabled() {
    let b = Rank::new(Plan {
        enable: false,
        ..Plan::default()
    });
    let mut memory = [5; 8];
    let (early, key) = b.register(&mut memory, BOTH, 4);
    assert_eq!(super::c_side::control(b.ep, c::ENABLE, null_mut()), 0);
    let a = Rank::new(Plan::default());
    let to_b = a.insert(&b.name());
    let mut back = [0; 8];
    assert_eq!(a.fetch(to_b, &mut back, (0, key), 1), 0);
    assert!(a.read().is_ok());
    assert_eq!(back, [5; 8]);
    // A key is one region's.
    let mut second = null_mut();
    // SAFETY: as a program calls it.
    let twice = unsafe {
        let reg = (*(*b.domain).mr).reg;
        let buffer = memory.as_ptr().cast();
        reg(
            b.domain.cast(),
            buffer,
            8,
            BOTH,
            0,
            key,
            0,
            &raw mut second,
            null_mut(),
        )
    };
    assert_eq!(twice as isize, minus(errors::NOKEY));
    assert_eq!(close(early), 0);
}

#[test]
fn in_the_oldest_mode_keys_are_random_and_places_are_addresses() {
    let basic = || {
        let mut hints = Hints::new(c::RMA | c::MSG);
        hints.domain.mr_mode = c::MR_BASIC;
        Plan {
            hints,
            version: c::version(1, 4),
            ..Plan::default()
        }
    };
    let ((a, to_b), (b, _)) = pair(basic);
    let mut memory = [0; 8];
    let (region, key) = b.register(&mut memory, BOTH, 1);
    let (other, other_key) = b.register(&mut [0; 8], BOTH, 1);
    assert!(key != other_key && key != 1);
    let there = memory.as_ptr() as u64;
    assert_eq!(a.write(to_b, b"here", (there + 4, key), 1), 0);
    assert!(a.read().is_ok());
    assert_eq!(&memory[4..], b"here");
    for wrong in [0, there - 1, there + 5] {
        assert_eq!(a.write(to_b, b"here", (wrong, key), 1), 0);
        assert_eq!(a.read_error_of_old().0, errors::FAULT.0);
    }
    assert_eq!((close(region), close(other)), (0, 0));
}

impl Rank {
    /// As [`read_error`](Rank::read_error), of a program whose structure ends before `err_data_size`.
    fn read_error_of_old(&self) -> (i32, u64) {
        assert_eq!(self.read().unwrap_err(), minus(errors::AVAIL));
        let mut entry: crate::abi::queues::CqErrEntry = zeros();
        (entry.err_data_size, entry.src_addr) = (0x5a5a, 0x5a5a);
        // SAFETY: as a program calls it.
        let read = unsafe { ((*(*self.cq).ops).readerr)(self.cq, &raw mut entry, 0) };
        assert_eq!(read, 1);
        assert_eq!((entry.err_data_size, entry.src_addr), (0x5a5a, 0x5a5a));
        (entry.err, entry.flags)
    }
}

fn word(memory: &[u8], place: usize) -> u64 {
    let bytes = memory[8 * place..8 * place + 8].try_into().expect("8");
    u64::from_ne_bytes(bytes)
}

#[test]
fn numbers_are_computed_with_at_the_owner() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let mut memory = [0; 24];
    let (region, key) = b.register(&mut memory, BOTH, 5);
    let (ep, five) = (a.ep, [5u64, 6]);
    let at = five.as_ptr().cast::<c_void>();
    let (mut result, compare) = ([0u64; 2], [5u64, 5]);
    let back = result.as_mut_ptr().cast::<c_void>();
    let none = null_mut();
    // SAFETY: as a program calls it.
    unsafe {
        let ops = &*(*ep).atomic;
        let write = ops.write;
        assert_eq!(
            write(ep, at, 2, none, to_b, 8, key, U64, SUM, context(1)),
            0
        );
        assert_eq!(a.read().unwrap().flags, c::ATOMIC | c::WRITE);
        assert_eq!([1, 2].map(|n| word(&memory, n)), [5, 6]);

        let fetch = ops.readwrite;
        let status = fetch(
            ep,
            at,
            2,
            none,
            back,
            none,
            to_b,
            8,
            key,
            U64,
            SUM,
            context(2),
        );
        assert_eq!(status, 0);
        assert_eq!(a.read().unwrap().flags, c::ATOMIC | c::READ);
        assert_eq!((result, word(&memory, 1)), ([5, 6], 10));

        // What is only read needs no operand.
        let nothing = core::ptr::null();
        let read = ATOMIC_READ;
        let status = fetch(
            ep,
            nothing,
            2,
            none,
            back,
            none,
            to_b,
            8,
            key,
            U64,
            read,
            context(3),
        );
        assert_eq!(status, 0);
        assert!(a.read().is_ok());
        assert_eq!(result, [10, 12]);

        let swap = ops.compwrite;
        let against = compare.as_ptr().cast();
        let op = CSWAP;
        let status = swap(
            ep,
            at,
            1,
            none,
            against,
            none,
            back,
            none,
            to_b,
            16,
            key,
            U64,
            op,
            context(4),
        );
        assert_eq!(status, 0);
        assert!(a.read().is_ok());
        assert_eq!((result[0], word(&memory, 2)), (12, 12));

        assert_eq!((ops.inject)(ep, at, 1, to_b, 0, key, U64, SUM), 0);
        assert!(a.is_quiet());
        assert_eq!(word(&memory, 0), 5);
        assert_eq!(
            (ops.inject)(ep, at, 1, to_b, 0, key, U64, CSWAP),
            minus(errors::OPNOTSUPP)
        );
        assert_eq!(
            (ops.inject)(ep, at, 1, to_b, 0, key, 12, SUM),
            minus(errors::OPNOTSUPP)
        );
        assert_eq!(
            (ops.inject)(ep, at, 129, to_b, 0, key, U64, SUM),
            minus(errors::MSGSIZE)
        );
    }
    assert_eq!(a.counted(), (5, 0));
    assert_eq!(close(region), 0);
}

#[test]
fn numbers_may_be_scattered_here() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let mut memory = [0; 16];
    let (region, key) = b.register(&mut memory, BOTH, 6);
    let (one, two, mut before) = (1u64, 2u64, [7u64; 2]);
    let ioc = |number: *const u64, count| Ioc {
        addr: number.cast_mut().cast(),
        count,
    };
    let operands = [ioc(&raw const one, 1), ioc(&raw const two, 1)];
    let mut result = [ioc(before.as_mut_ptr(), 2)];
    let there = RmaIoc {
        addr: 0,
        count: 2,
        key,
    };
    let mut msg: MsgAtomic = zeros();
    (msg.msg_iov, msg.iov_count) = (operands.as_ptr(), 2);
    (msg.rma_iov, msg.rma_iov_count, msg.addr) = (&raw const there, 1, to_b);
    (msg.datatype, msg.op) = (U64, SUM);
    let ep = a.ep;
    // SAFETY: as a program calls it.
    unsafe {
        let ops = &*(*ep).atomic;
        let all = result.as_mut_ptr();
        assert_eq!(
            (ops.readwritemsg)(ep, &raw const msg, all, null_mut(), 1, 0),
            0
        );
        assert!(a.read().is_ok());
        assert_eq!((before, word(&memory, 0), word(&memory, 1)), ([0, 0], 1, 2));
        // A result of another length.
        result[0].count = 1;
        let all = result.as_mut_ptr();
        let short = (ops.readwritemsg)(ep, &raw const msg, all, null_mut(), 1, 0);
        assert_eq!(short, minus(errors::INVAL));
        let data = (ops.writemsg)(ep, &raw const msg, c::REMOTE_CQ_DATA);
        assert_eq!(data, minus(errors::BADFLAGS));
    }
    assert_eq!(close(region), 0);
}

#[test]
fn programs_may_ask_what_can_be_computed() {
    let a = Rank::new(Plan::default());
    let mut count = 0;
    let mut attr = AtomicAttr::default();
    // SAFETY: as a program calls it.
    unsafe {
        let ops = &*(*a.ep).atomic;
        assert_eq!((ops.writevalid)(a.ep, U64, SUM, &raw mut count), 0);
        assert_eq!(count, tabane_rank::ATOMIC_BYTES_MAX / 8);
        assert_eq!((ops.compwritevalid)(a.ep, U64, CSWAP, &raw mut count), 0);
        let not = (ops.writevalid)(a.ep, U64, CSWAP, &raw mut count);
        assert_eq!(not as isize, minus(errors::OPNOTSUPP));
        let query = (*(*a.domain).ops).query_atomic;
        assert_eq!(
            query(a.domain, 2, CSWAP, &raw mut attr, c::COMPARE_ATOMIC),
            0
        );
        assert_eq!(
            (attr.size, attr.count),
            (2, tabane_rank::ATOMIC_BYTES_MAX / 2)
        );
        assert_eq!(query(a.domain, 2, SUM, &raw mut attr, c::FETCH_ATOMIC), 0);
        let both = query(
            a.domain,
            2,
            SUM,
            &raw mut attr,
            c::FETCH_ATOMIC | c::COMPARE_ATOMIC,
        );
        assert_eq!(both as isize, minus(errors::BADFLAGS));
    }
}

#[test]
fn what_others_do_with_regions_is_counted_for_who_asks() {
    let told = || {
        let mut plan = Plan::default();
        plan.hints.info.caps |= c::RMA_EVENT;
        plan
    };
    for (plan, counts) in [(told as fn() -> Plan, [1, 2]), (Plan::default, [0, 0])] {
        let ((a, to_b), (b, _)) = pair(plan);
        let mut memory = [0; 16];
        let (region, key) = b.register(&mut memory, BOTH, 1);
        assert_eq!(a.write(to_b, b"12345678", (0, key), 1), 0);
        assert!(a.read().is_ok());
        assert_eq!(b.counted(), (counts[0], 0));
        let mut back = [0; 8];
        assert_eq!(a.fetch(to_b, &mut back, (0, key), 2), 0);
        assert!(a.read().is_ok());
        assert_eq!(b.counted(), (counts[1], 0));
        // What fails was not done; and none of it is told by a completion.
        assert_eq!(a.write(to_b, b"12345678", (9, key), 3), 0);
        assert_eq!(a.read_error().err, errors::FAULT.0);
        assert_eq!(b.counted(), (counts[1], 0));
        assert!(b.is_quiet());
        assert_eq!(close(region), 0);
    }
}
