//! Reads and writes of peers' memory.
#![allow(
    clippy::too_many_arguments,
    reason = "libfabric's functions have so many"
)]

use core::ffi::c_void;

use libc::iovec;
use tabane_rank::{Piece, Remote, Ticket, Transfer};

use crate::abi::constants as c;
use crate::abi::endpoint::FidEp;
use crate::abi::errors::{self, Outcome};
use crate::abi::transfers::{MsgRma, RmaOps};
use crate::guard;
use crate::station::QUIET;

use super::pieces::{Pieces, piece, total};
use super::{Endpoint, TX_FLAGS, check, check_inject, endpoint};

/// The functions for remote memory.
pub static OPS: RmaOps = RmaOps {
    size: size_of::<RmaOps>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

/// Which way the bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

/// The peer, the place in its memory, and the completion.
struct Place {
    peer: u64,
    remote: Remote,
    data: Option<u64>,
    context: *mut c_void,
    flags: u64,
}

impl Place {
    fn new(peer: u64, offset: u64, key: u64, context: *mut c_void, flags: u64) -> Place {
        Place {
            peer,
            remote: Remote { offset, key },
            data: None,
            context,
            flags,
        }
    }
}

impl Endpoint {
    fn rma_ticket(&self, way: Way, place: &Place) -> Ticket {
        let direction = match way {
            Way::Read => c::READ,
            Way::Write => c::WRITE,
        };
        self.tx_ticket(place.context, c::RMA | direction, place.flags)
    }

    /// # Safety
    /// As of [`tabane_rank::Core::read`] and [`tabane_rank::Core::write`].
    unsafe fn transfer(
        &self,
        way: Way,
        place: &Place,
        pieces: &[Piece],
        ticket: Ticket,
    ) -> Outcome<()> {
        let station = self.station()?;
        check(place.flags, TX_FLAGS)?;
        // The result of a read cannot be copied in advance.
        let inject = way == Way::Write && check_inject(place.flags, pieces)?;
        station.with_peer(place.peer, |core, peer| {
            let transfer = Transfer {
                peer,
                remote: place.remote,
                pieces,
                data: place.data,
                inject,
                ticket,
            };
            // SAFETY: as above.
            unsafe {
                match way {
                    Way::Read => core.read(&transfer),
                    Way::Write => core.write(&transfer),
                }
            }
        })
    }
}

/// The common part of the functions with one piece.
fn one(
    face: *mut FidEp,
    way: Way,
    (buffer, len): (*const c_void, usize),
    (peer, offset, key): (u64, u64, u64),
    data: Option<u64>,
    context: *mut c_void,
) -> isize {
    guard::posted(|| {
        // SAFETY: C gives an endpoint of ours, and memory that is the operation's until the completion.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let mut place = Place::new(peer, offset, key, context, endpoint.default_tx_flags());
            place.data = data;
            let ticket = endpoint.rma_ticket(way, &place);
            endpoint.transfer(way, &place, &[piece(buffer, len)?], ticket)
        }
    })
}

/// The bytes are copied, and success is not told.
fn one_inject(
    face: *mut FidEp,
    (buffer, len): (*const c_void, usize),
    (peer, offset, key): (u64, u64, u64),
    data: Option<u64>,
) -> isize {
    guard::posted(|| {
        // SAFETY: C gives an endpoint of ours, and memory that can be read now.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let mut place = Place::new(peer, offset, key, core::ptr::null_mut(), c::INJECT);
            place.data = data;
            let mut ticket = endpoint.rma_ticket(Way::Write, &place);
            ticket.flags |= QUIET;
            endpoint.transfer(Way::Write, &place, &[piece(buffer, len)?], ticket)
        }
    })
}

/// # Safety
/// The pieces are an array of this length.
unsafe fn several(
    face: *mut FidEp,
    way: Way,
    (iov, count): (*const iovec, usize),
    (peer, offset, key): (u64, u64, u64),
    context: *mut c_void,
) -> isize {
    guard::posted(|| {
        // SAFETY: as above; C gives an endpoint of ours, and memory that is the operation's until the completion.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let place = Place::new(peer, offset, key, context, endpoint.default_tx_flags());
            let pieces = Pieces::of(iov, count)?;
            let ticket = endpoint.rma_ticket(way, &place);
            endpoint.transfer(way, &place, pieces.as_slice(), ticket)
        }
    })
}

/// # Safety
/// The message is null or valid.
unsafe fn whole(face: *mut FidEp, way: Way, msg: *const MsgRma, flags: u64) -> isize {
    guard::posted(|| {
        // SAFETY: as above; C gives an endpoint of ours, and memory that is the operation's until the completion.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let msg = guard::given(msg)?;
            let pieces = Pieces::of(msg.msg_iov, msg.iov_count)?;
            let [there] = guard::array(msg.rma_iov, msg.rma_iov_count)? else {
                return Err(errors::INVAL);
            };
            if there.len != total(pieces.as_slice())? {
                return Err(errors::INVAL);
            }
            let mut place = Place::new(msg.addr, there.addr, there.key, msg.context, flags);
            if way == Way::Write && flags & c::REMOTE_CQ_DATA != 0 {
                place.data = Some(msg.data);
            }
            let ticket = endpoint.rma_ticket(way, &place);
            endpoint.transfer(way, &place, pieces.as_slice(), ticket)
        }
    })
}

unsafe extern "C" fn read(
    ep: *mut FidEp,
    buffer: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    one(
        ep,
        Way::Read,
        (buffer, len),
        (from, offset, key),
        None,
        context,
    )
}

unsafe extern "C" fn readv(
    ep: *mut FidEp,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C gives this many pieces.
    unsafe { several(ep, Way::Read, (iov, count), (from, offset, key), context) }
}

unsafe extern "C" fn readmsg(ep: *mut FidEp, msg: *const MsgRma, flags: u64) -> isize {
    // SAFETY: C gives a message that stays for the call.
    unsafe { whole(ep, Way::Read, msg, flags) }
}

unsafe extern "C" fn write(
    ep: *mut FidEp,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    one(
        ep,
        Way::Write,
        (buffer, len),
        (to, offset, key),
        None,
        context,
    )
}

unsafe extern "C" fn writev(
    ep: *mut FidEp,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C gives this many pieces.
    unsafe { several(ep, Way::Write, (iov, count), (to, offset, key), context) }
}

unsafe extern "C" fn writemsg(ep: *mut FidEp, msg: *const MsgRma, flags: u64) -> isize {
    // SAFETY: C gives a message that stays for the call.
    unsafe { whole(ep, Way::Write, msg, flags) }
}

unsafe extern "C" fn inject(
    ep: *mut FidEp,
    buffer: *const c_void,
    len: usize,
    to: u64,
    offset: u64,
    key: u64,
) -> isize {
    one_inject(ep, (buffer, len), (to, offset, key), None)
}

unsafe extern "C" fn writedata(
    ep: *mut FidEp,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: u64,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    one(
        ep,
        Way::Write,
        (buffer, len),
        (to, offset, key),
        Some(data),
        context,
    )
}

unsafe extern "C" fn injectdata(
    ep: *mut FidEp,
    buffer: *const c_void,
    len: usize,
    data: u64,
    to: u64,
    offset: u64,
    key: u64,
) -> isize {
    one_inject(ep, (buffer, len), (to, offset, key), Some(data))
}
