//! This node's own links: interface, network, address conflicts.

use tabane_cluster::Network;

use super::words;
use crate::doctor::facts::{Device, Facts, Mac, OwnLink, PathFacts};
use crate::doctor::finding::{Cause, Finding, Severity};

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    for link in &facts.links {
        interface(facts, link, found);
        conflict(facts, link, found);
    }
    for (index, a) in facts.links.iter().enumerate() {
        for b in &facts.links[index + 1..] {
            found.extend(shared(facts, a, b));
        }
    }
    peer_conflicts(facts, found);
    wrong_neighbours(facts, found);
}

fn share(facts: &Facts) -> f64 {
    1.0 / facts.links.len().max(1) as f64
}

/// A link that does not work makes peers unreachable if it is the only one.
fn severity(facts: &Facts) -> Severity {
    match facts.links.len() {
        1 => Severity::Unreachable,
        _ => Severity::Degraded,
    }
}

fn interface(facts: &Facts, link: &OwnLink, found: &mut Vec<Finding>) {
    let number = link.number;
    let address = link.address.map(|a| a.to_string()).unwrap_or_default();
    let lost = format!("link {number} carries nothing, to any peer");
    let finding = match &link.device {
        None => Finding::new(
            Cause::AddressMissing,
            severity(facts),
            format!("Link {number} has no interface: none has the address {address}"),
        )
        .seen(format!("`ip address` does not list {address}"))
        .mend(format!(
            "give its NIC the address: `ip address add {address}/24 dev NIC`"
        ))
        .mend(format!(
            "or correct `links` of this node in the cluster file: entry {number}"
        )),
        Some(device) if !device.up => Finding::new(
            Cause::LinkOff,
            severity(facts),
            format!("Link {number}: {} is switched off", device.name),
        )
        .seen(format!("`ip link show {}` does not say UP", device.name))
        .mend(format!("`ip link set {} up`", device.name)),
        Some(device) if !device.carrier => Finding::new(
            Cause::NoCarrier,
            severity(facts),
            format!("Link {number}: {} has no carrier", device.name),
        )
        .seen(format!(
            "`ip link show {}` says NO-CARRIER or LOWERLAYERDOWN",
            device.name
        ))
        .mend("plug in the cable, at both ends; try another cable")
        .mend("is the switch on, and the port enabled? try another port"),
        Some(_) => return,
    };
    found.push(finding.link(number).costs(share(facts), lost));
}

fn conflict(facts: &Facts, link: &OwnLink, found: &mut Vec<Finding>) {
    let (Some(address), Some(other)) = (link.address, link.claimants.first()) else {
        return;
    };
    let own = link.device.as_ref().and_then(|d| d.mac);
    found.push(
        Finding::new(
            Cause::AddressConflict,
            Severity::Unreachable,
            format!(
                "Another machine has this node's address {address} on link {}",
                link.number
            ),
        )
        .link(link.number)
        .seen(format!(
            "asked who has {address}, {} answered; this machine's NIC is {}",
            words::list(link.claimants.iter().map(words::mac)),
            own.map(|m| words::mac(&m)).unwrap_or_default()
        ))
        .costs(
            share(facts),
            "packets to this node go to the other one, now and then or always",
        )
        .mend(format!(
            "find it by its Ethernet address {} (the switch's address table tells the port), \
             and give it another IP address",
            words::mac(other)
        )),
    );
}

/// Two answers for one peer's address, where they are not both that peer's NICs.
fn peer_conflicts(facts: &Facts, found: &mut Vec<Finding>) {
    for path in &facts.paths {
        if let Some(device) = &path.own_device {
            found.push(peers_address_here(facts, path, device));
            continue;
        }
        let macs = path.macs.as_deref().unwrap_or_default();
        // A peer with both NICs on one network answers twice: that is another finding.
        let other_links = facts
            .paths
            .iter()
            .filter(|p| p.peer == path.peer && p.link != path.link);
        let its_own: Vec<_> = other_links.flat_map(|p| p.macs.iter().flatten()).collect();
        let strangers: Vec<_> = macs.iter().filter(|m| !its_own.contains(m)).collect();
        // So does one that has two NICs on it of which the cluster file knows one, a macvlan say.
        let all_its_own = strangers.iter().all(|mac| path.its_macs.contains(mac));
        if strangers.len() < 2 || all_its_own {
            continue;
        }
        let ip = path.remote.ip();
        found.push(
            Finding::new(
                Cause::AddressConflict,
                Severity::Unreachable,
                format!(
                    "Two machines have the address {ip} of {} on link {}",
                    path.peer, path.link
                ),
            )
            .peer(&path.peer)
            .link(path.link)
            .seen(format!(
                "asked who has {ip}, {} answered",
                words::list(strangers.into_iter().map(words::mac))
            ))
            .costs(
                share(facts),
                "what is sent to it may go to the other machine",
            )
            .mend(
                "`ip -brief link` on the peer tells which Ethernet address is its own; \
                   give the other machine another IP address",
            ),
        );
    }
}

/// The kernel drops a peer's packets as spoofed, because this machine has the peer's address.
fn peers_address_here(facts: &Facts, path: &PathFacts, device: &Device) -> Finding {
    let (ip, peer, link, nic) = (path.remote.ip(), &path.peer, path.link, &device.name);
    Finding::new(
        Cause::AddressConflict,
        Severity::Unreachable,
        format!("This machine has the address {ip}, which is {peer}'s on link {link}"),
    )
    .peer(peer)
    .link(link)
    .seen(format!("`ip address` lists {ip} on {nic}"))
    .costs(
        share(facts),
        format!("link {link} carries nothing to {peer}; what others send to it may come here"),
    )
    .mend(format!("`ip address del {ip}/{} dev {nic}`", device.prefix))
    .mend("or correct `links` in the cluster file, on every node")
}

/// The kernel sends to an Ethernet address that did not answer for the peer's: an old one, or that of a
/// machine that had the same address.
fn wrong_neighbours(facts: &Facts, found: &mut Vec<Finding>) {
    for path in &facts.paths {
        let macs = path.macs.as_deref().unwrap_or_default();
        let wrong = |mac: &Mac| !macs.is_empty() && !macs.contains(mac);
        let Some(used) = path.neighbour.filter(wrong) else {
            continue;
        };
        let (peer, link, ip) = (&path.peer, path.link, path.remote.ip());
        let nic = facts.device(link).map_or("NIC", |d| d.name.as_str());
        let what = format!("What is for {peer} on link {link} is sent to another Ethernet address");
        found.push(
            Finding::new(Cause::WrongNeighbour, severity(facts), what)
                .peer(peer)
                .link(link)
                .seen(format!(
                    "asked who has {ip}, {} answered; `ip neigh` says {}",
                    words::list(macs.iter().map(words::mac)),
                    words::mac(&used)
                ))
                .costs(
                    share(facts),
                    format!("link {link} carries nothing to {peer}"),
                )
                .mend(format!(
                    "`ip neigh del {ip} dev {nic}`: the kernel asks anew"
                )),
        );
    }
}

/// Two links that are one network are no faster than one, and fail together.
fn shared(facts: &Facts, a: &OwnLink, b: &OwnLink) -> Option<Finding> {
    let (one, two) = (a.device.as_ref()?, b.device.as_ref()?);
    let network =
        |link: &OwnLink, device: &Device| Some(Network::new(link.address?, device.prefix));
    let (net_a, net_b) = (network(a, one)?, network(b, two)?);
    let heard = |from: &OwnLink, on: &OwnLink| from.heard_on.contains(&on.number);
    let (what, evidence, mend) = if one.index == two.index {
        (
            format!(
                "Links {} and {} are the same NIC, {}",
                a.number, b.number, one.name
            ),
            format!("{} has both addresses", one.name),
            "use a NIC of its own for each link",
        )
    } else if net_a.overlaps(net_b) {
        (
            format!(
                "Links {} and {} are in overlapping networks",
                a.number, b.number
            ),
            format!("{net_a} on {} and {net_b} on {}", one.name, two.name),
            "give each link a network of its own, such as 10.77.0.0/24 and 10.77.1.0/24",
        )
    } else if heard(a, b) || heard(b, a) {
        let (from, on) = if heard(a, b) { (one, two) } else { (two, one) };
        (
            format!(
                "Links {} and {} are on one network: the same switch, or two \
                     that are joined",
                a.number, b.number
            ),
            format!("a broadcast sent on {} arrived on {}", from.name, on.name),
            "take out the cable between the two switches, or put the links in VLANs of \
             their own on the one switch",
        )
    } else {
        return None;
    };
    Some(
        Finding::new(Cause::SharedNetwork, Severity::Degraded, what)
            .link(a.number)
            .link(b.number)
            .seen(evidence)
            .costs(
                share(facts) / 2.0,
                "they fail together, and what connects them may be the limit for both",
            )
            .mend(mend),
    )
}
