//! What is written down about the labs that are up: one JSON file each.
//!
//! The holder keeps its lab's file open and locked. The kernel lets go of the
//! lock when the holder dies, so a file that can be locked is left over from a
//! crash, and whoever finds it clears it away.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tabane_io::credentials::own_uid;

use crate::config::LinkSpec;
use crate::{LabError, OutsideSpec, processes, sys};

/// Longest wait for another process that is just looking at, or ending, a lab
/// of the same name.
const BUSY_TRIES: u32 = 50;
const BUSY_WAIT: Duration = Duration::from_millis(10);

/// A lab that is up, as `lab list` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Its name.
    pub name: String,
    /// How many nodes it has.
    pub nodes: usize,
    /// Its links as they were asked for; faults in force are not in here.
    pub links: Vec<LinkSpec>,
    /// MTU, bytes.
    pub mtu: u32,
    /// Nodes on each leaf of a tree of switches; nothing if each link has one switch.
    #[serde(default)]
    pub tree: Vec<usize>,
    /// The network outside, if there is one.
    #[serde(default)]
    pub outside: Option<OutsideSpec>,
    /// Process id of the holder; ending it ends the lab.
    pub holder: u32,
    /// Process id of the delay emulator of a lab in the background.
    pub emulator: Option<u32>,
    /// Marks this lab's processes, in their environment.
    pub(crate) token: String,
    /// Path and inode of every namespace: nodes first, then switches, then those of the outside.
    pub(crate) namespaces: Vec<(String, u64)>,
    /// Path of the user namespace, if there is one.
    pub(crate) user: Option<String>,
}

/// The labs of this user that are up, by name. Traces of crashed ones are
/// cleared away on the occasion.
///
/// # Errors
/// If the directory cannot be read.
pub fn list() -> Result<Vec<Summary>, LabError> {
    let directory = directory()?;
    let entries = fs::read_dir(&directory)
        .map_err(LabError::io(format!("reading {}", directory.display())))?;
    let mut labs = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "json")
            && let Some(name) = path.file_stem().and_then(|s| s.to_str())
            && let Some(summary) = find(name)?
        {
            labs.push(summary);
        }
    }
    labs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(labs)
}

/// The lab of that name, if it is up.
pub(crate) fn find(name: &str) -> Result<Option<Summary>, LabError> {
    let path = path_of(name)?;
    let reading = || LabError::io(format!("reading {}", path.display()));
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(reading()(error)),
    };
    // In this order: what is read after the lock was refused is its owner's.
    let is_left_over = sys::try_lock(&file).map_err(reading())?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(reading())?;
    // Nothing in it and locked: being set up at this moment.
    let summary = serde_json::from_str::<Summary>(&text).ok();
    if is_left_over {
        clear_locked(&path, &file, summary.as_ref());
        return Ok(None);
    }
    Ok(summary)
}

/// Take a name: its file, empty and locked.
pub(crate) fn claim(name: &str) -> Result<Claim, LabError> {
    let path = path_of(name)?;
    let taking = || LabError::io(format!("taking {}", path.display()));
    for _ in 0..BUSY_TRIES {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let mut file = options.open(&path).map_err(taking())?;
        if sys::try_lock(&file).map_err(taking())? {
            if !is_at(&file, &path) {
                continue; // cleared away between our open and our lock
            }
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(taking())?;
            end_leftovers(serde_json::from_str(&text).ok().as_ref());
            file.set_len(0).map_err(taking())?;
            file.rewind().map_err(taking())?;
            return Ok(Claim { path, file });
        }
        std::thread::sleep(BUSY_WAIT);
    }
    Err(LabError::NameTaken(name.to_string()))
}

/// A name taken, not yet a lab.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    pub file: File,
}

impl Claim {
    /// Write the lab down; the holder has the lock from here on.
    pub fn publish(&mut self, summary: &Summary) -> Result<(), LabError> {
        let text = serde_json::to_string_pretty(summary).unwrap_or_default();
        let writing = || LabError::io(format!("writing {}", self.path.display()));
        self.file.set_len(0).map_err(writing())?;
        self.file.rewind().map_err(writing())?;
        self.file.write_all(text.as_bytes()).map_err(writing())
    }

    /// Give the name back; the holder, if any, must be gone.
    pub fn give_up(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Forget a lab whose holder has ended.
pub(crate) fn forget(name: &str) -> Result<(), LabError> {
    for _ in 0..BUSY_TRIES {
        let path = path_of(name)?;
        let Ok(file) = File::open(&path) else {
            return Ok(());
        };
        if sys::try_lock(&file).map_err(LabError::io(format!("clearing {}", path.display())))? {
            clear_locked(&path, &file, None);
            return Ok(());
        }
        // A child another thread is forking just now may hold the lock until
        // its exec; or the name has a new owner already, who keeps it.
        std::thread::sleep(BUSY_WAIT / 10);
    }
    Ok(())
}

fn clear_locked(path: &Path, file: &File, summary: Option<&Summary>) {
    if is_at(file, path) {
        end_leftovers(summary);
        let _ = fs::remove_file(path);
    }
}

/// After a crash of the holder its namespaces live on only in programs that
/// still run in them.
fn end_leftovers(summary: Option<&Summary>) {
    if let Some(summary) = summary {
        processes::end(&processes::marked(&summary.token));
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let there = fs::metadata(path).map(|m| m.ino()).ok();
    there.is_some() && there == file.metadata().map(|m| m.ino()).ok()
}

fn path_of(name: &str) -> Result<PathBuf, LabError> {
    crate::config::check_name(name)?;
    Ok(directory()?.join(format!("{name}.json")))
}

/// The first of these that is ours: `$XDG_RUNTIME_DIR/tabane-lab`,
/// `/run/tabane-lab` (root), `/tmp/tabane-lab-UID`.
fn directory() -> Result<PathBuf, LabError> {
    let uid = own_uid();
    let ours = |path: &Path| fs::symlink_metadata(path).is_ok_and(|m| m.is_dir() && m.uid() == uid);
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| ours(path));
    let path = match runtime {
        Some(runtime) => runtime.join("tabane-lab"),
        None if ours(Path::new("/run")) && writable(Path::new("/run")) => "/run/tabane-lab".into(),
        None => std::env::temp_dir().join(format!("tabane-lab-{uid}")),
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(LabError::Io {
                what: format!("making {}", path.display()),
                source: error,
            });
        }
        _ => {}
    }
    // In /tmp somebody else may have been first.
    if !ours(&path) {
        return Err(LabError::Io {
            what: format!(
                "{} belongs to somebody else; set XDG_RUNTIME_DIR",
                path.display()
            ),
            source: io::ErrorKind::PermissionDenied.into(),
        });
    }
    Ok(path)
}

fn writable(path: &Path) -> bool {
    let Ok(path) = crate::holder::c_path(path.to_string_lossy().into_owned()) else {
        return false;
    };
    sys::may_write(&path)
}
