//! Hostile packets, as fast as this machine makes them: one node sends another
//! what a stranger on its switch might.
//!
//! They go out of a packet socket (packet(7)), so that every one can have
//! another source, and past the queue of the NIC, so that no line rate but
//! that of the switch's port holds them up.

pub mod cli;
mod forge;
mod recorder;
mod sender;

pub use forge::Kind;
pub use recorder::{RECORDED_MAX, Recorder};

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forge::Forger;
use sender::Sender;

use crate::tools::IP;
use crate::{Lab, LabError, wiring};

/// UDP port of tabane's nodes.
pub const PORT: u16 = 7577;

/// Who sends what to whom.
#[derive(Debug, Clone)]
pub struct FloodConfig {
    /// The node it comes from.
    pub from: usize,
    /// The node that suffers.
    pub to: usize,
    /// Over which link.
    pub link: usize,
    /// What.
    pub kind: Kind,
    /// How many, at most.
    pub count: u64,
    /// What copies are made of: UDP payloads recorded before.
    pub recorded: Vec<Vec<u8>>,
}

/// What a flood came to, so far or in all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sent {
    /// Packets the kernel took.
    pub packets: u64,
    /// For how long.
    pub elapsed: Duration,
}

impl Sent {
    /// Packets a second.
    pub fn rate(&self) -> f64 {
        self.packets as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// A flood under way, on a thread of its own. Dropping it ends it.
#[derive(Debug)]
pub struct Flood {
    stop: Arc<AtomicBool>,
    packets: Arc<AtomicU64>,
    begin: Instant,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Begin.
    ///
    /// # Errors
    /// The lab has no such nodes or link, the flood would have nothing to copy,
    /// or the kernel refuses the socket.
    pub fn start(lab: &Lab, config: &FloodConfig) -> Result<Flood, LabError> {
        lab.check_node(config.from)?;
        lab.check_node(config.to)?;
        lab.check_link(config.link)?;
        if config.kind.needs_recorded() && config.recorded.is_empty() {
            return Err(LabError::BadInput(
                "nothing was recorded to copy; there must be traffic first".into(),
            ));
        }
        let mut sender = Sender::new(lab.node(config.from), &wiring::nic(config.link))
            .map_err(LabError::io("a packet socket for the flood"))?;
        let mut forger = Forger::new(config, ipv4(lab, config));
        let (stop, packets) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopped, counted, count) = (stop.clone(), packets.clone(), config.count);
        let flood = move || {
            while counted.load(Ordering::Relaxed) < count && !stopped.load(Ordering::Relaxed) {
                let left = count - counted.load(Ordering::Relaxed);
                let sent = sender.send(left, |frame| forger.forge(frame));
                counted.fetch_add(sent, Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new()
            .name("lab-flood".into())
            .spawn(flood)
            .map_err(LabError::io("starting the flood"))?;
        Ok(Flood {
            stop,
            packets,
            begin: Instant::now(),
            thread: Some(thread),
        })
    }

    /// Wait until all are sent.
    pub fn wait(mut self) -> Sent {
        self.join()
    }

    /// End it now.
    pub fn stop(mut self) -> Sent {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }

    fn join(&mut self) -> Sent {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        Sent {
            packets: self.packets.load(Ordering::Relaxed),
            elapsed: self.begin.elapsed(),
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.join();
    }
}

/// What passed a port of a switch since the lab was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets from the node.
    pub from_packets: u64,
    /// Their bytes, with Ethernet headers.
    pub from_bytes: u64,
    /// Packets to the node.
    pub to_packets: u64,
    /// Their bytes.
    pub to_bytes: u64,
}

/// What passed the port of a node on a link.
///
/// # Errors
/// There is no such node or link, or `ip` fails.
pub fn port_counters(lab: &Lab, node: usize, link: usize) -> Result<PortCounters, LabError> {
    lab.check_node(node)?;
    lab.check_link(link)?;
    let port = wiring::port(node);
    let said = IP.ask(
        lab.switch(link),
        &["-s", "-j", "link", "show", "dev", &port],
    )?;
    let report: serde_json::Value = serde_json::from_slice(&said).unwrap_or_default();
    let stats = &report[0]["stats64"];
    let number = |way: &str, what: &str| stats[way][what].as_u64().unwrap_or(0);
    Ok(PortCounters {
        from_packets: number("rx", "packets"),
        from_bytes: number("rx", "bytes"),
        to_packets: number("tx", "packets"),
        to_bytes: number("tx", "bytes"),
    })
}

/// The addresses of all nodes on the flood's link.
fn ipv4(lab: &Lab, config: &FloodConfig) -> Vec<Ipv4Addr> {
    let address = |node| match lab.address(node, config.link) {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    (0..lab.nodes()).map(address).collect()
}
