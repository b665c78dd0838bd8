//! What the failure of a call says: something of what was asked for, or only that it could not be asked.

use std::io;

/// The kernel could not do it now: memory, buffers or descriptors are short, or something (a security module, a
/// seccomp filter) forbids it. That says nothing of what was asked for: all stays as it was known, and it is
/// asked again later.
#[must_use]
pub fn says_nothing(error: &io::Error) -> bool {
    let short = [libc::ENOMEM, libc::ENOBUFS, libc::EMFILE, libc::ENFILE];
    let number = error.raw_os_error();
    number.is_some_and(|number| short.contains(&number) || number == libc::EPERM)
}
