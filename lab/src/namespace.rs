//! Entering a lab's namespaces, always between fork and exec: joining a user
//! namespace is refused to a process with several threads, and a library user
//! (a test binary) has several.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::sys;

/// A network namespace of a lab, and the user namespace that owns it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// What it is called in messages: `n0`, `switch 1`.
    pub name: String,
    /// `/proc/HOLDER/fd/N`.
    pub net: CString,
    /// The namespace that must be found there; a recycled process id has another.
    pub inode: u64,
    /// `/proc/HOLDER/ns/user`, unless root made the lab without one.
    pub user: Option<CString>,
}

impl Place {
    /// Move the calling process in. Only for a process with a single thread,
    /// such as between fork and exec: no allocation, no lock.
    pub fn enter(&self) -> io::Result<()> {
        let net = sys::open(&self.net, libc::O_RDONLY)?;
        if sys::inode(net.as_fd())? != self.inode {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if let Some(user) = &self.user {
            let user = sys::open(user, libc::O_RDONLY)?;
            sys::setns(user.as_fd(), libc::CLONE_NEWUSER)?;
        }
        sys::setns(net.as_fd(), libc::CLONE_NEWNET)
    }

    /// A command that runs here: the process spawned *is* the program, there
    /// is nothing in between to kill or wait for.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let place = self.clone();
        // SAFETY: `enter` only makes system calls.
        unsafe { command.pre_exec(move || place.enter()) };
        command
    }

    /// As [`Place::command`], with the surroundings of a machine of its own:
    /// its host name, and a `/sys` that shows its NICs.
    pub fn machine_command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.command(program);
        let name = self.name.clone();
        // SAFETY: `furnish` only makes system calls.
        unsafe { command.pre_exec(move || furnish(&name)) };
        command
    }

    /// Make sockets in this namespace and bring them out. A socket stays in
    /// the namespace it was made in, so its owner can use it from outside.
    pub fn sockets(
        &self,
        kinds: &[(libc::c_int, libc::c_int, libc::c_int)],
    ) -> io::Result<Vec<OwnedFd>> {
        let (ours, theirs) = UnixDatagram::pair()?;
        let (place, wanted) = (self.clone(), kinds.to_vec());
        let channel = theirs.as_raw_fd();
        let mut command = Command::new("/bin/true");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let send_all = move || {
            place.enter()?;
            for &(family, kind, protocol) in &wanted {
                send_descriptor(channel, sys::socket(family, kind, protocol)?.as_raw_fd())?;
            }
            Ok(())
        };
        // SAFETY: only system calls, on memory made before the fork.
        unsafe { command.pre_exec(send_all) };
        command.spawn()?.wait()?;
        kinds.iter().map(|_| receive_descriptor(&ours)).collect()
    }
}

/// A command for a place that does not exist: spawning it fails.
pub(crate) fn nowhere(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    // SAFETY: makes an error out of a number, no more.
    unsafe { command.pre_exec(|| Err(io::Error::from_raw_os_error(libc::ENODEV))) };
    command
}

/// A mount namespace with this network namespace's `/sys`, and a host name.
/// Mounting is an improvement only, and refused in some containers: then `/sys`
/// stays the outer one.
fn furnish(name: &str) -> io::Result<()> {
    sys::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWUTS)?;
    const CGROUP: &CStr = c"/sys/fs/cgroup";
    const SYS: &CStr = c"/sys";
    // SAFETY: valid C strings and plain integers; failures are looked at or harmless.
    unsafe {
        libc::sethostname(name.as_ptr().cast(), name.len());
        let (none, no_data) = (c"none".as_ptr(), std::ptr::null());
        let private = libc::MS_REC | libc::MS_SLAVE;
        if libc::mount(none, c"/".as_ptr(), std::ptr::null(), private, no_data) != 0 {
            return Ok(());
        }
        // The new /sys would hide the control groups below the old one.
        const CLONE: libc::c_uint = 1 | libc::AT_RECURSIVE as libc::c_uint;
        let cgroup =
            libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, CGROUP.as_ptr(), CLONE) as RawFd;
        libc::mount(
            c"sysfs".as_ptr(),
            SYS.as_ptr(),
            c"sysfs".as_ptr(),
            0,
            no_data,
        );
        if cgroup >= 0 {
            const FROM_EMPTY_PATH: libc::c_uint = 4;
            let (to, empty) = (CGROUP.as_ptr(), c"".as_ptr());
            libc::syscall(
                libc::SYS_move_mount,
                cgroup,
                empty,
                libc::AT_FDCWD,
                to,
                FROM_EMPTY_PATH,
            );
            libc::close(cgroup);
        }
    }
    Ok(())
}

/// Room for one descriptor in a control message, aligned for `cmsghdr`.
#[repr(align(8))]
struct Control([u8; 24]);

fn send_descriptor(channel: RawFd, descriptor: RawFd) -> io::Result<()> {
    let mut control = Control([0; 24]);
    let mut byte = 0u8;
    let mut iov = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: the message points at the buffers above, which outlive the call;
    // the control buffer has room for one header and one descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut iov, 1);
        (message.msg_control, message.msg_controllen) =
            (control.0.as_mut_ptr().cast(), libc::CMSG_SPACE(4) as _);
        let header = libc::CMSG_FIRSTHDR(&message);
        ((*header).cmsg_level, (*header).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header)
            .cast::<RawFd>()
            .write_unaligned(descriptor);
        sys::check(libc::sendmsg(channel, &message, 0) as libc::c_int).map(drop)
    }
}

fn receive_descriptor(channel: &UnixDatagram) -> io::Result<OwnedFd> {
    let mut control = Control([0; 24]);
    let mut byte = 0u8;
    let mut iov = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    // SAFETY: as in `send_descriptor`; the descriptor received is ours alone.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&mut iov, 1);
        (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), 24);
        let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        sys::check(libc::recvmsg(channel.as_raw_fd(), &mut message, flags) as libc::c_int)?;
        let header = libc::CMSG_FIRSTHDR(&message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return Err(io::Error::other("no descriptor came"));
        }
        Ok(OwnedFd::from_raw_fd(
            libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned(),
        ))
    }
}
