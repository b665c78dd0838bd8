//! Datagrams of strangers in numbers that cost something.

use super::{host, words};
use crate::doctor::facts::{Facts, since};
use crate::doctor::finding::{Cause, Finding, Severity};

/// So many datagrams a second that are thrown away are no chance.
const FLOOD_PER_S: f64 = 1000.0;
/// The most reasons that are listed, the most frequent first.
const REASONS_MAX: usize = 3;

/// For each reason how many datagrams were thrown away meanwhile, the most first.
pub(super) fn dropped<'a>(facts: &'a Facts) -> Vec<(&'a str, u64)> {
    let Some(daemon) = &facts.daemon else {
        return Vec::new();
    };
    let before = &daemon.first.node.dropped;
    let grown = |(reason, count): (&'a String, &u64)| {
        let earlier = before.get(reason).copied().unwrap_or(0);
        (reason.as_str(), since(earlier, *count))
    };
    let all = daemon.last.node.dropped.iter().map(grown);
    let mut told: Vec<_> = all.filter(|(_, count)| *count > 0).collect();
    told.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    told
}

fn per_s(facts: &Facts) -> f64 {
    let all: u64 = dropped(facts).iter().map(|(_, count)| count).sum();
    all as f64 / facts.seconds.max(1e-3)
}

/// Whether there was one; then its effects are no fault of this machine.
pub fn is_flooded(facts: &Facts) -> bool {
    per_s(facts) >= FLOOD_PER_S
}

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    if !is_flooded(facts) {
        return;
    }
    let dropped = dropped(facts);
    let reasons = dropped.iter().take(REASONS_MAX);
    let reasons = words::list(reasons.map(|(reason, count)| format!("{reason} {count}")));
    let lost = host::no_room(facts);
    let (severity, share, cost) = match lost {
        0 => (Severity::Note, 0.0, "some processor time"),
        _ => (
            Severity::Slow,
            0.2,
            "processor time; packets of peers that find no room behind them are sent again",
        ),
    };
    let port = facts.port;
    found.push(
        Finding::new(
            Cause::Flood,
            severity,
            format!(
                "{:.0} datagrams a second come to UDP port {port} that are no cluster's, and are thrown away",
                per_s(facts)
            ),
        )
        .seen(format!(
            "`dropped` in `tabane status --json` grew meanwhile: {reasons}"
        ))
        .maybe_seen(
            (lost > 0).then(|| format!("{} had no room in the sockets", words::counted(lost, "packet"))),
        )
        .costs(share, cost)
        .mend(format!(
            "`tcpdump -c 100 -ni any udp port {port}` names who sends (an address may be a lie; the \
             switch's counters are not): take it off the network of the links"
        ))
        .mend("or let only the peers' addresses in, by a firewall"),
    );
}
