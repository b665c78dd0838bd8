//! The way back into C: results as numbers, and no panic beyond here.

use core::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::errors::{self, Outcome};
use crate::log;

/// Runs a function that returns a number of bytes or entries, or an error.
pub fn size(act: impl FnOnce() -> Outcome<usize>) -> isize {
    // A panic leaves only values of this crate behind, which tolerate it: poisoned locks are taken anyway.
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(size)) => size as isize,
        Ok(Err(errno)) => -(errno.0 as isize),
        Err(_) => {
            log::warn("a fault of the provider itself: please report it with the lines above");
            -(errors::OTHER.0 as isize)
        }
    }
}

/// Runs a function that returns 0 or an error.
pub fn status(act: impl FnOnce() -> Outcome<()>) -> c_int {
    number(|| act().map(|()| 0))
}

/// Runs a function that returns a small number or an error.
pub fn number(act: impl FnOnce() -> Outcome<usize>) -> c_int {
    // Errors and counts of addresses are below 2^31.
    size(act) as c_int
}

/// Runs a function that returns 0 or an error, where C has the longer type.
pub fn posted(act: impl FnOnce() -> Outcome<()>) -> isize {
    size(|| act().map(|()| 0))
}

/// Runs a function that cannot report an error.
pub fn value<T>(otherwise: T, act: impl FnOnce() -> Outcome<T>) -> T {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(value)) => value,
        _ => otherwise,
    }
}

/// An entry of a table that does not apply.
pub extern "C" fn absent() -> isize {
    -(errors::NOSYS.0 as isize)
}

/// `ops->bind` of objects without bindings.
///
/// # Safety
/// None is needed; the table's type has it.
pub unsafe extern "C" fn no_bind(
    _fid: *mut crate::abi::fabric::Fid,
    _to: *mut crate::abi::fabric::Fid,
    _flags: u64,
) -> c_int {
    -errors::NOSYS.0
}

/// `ops->close` of objects that the program does not close.
///
/// # Safety
/// None is needed; the table's type has it.
pub unsafe extern "C" fn no_close(_fid: *mut crate::abi::fabric::Fid) -> c_int {
    -errors::NOSYS.0
}

/// `ops->control` of objects without commands.
///
/// # Safety
/// None is needed; the table's type has it.
pub unsafe extern "C" fn no_control(
    _fid: *mut crate::abi::fabric::Fid,
    _command: c_int,
    _argument: *mut c_void,
) -> c_int {
    -errors::NOSYS.0
}

/// Writes a value to a place that C has given.
///
/// # Safety
/// It is null, or to memory for a `T` that nobody else uses now.
pub unsafe fn put<T>(place: *mut T, value: T) -> Outcome<()> {
    if place.is_null() {
        return Err(errors::INVAL);
    }
    // SAFETY: as above.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Reads at a pointer.
///
/// # Safety
/// It is null, or to a value that nobody changes or frees for `'a`.
pub unsafe fn given<'a, T>(pointer: *const T) -> Outcome<&'a T> {
    // SAFETY: as above.
    unsafe { pointer.as_ref() }.ok_or(errors::INVAL)
}

/// An array.
///
/// # Safety
/// It is null, or to so many values that nobody changes or frees for `'a`.
pub unsafe fn array<'a, T>(pointer: *const T, len: usize) -> Outcome<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(errors::INVAL);
    }
    // SAFETY: as above, and it is not null nor longer than an array can be.
    Ok(unsafe { core::slice::from_raw_parts(pointer, len) })
}

/// Copies text into a buffer of C's, truncated so that a zero byte follows; returns the buffer.
///
/// # Safety
/// The buffer is null, or has room for `len` bytes that nobody else uses now.
pub unsafe fn text(buffer: *mut c_char, len: usize, text: &str) -> *const c_char {
    let bytes = text.len().min(len.saturating_sub(1));
    if buffer.is_null() || len == 0 {
        return buffer;
    }
    // SAFETY: as above, and `bytes` and one more are no more than `len`.
    unsafe {
        buffer.copy_from_nonoverlapping(text.as_ptr().cast(), bytes);
        buffer.add(bytes).write(0);
    }
    buffer
}

/// Copies bytes into a buffer whose length C has given, as many as fit; the length becomes theirs. Returns whether
/// all fit.
///
/// # Safety
/// Both are null; or the length is nobody else's now, and the buffer is null or has room for that many bytes, which
/// nobody else uses now.
pub unsafe fn bytes_out(buffer: *mut c_void, len: *mut usize, bytes: &[u8]) -> Outcome<bool> {
    if len.is_null() {
        return Err(errors::INVAL);
    }
    // SAFETY: as above.
    let room = unsafe { *len };
    if room > 0 && buffer.is_null() {
        return Err(errors::INVAL);
    }
    let fit = room.min(bytes.len());
    // SAFETY: as above; `fit` is no more than the room.
    unsafe {
        buffer
            .cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), fit);
        *len = bytes.len();
    }
    Ok(fit == bytes.len())
}
