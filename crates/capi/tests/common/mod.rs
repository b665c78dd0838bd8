//! Programs in C, compiled against the header and the library of this build.
#![allow(dead_code, missing_docs, reason = "each test program uses its part")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

pub const C: &[&str] = &["cc", "-std=c11", "-pedantic"];
pub const CPP: &[&str] = &["c++", "-std=c++17", "-x", "c++"];

/// A directory of programs, with the library as it would be installed.
pub struct Workshop {
    directory: TempDir,
}

impl Workshop {
    pub fn new() -> Workshop {
        let directory = tempfile::tempdir().expect("a directory");
        // Cargo builds the library beside the tests that depend on it.
        let test = std::env::current_exe().expect("is known");
        let library = test.with_file_name("libtabane.so");
        assert!(library.exists(), "{} is not there", library.display());
        for name in ["libtabane.so", "libtabane.so.0.1"] {
            std::os::unix::fs::symlink(&library, directory.path().join(name)).expect("links");
        }
        Workshop { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Compiles a program, without a word of the compiler's.
    pub fn program(&self, compiler: &[&str], source: &Path, name: &str) -> PathBuf {
        let program = self.path(name);
        let here = self.directory.path().display().to_string();
        let mut command = Command::new(compiler[0]);
        command
            .args(&compiler[1..])
            .args(["-Wall", "-Wextra", "-Werror", "-pthread"]);
        command
            .arg("-I")
            .arg(package("include"))
            .arg("-o")
            .arg(&program);
        command.arg(source).args(["-x", "none"]);
        command.args([
            &format!("-L{here}"),
            &format!("-Wl,-rpath,{here}"),
            "-ltabane",
        ]);
        let said = command.output().expect("there is a compiler");
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success() && errors.is_empty(), "{errors}");
        program
    }
}

/// A file of this package.
pub fn package(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}
