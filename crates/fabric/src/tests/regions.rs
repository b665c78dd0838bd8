//! Counters of regions, over the engine of the tests and over those that programs have.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::time::{Duration, Instant};

use tabane_rank::SharedMemory;

use super::c_side::{Plan, Rank, bind, close, context, control, minus, pair, zeros};
use super::here;
use super::objects::endpoint;
use super::operations::{ATOMIC_READ, BOTH, SUM, U64};
use crate::abi::constants as c;
use crate::abi::domain::FidMr;
use crate::abi::errors;
use crate::abi::queues::{CntrAttr, FidCntr};

const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than what travels in a record or is sent at once.
const LONG_BYTES: usize = 150_000;

/// A counter of the rank's domain that no endpoint is bound to.
struct Counter(*mut FidCntr);

impl Counter {
    fn new(of: &Rank) -> Counter {
        let (mut attr, mut counter) = (zeros::<CntrAttr>(), null_mut());
        // SAFETY: as a program calls it.
        let status = unsafe {
            let open = (*(*of.domain).ops).cntr_open;
            open(of.domain, &raw mut attr, &raw mut counter, null_mut())
        };
        assert_eq!(status, 0);
        Counter(counter)
    }

    fn read(&self) -> u64 {
        // SAFETY: as a program calls it.
        unsafe { ((*(*self.0).ops).read)(self.0) }
    }

    /// `fi_cntr_wait`.
    fn wait(&self, threshold: u64) -> isize {
        let at_most = PATIENCE.as_millis() as c_int;
        // SAFETY: as a program calls it.
        unsafe { ((*(*self.0).ops).wait)(self.0, threshold, at_most) as isize }
    }
}

impl Rank {
    /// A region as a program registers it that says that it will have a counter.
    fn register_to_count(&self, bytes: &mut [u8], key: u64) -> *mut FidMr {
        let mut region = null_mut();
        let (base, len) = (bytes.as_ptr().cast::<c_void>(), bytes.len());
        // SAFETY: as a program calls it.
        let status = unsafe {
            let (reg, domain) = ((*(*self.domain).mr).reg, self.domain.cast());
            let (flags, place) = (c::RMA_EVENT, &raw mut region);
            reg(domain, base, len, BOTH, 0, key, flags, place, null_mut())
        };
        assert_eq!(status, 0);
        region
    }

    /// Waits until one more operation has succeeded.
    fn is_done(&self) {
        let end = Instant::now() + PATIENCE;
        while let Err(error) = self.read() {
            assert_eq!(error, minus(errors::AGAIN));
            assert!(Instant::now() < end, "it has not ended");
        }
    }
}

fn told() -> Plan {
    let mut plan = Plan::default();
    plan.hints.info.caps |= c::RMA_EVENT;
    plan
}

/// Over the engine of the tests, and every way between two of one node.
fn by_all_ways(act: fn()) {
    act();
    for shared_memory in [SharedMemory::Off, SharedMemory::Copy, SharedMemory::Pull] {
        here::with_engines(shared_memory, act);
    }
}

#[test]
fn each_region_counts_what_is_done_with_it() {
    by_all_ways(|| {
        let ((a, to_b), (b, _)) = pair(told);
        let mut memory = [vec![0; LONG_BYTES], vec![0; LONG_BYTES]];
        let counters = [0, 1].map(|_| [Counter::new(&b), Counter::new(&b)]);
        let mut regions = Vec::new();
        for (at, memory) in memory.iter_mut().enumerate() {
            let region = b.register_to_count(memory, at as u64);
            let [writes, reads] = &counters[at];
            assert_eq!(bind(region, writes.0, c::REMOTE_WRITE), 0);
            assert_eq!(bind(region, reads.0, c::REMOTE_READ), 0);
            assert_eq!(control(region, c::ENABLE, null_mut()), 0);
            regions.push(region);
        }
        let (ours, mut back) = (vec![7; LONG_BYTES], vec![0; LONG_BYTES]);
        for len in [8, LONG_BYTES] {
            assert_eq!(a.write(to_b, &ours[..len], (0, 0), 1), 0);
            a.is_done();
        }
        assert_eq!(a.fetch(to_b, &mut back, (0, 1), 2), 0);
        a.is_done();
        // What is told by a completion is counted as well.
        let bytes = ours.as_ptr().cast();
        // SAFETY: as a program calls it.
        let written = unsafe {
            let rma = &*(*a.ep).rma;
            (rma.writedata)(a.ep, bytes, 8, null_mut(), 77, to_b, 0, 1, context(3))
        };
        assert_eq!(written, 0);
        a.is_done();
        b.is_done();
        let expected = [[2, 0], [1, 1]];
        for (counters, expected) in counters.iter().zip(expected) {
            for (counter, expected) in counters.iter().zip(expected) {
                assert_eq!((counter.wait(expected), counter.read()), (0, expected));
            }
        }
        // The endpoint's own counter counts it beside.
        assert_eq!(b.counted(), (4, 0));
        assert!(memory[0] == ours && b.is_quiet());
        for region in regions {
            assert_eq!(close(region), 0);
        }
        for counter in counters.iter().flatten() {
            assert_eq!(close(counter.0), 0);
        }
    });
}

/// What `fi_multi_mr` of the fabtests does: regions that are bound when they are registered and never enabled, before the
/// endpoint is; each is written to by the other end in its turn.
#[test]
fn regions_are_written_to_in_turn_by_both_ends() {
    const LEN: usize = 4096;
    by_all_ways(|| {
        let ranks = [0, 1].map(|_| {
            let mut plan = told();
            plan.enable = false;
            Rank::new(plan)
        });
        let mut memory = [vec![0; 3 * LEN], vec![0; 3 * LEN]];
        let mut all = Vec::new();
        for (rank, memory) in ranks.iter().zip(&mut memory) {
            let of_rank = memory.chunks_mut(LEN).zip(1..).map(|(piece, key)| {
                let counter = Counter::new(rank);
                let (region, _) = rank.register(piece, c::REMOTE_WRITE, key);
                assert_eq!(bind(region, counter.0, c::REMOTE_WRITE), 0);
                (region, counter)
            });
            all.push(of_rank.collect::<Vec<_>>());
        }
        for rank in &ranks {
            assert_eq!(control(rank.ep, c::ENABLE, null_mut()), 0);
        }
        let to = [1, 0].map(|n: usize| ranks[1 - n].insert(&ranks[n].name()));
        for turn in 0..3 {
            for from in [0, 1] {
                let bytes = vec![(2 * turn + from + 1) as u8; LEN];
                let key = turn as u64 + 1;
                assert_eq!(ranks[from].write(to[from], &bytes, (0, key), turn), 0);
                let (_, counter) = &all[1 - from][turn];
                assert_eq!((counter.wait(1), counter.read()), (0, 1));
                assert!(memory[1 - from][turn * LEN..][..LEN] == bytes);
                ranks[from].is_done();
            }
        }
        for (region, counter) in all.iter().flatten() {
            assert_eq!((close(*region), close(counter.0)), (0, 0));
        }
    });
}

#[test]
fn an_atomic_operation_counts_as_what_it_does_with_the_region() {
    by_all_ways(|| {
        let ((a, to_b), (b, _)) = pair(told);
        let mut memory = [vec![0; 8], vec![0; 8]];
        let [writes, reads, both] = [(); 3].map(|()| Counter::new(&b));
        let regions = [0, 1].map(|at| b.register_to_count(&mut memory[at], at as u64));
        assert_eq!(bind(regions[0], writes.0, c::REMOTE_WRITE), 0);
        assert_eq!(bind(regions[0], reads.0, c::REMOTE_READ), 0);
        assert_eq!(bind(regions[1], both.0, BOTH), 0);
        let (one, mut back) = (1u64, 0u64);
        let (operand, result) = ((&raw const one).cast(), (&raw mut back).cast());
        // SAFETY: as a program calls it.
        let ops = unsafe { &*(*a.ep).atomic };
        let none = null_mut();
        for key in [0, 1] {
            // SAFETY: as a program calls it.
            let status = unsafe {
                let write = ops.write;
                write(a.ep, operand, 1, none, to_b, 0, key, U64, SUM, context(1))
            };
            assert_eq!(status, 0);
            a.is_done();
            for op in [SUM, ATOMIC_READ] {
                // SAFETY: as a program calls it.
                let status = unsafe {
                    let fetch = ops.readwrite;
                    let number = context(2);
                    fetch(
                        a.ep, operand, 1, none, result, none, to_b, 0, key, U64, op, number,
                    )
                };
                assert_eq!(status, 0);
                a.is_done();
            }
            assert_eq!(back, 2);
        }
        let counted = [&writes, &reads, &both].map(Counter::read);
        assert_eq!(counted, [2, 2, 3]);
        for region in regions {
            assert_eq!(close(region), 0);
        }
        for counter in [writes, reads, both] {
            assert_eq!(close(counter.0), 0);
        }
    });
}

#[test]
fn a_region_is_bound_to_counters_of_its_domain_until_it_is_enabled() {
    let (a, b) = (Rank::new(told()), Rank::new(told()));
    let mut memory = [0; 8];
    let region = a.register_to_count(&mut memory, 1);
    let counter = Counter::new(&a);
    let binding = |counter, flags| bind(region, counter, flags);
    assert_eq!(binding(counter.0, c::WRITE), minus(errors::BADFLAGS));
    assert_eq!(binding(counter.0, 0), minus(errors::INVAL));
    assert_eq!(binding(b.counter, c::REMOTE_WRITE), minus(errors::DOMAIN));
    assert_eq!(bind(region, a.cq, c::REMOTE_WRITE), minus(errors::NOSYS));
    assert_eq!(bind(region, a.ep, 0), 0);
    assert_eq!(binding(counter.0, c::REMOTE_WRITE), 0);
    assert_eq!(close(counter.0), minus(errors::BUSY));
    // There is one for each kind of access.
    assert_eq!(binding(a.counter, BOTH), minus(errors::INVAL));
    assert_eq!(control(region, 99, null_mut()), minus(errors::NOSYS));
    assert_eq!(control(region, c::ENABLE, null_mut()), 0);
    let late = binding(a.counter, c::REMOTE_READ);
    assert_eq!(late, minus(errors::OPBADSTATE));
    assert_eq!(close(region), 0);
    assert_eq!(close(counter.0), 0);
}

#[test]
fn no_counter_of_a_region_keeps_an_endpoint_that_is_closed() {
    for region_goes_first in [true, false] {
        let ((a, _), (mut b, _)) = pair(told);
        let mut memory = [0; 8];
        let counter = Counter::new(&b);
        let region = b.register_to_count(&mut memory, 1);
        assert_eq!(bind(region, counter.0, c::REMOTE_WRITE), 0);
        let second = endpoint(&b);
        assert_eq!(bind(second, b.av, 0), 0);
        assert_eq!(bind(second, b.cq, c::SEND | c::RECV), 0);
        assert_eq!(control(second, c::ENABLE, null_mut()), 0);
        let first = core::mem::replace(&mut b.ep, second);
        let to_second = a.insert(&b.name());
        b.ep = first;
        assert_eq!(a.write(to_second, b"counted", (0, 1), 1), 0);
        assert_eq!((a.read().is_ok(), counter.read()), (true, 1));
        if region_goes_first {
            assert_eq!((close(region), close(second)), (0, 0));
        } else {
            assert_eq!((close(second), close(region)), (0, 0));
        }
        assert_eq!(a.write(to_second, b"late", (0, 1), 2), 0);
        assert_eq!(a.read_error().err, errors::HOSTUNREACH.0);
        assert_eq!((counter.read(), close(counter.0)), (1, 0));
    }
}

#[test]
fn what_was_done_before_a_region_is_closed_is_counted() {
    let ((a, to_b), (b, _)) = pair(told);
    let mut memory = [0; 8];
    let counter = Counter::new(&b);
    let (first, second) = (b.register_to_count(&mut memory, 1), [0; 4]);
    assert_eq!(bind(first, counter.0, c::REMOTE_WRITE), 0);
    assert_eq!(a.write(to_b, &second, (0, 1), 1), 0);
    assert_eq!(close(first), 0);
    assert_eq!(counter.read(), 1);
    // Another region of this key is not bound to it.
    let (again, _) = b.register(&mut memory, BOTH, 1);
    assert_eq!(a.write(to_b, &second, (0, 1), 2), 0);
    assert!(a.read().is_ok());
    assert_eq!(b.counted(), (2, 0));
    assert_eq!(counter.read(), 1);
    assert_eq!((close(again), close(counter.0)), (0, 0));
}

#[test]
fn nothing_is_counted_through_an_endpoint_that_was_not_opened_for_it() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let mut memory = [0; 8];
    let counter = Counter::new(&b);
    let region = b.register_to_count(&mut memory, 1);
    assert_eq!(bind(region, counter.0, BOTH), 0);
    assert_eq!(a.write(to_b, b"unseen", (0, 1), 1), 0);
    assert!(a.read().is_ok());
    assert_eq!((&memory[..6], counter.read()), (&b"unseen"[..], 0));
    assert_eq!((close(region), close(counter.0)), (0, 0));
}
