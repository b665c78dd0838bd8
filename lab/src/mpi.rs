//! Jobs of Open MPI in a lab, started as its users start them: `mpirun` on node 0, which has ranks started on the others by
//! something that is to it what ssh is.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::{PATIENCE, Scratch, output};
use crate::tools::Tool;
use crate::{Lab, LabError};

const MPIRUN: Tool = Tool::new("mpirun", "openmpi-bin");
const MPICC: Tool = Tool::new("mpicc", "libopenmpi-dev");

/// Variables that a login on another node has, too.
const KEPT: [&str; 5] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "TABANE_LAB_TOKEN",
];

/// What `mpirun` needs in a lab.
#[derive(Debug)]
pub struct Jobs {
    here: Scratch,
    /// The devices that `mpirun` speaks over to its daemons on other nodes, if not the links.
    control: Option<String>,
}

impl Jobs {
    /// For a lab, by the program `tabane`; `provider`: the library of the libfabric provider, as cargo builds it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn new(lab: &Lab, tabane: &Path, provider: &Path) -> Result<Jobs, LabError> {
        let make = || -> io::Result<Jobs> {
            let here = Scratch::new()?;
            fs::create_dir(here.path().join("provider"))?;
            symlink(provider, here.path().join("provider/libtabane-fi.so"))?;
            // As ssh: the node's address, then what its shell is to do. Of the variables here only those reach it that a
            // login has, and those by which it is known whose lab this is.
            let kept = KEPT.map(|name| format!("${{{name}+{name}=\"${name}\"}}"));
            let agent = format!(
                "#!/bin/sh\nnode=$((${{1##*.}} - 1))\nshift\nexec env -i {} {} lab exec --name {} n$node -- sh -c \"$*\"\n",
                kept.join(" "),
                tabane.display(),
                lab.name()
            );
            fs::write(here.path().join("agent"), agent)?;
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(here.path().join("agent"), mode)?;
            let control = None;
            Ok(Jobs { here, control })
        };
        make().map_err(LabError::io("what mpirun needs"))
    }

    /// What `mpirun` and its daemons on other nodes say each other goes over this device: else they lose each other, and the job ends,
    /// when the link fails that they have chosen.
    #[must_use]
    pub fn controlled_over(self, device: &str) -> Jobs {
        Jobs {
            control: Some(device.to_owned()),
            ..self
        }
    }

    /// The directory that has the provider and nothing else, for `FI_PROVIDER_PATH`.
    pub fn provider_path(&self) -> PathBuf {
        self.here.path().join("provider")
    }

    /// A file of the test's own, which goes with this.
    pub fn path(&self, name: &str) -> PathBuf {
        self.here.path().join(name)
    }

    /// Builds a program of MPI from its C source.
    ///
    /// # Errors
    /// There is no compiler for it, or it refuses the source.
    pub fn build(&self, source: &Path) -> Result<PathBuf, LabError> {
        let name = source.file_stem().unwrap_or_default();
        let program = self.here.path().join(name);
        let mut mpicc = Command::new(MPICC.find()?);
        mpicc
            .args(["-O2", "-Wall", "-o"])
            .arg(&program)
            .arg(source)
            .arg("-lm");
        let said = output("mpicc", mpicc, PATIENCE)?;
        match said.status.success() {
            true => Ok(program),
            false => Err(LabError::ToolFailed {
                tool: "mpicc",
                place: source.display().to_string(),
                message: String::from_utf8_lossy(&said.stderr).into_owned(),
            }),
        }
    }

    /// `mpirun` on node 0, made by `command`, of so many ranks on each of the first `nodes` nodes. What carries their
    /// messages, and the program, are to be added.
    ///
    /// # Errors
    /// Open MPI is not installed.
    pub fn mpirun(
        &self,
        lab: &Lab,
        (nodes, ranks_per_node): (usize, usize),
        command: impl FnOnce(&Path) -> Result<Command, LabError>,
    ) -> Result<Command, LabError> {
        let hosts = (0..nodes).map(|node| format!("{}:{ranks_per_node}", lab.address(node, 0)));
        let hosts: Vec<_> = hosts.collect();
        let mut mpirun = self.mpirun_anywhere(lab, command)?;
        mpirun.args(["--host", &hosts.join(",")]);
        Ok(mpirun)
    }

    /// The same, of which also is to be added where ranks run.
    ///
    /// # Errors
    /// Open MPI is not installed.
    pub fn mpirun_anywhere(
        &self,
        lab: &Lab,
        command: impl FnOnce(&Path) -> Result<Command, LabError>,
    ) -> Result<Command, LabError> {
        let mut mpirun = command(&MPIRUN.find()?)?;
        mpirun.args([
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
        ]);
        let agent = self.here.path().join("agent").display().to_string();
        let directory = self.here.path().display().to_string();
        let links: Vec<_> = (0..lab.links()).map(|link| format!("eth{link}")).collect();
        let control = self.control.clone().unwrap_or_else(|| links.join(","));
        for (name, value) in [
            ("plm", "rsh"),
            ("plm_rsh_agent", &*agent),
            ("plm_rsh_no_tree_spawn", "1"),
            ("orte_tmpdir_base", &directory),
            ("oob_tcp_if_include", &control),
        ] {
            mpirun.args(["--mca", name, value]);
        }
        Ok(mpirun)
    }
}
