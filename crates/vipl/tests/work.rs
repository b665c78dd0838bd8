//! Descriptors: messages, memory of others, and what is wrong with them.

mod common;

use core::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Condvar, Mutex};
use std::thread;

use common::*;
use tabane_vipl::abi::*;
use tabane_vipl::calls::*;

const RECEPTION: fn(&mut ViAttributes) = |a| a.reliability_level = SERVICE_RELIABLE_RECEPTION;
const UNRELIABLE: fn(&mut ViAttributes) = |a| {
    a.reliability_level = SERVICE_UNRELIABLE;
    a.enable_rdma_read = 0;
};

/// Errors that the library has told an end of.
#[derive(Default)]
struct Errors {
    codes: Mutex<Vec<c_int>>,
    told: Condvar,
}

impl Errors {
    /// Those of an end, from now on. It lives as long as the process: a handler may run at any time.
    fn of(end: &End) -> &'static Errors {
        unsafe extern "C" fn note(context: *mut c_void, error: *mut ErrorDescriptor) {
            // SAFETY: the context is the value below, and the library gives a valid descriptor.
            let (errors, code) = unsafe { (&*context.cast::<Errors>(), (*error).error_code) };
            errors.codes.lock().expect("nobody panics").push(code);
            errors.told.notify_all();
        }
        let errors: &'static Errors = Box::leak(Box::default());
        let context = std::ptr::from_ref(errors).cast_mut().cast();
        // SAFETY: the handler takes what it is given.
        let returned = unsafe { VipErrorCallback(end.nic, context, Some(note)) };
        assert_eq!(returned, SUCCESS);
        errors
    }

    /// Waits for the first.
    fn first(&self) -> c_int {
        let codes = self.codes.lock().expect("nobody panics");
        let codes = self.told.wait_while(codes, |codes| codes.is_empty());
        codes.expect("nobody panics")[0]
    }
}

fn fill(end: &End, offset: usize, bytes: usize) {
    for (index, byte) in end.bytes(offset, bytes).iter_mut().enumerate() {
        *byte = (index * 7 + index / 251) as u8;
    }
}

#[test]
fn messages_come_in_order_with_their_bytes_and_immediate_data() {
    for manner in [|_: &mut ViAttributes| {}, RECEPTION, UNRELIABLE] {
        let (a, b) = connected_with(manner);
        let sizes = [0, 1, 4096, 100_000, 65_536, 3];
        for index in 0..sizes.len() {
            b.receive(index, BYTES + 100_000 * index, 100_000);
        }
        fill(&a, BYTES, 100_000);
        for (index, bytes) in sizes.into_iter().enumerate() {
            let control = CONTROL_IMMEDIATE * u16::from(index % 2 == 0);
            let descriptor = a.prepare(index, control, &[(BYTES, bytes)]);
            // SAFETY: the descriptor is the end's.
            unsafe { (*descriptor).control.immediate = 0xffff_0000 + index as u32 };
            assert_eq!(a.post_send(descriptor), SUCCESS);
        }
        for (index, bytes) in sizes.into_iter().enumerate() {
            let (returned, which, control) = b.received();
            assert_eq!((returned, which), (SUCCESS, index));
            assert_eq!(control.bytes as usize, bytes);
            let has_immediate = control.status & STATUS_IMMEDIATE != 0;
            assert_eq!(has_immediate, index % 2 == 0);
            if has_immediate {
                assert_eq!(control.immediate, 0xffff_0000 + index as u32);
            }
            assert_eq!(
                control.status & !STATUS_IMMEDIATE,
                STATUS_DONE | STATUS_OP_RECEIVE
            );
            let came = b.bytes(BYTES + 100_000 * index, bytes);
            assert!(came == a.bytes(BYTES, bytes), "message {index}");
            let (returned, which, control) = a.sent();
            assert_eq!(
                (returned, which, control.status),
                (SUCCESS, index, STATUS_DONE)
            );
        }
    }
}

#[test]
fn done_looks_and_does_not_wait() {
    let (a, b) = connected();
    let mut done = null_mut();
    // SAFETY: the places are this function's.
    unsafe {
        assert_eq!(VipRecvDone(b.vi, &raw mut done), NOT_DONE.0);
        assert_eq!(VipSendDone(a.vi, &raw mut done), NOT_DONE.0);
        assert_eq!(VipRecvWait(b.vi, 0, &raw mut done), TIMEOUT.0);
        assert_eq!(VipSendWait(a.vi, 1, &raw mut done), TIMEOUT.0);
        let wrong = INVALID_PARAMETER.0;
        assert_eq!(VipRecvDone(b.vi, null_mut()), wrong);
        assert_eq!(VipSendDone(a.vi, null_mut()), wrong);
        assert_eq!(VipRecvWait(b.vi, 0, null_mut()), wrong);
        assert_eq!(VipSendWait(a.vi, 0, null_mut()), wrong);
        b.receive(0, BYTES, 8);
        assert_eq!(VipRecvDone(b.vi, &raw mut done), NOT_DONE.0);
        a.send(0, BYTES, 8);
        while VipRecvDone(b.vi, &raw mut done) == NOT_DONE.0 {}
        assert_eq!(done, b.descriptor(0));
    }
}

#[test]
fn a_status_changes_though_nobody_asks() {
    let (a, b) = connected();
    b.receive(0, BYTES, 8);
    a.send(0, BYTES, 8);
    // SAFETY: the descriptor is the end's.
    let status = || unsafe { (&raw const (*b.descriptor(0)).control.status).read_volatile() };
    while status() & STATUS_DONE == 0 {
        thread::yield_now();
    }
    assert!(!b.query().2);
}

#[test]
fn a_descriptor_has_many_segments() {
    let (a, b) = connected();
    // 252 are more than the endpoint takes at once; they lie across the descriptors that follow.
    let pieces = |first: usize, bytes: usize| -> Vec<_> {
        (0..252).map(|n| (first + 2 * n * bytes, bytes)).collect()
    };
    let from = pieces(BYTES, 100);
    let to = pieces(BYTES + 7, 150);
    fill(&a, BYTES, 252 * 200);
    let receive = b.prepare(0, CONTROL_OP_SENDRECV, &to);
    assert_eq!(b.post_receive(receive), SUCCESS);
    let send = a.prepare(0, CONTROL_OP_SENDRECV, &from);
    assert_eq!(a.post_send(send), SUCCESS);
    assert_eq!((b.received().2.bytes, a.sent().0), (25_200, SUCCESS));
    let gather = |end: &End, pieces: &[(usize, usize)]| -> Vec<u8> {
        let bytes = pieces
            .iter()
            .flat_map(|(at, n)| end.bytes(*at, *n).to_vec());
        bytes.take(25_200).collect()
    };
    assert!(gather(&a, &from) == gather(&b, &to));
    // One more is none that there is.
    let send = a.prepare(0, CONTROL_OP_SENDRECV, &pieces(BYTES, 100));
    // SAFETY: the descriptor is the end's, and there is room for another segment.
    unsafe { (*send).control.segments = 253 };
    assert_eq!(a.post_send(send), SUCCESS);
    let (returned, _, control) = a.sent();
    assert_eq!(returned, DESCRIPTOR_ERROR.0);
    assert_eq!(control.status & STATUS_ERROR_MASK, STATUS_FORMAT_ERROR);
}

#[test]
fn what_cannot_be_a_descriptor_is_not_posted() {
    let end = End::new();
    let wrong = INVALID_PARAMETER.0;
    let good = end.prepare(0, CONTROL_OP_SENDRECV, &[(BYTES, 8)]);
    for post in [VipPostSend, VipPostRecv] {
        // SAFETY: none of them is read.
        unsafe {
            assert_eq!(post(end.vi, null_mut(), end.region), wrong);
            assert_eq!(post(end.vi, good.wrapping_byte_add(8), end.region), wrong);
            assert_eq!(post(end.vi, good, end.region + 1000), wrong);
            assert_eq!(post(end.vi, 4096 as *mut Descriptor, end.region), wrong);
            assert_eq!(post(null_mut(), good, end.region), wrong);
            // Its segments would lie beyond the region.
            let last = end.memory.wrapping_add(MEMORY - 64).cast::<Descriptor>();
            (*last).control.segments = 3;
            assert_eq!(post(end.vi, last, end.region), wrong);
        }
    }
    assert_eq!(end.query(), (STATE_IDLE, true, true));
}

/// Posts a send that is wrong in this way; its error, and the states of both ends then.
fn wrong_send(
    manner: fn(&mut ViAttributes),
    spoil: impl FnOnce(&End, *mut Descriptor),
) -> (u32, i32) {
    let (a, b) = connected_with(manner);
    b.receive(0, BYTES, 64);
    let descriptor = a.prepare(0, CONTROL_OP_SENDRECV, &[(BYTES, 64)]);
    spoil(&a, descriptor);
    assert_eq!(a.post_send(descriptor), SUCCESS);
    let (returned, _, control) = a.sent();
    assert_eq!(returned, DESCRIPTOR_ERROR.0);
    let state = a.state();
    if state == STATE_ERROR {
        b.comes_to(STATE_ERROR);
        assert_eq!(b.received().0, DESCRIPTOR_ERROR.0);
    } else {
        a.send(1, BYTES, 8);
        assert_eq!(b.received().2.bytes, 8);
    }
    (control.status & STATUS_ERROR_MASK, state)
}

#[test]
fn a_wrong_descriptor_ends_a_reliable_connection_and_no_other() {
    for (manner, state) in [(RECEPTION, STATE_ERROR), (UNRELIABLE, STATE_CONNECTED)] {
        let wrong = |spoil: fn(&mut Descriptor)| {
            // SAFETY: the descriptor is the end's.
            wrong_send(manner, |_, descriptor| spoil(unsafe { &mut *descriptor }))
        };
        let format = (STATUS_FORMAT_ERROR, state);
        assert_eq!(wrong(|d| d.control.control = 3), format);
        assert_eq!(wrong(|d| d.control.control = 0x10), format);
        assert_eq!(wrong(|d| d.control.segments = 300), format);
        let no_address = |d: &mut Descriptor| {
            d.control.control = CONTROL_OP_RDMAWRITE;
            d.control.segments = 0;
        };
        assert_eq!(wrong(no_address), format);
        assert_eq!(
            wrong(|d| d.control.bytes = 65),
            (STATUS_LENGTH_ERROR, state)
        );
        let protection = (STATUS_PROTECTION_ERROR, state);
        assert_eq!(wrong(|d| d.segments[0].handle += 1000), protection);
        assert_eq!(wrong(|d| d.segments[0].address -= 1 << 20), protection);
        assert_eq!(wrong(|d| d.segments[0].address = u64::MAX - 3), protection);
    }
}

#[test]
fn memory_of_another_tag_is_protected() {
    let other_tag = |end: &End, descriptor: *mut Descriptor| {
        let (mut ptag, mut region) = (null_mut(), 0);
        // SAFETY: the places are this function's, the memory and descriptor the end's.
        unsafe {
            assert_eq!(VipCreatePtag(end.nic, &raw mut ptag), SUCCESS);
            let rights = MemAttributes {
                ptag,
                enable_rdma_write: 0,
                enable_rdma_read: 0,
            };
            let (base, rights) = (end.memory.cast(), &raw const rights);
            let returned = VipRegisterMem(end.nic, base, MEMORY as u64, rights, &raw mut region);
            assert_eq!(returned, SUCCESS);
            (*descriptor).segments[0].handle = region;
            // Nor does a descriptor lie in it.
            let wrong = VipPostSend(end.vi, descriptor, region);
            assert_eq!(wrong, INVALID_PARAMETER.0);
        }
    };
    let (error, state) = wrong_send(RECEPTION, other_tag);
    assert_eq!((error, state), (STATUS_PROTECTION_ERROR, STATE_ERROR));
}

#[test]
fn a_vi_without_a_tag_uses_memory_of_every_tag() {
    let (a, b) = connected_with(|a| a.ptag = null_mut());
    fill(&a, BYTES, 64);
    let write = a.prepare_remote(0, CONTROL_OP_RDMAWRITE, (BYTES, 64), &b, BYTES);
    assert_eq!(a.post_send(write), SUCCESS);
    assert_eq!(a.sent().0, SUCCESS);
    assert_eq!(b.bytes(BYTES, 64), a.bytes(BYTES, 64));
    let read = a.prepare_remote(1, CONTROL_OP_RDMAREAD, (BYTES + 64, 64), &b, BYTES);
    assert_eq!(a.post_send(read), SUCCESS);
    assert_eq!(a.sent().0, SUCCESS);
    assert_eq!(a.bytes(BYTES + 64, 64), a.bytes(BYTES, 64));
}

#[test]
fn a_message_that_is_too_long_is_cut_off() {
    for (manner, state) in [(RECEPTION, STATE_ERROR), (UNRELIABLE, STATE_CONNECTED)] {
        let (a, b) = connected_with(manner);
        b.receive(0, BYTES, 10);
        fill(&a, BYTES, 11);
        a.send(0, BYTES, 11);
        let (returned, _, control) = b.received();
        assert_eq!((returned, control.bytes), (DESCRIPTOR_ERROR.0, 10));
        assert_eq!(control.status & STATUS_ERROR_MASK, STATUS_LENGTH_ERROR);
        assert_eq!(b.bytes(BYTES, 11)[10], 0);
        assert_eq!(b.state(), state);
        a.comes_to(state);
    }
    // More than the VI takes is not sent at all.
    let (a, _b) = connected_with(|a| a.transfer_bytes_max = 10);
    a.send(0, BYTES, 11);
    assert_eq!(a.sent().2.status & STATUS_ERROR_MASK, STATUS_LENGTH_ERROR);
}

#[test]
fn a_message_waits_for_a_descriptor_but_not_for_long() {
    let (a, b) = connected_with(RECEPTION);
    a.send(0, BYTES, 8);
    thread::sleep(std::time::Duration::from_millis(100));
    b.receive(0, BYTES, 8);
    assert_eq!((b.received().0, a.sent().0), (SUCCESS, SUCCESS));
    let errors = Errors::of(&b);
    a.send(0, BYTES, 8);
    let (returned, _, control) = a.sent();
    assert_eq!(returned, DESCRIPTOR_ERROR.0);
    assert_eq!(control.status & STATUS_ERROR_MASK, STATUS_REMOTE_DESC_ERROR);
    assert_eq!(errors.first(), ERROR_RECVQ_EMPTY);
    assert_eq!((a.state(), b.state()), (STATE_ERROR, STATE_ERROR));
    // Both can be connected again; the message is gone.
    a.disconnect();
    b.disconnect();
    connect(&a, &b);
    b.receive(0, BYTES, 8);
    a.send(0, BYTES, 3);
    assert_eq!(b.received().2.bytes, 3);
}

#[test]
fn where_nothing_is_promised_a_message_without_a_descriptor_is_dropped() {
    let (a, b) = connected_with(UNRELIABLE);
    let errors = Errors::of(&b);
    a.send(0, BYTES, 8);
    assert_eq!(a.sent().0, SUCCESS);
    assert_eq!(errors.first(), ERROR_RECVQ_EMPTY);
    b.receive(0, BYTES, 8);
    a.send(0, BYTES, 3);
    assert_eq!(b.received().2.bytes, 3);
    assert_eq!((a.state(), b.state()), (STATE_CONNECTED, STATE_CONNECTED));
}

#[test]
fn an_end_that_is_left_is_told_and_flushed() {
    let (a, b) = connected();
    let errors = Errors::of(&b);
    b.receive(0, BYTES, 8);
    b.receive(1, BYTES, 8);
    a.disconnect();
    assert_eq!(errors.first(), ERROR_CONN_LOST);
    for index in 0..2 {
        let (returned, which, control) = b.received();
        assert_eq!((returned, which), (DESCRIPTOR_ERROR.0, index));
        assert_eq!(
            control.status & STATUS_ERROR_MASK,
            STATUS_DESC_FLUSHED_ERROR
        );
    }
    assert_eq!(b.state(), STATE_ERROR);
    // In error everything is flushed at once.
    b.receive(0, BYTES, 8);
    b.send(1, BYTES, 8);
    assert_eq!(
        (b.received().0, b.sent().0),
        (DESCRIPTOR_ERROR.0, DESCRIPTOR_ERROR.0)
    );
    b.disconnect();
    // And what is sent without a connection.
    b.send(1, BYTES, 8);
    assert_eq!(
        b.sent().2.status & STATUS_ERROR_MASK,
        STATUS_DESC_FLUSHED_ERROR
    );
}

#[test]
fn memory_of_the_peer_is_written_and_read() {
    for bytes in [1, 5000, 500_000] {
        let (a, b) = connected_with(RECEPTION);
        fill(&a, BYTES, bytes);
        let there = BYTES + 11;
        let write = a.prepare_remote(0, CONTROL_OP_RDMAWRITE, (BYTES, bytes), &b, there);
        assert_eq!(a.post_send(write), SUCCESS);
        let (returned, _, control) = a.sent();
        assert_eq!(returned, SUCCESS);
        assert_eq!(control.status, STATUS_DONE | STATUS_OP_RDMA_WRITE);
        assert!(b.bytes(there, bytes) == a.bytes(BYTES, bytes));
        assert_eq!(b.bytes(there + bytes, 1), [0]);
        // The peer notices nothing.
        assert_eq!(b.query(), (STATE_CONNECTED, true, true));
        let back = BYTES + 500_000;
        let read = a.prepare_remote(0, CONTROL_OP_RDMAREAD, (back, bytes), &b, there);
        assert_eq!(a.post_send(read), SUCCESS);
        let (returned, _, control) = a.sent();
        assert_eq!(returned, SUCCESS);
        assert_eq!(control.status, STATUS_DONE | STATUS_OP_RDMA_READ);
        assert!(a.bytes(back, bytes) == b.bytes(there, bytes));
    }
}

#[test]
fn what_follows_a_write_finds_its_bytes() {
    let (a, b) = connected();
    for index in 0..16 {
        b.receive(index, BYTES, 0);
    }
    fill(&a, BYTES, 60_000);
    for index in 0..16 {
        let there = BYTES + 60_000 * (index % 8);
        let bytes = 60_000 - index;
        let control = CONTROL_OP_RDMAWRITE | (CONTROL_IMMEDIATE * u16::from(index % 2 == 0));
        let write = a.prepare_remote(index, control, (BYTES, bytes), &b, there);
        // SAFETY: the descriptor is the end's.
        unsafe { (*write).control.immediate = index as u32 };
        assert_eq!(a.post_send(write), SUCCESS);
        if index % 2 == 1 {
            a.send(16 + index, 0, 0);
        }
    }
    for index in 0..16 {
        let (returned, which, control) = b.received();
        assert_eq!((returned, which), (SUCCESS, index));
        let there = BYTES + 60_000 * (index % 8);
        if index < 8 {
            assert!(
                b.bytes(there, 59_000) == a.bytes(BYTES, 59_000),
                "write {index}"
            );
        }
        let status = control.status & !STATUS_DONE;
        match index % 2 {
            0 => {
                assert_eq!(status, STATUS_OP_REMOTE_RDMA_WRITE | STATUS_IMMEDIATE);
                assert_eq!(control.immediate as usize, index);
                assert_eq!(control.bytes as usize, 60_000 - index);
            }
            _ => assert_eq!((status, control.bytes), (STATUS_OP_RECEIVE, 0)),
        }
    }
}

/// Posts a memory operation that is refused; its error, whether both are connected still, and what the peer was told.
fn refused(
    manner: fn(&mut ViAttributes),
    control: u16,
    spoil: impl FnOnce(&End, &mut Segment),
) -> (u32, bool, Option<c_int>) {
    let (a, b) = connected_with(manner);
    let errors = Errors::of(&b);
    fill(&a, BYTES, 64);
    let descriptor = a.prepare_remote(0, control, (BYTES, 64), &b, BYTES);
    // SAFETY: the descriptor is the end's.
    spoil(&b, unsafe { &mut (*descriptor).segments[0] });
    assert_eq!(a.post_send(descriptor), SUCCESS);
    let (returned, _, control) = a.sent();
    assert_eq!(returned, DESCRIPTOR_ERROR.0);
    assert_eq!(b.bytes(BYTES, 64), [0; 64]);
    let is_connected = a.state() == STATE_CONNECTED;
    let told = (!is_connected).then(|| errors.first());
    if !is_connected {
        b.comes_to(STATE_ERROR);
    }
    (control.status & STATUS_ERROR_MASK, is_connected, told)
}

#[test]
fn memory_that_is_not_to_be_reached_is_not_reached() {
    let writes = CONTROL_OP_RDMAWRITE;
    for (control, code) in [
        (CONTROL_OP_RDMAWRITE, ERROR_RDMAW_PROT),
        (CONTROL_OP_RDMAREAD, ERROR_RDMAR_PROT),
    ] {
        let expected = (STATUS_RDMA_PROT_ERROR, false, Some(code));
        assert_eq!(refused(RECEPTION, control, |_, s| s.handle += 99), expected);
        assert_eq!(
            refused(RECEPTION, control, |_, s| s.address -= 1 << 20),
            expected
        );
        let across = |_: &End, s: &mut Segment| s.address += (MEMORY - BYTES - 63) as u64;
        assert_eq!(refused(RECEPTION, control, across), expected);
        assert_eq!(
            refused(RECEPTION, control, |_, s| s.address = u64::MAX),
            expected
        );
        // The region allows it no longer.
        let forbid = |end: &End, _: &mut Segment| {
            let rights = MemAttributes {
                ptag: end.ptag,
                enable_rdma_write: 0,
                enable_rdma_read: 0,
            };
            let base = end.memory.cast();
            // SAFETY: the memory is the end's.
            let returned =
                unsafe { VipSetMemAttributes(end.nic, base, end.region, &raw const rights) };
            assert_eq!(returned, SUCCESS);
        };
        assert_eq!(refused(RECEPTION, control, forbid), expected);
        // It is not registered any longer.
        let withdraw = |end: &End, _: &mut Segment| {
            // SAFETY: the memory is the end's.
            let returned = unsafe { VipDeregisterMem(end.nic, end.memory.cast(), end.region) };
            assert_eq!(returned, SUCCESS);
        };
        assert_eq!(refused(RECEPTION, control, withdraw), expected);
        // It is of another tag than the VI.
        let retag = |end: &End, s: &mut Segment| {
            let (mut ptag, mut region) = (null_mut(), 0);
            // SAFETY: the places are this function's, the memory the end's.
            unsafe {
                assert_eq!(VipCreatePtag(end.nic, &raw mut ptag), SUCCESS);
                let rights = MemAttributes {
                    ptag,
                    enable_rdma_write: 1,
                    enable_rdma_read: 1,
                };
                let (base, rights) = (end.memory.cast(), &raw const rights);
                let place = &raw mut region;
                let returned = VipRegisterMem(end.nic, base, MEMORY as u64, rights, place);
                assert_eq!(returned, SUCCESS);
            }
            s.handle = region;
        };
        assert_eq!(refused(RECEPTION, control, retag), expected);
    }
    // Where nothing is promised, the connection stays.
    let expected = (STATUS_RDMA_PROT_ERROR, true, None);
    assert_eq!(refused(UNRELIABLE, writes, |_, s| s.handle += 99), expected);
}

#[test]
fn a_vi_that_does_not_allow_it_is_not_reached_through() {
    let neither: fn(&mut ViAttributes) = |a| {
        a.enable_rdma_write = 0;
        a.enable_rdma_read = 0;
    };
    for control in [CONTROL_OP_RDMAWRITE, CONTROL_OP_RDMAREAD] {
        let (error, is_connected, _) = refused(neither, control, |_, _| {});
        assert_eq!((error, is_connected), (STATUS_RDMA_PROT_ERROR, false));
    }
}

#[test]
fn a_completion_queue_tells_of_both_queues_of_many_vis() {
    let (end, others) = (End::new(), [End::new(), End::new()]);
    let mut cq = null_mut();
    // SAFETY: the places are this function's.
    unsafe {
        assert_eq!(VipCreateCQ(end.nic, 64, &raw mut cq), SUCCESS);
        let mut vis = Vec::new();
        for (index, other) in others.iter().enumerate() {
            let (wanted, mut vi) = (attributes(end.ptag), null_mut());
            let place = &raw mut vi;
            assert_eq!(
                VipCreateVi(end.nic, &raw const wanted, cq, cq, place),
                SUCCESS
            );
            let (mine, theirs) = (discriminator(), discriminator());
            let (mine, theirs) = (end.place(&mine), other.place(&theirs));
            let asked = VipConnectPeerRequest(vi, mine.get(), theirs.get(), LONG);
            assert_eq!(asked, SUCCESS);
            let asked = VipConnectPeerRequest(other.vi, theirs.get(), mine.get(), LONG);
            assert_eq!(asked, SUCCESS);
            let mut has = no_attributes();
            assert_eq!(VipConnectPeerWait(vi, &raw mut has), SUCCESS);
            let descriptor = end.prepare(index, CONTROL_OP_SENDRECV, &[(BYTES, 8)]);
            assert_eq!(VipPostRecv(vi, descriptor, end.region), SUCCESS);
            vis.push(vi);
        }
        let (mut vi, mut is_receive, mut done) = (null_mut(), 0, null_mut());
        for index in [1, 0] {
            let mut has = no_attributes();
            assert_eq!(VipConnectPeerWait(others[index].vi, &raw mut has), SUCCESS);
            others[index].send(0, BYTES, 8);
            assert_eq!(
                VipCQWait(cq, LONG, &raw mut vi, &raw mut is_receive),
                SUCCESS
            );
            assert_eq!((vi, is_receive), (vis[index], 1));
            assert_eq!(VipRecvDone(vi, &raw mut done), SUCCESS);
        }
        let descriptor = end.prepare(3, CONTROL_OP_SENDRECV, &[(BYTES, 8)]);
        assert_eq!(VipPostSend(vis[0], descriptor, end.region), SUCCESS);
        assert_eq!(
            VipCQWait(cq, LONG, &raw mut vi, &raw mut is_receive),
            SUCCESS
        );
        assert_eq!((vi, is_receive), (vis[0], 0));
        // It is the completion queue that tells of these.
        unsafe extern "C" fn nobody(
            _: *mut c_void,
            _: *mut c_void,
            _: *mut c_void,
            _: *mut Descriptor,
        ) {
        }
        assert_eq!(VipSendNotify(vi, null_mut(), Some(nobody)), INVALID_STATE.0);
    }
}

/// What handlers were called with.
static CALLED: Mutex<Vec<(usize, usize, usize)>> = Mutex::new(Vec::new());
static CALLS: Condvar = Condvar::new();

fn note(context: *mut c_void, vi: *mut c_void, what: usize) {
    let call = (context.addr(), vi.addr(), what);
    CALLED.lock().expect("nobody panics").push(call);
    CALLS.notify_all();
}

/// Waits for a call with this context.
fn called(context: usize) -> (usize, usize) {
    let calls = CALLED.lock().expect("nobody panics");
    let is_it = |call: &(usize, usize, usize)| call.0 == context;
    let calls = CALLS.wait_while(calls, |calls| !calls.iter().any(is_it));
    let mut calls = calls.expect("nobody panics");
    let at = calls.iter().position(is_it).expect("is there");
    let call = calls.remove(at);
    (call.1, call.2)
}

unsafe extern "C" fn on_descriptor(
    context: *mut c_void,
    _nic: *mut c_void,
    vi: *mut c_void,
    descriptor: *mut Descriptor,
) {
    note(context, vi, descriptor.addr());
}

unsafe extern "C" fn on_queue(
    context: *mut c_void,
    _nic: *mut c_void,
    vi: *mut c_void,
    is_receive: c_int,
) {
    note(context, vi, is_receive as usize);
}

#[test]
fn handlers_are_called_once_for_each_time_that_they_are_asked_for() {
    let (a, b) = connected();
    let context = |number: usize| number as *mut c_void;
    for index in 0..3 {
        b.receive(index, BYTES, 8);
    }
    // SAFETY: the handlers take what they are given.
    unsafe {
        assert_eq!(
            VipRecvNotify(b.vi, context(1), Some(on_descriptor)),
            SUCCESS
        );
        assert_eq!(
            VipRecvNotify(b.vi, context(2), Some(on_descriptor)),
            INVALID_STATE.0
        );
        assert_eq!(VipRecvNotify(b.vi, context(2), None), INVALID_PARAMETER.0);
        assert_eq!(
            VipSendNotify(a.vi, context(3), Some(on_descriptor)),
            SUCCESS
        );
    }
    a.send(0, BYTES, 8);
    a.send(1, BYTES, 8);
    assert_eq!(called(1), (b.vi.addr(), b.descriptor(0).addr()));
    assert_eq!(called(3), (a.vi.addr(), a.descriptor(0).addr()));
    // The handler has got the first; the next is fetched as always.
    assert_eq!(b.received().1, 1);
    assert_eq!(a.sent().1, 1);
    // What is done already is told at once.
    a.send(2, BYTES, 8);
    let mut done = null_mut();
    while b.query().2 || b.bytes(128 + 28, 4)[0] & 1 == 0 {
        thread::yield_now();
    }
    // SAFETY: as above, and the place is this function's.
    unsafe {
        assert_eq!(
            VipRecvNotify(b.vi, context(4), Some(on_descriptor)),
            SUCCESS
        );
        assert_eq!(called(4), (b.vi.addr(), b.descriptor(2).addr()));
        assert_eq!(VipRecvDone(b.vi, &raw mut done), NOT_DONE.0);
    }
}

#[test]
fn a_completion_queue_calls_once() {
    let end = End::new();
    let context = |number: usize| number as *mut c_void;
    // SAFETY: the places are this function's, the handlers take what they are given.
    unsafe {
        let (mut cq, mut vi, mut is_receive) = (null_mut(), null_mut(), 0);
        assert_eq!(VipCreateCQ(end.nic, 4, &raw mut cq), SUCCESS);
        let (wanted, place) = (attributes(end.ptag), &raw mut vi);
        assert_eq!(
            VipCreateVi(end.nic, &raw const wanted, cq, null_mut(), place),
            SUCCESS
        );
        assert_eq!(VipCQNotify(cq, context(101), Some(on_queue)), SUCCESS);
        assert_eq!(
            VipCQNotify(cq, context(102), Some(on_queue)),
            INVALID_STATE.0
        );
        for index in 0..2 {
            // They are flushed, since the VI is not connected.
            let descriptor = end.prepare(index, CONTROL_OP_SENDRECV, &[(BYTES, 8)]);
            assert_eq!(VipPostSend(vi, descriptor, end.region), SUCCESS);
        }
        assert_eq!(called(101), (vi.addr(), 0));
        let mut whose = null_mut();
        assert_eq!(VipCQDone(cq, &raw mut whose, &raw mut is_receive), SUCCESS);
        assert_eq!(
            VipCQDone(cq, &raw mut whose, &raw mut is_receive),
            NOT_DONE.0
        );
    }
}

#[test]
fn a_handler_may_close_the_nic() {
    unsafe extern "C" fn close(context: *mut c_void, error: *mut ErrorDescriptor) {
        // SAFETY: the library gives a valid descriptor.
        let (nic, vi) = unsafe { ((*error).nic, (*error).vi) };
        // SAFETY: handles are numbers.
        let returned = unsafe { VipCloseNic(nic) };
        note(context, vi, returned as usize);
    }
    let (a, b) = connected();
    // SAFETY: the handler takes what it is given.
    let returned = unsafe { VipErrorCallback(b.nic, 201 as *mut c_void, Some(close)) };
    assert_eq!(returned, SUCCESS);
    a.disconnect();
    assert_eq!(called(201), (b.vi.addr(), SUCCESS as usize));
}

#[test]
fn threads_share_a_nic() {
    let (a, b) = connected();
    const COUNT: usize = 400;
    let (from, to) = (Shared(&a), Shared(&b));
    thread::scope(|scope| {
        for half in 0..2 {
            // Two threads send, on descriptors of their own; what comes is in some order, and each once.
            scope.spawn(move || {
                let a = { from }.0;
                for number in 0..COUNT / 2 {
                    let index = half * 16 + number % 16;
                    let descriptor = a.prepare(index, CONTROL_IMMEDIATE, &[(BYTES, 8)]);
                    // SAFETY: the descriptor is the end's, and this thread's.
                    unsafe { (*descriptor).control.immediate = (half * COUNT + number) as u32 };
                    assert_eq!(a.post_send(descriptor), SUCCESS);
                    // Whichever is fetched was sent: an eager message is at once.
                    assert_eq!(a.sent().0, SUCCESS);
                }
            });
        }
        let received = scope.spawn(move || {
            let b = { to }.0;
            let mut numbers = Vec::new();
            for index in 0..16 {
                b.receive(index, BYTES, 8);
            }
            while numbers.len() < COUNT {
                let (returned, index, control) = b.received();
                assert_eq!(returned, SUCCESS);
                numbers.push(control.immediate as usize);
                b.receive(index, BYTES, 8);
            }
            numbers
        });
        let mut numbers = received.join().expect("has ended");
        numbers.sort_unstable();
        let expected = (0..COUNT / 2).chain(COUNT..COUNT + COUNT / 2);
        assert!(numbers.into_iter().eq(expected));
    });
}
