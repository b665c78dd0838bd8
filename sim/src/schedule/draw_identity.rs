//! Draws which hosts have key pairs, and who poses as one of them.

use super::draw::eventful_ns;
use super::{Fault, Schedule};
use crate::net::MS;
use crate::random::Random;

/// Half of the clusters have public keys in their file, of all nodes or of some.
pub fn draw(r: &mut Random, s: &mut Schedule) {
    if r.percent(50) {
        return;
    }
    let all = r.percent(50);
    s.identities.fill_with(|| all || r.percent(50));
    let host = r.below(s.hosts.len() as u64) as usize;
    if !s.identities[host] || r.percent(70) {
        return;
    }
    let length = eventful_ns(r);
    let at = r.below(length);
    let end = at + (1 + r.below(1_500)) * MS;
    s.faults.push((at, Fault::Impostor(host, r.percent(50))));
    s.faults.push((end, Fault::Crash(host)));
    s.faults.push((end + r.below(200) * MS, Fault::Start(host)));
}
