//! Draws what operators do to the cluster file while nodes run: keys that are
//! changed step by step, nodes and links that are taken out and put back.

use super::draw::eventful_ns;
use super::{Fault, Schedule};
use crate::net::{MS, Ns};
use crate::random::Random;

/// Steps of a change of key, the beginning included.
pub const KEY_STEPS: usize = 4;

/// Draws changes for a schedule that is settled otherwise.
pub fn draw(r: &mut Random, s: &Schedule) -> Vec<(Ns, Fault)> {
    let mut changes = Vec::new();
    let length = eventful_ns(r);
    let hosts = s.hosts.len() as u64;
    if r.percent(25) {
        change_keys(r, s, length, &mut changes);
    }
    if r.percent(5) {
        // A node with a key of its own for a while: what it carries goes on.
        let host = r.below(hosts) as usize;
        let at = 100 * MS + r.below(length);
        changes.push((at, Fault::WrongKey(host, true)));
        changes.push((at + r.below(900) * MS, Fault::WrongKey(host, false)));
    }
    let count = r.pick(&[0, 0, 0, 0, 1, 1, 3]);
    for _ in 0..count {
        let at = 100 * MS + r.below(length);
        let end = at + r.pick(&[0, 1, 20, 200, 500]) * MS;
        let host = r.below(hosts) as usize;
        if r.percent(60) {
            let other = (host + 1 + r.below(hosts - 1) as usize) % hosts as usize;
            changes.push((at, Fault::Peer(host, other, false)));
            changes.push((end, Fault::Peer(host, other, true)));
        } else {
            let link = r.below(s.links as u64) as usize;
            changes.push((at, Fault::Unlisted(host, link, true)));
            changes.push((end, Fault::Unlisted(host, link, false)));
        }
    }
    changes
}

/// All hosts take a step before any takes the next; in each, one after the other.
fn change_keys(r: &mut Random, s: &Schedule, length: Ns, changes: &mut Vec<(Ns, Fault)>) {
    let mut at = 50 * MS + r.below(length / 2);
    for step in 1..KEY_STEPS {
        let first = r.below(s.hosts.len() as u64) as usize;
        for i in 0..s.hosts.len() {
            let host = (first + i) % s.hosts.len();
            changes.push((at, Fault::Keys(host, step)));
            at += r.pick(&[0, 1, 30, 200]) * MS;
        }
        at += r.pick(&[0, 1, 100, 1500]) * MS;
    }
}
