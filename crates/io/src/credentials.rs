//! Who is at the other end of a Unix socket.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

use crate::sys::check;

/// The user that the other end's process ran as when it connected.
///
/// # Errors
/// When this is no connected Unix socket.
pub fn peer_uid(socket: &impl AsFd) -> io::Result<u32> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = mem::size_of_val(&peer) as libc::socklen_t;
    // SAFETY: pointer and length describe `peer`, and `length` is a valid pointer.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    })?;
    Ok(peer.uid)
}

/// The user this process runs as.
#[must_use]
pub fn own_uid() -> u32 {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_process_talks_to_itself() {
        let (here, there) = UnixStream::pair().unwrap();
        assert_eq!(peer_uid(&here).unwrap(), own_uid());
        drop(there);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(peer_uid(&file).is_err());
    }
}
