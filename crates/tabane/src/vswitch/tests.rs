//! What the virtual NIC relies on: frames go to their node and nowhere else,
//! known addresses are never asked for on the wire, nobody takes another's
//! address, and no bytes whatever make it fail.

mod offloads;
mod refusals;
mod trains;

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tabane_proto::Time;

use super::frame::{ETHERNET_BYTES, icmpv6_checksum};
use super::*;

const BROADCAST: Mac = [0xff; 6];

const SOME_TIME: Time = Time::from_ms(12_345_678);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn own_mac() -> Mac {
    mac_of(ip("10.99.0.1"))
}

fn peer_mac(host: u8) -> Mac {
    mac_of(Ipv4Addr::new(10, 99, 0, host).into())
}

/// Node 10.99.0.1 beside peers 2 and 3, numbered by their last byte.
fn switch() -> VSwitch {
    let peers = [(2, ip("10.99.0.2")), (3, ip("10.99.0.3"))];
    VSwitch::new(own_mac(), ip("10.99.0.1"), &peers)
}

fn switch_v6() -> VSwitch {
    let peers = [(2, ip("fd99::2")), (3, ip("fd99::3"))];
    VSwitch::new(mac_of(ip("fd99::1")), ip("fd99::1"), &peers)
}

fn frame(destination: Mac, source: Mac, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; VNET_HDR_BYTES];
    frame.extend(destination);
    frame.extend(source);
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

fn arp(operation: u8, sender_mac: Mac, sender: &str, target: &str) -> Vec<u8> {
    let octets = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets();
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation];
    packet.extend(sender_mac);
    packet.extend(octets(sender));
    packet.extend([0; 6]);
    packet.extend(octets(target));
    packet
}

fn ipv4(protocol: u8, fragment: u16, source: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 0];
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 99, 0, source, 10, 99, 0, 2]);
    packet.extend(payload);
    packet
}

fn ipv6(next: u8, source: &str, payload: &[u8]) -> Vec<u8> {
    let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 255];
    packet.extend(octets(source));
    packet.extend(octets("fd99::ff"));
    packet.extend(payload);
    packet
}

fn neighbour(kind: u8, source: &str, target: &str) -> Vec<u8> {
    let mut icmp = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    icmp.extend(target.parse::<Ipv6Addr>().unwrap().octets());
    ipv6(58, source, &icmp)
}

#[test]
fn frames_go_to_their_node_or_to_all_or_nowhere() {
    let data = |destination, source| frame(destination, source, 0x0800, &ipv4(6, 0, 1, &[0; 20]));
    let switch = switch();
    let table = [
        (data(peer_mac(2), own_mac()), Verdict::Unicast(2)),
        (data(peer_mac(3), own_mac()), Verdict::Unicast(3)),
        (data(BROADCAST, own_mac()), Verdict::Flood),
        (data([1, 0, 0x5e, 0, 0, 1], own_mac()), Verdict::Flood),
        (
            data(peer_mac(4), own_mac()),
            Verdict::Drop(DropReason::UnknownDestination),
        ),
        (
            data(own_mac(), own_mac()),
            Verdict::Drop(DropReason::UnknownDestination),
        ),
        (
            data(peer_mac(2), peer_mac(3)),
            Verdict::Drop(DropReason::ForeignSource),
        ),
        (
            vec![0; VNET_HDR_BYTES + ETHERNET_BYTES - 1],
            Verdict::Drop(DropReason::Malformed),
        ),
        (vec![], Verdict::Drop(DropReason::Malformed)),
    ];
    for (frame, expected) in table {
        assert_eq!(switch.classify(&frame), expected, "{frame:02x?}");
    }
}

#[test]
fn a_question_for_a_node_is_answered_here() {
    let question = arp(1, own_mac(), "10.99.0.1", "10.99.0.2");
    for to in [BROADCAST, peer_mac(2)] {
        let Verdict::Reply(answer) = switch().classify(&frame(to, own_mac(), 0x0806, &question))
        else {
            panic!("no answer");
        };
        let mut expected = vec![0, 1, 8, 0, 6, 4, 0, 2];
        expected.extend(peer_mac(2));
        expected.extend([10, 99, 0, 2]);
        expected.extend(own_mac());
        expected.extend([10, 99, 0, 1]);
        assert_eq!(answer, frame(own_mac(), peer_mac(2), 0x0806, &expected));
    }
}

#[test]
fn other_arp() {
    let classify = |packet: &[u8]| switch().classify(&frame(BROADCAST, own_mac(), 0x0806, packet));
    let own = Verdict::Drop(DropReason::OwnAddress);
    // Announcing our own address, or looking whether somebody else has it.
    assert_eq!(classify(&arp(1, own_mac(), "10.99.0.1", "10.99.0.1")), own);
    assert_eq!(classify(&arp(1, own_mac(), "0.0.0.0", "10.99.0.1")), own);
    // An address that is not in the file: asked for, and announced.
    assert_eq!(
        classify(&arp(1, own_mac(), "10.99.0.1", "10.99.0.77")),
        Verdict::Flood
    );
    assert_eq!(
        classify(&arp(1, own_mac(), "10.99.0.77", "10.99.0.77")),
        Verdict::Flood
    );
    assert_eq!(
        classify(&arp(2, own_mac(), "10.99.0.77", "10.99.0.77")),
        Verdict::Flood
    );
    let malformed = Verdict::Drop(DropReason::Malformed);
    assert_eq!(
        classify(&arp(9, own_mac(), "10.99.0.1", "10.99.0.2")),
        malformed
    );
    assert_eq!(classify(&[0; 28]), malformed);
    assert_eq!(classify(&[]), malformed);
    // Inside a VLAN there may be any addresses.
    let mut tagged = vec![0, 5, 8, 6];
    tagged.extend(arp(1, own_mac(), "10.99.0.1", "10.99.0.2"));
    let tagged = frame(BROADCAST, own_mac(), 0x8100, &tagged);
    assert_eq!(switch().classify(&tagged), Verdict::Flood);
}

#[test]
fn a_neighbour_solicitation_is_answered_here() {
    let own = mac_of(ip("fd99::1"));
    let peer = mac_of(ip("fd99::2"));
    let solicited_node = [0x33, 0x33, 0xff, 0, 0, 2];
    let ask = |source| {
        frame(
            solicited_node,
            own,
            0x86dd,
            &neighbour(135, source, "fd99::2"),
        )
    };
    let table = [
        ("fd99::1", own, "fd99::1", 0x60),
        ("::", [0x33, 0x33, 0, 0, 0, 1], "ff02::1", 0x20),
    ];
    for (source, to_mac, to, flags) in table {
        let Verdict::Reply(answer) = switch_v6().classify(&ask(source)) else {
            panic!("no answer");
        };
        let (header, icmp) = answer.split_at(VNET_HDR_BYTES + ETHERNET_BYTES + 40);
        let mut expected = vec![0x60, 0, 0, 0, 0, 32, 58, 255];
        expected.extend("fd99::2".parse::<Ipv6Addr>().unwrap().octets());
        expected.extend(to.parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(header, frame(to_mac, peer, 0x86dd, &expected));
        assert_eq!((icmp.len(), icmp[0], icmp[1], icmp[4]), (32, 136, 0, flags));
        assert_eq!(icmp[8..24], expected[8..24]);
        assert_eq!(icmp[24..26], [2, 1]);
        assert_eq!(icmp[26..], peer);
        let sum = icmpv6_checksum("fd99::2".parse().unwrap(), to.parse().unwrap(), icmp);
        assert_eq!(sum, 0, "checksum");
    }
}

#[test]
fn other_neighbour_discovery() {
    let own = mac_of(ip("fd99::1"));
    let classify =
        |packet: &[u8]| switch_v6().classify(&frame([0x33, 0x33, 0, 0, 0, 1], own, 0x86dd, packet));
    let own_address = Verdict::Drop(DropReason::OwnAddress);
    assert_eq!(classify(&neighbour(135, "::", "fd99::1")), own_address);
    assert_eq!(
        classify(&neighbour(135, "fd99::1", "fd99::77")),
        Verdict::Flood
    );
    assert_eq!(
        classify(&neighbour(136, "fd99::1", "fd99::2")),
        Verdict::Flood
    );
    assert_eq!(classify(&neighbour(133, "fd99::1", "::")), Verdict::Flood);
    assert_eq!(classify(&[]), Verdict::Flood);
}

/// RFC 4443's sum over a message taken from a real exchange: an echo request
/// from fe80::1 to fe80::2 with identifier 1, sequence 1 and no data.
#[test]
fn the_checksum_of_icmpv6() {
    let (from, to) = ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
    let sum = icmpv6_checksum(from, to, &[128, 0, 0, 0, 0, 1, 0, 1]);
    // 2 × fe80 + 1 + 2 + length 8 + protocol 58 + 8000 + 1 + 1, folded, inverted.
    let expected: u32 = 2 * 0xfe80 + 3 + 8 + 58 + 0x8000 + 2;
    assert_eq!(sum, !((expected & 0xffff) + (expected >> 16)) as u16);
}

fn flow(ethertype: u16, packet: &[u8]) -> u64 {
    flow_hash(&frame(peer_mac(2), own_mac(), ethertype, packet))
}

/// How many of the 256 numbers as many flows get that are all in use: at best, all.
fn spread(packet: impl Fn(u8) -> (u16, Vec<u8>)) -> usize {
    let mut numbers = FlowNumbers::default();
    let given: HashSet<u8> = (0..=255)
        .map(|i| {
            let (ethertype, packet) = packet(i);
            numbers.number(Time::from_ms(1), flow(ethertype, &packet))
        })
        .collect();
    given.len()
}

#[test]
fn different_flows_are_spread() {
    // A perfectly random hash would give 162 on average, and 230 with sets of 16.
    assert!(spread(|port| (0x0800, ipv4(6, 0, 1, &[200, port, 20, 81]))) > 210);
    assert!(spread(|port| (0x0800, ipv4(17, 0, 1, &[20, 81, 200, port]))) > 210);
    assert!(spread(|source| (0x0800, ipv4(1, 0, source, &[8, 0]))) > 210);
    assert!(spread(|port| (0x86dd, ipv6(6, "fd99::1", &[200, port, 20, 81]))) > 210);
    assert!(spread(|kind| (0x8800 + u16::from(kind), vec![])) > 210);
}

#[test]
fn a_ping_shares_its_number_with_none_of_sixteen_streams() {
    for seed in 0..500 {
        let mut random = Random(seed * 2 + 1);
        let hashes: HashSet<u64> = (0..17).map(|_| random.next()).collect();
        let mut numbers = FlowNumbers::default();
        let first: HashSet<u8> = hashes
            .iter()
            .map(|h| numbers.number(SOME_TIME, *h))
            .collect();
        assert_eq!(first.len(), hashes.len());
        let later = SOME_TIME + Duration::from_millis(900);
        assert!(
            hashes
                .iter()
                .all(|h| first.contains(&numbers.number(later, *h)))
        );
    }
}

#[test]
fn a_flow_keeps_its_number_however_many_others_come() {
    let mut numbers = FlowNumbers::default();
    let mut random = Random(7);
    let (first, shared) = (random.next(), random.next());
    let mut now = SOME_TIME;
    let own = numbers.number(now, first);
    for _ in 0..100_000 {
        now += Duration::from_micros(50);
        numbers.number(now, random.next());
        assert_eq!(numbers.number(now, first), own);
    }
    // All numbers are taken: one that came too late has the same each time, too.
    let number = numbers.number(now, shared);
    assert_eq!(numbers.number(now, shared), number);
}

#[test]
fn numbers_of_flows_that_rest_are_given_again() {
    let mut numbers = FlowNumbers::default();
    let mut random = Random(3);
    for _ in 0..2000 {
        numbers.number(SOME_TIME, random.next());
    }
    let later = SOME_TIME + Duration::from_secs(1);
    let new: HashSet<u8> = (0..8)
        .map(|_| numbers.number(later, random.next()))
        .collect();
    assert_eq!(new.len(), 8);
}

#[test]
fn one_flow_is_one_number() {
    let tcp = |payload: &[u8]| flow(0x0800, &ipv4(6, 0, 1, payload));
    assert_eq!(tcp(&[1, 2, 3, 4, 5]), tcp(&[1, 2, 3, 4, 9, 9, 9]));
    assert_ne!(tcp(&[1, 2, 3, 4]), tcp(&[1, 2, 3, 5]));
    // Don't-fragment is no fragment.
    assert_eq!(
        tcp(&[1, 2, 3, 4]),
        flow(0x0800, &ipv4(6, 0x4000, 1, &[1, 2, 3, 4]))
    );
}

#[test]
fn all_fragments_of_a_datagram_are_one_flow() {
    let fragment = |fragment, payload: &[u8]| flow(0x0800, &ipv4(17, fragment, 1, payload));
    let first = fragment(0x2000, &[1, 2, 3, 4]);
    assert_eq!(first, fragment(0x2010, &[9, 9, 9, 9]));
    assert_eq!(first, fragment(0x0020, &[7, 7]));
    let v6 = |next: u8, offset: u8, payload: &[u8]| {
        let mut extension = vec![next, 0, 0, offset, 0, 0, 0, 1];
        extension.extend(payload);
        flow(0x86dd, &ipv6(44, "fd99::1", &extension))
    };
    assert_eq!(v6(17, 1, &[1, 2, 3, 4]), v6(17, 8, &[9, 9, 9, 9]));
    // Behind options: of the later ones only what the fragment header names is known.
    let options = [17, 0, 1, 4, 0, 0, 0, 0, 1, 2, 3, 4];
    assert_eq!(v6(60, 1, &options), v6(60, 8, &[6, 0, 9, 9, 9, 9, 9, 9]));
}

#[test]
fn ports_are_found_behind_extension_headers_and_tags() {
    let behind = |ports: [u8; 4]| {
        let mut payload = vec![60, 0, 0, 0, 0, 0, 0, 0, 6, 1];
        payload.extend([0; 14]);
        payload.extend(ports);
        flow(0x86dd, &ipv6(0, "fd99::1", &payload))
    };
    assert_ne!(behind([1, 2, 3, 4]), behind([1, 2, 3, 5]));
    let tagged = |ports: [u8; 4]| {
        let mut payload = vec![0, 5, 8, 0];
        payload.extend(ipv4(6, 0, 1, &ports));
        flow(0x8100, &payload)
    };
    assert_ne!(tagged([1, 2, 3, 4]), tagged([1, 2, 3, 5]));
}

/// Pseudo-random bytes (xorshift, Marsaglia 2003), the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn no_bytes_whatever_make_it_fail() {
    let mut random = Random(0x7461_6261_6e65);
    let switches = [switch(), switch_v6()];
    let ethertypes = [0x0800u16, 0x0806, 0x86dd, 0x8100, 0x88a8, 0x1234];
    for round in 0..200_000 {
        let switch = &switches[round % 2];
        let length = random.next() as usize % 120;
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        // Most rounds get far: a right source, an ethertype, a version.
        if length > 40 && !round.is_multiple_of(5) {
            let source = if round % 4 < 2 {
                switch.own_mac
            } else {
                switch.peers[&2].0
            };
            bytes[16..22].copy_from_slice(&source);
            let ethertype = ethertypes[random.next() as usize % ethertypes.len()];
            bytes[22..24].copy_from_slice(&ethertype.to_be_bytes());
            bytes[24] = [0x45, 0x4f, 0x60, 0x00, 0x41][random.next() as usize % 5];
            let next = [58, 0, 43, 44, 60, 6][random.next() as usize % 6];
            bytes[30] = next;
        }
        let verdict = switch.classify(&bytes);
        if let Verdict::Unicast(peer) = verdict {
            assert!(peer == 2 || peer == 3);
        }
        if switch.accept(&bytes, 2).is_ok() {
            assert_eq!(bytes[16..22], switch.peers[&2].0);
        }
        flow_hash(&bytes);
    }
}

/// Every prefix of frames that are right is handled as well.
#[test]
fn cut_frames_do_not_make_it_fail() {
    let frames = [
        frame(
            BROADCAST,
            own_mac(),
            0x0806,
            &arp(1, own_mac(), "10.99.0.1", "10.99.0.2"),
        ),
        frame(
            BROADCAST,
            own_mac(),
            0x86dd,
            &neighbour(135, "fd99::1", "fd99::2"),
        ),
        frame(
            peer_mac(2),
            own_mac(),
            0x0800,
            &ipv4(6, 0, 1, &[1, 2, 3, 4]),
        ),
        frame(
            peer_mac(2),
            own_mac(),
            0x86dd,
            &ipv6(0, "fd99::1", &[44, 255, 0, 0]),
        ),
    ];
    for whole in &frames {
        for end in 0..whole.len() {
            let cut = &whole[..end];
            let is_question = matches!(switch().classify(cut), Verdict::Reply(_));
            assert!(!is_question, "answered a cut question");
            let _ = switch().accept(cut, 2);
            flow_hash(cut);
        }
    }
}
