//! Options of an endpoint.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use tabane_rank::{ATOMIC_BYTES_MAX, INJECT_BYTES_MAX, OPERATION_BYTES_MAX};

use crate::abi::constants as c;
use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::Fid;
use crate::connection::DATA_BYTES_MAX;
use crate::guard;

use super::{Endpoint, endpoint};

/// `fi_getopt`.
///
/// # Safety
/// The endpoint is one of ours, the value a place of so many bytes.
pub unsafe extern "C" fn getopt(
    fid: *mut Fid,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    guard::status(|| {
        // SAFETY: as above.
        let endpoint = unsafe { endpoint(fid.cast()) }?;
        if level != c::OPT_ENDPOINT {
            return Err(errors::NOPROTOOPT);
        }
        let known = size_option(endpoint, option)?.to_ne_bytes();
        // SAFETY: as above.
        match unsafe { guard::bytes_out(value, len, &known) }? {
            true => Ok(()),
            false => Err(errors::TOOSMALL),
        }
    })
}

/// The value of an option that is a `size_t`.
fn size_option(endpoint: &Endpoint, option: c_int) -> Outcome<usize> {
    Ok(match option {
        c::OPT_MIN_MULTI_RECV => endpoint.min_multi_recv.load(Ordering::Relaxed),
        c::OPT_CM_DATA_SIZE if endpoint.is_connected => DATA_BYTES_MAX,
        c::OPT_MAX_MSG_SIZE | c::OPT_MAX_TAGGED_SIZE | c::OPT_MAX_RMA_SIZE => {
            OPERATION_BYTES_MAX as usize
        }
        c::OPT_MAX_ATOMIC_SIZE | c::OPT_INJECT_ATOMIC_SIZE => ATOMIC_BYTES_MAX,
        c::OPT_INJECT_MSG_SIZE | c::OPT_INJECT_TAGGED_SIZE | c::OPT_INJECT_RMA_SIZE => {
            INJECT_BYTES_MAX
        }
        _ => return Err(errors::NOPROTOOPT),
    })
}

/// `fi_setopt`.
///
/// # Safety
/// The endpoint is one of ours, the value so many bytes.
pub unsafe extern "C" fn setopt(
    fid: *mut Fid,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    guard::status(|| {
        // SAFETY: as above.
        let (endpoint, bytes) =
            unsafe { (endpoint(fid.cast())?, guard::array(value.cast(), len)?) };
        if level != c::OPT_ENDPOINT {
            return Err(errors::NOPROTOOPT);
        }
        match option {
            c::OPT_MIN_MULTI_RECV => {
                let bytes = usize::from_ne_bytes(exact(bytes)?);
                endpoint.min_multi_recv.store(bytes, Ordering::Relaxed);
                Ok(())
            }
            // Memory of devices is never touched, so leaving it alone can be promised.
            c::OPT_FI_HMEM_P2P if i32::from_ne_bytes(exact(bytes)?) == c::HMEM_P2P_DISABLED => {
                Ok(())
            }
            c::OPT_CUDA_API_PERMITTED => Ok(()),
            c::OPT_SHARED_MEMORY_PERMITTED if exact::<1>(bytes)? != [0] => Ok(()),
            c::OPT_FI_HMEM_P2P | c::OPT_SHARED_MEMORY_PERMITTED => Err(errors::OPNOTSUPP),
            // Sizes may be asked for that are there anyway.
            _ => {
                let most = size_option(endpoint, option)?;
                match usize::from_ne_bytes(exact(bytes)?) <= most {
                    true => Ok(()),
                    false => Err(errors::INVAL),
                }
            }
        }
    })
}

/// A value of just this length.
fn exact<const N: usize>(bytes: &[u8]) -> Outcome<[u8; N]> {
    bytes.try_into().map_err(|_| errors::INVAL)
}
