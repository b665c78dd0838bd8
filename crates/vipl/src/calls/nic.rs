//! NICs.

use core::ffi::{c_char, c_ulong, c_void};

use crate::abi::{self, AutodiscoveryList, ErrorHandler, INVALID_PARAMETER, NicAttributes, Return};
use crate::address::{DISCRIMINATOR_BYTES_MAX, HOST_BYTES};
use crate::names::Told;
use crate::nic::{self, Nic};
use crate::{cq, guard, memory, vi, work};

/// Bytes of one packet on plain Ethernet: the unit of a short message's cost.
const NATIVE_MTU: c_ulong = 1500;

// SAFETY: no other library of the process has these names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipOpenNic(name: *const c_char, handle: *mut *mut c_void) -> Return {
    guard::result(|| {
        // SAFETY: as `vipl.h` says.
        let name = unsafe { guard::text(name) }?;
        if handle.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let opened = Nic::open(name)?;
        // SAFETY: as `vipl.h` says.
        unsafe { guard::put(handle, opened) }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipCloseNic(handle: *mut c_void) -> Return {
    guard::result(|| nic::nic(handle)?.close())
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQueryNic(handle: *mut c_void, place: *mut NicAttributes) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        let mut name = [0; 64];
        // It is shorter than that.
        for (to, from) in name.iter_mut().zip(nic.name.bytes()) {
            *to = from as c_char;
        }
        let attributes = NicAttributes {
            name,
            hardware_version: 1,
            provider_version: 1,
            nic_address_bytes: HOST_BYTES as u16,
            local_nic_address: nic.host.0.as_ptr(),
            thread_safe: 1,
            discriminator_bytes_max: DISCRIMINATOR_BYTES_MAX as u16,
            register_bytes_max: memory::REGION_BYTES_MAX,
            register_regions_max: memory::REGIONS_MAX as c_ulong,
            register_block_bytes_max: memory::REGION_BYTES_MAX,
            vi_max: vi::VIS_MAX as c_ulong,
            descriptors_per_queue_max: work::DESCRIPTORS_MAX as c_ulong,
            segments_per_descriptor_max: work::SEGMENTS_MAX.into(),
            cq_max: cq::CQS_MAX as c_ulong,
            cq_entries_max: cq::ENTRIES_MAX,
            transfer_bytes_max: vi::TRANSFER_BYTES_MAX,
            native_mtu: NATIVE_MTU,
            ptags_max: memory::PTAGS_MAX as c_ulong,
            reliability_levels: abi::SERVICE_UNRELIABLE
                | abi::SERVICE_RELIABLE_DELIVERY
                | abi::SERVICE_RELIABLE_RECEPTION,
            rdma_read_levels: abi::SERVICE_RELIABLE_DELIVERY | abi::SERVICE_RELIABLE_RECEPTION,
        };
        // SAFETY: as `vipl.h` says.
        unsafe { guard::put(place, attributes) }
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipErrorCallback(
    handle: *mut c_void,
    context: *mut c_void,
    handler: Option<ErrorHandler>,
) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        nic.with(|state, _| {
            let context = context.expose_provenance();
            // Without one, errors are not reported.
            state.error_handler = handler.map(|handler| (context, handler));
            Ok(())
        })
    })
}

// SAFETY: as above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipQuerySystemManagementInfo(
    handle: *mut c_void,
    kind: c_ulong,
    place: *mut c_void,
) -> Return {
    guard::result(|| {
        let nic = nic::nic(handle)?;
        if kind != abi::SMI_AUTODISCOVERY || place.is_null() {
            return Err(INVALID_PARAMETER);
        }
        nic.with(|state, _| {
            let names = state.names.as_ref().ok_or(abi::ERROR_NAMESERVICE)?;
            let told = (state.told).get_or_insert_with(|| Told::new(names.hosts()));
            let (addresses, count) = told.list();
            let list = AutodiscoveryList {
                hops: 1,
                addresses,
                count: count as c_ulong,
            };
            // SAFETY: as `vipl.h` says, it has room for the list.
            unsafe { guard::put(place.cast(), list) }
        })
    })
}
