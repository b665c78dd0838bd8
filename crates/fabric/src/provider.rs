//! The provider's entry point for libfabric.

use core::ffi::{c_char, c_int, c_void};

use crate::abi::constants::version;
use crate::abi::fabric::{FabricAttr, FidFabric, Info, Provider};
use crate::object::Face;
use crate::{environment, fabric, guard, info, log};

/// The name of the provider, its fabric and its domain.
pub const NAME: &core::ffi::CStr = c"tabane";

/// The provider's own version: with two of one name, libfabric takes the higher.
pub const VERSION: u32 = version(0, 1);

/// The interface version that it claims. libfabric and programs skip a provider with an older version than they ask for;
/// MPICH 5 asks for 2.5, and the next will ask for more. Answers depend on the version asked for.
const FI_VERSION: u32 = version(9, 99);

static PROVIDER: Face<Provider> = Face::new(Provider {
    version: VERSION,
    fi_version: FI_VERSION,
    context: [core::ptr::null_mut(); 4],
    name: NAME.as_ptr(),
    getinfo,
    fabric: open_fabric,
    cleanup,
});

/// The provider, as libfabric knows it.
pub fn provider() -> *mut Provider {
    PROVIDER.get()
}

/// libfabric calls this once.
// SAFETY: no other function of the process has this name: each provider's is looked up in its own library.
#[unsafe(no_mangle)]
extern "C" fn fi_prov_ini() -> *mut Provider {
    // After a panic here `fi_info -g` lacks the variables; nothing else is affected.
    guard::status(|| {
        for (name, help) in environment::VARIABLES {
            log::define(name, help);
        }
        Ok(())
    });
    provider()
}

unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const Info,
    infos: *mut *mut Info,
) -> c_int {
    guard::status(|| {
        // SAFETY: libfabric gives null or what its `fi_getinfo` was given, converted to its own version.
        unsafe { info::getinfo(version, (node, service), flags, hints, infos) }
    })
}

unsafe extern "C" fn open_fabric(
    attr: *mut FabricAttr,
    place: *mut *mut FidFabric,
    context: *mut c_void,
) -> c_int {
    guard::status(|| {
        // SAFETY: libfabric gives valid attributes and the place of the program's pointer.
        unsafe { fabric::open(attr, place, context) }
    })
}

/// The library stays loaded, and endpoints end with their objects.
unsafe extern "C" fn cleanup() {}
