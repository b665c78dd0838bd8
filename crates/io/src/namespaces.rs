//! Namespaces (namespaces(7)): making, entering and furnishing them.
//!
//! A process changes its own here, which is possible only while it has a single thread; so most of
//! it happens between fork and exec. Nothing in this module allocates or locks, unless its
//! documentation says so.

use std::ffi::CStr;
use std::io;
use std::ops::BitOr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use libc::c_int;

use crate::credentials::own_uid;
use crate::sys::{check, check_fd, check_len};

/// Kinds of namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(c_int);

impl Kinds {
    /// Users, groups and their rights.
    pub const USER: Kinds = Kinds(libc::CLONE_NEWUSER);
    /// Devices, addresses, sockets.
    pub const NET: Kinds = Kinds(libc::CLONE_NEWNET);
    /// Mounts.
    pub const MOUNT: Kinds = Kinds(libc::CLONE_NEWNS);
    /// The host name.
    pub const HOST_NAME: Kinds = Kinds(libc::CLONE_NEWUTS);
}

impl BitOr for Kinds {
    type Output = Kinds;

    fn bitor(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }
}

/// Move this process into new ones of these kinds.
///
/// # Errors
/// The kernel does not permit it; or several threads run.
pub fn unshare(kinds: Kinds) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::unshare(kinds.0) }).map(drop)
}

/// Move this process into the namespace that an open file of this kind stands for.
///
/// # Errors
/// As [`unshare`]; or it is of another kind.
pub fn enter(namespace: impl AsFd, kind: Kinds) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::setns(namespace.as_fd().as_raw_fd(), kind.0) }).map(drop)
}

/// Opens the object of a path such as `/proc/PID/ns/net` or `/proc/PID/fd/N`; it is closed at exec.
///
/// # Errors
/// There is no such process, or it is another user's.
pub fn open(path: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the string ends in a zero byte and outlives the call.
    check_fd(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) })
}

/// The number that an open namespace has for as long as it exists.
///
/// # Errors
/// Not expected.
pub fn inode(namespace: impl AsFd) -> io::Result<u64> {
    // SAFETY: integers only; zero is a value.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `found` outlives the call.
    check(unsafe { libc::fstat(namespace.as_fd().as_raw_fd(), &raw mut found) })?;
    Ok(found.st_ino)
}

/// The caller's identity, for making a user namespace: no other user is known there, which would
/// need privilege.
#[derive(Debug, Clone)]
pub struct OwnIds {
    uid_map: String,
    gid_map: String,
}

impl OwnIds {
    /// The caller becomes root there. (Allocates: make it before the fork.)
    #[must_use]
    pub fn as_root() -> OwnIds {
        OwnIds::mapped(|_| 0)
    }

    /// The caller keeps its identity there. (Allocates.)
    #[must_use]
    pub fn kept() -> OwnIds {
        OwnIds::mapped(|id| id)
    }

    fn mapped(inside: impl Fn(u32) -> u32) -> OwnIds {
        // SAFETY: has no arguments and cannot fail.
        let (uid, gid) = (own_uid(), unsafe { libc::getegid() });
        OwnIds {
            uid_map: format!("{} {uid} 1", inside(uid)),
            gid_map: format!("{} {gid} 1", inside(gid)),
        }
    }

    /// Have it so in the user namespace that this process has just made.
    ///
    /// # Errors
    /// It has made none, or has done so before.
    pub fn take_effect(&self) -> io::Result<()> {
        // Without this the kernel refuses an ordinary user the group map.
        write(c"/proc/self/setgroups", "deny")?;
        write(c"/proc/self/uid_map", &self.uid_map)?;
        write(c"/proc/self/gid_map", &self.gid_map)
    }
}

fn write(path: &CStr, text: &str) -> io::Result<()> {
    // SAFETY: the string ends in a zero byte and outlives the call.
    let file = check_fd(unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) })?;
    // SAFETY: the pointer and the length describe `text`.
    let written =
        check_len(unsafe { libc::write(file.as_raw_fd(), text.as_ptr().cast(), text.len()) })?;
    match written == text.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Name the host, in a namespace of its own.
///
/// # Errors
/// The name is too long, or the kernel does not permit it.
pub fn set_host_name(name: &str) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `name`.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }).map(drop)
}

/// In a mount namespace that was just made: later mounts outside are seen here, too; mounts made
/// here stay here.
///
/// # Errors
/// Some containers do not permit it.
pub fn keep_mounts_inside() -> io::Result<()> {
    mount(c"", c"/", c"", libc::MS_REC | libc::MS_SLAVE)
}

/// Mounts a file over another one.
///
/// # Errors
/// One of them is not there, or the kernel does not permit it.
pub fn cover(with: &CStr, target: &CStr) -> io::Result<()> {
    mount(with, target, c"", libc::MS_BIND)
}

/// Mounts an empty file system that is in memory.
///
/// # Errors
/// There is no such directory, or the kernel does not permit it.
pub fn mount_memory(target: &CStr) -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount(c"tabane", target, c"tmpfs", flags)
}

/// Undoes the last mount there; parts in use stay.
///
/// # Errors
/// Nothing is mounted there, or the kernel does not permit it.
pub fn unmount(target: &CStr) -> io::Result<()> {
    // SAFETY: the string ends in a zero byte and outlives the call.
    check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }).map(drop)
}

/// Makes `/sys` show the devices of this process's network namespace, and the control groups as
/// before. As far as permitted: the rest stays as it was.
pub fn mount_own_sys() {
    const CGROUP: &CStr = c"/sys/fs/cgroup";
    const CLONE: libc::c_uint = 1 | libc::AT_RECURSIVE as libc::c_uint;
    const FROM_EMPTY_PATH: libc::c_uint = 4;
    // The new /sys would hide the control groups below the old one.
    // SAFETY: the string ends in a zero byte and outlives the call.
    let cgroup = check_fd(unsafe {
        libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, CGROUP.as_ptr(), CLONE) as RawFd
    });
    let mounted = mount(c"sysfs", c"/sys", c"sysfs", 0);
    if let (Ok(cgroup), Ok(())) = (cgroup, mounted) {
        // SAFETY: both strings end in a zero byte and outlive the call.
        unsafe {
            libc::syscall(
                libc::SYS_move_mount,
                cgroup.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_FDCWD,
                CGROUP.as_ptr(),
                FROM_EMPTY_PATH,
            );
        }
    }
}

/// mount(2) without data; the kernel takes an empty string for none.
fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: all strings end in a zero byte and outlive the call; there is no data.
    check(unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            std::ptr::null(),
        )
    })
    .map(drop)
}
