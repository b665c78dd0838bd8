//! A network namespace for one program, in which every address is its own.

use core::fmt;
use core::time::Duration;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::namespaces::{self, Kinds, OwnIds};
use crate::netlink::route::LinkSettings;
use crate::netlink::{RouteSocket, interfaces};
use crate::outside::Tun;

/// `lo` is the first device of every network namespace.
const LOOPBACK: u32 = 1;
/// Name of the device with the node's addresses, the same as the virtual NIC's: programs that are given a device's name, or look
/// for one that is not `lo`, find it.
const DEVICE: &str = "tab0";
/// A veth has another end; nothing leaves there, since every address is local.
const DEVICE_END: &str = "tab0-end";
/// Name of the device that leads outside.
const DEVICE_OUTSIDE: &str = "tab-out";
/// Packets that may wait in it until they are read: all senders' data in flight, even in small pieces.
const OUTSIDE_QUEUE_PACKETS: u32 = 4096;
/// The least number of segments that TCP hands over at once, where many connections have a small share each (ip-sysctl.rst): each
/// packet costs the same on its way to the gateway.
const LEAST_SEGMENTS: (&str, &[u8]) = ("ipv4/tcp_min_tso_segs", b"12");
/// TCP's minimum retransmission timeout to outside: a gateway that takes over from another one cannot know which packets were
/// lost. Longer than others delay acknowledgements (40 ms, Linux).
const LEAST_TIMEOUT: Duration = Duration::from_millis(60);
/// Congestion control of TCP connections inside: over loopback, where nothing is lost, BBR (perhaps the host's default) is three
/// times slower.
pub(super) const CONGESTION_CONTROL: &str = "cubic";
/// The longest packets on `lo` (BIG TCP): each costs the same, however long it is.
const LOOPBACK_PACKET_BYTES: u32 = 200_000;

/// Settings of a network namespace that a program notices by its own sockets. A new one has the
/// kernel's defaults (ip-sysctl.rst, net.rst).
const SETTINGS: [&str; 9] = [
    "core/somaxconn",
    "ipv4/ip_unprivileged_port_start",
    "ipv4/ip_local_port_range",
    "ipv4/ip_local_reserved_ports",
    "ipv4/tcp_syn_retries",
    "ipv4/tcp_fin_timeout",
    "ipv4/tcp_keepalive_time",
    "ipv4/tcp_keepalive_intvl",
    "ipv4/tcp_keepalive_probes",
];

/// A step of making a namespace failed.
#[derive(Debug)]
pub struct NamespaceError {
    step: &'static str,
    source: io::Error,
}

impl NamespaceError {
    fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> NamespaceError {
        move |source| NamespaceError {
            step,
            source: source.into(),
        }
    }
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.step, self.source)
    }
}

impl core::error::Error for NamespaceError {}

/// The network namespace that this process is in, and is alone in.
#[derive(Debug)]
pub struct Namespace(());

impl Namespace {
    /// Moves this process, which must have a single thread, into a network namespace of its own, with these addresses (and prefix
    /// lengths; [`source_for`] gives the source of its packets). An ordinary user's process also enters a user namespace, in
    /// which it keeps its identity. Traffic that `wide` leads elsewhere leaves by a TUN.
    ///
    /// # Errors
    /// The kernel does not permit it, or lacks something.
    pub fn enter(
        own: &[(IpAddr, u8)],
        wide: Option<&Wide>,
    ) -> Result<(Namespace, Option<Tun>), NamespaceError> {
        let places = Kinds::NET | Kinds::MOUNT;
        let settings = SETTINGS.map(|name| (name, setting(name)));
        let ids = OwnIds::kept();
        if namespaces::unshare(places).is_err() {
            namespaces::unshare(Kinds::USER | places).map_err(NamespaceError::step(
                "make a user namespace (are they permitted? sysctl user.max_user_namespaces, \
                 kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)",
            ))?;
            ids.take_effect()
                .map_err(NamespaceError::step("stay who one is in a user namespace"))?;
        }
        namespaces::keep_mounts_inside().map_err(NamespaceError::step("make a mount namespace"))?;
        // Twice, for the kernel checks one against another. Some kernels keep some from ordinary users.
        for (name, value) in settings.iter().chain(&settings) {
            if let Some(value) = value.as_ref().filter(|_| *value != setting(name)) {
                let _ = fs::write(setting_path(name), value);
            }
        }
        let tun = furnish(own, wide)?;
        Ok((Namespace(()), tun))
    }

    /// Makes `/etc/hosts` contain its old content, and `names` as well, for the processes of this namespace.
    ///
    /// # Errors
    /// There is no such file, or the kernel does not permit to mount another over it.
    pub fn add_names(
        &self,
        names: impl IntoIterator<Item = (String, IpAddr)>,
    ) -> Result<(), NamespaceError> {
        let step = || NamespaceError::step("give /etc/hosts the nodes' names");
        let mut text = fs::read("/etc/hosts").map_err(step())?;
        if text.last().is_some_and(|last| *last != b'\n') {
            text.push(b'\n');
        }
        for (name, address) in names {
            text.extend(format!("{address}\t{name}\n").into_bytes());
        }
        // The file is in memory: there may be no place on the disks to write one. For a moment that
        // file system is in the way of /proc, which is always there, and which only this process sees so.
        namespaces::mount_memory(c"/proc").map_err(step())?;
        let mounted = cover_hosts(&text);
        // The mount stays, without its name.
        let uncovered = namespaces::unmount(c"/proc");
        mounted.and(uncovered).map_err(step())
    }
}

/// Mounts a file with this text over `/etc/hosts`, from the file system that is at `/proc`.
fn cover_hosts(text: &[u8]) -> io::Result<()> {
    let mut file = File::create_new("/proc/hosts")?;
    file.write_all(text)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    namespaces::cover(c"/proc/hosts", c"/etc/hosts")
}

fn setting_path(name: &str) -> PathBuf {
    Path::new("/proc/sys/net").join(name)
}

/// As this network namespace has it; `None` if the kernel does not know it.
fn setting(name: &str) -> Option<Vec<u8>> {
    fs::read(setting_path(name)).ok()
}

/// Whether this process is in such a namespace already.
///
/// # Errors
/// As [`interfaces`].
pub fn is_inside() -> io::Result<bool> {
    Ok(interfaces()?.iter().any(|device| device.name == DEVICE_END))
}

/// The world beyond the cluster, in a namespace that has the cluster's outside addresses.
#[derive(Clone, Debug)]
pub struct Wide {
    /// These: one of a family.
    pub addresses: Vec<IpAddr>,
    /// Addresses of nodes: they belong to the cluster, whatever networks they are in.
    pub nodes: Vec<IpAddr>,
}

impl Wide {
    fn source(&self, is_v4: bool) -> Option<IpAddr> {
        let mut addresses = self.addresses.iter().copied();
        addresses.find(|address| address.is_ipv4() == is_v4)
    }
}

/// Gives the namespace its addresses, and makes all others of the cluster, or all others, its own as well. Returns the TUN that
/// leads outside, if there is one.
pub(super) fn furnish(
    own: &[(IpAddr, u8)],
    wide: Option<&Wide>,
) -> Result<Option<Tun>, NamespaceError> {
    let mut route = RouteSocket::new().map_err(NamespaceError::step("ask the kernel"))?;
    let up = LinkSettings {
        up: true,
        ..LinkSettings::default()
    };
    route
        .set_link(LOOPBACK, up)
        .map_err(NamespaceError::step("switch lo on"))?;
    // Before Linux 5.19 they are of 64 KiB.
    let _ = route.set_offload_bytes(LOOPBACK, LOOPBACK_PACKET_BYTES);
    route
        .add_veth(DEVICE, DEVICE_END, None)
        .map_err(NamespaceError::step(
            "make a device for the node's addresses",
        ))?;
    for name in [DEVICE, DEVICE_END] {
        const STEP: &str = "switch the device of the node's addresses on";
        let index = switch_on(&mut route, name).map_err(NamespaceError::step(STEP))?;
        for (address, prefix) in own.iter().filter(|_| name == DEVICE) {
            // A route to its network by this device would lead out of it.
            let added = route.add_address_alone(index, *address, *prefix);
            added.map_err(NamespaceError::step("add the node's address"))?;
        }
    }
    for (first, prefix) in networks_of_family(wide, true).chain(networks_of_family(wide, false)) {
        let source = source_for(own, first);
        let made = route.add_network_local((first, prefix), source, CONGESTION_CONTROL);
        match made {
            // A kernel without IPv6 has nothing to catch there.
            Err(_) if first.is_ipv6() && source.is_none() => {}
            made => made.map_err(NamespaceError::step("make all addresses local"))?,
        }
    }
    // The last that is added of one network is in force.
    let is_network = |(address, prefix): &(IpAddr, u8)| *prefix < whole(*address);
    for (address, prefix) in own.iter().rev().copied().filter(is_network) {
        let network = (first_of(address, prefix), prefix);
        route
            .add_network_local(network, Some(address), CONGESTION_CONTROL)
            .map_err(NamespaceError::step("make the node's networks local"))?;
    }
    wide.map(|wide| open_wide(&mut route, own, wide))
        .transpose()
}

/// Switches a device on, of which nothing but its addresses must be visible. Returns its number.
fn switch_on(route: &mut RouteSocket, name: &str) -> io::Result<u32> {
    let link = route.link(name)?.ok_or(io::ErrorKind::NotFound)?;
    // Fails if there is no IPv6; then there is nothing to silence.
    let _ = route.silence_ipv6(link.index);
    let up = LinkSettings {
        up: true,
        ..LinkSettings::default()
    };
    route.set_link(link.index, up)?;
    Ok(link.index)
}

/// The networks of a family that stay inside although no node has them: all, or, if the cluster has an outside address of the
/// family, those that nobody routes.
fn networks_of_family(wide: Option<&Wide>, is_v4: bool) -> impl Iterator<Item = (IpAddr, u8)> {
    let v4 = |a, b, prefix| (IpAddr::V4(Ipv4Addr::new(a, b, 0, 0)), prefix);
    let v6 = |first, prefix| (Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0).into(), prefix);
    let networks = match (is_v4, wide.and_then(|wide| wide.source(is_v4))) {
        (true, None) => vec![v4(0, 0, 0)],
        (false, None) => vec![v6(0, 0)],
        // Of the link (RFC 3927), to many (RFC 5771), and to all.
        (true, Some(_)) => vec![
            v4(169, 254, 16),
            v4(224, 0, 4),
            (Ipv4Addr::BROADCAST.into(), 32),
        ],
        // RFC 4291, 2.5.6 and 2.7.
        (false, Some(_)) => vec![v6(0xfe80, 10), v6(0xff00, 8)],
    };
    networks.into_iter()
}

/// The way outside, for addresses of no node.
fn open_wide(
    route: &mut RouteSocket,
    own: &[(IpAddr, u8)],
    wide: &Wide,
) -> Result<Tun, NamespaceError> {
    for node in &wide.nodes {
        route
            .add_network_local(
                (*node, whole(*node)),
                source_for(own, *node),
                CONGESTION_CONTROL,
            )
            .map_err(NamespaceError::step("make the nodes' addresses local"))?;
    }
    const STEP: &str = "make the device that leads outside (is /dev/net/tun there?)";
    let tun = Tun::make(DEVICE_OUTSIDE).map_err(NamespaceError::step(STEP))?;
    let index = switch_on(route, DEVICE_OUTSIDE).map_err(NamespaceError::step(STEP))?;
    let queue = LinkSettings {
        tx_queue_length: Some(OUTSIDE_QUEUE_PACKETS),
        ..LinkSettings::default()
    };
    route
        .set_link(index, queue)
        .map_err(NamespaceError::step(STEP))?;
    // If the kernel's settings cannot be changed, it costs more.
    let _ = fs::write(setting_path(LEAST_SEGMENTS.0), LEAST_SEGMENTS.1);
    for address in &wide.addresses {
        route
            .add_address_alone(index, *address, whole(*address))
            .map_err(NamespaceError::step("add the outside address"))?;
        route
            .add_default(index, *address, LEAST_TIMEOUT)
            .map_err(NamespaceError::step(
                "have the rest of the world be outside",
            ))?;
    }
    Ok(tun)
}

/// How long the prefix of an address alone is.
const fn whole(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Which of the addresses `own` (with prefix lengths) is the source of packets to `destination`, if the sender does not say: the
/// one in its network, or else the first of its family. The node's own routes do the same.
pub fn source_for(own: &[(IpAddr, u8)], destination: IpAddr) -> Option<IpAddr> {
    let of_family = own
        .iter()
        .filter(|(address, _)| address.is_ipv4() == destination.is_ipv4());
    let is_near = |(address, prefix): &&(IpAddr, u8)| {
        first_of(*address, *prefix) == first_of(destination, *prefix)
    };
    let near = of_family.clone().filter(is_near).rev();
    let narrowest = near.max_by_key(|(_, prefix)| *prefix);
    let source = narrowest.or_else(|| of_family.clone().next());
    source.map(|(address, _)| *address)
}

/// The first address of the network that an address is in.
fn first_of(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let others = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
            Ipv4Addr::from_bits(ip.to_bits() & !others).into()
        }
        IpAddr::V6(ip) => {
            let others = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
            Ipv6Addr::from_bits(ip.to_bits() & !others).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_in_the_network_of_the_destination() {
        let own = [
            ("10.99.0.1", 16),
            ("10.77.1.1", 24),
            ("10.77.2.1", 24),
            ("10.77.2.9", 24),
            ("fd77::1", 64),
        ];
        let own = own.map(|(address, prefix)| (address.parse().unwrap(), prefix));
        for (destination, source) in [
            ("10.99.3.4", Some("10.99.0.1")),
            ("10.77.2.2", Some("10.77.2.1")),
            ("10.77.1.2", Some("10.77.1.1")),
            ("192.0.2.1", Some("10.99.0.1")),
            ("0.0.0.0", Some("10.99.0.1")),
            ("2001:db8::1", Some("fd77::1")),
        ] {
            let source = source.map(|source| source.parse().unwrap());
            assert_eq!(source_for(&own, destination.parse().unwrap()), source);
        }
        assert_eq!(source_for(&own[..4], "::1".parse().unwrap()), None);
    }
}
