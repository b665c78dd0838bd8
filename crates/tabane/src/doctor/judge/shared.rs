//! Peers to which several nodes send at once: each sender gets its share, which is no fault.

use super::words;
use crate::doctor::facts::{Facts, PathWatch};
use crate::doctor::finding::{Cause, Finding, Severity};

/// A path counts as limited if a grant limited it in one of this many readings.
const LIMITED_ONE_IN: usize = 2;

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    let mut peers: Vec<&str> = facts.paths.iter().map(|p| p.peer.as_str()).collect();
    peers.dedup();
    found.extend(peers.into_iter().filter_map(|peer| shared(facts, peer)));
}

/// Whether the peer's grant limits a path.
pub fn is_limited(watch: &PathWatch<'_>) -> bool {
    let limited = watch.readings().filter(|p| p.is_limited_by_grant());
    limited.count() * LIMITED_ONE_IN >= watch.readings().count()
}

/// The peer's grant on a path, the median of the readings, Mb/s.
fn granted(watch: &PathWatch<'_>) -> f64 {
    let mut granted: Vec<f64> = watch.readings().filter_map(|p| p.granted_mbps).collect();
    granted.sort_by(f64::total_cmp);
    granted.get(granted.len() / 2).copied().unwrap_or(0.0)
}

fn shared(facts: &Facts, peer: &str) -> Option<Finding> {
    let paths = facts.paths.iter().filter(|p| p.peer == peer);
    let watches = paths.filter_map(|p| Some((p.link, facts.path_status(peer, p.link)?)));
    let limited: Vec<_> = watches.filter(|(_, watch)| is_limited(watch)).collect();
    if limited.is_empty() {
        return None;
    }
    let evidence = limited.iter().map(|(link, watch)| {
        let (granted, sent) = (granted(watch), watch.sent_mbps());
        format!("link {link}: {peer} grants {granted:.0} Mb/s, {sent:.0} were sent")
    });
    let mut finding = Finding::new(
        Cause::SharedReceiver,
        Severity::Note,
        format!("Several nodes send to {peer} at once: its links are shared among them"),
    )
    .peer(peer);
    finding.links = limited.iter().map(|(link, _)| *link).collect();
    finding.evidence = evidence.collect();
    let links = words::links(&finding.links);
    Some(
        finding
            .costs(
                0.0,
                format!("nothing: no node gets more of {peer}'s {links} than this one"),
            )
            .mend(format!(
                "nothing is broken; `tabane status` at {peer} shows who sends. For more, \
                 give {peer} more links or faster ones, or let fewer send at once"
            )),
    )
}
