//! Entering a lab's namespaces, always between fork and exec: joining a user
//! namespace is refused to a process with several threads, and a library user
//! (a test binary) has several.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use tabane_io::handover::Handover;
use tabane_io::namespaces::{self, Kinds};
use tabane_io::netlink::Devices;

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
        let net = namespaces::open(&self.net)?;
        if namespaces::inode(&net)? != self.inode {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if let Some(user) = &self.user {
            let user = namespaces::open(user)?;
            // A program of one node that runs another one elsewhere in the lab is in it: the kernel refuses to enter again.
            if namespaces::inode(&user)?
                != namespaces::inode(namespaces::open(c"/proc/self/ns/user")?)?
            {
                namespaces::enter(user, Kinds::USER)?;
            }
        }
        namespaces::enter(net, Kinds::NET)
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
        let (ours, theirs) = Handover::pair()?;
        let (place, wanted) = (self.clone(), kinds.to_vec());
        let mut command = Command::new("/bin/true");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let send_all = move || {
            place.enter()?;
            for &(family, kind, protocol) in &wanted {
                let socket = sys::socket(family, kind, protocol)?;
                theirs.send(&[0], &[socket.as_fd()])?;
            }
            Ok(())
        };
        // SAFETY: only system calls, on memory made before the fork.
        unsafe { command.pre_exec(send_all) };
        command.spawn()?.wait()?;
        let mut sockets = Vec::new();
        for _ in kinds {
            sockets.extend(ours.receive_now()?.1);
        }
        Ok(sockets)
    }

    /// Its devices, to be changed from outside.
    pub fn devices(&self) -> io::Result<Devices> {
        let route = (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE);
        let socket = self.sockets(&[route])?.pop();
        Devices::of(socket.ok_or_else(|| io::Error::other("no socket came"))?)
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
    namespaces::unshare(Kinds::MOUNT | Kinds::HOST_NAME)?;
    // The name is an improvement only, too.
    let _ = namespaces::set_host_name(name);
    if namespaces::keep_mounts_inside().is_ok() {
        namespaces::mount_own_sys();
    }
    Ok(())
}
