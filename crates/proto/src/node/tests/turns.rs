//! Many peers, and a link that takes less than they have.

use super::*;
use crate::wire::{GRANT_BYTES, Writer};

const SLOW: LinkId = LinkId(1);
/// How often the slow link takes something.
const TAKES_EVERY: u32 = 8;

/// Node 0 and its peers, in the order in which it knows them.
struct Star {
    now: Time,
    nodes: [Node; 3],
    events: Vec<(usize, Event)>,
    /// Whether link 0 between nodes 0 and 2 is dead.
    cut: bool,
    /// Which nodes node 0 served, each time the slow link took something.
    served: Vec<usize>,
}

impl Star {
    fn new() -> Star {
        let now = Time::from_ms(1000);
        let mut nodes = [0, 1, 2].map(|node| {
            let config = config(node, 7, WireMode::Encrypted);
            Node::new(now, config, [node as u8 + 1; 32]).unwrap()
        });
        for (node, other) in [(0, 1), (0, 2), (1, 0), (2, 0)] {
            nodes[node].add_peer(now, peer(other)).unwrap();
        }
        Star {
            now,
            nodes,
            events: Vec::new(),
            cut: false,
            served: Vec::new(),
        }
    }

    /// Delivers what every node has to say, again and again until nobody has. `narrow`: the slow
    /// link takes one transmit of node 0, then no more.
    fn settle(&mut self, narrow: bool) {
        let mut buffer = vec![0; 65_535];
        for _ in 0..1000 {
            let mut any = false;
            for node in 0..3 {
                while let Some(t) = self.nodes[node].poll_transmit(self.now, &mut buffer) {
                    any = true;
                    let to = (0..3).find(|to| t.to == address(*to, t.link.0)).unwrap();
                    if narrow && node == 0 && t.link == SLOW {
                        self.nodes[0].set_link_blocked(SLOW, true);
                        self.served.push(to);
                    }
                    if self.cut && t.link != SLOW && node + to == 2 {
                        continue;
                    }
                    let from = address(node, t.link.0);
                    for datagram in buffer[..t.bytes].chunks_mut(t.segment_bytes) {
                        self.nodes[to].handle_datagram(self.now, t.link, from, datagram);
                    }
                }
                while let Some(event) = self.nodes[node].poll_event() {
                    self.events.push((node, event));
                }
            }
            if !any {
                return;
            }
        }
        panic!("the nodes never stop talking");
    }

    fn step(&mut self, narrow: bool) {
        self.now += Duration::from_millis(1);
        for node in &mut self.nodes {
            node.handle_timeout(self.now);
        }
        self.settle(narrow);
    }

    /// Node 1 sends node 0 a message, on both links.
    fn say_to_0(&mut self) {
        let data = [1; 100];
        let sent = self.nodes[1].send_message(self.now, PeerId(0), 7, None, &data, Policy::Mirror);
        sent.unwrap();
        while self.nodes[0].receive_message(self.now, PeerId(0)).is_some() {}
    }

    fn assert_slow_link_works(&self) {
        let failed = |e: &&(usize, Event)| matches!(e.1, Event::LinkDown { link: SLOW, .. });
        assert_eq!(self.events.iter().find(failed), None);
    }
}

/// Node 2 is sent all that the slow link takes; node 1 has to be answered on it, and on another one,
/// too, which always takes something.
fn star_with_a_slow_link() -> Star {
    let mut star = Star::new();
    for _ in 0..50 {
        star.step(false);
    }
    star.cut = true;
    for _ in 0..200 {
        star.step(false);
    }
    star.events.clear();
    star
}

#[test]
fn who_is_served_elsewhere_keeps_its_turn_on_a_link_that_is_full() {
    let mut star = star_with_a_slow_link();
    let to_2 = PeerId(1);
    let bulk = star.nodes[0].open_stream(star.now, to_2, 1, Policy::Stripe);
    let bulk = bulk.unwrap();
    for turn in 0..800u32 {
        let _ = star.nodes[0].write_stream(star.now, to_2, bulk, &[7; 100_000]);
        star.say_to_0();
        let mut buffer = vec![0; 100_000];
        let _ = star.nodes[2].read_stream(star.now, PeerId(0), bulk, &mut buffer);
        if turn.is_multiple_of(TAKES_EVERY) {
            star.nodes[0].set_link_blocked(SLOW, false);
        }
        star.step(true);
    }
    star.assert_slow_link_works();
    for to in [1, 2] {
        let turns = star.served.iter().filter(|s| **s == to).count();
        assert!(turns * 3 >= star.served.len(), "{:?}", star.served);
    }
}

/// Node 1 says something now and then, and only while that link cannot take the answer at once.
#[test]
fn an_answer_that_a_full_link_does_not_take_is_given_later() {
    let mut star = star_with_a_slow_link();
    let bulk = star.nodes[0].open_stream(star.now, PeerId(1), 1, Policy::Stripe);
    let bulk = bulk.unwrap();
    let mut buffer = vec![0; 100_000];
    for turn in 0..4000u32 {
        let _ = star.nodes[0].write_stream(star.now, PeerId(1), bulk, &buffer);
        let _ = star.nodes[2].read_stream(star.now, PeerId(0), bulk, &mut buffer);
        if turn.is_multiple_of(TAKES_EVERY) {
            star.nodes[0].set_link_blocked(SLOW, false);
            star.settle(true);
            continue;
        }
        if turn % 500 < 20 {
            star.say_to_0();
        }
        star.step(true);
    }
    star.assert_slow_link_works();
}

#[test]
fn grants_that_do_not_fit_go_with_another_packet() {
    let mut star = Star::new();
    for _ in 0..50 {
        star.step(false);
    }
    let now = star.now + Duration::from_millis(400);
    let Node { context, peers, .. } = &mut star.nodes[0];
    for ms in 0..400 {
        for (link, peer) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let at = star.now + Duration::from_millis(ms);
            context
                .crowd
                .on_arrival(at, LinkId(link), PeerId(peer), 100_000);
        }
    }
    let bundle = peers[0].as_mut().and_then(Peer::met_mut).unwrap();
    let mut written = |room: usize| {
        let mut slot = vec![0; room];
        let mut w = Writer::new(&mut slot);
        bundle.write_grants(now, context, &mut w);
        w.len()
    };
    assert_eq!(written(GRANT_BYTES - 1), 0);
    assert_eq!(written(GRANT_BYTES + 1), GRANT_BYTES, "one of two");
    assert_eq!(written(100), GRANT_BYTES, "the other one");
    assert_eq!(written(100), 0, "both went lately");
}
