//! Two loops, each with a host of its own, over a network in memory and in virtual time.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use tabane_io::poll::{Poller, Ready};
use tabane_io::udp::SendError;
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::op::{OpEvent, Policy};
use tabane_proto::wire::WireMode;
use tabane_proto::{Event, LinkId, Node, PeerConfig, PeerId, Time};

use super::fake::{Fake, ip};
use crate::engine::{Engine, EngineConfig};
use crate::host::{Host, LoopTurn};
use crate::link::LinkSpec;
use crate::system::TOKEN_MONITOR;
use tabane_proto::GRANULARITY;

const PORT: u16 = 4000;

/// What a program learns.
#[derive(Default)]
struct Program {
    is_up: bool,
    messages: usize,
    links: Vec<String>,
}

impl Host for Program {
    fn event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::PeerUp { .. } => self.is_up = true,
            Event::PeerDown { .. } => self.is_up = false,
            Event::Op {
                peer,
                event: OpEvent::MessageReady,
            } => {
                while node.receive_message(now, peer).is_some() {
                    self.messages += 1;
                }
            }
            _ => {}
        }
    }

    fn frame(&mut self, _: PeerId, _: &mut Vec<u8>) {}

    fn ready(&mut self, _: &mut LoopTurn<'_>, _: Ready) {}

    fn produce(&mut self, _: Time, _: &mut Node) -> bool {
        false
    }

    fn before_wait(&mut self, _: &Node, _: &Poller) -> bool {
        false
    }

    fn link_changed(&mut self, text: &str) {
        self.links.push(text.to_owned());
    }
}

struct Side {
    fake: Fake,
    engine: Engine<Fake>,
    program: Program,
}

struct Pair {
    sides: [Side; 2],
    now: Time,
}

const TURN: Duration = Duration::from_micros(500);
const PEER: PeerId = PeerId(0);

fn ready(token: u64, readable: bool, writable: bool) -> Ready {
    Ready {
        token,
        readable,
        writable,
        urgent: false,
        failed: false,
    }
}

impl Pair {
    fn new() -> Pair {
        let sides = [1, 2].map(|node: u8| {
            let fake = Fake::with_device(node);
            let config = EngineConfig {
                name: node.to_string(),
                keys: vec![[7; 32]],
                private: None,
                public: None,
                wire: WireMode::Encrypted,
                port: PORT,
                links: vec![LinkSpec {
                    id: LinkId(0),
                    address: ip(node),
                }],
                spin: Duration::ZERO,
                features: 0,
                relay: None,
                guests: None,
            };
            let poller = Arc::new(Poller::new().unwrap());
            let (mut engine, words) = Engine::on(fake.clone(), poller, config).unwrap();
            assert_eq!(words.len(), 1, "{words:?}");
            let other = 3 - node;
            let mut addresses = [None; LINKS_MAX];
            addresses[0] = Some(SocketAddr::new(ip(other), PORT));
            let name = other.to_string();
            let now = engine.now();
            let peer = PeerConfig {
                name,
                addresses,
                public: None,
            };
            engine.node.add_peer(now, peer).unwrap();
            Side {
                fake,
                engine,
                program: Program::default(),
            }
        });
        let now = sides[1].engine.now();
        Pair { sides, now }
    }

    /// Both take a turn after what the other has sent came in.
    fn turn(&mut self) {
        self.now += TURN;
        self.sides[0].fake.carry_to(&self.sides[1].fake);
        self.sides[1].fake.carry_to(&self.sides[0].fake);
        for side in 0..2 {
            self.turn_of(side, &[ready(0, true, false)]);
        }
    }

    fn turn_of(&mut self, side: usize, ready: &[Ready]) {
        let side = &mut self.sides[side];
        side.engine.after_wait(&mut side.program, self.now, ready);
    }

    /// Takes turns until it is so.
    fn until(&mut self, what: &str, is_so: impl Fn(&Pair) -> bool) {
        for _ in 0..100_000 {
            if is_so(self) {
                return;
            }
            self.turn();
        }
        panic!("never: {what}");
    }

    fn connected() -> Pair {
        let mut pair = Pair::new();
        pair.until("both are up", |pair| {
            pair.sides.iter().all(|side| side.program.is_up)
        });
        pair
    }

    fn send(&mut self, bytes: usize) {
        let node = &mut self.sides[0].engine.node;
        let message = vec![5; bytes];
        let policy = Policy::default();
        node.send_message(self.now, PEER, 0, None, &message, policy)
            .unwrap();
    }
}

#[test]
fn a_message_arrives_though_every_other_burst_finds_the_socket_full() {
    let mut pair = Pair::connected();
    let fake = pair.sides[0].fake.clone();
    pair.send(1_000_000);
    for turn in 0..100_000 {
        if pair.sides[1].program.messages == 1 {
            assert!(turn > 10);
            return;
        }
        fake.refuse(SendError::WouldBlock);
        pair.turn();
        // What is left of the refusal, if nothing was sent, is for the next turn.
        let held = fake.0.borrow().refusals.is_empty();
        if held {
            pair.turn_of(0, &[ready(0, false, true)]);
        }
        fake.0.borrow_mut().refusals.clear();
    }
    panic!("the message did not arrive");
}

#[test]
fn the_loop_wakes_itself_for_a_burst_that_the_device_had_no_room_for() {
    let mut pair = Pair::connected();
    let fake = pair.sides[0].fake.clone();
    fake.carry_to(&pair.sides[1].fake.clone());
    fake.refuse(SendError::NoBuffers);
    pair.send(100);
    pair.turn_of(0, &[]);
    assert_eq!(fake.sent(), 0);
    let side = &mut pair.sides[0];
    let wait = side.engine.before_wait(&mut side.program, None);
    assert!(wait.until() <= pair.now + GRANULARITY);
    pair.now += GRANULARITY;
    pair.turn_of(0, &[]);
    assert_eq!(fake.sent(), 1);
}

#[test]
fn a_device_that_goes_and_returns_is_told_and_carries_again() {
    let mut pair = Pair::connected();
    let fake = pair.sides[0].fake.clone();
    fake.unplug();
    fake.0
        .borrow_mut()
        .changes
        .push(tabane_io::netlink::Change::Resync);
    pair.turn_of(0, &[ready(TOKEN_MONITOR, true, false)]);
    let said = &pair.sides[0].program.links;
    assert_eq!(
        said[..],
        ["link 0 (10.0.0.1) is down: no device has this address now"]
    );
    pair.send(100);
    for _ in 0..100 {
        pair.turn();
    }
    assert_eq!(pair.sides[1].program.messages, 0);

    fake.plug_in(1);
    fake.0
        .borrow_mut()
        .changes
        .push(tabane_io::netlink::Change::Resync);
    pair.turn_of(0, &[ready(TOKEN_MONITOR, true, false)]);
    assert_eq!(pair.sides[0].program.links.len(), 2);
    pair.until("the message arrives", |pair| {
        pair.sides[1].program.messages == 1
    });
}

/// Else it would judge, and ask again, by what is long out of date, and have ever more to read.
#[test]
fn who_was_away_reads_all_small_packets_before_a_timer_runs_but_not_all_bulk() {
    for (bytes, is_all) in [(100, true), (8192, false)] {
        let mut pair = Pair::connected();
        let (from, to) = (SocketAddr::new(ip(1), PORT), SocketAddr::new(ip(2), PORT));
        let came = (0..500).map(|_| (from, to, vec![0; bytes]));
        pair.sides[0].fake.0.borrow_mut().sent.extend(came);
        pair.sides[0].fake.carry_to(&pair.sides[1].fake.clone());
        pair.turn_of(1, &[ready(0, true, false)]);
        assert_eq!(
            pair.sides[1].fake.waiting() == 0,
            is_all,
            "of {bytes} bytes"
        );
    }
}
