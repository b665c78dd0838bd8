//! What comes through other nodes, or is to go through this one, and cannot.

use super::guests::locate;
use super::rejections::{hello, init};
use super::*;
use crate::wire::{Name, NodeId, RelayRecord, STEPS_MAX, Steps, Writer, relayed_data};

const RELAYED: u8 = 0x50;
const REFUSED: u8 = 0x60;
const SOUGHT: u8 = 0x54;

/// Two nodes that relay; node 0 knows a third one that is not there.
fn pair(forwards: bool) -> (Pair, PeerId) {
    let with = |node| NodeConfig {
        features: FEATURE_RELAYS,
        relay: RelayConfig {
            forwards,
            ..RelayConfig::default()
        },
        ..config(node, 7, WireMode::Encrypted)
    };
    let mut pair = Pair::new([with(0), with(1)]);
    let absent = pair.nodes[0].add_peer(pair.now, peer(2)).unwrap();
    pair.nodes[1].add_peer(pair.now, peer(2)).unwrap();
    pair.run(Duration::from_millis(50));
    pair.assert_up();
    (pair, absent)
}

/// The numbers of nodes 0, 1 and 2.
fn ids(pair: &Pair, absent: PeerId) -> [NodeId; 3] {
    let mesh = &pair.nodes[0].context.mesh;
    let of = |peer| mesh.id(peer).unwrap();
    [mesh.me(), of(pair.peers[0]), of(absent)]
}

/// Why node 0 drops a datagram that node 1 says goes this way.
fn dropped(pair: &mut Pair, nodes: &[NodeId], at: u8, datagram: &[u8]) -> Vec<Rejection> {
    let steps = Steps::new(nodes, at).unwrap();
    let data = relayed_data(&steps, datagram);
    hand_in(pair, RELAYED, &data)
}

fn hand_in(pair: &mut Pair, code: u8, data: &[u8]) -> Vec<Rejection> {
    let from = pair.peers[0];
    let node = &mut pair.nodes[0];
    let count = |node: &Node| Rejection::ALL.map(|reason| node.node_stats().rejected(reason));
    let before = count(node);
    assert!(node.context.mesh.arrives(from, code, data));
    node.tend_mesh(pair.now);
    let after = count(node);
    let counted = Rejection::ALL.into_iter().enumerate();
    let new = counted.filter(|(place, _)| after[*place] > before[*place]);
    new.map(|(_, reason)| reason).collect()
}

#[test]
fn what_comes_from_another_neighbour_than_the_way_says_is_dropped() {
    let (mut pair, absent) = pair(true);
    let [me, neighbour, far] = ids(&pair, absent);
    let datagram = [0x10; 60];
    for (nodes, at) in [
        ([neighbour, far, me], 2),
        ([far, me, neighbour], 1),
        ([far, neighbour, me], 1),
        ([NodeId(4711), neighbour, me], 2),
    ] {
        let why = dropped(&mut pair, &nodes, at, &datagram);
        assert_eq!(why, [Rejection::Misrouted], "{nodes:?} {at}");
    }
}

#[test]
fn what_is_of_no_session_is_dropped_at_its_end() {
    let (mut pair, absent) = pair(true);
    let [me, neighbour, far] = ids(&pair, absent);
    let way = [far, neighbour, me];
    for (kind, why) in [
        (0x10, Rejection::UnknownSession),
        (0x01, Rejection::Malformed),
        (0x03, Rejection::Malformed),
        (0x77, Rejection::Malformed),
    ] {
        let datagram = [kind; 60];
        assert_eq!(dropped(&mut pair, &way, 2, &datagram), [why], "{kind}");
    }
}

#[test]
fn what_cannot_be_relayed_is_counted_and_its_sender_told() {
    for forwards in [true, false] {
        let (mut pair, absent) = pair(forwards);
        let [me, neighbour, far] = ids(&pair, absent);
        let way = [neighbour, me, far];
        let received = pair.nodes[1].node_stats().datagrams_received;
        let why = dropped(&mut pair, &way, 1, &[0x10; 60]);
        assert_eq!(why, [Rejection::NotRelayed]);
        pair.settle();
        assert_eq!(pair.nodes[1].node_stats().datagrams_received, received + 1);
        // No more often than now and then, however much comes.
        for _ in 0..100 {
            dropped(&mut pair, &way, 1, &[0x10; 60]);
        }
        pair.settle();
        assert_eq!(pair.nodes[1].node_stats().datagrams_received, received + 1);
        assert_eq!(pair.nodes[0].node_stats().relayed, 0);
        assert_eq!(pair.nodes[1].node_stats().rejected(Rejection::Misrouted), 0);
    }
}

#[test]
fn a_refusal_from_who_was_not_asked_is_dropped() {
    let (mut pair, absent) = pair(true);
    let [me, neighbour, far] = ids(&pair, absent);
    let refused = |nodes: [NodeId; 3]| {
        let mut data = relayed_data(&Steps::new(&nodes, 0).unwrap(), &[]);
        data.extend([1, 0]);
        data
    };
    let of_another = refused([me, far, neighbour]);
    assert_eq!(
        hand_in(&mut pair, REFUSED, &of_another),
        [Rejection::Misrouted]
    );
    assert!(hand_in(&mut pair, REFUSED, &refused([me, neighbour, far])).is_empty());
}

#[test]
fn broken_records_are_counted_as_such() {
    let (mut pair, _) = pair(true);
    let before = pair.nodes[0].node_stats().bad_record;
    for data in [&[][..], &[1, STEPS_MAX as u8 + 1], &[1; 40]] {
        assert!(hand_in(&mut pair, RELAYED, data).is_empty());
    }
    assert_eq!(pair.nodes[0].node_stats().bad_record, before + 3);
}

#[test]
fn a_peer_without_the_feature_is_told_nothing_of_relays() {
    let with = |features, node| NodeConfig {
        features,
        ..config(node, 7, WireMode::Encrypted)
    };
    let mut pair = Pair::new([with(FEATURE_RELAYS, 0), with(0, 1)]);
    pair.nodes[0].add_peer(pair.now, peer(2)).unwrap();
    pair.run(Duration::from_secs(1));
    pair.assert_up();
    assert_eq!(pair.nodes[0].context.mesh.neighbours().count(), 0);
}

/// Three nodes, of which the first and the last share no link that works.
struct Line {
    now: Time,
    nodes: [Node; 3],
    events: [Vec<Event>; 3],
    /// Nothing passes between the ends.
    is_cut: bool,
}

impl Line {
    /// Connected, the ends through the one between them.
    fn connected() -> Line {
        let line = Line::started(true);
        for end in [0, 2] {
            let stats = line.nodes[end].peer_stats(Line::peer(end, 2 - end));
            assert_eq!(stats.unwrap().state, PeerState::Up, "node {end}");
        }
        line
    }

    /// A second after its start.
    fn started(is_cut: bool) -> Line {
        let everybody = |n: usize| (0..3).filter(move |other| *other != n).collect();
        let mut line = Line::of([0, 1, 2].map(everybody), None, is_cut);
        line.run(Duration::from_secs(1));
        line
    }

    /// Nodes that know these others.
    fn of(known: [Vec<usize>; 3], guests: Option<Guests>, is_cut: bool) -> Line {
        let now = Time::from_ms(1000);
        let nodes = [0, 1, 2].map(|n| {
            let config = NodeConfig {
                features: FEATURE_RELAYS,
                guests,
                ..config(n, 7, WireMode::Encrypted)
            };
            let mut node = Node::new(now, config, [n as u8 + 1; 32]).unwrap();
            for other in &known[n] {
                node.add_peer(now, peer(*other)).unwrap();
            }
            node
        });
        let events = Default::default();
        Line {
            now,
            nodes,
            events,
            is_cut,
        }
    }

    /// The number of a node at another one.
    fn peer(at: usize, of: usize) -> PeerId {
        PeerId((of - usize::from(of > at)) as u32)
    }

    /// Takes out what a node has to say. Whether it was anything.
    fn settle_one(&mut self, from: usize) -> bool {
        let mut buffer = vec![0; 65_535];
        let mut any = false;
        while let Some(t) = self.nodes[from].poll_transmit(self.now, &mut buffer) {
            any = true;
            let to = (0..3).find(|node| address(*node, t.link.0) == t.to);
            let to = to.filter(|to| !self.is_cut || to.abs_diff(from) == 1);
            for datagram in buffer[..t.bytes].chunks_mut(t.segment_bytes) {
                if let Some(to) = to {
                    let source = address(from, t.link.0);
                    self.nodes[to].handle_datagram(self.now, t.link, source, datagram);
                }
            }
        }
        while let Some(event) = self.nodes[from].poll_event() {
            self.events[from].push(event);
        }
        any
    }

    fn run(&mut self, for_: Duration) {
        let end = self.now + for_;
        while self.now < end {
            while (0..3).fold(false, |any, node| self.settle_one(node) | any) {}
            let due = self.nodes.iter_mut().filter_map(Node::poll_timeout).min();
            let next = due.unwrap_or(end).max(self.now + Duration::from_micros(10));
            self.now = next.min(end);
            for node in &mut self.nodes {
                node.handle_timeout(self.now);
            }
        }
    }
}

#[test]
fn a_goodbye_comes_through_a_relay() {
    for removed in [false, true] {
        let mut line = Line::connected();
        let now = line.now;
        let code = match removed {
            false => {
                line.nodes[2].close(now);
                0
            }
            true => {
                line.nodes[2].remove_peer(now, Line::peer(2, 0));
                1
            }
        };
        line.run(Duration::from_millis(1));
        let down = Event::PeerDown {
            peer: Line::peer(0, 2),
            reason: DownReason::Closed { code },
        };
        assert!(line.events[0].contains(&down), "{:?}", line.events[0]);
    }
}

#[test]
fn links_in_doubt_have_time_while_nothing_is_to_be_carried() {
    let mut line = Line::started(false);
    let far = Line::peer(0, 2);
    let is_in_doubt = |line: &Line| {
        let stats = line.nodes[0].peer_stats(far).unwrap();
        stats.paths.iter().all(|path| path.state != PathState::Up)
    };
    let is_relayed = |line: &Line| !line.nodes[0].peer_stats(far).unwrap().relayed.is_empty();
    line.is_cut = true;
    while !is_in_doubt(&line) {
        line.run(Duration::from_millis(1));
    }
    line.run(Duration::from_millis(300));
    assert!(is_in_doubt(&line) && !is_relayed(&line));
    assert_eq!(line.nodes[1].node_stats().relayed, 0);
    // What is to be carried does not wait.
    let now = line.now;
    let sent = line.nodes[0].send_message(now, far, 0, None, &[7; 100], Policy::Stripe);
    sent.expect("there is room");
    line.run(Duration::from_millis(50));
    assert!(
        is_relayed(&line) && line.events[2].iter().any(has_message),
        "{:?}",
        line.events[2]
    );
}

#[test]
fn links_in_doubt_for_long_have_others_asked_though_nothing_is_to_be_carried() {
    let mut line = Line::started(false);
    line.is_cut = true;
    line.run(Duration::from_secs(10));
    let stats = line.nodes[0].peer_stats(Line::peer(0, 2)).unwrap();
    assert_eq!(stats.state, PeerState::Up);
    assert!(!stats.relayed.is_empty());
}

fn has_message(event: &Event) -> bool {
    let ready = OpEvent::MessageReady;
    matches!(event, Event::Op { event, .. } if *event == ready)
}

#[test]
fn who_is_cut_off_from_the_beginning_is_found_by_one_who_never_spoke_with_it() {
    let guests = Guests::Located {
        count_max: 4,
        locate,
    };
    let mut line = Line::of([vec![1, 2], vec![], vec![]], Some(guests), true);
    let now = line.now;
    let far = Line::peer(0, 2);
    let sent = line.nodes[0].send_message(now, far, 0, None, &[7; 100], Policy::Stripe);
    sent.expect("there is room");
    line.run(Duration::from_secs(1));
    assert!(line.events[2].iter().any(has_message), "{:?}", line.events);
    // Whoever is between them has called the one that was sought; that one knows the caller by its call alone.
    for (node, of) in [(1, "n2"), (2, "n0"), (2, "n1")] {
        assert!(line.nodes[node].peer_named(of).is_some(), "{node}: {of}");
    }
    let back = line.nodes[2].peer_named("n0").expect("is known");
    let now = line.now;
    let sent = line.nodes[2].send_message(now, back, 0, None, &[8; 100], Policy::Stripe);
    sent.expect("there is room");
    line.run(Duration::from_millis(50));
    assert!(line.events[0].iter().any(has_message));
}

#[test]
fn nobody_is_called_for_others_where_nodes_know_their_peers() {
    let (mut pair, absent) = pair(true);
    let name = |text| Name::new(text).unwrap();
    let record = |name: Name| RelayRecord::Sought { name };
    for sought in [name("n2"), name("n9"), name("n0")] {
        let mut data = vec![0; record(sought).encoded_len()];
        let mut w = Writer::new(&mut data);
        record(sought).write(&mut w);
        assert!(hand_in(&mut pair, SOUGHT, &data[3..]).is_empty());
    }
    assert_eq!(pair.nodes[0].peer_named("n9"), None);
    assert_eq!(pair.nodes[0].peer_named("n2"), Some(absent));
}

#[test]
fn a_call_from_afar_is_of_the_node_that_the_way_begins_at() {
    let guests = Guests::Located {
        count_max: 1,
        locate,
    };
    let mut line = Line::of([vec![1], vec![], vec![]], Some(guests), false);
    line.run(Duration::from_millis(50));
    let between = line.nodes[0].peer_named("n1").expect("is known");
    let mut call = |of: &str, from: &str| {
        let mesh = &line.nodes[0].context.mesh;
        let nodes = [
            NodeId::of(&Name::new(of).unwrap()),
            mesh.id(between).unwrap(),
            mesh.me(),
        ];
        let steps = Steps::new(&nodes, 2).unwrap();
        let data = relayed_data(&steps, &init(7, &hello(from, "n0")));
        let node = &mut line.nodes[0];
        assert!(node.context.mesh.arrives(between, RELAYED, &data));
        let before = Rejection::ALL.map(|reason| node.node_stats().rejected(reason));
        node.tend_mesh(line.now);
        let is_new =
            |place: &usize| node.node_stats().rejected(Rejection::ALL[*place]) > before[*place];
        (0..before.len())
            .find(is_new)
            .map(|place| Rejection::ALL[place])
    };
    assert_eq!(call("n7", "n8"), Some(Rejection::Misrouted));
    assert_eq!(call("stranger", "stranger"), Some(Rejection::Refused));
    assert_eq!(call("n7", "n7"), None);
    // There is room for one.
    assert_eq!(call("n8", "n8"), Some(Rejection::Refused));
    assert!(line.nodes[0].peer_named("n7").is_some());
}

#[test]
fn two_that_call_each_other_in_vain_find_who_is_between_them() {
    let guests = Guests::Located {
        count_max: 4,
        locate,
    };
    for known in [
        [vec![1, 2], vec![0, 2], vec![0, 1]],
        [vec![1, 2], vec![0], vec![0, 1]],
        [vec![1, 2], vec![], vec![0, 1]],
    ] {
        let mut line = Line::of(known, Some(guests), true);
        let now = line.now;
        for (from, to) in [(0, 2), (2, 0)] {
            let node = &mut line.nodes[from];
            let to = node.peer_named(&format!("n{to}")).expect("is known");
            let sent = node.send_message(now, to, 0, None, &[7; 100], Policy::Stripe);
            sent.expect("there is room");
        }
        line.run(Duration::from_secs(2));
        for end in [0, 2] {
            assert!(
                line.events[end].iter().any(has_message),
                "{:?}",
                line.events
            );
        }
    }
}
