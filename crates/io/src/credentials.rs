//! Who is at the other end of a Unix socket.

use std::io;
use std::os::fd::AsFd;

use crate::sys::get_option;

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

/// Who is at the other end of a socket.
///
/// # Errors
/// When this is no connected Unix socket.
pub fn peer(socket: &impl AsFd) -> io::Result<Credentials> {
    let unknown = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let libc::ucred { pid, uid, gid } =
        get_option(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, unknown)?;
    Ok(Credentials { pid, uid, gid })
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
        assert_eq!(peer(&here).unwrap().uid, own_uid());
        drop(there);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(peer(&file).is_err());
    }
}
