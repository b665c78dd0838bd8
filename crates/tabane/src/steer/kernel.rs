//! Makes the kernel be as the plan says, and puts back what it was.
//!
//! What is made here bears a mark, so that nothing of the operator's is ever touched: endpoints have
//! numbers of a range of their own, routes a protocol of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::time::Duration;

use tabane_cluster::plain;
use tabane_io::netlink::{
    HostRoute, HostRoutes, MPTCP_LIMIT_MAX, MptcpEndpoint, MptcpLimits, MptcpPaths, Neighbours,
    Subflows, interfaces,
};

use super::plan::{Picture, Way, ways};
use crate::daemon::unix_ms;
use crate::status::{ConnectionStatus, DetourStatus, MptcpStatus, SubflowStatus};

/// The numbers of the endpoints that are made here.
const FIRST_ID: u8 = 240;
/// What TCP waits at least before it sends again what is not acknowledged, on the way to a peer: a
/// failure is known after about as long, and what was lost with it is sent again on the detour. (It
/// is 200 ms otherwise, a guard against acknowledgements that are delayed; the peer's kernel delays
/// them less, since its route back says the same.)
const LEAST_TIMEOUT: Duration = Duration::from_millis(20);
/// Connections that `tabane status` lists at most: some 20 KB of JSON at each change.
const LISTED_MAX: usize = 128;
/// Whether the kernel has MPTCP switched on, in this network namespace.
const SWITCH: &str = "/proc/sys/net/mptcp/enabled";
/// Whether it checks what it joins (RFC 8684, section 3.3.1).
const CHECKSUMS: &str = "/proc/sys/net/mptcp/checksum_enabled";
/// What is said while it does not: a kernel was seen to deliver wrong bytes (docs/mptcp.md, Limits).
const UNCHECKED: &str = "Multipath TCP: the kernel does not check what it joins, and one was seen to deliver wrong bytes; \
                         `sysctl -w net.mptcp.checksum_enabled=1` on every node has it check";

/// What is said of a kernel without Multipath TCP.
pub const MISSING: &str = "this kernel has no Multipath TCP (CONFIG_MPTCP)";
/// And of one in which it is switched off.
pub const SWITCHED_OFF: &str = "it is switched off; `sysctl -w net.mptcp.enabled=1` switches it on";

/// The kernel's MPTCP in this network namespace, and its routes.
pub struct Kernel {
    paths: MptcpPaths,
    routes: HostRoutes,
    neighbours: Neighbours,
    subflows: Subflows,
    /// The limits that were found, and those set instead.
    limits: Option<(MptcpLimits, MptcpLimits)>,
    picture: Picture,
    /// The routes made here, by the address they lead to.
    made: BTreeMap<IpAddr, Made>,
    /// Addresses of this node's that no device has, and that are kept for what lives by them.
    kept: BTreeSet<IpAddr>,
    /// What `tabane status` tells.
    pub status: MptcpStatus,
    /// What was said already, so that it is said once.
    told: BTreeSet<String>,
    /// What the log should say.
    said: Vec<String>,
}

/// A route made here.
struct Made {
    way: Way,
    /// What the network's route says beside the way, and its device, as far as they are known.
    metrics: Vec<(u16, Vec<u8>)>,
    device: Option<u32>,
}

impl Kernel {
    /// # Errors
    /// In words for people: this kernel has no MPTCP, or it is switched off.
    pub fn open() -> Result<Kernel, String> {
        let paths = MptcpPaths::open().map_err(|error| match error.kind() {
            ErrorKind::NotFound => MISSING.to_owned(),
            _ => plain(&error),
        })?;
        let is_off = |setting| fs::read_to_string(setting).is_ok_and(|text| text.trim() == "0");
        if is_off(SWITCH) {
            return Err(SWITCHED_OFF.to_owned());
        }
        let trouble = |error: io::Error| format!("netlink: {}", plain(&error));
        let mut routes = HostRoutes::open().map_err(trouble)?;
        // Of one that was killed.
        for route in routes.list().map_err(trouble)? {
            let _ = routes.delete(route.to);
        }
        for address in routes.kept_addresses().map_err(trouble)? {
            let _ = routes.release_address(address);
        }
        Ok(Kernel {
            paths,
            routes,
            neighbours: Neighbours::new().map_err(trouble)?,
            subflows: Subflows::open().map_err(trouble)?,
            limits: None,
            picture: Picture::default(),
            kept: BTreeSet::new(),
            made: BTreeMap::new(),
            status: MptcpStatus::default(),
            told: BTreeSet::new(),
            said: Vec::from_iter(is_off(CHECKSUMS).then(|| UNCHECKED.to_owned())),
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
        // What matters most first.
        self.set_routes(&ways(picture));
        self.note_detours();
        self.raise_limits(picture.links.len())?;
        if let Err(error) = self.set_endpoints(&picture.links) {
            self.tell(format!("Multipath TCP: endpoints: {}", plain(&error)));
        }
        self.picture = picture.clone();
        Ok(())
    }

    /// Makes anew what others have removed, and tries again what could not be made.
    pub fn renew(&mut self) {
        self.set_routes(&ways(&self.picture));
        self.note_detours();
    }

    /// What the log should say; once.
    pub fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    fn tell(&mut self, text: String) {
        if self.told.insert(text.clone()) {
            self.said.push(text);
        }
    }

    /// A connection takes as many paths as this node has links.
    fn raise_limits(&mut self, links: usize) -> Result<(), String> {
        let refused = |error: io::Error| match error.kind() {
            ErrorKind::PermissionDenied => "it takes CAP_NET_ADMIN".to_owned(),
            _ => format!("limits: {}", plain(&error)),
        };
        let now = self.paths.limits().map_err(refused)?;
        let links = (links as u32).min(MPTCP_LIMIT_MAX);
        let wanted = MptcpLimits {
            subflows: now.subflows.max(links),
            add_addr_accepted: now.add_addr_accepted.max(links),
        };
        if wanted != now {
            self.paths.set_limits(wanted).map_err(refused)?;
            let found = self.limits.map_or(now, |(found, _)| found);
            self.limits = Some((found, wanted));
        }
        Ok(())
    }

    /// Has connections tell their peers of these addresses. Those of links that have failed, too:
    /// they are reached all the same, and the link is used as soon as it returns.
    fn set_endpoints(&mut self, links: &[IpAddr]) -> io::Result<()> {
        let endpoints = self.paths.endpoints()?;
        let ours = endpoints.iter().filter(|endpoint| is_ours(endpoint));
        let gone = ours.filter(|endpoint| !links.contains(&endpoint.address));
        self.withdraw(gone)?;
        let is_there = |link: &&IpAddr| endpoints.iter().any(|e| e.address == **link);
        for link in links.iter().filter(|link| !is_there(link)) {
            let is_free = |id: &u8| !endpoints.iter().any(|endpoint| endpoint.id == *id);
            // One that was free a moment ago is now the link's before.
            let mut ids = (FIRST_ID..=u8::MAX).filter(is_free);
            let mut announce = || Some(self.paths.announce(*link, ids.next()?));
            let mut result = announce();
            while let Some(Err(error)) = &result
                && error.kind() == ErrorKind::ResourceBusy
                && let Some(next) = announce()
            {
                result = Some(next);
            }
            result.transpose()?;
        }
        Ok(())
    }

    /// Takes endpoints away, but for those that connections have subflows from: the kernel would end
    /// these, also the last one of a connection. Returns how many are left.
    fn withdraw<'a>(
        &mut self,
        endpoints: impl Iterator<Item = &'a MptcpEndpoint>,
    ) -> io::Result<usize> {
        let mut endpoints = endpoints.peekable();
        if endpoints.peek().is_none() {
            return Ok(0);
        }
        let subflows = self.subflows.list()?;
        let mut left = 0;
        for endpoint in endpoints {
            let own = endpoint.address;
            if subflows.iter().any(|subflow| subflow.local.ip() == own) {
                left += 1;
            } else {
                // Somebody else may have been quicker.
                let _ = self.paths.withdraw(endpoint);
            }
        }
        Ok(left)
    }

    /// Keeps the addresses of failed links that no device has any more (removed, or gone with the device)
    /// while there is a detour from them. Without its address a subflow can neither send nor receive,
    /// wherever a route leads, and what it has not delivered holds up the whole connection.
    fn keep_addresses(&mut self, ways: &BTreeMap<IpAddr, Way>) {
        let own = ways.values().filter_map(|way| match way {
            Way::Detour { own, .. } => Some(*own),
            Way::Direct { .. } => None,
        });
        let mut wanted: BTreeSet<_> = own.collect();
        if wanted.is_empty() && self.kept.is_empty() {
            return;
        }
        let Ok(devices) = interfaces() else {
            return;
        };
        for address in devices.iter().flat_map(|device| &device.addresses) {
            wanted.remove(&address.ip);
        }
        for address in self.kept.difference(&wanted) {
            let _ = self.routes.release_address(*address);
        }
        for address in &wanted {
            match self.routes.keep_address(*address) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    self.tell(format!("address {address}: {}", plain(&error)));
                }
                _ => {}
            }
        }
        self.kept = wanted;
    }

    fn set_routes(&mut self, ways: &BTreeMap<IpAddr, Way>) {
        // A detour leads from an address, which must be there first.
        self.keep_addresses(ways);
        // The kernel removes them, too, with a device or an address.
        let present: BTreeSet<_> = match self.routes.list() {
            Ok(routes) => routes.into_iter().map(|route| route.to).collect(),
            Err(error) => return self.tell(format!("routes: {}", plain(&error))),
        };
        for to in present.iter().filter(|to| !ways.contains_key(to)) {
            let _ = self.routes.delete(*to);
        }
        self.made.retain(|to, _| ways.contains_key(to));
        // A detour leads by an address that is reached directly: that comes first.
        let is_direct = |(_, way): &(&IpAddr, &Way)| matches!(way, Way::Direct { .. });
        let (direct, detours): (Vec<_>, Vec<_>) = ways.iter().partition(is_direct);
        let mut left_devices = BTreeSet::new();
        for (to, way) in direct.into_iter().chain(detours) {
            let is_there = present.contains(to);
            if is_there && self.made.get(to).is_some_and(|made| made.way == *way) {
                continue;
            }
            match self.set_route(*to, *way, is_there) {
                Ok(made) => {
                    let left = made.device.filter(|_| matches!(way, Way::Detour { .. }));
                    left_devices.extend(left);
                    self.made.insert(*to, made);
                }
                Err(error) => {
                    // What was there before a detour is there yet.
                    if !is_there || matches!(way, Way::Direct { .. }) {
                        self.made.remove(to);
                    }
                    // The operator's, who knows better.
                    if error.kind() != ErrorKind::AlreadyExists {
                        self.tell(format!("route to {to}: {}", plain(&error)));
                    }
                }
            }
        }
        // With its carrier a device loses its neighbours. What was sent before there was a detour waits for an
        // answer of them, three seconds, and TCP sends nothing again that is still in a queue of its host.
        for device in left_devices {
            // The kernel gives up by itself, later.
            let _ = self.neighbours.forget_unresolved(device);
        }
    }

    /// Makes a route, or another of one that `is_there`.
    fn set_route(&mut self, to: IpAddr, way: Way, is_there: bool) -> io::Result<Made> {
        let (own, via, other) = match way {
            Way::Direct { own } => return self.set_direct(to, own, is_there),
            Way::Detour { own, via, other } => (own, via, other),
        };
        // While a link is down there may be no route to its network, or only the one to everywhere else.
        let (metrics, device) = match self.made.get(&to) {
            Some(made) => (made.metrics.clone(), made.device),
            None => match self.routes.lookup(to) {
                Ok(found) if !found.is_default => (found.route.metrics, found.route.device),
                _ => (Vec::new(), None),
            },
        };
        let mut make = |source| {
            let route = HostRoute {
                to,
                via: Some(via),
                device: None,
                source: Some(source),
                metrics: metrics.clone(),
            };
            let route = route.with_least_timeout(LEAST_TIMEOUT);
            match is_there {
                true => self.routes.replace(&route),
                false => self.routes.add(&route),
            }
        };
        match make(own) {
            // It may be gone from its device.
            Err(error) if error.kind() == ErrorKind::InvalidInput => make(other)?,
            result => result?,
        }
        Ok(Made {
            way,
            metrics,
            device,
        })
    }

    /// Has the network's own route, and TCP send again sooner there. That route is looked up now that the link
    /// works: before it may have been another, or of a device that is gone.
    fn set_direct(&mut self, to: IpAddr, own: IpAddr, is_there: bool) -> io::Result<Made> {
        if is_there {
            // It may have gone meanwhile.
            let _ = self.routes.delete(to);
        }
        let found = self.routes.lookup(to)?;
        let device = found.route.device;
        if found.is_default && !is_at(own, device) {
            let what = "nothing leads to it by its link";
            return Err(io::Error::new(ErrorKind::NetworkUnreachable, what));
        }
        let metrics = found.route.metrics.clone();
        self.routes
            .add(&found.route.with_least_timeout(LEAST_TIMEOUT))?;
        Ok(Made {
            way: Way::Direct { own },
            metrics,
            device,
        })
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
        for (to, made) in &self.made {
            let Way::Detour { via, .. } = made.way else {
                continue;
            };
            let known = before.iter().find(|d| d.to == *to && d.via == via);
            self.status.steered += u64::from(known.is_none());
            let new = || DetourStatus {
                to: *to,
                via,
                since_unix_ms: unix_ms(),
            };
            self.status.detours.push(known.cloned().unwrap_or_else(new));
        }
        let now = &self.status.detours;
        let is_over = |d: &&DetourStatus| !now.iter().any(|n| n.to == d.to && n.via == d.via);
        self.status.steered += before.iter().filter(is_over).count() as u64;
    }

    /// Puts back what was found, but for endpoints that connections live by; returns whether there
    /// are any of those.
    pub fn put_back(&mut self) -> bool {
        let listed = self.routes.list().unwrap_or_default().into_iter();
        let made = std::mem::take(&mut self.made).into_keys();
        for to in listed.map(|route| route.to).chain(made) {
            let _ = self.routes.delete(to);
        }
        for address in self.routes.kept_addresses().unwrap_or_default() {
            let _ = self.routes.release_address(address);
        }
        if let Some((found, set)) = self.limits.take()
            && self.paths.limits().is_ok_and(|now| now == set)
        {
            let _ = self.paths.set_limits(found);
        }
        self.withdraw_all()
    }

    /// Takes away the endpoints that no connection lives by; returns whether there are others.
    pub fn withdraw_all(&mut self) -> bool {
        let endpoints = self.paths.endpoints().unwrap_or_default();
        let ours = endpoints.iter().filter(|endpoint| is_ours(endpoint));
        self.withdraw(ours).unwrap_or(0) > 0
    }
}

/// Whether the device of this number has this address.
fn is_at(own: IpAddr, device: Option<u32>) -> bool {
    let devices = interfaces().unwrap_or_default().into_iter();
    let mut own_devices = devices.filter(|device| device.addresses.iter().any(|a| a.ip == own));
    own_devices.any(|own| Some(own.index) == device)
}

/// A device of these links on which the kernel drops packets whose answer would take another one
/// (strict reverse paths, RFC 3704): while there is a detour, also the probes of the link itself.
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

/// Whether it was made here, by this process or one before.
fn is_ours(endpoint: &MptcpEndpoint) -> bool {
    endpoint.is_plain_signal && endpoint.id >= FIRST_ID
}
