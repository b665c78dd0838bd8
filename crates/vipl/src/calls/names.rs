//! The name service.

use core::ffi::{c_char, c_ulong, c_void};
use std::path::Path;

use crate::abi::{ERROR_NAMESERVICE, ERROR_RESOURCE, INVALID_PARAMETER, NetAddress, Return};
use crate::address::{HOST_BYTES, Place};
use crate::guard;
use crate::names::Names;
use crate::nic;

// SAFETY: no other library of the process has these names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSInit(handle: *mut c_void, _information: *mut c_void) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        let list = std::env::var("TABANE_VI_HOSTS").ok();
        let list = list.as_deref().filter(|list| !list.is_empty());
        let names = Names::load(list, Path::new(tabane_cluster::DEFAULT_PATH))?;
        nic.with(|state, _| {
            state.names = Some(names);
            Ok(())
        })
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSGetHostByName(
    handle: *mut c_void,
    name: *const c_char,
    place: *mut NetAddress,
    index: c_ulong,
) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        // SAFETY: as `vipl.h` says.
        let name = unsafe { guard::text(name) }?;
        if place.is_null() {
            return Err(INVALID_PARAMETER);
        }
        // A node has one address, however many links.
        if index != 0 {
            return Err(ERROR_NAMESERVICE);
        }
        let host = nic.with(|state, _| {
            let names = state.names.as_ref().ok_or(ERROR_NAMESERVICE)?;
            names.by_name(name, &state.host)
        })?;
        // The discriminator is the program's, which may have written it before.
        // SAFETY: as `vipl.h` says, there is room for a node's part of an address.
        unsafe {
            (*place).host_bytes = HOST_BYTES as u16;
            let bytes = (&raw mut (*place).host).cast::<u8>();
            bytes.copy_from_nonoverlapping(host.0.as_ptr(), HOST_BYTES);
        }
        Ok(())
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSGetHostByAddr(
    handle: *mut c_void,
    address: *const NetAddress,
    name_place: *mut c_char,
    bytes_place: *mut c_ulong,
) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        // SAFETY: as `vipl.h` says.
        let host = unsafe { Place::read(address, None) }?.host;
        if name_place.is_null() || bytes_place.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let name = nic.with(|state, _| {
            let names = state.names.as_ref().ok_or(ERROR_NAMESERVICE)?;
            names.by_host(&host).map(str::to_owned)
        })?;
        let needed = name.len() + 1;
        // SAFETY: as `vipl.h` says, the name's place has room for its length.
        unsafe {
            let room = bytes_place.read_unaligned();
            bytes_place.write_unaligned(needed as c_ulong);
            if room < needed as c_ulong {
                return Err(ERROR_RESOURCE);
            }
            let bytes = name_place.cast::<u8>();
            bytes.copy_from_nonoverlapping(name.as_ptr(), name.len());
            bytes.add(name.len()).write(0);
        }
        Ok(())
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipNSShutdown(handle: *mut c_void) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        nic.with(|state, _| {
            let was_there = state.names.take().is_some();
            was_there.then_some(()).ok_or(ERROR_NAMESERVICE)
        })
    })
}
