//! Very many peers: they are met in no time, and those that are not there are hardly asked.

use std::time::Duration;
use tabane_sim::peers::connected;
use tabane_sim::star::Star;

#[test]
fn a_thousand_that_start_at_once_are_up_within_a_second() {
    let mut star = Star::new(1000, 1000);
    star.run_until_all_are_up(Duration::from_secs(1));
    assert_eq!(star.up(), 1000);
}

#[test]
fn a_thousand_that_are_not_there_are_asked_ever_more_rarely() {
    let mut star = Star::new(1024, 0);
    let at_once = star.take_work().sent;
    assert!(at_once <= 64, "{at_once} first messages leave in one turn");
    star.run(Duration::from_secs(1));
    let first = star.take_work().sent;
    // About four messages over each of two paths, with jitter.
    assert!(
        first >= 3 * 2 * 1024,
        "{first}: they are sought eagerly at first"
    );
    star.run(Duration::from_secs(600));
    star.take_work();
    star.run(Duration::from_secs(120));
    let sent = star.take_work().sent;
    assert!(sent <= 20 * 120, "{sent} in two minutes");
    assert!(sent >= 1024, "{sent}: each is asked once a minute");
}

#[test]
fn idle_bundles_are_asked_by_one_end() {
    let mut star = connected(100);
    star.run(Duration::from_secs(100));
    // A probe, or the answer to one, on each path every 5 s.
    let sent = star.take_work().sent;
    assert!(sent <= 100 * 2 * 21, "{sent} in 100 s");
}
