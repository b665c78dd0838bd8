//! Messages, with and without tags.
#![allow(
    clippy::too_many_arguments,
    reason = "libfabric's functions have so many"
)]

use core::ffi::c_void;

use libc::iovec;
use tabane_rank::{Peek, Piece, Receive, Send, Until};

use crate::abi::constants as c;
use crate::abi::endpoint::FidEp;
use crate::abi::errors::{self, Outcome};
use crate::abi::transfers::{Msg, MsgOps, MsgTagged, TaggedOps};
use crate::guard;
use crate::station::QUIET;

use super::pieces::{Pieces, piece};
use super::{Endpoint, RX_FLAGS, TX_FLAGS, check, check_inject, endpoint};

/// The functions for messages without a tag.
pub static MSG_OPS: MsgOps = MsgOps {
    size: size_of::<MsgOps>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

/// Those for messages with one.
pub static TAGGED_OPS: TaggedOps = TaggedOps {
    size: size_of::<TaggedOps>(),
    recv: trecv,
    recvv: trecvv,
    recvmsg: trecvmsg,
    send: tsend,
    sendv: tsendv,
    sendmsg: tsendmsg,
    inject: tinject,
    senddata: tsenddata,
    injectdata: tinjectdata,
};

/// A send, without the bytes.
struct Outgoing {
    to: u64,
    tag: Option<u64>,
    data: Option<u64>,
    context: *mut c_void,
    flags: u64,
}

/// A receive, without the buffer.
struct Incoming {
    from: u64,
    /// And the bits of it that do not matter.
    tag: Option<(u64, u64)>,
    context: *mut c_void,
    flags: u64,
}

/// The flags of a completion for a message of such a tag.
fn kind<T>(tag: Option<T>) -> u64 {
    if tag.is_some() { c::TAGGED } else { c::MSG }
}

impl Endpoint {
    /// # Safety
    /// As of [`tabane_rank::Core::send`].
    unsafe fn send(&self, message: &Outgoing, pieces: &[Piece]) -> Outcome<()> {
        let ticket = self.tx_ticket(message.context, kind(message.tag) | c::SEND, message.flags);
        // SAFETY: as above.
        unsafe { self.send_with(message, pieces, ticket) }
    }

    /// The bytes are copied, and success is not told.
    ///
    /// # Safety
    /// The pieces can be read now.
    unsafe fn inject(&self, message: &Outgoing, pieces: &[Piece]) -> Outcome<()> {
        let mut ticket = self.tx_ticket(message.context, kind(message.tag) | c::SEND, 0);
        ticket.flags |= QUIET;
        // SAFETY: as above: they are not needed when this returns.
        unsafe { self.send_with(message, pieces, ticket) }
    }

    /// # Safety
    /// As of [`tabane_rank::Core::send`].
    unsafe fn send_with(
        &self,
        message: &Outgoing,
        pieces: &[Piece],
        ticket: tabane_rank::Ticket,
    ) -> Outcome<()> {
        let station = self.station()?;
        check(message.flags, TX_FLAGS)?;
        let inject = check_inject(message.flags, pieces)?;
        let until = if message.flags & (c::DELIVERY_COMPLETE | c::MATCH_COMPLETE) != 0 {
            Until::Delivered
        } else if message.flags & c::TRANSMIT_COMPLETE != 0 {
            Until::Arrived
        } else {
            Until::Reusable
        };
        station.with_peer(message.to, |core, to| {
            let send = Send {
                to,
                tag: message.tag,
                data: message.data,
                pieces,
                inject,
                until,
                ticket,
            };
            // SAFETY: as above.
            unsafe { core.send(&send) }
        })
    }

    /// # Safety
    /// As of [`tabane_rank::Core::receive`].
    unsafe fn receive(&self, wanted: &Incoming, pieces: &[Piece]) -> Outcome<()> {
        let station = self.station()?;
        check(wanted.flags, RX_FLAGS)?;
        let mut ticket = self.rx_ticket(wanted.context, kind(wanted.tag) | c::RECV, wanted.flags);
        if wanted.flags & c::CLAIM != 0 && wanted.flags & c::PEEK == 0 {
            let pieces = if wanted.flags & c::DISCARD == 0 {
                pieces
            } else {
                &[]
            };
            // SAFETY: as above.
            return station.act(|core| unsafe { core.receive_claimed(pieces, ticket) });
        }
        let multi = self.multi(wanted, pieces)?;
        if multi.is_some() {
            ticket.flags |= c::MULTI_RECV;
        }
        let from = match self.is_directed(wanted) {
            true => wanted.from,
            false => c::NOT_AVAILABLE,
        };
        let receive = Receive {
            from: None,
            tag: wanted.tag,
            pieces,
            multi,
            ticket,
        };
        // SAFETY: as above.
        unsafe { station.receive(from, &receive, look(wanted.flags)) }
    }

    /// How few bytes are too few for another message, if the buffer is for several.
    fn multi(&self, wanted: &Incoming, pieces: &[Piece]) -> Outcome<Option<usize>> {
        if wanted.flags & c::MULTI_RECV == 0 {
            return Ok(None);
        }
        if wanted.tag.is_some() {
            return Err(errors::BADFLAGS);
        }
        if pieces.len() != 1 || wanted.flags & c::PEEK != 0 {
            return Err(errors::INVAL);
        }
        let min = self
            .min_multi_recv
            .load(core::sync::atomic::Ordering::Relaxed);
        Ok(Some(min))
    }

    /// Whether the sender is given by address; otherwise the field is ignored.
    fn is_directed(&self, wanted: &Incoming) -> bool {
        let both = c::DIRECTED_RECV | c::EXACT_DIRECTED_RECV;
        match wanted.tag {
            Some(_) => self.caps & (both | c::TAGGED_DIRECTED_RECV) != 0,
            None => self.caps & both != 0,
        }
    }
}

/// What to do with a message, if the program only peeks.
fn look(flags: u64) -> Option<Peek> {
    if flags & c::PEEK == 0 {
        None
    } else if flags & c::DISCARD != 0 {
        Some(Peek::Discard)
    } else if flags & c::CLAIM != 0 {
        Some(Peek::Claim)
    } else {
        Some(Peek::Look)
    }
}

/// `data` if the flags say that there is any.
fn data_of(flags: u64, data: u64) -> Option<u64> {
    (flags & c::REMOTE_CQ_DATA != 0).then_some(data)
}

/// The common part of the functions without a structure.
fn one_send(
    face: *mut FidEp,
    (buffer, len): (*const c_void, usize),
    to: u64,
    (tag, data): (Option<u64>, Option<u64>),
    context: *mut c_void,
) -> isize {
    guard::posted(|| {
        // SAFETY: C gives an endpoint of ours, and memory that stays until the completion.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let flags = endpoint.default_tx_flags();
            let message = Outgoing {
                to,
                tag,
                data,
                context,
                flags,
            };
            endpoint.send(&message, &[piece(buffer, len)?])
        }
    })
}

fn one_inject(
    face: *mut FidEp,
    (buffer, len): (*const c_void, usize),
    to: u64,
    (tag, data): (Option<u64>, Option<u64>),
) -> isize {
    guard::posted(|| {
        // SAFETY: C gives an endpoint of ours, and memory that can be read now.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let message = Outgoing {
                to,
                tag,
                data,
                context: core::ptr::null_mut(),
                flags: c::INJECT,
            };
            endpoint.inject(&message, &[piece(buffer, len)?])
        }
    })
}

fn one_receive(
    face: *mut FidEp,
    (buffer, len): (*mut c_void, usize),
    from: u64,
    tag: Option<(u64, u64)>,
    context: *mut c_void,
) -> isize {
    guard::posted(|| {
        // SAFETY: C gives an endpoint of ours, and memory that nobody uses until the completion.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let flags = endpoint.default_rx_flags();
            let wanted = Incoming {
                from,
                tag,
                context,
                flags,
            };
            endpoint.receive(&wanted, &[piece(buffer, len)?])
        }
    })
}

/// # Safety
/// The pieces are an array of this length.
unsafe fn several_send(
    face: *mut FidEp,
    (iov, count): (*const iovec, usize),
    message: impl FnOnce(&Endpoint) -> Outgoing,
) -> isize {
    guard::posted(|| {
        // SAFETY: as above; C gives an endpoint of ours, and memory that stays until the completion.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            endpoint.send(&message(endpoint), Pieces::of(iov, count)?.as_slice())
        }
    })
}

/// # Safety
/// The pieces are an array of this length.
unsafe fn several_receive(
    face: *mut FidEp,
    (iov, count): (*const iovec, usize),
    wanted: impl FnOnce(&Endpoint) -> Incoming,
) -> isize {
    guard::posted(|| {
        // SAFETY: as above; C gives an endpoint of ours, and memory that nobody uses until the
        // completion.
        unsafe {
            let endpoint = endpoint(face.cast())?;
            let wanted = wanted(endpoint);
            // Peeking and discarding need no memory.
            if wanted.flags & (c::DISCARD | c::PEEK) != 0 {
                return endpoint.receive(&wanted, &[]);
            }
            let pieces = Pieces::of(iov, count)?;
            if pieces.as_slice().is_empty() {
                // Without pieces the engine would drop a message that was claimed.
                return endpoint.receive(&wanted, &[piece(core::ptr::null(), 0)?]);
            }
            endpoint.receive(&wanted, pieces.as_slice())
        }
    })
}

unsafe extern "C" fn recv(
    ep: *mut FidEp,
    buffer: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: u64,
    context: *mut c_void,
) -> isize {
    one_receive(ep, (buffer, len), from, None, context)
}

unsafe extern "C" fn recvv(
    ep: *mut FidEp,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: u64,
    context: *mut c_void,
) -> isize {
    let wanted = |endpoint: &Endpoint| Incoming {
        from,
        tag: None,
        context,
        flags: endpoint.default_rx_flags(),
    };
    // SAFETY: C gives this many pieces.
    unsafe { several_receive(ep, (iov, count), wanted) }
}

unsafe extern "C" fn recvmsg(ep: *mut FidEp, msg: *const Msg, flags: u64) -> isize {
    // SAFETY: C gives a message that stays for the call.
    let Ok(msg) = (unsafe { guard::given(msg) }) else {
        return -(errors::INVAL.0 as isize);
    };
    let wanted = |_: &Endpoint| Incoming {
        from: msg.addr,
        tag: None,
        context: msg.context,
        flags,
    };
    // SAFETY: the message says how many pieces it has.
    unsafe { several_receive(ep, (msg.msg_iov, msg.iov_count), wanted) }
}

unsafe extern "C" fn send(
    ep: *mut FidEp,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: u64,
    context: *mut c_void,
) -> isize {
    one_send(ep, (buffer, len), to, (None, None), context)
}

unsafe extern "C" fn sendv(
    ep: *mut FidEp,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: u64,
    context: *mut c_void,
) -> isize {
    let message = |endpoint: &Endpoint| Outgoing {
        to,
        tag: None,
        data: None,
        context,
        flags: endpoint.default_tx_flags(),
    };
    // SAFETY: C gives this many pieces.
    unsafe { several_send(ep, (iov, count), message) }
}

unsafe extern "C" fn sendmsg(ep: *mut FidEp, msg: *const Msg, flags: u64) -> isize {
    // SAFETY: C gives a message that stays for the call.
    let Ok(msg) = (unsafe { guard::given(msg) }) else {
        return -(errors::INVAL.0 as isize);
    };
    let message = |_: &Endpoint| Outgoing {
        to: msg.addr,
        tag: None,
        data: data_of(flags, msg.data),
        context: msg.context,
        flags,
    };
    // SAFETY: the message says how many pieces it has.
    unsafe { several_send(ep, (msg.msg_iov, msg.iov_count), message) }
}

unsafe extern "C" fn inject(ep: *mut FidEp, buffer: *const c_void, len: usize, to: u64) -> isize {
    one_inject(ep, (buffer, len), to, (None, None))
}

unsafe extern "C" fn senddata(
    ep: *mut FidEp,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: u64,
    context: *mut c_void,
) -> isize {
    one_send(ep, (buffer, len), to, (None, Some(data)), context)
}

unsafe extern "C" fn injectdata(
    ep: *mut FidEp,
    buffer: *const c_void,
    len: usize,
    data: u64,
    to: u64,
) -> isize {
    one_inject(ep, (buffer, len), to, (None, Some(data)))
}

unsafe extern "C" fn trecv(
    ep: *mut FidEp,
    buffer: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    one_receive(ep, (buffer, len), from, Some((tag, ignore)), context)
}

unsafe extern "C" fn trecvv(
    ep: *mut FidEp,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let wanted = |endpoint: &Endpoint| Incoming {
        from,
        tag: Some((tag, ignore)),
        context,
        flags: endpoint.default_rx_flags(),
    };
    // SAFETY: C gives this many pieces.
    unsafe { several_receive(ep, (iov, count), wanted) }
}

unsafe extern "C" fn trecvmsg(ep: *mut FidEp, msg: *const MsgTagged, flags: u64) -> isize {
    // SAFETY: C gives a message that stays for the call.
    let Ok(msg) = (unsafe { guard::given(msg) }) else {
        return -(errors::INVAL.0 as isize);
    };
    let wanted = |_: &Endpoint| Incoming {
        from: msg.addr,
        tag: Some((msg.tag, msg.ignore)),
        context: msg.context,
        flags,
    };
    // SAFETY: the message says how many pieces it has.
    unsafe { several_receive(ep, (msg.msg_iov, msg.iov_count), wanted) }
}

unsafe extern "C" fn tsend(
    ep: *mut FidEp,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    one_send(ep, (buffer, len), to, (Some(tag), None), context)
}

unsafe extern "C" fn tsendv(
    ep: *mut FidEp,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let message = |endpoint: &Endpoint| Outgoing {
        to,
        tag: Some(tag),
        data: None,
        context,
        flags: endpoint.default_tx_flags(),
    };
    // SAFETY: C gives this many pieces.
    unsafe { several_send(ep, (iov, count), message) }
}

unsafe extern "C" fn tsendmsg(ep: *mut FidEp, msg: *const MsgTagged, flags: u64) -> isize {
    // SAFETY: C gives a message that stays for the call.
    let Ok(msg) = (unsafe { guard::given(msg) }) else {
        return -(errors::INVAL.0 as isize);
    };
    let message = |_: &Endpoint| Outgoing {
        to: msg.addr,
        tag: Some(msg.tag),
        data: data_of(flags, msg.data),
        context: msg.context,
        flags,
    };
    // SAFETY: the message says how many pieces it has.
    unsafe { several_send(ep, (msg.msg_iov, msg.iov_count), message) }
}

unsafe extern "C" fn tinject(
    ep: *mut FidEp,
    buffer: *const c_void,
    len: usize,
    to: u64,
    tag: u64,
) -> isize {
    one_inject(ep, (buffer, len), to, (Some(tag), None))
}

unsafe extern "C" fn tsenddata(
    ep: *mut FidEp,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> isize {
    one_send(ep, (buffer, len), to, (Some(tag), Some(data)), context)
}

unsafe extern "C" fn tinjectdata(
    ep: *mut FidEp,
    buffer: *const c_void,
    len: usize,
    data: u64,
    to: u64,
    tag: u64,
) -> isize {
    one_inject(ep, (buffer, len), to, (Some(tag), Some(data)))
}
