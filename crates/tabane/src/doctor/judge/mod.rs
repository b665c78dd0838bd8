//! From facts to findings. Pure.

mod altered;
mod flood;
mod flows;
mod host;
mod links;
mod mpi;
mod mtu;
mod names;
mod outside;
mod own;
mod programs;
mod quality;
mod reach;
mod refusals;
mod shared;
mod steering;
#[cfg(test)]
mod tests;
mod vnic;
pub(super) mod words;

use super::facts::Facts;
use super::finding::{Cause, Finding};

/// The checks, in words, for a healthy result.
pub const CHECKED: [&str; 24] = [
    "the daemon and its cluster file",
    "the virtual NIC, and what is dropped of its frames",
    "the route and firewall of packets for the virtual NIC",
    "the nodes' names in /etc/hosts, if the cluster file wants them there",
    "interfaces, addresses and carrier",
    "key, version, wire and names",
    "firewalls here and there",
    "links that carry one way or not at all",
    "floods of strangers",
    "two links on one switch or in one network",
    "address conflicts",
    "loss",
    "packets altered on the way",
    "speed and duplex",
    "MTU",
    "processor time",
    "socket buffers and offloads",
    "peers that many send to at once",
    "traffic that the cluster file gives a rate",
    "programs that read slowly",
    "what keeps Multipath TCP from being steered",
    "the outside address, who serves it and who could",
    "MPI, and what it takes to run over all links",
    "clocks",
];

/// The findings, worst first.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    own::judge(facts, &mut found);
    names::judge(facts, &mut found);
    links::judge(facts, &mut found);
    refusals::judge(facts, &mut found);
    reach::judge(facts, &mut found);
    flood::judge(facts, &mut found);
    altered::judge(facts, &mut found);
    host::judge(facts, &mut found);
    quality::judge(facts, &mut found);
    shared::judge(facts, &mut found);
    flows::judge(facts, &mut found);
    programs::judge(facts, &mut found);
    steering::judge(facts, &mut found);
    outside::judge(facts, &mut found);
    mpi::judge(facts, &mut found);
    // After all that would explain it.
    vnic::judge(facts, &mut found);
    found.sort_by(|a, b| {
        let share = b.cost_share.total_cmp(&a.cost_share);
        a.severity.cmp(&b.severity).then(share)
    });
    found
}

/// Whether something is already said of this cause and link.
fn is_said(found: &[Finding], cause: Cause, link: u8) -> bool {
    found
        .iter()
        .any(|f| f.cause == cause && f.links.contains(&link))
}
