//! Descriptors.

use core::ffi::{c_ulong, c_void};

use super::until;
use crate::abi::{
    Code, DESCRIPTOR_ERROR, Descriptor, INVALID_PARAMETER, INVALID_STATE, NOT_DONE, Outcome,
    Return, TIMEOUT, ViCallback,
};
use crate::guard;
use crate::nic::{self, Kind};
use crate::queue::Notice;
use crate::state::{Side, State};

fn post(handle: *mut c_void, side: Side, descriptor: *mut Descriptor, region: u32) -> Return {
    guard::result(|| {
        let (nic, vi) = nic::of(handle, Kind::Vi)?;
        nic.with(|state, core| {
            // SAFETY: as `vipl.h` says, the descriptor is the program's until it is done.
            unsafe { state.post_descriptor(core, vi, side, descriptor, region) }
        })
    })
}

/// The oldest descriptor of a queue, if it is done, and whether it ended well.
fn fetch(state: &mut State, vi: u32, side: Side) -> Outcome<Option<(usize, bool)>> {
    let found = state.vi(vi)?.queue(side).fetch();
    Ok(found.map(|(descriptor, is_well)| (descriptor.expose_provenance(), is_well)))
}

/// Gives C a descriptor that is done.
///
/// # Safety
/// As `vipl.h` says.
unsafe fn give(
    found: Option<(usize, bool)>,
    otherwise: Code,
    place: *mut *mut Descriptor,
) -> Outcome<()> {
    let (descriptor, is_well) = found.ok_or(otherwise)?;
    // SAFETY: as above.
    unsafe { guard::put(place, core::ptr::with_exposed_provenance_mut(descriptor)) }?;
    match is_well {
        true => Ok(()),
        false => Err(DESCRIPTOR_ERROR),
    }
}

fn done(handle: *mut c_void, side: Side, place: *mut *mut Descriptor) -> Return {
    guard::result(|| {
        let (nic, vi) = nic::of(handle, Kind::Vi)?;
        if place.is_null() {
            return Err(INVALID_PARAMETER);
        }
        // Return what is there already before taking in more: consecutive messages share packets.
        let there = nic.with(|state, _| fetch(state, vi, side))?;
        let found = match there {
            Some(found) => Some(found),
            None => nic.look(|state| fetch(state, vi, side))?,
        };
        // SAFETY: as `vipl.h` says.
        unsafe { give(found, NOT_DONE, place) }
    })
}

fn wait(
    handle: *mut c_void,
    side: Side,
    timeout_ms: c_ulong,
    place: *mut *mut Descriptor,
) -> Return {
    guard::result(|| {
        let (nic, vi) = nic::of(handle, Kind::Vi)?;
        if place.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let found = nic.wait(until(timeout_ms), |state| fetch(state, vi, side))?;
        // SAFETY: as `vipl.h` says.
        unsafe { give(found, TIMEOUT, place) }
    })
}

fn notify(
    handle: *mut c_void,
    side: Side,
    context: *mut c_void,
    handler: Option<ViCallback>,
) -> Return {
    guard::result(|| {
        let (nic, id) = nic::of(handle, Kind::Vi)?;
        let handler = handler.ok_or(INVALID_PARAMETER)?;
        nic.with(|state, _| {
            let queue = state.vi(id)?.queue(side);
            // Its completion queue reports it; or somebody waits already.
            if queue.cq.is_some() || queue.notice.is_some() {
                return Err(INVALID_STATE);
            }
            queue.notice = Some(Notice {
                context: context.expose_provenance(),
                handler,
            });
            state.notices += 1;
            state.is_news = true;
            state.notify(id, side, None);
            Ok(())
        })
    })
}

// SAFETY: no other library of the process has these names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipPostSend(
    vi: *mut c_void,
    descriptor: *mut Descriptor,
    region: u32,
) -> Return {
    post(vi, Side::Send, descriptor, region)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipPostRecv(
    vi: *mut c_void,
    descriptor: *mut Descriptor,
    region: u32,
) -> Return {
    post(vi, Side::Receive, descriptor, region)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendDone(vi: *mut c_void, place: *mut *mut Descriptor) -> Return {
    done(vi, Side::Send, place)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvDone(vi: *mut c_void, place: *mut *mut Descriptor) -> Return {
    done(vi, Side::Receive, place)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendWait(
    vi: *mut c_void,
    timeout_ms: c_ulong,
    place: *mut *mut Descriptor,
) -> Return {
    wait(vi, Side::Send, timeout_ms, place)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvWait(
    vi: *mut c_void,
    timeout_ms: c_ulong,
    place: *mut *mut Descriptor,
) -> Return {
    wait(vi, Side::Receive, timeout_ms, place)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSendNotify(
    vi: *mut c_void,
    context: *mut c_void,
    handler: Option<ViCallback>,
) -> Return {
    notify(vi, Side::Send, context, handler)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRecvNotify(
    vi: *mut c_void,
    context: *mut c_void,
    handler: Option<ViCallback>,
) -> Return {
    notify(vi, Side::Receive, context, handler)
}
