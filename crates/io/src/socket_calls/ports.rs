//! Ports that programs ask for: calls of bind(2) and listen(2).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use socket2::{Domain, SockAddr, SockAddrStorage, SockRef, Socket, Type};

use super::{
    ARCHITECTURE, ARCHITECTURE_AT, ARGUMENTS_AT, CALL_AT, LET_PASS, SocketCall, SocketCalls, TELL,
    equal, load, status_of,
};
use crate::capture::{Sharing, unmapped};
use crate::sys::{check_fd, check_len, get_option, step};

/// The shortest address of IP (those of netlink are shorter).
const ADDRESS_BYTES_MIN: u32 = 16;

/// A call's request: a port, and the address for it.
#[derive(Debug)]
pub struct Claim {
    socket: Socket,
    asked: SocketAddr,
    /// Of UDP, or else of TCP.
    pub is_datagram: bool,
    /// By bind, or else by listen.
    pub binds: bool,
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

impl SocketCalls {
    /// Intercepts all calls of bind and listen by this thread and everything it starts, for ever. Needs
    /// CAP_SYS_ADMIN in its user namespace. Calls of bind with an address too short for IP are not
    /// intercepted.
    ///
    /// # Errors
    /// The kernel does not permit it, or is older than 5.5.
    pub fn of_ports() -> io::Result<SocketCalls> {
        let at_least = |k, yes, no| step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, yes, no, k);
        SocketCalls::install(&[
            load(ARCHITECTURE_AT),
            equal(ARCHITECTURE, 0, 6),
            load(CALL_AT),
            equal(libc::SYS_listen as u32, 3, 0),
            equal(libc::SYS_bind as u32, 0, 3),
            load(ARGUMENTS_AT[2]),
            at_least(ADDRESS_BYTES_MIN, 0, 1),
            TELL,
            LET_PASS,
        ])
    }

    /// The port that the call needs, if any: for a TCP socket that is to listen, or to be bound to any
    /// port; or for a UDP socket that is to be bound.
    pub fn claim(&self, call: SocketCall) -> Option<Claim> {
        let process = process_of(call.thread).ok()?;
        let socket = Socket::from(self.socket_of(call, process).ok()?);
        let (kind, domain) = (socket.r#type().ok()?, socket.domain().ok()?);
        let (is_datagram, is_ip) = (
            kind == Type::DGRAM,
            matches!(domain, Domain::IPV4 | Domain::IPV6),
        );
        let has_ports = is_datagram || kind == Type::STREAM;
        if !is_ip || !has_ports || is_datagram && !binds(call) {
            return None;
        }
        let asked = match binds(call) {
            true => self.address_given(call, process).ok()?,
            false => socket.local_addr().ok()?,
        };
        let asked = asked.as_socket()?;
        if asked.is_ipv6() != (domain == Domain::IPV6) {
            return None;
        }
        if !is_datagram && binds(call) && (asked.port() != 0 || connecting_chooses(&socket)) {
            // It gets a port only when it listens, or connects.
            return None;
        }
        let sharing = Sharing::of(SockRef::from(&socket), asked.is_ipv6()).ok()?;
        Some(Claim {
            socket,
            asked,
            is_datagram,
            binds: binds(call),
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
        // SAFETY: any bytes are an address of some family, or of none, and this many were written.
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
}

/// Whether bind leaves the choice of a port to connect (IP_BIND_ADDRESS_NO_PORT, ip(7)).
fn connecting_chooses(socket: &Socket) -> bool {
    let option: io::Result<libc::c_int> =
        get_option(socket, libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 0);
    option.is_ok_and(|option| option != 0)
}

/// Whether it is one of bind; or else one of listen.
const fn binds(call: SocketCall) -> bool {
    call.number == libc::SYS_bind
}

/// The process that a thread is of.
fn process_of(thread: u32) -> io::Result<libc::pid_t> {
    let number = status_of(thread, "Tgid:")?.trim().parse().ok();
    number.ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    use super::*;
    use crate::isolated::isolated;
    use crate::poll::{Interest, Poller};
    use crate::socket_calls::tests::watched;

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
            "socket_calls::ports::tests::listening_is_told_and_may_fail",
            || {
                let (calls, program) = watched(SocketCalls::of_ports, || {
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
            "socket_calls::ports::tests::a_datagram_socket_is_bound_by_whoever_is_told",
            || {
                let (calls, program) = watched(SocketCalls::of_ports, || {
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
