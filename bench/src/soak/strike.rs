//! Letting faults strike, and undoing them.

use super::fault::{Kind, Strike};
use super::ledger::Ledger;
use super::nodes::Nodes;
use tabane_lab::cluster::Cluster;
use tabane_lab::{Fault, LabError};

/// A fault in force.
#[derive(Debug)]
pub(super) struct InForce {
    strike: Strike,
    number: usize,
    /// The limit to give back.
    descriptors: Option<u64>,
}

impl InForce {
    pub fn strike(&self) -> Strike {
        self.strike
    }
}

/// Who strikes.
#[derive(Debug)]
pub(super) struct Striker<'a> {
    pub cluster: &'a Cluster,
    pub nodes: &'a Nodes<'a>,
    pub ledger: &'a Ledger,
}

impl Striker<'_> {
    /// Put a fault in force.
    pub fn begin(&self, strike: Strike) -> Result<InForce, LabError> {
        let number = self.ledger.begin(strike);
        let mut descriptors = None;
        let lab = self.cluster.lab();
        let (link, node) = (strike.link.unwrap_or(0), strike.node.unwrap_or(0));
        match strike.kind {
            Kind::Link(fault) => lab.fail(link, fault, strike.node).map(drop)?,
            Kind::Unplug => lab.unplug(link, node).map(drop)?,
            Kind::Address => {
                // In this order: a second address of a network goes with the first.
                self.address(node, link, "del", Whose::Own)?;
                self.address(node, link, "add", Whose::Strange)?;
            }
            Kind::Kill => self.nodes.kill(node),
            Kind::Restart => self.nodes.stop(node)?,
            Kind::Pause => self.nodes.pause(node)?,
            Kind::DiskFull => self.nodes.fill_disk(node)?,
            Kind::Descriptors => descriptors = self.nodes.exhaust(node)?,
            Kind::Cut => self.each_link(|link| lab.fail(link, Fault::Silent, strike.node))?,
        }
        Ok(InForce {
            strike,
            number,
            descriptors,
        })
    }

    /// Undo it.
    pub fn end(&self, fault: &InForce) -> Result<(), LabError> {
        let lab = self.cluster.lab();
        let strike = fault.strike;
        let (link, node) = (strike.link.unwrap_or(0), strike.node.unwrap_or(0));
        match strike.kind {
            Kind::Link(_) => lab.heal(link).map(drop)?,
            Kind::Unplug => lab.plug(link, node).map(drop)?,
            Kind::Address => {
                self.address(node, link, "del", Whose::Strange)?;
                self.address(node, link, "add", Whose::Own)?;
            }
            Kind::Kill | Kind::Restart => self.nodes.start(node)?,
            Kind::Pause => self.nodes.go_on(node)?,
            Kind::DiskFull => self.nodes.empty_disk(node)?,
            Kind::Descriptors => {
                if let Some(limit) = fault.descriptors {
                    self.nodes.limit(node, limit)?;
                }
            }
            Kind::Cut => self.each_link(|link| lab.heal(link))?,
        }
        self.ledger.end(fault.number);
        Ok(())
    }

    fn each_link<T>(&self, act: impl Fn(usize) -> Result<T, LabError>) -> Result<(), LabError> {
        (0..self.cluster.lab().links()).try_for_each(|link| act(link).map(drop))
    }

    fn address(&self, node: usize, link: usize, act: &str, whose: Whose) -> Result<(), LabError> {
        let strange = node + 100;
        let host = match whose {
            Whose::Own => node,
            Whose::Strange => strange,
        };
        let lab = self.cluster.lab();
        let address = format!("{}/24", lab.address(host, link));
        lab.ip(
            node,
            &["address", act, &address, "dev", &format!("eth{link}")],
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Whose {
    Own,
    Strange,
}
