//! Waiting for many descriptors at once.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::sys::{check, check_fd};

/// How many descriptors one [`Poller::wait`] reports at most. More that are
/// ready come with the next call.
pub const READY_MAX: usize = 64;

/// Longest rest of a wait, ms, after something could not be accepted: shorter than a peer takes to think a
/// path silent.
const REST_MAX_MS: u64 = 16;

/// Events to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Something to read, or room to write.
    ReadWrite,
    /// Something to read, and whether it is urgent (TCP, MSG_OOB).
    ReadUrgent,
    /// The same, or room to write.
    ReadUrgentWrite,
    /// Room to write.
    Write,
    /// Nothing, except errors.
    Nothing,
    /// An error or hang-up, each once and not for as long as it lasts.
    Failure,
}

impl Interest {
    fn events(self) -> u32 {
        (match self {
            Interest::Read => libc::EPOLLIN,
            Interest::ReadWrite => libc::EPOLLIN | libc::EPOLLOUT,
            Interest::ReadUrgent => libc::EPOLLIN | libc::EPOLLPRI,
            Interest::ReadUrgentWrite => libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLOUT,
            Interest::Write => libc::EPOLLOUT,
            Interest::Nothing => 0,
            Interest::Failure => libc::EPOLLET,
        }) as u32
    }
}

/// One descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The number it was registered with.
    pub token: u64,
    /// A read will not block. Also true on an error or hang-up, so that a pure reader meets the error there.
    pub readable: bool,
    /// A write will not block; only reported if asked for.
    pub writable: bool,
    /// Urgent data can be read (EPOLLPRI); only reported if asked for.
    pub urgent: bool,
    /// The descriptor is in error or its other end is gone (EPOLLERR, EPOLLHUP).
    pub failed: bool,
}

/// An epoll instance, level triggered (except [`Interest::Failure`]), with timeouts in nanoseconds. Several
/// threads may wait at once; each gets all events. Its own descriptor is readable while anything is ready.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    /// Cleared when the kernel (before 5.11) or a seccomp filter refuses `epoll_pwait2`.
    nanoseconds: AtomicBool,
    /// Something could not be taken since the last wait.
    has_stumbled: AtomicBool,
    /// How long the last wait rested for that, ms.
    rest_ms: AtomicU64,
}

impl Poller {
    /// A poller without registrations.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new() -> io::Result<Poller> {
        // SAFETY: takes no pointers.
        let epoll = check_fd(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Poller {
            epoll,
            nanoseconds: AtomicBool::new(true),
            has_stumbled: AtomicBool::new(false),
            rest_ms: AtomicU64::new(0),
        })
    }

    /// Something that was ready could not be taken, for want of memory, say, and is ready still: it would end
    /// wait after wait at once. So the next one rests first, ever longer (1 to 16 ms) while it goes on.
    pub fn stumble(&self) {
        self.has_stumbled.store(true, Ordering::Relaxed);
    }

    fn rest(&self) {
        let has_stumbled = self.has_stumbled.load(Ordering::Relaxed);
        let before = self.rest_ms.load(Ordering::Relaxed);
        if !has_stumbled && before == 0 {
            return;
        }
        let rest = match has_stumbled {
            true => (before * 2).clamp(1, REST_MAX_MS),
            false => 0,
        };
        self.has_stumbled.store(false, Ordering::Relaxed);
        self.rest_ms.store(rest, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(rest));
    }

    /// Starts waiting for `fd`; reports carry `token`. Closing the last
    /// descriptor of the file ends it, as does [`Poller::deregister`].
    ///
    /// # Errors
    /// `AlreadyExists` when registered before; `PermissionDenied` (EPERM) for
    /// regular files, which are always ready.
    pub fn register(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, &fd, token, interest.events())
    }

    /// Changes the token and what to wait for.
    ///
    /// # Errors
    /// `NotFound` when it was not registered.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, &fd, token, interest.events())
    }

    /// Stops waiting for `fd`.
    ///
    /// # Errors
    /// `NotFound` when it was not registered.
    pub fn deregister(&self, fd: impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, &fd, 0, 0)
    }

    fn control(&self, operation: i32, fd: &impl AsFd, token: u64, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        let (epoll, fd) = (self.epoll.as_raw_fd(), fd.as_fd().as_raw_fd());
        // SAFETY: both descriptors are open (borrowed), `event` is a valid structure.
        check(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) })?;
        Ok(())
    }

    /// Waits until something is ready, a signal handler ran, or `timeout` has
    /// passed (`None`: for ever; zero: only looks). Replaces the content of
    /// `out`, which is left empty after a timeout or a signal.
    ///
    /// # Errors
    /// None in practice; a kernel out of memory.
    pub fn wait(&self, timeout: Option<Duration>, out: &mut Vec<Ready>) -> io::Result<()> {
        out.clear();
        self.rest();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; READY_MAX];
        let count = match self.wait_raw(timeout, &mut events) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        out.extend(events[..count].iter().map(|event| {
            let (flags, token) = (event.events as i32, event.u64);
            let failed = flags & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            Ready {
                token,
                readable: failed || flags & libc::EPOLLIN != 0,
                writable: flags & libc::EPOLLOUT != 0,
                urgent: flags & libc::EPOLLPRI != 0,
                failed,
            }
        }));
        Ok(())
    }

    fn wait_raw(
        &self,
        timeout: Option<Duration>,
        events: &mut [libc::epoll_event; READY_MAX],
    ) -> io::Result<usize> {
        // Looking without sleeping needs no nanoseconds, and `epoll_wait` is
        // the shorter way through the kernel.
        if self.nanoseconds.load(Ordering::Relaxed) && timeout != Some(Duration::ZERO) {
            match self.pwait2(timeout, events) {
                // EPERM: seccomp filters of older container engines.
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.nanoseconds.store(false, Ordering::Relaxed);
                }
                result => return result,
            }
        }
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: `events` has room for READY_MAX entries.
        let count = check(unsafe {
            libc::epoll_wait(
                epoll,
                events.as_mut_ptr(),
                READY_MAX as i32,
                milliseconds(timeout),
            )
        })?;
        Ok(count as usize)
    }

    fn pwait2(
        &self,
        timeout: Option<Duration>,
        events: &mut [libc::epoll_event; READY_MAX],
    ) -> io::Result<usize> {
        let timeout = timeout.map(timespec);
        let timeout = timeout
            .as_ref()
            .map_or(std::ptr::null(), |t| t as *const libc::timespec);
        // By number: the C library has the function only since glibc 2.35.
        // SAFETY: `events` has room for READY_MAX entries, `timeout` is null or
        // points to a timespec that outlives the call, no signal mask is given.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                READY_MAX,
                timeout,
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        Ok(check(count as i32)? as usize)
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Sleeps for this long, or until one of at most two descriptors is readable or a signal handler ran.
///
/// # Errors
/// None in practice; a kernel out of memory.
pub fn sleep(at_most: Duration, unless: &[BorrowedFd<'_>]) -> io::Result<()> {
    fn watched<'fd>(fd: &BorrowedFd<'fd>) -> PollFd<'fd> {
        PollFd::from_borrowed_fd(*fd, PollFlags::IN)
    }
    let timeout = timeout(at_most);
    let woken = match unless {
        [] => poll(&mut [], Some(&timeout)),
        [one] => poll(&mut [watched(one)], Some(&timeout)),
        [one, other] => poll(&mut [watched(one), watched(other)], Some(&timeout)),
        _ => panic!("too many descriptors"),
    };
    match woken {
        Err(error) if error != Errno::INTR => Err(error.into()),
        _ => Ok(()),
    }
}

/// The same for a system call, at most some 68 years.
pub(crate) fn timeout(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().min(i32::MAX as u64) as i64,
        tv_nsec: time.subsec_nanos().into(),
    }
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// For kernels without nanoseconds: rounded up, so that a timer is never early
/// (an early wake-up would find nothing due and spin).
fn milliseconds(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |t| {
        t.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    fn pair() -> (Poller, UnixStream, UnixStream) {
        let (a, b) = UnixStream::pair().unwrap();
        (Poller::new().unwrap(), a, b)
    }

    #[test]
    fn reports_what_is_ready_with_its_token_until_it_is_read() {
        let (poller, mut a, mut b) = pair();
        poller.register(&b, u64::MAX, Interest::Read).unwrap();
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        a.write_all(b"x").unwrap();
        for _ in 0..2 {
            poller.wait(None, &mut ready).unwrap();
            let wanted = Ready {
                token: u64::MAX,
                readable: true,
                writable: false,
                urgent: false,
                failed: false,
            };
            assert_eq!(ready, [wanted]);
        }
        b.read_exact(&mut [0]).unwrap();
        poller
            .wait(Some(Duration::from_nanos(1)), &mut ready)
            .unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn interest_can_be_changed_and_withdrawn() {
        let (poller, a, _b) = pair();
        let mut ready = Vec::new();
        poller.register(&a, 1, Interest::ReadWrite).unwrap();
        poller.wait(None, &mut ready).unwrap();
        assert!(ready[0].writable && !ready[0].readable);
        poller.modify(&a, 2, Interest::Read).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        poller.deregister(&a).unwrap();
        assert_eq!(
            poller.deregister(&a).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn a_vanished_other_end_is_readable_and_failed() {
        let (poller, a, b) = pair();
        poller.register(&b, 7, Interest::Read).unwrap();
        drop(a);
        let mut ready = Vec::new();
        poller.wait(None, &mut ready).unwrap();
        assert!(ready[0].readable && ready[0].failed);
    }

    #[test]
    fn what_cannot_be_taken_ends_ever_fewer_waits() {
        let (poller, mut a, b) = pair();
        poller.register(&b, 0, Interest::Read).unwrap();
        a.write_all(b"x").unwrap();
        let mut ready = Vec::new();
        let mut rested = Vec::new();
        for _ in 0..7 {
            poller.wait(None, &mut ready).unwrap();
            assert_eq!(ready.len(), 1, "it is ready still");
            rested.push(poller.rest_ms.load(Ordering::Relaxed));
            poller.stumble();
        }
        assert_eq!(rested, [0, 1, 2, 4, 8, 16, 16]);
        for _ in 0..2 {
            poller.wait(None, &mut ready).unwrap();
        }
        assert_eq!(poller.rest_ms.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_sleep_lasts_unless_one_of_the_descriptors_can_be_read() {
        let (_, mut a, b) = pair();
        let (c, _d) = UnixStream::pair().unwrap();
        let fds = [c.as_fd(), b.as_fd()];
        let short = Duration::from_millis(2);
        for fds in [&[][..], &fds] {
            let start = Instant::now();
            sleep(short, fds).unwrap();
            assert!(start.elapsed() >= short);
        }
        a.write_all(b"x").unwrap();
        // A failed test would wait here for an hour.
        sleep(Duration::from_secs(3600), &fds).unwrap();
    }

    #[test]
    fn never_wakes_before_the_timeout_with_or_without_nanoseconds() {
        let (poller, _a, b) = pair();
        poller.register(&b, 0, Interest::Read).unwrap();
        let mut ready = Vec::new();
        for nanoseconds in [true, false] {
            poller.nanoseconds.store(nanoseconds, Ordering::Relaxed);
            let timeout = Duration::from_micros(1500);
            let start = Instant::now();
            poller.wait(Some(timeout), &mut ready).unwrap();
            assert!(start.elapsed() >= timeout);
        }
        assert_eq!(milliseconds(Some(Duration::from_nanos(1))), 1);
        assert_eq!(milliseconds(Some(Duration::MAX)), i32::MAX);
        assert_eq!(milliseconds(None), -1);
    }
}
