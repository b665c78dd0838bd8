//! Connections: client and server, between equals, and how they end.

mod common;

use core::ffi::c_void;
use std::ptr::{null, null_mut};
use std::thread;

use common::*;
use tabane_vipl::abi::*;
use tabane_vipl::calls::*;

/// Calls from another thread; what the call returned.
fn calls<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    client: Shared<'scope>,
    who: &[u8],
    timeout: u64,
) -> thread::ScopedJoinHandle<'scope, i32> {
    let who = who.to_vec();
    scope.spawn(move || {
        let client = { client }.0;
        client.request(&client.host, &who, timeout)
    })
}

#[test]
fn a_server_is_told_who_calls_and_with_what() {
    let (client, server) = (
        End::with(|a| a.qos = 3 as *mut c_void),
        End::with(|a| {
            a.qos = 3 as *mut c_void;
            a.enable_rdma_read = 0;
        }),
    );
    let who = discriminator();
    thread::scope(|scope| {
        let called = calls(scope, Shared(&client), &who, LONG);
        let (caller, theirs, from) = server.wait(&who, LONG).expect("somebody calls");
        assert_eq!((from.host(), from.who()), (&client.host[..], &b"me"[..]));
        assert_eq!(theirs.reliability_level, SERVICE_RELIABLE_DELIVERY);
        assert_eq!((theirs.transfer_bytes_max, theirs.qos.addr()), (1 << 20, 3));
        assert_eq!((theirs.enable_rdma_write, theirs.enable_rdma_read), (1, 1));
        assert_eq!(client.state(), STATE_CONNECT_PENDING);
        assert_eq!(server.accept(caller), SUCCESS);
        // The handle was good once.
        assert_eq!(server.accept(caller), INVALID_PARAMETER.0);
        assert_eq!(called.join().expect("has ended"), SUCCESS);
    });
    assert_eq!(
        (client.state(), server.state()),
        (STATE_CONNECTED, STATE_CONNECTED)
    );
    assert_eq!(client.request(&client.host, &who, 0), INVALID_STATE.0);
    client.disconnect();
    server.comes_to(STATE_ERROR);
    server.disconnect();
    // Again, in the other direction.
    connect(&server, &client);
}

#[test]
fn a_server_may_reject() {
    let (client, server) = (End::new(), End::new());
    let who = discriminator();
    thread::scope(|scope| {
        let called = calls(scope, Shared(&client), &who, LONG);
        let (caller, ..) = server.wait(&who, LONG).expect("somebody calls");
        // SAFETY: handles are numbers.
        unsafe {
            assert_eq!(VipConnectReject(caller), SUCCESS);
            assert_eq!(VipConnectReject(caller), INVALID_PARAMETER.0);
        }
        assert_eq!(called.join().expect("has ended"), REJECT.0);
    });
    assert_eq!(client.state(), STATE_IDLE);
}

#[test]
fn a_vi_that_does_not_agree_is_not_accepted() {
    let client = End::new();
    let others = [
        (
            End::with(|a| a.reliability_level = SERVICE_RELIABLE_RECEPTION),
            INVALID_RELIABILITY_LEVEL.0,
        ),
        (End::with(|a| a.transfer_bytes_max = 4096), INVALID_MTU.0),
        (End::with(|a| a.qos = 4 as *mut c_void), INVALID_QOS.0),
    ];
    for (server, code) in &others {
        let who = discriminator();
        thread::scope(|scope| {
            let called = calls(scope, Shared(&client), &who, LONG);
            let (caller, ..) = server.wait(&who, LONG).expect("somebody calls");
            assert_eq!(server.accept(caller), *code);
            // It may have another VI; this one, changed, will do.
            let right = attributes(server.ptag);
            // SAFETY: handles are numbers.
            unsafe {
                assert_eq!(VipConnectAccept(caller, null_mut()), INVALID_PARAMETER.0);
                assert_eq!(VipSetViAttributes(server.vi, &raw const right), SUCCESS);
            }
            assert_eq!(server.accept(caller), SUCCESS);
            assert_eq!(called.join().expect("has ended"), SUCCESS);
        });
        client.disconnect();
    }
}

#[test]
fn a_vi_that_is_busy_is_not_accepted() {
    let (a, b) = connected();
    let client = End::new();
    let who = discriminator();
    thread::scope(|scope| {
        let called = calls(scope, Shared(&client), &who, LONG);
        let (caller, ..) = a.wait(&who, LONG).expect("somebody calls");
        assert_eq!(a.accept(caller), INVALID_STATE.0);
        a.disconnect();
        assert_eq!(a.accept(caller), SUCCESS);
        assert_eq!(called.join().expect("has ended"), SUCCESS);
    });
    b.comes_to(STATE_ERROR);
}

#[test]
fn nobody_waits_for_ever() {
    let end = End::new();
    let who = discriminator();
    assert_eq!(end.wait(&who, 0).err(), Some(TIMEOUT.0));
    assert_eq!(end.wait(&who, 20).err(), Some(TIMEOUT.0));
    assert_eq!(end.request(&end.host, &discriminator(), 20), TIMEOUT.0);
    assert_eq!(
        end.request(&end.host, &discriminator(), FOREVER),
        NO_MATCH.0
    );
    assert_eq!(end.state(), STATE_IDLE);
}

#[test]
fn a_caller_that_has_given_up_is_told_to_be_so() {
    let (client, server) = (End::new(), End::new());
    let who = discriminator();
    thread::scope(|scope| {
        let called = calls(scope, Shared(&client), &who, 2000);
        let (caller, ..) = server.wait(&who, LONG).expect("somebody calls");
        assert_eq!(called.join().expect("has ended"), TIMEOUT.0);
        // The word may be on its way: then the line ends at once.
        match server.accept(caller) {
            SUCCESS => server.comes_to(STATE_ERROR),
            returned => assert_eq!(returned, TIMEOUT.0),
        }
        assert_eq!(server.accept(caller), INVALID_PARAMETER.0);
    });
    assert_eq!(client.state(), STATE_IDLE);
}

#[test]
fn addresses_that_are_none_are_refused() {
    let end = End::new();
    let wrong = INVALID_PARAMETER.0;
    assert_eq!(end.request(b"bad", b"x", 0), wrong);
    assert_eq!(end.request(&[], b"x", 0), wrong);
    assert_eq!(end.request(&end.host, &[1; 33], 0), wrong);
    assert_eq!(end.wait(&[1; 33], 0).err(), Some(wrong));
    let elsewhere = Place::new(
        &[4, 1, 0, 0, 192, 0, 2, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        b"x",
    );
    let (mut theirs, mut caller) = (no_attributes(), null_mut());
    let mut from = Place([0; 64]);
    let own = end.place(b"x");
    // SAFETY: the places are this function's.
    unsafe {
        let (nic, vi) = (end.nic, end.vi);
        let (theirs, caller) = (&raw mut theirs, &raw mut caller);
        let wait = |own: *const NetAddress, from: *mut NetAddress| {
            VipConnectWait(nic, own, 0, from, theirs, caller)
        };
        assert_eq!(wait(elsewhere.get(), from.put()), wrong);
        assert_eq!(wait(null(), from.put()), wrong);
        assert_eq!(wait(own.get(), null_mut()), wrong);
        let returned = VipConnectWait(nic, own.get(), 0, from.put(), null_mut(), caller);
        assert_eq!(returned, wrong);
        let returned = VipConnectWait(nic, own.get(), 0, from.put(), theirs, null_mut());
        assert_eq!(returned, wrong);
        let request = |own: *const NetAddress, to: *const NetAddress, theirs| {
            VipConnectRequest(vi, own, to, 0, theirs)
        };
        assert_eq!(request(elsewhere.get(), own.get(), theirs), wrong);
        assert_eq!(request(null(), own.get(), theirs), wrong);
        assert_eq!(request(own.get(), null(), theirs), wrong);
        assert_eq!(request(own.get(), own.get(), null_mut()), wrong);
        assert_eq!(VipConnectPeerRequest(vi, null(), own.get(), 0), wrong);
        assert_eq!(VipConnectPeerDone(vi, null_mut()), wrong);
        assert_eq!(VipConnectPeerWait(vi, null_mut()), wrong);
    }
    assert_eq!(end.state(), STATE_IDLE);
}

/// Asks to be connected to `other`, as `own` to `their`.
fn asks(end: &End, own: &[u8], other: &End, their: &[u8], timeout: u64) -> i32 {
    let (own, their) = (end.place(own), other.place(their));
    // SAFETY: the places are this function's.
    unsafe { VipConnectPeerRequest(end.vi, own.get(), their.get(), timeout) }
}

fn peer_wait(end: &End) -> i32 {
    let mut theirs = no_attributes();
    // SAFETY: the place is this function's.
    unsafe { VipConnectPeerWait(end.vi, &raw mut theirs) }
}

fn peer_done(end: &End) -> i32 {
    let mut theirs = no_attributes();
    // SAFETY: the place is this function's.
    unsafe { VipConnectPeerDone(end.vi, &raw mut theirs) }
}

#[test]
fn equals_call_each_other() {
    let (a, b) = (End::new(), End::new());
    let (of_a, of_b) = (discriminator(), discriminator());
    assert_eq!(peer_done(&a), INVALID_STATE.0);
    assert_eq!(peer_wait(&a), INVALID_STATE.0);
    assert_eq!(asks(&a, &of_a, &b, &of_b, LONG), SUCCESS);
    assert_eq!(peer_done(&a), NOT_DONE.0);
    assert_eq!(a.state(), STATE_CONNECT_PENDING);
    assert_eq!(asks(&a, &of_a, &b, &of_b, LONG), INVALID_STATE.0);
    assert_eq!(asks(&b, &of_b, &a, &of_a, FOREVER), SUCCESS);
    assert_eq!(peer_wait(&a), SUCCESS);
    while peer_done(&b) == NOT_DONE.0 {
        thread::yield_now();
    }
    // It is told once.
    assert_eq!(peer_done(&b), INVALID_STATE.0);
    assert_eq!((a.state(), b.state()), (STATE_CONNECTED, STATE_CONNECTED));
    b.receive(0, BYTES, 64);
    a.bytes(BYTES, 5).copy_from_slice(b"hello");
    a.send(0, BYTES, 5);
    assert_eq!(b.received().2.bytes, 5);
    assert_eq!(b.bytes(BYTES, 5), b"hello");
}

#[test]
fn two_vis_of_one_nic_call_each_other() {
    let a = End::new();
    let (wanted, mut vi) = (attributes(a.ptag), null_mut());
    // SAFETY: the places are this function's.
    unsafe {
        let place = &raw mut vi;
        let returned = VipCreateVi(a.nic, &raw const wanted, null_mut(), null_mut(), place);
        assert_eq!(returned, SUCCESS);
        let (one, other) = (a.place(&discriminator()), a.place(&discriminator()));
        let returned = VipConnectPeerRequest(a.vi, one.get(), other.get(), LONG);
        assert_eq!(returned, SUCCESS);
        let returned = VipConnectPeerRequest(vi, other.get(), one.get(), LONG);
        assert_eq!(returned, SUCCESS);
        let mut theirs = no_attributes();
        assert_eq!(VipConnectPeerWait(vi, &raw mut theirs), SUCCESS);
        assert_eq!(peer_wait(&a), SUCCESS);
        let waits = a.prepare(0, CONTROL_OP_SENDRECV, &[(BYTES, 64)]);
        assert_eq!(VipPostRecv(vi, waits, a.region), SUCCESS);
        a.send(1, BYTES + 64, 64);
        let mut done = null_mut();
        assert_eq!(VipRecvWait(vi, LONG, &raw mut done), SUCCESS);
        assert_eq!(done, waits);
    }
}

#[test]
fn equals_have_to_agree() {
    let a = End::new();
    for (b, code) in [
        (
            End::with(|a| a.reliability_level = SERVICE_RELIABLE_RECEPTION),
            INVALID_RELIABILITY_LEVEL.0,
        ),
        (End::with(|a| a.transfer_bytes_max = 5), INVALID_MTU.0),
        (End::with(|a| a.qos = 5 as *mut c_void), INVALID_QOS.0),
    ] {
        let (of_a, of_b) = (discriminator(), discriminator());
        assert_eq!(asks(&a, &of_a, &b, &of_b, LONG), SUCCESS);
        assert_eq!(asks(&b, &of_b, &a, &of_a, LONG), SUCCESS);
        assert_eq!((peer_wait(&a), peer_wait(&b)), (code, code));
        assert_eq!((a.state(), b.state()), (STATE_IDLE, STATE_IDLE));
    }
}

#[test]
fn an_equal_that_does_not_call_is_not_waited_for_longer() {
    let (a, b) = (End::new(), End::new());
    let who = discriminator();
    assert_eq!(asks(&a, &who, &b, &discriminator(), 50), SUCCESS);
    assert_eq!(peer_wait(&a), TIMEOUT.0);
    assert_eq!(a.state(), STATE_IDLE);
    // Who disconnects wants it no more.
    assert_eq!(asks(&a, &who, &b, &discriminator(), FOREVER), SUCCESS);
    a.disconnect();
    assert_eq!(peer_done(&a), INVALID_STATE.0);
}

#[test]
fn who_is_not_connected_can_disconnect() {
    let end = End::new();
    end.disconnect();
    end.receive(0, BYTES, 8);
    end.disconnect();
    let (returned, index, control) = end.received();
    assert_eq!((returned, index), (DESCRIPTOR_ERROR.0, 0));
    assert_eq!(
        control.status & STATUS_ERROR_MASK,
        STATUS_DESC_FLUSHED_ERROR
    );
}

#[test]
fn what_was_sent_before_the_end_arrives() {
    let (a, b) = connected();
    for index in 0..8 {
        b.receive(index, BYTES + 4096 * index, 4096);
        a.send(index, BYTES, 4096);
    }
    a.disconnect();
    b.comes_to(STATE_ERROR);
    for index in 0..8 {
        let (returned, which, control) = b.received();
        assert_eq!((returned, which, control.bytes), (SUCCESS, index, 4096));
    }
}

#[test]
fn a_peer_that_closes_its_nic_is_lost() {
    let (a, b) = connected();
    a.receive(0, BYTES, 8);
    drop(b);
    a.comes_to(STATE_ERROR);
    assert_eq!(a.received().0, DESCRIPTOR_ERROR.0);
    a.send(1, BYTES, 8);
    let (returned, _, control) = a.sent();
    assert_eq!(returned, DESCRIPTOR_ERROR.0);
    assert_eq!(
        control.status & STATUS_ERROR_MASK,
        STATUS_DESC_FLUSHED_ERROR
    );
    a.disconnect();
}
