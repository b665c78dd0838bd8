//! A lab for programs that have the library in them: each is a node by itself, without `tabane up`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Dialogue, PATIENCE, Scratch, failed, node_table, output};
use crate::{Lab, LabConfig, LabError};

/// No secret: what is carried stays in the lab.
const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A lab, and a cluster file of its nodes. Dropping it ends the lab.
#[derive(Debug)]
pub struct LibraryNodes {
    // In the order in which they must end.
    lab: Lab,
    scratch: Scratch,
}

impl LibraryNodes {
    /// Build a lab and write the file. No program runs yet.
    ///
    /// # Errors
    /// As [`Lab::up`], or the file cannot be written.
    pub fn up(config: &LabConfig) -> Result<LibraryNodes, LabError> {
        let lab = Lab::up(config)?;
        let scratch = Scratch::new().map_err(LabError::io("making a temporary directory"))?;
        let nodes = LibraryNodes { lab, scratch };
        let mut text = format!("key = \"{KEY}\"\n");
        text.extend((0..nodes.lab.nodes()).map(|node| node_table(&nodes.lab, node)));
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600);
        file.open(nodes.file())
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(LabError::io("the cluster file"))?;
        Ok(nodes)
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The cluster file.
    pub fn file(&self) -> PathBuf {
        self.path("cluster.toml")
    }

    /// A file in a directory that lives as long as this lab.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A program on a node: the cluster file is its first argument.
    fn command(&self, node: usize, program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.lab.command(node, program);
        command.arg(self.file()).args(arguments);
        command
    }

    /// Start a program on a node, the cluster file its first argument, and wait until it has
    /// said its first line.
    ///
    /// # Errors
    /// As [`Dialogue::start`].
    pub fn serve(
        &self,
        node: usize,
        program: &Path,
        arguments: &[&str],
    ) -> Result<Dialogue, LabError> {
        let name = program.display().to_string();
        Dialogue::start(&name, self.command(node, program, arguments))
    }

    /// Run a program on a node to its end, the cluster file its first argument. Returns what it
    /// printed.
    ///
    /// # Errors
    /// It fails; what it said of that is in the message.
    pub fn run(&self, node: usize, program: &Path, arguments: &[&str]) -> Result<String, LabError> {
        let name = program.display().to_string();
        let said = output(&name, self.command(node, program, arguments), PATIENCE)?;
        if !said.status.success() {
            let why = format!("{name}: {}", String::from_utf8_lossy(&said.stderr));
            return Err(failed("a program", &format!("n{node}"), &why));
        }
        Ok(String::from_utf8_lossy(&said.stdout).into_owned())
    }
}
