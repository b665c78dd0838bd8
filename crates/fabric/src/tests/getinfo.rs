//! What programs are offered.

use core::ffi::CStr;
use core::ptr::null;

use super::c_side::{Given, Hints, minus, zeros};
use super::here;
use crate::abi::constants as c;
use crate::abi::errors;
use crate::abi::fabric::Info;
use crate::name;

const NODATA: i32 = -errors::NODATA.0;

fn offered(version: u32, mut hints: Hints) -> Given {
    Given::get(version, Some(&mut hints)).expect("it is offered")
}

fn refused(version: u32, mut hints: Hints) {
    assert_eq!(Given::get(version, Some(&mut hints)).err(), Some(NODATA));
}

#[test]
fn open_mpi_gets_what_it_asks_for() {
    // 4.1.4 as of 1.5, 5.0 as of 1.18.
    for version in [c::version(1, 5), c::version(1, 18)] {
        let caps = c::TAGGED | c::LOCAL_COMM | c::REMOTE_COMM | c::DIRECTED_RECV;
        let mut hints = Hints::new(caps);
        hints.info.mode = 1 << 59 | 1 << 52;
        hints.domain.threading = 3;
        hints.domain.av_type = c::AV_MAP;
        hints.domain.cq_data_size = 4;
        hints.domain.control_progress = c::PROGRESS_MANUAL;
        hints.domain.data_progress = c::PROGRESS_MANUAL;
        hints.domain.resource_mgmt = c::RM_ENABLED;
        hints.tx.msg_order = c::ORDER_SAS;
        hints.rx.msg_order = c::ORDER_SAS;
        let given = offered(version, hints);
        assert_eq!(given.info().caps, caps | c::SEND | c::RECV);
        assert_eq!(given.info().mode, 0);
        assert_eq!(given.domain().threading, 3);
        assert_eq!(given.domain().av_type, c::AV_MAP);
        assert_eq!(given.domain().mr_mode, 0);
        assert_eq!(given.domain().data_progress, c::PROGRESS_MANUAL);
        assert!(given.tx().msg_order & c::ORDER_SAS != 0);
        assert!(given.rx().caps & c::DIRECTED_RECV != 0);
    }
}

#[test]
fn mpich_gets_what_it_asks_for() {
    let caps = c::MSG | c::TAGGED | c::MULTI_RECV | c::RMA | c::ATOMIC | c::DIRECTED_RECV;
    let mut hints = Hints::new(caps | c::REMOTE_READ | c::REMOTE_WRITE | c::READ | c::WRITE);
    hints.domain.threading = 3;
    hints.domain.av_type = c::AV_TABLE;
    hints.domain.cq_data_size = 4;
    hints.domain.data_progress = c::PROGRESS_MANUAL;
    hints.domain.mr_mode = c::MR_VIRT_ADDR | c::MR_PROV_KEY;
    let atomics = c::ORDER_ATOMIC_RAR | c::ORDER_ATOMIC_RAW | c::ORDER_ATOMIC_WAR;
    hints.tx.msg_order = c::ORDER_SAS | atomics | c::ORDER_ATOMIC_WAW;
    hints.tx.iov_limit = tabane_rank::PIECES_MAX;
    let given = offered(c::version(2, 5), hints);
    assert_eq!(given.domain().max_ep_tx_ctx, 1);
    assert_eq!(given.domain().cq_data_size, 8);
    // Keys and offsets are its own, whatever it could do with.
    assert_eq!(given.domain().mr_mode, 0);
    assert_eq!(given.tx().iov_limit, tabane_rank::PIECES_MAX);
    assert_eq!(given.info().caps & caps, caps);
}

#[test]
fn intel_mpi_gets_what_it_asks_for() {
    // First it asks without hints, as of version 0.0.
    let given = Given::get(0, None).expect("it is offered");
    assert_eq!(given.domain().mr_mode, c::MR_SCALABLE);
    let mut hints = Hints::new(
        c::MSG | c::TAGGED | c::RMA | c::ATOMIC | c::MULTI_RECV | c::DIRECTED_RECV | c::SOURCE,
    );
    hints.tx.op_flags = c::DELIVERY_COMPLETE;
    hints.domain.threading = 3;
    hints.domain.av_type = c::AV_MAP;
    hints.domain.mr_mode = c::MR_BASIC;
    let given = offered(c::version(1, 5), hints);
    assert_eq!(given.tx().op_flags, c::DELIVERY_COMPLETE);
    assert_eq!(given.domain().mr_mode, c::MR_BASIC);
}

#[test]
fn without_hints_everything_is_offered_under_its_name() {
    for version in [0, c::version(1, 17), c::version(2, 6), c::version(9, 99)] {
        let given = Given::get(version, None).expect("it is offered");
        let info = given.info();
        assert_eq!(given.ep().kind, c::EP_RDM);
        // SAFETY: the names end in a zero byte.
        let names = unsafe {
            let fabric = &*info.fabric_attr;
            assert!(fabric.prov_name.is_null(), "libfabric writes it");
            [fabric.name, given.domain().name].map(|name| CStr::from_ptr(name))
        };
        assert_eq!(names, [c"tabane", c"tabane"]);
        assert_eq!(info.addr_format, c::FORMAT_UNSPEC);
        assert_eq!((info.src_addrlen, info.dest_addrlen), (name::BYTES, 0));
        assert!(info.nic.is_null() && info.dest_addr.is_null());
        assert_eq!(given.domain().threading, c::THREAD_SAFE);
        // It has its price, so it is for who asks.
        assert_eq!(info.caps & c::RMA_EVENT, 0);
        // Who has no wish finds those that are connected behind.
        // SAFETY: they are valid.
        unsafe {
            let next = &*info.next;
            assert_eq!((*next.ep_attr).kind, c::EP_MSG);
            assert_eq!(next.addr_format, c::SOCKADDR_IN);
            assert!(next.next.is_null());
        }
    }
}

/// What a program gets that asks for a host and a port.
fn located(
    hints: &mut Hints,
    node: Option<&CStr>,
    service: Option<&CStr>,
    flags: u64,
) -> Result<Given, i32> {
    let text = |text: Option<&CStr>| text.map_or(null(), CStr::as_ptr);
    let mut given: *mut Info = core::ptr::null_mut();
    // SAFETY: as a program calls it.
    let status = unsafe {
        let getinfo = (*crate::provider::provider()).getinfo;
        let (node, service) = (text(node), text(service));
        let hints = hints.pointer();
        getinfo(
            c::version(1, 18),
            node,
            service,
            flags,
            hints,
            &raw mut given,
        )
    };
    if status == 0 {
        Ok(Given(given))
    } else {
        Err(status)
    }
}

/// The addresses of an offer: its own, and that to be reached.
fn sockets(given: &Given) -> (Option<String>, Option<String>) {
    let info = given.info();
    let shown = |raw: *mut core::ffi::c_void, len| {
        // SAFETY: it is null, or so long.
        let raw = (!raw.is_null()).then(|| unsafe { core::slice::from_raw_parts(raw.cast(), len) });
        raw.map(|raw| name::parse_socket(raw).expect("is one").to_string())
    };
    (
        shown(info.src_addr, info.src_addrlen),
        shown(info.dest_addr, info.dest_addrlen),
    )
}

#[test]
fn who_is_to_be_connected_names_a_host_and_a_port() {
    let new = || {
        let mut hints = Hints::new(c::MSG);
        hints.ep.kind = c::EP_MSG;
        hints
    };
    let some = |text: &str| Some(text.to_owned());
    let given = located(&mut new(), None, Some(c"9228"), c::SOURCE).expect("it is offered");
    assert_eq!(sockets(&given), (some("0.0.0.0:9228"), None));
    assert_eq!(given.ep().kind, c::EP_MSG);
    assert!(given.info().next.is_null());
    let given = located(&mut new(), Some(c"127.0.0.1"), Some(c"7"), 0).expect("it is offered");
    assert_eq!(sockets(&given), (some("10.77.0.1:0"), some("127.0.0.1:7")));
    // What was found may be given as a hint.
    let mut again = new();
    again.info.dest_addr = given.info().dest_addr;
    again.info.dest_addrlen = given.info().dest_addrlen;
    again.info.addr_format = c::SOCKADDR_IN;
    let given = located(&mut again, None, None, 0).expect("it is offered");
    assert_eq!(sockets(&given).1, some("127.0.0.1:7"));
    for (node, service) in [(c"nowhere.invalid", c"7"), (c"127.0.0.1", c"seven")] {
        let refused = located(&mut new(), Some(node), Some(service), 0);
        assert_eq!(refused.err(), Some(NODATA));
    }
    let cases: &[fn(&mut Hints)] = &[
        |hints| hints.info.caps |= c::DIRECTED_RECV,
        |hints| hints.info.caps |= c::SOURCE,
        |hints| hints.info.addr_format = 5,
        |hints| hints.info.dest_addrlen = 3,
    ];
    for case in cases {
        let mut hints = new();
        hints.info.dest_addr = given.info().dest_addr;
        hints.info.dest_addrlen = given.info().dest_addrlen;
        case(&mut hints);
        refused(c::version(1, 18), hints);
    }
}

#[test]
fn what_it_was_given_it_may_ask_for() {
    let given = Given::get(c::version(1, 18), None).expect("it is offered");
    let provider = crate::provider::provider();
    let mut again: *mut Info = core::ptr::null_mut();
    // SAFETY: as a program calls it.
    let status = unsafe {
        ((*provider).getinfo)(
            c::version(1, 18),
            null(),
            null(),
            0,
            given.0,
            &raw mut again,
        )
    };
    assert_eq!(status, 0);
    let again = Given(again);
    assert_eq!(again.info().caps, given.info().caps);
    assert_eq!(again.ep().protocol, given.ep().protocol);
}

#[test]
fn what_is_not_here_is_refused() {
    let new = || Hints::new(c::TAGGED);
    let version = c::version(1, 18);
    let cases: &[fn(&mut Hints)] = &[
        |hints| hints.ep.kind = 2,
        |hints| hints.ep.protocol = 6,
        |hints| hints.ep.max_msg_size = (1 << 40) + 1,
        |hints| hints.ep.tx_ctx_cnt = 2,
        |hints| hints.ep.rx_ctx_cnt = usize::MAX,
        |hints| hints.ep.auth_key_size = 8,
        |hints| hints.info.caps = 1 << 5,
        |hints| hints.info.addr_format = 2,
        |hints| hints.tx.inject_size = tabane_rank::INJECT_BYTES_MAX + 1,
        |hints| hints.tx.iov_limit = tabane_rank::PIECES_MAX + 1,
        |hints| hints.tx.rma_iov_limit = 2,
        |hints| hints.tx.msg_order = 1 << 1,
        |hints| hints.tx.comp_order = 0x1ff,
        |hints| hints.tx.caps = c::RMA,
        |hints| hints.rx.op_flags = 1 << 30,
        |hints| hints.rx.size = usize::MAX,
        |hints| hints.domain.threading = 6,
        |hints| hints.domain.data_progress = 4,
        |hints| hints.domain.av_type = 3,
        |hints| hints.domain.mr_key_size = 9,
        |hints| hints.domain.cq_data_size = 9,
        |hints| hints.domain.max_ep_tx_ctx = 2,
        |hints| hints.domain.max_ep_srx_ctx = 1,
        |hints| hints.domain.mr_iov_limit = 2,
        |hints| hints.domain.ep_cnt = usize::MAX,
        |hints| hints.domain.caps = 1 << 53,
        |hints| hints.domain.name = c"eth0".as_ptr().cast_mut(),
        |hints| hints.fabric.name = c"IP".as_ptr().cast_mut(),
    ];
    for (number, change) in cases.iter().enumerate() {
        let mut hints = new();
        change(&mut hints);
        assert_eq!(
            Given::get(version, Some(&mut hints)).err(),
            Some(NODATA),
            "case {number}"
        );
    }
    // Bits that are capabilities only since 2.0.
    let mut directed = Hints::new(c::TAGGED | c::TAGGED_DIRECTED_RECV);
    assert!(Given::get(version, Some(&mut directed)).is_err());
    assert!(Given::get(c::version(2, 0), Some(&mut directed)).is_ok());
}

#[test]
fn nothing_is_layered_on_it() {
    let mut hints = Hints::new(c::MSG);
    let asked = Given::get_with(c::version(1, 17), c::CORE_PROV_ONLY, Some(&mut hints));
    assert_eq!(asked.err(), Some(NODATA));
}

#[test]
fn without_a_key_there_is_no_provider() {
    here::without_key(|| refused(c::version(1, 18), Hints::new(c::MSG)));
}

#[test]
fn who_does_not_ask_for_it_is_not_offered_it() {
    here::unwanted(|| {
        refused(c::version(1, 18), Hints::new(c::MSG));
        assert_eq!(Given::get(0, None).err(), Some(NODATA));
        let mut hints = Hints::new(c::MSG);
        hints.fabric.prov_name = c"tabane".as_ptr().cast_mut();
        offered(c::version(1, 18), hints);
    });
}

#[test]
fn a_destination_is_an_address_of_its_own_kind() {
    let address = tabane_rank::Address::new(&[(0, [10, 77, 0, 9].into())], 40_000, 99);
    let address = address.expect("is one");
    let mut raw = name::raw(&address);
    let mut hints = Hints::new(c::MSG);
    hints.info.dest_addr = raw.as_mut_ptr().cast();
    hints.info.dest_addrlen = raw.len();
    let given = Given::get(c::version(1, 18), Some(&mut hints)).expect("it is offered");
    assert_eq!(given.info().dest_addrlen, name::BYTES);
    // SAFETY: it is as long as it says.
    let told = unsafe { &*given.info().dest_addr.cast::<[u8; name::BYTES]>() };
    assert_eq!(*told, raw);
    hints.info.dest_addrlen = 3;
    assert_eq!(
        Given::get(c::version(1, 18), Some(&mut hints)).err(),
        Some(NODATA)
    );

    let by_node = |node: &CStr, flags| {
        let mut info: *mut Info = core::ptr::null_mut();
        // SAFETY: as a program calls it.
        let status = unsafe {
            let getinfo = (*crate::provider::provider()).getinfo;
            let service = c"9228".as_ptr();
            getinfo(0, node.as_ptr(), service, flags, null(), &raw mut info)
        };
        if status == 0 {
            Ok(Given(info))
        } else {
            Err(status)
        }
    };
    let shown = std::ffi::CString::new(name::shown(&address)).expect("is text");
    let given = by_node(&shown, 0).expect("it is offered");
    assert_eq!(given.info().dest_addrlen, name::BYTES);
    // A host is found by an endpoint that is connected.
    let host = by_node(c"127.0.0.1", 0).expect("it is offered");
    assert_eq!(host.ep().kind, c::EP_MSG);
    let own = by_node(c"127.0.0.1", c::SOURCE).expect("it is offered");
    assert_eq!(own.info().dest_addrlen, 0);
}

#[test]
fn who_names_the_provider_may_name_a_host_in_place_of_an_address() {
    let mut hints = Hints::new(c::MSG);
    hints.fabric.prov_name = c"tabane".as_ptr().cast_mut();
    let mut ask = |node: *const core::ffi::c_char| {
        let mut info: *mut Info = core::ptr::null_mut();
        let hints = hints.pointer();
        // SAFETY: as a program calls it.
        let status = unsafe {
            let getinfo = (*crate::provider::provider()).getinfo;
            getinfo(c::version(1, 18), node, null(), 0, hints, &raw mut info)
        };
        if status == 0 {
            Ok(Given(info))
        } else {
            Err(status)
        }
    };
    assert_eq!(ask(c"nowhere.invalid".as_ptr()).err(), Some(NODATA));
    let given = ask(c"localhost".as_ptr()).expect("it is offered");
    // SAFETY: it is as long as it says.
    let told = unsafe { *given.info().dest_addr.cast::<[u8; name::BYTES]>() };
    assert_eq!(
        (told, given.info().dest_addrlen),
        (name::UNKNOWN, name::BYTES)
    );
    // It may be given back.
    hints.info.dest_addr = given.info().dest_addr;
    hints.info.dest_addrlen = name::BYTES;
    assert!(Given::get(c::version(1, 18), Some(&mut hints)).is_ok());
}

#[test]
fn no_place_for_the_answer_is_an_error() {
    // SAFETY: null is what is tried.
    let status = unsafe {
        let getinfo = (*crate::provider::provider()).getinfo;
        getinfo(0, null(), null(), 0, null(), core::ptr::null_mut())
    };
    assert_eq!(status as isize, minus(errors::INVAL));
}

#[test]
fn only_a_fabric_of_its_name_is_opened() {
    let mut attr: crate::abi::fabric::FabricAttr = zeros();
    let mut fabric = core::ptr::null_mut();
    let mut open = |attr: *mut _| {
        // SAFETY: as libfabric calls it.
        unsafe {
            let open = (*crate::provider::provider()).fabric;
            open(attr, &raw mut fabric, core::ptr::null_mut())
        }
    };
    assert_eq!(open(&raw mut attr) as isize, minus(errors::INVAL));
    attr.name = c"IP".as_ptr().cast_mut();
    assert_eq!(open(&raw mut attr), NODATA);
    assert_eq!(open(core::ptr::null_mut()) as isize, minus(errors::INVAL));
}
