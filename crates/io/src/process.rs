//! Leaving a part of oneself behind before one becomes another program; noticing that one was forked.

use std::fs::{self, OpenOptions};
use std::io;
use std::iter;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Signal, getrlimit, pidfd_open, pidfd_send_signal, setrlimit,
};

use crate::notify::Notify;
use crate::poll::timeout;
use crate::sys::check;

/// How many forks lie between the process that first asked and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// Descriptors of a process that its forks do not get, at most; they get further ones, as usual.
const UNSHARED_MAX: usize = 256;
/// The unshared descriptors; `NONE` in free slots.
static UNSHARED: [AtomicI32; UNSHARED_MAX] = [const { AtomicI32::new(NONE) }; UNSHARED_MAX];
/// No descriptor.
const NONE: RawFd = -1;
/// A fork's replacement for them, once there are any.
static INSTEAD: OnceLock<Option<Notify>> = OnceLock::new();

/// The processes that are seen here (proc(5)). Some may have ended meanwhile.
///
/// # Errors
/// `/proc` cannot be read, perhaps since the system has no descriptors left.
pub fn processes() -> io::Result<Vec<u32>> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let entries = fs::read_dir("/proc")?.filter_map(|entry| entry.map(number).transpose());
    entries.collect()
}

/// Gives memory that was freed back to the system (malloc_trim(3)): the C library keeps what a thread has freed for that
/// thread, in case it needs as much again. Does nothing where the C library does not know of it.
pub fn give_back_memory() {
    // SAFETY: it may be called at any time, in any thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

extern "C" fn begin_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    let Some(Some(instead)) = INSTEAD.get() else {
        return;
    };
    for place in &UNSHARED {
        let fd = place.swap(NONE, Ordering::Relaxed);
        if fd != NONE {
            // SAFETY: `fd` is open (it leaves its slot before it is closed), and stays so, as something that
            // nobody waits for. A child may make system calls.
            unsafe { libc::dup3(instead.as_fd().as_raw_fd(), fd, libc::O_CLOEXEC) };
        }
    }
}

/// Registers the handler for forks; returns 0, or the error number.
fn handle_forks() -> i32 {
    static HANDLED: OnceLock<i32> = OnceLock::new();
    *HANDLED.get_or_init(|| {
        // SAFETY: the handler takes no arguments, and does only what a child may do.
        unsafe { libc::pthread_atfork(None, None, Some(begin_fork)) }
    })
}

/// Keeps a descriptor from the forks of this process, which would hold its port, for instance, as long as
/// they live, whatever becomes of this process. Drop it before the descriptor is closed.
#[derive(Debug)]
pub struct Unshared {
    fd: RawFd,
    /// Index in [`UNSHARED`]; `None` if there was no slot.
    place: Option<usize>,
}

impl Unshared {
    /// From now on. If there are too many, or the system refuses, forks inherit the descriptor like any
    /// other.
    #[must_use]
    pub fn new(fd: BorrowedFd<'_>) -> Unshared {
        let fd = fd.as_raw_fd();
        let instead = INSTEAD.get_or_init(|| Notify::new().ok());
        let can = instead.is_some() && handle_forks() == 0;
        let take = |place: &AtomicI32| {
            let taken = place.compare_exchange(NONE, fd, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok()
        };
        let place = can.then(|| UNSHARED.iter().position(take)).flatten();
        Unshared { fd, place }
    }
}

impl Drop for Unshared {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            // In a fork it may be another's by now.
            let (ours, relaxed) = (self.fd, Ordering::Relaxed);
            let _ = UNSHARED[place].compare_exchange(ours, NONE, relaxed, relaxed);
        }
    }
}

/// Tells a process from its forks. Looking whether this is still the same one costs no system call.
/// (A process made without the C library, by the bare system call, is not told from its parent.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forks(u32);

impl Forks {
    /// This process.
    ///
    /// # Errors
    /// No memory is left.
    pub fn here() -> io::Result<Forks> {
        match handle_forks() {
            0 => Ok(Forks(FORKS.load(Ordering::Relaxed))),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Whether this process is the same.
    #[must_use]
    pub fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

/// A process that is not a child: readable when it has ended.
#[derive(Debug)]
pub struct Watched(OwnedFd);

impl Watched {
    /// Watches the process `pid`.
    ///
    /// # Errors
    /// There is no such process; a kernel before 5.3.
    pub fn new(pid: u32) -> io::Result<Watched> {
        let pid = Pid::from_raw(pid as i32).ok_or(Errno::SRCH)?;
        Ok(Watched(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Sends it a signal; never another process that has its number by now.
    ///
    /// # Errors
    /// It has ended (`ESRCH`), or is another user's.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(signal).ok_or(Errno::INVAL)?;
        Ok(pidfd_send_signal(&self.0, signal)?)
    }

    /// Waits until it has ended; `false` if it has not in time.
    #[must_use]
    pub fn ends_within(&self, at_most: Duration) -> bool {
        let begin = Instant::now();
        loop {
            let left = at_most.saturating_sub(begin.elapsed());
            let mut watched = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut watched, Some(&timeout(left))) {
                Ok(1..) => return true,
                Ok(0) if left.is_zero() => return false,
                _ => {}
            }
        }
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The (effective) user of a process, if there is one and the system tells.
pub fn user_of(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

/// Runs `work` in another process, which is not a child of this one: in a session of its own, in the root
/// directory, without this one's standard streams or any other descriptor except the `kept` ones. It ends
/// when `work` returns. For a process with a single thread.
///
/// # Errors
/// The process cannot be made. (If only the second of the two forks fails, nobody is told; the
/// pipe or socket that `work` would have used is closed then.)
pub fn leave_behind(kept: &[BorrowedFd<'_>], work: impl FnOnce()) -> io::Result<()> {
    // SAFETY: there is one thread, so the child is as whole as the parent.
    let child = check(unsafe { libc::fork() })?;
    if child == 0 {
        // SAFETY: takes no pointers.
        unsafe { libc::setsid() };
        // SAFETY: as above. The parent of the second child ends at once, so that nobody has to wait for it,
        // whatever program this becomes.
        if unsafe { libc::fork() } == 0 {
            leave_everything(kept);
            // So that the file system of the current directory can be unmounted; not expected to fail.
            let _ = std::env::set_current_dir("/");
            work();
        }
        // SAFETY: ends this process, without running the parent's exit handlers.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        match check(unsafe { libc::waitpid(child, &raw mut status, 0) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // If SIGCHLD is ignored there are no zombies, but wait(2) still waits for all children.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
            waited => return waited.map(drop),
        }
    }
}

/// Leaves a helper of this process behind ([`leave_behind`]), which ignores signals and shows under a name of
/// its own: `tabane: KIND of PID`.
///
/// # Errors
/// As [`leave_behind`].
pub fn leave_helper(kind: &str, kept: &[BorrowedFd<'_>], work: impl FnOnce()) -> io::Result<()> {
    let name = format!("tabane: {kind} of {}", std::process::id());
    leave_behind(kept, || {
        ignore_termination();
        show_as(&name);
        work();
    })
}

/// Makes this process ignore all signals but SIGKILL and SIGSTOP: stopping or signalling a service reaches
/// all its processes, and its helpers must stay until it has ended.
fn ignore_termination() {
    handle_termination(libc::SIG_IGN);
}

/// Undoes that of [`leave_helper`], in a process that becomes a program that must be stoppable: ignored
/// signals stay ignored across exec.
pub fn heed_termination() {
    handle_termination(libc::SIG_DFL);
}

fn handle_termination(how: libc::sighandler_t) {
    // A process needs SIGCHLD, and Rust ignores SIGPIPE anyway. A fault of its own still kills it.
    let is_left = |signal: &i32| matches!(*signal, libc::SIGCHLD | libc::SIGPIPE);
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| !is_left(signal)) {
        // SAFETY: no handler is called. If it fails, the signal stays as it is.
        unsafe { libc::signal(signal, how) };
    }
}

/// Shows this process under another name, in place of its arguments, to tools that find processes by their
/// command lines: a fork still has its parent's. The name may be truncated to the arguments' room.
fn show_as(name: &str) {
    // proc_pid_stat(5): fields 48 and 49; the name of the program in parentheses may have spaces.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let numbers: Vec<usize> = fields
        .split_whitespace()
        .map(|field| field.parse().unwrap_or_default())
        .collect();
    let (Some(&begin), Some(&end)) = (numbers.get(45), numbers.get(46)) else {
        return;
    };
    if begin == 0 || end <= begin {
        return;
    }
    // The last byte stays 0.
    let shown = name.bytes().take(end - begin - 1);
    let bytes = shown.chain(iter::repeat(0)).take(end - begin);
    let arguments = ptr::with_exposed_provenance_mut::<u8>(begin);
    for (at, byte) in bytes.enumerate() {
        // SAFETY: the range from there on is the arguments that the kernel gave this process: memory of its
        // own that may be written (as setproctitle(3) does), and that nothing else writes.
        unsafe { arguments.add(at).write_volatile(byte) };
    }
}

/// Lets this process have as many descriptors as it may. (What it begins with is low for the sake
/// of programs that use select(2).) Returns how many.
///
/// # Errors
/// Not expected.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(limit.current.unwrap_or(u64::MAX))
}

/// Closes all descriptors but some, and opens /dev/null as the standard streams: a reader of a pipe must not
/// wait for a process that only happens to have its other end.
fn leave_everything(kept: &[BorrowedFd<'_>]) {
    let mut kept: Vec<RawFd> = kept.iter().map(AsRawFd::as_raw_fd).collect();
    kept.sort_unstable();
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        for standard in 0..3 {
            // SAFETY: takes no pointers.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
    let mut first = 3;
    for fd in kept.into_iter().filter(|fd| *fd >= 3) {
        close_range(first, fd - 1);
        first = fd + 1;
    }
    close_range(first, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: the descriptors belong to values of the parent, which are not used here and not dropped,
    // for this process ends by `_exit`.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::poll::{Interest, Poller};

    #[test]
    fn a_process_that_ended_is_ready() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let watched = Watched::new(child.id()).unwrap();
        let (poller, mut ready) = (Poller::new().unwrap(), Vec::new());
        poller.register(&watched, 1, Interest::Read).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        child.kill().unwrap();
        poller
            .wait(Some(Duration::from_secs(20)), &mut ready)
            .unwrap();
        assert_eq!(ready.len(), 1);
        child.wait().unwrap();
    }

    #[test]
    fn a_fork_is_told_from_its_parent() {
        let parent = Forks::here().unwrap();
        // SAFETY: the child makes a system call and looks at an atomic.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let told = !parent.is_here() && Forks::here().is_ok_and(Forks::is_here);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!told)) };
        }
        let mut status = -1;
        // SAFETY: `status` outlives the call.
        check(unsafe { libc::waitpid(child, &raw mut status, 0) }).unwrap();
        assert_eq!(status, 0);
        assert!(parent.is_here());
    }

    #[test]
    fn a_fork_does_not_hold_what_is_kept_from_it() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let kept = Unshared::new(theirs.as_fd());
        let (mut told, tell) = UnixStream::pair().unwrap();
        // SAFETY: the child makes system calls only.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let _ = (&tell).write_all(b"x");
            // SAFETY: waits until it is killed.
            unsafe { libc::pause() };
        }
        told.read_exact(&mut [0]).unwrap();
        drop((kept, theirs));
        ours.set_nonblocking(true).unwrap();
        let end = ours.read(&mut [0]);
        // SAFETY: the child is this process's own.
        unsafe { libc::kill(child, libc::SIGKILL) };
        let mut status = -1;
        // SAFETY: `status` outlives the call.
        check(unsafe { libc::waitpid(child, &raw mut status, 0) }).unwrap();
        assert_eq!(end.unwrap(), 0);
    }

    /// Not `leave_behind` itself: a test has more than one thread.
    #[test]
    fn only_what_is_kept_stays_open() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let (mut other, _not_kept) = UnixStream::pair().unwrap();
        // SAFETY: the child makes system calls only, besides what `leave_everything` allocates,
        // for which no other thread of this test program holds a lock that matters to it: glibc
        // puts malloc right in the child.
        let child = unsafe { libc::fork() };
        if child == 0 {
            leave_everything(&[theirs.as_fd()]);
            let _ = (&theirs).write_all(b"x");
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        drop((theirs, _not_kept));
        let mut said = Vec::new();
        ours.read_to_end(&mut said).unwrap();
        assert_eq!(said, b"x");
        assert_eq!(other.read(&mut [0]).unwrap(), 0);
    }
}
