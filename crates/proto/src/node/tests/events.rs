//! What the driver is told of streams, however many there are and however late it asks.

use super::*;

const STREAMS: usize = 40_000;

/// Of each of so many streams that node 1 opens and gives up node 0 is told twice; it asks at the end.
#[test]
fn a_driver_that_asks_late_is_told_all() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.run(Duration::from_millis(100));
    pair.events[0].clear();
    pair.deaf = true;
    let to = pair.peers[1];
    let open = |pair: &mut Pair| pair.nodes[1].open_stream(pair.now, to, 1, Policy::Stripe);
    let streams: Vec<_> = (0..STREAMS).map(|_| open(&mut pair).unwrap()).collect();
    pair.run(Duration::from_secs(1));
    for stream in streams {
        let given_up = pair.nodes[1].reset_stream(pair.now, to, stream, 3);
        given_up.unwrap();
    }
    pair.run(Duration::from_secs(1));
    pair.deaf = false;
    pair.run(Duration::from_millis(10));

    let told = |wanted: fn(&OpEvent) -> bool| {
        let of_streams = |e: &&Event| matches!(e, Event::Op { event, .. } if wanted(event));
        pair.events[0].iter().filter(of_streams).count()
    };
    assert_eq!(pair.nodes[0].node_stats().events_dropped, 0);
    assert_eq!(told(|e| matches!(e, OpEvent::StreamOpened { .. })), STREAMS);
    assert_eq!(
        told(|e| matches!(e, OpEvent::Reset { code: 3, .. })),
        STREAMS
    );
}

#[test]
fn who_has_a_stream_with_a_removed_peer_is_told_that_it_is_broken() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let peer = pair.peers[0];
    let stream = pair.nodes[0].open_stream(pair.now, peer, 1, Policy::Stripe);
    let event = OpEvent::Broken(stream.unwrap());
    pair.run(Duration::from_millis(100));
    pair.nodes[0].remove_peer(pair.now, peer);
    pair.settle();
    assert!(pair.events[0].contains(&Event::Op { peer, event }));
}

/// Sends 100,000 bytes from node 1 to node 0, which reads 10 of them, and stops node 1. Returns
/// whether what is left to read ends as the stream does.
fn left_by_who_stops(finishes: bool) -> bool {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.run(Duration::from_millis(100));
    let (data, [to_1, to_0]) = (frame(60_000, 3), pair.peers);
    let node = &mut pair.nodes[1];
    let stream = node.open_stream(pair.now, to_0, 1, Policy::Stripe).unwrap();
    assert_eq!(
        node.write_stream(pair.now, to_0, stream, &data),
        Ok(data.len())
    );
    if finishes {
        node.finish_stream(pair.now, to_0, stream).unwrap();
    }
    pair.run(Duration::from_millis(100));
    let mut begin = [0; 10];
    pair.nodes[0]
        .read_stream(pair.now, to_1, stream, &mut begin)
        .unwrap();
    assert_eq!(begin, data[..10]);

    pair.nodes[1].close(pair.now);
    pair.deaf = true;
    pair.settle();
    let broken = Event::Op {
        peer: to_1,
        event: OpEvent::Broken(stream),
    };
    while pair.nodes[0].poll_event().expect("it is told") != broken {}
    let mut rest = pair.nodes[0].take_rest().expect("something is left");
    let (mut left, mut buffer) = (Vec::new(), [0; 7777]);
    loop {
        let read = rest.read(&mut buffer);
        left.extend_from_slice(&buffer[..read.len]);
        if read.len == 0 || read.fin {
            assert_eq!(left, data[10..]);
            return read.fin;
        }
    }
}

#[test]
fn what_arrived_before_the_peer_stopped_can_be_read() {
    assert!(left_by_who_stops(true), "all of it is there");
    assert!(!left_by_who_stops(false), "more might have come");
}
