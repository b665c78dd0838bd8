//! A time limit for calls that cannot be made non-blocking, on descriptors that somebody else has as well
//! and may set to block: accept(2), connect(2), and close(2) of a lingering socket.

use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::time::Duration;

use crate::sys::check;

/// A signal that interrupts this thread, and no other, while an alarm is set. It belongs to the thread that
/// made it.
#[derive(Debug)]
pub struct Alarm {
    timer: libc::timer_t,
}

/// Its only effect is to interrupt.
extern "C" fn interrupt(_: libc::c_int) {}

impl Alarm {
    /// For this thread. From now on the process handles a signal of its own (SIGRTMAX), which does nothing.
    ///
    /// # Errors
    /// The system has no timer left.
    pub fn new() -> io::Result<Alarm> {
        let signal = libc::SIGRTMAX();
        // SAFETY: integers and pointers; all zero is a value.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = interrupt as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: `action` is a complete action without SA_RESTART, and its handler does nothing.
        check(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })?;
        // SAFETY: as above.
        let mut event: libc::sigevent = unsafe { mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        // SAFETY: takes no pointers.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer = MaybeUninit::<libc::timer_t>::uninit();
        // SAFETY: `event` is whole, and `timer` has room for one.
        check(unsafe {
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr())
        })?;
        Ok(Alarm {
            // SAFETY: it was made.
            timer: unsafe { timer.assume_init() },
        })
    }

    /// Does something in which no call waits longer than `each_call` (or a little longer): it then fails
    /// with [`Interrupted`](io::ErrorKind::Interrupted) or, if it is a close, goes on.
    pub fn bounds<T>(&self, each_call: Duration, work: impl FnOnce() -> T) -> T {
        // Again and again: the first one may come before a call begins to wait.
        self.set(each_call);
        let done = work();
        self.set(Duration::ZERO);
        done
    }

    fn set(&self, every: Duration) {
        let every = libc::timespec {
            tv_sec: every.as_secs() as _,
            tv_nsec: every.subsec_nanos() as libc::c_long,
        };
        let times = libc::itimerspec {
            it_interval: every,
            it_value: every,
        };
        // SAFETY: the timer is ours, and `times` outlives the call. It does not fail with times that are
        // times.
        unsafe { libc::timer_settime(self.timer, 0, &raw const times, ptr::null_mut()) };
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer is ours, and nobody uses it any more.
        unsafe { libc::timer_delete(self.timer) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use socket2::SockRef;

    use super::*;

    const BOUND: Duration = Duration::from_millis(1);
    /// How long an unlimited call would wait.
    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn an_accept_that_nobody_answers_is_interrupted() {
        let alarm = Alarm::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = SockRef::from(&listener);
        let accepted = alarm.bounds(BOUND, || listener.accept().map(drop));
        assert_eq!(accepted.unwrap_err().kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn a_close_that_lingers_is_interrupted() {
        let alarm = Alarm::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_unread, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        while socket.write(&[0; 1 << 16]).is_ok() {}
        SockRef::from(&socket).set_linger(Some(LONG)).unwrap();
        let began = Instant::now();
        alarm.bounds(BOUND, || drop(socket));
        assert!(began.elapsed() < LONG);
    }
}
