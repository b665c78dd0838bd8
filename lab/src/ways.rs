//! The ways from node 0 to node 1 that are shown and measured beside each other, each
//! on a lab of its own.

use std::ffi::OsStr;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cluster::{Cluster, ClusterConfig, Program, Scratch, Wire};
use crate::peers::{babel, babel_address, balance_rr, mptcp, mptcp_command};
use crate::{Lab, LabConfig, LabError};

/// The usual port of iperf3.
const IPERF3_PORT: u16 = 5201;

/// How bytes travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Plain TCP on one link.
    Tcp {
        /// Which.
        link: usize,
    },
    /// Multipath TCP, the kernel's.
    Mptcp,
    /// The same, steered by tabane, of programs under `tabane run --via mptcp`.
    Steered,
    /// Packets in turn, as bonding's balance-rr.
    BalanceRr,
    /// One path at a time, chosen by a routing protocol: Babel.
    Babel,
    /// TCP over tabane's virtual NIC.
    Tabane(Wire),
    /// TCP of programs under `tabane run`.
    Run(Wire),
    /// Streams of the library, of programs that have it in them: no daemon, no TCP.
    Library {
        /// How packets travel.
        wire: Wire,
        /// Whether a thread that waits looks again for a while before it sleeps.
        spins: bool,
    },
}

impl Way {
    /// Whether it carries TCP, which any program can use, and whose congestion control can be chosen.
    pub fn is_tcp(self) -> bool {
        !matches!(self, Way::Library { .. })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Tcp { link: 0 } => f.write_str("TCP, one link"),
            Way::Tcp { link } => write!(f, "TCP, link {link}"),
            Way::Mptcp => f.write_str("MPTCP"),
            Way::Steered => f.write_str("tabane run --via mptcp"),
            Way::BalanceRr => f.write_str("balance-rr"),
            Way::Babel => f.write_str("Babel"),
            Way::Tabane(wire) => write!(f, "tabane, {wire}"),
            Way::Run(wire) => write!(f, "tabane run, {wire}"),
            Way::Library { wire, spins: true } => write!(f, "library, {wire}"),
            Way::Library { wire, .. } => write!(f, "library, {wire}, no spin"),
        }
    }
}

/// A lab set up for one way.
#[derive(Debug)]
pub struct Arena {
    way: Way,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Bare(Lab),
    /// A daemon of a routing protocol runs on each node.
    Routed(Routed),
    Tabane(Cluster),
    /// A cluster file, and no daemons: the programs are the nodes.
    Daemonless(Cluster),
}

/// In the order in which they must end.
#[derive(Debug)]
struct Routed {
    daemons: Vec<Program>,
    lab: Lab,
    _scratch: Scratch,
}

impl Arena {
    /// Build the lab and what the way needs on it.
    ///
    /// # Errors
    /// As [`Lab::up`]; the kernel or a program lacks what the way needs.
    pub fn up(way: Way, config: &LabConfig, tabane: &Path) -> Result<Arena, LabError> {
        let lab = Lab::up(config)?;
        let place = match way {
            Way::Tabane(wire) | Way::Run(wire) => {
                let config = ClusterConfig {
                    wire,
                    vnic: true,
                    ..ClusterConfig::default()
                };
                Place::Tabane(Cluster::up(lab, tabane, config)?)
            }
            Way::Library { wire, .. } => {
                let config = ClusterConfig {
                    wire,
                    vnic: false,
                    ..ClusterConfig::default()
                };
                Place::Daemonless(Cluster::new(lab, tabane, config)?)
            }
            Way::Steered => {
                let config = ClusterConfig {
                    vnic: false,
                    mptcp: true,
                    ..ClusterConfig::default()
                };
                let cluster = Cluster::up(lab, tabane, config)?;
                cluster.wait_steered()?;
                Place::Tabane(cluster)
            }
            Way::Mptcp => {
                mptcp(&lab)?;
                Place::Bare(lab)
            }
            Way::BalanceRr => {
                balance_rr(&lab)?;
                Place::Bare(lab)
            }
            Way::Babel => {
                let scratch = Scratch::new().map_err(LabError::io("a temporary directory"))?;
                Place::Routed(Routed {
                    daemons: babel(&lab, scratch.path())?,
                    lab,
                    _scratch: scratch,
                })
            }
            Way::Tcp { .. } => Place::Bare(lab),
        };
        Ok(Arena { way, place })
    }

    /// An arena for tabane whose daemons have each other, though not
    /// necessarily on every path: for links that lose much.
    ///
    /// # Errors
    /// As [`Arena::up`].
    pub fn connected(wire: Wire, config: &LabConfig, tabane: &Path) -> Result<Arena, LabError> {
        let cluster = ClusterConfig {
            wire,
            vnic: true,
            ..ClusterConfig::default()
        };
        Ok(Arena {
            way: Way::Tabane(wire),
            place: Place::Tabane(Cluster::connected(Lab::up(config)?, tabane, cluster)?),
        })
    }

    /// Which way it is.
    pub fn way(&self) -> Way {
        self.way
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        match &self.place {
            Place::Bare(lab) => lab,
            Place::Routed(routed) => &routed.lab,
            Place::Tabane(cluster) | Place::Daemonless(cluster) => cluster.lab(),
        }
    }

    /// The daemons, if the way has some.
    pub fn cluster(&self) -> Option<&Cluster> {
        match &self.place {
            Place::Bare(_) | Place::Routed(_) | Place::Daemonless(_) => None,
            Place::Tabane(cluster) => Some(cluster),
        }
    }

    /// What runs on a node for the way, if anything does.
    pub fn daemon(&self, node: usize) -> Option<&Program> {
        match &self.place {
            Place::Bare(_) | Place::Daemonless(_) => None,
            Place::Routed(routed) => routed.daemons.get(node),
            Place::Tabane(cluster) => cluster.daemon(node),
        }
    }

    /// The address of a node on this way.
    pub fn address(&self, node: usize) -> IpAddr {
        match (&self.place, self.way) {
            (Place::Tabane(cluster), Way::Tabane(_) | Way::Run(_)) => cluster.address(node),
            (Place::Bare(lab), Way::Tcp { link }) => lab.address(node, link),
            (Place::Routed(_), _) => babel_address(node),
            _ => self.lab().address(node, 0),
        }
    }

    /// Wait until a program on a node listens.
    ///
    /// # Errors
    /// As [`Program::listens`].
    pub fn listens(&self, node: usize, program: &mut Program, port: u16) -> Result<(), LabError> {
        match (self.way, self.cluster()) {
            // A node of the library is connected to when it listens.
            (Way::Library { .. }, _) => Ok(()),
            (Way::Run(_), Some(cluster)) => cluster.run_listens(node, program, port),
            _ => program.listens(port),
        }
    }

    /// The cluster file, if the way has one.
    pub fn cluster_file(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Bare(_) | Place::Routed(_) => None,
            Place::Tabane(cluster) | Place::Daemonless(cluster) => Some(cluster.file()),
        }
    }

    /// Start an iperf3 server for one client on node 1; it listens when this returns.
    ///
    /// # Errors
    /// iperf3 is not installed, or does not start.
    pub fn serve_iperf3(&self) -> Result<Program, LabError> {
        let mut server = self.command(1, "iperf3")?;
        server.args(["-s", "-1"]);
        let mut server = Program::start_quiet("iperf3", server)?;
        self.listens(1, &mut server, IPERF3_PORT)?;
        Ok(server)
    }

    /// A program on a node, whose TCP goes this way if it uses
    /// [`Arena::address`].
    ///
    /// # Errors
    /// The way needs a program that is not installed.
    pub fn command(&self, node: usize, program: impl AsRef<OsStr>) -> Result<Command, LabError> {
        match self.way {
            Way::Mptcp => mptcp_command(self.lab(), node, program),
            way => Ok(match (way, self.cluster()) {
                (Way::Run(_), Some(cluster)) => cluster.run(node, program),
                (Way::Steered, Some(cluster)) => cluster.run_by_mptcp(node, program),
                _ => self.lab().command(node, program),
            }),
        }
    }
}
