//! The options of a node.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use tabane_cluster::{Cluster, DEFAULT_PORT, InterfaceAddress, KEY_BYTES, NodeSpec, Wire};
use tabane_engine::{EngineConfig, LinkSpec, SPIN};
use tabane_io::netlink::{Interface, interfaces};
use tabane_proto::crypto::public_key;
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::wire::WireMode;
use tabane_proto::{LinkId, PeerConfig, RelayConfig};

use crate::OpenError;
use crate::error::given_twice;

/// How long a call waits for a peer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long closing a node waits for data under way.
const LINGER: Duration = Duration::from_secs(5);
/// How long streams outlive all links to their peer: TCP gives up after as long (`tcp_retries2`).
const PEER_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Another node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PeerOptions {
    /// Its name.
    pub name: String,
    /// Its address on each network, in the order of this node's links.
    pub addresses: Vec<Option<SocketAddr>>,
    /// Its public key: with it, nobody else is accepted under its name.
    pub public: Option<[u8; KEY_BYTES]>,
}

/// The options of a node.
#[derive(Clone)]
pub struct Options {
    pub(crate) name: String,
    pub(crate) links: Vec<Option<IpAddr>>,
    pub(crate) port: u16,
    pub(crate) keys: Vec<[u8; KEY_BYTES]>,
    private: Option<[u8; KEY_BYTES]>,
    public: Option<[u8; KEY_BYTES]>,
    /// A name that is no peer's, for which a public key was given.
    unknown: Option<String>,
    pub(crate) wire: WireMode,
    relay: Option<RelayConfig>,
    pub(crate) peers: Vec<PeerOptions>,
    /// So many of them, the first, have the port of the cluster file.
    file_peers: usize,
    pub(crate) spin: Duration,
    pub(crate) timeout: Duration,
    pub(crate) linger: Duration,
    /// `None`: they wait for ever.
    pub(crate) peer_timeout: Option<Duration>,
    pub(crate) is_interruptible: bool,
}

impl Options {
    /// A node of this name with links at these addresses, the n-th on network n, which knows no
    /// other node yet. All nodes of a cluster have the same key.
    pub fn new(
        name: impl Into<String>,
        key: [u8; KEY_BYTES],
        links: impl IntoIterator<Item = IpAddr>,
    ) -> Options {
        Options {
            name: name.into(),
            links: links.into_iter().map(Some).collect(),
            port: DEFAULT_PORT,
            keys: vec![key],
            private: None,
            public: None,
            unknown: None,
            wire: WireMode::Encrypted,
            relay: None,
            peers: Vec::new(),
            file_peers: 0,
            spin: SPIN,
            timeout: TIMEOUT,
            linger: LINGER,
            peer_timeout: Some(PEER_TIMEOUT),
            is_interruptible: false,
        }
    }

    /// The cluster file's settings for this machine's node, or for the one named. If a daemon runs here with the
    /// same file, it has the file's port: choose [another](Options::port), the same in all programs that talk to
    /// each other.
    ///
    /// # Errors
    /// [`OpenError::File`] (also if this machine is none of its nodes), [`OpenError::System`].
    pub fn from_cluster_file(
        file: impl AsRef<Path>,
        node: Option<&str>,
    ) -> Result<Options, OpenError> {
        let (mut cluster, _) = Cluster::load(file.as_ref()).map_err(OpenError::File)?;
        let own = addresses_here()?;
        let me = tabane_cluster::identify(&cluster, &own, node).map_err(OpenError::File)?;
        let key = cluster.read_node_key(me, public_key);
        key.map_err(|problem| OpenError::File(problem.into()))?;
        let spec = &cluster.nodes[me];
        let others = cluster.nodes.iter().enumerate();
        let others = others.filter(|(index, _)| *index != me);
        Ok(Options {
            links: spec.links.clone(),
            keys: cluster.keys(),
            private: cluster.node_key.as_ref().map(|key| *key.bytes()),
            public: spec.public.map(|key| key.0),
            wire: match cluster.wire {
                Wire::Encrypted => WireMode::Encrypted,
                Wire::Plain => WireMode::Plain,
            },
            relay: Some(RelayConfig {
                forwards: cluster.mesh.relay,
                mbps_max: cluster.mesh.relay_mbps,
                bundles_max: cluster.mesh.bundles,
            }),
            peers: others.map(|(_, node)| peer(node, cluster.port)).collect(),
            file_peers: cluster.nodes.len() - 1,
            port: cluster.port,
            ..Options::new(spec.name.clone(), [0; KEY_BYTES], [])
        })
    }

    /// The UDP port of this node's links, and of the peers that the cluster file names; those told by
    /// [`peer`](Options::peer) have their own.
    #[must_use]
    pub fn port(mut self, port: u16) -> Options {
        let peers = self.peers.iter_mut().take(self.file_peers);
        let addresses = peers.flat_map(|peer| &mut peer.addresses);
        addresses
            .flatten()
            .for_each(|address| address.set_port(port));
        self.port = port;
        self
    }

    /// Has links at these addresses instead, and none where it says `None`.
    #[must_use]
    pub fn links(mut self, links: impl IntoIterator<Item = Option<IpAddr>>) -> Options {
        self.links = links.into_iter().collect();
        self
    }

    /// Knows one more peer, by its address on each network, `None` where it has none.
    #[must_use]
    pub fn peer(
        mut self,
        name: impl Into<String>,
        addresses: impl IntoIterator<Item = impl Into<Option<SocketAddr>>>,
    ) -> Options {
        self.peers.push(PeerOptions {
            name: name.into(),
            addresses: addresses.into_iter().map(Into::into).collect(),
            public: None,
        });
        self
    }

    /// Holds this private key (32 random bytes). Peers that have its [public key](crate::public_key) accept nobody
    /// else under this node's name.
    /// [`from_cluster_file`](Options::from_cluster_file) reads the machine's `node.key` instead.
    #[must_use]
    pub fn private_key(mut self, private: [u8; KEY_BYTES]) -> Options {
        self.public = Some(public_key(&private));
        self.private = Some(private);
        self
    }

    /// Accepts only the holder of this public key as the peer `name`, which must have been added before.
    #[must_use]
    pub fn peer_public(mut self, name: &str, public: [u8; KEY_BYTES]) -> Options {
        match self.peers.iter_mut().find(|peer| peer.name == name) {
            Some(peer) => peer.public = Some(public),
            None => self.unknown = Some(name.to_owned()),
        }
        self
    }

    /// Whether packets are encrypted (the default); both ends must agree.
    #[must_use]
    pub const fn wire(mut self, wire: WireMode) -> Options {
        self.wire = wire;
        self
    }

    /// How long a waiting thread polls instead of sleeping, after small traffic: 100 µs by default; 0 is never. It
    /// makes small messages several times faster, and uses only processor time that nobody else wants at that
    /// moment.
    #[must_use]
    pub const fn spin(mut self, spin: Duration) -> Options {
        self.spin = spin;
        self
    }

    /// How long [`Node::connect`](crate::Node::connect) waits for an answer, and [`Node::send`](crate::Node::send)
    /// for the peer or for room: 10 s by default.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Options {
        self.timeout = timeout;
        self
    }

    /// How long closing the node waits for written data to arrive at the reachable peers: 5 s by default.
    #[must_use]
    pub const fn linger(mut self, linger: Duration) -> Options {
        self.linger = linger;
        self
    }

    /// Breaks the streams to a peer when no link to it has worked for this long
    /// ([`StreamError::Unreachable`](crate::StreamError::Unreachable)), because its process or host has died or no
    /// network leads there: 15 minutes by default, about as long as TCP tries. With `None` or 0 they wait until
    /// the peer is back. Noticing that a link does not work takes up to a second or so more.
    #[must_use]
    pub fn peer_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Options {
        self.peer_timeout = timeout.into().filter(|timeout| !timeout.is_zero());
        self
    }

    /// Whether a waiting call ends with [`Gone::Interrupted`](crate::Gone::Interrupted) when a signal handler has
    /// run in its thread, as system calls do; by default it does not. The helper thread then runs the node instead
    /// of the waiting threads, which must be woken: small messages take longer. Closing is never interrupted.
    #[must_use]
    pub const fn interruptible(mut self, is_interruptible: bool) -> Options {
        self.is_interruptible = is_interruptible;
        self
    }

    pub(crate) fn engine_config(&self) -> Result<EngineConfig, OpenError> {
        if let Some(name) = &self.unknown {
            let what = format!("a public key was given for {name:?}, which is no peer");
            return Err(OpenError::Options(what));
        }
        if self.links.len() > LINKS_MAX {
            let what = format!("a node has at most {LINKS_MAX} links");
            return Err(OpenError::Options(what));
        }
        let links = self.links.iter().zip(0..);
        let links = links.filter_map(|(address, id)| {
            Some(LinkSpec {
                id: LinkId(id),
                address: (*address)?,
            })
        });
        let links: Vec<LinkSpec> = links.collect();
        for (index, link) in links.iter().enumerate() {
            if links[..index].iter().any(|l| l.address == link.address) {
                return Err(given_twice(link.address));
            }
        }
        Ok(EngineConfig {
            name: self.name.clone(),
            keys: self.keys.clone(),
            private: self.private,
            public: self.public,
            wire: self.wire,
            port: self.port,
            links,
            spin: self.spin,
            features: 0,
            relay: self.relay,
            guests: None,
        })
    }
}

impl PeerOptions {
    pub(crate) fn config(&self) -> Result<PeerConfig, OpenError> {
        if self.addresses.len() > LINKS_MAX {
            let what = format!("peer {:?} has more than {LINKS_MAX} addresses", self.name);
            return Err(OpenError::Options(what));
        }
        let mut addresses = [None; LINKS_MAX];
        addresses[..self.addresses.len()].copy_from_slice(&self.addresses);
        Ok(PeerConfig {
            name: self.name.clone(),
            addresses,
            public: self.public,
        })
    }
}

fn peer(node: &NodeSpec, port: u16) -> PeerOptions {
    let addresses = node.links.iter();
    let addresses = addresses.map(|link| link.map(|address| SocketAddr::new(address, port)));
    PeerOptions {
        name: node.name.clone(),
        addresses: addresses.collect(),
        public: node.public.map(|key| key.0),
    }
}

fn addresses_here() -> Result<Vec<InterfaceAddress>, OpenError> {
    let of_one = |interface: Interface| {
        let name = interface.name;
        let addresses = interface.addresses.into_iter();
        addresses.map(move |a| InterfaceAddress {
            interface: name.clone(),
            address: a.ip,
            prefix: a.prefix,
        })
    };
    Ok(interfaces()?.into_iter().flat_map(of_one).collect())
}
