//! A host with the cluster's addresses at one end of a veth pair, and what somebody at the other end sees of it.

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

use super::*;
use crate::isolated::isolated;
use crate::netlink::RouteSocket;
use crate::netlink::route::LinkSettings;
use crate::poll::{Interest, Poller};

const OWN: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];
const CLIENT: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7)),
];
const HOST_MAC: Mac = [2, 0, 0, 0, 0, 1];
const CLIENT_MAC: Mac = [2, 0, 0, 0, 0, 7];
const QUEUE_BYTES: usize = 1 << 20;
const NOTHING: [u8; 10] = [0; 10];
/// Whatever a kernel answers, it has answered by then …
const PATIENCE: Duration = Duration::from_millis(300);
/// … and what it asks without an answer it asks again by then, or not any more.
const ASKED_AGAIN: Duration = Duration::from_millis(1_500);
/// Who is to answer is asked so often: a busy machine takes its time.
const ASKED_TIMES: usize = 50;
const ASKED_IN_VAIN: usize = 3;

/// Both devices, on; the first has the addresses. Their numbers.
fn pair() -> [u32; 2] {
    let mut route = RouteSocket::new().unwrap();
    route.add_veth("ext0", "client", None).unwrap();
    let mut numbers = [0; 2];
    for (number, (name, mac)) in numbers
        .iter_mut()
        .zip([("ext0", HOST_MAC), ("client", CLIENT_MAC)])
    {
        *number = route.link(name).unwrap().unwrap().index;
        let settings = LinkSettings {
            mac: Some(mac),
            up: true,
            ..LinkSettings::default()
        };
        route.set_link(*number, settings).unwrap();
    }
    for (address, prefix) in OWN.into_iter().zip([24, 64]) {
        route.add_address(numbers[0], address, prefix).unwrap();
    }
    numbers
}

/// What asks who has the first of the cluster's addresses, or another one.
fn question(target: Ipv4Addr) -> Vec<u8> {
    let mut frame = NOTHING.to_vec();
    frame.extend([0xff; 6]);
    frame.extend(CLIENT_MAC);
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(CLIENT_MAC);
    frame.extend([203, 0, 113, 7]);
    frame.extend([0; 6]);
    frame.extend(target.octets());
    frame
}

/// The same by neighbour discovery (RFC 4861).
fn solicitation() -> Vec<u8> {
    let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 1);
    let (IpAddr::V6(client), IpAddr::V6(own)) = (CLIENT[1], OWN[1]) else {
        panic!("of IPv6");
    };
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(own.octets());
    message.extend([1, 1]);
    message.extend(CLIENT_MAC);
    let pseudo = crate::checksum::pseudo_header(client.into(), to.into(), 58, message.len());
    let checksum = !crate::checksum::fold(pseudo + crate::checksum::sum(&message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let mut frame = NOTHING.to_vec();
    frame.extend([0x33, 0x33, 0xff, 0, 0, 1]);
    frame.extend(CLIENT_MAC);
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255]);
    frame.extend(client.octets());
    frame.extend(to.octets());
    frame.extend(message);
    frame
}

fn send(outside: &Outside, frame: &[u8]) {
    assert!(outside.write(&[IoSlice::new(frame)]).unwrap());
}

/// The next packet that is heard, if one comes.
fn next(outside: &Outside) -> Option<(Heard, Vec<u8>)> {
    next_within(outside, PATIENCE)
}

fn next_within(outside: &Outside, patience: Duration) -> Option<(Heard, Vec<u8>)> {
    let poller = Poller::new().unwrap();
    poller
        .register(outside.receiver(), 0, Interest::Read)
        .unwrap();
    let mut packet = Vec::new();
    let mut ready = Vec::new();
    loop {
        if let Some(heard) = outside.read(&mut packet).unwrap() {
            return Some((heard, packet));
        }
        poller.wait(Some(patience), &mut ready).unwrap();
        if ready.is_empty() {
            return None;
        }
    }
}

#[test]
fn what_is_for_the_addresses_is_heard_and_nothing_else() {
    isolated(
        "outside::tests::what_is_for_the_addresses_is_heard_and_nothing_else",
        || {
            let [ext, client] = pair();
            let host = Outside::open(ext, &OWN, QUEUE_BYTES).unwrap();
            let client = Outside::open(client, &CLIENT, QUEUE_BYTES).unwrap();
            let IpAddr::V4(own) = OWN[0] else {
                panic!("of IPv4");
            };
            send(&client, &question(Ipv4Addr::new(203, 0, 113, 2)));
            send(&client, &question(own));
            send(&client, &solicitation());
            let heard = [next(&host), next(&host), next(&host)];
            let protocols = heard.map(|heard| heard.map(|(heard, _)| (heard.protocol, heard.from)));
            assert_eq!(
                protocols,
                [Some((0x0806, CLIENT_MAC)), Some((0x86dd, CLIENT_MAC)), None]
            );
        },
    );
}

#[test]
fn the_kernel_answers_nothing_once_it_is_to_be_silent() {
    isolated(
        "outside::tests::the_kernel_answers_nothing_once_it_is_to_be_silent",
        || {
            let [ext, client] = pair();
            let client = Outside::open(client, &CLIENT, QUEUE_BYTES).unwrap();
            let _host = Outside::open(ext, &OWN, QUEUE_BYTES).unwrap();
            let IpAddr::V4(own) = OWN[0] else {
                panic!("of IPv4");
            };
            let ask = || {
                // To a question of IPv4 it would say nothing that is heard; to a packet it would ask who sent it.
                let mut ping = NOTHING.to_vec();
                ping.extend(HOST_MAC);
                ping.extend(CLIENT_MAC);
                ping.extend([8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0, 0]);
                ping.extend([203, 0, 113, 7]);
                ping.extend(own.octets());
                let checksum = !crate::checksum::fold(crate::checksum::sum(&ping[24..44]));
                ping[34..36].copy_from_slice(&checksum.to_be_bytes());
                ping.extend([8, 0, 0xf7, 0xfe, 0, 0, 0, 1]);
                send(&client, &ping);
                send(&client, &solicitation());
            };
            let is_answered = |times: usize| {
                let mut count = 0;
                for _ in 0..ASKED_TIMES {
                    ask();
                    while count < times && next(&client).is_some() {
                        count += 1;
                    }
                }
                count >= times
            };
            // Now and then a kernel looks by itself whether a neighbour is still there.
            let is_silent = || {
                (0..ASKED_IN_VAIN).any(|_| {
                    while next_within(&client, ASKED_AGAIN).is_some() {}
                    ask();
                    next(&client).is_none()
                })
            };
            assert!(is_answered(2), "it is a host as any other");
            keep_silent("ext0", &OWN).unwrap();
            assert!(is_silent());
            keep_silent("ext0", &OWN).unwrap();
            assert!(is_silent());
            speak_again().unwrap();
            assert!(is_answered(1));
            speak_again().unwrap();
        },
    );
}

#[test]
fn what_waits_to_be_sent_is_bounded() {
    isolated("outside::tests::what_waits_to_be_sent_is_bounded", || {
        let [ext, _] = pair();
        let host = Outside::open(ext, &OWN, 64 * 1024).unwrap();
        assert_eq!(host.queued_bytes(), 0);
        // Nothing is sent while the far end is off: there is no queue that would hold it.
        let mut frame = question(Ipv4Addr::new(203, 0, 113, 2));
        frame.resize(NOTHING.len() + 1514, 0);
        for _ in 0..1000 {
            let _ = host.write(&[IoSlice::new(&frame)]);
            assert!(host.queued_bytes() <= 2 * 64 * 1024);
        }
    });
}

#[test]
fn a_tun_carries_packets_both_ways_and_is_gone_with_its_descriptor() {
    isolated(
        "outside::tests::a_tun_carries_packets_both_ways_and_is_gone_with_its_descriptor",
        || {
            let ours = Tun::make("in0").unwrap();
            let theirs = Tun::make("in1").unwrap();
            let mut route = RouteSocket::new().unwrap();
            let loopback = LinkSettings {
                up: true,
                ..LinkSettings::default()
            };
            route.set_link(1, loopback).unwrap();
            for (name, own) in [
                ("in0", Ipv4Addr::new(10, 0, 0, 1)),
                ("in1", Ipv4Addr::new(10, 0, 1, 1)),
            ] {
                let link = route.link(name).unwrap().unwrap();
                let up = LinkSettings {
                    up: true,
                    ..LinkSettings::default()
                };
                route.set_link(link.index, up).unwrap();
                route.add_address(link.index, own.into(), 24).unwrap();
            }
            // 10.0.0.2 is behind the one, and 10.0.1.2 behind the other: what leaves by the one comes in by the other, with the hosts' names changed.
            let rename = |packet: &mut Vec<u8>| {
                for (at, bytes) in [(12, [10, 0, 0, 2]), (16, [10, 0, 1, 1])] {
                    packet[10 + at..10 + at + 4].copy_from_slice(&bytes);
                }
            };
            let socket = UdpSocket::bind((Ipv4Addr::new(10, 0, 1, 1), 7777)).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(5)))
                .unwrap();
            let sender = UdpSocket::bind((Ipv4Addr::new(10, 0, 0, 1), 0)).unwrap();
            sender
                .send_to(b"hello", (Ipv4Addr::new(10, 0, 0, 2), 7777))
                .unwrap();
            let mut packet = Vec::new();
            let poller = Poller::new().unwrap();
            poller.register(&ours, 0, Interest::Read).unwrap();
            let is_ipv4 = |packet: &[u8]| packet.get(10).is_some_and(|first| first >> 4 == 4);
            loop {
                match ours.read(&mut packet).unwrap() {
                    true if is_ipv4(&packet) => break,
                    true => {}
                    false => poller.wait(Some(PATIENCE), &mut Vec::new()).unwrap(),
                }
            }
            rename(&mut packet);
            // The header of IP anew; of UDP none.
            packet[..10].fill(0);
            packet[10 + 10..10 + 12].fill(0);
            let checksum = !crate::checksum::fold(crate::checksum::sum(&packet[10..30]));
            packet[10 + 10..10 + 12].copy_from_slice(&checksum.to_be_bytes());
            packet[10 + 26..10 + 28].fill(0);
            theirs.write(&packet).unwrap();
            let mut heard = [0; 16];
            assert_eq!(socket.recv(&mut heard).unwrap(), 5);
            drop(ours);
            assert!(route.link("in0").unwrap_or(None).is_none());
        },
    );
}
