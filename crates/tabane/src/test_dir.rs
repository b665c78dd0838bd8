//! A directory for one test, removed after it.

use std::path::{Path, PathBuf};

/// Removed when dropped.
pub(crate) struct TestDir(PathBuf);

impl TestDir {
    /// `name` is unique among the tests of this crate.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tabane-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        // Best effort: a directory left in /tmp fails no test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
