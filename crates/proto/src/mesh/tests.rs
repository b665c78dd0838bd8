//! Who reaches whom, and by which ways.

use super::*;
use crate::segment::News;

const NOW: Time = Time::from_ms(1000);

fn name(node: usize) -> Name {
    Name::new(&format!("n{node}")).unwrap()
}

fn id(node: usize) -> NodeId {
    NodeId::of(&name(node))
}

/// Node `n` is known by this number at node 0.
fn peer(node: usize) -> PeerId {
    PeerId(node as u32)
}

fn reach(node: usize, version: u64, of: &[usize]) -> Reach {
    let mut nodes: Vec<NodeId> = of.iter().copied().map(id).collect();
    nodes.sort_unstable();
    Reach {
        node: id(node),
        version,
        links: 1,
        unwilling: false,
        all_but: false,
        switches: None,
        nodes: nodes.into(),
    }
}

/// Node 0 of some, with `links` to others, which have said nothing.
fn mesh_of_silent(nodes: usize, links: &[(usize, usize)]) -> Mesh {
    let mut mesh = Mesh::new(true, true, RelayConfig::default(), &name(0));
    (1..nodes).for_each(|node| mesh.add(NOW, peer(node), &name(node)));
    for (_, node) in links.iter().filter(|(from, _)| *from == 0) {
        mesh.set_near(NOW, peer(*node), Some(1472));
    }
    mesh
}

/// Node 0 of some, which reach each other as `links` says.
fn mesh(nodes: usize, links: &[(usize, usize)]) -> Mesh {
    let mut mesh = mesh_of_silent(nodes, links);
    let of = |node: usize| -> Vec<usize> {
        let there = links.iter().filter_map(|&(a, b)| match node {
            _ if a == node => Some(b),
            _ if b == node => Some(a),
            _ => None,
        });
        there.collect()
    };
    for node in 1..nodes {
        mesh.on_reach(NOW, peer(node), reach(node, 1, &of(node)));
    }
    mesh
}

fn relays(mesh: &Mesh, to: usize) -> Vec<Vec<u32>> {
    let ways = mesh.ways(NOW, peer(to), &[]);
    let of = |way: &Way| way.relays.iter().map(|peer| peer.0).collect();
    ways.iter().map(of).collect()
}

#[test]
fn two_ways_share_no_relay_and_the_shortest_is_first() {
    let both = mesh(5, &[(0, 1), (1, 4), (0, 2), (2, 3), (3, 4)]);
    assert_eq!(relays(&both, 4), [vec![1], vec![2, 3]]);
    let one = mesh(5, &[(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)]);
    assert_eq!(relays(&one, 4).len(), 1, "node 1 is on every way");
}

#[test]
fn a_way_has_three_relays_at_most() {
    let line: Vec<(usize, usize)> = (0..6).map(|node| (node, node + 1)).collect();
    let mesh = mesh(6, &line[..5]);
    assert_eq!(relays(&mesh, 4), [[1, 2, 3]]);
    assert!(relays(&mesh, 5).is_empty() && !mesh.has_way(NOW, peer(5)));
}

#[test]
fn both_ends_of_a_link_must_say_so() {
    let mut mesh = mesh(3, &[(0, 1), (1, 2)]);
    assert_eq!(relays(&mesh, 2), [[1]]);
    mesh.on_reach(NOW, peer(1), reach(2, 2, &[0]));
    assert!(relays(&mesh, 2).is_empty());
}

#[test]
fn who_refuses_is_not_asked_again_for_a_while() {
    let mut mesh = mesh(4, &[(0, 1), (1, 3), (0, 2), (2, 3)]);
    assert_eq!(relays(&mesh, 3).len(), 2);
    mesh.on_refused(NOW, id(1), id(3));
    assert_eq!(relays(&mesh, 3), [[2]]);
    let later = NOW + REFUSED_FOR;
    assert_eq!(mesh.ways(later, peer(3), &[]).len(), 2);
}

#[test]
fn who_is_unwilling_relays_nothing() {
    let mut mesh = mesh(3, &[(0, 1), (1, 2)]);
    let unwilling = true;
    let reach = Reach {
        unwilling,
        ..reach(1, 2, &[0, 2])
    };
    mesh.on_reach(NOW, peer(1), reach);
    assert!(relays(&mesh, 2).is_empty());
}

#[test]
fn what_is_older_changes_nothing_and_its_sender_is_told() {
    let mut mesh = mesh(3, &[(0, 1), (1, 2)]);
    assert!(!mesh.on_reach(NOW, peer(1), reach(1, 7, &[0, 2])));
    assert!(mesh.on_reach(NOW, peer(1), reach(1, 6, &[])));
    assert_eq!(relays(&mesh, 2), [[1]]);
    assert!(
        !mesh.on_reach(NOW, peer(2), reach(1, 7, &[])),
        "one version twice"
    );
    assert!(
        mesh.on_reach(NOW, peer(1), reach(1, 7, &[])),
        "it restarted"
    );
}

#[test]
fn a_node_that_restarted_wins_over_its_past() {
    // Also if that has made as many statements as the node since.
    for past in [1, 41] {
        let mut mesh = mesh(3, &[(0, 1), (1, 2)]);
        let mut at = NOW + START * 2;
        assert!(mesh.takes_tell(at, 1, 1));
        assert_eq!(mesh.own().unwrap().version, 1);
        mesh.on_reach(at, peer(1), reach(0, past, &[2]));
        at += TELL_EVERY * 2;
        assert!(mesh.takes_tell(at, 1, 1), "{past}");
        let own = mesh.own().unwrap();
        assert_eq!((own.version, own.reaches(id(1))), (past + 1, true));
    }
}

#[test]
fn news_goes_to_those_who_do_not_hear_it_themselves() {
    let mut mesh = mesh(4, &[(0, 1), (0, 2), (0, 3), (1, 2)]);
    mesh.news.clear();
    mesh.on_reach(NOW, peer(1), reach(1, 2, &[0, 2]));
    let before = reach(1, 1, &[0, 2]);
    assert_eq!(mesh.news, [(peer(1), peer(1), Some(before))]);
    let told = |node| mesh.is_news_to(peer(node), peer(1));
    assert!(!told(1) && !told(2) && told(3));
}

#[test]
fn whom_a_node_reaches_is_told_in_the_shorter_form() {
    for (near, all_but) in [(1, false), (99, true)] {
        let links: Vec<(usize, usize)> = (1..=near).map(|node| (0, node)).collect();
        let mut mesh = mesh(101, &links);
        assert!(mesh.takes_tell(NOW + START * 2, 1, 1));
        let own = mesh.own().unwrap();
        assert_eq!((own.all_but, own.nodes.len()), (all_but, 1));
        assert!((1..101).all(|node| own.reaches(id(node)) == (node <= near)));
    }
}

#[test]
fn where_nodes_know_others_than_their_peers_each_one_that_is_reached_is_named() {
    let mut mesh = Mesh::new(true, false, RelayConfig::default(), &name(0));
    for node in 1..10 {
        mesh.add(NOW, peer(node), &name(node));
        mesh.set_near(NOW, peer(node), Some(1472));
    }
    // Nobody expects anything: it is told who asks for one of them.
    assert!(!mesh.takes_tell(NOW + START * 2, 1, 1));
    assert!(mesh.on_question(NOW + START * 2, peer(1)));
    assert!(mesh.takes_tell(NOW + START * 3, 1, 1));
    let own = mesh.own().unwrap();
    assert!(!own.all_but && own.reaches(id(9)) && !own.reaches(id(10)));
    // Nobody else hears of it.
    assert!(mesh.listeners().eq([peer(1)]));
}

#[test]
fn who_asks_after_others_is_told_what_they_were_told() {
    let mut mesh = Mesh::new(true, false, RelayConfig::default(), &name(0));
    for node in 1..4 {
        mesh.add(NOW, peer(node), &name(node));
        mesh.set_near(NOW, peer(node), Some(1472));
    }
    let later = |seconds: u32| NOW + START * seconds;
    assert!(mesh.on_question(later(2), peer(1)));
    assert!(mesh.takes_tell(later(3), 1, 1));
    mesh.on_reach(later(3), peer(1), reach(1, 1, &[0, 3]));
    mesh.risen.clear();
    // Nothing has changed, so nobody is told anything new.
    assert!(mesh.on_question(later(4), peer(2)));
    assert!(!mesh.takes_tell(later(5), 1, 1));
    assert_eq!(mesh.risen, [peer(2)]);
    assert!(mesh.listens(peer(2)) && mesh.all_news_to(peer(2)).eq([News::Reach(peer(1))]));
    // Who asks again has been told.
    mesh.risen.clear();
    assert!(mesh.on_question(later(6), peer(2)));
    assert!(mesh.risen.is_empty());
}

#[test]
fn a_few_at_a_time_are_asked_for_a_way() {
    let mut mesh = Mesh::new(true, false, RelayConfig::default(), &name(0));
    for node in 1..10 {
        mesh.add(NOW, peer(node), &name(node));
    }
    for node in 1..9 {
        mesh.set_near(NOW, peer(node), Some(1472));
    }
    assert!(mesh.seek(peer(9), &name(9)) && mesh.asks_for(peer(9), name(9)));
    // Who becomes a neighbour later is asked as well, until somebody has said whom the node reaches.
    assert!(mesh.all_news_to(peer(1)).eq([News::Sought(peer(9))]));
    assert_eq!(mesh.name_asked_for(peer(9)), Some(name(9)));
    let mut asked: Vec<PeerId> = Vec::new();
    for _ in 0..2 {
        let some = mesh.whom_to_ask(peer(9));
        assert_eq!(some.len(), 4);
        asked.extend(some);
    }
    asked.sort_unstable();
    assert!(asked.into_iter().eq((1..9).map(peer)), "each one in turn");
    mesh.on_reach(NOW, peer(1), reach(9, 1, &[1]));
    assert!(!mesh.asks_for(peer(9), name(9)) && mesh.name_asked_for(peer(9)).is_none());
    // Where all are alike, they say by themselves what is not expected.
    assert!(!mesh_of_silent(10, &[(0, 1)]).seek(peer(9), &name(9)));
}

#[test]
fn nobody_says_what_all_expect() {
    let all: Vec<(usize, usize)> = (1..5).map(|node| (0, node)).collect();
    let mut mesh = mesh_of_silent(5, &all);
    let at = NOW + START * 2;
    assert!(!mesh.takes_tell(at, 3, 3) && mesh.own().is_none());
    mesh.set_near(at, peer(4), None);
    assert_eq!(
        relays(&mesh, 4).len(),
        2,
        "the others reach it, as expected"
    );
    assert!(mesh.takes_tell(at + TELL_AFTER, 3, 3));
    assert!(!mesh.own().unwrap().reaches(id(4)));
    // From then on it says what changes, and that alone.
    let later = at + START;
    mesh.set_near(later, peer(4), Some(1472));
    mesh.set_near(later, peer(3), Some(0));
    assert!(mesh.takes_tell(later + TELL_GAIN_AFTER, 3, 3));
    assert_eq!(mesh.own().unwrap().nodes.len(), 0);
    mesh.set_links(later + START);
    assert!(!mesh.takes_tell(later + START * 2, 3, 3));
    mesh.set_links(later + START * 2);
    assert!(mesh.takes_tell(later + START * 3, 1, 3));
}

#[test]
fn who_says_nothing_is_taken_to_keep_the_bundles_that_are_planned() {
    // Two groups of three; the nodes 1, 2 and 3, 4 keep bundles with each other.
    let few = Few::in_groups([0, 0, 0, 1, 1, 1].into_iter());
    let peers: Vec<PeerId> = (1..6).map(peer).collect();
    let here: Vec<(usize, usize)> = few.kept_of(0).into_iter().map(|to| (0, to)).collect();
    let mut mesh = mesh_of_silent(6, &here);
    for node in 1..6 {
        mesh.set_kept(NOW, peer(node), few.keeps(0, node));
    }
    mesh.set_plan(NOW, Some(few.clone()), &peers, 0);
    assert!(!mesh.takes_tell(NOW + START * 2, 1, 1));
    for to in (1..6).filter(|to| !few.keeps(0, *to)) {
        let ways = mesh.ways(NOW, peer(to), &[]);
        assert!(!ways.is_empty(), "no way to {to}");
        for way in ways {
            let nodes = way
                .relays
                .iter()
                .chain([&way.to])
                .map(|peer| peer.0 as usize);
            let nodes: Vec<usize> = [0].into_iter().chain(nodes).collect();
            assert!(nodes.windows(2).all(|pair| few.keeps(pair[0], pair[1])));
        }
    }
    // A node says that it reaches nobody: no way leads over it.
    let over = mesh.ways(NOW, peer(5), &[])[0].relays[0];
    mesh.on_reach(NOW, over, reach(over.0 as usize, 1, &[]));
    let ways = mesh.ways(NOW, peer(5), &[]);
    assert!(ways.iter().all(|way| !way.relays.contains(&over)));
}

#[test]
fn who_has_restarted_is_told_what_it_said_before() {
    let mut mesh = mesh(3, &[(0, 1), (0, 2)]);
    let told = |mesh: &Mesh| {
        mesh.all_news_to(peer(1))
            .any(|news| news == News::Reach(peer(1)))
    };
    assert!(told(&mesh));
    let silent = mesh_of_silent(3, &[(0, 1), (0, 2)]);
    assert!(!told(&silent));
    // What it says still itself changes nothing.
    mesh.set_config(
        NOW,
        RelayConfig {
            forwards: false,
            ..RelayConfig::default()
        },
    );
    assert!(mesh.takes_tell(NOW + START * 2, 1, 1));
    let own = mesh.own().unwrap().clone();
    mesh.on_reach(NOW + START * 2, peer(1), own);
    assert!(mesh.next_timeout().is_none_or(|at| at < NOW + START));
}

#[test]
fn who_is_forgotten_is_not_said_to_be_reached() {
    let links: Vec<(usize, usize)> = (1..=9).map(|node| (0, node)).collect();
    let mut mesh = mesh(10, &links);
    mesh.remove(NOW, peer(9));
    let at = NOW + START * 2;
    assert!(mesh.takes_tell(at, 1, 1));
    let own = mesh.own().unwrap();
    assert!(own.all_but && own.reaches(id(8)) && !own.reaches(id(9)));
    // It comes back.
    mesh.add(at, peer(9), &name(9));
    mesh.set_near(at, peer(9), Some(1472));
    assert!(mesh.takes_tell(at + START, 1, 1));
    assert!(mesh.own().unwrap().reaches(id(9)));
}

#[test]
fn a_thousand_nodes_are_known_in_a_mebibyte() {
    let mut mesh = Mesh::new(true, true, RelayConfig::default(), &name(0));
    (1..1024).for_each(|node| mesh.add(NOW, peer(node), &name(node)));
    for node in 1..1024 {
        let of: Vec<usize> = (0..REACH_NODES_MAX).collect();
        mesh.on_reach(NOW, peer(node), reach(node, 1, &of));
    }
    mesh.news.clear();
    assert!(mesh.memory_bytes() <= 1 << 20, "{}", mesh.memory_bytes());
}

#[test]
fn what_is_relayed_for_others_keeps_to_its_limit() {
    let config = RelayConfig {
        mbps_max: Some(80),
        ..RelayConfig::default()
    };
    let mut mesh = Mesh::new(true, true, config, &name(0));
    let mut passed = 0;
    for us in 0..1_000_000 {
        let now = NOW + Duration::from_micros(us);
        passed += usize::from(mesh.may_forward(now, 1000));
    }
    assert!((10_000..10_100).contains(&passed), "{passed}");
}

fn on_switch(survey: u64, switch: u16) -> Switches {
    let mut of = [None; crate::limits::LINKS_MAX];
    of[0] = Some(switch);
    Switches { survey, of }
}

#[test]
fn who_restarts_is_on_the_switch_that_it_was_on() {
    let mut mesh = mesh(3, &[(0, 1), (1, 2)]);
    assert!(!mesh.takes_moved());
    let past = |switches| Reach {
        switches: Some(switches),
        ..reach(0, 9, &[1])
    };
    mesh.on_reach(NOW, peer(1), past(on_switch(1, 4)));
    assert_eq!(mesh.switches(None), Some(&on_switch(1, 4)));
    assert!(mesh.takes_moved() && !mesh.takes_moved());
    // What it knows itself counts for more.
    mesh.on_reach(NOW, peer(1), past(on_switch(1, 5)));
    assert_eq!(mesh.switches(None), Some(&on_switch(1, 4)));
}

#[test]
fn who_shares_a_switch_with_either_end_relays_first() {
    for (beside, other) in [(1, 2), (2, 1)] {
        let mut mesh = mesh(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        mesh.set_switches(NOW, on_switch(1, 7));
        for (node, switch) in [(beside, 7), (other, 8), (3, 9)] {
            let switches = Some(on_switch(1, switch));
            let of: &[usize] = if node == 3 { &[1, 2] } else { &[0, 3] };
            let reach = Reach {
                switches,
                ..reach(node, 2, of)
            };
            mesh.on_reach(NOW, peer(node), reach);
        }
        assert!(mesh.takes_moved());
        let order = [beside, other].map(|node| vec![node as u32]);
        assert_eq!(relays(&mesh, 3), order);
    }
}
