//! The nodes' names in `/etc/hosts`.

use crate::doctor::facts::Facts;
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::names::HOSTS;

/// So many names and lines are told.
const TOLD_MAX: usize = 8;

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(lack) = &facts.names else {
        return;
    };
    if lack.missing.is_empty() && lack.foreign.is_empty() {
        return;
    }
    let what = format!("Nodes' names in {HOSTS} are not as the daemon writes them");
    let mut finding = Finding::new(Cause::NamesMissing, Severity::Note, what).costs(
        0.0,
        "programs that name these nodes do not find them, or find another machine; addresses work",
    );
    for (name, address) in lack.missing.iter().take(TOLD_MAX) {
        finding = finding.seen(format!("no line of {HOSTS} says that {name} is {address}"));
    }
    for it in lack.foreign.iter().take(TOLD_MAX) {
        let (line, name, address, ours) = (it.line, &it.name, it.address, it.ours);
        finding = finding.seen(format!(
            "{HOSTS}:{line} says that {name} is {address}; on the bundle it is {ours}"
        ));
    }
    if !lack.missing.is_empty() {
        finding = finding
            .mend("`tabane reload` has them written again; the log says if that fails: `journalctl -u tabane -p warning`")
            .mend("if the file was replaced under a service: `systemctl restart tabane`");
    }
    if !lack.foreign.is_empty() {
        finding = finding.mend("take the names off these lines, if they mean the nodes");
    }
    found.push(finding);
}
