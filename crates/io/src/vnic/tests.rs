//! Two hosts (network namespaces) joined by nothing but their virtual NICs and
//! a thread that carries the frames from one to the other.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::isolated::isolated;
use crate::poll::{Interest, Poller};
use crate::sys::check;

const NAME: &str = "tab0";

fn options(backend: Backend, addresses: &[(IpAddr, u8)]) -> VnicOptions<'_> {
    VnicOptions {
        name: NAME,
        mac: [
            2,
            0,
            0,
            0,
            0,
            if addresses.is_empty() {
                9
            } else {
                host(addresses[0].0)
            },
        ],
        mtu: 9000,
        addresses,
        gso_bytes_max: 180_000,
        tx_queue_length: 1000,
        backend,
    }
}

/// The number of a host: the last byte of its address.
fn host(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    }
}

fn open(backend: Backend, host: u8) -> Result<Vnic, VnicError> {
    let ipv6 = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host];
    let addresses = [
        (Ipv4Addr::new(10, 9, 9, host).into(), 24),
        (ipv6.into(), 64),
    ];
    Vnic::open(&options(backend, &addresses))
}

/// Puts this thread into a new network namespace.
fn new_host() {
    // SAFETY: takes no pointers; concerns this thread alone.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).unwrap();
}

/// A TAP needs a device file that an ordinary user may not have; then the
/// error must say so, and that is all that can be shown.
fn has_tap() -> bool {
    match std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
    {
        Ok(_) => true,
        Err(_) => {
            let error = open(Backend::Tap, 1).unwrap_err();
            assert!(error.to_string().contains("/dev/net/tun"), "{error}");
            false
        }
    }
}

/// Carries frames both ways until told to stop; returns the longest.
fn carry(mut ends: [Vnic; 2], stop: &AtomicBool) -> usize {
    let poller = Poller::new().unwrap();
    for (token, end) in ends.iter().enumerate() {
        poller.register(end, token as u64, Interest::Read).unwrap();
    }
    let mut buffer = vec![0; ends.iter().map(Vnic::frame_bytes_max).max().unwrap()];
    let (mut ready, mut longest) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        poller
            .wait(Some(Duration::from_millis(20)), &mut ready)
            .unwrap();
        for from in ready.iter().map(|ready| ready.token as usize) {
            while let Some(bytes) = ends[from].read(&mut buffer).unwrap() {
                longest = longest.max(bytes);
                let (header, frame) = buffer[..bytes].split_at(HEADER_BYTES);
                let frame = [IoSlice::new(header), IoSlice::new(frame)];
                // On a busy machine there may be no room; but no frame is wrong.
                if let Err(error) = ends[1 - from].write(&frame) {
                    assert_ne!(error.kind(), io::ErrorKind::InvalidInput, "{bytes} bytes");
                }
            }
        }
    }
    for mut end in ends {
        assert_eq!(end.counters().unwrap().truncated, 0);
    }
    longest
}

/// Ends the process when `work` panics: the other threads would wait for it
/// for ever.
fn or_exit<T>(work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| std::process::exit(101))
}

/// What `client` and `server` do on two hosts joined by virtual NICs; the
/// longest frame that passed.
fn joined(
    backends: [Backend; 2],
    server: impl FnOnce() + Send,
    client: impl FnOnce() + Send,
) -> usize {
    let (opened, ends) = std::sync::mpsc::channel();
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let hosts: [(u8, Box<dyn FnOnce() + Send>); 2] =
            [(1, Box::new(server)), (2, Box::new(client))];
        let hosts = hosts.map(|(number, work)| {
            let opened = opened.clone();
            scope.spawn(move || {
                new_host();
                opened
                    .send(open(backends[usize::from(number) - 1], number))
                    .unwrap();
                drop(opened);
                or_exit(work);
            })
        });
        let ends = [ends.recv().unwrap().unwrap(), ends.recv().unwrap().unwrap()];
        let carrier = scope.spawn(move || or_exit(|| carry(ends, stop)));
        for host in hosts {
            host.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        carrier.join().unwrap()
    })
}

/// A listening socket that is ready before anyone asks for it.
fn tcp_both_ways(ip: &'static str) -> (impl FnOnce() + Send, impl FnOnce() + Send) {
    let data: Vec<u8> = (0..8_000_000u32).map(|n| (n / 7) as u8).collect();
    let wanted = data.clone();
    let server = move || {
        let (mut stream, _) = TcpListener::bind((ip, 7000)).unwrap().accept().unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got == wanted, "{} bytes, not those sent", got.len());
        stream.write_all(&got[..1_000_000]).unwrap();
    };
    let client = move || {
        let mut stream = connect((ip.parse::<IpAddr>().unwrap(), 7000).into());
        stream.write_all(&data).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got == data[..1_000_000]);
    };
    (server, client)
}

/// Connects as soon as the other host is up and listens.
fn connect(to: SocketAddr) -> TcpStream {
    for _ in 0..500 {
        if let Ok(stream) = TcpStream::connect_timeout(&to, Duration::from_secs(5)) {
            return stream;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("no connection to {to}");
}

/// How long frames of TCP are: from, and to. Those of IPv6 beyond 64 KiB would not be understood at their
/// destination.
const BIG_TCP: [(&str, usize, usize); 2] = [
    ("10.9.9.1", 65_536, 180_100),
    ("fd00::1", 30_000, 65_536 + 100),
];

#[test]
fn tcp_through_the_packet_backend_passes_in_packets_beyond_64_kib() {
    isolated(
        "vnic::tests::tcp_through_the_packet_backend_passes_in_packets_beyond_64_kib",
        || {
            for (ip, at_least, below) in BIG_TCP {
                let (server, client) = tcp_both_ways(ip);
                let longest = joined([Backend::Packet; 2], server, client);
                let as_long_as_wanted = longest > at_least && longest < below;
                assert!(as_long_as_wanted, "longest frame over {ip}: {longest}");
            }
        },
    );
}

#[test]
fn tcp_through_the_tap_passes_in_packets_beyond_the_mtu() {
    isolated(
        "vnic::tests::tcp_through_the_tap_passes_in_packets_beyond_the_mtu",
        || {
            if !has_tap() {
                return;
            }
            for ip in ["10.9.9.1", "fd00::1"] {
                let (server, client) = tcp_both_ways(ip);
                let longest = joined([Backend::Tap; 2], server, client);
                assert!(
                    longest > 30_000 && longest < 65_536 + 100,
                    "over {ip}: {longest}"
                );
            }
        },
    );
}

#[test]
fn hosts_with_different_backends_understand_each_other() {
    isolated(
        "vnic::tests::hosts_with_different_backends_understand_each_other",
        || {
            if !has_tap() {
                return;
            }
            for (ip, at_least, below) in BIG_TCP {
                let (server, client) = tcp_both_ways(ip);
                let longest = joined([Backend::Tap, Backend::Packet], server, client);
                let as_long_as_wanted = longest > at_least && longest < below;
                assert!(as_long_as_wanted, "longest frame over {ip}: {longest}");
            }
        },
    );
}

/// Datagrams of all sizes, some larger than the MTU, come back as they went.
fn udp_echo(backend: Backend) {
    let finished = &AtomicBool::new(false);
    let server = move || {
        let socket = UdpSocket::bind("10.9.9.1:7001").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let mut buffer = [0; 65536];
        while !finished.load(Ordering::Relaxed) {
            if let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
                socket.send_to(&buffer[..bytes], from).unwrap();
            }
        }
    };
    let client = move || {
        let socket = UdpSocket::bind("10.9.9.2:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let mut buffer = [0; 65536];
        for bytes in [0, 1, 100, 8972, 8973, 30_000] {
            let sent: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
            // The first go nowhere while the other host is not up; on a busy
            // machine an answer may come when it is no longer waited for.
            let came_back = |_| {
                let _ = socket.send_to(&sent, "10.9.9.1:7001");
                socket
                    .recv(&mut buffer)
                    .is_ok_and(|got| buffer[..got] == sent)
            };
            assert!((0..500).any(came_back), "{bytes} bytes did not come back");
        }
        finished.store(true, Ordering::Relaxed);
    };
    joined([backend; 2], server, client);
}

#[test]
fn udp_passes_whatever_its_size() {
    isolated("vnic::tests::udp_passes_whatever_its_size", || {
        udp_echo(Backend::Packet);
        if has_tap() {
            udp_echo(Backend::Tap);
        }
    });
}

/// Whoever sends without measure fills a queue of its own.
#[test]
fn beside_a_flood_that_nobody_reads_other_flows_come_through() {
    const OTHERS: usize = 16;
    const FRAMES: usize = 10 * OTHERS;
    let name = "vnic::tests::beside_a_flood_that_nobody_reads_other_flows_come_through";
    isolated(name, || {
        let mut vnic = open(Backend::Packet, 1).unwrap();
        let sender = || {
            let socket = UdpSocket::bind("10.9.9.1:0").unwrap();
            // Then there is no neighbour to ask for.
            socket.set_broadcast(true).unwrap();
            socket.connect("10.9.9.255:9").unwrap();
            socket
        };
        let flood = sender();
        let mut number = 0_u32;
        while vnic.counters().unwrap().kernel_drops == 0 {
            for _ in 0..1000 {
                number += 1;
                let mut datagram = [0; 1000];
                datagram[..4].copy_from_slice(&number.to_be_bytes());
                flood.send(&datagram).unwrap();
            }
        }
        let others: Vec<_> = (0..OTHERS).map(|_| sender()).collect();
        for other in &others {
            other.send(b"hallo").unwrap();
        }
        let mut buffer = vec![0; vnic.frame_bytes_max()];
        let (mut came, mut last) = (0, 0);
        for _ in 0..FRAMES {
            let bytes = vnic.read(&mut buffer).unwrap().expect("the flood waits");
            // Behind the headers of Ethernet, IPv4 and UDP.
            let Some(datagram) = buffer[..bytes].get(HEADER_BYTES + 14 + 20 + 8..) else {
                continue;
            };
            match datagram {
                b"hallo" => came += 1,
                [a, b, c, d, rest @ ..] if rest.len() == 996 => {
                    let number = u32::from_be_bytes([*a, *b, *c, *d]);
                    assert!(number > last, "{number} after {last}");
                    last = number;
                }
                // What IPv6 says by itself.
                _ => {}
            }
        }
        // Those that share the flood's queue are lost: one in 14, by chance a few.
        assert!(came >= OTHERS / 2, "{came} of {OTHERS}");
        assert!(last > 0, "the flood has its turns");
    });
}

/// The kernel has a first tag beside the frame.
#[test]
fn frames_keep_their_vlan_tags() {
    isolated("vnic::tests::frames_keep_their_vlan_tags", || {
        for backend in backends() {
            let mut vnic = open(backend, 9).unwrap();
            let host = packet_socket(vnic.index());
            for types in [
                &[0x88, 0xb5][..],
                &[0x81, 0, 0xe0, 5, 0x88, 0xb5],
                &[0x88, 0xa8, 0, 7, 0x88, 0xb5],
                &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5, 0x88, 0xb5],
                // A priority, and no VLAN.
                &[0x81, 0, 0xe0, 0, 0x88, 0xb5],
            ] {
                let frame = [&MACS, types, &[7; 100]].concat();
                let sent = [&[0; HEADER_BYTES][..], &frame].concat();
                host.send(&sent).unwrap();
                let got = next_of(&mut vnic, 0x88b5);
                assert_eq!(got[HEADER_BYTES..], frame, "read from {backend:?}");
            }
        }
    });
}

/// What is left to the device stands as far behind the tag as it does in the frame.
#[test]
fn a_frame_to_be_cut_keeps_its_vlan_tag() {
    isolated("vnic::tests::a_frame_to_be_cut_keeps_its_vlan_tag", || {
        for backend in backends() {
            let mut vnic = open(backend, 9).unwrap();
            let host = packet_socket(vnic.index());
            for tags in [&[][..], &[0x81, 0, 0xe0, 5]] {
                // A TCP over IPv4 of 3000 bytes, to be cut into pieces of 1000.
                let start = (14 + tags.len() + 20) as u16;
                let words = [start + 20, 1000, start, 16].map(u16::to_ne_bytes);
                let header = [&[1, 1], words.as_flattened()].concat();
                let mut packet = vec![0; 20 + 20 + 3000];
                packet[..4].copy_from_slice(&[0x45, 0, 0x0b, 0xe0]);
                packet[8..10].copy_from_slice(&[64, 6]);
                packet[12..20].copy_from_slice(&[10, 9, 9, 9, 10, 9, 9, 1]);
                packet[32] = 5 << 4;
                let frame = [&MACS, tags, &[8, 0], &packet].concat();
                host.send(&[&header[..], &frame].concat()).unwrap();
                let got = next_of(&mut vnic, 0x0800);
                let (got_header, got_frame) = got.split_at(HEADER_BYTES);
                assert!(got_frame == frame, "read from {backend:?} behind {tags:x?}");
                // How much of it is headers is but a hint.
                assert_eq!(got_header[..2], header[..2]);
                assert_eq!(got_header[4..], header[4..], "{backend:?} {tags:x?}");
            }
        }
    });
}

/// To host 1, from host 9.
const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];

/// Those that can be made here.
fn backends() -> Vec<Backend> {
    let tap = has_tap().then_some(Backend::Tap);
    tap.into_iter().chain([Backend::Packet]).collect()
}

/// A packet socket of this host at a device, which sends frames behind their `virtio_net_hdr`.
fn packet_socket(device: u32) -> socket2::Socket {
    const PACKET_VNET_HDR: libc::c_int = 15;
    let socket = socket2::Socket::new(socket2::Domain::PACKET, socket2::Type::RAW, None).unwrap();
    crate::sys::set_option(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, 1).unwrap();
    socket.bind(&crate::sys::packet_address(device, 0)).unwrap();
    socket
}

/// The next frame with this type behind its tags. IPv6 says something by itself now and then.
fn next_of(vnic: &mut Vnic, ethertype: u16) -> Vec<u8> {
    let mut buffer = vec![0; vnic.frame_bytes_max()];
    for _ in 0..1000 {
        let Some(bytes) = vnic.read(&mut buffer).unwrap() else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        // Behind none, one and two tags.
        let places = [12, 16, 20].map(|at| HEADER_BYTES + at);
        if places
            .iter()
            .any(|at| buffer[*at..at + 2] == ethertype.to_be_bytes())
        {
            return buffer[..bytes].to_vec();
        }
    }
    panic!("no such frame");
}

/// Ours and those made by tests; the kernel may add some of its own.
fn names() -> Vec<String> {
    let links = crate::netlink::interfaces().unwrap().into_iter();
    links
        .map(|link| link.name)
        .filter(|name| name.starts_with(NAME) || name == "other")
        .collect()
}

#[test]
fn the_device_is_as_asked_for_alone_and_gone_in_the_end() {
    isolated(
        "vnic::tests::the_device_is_as_asked_for_alone_and_gone_in_the_end",
        || {
            let backends = if has_tap() {
                &[Backend::Tap, Backend::Packet][..]
            } else {
                &[Backend::Packet]
            };
            for &backend in backends {
                let vnic = open(backend, 3).unwrap();
                assert_eq!(vnic.backend(), backend);
                assert!(vnic.is_peer_hidden());
                assert_eq!(vnic.mtu(), 9000);
                assert_eq!(
                    vnic.gso_bytes_max(),
                    if backend == Backend::Tap {
                        65_536
                    } else {
                        180_000
                    }
                );
                assert_eq!(names(), [NAME]);
                // The kernel tells the carrier of a new pair a moment later.
                let tab0 = loop {
                    let all = crate::netlink::interfaces().unwrap();
                    let tab0 = all
                        .into_iter()
                        .find(|link| link.index == vnic.index())
                        .unwrap();
                    assert!(tab0.up);
                    if tab0.carrier {
                        break tab0;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(1));
                };
                assert_eq!((tab0.mtu, tab0.mac), (9000, Some([2, 0, 0, 0, 0, 3])));
                let ips: Vec<_> = tab0
                    .addresses
                    .iter()
                    .map(|a| (a.ip.to_string(), a.prefix))
                    .collect();
                assert!(
                    ips.contains(&("10.9.9.3".into(), 24)) && ips.contains(&("fd00::3".into(), 64))
                );
                assert_eq!(vnic.believes(), [""; 0]);
                for setting in [
                    "ipv4/conf/tab0/accept_redirects",
                    "ipv6/conf/tab0/accept_redirects",
                    "ipv6/conf/tab0/accept_ra",
                    "ipv6/conf/tab0/autoconf",
                ] {
                    let path = format!("/proc/sys/net/{setting}");
                    let value = std::fs::read_to_string(path).unwrap();
                    assert_eq!(value.trim(), "0", "{setting}");
                }
                let on = crate::ethtool::switched_on(&vnic.route, NAME).unwrap();
                assert!(on.contains(&"tx-tcp-segmentation".into()), "{on:?}");
                assert!(on.iter().all(|feature| is_carried(feature)), "{on:?}");
                drop(vnic);
                assert_eq!(names(), [""; 0]);
            }
        },
    );
}

#[test]
fn what_a_crashed_process_left_is_replaced_and_what_others_made_is_not() {
    isolated(
        "vnic::tests::what_a_crashed_process_left_is_replaced_and_what_others_made_is_not",
        || {
            // The descriptor stays open, so the pair stays too.
            let crashed = open(Backend::Packet, 1).unwrap();
            let old = crashed.index();
            std::mem::forget(crashed);
            let vnic = open(Backend::Packet, 1).unwrap();
            assert_ne!(vnic.index(), old);
            drop(vnic);

            let mut route = RouteSocket::new().unwrap();
            route.add_veth(NAME, "other", None).unwrap();
            for backend in [Backend::Packet, Backend::Tap, Backend::Auto] {
                let error = open(backend, 1).unwrap_err();
                assert!(matches!(error, VnicError::NameTaken { .. }), "{error}");
                assert!(error.to_string().contains("ip link delete tab0"), "{error}");
            }
            super::remove_left_behind(NAME).unwrap();
            assert_eq!(names(), ["other", NAME]);
        },
    );
}

/// Leaves this thread only those capabilities whose bits are set.
fn keep_capabilities(bits: u32) {
    // capset(2), version 3: effective, permitted, inheritable, for low and high bits.
    let header = [0x2008_0522u32, 0];
    let sets = [bits, bits, 0, 0, 0, 0];
    // SAFETY: both structures are as long as version 3 wants them.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) } as i32)
        .unwrap();
}

#[test]
fn with_some_privileges_the_best_device_they_permit_is_made() {
    isolated(
        "vnic::tests::with_some_privileges_the_best_device_they_permit_is_made",
        || {
            let tap = has_tap();
            const NET_ADMIN: u32 = 1 << 12;
            const NET_RAW: u32 = 1 << 13;
            keep_capabilities(NET_ADMIN | NET_RAW);
            let vnic = open(Backend::Auto, 1).unwrap();
            assert_eq!(
                (vnic.backend(), vnic.is_peer_hidden()),
                (Backend::Packet, false)
            );
            assert_eq!(names(), ["tab0-peer", NAME]);
            // Also what was left of such a pair is replaced.
            std::mem::forget(vnic);
            drop(open(Backend::Auto, 1).unwrap());
            assert_eq!(names(), [""; 0]);
            std::mem::forget(open(Backend::Auto, 1).unwrap());
            for _ in 0..2 {
                super::remove_left_behind(NAME).unwrap();
                assert_eq!(names(), [""; 0]);
            }
            keep_capabilities(NET_ADMIN);
            match open(Backend::Auto, 1) {
                Ok(vnic) => assert_eq!((tap, vnic.backend()), (true, Backend::Tap)),
                Err(error) => assert!(!tap && error.to_string().contains("CAP_NET_RAW"), "{error}"),
            }
        },
    );
}

#[test]
fn without_privileges_the_error_says_which_are_needed() {
    isolated(
        "vnic::tests::without_privileges_the_error_says_which_are_needed",
        || {
            keep_capabilities(0);
            for backend in [Backend::Packet, Backend::Auto] {
                let error = open(backend, 1).unwrap_err();
                assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}");
            }
            assert_eq!(names(), [""; 0]);
        },
    );
}

#[test]
fn wrong_options_and_buffers_are_refused() {
    isolated("vnic::tests::wrong_options_and_buffers_are_refused", || {
        for name in ["", "sixteen-letters-", "a/b", "a b", ".", "a:b", "a\0"] {
            let wrong = VnicOptions {
                name,
                ..options(Backend::Auto, &[])
            };
            assert!(
                matches!(Vnic::open(&wrong), Err(VnicError::InvalidName { .. })),
                "{name:?}"
            );
        }
        let wrong = VnicOptions {
            mtu: 1 << 20,
            ..options(Backend::Packet, &[])
        };
        let error = Vnic::open(&wrong).unwrap_err();
        assert!(error.to_string().contains("set the MTU"), "{error}");
        assert_eq!(names(), [""; 0]);

        let mut vnic = open(Backend::Packet, 1).unwrap();
        assert_eq!(
            vnic.read(&mut [0; 100]).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
        for nonsense in [&[][..], &[0; 9], &[0xff; 300], &[0; 12]] {
            assert!(
                vnic.write(&[IoSlice::new(nonsense)]).is_err(),
                "{} bytes",
                nonsense.len()
            );
        }
        RouteSocket::new()
            .unwrap()
            .delete_link(vnic.index())
            .unwrap();
        let mut buffer = vec![0; vnic.frame_bytes_max()];
        let mut outcome = vnic.read(&mut buffer);
        while let Ok(Some(_)) = outcome {
            outcome = vnic.read(&mut buffer);
        }
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::NetworkDown);
    });
}
