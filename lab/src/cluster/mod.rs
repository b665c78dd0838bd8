//! A lab with `tabane up` on its nodes, driven as a user drives it: by the
//! command line of the program, and by what it prints.

mod dialogue;
mod library;
mod program;
mod scratch;

pub use dialogue::Dialogue;
pub use library::LibraryNodes;
pub use program::{PATIENCE, Program, output, socket_address};
pub use scratch::Scratch;

use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Lab, LabError, OUTSIDE_ADDRESSES, OUTSIDE_DEVICE};

const POLL: Duration = Duration::from_millis(5);

/// How packets travel: `wire` of the cluster file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wire {
    /// The default.
    #[default]
    Encrypted,
    /// In the clear, with a checksum.
    Plain,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wire::Encrypted => "encrypted",
            Wire::Plain => "plain",
        })
    }
}

/// Which cluster to run on a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterConfig {
    /// How packets travel.
    pub wire: Wire,
    /// Whether nodes have a virtual NIC: `10.99.0.(k+1)/24` on node `k`.
    pub vnic: bool,
    /// Whether `tabane up` steers the kernel's Multipath TCP.
    pub mptcp: bool,
    /// Whether the cluster is had by one address outside: by [`OUTSIDE_ADDRESSES`], on the nodes that lead there. The lab must have
    /// an outside.
    pub gateway: bool,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        ClusterConfig {
            wire: Wire::Encrypted,
            vnic: true,
            mptcp: false,
            gateway: false,
        }
    }
}

/// A lab, and the daemons on its nodes. Dropping it ends both.
#[derive(Debug)]
pub struct Cluster {
    // In the order in which they must end.
    daemons: Vec<Option<Program>>,
    lab: Lab,
    tabane: PathBuf,
    scratch: Scratch,
}

impl Cluster {
    /// Write the cluster file (with a fresh key, by `tabane init`) for all
    /// nodes of a lab. No daemon runs yet.
    ///
    /// # Errors
    /// There is no such program, or it fails.
    pub fn new(lab: Lab, tabane: &Path, config: ClusterConfig) -> Result<Cluster, LabError> {
        let scratch = Scratch::new().map_err(LabError::io("making a temporary directory"))?;
        let daemons = (0..lab.nodes()).map(|_| None).collect();
        let cluster = Cluster {
            daemons,
            lab,
            tabane: tabane.to_path_buf(),
            scratch,
        };
        cluster.write_file(config)?;
        Ok(cluster)
    }

    /// As [`Cluster::new`], then run every node and wait until all paths of
    /// all of them work.
    ///
    /// # Errors
    /// A daemon does not start; what it logged is in the message.
    pub fn up(lab: Lab, tabane: &Path, config: ClusterConfig) -> Result<Cluster, LabError> {
        let cluster = Cluster::started(lab, tabane, config)?;
        for node in 0..cluster.lab.nodes() {
            cluster.wait_status(node, "all paths are up", all_paths_up)?;
        }
        Ok(cluster)
    }

    /// As [`Cluster::up`], but wait only until every node has every peer: of a
    /// link that loses much, a path may come and go.
    ///
    /// # Errors
    /// As [`Cluster::up`].
    pub fn connected(lab: Lab, tabane: &Path, config: ClusterConfig) -> Result<Cluster, LabError> {
        let cluster = Cluster::started(lab, tabane, config)?;
        for node in 0..cluster.lab.nodes() {
            cluster.wait_status(node, "all peers are up", all_peers_up)?;
        }
        Ok(cluster)
    }

    fn started(lab: Lab, tabane: &Path, config: ClusterConfig) -> Result<Cluster, LabError> {
        let mut cluster = Cluster::new(lab, tabane, config)?;
        for node in 0..cluster.lab.nodes() {
            cluster.start(node)?;
        }
        Ok(cluster)
    }

    fn write_file(&self, config: ClusterConfig) -> Result<(), LabError> {
        let file = self.file();
        let mut init = Command::new(&self.tabane);
        init.arg("init").arg(&file);
        let made = output("tabane init", init, PATIENCE)?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr);
            return Err(failed("tabane init", "the host", &said));
        }
        let mut text = fs::read_to_string(&file).map_err(LabError::io("the cluster file"))?;
        let _ = writeln!(text, "wire = \"{}\"", config.wire);
        if config.mptcp {
            text += "mptcp = true\n";
        }
        for node in 0..self.lab.nodes() {
            text += &node_table(&self.lab, node);
            if config.vnic {
                let _ = writeln!(text, "vnic = \"{}/24\"", self.address(node));
            }
        }
        if config.gateway {
            text += &gateway_table(&self.lab)?;
        }
        fs::write(&file, text).map_err(LabError::io("the cluster file"))
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// The cluster file.
    pub fn file(&self) -> PathBuf {
        self.scratch.path().join("cluster.toml")
    }

    /// A directory that lives as long as this cluster.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// The address of a node's virtual NIC.
    pub fn address(&self, node: usize) -> IpAddr {
        // A lab has at most 200 nodes.
        let host = u8::try_from(node.saturating_add(1)).unwrap_or(u8::MAX);
        Ipv4Addr::new(10, 99, 0, host).into()
    }

    /// The program `tabane`.
    pub fn program(&self) -> &Path {
        &self.tabane
    }

    /// The program `tabane` on a node.
    pub fn tabane(&self, node: usize) -> Command {
        self.lab.command(node, &self.tabane)
    }

    /// A program on a node, under `tabane run`.
    pub fn run(&self, node: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.tabane(node);
        command.arg("run").arg("--config").arg(self.file());
        command.arg("--").arg(program);
        command
    }

    /// The same with Multipath TCP as its TCP.
    pub fn run_by_mptcp(&self, node: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.tabane(node);
        command.args(["run", "--via", "mptcp", "--"]).arg(program);
        command
    }

    /// Wait until a program that is started by [`Cluster::run`] listens on a TCP port. (Before it
    /// has left the node's network namespace, it would be found that another one listened there.)
    ///
    /// # Errors
    /// As [`Program::listens`].
    pub fn run_listens(
        &self,
        node: usize,
        program: &mut Program,
        port: u16,
    ) -> Result<(), LabError> {
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let outside = self.daemon(node).and_then(|daemon| namespace(daemon.id()));
        let until = Instant::now() + PATIENCE;
        while namespace(program.id()) == outside && Instant::now() < until {
            if program.ended()?.is_some() {
                break;
            }
            thread::sleep(POLL);
        }
        program.listens(port)
    }

    /// Run a node's daemon, and wait until it says `ready`.
    ///
    /// # Errors
    /// It does not; what it logged is in the message.
    pub fn start(&mut self, node: usize) -> Result<(), LabError> {
        let mut up = self.tabane(node);
        up.arg("up").arg("--config").arg(self.file());
        self.start_as(node, up)
    }

    /// As [`Cluster::start`], with a command of one's own.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_as(&mut self, node: usize, mut up: Command) -> Result<(), LabError> {
        let place = format!("n{node}");
        let (said, log) = (self.said_path(node), self.log_path(node));
        let create = |path: &Path| File::create(path).map_err(LabError::io("a log file"));
        up.stdin(Stdio::null())
            .stdout(create(&said)?)
            .stderr(create(&log)?);
        let mut daemon = Program::start("tabane up", up)?;
        let until = Instant::now() + PATIENCE;
        while !fs::read_to_string(&said).is_ok_and(|text| text.contains("ready\n")) {
            let ended = daemon.ended()?;
            if ended.is_some() || Instant::now() > until {
                let how = ended.map_or("not ready".into(), |status| status.to_string());
                let message = format!("{how}; it said:\n{}", self.log(node));
                return Err(failed("tabane up", &place, &message));
            }
            thread::sleep(POLL);
        }
        if let Some(slot) = self.daemons.get_mut(node) {
            *slot = Some(daemon);
        }
        Ok(())
    }

    /// A node's daemon, if it was started and neither stopped nor killed.
    pub fn daemon(&self, node: usize) -> Option<&Program> {
        self.daemons.get(node)?.as_ref()
    }

    /// A node's daemon, which from now on is the caller's to end.
    pub fn take(&mut self, node: usize) -> Option<Program> {
        self.daemons.get_mut(node)?.take()
    }

    /// End a node's daemon with SIGTERM.
    ///
    /// # Errors
    /// It does not end; it was killed then.
    pub fn stop(&mut self, node: usize) -> Result<ExitStatus, LabError> {
        match self.take(node) {
            None => Err(no_daemon(node)),
            Some(mut daemon) => {
                daemon.terminate()?;
                daemon.wait(PATIENCE)
            }
        }
    }

    /// Kill a node's daemon with SIGKILL, as a crash would.
    ///
    /// # Errors
    /// None runs there.
    pub fn kill(&mut self, node: usize) -> Result<(), LabError> {
        let daemon = self.take(node);
        daemon
            .map(|mut daemon| daemon.kill())
            .ok_or_else(|| no_daemon(node))
    }

    /// What a node's daemon wrote to its log since it was started last.
    pub fn log(&self, node: usize) -> String {
        fs::read_to_string(self.log_path(node)).unwrap_or_default()
    }

    fn said_path(&self, node: usize) -> PathBuf {
        self.scratch.path().join(format!("n{node}.out"))
    }

    fn log_path(&self, node: usize) -> PathBuf {
        self.scratch.path().join(format!("n{node}.log"))
    }

    /// `tabane status --json` on a node (docs/status.md).
    ///
    /// # Errors
    /// There is no daemon, or its answer is not JSON.
    pub fn status(&self, node: usize) -> Result<Value, LabError> {
        let mut status = self.tabane(node);
        status.args(["status", "--json"]);
        let told = output("tabane status", status, PATIENCE)?;
        if !told.status.success() {
            let said = String::from_utf8_lossy(&told.stderr);
            return Err(failed("tabane status", &format!("n{node}"), &said));
        }
        serde_json::from_slice(&told.stdout)
            .map_err(|error| LabError::io("tabane status --json")(error.into()))
    }

    /// Wait until every node steers Multipath TCP: all its links are announced, all ways to peers known.
    ///
    /// # Errors
    /// They do not within [`PATIENCE`].
    pub fn wait_steered(&self) -> Result<(), LabError> {
        let until = Instant::now() + PATIENCE;
        let (nodes, links) = (self.lab.nodes(), self.lab.links());
        for node in 0..nodes {
            let lines = |words: &str| {
                let mut ip = self.lab.command(node, "ip");
                ip.args(words.split(' '));
                let told = output("ip", ip, PATIENCE)?.stdout;
                Ok::<_, LabError>(String::from_utf8_lossy(&told).lines().count())
            };
            while lines("mptcp endpoint show")? < links
                || lines("route show proto 77")? < links * (nodes - 1)
            {
                if Instant::now() > until {
                    let message = format!("steers nothing\n{}", self.log(node));
                    return Err(failed("tabane up", &format!("n{node}"), &message));
                }
                thread::sleep(4 * POLL);
            }
        }
        Ok(())
    }

    /// Ask for a node's status until it `holds`. `what` is told if it never
    /// does.
    ///
    /// # Errors
    /// It does not within [`PATIENCE`], or the daemon is gone.
    pub fn wait_status(
        &self,
        node: usize,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value, LabError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.status(node)?;
            if holds(&status) {
                return Ok(status);
            }
            if Instant::now() > until {
                let message = format!("never: {what}\n{status:#}\n{}", self.log(node));
                return Err(failed("tabane status", &format!("n{node}"), &message));
            }
            thread::sleep(4 * POLL);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // All at once, so that none waits for another's farewell.
        for daemon in self.daemons.iter().flatten() {
            let _ = daemon.terminate();
        }
        for daemon in self.daemons.iter_mut().flatten() {
            let _ = daemon.wait(Duration::from_secs(5));
        }
    }
}

/// Whether every path to every peer is up, in a status report.
pub fn all_paths_up(status: &Value) -> bool {
    let is_up = |of: &Value| of["state"] == "up";
    let mut peers = status["peers"].as_array().into_iter().flatten();
    peers.all(|peer| {
        let mut paths = peer["paths"].as_array().into_iter().flatten();
        is_up(peer) && paths.all(is_up)
    })
}

/// Whether every peer is connected, in a status report.
pub fn all_peers_up(status: &Value) -> bool {
    let mut peers = status["peers"].as_array().into_iter().flatten();
    peers.all(|peer| peer["state"] == "up")
}

/// The state of a path to a peer, in a status report: `up`, `down` and so on.
pub fn path_state<'a>(status: &'a Value, peer: &str, link: usize) -> Option<&'a str> {
    path(status, peer, link)?["state"].as_str()
}

/// A path to a peer, in a status report.
pub fn path<'a>(status: &'a Value, peer: &str, link: usize) -> Option<&'a Value> {
    let mut peers = status["peers"].as_array()?.iter();
    let peer = peers.find(|candidate| candidate["name"] == peer)?;
    let mut paths = peer["paths"].as_array()?.iter();
    paths.find(|path| path["link"] == link)
}

/// A node, as the cluster file has it.
fn node_table(lab: &Lab, node: usize) -> String {
    let links = (0..lab.links()).map(|link| format!("\"{}\"", lab.address(node, link)));
    let links = links.collect::<Vec<_>>().join(", ");
    format!("[[node]]\nname = \"n{node}\"\nlinks = [{links}]\n")
}

/// The outside address, as the cluster file has it.
fn gateway_table(lab: &Lab) -> Result<String, LabError> {
    if lab.gateways() == 0 {
        let why = "a cluster with an outside address needs a lab with an outside";
        return Err(LabError::BadInput(why.into()));
    }
    let nodes: Vec<String> = (0..lab.gateways()).map(|node| format!("n{node}")).collect();
    Ok(format!(
        "[gateway]\nnodes = {nodes:?}\naddresses = {OUTSIDE_ADDRESSES:?}\ninterface = {OUTSIDE_DEVICE:?}\n"
    ))
}

fn failed(tool: &'static str, place: &str, message: &str) -> LabError {
    LabError::ToolFailed {
        tool,
        place: place.into(),
        message: message.into(),
    }
}

fn no_daemon(node: usize) -> LabError {
    LabError::io(format!("n{node}"))(io::Error::other("no daemon runs there"))
}
