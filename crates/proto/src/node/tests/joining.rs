//! Nodes that join a cluster whose files do not name them.

use std::collections::BTreeSet;

use super::*;
use crate::Joining;
use crate::wire::Verdict;

const FORGET_AFTER: Duration = Duration::from_secs(60);

/// Nodes of which each knows nothing but an address of node 0.
struct Town {
    now: Time,
    nodes: Vec<Option<Node>>,
    events: Vec<Vec<Event>>,
    /// How many were started: each has other random numbers.
    started: u8,
    /// What goes between these is lost.
    cut: BTreeSet<(usize, usize)>,
}

fn joining(node: usize, incarnation: u64) -> Joining {
    Joining {
        admits: true,
        count_max: 100,
        incarnation,
        inside: Some(([10, 99, 0, node as u8 + 1].into(), 24)),
        needs_key: false,
        forget_after: FORGET_AFTER,
    }
}

fn joins(node: usize, incarnation: u64) -> NodeConfig {
    NodeConfig {
        features: FEATURE_RELAYS,
        guests: Some(Guests::Joining(joining(node, incarnation))),
        ..config(node, 7, WireMode::Encrypted)
    }
}

impl Town {
    fn new(count: usize) -> Town {
        let mut town = Town {
            now: Time::from_ms(1000),
            nodes: Vec::new(),
            events: Vec::new(),
            started: 0,
            cut: BTreeSet::new(),
        };
        for node in 0..count {
            town.start(node, joins(node, 1));
        }
        town
    }

    /// Starts a node, anew if it ran, which asks node 0.
    fn start(&mut self, index: usize, config: NodeConfig) {
        self.started += 1;
        let mut node = Node::new(self.now, config, [self.started; 32]).unwrap();
        node.set_seeds(self.now, &[(LinkId(0), address(0, 0))]);
        self.nodes
            .resize_with(self.nodes.len().max(index + 1), || None);
        self.events.resize_with(self.nodes.len(), Vec::new);
        self.nodes[index] = Some(node);
        self.events[index].clear();
    }

    fn deliver(&mut self) {
        let mut buffer = vec![0; 65_535];
        for _ in 0..1000 {
            let mut under_way = Vec::new();
            for (index, node) in self.nodes.iter_mut().enumerate() {
                let Some(node) = node else { continue };
                while let Some(t) = node.poll_transmit(self.now, &mut buffer) {
                    for datagram in buffer[..t.bytes].chunks(t.segment_bytes) {
                        under_way.push((index, t.link, t.to, datagram.to_vec()));
                    }
                }
                while let Some(event) = node.poll_event() {
                    self.events[index].push(event);
                }
            }
            if under_way.is_empty() {
                return;
            }
            for (from, link, to, mut datagram) in under_way {
                let there = (0..self.nodes.len()).find(|node| address(*node, link.0) == to);
                let Some(there) =
                    there.filter(|there| !self.cut.contains(&(from.min(*there), from.max(*there))))
                else {
                    continue;
                };
                if let Some(node) = &mut self.nodes[there] {
                    let from = address(from, link.0);
                    node.handle_datagram(self.now, link, from, &mut datagram);
                }
            }
        }
        panic!("they never end");
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.deliver();
            let running = self.nodes.iter_mut().flatten();
            let next = running.filter_map(Node::poll_timeout).min();
            self.now = next
                .unwrap_or(end)
                .clamp(self.now + Duration::from_micros(1), end);
            for node in self.nodes.iter_mut().flatten() {
                node.handle_timeout(self.now);
            }
            if self.now == end {
                return self.deliver();
            }
        }
    }

    fn node(&mut self, index: usize) -> &mut Node {
        self.nodes[index].as_mut().unwrap()
    }

    /// Whom a node is connected with.
    fn connected(&mut self, index: usize) -> Vec<usize> {
        let node = self.node(index);
        let all = (0..20).filter(|other| {
            let peer = node.peer_named(&format!("n{other}"));
            peer.is_some_and(|peer| node.is_connected(peer))
        });
        all.collect()
    }

    fn assert_all_know_all(&mut self) {
        let there: Vec<usize> = (0..self.nodes.len())
            .filter(|n| self.nodes[*n].is_some())
            .collect();
        for &node in &there {
            let others: Vec<usize> = there.iter().copied().filter(|n| *n != node).collect();
            assert_eq!(self.connected(node), others, "of node {node}");
        }
    }

    fn parted(&self, index: usize) -> Vec<(String, PartedWhy)> {
        let parted = self.events[index].iter().filter_map(|event| match event {
            Event::Parted { name, why, .. } => Some((name.to_string(), *why)),
            _ => None,
        });
        parted.collect()
    }
}

#[test]
fn who_asks_one_node_is_known_to_all() {
    let mut town = Town::new(9);
    town.run(Duration::from_secs(2));
    town.assert_all_know_all();
    let peer = town.node(8).peer_named("n3").unwrap();
    let member = town.node(8).member(peer).unwrap().clone();
    assert_eq!(
        member.addresses[..2],
        [Some(address(3, 0)), Some(address(3, 1))]
    );
    assert_eq!(member.inside, joining(3, 1).inside);
    let paths = town.node(8).peer_stats(peer).unwrap().paths;
    assert_eq!(paths.len(), 2, "one for each link that it says it has");
    // One more, later.
    town.start(9, joins(9, 1));
    town.run(Duration::from_secs(2));
    town.assert_all_know_all();
}

#[test]
fn who_shares_no_link_with_others_is_reached_through_them() {
    let mut town = Town::new(3);
    town.cut.insert((1, 2));
    town.run(Duration::from_secs(2));
    town.assert_all_know_all();
}

/// Others may take it for granted that all hear a node that joins from itself, until that states whom it reaches. They do
/// compare what they know, but with any neighbour: perhaps with one that has just died.
#[test]
fn who_joins_out_of_reach_of_some_is_known_to_them_soon() {
    for seed in 0..10 {
        let mut town = Town::new(9);
        town.started = 10 * seed;
        town.run(Duration::from_millis(1100));
        town.nodes[2..].iter_mut().for_each(|node| *node = None);
        town.cut.insert((1, 9));
        town.start(9, joins(9, 1));
        town.run(Duration::from_secs(2));
        let known = |town: &mut Town, node| town.node(node).peer_named("n9").is_some();
        assert!(known(&mut town, 0) && known(&mut town, 1), "seed {seed}");
    }
}

#[test]
fn who_leaves_is_forgotten_at_once() {
    let mut town = Town::new(4);
    town.run(Duration::from_secs(2));
    let now = town.now;
    town.node(2).leave();
    town.run(Duration::from_millis(100));
    town.node(2).close(now);
    town.run(Duration::from_millis(1));
    town.nodes[2] = None;
    for node in [0, 1, 3] {
        assert_eq!(town.parted(node), [("n2".into(), PartedWhy::Left)]);
        assert_eq!(town.node(node).peer_named("n2"), None);
    }
    town.run(Duration::from_secs(5));
    town.assert_all_know_all();
    for node in [0, 1, 3] {
        assert_eq!(town.parted(node).len(), 1, "what is past does not return");
    }
    // It may come back, even with a clock that went back.
    town.start(2, joins(2, 1));
    town.run(Duration::from_secs(3));
    town.assert_all_know_all();
}

#[test]
fn who_is_silent_for_long_is_forgotten() {
    let mut town = Town::new(4);
    town.run(Duration::from_secs(2));
    town.nodes[3] = None;
    town.run(FORGET_AFTER - Duration::from_secs(5));
    assert!(town.node(1).peer_named("n3").is_some());
    town.run(Duration::from_secs(20));
    for node in 0..3 {
        assert_eq!(town.parted(node), [("n3".into(), PartedWhy::Silent)]);
        assert_eq!(town.node(node).peer_named("n3"), None);
    }
    town.start(3, joins(3, 2));
    town.run(Duration::from_secs(11));
    town.assert_all_know_all();
}

#[test]
fn a_node_that_restarts_elsewhere_wins_over_its_past() {
    let mut town = Town::new(4);
    town.run(Duration::from_secs(2));
    town.nodes[3] = None;
    town.run(Duration::from_secs(5));
    let mut moved = joins(3, 2);
    moved.links.remove(1);
    town.start(3, moved);
    town.run(Duration::from_secs(3));
    town.assert_all_know_all();
    for node in 0..3 {
        let peer = town.node(node).peer_named("n3").unwrap();
        let member = town.node(node).member(peer).unwrap();
        assert_eq!(member.addresses[..2], [Some(address(3, 0)), None]);
    }
}

/// Whoever still knows it takes it for one that knows them.
#[test]
fn a_node_that_begins_anew_knows_all_at_once() {
    let mut town = Town::new(6);
    town.run(Duration::from_secs(3));
    town.assert_all_know_all();
    town.start(5, joins(5, 2));
    town.run(Duration::from_millis(200));
    town.assert_all_know_all();
}

#[test]
fn two_parts_become_one_again() {
    let mut town = Town::new(4);
    town.run(Duration::from_secs(2));
    let between = [(0, 2), (0, 3), (1, 2), (1, 3)];
    town.cut.extend(between);
    town.run(Duration::from_secs(20));
    assert_eq!(town.connected(2), [3]);
    // Who comes meanwhile comes to one part.
    town.cut.extend([(2, 4), (3, 4)]);
    town.start(4, joins(4, 1));
    town.run(Duration::from_secs(3));
    assert_eq!(town.connected(4), [0, 1]);
    town.cut.clear();
    town.run(Duration::from_secs(20));
    town.assert_all_know_all();
}

fn not_admitted(town: &Town, index: usize) -> Vec<(String, Verdict)> {
    let events = town.events[index].iter().filter_map(|event| match event {
        Event::NotAdmitted { by, verdict, .. } => Some((by.to_string(), *verdict)),
        _ => None,
    });
    events.collect()
}

fn refused(town: &Town, index: usize) -> Option<&Refusal> {
    town.events[index].iter().find_map(|event| match event {
        Event::Refused { why, .. } => Some(why),
        _ => None,
    })
}

#[test]
fn a_name_or_an_address_that_is_taken_is_refused_and_both_say_so() {
    let mut town = Town::new(3);
    town.run(Duration::from_secs(2));
    let twin = NodeConfig {
        name: "n1".into(),
        ..joins(5, 9)
    };
    town.start(5, twin);
    let other_name = NodeConfig {
        name: "x".into(),
        ..joins(2, 9)
    };
    town.run(Duration::from_secs(3));
    assert_eq!(not_admitted(&town, 5), [("n0".into(), Verdict::NameTaken)]);
    let other = address(1, 0);
    let why = Refusal::DuplicateName {
        name: "n1".into(),
        other,
    };
    assert_eq!(refused(&town, 0), Some(&why));
    town.nodes[5] = None;
    town.run(Duration::from_secs(1));
    // Another one on the virtual network under an address that is in use.
    let inside = NodeConfig {
        guests: Some(Guests::Joining(joining(1, 9))),
        ..joins(6, 9)
    };
    town.events[0].clear();
    town.start(6, inside);
    town.run(Duration::from_secs(3));
    let (name, holder) = ("n6".into(), "n1".into());
    let why = Refusal::DuplicateAddress { name, holder };
    assert_eq!(refused(&town, 0), Some(&why));
    let told = |event: &Event| {
        matches!(
            event,
            Event::PeerDown {
                reason: DownReason::Closed { code: 3 },
                ..
            }
        )
    };
    assert!(town.events[6].iter().any(told), "{:?}", town.events[6]);
    town.nodes[6] = None;
    // A machine that got another name may come back when nobody is there under the former one.
    town.nodes[2] = None;
    town.run(Duration::from_secs(15));
    town.start(2, other_name);
    town.run(Duration::from_secs(3));
    assert!(town.node(0).peer_named("x").is_some());
}

#[test]
fn who_has_its_nodes_from_the_file_alone_says_so() {
    let mut town = Town::new(0);
    let file_only = Joining {
        admits: false,
        ..joining(0, 1)
    };
    let host = NodeConfig {
        guests: Some(Guests::Joining(file_only)),
        ..joins(0, 1)
    };
    town.start(0, host);
    town.start(1, joins(1, 1));
    town.run(Duration::from_secs(3));
    assert_eq!(not_admitted(&town, 1), [("n0".into(), Verdict::FileOnly)]);
    assert_eq!(refused(&town, 0), Some(&Refusal::UnknownNode("n1".into())));
    assert_eq!(town.node(0).peer_named("n1"), None);
}

#[test]
fn where_nodes_have_keys_only_who_has_one_joins() {
    let mut town = Town::new(0);
    let with_keys = |node: usize, private: Option<[u8; 32]>| NodeConfig {
        private,
        public: private.as_ref().map(crate::crypto::public_key),
        guests: Some(Guests::Joining(Joining {
            needs_key: true,
            ..joining(node, 1)
        })),
        ..joins(node, 1)
    };
    for node in 0..3 {
        town.start(node, with_keys(node, Some([node as u8 + 1; 32])));
    }
    town.start(3, with_keys(3, None));
    town.run(Duration::from_secs(3));
    assert_eq!(not_admitted(&town, 3), [("n0".into(), Verdict::NeedsKey)]);
    town.nodes[3] = None;
    town.assert_all_know_all();
    // Its name is its own from then on.
    town.nodes[2] = None;
    town.run(Duration::from_secs(20));
    town.start(2, with_keys(2, Some([9; 32])));
    town.run(Duration::from_secs(3));
    assert_eq!(town.connected(0), [1]);
}

#[test]
fn as_many_join_as_may() {
    let mut town = Town::new(0);
    let few = Joining {
        count_max: 2,
        ..joining(0, 1)
    };
    let host = NodeConfig {
        guests: Some(Guests::Joining(few)),
        ..joins(0, 1)
    };
    town.start(0, host);
    for node in 1..4 {
        town.start(node, joins(node, 1));
        town.run(Duration::from_secs(1));
    }
    assert_eq!(town.connected(0), [1, 2]);
    assert_eq!(not_admitted(&town, 3), [("n0".into(), Verdict::Full)]);
}

#[test]
fn who_calls_and_never_says_who_it_is_is_forgotten() {
    let mut town = Town::new(1);
    let init = |from: &str| super::rejections::init(7, &super::rejections::hello(from, "n0"));
    let from = address(7, 0);
    let now = town.now;
    town.node(0)
        .handle_datagram(now, LinkId(0), from, &mut init("n7"));
    town.run(Duration::from_millis(1));
    assert!(town.node(0).peer_named("n7").is_some());
    town.run(Duration::from_secs(12));
    assert_eq!(town.node(0).peer_named("n7"), None);
    assert_eq!(town.parted(0), [("n7".into(), PartedWhy::Silent)]);
}

#[test]
fn a_guest_that_is_added_to_the_configuration_stays() {
    let mut town = Town::new(2);
    town.run(Duration::from_secs(1));
    let guest = town.node(0).peer_named("n1").unwrap();
    let now = town.now;
    assert_eq!(town.node(0).add_peer(now, peer(1)), Ok(guest));
    assert!(!town.node(0).is_guest(guest) && town.node(0).is_connected(guest));
    town.nodes[1] = None;
    town.run(FORGET_AFTER * 2);
    assert!(
        town.node(0).peer_named("n1").is_some(),
        "the configuration names it"
    );
}
