//! Two machines as a reader has them: the lab's nodes, each with an `/etc` of its
//! own. Programs that would reach out of them (`sudo`, `make`, `scp`) are stood in
//! for by scripts that do the same here.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use tabane_lab::LabConfig;
use tabane_lab::cluster::{Cluster, ClusterConfig, Scratch, all_paths_up};

use crate::blocks::root;
use crate::common::{self, eventually, lab, pings, tabane};

/// Their names, which are the lab's.
const MACHINES: [&str; 2] = ["n0", "n1"];

/// Who runs the commands is root in its namespace.
const SUDO: &str = "exec \"$@\"\n";

/// `make build`: it was built, this is its test. `make install`: on both machines.
const MAKE: &str = "\
case $1 in
    build) ;;
    install)
        for machine in n0 n1; do
            DESTDIR=$MACHINES/$machine PREFIX=/usr/local $ROOT/tools/install.sh install $PROGRAM
        done
        # /etc is looked at in its own place.
        [ -d /etc/tabane ] && [ -x $MACHINES/n1/usr/local/bin/tabane ] ;;
    *) echo \"no stand-in for: make $*\" >&2; exit 1 ;;
esac
";

/// `scp FILE MACHINE:PATH`.
const SCP: &str = "exec cp -p \"$1\" \"$MACHINES/${2%%:*}${2#*:}\"\n";

/// `tabane up` stays in the foreground: noted, and done after the commands.
const TABANE: &str = "\
if [ \"$1\" = up ]; then echo \"$@\" >$MACHINES/up; else exec $PROGRAM \"$@\"; fi
";

/// The machines.
pub struct Machines {
    cluster: Cluster,
    scratch: Scratch,
    runs: Cell<u32>,
}

impl Machines {
    /// Nothing is set up.
    pub fn fresh() -> Machines {
        let lab = lab(&LabConfig::default());
        // Only for its nodes and daemons: its own cluster file is not used.
        let cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("is made");
        let machines = Machines::with(cluster);
        let tools = [("make", MAKE), ("scp", SCP), ("tabane", TABANE)];
        tools
            .iter()
            .for_each(|(name, script)| machines.write_tool(name, script));
        machines
    }

    /// A cluster that runs; its file is where it belongs.
    pub fn running() -> Machines {
        let machines = Machines::with(common::cluster());
        symlink(tabane(), machines.tools().join("tabane")).expect("is made");
        for machine in MACHINES {
            let etc = machines.scratch.path().join(machine).join("etc/tabane");
            fs::create_dir(&etc).expect("is made");
            // With its permissions.
            fs::copy(machines.cluster.file(), etc.join("cluster.toml")).expect("is copied");
        }
        machines
    }

    fn with(cluster: Cluster) -> Machines {
        let scratch = Scratch::new().expect("is made");
        let runs = Cell::new(0);
        let machines = Machines {
            cluster,
            scratch,
            runs,
        };
        for machine in MACHINES {
            fs::create_dir_all(machines.scratch.path().join(machine).join("etc")).expect("is made");
        }
        fs::create_dir(machines.tools()).expect("is made");
        machines.write_tool("sudo", SUDO);
        machines
    }

    fn tools(&self) -> PathBuf {
        self.scratch.path().join("tools")
    }

    fn write_tool(&self, name: &str, script: &str) {
        let path = self.tools().join(name);
        fs::write(&path, format!("#!/bin/bash\nset -e\n{script}")).expect("is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("are set");
    }

    /// A shell on machine n0 that does what `script` says, in an empty directory.
    pub fn command(&self, script: &str) -> Command {
        self.runs.set(self.runs.get() + 1);
        let directory = self.scratch.path().join(format!("run-{}", self.runs.get()));
        fs::create_dir(&directory).expect("is made");
        // A command in the middle of a pipe counts, too.
        let script = format!("set -o pipefail\n{script}");
        let mut shell = self.shell(0, &script);
        shell.current_dir(&directory).env("HOME", &directory);
        shell
    }

    /// What was noted of `tabane up`, on both: they are a cluster then.
    pub fn up(&mut self) {
        let noted = fs::read_to_string(self.scratch.path().join("up"));
        let noted = noted.expect("the commands end with `tabane up`");
        for node in 0..MACHINES.len() {
            let up = self.shell(node, &format!("exec $PROGRAM {noted}"));
            self.cluster.start_as(node, up).expect("starts");
        }
        self.cluster
            .wait_status(0, "all paths are up", all_paths_up)
            .expect("status");
        eventually("pings are answered", || {
            pings(&self.cluster, 0, 1, 3, 56) == 3
        });
    }

    /// `bash -e` on a machine, with its `/etc` and the stand-ins before all other programs.
    fn shell(&self, node: usize, script: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let etc = self.scratch.path().join(MACHINES[node]).join("etc");
        let mut shell = self.cluster.lab().command(node, "unshare");
        shell.args([
            "--mount",
            "--propagation",
            "private",
            "bash",
            "--norc",
            "-e",
            "-c",
        ]);
        shell.arg(format!("mount --bind {} /etc\n{script}", etc.display()));
        shell.env(
            "PATH",
            format!("{}:{path}:/usr/sbin:/sbin", self.tools().display()),
        );
        shell.env("MACHINES", self.scratch.path());
        shell.env("ROOT", root()).env("PROGRAM", tabane());
        shell
    }
}
