//! Endpoints that are connected: calls, answers, ends.

use core::ffi::c_int;
use core::ptr::null_mut;
use std::net::SocketAddr;

use super::c_side::{Given, Hints, Plan, Rank, bind, close, context, control, minus};
use super::here;
use super::program::*;
use crate::abi::constants as c;
use crate::abi::endpoint::FidPep;
use crate::abi::errors::{self, Errno};
use crate::abi::fabric::Fid;
use crate::connection::DATA_BYTES_MAX;
use crate::name;

#[test]
fn who_calls_and_who_answers_learn_of_each_other() {
    let (a, b) = (Program::new(), Program::new());
    let (pep, at) = b.listen();
    let at_a = a.endpoint(a.given.0);
    // Buffers may wait before anybody is there, and be taken back.
    let (mut first, mut other) = ([0; 8], [0; 8]);
    assert_eq!(control(at_a, c::ENABLE, null_mut()), 0);
    assert_eq!(receive(at_a, &mut other, 1), 0);
    assert_eq!(receive(at_a, &mut first, 2), 0);
    // SAFETY: as a program calls it.
    let cancelled = unsafe { ((*(*at_a).ops).cancel)(at_a.cast(), context(1)) };
    assert_eq!(cancelled, 0);
    assert_eq!(a.done(), (1, Some(errors::CANCELED)));
    assert_eq!(send(at_a, b"early", 3), minus(errors::NOTCONN));
    assert_eq!(connect(at_a, &at, b"hello"), 0);
    let event = b.event(c::CONNREQ, &[&a]);
    assert_eq!((event.fid, &event.data[..]), (pep.cast(), &b"hello"[..]));
    let call = Given(event.info);
    assert_eq!(call.ep().kind, c::EP_MSG);
    assert_eq!(call.info().addr_format, c::SOCKADDR_IN);
    // SAFETY: libfabric's names end in a zero byte.
    unsafe {
        let fabric = &*call.info().fabric_attr;
        assert_eq!(core::ffi::CStr::from_ptr(fabric.prov_name), c"tabane");
        assert_eq!(fabric.api_version, VERSION);
    }
    let at_b = b.endpoint(call.0);
    assert_eq!(accept(at_b, b"welcome"), 0);
    let event = b.event(c::CONNECTED, &[&a]);
    assert_eq!((event.fid, &event.data[..]), (at_b.cast(), &b""[..]));
    let event = a.event(c::CONNECTED, &[&b]);
    assert_eq!((event.fid, &event.data[..]), (at_a.cast(), &b"welcome"[..]));
    assert!(event.info.is_null());
    assert_eq!(send(at_b, b"12345678", 4), 0);
    assert_eq!(a.done(), (2, None));
    assert_eq!(&first, b"12345678");
    assert_eq!(name::socket(&name_of(at_a.cast(), getpeer)), at);
    assert_eq!(name_of(at_b.cast(), getpeer), name_of(at_a.cast(), getname));
    assert_eq!(name::socket(&name_of(at_b.cast(), getname)), at);
    assert_eq!(b.done(), (4, None));
    for ep in [at_a, at_b] {
        assert_eq!(close(ep), 0);
    }
    assert_eq!(close(pep), 0);
}

/// Who is answered may call again at once, and that call comes to another endpoint: what is told of the first must be there already.
#[test]
fn who_answers_is_told_at_once_that_the_connection_stands() {
    let (a, b) = (Program::new(), Program::new());
    let (pep, at) = b.listen();
    let at_a = a.call(&at, b"");
    let call = Given(b.event(c::CONNREQ, &[&a]).info);
    let at_b = b.endpoint(call.0);
    assert!(b.is_quiet() && !b.is_ready(0));
    assert_eq!(accept(at_b, b""), 0);
    assert!(b.is_ready(0));
    assert_eq!(b.event(c::CONNECTED, &[]).fid, at_b.cast());
    assert!(!b.is_ready(0));
    a.event(c::CONNECTED, &[]);
    assert_eq!((close(at_a), close(at_b), close(pep)), (0, 0, 0));
}

/// Hints for an endpoint that calls from where a passive one is found.
fn from_there(pep: *mut FidPep) -> Hints {
    let mut hints = hints();
    hints.info.handle = pep.cast();
    hints
}

fn setname(pep: *mut FidPep, at: &SocketAddr) -> isize {
    let at = name::socket(at);
    // SAFETY: as a program calls it.
    unsafe { ((*(*pep).cm).setname)(pep.cast(), at.as_ptr().cast(), at.len()) as isize }
}

#[test]
fn an_endpoint_may_call_from_where_a_passive_one_is_found() {
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let (a, b) = (Program::new(), Program::new());
        let (pep, at) = b.listen();
        let there = a.passive();
        assert_eq!(setname(there, &address.parse().expect("is one")), 0);
        let mut own = name_of(there.cast(), getname);
        let given = Given::get(VERSION, Some(&mut from_there(there))).expect("it is offered");
        assert_eq!(given.info().handle, there.cast());
        // SAFETY: it is as long as it says.
        let source = unsafe {
            core::slice::from_raw_parts(given.info().src_addr.cast(), given.info().src_addrlen)
        };
        assert_eq!(name::parse_socket(source), Some(own));
        let at_a = a.endpoint(given.0);
        // It has that place now, and keeps it.
        assert_eq!(close(there), 0);
        let other = a.passive();
        assert_eq!(setname(other, &own), minus(Errno(libc::EADDRINUSE)));
        assert_eq!(control(at_a, c::ENABLE, null_mut()), 0);
        if own.ip().is_unspecified() {
            own.set_ip([10, 77, 0, 1].into());
        }
        assert_eq!(name_of(at_a.cast(), getname), own);
        assert_eq!(connect(at_a, &at, b"hello"), 0);
        let event = b.event(c::CONNREQ, &[&a]);
        assert_eq!(event.data, b"hello");
        let call = Given(event.info);
        // SAFETY: it is as long as it says.
        let caller = unsafe {
            core::slice::from_raw_parts(call.info().dest_addr.cast(), call.info().dest_addrlen)
        };
        assert_eq!(name::parse_socket(caller), Some(own));
        let at_b = b.endpoint(call.0);
        assert_eq!(accept(at_b, b""), 0);
        b.event(c::CONNECTED, &[&a]);
        a.event(c::CONNECTED, &[&b]);
        assert_eq!(name_of(at_b.cast(), getpeer), own);
        assert_eq!(name_of(at_a.cast(), getname), own);
        assert_eq!((close(at_a), close(at_b)), (0, 0));
        own.set_ip([127, 0, 0, 1].into());
        assert_eq!(setname(other, &own), 0);
        assert_eq!((close(other), close(pep)), (0, 0));
    }
}

#[test]
fn nothing_else_is_called_from() {
    let (a, b) = (Program::new(), Program::new());
    let no_data = Some(-errors::NODATA.0);
    let mut asked = from_there(a.eq.cast());
    assert_eq!(Given::get(VERSION, Some(&mut asked)).err(), no_data);
    let there = a.passive();
    let mut asked = from_there(there);
    // It is found nowhere yet.
    assert_eq!(Given::get(VERSION, Some(&mut asked)).err(), no_data);
    let opened = |given: &Given, handle: *mut Fid| {
        // SAFETY: it was given, and is not freed yet.
        let before = unsafe { core::mem::replace(&mut (*given.0).handle, handle) };
        let opened = a.open(given.0);
        // SAFETY: as above.
        unsafe { (*given.0).handle = before };
        opened
    };
    let bad_state = Some(minus(errors::OPBADSTATE));
    assert_eq!(opened(&a.given, there.cast()).err(), bad_state);
    let (listens, _) = a.listen();
    assert_eq!(opened(&a.given, listens.cast()).err(), bad_state);
    // Another fabric's, and one that is closed.
    let (others, _) = b.listen();
    let invalid = Some(minus(errors::INVAL));
    assert_eq!(opened(&a.given, others.cast()).err(), invalid);
    assert_eq!(close(there), 0);
    assert_eq!(opened(&a.given, there.cast()).err(), invalid);
    assert_eq!((close(listens), close(others)), (0, 0));
}

#[test]
fn memory_is_reached_over_a_connection() {
    let pair = Pair::new();
    let mut memory = [0u8; 16];
    let mut region = null_mut();
    // SAFETY: as a program calls them.
    unsafe {
        let reg = (*(*pair.b.domain).mr).reg;
        let (base, len) = (memory.as_mut_ptr().cast_const().cast(), memory.len());
        let access = c::REMOTE_WRITE | c::REMOTE_READ;
        let domain = pair.b.domain.cast();
        let place = &raw mut region;
        assert_eq!(
            reg(domain, base, len, access, 0, 9, 0, place, null_mut()),
            0
        );
        let write = (*(*pair.at_a).rma).write;
        let bytes = b"there".as_ptr().cast();
        let written = write(pair.at_a, bytes, 5, null_mut(), 0, 3, 9, context(1));
        assert_eq!(written, 0);
    }
    assert_eq!(pair.a.done(), (1, None));
    assert_eq!(&memory[3..8], b"there");
    assert_eq!(close(region), 0);
    pair.close();
}

#[test]
fn who_shuts_a_connection_ends_it_for_both() {
    let pair = Pair::new();
    let (mut here, mut there) = ([0; 8], [0; 8]);
    assert_eq!(receive(pair.at_a, &mut here, 1), 0);
    assert_eq!(receive(pair.at_b, &mut there, 2), 0);
    assert_eq!(shutdown(pair.at_a), 0);
    // What is cancelled is told when it returns.
    assert_eq!(pair.a.done(), (1, Some(errors::CANCELED)));
    assert_eq!(pair.b.done(), (2, Some(errors::SHUTDOWN)));
    let event = pair.a.event(c::SHUTDOWN, &[]);
    assert_eq!((event.fid, event.data.len()), (pair.at_a.cast(), 0));
    let event = pair.b.event(c::SHUTDOWN, &[]);
    assert_eq!(event.fid, pair.at_b.cast());
    // Once each, though the other shuts it as well.
    assert_eq!((shutdown(pair.at_b), shutdown(pair.at_a)), (0, 0));
    assert!(pair.a.is_quiet() && pair.b.is_quiet());
    pair.close();
}

#[test]
fn an_endpoint_that_is_closed_is_gone_for_its_peer() {
    let pair = Pair::new();
    assert_eq!(close(pair.at_a), 0);
    assert_eq!(pair.b.event(c::SHUTDOWN, &[]).fid, pair.at_b.cast());
    let mut buffer = [0; 8];
    // What it tells is not told once it is closed itself.
    let again = pair.a.endpoint(pair.a.given.0);
    assert_eq!(receive(again, &mut buffer, 1), minus(errors::OPBADSTATE));
    for ep in [again, pair.at_b] {
        assert_eq!(close(ep), 0);
    }
    assert!(pair.a.is_quiet() && pair.b.is_quiet());
    assert_eq!(close(pair.pep), 0);
}

#[test]
fn events_of_what_is_closed_are_dropped() {
    let pair = Pair::new();
    assert_eq!(shutdown(pair.at_a), 0);
    assert_eq!(close(pair.at_a), 0);
    assert!(pair.a.is_quiet());
    pair.b.event(c::SHUTDOWN, &[]);
    assert_eq!(close(pair.at_b), 0);
    assert_eq!(close(pair.pep), 0);
}

#[test]
fn an_answer_counts_though_nobody_listens_any_more() {
    let (a, b) = (Program::new(), Program::new());
    let (pep, at) = b.listen();
    let at_a = a.call(&at, b"");
    let call = Given(b.event(c::CONNREQ, &[&a]).info);
    let at_b = b.endpoint(call.0);
    assert_eq!((accept(at_b, b""), close(pep)), (0, 0));
    a.event(c::CONNECTED, &[&b]);
    b.event(c::CONNECTED, &[&a]);
    assert_eq!((close(at_a), close(at_b)), (0, 0));
}

#[test]
fn who_is_rejected_is_told_why() {
    let (a, b) = (Program::new(), Program::new());
    let (pep, at) = b.listen();
    let longest = [7; DATA_BYTES_MAX];
    let at_a = a.call(&at, &longest);
    let event = b.event(c::CONNREQ, &[&a]);
    assert_eq!(event.data, longest);
    let who = handle(&event);
    let call = Given(event.info);
    let too_long = [0; DATA_BYTES_MAX + 1];
    assert_eq!(reject(pep, who, &too_long), minus(errors::INVAL));
    assert_eq!(reject(pep, who, &longest), 0);
    assert_eq!(
        a.error(at_a, &[&b]),
        (errors::CONNREFUSED, longest.to_vec())
    );
    // The handle stands for nobody any more.
    assert_eq!(reject(pep, who, b""), minus(errors::INVAL));
    assert_eq!(b.open(call.0).err(), Some(minus(errors::INVAL)));
    assert_eq!(reject(pep, null_mut(), b""), minus(errors::INVAL));
    // There was one call, and it has failed.
    assert_eq!(connect(at_a, &at, b""), minus(errors::OPBADSTATE));
    let mut buffer = [0; 8];
    assert_eq!(receive(at_a, &mut buffer, 1), minus(errors::NOTCONN));
    assert_eq!((close(at_a), close(pep)), (0, 0));
}

#[test]
fn who_is_forgotten_is_rejected() {
    let (a, b) = (Program::new(), Program::new());
    let (pep, at) = b.listen();
    let mut buffer = [0; 8];
    let first = a.endpoint(a.given.0);
    assert_eq!(control(first, c::ENABLE, null_mut()), 0);
    assert_eq!(receive(first, &mut buffer, 6), 0);
    assert_eq!(connect(first, &at, b""), 0);
    let call = Given(b.event(c::CONNREQ, &[&a]).info);
    // An endpoint is opened for it, and closed.
    let at_b = b.endpoint(call.0);
    assert_eq!(close(at_b), 0);
    assert_eq!(a.error(first, &[&b]), (errors::CONNREFUSED, vec![]));
    assert_eq!(a.done(), (6, Some(errors::CANCELED)));
    // Nobody answers before who listens is closed.
    let second = a.call(&at, b"");
    let unread = a.call(&at, b"");
    drop(Given(b.event(c::CONNREQ, &[&a]).info));
    assert_eq!(close(pep), 0);
    assert_eq!(a.wait(&[]).err(), Some(minus(errors::AVAIL)));
    for ep in [first, second, unread] {
        assert_eq!(close(ep), 0);
    }
}

#[test]
fn no_more_callers_wait_than_may() {
    let (a, b) = (Program::new(), Program::new());
    let (pep, at) = b.listen();
    let mut one: c_int = 1;
    assert_eq!(control(pep, c::BACKLOG, (&raw mut one).cast()), 0);
    let first = a.call(&at, b"");
    let call = Given(b.event(c::CONNREQ, &[&a]).info);
    let second = a.call(&at, b"");
    assert_eq!(a.error(second, &[&b]).0, errors::CONNREFUSED);
    let at_b = b.endpoint(call.0);
    assert_eq!(accept(at_b, b""), 0);
    let third = a.call(&at, b"");
    a.event(c::CONNECTED, &[&b]);
    for ep in [first, second, third, at_b] {
        assert_eq!(close(ep), 0);
    }
    assert_eq!(close(pep), 0);
}

#[test]
fn where_nobody_listens_a_call_fails() {
    here::impatient(|| {
        let (a, b) = (Program::new(), Program::new());
        let (pep, at) = b.listen();
        assert_eq!(close(pep), 0);
        let ep = a.call(&at, b"");
        assert_eq!(a.error(ep, &[]), (errors::CONNREFUSED, vec![]));
        // A port is taken, and nobody listens there yet.
        let pep = b.passive();
        let named = name::socket(&any_port_here());
        // SAFETY: as a program calls it.
        let status = unsafe { ((*(*pep).cm).setname)(pep.cast(), named.as_ptr().cast(), 16) };
        assert_eq!(status, 0);
        let at = name::socket(&name_of(pep.cast(), getname));
        let other = a.call(&at, b"");
        assert_eq!(a.error(other, &[]), (errors::TIMEDOUT, vec![]));
        for ep in [ep, other] {
            assert_eq!(close(ep), 0);
        }
        assert_eq!(close(pep), 0);
    });
}

#[test]
fn who_calls_in_vain_can_close() {
    let (a, b) = (Program::new(), Program::new());
    let (pep, at) = b.listen();
    assert_eq!(close(pep), 0);
    let ep = a.call(&at, b"");
    assert_eq!(close(ep), 0);
    assert!(a.is_quiet());
}

#[test]
fn what_is_out_of_order_is_refused() {
    let pair = Pair::new();
    let bad_state = minus(errors::OPBADSTATE);
    // Twice.
    assert_eq!(accept(pair.at_b, b""), bad_state);
    assert_eq!(
        connect(pair.at_a, &name::socket(&any_port_here()), b""),
        bad_state
    );
    // SAFETY: as a program calls it.
    let listen = |pep: *mut FidPep| unsafe { ((*(*pep).cm).listen)(pep) as isize };
    assert_eq!(listen(pair.pep), bad_state);
    assert_eq!(bind(pair.pep, pair.b.eq, 0), bad_state);
    // SAFETY: as a program calls it.
    let shut = |flags| unsafe { ((*(*pair.at_a).cm).shutdown)(pair.at_a, flags) as isize };
    assert_eq!(shut(1), minus(errors::BADFLAGS));
    // Too early.
    let ep = pair.a.open(pair.a.given.0).expect("it opens");
    let enable = || control(ep, c::ENABLE, null_mut());
    assert_eq!(enable(), minus(errors::NOEQ));
    assert_eq!(bind(ep, pair.a.eq, 0), 0);
    assert_eq!(enable(), minus(errors::NOCQ));
    assert_eq!(shutdown(ep), minus(errors::NOTCONN));
    assert_eq!(accept(ep, b""), bad_state);
    assert_eq!(bind(ep, pair.a.cq, c::SEND | c::RECV), 0);
    assert_eq!(enable(), 0);
    assert_eq!(shutdown(ep), minus(errors::NOTCONN));
    // Too much, or nothing.
    let too_long = [0; DATA_BYTES_MAX + 1];
    let at = name::socket(&any_port_here());
    assert_eq!(connect(ep, &at, &too_long), minus(errors::INVAL));
    assert_eq!(connect(ep, &[0; 28], b""), minus(errors::INVAL));
    // SAFETY: as a program calls it.
    let nowhere = unsafe { ((*(*ep).cm).connect)(ep, null_mut(), null_mut(), 0) };
    assert_eq!(nowhere as isize, minus(errors::INVAL));
    assert_eq!(close(ep), 0);
    let pep = pair.a.passive();
    assert_eq!(listen(pep), minus(errors::NOEQ));
    assert_eq!(close(pep), 0);
    pair.close();
}

#[test]
fn endpoints_that_reach_many_are_not_connected() {
    let a = Rank::new(Plan::default());
    let absent = minus(errors::NOSYS);
    assert_eq!(connect(a.ep, &name::socket(&any_port_here()), b""), absent);
    assert_eq!(accept(a.ep, b""), absent);
    assert_eq!(shutdown(a.ep), absent);
    let mut pep = null_mut();
    // SAFETY: as a program calls it.
    let status = unsafe {
        let open = (*(*a.fabric).ops).passive_ep;
        open(a.fabric, a.given.0, &raw mut pep, null_mut())
    };
    assert_eq!(status as isize, minus(errors::INVAL));
}

#[test]
fn how_much_goes_with_a_call_can_be_asked() {
    let pair = Pair::new();
    let mut bytes = 0usize;
    let mut len = size_of::<usize>();
    // SAFETY: as a program calls it; the tables are at the same place.
    let mut ask = |fid: *mut Fid, bytes: &mut usize| unsafe {
        let getopt = (*(*fid.cast::<FidPep>()).ops).getopt;
        let place = (&raw mut *bytes).cast();
        getopt(
            fid,
            c::OPT_ENDPOINT,
            c::OPT_CM_DATA_SIZE,
            place,
            &raw mut len,
        ) as isize
    };
    for fid in [pair.at_a.cast(), pair.pep.cast::<Fid>()] {
        assert_eq!((ask(fid, &mut bytes), bytes), (0, DATA_BYTES_MAX));
        bytes = 0;
    }
    let rank = Rank::new(Plan::default());
    assert_eq!(ask(rank.ep.cast(), &mut bytes), minus(errors::NOPROTOOPT));
    pair.close();
}

#[test]
fn an_event_is_cut_off_where_its_data_has_no_room() {
    let (a, b) = (Program::new(), Program::new());
    let (pep, at) = b.listen();
    let ep = a.call(&at, b"hello");
    let event = loop {
        match b.read(ENTRY_BYTES + 2) {
            Ok(event) => break event,
            Err(again) => assert_eq!(again, minus(errors::AGAIN)),
        }
        a.progress();
    };
    assert_eq!(event.data, b"he");
    assert_eq!(reject(pep, handle(&event), b""), 0);
    drop(Given(event.info));
    a.error(ep, &[&b]);
    assert_eq!((close(ep), close(pep)), (0, 0));
}
