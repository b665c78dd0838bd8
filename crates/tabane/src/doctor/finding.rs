//! Doctor's findings, and what it examined.

use serde::{Deserialize, Deserializer, Serialize};

pub use crate::status::Severity;

/// The kind of a finding. The names are an interface for programs; `docs/doctor.md`
/// describes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No daemon runs in this network namespace.
    NoDaemon,
    /// The daemon does not answer.
    DaemonSilent,
    /// The cluster file cannot be used, or does not fit this machine.
    ClusterFile,
    /// Another program has our UDP port.
    PortTaken,
    /// Somebody has changed or removed the virtual NIC.
    VnicChanged,
    /// Packets to peers' addresses on the bundle do not go over the virtual NIC.
    VnicRoute,
    /// A firewall drops what goes over the virtual NIC.
    VnicFirewall,
    /// Frames of another MAC than the virtual NIC's are sent over it.
    ForeignMac,
    /// Peers send longer packets than the virtual NIC's MTU lets pass.
    VnicMtu,
    /// Names that the daemon has written into `/etc/hosts` are missing, or somebody else's lines contradict them.
    NamesMissing,
    /// The two ends have different cluster keys.
    WrongKey,
    /// One of the two ends does not hold the key that the other one's file has for it.
    WrongIdentity,
    /// The two ends speak different versions of the protocol.
    WrongVersion,
    /// One end is encrypted, the other plain.
    WrongWire,
    /// Two machines run under one name.
    NameConflict,
    /// The cluster files of the two ends differ.
    FilesDiffer,
    /// Cables, or entries of `links`, are swapped.
    SwappedLinks,
    /// No tabane runs on the peer's machine.
    NoDaemonThere,
    /// A firewall of this machine drops our packets.
    FirewallHere,
    /// A firewall at the peer, or between, drops our packets.
    FirewallThere,
    /// A link's address is on no interface.
    AddressMissing,
    /// A link's interface is switched off.
    LinkOff,
    /// A link's interface has no carrier.
    NoCarrier,
    /// Packets pass in one direction only.
    OneWay,
    /// Nothing of a peer arrives on a link.
    LinkDead,
    /// Two machines have one address.
    AddressConflict,
    /// Packets for a peer go to another machine's Ethernet address.
    WrongNeighbour,
    /// Two links are one network.
    SharedNetwork,
    /// A link is much slower than its siblings.
    SlowLink,
    /// A NIC can send or receive, but not both at once.
    HalfDuplex,
    /// A link loses packets.
    LossyLink,
    /// Packets come in that were altered on the way.
    AlteredPackets,
    /// Large packets do not pass.
    Mtu,
    /// The daemon uses all the processor time it can get.
    Cpu,
    /// Strangers send packets that must be thrown away.
    Flood,
    /// The kernel grants small socket buffers.
    Buffers,
    /// The NIC, or the kernel, does not join or split packets.
    Offloads,
    /// Several nodes send to a peer, which grants each its share.
    SharedReceiver,
    /// Traffic is as fast as the cluster file lets it be.
    FlowRate,
    /// A program does not read what arrives for it.
    SlowProgram,
    /// A program under `tabane run`, or the other end of its connections, does not read at all.
    UnreadProgram,
    /// Something of this machine keeps the kernel's Multipath TCP from being steered.
    NotSteered,
    /// Jobs of MPI would not start here over all links.
    MpiNotReady,
    /// An installed MPI cannot load the provider.
    MpiUnsuited,
    /// Reading the clock is slow, or the clock jumps.
    Clock,
    /// No gateway serves the cluster's outside addresses.
    NoGateway,
    /// This node is a gateway that could not serve.
    GatewayNotReady,
    /// No other gateway could serve in place of the one that does.
    NoStandby,
    /// The outside device of the serving gateway lacks the outside addresses.
    OutsideAddressMissing,
    /// A router outside does not answer.
    RouterSilent,
    /// The device outside is slower than the file says.
    OutsideSlow,
    /// Much waits in the queue of the device outside.
    OutsideQueue,
    /// Ports or connections outside are refused, since nodes have as many as they may.
    OutsideFull,
    /// Hosts outside begin connections that they do not confirm.
    OutsideFlood,
    /// A peer of a later version has found what this one has no name for.
    Other,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The node that has found it, and where its cause is, as far as that is known; empty: this one.
    #[serde(default)]
    pub node: String,
    /// The kind.
    #[serde(deserialize_with = "cause_or_other")]
    pub cause: Cause,
    /// How bad.
    pub severity: Severity,
    /// The peers it concerns; none if it is about this node.
    pub peers: Vec<String>,
    /// The links it concerns, in order.
    pub links: Vec<u8>,
    /// The problem, in one sentence.
    pub what: String,
    /// Evidence: what was measured.
    pub evidence: Vec<String>,
    /// The effect.
    pub cost: String,
    /// Share of the bundle that it costs, 0 to 1, to order by.
    pub cost_share: f64,
    /// The remedies, most likely first: commands, or steps.
    pub mend: Vec<String>,
}

/// A cause, by its name.
fn cause_or_other<'de, D: Deserializer<'de>>(from: D) -> Result<Cause, D::Error> {
    let name = serde_json::Value::from(String::deserialize(from)?);
    Ok(serde_json::from_value(name).unwrap_or(Cause::Other))
}

impl Cause {
    /// Its name, as in the JSON.
    pub fn name(self) -> String {
        let name = serde_json::to_value(self).unwrap_or_default();
        name.as_str().unwrap_or_default().to_owned()
    }
}

impl Finding {
    /// A finding without a node or link.
    pub fn new(cause: Cause, severity: Severity, what: impl Into<String>) -> Finding {
        Finding {
            node: String::new(),
            cause,
            severity,
            peers: Vec::new(),
            links: Vec::new(),
            what: what.into(),
            evidence: Vec::new(),
            cost: String::new(),
            cost_share: 0.0,
            mend: Vec::new(),
        }
    }

    /// It concerns this peer.
    pub fn peer(mut self, name: &str) -> Finding {
        self.peers.push(name.to_owned());
        self
    }

    /// It concerns this link.
    pub fn link(mut self, number: u8) -> Finding {
        self.links.push(number);
        self
    }

    /// How it is known.
    pub fn seen(mut self, text: impl Into<String>) -> Finding {
        self.evidence.push(text.into());
        self
    }

    /// How it is known, if it is.
    pub fn maybe_seen(mut self, text: Option<impl Into<String>>) -> Finding {
        self.evidence.extend(text.map(Into::into));
        self
    }

    /// The effect, in words and as a share of the bundle.
    pub fn costs(mut self, share: f64, text: impl Into<String>) -> Finding {
        self.cost = text.into();
        self.cost_share = share.clamp(0.0, 1.0);
        self
    }

    /// Adds a remedy.
    pub fn mend(mut self, text: impl Into<String>) -> Finding {
        self.mend.push(text.into());
        self
    }
}

/// Something that could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// What.
    pub what: String,
    /// Why not, and how it could be.
    pub why: String,
}

/// What another node's daemon says when it is asked what is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opinion {
    /// That node.
    pub node: String,
    /// What it finds wrong with itself and the way to who asks, worst first.
    pub findings: Vec<Finding>,
    /// Why it said nothing, in words; `None`: it did.
    pub trouble: Option<String>,
}

/// All that doctor says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Version of these names.
    pub schema: u32,
    /// The node that was looked at; `null` if it is not known which it is.
    pub node: Option<String>,
    /// Whether a daemon runs here.
    pub daemon: bool,
    /// For how long was watched, seconds.
    pub watched_s: f64,
    /// What was examined, in words.
    pub looked_at: String,
    /// The other nodes whose daemons have said what they find.
    pub asked: Vec<String>,
    /// The findings of all, worst first.
    pub findings: Vec<Finding>,
    /// The checks.
    pub checked: Vec<&'static str>,
    /// What could not be examined.
    pub unseen: Vec<Unseen>,
}

/// Value of [`Diagnosis::schema`]. Grows if a name changes its meaning or goes.
pub const SCHEMA: u32 = 1;
