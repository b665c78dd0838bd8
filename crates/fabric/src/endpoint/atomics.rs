//! Atomic operations on peers' memory.
#![allow(
    clippy::too_many_arguments,
    reason = "libfabric's functions have so many"
)]

use core::ffi::{c_int, c_void};

use tabane_rank::{ATOMIC_BYTES_MAX, Atomic, Number, Operation, Piece, Remote, Ticket};

use crate::abi::constants as c;
use crate::abi::endpoint::FidEp;
use crate::abi::errors::{self, Outcome};
use crate::abi::transfers::{AtomicOps, Ioc, MsgAtomic};
use crate::guard;
use crate::numbers::{self, Kind};
use crate::station::QUIET;

use super::pieces::{Pieces, numbers as numbers_at, total};
use super::{Endpoint, TX_FLAGS, check, endpoint};

/// The functions for atomic operations.
pub static OPS: AtomicOps = AtomicOps {
    size: size_of::<AtomicOps>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

/// Flags of atomic operations: no number comes with them.
const FLAGS: u64 = TX_FLAGS & !c::REMOTE_CQ_DATA;

/// The operation, the place, and the completion.
struct Wanted {
    kind: Kind,
    number: Number,
    operation: Operation,
    peer: u64,
    remote: Remote,
    ticket: Ticket,
    flags: u64,
}

/// The memory here: of each kind of operation as much as it needs.
struct Memory<'a> {
    operand: &'a [Piece],
    compare: &'a [Piece],
    result: &'a [Piece],
}

/// The peer, the place and the key.
type Target = (u64, u64, u64);
/// Type and operation.
type What = (u32, u32);

impl Endpoint {
    fn wanted(
        &self,
        kind: Kind,
        (peer, offset, key): Target,
        (datatype, op): What,
        context: *mut c_void,
        flags: u64,
    ) -> Outcome<Wanted> {
        let (number, operation) = numbers::operation(datatype, op, kind)?;
        let direction = match kind {
            Kind::Base => c::WRITE,
            Kind::Fetch | Kind::Compare => c::READ,
        };
        Ok(Wanted {
            kind,
            number,
            operation,
            peer,
            remote: Remote { offset, key },
            ticket: self.tx_ticket(context, c::ATOMIC | direction, flags),
            flags,
        })
    }

    /// # Safety
    /// As of [`tabane_rank::Core::atomic`].
    unsafe fn atomic(&self, wanted: &Wanted, memory: &Memory<'_>) -> Outcome<()> {
        let station = self.station()?;
        check(wanted.flags, FLAGS)?;
        let bytes = check_lengths(wanted, memory)?;
        if bytes > ATOMIC_BYTES_MAX {
            return Err(errors::MSGSIZE);
        }
        station.with_peer(wanted.peer, |core, peer| {
            let atomic = Atomic {
                peer,
                remote: wanted.remote,
                operation: wanted.operation,
                number: wanted.number,
                operand: memory.operand,
                compare: (wanted.kind == Kind::Compare).then_some(memory.compare),
                result: (wanted.kind != Kind::Base).then_some(memory.result),
                ticket: wanted.ticket,
            };
            // SAFETY: as above.
            unsafe { core.atomic(&atomic) }
        })
    }
}

/// How long all of the operation's memory is.
///
/// # Errors
/// One is of another length.
fn check_lengths(wanted: &Wanted, memory: &Memory<'_>) -> Outcome<usize> {
    let result = total(memory.result)?;
    // A pure read has no operand.
    let bytes = match wanted.operation {
        Operation::Read => result,
        _ => total(memory.operand)?,
    };
    let is_wrong = (wanted.kind != Kind::Base && result != bytes)
        || (wanted.kind == Kind::Compare && total(memory.compare)? != bytes);
    if is_wrong || bytes == 0 {
        return Err(errors::INVAL);
    }
    Ok(bytes)
}

/// The operand of an operation; none for a pure read, because programs then pass anything.
fn operand(
    operation: Operation,
    number: Number,
    (buffer, count): (*const c_void, usize),
) -> Outcome<Piece> {
    match operation {
        Operation::Read => numbers_at(core::ptr::null(), 0, 1),
        _ => numbers_at(buffer, count, number.bytes()),
    }
}

/// The common part of the functions with one piece; the pieces have `count` numbers each.
fn one(
    face: *mut FidEp,
    kind: Kind,
    (buffer, compare, result): (*const c_void, *const c_void, *mut c_void),
    count: usize,
    target: Target,
    what: What,
    context: *mut c_void,
) -> isize {
    guard::posted(|| {
        // SAFETY: C gives an endpoint of ours, and memory that is the operation's until the completion.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let flags = endpoint.default_tx_flags();
            let wanted = endpoint.wanted(kind, target, what, context, flags)?;
            let each = wanted.number.bytes();
            let optional = |base: *const c_void, is_there: bool| {
                numbers_at(base, if is_there { count } else { 0 }, each)
            };
            let memory = Memory {
                operand: &[operand(wanted.operation, wanted.number, (buffer, count))?],
                compare: &[optional(compare, kind == Kind::Compare)?],
                result: &[optional(result, kind != Kind::Base)?],
            };
            endpoint.atomic(&wanted, &memory)
        }
    })
}

/// Arrays of numbers: operand, comparand, result.
struct Arrays {
    operand: (*const Ioc, usize),
    compare: (*const Ioc, usize),
    result: (*const Ioc, usize),
}

impl Arrays {
    fn of(operand: *const Ioc, count: usize) -> Arrays {
        Arrays {
            operand: (operand, count),
            compare: (core::ptr::null(), 0),
            result: (core::ptr::null(), 0),
        }
    }

    /// # Safety
    /// Each is null or has so many elements; the memory is the operation's until the completion.
    unsafe fn post(&self, endpoint: &Endpoint, wanted: &Wanted) -> Outcome<()> {
        let each = wanted.number.bytes();
        // SAFETY: as above.
        let of = |(ioc, count)| unsafe { Pieces::of_numbers(ioc, count, each) };
        let operand = match wanted.operation {
            Operation::Read => of((core::ptr::null(), 0))?,
            _ => of(self.operand)?,
        };
        let (compare, result) = (of(self.compare)?, of(self.result)?);
        let memory = Memory {
            operand: operand.as_slice(),
            compare: compare.as_slice(),
            result: result.as_slice(),
        };
        // SAFETY: as above.
        unsafe { endpoint.atomic(wanted, &memory) }
    }
}

/// # Safety
/// The arrays are of so many elements.
unsafe fn several(
    face: *mut FidEp,
    kind: Kind,
    arrays: &Arrays,
    target: Target,
    what: What,
    context: *mut c_void,
) -> isize {
    guard::posted(|| {
        // SAFETY: as above; C gives an endpoint of ours.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let flags = endpoint.default_tx_flags();
            let wanted = endpoint.wanted(kind, target, what, context, flags)?;
            arrays.post(endpoint, &wanted)
        }
    })
}

/// # Safety
/// The message is null or valid, the arrays are of so many elements.
unsafe fn whole(
    face: *mut FidEp,
    kind: Kind,
    msg: *const MsgAtomic,
    (compare, result): ((*const Ioc, usize), (*const Ioc, usize)),
    flags: u64,
) -> isize {
    guard::posted(|| {
        // SAFETY: as above; C gives an endpoint of ours.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let msg = guard::given(msg)?;
            let [there] = guard::array(msg.rma_iov, msg.rma_iov_count)? else {
                return Err(errors::INVAL);
            };
            let target = (msg.addr, there.addr, there.key);
            let what = (msg.datatype, msg.op);
            let wanted = endpoint.wanted(kind, target, what, msg.context, flags)?;
            let arrays = Arrays {
                operand: (msg.msg_iov, msg.iov_count),
                compare,
                result,
            };
            arrays.post(endpoint, &wanted)
        }
    })
}

unsafe extern "C" fn write(
    ep: *mut FidEp,
    buffer: *const c_void,
    count: usize,
    _desc: *mut c_void,
    to: u64,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let memory = (buffer, core::ptr::null(), core::ptr::null_mut());
    one(
        ep,
        Kind::Base,
        memory,
        count,
        (to, offset, key),
        (datatype, op),
        context,
    )
}

unsafe extern "C" fn writev(
    ep: *mut FidEp,
    iov: *const Ioc,
    _desc: *mut *mut c_void,
    count: usize,
    to: u64,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let arrays = Arrays::of(iov, count);
    // SAFETY: C gives this many elements.
    unsafe {
        several(
            ep,
            Kind::Base,
            &arrays,
            (to, offset, key),
            (datatype, op),
            context,
        )
    }
}

unsafe extern "C" fn writemsg(ep: *mut FidEp, msg: *const MsgAtomic, flags: u64) -> isize {
    let none = (core::ptr::null(), 0);
    // SAFETY: C gives a message that stays for the call.
    unsafe { whole(ep, Kind::Base, msg, (none, none), flags) }
}

unsafe extern "C" fn inject(
    face: *mut FidEp,
    buffer: *const c_void,
    count: usize,
    to: u64,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
) -> isize {
    guard::posted(|| {
        // SAFETY: C gives an endpoint of ours, and memory that can be read now: operands are copied.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let (target, what) = ((to, offset, key), (datatype, op));
            let context = core::ptr::null_mut();
            let mut wanted = endpoint.wanted(Kind::Base, target, what, context, c::INJECT)?;
            wanted.ticket.flags |= QUIET;
            let memory = Memory {
                operand: &[numbers_at(buffer, count, wanted.number.bytes())?],
                compare: &[],
                result: &[],
            };
            endpoint.atomic(&wanted, &memory)
        }
    })
}

unsafe extern "C" fn readwrite(
    ep: *mut FidEp,
    buffer: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    to: u64,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let memory = (buffer, core::ptr::null(), result);
    one(
        ep,
        Kind::Fetch,
        memory,
        count,
        (to, offset, key),
        (datatype, op),
        context,
    )
}

unsafe extern "C" fn readwritev(
    ep: *mut FidEp,
    iov: *const Ioc,
    _desc: *mut *mut c_void,
    count: usize,
    result: *mut Ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    to: u64,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let mut arrays = Arrays::of(iov, count);
    arrays.result = (result, result_count);
    // SAFETY: C gives this many elements.
    unsafe {
        several(
            ep,
            Kind::Fetch,
            &arrays,
            (to, offset, key),
            (datatype, op),
            context,
        )
    }
}

unsafe extern "C" fn readwritemsg(
    ep: *mut FidEp,
    msg: *const MsgAtomic,
    result: *mut Ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let none = (core::ptr::null(), 0);
    // SAFETY: C gives a message that stays for the call, and so many elements.
    unsafe { whole(ep, Kind::Fetch, msg, (none, (result, result_count)), flags) }
}

unsafe extern "C" fn compwrite(
    ep: *mut FidEp,
    buffer: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    to: u64,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let memory = (buffer, compare, result);
    one(
        ep,
        Kind::Compare,
        memory,
        count,
        (to, offset, key),
        (datatype, op),
        context,
    )
}

unsafe extern "C" fn compwritev(
    ep: *mut FidEp,
    iov: *const Ioc,
    _desc: *mut *mut c_void,
    count: usize,
    compare: *const Ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    result: *mut Ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    to: u64,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    let arrays = Arrays {
        operand: (iov, count),
        compare: (compare, compare_count),
        result: (result, result_count),
    };
    // SAFETY: C gives this many elements.
    unsafe {
        several(
            ep,
            Kind::Compare,
            &arrays,
            (to, offset, key),
            (datatype, op),
            context,
        )
    }
}

unsafe extern "C" fn compwritemsg(
    ep: *mut FidEp,
    msg: *const MsgAtomic,
    compare: *const Ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    result: *mut Ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let arrays = (
        (compare, compare_count),
        (result.cast_const(), result_count),
    );
    // SAFETY: C gives a message that stays for the call, and so many elements.
    unsafe { whole(ep, Kind::Compare, msg, arrays, flags) }
}

/// Whether there is such an operation, and how many numbers it takes.
fn valid(kind: Kind, datatype: u32, op: u32, count: *mut usize) -> c_int {
    guard::status(|| {
        let (number, _) = numbers::operation(datatype, op, kind)?;
        // SAFETY: C gives a place of its own.
        unsafe { guard::put(count, numbers::count_max(number)) }
    })
}

unsafe extern "C" fn writevalid(
    _ep: *mut FidEp,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    valid(Kind::Base, datatype, op, count)
}

unsafe extern "C" fn readwritevalid(
    _ep: *mut FidEp,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    valid(Kind::Fetch, datatype, op, count)
}

unsafe extern "C" fn compwritevalid(
    _ep: *mut FidEp,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    valid(Kind::Compare, datatype, op, count)
}
