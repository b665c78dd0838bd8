//! C's arguments as Rust's types.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::time::Duration;

use tabane_library::Policy;

use crate::abi::{TABANE_AUTO, TABANE_MIRROR, TABANE_STRIPE};
use crate::failure::Failure;

/// The value at a pointer.
///
/// # Safety
/// It is null, or to a value that nobody changes but by shared reference, and frees, for `'a`.
pub unsafe fn value<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: as above.
    unsafe { pointer.as_ref() }.ok_or_else(|| is_null(what))
}

/// The value at a pointer, to be changed.
///
/// # Safety
/// It is null, or to a value that nobody else uses for `'a`.
pub unsafe fn value_mut<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: as above.
    unsafe { pointer.as_mut() }.ok_or_else(|| is_null(what))
}

/// The place for a result.
///
/// # Safety
/// It is null, or to memory for a `T` that nobody else uses for `'a`.
pub unsafe fn place<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut MaybeUninit<T>, Failure> {
    // SAFETY: as above; memory for a `T` is a MaybeUninit.
    unsafe { pointer.cast::<MaybeUninit<T>>().as_mut() }.ok_or_else(|| is_null(what))
}

/// The object to be freed.
///
/// # Safety
/// It is null, or what [`made`](crate::failure::made) returned, and nobody uses it now or later.
pub unsafe fn freed<T>(pointer: *mut T) -> Option<T> {
    // SAFETY: `made` returned a Box.
    (!pointer.is_null()).then(|| *unsafe { Box::from_raw(pointer) })
}

/// Text.
///
/// # Safety
/// It is null, or to bytes that end in a zero, and do not change for `'a`.
pub unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(is_null(what));
    }
    // SAFETY: as above.
    let text = unsafe { CStr::from_ptr(pointer) };
    let text = text.to_str();
    text.map_err(|_| Failure::argument(format!("{what} is not UTF-8")))
}

/// An array.
///
/// # Safety
/// It is null, or to so many values that do not change for `'a`.
pub unsafe fn array<'a, T>(pointer: *const T, len: usize, what: &str) -> Result<&'a [T], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    fits::<T>(pointer, len, what)?;
    // SAFETY: as above, and it is not null nor longer than an array can be.
    Ok(unsafe { core::slice::from_raw_parts(pointer, len) })
}

/// Bytes.
///
/// # Safety
/// As [`array`].
pub unsafe fn bytes<'a>(pointer: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: as above.
    unsafe { array(pointer.cast(), len, "the data") }
}

/// Room for bytes.
///
/// # Safety
/// It is null, or to so many bytes that nobody else uses for `'a`.
pub unsafe fn room<'a>(pointer: *mut c_void, len: usize) -> Result<&'a mut [u8], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    fits::<u8>(pointer.cast(), len, "the buffer")?;
    // SAFETY: as above, and it is not null nor too long. Any byte is a u8, and what C never wrote
    // there is only written to by the library.
    Ok(unsafe { core::slice::from_raw_parts_mut(pointer.cast(), len) })
}

fn fits<T>(pointer: *const T, len: usize, what: &str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(is_null(what));
    }
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        let text = format!("{what} cannot be as long as {len}");
        return Err(Failure::argument(text));
    }
    Ok(())
}

fn is_null(what: &str) -> Failure {
    Failure::argument(format!("{what} is NULL"))
}

/// A time to wait; negative: for ever.
pub fn timeout(timeout_ms: c_int) -> Duration {
    u64::try_from(timeout_ms).map_or(Duration::MAX, Duration::from_millis)
}

/// A policy.
pub fn policy(policy: c_int) -> Result<Policy, Failure> {
    match policy {
        TABANE_STRIPE => Ok(Policy::Stripe),
        TABANE_MIRROR => Ok(Policy::Mirror),
        TABANE_AUTO => Ok(Policy::Auto),
        _ => Err(Failure::argument(format!("there is no policy {policy}"))),
    }
}
