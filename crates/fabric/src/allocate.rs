//! Structures that libfabric frees: allocated by the C library, as large as in the newest libfabric and some more, so
//! that a still newer one finds zeros.

use core::ffi::CStr;

use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::{DomainAttr, EpAttr, FabricAttr, Info, NewDomainAttr, RxAttr, TxAttr};
use crate::info::Offer;
use crate::provider;

/// Zero bytes behind each structure.
const SPARE_BYTES: usize = 128;

/// Memory of zeros for a `T` and what libraries to come may have behind it.
fn zeroed<T>() -> Outcome<*mut T> {
    // SAFETY: it takes any numbers.
    let memory = unsafe { libc::calloc(1, size_of::<T>() + SPARE_BYTES) };
    if memory.is_null() {
        return Err(errors::NOMEM);
    }
    Ok(memory.cast())
}

fn copy_of<T>(value: T) -> Outcome<*mut T> {
    let place = zeroed::<T>()?;
    // SAFETY: the memory is new, and long enough.
    unsafe { place.write(value) };
    Ok(place)
}

fn text(text: &CStr) -> Outcome<*mut core::ffi::c_char> {
    // SAFETY: it ends in a zero byte.
    let copy = unsafe { libc::strdup(text.as_ptr()) };
    if copy.is_null() {
        return Err(errors::NOMEM);
    }
    Ok(copy)
}

fn bytes_of(bytes: &[u8]) -> Outcome<*mut core::ffi::c_void> {
    // SAFETY: it takes any numbers.
    let memory = unsafe { libc::calloc(1, bytes.len() + SPARE_BYTES) };
    if memory.is_null() {
        return Err(errors::NOMEM);
    }
    // SAFETY: the memory is new, and long enough.
    unsafe { memory.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
    Ok(memory)
}

/// Frees a structure, as libfabric does.
///
/// # Safety
/// It comes from [`info`], and nobody else has it.
pub unsafe fn free(info: *mut Info) {
    // SAFETY: all of these are the C library's, or null.
    unsafe {
        let whole = &*info;
        libc::free((*whole.domain_attr).name.cast());
        libc::free((*whole.fabric_attr).name.cast());
        libc::free((*whole.fabric_attr).prov_name.cast());
        for part in [
            whole.tx_attr.cast(),
            whole.rx_attr.cast(),
            whole.ep_attr.cast(),
            whole.domain_attr.cast(),
            whole.fabric_attr.cast(),
            whole.src_addr,
            whole.dest_addr,
            info.cast(),
        ] {
            libc::free(part);
        }
    }
}

/// The `fi_info` for the offer.
///
/// # Errors
/// There is no memory. The parts allocated before are lost then, as is the process.
pub fn info(offer: &Offer) -> Outcome<*mut Info> {
    let domain = NewDomainAttr {
        old: DomainAttr {
            name: text(provider::NAME)?,
            ..offer.domain
        },
        max_ep_auth_key: 0,
        max_group_id: 0,
        max_cntr_value: u64::MAX,
        max_err_cntr_value: u64::MAX,
        max_xpu_ctx_cnt: 0,
    };
    let fabric = FabricAttr {
        fabric: core::ptr::null_mut(),
        name: text(provider::NAME)?,
        // libfabric writes these three itself where it was asked.
        prov_name: match offer.api_version {
            0 => core::ptr::null_mut(),
            _ => text(provider::NAME)?,
        },
        prov_version: match offer.api_version {
            0 => 0,
            _ => provider::VERSION,
        },
        api_version: offer.api_version,
    };
    copy_of(Info {
        next: core::ptr::null_mut(),
        caps: offer.caps,
        mode: 0,
        addr_format: offer.addr_format,
        src_addrlen: offer.source.len(),
        dest_addrlen: offer.destination.as_ref().map_or(0, Vec::len),
        src_addr: bytes_of(&offer.source)?,
        dest_addr: match &offer.destination {
            Some(raw) => bytes_of(raw)?,
            None => core::ptr::null_mut(),
        },
        handle: offer.handle,
        tx_attr: copy_of::<TxAttr>(offer.tx)?,
        rx_attr: copy_of::<RxAttr>(offer.rx)?,
        ep_attr: copy_of::<EpAttr>(offer.ep)?,
        domain_attr: copy_of(domain)?.cast(),
        fabric_attr: copy_of(fabric)?,
        nic: core::ptr::null_mut(),
    })
}
