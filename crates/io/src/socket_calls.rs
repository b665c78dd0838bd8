//! Programs' calls of bind(2) and listen(2), told before they take effect (seccomp_unotify(2)): whoever
//! is told may let them fail, or do what they ask for.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use socket2::{Domain, SockAddr, SockAddrStorage, SockRef, Socket, Type};

use crate::capture::{Sharing, unmapped};
use crate::sys::{check, check_fd, check_len};

// linux/seccomp.h, linux/audit.h; not all in the libc crate.
const SET_MODE_FILTER: libc::c_long = 1;
const FLAG_NEW_LISTENER: libc::c_long = 1 << 3;
/// Signals do not interrupt a call that was told: it may have taken effect.
const FLAG_WAIT_KILLABLE_RECV: libc::c_long = 1 << 5;
const RETURN_USER_NOTIF: u32 = 0x7fc0_0000;
const RETURN_ALLOW: u32 = 0x7fff_0000;
const RESPONSE_CONTINUE: u32 = 1;
const IOCTL_RECEIVE: libc::Ioctl = 0xc050_2100_u32 as _;
const IOCTL_SEND: libc::Ioctl = 0xc018_2101_u32 as _;
const IOCTL_ID_VALID: libc::Ioctl = 0x4008_2102_u32 as _;
const IOCTL_SET_FLAGS: libc::Ioctl = 0x4008_2104_u32 as _;
/// Who is told wakes up where the caller falls asleep.
const SYNC_WAKE_UP: u64 = 1;
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
/// Where a filter finds the number of the call, the architecture whose number it is, and the lower
/// half of the third argument.
const CALL_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const THIRD_ARGUMENT_AT: u32 = 32;
/// The shortest address of IP (those of netlink are shorter).
const ADDRESS_BYTES_MIN: u32 = 16;

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
    binds: bool,
    arguments: [u64; 3],
}

/// What a call asks for: a port, to be reached at.
#[derive(Debug)]
pub struct Claim {
    socket: Socket,
    asked: SocketAddr,
    /// Of UDP, by bind; or else of TCP, by listen.
    pub is_datagram: bool,
    /// With whom it is shared.
    pub sharing: Sharing,
}

impl Claim {
    /// The address and port; port 0: any port.
    pub fn address(&self) -> SocketAddr {
        unmapped(self.asked)
    }

    /// Binds the socket, which is the program's, to this port.
    ///
    /// # Errors
    /// Those of bind(2).
    pub fn bind(&self, port: u16) -> io::Result<()> {
        let mut address = self.asked;
        address.set_port(port);
        self.socket.bind(&address.into())
    }
}

/// Where calls are told.
#[derive(Debug)]
pub struct SocketCalls(OwnedFd);

impl SocketCalls {
    /// Has all calls of this thread and of what it starts told, for ever. Needs CAP_SYS_ADMIN in its
    /// user namespace. A call of bind with an address that is too short for IP is not told.
    ///
    /// # Errors
    /// The kernel does not permit it, or is older than 5.5.
    pub fn watch() -> io::Result<SocketCalls> {
        let load = |at| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
        let equal = |k, yes, no| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, k);
        let verdict = |k| step(libc::BPF_RET | libc::BPF_K, 0, 0, k);
        let at_least = |k, yes, no| step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, yes, no, k);
        let program = [
            load(ARCHITECTURE_AT),
            equal(ARCHITECTURE, 0, 6),
            load(CALL_AT),
            equal(libc::SYS_listen as u32, 3, 0),
            equal(libc::SYS_bind as u32, 0, 3),
            load(THIRD_ARGUMENT_AT),
            at_least(ADDRESS_BYTES_MIN, 0, 1),
            verdict(RETURN_USER_NOTIF),
            verdict(RETURN_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_ptr().cast_mut(),
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
        // The second flag is known since 5.19.
        let listener = install(FLAG_NEW_LISTENER | FLAG_WAIT_KILLABLE_RECV);
        let listener = listener.or_else(|_| install(FLAG_NEW_LISTENER));
        let listener = listener?;
        // Known since 6.6; without it a call takes longer.
        // SAFETY: the flags are the argument itself.
        let _ = unsafe { libc::ioctl(listener.as_raw_fd(), IOCTL_SET_FLAGS, SYNC_WAKE_UP) };
        Ok(SocketCalls(listener))
    }

    /// What another process handed on.
    pub const fn from_descriptor(descriptor: OwnedFd) -> SocketCalls {
        SocketCalls(descriptor)
    }

    /// The next call, to be asked for when the descriptor is readable. `None`: who called was killed.
    ///
    /// # Errors
    /// Not expected.
    pub fn next(&self) -> io::Result<Option<SocketCall>> {
        let mut told = Notification::default();
        // SAFETY: `told` is what the kernel fills in, and zero, as it wants.
        let received =
            check(unsafe { libc::ioctl(self.0.as_raw_fd(), IOCTL_RECEIVE, &raw mut told) });
        match received {
            Ok(_) => {
                let [first, second, third, ..] = told.arguments;
                Ok(Some(SocketCall {
                    id: told.id,
                    thread: told.pid,
                    binds: i64::from(told.call) == libc::SYS_bind,
                    arguments: [first, second, third],
                }))
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The port that the call asks for, if it does: a socket of TCP that is to listen, or one of UDP
    /// that is to be bound.
    pub fn claim(&self, call: SocketCall) -> Option<Claim> {
        let process = process_of(call.thread).ok()?;
        let socket = Socket::from(self.socket_of(call, process).ok()?);
        let is_datagram = socket.r#type().ok()? == Type::DGRAM;
        let domain = socket.domain().ok()?;
        let is_ip = matches!(domain, Domain::IPV4 | Domain::IPV6);
        if !is_ip || is_datagram != call.binds {
            return None;
        }
        let asked = match call.binds {
            true => self.address_given(call, process).ok()?,
            false => socket.local_addr().ok()?,
        };
        let asked = asked.as_socket()?;
        if asked.is_ipv6() != (domain == Domain::IPV6) {
            return None;
        }
        let sharing = Sharing::of(SockRef::from(&socket), asked.is_ipv6()).ok()?;
        Some(Claim {
            socket,
            asked,
            is_datagram,
            sharing,
        })
    }

    /// The address that is given to bind.
    fn address_given(&self, call: SocketCall, process: libc::pid_t) -> io::Result<SockAddr> {
        let mut address = SockAddrStorage::zeroed();
        let bytes = size_of_val(&address).min(call.arguments[2] as usize);
        let ours = libc::iovec {
            iov_base: (&raw mut address).cast(),
            iov_len: bytes,
        };
        let theirs = libc::iovec {
            iov_base: call.arguments[1] as *mut libc::c_void,
            iov_len: bytes,
        };
        // SAFETY: `ours` is within `address`; the kernel checks that `theirs` can be read.
        let read = check_len(unsafe {
            libc::process_vm_readv(process, &raw const ours, 1, &raw const theirs, 1, 0)
        })?;
        self.is_valid(call)?;
        // SAFETY: any bytes are an address of some family, or of none, and so many were written.
        Ok(unsafe { SockAddr::new(address, read as libc::socklen_t) })
    }

    fn socket_of(&self, call: SocketCall, process: libc::pid_t) -> io::Result<OwnedFd> {
        // SAFETY: takes no pointers.
        let process = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
        let process = check_fd(process as RawFd)?;
        let descriptor = call.arguments[0] as RawFd;
        // SAFETY: takes no pointers.
        let socket =
            unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), descriptor, 0) };
        let socket = check_fd(socket as RawFd)?;
        self.is_valid(call)?;
        Ok(socket)
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

    /// Lets the call succeed without effect: what it asked for has been done.
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
        // Who called may be gone.
        // SAFETY: the kernel reads `response`, which outlives the call.
        let _ = check(unsafe { libc::ioctl(self.0.as_raw_fd(), IOCTL_SEND, &raw const response) });
    }
}

impl AsFd for SocketCalls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

const fn step(code: u32, yes: u8, no: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k,
    }
}

/// The process that a thread is of.
fn process_of(thread: u32) -> io::Result<libc::pid_t> {
    let status = fs::read_to_string(format!("/proc/{thread}/status"))?;
    let lines = status.lines();
    let process = lines
        .filter_map(|line| line.strip_prefix("Tgid:"))
        .find_map(|number| number.trim().parse().ok());
    process.ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixDatagram;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::namespace::isolated;
    use crate::poll::{Interest, Poller};

    /// Has another thread do `work`, whose calls are told.
    fn watched<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> (SocketCalls, thread::JoinHandle<T>) {
        let (to_main, from_program) = std::sync::mpsc::channel();
        // The filter is of the thread that has it, and of what that starts.
        let program = thread::spawn(move || {
            to_main.send(SocketCalls::watch().unwrap()).unwrap();
            work()
        });
        (from_program.recv().unwrap(), program)
    }

    /// The next call that claims something; others go on.
    fn next_claim(calls: &SocketCalls) -> (SocketCall, Claim) {
        let (poller, mut ready) = (Poller::new().unwrap(), Vec::new());
        poller.register(calls, 1, Interest::Read).unwrap();
        loop {
            poller
                .wait(Some(Duration::from_secs(20)), &mut ready)
                .unwrap();
            assert!(!ready.is_empty(), "no call was told");
            let call = calls.next().unwrap().unwrap();
            match calls.claim(call) {
                Some(claim) => return (call, claim),
                None => calls.go_on(call),
            }
        }
    }

    #[test]
    fn listening_is_told_and_may_fail() {
        isolated(
            "socket_calls::tests::listening_is_told_and_may_fail",
            || {
                let (calls, program) = watched(|| {
                    let path =
                        std::env::temp_dir().join(format!("tabane-call-{}", std::process::id()));
                    UnixDatagram::bind(&path).unwrap();
                    std::fs::remove_file(path).unwrap();
                    ["127.0.0.1:2001", "127.0.0.1:2002"]
                        .map(|address| TcpListener::bind(address).err())
                });
                for port in [2001, 2002] {
                    let (call, claim) = next_claim(&calls);
                    assert_eq!(claim.address(), ([127, 0, 0, 1], port).into());
                    assert!(!claim.is_datagram && claim.sharing.by_address);
                    match port {
                        2001 => calls.go_on(call),
                        _ => calls.fail(call, libc::EADDRINUSE),
                    }
                }
                let [first, second] = program.join().unwrap();
                assert!(first.is_none());
                assert_eq!(second.unwrap().kind(), io::ErrorKind::AddrInUse);
            },
        );
    }

    #[test]
    fn a_datagram_socket_is_bound_by_whoever_is_told() {
        isolated(
            "socket_calls::tests::a_datagram_socket_is_bound_by_whoever_is_told",
            || {
                let (calls, program) = watched(|| {
                    ["0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0"]
                        .map(|address| UdpSocket::bind(address).unwrap().local_addr().unwrap())
                });
                for (address, port) in [("0.0.0.0", 3001), ("::", 3002), ("0.0.0.0", 3003)] {
                    let (call, claim) = next_claim(&calls);
                    assert_eq!(
                        claim.address(),
                        (address.parse::<std::net::IpAddr>().unwrap(), 0).into()
                    );
                    assert!(claim.is_datagram);
                    claim.bind(port).unwrap();
                    calls.succeed(call);
                }
                let ports = program.join().unwrap().map(|address| address.port());
                assert_eq!(ports, [3001, 3002, 3003]);
            },
        );
    }
}
