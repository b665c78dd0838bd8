//! Clusters whose nodes come and go: nothing is lost, and everybody is known; and the checkers see what is broken.

use tabane_sim::churn::{Mutant, Plan, Rule, run};

#[test]
fn nodes_come_and_go_and_nothing_is_lost() {
    for seed in 0..6 {
        let outcome = run(&Plan::draw(seed), None);
        assert_eq!(outcome.broken, None, "seed {seed}");
        assert!(outcome.arrived > 1_000, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn a_seed_is_a_run() {
    let digest = || run(&Plan::draw(3), None).digest;
    assert_eq!(digest(), digest());
}

#[test]
fn each_checker_sees_what_is_broken_in_its_way() {
    for (mutant, rules) in [
        (Mutant::Unseeded, &[Rule::Known][..]),
        (Mutant::NeverForgets, &[Rule::Forgotten]),
        (Mutant::Twice, &[Rule::Once]),
        (Mutant::Swaps, &[Rule::Once]),
        // What is missing is noticed at the next message, or when it waits too long.
        (Mutant::Drops, &[Rule::Once, Rule::Wait]),
        (Mutant::Dawdles, &[Rule::Wait]),
    ] {
        let broken: Vec<Rule> = (0..6)
            .filter_map(|seed| run(&Plan::draw(seed), Some((5, mutant))).broken)
            .map(|broken| broken.rule)
            .collect();
        assert!(!broken.is_empty(), "{mutant:?} is not noticed");
        assert!(
            broken.iter().all(|rule| rules.contains(rule)),
            "{mutant:?}: {broken:?}"
        );
    }
}
