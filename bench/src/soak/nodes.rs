//! The daemons of a run: started with a disk of their own to log to, watched,
//! and harmed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::machine;
use tabane_lab::LabError;
use tabane_lab::cluster::{Cluster, PATIENCE, Program};

/// The disk that a daemon logs to. A machine's `/var` is larger, and full all
/// the same one day.
const DISK_BYTES: u64 = 1 << 20;
/// Kept of a daemon's log; what is more is only counted.
const LOG_BYTES_MAX: usize = 16 << 20;
/// `$1` the disk, `$2` the program, `$3` the cluster file. Where mounting is
/// refused the log is an ordinary file, and its disk cannot be filled.
const START: &str = "mount -t tmpfs -o size=1m,mode=700 soak \"$1\" 2>/dev/null; \
                     exec \"$2\" up --config \"$3\" 2>>\"$1/log\"";

/// A look at a daemon.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Since it was started.
    pub age: Duration,
    pub resident_bytes: u64,
    pub descriptors: usize,
}

/// One node's daemon, and what is known of all it had.
#[derive(Debug, Default)]
struct Node {
    daemon: Option<Running>,
    /// All that its daemons logged.
    log: String,
    log_bytes: u64,
    /// Of each daemon it had, oldest first.
    samples: Vec<Vec<Sample>>,
}

#[derive(Debug)]
struct Running {
    program: Program,
    log: File,
    since: Instant,
}

/// All daemons.
#[derive(Debug)]
pub(super) struct Nodes<'a> {
    cluster: &'a Cluster,
    nodes: Vec<Mutex<Node>>,
}

impl<'a> Nodes<'a> {
    pub fn new(cluster: &'a Cluster) -> Nodes<'a> {
        let nodes = (0..cluster.lab().nodes()).map(|_| Mutex::default());
        Nodes {
            cluster,
            nodes: nodes.collect(),
        }
    }

    fn node(&self, node: usize) -> MutexGuard<'_, Node> {
        self.nodes[node]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn disk(&self, node: usize) -> PathBuf {
        self.cluster.directory().join(format!("disk{node}"))
    }

    /// Start a node's daemon and wait until it is ready.
    pub fn start(&self, node: usize) -> Result<(), LabError> {
        let disk = self.disk(node);
        fs::create_dir_all(&disk).map_err(LabError::io("making a disk"))?;
        let said = self.cluster.directory().join(format!("said{node}"));
        let out = File::create(&said).map_err(LabError::io("a file"))?;
        let mut up = self.cluster.lab().command(node, "sh");
        up.args(["-c", START, "sh"]).arg(&disk);
        up.arg(self.cluster.program()).arg(self.cluster.file());
        up.stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
        let mut program = Program::start("tabane up", up)?;
        let until = Instant::now() + PATIENCE;
        while !fs::read_to_string(&said).is_ok_and(|text| text.contains("ready\n")) {
            let ended = program.ended()?;
            if ended.is_some() || Instant::now() > until {
                let log = fs::read_to_string(inside(&program, &disk.join("log")));
                let why = format!("tabane up on n{node}: {ended:?}, {log:?}");
                return Err(LabError::io(why)(io::ErrorKind::TimedOut.into()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let log = File::open(inside(&program, &disk.join("log")));
        let log = log.map_err(LabError::io(format!("the log of n{node}")))?;
        let mut state = self.node(node);
        state.samples.push(Vec::new());
        state.daemon = Some(Running {
            program,
            log,
            since: Instant::now(),
        });
        Ok(())
    }

    /// Kill it, as a crash would.
    pub fn kill(&self, node: usize) {
        let mut state = self.node(node);
        if let Some(mut running) = state.daemon.take() {
            running.program.kill();
            state.read_log(&mut running.log);
        }
    }

    /// Ask it to end, and wait until it has.
    pub fn stop(&self, node: usize) -> Result<(), LabError> {
        let mut state = self.node(node);
        if let Some(mut running) = state.daemon.take() {
            running.program.terminate()?;
            let status = running.program.wait(PATIENCE);
            state.read_log(&mut running.log);
            let status = status?;
            if !status.success() {
                let why = format!("n{node}: asked to end, it did so with {status}");
                return Err(LabError::io(why)(io::ErrorKind::Other.into()));
            }
        }
        Ok(())
    }

    /// Have it stand still.
    pub fn pause(&self, node: usize) -> Result<(), LabError> {
        let state = self.node(node);
        let running = state.daemon.as_ref();
        running.map_or(Ok(()), |running| running.program.pause())
    }

    /// The end of [`Nodes::pause`].
    pub fn go_on(&self, node: usize) -> Result<(), LabError> {
        let state = self.node(node);
        let running = state.daemon.as_ref();
        running.map_or(Ok(()), |running| running.program.go_on())
    }

    /// Fill the disk it logs to.
    pub fn fill_disk(&self, node: usize) -> Result<(), LabError> {
        let Some(filler) = self.filler(node) else {
            return Ok(());
        };
        let filling = || LabError::io(format!("filling the disk of n{node}"));
        let mut file = File::create(filler).map_err(filling())?;
        for _ in 0..DISK_BYTES / 512 {
            if file.write_all(&[0; 512]).is_err() {
                return Ok(());
            }
        }
        Err(filling()(io::Error::other(
            "it has no disk of its own: mounting is refused here",
        )))
    }

    /// Make room on it again.
    pub fn empty_disk(&self, node: usize) -> Result<(), LabError> {
        let emptied = self.filler(node).map_or(Ok(()), fs::remove_file);
        emptied.map_err(LabError::io(format!("emptying the disk of n{node}")))
    }

    fn filler(&self, node: usize) -> Option<PathBuf> {
        let state = self.node(node);
        let program = &state.daemon.as_ref()?.program;
        Some(inside(program, &self.disk(node).join("filler")))
    }

    /// Let it open no more files; returns what to give [`Nodes::limit`] later.
    pub fn exhaust(&self, node: usize) -> Result<Option<u64>, LabError> {
        let state = self.node(node);
        let Some(running) = &state.daemon else {
            return Ok(None);
        };
        let open = descriptors(running.program.id()).map_err(LabError::io("its descriptors"))?;
        // The lowest free number is the next one's.
        let free = (0..).find(|number| !open.contains(number)).unwrap_or(0);
        running.program.limit_descriptors(free).map(Some)
    }

    /// Limit its descriptors.
    pub fn limit(&self, node: usize, count: u64) -> Result<(), LabError> {
        let state = self.node(node);
        let running = state.daemon.as_ref();
        running.map_or(Ok(()), |running| {
            running.program.limit_descriptors(count).map(drop)
        })
    }

    /// Read new lines of the logs; an error if a daemon ended by itself.
    pub fn look(&self) -> Result<(), LabError> {
        for node in 0..self.nodes.len() {
            let state = &mut *self.node(node);
            let Some(mut running) = state.daemon.take() else {
                continue;
            };
            state.read_log(&mut running.log);
            if let Some(status) = running.program.ended()? {
                state.read_log(&mut running.log);
                let why = format!("the daemon of n{node} ended by itself, {status}");
                return Err(LabError::io(why)(io::ErrorKind::Other.into()));
            }
            state.daemon = Some(running);
        }
        Ok(())
    }

    /// Look at the memory and the descriptors of all.
    pub fn sample(&self) {
        for node in 0..self.nodes.len() {
            let state = &mut *self.node(node);
            if let (Some(running), Some(samples)) = (&state.daemon, state.samples.last_mut())
                && let Ok(resident_bytes) = machine::resident_bytes(running.program.id())
                && let Ok(open) = descriptors(running.program.id())
            {
                samples.push(Sample {
                    age: running.since.elapsed(),
                    resident_bytes,
                    descriptors: open.len(),
                });
            }
        }
    }

    /// What a node's daemons logged, all of them; and how many bytes it was.
    pub fn log(&self, node: usize) -> (String, u64) {
        let state = self.node(node);
        (state.log.clone(), state.log_bytes)
    }

    /// The samples of each daemon a node had.
    pub fn samples(&self, node: usize) -> Vec<Vec<Sample>> {
        self.node(node).samples.clone()
    }

    /// End all, each with a goodbye; an error if one does not end well.
    pub fn end(&self) -> Result<(), LabError> {
        (0..self.nodes.len()).try_for_each(|node| self.stop(node))
    }
}

impl Node {
    fn read_log(&mut self, log: &mut File) {
        let mut bytes = Vec::new();
        // What was read before an error is what there is.
        let _ = log.read_to_end(&mut bytes);
        self.log_bytes += bytes.len() as u64;
        if self.log.len() < LOG_BYTES_MAX {
            self.log.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
}

/// A path as a process sees it, whose mounts are its own.
fn inside(program: &Program, path: &Path) -> PathBuf {
    let relative = path.strip_prefix("/").unwrap_or(path);
    Path::new("/proc")
        .join(program.id().to_string())
        .join("root")
        .join(relative)
}

fn descriptors(pid: u32) -> io::Result<BTreeSet<u64>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    Ok(entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}
