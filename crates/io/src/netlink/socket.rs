//! Asking the kernel and being told.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use std::{error, fmt, mem};

use super::message::{Message, Request, attributes, messages, text, u32_at};
use crate::sys::{check, check_fd, check_len, retry, set_option};

/// The kernel never makes a dump message larger than 32 KiB, and a single one
/// only with many virtual functions; twice that is roomy.
const RECEIVE_BYTES: usize = 64 << 10;

/// Longest wait for the kernel's answer. It answers within the call; this only
/// keeps us from hanging should it not.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// linux/netlink.h; not in the libc crate.
const NLMSGERR_ATTR_MSG: u16 = 1;

/// How often a dump is begun anew when things changed while it was taken.
const DUMP_TRIES: usize = 10;

/// A request the kernel refused, with its reason in words where it gives one.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) source: io::Error,
    detail: Option<String>,
}

impl From<io::Error> for Refused {
    fn from(source: io::Error) -> Refused {
        Refused {
            source,
            detail: None,
        }
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        match refused.detail {
            None => refused.source,
            Some(_) => io::Error::new(refused.source.kind(), refused),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => write!(f, "{} ({detail})", self.source),
            None => self.source.fmt(f),
        }
    }
}

impl error::Error for Refused {}

/// A netlink socket, of NETLINK_ROUTE unless made otherwise. It belongs to the network namespace it was made in,
/// wherever its user goes.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// A socket that asks and waits for answers.
    pub(crate) fn new() -> io::Result<Socket> {
        Socket::asking(libc::NETLINK_ROUTE)
    }

    /// Like [`Socket::new`], but where the kernel can (Linux 4.20), lists contain only entries that match the
    /// request.
    pub(crate) fn choosing() -> io::Result<Socket> {
        // linux/netlink.h; not in the libc crate.
        const NETLINK_GET_STRICT_CHK: i32 = 12;
        let socket = Socket::new()?;
        let _ = set_option(&socket.fd, libc::SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
        Ok(socket)
    }

    /// Like [`Socket::new`], for NETLINK_SOCK_DIAG, which lists sockets (sock_diag(7)).
    pub(crate) fn diagnosis() -> io::Result<Socket> {
        Socket::asking(libc::NETLINK_SOCK_DIAG)
    }

    /// As [`Socket::new`], of NETLINK_NETFILTER, which takes rules in batches.
    pub(crate) fn netfilter() -> io::Result<Socket> {
        Socket::asking(libc::NETLINK_NETFILTER)
    }

    /// As [`Socket::new`], of NETLINK_GENERIC, which has families by name (netlink(7)).
    pub(crate) fn generic() -> io::Result<Socket> {
        Socket::asking(libc::NETLINK_GENERIC)
    }

    fn asking(family: libc::c_int) -> io::Result<Socket> {
        Socket::open(family, 0, 0)?.waiting()
    }

    /// As [`Socket::new`], over a socket that was made elsewhere, such as in another namespace.
    pub(crate) fn over(fd: OwnedFd) -> io::Result<Socket> {
        Socket::of(fd).waiting()
    }

    fn of(fd: OwnedFd) -> Socket {
        Socket {
            fd,
            sequence: 0,
            buffer: vec![0; RECEIVE_BYTES],
        }
    }

    fn waiting(self) -> io::Result<Socket> {
        set_option(&self.fd, libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, 1)?;
        set_option(&self.fd, libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, 1)?;
        let timeout = libc::timeval {
            tv_sec: ANSWER_TIMEOUT.as_secs() as _,
            tv_usec: 0,
        };
        set_option(&self.fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, timeout)?;
        Ok(self)
    }

    /// A non-blocking socket that gets the events of `groups` (`RTNLGRP_…`).
    pub(crate) fn subscribed(groups: &[u32]) -> io::Result<Socket> {
        let mask = groups.iter().fold(0, |mask, group| mask | 1 << (group - 1));
        Socket::open(libc::NETLINK_ROUTE, libc::SOCK_NONBLOCK, mask)
    }

    fn open(family: libc::c_int, flags: libc::c_int, groups: u32) -> io::Result<Socket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | flags;
        // SAFETY: takes no pointers.
        let fd = check_fd(unsafe { libc::socket(libc::AF_NETLINK, kind, family) })?;
        let mut address = no_address();
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = groups;
        // SAFETY: the pointer and the length describe `address`.
        check(unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        })?;
        Ok(Socket::of(fd))
    }

    /// Asks for a larger receive buffer; any grant is good enough.
    pub(crate) fn grow(&self, bytes: usize) -> io::Result<()> {
        let fd = self.fd.as_fd();
        crate::sys::grow_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes).map(drop)
    }

    /// The next datagram from the kernel.
    pub(crate) fn receive(&mut self) -> io::Result<&[u8]> {
        loop {
            let mut from = no_address();
            let mut from_bytes = size_of_val(&from) as libc::socklen_t;
            let (fd, buffer) = (self.fd.as_raw_fd(), &mut self.buffer);
            let length = retry(|| {
                // SAFETY: both pointers go with their lengths; all outlive the call.
                check_len(unsafe {
                    libc::recvfrom(
                        fd,
                        buffer.as_mut_ptr().cast(),
                        buffer.len(),
                        libc::MSG_TRUNC,
                        (&raw mut from).cast(),
                        &raw mut from_bytes,
                    )
                })
            })?;
            // Any process may write to our address; only number 0 is the kernel.
            if from.nl_pid != 0 {
                continue;
            }
            if length > self.buffer.len() {
                return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
            }
            return Ok(&self.buffer[..length]);
        }
    }

    fn send(&mut self, request: Request) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = request.finish(self.sequence);
        retry(|| {
            let fd = self.fd.as_raw_fd();
            // SAFETY: the pointer and the length describe `bytes`.
            check_len(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) })
        })?;
        Ok(())
    }

    /// Makes the kernel do something; the request must carry `NLM_F_ACK`.
    pub(crate) fn execute(&mut self, request: Request) -> Result<(), Refused> {
        self.send(request)?;
        self.collect(&mut |_| ()).map(drop)
    }

    /// Makes the kernel do several things, all or none; the last one must carry `NLM_F_ACK`.
    pub(crate) fn execute_batch(&mut self, requests: Vec<Request>) -> Result<(), Refused> {
        let mut bytes = Vec::new();
        for request in requests {
            self.sequence = self.sequence.wrapping_add(1);
            bytes.extend(request.finish(self.sequence));
        }
        retry(|| {
            let fd = self.fd.as_raw_fd();
            // SAFETY: the pointer and the length describe `bytes`.
            check_len(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) })
        })?;
        loop {
            // The first answer is the error of the first failed request, or that all are done.
            for message in messages(self.receive()?).flatten() {
                if i32::from(message.kind) == libc::NLMSG_ERROR {
                    return read_error(message.body);
                }
            }
        }
    }

    /// Asks the kernel for one thing; the request must carry `NLM_F_ACK`.
    pub(crate) fn ask<T>(
        &mut self,
        request: Request,
        read: impl Fn(Message<'_>) -> Option<T>,
    ) -> Result<Option<T>, Refused> {
        let mut found = None;
        self.send(request)?;
        self.collect(&mut |message| found = read(message).or(found.take()))?;
        Ok(found)
    }

    /// Asks the kernel for a list: `make` makes the request, which must carry `NLM_F_DUMP`; `read` parses every
    /// answer.
    pub(crate) fn dump<T>(
        &mut self,
        make: impl Fn() -> Request,
        read: impl Fn(Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Refused> {
        for _ in 0..DUMP_TRIES {
            let mut found = Vec::new();
            self.send(make())?;
            if self.collect(&mut |message| found.extend(read(message)))? {
                return Ok(found);
            }
        }
        Err(io::Error::new(
            io::ErrorKind::Interrupted,
            "links keep changing while listed",
        )
        .into())
    }

    /// Reads the answers to the last request to the end. False: inconsistent,
    /// ask again.
    fn collect(&mut self, each: &mut dyn FnMut(Message<'_>)) -> Result<bool, Refused> {
        let mut consistent = true;
        loop {
            let sequence = self.sequence;
            for message in messages(self.receive()?) {
                let Some(message) = message else {
                    return Err(io::Error::from(io::ErrorKind::InvalidData).into());
                };
                if message.sequence != sequence {
                    continue;
                }
                consistent &= message.flags & libc::NLM_F_DUMP_INTR as u16 == 0;
                match i32::from(message.kind) {
                    libc::NLMSG_DONE => return read_end(message.body).map(|()| consistent),
                    libc::NLMSG_ERROR => return read_error(message.body).map(|()| consistent),
                    _ => each(message),
                }
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> OwnedFd {
        socket.fd
    }
}

/// The end of a list: a negated error number, and attributes. Nothing of the kind that was
/// asked for (`ENOENT`) is an empty list.
fn read_end(body: &[u8]) -> Result<(), Refused> {
    let errno = u32_at(body, 0).map_or(0, |number| (number as i32).wrapping_neg());
    if errno <= 0 || errno == libc::ENOENT {
        return Ok(());
    }
    Err(refused(errno, body.get(4..)))
}

fn refused(errno: i32, details: Option<&[u8]>) -> Refused {
    let detail = attributes(details.unwrap_or(&[]))
        .find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG)
        .map(|(_, value)| text(value));
    Refused {
        source: io::Error::from_raw_os_error(errno),
        detail,
    }
}

/// `struct nlmsgerr`: a negated error number (0: done), the header of the
/// request, and attributes.
fn read_error(body: &[u8]) -> Result<(), Refused> {
    let errno = u32_at(body, 0).map_or(libc::EBADMSG, |number| (number as i32).wrapping_neg());
    if errno == 0 {
        return Ok(());
    }
    Err(refused(errno, body.get(20..)))
}

fn no_address() -> libc::sockaddr_nl {
    // SAFETY: integers only; zero is a value.
    unsafe { mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_ends_in_an_error_is_refused() {
        let end = |errno: i32| read_end(&(-errno).to_ne_bytes());
        assert!(end(0).is_ok() && read_end(&[]).is_ok());
        assert!(end(libc::ENOENT).is_ok(), "there is nothing of the kind");
        let refused = end(libc::EPERM).unwrap_err();
        assert_eq!(refused.source.raw_os_error(), Some(libc::EPERM));
    }
}
