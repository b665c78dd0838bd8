//! The machine the figures are of, and how busy it is.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use tabane_lab::LabError;
use tabane_lab::cluster::{PATIENCE, output};

/// What figures must be read with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// What is measured: the commit of the directory that bench is run in, and whether anything differs from it.
    #[serde(default)]
    pub commit: String,
    /// Date and time of the run, UTC.
    pub date: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's name.
    pub cpu: String,
    /// How many processors there are.
    pub cpus: usize,
    /// Whether the labs were made as root or as an ordinary user.
    pub user: String,
    /// Share of the machine that others kept busy before the run began, 0 to 1.
    pub busy_before: f64,
}

impl Machine {
    /// This one, now. Takes half a second.
    pub fn look() -> Machine {
        let date = said("date", &["-u", "+%Y-%m-%d %H:%M:%S UTC"]);
        let commit = said(
            "git",
            &["describe", "--always", "--dirty=, changed", "--abbrev=10"],
        );
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let name = cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == "model name").then(|| value.trim().to_owned())
        });
        let is_root = tabane_io::credentials::own_uid() == 0;
        Machine {
            commit: if commit.is_empty() {
                "unknown".into()
            } else {
                commit
            },
            date,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: name.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            user: if is_root { "root" } else { "an ordinary user" }.into(),
            busy_before: busy_share(Duration::from_millis(500)),
        }
    }
}

/// What a program says; nothing if it fails.
fn said(program: &str, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(args);
    let said = output(program, command, PATIENCE).map(|output| output.stdout);
    String::from_utf8_lossy(&said.unwrap_or_default())
        .trim()
        .to_owned()
}

/// Share of all processors that is busy during the next `interval`, 0 to 1.
pub fn busy_share(interval: Duration) -> f64 {
    let Ok(before) = Processors::now() else {
        return 0.0;
    };
    thread::sleep(interval);
    Processors::now().map_or(0.0, |after| after.busy_share_since(before))
}

/// Time all processors have spent since the machine started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Processors {
    busy_s: f64,
    idle_s: f64,
    stolen_s: f64,
}

impl Processors {
    /// Until now.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn now() -> Result<Processors, LabError> {
        let text = fs::read_to_string("/proc/stat").map_err(LabError::io("/proc/stat"))?;
        Ok(Processors::parse(&text))
    }

    /// proc(5): user, nice, system, idle, iowait, irq, softirq, steal; guest
    /// time is in user already. Time stolen by the host is neither ours nor idle.
    fn parse(text: &str) -> Processors {
        const TICKS_PER_S: f64 = 100.0;
        let words = text.lines().next().unwrap_or_default();
        let words = words.split_whitespace().skip(1).take(8);
        let mut seconds = [0.0; 8];
        for (seconds, word) in seconds.iter_mut().zip(words) {
            *seconds = word.parse().unwrap_or(0.0) / TICKS_PER_S;
        }
        let [user, nice, system, idle, iowait, irq, softirq, steal] = seconds;
        Processors {
            busy_s: user + nice + system + irq + softirq,
            idle_s: idle + iowait,
            stolen_s: steal,
        }
    }

    /// Busy seconds of all processors since then.
    pub fn busy_s_since(self, before: Processors) -> f64 {
        self.busy_s - before.busy_s
    }

    /// Share of them that the host of this machine gave to others since then, 0 to 1.
    pub fn stolen_share_since(self, before: Processors) -> f64 {
        let stolen = self.stolen_s - before.stolen_s;
        let all = stolen + self.busy_s_since(before) + self.idle_s - before.idle_s;
        stolen / all.max(0.01)
    }

    fn busy_share_since(self, before: Processors) -> f64 {
        let busy = self.busy_s_since(before);
        busy / (busy + self.idle_s - before.idle_s).max(0.01)
    }
}

/// Processor seconds a process has used.
///
/// # Errors
/// It is gone.
pub fn process_s(pid: u32) -> Result<f64, LabError> {
    let mut total_ns = 0;
    let tasks = format!("/proc/{pid}/task");
    for task in fs::read_dir(&tasks).map_err(LabError::io(tasks))?.flatten() {
        let path = task.path().join("schedstat");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let first = text.split_whitespace().next();
        total_ns += first.and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(total_ns as f64 / 1e9)
}

/// Processor seconds that this process, and all that it or they have started, have used: of those that have ended, as far as they were waited for.
///
/// # Errors
/// `/proc` cannot be read.
pub fn tree_s() -> Result<f64, LabError> {
    const TICKS_PER_S: f64 = 100.0;
    let listed = fs::read_dir("/proc").map_err(LabError::io("/proc"))?;
    let pids = listed.flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Behind the name, which may be anything in brackets: state, parent … and at last what ended children have used.
    let words = |pid: u32| -> Option<Vec<u64>> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, behind) = text.rsplit_once(") ")?;
        let words = behind.split_whitespace().skip(1).take(14);
        Some(words.map(|word| word.parse().unwrap_or(0)).collect())
    };
    let all: Vec<_> = pids.filter_map(|pid| Some((pid, words(pid)?))).collect();
    let mut tree = vec![std::process::id()];
    let mut seconds = 0.0;
    while let Some(pid) = tree.pop() {
        let is_child = |(_, words): &&(u32, Vec<u64>)| words.first() == Some(&u64::from(pid));
        tree.extend(all.iter().filter(is_child).map(|(child, _)| *child));
        let own = all.iter().find(|(other, _)| *other == pid);
        let ended: u64 = own.map_or(0, |(_, words)| words.iter().skip(12).sum());
        seconds += process_s(pid).unwrap_or(0.0) + ended as f64 / TICKS_PER_S;
    }
    Ok(seconds)
}

/// Memory of a process that is in RAM, bytes.
///
/// # Errors
/// It is gone.
pub fn resident_bytes(pid: u32) -> Result<u64, LabError> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(LabError::io(path))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_all_but_idle_and_stolen() {
        let text = "cpu  100 0 50 700 100 10 40 1000 0 0\ncpu0 1 2 3\n";
        let processors = Processors::parse(text);
        assert_eq!(processors.busy_s, 2.0);
        assert_eq!(processors.idle_s, 8.0);
        let none = Processors::parse("");
        assert_eq!(processors.busy_share_since(none), 0.2);
        assert_eq!(processors.stolen_share_since(none), 0.5);
    }

    #[test]
    fn this_process_is_there() {
        let pid = std::process::id();
        assert!(process_s(pid).is_ok());
        assert!(resident_bytes(pid).unwrap() > 100_000);
    }
}
