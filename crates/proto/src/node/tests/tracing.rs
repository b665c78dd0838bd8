//! What a node tells of a peer while it is traced.

use super::*;
use crate::link::{GivenUp, PathState};
use crate::trace::{Chosen, EVENTS_WAITING_MAX, Recorder, TraceEvent, Why};
use crate::wire::LinkVerdict;

/// What node 0 has told since it was last asked.
fn told(pair: &mut Pair) -> Vec<TraceEvent> {
    let next = || pair.nodes[0].poll_trace();
    std::iter::from_fn(next)
        .map(|traced| traced.event)
        .collect()
}

fn traced() -> Pair {
    let mut pair = Pair::connected(WireMode::Encrypted);
    assert!(pair.nodes[0].trace(pair.now, pair.peers[0], true));
    pair
}

#[test]
fn nothing_is_told_of_a_peer_that_is_not_traced() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.carries(1);
    assert_eq!(told(&mut pair), []);
    let unknown = PeerId(7);
    assert!(!pair.nodes[0].trace(pair.now, unknown, true));
    assert_eq!(told(&mut pair), []);
}

#[test]
fn states_are_told_at_the_beginning_and_packets_with_what_is_in_them() {
    let mut pair = traced();
    let begins = told(&mut pair);
    let is_up = |event: &&TraceEvent| match event {
        TraceEvent::PathState { before, now, .. } => before.is_none() && *now == PathState::Up,
        _ => false,
    };
    assert_eq!(begins.iter().filter(is_up).count(), 2);
    assert!(begins.contains(&TraceEvent::PeerState {
        before: None,
        now: PeerState::Up
    }));
    pair.carries(1);
    let events = told(&mut pair);
    let chosen = |event: &TraceEvent| match event {
        TraceEvent::Chosen(Chosen { why, path, .. }) => Some((*why, *path)),
        _ => None,
    };
    let (why, path) = events.iter().find_map(chosen).expect("one was");
    assert_eq!(why, Why::Fastest);
    let is_sent = |event: &&TraceEvent| match event {
        TraceEvent::Sent(packet) => packet.path == path && packet.records.has("frame_piece"),
        _ => false,
    };
    let sent = events.iter().find(is_sent).expect("it was");
    let TraceEvent::Sent(sent) = sent else {
        unreachable!();
    };
    let is_acked = |event: &TraceEvent| match *event {
        TraceEvent::Acked { path, first, count } => {
            path == sent.path && (first..first + u64::from(count)).contains(&sent.number)
        }
        _ => false,
    };
    assert!(events.iter().any(is_acked), "{events:?}");
    let received = |event: &TraceEvent| matches!(event, TraceEvent::Received(_));
    assert!(events.iter().any(received));
}

#[test]
fn a_failed_path_is_told_with_verdict_and_losses() {
    let mut pair = traced();
    let dead = LinkId(1);
    pair.dead = dead.bit() as u8;
    for salt in 0..50 {
        pair.send_frame(0, frame(60_000, salt));
        pair.run(Duration::from_millis(2));
    }
    pair.run(Duration::from_millis(200));
    let events = told(&mut pair);
    // Whichever end finds it out first: the other one is told.
    let judged = |event: &TraceEvent| match event {
        TraceEvent::Verdict { path, verdict, .. } => *path == dead && *verdict == LinkVerdict::Down,
        _ => false,
    };
    assert!(events.iter().any(judged), "{events:?}");
    let lost = |event: &TraceEvent| match event {
        TraceEvent::Lost { path, cause, .. } => *path == dead && *cause != GivenUp::Overtaken,
        _ => false,
    };
    assert!(events.iter().any(lost), "{events:?}");
    // With the other path gone there is no choice.
    let only = |event: &TraceEvent| match event {
        TraceEvent::Chosen(chosen) => chosen.why == Why::Only && chosen.path != dead,
        _ => false,
    };
    assert!(events.iter().any(only), "{events:?}");
}

#[test]
fn a_trace_ends_when_it_is_said_so_and_with_its_peer() {
    let mut pair = traced();
    pair.carries(1);
    assert!(pair.nodes[0].trace(pair.now, pair.peers[0], false));
    pair.carries(2);
    assert_eq!(told(&mut pair), []);
    pair.nodes[0].trace(pair.now, pair.peers[0], true);
    pair.nodes[0].remove_peer(pair.now, pair.peers[0]);
    assert_eq!(told(&mut pair), []);
    assert!(!pair.nodes[0].trace(pair.now, pair.peers[0], true));
}

#[test]
fn what_nobody_fetches_is_left_out_and_counted() {
    let (mut recorder, now) = (Recorder::default(), Time::ZERO);
    for _ in 0..EVENTS_WAITING_MAX + 5 {
        recorder.push(now, TraceEvent::Session);
    }
    while let Some((_, event)) = recorder.pop() {
        assert_eq!(event, TraceEvent::Session);
    }
    recorder.push(now, TraceEvent::Session);
    let told = std::iter::from_fn(|| recorder.pop());
    let told: Vec<_> = told.map(|(_, event)| event).collect();
    let left_out = TraceEvent::LeftOut { events: 5 };
    assert_eq!(told, [left_out, TraceEvent::Session]);
}
