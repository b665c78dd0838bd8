//! What goes wrong in a run, and whom it concerns.

use std::fmt;
use std::time::Duration;

use tabane_lab::Fault;

/// One kind of fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A link, or one node's cable to it, as in [`Fault`].
    Link(Fault),
    /// A node's NIC is taken out and put in again.
    Unplug,
    /// A NIC gets another address, then its own again.
    Address,
    /// A node's daemon is killed, and started again at the end.
    Kill,
    /// A node's daemon is told to end, and started again at the end.
    Restart,
    /// A node's daemon is stopped, and goes on at the end.
    Pause,
    /// The disk that a node's daemon logs to is full.
    DiskFull,
    /// A node's daemon can open no more files.
    Descriptors,
    /// All links of a node, or of all nodes, are silent at once.
    Cut,
}

/// Every kind, by the name it is counted under.
pub(super) const NAMES: [&str; 16] = [
    "silent",
    "carrier",
    "oneway",
    "loss",
    "mtu",
    "rate",
    "buffer",
    "delay",
    "unplug",
    "address",
    "kill",
    "restart",
    "pause",
    "disk-full",
    "descriptors",
    "cut",
];

impl Kind {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Link(Fault::Silent) => "silent",
            Kind::Link(Fault::Carrier) => "carrier",
            Kind::Link(Fault::OneWay) => "oneway",
            Kind::Link(Fault::Loss { .. }) => "loss",
            Kind::Link(Fault::Mtu { .. }) => "mtu",
            Kind::Link(Fault::Rate { .. }) => "rate",
            Kind::Link(Fault::Buffer { .. }) => "buffer",
            Kind::Link(Fault::Delay { .. }) => "delay",
            Kind::Unplug => "unplug",
            Kind::Address => "address",
            Kind::Kill => "kill",
            Kind::Restart => "restart",
            Kind::Pause => "pause",
            Kind::DiskFull => "disk-full",
            Kind::Descriptors => "descriptors",
            Kind::Cut => "cut",
        }
    }

    /// Whether packets of a path it concerns may fail to arrive for it.
    pub fn harms_paths(&self) -> bool {
        !matches!(self, Kind::DiskFull | Kind::Descriptors)
    }

    /// Whether nothing, or nothing of use, passes a path it concerns.
    pub fn severs(&self) -> bool {
        match self {
            Kind::Link(fault) => {
                matches!(fault, Fault::Silent | Fault::Carrier | Fault::OneWay)
            }
            Kind::DiskFull | Kind::Descriptors => false,
            _ => true,
        }
    }

    /// Whether the virtual NIC of the node is gone meanwhile, so that programs
    /// on it cannot connect.
    pub fn takes_nic(&self) -> bool {
        matches!(self, Kind::Kill | Kind::Restart)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Link(fault) => fault.fmt(f),
            other => f.write_str(other.name()),
        }
    }
}

/// A fault and where it strikes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Strike {
    /// What.
    pub kind: Kind,
    /// Which link; `None` is not about one link.
    pub link: Option<usize>,
    /// Which node; `None` is all.
    pub node: Option<usize>,
}

impl Strike {
    /// Whether it concerns the path between two nodes over a link.
    pub fn concerns(&self, nodes: [usize; 2], link: usize) -> bool {
        self.link.is_none_or(|own| own == link) && self.concerns_nodes(nodes)
    }

    /// Whether it concerns what two nodes have with each other.
    pub fn concerns_nodes(&self, nodes: [usize; 2]) -> bool {
        self.node.is_none_or(|own| nodes.contains(&own))
    }

    /// Whether it alone leaves two nodes without a way to each other.
    pub fn parts(&self, nodes: [usize; 2]) -> bool {
        self.kind.severs() && self.link.is_none() && self.concerns_nodes(nodes)
    }
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(link) = self.link {
            write!(f, " link {link}")?;
        }
        match self.node {
            Some(node) => write!(f, " n{node}"),
            None => f.write_str(" all nodes"),
        }
    }
}

/// A strike and when, from the beginning of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planned {
    /// What and where.
    pub strike: Strike,
    /// From when on.
    pub begin: Duration,
    /// Until when.
    pub end: Duration,
}

impl Planned {
    /// Whether both are in force at once, or within `margin` of that.
    pub fn overlaps(&self, other: &Planned, margin: Duration) -> bool {
        self.begin < other.end + margin && other.begin < self.end + margin
    }
}
