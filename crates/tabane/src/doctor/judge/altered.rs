//! Packets that are not as they were sent.

use super::{flood, words};
use crate::doctor::facts::Facts;
use crate::doctor::finding::{Cause, Finding, Severity};

/// The daemon's name for packets of a session that its key does not open.
const FORGED: &str = "forged";

/// Packets of known sessions that were not what the peer had sealed, meanwhile.
fn forged(facts: &Facts) -> u64 {
    let dropped = flood::dropped(facts);
    let forged = dropped.iter().find(|(reason, _)| *reason == FORGED);
    forged.map_or(0, |(_, count)| *count)
}

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    // Who floods sends garbage of all kinds.
    let forged = match flood::is_flooded(facts) {
        true => 0,
        false => forged(facts),
    };
    let wrong = facts.machine.checksum_errors;
    if wrong + forged == 0 {
        return;
    }
    let by_kernel = (wrong > 0).then(|| {
        format!(
            "the kernel dropped {} with a wrong checksum (`nstat -asz UdpInCsumErrors Udp6InCsumErrors`)",
            words::counted(wrong, "datagram of UDP")
        )
    });
    let by_daemon = (forged > 0).then(|| {
        format!(
            "the daemon dropped {} whose checksum was right, and which no peer had sealed (`forged` in `tabane status --json`)",
            words::counted(forged, "packet")
        )
    });
    found.push(
        Finding::new(
            Cause::AlteredPackets,
            Severity::Slow,
            "Packets arrive here that were altered on the way",
        )
        .maybe_seen(by_kernel)
        .maybe_seen(by_daemon)
        .costs(
            0.0,
            "each one is sent again; with `wire = \"plain\"` one of 65,536 is taken for right",
        )
        .mend(
            "a NIC or a switch has bad memory, or makes wrong checksums: `ethtool -K NIC tx off rx off` at either end in turn \
             shows which NIC, another switch port which switch",
        )
        .mend("if nothing of that helps, somebody forges packets: `tcpdump -vv -ni any udp` names the addresses"),
    );
}
