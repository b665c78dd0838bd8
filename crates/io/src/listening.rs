//! Programs' calls of listen(2), told before they take effect (seccomp_unotify(2)): whoever is told
//! may let them fail.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use socket2::{Domain, SockRef, Type};

use crate::sys::{check, check_fd};

// linux/seccomp.h, linux/audit.h; not all in the libc crate.
const SET_MODE_FILTER: libc::c_long = 1;
const FLAG_NEW_LISTENER: libc::c_long = 1 << 3;
/// Signals do not interrupt a call that was told: it may have taken effect.
const FLAG_WAIT_KILLABLE_RECV: libc::c_long = 1 << 5;
const RETURN_USER_NOTIF: u32 = 0x7fc0_0000;
const RETURN_ALLOW: u32 = 0x7fff_0000;
const RESPONSE_CONTINUE: u32 = 1;
const IOCTL_RECEIVE: libc::c_ulong = 0xc050_2100;
const IOCTL_SEND: libc::c_ulong = 0xc018_2101;
const IOCTL_ID_VALID: libc::c_ulong = 0x4008_2102;
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
/// Where a filter finds the number of the call, and the architecture whose number it is.
const CALL_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;

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

/// What a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenCall {
    id: u64,
    thread: u32,
    descriptor: i32,
}

/// Where calls are told.
#[derive(Debug)]
pub struct ListenCalls(OwnedFd);

impl ListenCalls {
    /// Has all calls of this thread and of what it starts told, for ever. Needs CAP_SYS_ADMIN in its
    /// user namespace.
    ///
    /// # Errors
    /// The kernel does not permit it, or is older than 5.5.
    pub fn watch() -> io::Result<ListenCalls> {
        let load = |at| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
        let equal = |k, yes, no| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, k);
        let verdict = |k| step(libc::BPF_RET | libc::BPF_K, 0, 0, k);
        let program = [
            load(ARCHITECTURE_AT),
            equal(ARCHITECTURE, 0, 3),
            load(CALL_AT),
            equal(libc::SYS_listen as u32, 0, 1),
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
        listener.map(ListenCalls)
    }

    /// What another process handed on.
    pub const fn from_descriptor(descriptor: OwnedFd) -> ListenCalls {
        ListenCalls(descriptor)
    }

    /// The next call, to be asked for when the descriptor is readable. `None`: who called was killed.
    ///
    /// # Errors
    /// Not expected.
    pub fn next(&self) -> io::Result<Option<ListenCall>> {
        let mut told = Notification::default();
        // SAFETY: `told` is what the kernel fills in, and zero, as it wants.
        let received =
            check(unsafe { libc::ioctl(self.0.as_raw_fd(), IOCTL_RECEIVE, &raw mut told) });
        match received {
            Ok(_) => Ok(Some(ListenCall {
                id: told.id,
                thread: told.pid,
                descriptor: told.arguments[0] as i32,
            })),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The address of the socket that is to listen, if it is one of TCP.
    pub fn address_of(&self, call: ListenCall) -> Option<SocketAddr> {
        let socket = self.socket_of(call).ok()?;
        let socket = SockRef::from(&socket);
        let is_stream = socket.r#type().ok()? == Type::STREAM;
        let is_ip = matches!(socket.domain().ok()?, Domain::IPV4 | Domain::IPV6);
        let address = (is_stream && is_ip).then(|| socket.local_addr().ok())??;
        address.as_socket()
    }

    fn socket_of(&self, call: ListenCall) -> io::Result<OwnedFd> {
        let process = process_of(call.thread)?;
        // SAFETY: takes no pointers.
        let process = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
        let process = check_fd(process as RawFd)?;
        // SAFETY: takes no pointers.
        let socket = unsafe {
            libc::syscall(
                libc::SYS_pidfd_getfd,
                process.as_raw_fd(),
                call.descriptor,
                0,
            )
        };
        let socket = check_fd(socket as RawFd)?;
        // Only now it is sure that the process was not another one with its number.
        // SAFETY: the kernel reads a number that outlives the call.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), IOCTL_ID_VALID, &raw const call.id) })?;
        Ok(socket)
    }

    /// Lets the call take effect.
    pub fn go_on(&self, call: ListenCall) {
        self.answer(call, 0, RESPONSE_CONTINUE);
    }

    /// Lets the call fail with this error number.
    pub fn fail(&self, call: ListenCall, error: i32) {
        self.answer(call, -error, 0);
    }

    fn answer(&self, call: ListenCall, error: i32, flags: u32) {
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

impl AsFd for ListenCalls {
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
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::namespace::isolated;
    use crate::poll::{Interest, Poller};

    #[test]
    fn listening_is_told_and_may_fail() {
        isolated("listening::tests::listening_is_told_and_may_fail", || {
            let (to_main, from_program) = std::sync::mpsc::channel();
            // The filter is of the thread that has it, and of what that starts.
            let program = thread::spawn(move || {
                to_main.send(ListenCalls::watch().unwrap()).unwrap();
                UdpSocket::bind("127.0.0.1:0").unwrap();
                ["127.0.0.1:2001", "127.0.0.1:2002"].map(|address| TcpListener::bind(address).err())
            });
            let calls = from_program.recv().unwrap();
            let (poller, mut ready) = (Poller::new().unwrap(), Vec::new());
            poller.register(&calls, 1, Interest::Read).unwrap();
            for port in [2001, 2002] {
                poller
                    .wait(Some(Duration::from_secs(20)), &mut ready)
                    .unwrap();
                let call = calls.next().unwrap().unwrap();
                assert_eq!(calls.address_of(call), Some(([127, 0, 0, 1], port).into()));
                match port {
                    2001 => calls.go_on(call),
                    _ => calls.fail(call, libc::EADDRINUSE),
                }
            }
            let [first, second] = program.join().unwrap();
            assert!(first.is_none());
            assert_eq!(second.unwrap().kind(), io::ErrorKind::AddrInUse);
        });
    }
}
