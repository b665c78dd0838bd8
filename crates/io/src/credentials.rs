//! The other end of a Unix socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::sys::{check, get_option};

/// Of asm-generic/socket.h.
const SO_PEERGROUPS: libc::c_int = 59;

/// The credentials of a connection's other end, as the kernel saw them when the connection was made
/// (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Process.
    pub pid: i32,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
}

/// The credentials of a socket's other end.
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

/// The supplementary groups of a connection's other end, as the kernel saw them when the connection was made
/// (`SO_PEERGROUPS`).
///
/// # Errors
/// When this is no connected Unix socket.
pub fn peer_groups(socket: &impl AsFd) -> io::Result<Vec<u32>> {
    /// NGROUPS_MAX of the kernel.
    const MOST: usize = 65_536;
    let mut groups = vec![0 as libc::gid_t; MOST];
    let mut bytes = size_of_val(&groups[..]) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `groups`.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    })?;
    groups.truncate(bytes as usize / size_of::<libc::gid_t>());
    Ok(groups)
}

/// The user this process runs as.
#[must_use]
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_process_talks_to_itself() {
        let (here, there) = UnixStream::pair().unwrap();
        assert_eq!(peer(&here).unwrap().uid, own_uid());
        let own = rustix::process::getgroups().unwrap();
        let own: Vec<u32> = own.into_iter().map(|group| group.as_raw()).collect();
        assert_eq!(peer_groups(&here).unwrap(), own);
        drop(there);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(peer(&file).is_err());
    }
}
