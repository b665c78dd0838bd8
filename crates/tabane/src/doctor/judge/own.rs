//! The daemon itself, and its cluster file.

use std::net::IpAddr;

use tabane_cluster::mac_of;

use super::words::{counted, mac};
use crate::doctor::facts::{Facts, VnicFacts, since};
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::status::NodeStatus;
use crate::vswitch::{DropReason, Refusal};

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    match (&facts.daemon, &facts.daemon_trouble) {
        (Some(_), _) => {}
        (None, Some(words)) => found.push(
            Finding::new(
                Cause::DaemonSilent,
                Severity::Unreachable,
                "The daemon does not answer as it should",
            )
            .seen(words)
            .costs(1.0, "while it hangs, nothing is carried")
            .mend("look at its log: `journalctl -u tabane -e`")
            .mend("restart it: `systemctl restart tabane`"),
        ),
        (None, None) => found.push(
            Finding::new(
                Cause::NoDaemon,
                Severity::Unreachable,
                "No daemon runs here",
            )
            .seen("nobody listens at a control socket of this network namespace (`/run/tabane/net-…`)")
            .costs(1.0, "this node is not in the cluster")
            .mend("start it: `tabane up`, or `systemctl start tabane`"),
        ),
    }
    if !facts.file_problems.is_empty() {
        let harmless = facts.file_problems.iter().all(|p| p.contains("warning:"));
        let runs = facts.daemon.is_some() || facts.daemon_trouble.is_some();
        let (severity, cost) = match (runs, harmless) {
            (_, true) => (Severity::Note, "nothing now"),
            (true, _) => (
                Severity::Note,
                "nothing now; `tabane up` would refuse to start",
            ),
            (false, _) => (Severity::Unreachable, "`tabane up` refuses to start"),
        };
        let mut finding = Finding::new(
            Cause::ClusterFile,
            severity,
            "The cluster file does not fit this machine",
        )
        .costs(0.9, cost)
        .mend("correct the lines named, on every node, and run `tabane up` again");
        finding.evidence.clone_from(&facts.file_problems);
        found.push(finding);
    }
    // If the address was changed, the host's packets have a foreign one.
    found.extend(vnic(facts).or_else(|| foreign_mac(facts)));
    found.extend(vnic_mtu(facts));
    let taken = facts.links.iter().filter(|l| l.port_taken);
    for link in taken {
        let address = link.address.map(|a| a.to_string()).unwrap_or_default();
        found.push(
            Finding::new(
                Cause::PortTaken,
                Severity::Unreachable,
                format!("Another program has UDP port {} at {address}", facts.port),
            )
            .link(link.number)
            .seen("binding to it fails: address already in use")
            .costs(0.8, format!("`tabane up` cannot use link {}", link.number))
            .mend(format!(
                "`ss -ulpn sport = :{}` names the program; end it",
                facts.port
            ))
            .mend("or choose another `port` in the cluster file, on every node"),
        );
    }
}

/// Somebody has changed the virtual NIC.
fn vnic(facts: &Facts) -> Option<Finding> {
    let changes = changes(facts.vnic.as_ref()?);
    let finding = Finding::new(
        Cause::VnicChanged,
        Severity::Unreachable,
        "The virtual NIC is not as the daemon made it",
    )
    .costs(
        1.0,
        "what goes over the virtual NIC does not arrive; the bundle works",
    );
    let tell = |finding: Finding, (what, mend)| finding.seen(what).mend(mend);
    (!changes.is_empty()).then(|| changes.into_iter().fold(finding, tell))
}

/// By how much a limit of the daemon grew meanwhile, if it did.
fn grown(facts: &Facts, limit: &str) -> Option<u64> {
    let daemon = facts.daemon.as_ref()?;
    let hits = |node: &NodeStatus| node.limits_hit.get(limit).copied().unwrap_or(0);
    let grown = since(hits(&daemon.first.node), hits(&daemon.last.node));
    (grown > 0).then_some(grown)
}

/// Frames that are not this host's own, such as a bridge's, are dropped.
fn foreign_mac(facts: &Facts) -> Option<Finding> {
    let limit = DropReason::ForeignSource.name();
    let frames = counted(grown(facts, limit)?, "frame");
    let name = &facts.daemon.as_ref()?.last.node.vnic.as_ref()?.name;
    let finding = Finding::new(
        Cause::ForeignMac,
        Severity::Note,
        format!("Something sends over {name} with an Ethernet address that is not {name}'s"),
    );
    let finding = finding
        .seen(format!(
            "`{limit}` in `tabane status` grew by {frames} meanwhile"
        ))
        .costs(
            0.0,
            "these frames go nowhere; what the host itself sends arrives",
        )
        .mend(format!(
            "`ip -d link` names what is on {name}: the bridge that is its `master`, a macvlan `…@{name}` \
             (keepalived's `use_vmac` makes one); have it use the address of {name}, or route"
        ));
    Some(finding)
}

/// The nodes' MTUs differ.
fn vnic_mtu(facts: &Facts) -> Option<Finding> {
    let limit = Refusal::TooLong.name();
    let frames = counted(grown(facts, limit)?, "frame");
    let vnic = facts.daemon.as_ref()?.last.node.vnic.as_ref()?;
    let finding = Finding::new(
        Cause::VnicMtu,
        Severity::Slow,
        format!(
            "Peers send longer packets than the MTU of {} lets pass, {} bytes",
            vnic.name, vnic.mtu_bytes
        ),
    );
    let finding = finding
        .seen(format!(
            "`{limit}` in `tabane status` grew by {frames} meanwhile"
        ))
        .costs(
            0.1,
            "these packets are lost; UDP and long pings are concerned, TCP is not",
        )
        .mend("the same `mtu` of `[vnic]` in the cluster file of every node, and `tabane reload`")
        .mend(format!(
            "`ip link show {}` on every node tells what somebody has set by hand",
            vnic.name
        ));
    Some(finding)
}

/// How the virtual NIC is not as the daemon made it, and what mends that.
fn changes(vnic: &VnicFacts) -> Vec<(String, String)> {
    let (name, address) = (&vnic.name, &vnic.address);
    let Some(device) = &vnic.device else {
        let mend = "restart the daemon: `systemctl restart tabane`";
        return vec![(format!("`ip link` does not list {name}"), mend.to_owned())];
    };
    let mut found = Vec::new();
    if !device.up {
        let mend = format!("`ip link set {name} up`");
        found.push((format!("{name} is switched off"), mend));
    }
    let ip: Option<IpAddr> = address.split('/').next().and_then(|ip| ip.parse().ok());
    let has = |ip| device.addresses.iter().any(|a| a.ip == ip);
    if !ip.is_some_and(has) {
        let mend = format!("`ip address add {address} dev {name}`");
        found.push((
            format!("`ip address` does not list {address} of {name}"),
            mend,
        ));
    }
    if let (Some(own), Some(now)) = (ip.map(mac_of), device.mac)
        && own != now
    {
        let (own, now) = (mac(&own), mac(&now));
        let mend = format!("`ip link set {name} address {own}`");
        found.push((
            format!("the Ethernet address of {name} is {now}, not {own}"),
            mend,
        ));
    }
    found
}
