//! Objects: in which order they open and close, and what they are asked beside.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;

use super::c_side::{Hints, Plan, Rank, bind, close, control, minus, pair, zeros};
use crate::abi::constants as c;
use crate::abi::domain::{AvAttr, MrAttr};
use crate::abi::endpoint::FidEp;
use crate::abi::errors;
use crate::abi::queues::{CqAttr, FidCq};
use crate::name;

pub fn endpoint(rank: &Rank) -> *mut FidEp {
    let mut ep = null_mut();
    // SAFETY: as a program calls it.
    let status = unsafe {
        let open = (*(*rank.domain).ops).endpoint;
        open(rank.domain, rank.given.0, &raw mut ep, null_mut())
    };
    assert_eq!(status, 0);
    ep
}

#[test]
fn what_is_in_use_is_not_closed() {
    let a = Rank::new(Plan::default());
    let busy = minus(errors::BUSY);
    assert_eq!(close(a.cq), busy);
    assert_eq!(close(a.av), busy);
    assert_eq!(close(a.counter), busy);
    assert_eq!(close(a.domain), busy);
    assert_eq!(close(a.fabric), busy);
    // A region keeps its domain, too. The rest is closed in order when `a` goes.
    let mut memory = [0; 8];
    let (region, _) = a.register(&mut memory, 0, 1);
    assert_eq!(close(region), 0);
}

#[test]
fn an_endpoint_is_enabled_when_it_has_what_it_needs() {
    let a = Rank::new(Plan::default());
    let ep = endpoint(&a);
    let enable = || control(ep, c::ENABLE, null_mut());
    assert_eq!(enable(), minus(errors::NOAV));
    assert_eq!(bind(ep, a.av, 0), 0);
    assert_eq!(enable(), minus(errors::NOCQ));
    assert_eq!(bind(ep, a.cq, c::SEND), 0);
    assert_eq!(bind(ep, a.cq, c::SEND), minus(errors::INVAL));
    assert_eq!(bind(ep, a.cq, 0), minus(errors::INVAL));
    assert_eq!(bind(ep, a.cq, 1 << 40), minus(errors::BADFLAGS));
    assert_eq!(bind(ep, a.domain, 0), minus(errors::INVAL));
    assert_eq!(enable(), minus(errors::NOCQ));
    // SAFETY: as a program calls it.
    unsafe {
        let mut len = 64;
        let getname = (*(*ep).cm).getname;
        let early = getname(ep.cast(), null_mut(), &raw mut len);
        assert_eq!(early as isize, minus(errors::OPBADSTATE));
        let inject = (*(*ep).msg).inject;
        assert_eq!(inject(ep, null_mut(), 0, 0), minus(errors::OPBADSTATE));
    }
    assert_eq!(bind(ep, a.cq, c::RECV), 0);
    assert_eq!(enable(), 0);
    assert_eq!(enable(), minus(errors::OPBADSTATE));
    assert_eq!(bind(ep, a.counter, c::SEND), minus(errors::OPBADSTATE));
    assert_eq!(close(ep), 0);
}

#[test]
fn objects_of_another_domain_are_refused() {
    let (a, b) = (Rank::new(Plan::default()), Rank::new(Plan::default()));
    let ep = endpoint(&a);
    assert_eq!(bind(ep, b.av, 0), minus(errors::DOMAIN));
    assert_eq!(bind(ep, b.cq, c::SEND), minus(errors::DOMAIN));
    assert_eq!(bind(ep, b.counter, c::SEND), minus(errors::DOMAIN));
    assert_eq!(close(ep), 0);
}

#[test]
fn a_name_that_finds_no_room_tells_how_long_it_is() {
    let a = Rank::new(Plan::default());
    let mut len = 0;
    // SAFETY: as a program calls it.
    let status = unsafe { ((*(*a.ep).cm).getname)(a.ep.cast(), null_mut(), &raw mut len) };
    assert_eq!(
        (status as isize, len),
        (minus(errors::TOOSMALL), name::BYTES)
    );
}

#[test]
fn a_table_uses_the_lowest_free_place() {
    let a = Rank::new(Plan::default());
    let others: Vec<_> = (0..3).map(|_| Rank::new(Plan::default())).collect();
    let names: Vec<_> = others.iter().map(Rank::name).collect();
    // SAFETY: as a program calls it.
    unsafe {
        let ops = &*(*a.av).ops;
        let all = names.concat();
        let inserted = (ops.insert)(a.av, all.as_ptr().cast(), 3, null_mut(), 0, null_mut());
        assert_eq!(inserted, 3);
        let mut gone = 1;
        assert_eq!((ops.remove)(a.av, &raw mut gone, 1, 0), 0);
        let twice = (ops.remove)(a.av, &raw mut gone, 1, 0);
        assert_eq!(twice as isize, minus(errors::INVAL));
        let mut raw = [0; name::BYTES];
        let mut len = raw.len();
        assert_eq!(
            (ops.lookup)(a.av, 2, raw.as_mut_ptr().cast(), &raw mut len),
            0
        );
        assert_eq!((raw, len), (names[2], name::BYTES));
        let stale = (ops.lookup)(a.av, 1, raw.as_mut_ptr().cast(), &raw mut len);
        assert_eq!(stale as isize, minus(errors::INVAL));
    }
    assert_eq!(a.insert(&names[1]), 1);
    assert_eq!(a.insert(&names[1]), 3);
}

#[test]
fn in_a_map_a_stale_number_is_nobody() {
    let mapped = || Plan {
        av_kind: c::AV_MAP,
        ..Plan::default()
    };
    let ((a, to_b), (b, _)) = pair(mapped);
    let mut number = to_b;
    // SAFETY: as a program calls it.
    unsafe {
        let ops = &*(*a.av).ops;
        assert_eq!((ops.remove)(a.av, &raw mut number, 1, 0), 0);
    }
    let again = a.insert(&b.name());
    assert_ne!(again, to_b);
    // SAFETY: as a program calls it.
    let send = |to| unsafe { ((*(*a.ep).msg).inject)(a.ep, null_mut(), 0, to) };
    assert_eq!(send(to_b), minus(errors::INVAL));
    assert_eq!(send(again), 0);
}

#[test]
fn addresses_that_are_none_are_counted_and_told() {
    let a = Rank::new(Plan::default());
    let good = a.name();
    let all = [good, [0; name::BYTES], good].concat();
    let (mut numbers, mut wrong) = ([7; 3], [1; 3]);
    // SAFETY: as a program calls it.
    let inserted = unsafe {
        let insert = (*(*a.av).ops).insert;
        let context = wrong.as_mut_ptr().cast();
        insert(
            a.av,
            all.as_ptr().cast(),
            3,
            numbers.as_mut_ptr(),
            c::SYNC_ERR,
            context,
        )
    };
    assert_eq!(inserted, 2);
    assert_eq!(numbers, [0, c::NOT_AVAILABLE, 1]);
    assert_eq!(wrong, [0, errors::INVAL.0, 0]);
}

#[test]
fn an_address_is_printed_so_that_it_can_be_read_again() {
    let a = Rank::new(Plan::default());
    let raw = a.name();
    let mut buffer = [0; 96];
    let mut len = buffer.len();
    // SAFETY: as a program calls it.
    let text = unsafe {
        let straddr = (*(*a.av).ops).straddr;
        CStr::from_ptr(straddr(
            a.av,
            raw.as_ptr().cast(),
            buffer.as_mut_ptr(),
            &raw mut len,
        ))
    };
    let text = text.to_str().expect("is ASCII");
    assert_eq!(len, text.len() + 1);
    let parsed = name::parse(text).expect("is an address");
    assert_eq!(name::raw(&parsed), raw);
}

#[test]
fn vectors_of_other_kinds_are_refused() {
    let a = Rank::new(Plan::default());
    let open = |change: fn(&mut AvAttr)| {
        let (mut attr, mut av) = (zeros::<AvAttr>(), null_mut());
        change(&mut attr);
        // SAFETY: as a program calls it.
        let status = unsafe {
            let open = (*(*a.domain).ops).av_open;
            open(a.domain, &raw mut attr, &raw mut av, null_mut())
        };
        if status == 0 {
            assert_eq!(close(av), 0);
        }
        (status as isize, attr.kind)
    };
    assert_eq!(
        open(|attr| attr.name = c"shared".as_ptr()).0,
        minus(errors::NOSYS)
    );
    assert_eq!(open(|attr| attr.kind = 3).0, minus(errors::INVAL));
    assert_eq!(open(|attr| attr.flags = 1 << 59).0, minus(errors::BADFLAGS));
    assert_eq!(open(|attr| attr.kind = c::AV_MAP), (0, c::AV_MAP));
    // Nothing said: what the domain was opened for.
    assert_eq!(open(|_| {}), (0, c::AV_TABLE));
}

#[test]
fn a_region_is_one_piece() {
    let a = Rank::new(Plan::default());
    let mut memory = [0; 16];
    let iov = [0, 8].map(|at| libc::iovec {
        // SAFETY: it is within.
        iov_base: unsafe { memory.as_mut_ptr().add(at) }.cast::<c_void>(),
        iov_len: 8,
    });
    let mut attr: MrAttr = zeros();
    (attr.mr_iov, attr.requested_key, attr.access) = (iov.as_ptr(), 9, c::REMOTE_READ);
    let mut region = null_mut();
    let mut register = |count, flags| {
        attr.iov_count = count;
        // SAFETY: as a program calls it.
        let status = unsafe {
            let regattr = (*(*a.domain).mr).regattr;
            regattr(a.domain.cast(), &raw const attr, flags, &raw mut region)
        };
        status as isize
    };
    assert_eq!(register(2, 0), minus(errors::INVAL));
    assert_eq!(register(0, 0), minus(errors::INVAL));
    assert_eq!(register(1, c::REMOTE_WRITE), minus(errors::BADFLAGS));
    assert_eq!(register(1, 0), 0);
    // SAFETY: it was given.
    let told = unsafe { ((*region).key, (*region).mem_desc) };
    assert_eq!(told, (9, null_mut()));
    assert_eq!(close(region), 0);
}

#[test]
fn options_are_known_or_refused() {
    let a = Rank::new(Plan::default());
    // SAFETY: as a program calls it.
    let (getopt, setopt) = unsafe { ((*(*a.ep).ops).getopt, (*(*a.ep).ops).setopt) };
    let get = |option| {
        let (mut value, mut len) = (0usize, 8);
        let place = (&raw mut value).cast();
        // SAFETY: as a program calls it.
        let status = unsafe { getopt(a.ep.cast(), 0, option, place, &raw mut len) };
        if status == 0 {
            Ok(value)
        } else {
            Err(status as isize)
        }
    };
    let set = |option, value: usize, len| {
        // SAFETY: as a program calls it.
        let status = unsafe { setopt(a.ep.cast(), 0, option, (&raw const value).cast(), len) };
        status as isize
    };
    assert_eq!(get(c::OPT_MIN_MULTI_RECV), Ok(64));
    assert_eq!(set(c::OPT_MIN_MULTI_RECV, 16_384, 8), 0);
    assert_eq!(get(c::OPT_MIN_MULTI_RECV), Ok(16_384));
    assert_eq!(set(c::OPT_MIN_MULTI_RECV, 1, 4), minus(errors::INVAL));
    assert_eq!(get(c::OPT_MAX_MSG_SIZE), Ok(1 << 40));
    assert_eq!(
        get(c::OPT_INJECT_MSG_SIZE),
        Ok(tabane_rank::INJECT_BYTES_MAX)
    );
    assert_eq!(get(1), Err(minus(errors::NOPROTOOPT)));
    assert_eq!(set(99, 1, 4), minus(errors::NOPROTOOPT));
    assert_eq!(set(c::OPT_FI_HMEM_P2P, 3, 4), 0);
    assert_eq!(set(c::OPT_FI_HMEM_P2P, 1, 4), minus(errors::OPNOTSUPP));
}

#[test]
fn flags_of_all_operations_can_be_changed() {
    let a = Rank::new(Plan {
        hints: {
            let mut hints = Hints::new(c::MSG);
            hints.tx.op_flags = c::DELIVERY_COMPLETE;
            hints
        },
        ..Plan::default()
    });
    let mut flags = c::SEND;
    assert_eq!(control(a.ep, c::GETOPSFLAG, (&raw mut flags).cast()), 0);
    assert_eq!(flags, c::DELIVERY_COMPLETE);
    flags = c::SEND | 1 << 40;
    let set = |flags: &mut u64| control(a.ep, c::SETOPSFLAG, (&raw mut *flags).cast());
    assert_eq!(set(&mut flags), minus(errors::BADFLAGS));
    flags = c::COMPLETION;
    assert_eq!(set(&mut flags), minus(errors::INVAL));
    assert_eq!(control(a.ep, 99, null_mut()), minus(errors::NOSYS));
}

#[test]
fn what_does_not_apply_says_so() {
    let a = Rank::new(Plan::default());
    let nosys = minus(errors::NOSYS);
    // SAFETY: none of these looks at anything.
    unsafe {
        let fabric = &*(*a.fabric).ops;
        let domain = &*(*a.domain).ops;
        let ep = &*(*a.ep).ops;
        let cm = &*(*a.ep).cm;
        for absent in [
            fabric.wait_open,
            domain.scalable_ep,
            domain.stx_ctx,
            domain.srx_ctx,
            domain.query_collective,
            ep.tx_size_left,
            ep.rx_size_left,
            ep.tx_ctx,
            cm.join,
            (*(*a.av).ops).insertsvc,
            (*(*a.ep).collective).operations[0],
        ] {
            assert_eq!(absent(), nosys);
        }
    }
}

#[test]
fn queues_of_other_kinds_are_refused() {
    let a = Rank::new(Plan::default());
    let open = |format, wait| {
        let mut attr: CqAttr = zeros();
        (attr.format, attr.wait_obj) = (format, wait);
        let mut cq: *mut FidCq = null_mut();
        // SAFETY: as a program calls it.
        let status = unsafe {
            let open = (*(*a.domain).ops).cq_open;
            open(a.domain, &raw mut attr, &raw mut cq, null_mut())
        };
        if status == 0 {
            assert_eq!(close(cq), 0);
        }
        status as isize
    };
    assert_eq!(open(5, c::WAIT_NONE), minus(errors::NOSYS));
    // FI_WAIT_SET, FI_WAIT_MUTEX_COND, FI_WAIT_POLLFD.
    for wait in [2, 4, 6] {
        assert_eq!(open(c::CQ_FORMAT_MSG, wait), minus(errors::NOSYS));
    }
    assert_eq!(open(c::CQ_FORMAT_UNSPEC, c::WAIT_FD), 0);
}
