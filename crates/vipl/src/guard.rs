//! The way back into C: results as numbers, no panic beyond here, and what C gives, checked as far as it can be.

use core::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tabane_rank::environment::is_new;

use crate::abi::{ERROR_RESOURCE, INVALID_PARAMETER, Outcome, Return, SUCCESS};

/// Runs a function and returns its code.
pub fn result(act: impl FnOnce() -> Outcome<()>) -> Return {
    // A panic leaves only values of this crate behind, which tolerate it: poisoned locks are taken anyway.
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => code.0,
        Err(_) => {
            say("a fault of the library itself: please report it with the lines above");
            ERROR_RESOURCE.0
        }
    }
}

/// Prints a line for the user on standard error; once.
pub fn say(line: &str) {
    if is_new(line) {
        eprintln!("tabane: {line}");
    }
}

/// Reads at a pointer.
///
/// # Errors
/// It is null.
///
/// # Safety
/// It is null, or to a value that nobody changes or frees for `'a`.
pub unsafe fn given<'a, T>(pointer: *const T) -> Outcome<&'a T> {
    // SAFETY: as above.
    unsafe { pointer.as_ref() }.ok_or(INVALID_PARAMETER)
}

/// Gives C a value.
///
/// # Errors
/// The place is null.
///
/// # Safety
/// It is null, or to memory for a `T` that nobody else uses now.
pub unsafe fn put<T>(place: *mut T, value: T) -> Outcome<()> {
    if place.is_null() {
        return Err(INVALID_PARAMETER);
    }
    // SAFETY: as above.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Text of C's.
///
/// # Errors
/// It is null or not UTF-8.
///
/// # Safety
/// It is null, or text that ends in a zero byte and that nobody changes or frees for `'a`.
pub unsafe fn text<'a>(pointer: *const c_char) -> Outcome<&'a str> {
    if pointer.is_null() {
        return Err(INVALID_PARAMETER);
    }
    // SAFETY: as above.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| INVALID_PARAMETER)
}
