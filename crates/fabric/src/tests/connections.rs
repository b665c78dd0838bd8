//! Endpoints that are connected: calls, answers, ends.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::net::SocketAddr;

use super::c_side::{Given, Hints, Plan, Rank, bind, close, context, control, minus, zeros};
use super::here;
use crate::abi::constants as c;
use crate::abi::domain::FidDomain;
use crate::abi::endpoint::{FidEp, FidPep};
use crate::abi::errors::{self, Errno};
use crate::abi::fabric::{Fid, FidFabric, Info};
use crate::abi::queues::{
    CqAttr, CqErrEntry, CqTaggedEntry, EqAttr, EqCmEntry, EqErrEntry, FidCq, FidEq,
};
use crate::connection::DATA_BYTES_MAX;
use crate::name;

const VERSION: u32 = c::version(1, 18);
const ENTRY_BYTES: usize = size_of::<EqCmEntry>();

fn here() -> SocketAddr {
    "127.0.0.1:0".parse().expect("is one")
}

/// What a program asks for that is to be connected.
fn hints() -> Hints {
    let mut hints = Hints::new(c::MSG | c::TAGGED | c::RMA);
    hints.ep.kind = c::EP_MSG;
    hints
}

/// A program's objects that its endpoints share.
pub struct Program {
    fabric: *mut FidFabric,
    eq: *mut FidEq,
    domain: *mut FidDomain,
    cq: *mut FidCq,
    given: Given,
}

/// An event of a connection.
pub struct Event {
    pub number: u32,
    pub fid: *mut Fid,
    pub info: *mut Info,
    pub data: Vec<u8>,
}

impl Program {
    pub fn new() -> Program {
        let given = Given::get(VERSION, Some(&mut hints())).expect("it is offered");
        let mut program = Program {
            fabric: null_mut(),
            eq: null_mut(),
            domain: null_mut(),
            cq: null_mut(),
            given,
        };
        let mut eq_attr: EqAttr = zeros();
        eq_attr.wait_obj = c::WAIT_UNSPEC;
        let mut cq_attr: CqAttr = zeros();
        cq_attr.format = c::CQ_FORMAT_TAGGED;
        let none = null_mut();
        // SAFETY: as a program calls them; each place is a pointer's.
        unsafe {
            let provider = &*crate::provider::provider();
            let info = program.given.0;
            let attr = (*info).fabric_attr;
            (*attr).api_version = VERSION;
            assert_eq!((provider.fabric)(attr, &raw mut program.fabric, none), 0);
            (*program.fabric).api_version = VERSION;
            let ops = &*(*program.fabric).ops;
            let fabric = program.fabric;
            let eq = &raw mut program.eq;
            assert_eq!((ops.eq_open)(fabric, &raw mut eq_attr, eq, none), 0);
            let domain = &raw mut program.domain;
            assert_eq!((ops.domain)(fabric, info, domain, none), 0);
            let cq = &raw mut program.cq;
            let open = (*(*program.domain).ops).cq_open;
            assert_eq!(open(program.domain, &raw mut cq_attr, cq, none), 0);
        }
        program
    }

    /// What it was offered.
    pub fn given(&self) -> &Given {
        &self.given
    }

    /// An endpoint that is to listen.
    fn passive(&self) -> *mut FidPep {
        let mut pep = null_mut();
        // SAFETY: as a program calls it.
        let status = unsafe {
            let open = (*(*self.fabric).ops).passive_ep;
            let info = self.given.0;
            // This machine has no such address: it is named later.
            let source = core::mem::replace(&mut (*info).src_addr, null_mut());
            let status = open(self.fabric, info, &raw mut pep, null_mut());
            (*info).src_addr = source;
            status
        };
        assert_eq!(status, 0);
        pep
    }

    /// One that listens at a free port, and where that is.
    pub fn listen(&self) -> (*mut FidPep, Vec<u8>) {
        let pep = self.passive();
        assert_eq!(bind(pep, self.eq, 0), 0);
        let at = name::socket(&here());
        // SAFETY: as a program calls them.
        unsafe {
            let cm = &*(*pep).cm;
            let named = (cm.setname)(pep.cast(), at.as_ptr().cast(), at.len());
            assert_eq!((named, (cm.listen)(pep)), (0, 0));
        }
        let at = name_of(pep.cast(), getname);
        assert!(at.port() > 0);
        (pep, name::socket(&at))
    }

    /// An endpoint with all that it needs.
    pub fn endpoint(&self, info: *mut Info) -> *mut FidEp {
        let ep = self.open(info).expect("it opens");
        assert_eq!(bind(ep, self.eq, 0), 0);
        assert_eq!(bind(ep, self.cq, c::SEND | c::RECV), 0);
        ep
    }

    fn open(&self, info: *mut Info) -> Result<*mut FidEp, isize> {
        let mut ep = null_mut();
        // SAFETY: as a program calls it.
        let status = unsafe {
            let open = (*(*self.domain).ops).endpoint;
            open(self.domain, info, &raw mut ep, null_mut())
        };
        if status == 0 {
            Ok(ep)
        } else {
            Err(status as isize)
        }
    }

    /// An endpoint that calls there.
    pub fn call(&self, at: &[u8], data: &[u8]) -> *mut FidEp {
        let ep = self.endpoint(self.given.0);
        assert_eq!(connect(ep, at, data), 0);
        ep
    }

    fn read(&self, room: usize) -> Result<Event, isize> {
        let mut buffer = [0u64; (ENTRY_BYTES + DATA_BYTES_MAX) / 8];
        let mut number = 0;
        // SAFETY: as a program calls it.
        let read = unsafe {
            let read = (*(*self.eq).ops).read;
            read(
                self.eq,
                &raw mut number,
                buffer.as_mut_ptr().cast(),
                room,
                0,
            )
        };
        if read < 0 {
            return Err(read);
        }
        // SAFETY: the entry is at the beginning, and so many bytes were read.
        unsafe {
            let entry = *buffer.as_ptr().cast::<EqCmEntry>();
            let bytes = buffer.as_ptr().cast::<u8>().add(ENTRY_BYTES);
            let len = read as usize - ENTRY_BYTES;
            Ok(Event {
                number,
                fid: entry.fid,
                info: entry.info,
                data: core::slice::from_raw_parts(bytes, len).to_vec(),
            })
        }
    }

    /// Waits for the next event, or that there is an error.
    pub fn wait(&self, others: &[&Program]) -> Result<Event, isize> {
        loop {
            match self.read(ENTRY_BYTES + DATA_BYTES_MAX) {
                Err(again) if again == minus(errors::AGAIN) => {
                    for other in others {
                        other.progress();
                    }
                    std::thread::yield_now();
                }
                read => return read,
            }
        }
    }

    pub fn event(&self, number: u32, others: &[&Program]) -> Event {
        let event = self.wait(others).expect("no error");
        assert_eq!(event.number, number);
        event
    }

    /// The error that there is, and what it tells of itself.
    pub fn error(&self, fid: *mut FidEp, others: &[&Program]) -> (Errno, Vec<u8>) {
        let read = self.wait(others).map(|event| event.number);
        assert_eq!(read, Err(minus(errors::AVAIL)));
        let mut entry: EqErrEntry = zeros();
        // SAFETY: as a program calls it.
        unsafe {
            let read = ((*(*self.eq).ops).readerr)(self.eq, &raw mut entry, 0);
            assert_eq!(read, size_of::<EqErrEntry>() as isize);
            assert_eq!(entry.fid, fid.cast());
            let about = match entry.err_data_size {
                0 => Vec::new(),
                len => core::slice::from_raw_parts(entry.err_data.cast(), len).to_vec(),
            };
            (Errno(entry.err), about)
        }
    }

    /// Nothing has happened.
    fn is_quiet(&self) -> bool {
        self.read(0).is_err_and(|read| read == minus(errors::AGAIN))
    }

    fn progress(&self) {
        // There is no room for what is there: it stays.
        let _ = self.read(0);
        // SAFETY: as a program calls it; nothing is read.
        unsafe { ((*(*self.cq).ops).read)(self.cq, null_mut(), 0) };
    }

    /// The context of the next operation that has ended, and how.
    pub fn done(&self) -> (usize, Option<Errno>) {
        loop {
            let mut entry: CqTaggedEntry = zeros();
            let mut error: CqErrEntry = zeros();
            // SAFETY: as a program calls them.
            unsafe {
                let ops = &*(*self.cq).ops;
                if (ops.read)(self.cq, (&raw mut entry).cast(), 1) == 1 {
                    return (entry.op_context as usize, None);
                }
                if (ops.readerr)(self.cq, &raw mut error, 0) == 1 {
                    return (error.op_context as usize, Some(Errno(error.err)));
                }
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(close(self.cq), 0);
            assert_eq!(close(self.domain), 0, "something is open still");
            assert_eq!(close(self.eq), 0);
            assert_eq!(close(self.fabric), 0);
        }
    }
}

type Getname = unsafe fn(*mut Fid, *mut c_void, *mut usize) -> c_int;

/// Of both kinds of endpoints.
unsafe fn getname(fid: *mut Fid, raw: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: as a program calls it; the tables are at the same place.
    unsafe { ((*(*fid.cast::<FidPep>()).cm).getname)(fid, raw, len) }
}

unsafe fn getpeer(fid: *mut Fid, raw: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: as a program calls it.
    unsafe { ((*(*fid.cast::<FidEp>()).cm).getpeer)(fid.cast(), raw, len) }
}

fn name_of(fid: *mut Fid, getname: Getname) -> SocketAddr {
    let mut raw = [0u8; 28];
    let mut len = raw.len();
    // SAFETY: as a program calls it.
    let status = unsafe { getname(fid, raw.as_mut_ptr().cast(), &raw mut len) };
    assert_eq!(status, 0);
    name::parse_socket(&raw[..len]).expect("is one")
}

fn connect(ep: *mut FidEp, at: &[u8], data: &[u8]) -> isize {
    // SAFETY: as a program calls it.
    unsafe {
        let connect = (*(*ep).cm).connect;
        connect(ep, at.as_ptr().cast(), data.as_ptr().cast(), data.len()) as isize
    }
}

pub fn accept(ep: *mut FidEp, data: &[u8]) -> isize {
    // SAFETY: as a program calls it.
    unsafe { ((*(*ep).cm).accept)(ep, data.as_ptr().cast(), data.len()) as isize }
}

fn reject(pep: *mut FidPep, handle: *mut Fid, data: &[u8]) -> isize {
    // SAFETY: as a program calls it.
    unsafe { ((*(*pep).cm).reject)(pep, handle, data.as_ptr().cast(), data.len()) as isize }
}

fn shutdown(ep: *mut FidEp) -> isize {
    // SAFETY: as a program calls it.
    unsafe { ((*(*ep).cm).shutdown)(ep, 0) as isize }
}

pub fn receive(ep: *mut FidEp, buffer: &mut [u8], number: usize) -> isize {
    // SAFETY: as a program calls it.
    unsafe {
        let recv = (*(*ep).msg).recv;
        let bytes = buffer.as_mut_ptr().cast();
        recv(ep, bytes, buffer.len(), null_mut(), 0, context(number))
    }
}

fn send(ep: *mut FidEp, bytes: &[u8], number: usize) -> isize {
    // SAFETY: as a program calls it.
    unsafe {
        let send = (*(*ep).msg).send;
        let buffer = bytes.as_ptr().cast();
        send(ep, buffer, bytes.len(), null_mut(), 0, context(number))
    }
}

/// Who has called.
fn handle(event: &Event) -> *mut Fid {
    // SAFETY: it is of a call.
    unsafe { (*event.info).handle }
}

/// Two programs, their endpoints connected, and who listens.
struct Pair {
    a: Program,
    b: Program,
    pep: *mut FidPep,
    at_a: *mut FidEp,
    at_b: *mut FidEp,
}

impl Pair {
    fn new() -> Pair {
        let (a, b) = (Program::new(), Program::new());
        let (pep, at) = b.listen();
        let at_a = a.call(&at, b"");
        let call = Given(b.event(c::CONNREQ, &[&a]).info);
        let at_b = b.endpoint(call.0);
        assert_eq!(accept(at_b, b""), 0);
        b.event(c::CONNECTED, &[&a]);
        a.event(c::CONNECTED, &[&b]);
        Pair {
            a,
            b,
            pep,
            at_a,
            at_b,
        }
    }

    fn close(self) {
        assert_eq!(close(self.at_a), 0);
        assert_eq!(close(self.at_b), 0);
        assert_eq!(close(self.pep), 0);
    }
}

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
    assert_eq!(b.done(), (4, None));
    for ep in [at_a, at_b] {
        assert_eq!(close(ep), 0);
    }
    assert_eq!(close(pep), 0);
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
        let named = name::socket(&here());
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
    assert_eq!(connect(pair.at_a, &name::socket(&here()), b""), bad_state);
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
    let at = name::socket(&here());
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
    assert_eq!(connect(a.ep, &name::socket(&here()), b""), absent);
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
