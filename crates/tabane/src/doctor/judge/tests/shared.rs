//! Who is granted a share gets less than the links carry, and nothing is wrong.

use super::*;

/// On the two paths so much is granted, and so much sent.
fn granted(facts: &mut Facts, granted: [Option<f64>; 2], sent: [f64; 2]) {
    both(facts, |r| {
        let paths = r.peers[0].paths.iter_mut().zip(granted).zip(sent);
        for ((path, granted), sent) in paths {
            (path.granted_mbps, path.tx_rate_mbps) = (granted, sent);
        }
    });
    carry(facts, 0, sent[0]);
    carry(facts, 1, sent[1]);
}

#[test]
fn a_share_is_no_fault() {
    let found = with(|f| granted(f, [Some(118.0), Some(117.0)], [116.0, 115.0]));
    let finding = only(&found, Cause::SharedReceiver, Severity::Note);
    assert_eq!((&finding.links[..], finding.cost_share), (&[0, 1][..], 0.0));
    assert_eq!(finding.peers, ["n1"]);
    assert!(
        finding.what.contains("Several nodes send to n1"),
        "{finding:#?}"
    );
    assert!(finding.evidence[1].contains("117 Mb/s"), "{finding:#?}");
}

#[test]
fn a_grant_that_is_not_used_limits_nobody() {
    assert_eq!(with(|f| granted(f, [Some(118.0); 2], [20.0; 2])), []);
    assert_eq!(with(|f| granted(f, [None; 2], [116.0; 2])), []);
}

#[test]
fn a_shared_link_is_not_called_slow() {
    let found = with(|facts| {
        granted(facts, [None, Some(94.0)], [900.0, 92.0]);
        both(facts, |r| r.peers[0].paths[1].capacity_mbps = Some(94.0));
    });
    let finding = only(&found, Cause::SharedReceiver, Severity::Note);
    assert_eq!(finding.links, [1]);
}

#[test]
fn nor_is_a_program_that_waits_for_its_share() {
    let found = with(|facts| {
        granted(facts, [Some(118.0); 2], [116.0; 2]);
        facts.flows = vec![window_limited()];
    });
    only(&found, Cause::SharedReceiver, Severity::Note);
}
