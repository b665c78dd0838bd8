//! Finding and ending the programs that run in a lab.

use std::fs;
use std::time::{Duration, Instant};

use tabane_io::process::{Watched, processes};

/// In the environment of every command of a lab: the lab's token.
pub(crate) const TOKEN_VARIABLE: &str = "TABANE_LAB_TOKEN";
/// How long programs get to end by themselves when their lab ends.
const GRACE: Duration = Duration::from_millis(500);
/// How long the kernel gets to end them.
const REAP: Duration = Duration::from_secs(2);

/// Processes whose network namespace is one of these, by inode.
pub(crate) fn inside(inodes: &[u64]) -> Vec<u32> {
    let wanted: Vec<String> = inodes
        .iter()
        .map(|inode| format!("net:[{inode}]"))
        .collect();
    matching(|pid| {
        fs::read_link(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|to| wanted.iter().any(|name| to.as_os_str() == name.as_str()))
    })
}

/// Processes started as commands of the lab with this token.
pub(crate) fn marked(token: &str) -> Vec<u32> {
    let line = format!("{TOKEN_VARIABLE}={token}");
    matching(|pid| {
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environment| environment.split(|&b| b == 0).any(|e| e == line.as_bytes()))
    })
}

fn matching(is_wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    let own = std::process::id();
    let all = processes().unwrap_or_default().into_iter();
    all.filter(|&pid| pid != own && is_wanted(pid)).collect()
}

/// End these: first kindly, then at once. Returns when they are gone.
pub(crate) fn end(pids: &[u32]) {
    let handles: Vec<Watched> = pids
        .iter()
        .filter_map(|&pid| Watched::new(pid).ok())
        .collect();
    for handle in &handles {
        let _ = handle.signal(libc::SIGTERM);
        // A stopped process takes its SIGTERM only when it goes on.
        let _ = handle.signal(libc::SIGCONT);
    }
    let until = Instant::now() + GRACE;
    for handle in &handles {
        if !handle.ends_within(until.saturating_duration_since(Instant::now())) {
            let _ = handle.signal(libc::SIGKILL);
            let _ = handle.ends_within(REAP);
        }
    }
}
