//! Signals as something to read.

use std::io;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use crate::sys::{check_fd, check_len};

/// A request to a daemon from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: end cleanly.
    Terminate,
    /// SIGINT (Ctrl-C): end cleanly.
    Interrupt,
    /// SIGHUP: the terminal is gone, or, by custom, read the configuration anew.
    Hangup,
    /// SIGABRT: a service manager ends all processes of a service with it when the watchdog was not
    /// fed. Only from [`Signals::with_abort`].
    Abort,
}

/// While it exists, this thread gets no signals; threads that it starts meanwhile never do. For a
/// library's threads in a program that handles signals in its own way.
pub struct Blocked {
    before: libc::sigset_t,
    /// It is of the thread that made it.
    _thread: PhantomData<*const ()>,
}

impl Blocked {
    /// Blocks all signals except those raised by a fault of the thread itself.
    ///
    /// # Errors
    /// Not expected.
    pub fn new() -> io::Result<Blocked> {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: `sigfillset` initialises the set before it is used; the signal numbers are
        // valid, so none of these can fail.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE] {
                libc::sigdelset(all.as_mut_ptr(), signal);
            }
        }
        // SAFETY: `all` is initialised, `before` has room for a mask.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr()) } {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        Ok(Blocked {
            // SAFETY: it succeeded, so the former mask is there.
            before: unsafe { before.assume_init() },
            _thread: PhantomData,
        })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: `before` is a mask; the new one is not asked for. With these it cannot fail.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut())
        };
    }
}

/// A descriptor that becomes readable when SIGTERM, SIGINT or SIGHUP arrives.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Takes over the three signals from this thread and those it starts from now on. So call it
    /// before any thread is started: a thread that does not block them would be killed. They stay
    /// blocked for good. (`std::process::Command` unblocks all signals in the programs it starts.)
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new() -> io::Result<Signals> {
        Signals::of(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
    }

    /// The same with SIGABRT: for a process that is not the hanging one. (`abort` still ends a
    /// process.)
    ///
    /// # Errors
    /// As [`Signals::new`].
    pub fn with_abort() -> io::Result<Signals> {
        Signals::of(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGABRT])
    }

    fn of(signals: &[libc::c_int]) -> io::Result<Signals> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set before it is used; the
        // signal numbers are valid, so none of these can fail.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), *signal);
            }
            set.assume_init()
        };
        // SAFETY: `set` is valid; the old mask is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) } {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: `set` is valid; -1 asks for a new descriptor.
        let fd = check_fd(unsafe { libc::signalfd(-1, &raw const set, flags) })?;
        Ok(Signals { fd })
    }

    /// The next signal that arrived, or `None`.
    ///
    /// # Errors
    /// Not expected.
    pub fn read(&mut self) -> io::Result<Option<Signal>> {
        // SAFETY: integers only; zero is a value.
        let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
        // SAFETY: pointer and length describe `info`.
        let read = check_len(unsafe {
            libc::read(
                self.fd.as_raw_fd(),
                (&raw mut info).cast(),
                size_of_val(&info),
            )
        });
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        Ok(match info.ssi_signo as libc::c_int {
            libc::SIGTERM => Some(Signal::Terminate),
            libc::SIGINT => Some(Signal::Interrupt),
            libc::SIGHUP => Some(Signal::Hangup),
            libc::SIGABRT => Some(Signal::Abort),
            _ => None,
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_instead_of_killing() {
        // In a process of its own, where no other test's thread is in the way.
        crate::isolated::isolated(
            "signals::tests::signals_are_read_instead_of_killing",
            || {
                let mut signals = Signals::with_abort().unwrap();
                assert_eq!(signals.read().unwrap(), None);
                for (number, wanted) in [
                    (libc::SIGTERM, Signal::Terminate),
                    (libc::SIGINT, Signal::Interrupt),
                    (libc::SIGHUP, Signal::Hangup),
                    (libc::SIGABRT, Signal::Abort),
                ] {
                    // SAFETY: sends this thread a signal it has blocked.
                    unsafe { libc::raise(number) };
                    assert_eq!(signals.read().unwrap(), Some(wanted));
                }
                assert_eq!(signals.read().unwrap(), None);
            },
        );
    }
}
