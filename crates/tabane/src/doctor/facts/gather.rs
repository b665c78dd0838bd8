//! Looking at everything at once, for a few seconds.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tabane_cluster::{Cluster, ConfigError, InterfaceAddress, VNIC_NAME};
use tabane_io::netlink::{Interface, interfaces, neighbours};
use tabane_io::rewrite::read;
use tabane_proto::crypto::public_key;

use super::flows::Flows;
use super::machine::Before;
use super::network::{Network, Wanted};
use super::pings::{self, Answers, Way};
use super::{
    Device, Facts, MpiFacts, OutsideFacts, OwnLink, PathFacts, VnicFacts, Watched, device, measure,
    vnic,
};
use crate::doctor::finding::Unseen;
use crate::here::own_addresses;
use crate::mpi;
use crate::names::{HOSTS, HOSTS_BYTES_MAX, Lack, Names, lack};
use crate::status::{self, AskError, PathState, StatusReport};

/// The most paths to peers that are pinged; failed ones come first.
const PATHS_MAX: usize = 64;
/// Interval of pings on one path.
const PING_INTERVAL: Duration = Duration::from_millis(20);
/// Least interval of pings on all paths together.
const PING_INTERVAL_ALL: Duration = Duration::from_millis(2);
/// ARP questions are asked again after this long: the first is lost where a
/// switch port has just come up.
const ASK_EVERY: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const FLOWS_EVERY: Duration = Duration::from_millis(50);
/// Number of reports from the daemon during the watch: what is true for a moment only is
/// not reported.
const READINGS: u32 = 10;
/// In a quiet look, which the daemon makes of itself again and again.
const READINGS_QUIET: u32 = 4;

/// What to examine.
#[derive(Debug, Clone)]
pub struct Order {
    /// The cluster file.
    pub file: PathBuf,
    /// Whether the user named it, so that its absence matters.
    pub file_is_named: bool,
    /// Which node this is, if it is not to be found by its addresses.
    pub node: Option<String>,
    /// Look at the ways to this peer only.
    pub peer: Option<String>,
    /// How long to watch.
    pub watch: Duration,
    /// Fill the bundle meanwhile.
    pub measure: bool,
    /// Send nothing, and look only at what costs little.
    pub is_quiet: bool,
}

impl Order {
    /// Look at everything for so long; the cluster file is at `file`, and nobody misses it.
    pub fn of(file: &Path, watch: Duration) -> Order {
        Order {
            file: file.to_owned(),
            file_is_named: false,
            node: None,
            peer: None,
            watch,
            measure: false,
            is_quiet: false,
        }
    }
}

/// A way to a peer, before it was looked at.
struct Target {
    peer: String,
    link: u8,
    remote: SocketAddr,
    works: bool,
}

/// Looks; takes as long as the order says, and a little.
///
/// # Errors
/// The order makes no sense here, in words: there is no such peer.
pub fn gather(order: &Order) -> Result<Facts, String> {
    let mut facts = Facts::default();
    let interfaces = interfaces().unwrap_or_default();
    let first = match status() {
        Ok(first) => Some(first),
        Err(Trouble::NoDaemon) => None,
        Err(Trouble::Says(words)) => {
            facts.daemon_trouble = Some(words);
            None
        }
    };
    // A silent daemon has its port and its device all the same.
    let runs = first.is_some() || facts.daemon_trouble.is_some();
    let cluster = read_file(order, runs, &mut facts);
    let cluster = cluster.as_ref();
    let own = first.as_ref().and_then(|report| report.node.vnic.as_ref());
    facts.vnic = own.map(|own| VnicFacts {
        name: own.name.clone(),
        address: own.address.clone(),
        device: interfaces.iter().find(|i| i.name == own.name).cloned(),
    });
    if let (Some(report), Some((cluster, me))) = (&first, cluster) {
        facts.vnic_ways = vnic::ways(report, (cluster, *me), &interfaces, order.is_quiet);
        facts.names = cluster.vnic.hosts.then(names).flatten();
    }
    facts.links = own_links(first.as_ref(), cluster, &interfaces);
    if !runs {
        note_taken_ports(cluster, &mut facts);
    }
    let mut targets = targets(first.as_ref(), cluster);
    choose(order, &mut targets, &mut facts)?;
    let filled = order
        .measure
        .then(|| to_fill(first.as_ref(), cluster, &targets))
        .transpose()?;
    watch(order, first, &targets, filled, &mut facts);
    note_own_devices(&interfaces, &mut facts);
    facts.outside = outside(&facts);
    if !order.is_quiet {
        facts.mpi = MpiFacts {
            installed: mpi::installed::all(),
            trouble: mpi::trouble(),
            is_wanted: mpi::is_wanted(),
        };
    }
    Ok(facts)
}

/// What is lacking of the names of all nodes that the daemon knows.
fn names() -> Option<Lack> {
    let nodes = status::ask_here(status::ask_nodes).ok()?;
    // A service does not see it.
    let text = read(Path::new(HOSTS), HOSTS_BYTES_MAX).ok()?;
    Some(lack(&text, &Names::of(&nodes, true)))
}

/// The device outside as it is now, after the watching.
fn outside(facts: &Facts) -> Option<OutsideFacts> {
    let gateway = facts.daemon.as_ref()?.last.node.gateway.as_ref()?;
    let name = gateway.interface.clone()?;
    let all = interfaces().unwrap_or_default();
    Some(OutsideFacts {
        device: all.into_iter().find(|device| device.name == name),
        speed_mbps: device::speed_mbps(&name),
        name,
    })
}

/// Which peers' addresses this machine has itself; where nodes share a machine, and so reach each
/// other, that is as it should be.
fn note_own_devices(interfaces: &[Interface], facts: &mut Facts) {
    let own_device = |path: &PathFacts| {
        let watch = facts.path_status(&path.peer, path.link)?;
        let fails = watch.last.state != PathState::Up;
        fails.then(|| device::with_address(interfaces, path.remote.ip()))?
    };
    let own: Vec<Option<Device>> = facts.paths.iter().map(own_device).collect();
    for (path, own) in facts.paths.iter_mut().zip(own) {
        path.own_device = own;
    }
}

enum Trouble {
    NoDaemon,
    Says(String),
}

fn status() -> Result<StatusReport, Trouble> {
    let answer = status::ask_here(status::ask_status).map_err(|error| match error {
        AskError::NoDaemon => Trouble::NoDaemon,
        other => Trouble::Says(other.to_string()),
    })?;
    serde_json::from_value(answer)
        .map_err(|e| Trouble::Says(AskError::NotUnderstood(e.to_string()).to_string()))
}

/// The cluster file as far as it can be read, and which node this is. Its errors are
/// recorded.
fn read_file(order: &Order, daemon_runs: bool, facts: &mut Facts) -> Option<(Cluster, usize)> {
    if let Err(error) = std::fs::File::open(&order.file) {
        let nobody_misses_it = daemon_runs && !order.file_is_named;
        if error.kind() == ErrorKind::PermissionDenied || nobody_misses_it {
            facts.unseen.push(Unseen {
                what: format!("the cluster file {}", order.file.display()),
                why: format!("{}; name it with --config", tabane_cluster::plain(&error)),
            });
            return None;
        }
    }
    let tell = |error: ConfigError, facts: &mut Facts| {
        let problems = error.problems.iter();
        facts
            .file_problems
            .extend(problems.map(ToString::to_string));
    };
    let mut cluster = match Cluster::load(&order.file) {
        Ok((cluster, warnings)) => {
            let warnings = warnings.iter().map(ToString::to_string);
            facts.file_problems.extend(warnings);
            cluster
        }
        Err(error) => {
            tell(error, facts);
            return None;
        }
    };
    let mut own = own_addresses().unwrap_or_default();
    if daemon_runs {
        // The daemon's own device is no surprise.
        own.retain(|a| a.interface != VNIC_NAME);
    }
    match tabane_cluster::identify(&cluster, &own, order.node.as_deref()) {
        Ok(me) => {
            facts.node = Some(cluster.nodes[me].name.clone());
            facts.port = cluster.port;
            note_node_key(&mut cluster, me, facts);
            note_problems(&cluster, me, &own, facts);
            Some((cluster, me))
        }
        Err(error) => {
            tell(error, facts);
            None
        }
    }
}

/// Whether this node has the key that the file demands. Only the daemon's user can see
/// that.
fn note_node_key(cluster: &mut Cluster, me: usize, facts: &mut Facts) {
    let file = cluster.node_key_file.clone();
    let forbidden = std::fs::File::open(&file).err();
    let forbidden = forbidden.filter(|e| e.kind() == ErrorKind::PermissionDenied);
    if let Err(problem) = cluster.read_node_key(me, public_key) {
        match forbidden {
            Some(error) => facts.unseen.push(Unseen {
                what: format!("the private key {}", file.display()),
                why: tabane_cluster::plain(&error),
            }),
            None => facts.file_problems.push(problem.to_string()),
        }
    }
}

/// Where the file does not fit this machine, except for problems with a finding of their
/// own.
fn note_problems(cluster: &Cluster, me: usize, own: &[InterfaceAddress], facts: &mut Facts) {
    let problems = tabane_cluster::check_here(cluster, me, own);
    let has_own = |text: &str| {
        ["is on no interface", "are both on", "overlapping networks"]
            .iter()
            .any(|words| text.contains(words))
    };
    let texts = problems.iter().map(ToString::to_string);
    facts.file_problems.extend(texts.filter(|t| !has_own(t)));
}

fn own_links(
    report: Option<&StatusReport>,
    cluster: Option<&(Cluster, usize)>,
    interfaces: &[Interface],
) -> Vec<OwnLink> {
    let of_daemon = report.iter().flat_map(|r| &r.node.links);
    let mut numbered: Vec<(u8, IpAddr)> = of_daemon.map(|l| (l.link, l.address.ip())).collect();
    if let (true, Some((cluster, me))) = (report.is_none(), cluster) {
        let links = cluster.nodes[*me].addresses();
        numbered = links
            .map(|(number, address)| (number as u8, address))
            .collect();
    }
    let link = |(number, address): (u8, IpAddr)| OwnLink {
        number,
        address: Some(address),
        device: device::with_address(interfaces, address),
        ..OwnLink::default()
    };
    numbered.into_iter().map(link).collect()
}

/// Which links' ports another program has, if no daemon runs.
fn note_taken_ports(cluster: Option<&(Cluster, usize)>, facts: &mut Facts) {
    let Some((cluster, _)) = cluster else {
        return;
    };
    for link in &mut facts.links {
        link.port_taken = link.address.is_some_and(|a| is_taken(a, cluster.port));
    }
}

fn is_taken(address: IpAddr, port: u16) -> bool {
    matches!(UdpSocket::bind((address, port)), Err(e) if e.kind() == ErrorKind::AddrInUse)
}

/// The ways there are: as the daemon tells, else as the file does.
fn targets(report: Option<&StatusReport>, cluster: Option<&(Cluster, usize)>) -> Vec<Target> {
    if let Some(report) = report {
        let of_peer = |peer: &status::PeerStatus| {
            let name = peer.name.clone();
            let ways = peer.paths.clone().into_iter();
            ways.map(move |path| Target {
                peer: name.clone(),
                link: path.link,
                remote: path.remote,
                works: path.state == PathState::Up,
            })
        };
        return report.peers.iter().flat_map(of_peer).collect();
    }
    let Some((cluster, me)) = cluster else {
        return Vec::new();
    };
    let own: Vec<usize> = cluster.nodes[*me].addresses().map(|(n, _)| n).collect();
    let others = cluster.nodes.iter().enumerate().filter(|(i, _)| i != me);
    let of_peer = |node: &tabane_cluster::NodeSpec| {
        let shared = node.addresses().filter(|(number, _)| own.contains(number));
        let target = |(number, address): (usize, IpAddr)| Target {
            peer: node.name.clone(),
            link: number as u8,
            remote: (address, cluster.port).into(),
            works: false,
        };
        shared.map(target).collect::<Vec<_>>()
    };
    others.flat_map(|(_, node)| of_peer(node)).collect()
}

/// Keeps the paths of the named peer, and no more than can be pinged.
fn choose(order: &Order, targets: &mut Vec<Target>, facts: &mut Facts) -> Result<(), String> {
    if let Some(name) = &order.peer {
        let names: Vec<String> = targets.iter().map(|t| t.peer.clone()).collect();
        targets.retain(|t| t.peer == *name);
        if targets.is_empty() {
            let mut names = names;
            names.dedup();
            names.truncate(8);
            return Err(format!(
                "there is no peer \"{}\" here; peers: {}",
                name.escape_debug(),
                if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                }
            ));
        }
    }
    if targets.len() > PATHS_MAX {
        targets.sort_by_key(|t| t.works);
        facts.unseen.push(Unseen {
            what: format!("{} of {} paths", targets.len() - PATHS_MAX, targets.len()),
            why: "too many to ping at once; name a peer".to_owned(),
        });
        targets.truncate(PATHS_MAX);
    }
    Ok(())
}

/// The addresses to use for filling the bundle.
fn to_fill(
    report: Option<&StatusReport>,
    cluster: Option<&(Cluster, usize)>,
    targets: &[Target],
) -> Result<(IpAddr, IpAddr), String> {
    let mut names: Vec<&str> = targets.iter().map(|t| t.peer.as_str()).collect();
    names.dedup();
    let [name] = names[..] else {
        return Err("--measure needs the name of one peer".to_owned());
    };
    let own = report.and_then(own_vnic);
    let own = own.ok_or("--measure needs a daemon that runs and has a `vnic`")?;
    let (cluster, _) = cluster
        .ok_or("--measure needs the cluster file, for the peer's `vnic`; name it with --config")?;
    let node = cluster.nodes.iter().find(|n| n.name == name);
    let peer = node.and_then(|n| n.vnic);
    let (peer, _) = peer.ok_or(format!("--measure needs a `vnic` at {name}"))?;
    Ok((own, peer))
}

fn own_vnic(report: &StatusReport) -> Option<IpAddr> {
    let vnic = report.node.vnic.as_ref()?;
    vnic.address.split('/').next()?.parse().ok()
}

fn watch(
    order: &Order,
    first: Option<StatusReport>,
    targets: &[Target],
    filled: Option<(IpAddr, IpAddr)>,
    facts: &mut Facts,
) {
    let port = targets.first().map_or(facts.port, |t| t.remote.port());
    facts.port = port;
    let pid = first.as_ref().map(|r| r.node.pid).filter(|pid| *pid > 0);
    let mut network = match order.is_quiet {
        true => Network::new(port),
        false => listen(facts, targets, port),
    };
    let errors: Vec<BTreeMap<String, u64>> = facts.links.iter().map(device_errors).collect();
    let own = first.as_ref().and_then(own_vnic);
    let mut flows = own.filter(|_| !order.is_quiet).map(Flows::begin);
    // Once more: to open all this took a moment.
    let first = first.map(again);
    let machine = Before::take(pid, port);
    let began = Instant::now();
    let until = began + order.watch;
    let interval = PING_INTERVAL.max(PING_INTERVAL_ALL * targets.len() as u32);
    let (answers, (between, seconds)) = std::thread::scope(|scope| {
        let ping = |target: &Target| {
            let link = facts.link(target.link)?;
            let device = link.device.as_ref()?;
            let way = Way {
                local: link.address?,
                device: Some(&device.name),
                remote: target.remote,
                mtu_bytes: device.mtu_bytes,
                knock: !target.works,
                interval,
                until,
            };
            Some(pings::run(&way))
        };
        let pinged = targets.iter().filter(|_| !order.is_quiet);
        let threads: Vec<_> = pinged
            .map(|target| scope.spawn(move || ping(target).unwrap_or_default()))
            .collect();
        let reading = (first.is_some()).then(|| scope.spawn(|| readings(began, order)));
        let filling =
            filled.map(|(own, peer)| scope.spawn(move || measure::fill(own, peer, until)));
        match order.is_quiet {
            true => std::thread::sleep(order.watch),
            false => look_until(until, &mut network, flows.as_mut()),
        }
        let answers = threads.into_iter().map(|t| t.join().unwrap_or_default());
        let mut answers: Vec<Answers> = answers.collect();
        answers.resize_with(targets.len(), Answers::default);
        drop(filling.map(|f| f.join()));
        let read = reading.and_then(|r| r.join().ok());
        (answers, read.unwrap_or_default())
    });
    network.look();
    facts.seconds = began.elapsed().as_secs_f64();
    facts.machine = machine.finish();
    facts.flows = flows.map(Flows::finish).unwrap_or_default();
    if let Some(first) = first {
        take_daemon(facts, first, (between, seconds));
    }
    take_links(facts, &network, errors);
    take_paths(facts, &network, targets, answers);
}

/// What the daemon reported while it was watched, and what it does now.
fn take_daemon(
    facts: &mut Facts,
    first: StatusReport,
    (between, seconds): (Vec<StatusReport>, f64),
) {
    facts.node = Some(first.node.name.clone());
    let last = again(first.clone());
    let seconds = match between.is_empty() {
        true => facts.seconds,
        false => seconds,
    };
    facts.daemon = Some(Watched {
        first,
        between,
        seconds,
        last,
    });
}

/// The daemon's report now; if it has ended, the one before.
fn again(before: StatusReport) -> StatusReport {
    status().unwrap_or(before)
}

/// Periodic reports of the daemon, the last one at the end of the watch, and its time in
/// seconds from the beginning.
fn readings(began: Instant, order: &Order) -> (Vec<StatusReport>, f64) {
    let mut read = Vec::new();
    let mut seconds = 0.0;
    let count = if order.is_quiet {
        READINGS_QUIET
    } else {
        READINGS
    };
    for nth in 1..=count {
        let at = began + order.watch * nth / count;
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        if let Ok(report) = status() {
            read.push(report);
            seconds = began.elapsed().as_secs_f64();
        }
    }
    (read, seconds)
}

fn device_errors(link: &OwnLink) -> BTreeMap<String, u64> {
    let device = link.device.as_ref();
    device.map(|d| device::errors(&d.name)).unwrap_or_default()
}

/// Packet sockets where they are permitted: ARP on all links, and what arrives
/// for our port where a path does not work.
fn listen(facts: &mut Facts, targets: &[Target], port: u16) -> Network {
    let mut network = Network::new(port);
    let mut refused = None;
    for link in &facts.links {
        let (Some(address), Some(device)) = (link.address, &link.device) else {
            continue;
        };
        if !usable(device) {
            continue;
        }
        let on_link = || targets.iter().filter(|t| t.link == link.number);
        if let (IpAddr::V4(own), Some(mac)) = (address, device.mac) {
            let peers = on_link().filter_map(|target| wanted(target, targets));
            let added = network.add(link.number, device.index, mac, own, peers.collect());
            refused = refused.or(added.err());
        }
        if on_link().any(|t| !t.works) {
            let added = network.capture(link.number, device.index, device.mac, address.is_ipv4());
            refused = refused.or(added.err());
        }
    }
    if let Some(error) = refused {
        facts.unseen.push(Unseen {
            what: "address conflicts, shared networks, and what a firewall of this machine drops"
                .to_owned(),
            why: format!(
                "{}; run it as root (CAP_NET_RAW)",
                tabane_cluster::plain(&error)
            ),
        });
    }
    network
}

/// What to ask for by ARP of this target, one of `all`.
fn wanted(target: &Target, all: &[Target]) -> Option<Wanted> {
    let is_other = |other: &&Target| other.link != target.link && other.peer == target.peer;
    let others = all.iter().filter(is_other);
    Some(Wanted {
        ip: ipv4(target)?,
        others: others.filter_map(ipv4).collect(),
    })
}

fn ipv4(target: &Target) -> Option<Ipv4Addr> {
    match target.remote.ip() {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    }
}

fn usable(device: &Device) -> bool {
    device.up && device.carrier
}

fn look_until(until: Instant, network: &mut Network, mut flows: Option<&mut Flows>) {
    let (mut ask, mut look_at_flows) = (Instant::now(), Instant::now());
    loop {
        let now = Instant::now();
        if now >= until {
            return;
        }
        if now >= ask {
            network.ask();
            ask = now + ASK_EVERY;
        }
        network.look();
        if let Some(flows) = flows.as_deref_mut()
            && now >= look_at_flows
        {
            flows.look();
            look_at_flows = now + FLOWS_EVERY;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn take_links(facts: &mut Facts, network: &Network, errors: Vec<BTreeMap<String, u64>>) {
    for (link, before) in facts.links.iter_mut().zip(errors) {
        link.heard_on = network.heard_on(link.number);
        link.arrivals = network.arrivals(link.number);
        if let Some(address) = link.address {
            link.claimants = network.macs(link.number, address);
        }
        if let Some(device) = &mut link.device {
            device.errors = device::grown(&before, device::errors(&device.name));
        }
    }
}

fn take_paths(facts: &mut Facts, network: &Network, targets: &[Target], answers: Vec<Answers>) {
    let known = neighbours().unwrap_or_default();
    if answers.iter().any(|a| a.forbidden) {
        facts.unseen.push(Unseen {
            what: "loss on idle links, and whether large packets pass".to_owned(),
            why: "pinging is not permitted; run it as root, or set \
                  `sysctl -w net.ipv4.ping_group_range=\"0 2147483647\"`"
                .to_owned(),
        });
    }
    for (target, answers) in targets.iter().zip(answers) {
        let ip = target.remote.ip();
        let device = facts.device(target.link).map(|d| d.index);
        let neighbour = known
            .iter()
            .find(|n| Some(n.device) == device && n.ip == ip);
        facts.paths.push(PathFacts {
            peer: target.peer.clone(),
            link: target.link,
            remote: target.remote,
            small: answers.small,
            lost_times: answers.small.map(|_| answers.lost_times),
            large: answers.large,
            knock: answers.knock,
            macs: network
                .asked_on(target.link)
                .then(|| network.macs(target.link, ip)),
            its_macs: network.its_macs(target.link, ip),
            neighbour: neighbour.and_then(|n| n.mac),
            neighbour_failed: neighbour.is_some_and(|n| n.failed),
            own_device: None,
        });
    }
}
