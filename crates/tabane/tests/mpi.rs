//! Unmodified Open MPI over the provider, on two nodes with two links, of which one after the other fails.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

// The test depends on the provider, so that cargo builds it beside it.
use tabane_fi as _;
use tabane_lab::cluster::{PATIENCE, Program, Scratch, output};
use tabane_lab::{Fault, Lab, LabConfig, LinkSpec};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A lab, what Open MPI starts ranks on other nodes with, and the provider.
struct Site {
    lab: Lab,
    here: Scratch,
}

impl Site {
    fn new(mbit: u64) -> Site {
        let lab = Lab::up(&LabConfig {
            links: vec![LinkSpec::mbit(mbit); 2],
            ..LabConfig::default()
        });
        let site = Site {
            lab: lab.expect("the lab comes up"),
            here: Scratch::new().expect("is made"),
        };
        let test = std::env::current_exe().expect("is known");
        let library = test.with_file_name("libtabane_fi.so");
        symlink(library, site.path("libtabane-fi.so")).expect("is made");
        // As ssh: the node's address, then what its shell is to do.
        let (tabane, name) = (env!("CARGO_BIN_EXE_tabane"), site.lab.name());
        let agent =
            format!("#!/bin/sh\nshift\nexec {tabane} lab exec --name {name} n1 -- sh -c \"$*\"\n");
        std::fs::write(site.path("agent"), agent).expect("is written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(site.path("agent"), mode).expect("is set");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.here.path().join(name)
    }

    /// Builds a program of MPI.
    fn build(&self, source: &Path) -> PathBuf {
        let program = self.path("program");
        let mut mpicc = Command::new("mpicc");
        mpicc.arg("-O1").arg("-o").arg(&program).arg(source);
        well("mpicc", mpicc);
        program
    }

    /// `mpirun` of so many ranks on each of both nodes, over the provider.
    fn mpirun(&self, slots: usize, program: &Path) -> Command {
        let hosts = [0, 1].map(|node| format!("{}:{slots}", self.lab.address(node, 0)));
        let mut mpirun = self.lab.command(0, "mpirun");
        mpirun
            .args([
                "--allow-run-as-root",
                "--oversubscribe",
                "--bind-to",
                "none",
            ])
            .args(["--host", &hosts.join(",")]);
        let agent = self.path("agent").display().to_string();
        let directory = self.here.path().display().to_string();
        for (name, value) in [
            ("plm", "rsh"),
            ("plm_rsh_agent", &*agent),
            ("plm_rsh_no_tree_spawn", "1"),
            ("orte_tmpdir_base", &directory),
            ("oob_tcp_if_include", "eth0,eth1"),
            ("pml", "cm"),
            ("mtl", "ofi"),
            ("mtl_ofi_provider_include", "tabane"),
            ("btl", "^ofi"),
            ("mpi_yield_when_idle", "1"),
        ] {
            mpirun.args(["--mca", name, value]);
        }
        mpirun
            .env("FI_PROVIDER_PATH", self.here.path())
            .env("TABANE_KEY", KEY)
            // Beside other tests a rank may not run for seconds.
            .env("TABANE_PEER_TIMEOUT", "30")
            .args(["-x", "FI_PROVIDER_PATH", "-x", "TABANE_KEY"])
            .args(["-x", "TABANE_PEER_TIMEOUT"])
            .arg(program);
        mpirun
    }

    /// Bytes that a node has sent on each link.
    fn sent_bytes(&self, node: usize) -> [u64; 2] {
        [0, 1].map(|link| {
            let file = format!("/sys/class/net/eth{link}/statistics/tx_bytes");
            let mut cat = self.lab.command(node, "cat");
            cat.arg(file);
            well("cat", cat).trim().parse().expect("a number")
        })
    }
}

/// Runs a program to its end; returns what it said.
fn well(name: &'static str, command: Command) -> String {
    let said = output(name, command, PATIENCE).expect("ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(said.status.success(), "{name}: {}", text(&said.stderr));
    text(&said.stdout)
}

fn exchange() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/exchange.c")
}

#[test]
fn a_job_uses_both_links() {
    let site = Site::new(1000);
    let program = site.build(&exchange());
    let before = site.sent_bytes(1);
    let said = well("mpirun", site.mpirun(1, &program));
    assert_eq!(said.matches("all of it").count(), 2, "{said}");
    let after = site.sent_bytes(1);
    // Twelve times 5.6 MB.
    for link in [0, 1] {
        assert!(
            after[link] - before[link] > 1_000_000,
            "{before:?} {after:?}"
        );
    }
}

#[test]
fn several_ranks_on_each_node_reach_each_other() {
    let site = Site::new(1000);
    let program = site.build(&exchange());
    let said = well("mpirun", site.mpirun(2, &program));
    assert_eq!(said.matches("all of it").count(), 4, "{said}");
}

#[test]
fn a_job_goes_on_whichever_link_fails() {
    let site = Site::new(100);
    let program = site.build(&exchange());
    let mut mpirun = site.mpirun(1, &program);
    mpirun.stdout(Stdio::piped()).stderr(Stdio::piped());
    let job = Program::start("mpirun", mpirun).expect("starts");
    for (link, fault) in [(0, Fault::Silent), (1, Fault::Silent), (0, Fault::Carrier)] {
        std::thread::sleep(Duration::from_millis(800));
        site.lab.fail(link, fault, None).expect("fails");
        std::thread::sleep(Duration::from_millis(800));
        site.lab.heal(link).expect("heals");
    }
    let said = job.output(PATIENCE).expect("ends");
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    assert_eq!(text.matches("all of it").count(), 2, "{text}");
}
