//! Messages with and without tags, as programs send and receive them.

use core::ffi::c_void;
use core::ptr::null_mut;

use libc::iovec;

use super::c_side::{Hints, Plan, Rank, context, minus, pair, zeros};
use super::engine;
use crate::abi::constants as c;
use crate::abi::errors;
use crate::abi::transfers::{Msg, MsgTagged};
use crate::name;

const ANY: u64 = c::NOT_AVAILABLE;

impl Rank {
    fn send(&self, to: u64, bytes: &[u8], number: usize) -> isize {
        let (ep, buffer) = (self.ep, bytes.as_ptr().cast());
        // SAFETY: as a program calls it.
        unsafe { ((*(*ep).msg).send)(ep, buffer, bytes.len(), null_mut(), to, context(number)) }
    }

    fn recv(&self, from: u64, bytes: &mut [u8], number: usize) -> isize {
        let (ep, buffer, len) = (self.ep, bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: as a program calls it.
        unsafe { ((*(*ep).msg).recv)(ep, buffer, len, null_mut(), from, context(number)) }
    }

    fn tsend(&self, to: u64, bytes: &[u8], tag: u64, number: usize) -> isize {
        let (ep, buffer, len) = (self.ep, bytes.as_ptr().cast(), bytes.len());
        // SAFETY: as a program calls it.
        unsafe { ((*(*ep).tagged).send)(ep, buffer, len, null_mut(), to, tag, context(number)) }
    }

    fn trecv(
        &self,
        from: u64,
        bytes: &mut [u8],
        (tag, ignore): (u64, u64),
        number: usize,
    ) -> isize {
        let (ep, buffer, len) = (self.ep, bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: as a program calls it.
        unsafe {
            let recv = (*(*ep).tagged).recv;
            recv(
                ep,
                buffer,
                len,
                null_mut(),
                from,
                tag,
                ignore,
                context(number),
            )
        }
    }

    fn trecvmsg(&self, bytes: &mut [u8], tag: u64, number: usize, flags: u64) -> isize {
        let iov = iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut msg: MsgTagged = zeros();
        (msg.msg_iov, msg.iov_count) = (&raw const iov, 1);
        (msg.addr, msg.tag, msg.context) = (ANY, tag, context(number));
        // SAFETY: as a program calls it.
        unsafe { ((*(*self.ep).tagged).recvmsg)(self.ep, &raw const msg, flags) }
    }

    fn sendmsg(&self, to: u64, pieces: &[&[u8]], number: usize, flags: u64) -> isize {
        let iov: Vec<_> = pieces
            .iter()
            .map(|piece| iovec {
                iov_base: piece.as_ptr().cast_mut().cast(),
                iov_len: piece.len(),
            })
            .collect();
        let mut msg: Msg = zeros();
        (msg.msg_iov, msg.iov_count) = (iov.as_ptr(), iov.len());
        (msg.addr, msg.context, msg.data) = (to, context(number), 0xda7a);
        // SAFETY: as a program calls it.
        unsafe { ((*(*self.ep).msg).sendmsg)(self.ep, &raw const msg, flags) }
    }

    fn recvmsg(&self, bytes: &mut [u8], number: usize, flags: u64) -> isize {
        let iov = iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut msg: Msg = zeros();
        (msg.msg_iov, msg.iov_count) = (&raw const iov, 1);
        (msg.addr, msg.context) = (ANY, context(number));
        // SAFETY: as a program calls it.
        unsafe { ((*(*self.ep).msg).recvmsg)(self.ep, &raw const msg, flags) }
    }
}

#[test]
fn a_message_arrives_and_both_ends_are_told() {
    let ((a, to_b), (b, to_a)) = pair(Plan::default);
    let mut buffer = [0; 8];
    assert_eq!(b.recv(ANY, &mut buffer, 7), 0);
    assert!(b.is_quiet());
    assert_eq!(a.send(to_b, b"hello", 1), 0);
    let sent = a.read().unwrap();
    assert_eq!(
        (sent.op_context, sent.flags),
        (context(1), c::MSG | c::SEND)
    );
    let (received, source) = b.read_from().unwrap();
    assert_eq!(received.op_context, context(7));
    assert_eq!((received.flags, received.len), (c::MSG | c::RECV, 5));
    assert_eq!((source, &buffer[..5]), (to_a, &b"hello"[..]));
    assert!(a.is_quiet() && b.is_quiet());
    assert_eq!((a.counted(), b.counted()), ((1, 0), (1, 0)));
}

#[test]
fn tags_match_but_for_the_bits_that_are_ignored() {
    let ((a, to_b), (b, to_a)) = pair(Plan::default);
    let (mut first, mut second) = ([0; 4], [0; 4]);
    assert_eq!(b.trecv(to_a, &mut first, (0x10, 0), 1), 0);
    assert_eq!(b.trecv(ANY, &mut second, (0x20, 0xf), 2), 0);
    assert_eq!(a.tsend(to_b, b"two!", 0x2b, 3), 0);
    assert_eq!(a.tsend(to_b, b"one!", 0x10, 4), 0);
    let told = b.read().unwrap();
    assert_eq!((told.op_context, told.tag), (context(2), 0x2b));
    assert_eq!(told.flags, c::TAGGED | c::RECV);
    assert_eq!(b.read().unwrap().op_context, context(1));
    assert_eq!((&first, &second), (b"one!", b"two!"));
}

#[test]
fn a_receive_may_name_the_sender() {
    let ((a, a_to_b), (b, b_to_a)) = pair(Plan::default);
    let other = Rank::new(Plan::default());
    let other_to_b = other.insert(&b.name());
    let from_other = b.insert(&other.name());
    assert_ne!(from_other, b_to_a);
    let mut buffer = [0; 4];
    assert_eq!(b.recv(b_to_a, &mut buffer, 1), 0);
    assert_eq!(other.send(other_to_b, b"oops", 0), 0);
    assert!(b.is_quiet());
    assert_eq!(a.send(a_to_b, b"well", 0), 0);
    assert_eq!(b.read_from().unwrap().1, b_to_a);
    assert_eq!(&buffer, b"well");
    // Whom nobody can be is not waited for.
    assert_eq!(b.recv(77, &mut buffer, 1), minus(errors::INVAL));
}

#[test]
fn data_comes_with_a_message() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let mut buffer = [0; 16];
    let flags = c::REMOTE_CQ_DATA | c::DELIVERY_COMPLETE | c::MORE;
    assert_eq!(a.sendmsg(to_b, &[b"in ", b"", b"pieces"], 1, flags), 0);
    assert_eq!(b.recvmsg(&mut buffer, 2, 0), 0);
    let told = b.read().unwrap();
    assert_eq!(told.flags, c::MSG | c::RECV | c::REMOTE_CQ_DATA);
    assert_eq!((told.data, told.len), (0xda7a, 9));
    assert_eq!(&buffer[..9], b"in pieces");
    let ep = a.ep;
    // SAFETY: as a program calls it.
    unsafe {
        let tagged = &*(*ep).tagged;
        let bytes = b"xy".as_ptr().cast::<c_void>();
        assert_eq!((tagged.injectdata)(ep, bytes, 2, 9, to_b, 5), 0);
        assert_eq!(
            (tagged.senddata)(ep, bytes, 2, null_mut(), 8, to_b, 5, context(3)),
            0
        );
    }
    for data in [9, 8] {
        assert_eq!(b.trecv(ANY, &mut buffer, (5, 0), 4), 0);
        assert_eq!(b.read().unwrap().data, data);
    }
}

#[test]
fn what_is_injected_is_counted_and_not_told() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let ep = a.ep;
    let bytes = vec![1; tabane_rank::INJECT_BYTES_MAX + 1];
    // SAFETY: as a program calls it.
    unsafe {
        let inject = (*(*ep).msg).inject;
        assert_eq!(inject(ep, bytes.as_ptr().cast(), 3, to_b), 0);
        let too_long = inject(ep, bytes.as_ptr().cast(), bytes.len(), to_b);
        assert_eq!(too_long, minus(errors::MSGSIZE));
    }
    assert!(a.is_quiet());
    assert_eq!(a.counted(), (1, 0));
    let mut buffer = [0; 3];
    assert_eq!(b.recv(ANY, &mut buffer, 1), 0);
    assert_eq!(buffer, [1; 3]);
    assert_eq!(
        a.sendmsg(to_b, &[&bytes], 1, c::INJECT),
        minus(errors::MSGSIZE)
    );
}

#[test]
fn a_message_may_be_looked_at_claimed_and_dropped() {
    let ((a, to_b), (b, to_a)) = pair(Plan::default);
    let mut buffer = [0; 8];
    assert_eq!(b.trecvmsg(&mut buffer, 3, 1, c::PEEK), 0);
    let none = b.read_error();
    assert_eq!((none.err, none.op_context), (errors::NOMSG.0, context(1)));

    for number in 0..3 {
        assert_eq!(a.tsend(to_b, &b"claimed"[number..], 3, number), 0);
    }
    assert_eq!(b.trecvmsg(&mut buffer, 3, 1, c::PEEK), 0);
    let (seen, source) = b.read_from().unwrap();
    assert_eq!((seen.len, seen.tag, source), (7, 3, to_a));
    assert_eq!(seen.flags, c::TAGGED | c::RECV);
    assert_eq!(b.trecvmsg(&mut buffer, 3, 2, c::PEEK | c::CLAIM), 0);
    assert_eq!(b.read().unwrap().len, 7);
    // The next one is another.
    assert_eq!(b.trecvmsg(&mut buffer, 3, 3, c::PEEK | c::DISCARD), 0);
    assert_eq!(b.read().unwrap().len, 6);
    assert_eq!(b.trecvmsg(&mut buffer, 0, 2, c::CLAIM), 0);
    assert_eq!(b.read().unwrap().len, 7);
    assert_eq!(&buffer[..7], b"claimed");
    assert_eq!(
        b.trecvmsg(&mut buffer, 0, 2, c::CLAIM),
        minus(errors::INVAL)
    );
    assert_eq!(b.trecvmsg(&mut buffer, 3, 4, c::PEEK | c::CLAIM), 0);
    assert_eq!(b.read().unwrap().len, 5);
    assert_eq!(b.trecvmsg(&mut buffer, 3, 4, c::CLAIM | c::DISCARD), 0);
    assert_eq!(b.read().unwrap().op_context, context(4));
    assert_eq!(b.trecvmsg(&mut buffer, 3, 5, c::PEEK), 0);
    assert_eq!(b.read_error().err, errors::NOMSG.0);
}

#[test]
fn one_buffer_takes_several_messages() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let min = 8usize;
    // SAFETY: as a program calls it.
    let set = unsafe {
        let setopt = (*(*b.ep).ops).setopt;
        let option = c::OPT_MIN_MULTI_RECV;
        setopt(
            b.ep.cast(),
            c::OPT_ENDPOINT,
            option,
            (&raw const min).cast(),
            8,
        )
    };
    assert_eq!(set, 0);
    let mut buffer = [0; 32];
    assert_eq!(b.recvmsg(&mut buffer, 9, c::MULTI_RECV), 0);
    for byte in 0..4 {
        assert_eq!(a.send(to_b, &[byte; 8], 0), 0);
    }
    for byte in 0..4u8 {
        let told = b.read().unwrap();
        let last = if byte == 3 { c::MULTI_RECV } else { 0 };
        assert_eq!(told.flags, c::MSG | c::RECV | last);
        assert_eq!((told.op_context, told.len), (context(9), 8));
        let at = told.buf as usize - buffer.as_ptr() as usize;
        assert_eq!(at, 8 * usize::from(byte));
        assert_eq!(buffer[at..at + 8], [byte; 8]);
    }
    assert_eq!(
        b.trecvmsg(&mut buffer, 0, 1, c::MULTI_RECV),
        minus(errors::BADFLAGS)
    );
}

#[test]
fn a_message_that_is_too_long_is_cut_off_and_told() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let mut buffer = [0; 4];
    assert_eq!(b.recv(ANY, &mut buffer, 2), 0);
    assert_eq!(a.send(to_b, b"too long", 1), 0);
    let told = b.read_error();
    assert_eq!((told.err, told.olen, told.len), (errors::TRUNC.0, 4, 4));
    assert_eq!(told.op_context, context(2));
    assert_eq!(b.counted(), (0, 1));
    assert!(b.is_quiet());
}

#[test]
fn a_buffer_can_be_taken_back() {
    let b = Rank::new(Plan::default());
    let mut buffer = [0; 4];
    assert_eq!(b.recv(ANY, &mut buffer, 5), 0);
    // SAFETY: as a program calls it.
    let cancel = |number| unsafe { ((*(*b.ep).ops).cancel)(b.ep.cast(), context(number)) };
    assert_eq!(cancel(4), minus(errors::NOENT));
    assert_eq!(cancel(5), 0);
    let told = b.read_error();
    assert_eq!(
        (told.err, told.op_context),
        (errors::CANCELED.0, context(5))
    );
    assert_eq!(cancel(5), minus(errors::NOENT));
}

#[test]
fn only_what_asks_for_it_is_told() {
    let selective = || Plan {
        cq_flags: c::SELECTIVE_COMPLETION,
        ..Plan::default()
    };
    let ((a, to_b), (b, _)) = pair(selective);
    let mut buffer = [0; 4];
    for flags in [0, c::COMPLETION] {
        assert_eq!(b.recvmsg(&mut buffer, 1, flags), 0);
        assert_eq!(a.sendmsg(to_b, &[b"abcd"], 2, flags), 0);
        assert_eq!(a.read().is_ok(), flags != 0);
        assert_eq!(b.read().is_ok(), flags != 0);
    }
    assert_eq!((a.counted(), b.counted()), ((2, 0), (2, 0)));
    // What fails is told all the same.
    assert_eq!(b.recvmsg(&mut buffer[..1], 1, 0), 0);
    assert_eq!(a.send(to_b, b"abcd", 0), 0);
    assert_eq!(b.read_error().err, errors::TRUNC.0);
    // And the endpoint may ask for all of its sends.
    let mut wanted = c::SEND | c::COMPLETION;
    let set = super::c_side::control(a.ep, c::SETOPSFLAG, (&raw mut wanted).cast());
    assert_eq!(set, 0);
    assert_eq!(a.send(to_b, b"abcd", 6), 0);
    assert_eq!(a.read().unwrap().op_context, context(6));
}

#[test]
fn who_is_not_in_the_vector_is_nobody_or_an_error_that_tells_the_address() {
    let (a, b) = (Rank::new(Plan::default()), Rank::new(Plan::default()));
    let to_b = a.insert(&b.name());
    let mut buffer = [0; 4];
    assert_eq!(b.recv(ANY, &mut buffer, 1), 0);
    assert_eq!(a.send(to_b, b"abcd", 2), 0);
    assert_eq!(b.read_from().unwrap().1, c::NOT_AVAILABLE);

    let b = Rank::new(Plan {
        hints: Hints::new(c::MSG | c::SOURCE | c::SOURCE_ERR),
        version: c::version(1, 20),
        ..Plan::default()
    });
    let to_b = a.insert(&b.name());
    assert_eq!(b.recv(ANY, &mut buffer, 1), 0);
    assert_eq!(a.send(to_b, b"wxyz", 2), 0);
    let told = b.read_error();
    assert_eq!((told.err, told.len), (errors::ADDRNOTAVAIL.0, 4));
    assert_eq!(told.err_data_size, name::BYTES);
    // SAFETY: the queue has not been read since.
    let address = unsafe { &*told.err_data.cast::<[u8; name::BYTES]>() };
    assert_eq!(*address, a.name());
    assert_eq!(&buffer, b"wxyz");
}

#[test]
fn what_cannot_be_is_the_manual_s_error() {
    let ((a, to_b), (b, _)) = pair(Plan::default);
    let pieces = [&b"x"[..]; tabane_rank::PIECES_MAX + 1];
    assert_eq!(a.sendmsg(to_b, &pieces, 1, 0), minus(errors::INVAL));
    assert_eq!(
        a.sendmsg(to_b, &[b"x"], 1, 1 << 21),
        minus(errors::BADFLAGS)
    );
    assert_eq!(
        a.sendmsg(to_b, &[b"x"], 1, 1 << 63),
        minus(errors::BADFLAGS)
    );
    assert_eq!(a.send(to_b + 1, b"x", 1), minus(errors::INVAL));
    assert_eq!(a.send(ANY, b"x", 1), minus(errors::INVAL));
    let ep = a.ep;
    // SAFETY: null is what is tried.
    unsafe {
        let msg = &*(*ep).msg;
        assert_eq!(
            (msg.sendmsg)(ep, core::ptr::null(), 0),
            minus(errors::INVAL)
        );
        assert_eq!(
            (msg.sendv)(ep, core::ptr::null(), null_mut(), 2, to_b, null_mut()),
            minus(errors::INVAL)
        );
        let nowhere = (msg.send)(ep, core::ptr::null(), 4, null_mut(), to_b, null_mut());
        assert_eq!(nowhere, minus(errors::INVAL));
        // Nothing, from nowhere, is a message.
        assert_eq!(
            (msg.send)(ep, core::ptr::null(), 0, null_mut(), to_b, null_mut()),
            0
        );
    }
    let mut buffer = [0; 1];
    for _ in 0..engine::POSTED_MAX {
        assert_eq!(b.trecv(ANY, &mut buffer, (9, 0), 1), 0);
    }
    assert_eq!(b.trecv(ANY, &mut buffer, (9, 0), 1), minus(errors::AGAIN));
}
