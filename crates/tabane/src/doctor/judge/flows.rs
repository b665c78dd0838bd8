//! Traffic that is as slow as a `[[flow]]` of the cluster file has it.

use crate::doctor::facts::{Facts, since};
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::status::FlowStatus;

/// This share of its rate is all of it: some is lost where programs pause.
const ALL_OF_RATE: f64 = 0.9;

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(daemon) = &facts.daemon else {
        return;
    };
    let earlier = &daemon.first.node.flows;
    for flow in &daemon.last.node.flows {
        let is_same = |before: &&FlowStatus| before.which == flow.which && before.how == flow.how;
        let before = earlier.iter().find(is_same);
        let (Some(before), Some(rate_bps)) = (before, flow.rate_bps) else {
            continue;
        };
        let sent_bps = 8.0 * since(before.bytes, flow.bytes) as f64 / facts.seconds.max(1e-3);
        if sent_bps < rate_bps as f64 * ALL_OF_RATE {
            continue;
        }
        let (which, how) = (&flow.which, &flow.how);
        let dropped = since(before.packets_dropped, flow.packets_dropped);
        found.push(
            Finding::new(
                Cause::FlowRate,
                Severity::Note,
                format!("The cluster file has {which} be carried at {how}, and it is"),
            )
            .seen(format!(
                "this node sent {:.1} Mb/s of it meanwhile, and dropped {dropped} packets of tab0",
                sent_bps / 1e6
            ))
            .costs(0.0, "that traffic is as fast as it may be; the rest is not concerned")
            .mend("if it is to be faster: `rate` of that `[[flow]]`, on the node that sends, and `tabane reload`"),
        );
    }
}
