//! Bursts over loopback.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::*;
use crate::isolated::isolated;
use crate::netlink::RouteSocket;
use crate::netlink::route::LinkSettings;
use crate::poll::{Interest, Poller};

fn loopback() -> LinkSocket {
    LinkSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), None)
        .unwrap()
        .0
}

fn address(socket: &LinkSocket) -> SocketAddr {
    socket.local_address().unwrap()
}

/// Receives until `wanted` datagrams are there.
fn receive(
    socket: &LinkSocket,
    batch: &mut ReceiveBatch,
    wanted: usize,
) -> Vec<(SocketAddr, Vec<u8>)> {
    let poller = Poller::new().unwrap();
    poller.register(socket, 0, Interest::Read).unwrap();
    let (mut got, mut ready) = (Vec::new(), Vec::new());
    while got.len() < wanted {
        poller
            .wait(Some(Duration::from_secs(5)), &mut ready)
            .unwrap();
        assert!(
            !ready.is_empty(),
            "only {} of {wanted} datagrams arrived",
            got.len()
        );
        let count = socket.recv(batch).unwrap();
        let before = got.len();
        got.extend(
            batch
                .datagrams()
                .map(|(from, datagram)| (from, datagram.to_vec())),
        );
        assert_eq!(got.len() - before, count);
    }
    got
}

/// Datagrams of `segment` bytes that are told apart by their content.
fn numbered(bytes: usize, segment: usize) -> Vec<u8> {
    (0..bytes)
        .map(|i| (i / segment * 7 + i % segment) as u8)
        .collect()
}

#[test]
fn bursts_arrive_whole_in_order_and_cut_as_they_were_sent() {
    let (a, b, mut batch) = (loopback(), loopback(), ReceiveBatch::new());
    let mut datagrams_received = 0;
    for (bytes, segment) in [
        (1, 1),
        (1430, 1430),
        (64 * 1000, 1000),
        (44 * 1430 + 17, 1430),
        (65_507, 65_507),
    ] {
        let sent = numbered(bytes, segment);
        a.send(address(&b), &sent, segment).unwrap();
        let got = receive(&b, &mut batch, bytes.div_ceil(segment));
        assert!(got.iter().all(|(from, _)| *from == address(&a)));
        let wanted: Vec<_> = sent.chunks(segment).collect();
        datagrams_received += wanted.len() as u64;
        assert_eq!(
            got.iter()
                .map(|(_, datagram)| &datagram[..])
                .collect::<Vec<_>>(),
            wanted
        );
    }
    let expected = UdpCounters {
        receives: b.counters().receives,
        datagrams_received,
        ..UdpCounters::default()
    };
    assert_eq!(
        (a.counters(), b.counters()),
        (UdpCounters::default(), expected)
    );
    assert!((1..=datagrams_received).contains(&expected.receives));
}

#[test]
fn ipv6_works_alike() {
    let bind = || {
        LinkSocket::bind("[::1]:0".parse().unwrap(), None)
            .unwrap()
            .0
    };
    let (a, b, mut batch) = (bind(), bind(), ReceiveBatch::new());
    let sent = numbered(20_000, 1200);
    a.send(address(&b), &sent, 1200).unwrap();
    let got = receive(&b, &mut batch, 17);
    assert_eq!(got[0].0, address(&a));
    assert_eq!(
        got.into_iter()
            .flat_map(|(_, datagram)| datagram)
            .collect::<Vec<_>>(),
        sent
    );
}

#[test]
fn datagrams_may_be_changed_in_place() {
    let (a, b, mut batch) = (loopback(), loopback(), ReceiveBatch::new());
    a.send(address(&b), &[1; 300], 100).unwrap();
    receive(&b, &mut batch, 3);
    for (_, datagram) in batch.datagrams() {
        datagram.fill(9);
    }
    assert!(batch.datagrams().all(|(_, datagram)| datagram == [9; 100]));
}

#[test]
fn a_batch_takes_several_senders_and_leaves_the_rest_waiting() {
    let (a, b, c, mut batch) = (loopback(), loopback(), loopback(), ReceiveBatch::new());
    for n in 0..BATCH_RECEIVES as u8 + 4 {
        let sender = if n % 2 == 0 { &a } else { &b };
        sender.send(address(&c), &[n; 10], 10).unwrap();
    }
    let got = receive(&c, &mut batch, BATCH_RECEIVES + 4);
    for (n, (from, datagram)) in got.iter().enumerate() {
        assert_eq!(*from, address(if n % 2 == 0 { &a } else { &b }));
        assert_eq!(datagram[..], [n as u8; 10]);
    }
    assert_eq!(c.recv(&mut batch).unwrap(), 0);
    assert_eq!(batch.datagrams().count(), 0);
}

#[test]
fn what_does_not_fit_the_buffer_is_dropped_and_counted() {
    let (a, b) = (loopback(), loopback());
    let mut small = ReceiveBatch::with_buffer_bytes(100);
    a.send(address(&b), &[1; 101], 101).unwrap();
    a.send(address(&b), &[2; 100], 100).unwrap();
    let got = receive(&b, &mut small, 1);
    assert_eq!(got[0].1, [2; 100]);
    assert_eq!(b.counters().truncated, 1);
}

#[test]
fn what_overflows_the_receive_buffer_is_counted() {
    let (a, b, mut batch) = (loopback(), loopback(), ReceiveBatch::new());
    let burst = numbered(60_000, 1000);
    let mut sent = 0;
    for _ in 0..RECEIVE_BUFFER_BYTES * 4 / burst.len() {
        a.send(address(&b), &burst, 1000).unwrap();
        sent += 60;
    }
    let mut got = 0;
    loop {
        match b.recv(&mut batch).unwrap() {
            0 => break,
            count => got += count,
        }
    }
    // The counter comes along with the next datagram that does arrive.
    a.send(address(&b), b"x", 1).unwrap();
    receive(&b, &mut batch, 1);
    assert!(got < sent, "the buffer did not overflow");
    assert!(b.counters().kernel_drops > 0);
}

#[test]
fn a_port_nobody_listens_on_is_no_link_failure() {
    let a = loopback();
    let closed = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for _ in 0..20 {
        a.send(closed, &[0; 2000], 100).unwrap();
        assert_eq!(a.recv(&mut ReceiveBatch::new()).unwrap(), 0);
    }
}

#[test]
fn a_burst_beyond_the_limits_is_refused_before_the_kernel_sees_it() {
    let (a, to) = (loopback(), "127.0.0.1:9".parse().unwrap());
    for (bytes, segment) in [(65, 1), (BURST_BYTES_MAX + 1, 40_000), (10, 0)] {
        let error = a.send(to, &vec![0; bytes], segment).unwrap_err();
        assert!(matches!(error, SendError::Other(e) if e.kind() == io::ErrorKind::InvalidInput));
    }
}

#[test]
fn errors_are_sorted_by_what_to_do() {
    let sorted = |errno| SendError::from(io::Error::from_raw_os_error(errno));
    assert!(matches!(sorted(libc::EAGAIN), SendError::WouldBlock));
    assert!(matches!(sorted(libc::ENOBUFS), SendError::NoBuffers));
    assert!(matches!(sorted(libc::EMSGSIZE), SendError::TooBig));
    assert!(matches!(sorted(libc::EPERM), SendError::Other(_)));
    for errno in [libc::ENETDOWN, libc::ENODEV, libc::EADDRNOTAVAIL] {
        assert!(matches!(sorted(errno), SendError::LinkDown(_)));
    }
    for errno in [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EINVAL] {
        assert!(matches!(sorted(errno), SendError::NoRoute(_)));
    }
}

#[test]
fn an_address_that_cannot_be_reached_says_nothing_of_the_link() {
    let (a, b) = (loopback(), loopback());
    for nowhere in ["127.0.0.1:0", "192.0.2.1:7577"] {
        let result = a.send(nowhere.parse().unwrap(), &[0; 100], 100);
        assert!(matches!(result, Err(SendError::NoRoute(_))), "{result:?}");
    }
    a.send(address(&b), &[0; 100], 100).unwrap();
}

#[test]
fn binding_tells_what_is_wrong_and_what_would_be_right() {
    let error = LinkSocket::bind("192.0.2.1:7577".parse().unwrap(), None).unwrap_err();
    assert!(error.is_link_down());
    assert!(
        error.to_string().contains("192.0.2.1:7577: could not bind"),
        "{error}"
    );
    assert!(
        error.to_string().contains("one of this host's own"),
        "{error}"
    );
    let a = loopback();
    let error = LinkSocket::bind(address(&a), None).unwrap_err();
    assert!(!error.is_link_down());
    assert!(error.to_string().contains("choose another port"), "{error}");
    let error = LinkSocket::bind("127.0.0.1:0".parse().unwrap(), Some("nosuch0")).unwrap_err();
    assert!(error.to_string().contains("on nosuch0"), "{error}");
}

#[test]
fn a_port_that_is_claimed_is_nobody_elses() {
    for any in ["127.0.0.1:0", "[::1]:0"].map(|any| any.parse().unwrap()) {
        let claim = Claim::new(any).unwrap();
        let there = claim.address();
        for error in [
            LinkSocket::bind(there, None).map(drop),
            Claim::new(there).map(drop),
        ] {
            assert_eq!(error.unwrap_err().source.kind(), io::ErrorKind::AddrInUse);
        }
        let (link, _) = LinkSocket::of(claim, Some("lo")).unwrap();
        assert_eq!(address(&link), there);
        let (near, _) = LinkSocket::bind(any, None).unwrap();
        near.send(there, b"hello", 5).unwrap();
        let got = receive(&link, &mut ReceiveBatch::new(), 1);
        assert_eq!(got, [(address(&near), b"hello".to_vec())]);
    }
}

#[test]
fn buffers_are_as_large_as_reported_and_the_device_is_kept() {
    let (a, sizes) = LinkSocket::bind("127.0.0.1:0".parse().unwrap(), Some("lo")).unwrap();
    assert!(sizes.receive_bytes > 0 && sizes.receive_bytes <= RECEIVE_BUFFER_BYTES);
    assert!(sizes.send_bytes > 0 && sizes.send_bytes <= SEND_BUFFER_BYTES);
    assert!(matches!(
        a.device_binding(),
        DeviceBinding::Bound | DeviceBinding::Refused(_)
    ));
    assert!(matches!(
        loopback().device_binding(),
        DeviceBinding::Unasked
    ));
}

#[test]
fn where_the_device_will_not_segment_datagrams_go_singly() {
    let (a, b, mut batch) = (loopback(), loopback(), ReceiveBatch::new());
    // Without checksums the kernel refuses to segment, as it does for some devices.
    set_option(&a, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    let sent = numbered(10_000, 900);
    for round in 1..=3 {
        a.send(address(&b), &sent, 900).unwrap();
        let got = receive(&b, &mut batch, 12);
        assert_eq!(
            got.into_iter().flat_map(|(_, d)| d).collect::<Vec<_>>(),
            sent
        );
        assert_eq!(a.counters().gso_refused, round);
    }
}

/// Either makes the engine look at the devices.
fn is_no_way(result: &Result<(), SendError>) -> bool {
    matches!(result, Err(SendError::LinkDown(_) | SendError::NoRoute(_)))
}

#[test]
fn a_link_that_loses_address_device_or_carrier_is_down_until_it_is_back() {
    let name = "udp::tests::a_link_that_loses_address_device_or_carrier_is_down_until_it_is_back";
    isolated(name, || {
        let ip = Ipv4Addr::new(10, 1, 2, 1);
        let mut route = RouteSocket::new().unwrap();
        route.add_veth("a", "b", None).unwrap();
        let [a, b] = ["a", "b"].map(|name| route.link(name).unwrap().unwrap().index);
        let up = LinkSettings {
            up: true,
            mtu: Some(1400),
            ..Default::default()
        };
        for index in [a, b] {
            route.set_link(index, up).unwrap();
        }
        route.add_address(a, ip.into(), 24).unwrap();
        for device in [Some("a"), None] {
            let (socket, _) = LinkSocket::bind((ip, 7577).into(), device).unwrap();
            let to = "10.1.2.2:7577".parse().unwrap();
            let send = || socket.send(to, &[0; 3000], 1000);
            send().unwrap();
            route.delete_address(a, ip.into(), 24).unwrap();
            let result = send();
            assert!(is_no_way(&result), "address gone: {result:?}");
            assert!(
                LinkSocket::bind((ip, 1).into(), None)
                    .unwrap_err()
                    .is_link_down()
            );
            route.add_address(a, ip.into(), 24).unwrap();
            send().unwrap();
            route.set_down(a).unwrap();
            let result = send();
            assert!(is_no_way(&result), "device off: {result:?}");
            route.set_link(a, up).unwrap();
            send().unwrap();
            assert_eq!(
                socket.counters().gso_refused,
                0,
                "segmenting was given up for good"
            );

            for bytes in [1373, 2746] {
                let result = socket.send(to, &vec![0; bytes], 1373);
                assert!(
                    matches!(result, Err(SendError::TooBig)),
                    "{bytes}: {result:?}"
                );
                socket.send(to, &vec![0; bytes], 1372).unwrap();
            }
        }
        let (socket, _) = LinkSocket::bind((ip, 7577).into(), Some("a")).unwrap();
        route.delete_link(a).unwrap();
        let result = socket.send("10.1.2.2:7577".parse().unwrap(), &[0; 3000], 1000);
        assert!(is_no_way(&result), "{result:?}");
        assert_eq!(socket.recv(&mut ReceiveBatch::new()).unwrap(), 0);
    });
}
