//! The routes to peers, and the addresses and the rule that they need: addresses that are kept, and a rule
//! where others' rules lead past the routes.
//!
//! The kernel says whether it takes a route: it is asked after each is made, and after every change of its
//! routing.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::time::Duration;

use tabane_cluster::plain;
use tabane_io::failure::says_nothing;
use tabane_io::netlink::{
    HostRoute, HostRoutes, Neighbours, RoutingMonitor, Rule, Rules, interfaces,
};

use super::kernel::Log;
use super::obstacle::{Obstacle, Verdict, judge};
use super::plan::Way;

/// The minimum retransmission timeout of TCP on the way to a peer: a failure is noticed in about this time,
/// and losses are then retransmitted on the detour. (The default is 200 ms, a guard against delayed
/// acknowledgements; the peer's kernel delays them less, since its route back has the same minimum.)
const LEAST_TIMEOUT: Duration = Duration::from_millis(20);
/// The table for a rule made here, with all routes made here and nothing else.
const TABLE: u32 = 7577;
/// How many rules of others there may be, one behind the other, that a step gets ahead of.
const AHEAD_MAX: usize = 4;

/// What was made.
pub struct Routes {
    routes: HostRoutes,
    rules: Rules,
    neighbours: Neighbours,
    monitor: RoutingMonitor,
    /// The routes made here, by the address they lead to.
    made: BTreeMap<IpAddr, Made>,
    /// Addresses of this node that no device has any more, and that are kept for existing connections.
    kept: BTreeSet<IpAddr>,
    /// Why addresses of peers cannot be steered to.
    pub obstacles: BTreeMap<IpAddr, Obstacle>,
}

/// A route made here.
struct Made {
    way: Way,
    /// Other attributes of the network's route, and its device, as far as they are known.
    metrics: Vec<(u16, Vec<u8>)>,
    device: Option<u32>,
    /// The kernel was asked whether it takes it.
    is_asked: bool,
}

impl Routes {
    /// Also removes what a killed predecessor has left.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open() -> io::Result<Routes> {
        let mut routes = Routes {
            routes: HostRoutes::open()?,
            rules: Rules::open()?,
            neighbours: Neighbours::new()?,
            monitor: RoutingMonitor::new()?,
            made: BTreeMap::new(),
            kept: BTreeSet::new(),
            obstacles: BTreeMap::new(),
        };
        // Tests whether they can be listed.
        routes.routes.list()?;
        routes.remove_all();
        Ok(routes)
    }

    /// Removes all that was made here.
    pub fn remove_all(&mut self) {
        for is_ipv4 in [true, false] {
            self.rules.remove_ours(is_ipv4);
        }
        self.made.clear();
        self.routes.remove_all();
        for address in self.routes.kept_addresses().unwrap_or_default() {
            let _ = self.routes.release_address(address);
        }
    }

    /// The addresses that are reached by a detour, and the peer's other address that it leads by.
    pub fn detours(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        self.made.iter().filter_map(|(to, made)| match made.way {
            Way::Detour { via, .. } => Some((*to, via)),
            Way::Direct { .. } => None,
        })
    }

    /// Makes the kernel take these ways, as far as possible.
    pub fn set(&mut self, ways: &BTreeMap<IpAddr, Way>, log: &mut Log) {
        self.obstacles.retain(|to, _| ways.contains_key(to));
        self.make(ways, log);
        for _ in 0..AHEAD_MAX {
            if !self.ask(log) {
                break;
            }
            self.make(ways, log);
        }
    }

    /// Asks the kernel anew about all ways if anything of its routing has changed.
    pub fn doubt(&mut self) {
        if self.monitor.has_changed() {
            let all = self.made.values_mut();
            all.for_each(|made| made.is_asked = false);
        }
    }

    /// Asks the kernel whether it takes the ways. Returns whether a rule was added, so that everything must be
    /// made anew.
    fn ask(&mut self, log: &mut Log) -> bool {
        let mut rules: BTreeMap<bool, Vec<Rule>> = BTreeMap::new();
        let mut ahead_of: BTreeMap<bool, (IpAddr, Rule)> = BTreeMap::new();
        for (to, made) in self.made.iter_mut().filter(|(_, made)| !made.is_asked) {
            let own = made.way.own();
            let answer = match self.routes.lookup(*to, Some(own)) {
                Ok(found) if found.is_ours => {
                    self.obstacles.remove(to);
                    made.is_asked = true;
                    continue;
                }
                // It is asked again.
                Err(error) if says_nothing(&error) => continue,
                answer => answer.map(|found| found.table).map_err(|e| e.kind()),
            };
            let rules = match rules.entry(to.is_ipv4()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => match self.rules.list(to.is_ipv4()) {
                    Ok(list) => unknown.insert(list),
                    Err(_) => continue,
                },
            };
            match judge(rules, self.routes.table(), own, *to, answer) {
                // It is made again.
                Verdict::Missing => {}
                Verdict::Behind(rule) => {
                    let first = ahead_of.get(&to.is_ipv4());
                    if first.is_none_or(|(_, first)| rule.priority < first.priority) {
                        ahead_of.insert(to.is_ipv4(), (*to, rule));
                    }
                }
                Verdict::Blocked(obstacle) => {
                    made.is_asked = true;
                    self.obstacles.insert(*to, obstacle);
                }
            }
        }
        let mut is_ahead = false;
        for (to, rule) in ahead_of.into_values() {
            match self.get_ahead(to.is_ipv4(), &rule) {
                Ok(()) => {
                    is_ahead = true;
                    log.tell(format!(
                        "Multipath TCP: the rule `{rule}` leads past the routes to peers; they are in table {TABLE} now, \
                         which a rule before it asks (`ip rule show table {TABLE}`)"
                    ));
                }
                Err(error) => {
                    let why = format!(
                        "the rule `{rule}` leads past, and one before: {}",
                        plain(&error)
                    );
                    self.obstacles.insert(to, Obstacle::refused(to, why));
                }
            }
        }
        is_ahead
    }

    /// Adds a rule for the table of the routes made here, just before another rule.
    fn get_ahead(&mut self, is_ipv4: bool, rule: &Rule) -> io::Result<()> {
        self.rules.remove_ours(is_ipv4);
        let priority = rule.priority.saturating_sub(1);
        self.rules.add(is_ipv4, priority, TABLE)?;
        if self.routes.table() != TABLE {
            self.routes.remove_all();
            self.routes.use_table(TABLE);
        }
        Ok(())
    }

    /// Keeps the addresses of failed links that no device has any more (removed, or gone with the device)
    /// while there is a detour from them. Without its address a subflow can neither send nor receive, whatever
    /// the route, and its undelivered data holds up the whole connection.
    fn keep_addresses(&mut self, ways: &BTreeMap<IpAddr, Way>, log: &mut Log) {
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
                    log.tell(format!("address {address}: {}", plain(&error)));
                }
                _ => {}
            }
        }
        self.kept = wanted;
    }

    fn make(&mut self, ways: &BTreeMap<IpAddr, Way>, log: &mut Log) {
        // A detour leads from an address, which must be there first.
        self.keep_addresses(ways, log);
        // The kernel removes them, too, with a device or an address.
        let present: BTreeSet<_> = match self.routes.list() {
            Ok(routes) => routes.into_iter().map(|route| route.to).collect(),
            Err(error) => return log.tell(format!("routes: {}", plain(&error))),
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
                    // Anything from before a detour is still there.
                    if !is_there || matches!(way, Way::Direct { .. }) {
                        self.made.remove(to);
                    }
                    let obstacle = self.obstacle(*to, way.own(), &error);
                    self.obstacles.insert(*to, obstacle);
                }
            }
        }
        // A device without carrier loses its neighbours. Packets from before the detour wait three seconds for
        // their answer, and TCP retransmits nothing that is still in a queue of its host.
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
            None => match self.routes.lookup(to, Some(own)) {
                Ok(found) if found.is_to_one && !found.is_ours => {
                    return Err(ErrorKind::AlreadyExists.into());
                }
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
            is_asked: false,
        })
    }

    /// Uses the network's own route, with TCP's shorter retransmission timeout. The route is looked up now that the
    /// link works: before, it may have been another, or of a device that is gone.
    fn set_direct(&mut self, to: IpAddr, own: IpAddr, is_there: bool) -> io::Result<Made> {
        if is_there {
            // It may have gone meanwhile.
            let _ = self.routes.delete(to);
        }
        let found = self.routes.lookup(to, Some(own))?;
        // The operator's, who knows better.
        if found.is_to_one {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let device = found.route.device;
        if found.is_default && !is_at(own, device)? {
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
            is_asked: false,
        })
    }

    /// Why there is no route.
    fn obstacle(&mut self, to: IpAddr, own: IpAddr, error: &io::Error) -> Obstacle {
        if error.kind() == ErrorKind::AlreadyExists {
            return Obstacle::foreign_route();
        }
        let rules = match self.rules.list(to.is_ipv4()) {
            Ok(rules) if !says_nothing(error) => rules,
            _ => return Obstacle::refused(to, plain(error)),
        };
        match judge(&rules, self.routes.table(), own, to, Err(error.kind())) {
            Verdict::Blocked(obstacle) => obstacle,
            _ => Obstacle::refused(to, plain(error)),
        }
    }
}

/// Whether the device of this number has this address.
fn is_at(own: IpAddr, device: Option<u32>) -> io::Result<bool> {
    let devices = interfaces()?.into_iter();
    let mut own_devices = devices.filter(|device| device.addresses.iter().any(|a| a.ip == own));
    Ok(own_devices.any(|own| Some(own.index) == device))
}
