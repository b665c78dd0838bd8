//! A descriptor that one thread makes ready for another.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::sys::{check_fd, check_len};

/// An eventfd: readable from [`notify`](Notify::notify) until [`clear`](Notify::clear).
#[derive(Debug)]
pub struct Notify(OwnedFd);

impl Notify {
    /// One that is not readable.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new() -> io::Result<Notify> {
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        check_fd(fd).map(Notify)
    }

    /// Makes it readable.
    pub fn notify(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: `one` has the eight bytes that an eventfd takes.
        let written = unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        // It fails only if it was notified 2^64 times before: then it is readable.
        let _ = check_len(written);
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        let mut count = [0; 8];
        // SAFETY: `count` has room for the eight bytes that an eventfd gives.
        let read =
            unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        // It fails only if it is not readable.
        let _ = check_len(read);
    }
}

impl AsFd for Notify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::poll::{Interest, Poller};

    #[test]
    fn is_readable_from_notify_to_clear() {
        let (poller, notify) = (Poller::new().unwrap(), Notify::new().unwrap());
        poller.register(&notify, 3, Interest::Read).unwrap();
        let mut ready = Vec::new();
        for (count, is_ready) in [(0, false), (2, true), (0, false)] {
            (0..count).for_each(|_| notify.notify());
            poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
            assert_eq!(ready.len(), usize::from(is_ready));
            notify.clear();
        }
    }
}
