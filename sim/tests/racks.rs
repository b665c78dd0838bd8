//! Few bundles where it is known which nodes share a switch.

use std::time::Duration;
use tabane_sim::many::Many;

const HOSTS: usize = 128;
const SWITCHES: usize = 8;
const BUNDLES: u16 = 32;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Neighbours by name are on different switches.
fn switch_of(host: usize) -> usize {
    host % SWITCHES
}

fn on_switch(switch: usize) -> impl Iterator<Item = usize> {
    (0..HOSTS).filter(move |host| switch_of(*host) == switch)
}

/// Every node sends to every seventh one, which arrives.
fn many_to_many(many: &mut Many) {
    let before: Vec<u64> = (0..HOSTS).map(|host| many.messages(host)).collect();
    let distances = (1..HOSTS).step_by(7);
    for distance in distances.clone() {
        for from in 0..HOSTS {
            assert!(many.message(from, (from + distance) % HOSTS, &[7; 100]));
        }
        many.run(100 * MS);
    }
    many.run(2 * SECOND);
    for (host, before) in before.into_iter().enumerate() {
        let came = many.messages(host) - before;
        assert_eq!(came, distances.len() as u64, "{host}");
    }
}

#[test]
fn a_node_keeps_bundles_with_its_switch_and_two_between_any_two() {
    let mut many = Many::new(HOSTS, Some(BUNDLES), 100 * MS);
    many.run(SECOND);
    many.tell_switches(1, |host| switch_of(host) as u16);
    // While nodes hear of it, and not all at the same time, they reach each other.
    many_to_many(&mut many);
    for host in 0..HOSTS {
        assert!(many.direct_max(host) <= usize::from(BUNDLES), "{host}");
        for other in on_switch(switch_of(host)).filter(|other| *other != host) {
            assert!(many.is_direct(host, other), "{host} and {other}");
        }
    }
    assert_eq!(many.losses, 0);

    // What was kept before rests when it is idle: not before what went through it.
    many.run(640 * SECOND);
    for host in 0..HOSTS {
        let direct = many.node(host).bundle_count().direct;
        assert!(direct <= HOSTS / SWITCHES, "{host}: {direct}");
    }
    for (a, b) in [(0, 1), (2, 7)] {
        let of_a = on_switch(a).flat_map(|from| on_switch(b).map(move |to| (from, to)));
        let direct = of_a.filter(|(from, to)| many.is_direct(*from, *to));
        assert_eq!(direct.count(), 2);
    }

    // From switch to switch what goes through two others at most crosses one trunk.
    many_to_many(&mut many);
    let (mut ways, mut straight) = (0, 0);
    for from in 0..HOSTS {
        let others = (0..HOSTS).filter(|to| *to != from);
        for to in others.filter(|to| !many.is_direct(from, *to)) {
            let relays = many.relays(from, to).unwrap_or_default();
            if !(1..=2).contains(&relays.len()) {
                continue;
            }
            ways += 1;
            let ends = [switch_of(from), switch_of(to)];
            let is_straight = relays.iter().all(|relay| ends.contains(&switch_of(*relay)));
            straight += usize::from(is_straight);
        }
    }
    assert!(ways > HOSTS * SWITCHES, "{ways}");
    assert!(straight * 100 >= ways * 95, "{straight} of {ways}");
}
