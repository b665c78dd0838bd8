//! Interception of programs' calls before they take effect (seccomp_unotify(2)): the supervisor may
//! let them fail, or perform them itself. bind(2) and listen(2) are in [ports]; socket(2) for TCP is
//! in [mptcp].

mod mptcp;
mod ports;

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::sys::{check, check_fd, step};

pub use mptcp::{Mptcp, mptcp_here, tcp_is_mptcp};
pub use ports::Claim;

// linux/seccomp.h, linux/audit.h; not all in the libc crate.
const SET_MODE_FILTER: libc::c_long = 1;
const FLAG_NEW_LISTENER: libc::c_long = 1 << 3;
/// Signals do not interrupt an intercepted call: it may have taken effect.
const FLAG_WAIT_KILLABLE_RECV: libc::c_long = 1 << 5;
const RETURN_USER_NOTIF: u32 = 0x7fc0_0000;
const RETURN_ALLOW: u32 = 0x7fff_0000;
const RESPONSE_CONTINUE: u32 = 1;
const IOCTL_RECEIVE: libc::Ioctl = 0xc050_2100_u32 as _;
const IOCTL_SEND: libc::Ioctl = 0xc018_2101_u32 as _;
const IOCTL_ID_VALID: libc::Ioctl = 0x4008_2102_u32 as _;
const IOCTL_SET_FLAGS: libc::Ioctl = 0x4008_2104_u32 as _;
/// The supervisor wakes up on the caller's processor, where the caller falls asleep.
const SYNC_WAKE_UP: u64 = 1;
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
/// Offsets, for a filter, of the call's number, its architecture, and the lower halves of its
/// arguments.
const CALL_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: [u32; 3] = [16, 24, 32];

/// `struct seccomp_notif`, with the `struct seccomp_data` in it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    call: i32,
    architecture: u32,
    instruction_pointer: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketCall {
    id: u64,
    thread: u32,
    number: libc::c_long,
    arguments: [u64; 3],
}

impl SocketCall {
    /// Whose it is, which makes no other one before this is over. `None`: it is one of a namespace of processes that is not seen from here.
    pub fn thread(&self) -> Option<u32> {
        (self.thread != 0).then_some(self.thread)
    }
}

/// The descriptor for intercepted calls.
#[derive(Debug)]
pub struct SocketCalls(OwnedFd);

impl SocketCalls {
    /// Intercepts the calls that `filter` selects, of this thread and everything it starts, for ever.
    /// Needs CAP_SYS_ADMIN in its user namespace, or that it has renounced new privileges.
    fn install(filter: &[libc::sock_filter]) -> io::Result<SocketCalls> {
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_ptr().cast_mut(),
        };
        let install = |flags: libc::c_long| {
            // SAFETY: the kernel copies `len` instructions from `filter`, which outlives the call.
            let fd = unsafe {
                libc::syscall(
                    libc::SYS_seccomp,
                    SET_MODE_FILTER,
                    flags,
                    &raw const program,
                )
            };
            check_fd(fd as RawFd)
        };
        // The second flag is known since 5.19; where the first alone is refused, too, that says why.
        let listener = install(FLAG_NEW_LISTENER | FLAG_WAIT_KILLABLE_RECV)
            .or_else(|_| install(FLAG_NEW_LISTENER))?;
        // Known since 6.6; without it a call takes longer.
        // SAFETY: the flags are the argument itself.
        let _ = unsafe { libc::ioctl(listener.as_raw_fd(), IOCTL_SET_FLAGS, SYNC_WAKE_UP) };
        Ok(SocketCalls(listener))
    }

    /// From another process's descriptor.
    pub const fn from_descriptor(descriptor: OwnedFd) -> SocketCalls {
        SocketCalls(descriptor)
    }

    /// The next call, to be asked for when the descriptor is readable. `None`: the caller was killed.
    ///
    /// # Errors
    /// Not expected.
    pub fn next(&self) -> io::Result<Option<SocketCall>> {
        let mut told = Notification::default();
        // SAFETY: the kernel fills `told` in, and it is zero, as required.
        let received =
            check(unsafe { libc::ioctl(self.0.as_raw_fd(), IOCTL_RECEIVE, &raw mut told) });
        match received {
            Ok(_) => {
                let [first, second, third, ..] = told.arguments;
                Ok(Some(SocketCall {
                    id: told.id,
                    thread: told.pid,
                    number: told.call.into(),
                    arguments: [first, second, third],
                }))
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the caller still waits: only then it is sure that a process was not another one
    /// with its number.
    fn is_valid(&self, call: SocketCall) -> io::Result<()> {
        // SAFETY: the kernel reads a number that outlives the call.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), IOCTL_ID_VALID, &raw const call.id) })?;
        Ok(())
    }

    /// Lets the call take effect.
    pub fn go_on(&self, call: SocketCall) {
        self.answer(call, 0, RESPONSE_CONTINUE);
    }

    /// Lets the call succeed without effect: the supervisor has performed it.
    pub fn succeed(&self, call: SocketCall) {
        self.answer(call, 0, 0);
    }

    /// Lets the call fail with this error number.
    pub fn fail(&self, call: SocketCall, error: i32) {
        self.answer(call, -error, 0);
    }

    fn answer(&self, call: SocketCall, error: i32, flags: u32) {
        let response = Response {
            id: call.id,
            value: 0,
            error,
            flags,
        };
        // The caller may be gone.
        // SAFETY: the kernel reads `response`, which outlives the call.
        let _ = check(unsafe { libc::ioctl(self.0.as_raw_fd(), IOCTL_SEND, &raw const response) });
    }
}

impl AsFd for SocketCalls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// End of a filter: calls that get here are intercepted; next, not intercepted.
const TELL: libc::sock_filter = step(libc::BPF_RET | libc::BPF_K, 0, 0, RETURN_USER_NOTIF);
const LET_PASS: libc::sock_filter = step(libc::BPF_RET | libc::BPF_K, 0, 0, RETURN_ALLOW);

/// Loads what the next steps test.
const fn load(at: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at)
}

/// Skips `yes` steps if it is `k`, and `no` if not.
const fn equal(k: u32, yes: u8, no: u8) -> libc::sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, k)
}

/// A line of a thread's status file, such as `Uid:`.
fn status_of(thread: u32, what: &str) -> io::Result<String> {
    let status = fs::read_to_string(format!("/proc/{thread}/status"))?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(what));
    line.map(str::to_owned)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::SocketCalls;

    /// Runs `work` in another thread, with its calls intercepted.
    pub fn watched<T: Send + 'static>(
        watch: fn() -> io::Result<SocketCalls>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (SocketCalls, thread::JoinHandle<T>) {
        let (to_main, from_program) = channel();
        // A filter applies to its thread and everything that starts.
        let program = thread::spawn(move || {
            to_main.send(watch().unwrap()).unwrap();
            work()
        });
        (from_program.recv().unwrap(), program)
    }
}
