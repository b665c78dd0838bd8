//! Multipath TCP that should be steered and is not.

use super::words;
use crate::doctor::facts::Facts;
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::status::UnsteeredStatus;

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(daemon) = &facts.daemon else {
        return;
    };
    let node = &daemon.last.node;
    let unsteered = node.mptcp.iter().flat_map(|mptcp| &mptcp.unsteered);
    found.extend(unsteered.map(|unsteered| finding(facts, unsteered)));
    found.extend(node.mptcp_trouble.as_deref().map(nothing));
}

fn nothing(why: &str) -> Finding {
    Finding::new(
        Cause::NotSteered,
        Severity::Degraded,
        "Multipath TCP is not steered at all",
    )
    .seen(why)
    .costs(0.1, "streams by it stand still while a link fails silently")
    .mend("mend that, and `systemctl restart tabane`; or `mptcp = false` in the cluster file")
}

fn finding(facts: &Facts, unsteered: &UnsteeredStatus) -> Finding {
    let local = unsteered.local;
    let link = facts.links.iter().find(|l| l.address == Some(local));
    let number = link.map(|link| link.number);
    let on = number.map_or_else(|| local.to_string(), |n| words::links(&[n]));
    let to = match unsteered.peers.is_empty() {
        true => "all peers".to_owned(),
        false => words::nodes(&unsteered.peers),
    };
    let mut finding = Finding::new(
        Cause::NotSteered,
        Severity::Degraded,
        format!("Multipath TCP on {on} to {to} is not steered"),
    )
    .seen(&unsteered.why)
    .costs(
        0.1,
        format!("streams from {local} stand still while {on} fails silently"),
    )
    .mend(&unsteered.mend);
    finding.links.extend(number);
    finding.peers.clone_from(&unsteered.peers);
    finding
}
