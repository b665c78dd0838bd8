//! Users and groups of this machine, by name.

use std::ffi::{CString, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Room for an entry of a database, bytes: a group's entry has all its members.
const ENTRY_BYTES: usize = 256 * 1024;

/// The numbers of a user and of its group; `None`: the machine has none of this name.
///
/// # Errors
/// The database cannot be read.
pub fn user(name: &str) -> io::Result<Option<(u32, u32)>> {
    let entry = find::<libc::passwd>(name, libc::getpwnam_r)?;
    Ok(entry.map(|entry| (entry.pw_uid, entry.pw_gid)))
}

/// The number of a group; `None`: the machine has none of this name.
///
/// # Errors
/// The database cannot be read.
pub fn group(name: &str) -> io::Result<Option<u32>> {
    let entry = find::<libc::group>(name, libc::getgrnam_r)?;
    Ok(entry.map(|entry| entry.gr_gid))
}

/// getpwnam_r(3), getgrnam_r(3).
type Lookup<T> = unsafe extern "C" fn(
    *const c_char,
    *mut T,
    *mut c_char,
    libc::size_t,
    *mut *mut T,
) -> libc::c_int;

/// An entry, whose pointers must not be followed.
fn find<T>(name: &str, look_up: Lookup<T>) -> io::Result<Option<T>> {
    let Ok(name) = CString::new(name) else {
        return Ok(None);
    };
    let mut entry = MaybeUninit::<T>::zeroed();
    let mut strings = vec![0 as c_char; ENTRY_BYTES];
    let mut found = ptr::null_mut();
    // SAFETY: the name ends with a zero; the entry and `found` may be written, and the strings for as many bytes as
    // is said.
    let error = unsafe {
        look_up(
            name.as_ptr(),
            entry.as_mut_ptr(),
            strings.as_mut_ptr(),
            strings.len(),
            &mut found,
        )
    };
    // Some databases return these if there is no entry (getpwnam(3)).
    let is_none = [0, libc::ENOENT, libc::ESRCH, libc::EBADF, libc::EPERM].contains(&error);
    if found.is_null() {
        return if is_none {
            Ok(None)
        } else {
            Err(io::Error::from_raw_os_error(error))
        };
    }
    // SAFETY: `found` is not null, so the entry was written; zeros are valid for all of its fields anyway.
    Ok(Some(unsafe { entry.assume_init() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_found() {
        assert_eq!(user("root").unwrap(), Some((0, 0)));
        assert_eq!(group("root").unwrap(), Some(0));
        for nobody in ["there-is-no-such-user", "", "with\0zero"] {
            assert_eq!(user(nobody).unwrap(), None);
            assert_eq!(group(nobody).unwrap(), None);
        }
    }
}
