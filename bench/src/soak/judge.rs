//! Was a failure that a daemon reported a failure?

use super::fault::Kind;
use super::ledger::Struck;
use super::log::{Failure, What};

/// After a fault is undone, what it set off may still come to an end: a switch
/// port that learns, a path that fails once more before it stays, an address
/// that is looked for.
const SETTLE_MS: u64 = 3_000;
/// Clock of the log against ours: the same, but read at different instants.
const SLACK_MS: u64 = 50;

/// Whether nothing that struck explains what node `node` reported.
pub(super) fn is_false(node: usize, failure: &Failure, struck: &[Struck], links: usize) -> bool {
    let harmed = |peer: usize, link: usize| {
        let explains = |one: &&Struck| {
            one.strike.kind.harms_paths() && one.strike.concerns([node, peer], link)
        };
        let mut able = struck.iter().filter(explains);
        able.any(|one| in_force(one, failure.at_ms, [node, peer], struck))
    };
    match failure.what {
        What::Path { peer, link } => !harmed(peer, link),
        What::Link { link } => !harmed(node, link),
        What::Peer { peer } => !(0..links).all(|link| harmed(peer, link)),
    }
}

/// Whether it was in force at that time, or had just been. A daemon that could
/// open no file learns of a link's fate when it can again.
fn in_force(one: &Struck, at_ms: u64, nodes: [usize; 2], struck: &[Struck]) -> bool {
    let end_ms = one.end_ms.unwrap_or(u64::MAX);
    let blind = |other: &&Struck| {
        other.strike.kind == Kind::Descriptors
            && other.strike.concerns_nodes(nodes)
            && other.meets(one.begin_ms, end_ms)
    };
    let blinded = struck.iter().filter(blind);
    let known_ms = blinded.map(|other| other.end_ms.unwrap_or(u64::MAX));
    let settled_ms = known_ms.fold(end_ms, u64::max).saturating_add(SETTLE_MS);
    (one.begin_ms.saturating_sub(SLACK_MS)..=settled_ms).contains(&at_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::fault::Strike;
    use tabane_lab::Fault;

    fn struck(kind: Kind, link: Option<usize>, node: Option<usize>) -> Struck {
        Struck {
            strike: Strike { kind, link, node },
            begin_ms: 100_000,
            end_ms: Some(110_000),
        }
    }

    fn at(at_ms: u64, what: What) -> Failure {
        Failure {
            at_ms,
            what,
            line: String::new(),
        }
    }

    #[test]
    fn only_a_fault_on_that_path_at_that_time_explains_its_failure() {
        let silent = struck(Kind::Link(Fault::Silent), Some(1), Some(2));
        let path = |peer, link| What::Path { peer, link };
        let is_false = |node, failure: &Failure| super::is_false(node, failure, &[silent], 2);
        assert!(!is_false(0, &at(105_000, path(2, 1))));
        assert!(!is_false(2, &at(112_000, path(0, 1))));
        assert!(is_false(0, &at(105_000, path(2, 0))), "another link");
        assert!(is_false(0, &at(105_000, path(1, 1))), "another node");
        assert!(is_false(0, &at(99_000, path(2, 1))), "before");
        assert!(is_false(0, &at(120_000, path(2, 1))), "long after");
    }

    #[test]
    fn a_peer_is_lost_only_with_all_its_paths() {
        let lost = at(105_000, What::Peer { peer: 1 });
        let one = struck(Kind::Link(Fault::Silent), Some(0), None);
        let other = struck(Kind::Link(Fault::Carrier), Some(1), Some(1));
        assert!(is_false(0, &lost, &[one], 2));
        assert!(!is_false(0, &lost, &[one, other], 2));
        let killed = struck(Kind::Kill, None, Some(1));
        assert!(!is_false(0, &lost, &[killed], 2));
        assert!(is_false(
            2,
            &at(105_000, What::Peer { peer: 0 }),
            &[killed],
            2
        ));
    }

    #[test]
    fn what_harms_no_path_explains_nothing_but_may_hide_it_for_a_while() {
        let path = at(125_000, What::Path { peer: 1, link: 0 });
        let carrier = struck(Kind::Link(Fault::Carrier), Some(0), None);
        let mut blind = struck(Kind::Descriptors, None, Some(0));
        blind.end_ms = Some(124_000);
        assert!(is_false(0, &path, &[blind], 2));
        assert!(is_false(0, &path, &[carrier], 2));
        assert!(!is_false(0, &path, &[carrier, blind], 2));
    }
}
