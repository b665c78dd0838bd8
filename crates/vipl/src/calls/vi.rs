//! VIs.

use core::ffi::{c_int, c_ulong, c_void};

use crate::abi::{self, INVALID_PARAMETER, Outcome, Return, ViAttributes};
use crate::guard;
use crate::nic::{self, Kind, Nic};
use crate::vi::{Attributes, Condition};
use crate::wire::Manner;

/// Reads C's attributes of a VI.
///
/// # Safety
/// As `vipl.h` says.
unsafe fn read(nic: &Nic, attributes: *const ViAttributes) -> Outcome<Attributes> {
    // SAFETY: as above.
    let attributes = unsafe { guard::given(attributes) }?;
    Ok(Attributes {
        reliability: attributes.reliability_level,
        transfer_bytes_max: attributes.transfer_bytes_max,
        quality: attributes.qos.expose_provenance(),
        ptag: nic.ptag(attributes.ptag)?,
        rdma_write: attributes.enable_rdma_write != 0,
        rdma_read: attributes.enable_rdma_read != 0,
    })
}

/// Attributes of a VI here, for C.
fn own(nic: &Nic, attributes: &Attributes) -> ViAttributes {
    ViAttributes {
        reliability_level: attributes.reliability,
        transfer_bytes_max: attributes.transfer_bytes_max as c_ulong,
        qos: core::ptr::with_exposed_provenance_mut(attributes.quality),
        ptag: nic.ptag_handle(attributes.ptag),
        enable_rdma_write: attributes.rdma_write.into(),
        enable_rdma_read: attributes.rdma_read.into(),
    }
}

/// Attributes of a remote VI, for C; its tag is meaningless here.
pub(super) fn remote(manner: &Manner) -> ViAttributes {
    ViAttributes {
        reliability_level: manner.reliability,
        transfer_bytes_max: manner.transfer_bytes_max as c_ulong,
        qos: core::ptr::with_exposed_provenance_mut(manner.quality as usize),
        ptag: core::ptr::null_mut(),
        enable_rdma_write: manner.writes.is_some().into(),
        enable_rdma_read: manner.reads.is_some().into(),
    }
}

// SAFETY: no other library of the process has these names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCreateVi(
    handle: *mut c_void,
    attributes: *const ViAttributes,
    send_cq: *mut c_void,
    receive_cq: *mut c_void,
    place: *mut *mut c_void,
) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        // SAFETY: as `vipl.h` says.
        let attributes = unsafe { read(&nic, attributes) }?;
        if place.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let cq = |handle: *mut c_void| match handle.is_null() {
            true => Ok(None),
            false => nic.id(handle, Kind::Cq).map(Some),
        };
        let (send_cq, receive_cq) = (cq(send_cq)?, cq(receive_cq)?);
        let vi = nic.with(|state, _| state.create_vi(attributes, send_cq, receive_cq))?;
        // SAFETY: as `vipl.h` says.
        unsafe { guard::put(place, nic.handle(Kind::Vi, vi)) }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipDestroyVi(handle: *mut c_void) -> Return {
    guard::result(|| {
        let (nic, vi) = nic::of(handle, Kind::Vi)?;
        nic.with(|state, _| state.destroy_vi(vi))
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryVi(
    handle: *mut c_void,
    condition: *mut c_int,
    attributes: *mut ViAttributes,
    sends_empty: *mut c_int,
    receives_empty: *mut c_int,
) -> Return {
    guard::result(|| {
        let (nic, id) = nic::of(handle, Kind::Vi)?;
        let (found, has, sends, receives) = nic.look(|state| {
            let vi = state.vi(id)?;
            let empty = (vi.sends.is_empty(), vi.receives.is_empty());
            Ok((vi.condition, vi.attributes, empty.0, empty.1))
        })?;
        let found = match found {
            Condition::Idle => abi::STATE_IDLE,
            Condition::Connected => abi::STATE_CONNECTED,
            Condition::Pending => abi::STATE_CONNECT_PENDING,
            Condition::Error => abi::STATE_ERROR,
        };
        // SAFETY: as `vipl.h` says.
        unsafe {
            guard::put(condition, found)?;
            guard::put(attributes, own(&nic, &has))?;
            guard::put(sends_empty, sends.into())?;
            guard::put(receives_empty, receives.into())
        }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipSetViAttributes(
    handle: *mut c_void,
    attributes: *const ViAttributes,
) -> Return {
    guard::result(|| {
        let (nic, vi) = nic::of(handle, Kind::Vi)?;
        // SAFETY: as `vipl.h` says.
        let attributes = unsafe { read(&nic, attributes) }?;
        nic.with(|state, _| state.set_attributes(vi, attributes))
    })
}
