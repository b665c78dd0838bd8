//! The meaning of a failed call: about its object, or only that the kernel could not do it. That something could not be
//! asked does not mean that it is gone.

use std::io;

/// The kernel could not do it now: memory, buffers or descriptors are short, or something (a security module, a seccomp
/// filter) forbids it. That says nothing about the object: keep the last known state, and ask again, ever later
/// (`crates/engine/src/setback.rs`). If what is ready cannot be taken, the next wait rests
/// ([`Poller::stumble`](crate::poll::Poller::stumble)).
#[must_use]
pub fn says_nothing(error: &io::Error) -> bool {
    let short = [libc::ENOMEM, libc::ENOBUFS, libc::EMFILE, libc::ENFILE];
    let number = error.raw_os_error();
    number.is_some_and(|number| short.contains(&number) || number == libc::EPERM)
}
