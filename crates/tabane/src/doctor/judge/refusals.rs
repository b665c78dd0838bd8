//! Peers that were not admitted: keys, versions, names, files.

use super::{flood, words};
use crate::doctor::facts::Facts;
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::status::{PathState, PeerState, RefusedReason, RefusedStatus};

/// A refusal older than this is of the past.
const RECENT_S: u64 = 30;

/// Whether one explains why a path to `peer` does not work.
pub fn explains(facts: &Facts, peer: &str, link: u8) -> bool {
    recent(facts).any(|r| {
        let cause = cause(r.reason);
        // A wrong key is wrong on every link; swapped cables concern only their links.
        let concerns = r.link == link || cause != Some(Cause::SwappedLinks);
        r.peer.as_deref() == Some(peer) && concerns && cause.is_some()
    })
}

/// Recent refusals, the newest first, from the daemon's last report. Handshakes succeed over swapped
/// links, which removes these refusals from its list; nothing else does.
fn recent(facts: &Facts) -> impl Iterator<Item = &RefusedStatus> {
    let key = |r: &RefusedStatus| (r.address, r.link, r.reason);
    let mut told: Vec<&RefusedStatus> = Vec::new();
    if let Some(daemon) = &facts.daemon {
        told.extend(&daemon.last.refused);
        let reports: Vec<_> = daemon.readings().collect();
        for earlier in reports.iter().rev().flat_map(|report| &report.refused) {
            let is_known = told.iter().any(|r| key(r) == key(earlier));
            if earlier.reason == RefusedReason::WrongLink && !is_known {
                told.push(earlier);
            }
        }
    }
    told.into_iter()
        .filter(|r| r.last_s <= RECENT_S && !is_mended(facts, r))
}

/// Whether packets came over the wrong link before, and did not while it was watched: the path works now.
fn is_mended(facts: &Facts, refused: &RefusedStatus) -> bool {
    let peer = refused.peer.as_deref().unwrap_or_default();
    let watch = facts.path_status(peer, refused.link);
    let works = watch.is_some_and(|w| w.readings().all(|p| p.state == PathState::Up));
    let before = refused.last_s as f64 > facts.seconds;
    refused.reason == RefusedReason::WrongLink && works && before
}

fn cause(reason: RefusedReason) -> Option<Cause> {
    use RefusedReason as R;
    Some(match reason {
        R::WrongKey => Cause::WrongKey,
        R::WrongIdentity => Cause::WrongIdentity,
        R::WrongVersion => Cause::WrongVersion,
        R::WrongWire => Cause::WrongWire,
        R::OwnName | R::DuplicateName | R::DuplicateAddress => Cause::NameConflict,
        R::WrongDestination | R::WrongPeer | R::UnknownNode => Cause::FilesDiffer,
        R::WrongLink => Cause::SwappedLinks,
        R::Malformed | R::Other => return None,
    })
}

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    let mut groups: Vec<(Cause, Option<&str>, Vec<&RefusedStatus>)> = Vec::new();
    for refused in recent(facts) {
        let Some(cause) = cause(refused.reason) else {
            continue;
        };
        let peer = refused.peer.as_deref();
        match groups
            .iter_mut()
            .find(|(c, p, _)| (*c, *p) == (cause, peer))
        {
            Some((_, _, all)) => all.push(refused),
            None => groups.push((cause, peer, vec![refused])),
        }
    }
    for (cause, peer, all) in groups {
        found.push(finding(facts, cause, peer, &all));
    }
}

fn finding(facts: &Facts, cause: Cause, peer: Option<&str>, all: &[&RefusedStatus]) -> Finding {
    let who = match peer {
        Some(name) => name.to_owned(),
        None => format!(
            "the node at {}",
            words::list(all.iter().map(|r| r.address.ip()))
        ),
    };
    let state = peer.and_then(|name| facts.peer(name)).map(|p| p.state);
    let is_up = state == Some(PeerState::Up);
    let is_unknown = peer.is_none();
    let severity = match (cause, is_up) {
        // Somebody knocks that the bundles do not need.
        (Cause::FilesDiffer | Cause::SwappedLinks, _) if is_unknown => Severity::Note,
        // In a flood there is everything, from every address.
        _ if flood::is_flooded(facts) && (is_unknown || is_up) => Severity::Note,
        (Cause::SwappedLinks, true) => Severity::Degraded,
        _ => Severity::Unreachable,
    };
    let named: Vec<String> = peer.map(str::to_owned).into_iter().collect();
    let mut finding = Finding::new(cause, severity, what(cause, &who, &named)).costs(
        if is_up { 0.5 } else { 1.0 },
        match is_up {
            true => format!("the bundle to {who} works; this may disturb it"),
            false => format!("no bundle with {who}"),
        },
    );
    for refused in all {
        finding.evidence.push(format!(
            "link {}, {}: {} ({}, the last {} s ago)",
            refused.link,
            refused.address,
            refused.text,
            words::counted(refused.count, "time"),
            refused.last_s
        ));
        if !finding.links.contains(&refused.link) {
            finding.links.push(refused.link);
        }
    }
    finding.links.sort_unstable();
    finding.peers.extend(named);
    finding.mend.push(mend(cause, &who));
    finding
}

/// What is wrong with `who`, which begins with one of the nodes `named` or with none.
pub fn what(cause: Cause, who: &str, named: &[String]) -> String {
    let text = match cause {
        Cause::WrongKey => format!("{who} has another cluster key"),
        Cause::WrongIdentity => {
            format!(
                "{who} does not hold the key that a cluster file has for a node, or this node does not"
            )
        }
        Cause::WrongVersion => format!("{who} runs another version of tabane's protocol"),
        Cause::WrongWire => format!("{who} and this node differ in `wire`"),
        Cause::NameConflict => format!("{who} runs under a name that is another node's"),
        Cause::SwappedLinks => {
            format!("{who} reaches this node over other links than the file says")
        }
        _ => format!("{who} has another cluster file"),
    };
    words::sentence(&text, named)
}

pub fn mend(cause: Cause, who: &str) -> String {
    match cause {
        Cause::WrongKey => format!(
            "copy the cluster file (and its `key_file`) to {who} once more, and restart its daemon; \
             compare with `sha256sum /etc/tabane/cluster.toml` on both"
        ),
        Cause::WrongIdentity => format!(
            "`tabane key` on {who} and here: write the lines that it prints as `public` of these \
             nodes, in every node's cluster file, and `tabane reload`; if {who} is not the machine \
             at fault, somebody poses as a node: change the cluster key"
        ),
        Cause::WrongVersion => {
            format!("`tabane --version` on both; install the same on {who} and here")
        }
        Cause::WrongWire => {
            "make `wire` in the cluster file the same on all nodes, and restart their daemons"
                .to_owned()
        }
        Cause::NameConflict => {
            "every machine runs as the node that has its addresses: end the one that should not \
             be (`tabane status` on both tells their names), or correct its --node"
                .to_owned()
        }
        Cause::SwappedLinks => {
            "compare the order of `links` in the cluster files; if it is the same, two cables \
             are swapped: entry 0 belongs to switch 0 on every node"
                .to_owned()
        }
        _ => format!("copy the cluster file of this node to {who}, or that of {who} here"),
    }
}
