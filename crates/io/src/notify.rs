//! A descriptor that one thread makes ready for another.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};

/// An eventfd: readable from [`notify`](Notify::notify) until [`clear`](Notify::clear).
#[derive(Debug)]
pub struct Notify(OwnedFd);

impl Notify {
    /// One that is not readable.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new() -> io::Result<Notify> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Notify(eventfd(0, flags)?))
    }

    /// Makes it readable.
    pub fn notify(&self) {
        // It fails only if it was notified 2^64 times before: then it is readable.
        let _ = write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        // It fails only if it is not readable.
        let _ = read(&self.0, &mut [0; 8]);
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
