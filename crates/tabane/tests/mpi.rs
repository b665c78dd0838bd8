//! Unmodified Open MPI over the provider, by `tabane mpi`, on two nodes with two links, of which one after the other fails.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tabane_lab::cluster::{PATIENCE, Program, output};
use tabane_lab::mpi::Jobs;
use tabane_lab::{Fault, Lab, LabConfig, LinkSpec};

/// Nobody has this key: where it is found, it was not made for the job.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A lab, and what Open MPI needs there.
struct Site {
    lab: Lab,
    jobs: Jobs,
}

impl Site {
    fn new(mbit: u64) -> Site {
        Site::of(2, mbit)
    }

    fn of(nodes: usize, mbit: u64) -> Site {
        let lab = Lab::up(&LabConfig {
            nodes,
            links: vec![LinkSpec::mbit(mbit); 2],
            ..LabConfig::default()
        });
        let lab = lab.expect("the lab comes up");
        let test = std::env::current_exe().expect("is known");
        let library = test.with_file_name("libtabane_fi.so");
        let tabane = Path::new(env!("CARGO_BIN_EXE_tabane"));
        let jobs = Jobs::new(&lab, tabane, &library).expect("are made");
        Site { lab, jobs }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.jobs.path(name)
    }

    /// Builds a program of MPI.
    fn build(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
        self.jobs.build(&source).expect("is built")
    }

    /// `tabane mpi -- mpirun` of so many ranks on each node.
    fn mpirun(&self, slots: usize, program: &Path) -> Command {
        self.mpirun_with(slots, &[], program)
    }

    /// The same with more words for `mpirun`.
    fn mpirun_with(&self, slots: usize, also: &[&str], program: &Path) -> Command {
        let by_tabane = |mpirun: &Path| Ok(self.by_tabane(mpirun));
        let mpirun = self
            .jobs
            .mpirun(&self.lab, (self.lab.nodes(), slots), by_tabane);
        let mut mpirun = mpirun.expect("is installed");
        mpirun.args(["--mca", "mpi_yield_when_idle", "1"]);
        // Beside other tests a rank may not run for seconds.
        mpirun.env("TABANE_PEER_TIMEOUT", "30");
        mpirun.args(also).arg(program);
        mpirun
    }

    fn by_tabane(&self, mpirun: &Path) -> Command {
        let mut tabane = self.lab.command(0, env!("CARGO_BIN_EXE_tabane"));
        let library = self.jobs.provider_path();
        tabane.args(["mpi", "--library"]).arg(library);
        tabane.arg("--").arg(mpirun);
        tabane
    }

    /// `mpirun` of two ranks on one node as if there were no tabane, but that its library lies where libfabric looks, and
    /// the cluster file can be read.
    fn plain_mpirun(&self, arguments: &str, program: &Path) -> Command {
        let etc = self.path("etc");
        fs::create_dir_all(etc.join("tabane")).expect("is made");
        let node = |n: usize| {
            let [first, second] = [0, 1].map(|link| self.lab.address(n, link));
            format!("[[node]]\nname = \"n{n}\"\nlinks = [\"{first}\", \"{second}\"]\n")
        };
        let file = format!("key = \"{KEY}\"\n{}{}", node(0), node(1));
        let path = etc.join("tabane/cluster.toml");
        fs::write(&path, file).expect("is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("is set");
        let script = format!(
            "cp -r /etc/alternatives /etc/openmpi /etc/passwd {etc} && mount --bind {etc} /etc && exec mpirun --allow-run-as-root \
             --oversubscribe --bind-to none -np 2 --mca orte_tmpdir_base {directory} --mca pml_base_verbose 10 \
             --mca mtl_base_verbose 10 {arguments} {program}",
            etc = etc.display(),
            directory = self.path("").display(),
            program = program.display(),
        );
        let mut shell = self.lab.command(0, "unshare");
        shell
            .args(["--mount", "--propagation", "private", "sh", "-e", "-c"])
            .arg(script)
            .env("FI_PROVIDER_PATH", self.path("provider"));
        shell
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
    assert!(said.status.success(), "{name}: {}", text(&said.stderr));
    text(&said.stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_job_uses_both_links() {
    let site = Site::new(1000);
    let program = site.build("exchange");
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
    // What the user hands on to them changes nothing.
    for (program, also) in [("exchange", &["-x", "HOME"][..]), ("everybody", &[])] {
        let program = site.build(program);
        let said = well("mpirun", site.mpirun_with(2, also, &program));
        assert_eq!(said.matches("all of it").count(), 4, "{said}");
    }
}

#[test]
fn a_job_goes_on_whichever_link_fails() {
    let site = Site::new(100);
    let program = site.build("exchange");
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
    assert!(said.status.success(), "{}", text(&said.stderr));
    let said = text(&said.stdout);
    assert_eq!(said.matches("all of it").count(), 2, "{said}");
}

#[test]
fn a_job_goes_on_when_two_nodes_have_no_link_in_common() {
    let site = Site::of(3, 20);
    let program = site.build("everybody");
    let mut mpirun = site.mpirun(1, &program);
    mpirun.stdout(Stdio::piped()).stderr(Stdio::piped());
    let job = Program::start("mpirun", mpirun).expect("starts");
    // Everybody's bytes to everybody: nobody goes on for long without another one.
    let sends = |bytes: u64| {
        let sent = || site.sent_bytes(1).iter().sum::<u64>();
        let until = sent() + bytes;
        let end = Instant::now() + PATIENCE;
        while sent() < until && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(sent() >= until, "node 1 sends no more");
    };
    sends(2_000_000);
    for (link, node) in [(0, 1), (1, 2)] {
        let failed = site.lab.fail(link, Fault::Silent, Some(node));
        failed.expect("fails");
    }
    sends(6_000_000);
    for link in 0..2 {
        site.lab.heal(link).expect("heals");
    }
    let said = job.output(PATIENCE).expect("ends");
    assert!(said.status.success(), "{}", text(&said.stderr));
    let said = text(&said.stdout);
    assert_eq!(said.matches("all of it").count(), 3, "{said}");
}

/// From its beginning, so that no two ranks of these nodes ever spoke, and nobody between them spoke with both.
#[test]
fn a_job_begins_though_two_nodes_have_no_link_in_common() {
    let site = Site::of(4, 1000);
    let program = site.build("everybody");
    for (node, other) in [(1, 2), (2, 1)] {
        let [first, second] = [0, 1].map(|link| site.lab.address(other, link));
        let mut nft = site.lab.command(node, "nft");
        nft.arg(format!(
            "add table inet cut; add chain inet cut in {{ type filter hook input priority 0; }}; \
             add rule inet cut in meta l4proto udp ip saddr {{ {first}, {second} }} drop"
        ));
        well("nft", nft);
    }
    let said = well("mpirun", site.mpirun(2, &program));
    assert_eq!(said.matches("all of it").count(), 8, "{said}");
}

#[test]
fn ranks_without_a_common_key_or_wire_fail_and_name_each_other() {
    let site = Site::new(1000);
    let program = site.build("exchange");
    for (name, values) in [
        ("TABANE_KEY", [KEY, &*KEY.replace('0', "f")]),
        ("TABANE_WIRE", ["plain", "encrypted"]),
    ] {
        let mut mpirun = site.mpirun(1, Path::new("sh"));
        let script = format!(
            "if [ $OMPI_COMM_WORLD_RANK = 0 ]; then {name}={}; else {name}={}; fi; export {name}; exec {}",
            values[0],
            values[1],
            program.display()
        );
        mpirun.args(["-c", &script]).env("TABANE_PEER_TIMEOUT", "3");
        let said = output("mpirun", mpirun, PATIENCE).expect("ends");
        let (told, errors) = (text(&said.stdout), text(&said.stderr));
        assert!(
            !said.status.success() && !told.contains("all of it"),
            "{told}{errors}"
        );
        let is_it = |line: &&str| line.starts_with("tabane: 10.77.0.") && line.contains(name);
        assert!(
            errors.lines().any(|line| is_it(&line)),
            "nothing names the cause: {errors}"
        );
    }
}

#[test]
fn a_plain_mpirun_does_not_notice_that_the_library_lies_there() {
    let site = Site::new(1000);
    let program = site.build("exchange");
    let ran = |arguments: &str, set: &[(&str, &str)]| -> Output {
        let mut mpirun = site.plain_mpirun(arguments, &program);
        mpirun.envs(set.iter().copied());
        output("mpirun", mpirun, PATIENCE).expect("ends")
    };
    // As Debian sets it up: no provider of libfabric is looked for.
    let said = ran("", &[]);
    let errors = text(&said.stderr);
    assert!(
        said.status.success() && errors.contains("selected ob1 best"),
        "{errors}"
    );
    // Where one is, whichever it is, it is not ours ...
    let errors = text(&ran("--mca mtl ofi --mca pml ^ucx", &[]).stderr);
    assert!(!errors.contains("tabane"), "{errors}");
    // ... unless somebody has asked for it; then the cluster file's key will do.
    let asked = ran("--mca mtl ofi --mca pml cm", &[("FI_PROVIDER", "tabane")]);
    let errors = text(&asked.stderr);
    assert!(
        asked.status.success() && errors.contains("mtl:ofi:provider: tabane"),
        "{errors}"
    );
}

#[test]
fn ranks_run_where_tabane_place_puts_them() {
    let site = Site::new(1000);
    let [first, second] = [0, 1].map(|node| site.lab.address(node, 0).to_string());
    let switch = |id: &str, node: &str| format!(r#"{{"id":"{id}","nodes":["{node}"]}}"#);
    let topology = format!(
        r#"{{"schema":1,"networks":[{{"switches":[{},{}],"trunks":[{{"between":["s0","s1"]}}]}}]}}"#,
        switch("s0", &first),
        switch("s1", &second)
    );
    let files = ["topology", "matrix", "hosts"].map(|name| site.path(name));
    fs::write(&files[0], topology).expect("is written");
    fs::write(&files[1], "0,3,1000\n1,2,1000\n").expect("is written");
    let mut place = Command::new(env!("CARGO_BIN_EXE_tabane"));
    place.args(["place", "--np", "4", "--format", "openmpi", "--topology"]);
    place.arg(&files[0]).arg("--matrix").arg(&files[1]);
    fs::write(&files[2], well("tabane place", place)).expect("is written");
    let where_it_is = site.path("where");
    let script =
        "#!/bin/sh\necho rank $OMPI_COMM_WORLD_RANK at $(ip -4 -o address show dev eth0)\n";
    fs::write(&where_it_is, script).expect("is written");
    fs::set_permissions(&where_it_is, fs::Permissions::from_mode(0o755)).expect("is set");
    let hosts = files[2].display().to_string();
    let by_tabane = |mpirun: &Path| Ok(site.by_tabane(mpirun));
    let mpirun = site.jobs.mpirun_anywhere(&site.lab, by_tabane);
    let mut mpirun = mpirun.expect("is installed");
    mpirun.args(["--rankfile", &hosts, "-np", "4"]);
    let said = well("mpirun", {
        mpirun.arg(&where_it_is);
        mpirun
    });
    let node_of = |rank: usize| {
        let begin = format!("rank {rank} at ");
        let line = said.lines().find(|line| line.starts_with(&begin));
        let is_at =
            |address: &String| line.is_some_and(|line| line.contains(&format!("{address}/")));
        [&first, &second].into_iter().position(is_at)
    };
    let nodes = [0, 3, 1, 2].map(node_of);
    assert_eq!(nodes, [Some(0), Some(0), Some(1), Some(1)], "{said}");
}
