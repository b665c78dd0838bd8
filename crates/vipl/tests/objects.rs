//! NICs, tags, memory, VIs, completion queues, names: what succeeds, and every error.

mod common;

use core::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

use common::*;
use tabane_vipl::abi::*;
use tabane_vipl::calls::*;

fn open_as(name: &core::ffi::CStr) -> (i32, *mut c_void) {
    environment();
    let mut nic = null_mut();
    // SAFETY: the text ends in a zero byte, and the place is this function's.
    let returned = unsafe { VipOpenNic(name.as_ptr(), &raw mut nic) };
    (returned, nic)
}

#[test]
fn there_is_one_device_by_whatever_name() {
    for name in [
        c"tabane0",
        c"/dev/tabane0",
        c"VINIC",
        c"/dev/clanvi0",
        c"nic0",
    ] {
        let (returned, nic) = open_as(name);
        assert_eq!(returned, SUCCESS, "{name:?}");
        // SAFETY: the handle is open, and the place has room.
        unsafe {
            let mut query = std::mem::zeroed::<NicAttributes>();
            assert_eq!(VipQueryNic(nic, &raw mut query), SUCCESS);
            let told = core::ffi::CStr::from_ptr(query.name.as_ptr());
            assert_eq!(told, name);
            assert_eq!(VipCloseNic(nic), SUCCESS);
        }
    }
    for name in [c"", c"tabane1", c"/dev/clanvi7"] {
        assert_eq!(open_as(name).0, INVALID_PARAMETER.0, "{name:?}");
    }
    // SAFETY: null is refused.
    unsafe {
        let mut nic = null_mut();
        assert_eq!(VipOpenNic(null(), &raw mut nic), INVALID_PARAMETER.0);
        assert_eq!(
            VipOpenNic(c"tabane0".as_ptr(), null_mut()),
            INVALID_PARAMETER.0
        );
    }
}

#[test]
fn a_nic_says_what_it_can() {
    let nic = open();
    // SAFETY: the handle is open, the places have room.
    unsafe {
        assert_eq!(VipQueryNic(nic, null_mut()), INVALID_PARAMETER.0);
        let mut query = std::mem::zeroed::<NicAttributes>();
        assert_eq!(VipQueryNic(nic, &raw mut query), SUCCESS);
        assert_eq!(query.thread_safe, 1);
        assert_eq!(query.segments_per_descriptor_max, 252);
        assert!(query.discriminator_bytes_max >= 16);
        assert_eq!(query.reliability_levels, 7);
        assert_eq!(query.rdma_read_levels, 6);
        assert!(query.transfer_bytes_max >= 32768);
        // What a program keeps of it stays.
        assert_eq!(VipCloseNic(nic), SUCCESS);
        assert_eq!(*query.local_nic_address, 4);
    }
}

#[test]
fn what_belongs_to_a_closed_nic_is_stale() {
    let end = End::new();
    let mut cq = null_mut();
    let descriptor = end.prepare(0, CONTROL_OP_SENDRECV, &[(BYTES, 8)]);
    // SAFETY: the places are this function's; stale handles are numbers.
    unsafe {
        assert_eq!(VipCreateCQ(end.nic, 4, &raw mut cq), SUCCESS);
        assert_eq!(VipCloseNic(end.nic), SUCCESS);
        assert_eq!(VipCloseNic(end.nic), INVALID_PARAMETER.0);
        let (mut query, mut place) = (std::mem::zeroed::<NicAttributes>(), null_mut());
        let wrong = INVALID_PARAMETER.0;
        assert_eq!(VipQueryNic(end.nic, &raw mut query), wrong);
        assert_eq!(VipCreatePtag(end.nic, &raw mut place), wrong);
        assert_eq!(VipDestroyPtag(end.nic, end.ptag), wrong);
        assert_eq!(
            VipDeregisterMem(end.nic, end.memory.cast(), end.region),
            wrong
        );
        assert_eq!(VipDestroyVi(end.vi), wrong);
        assert_eq!(VipDisconnect(end.vi), wrong);
        assert_eq!(VipPostRecv(end.vi, descriptor, end.region), wrong);
        assert_eq!(VipPostSend(end.vi, descriptor, end.region), wrong);
        let mut done = null_mut();
        assert_eq!(VipRecvDone(end.vi, &raw mut done), wrong);
        assert_eq!(VipSendWait(end.vi, FOREVER, &raw mut done), wrong);
        let mut is_receive = 0;
        assert_eq!(
            VipCQWait(cq, FOREVER, &raw mut place, &raw mut is_receive),
            wrong
        );
        assert_eq!(VipDestroyCQ(cq), wrong);
        assert_eq!(VipNSInit(end.nic, null_mut()), wrong);
        assert_eq!(VipErrorCallback(end.nic, null_mut(), None), wrong);
        assert_eq!(VipConnectAccept(cq, end.vi), wrong);
        assert_eq!(VipConnectReject(null_mut()), wrong);
    }
    assert_eq!(end.wait(b"x", 0).err(), Some(INVALID_PARAMETER.0));
    assert_eq!(end.request(&end.host, b"x", 0), INVALID_PARAMETER.0);
}

#[test]
fn a_thread_that_waits_is_told_that_its_nic_is_closed() {
    let end = End::new();
    let shared = Shared(&end);
    std::thread::scope(|scope| {
        let waits = scope.spawn(move || {
            let end = { shared }.0;
            let mut done = null_mut();
            // SAFETY: the place is this function's.
            unsafe { VipRecvWait(end.vi, FOREVER, &raw mut done) }
        });
        let connects = scope.spawn(move || {
            let end = { shared }.0;
            end.wait(&discriminator(), FOREVER).err()
        });
        std::thread::sleep(std::time::Duration::from_millis(20));
        // SAFETY: handles are numbers.
        assert_eq!(unsafe { VipCloseNic(end.nic) }, SUCCESS);
        assert_eq!(waits.join().expect("has ended"), INVALID_PARAMETER.0);
        assert_eq!(
            connects.join().expect("has ended"),
            Some(INVALID_PARAMETER.0)
        );
    });
}

#[test]
fn a_handle_of_one_kind_is_none_of_another() {
    let (end, other) = (End::new(), End::new());
    // SAFETY: handles are numbers.
    unsafe {
        let wrong = INVALID_PARAMETER.0;
        assert_eq!(VipCloseNic(end.vi), wrong);
        assert_eq!(VipDestroyVi(end.ptag), wrong);
        assert_eq!(VipDestroyPtag(end.nic, end.vi), wrong);
        assert_eq!(VipDestroyPtag(end.nic, other.ptag), wrong);
        assert_eq!(VipDestroyCQ(end.nic), wrong);
        assert_eq!(VipDestroyVi(end.memory.cast()), wrong);
        assert_eq!(VipDestroyVi(usize::MAX as *mut c_void), wrong);
    }
}

#[test]
fn a_tag_lives_as_long_as_something_is_of_it() {
    let end = End::new();
    // SAFETY: the places are this function's.
    unsafe {
        assert_eq!(VipDestroyPtag(end.nic, end.ptag), ERROR_RESOURCE.0);
        assert_eq!(VipDestroyVi(end.vi), SUCCESS);
        assert_eq!(VipDestroyPtag(end.nic, end.ptag), ERROR_RESOURCE.0);
        assert_eq!(
            VipDeregisterMem(end.nic, end.memory.cast(), end.region),
            SUCCESS
        );
        assert_eq!(VipDestroyPtag(end.nic, end.ptag), SUCCESS);
        assert_eq!(VipDestroyPtag(end.nic, end.ptag), INVALID_PARAMETER.0);
        // That of what has none is not the program's to destroy.
        assert_eq!(VipDestroyPtag(end.nic, null_mut()), INVALID_PARAMETER.0);
        assert_eq!(VipCreatePtag(end.nic, null_mut()), INVALID_PARAMETER.0);
        let mut vi = null_mut();
        let (wanted, place) = (attributes(end.ptag), &raw mut vi);
        let returned = VipCreateVi(end.nic, &raw const wanted, null_mut(), null_mut(), place);
        assert_eq!(returned, INVALID_PTAG.0);
    }
}

#[test]
fn memory_is_registered_and_deregistered() {
    let end = End::new();
    let base: *mut c_void = end.memory.cast();
    let rights = |ptag: *mut c_void, write: i32, read: i32| MemAttributes {
        ptag,
        enable_rdma_write: write,
        enable_rdma_read: read,
    };
    // SAFETY: the places are this function's, the memory is the end's.
    unsafe {
        let mut region = 0;
        let mut register = |base: *mut c_void, bytes: u64, rights: &MemAttributes| {
            VipRegisterMem(end.nic, base, bytes, rights, &raw mut region)
        };
        let good = rights(end.ptag, 0, 1);
        assert_eq!(register(null_mut(), 8, &good), INVALID_PARAMETER.0);
        assert_eq!(register(base, 0, &good), INVALID_PARAMETER.0);
        assert_eq!(register(base, 1 << 41, &good), ERROR_RESOURCE.0);
        let last = (usize::MAX - 7) as *mut c_void;
        assert_eq!(register(last, 16, &good), INVALID_PARAMETER.0);
        assert_eq!(register(base, 8, &rights(end.vi, 0, 0)), INVALID_PTAG.0);
        assert_eq!(register(base, 4096, &good), SUCCESS);
        let nothing = VipRegisterMem(end.nic, base, 8, null(), &raw mut region);
        assert_eq!(nothing, INVALID_PARAMETER.0);
        assert_eq!(
            VipRegisterMem(end.nic, base, 8, &raw const good, null_mut()),
            INVALID_PARAMETER.0
        );
        // It is asked for by any address in it.
        let mut found = rights(null_mut(), 9, 9);
        let inside = base.wrapping_byte_add(4095);
        assert_eq!(
            VipQueryMem(end.nic, inside, region, &raw mut found),
            SUCCESS
        );
        let has = (found.ptag, found.enable_rdma_write, found.enable_rdma_read);
        assert_eq!(has, (end.ptag, 0, 1));
        let outside = base.wrapping_byte_add(4096);
        let wrong = INVALID_PARAMETER.0;
        assert_eq!(VipQueryMem(end.nic, outside, region, &raw mut found), wrong);
        assert_eq!(
            VipQueryMem(end.nic, base, region + 1000, &raw mut found),
            wrong
        );
        assert_eq!(VipQueryMem(end.nic, base, region, null_mut()), wrong);
        let changed = rights(null_mut(), 1, 0);
        assert_eq!(
            VipSetMemAttributes(end.nic, base, region, &raw const changed),
            SUCCESS
        );
        assert_eq!(VipQueryMem(end.nic, base, region, &raw mut found), SUCCESS);
        let has = (found.ptag, found.enable_rdma_write, found.enable_rdma_read);
        assert_eq!(has, (null_mut(), 1, 0));
        let bad = rights(end.vi, 1, 0);
        let returned = VipSetMemAttributes(end.nic, base, region, &raw const bad);
        assert_eq!(returned, INVALID_PTAG.0);
        assert_eq!(VipSetMemAttributes(end.nic, base, region, null()), wrong);
        assert_eq!(
            VipSetMemAttributes(end.nic, outside, region, &raw const good),
            wrong
        );
        assert_eq!(VipDeregisterMem(end.nic, outside, region), wrong);
        assert_eq!(VipDeregisterMem(end.nic, base, region), SUCCESS);
        assert_eq!(VipDeregisterMem(end.nic, base, region), wrong);
        // A posted descriptor names memory.
        end.receive(0, BYTES, 64);
        assert_eq!(
            VipDeregisterMem(end.nic, base, end.region),
            ERROR_RESOURCE.0
        );
        let returned = VipSetMemAttributes(end.nic, base, end.region, &raw const good);
        assert_eq!(returned, ERROR_RESOURCE.0);
        end.disconnect();
        assert_eq!(VipDeregisterMem(end.nic, base, end.region), SUCCESS);
    }
}

#[test]
fn a_vi_is_made_as_it_can_be() {
    let end = End::new();
    let create = |change: fn(&mut ViAttributes)| {
        let (mut wanted, mut vi) = (attributes(end.ptag), null_mut());
        change(&mut wanted);
        // SAFETY: the places are this function's.
        unsafe {
            VipCreateVi(
                end.nic,
                &raw const wanted,
                null_mut(),
                null_mut(),
                &raw mut vi,
            )
        }
    };
    for level in [0, 3, 8] {
        let (mut wanted, mut vi) = (attributes(end.ptag), null_mut());
        wanted.reliability_level = level;
        // SAFETY: the places are this function's.
        let returned = unsafe {
            VipCreateVi(
                end.nic,
                &raw const wanted,
                null_mut(),
                null_mut(),
                &raw mut vi,
            )
        };
        assert_eq!(returned, INVALID_RELIABILITY_LEVEL.0);
    }
    assert_eq!(create(|a| a.transfer_bytes_max = 0), INVALID_MTU.0);
    assert_eq!(create(|a| a.transfer_bytes_max = 1 << 30), INVALID_MTU.0);
    assert_eq!(create(|a| a.ptag = 7 as *mut c_void), INVALID_PTAG.0);
    assert_eq!(
        create(|a| a.reliability_level = SERVICE_UNRELIABLE),
        INVALID_RDMAREAD.0
    );
    assert_eq!(create(|a| a.ptag = null_mut()), SUCCESS);
    // SAFETY: the places are this function's.
    unsafe {
        let (wanted, mut vi) = (attributes(end.ptag), null_mut());
        let place = &raw mut vi;
        let wrong = INVALID_PARAMETER.0;
        assert_eq!(
            VipCreateVi(end.nic, null(), null_mut(), null_mut(), place),
            wrong
        );
        let wanted = &raw const wanted;
        assert_eq!(
            VipCreateVi(end.nic, wanted, end.vi, null_mut(), place),
            wrong
        );
        assert_eq!(
            VipCreateVi(end.nic, wanted, null_mut(), null_mut(), null_mut()),
            wrong
        );
        // Changed while it is idle, and to what it can be.
        let mut changed = attributes(null_mut());
        changed.qos = 5 as *mut c_void;
        changed.enable_rdma_read = 0;
        assert_eq!(VipSetViAttributes(end.vi, &raw const changed), SUCCESS);
        let (mut state, mut has) = (9, no_attributes());
        let (mut sends, mut receives) = (9, 9);
        let places = (
            &raw mut state,
            &raw mut has,
            &raw mut sends,
            &raw mut receives,
        );
        assert_eq!(
            VipQueryVi(end.vi, places.0, places.1, places.2, places.3),
            SUCCESS
        );
        assert_eq!(
            (has.ptag, has.qos.addr(), has.enable_rdma_read),
            (null_mut(), 5, 0)
        );
        assert_eq!((state, sends, receives), (STATE_IDLE, 1, 1));
        assert_eq!(
            VipQueryVi(end.vi, null_mut(), places.1, places.2, places.3),
            wrong
        );
        assert_eq!(
            VipQueryVi(end.vi, places.0, places.1, places.2, null_mut()),
            wrong
        );
        changed.transfer_bytes_max = 0;
        assert_eq!(
            VipSetViAttributes(end.vi, &raw const changed),
            INVALID_MTU.0
        );
        assert_eq!(VipSetViAttributes(end.vi, null()), wrong);
    }
}

#[test]
fn a_vi_is_destroyed_when_it_is_idle_and_empty() {
    let (a, b) = connected();
    // SAFETY: handles are numbers, the places this function's.
    unsafe {
        let wanted = attributes(a.ptag);
        assert_eq!(VipDestroyVi(a.vi), INVALID_STATE.0);
        assert_eq!(VipSetViAttributes(a.vi, &raw const wanted), INVALID_STATE.0);
        b.disconnect();
        a.comes_to(STATE_ERROR);
        assert_eq!(VipDestroyVi(a.vi), INVALID_STATE.0);
        a.disconnect();
        a.receive(0, BYTES, 8);
        assert_eq!(VipDestroyVi(a.vi), ERROR_RESOURCE.0);
        // What waits is flushed, and fetched; then it can go.
        a.disconnect();
        assert_eq!(a.received().0, DESCRIPTOR_ERROR.0);
        assert_eq!(VipDestroyVi(a.vi), SUCCESS);
        assert_eq!(VipDestroyVi(a.vi), INVALID_PARAMETER.0);
    }
}

#[test]
fn a_completion_queue_is_made_resized_and_destroyed() {
    let end = End::new();
    // SAFETY: the places are this function's.
    unsafe {
        let (mut cq, mut vi, mut is_receive) = (null_mut(), null_mut(), 0);
        let wrong = INVALID_PARAMETER.0;
        assert_eq!(VipCreateCQ(end.nic, 0, &raw mut cq), wrong);
        assert_eq!(VipCreateCQ(end.nic, 4, null_mut()), wrong);
        assert_eq!(VipCreateCQ(end.nic, 1 << 40, &raw mut cq), ERROR_RESOURCE.0);
        assert_eq!(VipCreateCQ(end.nic, 4, &raw mut cq), SUCCESS);
        assert_eq!(VipCQDone(cq, &raw mut vi, &raw mut is_receive), NOT_DONE.0);
        assert_eq!(
            VipCQWait(cq, 1, &raw mut vi, &raw mut is_receive),
            TIMEOUT.0
        );
        assert_eq!(VipCQDone(cq, null_mut(), &raw mut is_receive), wrong);
        assert_eq!(VipCQWait(cq, 0, &raw mut vi, null_mut()), wrong);
        assert_eq!(VipCQNotify(cq, null_mut(), None), wrong);
        let wanted = attributes(end.ptag);
        let place = &raw mut vi;
        assert_eq!(
            VipCreateVi(end.nic, &raw const wanted, cq, cq, place),
            SUCCESS
        );
        assert_eq!(VipDestroyCQ(cq), ERROR_RESOURCE.0);
        // Two sends that are flushed, since the VI is not connected.
        for index in 0..2 {
            let descriptor = end.prepare(index, CONTROL_OP_SENDRECV, &[(BYTES, 8)]);
            assert_eq!(VipPostSend(vi, descriptor, end.region), SUCCESS);
        }
        assert_eq!(VipResizeCQ(cq, 1), ERROR_RESOURCE.0);
        assert_eq!(VipResizeCQ(cq, 0), wrong);
        assert_eq!(VipResizeCQ(cq, 2), SUCCESS);
        let (mut whose, mut done) = (null_mut(), null_mut());
        for _ in 0..2 {
            assert_eq!(VipCQDone(cq, &raw mut whose, &raw mut is_receive), SUCCESS);
            assert_eq!((whose, is_receive), (vi, 0));
            assert_eq!(VipSendDone(vi, &raw mut done), DESCRIPTOR_ERROR.0);
        }
        assert_eq!(VipDestroyVi(vi), SUCCESS);
        assert_eq!(VipDestroyCQ(cq), SUCCESS);
        assert_eq!(VipResizeCQ(cq, 2), wrong);
    }
}

#[test]
fn nodes_have_names() {
    let end = End::new();
    let mut place = Place([0; 64]);
    // SAFETY: the places have room.
    unsafe {
        let name = |text: &'static core::ffi::CStr| text.as_ptr();
        let failed = ERROR_NAMESERVICE.0;
        assert_eq!(
            VipNSGetHostByName(end.nic, name(c"here"), place.put(), 0),
            failed
        );
        assert_eq!(VipNSShutdown(end.nic), failed);
        assert_eq!(VipNSInit(end.nic, null_mut()), SUCCESS);
        for known in [c"here", c"127.0.0.1", c"localhost"] {
            let returned = VipNSGetHostByName(end.nic, name(known), place.put(), 0);
            assert_eq!(returned, SUCCESS);
            assert_eq!(place.host(), end.host);
        }
        assert_eq!(
            VipNSGetHostByName(end.nic, name(c"here"), place.put(), 1),
            failed
        );
        assert_eq!(
            VipNSGetHostByName(end.nic, name(c"nobody"), place.put(), 0),
            failed
        );
        let wrong = INVALID_PARAMETER.0;
        assert_eq!(VipNSGetHostByName(end.nic, null(), place.put(), 0), wrong);
        assert_eq!(
            VipNSGetHostByName(end.nic, name(c"here"), null_mut(), 0),
            wrong
        );
        let there = VipNSGetHostByName(end.nic, name(c"there"), place.put(), 0);
        assert_eq!(there, SUCCESS);
        let (mut text, mut bytes) = ([1 as c_char; 8], 8);
        let (text_place, bytes_place) = (text.as_mut_ptr(), &raw mut bytes);
        let found = VipNSGetHostByAddr(end.nic, place.get(), text_place, bytes_place);
        assert_eq!((found, bytes), (SUCCESS, 6));
        assert_eq!(core::ffi::CStr::from_ptr(text.as_ptr()), c"there");
        bytes = 5;
        let found = VipNSGetHostByAddr(end.nic, place.get(), text_place, bytes_place);
        assert_eq!((found, bytes), (ERROR_RESOURCE.0, 6));
        let nobody = Place::new(
            &[4, 1, 0, 0, 192, 0, 2, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            b"",
        );
        let found = VipNSGetHostByAddr(end.nic, nobody.get(), text_place, bytes_place);
        assert_eq!(found, failed);
        let bad = Place::new(b"bad", b"");
        let found = VipNSGetHostByAddr(end.nic, bad.get(), text_place, bytes_place);
        assert_eq!(found, wrong);
        assert_eq!(
            VipNSGetHostByAddr(end.nic, place.get(), null_mut(), bytes_place),
            wrong
        );
        assert_eq!(
            VipNSGetHostByAddr(end.nic, place.get(), text_place, null_mut()),
            wrong
        );
        assert_eq!(VipNSShutdown(end.nic), SUCCESS);
        assert_eq!(
            VipNSGetHostByName(end.nic, name(c"here"), place.put(), 0),
            failed
        );
    }
}

#[test]
fn management_information_lists_the_nodes() {
    let end = End::new();
    let mut list = AutodiscoveryList {
        hops: 0,
        addresses: null_mut(),
        count: 0,
    };
    // SAFETY: the places have room; the addresses are the library's until the NIC is closed.
    unsafe {
        let place: *mut c_void = (&raw mut list).cast();
        let ask = |kind| VipQuerySystemManagementInfo(end.nic, kind, place);
        assert_eq!(ask(SMI_AUTODISCOVERY), ERROR_NAMESERVICE.0);
        assert_eq!(VipNSInit(end.nic, null_mut()), SUCCESS);
        assert_eq!(ask(2), INVALID_PARAMETER.0);
        let nowhere = VipQuerySystemManagementInfo(end.nic, SMI_AUTODISCOVERY, null_mut());
        assert_eq!(nowhere, INVALID_PARAMETER.0);
        assert_eq!(ask(SMI_AUTODISCOVERY), SUCCESS);
        assert_eq!((list.hops, list.count), (1, 2));
        let first = *list.addresses;
        let host = (&raw const (*first).host).cast::<u8>();
        assert_eq!(std::slice::from_raw_parts(host, 20), end.host);
    }
}
