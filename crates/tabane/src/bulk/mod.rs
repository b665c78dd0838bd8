//! `tabane bulk`: streams of a bundle, without a virtual NIC. For `make bench`,
//! and to see how a program hosts the engine itself: the thread that runs this
//! is the one that drives the loop.
//!
//! `tabane bench` does not replace it: in `make bench` seven nodes send to one at once, every byte is compared, and no
//! daemon is in the way.

mod host;
mod report;
mod sending;
mod taking;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::path::PathBuf;

use clap::Args;
use tabane_cluster::{Cluster, DEFAULT_PATH, NodeIndex};
use tabane_engine::Engine;
use tabane_proto::{PeerId, Time};

use self::host::{Bulk, Plan};
use self::report::Report;
use crate::{daemon, say};

/// Peers that are not there by then are not coming.
const CONNECT_MAX: Duration = Duration::from_secs(20);
/// From the end of the sending until the peer has everything.
const REST_MAX: Duration = Duration::from_secs(20);
/// How long a node stays after its last stream, so that peers learn its fate.
const LINGER: Duration = Duration::from_millis(300);
/// The longest wait for anything, so that the deadlines are looked at.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long a run may be, seconds.
const SECONDS_MAX: i64 = 3600;

/// Arguments of `tabane bulk`.
#[derive(Debug, Args)]
pub struct BulkArgs {
    /// The cluster file; its daemon must not run here, or use another port
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    pub config: PathBuf,
    /// The node to be; found by this machine's addresses if not given
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// UDP port instead of the cluster file's
    #[arg(long)]
    pub port: Option<u16>,
    /// Send a stream to these nodes, as fast as they take it
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub to: Vec<String>,
    /// Send messages of 16 bytes to this node, each after the echo of the one before
    #[arg(long, value_name = "NAME")]
    pub ping: Option<String>,
    /// How long to send; of one that only takes, how long the others will
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=SECONDS_MAX))]
    pub seconds: u32,
    /// How many streams of others to take in before ending
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub take: usize,
    /// Send numbers that count up, and check those that come
    #[arg(long)]
    pub check: bool,
}

/// Runs it as node `me` and prints a line of JSON; returns the exit code.
pub fn run(args: &BulkArgs, mut cluster: Cluster, me: NodeIndex) -> u8 {
    cluster.port = args.port.unwrap_or(cluster.port);
    match carry_out(args, &cluster, me) {
        Ok(report) => {
            let line = serde_json::to_string(&report).unwrap_or_default();
            let code = say::print(&format!("{line}\n"));
            if report.is_whole() {
                code
            } else {
                say::failure("not everything arrived as it was sent; see the report")
            }
        }
        Err(message) => say::failure(message),
    }
}

fn carry_out(args: &BulkArgs, cluster: &Cluster, me: NodeIndex) -> Result<Report, String> {
    let (to, ping) = peers_meant(args, cluster, me)?;
    let (mut engine, words) = daemon::engine(cluster, me)?;
    if engine.link_status().iter().all(|link| !link.up) {
        return Err(format!("no link is up: {}", words.join("; ")));
    }
    let peers = daemon::add_peers(&mut engine, cluster, me)?;
    let id = |node: NodeIndex| -> Option<PeerId> {
        let found = peers.iter().find(|(_, index)| *index == node);
        found.map(|(peer, _)| *peer)
    };
    let mut bulk = Bulk::new(Plan {
        to: to.into_iter().filter_map(id).collect(),
        ping: ping.and_then(id),
        lasting: Duration::from_secs(args.seconds.into()),
        take: args.take,
        is_checked: args.check,
    });
    let lasting = Duration::from_secs(args.seconds.into());
    let started = engine.now();
    while !bulk.is_done() {
        turn(&mut engine, &mut bulk)?;
        let deadline = match bulk.began() {
            None => started + CONNECT_MAX,
            Some(began) => began + lasting + REST_MAX,
        };
        if engine.now() >= deadline {
            bulk.give_up(engine.now());
        }
    }
    let until = engine.now() + LINGER;
    while engine.now() < until {
        turn(&mut engine, &mut bulk)?;
    }
    let now = engine.now();
    engine.node.close(now);
    engine.flush(engine.now());
    let name = |peer: PeerId| {
        let node = peers.iter().find(|(id, _)| *id == peer);
        node.map_or_else(String::new, |(_, node)| cluster.nodes[*node].name.clone())
    };
    Ok(bulk.report(cluster.nodes[me].name.clone(), name))
}

/// The nodes that `--to` and `--ping` name.
fn peers_meant(
    args: &BulkArgs,
    cluster: &Cluster,
    me: NodeIndex,
) -> Result<(Vec<NodeIndex>, Option<NodeIndex>), String> {
    let peer = |name: &String| {
        let found = cluster.nodes.iter().position(|node| node.name == *name);
        match found {
            Some(node) if node == me => Err(format!("{name} is this node; name another")),
            Some(node) => Ok(node),
            None => Err(format!("there is no node {name:?} in the cluster file")),
        }
    };
    if args.to.is_empty() && args.ping.is_none() && args.take == 0 {
        return Err("there is nothing to do; give --to, --ping or --take".into());
    }
    let to = args.to.iter().map(peer).collect::<Result<_, _>>()?;
    Ok((to, args.ping.as_ref().map(peer).transpose()?))
}

fn turn(engine: &mut Engine, bulk: &mut Bulk) -> Result<(), String> {
    let turned = engine.turn(bulk, Some(PATIENCE));
    turned.map_err(|error| format!("waiting for events failed: {error}"))
}

/// Milliseconds from one time to another.
fn ms(from: Time, to: Time) -> f64 {
    to.since(from).as_secs_f64() * 1e3
}
