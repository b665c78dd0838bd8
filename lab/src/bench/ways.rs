//! The ways from node 0 to node 1 that are measured beside each other, each
//! on a lab of its own.

use std::ffi::OsStr;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use crate::cluster::{Cluster, ClusterConfig, Wire};
use crate::peers::{self, balance_rr, mptcp, mptcp_command};
use crate::{Lab, LabConfig, LabError};

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
    /// Packets in turn, as bonding's balance-rr.
    BalanceRr,
    /// TCP over tabane's virtual NIC.
    Tabane(Wire),
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Tcp { link: 0 } => f.write_str("TCP, one link"),
            Way::Tcp { link } => write!(f, "TCP, link {link}"),
            Way::Mptcp => f.write_str("MPTCP"),
            Way::BalanceRr => f.write_str("balance-rr"),
            Way::Tabane(wire) => write!(f, "tabane, {wire}"),
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
    Tabane(Cluster),
}

impl Arena {
    /// Build the lab and what the way needs on it.
    ///
    /// # Errors
    /// As [`Lab::up`]; the kernel or a program lacks what the way needs.
    pub fn up(way: Way, config: &LabConfig, tabane: &Path) -> Result<Arena, LabError> {
        let lab = Lab::up(config)?;
        let place = match way {
            Way::Tabane(wire) => {
                let config = ClusterConfig { wire, vnic: true };
                Place::Tabane(Cluster::up(lab, tabane, config)?)
            }
            Way::Mptcp => {
                mptcp(&lab)?;
                Place::Bare(lab)
            }
            Way::BalanceRr => {
                balance_rr(&lab)?;
                Place::Bare(lab)
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
        let cluster = ClusterConfig { wire, vnic: true };
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
            Place::Tabane(cluster) => cluster.lab(),
        }
    }

    /// The daemons, if the way is tabane's.
    pub fn cluster(&self) -> Option<&Cluster> {
        match &self.place {
            Place::Bare(_) => None,
            Place::Tabane(cluster) => Some(cluster),
        }
    }

    /// The address of a node on this way.
    pub fn address(&self, node: usize) -> IpAddr {
        match (&self.place, self.way) {
            (Place::Tabane(cluster), _) => cluster.address(node),
            (Place::Bare(lab), Way::Tcp { link }) => lab.address(node, link),
            (Place::Bare(lab), _) => lab.address(node, 0),
        }
    }

    /// A program on a node, whose TCP goes this way if it uses
    /// [`Arena::address`].
    ///
    /// # Errors
    /// The way needs a program that is not installed.
    pub fn command(&self, node: usize, program: impl AsRef<OsStr>) -> Result<Command, LabError> {
        match self.way {
            Way::Mptcp => mptcp_command(self.lab(), node, program),
            _ => Ok(self.lab().command(node, program)),
        }
    }
}

/// Build an arena for each way; those this machine cannot do are told on
/// standard error and left out.
///
/// # Errors
/// tabane itself cannot be set up.
pub fn arenas(ways: &[Way], config: &LabConfig, tabane: &Path) -> Result<Vec<Arena>, LabError> {
    let mut arenas = Vec::new();
    for &way in ways {
        match Arena::up(way, config, tabane) {
            Ok(arena) => arenas.push(arena),
            Err(error @ (LabError::MissingTool { .. } | LabError::MissingFeature { .. }))
                if matches!(way, Way::Mptcp | Way::BalanceRr) =>
            {
                eprintln!("bench: {way} is left out: {error}");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(arenas)
}

pub use peers::Congestion;
