//! Which frames of a peer the host does not get.

use super::*;

/// What a switch says of a frame of peer 2 to all that carries this.
fn of_peer(switch: &VSwitch, ethertype: u16, payload: &[u8]) -> Result<(), Refusal> {
    let mac = switch.peers[&2].0;
    switch.accept(&frame(BROADCAST, mac, ethertype, payload), 2)
}

fn of_ipv4(packet: &[u8]) -> Result<(), Refusal> {
    of_peer(&switch(), 0x0800, packet)
}

fn of_ipv6(packet: &[u8]) -> Result<(), Refusal> {
    of_peer(&switch_v6(), 0x86dd, packet)
}

/// The same packet behind these tags.
fn tagged(tags: &[(u16, u16)], ethertype: u16, packet: &[u8]) -> (u16, Vec<u8>) {
    let mut types = tags.iter().map(|(tpid, _)| *tpid).chain([ethertype]);
    let first = types.next().expect("one is there");
    let mut bytes = Vec::new();
    for ((_, tci), next) in tags.iter().zip(types) {
        bytes.extend(tci.to_be_bytes());
        bytes.extend(next.to_be_bytes());
    }
    bytes.extend(packet);
    (first, bytes)
}

/// An extension header of eight bytes, all zero.
fn extension(next: u8) -> [u8; 8] {
    [next, 0, 1, 4, 0, 0, 0, 0]
}

/// The extension header of a fragment at this offset, in units of eight bytes.
fn fragment(next: u8, offset: u16, more: bool) -> [u8; 8] {
    let [high, low] = (offset << 3 | u16::from(more)).to_be_bytes();
    [next, 0, high, low, 0, 0, 0, 1]
}

fn from(source: &str) -> Vec<u8> {
    match ip(source) {
        IpAddr::V4(source) => {
            let mut packet = ipv4(17, 0, 1, &[0; 20]);
            packet[12..16].copy_from_slice(&source.octets());
            packet
        }
        IpAddr::V6(_) => ipv6(17, source, &[0; 20]),
    }
}

#[test]
fn only_true_frames_are_accepted() {
    let switch = switch();
    let data = |to, source| frame(to, source, 0x0800, &ipv4(6, 0, 2, &[0; 20]));
    assert_eq!(switch.accept(&data(own_mac(), peer_mac(2)), 2), Ok(()));
    assert_eq!(switch.accept(&data(BROADCAST, peer_mac(2)), 2), Ok(()));
    let wrong = [
        (data(own_mac(), peer_mac(3)), 2, "another node's MAC"),
        (data(own_mac(), own_mac()), 2, "a loop"),
        (data(own_mac(), peer_mac(9)), 9, "not a peer"),
        (data(peer_mac(3), peer_mac(2)), 2, "not for us"),
        (vec![], 2, "nothing"),
        (frame(own_mac(), peer_mac(2), 0x0800, &[]), 2, "no packet"),
    ];
    for (frame, peer, what) in wrong {
        assert_eq!(switch.accept(&frame, peer), Err(Refusal::Frame), "{what}");
    }
}

#[test]
fn nobody_takes_anothers_address_by_arp() {
    let accept = |packet: &[u8]| of_peer(&switch(), 0x0806, packet);
    let table = [
        (1, 2, "10.99.0.2", Ok(())),
        (2, 2, "10.99.0.77", Ok(())),
        // Whether somebody has an address.
        (1, 2, "0.0.0.0", Ok(())),
        (2, 2, "10.99.0.3", Err(Refusal::ForeignAddress)),
        (1, 2, "10.99.0.1", Err(Refusal::ForeignAddress)),
        (2, 3, "10.99.0.77", Err(Refusal::ForeignAddress)),
    ];
    for (operation, mac, sender, expected) in table {
        let packet = arp(operation, peer_mac(mac), sender, "10.99.0.77");
        assert_eq!(accept(&packet), expected, "{operation} {sender}");
    }
    assert_eq!(accept(&[]), Err(Refusal::Frame));
}

#[test]
fn nobody_takes_anothers_address_by_neighbour_discovery() {
    let foreign = Err(Refusal::ForeignAddress);
    let table = [
        (136, "fd99::2", "fd99::2", Ok(())),
        (136, "fe80::2", "fd99::77", Ok(())),
        (135, "fd99::2", "fd99::77", Ok(())),
        // Duplicate address detection.
        (135, "::", "fd99::77", Ok(())),
        (133, "::", "::", Ok(())),
        (136, "fd99::2", "fd99::3", foreign),
        (136, "fd99::2", "fd99::1", foreign),
        (135, "fd99::3", "fd99::77", foreign),
    ];
    for (kind, source, target, expected) in table {
        let packet = neighbour(kind, source, target);
        assert_eq!(of_ipv6(&packet), expected, "{kind} {source} {target}");
    }
    let others = switch_v6().peers[&3].0;
    let target = link_local_of(others).to_string();
    assert_eq!(of_ipv6(&neighbour(136, "fd99::2", &target)), foreign);
}

#[test]
fn nobody_sends_from_the_address_of_another_node() {
    let mac_2 = peer_mac(2);
    let table = [
        ("10.99.0.2", true),
        ("10.99.0.3", false),
        ("10.99.0.1", false),
        // In no file: a service address, what is behind a node, one that asks for an address.
        ("10.99.0.77", true),
        ("192.168.3.4", true),
        ("0.0.0.0", true),
    ];
    let tags: [&[(u16, u16)]; 4] = [
        &[],
        &[(0x8100, 0)],
        &[(0x8100, 5)],
        &[(0x88a8, 0), (0x8100, 0)],
    ];
    for tags in tags {
        for (source, is_true) in table {
            let (ethertype, bytes) = tagged(tags, 0x0800, &from(source));
            for to in [own_mac(), BROADCAST] {
                let frame = frame(to, mac_2, ethertype, &bytes);
                let expected = is_true.then_some(()).ok_or(Refusal::ForeignAddress);
                let said = switch().accept(&frame, 2);
                assert_eq!(said, expected, "{source} behind {tags:04x?}");
            }
        }
    }
    // The kernel takes off as many tags as there are.
    let (ethertype, bytes) = tagged(&[(0x8100, 0); 3], 0x0800, &from("10.99.0.2"));
    let said = of_peer(&switch(), ethertype, &bytes);
    assert_eq!(said, Err(Refusal::Frame));
}

#[test]
fn nobody_sends_from_the_ipv6_address_of_another_node() {
    let link_local = |host: u8| {
        let mac = mac_of(ip(&format!("fd99::{host}")));
        link_local_of(mac).to_string()
    };
    let table = [
        ("fd99::2".into(), true),
        (link_local(2), true),
        ("fe80::2".into(), true),
        ("fd99::77".into(), true),
        ("::".into(), true),
        ("fd99::3".into(), false),
        ("fd99::1".into(), false),
        (link_local(3), false),
        (link_local(1), false),
    ];
    for (source, is_true) in table {
        let expected = is_true.then_some(()).ok_or(Refusal::ForeignAddress);
        assert_eq!(of_ipv6(&from(&source)), expected, "{source}");
        let mut behind = extension(17).to_vec();
        behind.extend([0; 20]);
        let packet = ipv6(0, &source, &behind);
        assert_eq!(of_ipv6(&packet), expected, "{source} behind options");
    }
}

/// RFC 4291, appendix A, has the MAC 34-56-78-9A-BC-DE.
#[test]
fn the_address_that_a_kernel_makes_from_a_mac() {
    let made = link_local_of([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
    assert_eq!(made, ip("fe80::3656:78ff:fe9a:bcde"));
}

#[test]
fn nobody_becomes_a_router_by_saying_so() {
    let routing = Err(Refusal::Routing);
    // Router solicitation, advertisement, redirect, echo request.
    for (kind, expected) in [(133, Ok(())), (134, routing), (137, routing), (128, Ok(()))] {
        let icmp = [kind, 0, 0, 0, 0, 0, 0, 0];
        for extensions in [
            &[][..],
            &[0],
            &[60],
            &[43],
            &[0, 60, 43, 60],
            &[0, 60, 43, 60, 60, 60, 60, 60],
        ] {
            let mut next = 58;
            let mut packet = icmp.to_vec();
            for header in extensions.iter().rev() {
                packet.splice(0..0, extension(next));
                next = *header;
            }
            let packet = ipv6(next, "fe80::2", &packet);
            assert_eq!(of_ipv6(&packet), expected, "{kind} behind {extensions:?}");
            let (ethertype, bytes) = tagged(&[(0x8100, 0)], 0x86dd, &packet);
            let said = of_peer(&switch_v6(), ethertype, &bytes);
            assert_eq!(said, expected, "{kind} behind a tag and {extensions:?}");
        }
    }
    for (kind, expected) in [(5, routing), (0, Ok(())), (8, Ok(())), (3, Ok(()))] {
        let packet = ipv4(1, 0, 2, &[kind, 1, 0, 0]);
        assert_eq!(of_ipv4(&packet), expected, "ICMP {kind}");
        let mut optioned = packet.clone();
        optioned[0] = 0x46;
        optioned.splice(20..20, [1, 1, 1, 0]);
        assert_eq!(of_ipv4(&optioned), expected, "ICMP {kind} behind options");
    }
}

#[test]
fn what_may_hide_a_router_in_fragments_is_refused_and_a_long_ping_is_not() {
    let routing = Err(Refusal::Routing);
    let carries = |headers: &[&[u8]]| ipv6(44, "fe80::2", &headers.concat());
    let echo = [128, 0, 0, 0];
    let advertisement = [134, 0, 0, 0];
    let options = extension(58);
    let table = [
        // A ping in pieces, and a later piece whatever is in it.
        (carries(&[&fragment(58, 0, true), &echo]), Ok(())),
        (carries(&[&fragment(58, 8, true), &advertisement]), Ok(())),
        (carries(&[&fragment(60, 8, false), &[]]), Ok(())),
        (carries(&[&fragment(60, 0, true), &options, &echo]), Ok(())),
        // One whole or in pieces, or in pieces of pieces.
        (carries(&[&fragment(58, 0, false), &advertisement]), routing),
        (carries(&[&fragment(58, 0, true), &advertisement]), routing),
        (
            carries(&[&fragment(60, 0, true), &options, &advertisement]),
            routing,
        ),
        (
            carries(&[
                &fragment(44, 0, true),
                &fragment(58, 0, true),
                &advertisement,
            ]),
            routing,
        ),
        // Neighbour discovery does not come in pieces (RFC 6980).
        (carries(&[&fragment(58, 0, true), &[136, 0, 0, 0]]), routing),
        // The first piece must show what it is of.
        (carries(&[&fragment(58, 0, true)]), routing),
        (carries(&[&fragment(60, 0, true)]), routing),
        (carries(&[&fragment(60, 0, true), &options]), routing),
    ];
    for (packet, expected) in table {
        assert_eq!(of_ipv6(&packet), expected, "{packet:02x?}");
    }
    // More headers than anybody looks behind.
    let mut many = extension(60).repeat(8);
    many.extend(extension(58));
    many.extend(advertisement);
    assert_eq!(of_ipv6(&ipv6(60, "fe80::2", &many)), routing);

    assert_eq!(of_ipv4(&ipv4(1, 0x2000, 2, &[8, 0, 0, 0])), Ok(()));
    assert_eq!(of_ipv4(&ipv4(1, 0x2000, 2, &[5, 0, 0, 0])), routing);
    assert_eq!(of_ipv4(&ipv4(1, 0x0001, 2, &[5, 0, 0, 0])), Ok(()));
    assert_eq!(of_ipv4(&ipv4(1, 0x2000, 2, &[])), routing);
}
