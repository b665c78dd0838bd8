//! Devices made and watched in a namespace of their own; bytes that make no sense.

use std::net::Ipv4Addr;

use super::message::{Request, link_header};
use super::monitor::read_changes;
use super::route::LinkSettings;
use super::socket::Socket;
use super::*;
use crate::isolated::isolated;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);

#[test]
fn the_loopback_device_is_listed() {
    let all = interfaces().unwrap();
    let lo = all.iter().find(|interface| interface.name == "lo").unwrap();
    assert!(lo.index > 0 && lo.mtu > 0);
    assert!(all.is_sorted_by_key(|interface| interface.index));
}

#[test]
fn a_device_is_watched_from_birth_to_death() {
    isolated(
        "netlink::tests::a_device_is_watched_from_birth_to_death",
        || {
            let mut monitor = LinkMonitor::new().unwrap();
            assert_eq!(monitor.poll().unwrap(), []);
            let mut socket = Socket::new().unwrap();
            socket.add_veth("a", "b", None).unwrap();
            let (a, b) = (
                socket.link("a").unwrap().unwrap(),
                socket.link("b").unwrap().unwrap(),
            );
            assert!(!a.up && !a.carrier && a.mac.is_some());
            let state = |changes: &[Change], wanted: u32| {
                changes.iter().rev().find_map(|change| match change {
                    Change::Link {
                        index, up, carrier, ..
                    } if *index == wanted => Some((*up, *carrier)),
                    _ => None,
                })
            };
            assert_eq!(
                state(&monitor.poll().unwrap(), a.index),
                Some((false, false))
            );

            let up = LinkSettings {
                up: true,
                mtu: Some(1400),
                ..Default::default()
            };
            socket.set_link(a.index, up).unwrap();
            socket
                .set_link(
                    b.index,
                    LinkSettings {
                        up: true,
                        ..Default::default()
                    },
                )
                .unwrap();
            socket.add_address(a.index, ADDRESS.into(), 24).unwrap();
            let changes = wait_for(&mut monitor, |changes| {
                state(changes, a.index) == Some((true, true))
                    && changes
                        .iter()
                        .any(|change| matches!(change, Change::AddressAdded { .. }))
            });
            let added = Change::AddressAdded {
                index: a.index,
                address: ADDRESS.into(),
                prefix: 24,
            };
            assert!(changes.contains(&added), "{changes:?}");
            let listed = interfaces().unwrap();
            let found = listed
                .iter()
                .find(|interface| interface.name == "a")
                .unwrap();
            assert!(found.up && found.carrier && found.mtu == 1400 && found.mac == a.mac);
            let wanted = InterfaceAddress {
                ip: ADDRESS.into(),
                prefix: 24,
            };
            assert!(found.addresses.contains(&wanted), "{found:?}");

            socket.delete_address(a.index, ADDRESS.into(), 24).unwrap();
            let removed = Change::AddressRemoved {
                index: a.index,
                address: ADDRESS.into(),
                prefix: 24,
            };
            assert!(monitor.poll().unwrap().contains(&removed));
            // The other end goes down: carrier loss without being switched off.
            socket.set_down(b.index).unwrap();
            wait_for(&mut monitor, |changes| {
                state(changes, a.index) == Some((true, false))
            });
            socket.delete_link(a.index).unwrap();
            let gone = Change::LinkGone {
                index: a.index,
                name: "a".into(),
            };
            assert!(monitor.poll().unwrap().contains(&gone));
            assert_eq!(socket.link("a").unwrap(), None);
        },
    );
}

#[test]
fn neighbours_asked_for_in_vain_are_forgotten() {
    isolated(
        "netlink::tests::neighbours_asked_for_in_vain_are_forgotten",
        || {
            let mut socket = Socket::new().unwrap();
            socket.add_veth("a", "b", None).unwrap();
            let index = |socket: &mut Socket, name| socket.link(name).unwrap().unwrap().index;
            let (a, b) = (index(&mut socket, "a"), index(&mut socket, "b"));
            let up = LinkSettings {
                up: true,
                ..Default::default()
            };
            socket.set_link(a, up).unwrap();
            socket.set_link(b, up).unwrap();
            socket.add_address(a, ADDRESS.into(), 24).unwrap();
            let mut neighbours = Neighbours::new().unwrap();
            assert_eq!(neighbours.forget_unresolved(a).unwrap(), 0);

            let sender = std::net::UdpSocket::bind((ADDRESS, 0)).unwrap();
            for host in [7, 8] {
                let nobody = Ipv4Addr::new(10, 1, 2, host);
                sender.send_to(b"who?", (nobody, 9)).unwrap();
            }
            assert_eq!(neighbours.forget_unresolved(b).unwrap(), 0);
            assert_eq!(neighbours.forget_unresolved(a).unwrap(), 2);
            assert_eq!(neighbours.forget_unresolved(a).unwrap(), 0);
        },
    );
}

/// Collects changes until they are what is wanted.
fn wait_for(monitor: &mut LinkMonitor, wanted: impl Fn(&[Change]) -> bool) -> Vec<Change> {
    let (mut all, mut ready) = (Vec::new(), Vec::new());
    let poller = crate::poll::Poller::new().unwrap();
    poller
        .register(&*monitor, 0, crate::poll::Interest::Read)
        .unwrap();
    while !wanted(&all) {
        poller
            .wait(Some(std::time::Duration::from_secs(10)), &mut ready)
            .unwrap();
        assert!(!ready.is_empty(), "the kernel told only {all:?}");
        all.extend(monitor.poll().unwrap());
    }
    all
}

#[test]
fn lost_changes_are_told() {
    isolated("netlink::tests::lost_changes_are_told", || {
        let mut monitor = LinkMonitor::new().unwrap();
        crate::sys::set_option(&monitor, libc::SOL_SOCKET, libc::SO_RCVBUF, 2048).unwrap();
        let mut socket = Socket::new().unwrap();
        for n in 0..20 {
            socket
                .add_veth(&format!("a{n}"), &format!("b{n}"), None)
                .unwrap();
        }
        assert!(monitor.poll().unwrap().contains(&Change::Resync));
        assert_eq!(
            interfaces()
                .unwrap()
                .iter()
                .filter(|i| i.name.starts_with('a'))
                .count(),
            20
        );
    });
}

#[test]
fn a_refusal_carries_the_reason() {
    isolated("netlink::tests::a_refusal_carries_the_reason", || {
        let mut socket = Socket::new().unwrap();
        socket.add_veth("a", "b", None).unwrap();
        let refused = socket.add_veth("a", "c", None).unwrap_err();
        assert_eq!(refused.source.raw_os_error(), Some(libc::EEXIST));
        let a = socket.link("a").unwrap().unwrap().index;
        let refused = socket.set_offload_bytes(a, u32::MAX).unwrap_err();
        assert!(
            refused.to_string().contains('('),
            "no reason given: {refused}"
        );
    });
}

#[test]
fn ports_of_a_bridge_are_not_devices() {
    let mut header = link_header(5, 0, 0);
    header[0] = libc::AF_BRIDGE as u8;
    let mut request = Request::new(libc::RTM_DELLINK, 0, &header);
    request.text(libc::IFLA_IFNAME, "eth0");
    let mut changes = Vec::new();
    read_changes(&request.finish(0), &mut changes);
    assert_eq!(changes, []);
}

#[test]
fn nonsense_never_panics() {
    let mut link = Request::new(libc::RTM_NEWLINK, 0, &link_header(5, 1, 0));
    link.text(libc::IFLA_IFNAME, "eth0")
        .number(libc::IFLA_MTU, 1500);
    link.attribute(libc::IFLA_OPERSTATE, &[6])
        .attribute(libc::IFLA_ADDRESS, &[2; 6]);
    let mut address = Request::new(libc::RTM_NEWADDR, 0, &message::address_header(2, 24, 0, 5));
    address.attribute(libc::IFA_ADDRESS, &[10, 0, 0, 1]);
    let valid = [link.finish(1), address.finish(2)].concat();
    // A small linear congruential generator; any numbers will do.
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut changes = Vec::new();
    for length in 0..=valid.len() {
        read_changes(&valid[..length], &mut changes);
    }
    for _ in 0..200_000 {
        let mut bytes = valid.clone();
        for _ in 0..=random(4) {
            bytes[random(valid.len())] = random(256) as u8;
        }
        bytes.truncate(1 + random(valid.len()));
        changes.clear();
        read_changes(&bytes, &mut changes);
    }
}

/// Has `lo` pass packets.
fn loopback_up() -> Socket {
    let mut socket = Socket::new().unwrap();
    let index = socket.link("lo").unwrap().unwrap().index;
    let up = LinkSettings {
        up: true,
        ..Default::default()
    };
    socket.set_link(index, up).unwrap();
    socket
}

#[test]
fn endpoints_and_limits_are_set_and_put_back() {
    isolated(
        "netlink::tests::endpoints_and_limits_are_set_and_put_back",
        || {
            let mut paths = MptcpPaths::open().unwrap();
            assert_eq!(paths.endpoints().unwrap(), []);
            let before = paths.limits().unwrap();
            let wanted = MptcpLimits {
                subflows: 5,
                add_addr_accepted: 6,
            };
            assert_ne!(before, wanted);
            paths.set_limits(wanted).unwrap();
            assert_eq!(paths.limits().unwrap(), wanted);
            paths.set_limits(before).unwrap();
            for address in [IpAddr::from(ADDRESS), "fd00::7".parse().unwrap()] {
                paths.announce(address, 240).unwrap();
                let twice = paths.announce(address, 241).unwrap_err();
                assert_eq!(twice.kind(), std::io::ErrorKind::AlreadyExists, "{twice}");
                let taken = paths.announce([10, 9, 9, 9].into(), 240).unwrap_err();
                assert_eq!(taken.kind(), std::io::ErrorKind::ResourceBusy, "{taken}");
                let [endpoint] = paths.endpoints().unwrap()[..] else {
                    panic!("one endpoint");
                };
                assert_eq!(
                    (endpoint.address, endpoint.is_plain_signal),
                    (address, true)
                );
                paths.withdraw(&endpoint).unwrap();
                assert!(paths.withdraw(&endpoint).is_err(), "it is gone");
                assert_eq!(paths.endpoints().unwrap(), []);
            }
        },
    );
}

/// Devices that the kernel has declared to be up (RFC 2863), in a datagram of its.
fn devices_that_pass(datagram: &[u8]) -> Vec<u32> {
    const IF_OPER_UP: &[u8] = &[6];
    let about = message::messages(datagram).flatten();
    let passes = |message: &Message<'_>| {
        let mut attributes = attributes(message.body.get(16..).unwrap_or(&[]));
        attributes.any(|(kind, value)| kind == libc::IFLA_OPERSTATE && value == IF_OPER_UP)
    };
    let passing = about.filter(passes);
    passing
        .filter_map(|message| u32_at(message.body, 4))
        .collect()
}

/// A device `a` with [`ADDRESS`], on a network; its number.
fn device_on_network() -> u32 {
    let mut socket = loopback_up();
    socket.add_veth("a", "b", None).unwrap();
    let mut said = Socket::subscribed(&[libc::RTNLGRP_LINK]).unwrap();
    let up = LinkSettings {
        up: true,
        ..Default::default()
    };
    for name in ["a", "b"] {
        // Or it has a link-local address of IPv6 at some time: a change that nobody here has made.
        let switch = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        std::fs::write(switch, "1").unwrap();
        let index = socket.link(name).unwrap().unwrap().index;
        socket.set_link(index, up).unwrap();
    }
    // The kernel says some time later that packets pass: that is no change of whoever listens from now on.
    let mut passing = std::collections::HashSet::new();
    while passing.len() < 2 {
        match said.receive() {
            Ok(datagram) => passing.extend(devices_that_pass(datagram)),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
    let index = socket.link("a").unwrap().unwrap().index;
    socket.add_address(index, ADDRESS.into(), 24).unwrap();
    index
}

#[test]
fn a_route_to_one_address_is_made_changed_and_removed() {
    isolated(
        "netlink::tests::a_route_to_one_address_is_made_changed_and_removed",
        || {
            let index = device_on_network();
            let neighbour = IpAddr::from([10, 1, 2, 4]);
            let mut routes = HostRoutes::open().unwrap();
            let beyond = IpAddr::from([10, 9, 9, 9]);
            assert!(routes.lookup(beyond, None).is_err());
            let found = routes.lookup(neighbour, None).unwrap();
            let route = found.route;
            assert_eq!((route.via, route.device), (None, Some(index)));
            assert_eq!(route.source, Some(ADDRESS.into()));
            assert!(!found.is_default && !found.is_to_one && !found.is_ours);
            let quick = route.with_least_timeout(std::time::Duration::from_millis(20));
            routes.add(&quick).unwrap();
            let found = routes.lookup(neighbour, None).unwrap();
            assert!(found.is_ours && found.is_to_one);
            let mut detour = HostRoute {
                to: beyond,
                via: Some(neighbour),
                device: None,
                ..quick.clone()
            };
            routes.add(&detour).unwrap();
            let twice = routes.add(&detour).unwrap_err();
            assert_eq!(twice.kind(), std::io::ErrorKind::AlreadyExists, "{twice}");
            // The kernel has found the device.
            detour.device = Some(index);
            assert_eq!(routes.list().unwrap(), [quick.clone(), detour.clone()]);
            detour.via = None;
            routes.replace(&detour).unwrap();
            assert_eq!(routes.list().unwrap(), [quick, detour.clone()]);
            for to in [neighbour, detour.to] {
                routes.delete(to).unwrap();
                assert!(routes.delete(to).is_err(), "it is gone");
            }
            assert!(routes.list().unwrap().is_empty());
        },
    );
}

#[test]
fn rules_say_which_table_is_asked() {
    isolated("netlink::tests::rules_say_which_table_is_asked", || {
        const TABLE: u32 = 7577;
        device_on_network();
        let (own, neighbour) = (IpAddr::from(ADDRESS), IpAddr::from([10, 1, 2, 4]));
        let mut monitor = RoutingMonitor::new().unwrap();
        let (mut rules, mut routes) = (Rules::open().unwrap(), HostRoutes::open().unwrap());
        assert!(!monitor.has_changed());
        let found = routes.lookup(neighbour, Some(own)).unwrap();
        assert_eq!((found.table, found.is_ours), (MAIN_TABLE, false));
        let foreign = routes.lookup(neighbour, Some([10, 9, 9, 9].into()));
        assert!(foreign.is_err(), "it is no address of this host's");
        routes.use_table(TABLE);
        routes.add(&found.route).unwrap();
        assert!(monitor.has_changed() && !monitor.has_changed());
        let found = routes.lookup(neighbour, Some(own)).unwrap();
        assert_eq!(found.table, MAIN_TABLE, "nobody asks the other one");
        for is_ipv4 in [true, false] {
            let before = rules.list(is_ipv4).unwrap();
            rules.add(is_ipv4, 100, TABLE).unwrap();
            let twice = rules.add(is_ipv4, 100, TABLE).unwrap_err();
            assert_eq!(twice.kind(), std::io::ErrorKind::AlreadyExists, "{twice}");
            let ours = rules.list(is_ipv4).unwrap().remove(1);
            let wanted = (100, RuleAction::Lookup(TABLE), true);
            assert_eq!((ours.priority, ours.action, ours.is_ours), wanted);
            assert_eq!((ours.from, ours.to), (None, None));
            assert!(monitor.has_changed());
            if is_ipv4 {
                let found = routes.lookup(neighbour, Some(own)).unwrap();
                assert_eq!((found.table, found.is_ours), (TABLE, true));
            }
            rules.remove_ours(is_ipv4);
            assert_eq!(rules.list(is_ipv4).unwrap(), before);
        }
        routes.use_table(MAIN_TABLE);
        assert!(routes.list().unwrap().is_empty());
        routes.remove_all();
        routes.use_table(TABLE);
        assert!(routes.list().unwrap().is_empty(), "in whatever table");
    });
}

#[test]
fn an_address_that_no_device_has_is_kept() {
    isolated(
        "netlink::tests::an_address_that_no_device_has_is_kept",
        || {
            let mut socket = Socket::new().unwrap();
            socket.add_veth("a", "b", None).unwrap();
            for name in ["lo", "a", "b"] {
                let index = socket.link(name).unwrap().unwrap().index;
                let up = LinkSettings {
                    up: true,
                    ..LinkSettings::default()
                };
                socket.set_link(index, up).unwrap();
            }
            let index = socket.link("a").unwrap().unwrap().index;
            let mut routes = HostRoutes::open().unwrap();
            let of_ipv6 = "fd00::7".parse().unwrap();
            for address in [IpAddr::from(ADDRESS), of_ipv6] {
                assert!(!is_own(address), "nobody has it");
                routes.keep_address(address).unwrap();
                assert!(is_own(address));
                let twice = routes.keep_address(address).unwrap_err();
                assert_eq!(twice.kind(), std::io::ErrorKind::AlreadyExists, "{twice}");
                assert_eq!(routes.kept_addresses().unwrap(), [address]);
                assert!(routes.list().unwrap().is_empty(), "it leads nowhere");
                // It returns, and is the device's from then on.
                socket.add_address(index, address, 24).unwrap();
                routes.release_address(address).unwrap();
                assert!(becomes_own(address), "the device has {address}");
                assert!(routes.release_address(address).is_err(), "not kept");
                assert!(routes.kept_addresses().unwrap().is_empty());
                assert!(is_own(address), "the device has it yet");
            }
            let error = routes.keep_address(ADDRESS.into()).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}");
        },
    );
}

/// Whether what is sent to an address arrives here.
fn is_own(address: IpAddr) -> bool {
    use std::net::{Ipv6Addr, UdpSocket};
    let any = match address {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let receiver = UdpSocket::bind((any, 0)).unwrap();
    receiver.set_nonblocking(true).unwrap();
    let port = receiver.local_addr().unwrap().port();
    // Without a route it cannot be sent; over loopback it is there at once.
    let sender = UdpSocket::bind((any, 0)).unwrap();
    sender.send_to(b"?", (address, port)).is_ok() && receiver.recv(&mut [0; 1]).is_ok()
}

/// The same, by and by: an address of IPv6 is looked for among the neighbours first (RFC 4862 section 5.4).
fn becomes_own(address: IpAddr) -> bool {
    let pause = std::time::Duration::from_millis(20);
    (0..500).any(|_| {
        let own = is_own(address);
        if !own {
            std::thread::sleep(pause);
        }
        own
    })
}

#[test]
fn the_subflows_of_a_connection_are_listed() {
    isolated(
        "netlink::tests::the_subflows_of_a_connection_are_listed",
        || {
            use socket2::{Domain, Protocol, SockAddr, Socket, Type};
            use std::io::{Read, Write};
            loopback_up();
            let mut paths = MptcpPaths::open().unwrap();
            let limits = MptcpLimits {
                subflows: 2,
                add_addr_accepted: 2,
            };
            paths.set_limits(limits).unwrap();
            paths.announce([127, 0, 0, 2].into(), 9).unwrap();
            let mptcp = || Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).unwrap();
            let listener = mptcp();
            let any: std::net::SocketAddr = "0.0.0.0:4000".parse().unwrap();
            listener.bind(&SockAddr::from(any)).unwrap();
            listener.listen(1).unwrap();
            let mut client = mptcp();
            let first: std::net::SocketAddr = "127.0.0.1:4000".parse().unwrap();
            client.connect(&first.into()).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            let mut exchange = || {
                client.write_all(b"x").unwrap();
                server.read_exact(&mut [0]).unwrap();
                server.write_all(b"y").unwrap();
                client.read_exact(&mut [0]).unwrap();
            };
            let mut subflows = Subflows::open().unwrap();
            let second: std::net::SocketAddr = "127.0.0.2:4000".parse().unwrap();
            let mut to = |wanted| loop {
                exchange();
                let all = subflows.list().unwrap();
                let found: Vec<_> = all.into_iter().filter(|s| s.remote == wanted).collect();
                if let [found] = found[..] {
                    break found;
                }
            };
            let (old, new) = (to(first), to(second));
            assert_eq!(old.connection, new.connection);
            assert_ne!(old.connection, 0);
        },
    );
}
