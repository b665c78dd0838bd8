//! One verdict from what several nodes find. Pure.

use super::finding::{Cause, Finding, Opinion};

/// How near a cause is to what is to be mended.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// Only silence is seen, or a loss, somewhere on the way.
    Silence,
    /// The other end is blamed.
    There,
    /// A thing at the node that says so.
    Here,
}

fn nearness(cause: Cause) -> Nearness {
    match cause {
        Cause::LinkDead
        | Cause::OneWay
        | Cause::LossyLink
        | Cause::AlteredPackets
        | Cause::SlowLink
        | Cause::Mtu => Nearness::Silence,
        Cause::FirewallThere | Cause::NoDaemonThere | Cause::VnicFirewall => Nearness::There,
        _ => Nearness::Here,
    }
}

/// Whether a cause is seen on the way between two nodes, so that both may see it.
fn is_between(cause: Cause) -> bool {
    nearness(cause) < Nearness::Here
        || matches!(
            cause,
            Cause::FirewallHere
                | Cause::AddressConflict
                | Cause::WrongNeighbour
                | Cause::SharedNetwork
                | Cause::SwappedLinks
                | Cause::WrongKey
                | Cause::WrongIdentity
                | Cause::WrongVersion
                | Cause::WrongWire
                | Cause::FilesDiffer
                | Cause::NameConflict
                | Cause::HalfDuplex
                | Cause::AddressMissing
                | Cause::LinkOff
                | Cause::NoCarrier
        )
}

/// Whether two findings of two nodes are of one fault: both are about the way between them, on a link of both.
fn is_one_fault(a: &Finding, b: &Finding) -> bool {
    let knows =
        |of: &Finding, other: &Finding| of.peers.is_empty() || of.peers.contains(&other.node);
    let share =
        |a: &[u8], b: &[u8]| a.is_empty() || b.is_empty() || a.iter().any(|it| b.contains(it));
    a.node != b.node
        && is_between(a.cause)
        && is_between(b.cause)
        && knows(a, b)
        && knows(b, a)
        && share(&a.links, &b.links)
}

/// Joins what this node finds with what others find: of findings of one fault the one that is nearest to the cause stays,
/// and says who sees it, too. Worst first.
pub fn joined(node: &str, mut own: Vec<Finding>, others: &[Opinion]) -> Vec<Finding> {
    for finding in &mut own {
        node.clone_into(&mut finding.node);
    }
    let theirs = others.iter().flat_map(|opinion| {
        let named = |finding: &Finding| Finding {
            node: opinion.node.clone(),
            ..finding.clone()
        };
        opinion.findings.iter().map(named)
    });
    let mut all: Vec<Finding> = Vec::new();
    for finding in own.into_iter().chain(theirs) {
        match all.iter_mut().find(|other| is_one_fault(other, &finding)) {
            Some(other) => *other = one_of(std::mem::replace(other, finding.clone()), finding),
            None => all.push(finding),
        }
    }
    all.sort_by(|a, b| {
        let share = b.cost_share.total_cmp(&a.cost_share);
        a.severity.cmp(&b.severity).then(share)
    });
    all
}

/// The nearer one to the cause, or the first; the other one is evidence, and it is as bad as the worse of both.
fn one_of(first: Finding, second: Finding) -> Finding {
    let (mut stays, goes) = match nearness(second.cause) > nearness(first.cause) {
        true => (second, first),
        false => (first, second),
    };
    stays.severity = stays.severity.min(goes.severity);
    stays.cost_share = stays.cost_share.max(goes.cost_share);
    let seen = format!(
        "{} sees it, too: {} [{}]",
        goes.node,
        goes.what,
        goes.cause.name()
    );
    stays.evidence.push(seen);
    stays
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    fn found(cause: Cause, peer: &str, links: &[u8]) -> Finding {
        let mut finding = Finding::new(cause, Severity::Degraded, "It is so");
        finding.peers = (!peer.is_empty())
            .then(|| peer.to_owned())
            .into_iter()
            .collect();
        finding.links = links.to_vec();
        finding
    }

    fn said(node: &str, findings: &[Finding]) -> Opinion {
        Opinion {
            node: node.to_owned(),
            findings: findings.to_vec(),
            trouble: None,
        }
    }

    fn verdict(own: &[Finding], others: &[Opinion]) -> Vec<(String, Cause)> {
        let all = joined("n0", own.to_vec(), others);
        all.into_iter().map(|it| (it.node, it.cause)).collect()
    }

    #[test]
    fn who_has_the_cause_is_named_and_who_sees_it_is_evidence() {
        let own = [found(Cause::FirewallThere, "n1", &[1])];
        let other = [said("n1", &[found(Cause::FirewallHere, "n0", &[1])])];
        let all = joined("n0", own.to_vec(), &other);
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(
            (all[0].node.as_str(), all[0].cause),
            ("n1", Cause::FirewallHere)
        );
        assert!(all[0].evidence[0].contains("n0 sees it, too"), "{all:?}");
        // Also if it names no peer.
        let off = [said("n1", &[found(Cause::LinkOff, "", &[1])])];
        let dead = [found(Cause::LinkDead, "n1", &[1])];
        assert_eq!(verdict(&dead, &off), [("n1".to_owned(), Cause::LinkOff)]);
    }

    #[test]
    fn what_both_see_alike_is_one_finding_of_the_first() {
        let own = [found(Cause::LossyLink, "n1", &[0])];
        let other = [said("n1", &[found(Cause::LossyLink, "n0", &[0])])];
        assert_eq!(verdict(&own, &other), [("n0".to_owned(), Cause::LossyLink)]);
    }

    #[test]
    fn other_links_other_peers_and_what_is_a_nodes_own_stay_apart() {
        let dead = |peer: &str, link| found(Cause::LinkDead, peer, &[link]);
        let others = [
            said("n1", &[dead("n0", 1), found(Cause::Buffers, "", &[])]),
            said("n2", &[dead("n1", 0)]),
        ];
        assert_eq!(verdict(&[dead("n1", 0)], &others).len(), 4);
    }

    #[test]
    fn it_is_as_bad_as_the_worse_of_both() {
        let mut own = found(Cause::FirewallThere, "n1", &[0, 1]);
        own.severity = Severity::Unreachable;
        let other = [said("n1", &[found(Cause::FirewallHere, "n0", &[0])])];
        let all = joined("n0", vec![own], &other);
        assert_eq!(all[0].severity, Severity::Unreachable);
    }
}
