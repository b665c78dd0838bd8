//! Whether programs' packets go by the virtual NIC, and arrive.

use super::words;
use crate::doctor::facts::{Facts, Leaves, Pings, VnicWay};
use crate::doctor::finding::{Cause, Finding, Severity};

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    // A device that is off or has no address has a finding of its own.
    let Some(vnic) = &facts.vnic else {
        return;
    };
    if found
        .iter()
        .any(|finding| finding.cause == Cause::VnicChanged)
    {
        return;
    }
    let name = &vnic.name;
    let past = |way: &&VnicWay| way.leaves != Leaves::By(name.clone());
    let past: Vec<&VnicWay> = facts.vnic_ways.iter().filter(past).collect();
    if !past.is_empty() {
        found.push(route(name, &past));
    }
    // What keeps packets from passing over the links keeps them from passing over the device, too.
    let is_cause = |finding: &Finding| finding.severity <= Severity::Degraded;
    if found.iter().any(is_cause) {
        return;
    }
    let silent = |way: &&VnicWay| is_silent(facts, way);
    let silent: Vec<&VnicWay> = facts.vnic_ways.iter().filter(silent).collect();
    if !silent.is_empty() {
        found.push(firewall(name, &silent));
    }
}

fn names(ways: &[&VnicWay]) -> String {
    let names: Vec<String> = ways.iter().map(|way| way.peer.clone()).collect();
    words::nodes(&names)
}

fn route(name: &str, past: &[&VnicWay]) -> Finding {
    let is_lost = past
        .iter()
        .any(|way| matches!(way.leaves, Leaves::Nowhere(_)));
    let severity = if is_lost {
        Severity::Unreachable
    } else {
        Severity::Degraded
    };
    let mut finding = Finding::new(
        Cause::VnicRoute,
        severity,
        format!("Packets to {} do not go over {name}", names(past)),
    )
    .costs(
        0.9,
        "they go past the bundle: over one link and in the clear, or nowhere",
    );
    for way in past {
        let (peer, address) = (&way.peer, way.address);
        finding = finding.peer(peer).seen(match &way.leaves {
            Leaves::By(device) => {
                format!("the kernel sends packets to {address} ({peer}) out by {device}")
            }
            Leaves::Nowhere(why) => format!("the kernel has no way to {address} ({peer}): {why}"),
        });
    }
    let first = past
        .first()
        .map(|way| way.address.to_string())
        .unwrap_or_default();
    finding
        .mend(format!(
            "`ip route get {first}` shows the route, `ip rule` and `ip route show table all` where it is from: remove it"
        ))
        .mend("or choose `vnic` addresses of a network that nothing else uses")
}

/// It answers over its links, so it answers pings, and none arrives over the device.
fn is_silent(facts: &Facts, way: &VnicWay) -> bool {
    let Some(pings) = way.pings else {
        return false;
    };
    let answers = |pings: &Option<Pings>| pings.is_some_and(|pings| pings.answered > 0);
    let mut paths = facts.paths.iter().filter(|path| path.peer == way.peer);
    pings.answered == 0 && (way.is_forbidden || paths.any(|path| answers(&path.small)))
}

fn firewall(name: &str, silent: &[&VnicWay]) -> Finding {
    let mut finding = Finding::new(
        Cause::VnicFirewall,
        Severity::Degraded,
        format!("Nothing comes back from {} over {name}", names(silent)),
    )
    .costs(
        0.8,
        "programs most likely do not reach these nodes over the bundle, which works",
    );
    for way in silent {
        let (peer, address) = (&way.peer, way.address);
        finding = finding.peer(peer).seen(match way.is_forbidden {
            true => format!("this machine does not let pings to {address} ({peer}) out"),
            false => format!(
                "{peer} answers pings over its links, and none of {} at {address}",
                way.pings.unwrap_or_default().sent
            ),
        });
    }
    finding
        .mend(format!(
            "on both machines, have the firewall accept what comes in and goes out by {name}: `nft list ruleset` shows what drops it"
        ))
        .mend(format!("with ufw: `sudo ufw allow in on {name}`"))
}
