//! Handing descriptors to another process: unix sockets of messages (SOCK_SEQPACKET).

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

use crate::credentials::{self, Credentials};
use crate::sys::{self, check_len, retry};

/// Most descriptors in one message.
pub const DESCRIPTORS_MAX: usize = 16;

/// Longest message in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// The most descriptors in one message (SCM_MAX_FD of the kernel). There is room for all of them: the kernel closes those
/// without room during the receiving call, which may take as long as their sender likes.
const DESCRIPTORS_ANYBODY: usize = 253;

/// Room for the header of one ancillary message and descriptors, aligned as the kernel wants.
const fn ancillary_words(descriptors: usize) -> usize {
    2 + descriptors.div_ceil(2)
}

/// Waits for others to connect.
#[derive(Debug)]
pub struct HandoverListener(Socket);

/// One connection.
#[derive(Debug)]
pub struct Handover(Socket);

impl HandoverListener {
    /// Listens at an unused path; a path that begins with a zero byte is a name in this thread's network namespace (unix(7),
    /// "abstract"). Not blocking.
    ///
    /// # Errors
    /// `AddrInUse`: something is there. Those of the file system.
    pub fn bind(path: &Path) -> io::Result<HandoverListener> {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET.nonblocking(), None)?;
        socket.bind(&SockAddr::unix(path)?)?;
        socket.listen(64)?;
        Ok(HandoverListener(socket))
    }

    /// The next connection, not blocking, and who made it; `None` when none waits.
    ///
    /// # Errors
    /// When the process has no descriptors left. The connection still waits then.
    pub fn accept(&self) -> io::Result<Option<(Handover, Credentials)>> {
        match retry(|| self.0.accept()) {
            Ok((socket, _)) => {
                socket.set_nonblocking(true)?;
                let credentials = credentials::peer(&socket)?;
                Ok(Some((Handover(socket), credentials)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Handover {
    /// Connects to the process that listens at a path. Blocking.
    ///
    /// # Errors
    /// `NotFound`, `ConnectionRefused`: there is none.
    pub fn connect(path: &Path) -> io::Result<Handover> {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        socket.connect(&SockAddr::unix(path)?)?;
        Ok(Handover(socket))
    }

    /// The same, but never waits. Messages that are sent before the other end has accepted the connection are there when it
    /// does, even if this end is gone by then.
    ///
    /// # Errors
    /// As [`Handover::connect`]; `WouldBlock`: too many wait for it already.
    pub fn connect_now(path: &Path) -> io::Result<Handover> {
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET.nonblocking(), None)?;
        socket.connect(&SockAddr::unix(path)?)?;
        Ok(Handover(socket))
    }

    /// Two ends, blocking, for a process and its child.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn pair() -> io::Result<(Handover, Handover)> {
        let (a, b) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None)?;
        Ok((Handover(a), Handover(b)))
    }

    /// The other end's credentials.
    ///
    /// # Errors
    /// Not expected.
    pub fn credentials(&self) -> io::Result<Credentials> {
        credentials::peer(&self.0)
    }

    /// Whether calls return `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// Not expected.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking)
    }

    /// Ends the connection, also for others that have its descriptor.
    pub fn end(&self) {
        // One that the other end has ended needs no end.
        let _ = self.0.shutdown(Shutdown::Both);
    }

    /// Sends a message of at least a byte with these descriptors, which stay open here. Neither allocates nor locks, so it may
    /// be called between fork and exec.
    ///
    /// # Errors
    /// `InvalidInput`: too many descriptors, or too long, or empty. `BrokenPipe`: the other end is
    /// gone. `WouldBlock`: it has not read what was sent before.
    pub fn send(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if message.is_empty()
            || message.len() > MESSAGE_BYTES_MAX
            || descriptors.len() > DESCRIPTORS_MAX
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut ancillary = [0u64; ancillary_words(DESCRIPTORS_MAX)];
        let mut content = libc::iovec {
            iov_base: message.as_ptr().cast_mut().cast(),
            iov_len: message.len(),
        };
        // SAFETY: integers and pointers; all zero is a value.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut content;
        header.msg_iovlen = 1;
        if !descriptors.is_empty() {
            let bytes = size_of::<i32>() * descriptors.len();
            header.msg_control = ancillary.as_mut_ptr().cast();
            // SAFETY: arithmetic only.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(bytes as u32) } as _;
            // SAFETY: `header` names `ancillary`, which is large enough for one message of
            // DESCRIPTORS_MAX numbers and aligned for its header.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(bytes as u32) as _;
                let data = libc::CMSG_DATA(first).cast::<i32>();
                for (index, descriptor) in descriptors.iter().enumerate() {
                    data.add(index).write_unaligned(descriptor.as_raw_fd());
                }
            }
        }
        retry(|| {
            // SAFETY: `header` names buffers that outlive the call.
            check_len(unsafe {
                libc::sendmsg(self.0.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL)
            })
        })?;
        Ok(())
    }

    /// The next message and its descriptors, closed on exec. An empty one: the other end is gone, or has
    /// said more than was agreed on. There may be more descriptors than [`DESCRIPTORS_MAX`]. Whose they
    /// are decides how long closing them takes.
    ///
    /// # Errors
    /// `WouldBlock`: none is there.
    pub fn receive(&self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        self.receive_with(0)
    }

    /// As [`Handover::receive`], and never waits.
    ///
    /// # Errors
    /// As [`Handover::receive`].
    pub fn receive_now(&self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        self.receive_with(libc::MSG_DONTWAIT)
    }

    fn receive_with(&self, flags: libc::c_int) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut message = vec![0; MESSAGE_BYTES_MAX];
        let look = |flags| receive(self.0.as_fd(), &mut message, flags);
        let (bytes, descriptors, told) = message_or_end(flags, look)?;
        if told & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0 {
            return Ok((Vec::new(), descriptors));
        }
        message.truncate(bytes);
        Ok((message, descriptors))
    }
}

/// Reads from a stream, as read(2) does, and takes any descriptors that the sender may have attached: with a plain read the
/// kernel would close them, which may take as long as their sender likes. Never waits.
///
/// # Errors
/// As a read has.
pub fn read_with_descriptors(
    stream: impl AsFd,
    buffer: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let (bytes, descriptors, _) = receive(stream.as_fd(), buffer, libc::MSG_DONTWAIT)?;
    Ok((bytes, descriptors))
}

/// How many bytes came, the descriptors beside them, closed on exec, and the flags of the message.
type Received = (usize, Vec<OwnedFd>, libc::c_int);

/// The next message of a connection, or its end when no message is left. `look` receives with the flags it is given.
///
/// Linux looks for a message first, and then whether the other end has closed (`__unix_dgram_recvmsg`). No lock holds from the one
/// to the other. Whoever sends and closes in between is reported as gone while its last message waits (1 of 1,000 to 10,000
/// times where the receiver looks all the time). Nobody sends after closing, so a second look finds what there is.
fn message_or_end(
    flags: libc::c_int,
    mut look: impl FnMut(libc::c_int) -> io::Result<Received>,
) -> io::Result<Received> {
    let first = look(flags)?;
    if first.0 > 0 || !first.1.is_empty() {
        return Ok(first);
    }
    // It may have been an empty message of an end that is still there: do not wait for its next one.
    look(flags | libc::MSG_DONTWAIT).or(Ok(first))
}

fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], flags: libc::c_int) -> io::Result<Received> {
    let mut ancillary = [MaybeUninit::<u64>::uninit(); ancillary_words(DESCRIPTORS_ANYBODY)];
    let mut content = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: integers and pointers; all zero is a value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = &raw mut content;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&ancillary) as _;
    let flags = libc::MSG_CMSG_CLOEXEC | flags;
    let bytes = retry(|| {
        // SAFETY: `header` names buffers that outlive the call.
        check_len(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) })
    })?;
    // SAFETY: the kernel has filled in `header`, and `ancillary` is still there.
    let messages = unsafe { sys::ancillary(&header) };
    let handed = messages.filter(|it| it.kind == (libc::SOL_SOCKET, libc::SCM_RIGHTS));
    let mut descriptors = Vec::new();
    for message in handed {
        // SAFETY: each number of such a message is a descriptor that is ours alone from now on.
        descriptors.extend(
            message
                .values()
                .map(|it| unsafe { OwnedFd::from_raw_fd(it) }),
        );
    }
    Ok((bytes, descriptors, header.msg_flags))
}

/// A descriptor from another process.
impl From<OwnedFd> for Handover {
    fn from(descriptor: OwnedFd) -> Handover {
        Handover(descriptor.into())
    }
}

impl AsFd for HandoverListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Handover {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn descriptors_arrive_open_with_their_message() {
        let name = format!("tabane-handover-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = HandoverListener::bind(&path).unwrap();
        let client = Handover::connect(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let (server, who) = listener.accept().unwrap().unwrap();
        assert_eq!(who.pid, std::process::id() as i32);
        let none = server.receive().unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        let (mut read, mut write) = io::pipe().unwrap();
        client.send(b"one", &[write.as_fd(), read.as_fd()]).unwrap();
        client.send(b"two", &[]).unwrap();
        let (message, mut descriptors) = server.receive().unwrap();
        assert_eq!((&message[..], descriptors.len()), (&b"one"[..], 2));
        write.write_all(b"a").unwrap();
        let mut again = File::from(descriptors.pop().unwrap());
        again.read_exact(&mut [0]).unwrap();
        File::from(descriptors.pop().unwrap())
            .write_all(b"b")
            .unwrap();
        read.read_exact(&mut [0]).unwrap();
        let (message, descriptors) = server.receive().unwrap();
        assert_eq!((&message[..], descriptors.len()), (&b"two"[..], 0));
        drop(client);
        assert!(server.receive().unwrap().0.is_empty());
    }

    /// The kernel's answers, one for each look, and whether the looks waited.
    fn looks(answers: Vec<io::Result<Received>>) -> (io::Result<Received>, Vec<bool>) {
        let (mut answers, mut waited) = (answers.into_iter(), Vec::new());
        let got = message_or_end(0, |flags| {
            waited.push(flags & libc::MSG_DONTWAIT == 0);
            answers.next().expect("it does not look again")
        });
        assert!(answers.next().is_none(), "it does not look again");
        (got, waited)
    }

    #[test]
    fn what_was_sent_last_is_heard_though_the_end_was_told_before() {
        let message = |bytes| Ok((bytes, Vec::new(), 0));
        let (got, waited) = looks(vec![message(0), message(4)]);
        assert_eq!((got.unwrap().0, waited), (4, vec![true, false]));
        let (got, _) = looks(vec![message(0), message(0)]);
        assert_eq!(got.unwrap().0, 0);
        // An empty message of an end that goes on.
        let nothing = Err(io::ErrorKind::WouldBlock.into());
        let (got, _) = looks(vec![message(0), nothing]);
        assert_eq!(got.unwrap().0, 0);
    }

    #[test]
    fn what_came_or_did_not_come_is_told_at_once() {
        let stdin = io::stdin().as_fd().try_clone_to_owned().unwrap();
        for (bytes, descriptors) in [(4, Vec::new()), (0, vec![stdin])] {
            let count = descriptors.len();
            let (got, _) = looks(vec![Ok((bytes, descriptors, 0))]);
            let (got_bytes, got_descriptors, _) = got.unwrap();
            assert_eq!((got_bytes, got_descriptors.len()), (bytes, count));
        }
        let (got, _) = looks(vec![Err(io::ErrorKind::WouldBlock.into())]);
        assert_eq!(got.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn an_end_is_one_for_all_who_have_the_connection() {
        let (a, b) = Handover::pair().unwrap();
        let also = Handover::from(a.as_fd().try_clone_to_owned().unwrap());
        also.end();
        assert!(b.receive().unwrap().0.is_empty());
        let error = a.send(b"x", &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let (a, _b) = Handover::pair().unwrap();
        let stdin = io::stdin();
        let many = [stdin.as_fd(); DESCRIPTORS_MAX + 1];
        for (message, descriptors) in [(&b""[..], &many[..0]), (b"x", &many)] {
            let error = a.send(message, descriptors).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        a.send(b"x", &many[..DESCRIPTORS_MAX]).unwrap();
    }
}
