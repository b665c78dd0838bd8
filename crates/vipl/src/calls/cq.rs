//! Completion queues.

use core::ffi::{c_int, c_ulong, c_void};

use super::until;
use crate::abi::{
    CqCallback, INVALID_PARAMETER, INVALID_STATE, NOT_DONE, Outcome, Return, TIMEOUT,
};
use crate::guard;
use crate::nic::{self, Kind, Nic};
use crate::state::Side;

/// Tells C whose descriptor is done.
///
/// # Safety
/// As `vipl.h` says.
unsafe fn give(
    nic: &Nic,
    (vi, side): (u32, Side),
    vi_place: *mut *mut c_void,
    is_receive: *mut c_int,
) -> Outcome<()> {
    // SAFETY: as above.
    unsafe {
        guard::put(vi_place, nic.handle(Kind::Vi, vi))?;
        guard::put(is_receive, (side == Side::Receive).into())
    }
}

// SAFETY: no other library of the process has these names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreateCQ(
    handle: *mut c_void,
    count: c_ulong,
    place: *mut *mut c_void,
) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        if place.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let cq = nic.with(|state, _| state.create_cq(count))?;
        // SAFETY: as `vipl.h` says.
        unsafe { guard::put(place, nic.handle(Kind::Cq, cq)) }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipDestroyCQ(handle: *mut c_void) -> Return {
    guard::result(|| {
        let (nic, cq) = nic::of(handle, Kind::Cq)?;
        nic.with(|state, _| state.destroy_cq(cq))
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipResizeCQ(handle: *mut c_void, count: c_ulong) -> Return {
    guard::result(|| {
        let (nic, cq) = nic::of(handle, Kind::Cq)?;
        nic.with(|state, _| state.resize_cq(cq, count))
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCQDone(
    handle: *mut c_void,
    vi_place: *mut *mut c_void,
    is_receive: *mut c_int,
) -> Return {
    guard::result(|| {
        let (nic, cq) = nic::of(handle, Kind::Cq)?;
        if vi_place.is_null() || is_receive.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let there = nic.with(|state, _| state.next_done(cq));
        let found = match there {
            Err(NOT_DONE) => nic.look(|state| state.next_done(cq))?,
            found => found?,
        };
        // SAFETY: as `vipl.h` says.
        unsafe { give(&nic, found, vi_place, is_receive) }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCQWait(
    handle: *mut c_void,
    timeout_ms: c_ulong,
    vi_place: *mut *mut c_void,
    is_receive: *mut c_int,
) -> Return {
    guard::result(|| {
        let (nic, cq) = nic::of(handle, Kind::Cq)?;
        if vi_place.is_null() || is_receive.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let found = nic.wait(until(timeout_ms), |state| match state.next_done(cq) {
            Err(NOT_DONE) => Ok(None),
            found => found.map(Some),
        })?;
        // SAFETY: as `vipl.h` says.
        unsafe { give(&nic, found.ok_or(TIMEOUT)?, vi_place, is_receive) }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCQNotify(
    handle: *mut c_void,
    context: *mut c_void,
    handler: Option<CqCallback>,
) -> Return {
    guard::result(|| {
        let (nic, cq) = nic::of(handle, Kind::Cq)?;
        let handler = handler.ok_or(INVALID_PARAMETER)?;
        nic.with(|state, _| {
            let queue = state.cq(cq)?;
            if queue.notice.is_some() {
                return Err(INVALID_STATE);
            }
            queue.notice = Some((context.expose_provenance(), handler));
            state.notices += 1;
            state.is_news = true;
            state.notify_cq(cq);
            Ok(())
        })
    })
}
