//! Descriptors for programs that wait by poll or epoll.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use tabane_io::notify::Notify;

/// A descriptor that poll and epoll find readable while something is there: what, says the function
/// that gave it. For nothing but waiting: what is read from it or written to it is no use to
/// anybody. It is the same one each time, and stays open as long as a value of it, or what gave
/// it.
///
/// From when the first was asked for, a helper thread runs the node while no thread of the program
/// waits in a call.
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
