//! Draws what goes wrong: each fault at its time, and its end.

use super::draw::eventful_ns;
use super::{Change, Fault, Schedule, Side};
use crate::net::{MS, Ns, US};
use crate::random::Random;

/// A peer counts as gone after ten seconds without a packet; then it is called.
const FIREWALL_NS: Ns = 13_000 * MS;

/// Draws the faults for a schedule whose network and work are settled.
pub fn draw(r: &mut Random, s: &Schedule) -> Vec<(Ns, Fault)> {
    let mut faults = Vec::new();
    let length = eventful_ns(r);
    let begins = 100 * MS;
    let count = r.pick(&[0, 1, 1, 2, 3, 5, 8]);
    for _ in 0..count {
        let at = begins + r.below(length);
        let lasts = r.pick(&[3, 10, 30, 60, 120, 300, 900]) * MS + r.below(10 * MS);
        draw_one(r, s, at, lasts, &mut faults);
    }
    if r.percent(3) {
        let at = begins + r.below(length);
        draw_firewall(r, s, at, &mut faults);
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// Of what a host sends, or of what comes to it, nothing passes on any link but handshakes: long enough for its peers to
/// count as gone, and to be called again and again.
fn draw_firewall(r: &mut Random, s: &Schedule, at: Ns, faults: &mut Vec<(Ns, Fault)>) {
    let host = r.below(s.hosts.len() as u64) as usize;
    let side = side(r);
    for link in 0..s.links {
        let change = |change| Fault::Wire(host, link, side, change);
        faults.push((at, change(Change::HandshakesOnly)));
        faults.push((at + FIREWALL_NS, change(Change::Restore)));
    }
}

/// Two hosts have no link in common for a while: each of their links fails at one of them. Others may reach both.
pub fn apart(r: &mut Random, s: &Schedule) -> Vec<(Ns, Fault)> {
    let mut faults = Vec::new();
    if s.hosts.len() < 3 || !r.percent(30) {
        return faults;
    }
    let first = r.below(s.hosts.len() as u64) as usize;
    let pair = [first, (first + 1) % s.hosts.len()];
    let at = r.pick(&[0, 100, 300, 600]) * MS;
    let ends = at + r.pick(&[100, 500, 1500, 4000]) * MS;
    for link in 0..s.links {
        if r.percent(20) {
            let [a, b] = pair;
            for ends_of in [(a, b), (b, a)] {
                faults.push((at, Fault::Cut(link, ends_of, true)));
                faults.push((ends, Fault::Cut(link, ends_of, false)));
            }
            continue;
        }
        let host = pair[link % 2];
        let (side, wire) = (side(r), |side, change| {
            Fault::Wire(host, link, side, change)
        });
        faults.push((at, wire(side, Change::Dead)));
        faults.push((ends, wire(side, Change::Restore)));
    }
    faults
}

fn draw_one(r: &mut Random, s: &Schedule, at: Ns, lasts: Ns, faults: &mut Vec<(Ns, Fault)>) {
    let host = r.below(s.hosts.len() as u64) as usize;
    let link = r.below(s.links as u64) as usize;
    let end = at + lasts;
    // Some failures of a path stay for ever if others are left.
    let heals = link == 0 || !r.percent(10);
    let mut pair = |begin, after, heals: bool| {
        faults.push((at, begin));
        if heals {
            faults.push((end, after));
        }
    };
    match r.below(20) {
        0..=2 => pair(Fault::Switch(link, true), Fault::Switch(link, false), heals),
        3..=4 => {
            let side = side(r);
            let restore = Fault::Wire(host, link, side, Change::Restore);
            pair(Fault::Wire(host, link, side, Change::Dead), restore, heals);
        }
        5 => {
            let other = (host + 1) % s.hosts.len();
            let cut = |on| Fault::Cut(link, (host, other), on);
            pair(cut(true), cut(false), heals);
        }
        6..=12 => {
            let (side, change) = (side(r), change(r));
            let restore = Fault::Wire(host, link, side, Change::Restore);
            pair(Fault::Wire(host, link, side, change), restore, true);
        }
        13 => {
            let up = |up| Fault::Carrier(host, link, up);
            pair(up(false), up(true), heals);
        }
        14 => {
            let there = |there| Fault::Link(host, link, there);
            pair(there(false), there(true), true);
        }
        15 => {
            // Only host 0 may keep a new address to itself: two hosts that both do
            // on one link could not find each other.
            let told = host != 0 || r.percent(50);
            faults.push((at, Fault::Address(host, link, told)));
        }
        16 => pair(Fault::Crash(host), Fault::Start(host), true),
        17..=18 => pair(Fault::Pause(host), Fault::Resume(host), true),
        _ => {
            let rate = r.between(0, 400) as i64 - 200;
            faults.push((at, Fault::ClockRate(host, rate)));
        }
    }
}

fn side(r: &mut Random) -> Side {
    r.pick(&[Side::Up, Side::Down, Side::Both])
}

fn change(r: &mut Random) -> Change {
    match r.below(13) {
        0..=3 => Change::Loss(r.pick(&[10_000, 50_000, 300_000, 500_000, 900_000])),
        4 => Change::Bursts(r.pick(&[1_000, 10_000, 50_000]), r.pick(&[20_000, 200_000])),
        5 => Change::Corrupt(r.pick(&[10_000, 200_000])),
        6 => Change::Duplicate(r.pick(&[10_000, 300_000, 1_000_000])),
        7 => Change::Jitter(r.pick(&[100 * US, MS, 10 * MS]), r.percent(70)),
        8 => Change::Delay(r.pick(&[0, 500 * US, 5 * MS, 20 * MS, 80 * MS])),
        9..=10 => Change::Rate(r.pick(&[2, 10, 50, 400, 2_000]) * 1_000_000),
        11 => Change::Queue(r.pick(&[3_000, 20_000, 1_000_000])),
        _ => Change::DatagramBytesMax(r.pick(&[600, 1232, 1300, 1472])),
    }
}
