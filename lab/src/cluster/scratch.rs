//! A directory for the time of a run.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Those there are, for a program that ends without dropping them.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory only this user may enter, removed with all that is in it when
/// this value is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Make one in the directory for temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> io::Result<Scratch> {
        Scratch::within(&std::env::temp_dir())
    }

    /// Make one in this directory.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn within(parent: &Path) -> io::Result<Scratch> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("tabane-{}-{number}", std::process::id());
            let path = parent.join(name);
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    live.push(path.clone());
                    return Ok(Scratch(path));
                }
                // Left by a process of this number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Remove all there are; from now on whoever makes or drops one waits for the end of
    /// the program, which must come next.
    pub(crate) fn remove_all() {
        let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        live.iter().for_each(|path| remove(path));
        std::mem::forget(live);
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|path| *path != self.0);
        remove(&self.0);
    }
}

/// How often it is tried: programs that still run may write into it meanwhile.
const TRIES: u32 = 3;

fn remove(path: &Path) {
    // Best effort: a directory left among temporary files harms nobody.
    for _ in 0..TRIES {
        if std::fs::remove_dir_all(path).is_ok() {
            return;
        }
    }
}
