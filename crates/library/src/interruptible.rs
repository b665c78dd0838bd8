//! Calls that a signal handler ends, for programs that asked for it ([`Options::interruptible`](crate::Options::interruptible)).
//!
//! A driving thread is mostly awake when a handler runs, and would not notice it. So such a call waits as
//! a task does: the helper drives, and the thread sleeps until its bell rings.

use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::time::Instant;

use tabane_io::notify::Notify;
use tabane_io::poll::sleep;

use crate::Gone;
use crate::asynchronous::Waiting;
use crate::hub::{Hub, State, TimedOut};
use crate::waiting::Waiter;

/// Wakes one thread, which can tell the wake-up from a signal.
pub(crate) struct Bell {
    notify: Notify,
    has_rung: AtomicBool,
}

impl Bell {
    /// One for a single call: a thread's own would be shared with its forks.
    pub fn new() -> io::Result<Arc<Bell>> {
        Ok(Arc::new(Bell {
            notify: Notify::new()?,
            has_rung: AtomicBool::new(false),
        }))
    }

    /// Sleeps until it rings (`true`), a signal handler has run, or the time is over.
    fn sleep(&self, at_most: Duration) -> io::Result<bool> {
        sleep(at_most, &[self.notify.as_fd()])?;
        // Cleared first, so that a ring in between is not lost.
        self.notify.clear();
        Ok(self.has_rung.swap(false, Ordering::AcqRel))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.notify.notify();
    }
}

/// Waits as [`Hub::wait_for`] does, but for [`Gone::Interrupted`].
pub(crate) fn wait_for<R>(
    hub: &Hub,
    bell: &Arc<Bell>,
    until: Option<Instant>,
    poll: impl FnMut(&mut State, &mut Waiter) -> Poll<R>,
) -> Result<Result<R, TimedOut>, Gone> {
    let mut waiting = Waiting::new(hub);
    let mut asked = pin!(waiting.until(poll));
    let waker = Waker::from(Arc::clone(bell));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(result) = asked.as_mut().poll(&mut context) {
            return result.map(Ok);
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.unwrap_or(Duration::MAX);
        if left.is_zero() {
            return Ok(Err(TimedOut));
        }
        let begun = Instant::now();
        let has_rung = bell.sleep(left).map_err(|_| Gone::Broken)?;
        if !has_rung && begun.elapsed() < left {
            return Err(Gone::Interrupted);
        }
    }
}
