//! Measurements for others: asked for, made one at a time, answered.

use super::*;
use crate::context::Rejection;
use crate::crypto::{ECHO_BYTES, echo, echo_reply};
use crate::wire::{FEATURE_SURVEYS, Kind, Measure, Measured, NodeId, Record, SurveyRecord, Writer};

/// Padded probes are of this size; nothing else here is.
const PROBE_BYTES: u16 = 1400;
const TOKEN: u32 = 4711;

fn pair_with(features: [u64; 2]) -> Pair {
    let with = |node: usize| NodeConfig {
        features: features[node],
        ..config(node, 7, WireMode::Encrypted)
    };
    let mut pair = Pair::new([with(0), with(1)]);
    pair.run(Duration::from_millis(50));
    pair.assert_up();
    pair.seen.clear();
    pair
}

fn pair() -> Pair {
    pair_with([FEATURE_RELAYS | FEATURE_SURVEYS; 2])
}

fn how(link: u8) -> Measure {
    Measure {
        link: LinkId(link),
        probes: 8,
        datagram_bytes: PROBE_BYTES,
        pause_us: 2_000,
    }
}

/// Node 0 asks node 1 to measure its path to node 0.
fn ask(pair: &mut Pair, token: u32, how: Measure) -> bool {
    let by = pair.peers[0];
    pair.nodes[0].ask_to_measure(token, by, None, how)
}

/// What node 0 was told of measurements since the last time.
fn told(pair: &mut Pair) -> Vec<(u32, Measured)> {
    let events = core::mem::take(&mut pair.events[0]);
    let of_one = |event| match event {
        Event::Measured { token, outcome, .. } => Some((token, outcome)),
        _ => None,
    };
    events.into_iter().filter_map(of_one).collect()
}

/// Node 1 says something that it is to say to node 0 in a record of its own making.
fn says(pair: &mut Pair, record: SurveyRecord) {
    let mut bytes = [0; SurveyRecord::BYTES_MAX];
    let mut w = Writer::new(&mut bytes);
    record.write(&mut w);
    let len = w.len();
    let Some(Ok(Record::Extension { code, data })) =
        crate::wire::Records::new(&bytes[..len]).next()
    else {
        panic!("{record:?} is no extension");
    };
    let from = pair.peers[0];
    let node = &mut pair.nodes[0];
    let bundle = met(&mut node.peers, from).unwrap();
    bundle.on_survey_record(pair.now, code, data, &mut node.context);
    node.touch(from);
}

#[test]
fn a_peer_measures_its_path_and_tells_the_least_round_trip() {
    for link in [0, 1] {
        let mut pair = pair();
        assert!(ask(&mut pair, TOKEN, how(link)));
        // Each way takes a millisecond, whatever the load.
        pair.run_slowly(200);
        let least = Measured::Least { ns: 2_000_000 };
        assert_eq!(told(&mut pair), [(TOKEN, least)]);
    }
}

#[test]
fn probes_are_as_many_and_as_large_as_was_asked_on_the_link_that_was_asked() {
    let mut pair = pair();
    assert!(ask(&mut pair, TOKEN, how(1)));
    pair.run(Duration::from_millis(300));
    let padded = |d: &&Datagram| d.3.len() == usize::from(PROBE_BYTES);
    let padded: Vec<&Datagram> = pair.seen.iter().filter(padded).collect();
    assert_eq!(padded.len(), 8);
    assert!(padded.iter().all(|d| d.0 == LinkId(1)));
    assert!(padded.iter().all(|d| d.1 == address(1, 1)));
    // They were no content, and nothing of them is missed.
    let stats = pair.nodes[1].peer_stats(pair.peers[1]).unwrap();
    assert!(stats.paths.iter().all(|p| p.stats.packets_lost == 0));
    assert_eq!(pair.nodes[1].node_stats().violation, 0);
}

#[test]
fn a_node_makes_one_measurement_at_a_time_whoever_asks() {
    let mut pair = pair();
    assert!(ask(&mut pair, TOKEN, how(0)));
    pair.run(Duration::from_millis(1));
    assert!(ask(&mut pair, TOKEN + 1, how(0)));
    pair.run(Duration::from_millis(1));
    assert_eq!(told(&mut pair), [(TOKEN + 1, Measured::Busy)]);
    // For itself neither.
    let to = pair.peers[1];
    pair.nodes[1].measure(pair.now, TOKEN, to, how(1), false);
    let said = pair.nodes[1].poll_event();
    assert!(matches!(
        said,
        Some(Event::Measured {
            outcome: Measured::Busy,
            ..
        })
    ));
    pair.run(Duration::from_millis(300));
    let padded = |d: &&Datagram| d.3.len() == usize::from(PROBE_BYTES);
    assert_eq!(pair.seen.iter().filter(padded).count(), 8);
    // Afterwards again.
    assert!(ask(&mut pair, TOKEN + 2, how(0)));
    pair.run(Duration::from_millis(300));
    assert!(matches!(told(&mut pair)[..], [(t, Measured::Least { .. })] if t == TOKEN + 2));
}

#[test]
fn a_path_that_does_not_answer_and_one_that_is_not_there_are_unreached() {
    let mut pair = pair();
    let unknown = SurveyRecord::Measure {
        token: TOKEN,
        to: NodeId(17),
        how: how(0),
    };
    says(&mut pair, unknown);
    let wide = Measure {
        datagram_bytes: 1473,
        ..how(0)
    };
    assert!(ask(&mut pair, TOKEN, wide));
    pair.run(Duration::from_millis(20));
    assert_eq!(told(&mut pair), [(TOKEN, Measured::Unreached)]);
    let missing = how(5);
    assert!(ask(&mut pair, TOKEN, missing));
    pair.run(Duration::from_millis(20));
    assert_eq!(told(&mut pair), [(TOKEN, Measured::Unreached)]);
    pair.dead = 0b01;
    let to = pair.peers[0];
    let slow = Measure {
        pause_us: 200_000,
        probes: 2,
        ..how(0)
    };
    pair.nodes[0].measure(pair.now, TOKEN, to, slow, false);
    pair.run(Duration::from_secs(2));
    assert_eq!(told(&mut pair), [(TOKEN, Measured::Unreached)]);
}

#[test]
fn while_a_link_has_something_to_carry_nothing_is_measured_on_it() {
    let mut pair = pair();
    // Nothing is acknowledged, so it stays on its way.
    pair.send_frame(1, frame(3000, 1));
    let (now, to) = (pair.now, pair.peers[1]);
    drop(pair.drain(1));
    let loaded: Vec<u8> = (0..2)
        .filter(|link| {
            let bundle = met(&mut pair.nodes[1].peers, to).unwrap();
            bundle.is_loaded(LinkId(*link))
        })
        .collect();
    assert!(!loaded.is_empty());
    pair.nodes[1].measure(now, TOKEN, to, how(loaded[0]), false);
    pair.nodes[1].handle_timeout(now);
    let sent = pair.drain(1);
    let padded = |d: &Datagram| d.3.len() == usize::from(PROBE_BYTES);
    assert!(!sent.iter().any(padded));
}

#[test]
fn an_answer_that_nobody_asked_for_says_nothing_and_is_counted() {
    let mut pair = pair();
    let unasked = SurveyRecord::Measured {
        token: TOKEN,
        outcome: Measured::Least { ns: 1 },
    };
    says(&mut pair, unasked);
    assert!(ask(&mut pair, TOKEN + 1, how(0)));
    says(&mut pair, unasked);
    pair.settle();
    assert_eq!(told(&mut pair), []);
    // The second one could be a late answer.
    assert_eq!(pair.nodes[0].node_stats().violation, 1);
}

/// A datagram of node 0's making comes to node 1. Returns what that answers.
fn asks(pair: &mut Pair, question: &[u8]) -> Vec<Datagram> {
    let mut datagram = question.to_vec();
    pair.nodes[1].handle_datagram(pair.now, LinkId(0), address(0, 0), &mut datagram);
    let mut answers = pair.drain(1);
    answers.retain(|d| d.3.len() == ECHO_BYTES);
    answers
}

#[test]
fn who_was_never_met_is_measured_as_well() {
    let with = |node: usize| NodeConfig {
        features: FEATURE_RELAYS | FEATURE_SURVEYS,
        ..config(node, 7, WireMode::Encrypted)
    };
    let mut pair = Pair::new([with(0), with(1)]);
    let to = pair.peers[0];
    pair.nodes[0].measure(pair.now, TOKEN, to, how(0), false);
    for _ in 0..200 {
        pair.now += Duration::from_micros(500);
        pair.nodes[0].handle_timeout(pair.now);
        for node in [0, 1] {
            for (link, from, _, mut bytes) in pair.drain(node) {
                let kind = Kind::from_byte(bytes[0]);
                if matches!(kind, Some(Kind::Echo | Kind::EchoReply)) {
                    pair.nodes[1 - node].handle_datagram(pair.now, link, from, &mut bytes);
                }
            }
        }
    }
    assert!(!pair.nodes[0].is_connected(to));
    let least = Measured::Least { ns: 500_000 };
    assert_eq!(told(&mut pair), [(TOKEN, least)]);
}

#[test]
fn a_question_without_a_session_is_answered_by_less_to_who_has_the_key_and_that_is_bounded() {
    let mut pair = pair();
    let key = pair.nodes[1].context.keys[0].clone();
    for bytes in [ECHO_BYTES, 1400, 8972] {
        let answers = asks(&mut pair, &echo(&key, TOKEN, bytes));
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].3, echo_reply(&key, TOKEN));
    }
    let stranger = ClusterKey::new([1; 32]);
    assert!(asks(&mut pair, &echo(&stranger, TOKEN, 1400)).is_empty());
    assert!(asks(&mut pair, &echo_reply(&key, TOKEN)).is_empty());
    let stats = pair.nodes[1].node_stats();
    assert_eq!(stats.rejected(Rejection::Stranger), 1);
    assert_eq!(stats.rejected(Rejection::Stale), 1);
    let answered = (0..1000).filter(|_| !asks(&mut pair, &echo(&key, TOKEN, 64)).is_empty());
    assert!((200..300).contains(&answered.count()));
    let mut pair = pair_with([FEATURE_RELAYS; 2]);
    let key = pair.nodes[1].context.keys[0].clone();
    assert!(asks(&mut pair, &echo(&key, TOKEN, 1400)).is_empty());
}

#[test]
fn a_flood_of_questions_is_dropped_and_counted() {
    let mut pair = pair();
    let question = SurveyRecord::Measure {
        token: TOKEN,
        to: NodeId(17),
        how: how(0),
    };
    (0..1000).for_each(|_| says(&mut pair, question));
    let memory = pair.nodes[0].peer_stats(pair.peers[0]).unwrap();
    assert!(pair.nodes[0].node_stats().violation > 900, "{memory:?}");
}

#[test]
fn who_does_not_know_of_surveys_is_not_asked() {
    let all = FEATURE_RELAYS | FEATURE_SURVEYS;
    for features in [[all, FEATURE_RELAYS], [FEATURE_RELAYS, all]] {
        let mut pair = pair_with(features);
        assert!(!ask(&mut pair, TOKEN, how(0)));
    }
}

#[test]
fn a_peer_that_goes_takes_its_measurements_along() {
    let mut pair = pair();
    assert!(ask(&mut pair, TOKEN, how(0)));
    pair.run(Duration::from_millis(1));
    let (now, asker) = (pair.now, pair.peers[1]);
    assert!(pair.nodes[1].context.measuring.is_some());
    pair.nodes[1].remove_peer(now, asker);
    assert!(pair.nodes[1].context.measuring.is_none());
}
