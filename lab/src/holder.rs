//! The process that owns a lab's namespaces.
//!
//! It is made in the gap between fork and exec of `/bin/sh`, by system calls
//! alone: one network namespace after another is unshared and kept as an open
//! descriptor, then a shell waits there for the end of its input. A fork that
//! went on as a copy of the caller would be unsound (a test binary has other
//! threads, whose locks it would inherit), and a helper binary of our own would
//! have to be found by every test of every crate; the shell is always there.
//!
//! Its input is a pipe, whose other end the maker of the lab has. So the lab
//! dies with that process, even by SIGKILL, unless it is released: one line
//! down the pipe, and the holder waits for no end any more. Programs that still
//! run in the lab's namespaces would keep them alive, so the holder ends them
//! before it goes. It is in a namespace of its own, and so not among them. Programs that have left
//! for another namespace (those under `tabane run` have) bear the lab's token in their environment.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use tabane_io::namespaces::{self, Kinds, OwnIds};

use crate::processes::TOKEN_VARIABLE;
use crate::{LabError, sys};

/// Where the namespaces' descriptors begin; above what programs use themselves.
const FIRST_DESCRIPTOR: RawFd = 64;

/// Programs get half a second to end by themselves.
const WAIT: &str = r#"
read -r _ && exec sleep infinity
lab=" $(echo $(readlink /proc/$$/fd/*)) "
inside() {
    ls -l /proc/[0-9]*/ns/net | while read -r line; do
        case "$lab" in *" ${line##* } "*)
            line=${line#*/proc/}
            echo "${line%%/*}"
        esac
    done
}
programs() {
    inside
    marked=$(grep -lszxF "$TOKEN" /proc/[0-9]*/environ)
    for file in $marked; do
        file=${file#/proc/}
        echo "${file%/environ}"
    done
}
programs=$(programs)
[ -n "$programs" ] || exit
kill -TERM $programs
kill -CONT $programs
sleep 0.5
programs=$(programs)
[ -z "$programs" ] || kill -KILL $programs
"#;

pub(crate) struct Holder {
    pub child: Child,
    /// Closing it ends the holder; a line written into it releases it.
    pub lifeline: PipeWriter,
    /// `/proc/PID/fd/N` and inode of each network namespace, in order.
    pub namespaces: Vec<(CString, u64)>,
    /// `/proc/PID/ns/user`, if it has its own.
    pub user: Option<CString>,
}

/// Start the holder of `count` network namespaces. It keeps `lock` open for
/// as long as it lives.
pub(crate) fn spawn(
    name: &str,
    token: &str,
    count: usize,
    lock: &File,
) -> Result<Holder, LabError> {
    let (input, lifeline) = io::pipe().map_err(LabError::io("pipe"))?;
    let own_user = !may_make_namespaces();
    let plan = Plan {
        ids: own_user.then(OwnIds::as_root),
        count,
        lock: lock.as_raw_fd(),
    };
    let mut command = Command::new("/bin/sh");
    command.args(["-c", WAIT, "tabane-lab", name]);
    command.env_clear().current_dir("/");
    command.env("TOKEN", format!("{TOKEN_VARIABLE}={token}"));
    command
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: `carry_out` only makes system calls.
    unsafe { command.pre_exec(move || plan.carry_out()) };
    let child = command.spawn().map_err(why_refused)?;
    let (namespaces, user) = match found(child.id(), count, own_user) {
        Ok(found) => found,
        Err(error) => {
            let mut child = child;
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    };
    Ok(Holder {
        child,
        lifeline,
        namespaces,
        user,
    })
}

/// Everything needed after the fork, made before it.
struct Plan {
    ids: Option<OwnIds>,
    count: usize,
    lock: RawFd,
}

impl Plan {
    fn carry_out(&self) -> io::Result<()> {
        sys::new_session();
        sys::close_rest_at_exec()?;
        if let Some(ids) = &self.ids {
            namespaces::unshare(Kinds::USER)?;
            ids.take_effect()?;
        }
        // SAFETY: opened by the caller, who keeps it open over the spawn.
        sys::keep_through_exec(unsafe { BorrowedFd::borrow_raw(self.lock) }, 3)?;
        for _ in 0..self.count {
            namespaces::unshare(Kinds::NET)?;
            let net = namespaces::open(c"/proc/self/ns/net")?;
            sys::keep_through_exec(net.as_fd(), FIRST_DESCRIPTOR)?;
        }
        namespaces::unshare(Kinds::NET)
    }
}

/// Whether this process has CAP_SYS_ADMIN and CAP_NET_ADMIN. Then the lab
/// needs no user namespace, and programs in it have root's whole power (larger
/// socket buffers, BPF).
fn may_make_namespaces() -> bool {
    const NEEDED: u64 = 1 << 21 | 1 << 12;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|effective| effective & NEEDED == NEEDED)
}

type Found = (Vec<(CString, u64)>, Option<CString>);

/// The descriptors are in the order of their numbers: each was the lowest free
/// one when it was made.
fn found(pid: u32, count: usize, own_user: bool) -> Result<Found, LabError> {
    let directory = format!("/proc/{pid}/fd");
    let reading = || LabError::io(format!("reading {directory}"));
    let mut numbers = Vec::new();
    for entry in fs::read_dir(&directory).map_err(reading())? {
        let entry = entry.map_err(reading())?;
        let is_net =
            fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("net:["));
        if let (true, Some(number)) = (is_net, number_of(entry.file_name())) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    if numbers.len() != count {
        return Err(LabError::Io {
            what: format!("{} namespaces of {count} were kept", numbers.len()),
            source: io::Error::other("the holder ended early"),
        });
    }
    let mut namespaces = Vec::with_capacity(count);
    for number in numbers {
        let path = c_path(format!("{directory}/{number}"))?;
        let fd = namespaces::open(&path).map_err(reading())?;
        namespaces.push((path, namespaces::inode(&fd).map_err(reading())?));
    }
    let user = own_user
        .then(|| c_path(format!("/proc/{pid}/ns/user")))
        .transpose()?;
    Ok((namespaces, user))
}

fn number_of(name: OsString) -> Option<RawFd> {
    name.to_str()?.parse().ok()
}

pub(crate) fn c_path(path: String) -> Result<CString, LabError> {
    CString::new(path).map_err(|_| LabError::BadInput("a path with a zero byte".into()))
}

fn why_refused(source: io::Error) -> LabError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS) => LabError::NotPermitted {
            what: "making namespaces",
            source,
        },
        Some(libc::EINVAL | libc::ENOSYS) => LabError::MissingFeature {
            what: format!("making namespaces: {source}"),
            feature: "CONFIG_USER_NS, CONFIG_NET_NS or close_range(2) (Linux 5.11)",
        },
        _ => LabError::Io {
            what: "starting the lab's holder (/bin/sh)".into(),
            source,
        },
    }
}
