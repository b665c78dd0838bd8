//! What the loop is told of the cluster file: links, peers, keys, and what may be relayed.

use std::net::IpAddr;

use tabane_cluster::{Cluster, MeshSpec, NodeSpec, Wire};
use tabane_engine::{Engine, EngineConfig, LinkSpec, SPIN};
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::wire::WireMode;
use tabane_proto::{LinkId, PeerConfig, PeerId, RelayConfig};

use super::members;

/// The links of a node, as the loop wants them.
pub(super) fn link_specs(node: &NodeSpec) -> Vec<LinkSpec> {
    let spec = |(i, address)| LinkSpec {
        id: LinkId(i as u8),
        address,
    };
    node.addresses().map(spec).collect()
}

/// A peer, as the node wants it.
pub(super) fn peer_config(node: &NodeSpec, port: u16) -> PeerConfig {
    let mut addresses = [None; LINKS_MAX];
    for (link, address) in node.addresses() {
        addresses[link] = Some((address, port).into());
    }
    PeerConfig {
        name: node.name.clone(),
        addresses,
        public: node.public.map(|key| key.0),
    }
}

/// The peers that have a virtual NIC, and its addresses.
pub(super) fn peers_with_nic(
    cluster: &Cluster,
    peers: &[(PeerId, usize)],
) -> Vec<(PeerId, IpAddr)> {
    let with_nic = |(peer, node): &(PeerId, usize)| Some((*peer, cluster.nodes[*node].vnic?.0));
    peers.iter().filter_map(with_nic).collect()
}

/// The loop of node `me`, and messages about the links.
///
/// # Errors
/// In words for people.
pub(crate) fn engine(cluster: &Cluster, me: usize) -> Result<(Engine, Vec<String>), String> {
    let spec = &cluster.nodes[me];
    Engine::new(EngineConfig {
        name: spec.name.clone(),
        keys: cluster.keys(),
        private: cluster.node_key.as_ref().map(|key| *key.bytes()),
        public: spec.public.map(|key| key.0),
        wire: match cluster.wire {
            Wire::Encrypted => WireMode::Encrypted,
            Wire::Plain => WireMode::Plain,
        },
        port: cluster.port,
        links: link_specs(spec),
        spin: SPIN,
        features: 0,
        relay: Some(relay_config(cluster.mesh)),
        guests: Some(members::guests(cluster, me)),
    })
    .map_err(|e| e.to_string())
}

/// The node's settings for relaying.
pub(super) fn relay_config(mesh: MeshSpec) -> RelayConfig {
    RelayConfig {
        forwards: mesh.relay,
        mbps_max: mesh.relay_mbps,
        bundles_max: mesh.bundles,
    }
}

/// Tells the node of all others of the cluster file, and where it may ask to join: the others' numbers in the loop,
/// and in the file.
///
/// # Errors
/// In words for people.
pub(crate) fn add_peers(
    engine: &mut Engine,
    cluster: &Cluster,
    me: usize,
) -> Result<Vec<(PeerId, usize)>, String> {
    let mut peers = Vec::new();
    let now = engine.now();
    for (index, node) in cluster
        .nodes
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != me)
    {
        let peer = peer_config(node, cluster.port);
        peers.push((
            engine.node.add_peer(now, peer).map_err(|e| e.to_string())?,
            index,
        ));
    }
    let seeds = members::seeds(cluster, me);
    engine.node.set_seeds(now, &seeds);
    Ok(peers)
}
