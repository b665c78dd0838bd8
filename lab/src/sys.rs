//! The system calls the rest needs and std lacks. Everything here that is
//! called between fork and exec neither allocates nor locks.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Now on `CLOCK_MONOTONIC`, nanoseconds: the clock of [`crate::Injection`].
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid place for the answer; both clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut now) };
    ns(&now)
}

fn ns(time: &libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How the clock that the kernel stamps packets by stands to [`monotonic_ns`], at some moment.
#[derive(Debug)]
pub(crate) struct Clock {
    real_ns: u64,
    monotonic_ns: u64,
}

impl Clock {
    pub fn read() -> Clock {
        Clock {
            real_ns: clock_ns(libc::CLOCK_REALTIME),
            monotonic_ns: monotonic_ns(),
        }
    }

    /// When a stamp was made.
    pub fn monotonic_ns(&self, stamp_ns: u64) -> u64 {
        (self.monotonic_ns + stamp_ns).saturating_sub(self.real_ns)
    }
}

/// The next packet of a socket with `SO_TIMESTAMPNS`: its length, which may be more than `buffer` took, and its stamp.
pub(crate) fn receive_stamped(fd: BorrowedFd, buffer: &mut [u8]) -> Option<(usize, Option<u64>)> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut control = [0u64; 8];
    // SAFETY: all zeroes is a valid header; what it is then told to point to outlives the call, with its size. The kernel
    // has filled `control` as far as it says, and the macros stay within that.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let got = libc::recvmsg(fd.as_raw_fd(), &mut header, libc::MSG_TRUNC);
        let bytes = usize::try_from(got).ok()?;
        let first = libc::CMSG_FIRSTHDR(&header);
        let is_stamp = !first.is_null()
            && (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_TIMESTAMPNS;
        let stamp = is_stamp.then(|| {
            let stamp = libc::CMSG_DATA(first).cast::<libc::timespec>();
            ns(&std::ptr::read_unaligned(stamp))
        });
        Some((bytes, stamp))
    }
}

pub(crate) fn may_write(path: &CStr) -> bool {
    // SAFETY: a valid C string.
    unsafe { libc::access(path.as_ptr(), libc::W_OK) == 0 }
}

/// Let a descriptor pass through exec, at the lowest free number from `from`.
pub(crate) fn keep_through_exec(fd: BorrowedFd, from: RawFd) -> io::Result<()> {
    // SAFETY: plain integers; the new descriptor lives as long as the process.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD, from) }).map(drop)
}

/// Have every descriptor from 3 up close at exec. A background process must
/// not hold the pipes of whoever started it.
pub(crate) fn close_rest_at_exec() -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: plain integers; marks, closes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            CLOSE_RANGE_CLOEXEC,
        )
    };
    check(result as libc::c_int).map(drop)
}

pub(crate) fn new_session() {
    // SAFETY: no arguments; fails only for a group leader, which is as good.
    unsafe { libc::setsid() };
}

pub(crate) fn socket(
    family: libc::c_int,
    kind: libc::c_int,
    protocol: libc::c_int,
) -> io::Result<OwnedFd> {
    // SAFETY: plain integers; the descriptor returned is ours alone.
    unsafe {
        Ok(OwnedFd::from_raw_fd(check(libc::socket(
            family,
            kind | libc::SOCK_CLOEXEC,
            protocol,
        ))?))
    }
}

/// `setsockopt` with an `int`.
pub(crate) fn set_option(
    fd: BorrowedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is an int and `size` says so.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) };
    check(result).map(drop)
}

/// A lock that lives as long as any process holds this open file; `false` if
/// another has it.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: plain integers.
    match check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// How many descriptors another process may have, until now; from now on
/// `soft`. What it has already it keeps.
pub(crate) fn limit_descriptors(pid: u32, soft: u64) -> io::Result<u64> {
    let pid = pid as libc::pid_t;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: no new limit is given; `limit` is a valid place for the old one.
    check(unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &mut limit) })?;
    let before = std::mem::replace(&mut limit.rlim_cur, soft);
    // SAFETY: `limit` is a valid limit; the old one is not asked for.
    check(unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) })?;
    Ok(before)
}

/// Kill all of a process group.
pub(crate) fn kill_group(leader: u32) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::kill(-(leader as libc::pid_t), libc::SIGKILL) })?;
    Ok(())
}

/// Have reads, writes and connects of a socket wait no longer than this.
pub(crate) fn set_timeouts(fd: BorrowedFd, at_most: Duration) -> io::Result<()> {
    let timeout = libc::timeval {
        tv_sec: at_most.as_secs() as _,
        tv_usec: at_most.subsec_micros().into(),
    };
    let size = size_of::<libc::timeval>() as libc::socklen_t;
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let value = (&raw const timeout).cast();
        // SAFETY: `timeout` is a timeval and `size` says so.
        check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, value, size) })?;
    }
    Ok(())
}

/// `connect` of a socket that has a send timeout; returns whether it is
/// connected. To be repeated while it is not.
pub(crate) fn connect(fd: BorrowedFd, to: std::net::SocketAddrV4) -> io::Result<bool> {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: to.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(*to.ip()).to_be(),
        },
        sin_zero: [0; 8],
    };
    let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: `address` is a sockaddr_in and `size` says so.
    let done = unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), size) };
    match check(done).map_err(|error| (error.raw_os_error(), error)) {
        Ok(_) | Err((Some(libc::EISCONN), _)) => Ok(true),
        Err((Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR), _)) => Ok(false),
        Err((_, error)) => Err(error),
    }
}

/// Number of a device in the network namespace the socket was made in.
pub(crate) fn device_index(socket: BorrowedFd, device: &str) -> io::Result<libc::c_int> {
    // SAFETY: all zeroes is a valid request; the name is shorter than its
    // field, so it stays terminated; the kernel fills in the index.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..room].iter_mut().zip(device.bytes()) {
            *to = from as libc::c_char;
        }
        check(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCGIFINDEX as _,
            &mut request,
        ))?;
        Ok(request.ifr_ifru.ifru_ifindex)
    }
}

/// Bind a packet socket to a device, to get packets of this protocol (0: none).
pub(crate) fn bind_packet(
    socket: BorrowedFd,
    device: &str,
    protocol: libc::c_int,
) -> io::Result<()> {
    let index = device_index(socket, device)?;
    // SAFETY: all zeroes is a valid address, then filled; its size is given.
    check(unsafe {
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (protocol as u16).to_be();
        address.sll_ifindex = index;
        let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size)
    })
    .map(drop)
}

/// Have this thread woken when asked, not up to 50 µs later, and run soon
/// after it wakes: it works little and often. Both are improvements only.
pub(crate) fn wake_precisely() {
    /// `struct sched_attr` of sched_setattr(2); a short slice (Linux 6.12)
    /// gives an ordinary thread an early turn.
    #[repr(C)]
    #[derive(Default)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    let mut attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        runtime_ns: 100_000,
        ..SchedAttr::default()
    };
    // SAFETY: plain integers; then a filled structure that states its size.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::syscall(libc::SYS_sched_setattr, 0, &raw mut attributes, 0);
    }
}

/// Have this thread run before all ordinary ones, if that is allowed: what is measured through it is not to depend on what
/// else this machine has to do.
pub(crate) fn come_first() {
    // The kernel's parameter is this number and nothing else. musl has another structure, and no such function.
    let priority: libc::c_int = 1;
    // SAFETY: a valid parameter, for this thread.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_FIFO,
            &raw const priority,
        );
    }
}

/// Wait for any of these, or until an instant of [`monotonic_ns`].
pub(crate) fn poll_until(watched: &mut [libc::pollfd], until_ns: Option<u64>) {
    let left_ns = until_ns.map(|until| until.saturating_sub(monotonic_ns()));
    let timeout = left_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as _,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the slice's own length; the timeout outlives the call.
    let ready = unsafe {
        libc::ppoll(
            watched.as_mut_ptr(),
            watched.len() as libc::nfds_t,
            timeout,
            std::ptr::null(),
        )
    };
    if ready < 0 {
        // Interrupted: what `revents` says is old.
        watched.iter_mut().for_each(|w| w.revents = 0);
    }
}

/// fork(2), refused when other threads run: the child would inherit the locks
/// they hold. Returns 0 in the child.
pub(crate) fn fork_alone() -> io::Result<u32> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!(
            "{threads} threads run in this process; it must be one"
        )));
    }
    // SAFETY: the only thread of the process forks, so the child is whole.
    check(unsafe { libc::fork() }).map(|pid| pid as u32)
}

/// In a forked child: hold on to nothing of the caller's but these descriptors.
pub(crate) fn leave_caller(keep: &mut [RawFd]) {
    new_session();
    keep.sort_unstable();
    // SAFETY: the child's own copies are closed, nobody uses them any more:
    // `keep` is all it goes on with.
    unsafe {
        libc::chdir(c"/".as_ptr());
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for standard in 0..3 {
            libc::dup2(null, standard);
        }
        let mut from: RawFd = 3;
        for &fd in keep.iter().chain(&[RawFd::MAX]) {
            if fd > from {
                libc::syscall(libc::SYS_close_range, from, fd - 1, 0);
            }
            from = fd.saturating_add(1);
        }
    }
}

pub(crate) fn exit_now() -> ! {
    // SAFETY: ends the process without the caller's exit handlers.
    unsafe { libc::_exit(0) }
}

/// Have a function called when a signal comes; waiting calls are then
/// interrupted. It may only do what is allowed in a signal handler: store an
/// atomic.
pub(crate) fn on_signal(
    signal: libc::c_int,
    handler: extern "C" fn(libc::c_int),
) -> io::Result<()> {
    // SAFETY: all zeroes is a valid `sigaction`: no flags, an empty mask; the
    // handler lives as long as the program.
    check(unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    })
    .map(drop)
}

/// Columns and rows of the terminal at a descriptor, if it is one.
pub(crate) fn terminal_size(fd: BorrowedFd) -> Option<(usize, usize)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: `size` is a valid place for the answer.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &mut size) };
    (result == 0 && size.ws_col > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}
