//! A program in C whose endpoints are connected: its objects, and what it calls.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::net::SocketAddr;

use super::c_side::{Given, Hints, bind, close, context, control, minus, zeros};
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

pub const VERSION: u32 = c::version(1, 18);
/// Longer than anything takes that ends a sleep.
pub const SLEEP_MS_MAX: c_int = 60_000;
pub const ENTRY_BYTES: usize = size_of::<EqCmEntry>();

pub fn any_port_here() -> SocketAddr {
    "127.0.0.1:0".parse().expect("is one")
}

/// What a program asks for that is to be connected.
pub fn hints() -> Hints {
    let mut hints = Hints::new(c::MSG | c::TAGGED | c::RMA);
    hints.ep.kind = c::EP_MSG;
    hints
}

/// A program's objects that its endpoints share.
pub struct Program {
    pub fabric: *mut FidFabric,
    pub eq: *mut FidEq,
    pub domain: *mut FidDomain,
    pub cq: *mut FidCq,
    pub given: Given,
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
        eq_attr.wait_obj = c::WAIT_FD;
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
    pub fn passive(&self) -> *mut FidPep {
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
        let at = name::socket(&any_port_here());
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

    pub fn open(&self, info: *mut Info) -> Result<*mut FidEp, isize> {
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

    pub fn read(&self, room: usize) -> Result<Event, isize> {
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

    /// Whether the event queue's descriptor is readable within so many milliseconds.
    pub fn is_ready(&self, at_most: c_int) -> bool {
        let mut descriptor: c_int = -1;
        let place = (&raw mut descriptor).cast();
        assert_eq!(control(self.eq, c::GETWAIT, place), 0);
        let mut poll = libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: it is one descriptor of the queue's.
        unsafe { libc::poll(&raw mut poll, 1, at_most) == 1 }
    }

    /// Sleeps at the descriptor of the event queue, and nowhere else, until there is an event, or an error.
    pub fn sleep(&self) -> Result<Event, isize> {
        let mut fid: *mut Fid = self.eq.cast();
        loop {
            // SAFETY: as a program calls it.
            let trywait = unsafe { (*(*self.fabric).ops).trywait };
            // SAFETY: as above.
            if unsafe { trywait(self.fabric, &raw mut fid, 1) } == 0 {
                assert!(self.is_ready(SLEEP_MS_MAX), "nobody wakes whoever sleeps");
            }
            match self.read(ENTRY_BYTES + DATA_BYTES_MAX) {
                Err(again) if again == minus(errors::AGAIN) => {}
                read => return read,
            }
        }
    }

    pub fn event(&self, number: u32, others: &[&Program]) -> Event {
        let event = self.wait(others).expect("no error");
        assert_eq!(event.number, number);
        event
    }

    /// The error that is waited for, and what it tells of itself.
    pub fn error(&self, fid: *mut FidEp, others: &[&Program]) -> (Errno, Vec<u8>) {
        let read = self.wait(others).map(|event| event.number);
        assert_eq!(read, Err(minus(errors::AVAIL)));
        self.read_error(fid)
    }

    /// The error that there is, and what it tells of itself.
    pub fn read_error(&self, fid: *mut FidEp) -> (Errno, Vec<u8>) {
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
    pub fn is_quiet(&self) -> bool {
        self.read(0).is_err_and(|read| read == minus(errors::AGAIN))
    }

    pub fn progress(&self) {
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

pub type Getname = unsafe fn(*mut Fid, *mut c_void, *mut usize) -> c_int;

/// Of both kinds of endpoints.
pub unsafe fn getname(fid: *mut Fid, raw: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: as a program calls it; the tables are at the same place.
    unsafe { ((*(*fid.cast::<FidPep>()).cm).getname)(fid, raw, len) }
}

pub unsafe fn getpeer(fid: *mut Fid, raw: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: as a program calls it.
    unsafe { ((*(*fid.cast::<FidEp>()).cm).getpeer)(fid.cast(), raw, len) }
}

pub fn name_of(fid: *mut Fid, getname: Getname) -> SocketAddr {
    let mut raw = [0u8; 28];
    let mut len = raw.len();
    // SAFETY: as a program calls it.
    let status = unsafe { getname(fid, raw.as_mut_ptr().cast(), &raw mut len) };
    assert_eq!(status, 0);
    name::parse_socket(&raw[..len]).expect("is one")
}

pub fn connect(ep: *mut FidEp, at: &[u8], data: &[u8]) -> isize {
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

pub fn reject(pep: *mut FidPep, handle: *mut Fid, data: &[u8]) -> isize {
    // SAFETY: as a program calls it.
    unsafe { ((*(*pep).cm).reject)(pep, handle, data.as_ptr().cast(), data.len()) as isize }
}

pub fn shutdown(ep: *mut FidEp) -> isize {
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

pub fn send(ep: *mut FidEp, bytes: &[u8], number: usize) -> isize {
    // SAFETY: as a program calls it.
    unsafe {
        let send = (*(*ep).msg).send;
        let buffer = bytes.as_ptr().cast();
        send(ep, buffer, bytes.len(), null_mut(), 0, context(number))
    }
}

/// Who has called.
pub fn handle(event: &Event) -> *mut Fid {
    // SAFETY: it is of a call.
    unsafe { (*event.info).handle }
}

/// Two programs, their endpoints connected, and who listens.
pub struct Pair {
    pub a: Program,
    pub b: Program,
    pub pep: *mut FidPep,
    pub at_a: *mut FidEp,
    pub at_b: *mut FidEp,
}

impl Pair {
    pub fn new() -> Pair {
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

    pub fn close(self) {
        assert_eq!(close(self.at_a), 0);
        assert_eq!(close(self.at_b), 0);
        assert_eq!(close(self.pep), 0);
    }
}
