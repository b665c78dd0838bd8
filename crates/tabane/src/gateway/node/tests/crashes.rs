//! A gateway fails at each moment of a connection's life.

use tabane_sim::net::{MS, Ns, SECOND};

use super::machine::Fuse;
use super::talk::Kind;
use super::town::{Crash, Town};

/// A town of this seed whose programs have their ports.
pub fn settled(seed: u64, size: (usize, usize), mutant: Option<(usize, super::mutant::Mutant)>) -> Town {
    let mut town = Town::new(seed, size, mutant);
    let ports = 2 * size.1;
    town.run_while(10 * SECOND, |town| town.serving().is_none() || town.given.len() < ports);
    town
}

#[test]
fn it_works_without_faults() {
    let mut town = settled(1, (2, 4), None);
    assert_eq!(town.broken, None);
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        for ways in [(true, true), (true, false), (false, true), (false, false)] {
            town.converse(kind, n % 4, n % 2, ways);
        }
    }
    let done = town.run_while(5 * SECOND, |town| !town.conversations.iter().all(|one| one.is_done()));
    assert_eq!(town.broken, None);
    for (number, one) in town.conversations.iter().enumerate().filter(|(_, one)| !one.is_done()) {
        println!("{number}: {:?} {:?} {:?}", one.kind, one.seats, one.sides);
    }
    assert!(done);
    println!("{} ms", town.now / MS);
}
