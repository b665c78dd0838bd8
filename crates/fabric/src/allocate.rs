//! Structures that libfabric frees: made by the C library, as long as the newest libfabric has them and some more, so
//! that one that is newer still finds zeros.

use core::ffi::CStr;

use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::{DomainAttr, EpAttr, FabricAttr, Info, NewDomainAttr, RxAttr, TxAttr};
use crate::info::Offer;
use crate::{name, provider};

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

/// The `fi_info` that makes the offer.
///
/// # Errors
/// There is no memory. What is there already of the structure is lost then, as is the process.
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
        // libfabric writes these three itself.
        prov_name: core::ptr::null_mut(),
        prov_version: 0,
        api_version: 0,
    };
    copy_of(Info {
        next: core::ptr::null_mut(),
        caps: offer.caps,
        mode: 0,
        addr_format: crate::abi::constants::FORMAT_UNSPEC,
        src_addrlen: name::BYTES,
        dest_addrlen: offer.destination.map_or(0, |raw| raw.len()),
        src_addr: copy_of(offer.source)?.cast(),
        dest_addr: match offer.destination {
            Some(raw) => copy_of(raw)?.cast(),
            None => core::ptr::null_mut(),
        },
        handle: core::ptr::null_mut(),
        tx_attr: copy_of::<TxAttr>(offer.tx)?,
        rx_attr: copy_of::<RxAttr>(offer.rx)?,
        ep_attr: copy_of::<EpAttr>(offer.ep)?,
        domain_attr: copy_of(domain)?.cast(),
        fabric_attr: copy_of(fabric)?,
        nic: core::ptr::null_mut(),
    })
}
