//! The ways by which clients outside reach a server on the third node, each on a lab of its own.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::helper::{Fetched, OUTSIDE_PORT, READY};
use crate::tools::{HAPROXY, NFT};
use crate::{Build, Settings};
use tabane_lab::cluster::{
    Cluster, ClusterConfig, PATIENCE, Program, Scratch, all_paths_up, output,
};
use tabane_lab::peers::{Congestion, congestion};
use tabane_lab::{Lab, LabConfig, LabError, OUTSIDE_ADDRESSES, OUTSIDE_DEVICE, OutsideSpec};

/// The node that serves, as long as nothing happens to it.
pub const GATEWAY: usize = 0;
/// The node that the server is on.
pub const SERVER: usize = 2;
/// The client by which the rest of the world is reached, where it is.
const ROUTER: usize = 1;
/// Of links and of the line outside, Mb/s.
pub const LINE_MBIT: f64 = 1_000.0;

/// By which way clients reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By the cluster's outside address.
    Tabane,
    /// The same with `queue = "kernel"`.
    KernelQueue,
    /// The gateway's kernel changes addresses.
    Nat,
    /// A proxy on the gateway, which knows nothing of what it carries.
    HaProxy,
    /// The server is on the gateway itself, whose kernel has the address.
    Bare,
}

impl Way {
    const ALL: [Way; 4] = [Way::Tabane, Way::KernelQueue, Way::Nat, Way::HaProxy];

    /// Whether tabane is in it.
    pub fn is_tabane(self) -> bool {
        matches!(self, Way::Tabane | Way::KernelQueue)
    }
}

/// A way by a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entrant {
    /// The way.
    pub way: Way,
    /// Whose.
    pub build: Build,
}

impl Entrant {
    /// All that are measured.
    pub fn all(settings: &Settings) -> Vec<Entrant> {
        let of = |way: Way| {
            let builds = settings.builds();
            let builds = builds.filter(move |build| way.is_tabane() || *build == Build::Own);
            builds.map(move |build| Entrant { way, build })
        };
        Way::ALL.into_iter().flat_map(of).collect()
    }

    /// Whether another gateway takes over by itself, or when told to. (Which queue there is has no part in it.)
    pub fn can_be_moved(self) -> bool {
        self.way == Way::Tabane
    }

    /// The one that goals are of.
    pub fn is_own(self) -> bool {
        self.way == Way::Tabane && self.build == Build::Own
    }
}

impl fmt::Display for Entrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            Way::Tabane => "tabane",
            Way::KernelQueue => "tabane, kernel's queue",
            Way::Nat => "NAT",
            Way::HaProxy => "HAProxy",
            Way::Bare => "a kernel by itself",
        };
        write!(f, "{way}{}", self.build.mark())
    }
}

/// A lab with a server that clients reach by one way.
pub struct Stand {
    // In the order in which they must end.
    _server: Program,
    place: Place,
    helper: PathBuf,
    /// Whose it is.
    pub entrant: Entrant,
}

enum Place {
    Tabane(Cluster),
    Bare {
        _proxy: Option<(Program, Scratch)>,
        lab: Lab,
    },
}

impl Stand {
    /// Build it; the line outside has this round trip.
    ///
    /// # Errors
    /// The kernel or a program lacks what the way needs; no client reaches the server.
    pub fn up(
        settings: &Settings,
        entrant: Entrant,
        round_trip: Duration,
    ) -> Result<Stand, LabError> {
        Stand::build(settings, entrant, round_trip, false)
    }

    /// The same on a line without delay, and the second client is the way to the rest of the world.
    ///
    /// # Errors
    /// As [`Stand::up`].
    pub fn up_routed(settings: &Settings, entrant: Entrant) -> Result<Stand, LabError> {
        Stand::build(settings, entrant, Duration::ZERO, true)
    }

    fn build(
        settings: &Settings,
        entrant: Entrant,
        round_trip: Duration,
        is_routed: bool,
    ) -> Result<Stand, LabError> {
        let lab = Lab::up(&LabConfig {
            nodes: 3,
            outside: Some(OutsideSpec {
                round_trip,
                ..OutsideSpec::default()
            }),
            ..LabConfig::default()
        })?;
        clients_use_cubic(&lab)?;
        let place = match entrant.way {
            Way::Tabane | Way::KernelQueue => {
                Place::Tabane(cluster(settings, entrant, lab, is_routed)?)
            }
            Way::Nat => {
                translate(&lab)?;
                Place::Bare { _proxy: None, lab }
            }
            Way::Bare => {
                take_address(&lab)?;
                if is_routed {
                    let router = lab.client_addresses(ROUTER)[0].to_string();
                    let route = ["route", "add", "default", "via", &router];
                    lab.ip(GATEWAY, &route)?;
                }
                Place::Bare { _proxy: None, lab }
            }
            Way::HaProxy => Place::Bare {
                _proxy: Some(proxy(&lab)?),
                lab,
            },
        };
        let helper = settings.helper.clone();
        let server = serve(&place, &helper, entrant.way)?;
        let stand = Stand {
            _server: server,
            place,
            helper,
            entrant,
        };
        stand.greet()?;
        Ok(stand)
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        self.place.lab()
    }

    /// The cluster, if tabane is in the way.
    pub fn cluster(&mut self) -> Option<&mut Cluster> {
        match &mut self.place {
            Place::Tabane(cluster) => Some(cluster),
            Place::Bare { .. } => None,
        }
    }

    /// Start a helper in a client: its word, for how long, and what else it is told.
    ///
    /// # Errors
    /// It does not start.
    pub fn client(
        &self,
        client: usize,
        word: &str,
        lasting: Duration,
        more: &[String],
    ) -> Result<Client, LabError> {
        let mut command = self.lab().client_command(client, &self.helper);
        command.args(["helper", "outside", word]);
        command.arg(SocketAddr::new(outside_address(), OUTSIDE_PORT).to_string());
        Client::start(&format!("c{client}"), word, command, lasting, more)
    }

    /// The same on a node, under `tabane run`, of a word that is about nobody else.
    ///
    /// # Errors
    /// It does not start, or tabane is not in the way.
    pub fn on_node(
        &self,
        node: usize,
        word: &str,
        lasting: Duration,
        more: &[String],
    ) -> Result<Client, LabError> {
        let mut command = self.place.cluster()?.run(node, &self.helper);
        command.args(["helper", "outside", word]);
        Client::start(&format!("n{node}"), word, command, lasting, more)
    }

    /// The same as [`Stand::client`] between the gateway's node and the server's.
    ///
    /// # Errors
    /// As [`Stand::on_node`].
    pub fn inside(
        &self,
        word: &str,
        lasting: Duration,
        more: &[String],
    ) -> Result<Client, LabError> {
        let cluster = self.place.cluster()?;
        let mut command = cluster.run(GATEWAY, &self.helper);
        command.args(["helper", "outside", word]);
        command.arg(SocketAddr::new(cluster.address(SERVER), OUTSIDE_PORT).to_string());
        Client::start(&format!("n{GATEWAY}"), word, command, lasting, more)
    }

    /// Both clients reach the server, and neighbours are known from now on.
    fn greet(&self) -> Result<(), LabError> {
        for client in 0..self.lab().clients() {
            let fetched: Fetched = self
                .client(client, "fetch", Duration::ZERO, &[])?
                .result()?;
            if fetched.failed > 0 {
                return Err(LabError::ToolFailed {
                    tool: "bench helper",
                    place: format!("c{client} ({})", self.entrant),
                    message: "does not reach the server".into(),
                });
            }
        }
        Ok(())
    }
}

/// A helper that runs in a client.
pub struct Client {
    name: String,
    program: Program,
    said: Option<BufReader<ChildStdout>>,
}

impl Client {
    fn start(
        place: &str,
        word: &str,
        mut command: Command,
        lasting: Duration,
        more: &[String],
    ) -> Result<Client, LabError> {
        command.arg(lasting.as_millis().to_string()).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut program = Program::start("bench helper", command)?;
        let said = program.take_stdout().map(BufReader::new);
        Ok(Client {
            name: format!("bench helper {word}, {place}"),
            program,
            said,
        })
    }

    /// Wait until it says that all of it has begun.
    ///
    /// # Errors
    /// It ends before.
    pub fn wait_ready(&mut self) -> Result<(), LabError> {
        let mut line = String::new();
        if let Some(said) = &mut self.said {
            let read = said.read_line(&mut line);
            read.map_err(LabError::io(self.name.clone()))?;
        }
        match line == READY {
            true => Ok(()),
            false => Err(self.failed("it ended before all had begun")),
        }
    }

    /// Wait for its end and take what it says.
    ///
    /// # Errors
    /// It says nothing, or hangs.
    pub fn result<T: DeserializeOwned>(mut self) -> Result<T, LabError> {
        let mut text = String::new();
        if let Some(said) = &mut self.said {
            let read = said.read_to_string(&mut text);
            read.map_err(LabError::io(self.name.clone()))?;
        }
        self.program.wait(PATIENCE)?;
        serde_json::from_str(&text).map_err(|_| self.failed("it failed"))
    }

    fn failed(&self, why: &str) -> LabError {
        LabError::io(self.name.clone())(std::io::Error::other(why.to_owned()))
    }
}

impl Place {
    fn lab(&self) -> &Lab {
        match self {
            Place::Tabane(cluster) => cluster.lab(),
            Place::Bare { lab, .. } => lab,
        }
    }

    fn cluster(&self) -> Result<&Cluster, LabError> {
        match self {
            Place::Tabane(cluster) => Ok(cluster),
            Place::Bare { .. } => Err(LabError::BadInput("no daemon runs there".into())),
        }
    }
}

fn serve(place: &Place, helper: &PathBuf, way: Way) -> Result<Program, LabError> {
    let mut command = match place {
        Place::Tabane(cluster) => cluster.run(SERVER, helper),
        Place::Bare { lab, .. } if way == Way::Bare => lab.command(GATEWAY, helper),
        Place::Bare { lab, .. } => lab.command(SERVER, helper),
    };
    command.args(["helper", "outside", "serve"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = Program::start("bench helper", command)?;
    match place {
        Place::Tabane(cluster) => cluster.run_listens(SERVER, &mut server, OUTSIDE_PORT)?,
        Place::Bare { .. } => server.listens(OUTSIDE_PORT)?,
    }
    Ok(server)
}

/// A cluster whose first node serves, and whose second one stands by.
fn cluster(
    settings: &Settings,
    entrant: Entrant,
    lab: Lab,
    is_routed: bool,
) -> Result<Cluster, LabError> {
    let config = ClusterConfig {
        gateway: true,
        ..ClusterConfig::default()
    };
    let mut cluster = Cluster::new(lab, settings.tabane(entrant.build), config)?;
    let mut more = String::new();
    if entrant.way == Way::KernelQueue {
        more += "queue = \"kernel\"\n";
    }
    if is_routed {
        let [router, _] = cluster.lab().client_addresses(ROUTER);
        more += &format!("routers = [\"{router}\"]\n");
    }
    // The last table of the file is the gateway's.
    let file = OpenOptions::new().append(true).open(cluster.file());
    let added = file.and_then(|mut file| file.write_all(more.as_bytes()));
    added.map_err(LabError::io("the cluster file"))?;
    let nodes = 0..cluster.lab().nodes();
    nodes.clone().try_for_each(|node| cluster.start(node))?;
    for node in nodes {
        cluster.wait_status(node, "all paths are up", all_paths_up)?;
        cluster.wait_status(node, "the gateway serves", |status| {
            status["node"]["gateway"]["serving"] == format!("n{GATEWAY}")
        })?;
    }
    cluster.wait_status(GATEWAY, "a gateway stands by", |status| {
        status["node"]["gateway"]["standby"][0]["ready"] == true
    })?;
    Ok(cluster)
}

/// Every way's TCP uses it, that of programs under `tabane run` by itself: the kernels of different machines differ in
/// their default.
fn clients_use_cubic(lab: &Lab) -> Result<(), LabError> {
    (0..lab.clients()).try_for_each(|client| {
        let [source, _] = lab.client_addresses(client);
        let route = format!(
            "route change 203.0.113.0/24 dev eth0 proto kernel scope link src {source} congctl cubic"
        );
        let mut ip = lab.client_command(client, "ip");
        ip.args(route.split(' '));
        finish("ip", &format!("c{client}"), ip)
    })
}

fn outside_address() -> IpAddr {
    let address = OUTSIDE_ADDRESSES[0].split('/').next();
    let address = address.and_then(|address| address.parse().ok());
    address.unwrap_or(IpAddr::from([203, 0, 113, 1]))
}

/// The gateway has the outside address itself.
fn take_address(lab: &Lab) -> Result<(), LabError> {
    let (address, device) = (OUTSIDE_ADDRESSES[0], OUTSIDE_DEVICE);
    lab.ip(GATEWAY, &["address", "add", address, "dev", device])?;
    let source = outside_address();
    let route = format!(
        "route change 203.0.113.0/24 dev {device} proto kernel scope link src {source} congctl cubic"
    );
    lab.ip(GATEWAY, &route.split(' ').collect::<Vec<_>>())?;
    congestion(lab, Congestion::Cubic)
}

/// The gateway's kernel gives what comes to the server's node, whose way back is by the gateway.
fn translate(lab: &Lab) -> Result<(), LabError> {
    take_address(lab)?;
    let (server, gateway) = (lab.address(SERVER, 0), lab.address(GATEWAY, 0));
    let route = format!("route add default via {gateway} dev eth0 congctl cubic");
    lab.ip(SERVER, &route.split(' ').collect::<Vec<_>>())?;
    let rules = format!(
        "table ip outside {{\n \
         chain in {{ type nat hook prerouting priority -100; iifname {OUTSIDE_DEVICE} tcp dport {OUTSIDE_PORT} dnat to {server}; }}\n \
         chain out {{ type nat hook postrouting priority 100; oifname {OUTSIDE_DEVICE} masquerade; }}\n}}\n"
    );
    let mut nft = lab.command(GATEWAY, NFT.find()?);
    nft.arg(rules);
    finish("nft", "n0", nft)?;
    let of = "/proc/sys/net/ipv4";
    let orders = format!(
        "for of in all {OUTSIDE_DEVICE} eth0; do echo 0 > {of}/conf/$of/rp_filter; done\necho 1 > {of}/ip_forward"
    );
    let mut shell = lab.command(GATEWAY, "/bin/sh");
    shell.args(["-ec", &orders]);
    finish("sh", "n0", shell)
}

/// HAProxy on the gateway.
fn proxy(lab: &Lab) -> Result<(Program, Scratch), LabError> {
    take_address(lab)?;
    let scratch = Scratch::new().map_err(LabError::io("a temporary directory"))?;
    let file = scratch.path().join("haproxy.cfg");
    let (server, address) = (lab.address(SERVER, 0), outside_address());
    let text = format!(
        "global\n maxconn 4000\ndefaults\n mode tcp\n timeout connect 10s\n timeout client 1h\n timeout server 1h\n\
         listen outside\n bind {address}:{OUTSIDE_PORT}\n server n{SERVER} {server}:{OUTSIDE_PORT}\n"
    );
    fs::write(&file, text).map_err(LabError::io("the file of HAProxy"))?;
    let mut haproxy = lab.command(GATEWAY, HAPROXY.find()?);
    haproxy.arg("-db").arg("-q").arg("-f").arg(file);
    let mut haproxy = Program::start_quiet("haproxy", haproxy)?;
    haproxy.listens(OUTSIDE_PORT)?;
    Ok((haproxy, scratch))
}

/// Run a program to its end; that it fails is an error with what it said.
pub fn finish(tool: &'static str, place: &str, command: Command) -> Result<(), LabError> {
    let said = output(tool, command, PATIENCE)?;
    match said.status.success() {
        true => Ok(()),
        false => Err(LabError::ToolFailed {
            tool,
            place: place.into(),
            message: String::from_utf8_lossy(&said.stderr).trim().into(),
        }),
    }
}
