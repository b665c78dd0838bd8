//! Sockets of TCP that become sockets of Multipath TCP: calls of socket(2).

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use socket2::{Domain, Protocol, Socket, Type};

use super::{
    ARCHITECTURE, ARCHITECTURE_AT, ARGUMENTS_AT, CALL_AT, LET_PASS, SocketCall, SocketCalls, TELL,
    equal, load, status_of,
};
use crate::credentials::own_uid;
use crate::sys::{check, check_fd, step};

/// `struct seccomp_notif_addfd` goes with it; Linux 5.9, the flag 5.14 (linux/seccomp.h).
const IOCTL_ADD_DESCRIPTOR: libc::Ioctl = 0x4018_2103_u32 as _;
/// The call returns the descriptor's number, in the same step.
const FLAG_SEND: u32 = 1 << 1;
/// The bits of a socket's type without its flags (SOCK_TYPE_MASK of linux/net.h).
const TYPE_MASK: u32 = 0xf;

/// `struct seccomp_notif_addfd`.
#[repr(C)]
struct Addition {
    id: u64,
    flags: u32,
    ours: u32,
    theirs: u32,
    theirs_flags: u32,
}

impl SocketCalls {
    /// Intercepts all calls by which this thread and everything it starts make a TCP socket, for
    /// ever. Without CAP_SYS_ADMIN, they renounce new privileges for that (PR_SET_NO_NEW_PRIVS).
    ///
    /// # Errors
    /// `ResourceBusy`: this thread's calls are intercepted already. Otherwise the kernel does not
    /// permit it, or is older than 5.5.
    pub fn of_tcp() -> io::Result<SocketCalls> {
        let and = |k| step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, k);
        let filter = [
            load(ARCHITECTURE_AT),
            equal(ARCHITECTURE, 0, 12),
            load(CALL_AT),
            equal(libc::SYS_socket as u32, 0, 10),
            load(ARGUMENTS_AT[0]),
            equal(libc::AF_INET as u32, 1, 0),
            equal(libc::AF_INET6 as u32, 0, 7),
            load(ARGUMENTS_AT[1]),
            and(TYPE_MASK),
            equal(libc::SOCK_STREAM as u32, 0, 4),
            load(ARGUMENTS_AT[2]),
            equal(0, 1, 0),
            equal(libc::IPPROTO_TCP as u32, 0, 1),
            TELL,
            LET_PASS,
        ];
        SocketCalls::install(&filter).or_else(|error| {
            if error.raw_os_error() != Some(libc::EACCES) {
                return Err(error);
            }
            // SAFETY: takes no pointers.
            check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
            SocketCalls::install(&filter)
        })
    }

    /// Gives the caller a socket of Multipath TCP, where it asked for one of TCP.
    ///
    /// # Errors
    /// The call still waits then, or its caller was killed. `Unsupported`: the caller is in another
    /// network namespace. Those of socket(2), and the caller may have no more descriptors.
    pub fn give_mptcp(&self, call: SocketCall) -> io::Result<()> {
        if network_of(&call.thread.to_string())? != own_network()? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let [domain, kind, _] = call.arguments.map(|argument| argument as libc::c_int);
        // SAFETY: takes no pointers.
        let socket = unsafe { libc::socket(domain, kind, libc::IPPROTO_MPTCP) };
        let socket = check_fd(socket)?;
        own_as(&socket, call.thread)?;
        let addition = Addition {
            id: call.id,
            flags: FLAG_SEND,
            ours: socket.as_raw_fd() as u32,
            theirs: 0,
            theirs_flags: (kind & libc::SOCK_CLOEXEC) as u32,
        };
        self.add(&addition)
    }

    /// Whether the kernel can have sockets given to callers at all; one older than 5.14 cannot.
    pub fn can_give(&self) -> bool {
        let nobody_calls = Addition {
            id: 0,
            flags: FLAG_SEND,
            ours: self.0.as_raw_fd() as u32,
            theirs: 0,
            theirs_flags: 0,
        };
        let refused = self.add(&nobody_calls).err();
        refused.and_then(|error| error.raw_os_error()) == Some(libc::ENOENT)
    }

    fn add(&self, addition: &Addition) -> io::Result<()> {
        // SAFETY: the kernel reads `addition`, which outlives the call.
        let added = unsafe { libc::ioctl(self.0.as_raw_fd(), IOCTL_ADD_DESCRIPTOR, addition) };
        check(added).map(drop)
    }
}

/// The network namespace of a thread.
fn network_of(thread: &str) -> io::Result<(u64, u64)> {
    let namespace = fs::metadata(format!("/proc/{thread}/ns/net"))?;
    Ok((namespace.dev(), namespace.ino()))
}

fn own_network() -> io::Result<(u64, u64)> {
    static OWN: OnceLock<(u64, u64)> = OnceLock::new();
    if let Some(own) = OWN.get() {
        return Ok(*own);
    }
    let own = network_of("self")?;
    Ok(*OWN.get_or_init(|| own))
}

/// Gives the socket to the caller's current user, as if the caller had made it: packet filters and
/// routes may depend on that. Only root becomes another user.
fn own_as(socket: &OwnedFd, thread: u32) -> io::Result<()> {
    if own_uid() != 0 {
        return Ok(());
    }
    let id = |what| {
        let ids = status_of(thread, what)?;
        // Real, effective, saved, and file system ids; the last one counts.
        let id = ids.split_whitespace().nth(3).and_then(|id| id.parse().ok());
        id.ok_or(io::Error::from(io::ErrorKind::InvalidData))
    };
    match (id("Uid:")?, id("Gid:")?) {
        (0, 0) => Ok(()),
        // SAFETY: takes no pointers.
        (user, group) => check(unsafe { libc::fchown(socket.as_raw_fd(), user, group) }).map(drop),
    }
}

/// Whether this process gets Multipath TCP where it asks for TCP.
///
/// # Errors
/// It gets neither.
pub fn tcp_is_mptcp() -> io::Result<bool> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    Ok(socket.protocol()? == Some(Protocol::MPTCP))
}

/// The kernel's state of Multipath TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mptcp {
    /// There it is.
    On,
    /// It is switched off in this network namespace (`net.mptcp.enabled`).
    SwitchedOff,
    /// This kernel has none.
    Missing,
}

/// Whether there is Multipath TCP.
///
/// # Errors
/// Those of socket(2).
pub fn mptcp_here() -> io::Result<Mptcp> {
    match Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)) {
        Ok(_) => Ok(Mptcp::On),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOPROTOOPT) => Ok(Mptcp::SwitchedOff),
            Some(libc::EPROTONOSUPPORT) => Ok(Mptcp::Missing),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::poll::{Interest, Poller};
    use crate::socket_calls::tests::watched;

    fn raw(domain: Domain, kind: Type, protocol: Option<Protocol>) -> Option<Protocol> {
        let socket = Socket::new(domain, kind, protocol).unwrap();
        socket.protocol().unwrap()
    }

    /// Serves all calls until the program has ended; how many were told.
    fn serve(calls: &SocketCalls) -> usize {
        let (poller, mut ready, mut told) = (Poller::new().unwrap(), Vec::new(), 0);
        poller.register(calls, 1, Interest::Read).unwrap();
        loop {
            poller
                .wait(Some(Duration::from_secs(20)), &mut ready)
                .unwrap();
            assert!(!ready.is_empty(), "the program has not ended");
            if ready[0].failed {
                return told;
            }
            let call = calls.next().unwrap().unwrap();
            told += 1;
            calls.give_mptcp(call).unwrap();
        }
    }

    #[test]
    fn sockets_of_tcp_are_of_multipath_tcp() {
        assert_eq!(mptcp_here().unwrap(), Mptcp::On);
        let (calls, program) = watched(SocketCalls::of_tcp, || {
            let v4 = raw(Domain::IPV4, Type::STREAM, None);
            let v6 = raw(Domain::IPV6, Type::STREAM, Some(Protocol::TCP));
            (v4, v6, tcp_is_mptcp().unwrap())
        });
        assert!(calls.can_give());
        assert_eq!(serve(&calls), 3);
        let mptcp = Some(Protocol::MPTCP);
        assert_eq!(program.join().unwrap(), (mptcp, mptcp, true));
    }

    #[test]
    fn other_sockets_are_nobodys_affair() {
        let (calls, program) = watched(SocketCalls::of_tcp, || {
            UnixStream::pair().unwrap();
            raw(Domain::IPV4, Type::DGRAM, None);
            raw(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP))
        });
        assert_eq!(serve(&calls), 0);
        assert_eq!(program.join().unwrap(), Some(Protocol::MPTCP));
    }

    /// The flags beside the type.
    #[test]
    fn flags_are_those_asked_for() {
        let flags = |kind: Type| {
            let socket = Socket::new_raw(Domain::IPV4, kind, None).unwrap();
            let nonblocking = socket.nonblocking().unwrap();
            // SAFETY: takes no pointers.
            let flags = check(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_GETFD) }).unwrap();
            (nonblocking, flags & libc::FD_CLOEXEC != 0)
        };
        let (calls, program) = watched(SocketCalls::of_tcp, move || {
            [
                Type::STREAM,
                Type::STREAM.cloexec(),
                Type::STREAM.nonblocking(),
            ]
            .map(flags)
        });
        assert_eq!(serve(&calls), 3);
        let expected = [(false, false), (false, true), (true, false)];
        assert_eq!(program.join().unwrap(), expected);
    }
}
