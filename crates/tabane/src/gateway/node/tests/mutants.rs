//! Each checker sees what it is for.

use tabane_sim::net::{MS, SECOND};

use super::LINKS;
use super::crashes::{Figures, Moment, settled};
use super::host::Want;
use super::mutant::Mutant;
use super::talk::Kind;
use super::town::{Crash, Town, listens_at};

const SIZE: (usize, usize) = (2, 4);

/// What the town says of a mutant at one of these hosts, when gateways have failed a few times.
fn seen_in_crashes(mutant: Mutant, host: usize) -> Option<String> {
    let mut figures = Figures::default();
    let mut town = settled(7, SIZE, Some((host, mutant)));
    for step in 0..24 {
        let moment = Moment {
            kind: [Kind::Chat, Kind::Datagrams, Kind::Down][step as usize % 3],
            ways: (step % 2 == 0, true),
            packets: step,
            after: true,
            crash: Crash::Daemon,
        };
        town.fails_at(moment, &mut figures);
        if town.broken.is_some() {
            break;
        }
    }
    town.broken
}

fn must_see(broken: Option<&str>, what: &str) {
    let broken = broken.expect("the checker sees it");
    assert!(broken.contains(what), "{broken}");
}

#[test]
fn a_gateway_that_answers_before_it_knows_is_seen() {
    for mutant in [None, Some((1, Mutant::LearnsNothing))] {
        let mut town = settled(7, SIZE, mutant);
        // What nodes have is heard late.
        town.inside = (15 * MS, MS);
        let until = town.now + SECOND / 2;
        town.run_until(until);
        town.crash(0, Crash::Daemon);
        for _ in 0..100 {
            town.converse(Kind::Short, 2, 0, (true, true));
            let until = town.now + 5 * MS;
            town.run_until(until);
        }
        match mutant {
            None => assert_eq!(town.broken, None),
            Some(_) => must_see(town.broken.as_deref(), "was reset by"),
        }
    }
}

#[test]
fn a_node_that_says_nothing_of_what_it_has_is_seen() {
    let broken = seen_in_crashes(Mutant::TellsNothing, 2).expect("the checker sees it");
    let is_it = broken.contains("was reset by") || broken.contains("does not go on");
    assert!(is_it, "{broken}");
}

#[test]
fn what_is_doubled_or_changed_is_seen() {
    must_see(seen_in_crashes(Mutant::Doubles, 0).as_deref(), "twice");
    must_see(seen_in_crashes(Mutant::Changes, 0).as_deref(), "got");
    must_see(
        seen_in_crashes(Mutant::AcknowledgesMore, 0).as_deref(),
        "acknowledged",
    );
}

#[test]
fn a_kernel_that_answers_for_a_dead_daemon_is_seen() {
    let broken = seen_in_crashes(Mutant::KernelSpeaks, 0).expect("the checker sees it");
    assert!(
        broken.contains("speaks") || broken.contains("was reset by"),
        "{broken}"
    );
}

/// The program of a host asks somebody outside, again and again.
fn speaks(town: &mut Town, host: usize) {
    for _ in 0..50 {
        town.converse(Kind::Datagrams, host, 0, (false, true));
        let until = town.now + 10 * MS;
        town.run_until(until);
    }
}

#[test]
fn a_vote_that_is_lent_twice_is_seen() {
    for mutant in [None, Some(Mutant::LendsTwice)] {
        let mut town = settled(3, SIZE, None);
        for host in 2..SIZE.1 {
            town.hosts[host].mutant = mutant;
        }
        let now = town.now;
        town.hosts[1].forgets_who_serves(now);
        speaks(&mut town, 0);
        match mutant {
            None => assert_eq!(town.broken, None),
            Some(_) => must_see(
                town.broken.as_deref(),
                "speaks for the outside addresses while",
            ),
        }
    }
}

#[test]
fn a_vote_that_is_counted_on_for_too_long_is_seen() {
    for is_slow in [false, true] {
        let mut town = settled(3, SIZE, None);
        if is_slow {
            // By its clock a gateway's votes hold three times as long.
            let now = town.now;
            town.hosts[0].clock.set_rate(now, -700_000);
        }
        for (other, link) in (1..SIZE.1).flat_map(|other| (0..LINKS).map(move |link| (other, link)))
        {
            town.cut.extend([(0, other, link), (other, 0, link)]);
        }
        speaks(&mut town, 0);
        match is_slow {
            false => assert_eq!(town.broken, None),
            true => must_see(
                town.broken.as_deref(),
                "speaks for the outside addresses while",
            ),
        }
    }
}

#[test]
fn a_port_that_is_given_twice_is_seen() {
    for mutant in [None, Some((0, Mutant::GivesTwice))] {
        let mut town = settled(3, SIZE, mutant);
        let number = listens_at(9);
        for host in [2, 3] {
            town.hosts[host].wants.insert(Want {
                is_tcp: true,
                number,
            });
            town.hosts[host].join(town.now);
            let until = town.now + SECOND / 2;
            town.run_until(until);
        }
        match mutant {
            None => assert_eq!(town.broken, None),
            Some(_) => must_see(town.broken.as_deref(), "was given to hosts"),
        }
    }
}
