//! Where a running daemon is found and asked: an abstract unix stream socket.
//!
//! Abstract names belong to a network namespace, so daemons in different
//! namespaces of one machine do not meet, and nothing is left in the file
//! system by one that crashed. Anyone in the namespace may connect: look at
//! [`Credentials`] before doing what is asked.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use crate::sys::{get_option, retry};

/// Who is at the other end of a connection, as the kernel saw it when the
/// connection was made (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process.
    pub pid: i32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// Waits for connections.
#[derive(Debug)]
pub struct ControlListener {
    listener: UnixListener,
}

impl ControlListener {
    /// Takes the abstract name `name` (1 to 107 bytes, without the `@` it is
    /// written with) in this network namespace. Not blocking.
    ///
    /// # Errors
    /// `AddrInUse` when another process has the name: a daemon already runs in
    /// this namespace.
    pub fn bind(name: &str) -> io::Result<ControlListener> {
        let listener = UnixListener::bind_addr(&address(name)?)?;
        listener.set_nonblocking(true)?;
        Ok(ControlListener { listener })
    }

    /// The next connection, not blocking, and who made it; `None` when none waits.
    ///
    /// # Errors
    /// When the process has no descriptors left. The connection still waits then.
    pub fn accept(&self) -> io::Result<Option<(UnixStream, Credentials)>> {
        match retry(|| self.listener.accept()) {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                let credentials = credentials(&stream)?;
                Ok(Some((stream, credentials)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for ControlListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Connects to the daemon that has the abstract name `name` in this network
/// namespace. The connection is blocking.
///
/// # Errors
/// `ConnectionRefused` when no process has the name.
pub fn connect(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&address(name)?)
}

/// Who is at the other end of `stream`.
///
/// # Errors
/// Not expected on a connected unix socket.
pub fn credentials(stream: &UnixStream) -> io::Result<Credentials> {
    let unknown = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let libc::ucred { pid, uid, gid } =
        get_option(stream, libc::SOL_SOCKET, libc::SO_PEERCRED, unknown)?;
    Ok(Credentials { pid, uid, gid })
}

fn address(name: &str) -> io::Result<SocketAddr> {
    if name.is_empty() {
        // The kernel would invent one.
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a control socket needs a name",
        ));
    }
    SocketAddr::from_abstract_name(name)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::poll::{Interest, Poller};

    fn name(test: &str) -> String {
        format!("tabane-io-{test}-{}", std::process::id())
    }

    #[test]
    fn a_connection_carries_bytes_and_credentials() {
        let listener = ControlListener::bind(&name("carries")).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let poller = Poller::new().unwrap();
        poller.register(&listener, 1, Interest::Read).unwrap();
        let mut client = connect(&name("carries")).unwrap();
        let mut ready = Vec::new();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready.len(), 1);
        let (mut server, who) = listener.accept().unwrap().unwrap();
        // SAFETY: no arguments, cannot fail.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        let own = Credentials {
            pid: std::process::id() as i32,
            uid,
            gid,
        };
        assert_eq!((who, credentials(&client).unwrap()), (own, own));
        client.write_all(b"status").unwrap();
        let mut question = [0; 6];
        server.read_exact(&mut question).unwrap();
        assert_eq!(&question, b"status");
    }

    #[test]
    fn a_name_is_taken_once_and_free_when_dropped() {
        let first = ControlListener::bind(&name("once")).unwrap();
        let second = ControlListener::bind(&name("once")).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert_eq!(
            connect(&name("once")).unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        ControlListener::bind(&name("once")).unwrap();
        for wrong in ["", &"x".repeat(108)] {
            assert_eq!(
                connect(wrong).unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
        }
    }
}
