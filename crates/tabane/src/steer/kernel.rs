//! Makes the kernel follow the plan, and restores it.
//!
//! Everything made here is marked, so that nothing of the operator's is ever touched: endpoints have
//! a range of numbers, routes and rules a protocol of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::IpAddr;

use tabane_cluster::plain;
use tabane_io::netlink::{Subflows, interfaces};

use super::endpoints::Endpoints;
use super::obstacle::Obstacle;
use super::plan::{Picture, ways};
use super::routes::Routes;
use crate::status::{ConnectionStatus, DetourStatus, MptcpStatus, SubflowStatus, UnsteeredStatus};
use tabane_io::clock::unix_ms;

/// Connections that `tabane status` lists at most: some 20 KB of JSON at each change.
const LISTED_MAX: usize = 128;
/// Whether the kernel has MPTCP switched on, in this network namespace.
const SWITCH: &str = "/proc/sys/net/mptcp/enabled";
/// Whether the kernel uses checksums (RFC 8684, section 3.3.1).
const CHECKSUMS: &str = "/proc/sys/net/mptcp/checksum_enabled";
/// Warning while it does not: a kernel was seen to deliver wrong bytes (docs/mptcp.md, Limits).
const UNCHECKED: &str = "Multipath TCP: the kernel does not check what it joins, and one was seen to deliver wrong bytes; \
                         `sysctl -w net.mptcp.checksum_enabled=1` on every node has it check";

/// Message for a kernel without Multipath TCP.
pub const MISSING: &str = "this kernel has no Multipath TCP (CONFIG_MPTCP)";
/// Message for a kernel with Multipath TCP switched off.
pub const SWITCHED_OFF: &str = "it is switched off; `sysctl -w net.mptcp.enabled=1` switches it on";

/// The kernel's MPTCP in this network namespace, and its routes.
pub struct Kernel {
    endpoints: Endpoints,
    routes: Routes,
    subflows: Subflows,
    picture: Picture,
    /// It was permitted to set limits: a refusal may be temporary.
    has_spread: bool,
    /// For `tabane status`.
    pub status: MptcpStatus,
    log: Log,
}

/// Lines for the log; each once.
#[derive(Default)]
pub struct Log {
    told: BTreeSet<String>,
    said: Vec<String>,
}

impl Log {
    /// Unless it was said already.
    pub fn tell(&mut self, text: String) {
        if self.told.insert(text.clone()) {
            self.said.push(text);
        }
    }
}

impl Kernel {
    /// # Errors
    /// In words for people: this kernel has no MPTCP, or it is switched off.
    pub fn open() -> Result<Kernel, String> {
        let endpoints = Endpoints::open().map_err(|error| match error.kind() {
            ErrorKind::NotFound => MISSING.to_owned(),
            _ => plain(&error),
        })?;
        let is_off = |setting| fs::read_to_string(setting).is_ok_and(|text| text.trim() == "0");
        if is_off(SWITCH) {
            return Err(SWITCHED_OFF.to_owned());
        }
        let trouble = |error: io::Error| format!("netlink: {}", plain(&error));
        let mut log = Log::default();
        if is_off(CHECKSUMS) {
            log.tell(UNCHECKED.to_owned());
        }
        Ok(Kernel {
            endpoints,
            routes: Routes::open().map_err(trouble)?,
            subflows: Subflows::open().map_err(trouble)?,
            picture: Picture::default(),
            has_spread: false,
            status: MptcpStatus::default(),
            log,
        })
    }

    /// The links are in another state now, or others.
    ///
    /// # Errors
    /// In words for people: the kernel does not let us.
    pub fn set_picture(&mut self, picture: &Picture) -> Result<(), String> {
        if picture.links != self.picture.links
            && let Some(device) = strict_device(&picture.links)
        {
            return Err(format!(
                "{device} takes only what comes from where it would be sent (rp_filter = 1), so a link \
                 would not return; `sysctl -w net.ipv4.conf.all.rp_filter=2` says otherwise"
            ));
        }
        self.picture = picture.clone();
        // The most important first.
        self.routes.set(&ways(picture), &mut self.log);
        self.note_detours();
        match self.spread() {
            Err(why) if !self.has_spread => return Err(why),
            result => self.tell_refusal(result),
        }
        self.has_spread = true;
        self.note_unsteered();
        Ok(())
    }

    /// Restores what others have removed, and retries what failed.
    pub fn renew(&mut self) {
        // The daemon has told nothing yet, and a predecessor's remains may be wanted.
        if self.picture.links.is_empty() {
            return;
        }
        self.routes.doubt();
        self.routes.set(&ways(&self.picture), &mut self.log);
        self.note_detours();
        let spread = self.spread();
        self.tell_refusal(spread);
        self.note_unsteered();
    }

    fn tell_refusal(&mut self, done: Result<(), String>) {
        if let Err(why) = done {
            self.log.tell(format!("Multipath TCP: {why}; still trying"));
        }
    }

    /// Has connections use all links.
    fn spread(&mut self) -> Result<(), String> {
        let (links, log) = (&self.picture.links, &mut self.log);
        self.endpoints.raise_limits(links.len(), log)?;
        if let Err(error) = self.endpoints.set(links, &mut self.subflows, log) {
            log.tell(format!("Multipath TCP: endpoints: {}", plain(&error)));
        }
        Ok(())
    }

    /// Takes the lines for the log.
    pub fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log.said)
    }

    /// The connections to peers: how many to each, by its name, and what `tabane status` tells.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn look(&mut self) -> io::Result<BTreeMap<String, usize>> {
        let mut whose = BTreeMap::new();
        for peer in &self.picture.peers {
            whose.extend(peer.paths.iter().map(|path| (path.peer, &peer.name)));
        }
        let mut connections: BTreeMap<_, ConnectionStatus> = BTreeMap::new();
        for subflow in self.subflows.list()? {
            let Some(name) = whose.get(&subflow.remote.ip()) else {
                continue;
            };
            let (local, remote) = (subflow.local, subflow.remote);
            // One that is being opened has no number yet.
            let key = (
                subflow.connection,
                (subflow.connection == 0).then_some(local),
            );
            let connection = connections.entry(key).or_default();
            connection.peer.clone_from(name);
            connection.subflows.push(SubflowStatus { local, remote });
        }
        let mut counts = BTreeMap::new();
        for connection in connections.values() {
            *counts.entry(connection.peer.clone()).or_default() += 1;
        }
        self.status.connections = connections.len();
        self.status.subflows = connections.values().map(|c| c.subflows.len()).sum();
        self.status.listed = connections.into_values().take(LISTED_MAX).collect();
        Ok(counts)
    }

    /// Notes which addresses are reached by detours now.
    fn note_detours(&mut self) {
        let before = std::mem::take(&mut self.status.detours);
        for (to, via) in self.routes.detours() {
            let known = before.iter().find(|d| d.to == to && d.via == via);
            self.status.steered += u64::from(known.is_none());
            let new = || DetourStatus {
                to,
                via,
                since_unix_ms: unix_ms(),
            };
            self.status.detours.push(known.cloned().unwrap_or_else(new));
        }
        let now = &self.status.detours;
        let is_over = |d: &&DetourStatus| !now.iter().any(|n| n.to == d.to && n.via == d.via);
        self.status.steered += before.iter().filter(is_over).count() as u64;
    }

    /// Records and logs which links to which peers are not steered.
    fn note_unsteered(&mut self) {
        let mut found: BTreeMap<(IpAddr, &Obstacle), Vec<String>> = BTreeMap::new();
        for peer in &self.picture.peers {
            for path in &peer.paths {
                if let Some(obstacle) = self.routes.obstacles.get(&path.peer) {
                    let peers = found.entry((path.own, obstacle)).or_default();
                    peers.push(peer.name.clone());
                }
            }
        }
        let bound = self.endpoints.bound.iter();
        found.extend(bound.map(|(own, obstacle)| ((*own, obstacle), Vec::new())));
        let status = |((local, obstacle), peers): ((IpAddr, &Obstacle), _)| UnsteeredStatus {
            local,
            peers,
            why: obstacle.why.clone(),
            mend: obstacle.mend.clone(),
        };
        self.status.unsteered = found.into_iter().map(status).collect();
        for unsteered in &self.status.unsteered {
            // Without names: it is one problem, whoever comes and goes.
            let UnsteeredStatus {
                local, why, mend, ..
            } = unsteered;
            self.log.tell(format!(
                "Multipath TCP from {local} is not steered, to some peers at least: {why}; {mend}"
            ));
        }
    }

    /// Restores what was found, except endpoints that connections need; returns whether there are
    /// any of those.
    pub fn put_back(&mut self) -> bool {
        self.routes.remove_all();
        self.endpoints.put_back_limits();
        self.withdraw_all()
    }

    /// Takes away the endpoints that no connection lives by; returns whether there are others.
    pub fn withdraw_all(&mut self) -> bool {
        self.endpoints.withdraw_all(&mut self.subflows)
    }
}

/// A device of these links on which the kernel drops packets whose answer would take another device
/// (strict reverse paths, RFC 3704): during a detour that includes the probes of the link itself.
fn strict_device(links: &[IpAddr]) -> Option<String> {
    let setting = |device: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{device}/rp_filter");
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().parse::<u8>().ok()
    };
    let all = setting("all");
    let devices = interfaces().unwrap_or_default().into_iter();
    let mut strict = devices.filter(|device| {
        let is_link = |address: &IpAddr| address.is_ipv4() && links.contains(address);
        // The kernel takes the greater one; 2 is loose.
        setting(&device.name).max(all) == Some(1) && device.addresses.iter().any(|a| is_link(&a.ip))
    });
    strict.next().map(|device| device.name)
}
