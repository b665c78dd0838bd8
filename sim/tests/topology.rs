//! From round trips alone: which nodes share a switch, how the switches hang together, and what nobody can know.

use tabane_sim::topology::{Liar, Model, Report, SURE, Shape, Surveyed, judge, survey};

fn report(shape: Shape, model: &Model, trees: u64) -> Report {
    let report = Report::of(shape, model, 0..trees, 2);
    println!("{shape:?}, {model:?}: {report}");
    assert_eq!(report.clashes, 0);
    assert!(
        report.sure_and_wrong.is_empty(),
        "{:?}",
        report.sure_and_wrong
    );
    // What the survey may cost.
    assert!(report.probes_mean <= 1_500.0 && report.probes_most <= 4_000);
    report
}

#[test]
fn a_usual_network_is_found_as_it_is() {
    let model = Model::default();
    for (shape, trees) in [
        (Shape::Paper, 3),
        (Shape::PaperFlat, 3),
        (Shape::Random(64), 12),
        (Shape::Random(256), 2),
    ] {
        let report = report(shape, &model, trees);
        assert_eq!(report.exact, report.trees, "{shape:?}");
        assert_eq!(report.doubtful, 0, "{shape:?}");
        assert!(report.seconds <= 5.0);
        assert!(
            report.trunk_share < 0.15,
            "{shape:?}: {}",
            report.trunk_share
        );
    }
}

#[test]
fn what_cannot_be_told_is_not_told() {
    let usual = Model::default();
    for model in [
        Model {
            jitter_us: 30.0,
            ..usual
        },
        Model { load: 0.5, ..usual },
        Model {
            nic_us: 10.0,
            ..usual
        },
        Model {
            trunk_mbps: 10_000,
            ..usual
        },
    ] {
        report(Shape::Random(64), &model, 4);
    }
}

#[test]
fn a_node_that_lies_misleads_nobody_about_the_others() {
    for liar in [Liar::Anything, Liar::Low, Liar::Late, Liar::Silent] {
        let model = Model {
            liar: Some(liar),
            ..Model::default()
        };
        let report = report(Shape::Random(64), &model, 4);
        // At most the liar itself is where it is not.
        assert!(report.right + report.trees >= report.nodes, "{liar:?}");
    }
}

fn surveyed() -> Surveyed {
    survey(Shape::Paper, &Model::default(), 7)
}

/// What the judge says is wrong of a map that was changed so.
fn wrong(change: impl Fn(&mut Surveyed)) -> usize {
    let mut surveyed = surveyed();
    change(&mut surveyed);
    let verdict = judge(&surveyed);
    assert!(!verdict.is_exact);
    verdict.sure_and_wrong.len()
}

#[test]
fn the_judge_sees_what_is_wrong() {
    let right = judge(&surveyed());
    assert!(right.is_exact && right.sure_and_wrong.is_empty() && right.sure == right.said);

    let moved = wrong(|s| {
        let node = s.map.switches[0].nodes.remove(0);
        s.map.switches[1].nodes.push(node);
        s.map.switches[1].nodes.sort_unstable();
    });
    assert!(moved >= 2, "two switches and their trunks: {moved}");
    let longer = wrong(|s| s.map.trunks[0].hops += 1);
    assert_eq!(longer, 1);
    let unsure = wrong(|s| {
        s.map.trunks[0].hops += 1;
        s.map.trunks[0].confidence = SURE - 0.01;
    });
    assert_eq!(unsure, 0, "it was not said to be sure");
    let unsaid = wrong(|s| s.map.switches[0].nodes.clear());
    assert_eq!(unsaid, 0, "what is not said is not wrong");
}
