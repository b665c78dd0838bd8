//! Which machine this is: its addresses, and the node that it is.

use std::io;
use std::path::Path;

use tabane_cluster::{Cluster, ConfigError, InterfaceAddress, NodeIndex};
use tabane_proto::crypto::public_key;

/// The addresses of this machine's interfaces, as seen in this network namespace.
///
/// # Errors
/// If the kernel refuses to list them.
pub fn own_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let interfaces = tabane_io::netlink::interfaces()?;
    let of_one = |interface: tabane_io::netlink::Interface| {
        let name = interface.name;
        interface
            .addresses
            .into_iter()
            .map(move |a| InterfaceAddress {
                interface: name.clone(),
                address: a.ip,
                prefix: a.prefix,
            })
    };
    Ok(interfaces.into_iter().flat_map(of_one).collect())
}

/// The cluster, which of its nodes this machine is, and its addresses. Skips the checks of `up` that concern the virtual
/// NIC or do not matter here.
///
/// # Errors
/// The file's errors, or that this machine is none of its nodes.
pub fn as_node(
    config: &Path,
    node: Option<&str>,
) -> Result<(Cluster, NodeIndex, Vec<InterfaceAddress>), ConfigError> {
    let here = own_addresses().unwrap_or_default();
    let (mut cluster, _) = Cluster::load(config)?;
    let me = tabane_cluster::identify(&cluster, &here, node)?;
    cluster.read_node_key(me, public_key)?;
    Ok((cluster, me, here))
}
