use std::collections::BTreeSet;

use super::*;
use crate::gateway::packet::tests::{V4, is_right, tcp, udp};
use crate::gateway::packet::{ACK, FIN, SYN};
use crate::vswitch::frame::Packet;
use tabane_proto::gateway::Family;

const NOW: Time = Time::from_ms(1000);
const A: Owner = Owner::Peer(PeerId(1));
const B: Owner = Owner::Peer(PeerId(2));
const ALONE: Claim = Claim {
    user: 0,
    is_shared: false,
};

/// A machine on which a program has port 22.
#[derive(Default)]
struct Machine {
    held: BTreeSet<Port>,
}

impl Host for Machine {
    fn hold(&mut self, port: Port) -> Result<u16, Refused> {
        let free = |number: &u16| {
            !self.held.contains(&Port {
                number: *number,
                ..port
            })
        };
        let number = match port.number {
            0 => (50_000..).find(free).ok_or(Refused::TooMany)?,
            22 => return Err(Refused::InUse),
            number => number,
        };
        match self.held.insert(Port { number, ..port }) {
            true => Ok(number),
            false => Err(Refused::InUse),
        }
    }

    fn let_go(&mut self, port: Port) {
        assert!(self.held.remove(&port), "{port:?} was not held");
    }

    fn is_there(&self, _: Owner) -> bool {
        true
    }
}

const fn port(number: u16) -> Port {
    Port {
        transport: Transport::Tcp,
        family: Family::V4,
        number,
    }
}

fn front() -> (Front, Machine) {
    let (mut front, mut machine) = (Front::new(&[V4[1]], 100, 100, true), Machine::default());
    front.claim(&mut machine, A, port(80), ALONE).unwrap();
    (front, machine)
}

/// From the client to the cluster, and back.
fn inward(ports: [u16; 2], flags: u8, data: &[u8]) -> Vec<u8> {
    tcp(V4, ports, flags, data)
}

fn outward(ports: [u16; 2], flags: u8, data: &[u8]) -> Vec<u8> {
    tcp([V4[1], V4[0]], ports, flags, data)
}

fn arrives(front: &mut Front, machine: &Machine, frame: &mut [u8]) -> For {
    front.arrives(NOW, machine, frame, |address| {
        address == "10.77.0.1".parse::<IpAddr>().unwrap()
    })
}

/// All that waits for the line, in its order.
fn left(front: &mut Front) -> Vec<Vec<u8>> {
    let mut left = Vec::new();
    while let Some((lane, waiting, _)) = front.turn() {
        let bytes = waiting.bytes();
        left.extend(front.has_left(NOW, lane, bytes));
    }
    left
}

fn window_of(frame: &[u8]) -> u16 {
    let seen = Seen::of(frame).unwrap();
    Segment::of(frame, &seen).unwrap().window
}

#[test]
fn a_port_is_one_nodes_and_not_the_machines() {
    let (mut front, mut machine) = front();
    let refused = Err(Refused::InUse);
    assert_eq!(front.claim(&mut machine, B, port(80), ALONE), refused);
    assert_eq!(front.claim(&mut machine, A, port(22), ALONE), refused);
    let any = front.claim(&mut machine, B, port(0), ALONE).unwrap();
    assert_eq!(machine.held, BTreeSet::from([port(80), port(any)]));
    front.release(&mut machine, B, port(any));
    front.doubt(NOW, &mut machine, A);
    assert_eq!(
        machine.held,
        BTreeSet::from([port(80)]),
        "it may have it still"
    );
    assert_eq!(front.claim(&mut machine, B, port(80), ALONE), Ok(80));
}

#[test]
fn who_is_asked_for_hears_it_and_answers() {
    let (mut front, mut machine) = front();
    for flags in [SYN, ACK] {
        let mut frame = inward([5000, 80], flags, b"");
        assert_eq!(arrives(&mut front, &machine, &mut frame), For::Owner(A));
        front.leaves(NOW, &mut machine, A, outward([80, 5000], flags | ACK, b""));
    }
    assert_eq!(left(&mut front).len(), 2);
    assert_eq!(
        arrives(&mut front, &machine, &mut inward([5000, 81], SYN, b"")),
        For::Kernel
    );
    assert_eq!(
        arrives(&mut front, &machine, &mut udp(V4, [5000, 80], b"")),
        For::Kernel
    );
    assert_eq!(front.conversations(), 1);
}

#[test]
fn who_claims_everything_is_counted_and_others_have_theirs() {
    let mut front = Front::new(&[V4[1]], 3, 100, true);
    let mut machine = Machine::default();
    let results = (1..=9).map(|number| front.claim(&mut machine, A, port(number), ALONE));
    let given = results.collect::<Vec<_>>();
    assert_eq!(given[..3], [Ok(1), Ok(2), Ok(3)]);
    assert_eq!(given[3..], [Err(Refused::TooMany); 6]);
    assert_eq!(front.dropped.ports_full, 6);
    assert_eq!(front.claim(&mut machine, B, port(9), ALONE), Ok(9));
}

#[test]
fn nobody_lies() {
    let (mut front, mut machine) = front();
    let node: IpAddr = "10.77.0.1".parse().unwrap();
    let mut spoofed = tcp([node, V4[1]], [5000, 80], SYN, b"");
    assert_eq!(arrives(&mut front, &machine, &mut spoofed), For::Nobody);
    assert_eq!(front.dropped.spoofed, 1);
    let lies = [
        outward([80, 5000], SYN | ACK, b"the port is another's"),
        outward([80, 5001], ACK, b"so it is in the middle"),
        outward([90, 5000], FIN, b"nothing was begun"),
        tcp(
            [node, V4[0]],
            [80, 5000],
            SYN,
            b"the address is another one",
        ),
    ];
    for lie in lies {
        front.leaves(NOW, &mut machine, B, lie);
    }
    assert_eq!((front.dropped.lies, left(&mut front).len()), (4, 0));
}

/// Its daemon, or this gateway's, has begun anew: what its kernel has goes on, and is over soon if nobody answers.
#[test]
fn what_a_node_goes_on_with_is_its_own() {
    let (mut front, mut machine) = front();
    front.leaves(NOW, &mut machine, B, outward([90, 5000], ACK, b"goes on"));
    assert_eq!(left(&mut front).len(), 1);
    assert!(machine.held.contains(&port(90)));
    let mut answer = inward([5000, 90], ACK, b"");
    assert_eq!(arrives(&mut front, &machine, &mut answer), For::Owner(B));
    // Nobody else's.
    front.leaves(NOW, &mut machine, A, outward([90, 5000], ACK, b"lies"));
    assert_eq!((front.dropped.lies, left(&mut front).len()), (1, 0));
}

/// A node that says late what it has, as its daemon was held up, say.
#[test]
fn a_node_keeps_the_port_of_what_it_goes_on_with() {
    let (mut front, mut machine) = front();
    front.leaves(NOW, &mut machine, B, outward([90, 5000], ACK, b"goes on"));
    front.has(&mut machine, A, port(90), ALONE);
    front.has(&mut machine, B, port(90), ALONE);
    let mut other = inward([5001, 90], SYN, b"");
    assert_eq!(arrives(&mut front, &machine, &mut other), For::Owner(B));
    let mut answer = inward([5000, 90], ACK, b"");
    let inside = Seen::of(&answer).unwrap().head(End::Destination).ends;
    assert_eq!(arrives(&mut front, &machine, &mut answer), For::Owner(B));
    front.is_over(&mut machine, B, inside);
    assert!(machine.held.contains(&port(90)));
    front.release(&mut machine, B, port(90));
    assert!(!machine.held.contains(&port(90)));
}

#[test]
fn two_nodes_begin_from_the_same_port() {
    let (mut front, mut machine) = front();
    for owner in [A, B] {
        front.leaves(NOW, &mut machine, owner, outward([6000, 443], SYN, b""));
    }
    let (owner, inside, outer) = front.poll_translated().expect("the second has another one");
    assert_eq!((owner, inside.own), (B, 6000));
    let sent = left(&mut front);
    let from: Vec<_> = sent
        .iter()
        .map(|frame| Seen::of(frame).unwrap().head(End::Source).ends.own)
        .collect();
    assert_eq!(from, [6000, outer]);
    assert!(sent.iter().all(|frame| is_right(frame)));
    for (own, owner) in [(6000, A), (outer, B)] {
        let mut answer = inward([443, own], SYN | ACK, b"");
        assert_eq!(
            arrives(&mut front, &machine, &mut answer),
            For::Owner(owner)
        );
        assert_eq!(
            Seen::of(&answer).unwrap().head(End::Destination).ends.own,
            6000
        );
        assert!(is_right(&answer));
    }
    // From what is lent nobody may listen; when it is over it is the machine's again.
    let refused = Err(Refused::InUse);
    assert_eq!(front.claim(&mut machine, A, port(6000), ALONE), refused);
    front.is_over(&mut machine, A, inside);
    front.is_over(&mut machine, B, inside);
    assert_eq!(machine.held, BTreeSet::from([port(80)]));
}

/// A client of A's port 80, whose windows are shifted as A's are.
fn begin(front: &mut Front, machine: &mut Machine) {
    arrives(front, machine, &mut inward([5000, 80], SYN, b""));
    front.leaves(NOW, machine, A, outward([80, 5000], SYN | ACK, b""));
    left(front);
}

#[test]
fn a_far_end_may_not_send_all_that_the_receiver_would_take() {
    let (mut front, mut machine) = front();
    begin(&mut front, &mut machine);
    let whole = outward([80, 5000], ACK, b"");
    front.leaves(NOW, &mut machine, A, whole.clone());
    let sent = left(&mut front).remove(0);
    assert!(is_right(&sent));
    assert!(window_of(&sent) < window_of(&whole));
}

#[test]
fn a_sender_goes_as_far_ahead_as_there_is_room() {
    let (mut front, mut machine) = front();
    begin(&mut front, &mut machine);
    front.leaves(NOW, &mut machine, A, outward([80, 5000], ACK, &[7; 1000]));
    let room = front.queue.room_bytes();
    let mut told = inward([5000, 80], ACK, b"");
    let seen = Seen::of(&told).unwrap();
    // It acknowledges 77, and takes 8 MB.
    Segment::of(&told, &seen)
        .unwrap()
        .set_window(&mut told, u16::MAX);
    arrives(&mut front, &machine, &mut told);
    assert_eq!(window_of(&told), u16::MAX, "nothing has left");
    assert_eq!(left(&mut front).len(), 1);
    arrives(&mut front, &machine, &mut told);
    let passed = 1_000_000 + 1000;
    assert_eq!(
        u32::from(window_of(&told)),
        (passed + room as u32 - 77).div_ceil(128)
    );
    assert!(is_right(&told));
}

#[test]
fn what_stands_is_taken_over() {
    let (_, mut machine) = front();
    let mut front = Front::new(&[V4[1]], 100, 100, true);
    machine.held.clear();
    front.claim(&mut machine, A, port(80), ALONE).unwrap();
    let ends = |own, far: u16| Ends {
        transport: Transport::Tcp,
        own,
        far: (V4[0], far).into(),
    };
    let shifts = Shifts { own: 7, far: 7 };
    front.stands(NOW, &mut machine, A, (ends(80, 5000), 80), Some(shifts));
    front.stands(NOW, &mut machine, B, (ends(6000, 443), 6001), None);
    assert_eq!((front.conversations(), machine.held.len()), (2, 2));
    let mut answer = inward([443, 6001], ACK, b"data");
    assert_eq!(arrives(&mut front, &machine, &mut answer), For::Owner(B));
    front.leaves(NOW, &mut machine, B, outward([6000, 443], ACK | FIN, b""));
    let sent = left(&mut front);
    assert_eq!(Seen::of(&sent[0]).unwrap().head(End::Source).ends.own, 6001);
    let packet = Packet::of_ip(&sent[0][VNET_HDR_BYTES..]).unwrap();
    assert_eq!(packet.source, V4[1]);
}
