use super::*;

/// What a hop costs, and what two nodes of one switch see, in ns.
const HOP_NS: u64 = 18_000;
const BASE_NS: u64 = 60_000;

/// Round trips without any noise on a tree: for each switch the one it hangs on, for each node its switch.
struct Wires {
    parents: Vec<usize>,
    switch_of: Vec<usize>,
}

impl Wires {
    fn hops(&self, a: usize, b: usize) -> u64 {
        let up = |mut at: usize| {
            let mut way = vec![at];
            while at != 0 {
                at = self.parents[at];
                way.push(at);
            }
            way
        };
        let (a, b) = (up(self.switch_of[a]), up(self.switch_of[b]));
        let shared = a
            .iter()
            .rev()
            .zip(b.iter().rev())
            .take_while(|(x, y)| x == y);
        let shared = shared.count();
        (a.len() + b.len() - 2 * shared) as u64
    }

    fn survey(&self) -> Survey {
        let mut survey = Survey::new(self.switch_of.len(), Config::for_rate(1000));
        self.finish(&mut survey, |_, ns| Some(ns));
        survey
    }

    fn finish(&self, survey: &mut Survey, mut tell: impl FnMut(Probe, u64) -> Option<u64>) -> u32 {
        let mut rounds = 0;
        loop {
            let round = survey.next_round();
            let mut nodes: Vec<usize> = round.iter().flat_map(|p| [p.from, p.to]).collect();
            nodes.sort_unstable();
            assert!(
                nodes.windows(2).all(|n| n[0] != n[1]),
                "a node twice in {round:?}"
            );
            if round.is_empty() {
                return rounds;
            }
            rounds += 1;
            for probe in round {
                let ns = BASE_NS + HOP_NS * self.hops(probe.from, probe.to);
                survey.record(probe, tell(probe, ns));
            }
        }
    }
}

fn groups(map: &Map) -> Vec<Vec<usize>> {
    let with_nodes = map.switches.iter().filter(|s| !s.nodes.is_empty());
    let mut groups: Vec<Vec<usize>> = with_nodes.map(|s| s.nodes.clone()).collect();
    groups.sort();
    groups
}

/// Three switches of four nodes, under one without nodes.
fn star() -> Wires {
    Wires {
        parents: vec![0, 0, 0, 0],
        switch_of: (0..12).map(|n| 1 + n % 3).collect(),
    }
}

#[test]
fn a_switch_without_nodes_is_found_between_those_with() {
    let map = star().survey().map();
    let expected: Vec<Vec<usize>> = (0..3)
        .map(|s| (0..4).map(|n| s + 3 * n).collect())
        .collect();
    assert_eq!(groups(&map), expected);
    assert_eq!(map.switches.len(), 4);
    let bare = &map.switches[3];
    assert!(bare.nodes.is_empty());
    assert_eq!(map.trunks.len(), 3);
    for trunk in &map.trunks {
        assert_eq!((trunk.between.1, trunk.hops), (bare.id, 1));
    }
    assert!(map.switches.iter().all(|s| s.confidence > 0.95), "{map:?}");
    assert!(map.ambiguous.is_empty(), "{map:?}");
    assert!(map.hop_ns.abs_diff(HOP_NS) < 500, "{}", map.hop_ns);
}

#[test]
fn a_long_trunk_has_its_hops_and_all_on_one_switch_are_one_group() {
    let far = Wires {
        parents: vec![0, 0, 1, 2],
        switch_of: (0..10).map(|n| 3 * (n / 5)).collect(),
    };
    let map = far.survey().map();
    assert_eq!(groups(&map), [vec![0, 1, 2, 3, 4], vec![5, 6, 7, 8, 9]]);
    let hops: Vec<u32> = map.trunks.iter().map(|t| t.hops).collect();
    assert_eq!(hops, [3]);

    let one = Wires {
        parents: vec![0],
        switch_of: vec![0; 9],
    };
    let map = one.survey().map();
    assert_eq!(groups(&map), [(0..9).collect::<Vec<_>>()]);
    assert!(map.trunks.is_empty());
}

#[test]
fn ids_stay_while_the_groups_stay() {
    let mut wires = star();
    let before = wires.survey().map();
    // A node moves to another switch, so all is found in another order.
    wires.switch_of.reverse();
    wires.switch_of[0] = 1;
    wires.switch_of[11] = 3;
    let mut after = wires.survey().map();
    after.keep_ids(&before);
    let mut ids: Vec<u32> = after.switches.iter().map(|s| s.id).collect();
    for switch in &after.switches {
        let most = |old: &&Switch| {
            let both = switch.nodes.iter().filter(|n| old.nodes.contains(n));
            both.count() * 2 > switch.nodes.len()
        };
        if let Some(old) = before.switches.iter().find(most) {
            assert_eq!(switch.id, old.id, "{switch:?}");
        }
    }
    let bare = |map: &Map| {
        map.switches
            .iter()
            .find(|s| s.nodes.is_empty())
            .map(|s| s.id)
    };
    assert_eq!(bare(&after), bare(&before));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), after.switches.len());
    let known = |id: u32| ids.contains(&id);
    assert!(
        after
            .trunks
            .iter()
            .all(|t| known(t.between.0) && known(t.between.1))
    );
}

#[test]
fn a_node_that_does_not_answer_is_on_no_switch_and_said_to_be_so() {
    let wires = star();
    let mut survey = Survey::new(12, Config::for_rate(1000));
    wires.finish(&mut survey, |probe, ns| {
        let is_silent = probe.from == 4 || probe.to == 4;
        (!is_silent).then_some(ns)
    });
    let map = survey.map();
    assert!(
        map.switches.iter().all(|s| !s.nodes.contains(&4)),
        "{map:?}"
    );
    let named = map.ambiguous.iter().filter(|a| a.nodes == [4]);
    assert_eq!(named.count(), 1, "{map:?}");
    assert_eq!(groups(&map).iter().map(Vec::len).sum::<usize>(), 11);
}

#[test]
fn what_makes_no_sense_is_survived_and_nothing_is_sure_of_it() {
    let wires = star();
    let says: [fn(Probe, u64) -> Option<u64>; 5] = [
        |_, _| None,
        |_, _| Some(0),
        |_, _| Some(u64::MAX),
        |p, _| Some([0, u64::MAX, 1, 1 << 40][(p.from * 7 + p.to) % 4]),
        |p, ns| (p.from % 2 == 0).then_some(ns << (p.to % 9)),
    ];
    for (nth, say) in says.into_iter().enumerate() {
        let mut survey = Survey::new(12, Config::for_rate(1000));
        let rounds = wires.finish(&mut survey, say);
        assert!(rounds <= Config::for_rate(1000).rounds_max);
        let map = survey.map();
        // All alike is one switch; otherwise nobody can say.
        if nth != 1 && nth != 2 {
            let sure = map.switches.iter().filter(|s| s.confidence >= 0.95);
            assert_eq!(sure.count(), 0, "{nth}: {map:?}");
        }
    }
}

#[test]
fn no_nodes_too_many_nodes_and_unknown_pairs_are_no_trouble() {
    for nodes in [0, 1] {
        let mut survey = Survey::new(nodes, Config::for_rate(0));
        assert!(survey.next_round().is_empty());
        survey.record(Probe { from: 0, to: 1 }, Some(5));
        assert!(survey.map().trunks.is_empty());
    }
    let mut survey = Survey::new(3, Config::for_rate(1000));
    for (from, to) in [(0, 0), (0, 3), (9, 1), (usize::MAX, usize::MAX)] {
        survey.record(Probe { from, to }, Some(5));
    }
    assert!(survey.map().switches.is_empty());
    let two = Wires {
        parents: vec![0],
        switch_of: vec![0; 2],
    };
    assert!(two.survey().map().trunks.is_empty());
    let limits = Config {
        samples: 0,
        hop_ns: (0, 0),
        rounds_max: 3,
        measurements_max: 0,
        crossing_max: 0,
    };
    assert!(Survey::new(NODES_MAX + 9, limits).next_round().is_empty());
}
