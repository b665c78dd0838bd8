//! `tabane run --join`: moves into the namespaces of a program under `tabane run`, as if that one had started this
//! program.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tabane_cluster::plain;
use tabane_io::capture::is_inside;
use tabane_io::credentials::own_uid;
use tabane_io::handover::{Handover, HandoverListener};
use tabane_io::namespaces::{self, Kinds};
use tabane_io::process::{processes, user_of};
use tabane_io::socket_calls::SocketCalls;

/// Name of a supervisor's socket, for processes in its namespace: not in the file system.
const NAME: &[u8] = b"\0tabane-supervisor";
/// A supervisor's answer.
pub const JOINED: &[u8] = b"joined";
/// Directory of control groups; next, how deep below it a unit's may be.
const CGROUPS: &str = "/sys/fs/cgroup";
const CGROUP_DEPTH_MAX: usize = 8;

/// Listens for joining processes, in this process's namespace.
///
/// # Errors
/// A process there has that name.
pub fn listen() -> io::Result<HandoverListener> {
    HandoverListener::bind(Path::new(OsStr::from_bytes(NAME)))
}

/// Moves this process to another program's namespaces: the program with this process id, with this name, or in this
/// systemd unit.
///
/// # Errors
/// There is none, or it is another user's, or not under `tabane run`, in words.
pub fn join(whom: &str) -> Result<(), String> {
    let target = find(whom)?;
    let directory = std::env::current_dir().ok();
    enter(target)
        .map_err(|error| format!("process {target} cannot be joined: {}", plain(&error)))?;
    if !is_inside().unwrap_or(false) {
        return Err(format!("process {target} is not under `tabane run`"));
    }
    if let Some(directory) = directory {
        // Entering another place of mounts leads to its root.
        std::env::set_current_dir(&directory)
            .map_err(|error| format!("{}: {}", directory.display(), plain(&error)))?;
    }
    let supervisor = Handover::connect(Path::new(OsStr::from_bytes(NAME)));
    let supervisor = supervisor.ok().filter(is_of_own);
    let supervisor = supervisor
        .ok_or_else(|| format!("the supervisor of process {target} is gone: it has no network"))?;
    let answer = match SocketCalls::of_ports() {
        Ok(calls) => supervisor.send(b"calls", &[calls.as_fd()]),
        Err(_) => supervisor.send(b"no calls", &[]),
    };
    match answer.and_then(|()| supervisor.receive()) {
        Ok((answer, _)) if answer == JOINED => Ok(()),
        _ => Err(format!(
            "the supervisor of process {target} does not answer"
        )),
    }
}

/// After the supervisor's end, any other process in the namespace might take the name.
fn is_of_own(supervisor: &Handover) -> bool {
    let who = supervisor.credentials();
    who.is_ok_and(|who| who.uid == own_uid())
}

/// Into the namespaces of a process: of users first, which lets this one into the others.
fn enter(target: u32) -> io::Result<()> {
    let kinds = [
        ("user", Kinds::USER),
        ("net", Kinds::NET),
        ("mnt", Kinds::MOUNT),
    ];
    let mut open = Vec::new();
    for (name, kind) in kinds {
        let (there, here) = (
            namespace(target, name)?,
            namespace(std::process::id(), name)?,
        );
        if namespaces::inode(&there)? != namespaces::inode(&here)? {
            open.push((there, kind));
        }
    }
    let mut open = open.into_iter();
    open.try_for_each(|(there, kind)| namespaces::enter(there, kind))
}

fn namespace(process: u32, name: &str) -> io::Result<OwnedFd> {
    namespaces::open(&CString::new(format!("/proc/{process}/ns/{name}"))?)
}

/// The process that is meant: of several in one namespace, any.
fn find(whom: &str) -> Result<u32, String> {
    let meant: Vec<u32> = match whom.parse() {
        Ok(process) => vec![process],
        Err(_) if is_unit(whom) => processes_of_unit(whom)?,
        Err(_) => processes()
            .map_err(|error| format!("/proc: {}", plain(&error)))?
            .into_iter()
            .filter(|it| is_called(*it, whom))
            .collect(),
    };
    if meant.is_empty() || meant.iter().all(|it| user_of(*it).is_none()) {
        return Err(format!("there is no process {whom}"));
    }
    let own: Vec<u32> = meant
        .into_iter()
        .filter(|it| user_of(*it) == Some(own_uid()))
        .collect();
    if own.is_empty() {
        return Err(format!("{whom} is another user's"));
    }
    let here = inode_of(std::process::id());
    let elsewhere = own.into_iter().filter_map(|it| Some((inode_of(it)?, it)));
    let elsewhere = elsewhere.filter(|(inode, _)| Some(*inode) != here);
    let by_namespace: BTreeMap<u64, u32> = elsewhere.collect();
    let mut found = by_namespace.into_values();
    match (found.next(), found.next()) {
        (None, _) => Err(format!("{whom} is not under `tabane run`")),
        (Some(process), None) => Ok(process),
        (Some(one), Some(other)) => Err(format!(
            "there are several {whom}, each in a place of its own (processes {one} and {other}, say): give the number of \
             the one that is meant"
        )),
    }
}

fn inode_of(process: u32) -> Option<u64> {
    let namespace = namespace(process, "net").ok()?;
    namespaces::inode(namespace).ok()
}

/// Whether a process runs a program of this name.
fn is_called(process: u32, name: &str) -> bool {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let program = words.split(|byte| *byte == 0).next().unwrap_or_default();
    let program = Path::new(OsStr::from_bytes(program));
    program.file_name() == Some(OsStr::new(name))
}

fn is_unit(whom: &str) -> bool {
    [".service", ".scope"].iter().any(|end| whom.ends_with(end))
}

/// The processes in the control group of a unit.
fn processes_of_unit(unit: &str) -> Result<Vec<u32>, String> {
    let group = find_group(Path::new(CGROUPS), unit, CGROUP_DEPTH_MAX);
    let group = group.ok_or_else(|| format!("no unit {unit} runs (below {CGROUPS})"))?;
    let listed = fs::read_to_string(group.join("cgroup.procs"));
    let listed = listed.map_err(|error| format!("{}: {}", group.display(), plain(&error)))?;
    Ok(listed
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect())
}

fn find_group(below: &Path, name: &str, depth: usize) -> Option<PathBuf> {
    let entries = fs::read_dir(below).ok()?.flatten();
    let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let groups: Vec<PathBuf> = groups.map(|entry| entry.path()).collect();
    let named = groups.iter().find(|path| path.ends_with(name)).cloned();
    named.or_else(|| {
        let deeper = depth.checked_sub(1)?;
        groups
            .iter()
            .find_map(|path| find_group(path, name, deeper))
    })
}
