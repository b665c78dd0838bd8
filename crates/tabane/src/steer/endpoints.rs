//! Endpoints and limits of Multipath TCP, which decide how many links a connection uses.
//!
//! Others may set both as well, so they are checked from time to time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::IpAddr;

use tabane_cluster::plain;
use tabane_io::failure::says_nothing;
use tabane_io::netlink::{
    MPTCP_LIMIT_MAX, MptcpEndpoint, MptcpLimits, MptcpPaths, Subflows, interfaces,
};

use super::kernel::Log;
use super::obstacle::Obstacle;

/// The numbers of the endpoints that are made here.
const FIRST_ID: u8 = 240;

/// The endpoints and limits of this network namespace.
pub struct Endpoints {
    paths: MptcpPaths,
    /// The limits that were found, and those set instead.
    limits: Option<(MptcpLimits, MptcpLimits)>,
    /// The addresses of endpoints made here.
    announced: BTreeSet<IpAddr>,
    /// Addresses of links with foreign endpoints that bind streams to their link.
    pub bound: BTreeMap<IpAddr, Obstacle>,
}

impl Endpoints {
    /// # Errors
    /// [`ErrorKind::NotFound`]: this kernel has no MPTCP.
    pub fn open() -> io::Result<Endpoints> {
        Ok(Endpoints {
            paths: MptcpPaths::open()?,
            limits: None,
            announced: BTreeSet::new(),
            bound: BTreeMap::new(),
        })
    }

    /// A connection takes as many paths as this node has links.
    ///
    /// # Errors
    /// In words for people: the kernel does not let us.
    pub fn raise_limits(&mut self, links: usize, log: &mut Log) -> Result<(), String> {
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
        if wanted == now {
            return Ok(());
        }
        self.paths.set_limits(wanted).map_err(refused)?;
        let found = match self.limits {
            Some((found, set)) if set == now => found,
            Some(_) => {
                let (subflows, addresses) = (now.subflows, now.add_addr_accepted);
                log.tell(format!(
                    "Multipath TCP: somebody has set the limits to {subflows} subflows and {addresses} addresses, \
                     which are too few for {links} links; they are raised again"
                ));
                now
            }
            None => now,
        };
        self.limits = Some((found, wanted));
        Ok(())
    }

    /// Has connections tell their peers of these addresses. Those of links that have failed, too:
    /// they are reached all the same, and the link is used as soon as it returns.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set(
        &mut self,
        links: &[IpAddr],
        subflows: &mut Subflows,
        log: &mut Log,
    ) -> io::Result<()> {
        let endpoints = self.paths.endpoints()?;
        let ours = endpoints.iter().filter(|endpoint| is_ours(endpoint));
        let gone = ours.filter(|endpoint| !links.contains(&endpoint.address));
        self.withdraw(gone, subflows)?;
        self.note_bound(links, &endpoints);
        let of = |link: &IpAddr| endpoints.iter().find(|e| e.address == *link);
        let missing: Vec<_> = links.iter().filter(|link| of(link).is_none()).collect();
        let is_lost = |link: &&&IpAddr| self.announced.contains(link);
        let lost: Vec<_> = missing
            .iter()
            .filter(is_lost)
            .map(ToString::to_string)
            .collect();
        if !lost.is_empty() {
            log.tell(format!(
                "Multipath TCP: somebody has removed endpoints of tabane's ({}); they are made again",
                lost.join(", ")
            ));
        }
        let is_there = |link: &&IpAddr| of(link).is_some_and(is_ours);
        self.announced = links.iter().filter(is_there).copied().collect();
        for link in missing {
            self.announce(*link, &endpoints)?;
            self.announced.insert(*link);
        }
        Ok(())
    }

    fn announce(&mut self, link: IpAddr, endpoints: &[MptcpEndpoint]) -> io::Result<()> {
        let is_free = |id: &u8| !endpoints.iter().any(|endpoint| endpoint.id == *id);
        // One that was free a moment ago is now the link's before.
        let mut ids = (FIRST_ID..=u8::MAX).filter(is_free);
        let mut announce = || Some(self.paths.announce(link, ids.next()?));
        let mut result = announce();
        while let Some(Err(error)) = &result
            && error.kind() == ErrorKind::ResourceBusy
            && let Some(next) = announce()
        {
            result = Some(next);
        }
        result.transpose().map(drop)
    }

    /// Records foreign endpoints with a device: their subflows cannot take another device, and the kernel has no
    /// second endpoint for their address.
    fn note_bound(&mut self, links: &[IpAddr], endpoints: &[MptcpEndpoint]) {
        let bound = endpoints.iter().filter_map(|endpoint| {
            let index = endpoint
                .device
                .filter(|_| links.contains(&endpoint.address))?;
            Some((endpoint, index))
        });
        let mut bound = bound.peekable();
        if bound.peek().is_none() {
            return self.bound.clear();
        }
        let devices = interfaces().unwrap_or_default();
        let obstacle = |(endpoint, index): (&MptcpEndpoint, u32)| {
            let device = devices.iter().find(|device| device.index == index);
            let device = device.map_or_else(|| index.to_string(), |device| device.name.clone());
            let (address, id) = (endpoint.address, endpoint.id);
            let why = format!(
                "somebody's endpoint {address} (id {id}) binds its subflows to device {device}"
            );
            let mend = format!(
                "if NetworkManager made it, `nmcli connection modify NAME connection.mptcp-flags disabled` for the \
                 connection of {device}; `ip mptcp endpoint delete id {id}`; tabane then makes its own"
            );
            (address, Obstacle { why, mend })
        };
        self.bound = bound.map(obstacle).collect();
    }

    /// Removes endpoints, except those with subflows of connections: the kernel would end these, including the
    /// last one of a connection. Returns how many are left.
    fn withdraw<'a>(
        &mut self,
        endpoints: impl Iterator<Item = &'a MptcpEndpoint>,
        subflows: &mut Subflows,
    ) -> io::Result<usize> {
        let mut endpoints = endpoints.peekable();
        if endpoints.peek().is_none() {
            return Ok(0);
        }
        let subflows = subflows.list()?;
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

    /// Takes away the endpoints that no connection lives by; returns whether there are others, or may be.
    pub fn withdraw_all(&mut self, subflows: &mut Subflows) -> bool {
        let left = self.paths.endpoints().and_then(|endpoints| {
            let ours = endpoints.iter().filter(|endpoint| is_ours(endpoint));
            self.withdraw(ours, subflows)
        });
        match left {
            Ok(left) => left > 0,
            // The list changed, or cannot be read now: nobody else would remove them later.
            Err(error) => error.kind() == ErrorKind::Interrupted || says_nothing(&error),
        }
    }

    /// Restores the limits, unless somebody else has set them meanwhile.
    pub fn put_back_limits(&mut self) {
        if let Some((found, set)) = self.limits.take()
            && self.paths.limits().is_ok_and(|now| now == set)
        {
            let _ = self.paths.set_limits(found);
        }
    }
}

/// Whether it was made here, by this process or one before.
fn is_ours(endpoint: &MptcpEndpoint) -> bool {
    endpoint.is_plain_signal && endpoint.id >= FIRST_ID
}
