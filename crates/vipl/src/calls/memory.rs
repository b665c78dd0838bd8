//! Protection tags and memory.

use core::ffi::{c_ulong, c_void};

use crate::abi::{INVALID_PARAMETER, INVALID_PTAG, MemAttributes, Outcome, Return};
use crate::guard;
use crate::memory::Rights;
use crate::nic::{self, Kind, Nic};

/// Reads C's memory attributes.
///
/// # Safety
/// As `vipl.h` says.
unsafe fn rights(nic: &Nic, attributes: *const MemAttributes) -> Outcome<Rights> {
    // SAFETY: as above.
    let attributes = unsafe { guard::given(attributes) }?;
    Ok(Rights {
        ptag: nic.ptag(attributes.ptag)?,
        write: attributes.enable_rdma_write != 0,
        read: attributes.enable_rdma_read != 0,
    })
}

// SAFETY: no other library of the process has these names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreatePtag(handle: *mut c_void, place: *mut *mut c_void) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        if place.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let ptag = nic.with(|state, _| state.create_ptag())?;
        // SAFETY: as `vipl.h` says.
        unsafe { guard::put(place, nic.ptag_handle(ptag)) }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipDestroyPtag(handle: *mut c_void, ptag: *mut c_void) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        let ptag = nic.id(ptag, Kind::Ptag)?;
        nic.with(|state, _| state.destroy_ptag(ptag))
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipRegisterMem(
    handle: *mut c_void,
    base: *mut c_void,
    bytes: c_ulong,
    attributes: *const MemAttributes,
    place: *mut u32,
) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        // SAFETY: as `vipl.h` says.
        let rights = unsafe { rights(&nic, attributes) }?;
        if place.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let base = base.expose_provenance();
        let region = nic.with(|state, core| {
            if !state.ptags.contains_key(&rights.ptag) {
                return Err(INVALID_PTAG);
            }
            state.register(core, base, bytes, rights)
        })?;
        // SAFETY: as `vipl.h` says.
        unsafe { guard::put(place, region) }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipDeregisterMem(
    handle: *mut c_void,
    base: *mut c_void,
    region: u32,
) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        nic.with(|state, core| state.deregister(core, region, base.addr()))
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSetMemAttributes(
    handle: *mut c_void,
    base: *mut c_void,
    region: u32,
    attributes: *const MemAttributes,
) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        // SAFETY: as `vipl.h` says.
        let rights = unsafe { rights(&nic, attributes) }?;
        nic.with(|state, core| state.set_rights(core, region, base.addr(), rights))
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryMem(
    handle: *mut c_void,
    base: *mut c_void,
    region: u32,
    place: *mut MemAttributes,
) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        let rights = nic.with(|state, _| Ok(state.region_at(region, base.addr())?.rights))?;
        let attributes = MemAttributes {
            ptag: nic.ptag_handle(rights.ptag),
            enable_rdma_write: rights.write.into(),
            enable_rdma_read: rights.read.into(),
        };
        // SAFETY: as `vipl.h` says.
        unsafe { guard::put(place, attributes) }
    })
}
