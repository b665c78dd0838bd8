//! Descriptors for programs that wait by poll or epoll.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use tabane_io::notify::Notify;

/// A descriptor that poll and epoll find readable while something is there; the function that
/// returned it says what. Only wait for it, do not read or write it. Each call returns the same
/// one, and it stays open as long as a value of it or its source exists.
///
/// Once the first was asked for, a helper thread runs the node while no thread of the program waits
/// in a call.
#[derive(Clone, Debug)]
pub struct Descriptor(pub(crate) Arc<Notify>);

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
