//! Connections.

use core::ffi::{c_ulong, c_void};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use super::until;
use super::vi::remote;
use crate::abi::{
    self, ERROR_RESOURCE, INVALID_PARAMETER, INVALID_STATE, NOT_DONE, NetAddress, Outcome, Return,
    ViAttributes,
};
use crate::address::Place;
use crate::guard;
use crate::nic::{self, Kind, Nic};
use crate::state::State;
use crate::wire::Manner;

/// Operations on a line have ended by then, or their end is unknown.
const DISCONNECT_MAX: Duration = Duration::from_secs(15);

/// This process's address for a connection.
///
/// # Errors
/// It is none, or of another node.
///
/// # Safety
/// As `vipl.h` says.
unsafe fn local(nic: &Nic, address: *const NetAddress) -> Outcome<Place> {
    // SAFETY: as above.
    let place = unsafe { Place::read(address, Some(nic.host)) }?;
    match place.host.is_same(nic.host) {
        true => Ok(place),
        false => Err(INVALID_PARAMETER),
    }
}

// SAFETY: no other library of the process has these names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectWait(
    handle: *mut c_void,
    local_address: *const NetAddress,
    timeout_ms: c_ulong,
    remote_address: *mut NetAddress,
    remote_attributes: *mut ViAttributes,
    caller_place: *mut *mut c_void,
) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        // SAFETY: as `vipl.h` says.
        let own = unsafe { local(&nic, local_address) }?.discriminator;
        let is_missing = remote_address.is_null() || remote_attributes.is_null();
        if is_missing || caller_place.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let until = until(timeout_ms);
        nic.open_door()?;
        nic.with(|state, _| {
            state.open_ears(&own);
            Ok(())
        })?;
        let found = nic.wait(until, |state| Ok(state.next_caller(&own)));
        // If it is closed, nothing needs to be done.
        let _ = nic.with(|state, _| {
            state.shut_ears(&own);
            Ok(())
        });
        let (caller, from, manner) = found?.ok_or(abi::TIMEOUT)?;
        // SAFETY: as `vipl.h` says.
        unsafe {
            from.write(remote_address)?;
            guard::put(remote_attributes, remote(&manner))?;
            guard::put(caller_place, nic.handle(Kind::Caller, caller))
        }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectAccept(caller: *mut c_void, vi: *mut c_void) -> Return {
    guard::result(|| {
        let (nic, caller) = nic::of(caller, Kind::Caller)?;
        let vi = nic.id(vi, Kind::Vi)?;
        nic.with(|state, core| {
            // The caller may have said meanwhile that it waits no longer.
            core.progress();
            state.drain(core);
            state.accept(core, caller, vi)
        })
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectReject(caller: *mut c_void) -> Return {
    guard::result(|| {
        let (nic, caller) = nic::of(caller, Kind::Caller)?;
        nic.with(|state, core| state.reject(core, caller))
    })
}

/// Begins to connect a VI.
///
/// # Safety
/// As `vipl.h` says.
unsafe fn request(
    (nic, vi): (&Arc<Nic>, u32),
    (from, to): (*const NetAddress, *const NetAddress),
    until: Option<Instant>,
    is_peer: bool,
) -> Outcome<()> {
    // SAFETY: as above.
    let places = unsafe { (local(nic, from)?, Place::read(to, None)?) };
    nic.with(|state, _| state.vi(vi).map(|_| ()))?;
    match is_peer {
        true => nic.open_door()?,
        false => nic.seek()?,
    }
    nic.with(|state, _| state.request(vi, places, until, is_peer))?;
    nic.rendezvous.wake.notify();
    Ok(())
}

/// How connecting a VI has ended, if it has; reported once.
fn outcome(state: &mut State, vi: u32, is_peer: bool) -> Outcome<Option<Manner>> {
    let vi = state.vi(vi)?;
    let request = vi.request.as_ref().filter(|r| r.is_peer == is_peer);
    match request.ok_or(INVALID_STATE)?.outcome {
        None => Ok(None),
        Some(outcome) => {
            vi.request = None;
            outcome.map(Some)
        }
    }
}

/// Waits until connecting a VI has ended, and gives C the other end's attributes. The
/// rendezvous ends requests that time out.
///
/// # Safety
/// As `vipl.h` says.
unsafe fn wait_connected(
    (nic, vi): (&Arc<Nic>, u32),
    is_peer: bool,
    remote_attributes: *mut ViAttributes,
) -> Outcome<()> {
    let found = nic.wait(None, |state| outcome(state, vi, is_peer))?;
    let manner = found.ok_or(ERROR_RESOURCE)?;
    // SAFETY: as above.
    unsafe { guard::put(remote_attributes, remote(&manner)) }
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectRequest(
    handle: *mut c_void,
    local_address: *const NetAddress,
    remote_address: *const NetAddress,
    timeout_ms: c_ulong,
    remote_attributes: *mut ViAttributes,
) -> Return {
    guard::result(|| {
        let (nic, vi) = nic::of(handle, Kind::Vi)?;
        if remote_attributes.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let until = until(timeout_ms);
        // SAFETY: as `vipl.h` says.
        unsafe {
            request((&nic, vi), (local_address, remote_address), until, false)?;
            wait_connected((&nic, vi), false, remote_attributes)
        }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerRequest(
    handle: *mut c_void,
    local_address: *const NetAddress,
    remote_address: *const NetAddress,
    timeout_ms: c_ulong,
) -> Return {
    guard::result(|| {
        let (nic, vi) = nic::of(handle, Kind::Vi)?;
        let until = until(timeout_ms);
        // SAFETY: as `vipl.h` says.
        unsafe { request((&nic, vi), (local_address, remote_address), until, true) }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerDone(
    handle: *mut c_void,
    remote_attributes: *mut ViAttributes,
) -> Return {
    guard::result(|| {
        let (nic, vi) = nic::of(handle, Kind::Vi)?;
        if remote_attributes.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let found = nic.look(|state| outcome(state, vi, true))?;
        // SAFETY: as `vipl.h` says.
        unsafe { guard::put(remote_attributes, remote(&found.ok_or(NOT_DONE)?)) }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerWait(
    handle: *mut c_void,
    remote_attributes: *mut ViAttributes,
) -> Return {
    guard::result(|| {
        let (nic, vi) = nic::of(handle, Kind::Vi)?;
        if remote_attributes.is_null() {
            return Err(INVALID_PARAMETER);
        }
        // SAFETY: as `vipl.h` says.
        unsafe { wait_connected((&nic, vi), true, remote_attributes) }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipDisconnect(handle: *mut c_void) -> Return {
    guard::result(|| {
        let (nic, vi) = nic::of(handle, Kind::Vi)?;
        nic.with(|state, core| {
            // Take in everything that came before this.
            core.progress();
            state.drain(core);
            state.disconnect(core, vi)
        })?;
        let until = Instant::now() + DISCONNECT_MAX;
        let is_over = nic.wait(Some(until), |state| {
            Ok(state.is_disconnected(vi).then_some(()))
        })?;
        is_over.ok_or(ERROR_RESOURCE)
    })
}
