//! Machines as a reader has them: the lab's nodes, each with an `/etc` and a `/run` of its
//! own. Programs that would reach out of them (`sudo`, `make`, `scp`, `systemctl`) are stood in
//! for by scripts that do the same here.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tabane_lab::cluster::{
    Cluster, ClusterConfig, PATIENCE, Program, Scratch, all_paths_up, output,
};
use tabane_lab::{Lab, LabConfig, LabError};

use crate::blocks::root;
use crate::common::{eventually, lab, pings, tabane};

/// Who runs the commands is root in its namespace.
const SUDO: &str = "exec \"$@\"\n";

/// `make build`: it was built, this is its test. `make install`: on all machines.
const MAKE: &str = "\
case $1 in
    build) ;;
    install)
        for etc in $MACHINES/n*/etc; do
            DESTDIR=${etc%/etc} PREFIX=/usr/local $ROOT/tools/install.sh install $PROGRAM
        done
        # /etc is looked at in its own place.
        [ -d /etc/tabane ] && [ -x $MACHINES/n1/usr/local/bin/tabane ] ;;
    *) echo \"no stand-in for: make $*\" >&2; exit 1 ;;
esac
";

/// `scp FILE MACHINE:PATH`.
const SCP: &str = "to=$MACHINES/${2%%:*}${2#*:}; mkdir -p ${to%/*}; exec cp -p \"$1\" \"$to\"\n";

/// `tabane up` stays in the foreground: noted, and done after the commands.
const TABANE: &str = "\
if [ \"$1\" = up ]; then echo \"$@\" >$MACHINES/up; else exec $PROGRAM \"$@\"; fi
";

/// The service runs `tabane up`.
const SYSTEMCTL: &str = "\
case $* in
    'enable --now tabane') exec tabane up ;;
    *) echo \"no stand-in for: systemctl $*\" >&2; exit 1 ;;
esac
";

/// What programs look for in `/etc`.
const ETC: [&str; 7] = [
    "group",
    "hosts",
    "ld.so.cache",
    "nsswitch.conf",
    "passwd",
    "protocols",
    "services",
];

/// The machine's own directories. It says that it has them, and keeps them.
const HOLD: &str =
    "mount --bind \"$1\" /etc; mount -t tmpfs none /run; echo held; exec sleep infinity";

/// The machines.
pub struct Machines {
    /// A process on each of them, to whose mounts its programs go.
    holders: Vec<Program>,
    cluster: Cluster,
    scratch: Scratch,
    runs: Cell<u32>,
}

impl Machines {
    /// Nothing is set up on these nodes.
    pub fn fresh(lab: Lab) -> Machines {
        // Only for its nodes and daemons: its own cluster file is not used.
        let cluster = Cluster::new(lab, tabane(), ClusterConfig::default()).expect("is made");
        let machines = Machines::with(cluster);
        let tools = [
            ("make", MAKE),
            ("scp", SCP),
            ("systemctl", SYSTEMCTL),
            ("tabane", TABANE),
        ];
        tools
            .iter()
            .for_each(|(name, script)| machines.write_tool(name, script));
        machines
    }

    /// Likewise, after the package was installed.
    pub fn installed(lab: Lab) -> Machines {
        let machines = Machines::fresh(lab);
        for node in 0..machines.count() {
            let directory = machines.directory(node).join("etc/tabane");
            fs::create_dir(directory).expect("is made");
        }
        machines
    }

    /// Two with two links, where a cluster runs.
    pub fn running() -> Machines {
        Machines::running_on(lab(&LabConfig::default()), ClusterConfig::default())
    }

    /// A cluster that runs; its file is where it belongs.
    pub fn running_on(lab: Lab, config: ClusterConfig) -> Machines {
        let cluster = Cluster::new(lab, tabane(), config).expect("is made");
        let mut machines = Machines::with(cluster);
        symlink(tabane(), machines.tools().join("tabane")).expect("is made");
        for node in 0..machines.count() {
            let etc = machines.directory(node).join("etc/tabane");
            fs::create_dir(&etc).expect("is made");
            // With its permissions.
            fs::copy(machines.cluster.file(), etc.join("cluster.toml")).expect("is copied");
        }
        machines.up_as("up");
        machines
    }

    fn with(cluster: Cluster) -> Machines {
        let mut machines = Machines {
            holders: Vec::new(),
            cluster,
            scratch: Scratch::new().expect("is made"),
            runs: Cell::new(0),
        };
        fs::create_dir(machines.tools()).expect("is made");
        machines.write_tool("sudo", SUDO);
        for node in 0..machines.count() {
            let etc = machines.directory(node).join("etc");
            fs::create_dir_all(&etc).expect("is made");
            for file in ETC {
                // Not every system has all of them.
                let _ = fs::copy(Path::new("/etc").join(file), etc.join(file));
            }
            let holder = machines.holder(node, &etc).expect("is held");
            machines.holders.push(holder);
        }
        machines
    }

    fn holder(&self, node: usize, etc: &Path) -> Result<Program, LabError> {
        let said = self.directory(node).join("holder");
        let file = fs::File::create(&said).expect("is made");
        let mut hold = self.cluster.lab().command(node, "unshare");
        hold.args(["--mount", "--propagation", "private"]);
        hold.args(["bash", "--norc", "-e", "-c", HOLD, "bash"]);
        hold.arg(etc).stdin(Stdio::null()).stdout(file);
        let holder = Program::start("unshare", hold)?;
        eventually("a machine has its directories", || {
            fs::read_to_string(&said).is_ok_and(|said| said == "held\n")
        });
        Ok(holder)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.cluster.lab().nodes()
    }

    /// Their lab.
    pub fn lab(&self) -> &Lab {
        self.cluster.lab()
    }

    fn directory(&self, node: usize) -> PathBuf {
        self.scratch.path().join(format!("n{node}"))
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
        self.command_in(&directory, 0, script)
    }

    /// A shell on a machine that does what `script` says, in root's home, where what was there before still is.
    pub fn command_at_home(&self, node: usize, script: &str) -> Command {
        let home = self.directory(node).join("root");
        fs::create_dir_all(&home).expect("is made");
        self.command_in(&home, node, script)
    }

    fn command_in(&self, directory: &Path, node: usize, script: &str) -> Command {
        let at = directory.display();
        // A command in the middle of a pipe counts, too.
        let mut shell = self.shell(node, &format!("cd {at}\nset -o pipefail\n{script}"));
        shell.env("HOME", directory);
        shell
    }

    /// Whether `tabane up` was noted: done on all then, and they are a cluster.
    /// Says whether there was a note.
    pub fn up_if_noted(&mut self) -> bool {
        let note = self.scratch.path().join("up");
        let Ok(noted) = fs::read_to_string(&note) else {
            return false;
        };
        fs::remove_file(note).expect("is removed");
        self.up_as(&noted);
        true
    }

    /// The daemon of each with these words; ends when all have connected.
    fn up_as(&mut self, words: &str) {
        for node in 0..self.count() {
            let up = self.shell(node, &format!("exec $PROGRAM {words}"));
            self.cluster.start_as(node, up).expect("starts");
        }
        for node in 0..self.count() {
            eventually("all paths are up", || {
                self.status(node)
                    .is_some_and(|status| all_paths_up(&status))
            });
        }
        eventually("pings are answered", || {
            pings(&self.cluster, 0, 1, 3, 56) == 3
        });
    }

    /// What a machine's daemon says of itself.
    pub fn status(&self, node: usize) -> Option<Value> {
        let status = self.shell(node, "exec $PROGRAM status --json");
        let said = output("tabane status", status, PATIENCE).expect("ends");
        serde_json::from_slice(&said.stdout).ok()
    }

    /// `bash -e` on a machine, with its directories and the stand-ins before all other programs.
    fn shell(&self, node: usize, script: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = self.cluster.lab().command(node, "nsenter");
        let mounts = format!("--mount=/proc/{}/ns/mnt", self.holders[node].id());
        shell.args([&mounts, "bash", "--norc", "-e", "-c", script]);
        shell.env(
            "PATH",
            format!("{}:{path}:/usr/sbin:/sbin", self.tools().display()),
        );
        shell.env("MACHINES", self.scratch.path());
        shell.env("ROOT", root()).env("PROGRAM", tabane());
        shell
    }
}
