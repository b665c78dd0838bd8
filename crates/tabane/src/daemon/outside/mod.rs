//! The daemon's part in the cluster's outside address (paper 004): the file's settings, and this machine's device and routes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;

use tabane_cluster::{Cluster, GatewaySpec, LineQueue, NodeSpec};
use tabane_engine::{Engine, LoopTurn};
use tabane_io::netlink::{Interface, interfaces};
use tabane_io::outside::take_off;
use tabane_proto::gateway::{Electorate, Unchangeable};
use tabane_proto::wire::{Name, NodeId};
use tabane_proto::{Node, PeerId, Random, Time};

pub(super) use changes::{gateway_differences, gateway_words};

mod changes;
mod status;

use super::run::Daemon;
use crate::agent::TOKEN_OUTSIDE;
use crate::gateway::devices::Real;
use crate::gateway::serving::Site;
use crate::gateway::{Gateway, Part};
use crate::log;
use crate::status::MoveReport;

/// The most bytes in the outside device's queue: half a millisecond at 1 Gb/s. A new connection's wait there is short compared
/// with its round trips, and the line stays busy while the loop does other things.
const QUEUE_BYTES: usize = 64 * 1024;
/// The upper limit for lines whose rate the file gives.
const QUEUE_BYTES_MAX: usize = 1024 * 1024;

/// The same if the kernel has the queue, and bounds it itself.
const QUEUE_BYTES_KERNEL: usize = 32 << 20;

/// The most bytes in the device's queue, for a line of this rate: half a millisecond.
fn queue_bytes(rate_bps: Option<u64>) -> usize {
    let of_rate = rate_bps.map_or(0, |bps| bps / 8 / 2000);
    usize::try_from(of_rate)
        .unwrap_or(QUEUE_BYTES_MAX)
        .clamp(QUEUE_BYTES, QUEUE_BYTES_MAX)
}

/// What names a node in words.
fn id_of(node: &NodeSpec) -> Option<NodeId> {
    Some(NodeId::of(&Name::new(&node.name).ok()?))
}

/// The gateway of node `me`, if the cluster has one. `is_for_all`: it may serve.
pub(super) fn open(
    engine: &Engine,
    cluster: &Cluster,
    me: usize,
    peers: &[(PeerId, usize)],
    is_for_all: bool,
) -> Option<Gateway> {
    let spec = cluster.gateway.as_ref()?;
    let now = engine.now();
    let mut random = Random::from_seed(tabane_io::entropy::seed().ok()?);
    let part = Part {
        me: id_of(&cluster.nodes[me])?,
        life: random.u64(),
        electorate: electorate(cluster, spec),
        addresses: spec.addresses.iter().map(|(address, _)| *address).collect(),
        ports_max: spec.ports_per_node,
        conversations_max: spec.connections_per_node,
    };
    let devices = Rc::new(Real::new(engine.poller(), TOKEN_OUTSIDE));
    let mut gateway = Gateway::new(now, devices, part);
    set_peers(&mut gateway, cluster, peers);
    if is_for_all {
        let devices = interfaces().unwrap_or_default();
        let here = device(spec, me).and_then(|name| devices.iter().find(|it| it.name == name));
        if let Some(here) = here {
            // As long as this one does not serve they are another one's.
            take_off(here.index, &spec.addresses);
        }
        gateway.set_site(now, site(cluster, spec, me, &devices));
        if let Some(device) = device(spec, me).filter(|name| !has(&devices, name)) {
            log::warn(format!(
                "warning: there is no device {device} yet, which is to lead outside; the gateway serves when it is there"
            ));
        }
    } else {
        let why =
            "the daemon is for programs of one user only; start it as root, or as the service";
        gateway.set_site(now, Err(why.to_owned()));
    }
    Some(gateway)
}

fn has(devices: &[Interface], name: &str) -> bool {
    devices.iter().any(|device| device.name == name)
}

/// Who may serve, and all nodes, the gateways first. Nodes that have joined are in no file, and gateways learn of them at
/// different times: they do not vote.
fn electorate(cluster: &Cluster, spec: &GatewaySpec) -> Electorate {
    let of = |node: &usize| id_of(&cluster.nodes[*node]);
    let gateways: Vec<_> = spec.nodes.iter().filter_map(of).collect();
    let (named, joined): (Vec<&NodeSpec>, Vec<_>) =
        cluster.nodes.iter().partition(|node| node.lines.node > 0);
    let named = named.into_iter().filter_map(id_of);
    let behind = named.filter(|id| !gateways.contains(id));
    Electorate {
        nodes: gateways.iter().copied().chain(behind).collect(),
        others: joined.into_iter().filter_map(id_of).collect(),
        gateways,
    }
}

/// Tells the gateway who the peers are.
pub(super) fn set_peers(gateway: &mut Gateway, cluster: &Cluster, peers: &[(PeerId, usize)]) {
    let named = |(peer, node): &(PeerId, usize)| Some((id_of(&cluster.nodes[*node])?, *peer));
    let inside: BTreeSet<IpAddr> = cluster.nodes.iter().flat_map(addresses_of).collect();
    gateway.set_peers(peers.iter().filter_map(named), inside);
}

fn addresses_of(node: &NodeSpec) -> impl Iterator<Item = IpAddr> {
    let links = node.links.iter().flatten().copied();
    links.chain(node.vnic.map(|(address, _)| address))
}

/// The device of a node that leads outside.
fn device(spec: &GatewaySpec, me: usize) -> Option<&str> {
    let place = spec.nodes.iter().position(|node| *node == me)?;
    spec.interfaces.get(place).map(String::as_str)
}

/// This node's outside, if it is a gateway and its device is there and connected; else what is missing, in words.
fn site(
    cluster: &Cluster,
    spec: &GatewaySpec,
    me: usize,
    devices: &[Interface],
) -> Result<Site, String> {
    let Some(name) = device(spec, me) else {
        return Err(format!("{} is no gateway", cluster.nodes[me].name));
    };
    let Some(found) = devices.iter().find(|device| device.name == name) else {
        return Err(format!("there is no device {name}"));
    };
    if !found.up {
        return Err(format!("{name} is switched off"));
    }
    if !found.carrier {
        return Err(format!("{name} has no carrier"));
    }
    let mac = found
        .mac
        .ok_or_else(|| format!("{name} is no device of Ethernet"))?;
    Ok(Site {
        device: name.to_owned(),
        index: found.index,
        mac,
        addresses: spec.addresses.clone(),
        routers: spec.routers.clone(),
        queue_bytes: match spec.queue {
            LineQueue::Fair => queue_bytes(spec.rate_bps),
            LineQueue::Kernel => QUEUE_BYTES_KERNEL,
        },
        rate_bps: spec.rate_bps,
        is_fair: spec.queue == LineQueue::Fair,
        ports_max: spec.ports_per_node,
        conversations_max: spec.connections_per_node,
    })
}

impl Daemon {
    /// Others are peers now.
    pub(super) fn set_outside_peers(&mut self) {
        let (cluster, peers) = (&self.cluster, &self.peers);
        let gateway = self.agent.as_mut().and_then(|agent| agent.gateway.as_mut());
        if let (Some(gateway), Some(spec)) = (gateway, &cluster.gateway) {
            set_peers(gateway, cluster, peers);
            gateway.change(tabane_engine::now(), electorate(cluster, spec));
        }
    }

    /// Whether the nodes of another file may vote for the gateway from now on, while it serves.
    ///
    /// # Errors
    /// What is wrong with that, and what would be right, in words.
    pub(super) fn may_vote(&self, new: &Cluster) -> Result<(), [String; 2]> {
        let gateway = self.agent.as_ref().and_then(|agent| agent.gateway.as_ref());
        let (Some(gateway), Some(spec)) = (gateway, &new.gateway) else {
            return Ok(());
        };
        let may = gateway.may_change(tabane_engine::now(), &electorate(new, spec));
        may.map_err(|why| match why {
            // It is reported with everything else of `[gateway]`.
            Unchangeable::Gateways => [
                "the gateways are other ones".to_owned(),
                "restart `tabane up` for that, or put them back".to_owned(),
            ],
            Unchangeable::TooOften => [
                "the nodes that vote for the gateway were changed several times since this one began".to_owned(),
                "restart `tabane up` here, when all other gateways have read the file".to_owned(),
            ],
            Unchangeable::TooMuch => [
                "this node serves the outside addresses, and with so many nodes that come or go at once it would not have most of their votes".to_owned(),
                "add or remove fewer, have new ones run, and read the file again; or `tabane gateway move` first".to_owned(),
            ],
        })
    }

    /// Applies the file's settings of the line and of the nodes' limits.
    pub(super) fn change_outside(&mut self) {
        let limits = self
            .cluster
            .gateway
            .as_ref()
            .map(|spec| (spec.ports_per_node, spec.connections_per_node));
        if let (Some((ports, connections)), Some(gateway)) = (limits, self.gateway()) {
            gateway.set_limits(ports, connections);
            self.look_outside(&interfaces().unwrap_or_default());
        }
    }

    fn gateway(&mut self) -> Option<&mut Gateway> {
        self.agent.as_mut()?.gateway.as_mut()
    }

    /// The machine's devices are other ones now.
    pub(super) fn look_outside(&mut self, devices: &[Interface]) {
        if let Some(spec) = self.cluster.gateway.as_ref().filter(|_| self.is_for_all()) {
            let site = site(&self.cluster, spec, self.me, devices);
            if let Some(gateway) = self.gateway() {
                gateway.set_site(tabane_engine::now(), site);
            }
        }
    }

    /// Logs the gateway's lines.
    pub(super) fn tell_of_outside(&mut self) {
        let lines = self.gateway().map(Gateway::take_lines);
        for line in lines.into_iter().flatten() {
            log::line(format!("gateway: {line}"));
        }
    }

    /// The node is told to end: it ends at once, or when another gateway has taken over. If told again, at once.
    pub(super) fn stop_soon(&mut self, now: Time) {
        match self.gateway().and_then(|gateway| gateway.begin_ending(now)) {
            Some(patience) => self.stop_at = Some(now + patience),
            None => self.stop = true,
        }
    }

    /// The node ends: another gateway is to serve.
    pub(super) fn leave_outside(&mut self, now: Time, node: &mut Node) {
        if let Some(gateway) = self.gateway() {
            gateway.stop(now, node);
        }
        self.tell_of_outside();
    }

    /// Makes another gateway serve: the one of this name, or the next one that can. Returns what was done, in words.
    ///
    /// # Errors
    /// Why not, in words.
    pub(super) fn move_gateway(
        &mut self,
        turn: &mut LoopTurn<'_>,
        to: Option<&str>,
    ) -> Result<MoveReport, String> {
        let spec = self
            .cluster
            .gateway
            .as_ref()
            .ok_or("the cluster file has no `[gateway]`")?;
        let names = |node: &usize| self.cluster.nodes[*node].name.as_str();
        let names: Vec<_> = spec.nodes.iter().map(names).collect();
        if let Some(unknown) = to.filter(|to| !names.contains(to)) {
            return Err(format!(
                "{unknown} is no gateway; those of the cluster file are {}",
                names.join(", ")
            ));
        }
        let heir = to.and_then(|to| Some(NodeId::of(&Name::new(to).ok()?)));
        let gateway = self
            .gateway()
            .ok_or("this node has no part in the gateway")?;
        gateway.move_to(turn.now, turn.node, heir)?;
        self.tell_of_outside();
        let done = match to {
            Some(to) => format!("the gateway moves to {to}"),
            None => "the gateway moves on".to_owned(),
        };
        Ok(MoveReport { done })
    }

    /// How long the loop may sleep for the gateway's sake.
    pub(super) fn outside_patience(
        &mut self,
        now: Time,
        patience: core::time::Duration,
    ) -> core::time::Duration {
        let due = self.gateway().and_then(|gateway| gateway.next_timeout());
        due.map_or(patience, |due| patience.min(due.since(now)))
    }
}
