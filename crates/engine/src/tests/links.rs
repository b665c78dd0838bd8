//! Links whose socket is full, refuses, or is gone for a while.

use std::io;
use std::net::SocketAddr;

use core::time::Duration;
use tabane_io::netlink::Change;
use tabane_io::poll::Interest;
use tabane_io::udp::SendError;
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::op::OpLimits;
use tabane_proto::wire::WireMode;
use tabane_proto::{LinkId, Node, NodeConfig, PeerConfig, RelayConfig, Time, Transmit};

use super::fake::{DEVICE, Fake, ip};
use crate::link::{LinkSpec, RECHECK};
use crate::links::{LinkTable, Links};
use tabane_proto::GRANULARITY;

const PORT: u16 = 4000;
const LINK: LinkId = LinkId(0);
const PEERS: u8 = 3;

/// A node with one link and some peers that do not answer, and its loop's half of the work.
struct Host {
    fake: Fake,
    links: Links<Fake>,
    node: Node,
    now: Time,
}

impl Host {
    fn new(fake: Fake) -> Host {
        let spec = LinkSpec {
            id: LINK,
            address: ip(1),
        };
        let mut links = Links::new(fake.clone(), &[spec], PORT);
        links.reconcile(Time::ZERO, None);
        // It came up long ago: no neighbour is asked for any more.
        let now = Time::from_ms(10_000);
        links.wake_neighbours(now);
        fake.0.borrow_mut().asked.clear();
        let config = NodeConfig {
            name: "a".into(),
            keys: vec![[7; 32]],
            private: None,
            public: None,
            wire: WireMode::Encrypted,
            cipher_aes: true,
            receive_buffer_bytes: links.receive_buffer_bytes(),
            links: links.configs(),
            op_limits: OpLimits::default(),
            features: 0,
            relay: RelayConfig::default(),
            guests: None,
            congestion: tabane_proto::CongestionControl::default(),
        };
        let mut node = Node::new(now, config, [1; 32]).unwrap();
        node.handle_link(now, LINK, links.status()[0].up);
        for peer in 2..2 + PEERS {
            let mut addresses = [None; LINKS_MAX];
            addresses[0] = Some(SocketAddr::new(ip(peer), PORT));
            let name = peer.to_string();
            node.add_peer(
                now,
                PeerConfig {
                    name,
                    addresses,
                    public: None,
                },
            )
            .unwrap();
        }
        // First calls leave one after the other.
        let now = now + Duration::from_millis(10);
        node.handle_timeout(now);
        Host {
            fake,
            links,
            node,
            now,
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Sends all there is to send; returns how many bursts the node produced.
    fn send_all(&mut self) -> usize {
        let mut buffer = vec![0; 65_535];
        let mut count = 0;
        while let Some(transmit) = self.node.poll_transmit(self.now, &mut buffer) {
            self.links.send(self.now, &mut self.node, transmit, &buffer);
            count += 1;
        }
        count
    }

    fn writable(&mut self) {
        self.links.retry(self.now, &mut self.node, Some(0));
    }

    /// Time has passed, and nothing is ready.
    fn turn(&mut self) {
        self.links.retry(self.now, &mut self.node, None);
    }

    fn look(&mut self) -> Vec<String> {
        self.links.reconcile(self.now, Some(&mut self.node))
    }

    fn is_up(&self) -> bool {
        self.links.status()[0].up
    }
}

#[test]
fn a_full_socket_gets_its_burst_again_before_anything_else_is_produced() {
    let mut host = Host::new(Fake::with_device(1));
    host.fake.refuse(SendError::WouldBlock);
    // The first is held; nothing more is produced for the link.
    assert_eq!(host.send_all(), 1);
    assert_eq!((host.fake.tried(), host.fake.sent()), (1, 0));
    assert_eq!(host.fake.interest(), Some(Interest::ReadWrite));
    // No clock tries it: it is known when there is room.
    host.pass(Duration::from_secs(1));
    host.turn();
    assert_eq!(host.fake.tried(), 1);
    assert_eq!(host.links.next_timeout(), None);

    host.writable();
    assert_eq!(host.fake.sent(), 1);
    assert_eq!(host.fake.interest(), Some(Interest::Read));
    // Everybody who waited for it sends now.
    assert_eq!(host.send_all(), usize::from(PEERS) - 1);
    let mut to: Vec<_> = host.fake.0.borrow().sent.iter().map(|s| s.1).collect();
    to.sort_unstable();
    let peers = (2..2 + PEERS).map(|peer| SocketAddr::new(ip(peer), PORT));
    assert_eq!(to, peers.collect::<Vec<_>>());
}

#[test]
fn a_socket_that_is_full_again_has_nobody_asked_for_nothing() {
    let mut host = Host::new(Fake::with_device(1));
    host.fake.refuse(SendError::WouldBlock);
    host.send_all();
    assert!(!host.node.may_transmit());
    for _ in 0..10 {
        host.fake.refuse(SendError::WouldBlock);
        host.writable();
        assert!(!host.node.may_transmit());
        assert_eq!(host.send_all(), 0);
    }
    assert_eq!((host.fake.tried(), host.fake.sent()), (11, 0));
    assert_eq!(host.fake.interest(), Some(Interest::ReadWrite));
    host.writable();
    assert!(host.node.may_transmit());
}

#[test]
fn a_full_queue_of_the_device_is_tried_again_by_the_clock() {
    let mut host = Host::new(Fake::with_device(1));
    host.fake.refuse(SendError::NoBuffers);
    assert_eq!(host.send_all(), 1);
    // The socket may well be writable all the time.
    assert_eq!(host.fake.interest(), Some(Interest::Read));
    assert_eq!(host.links.next_timeout(), Some(host.now + GRANULARITY));
    host.pass(GRANULARITY / 2);
    host.turn();
    assert_eq!(host.fake.tried(), 1);
    host.fake.refuse(SendError::NoBuffers);
    host.pass(GRANULARITY / 2);
    host.turn();
    assert_eq!((host.fake.tried(), host.fake.sent()), (2, 0));
    assert_eq!(host.links.next_timeout(), Some(host.now + GRANULARITY));
    host.pass(GRANULARITY);
    host.turn();
    assert_eq!(host.fake.sent(), 1);
    assert_eq!(host.links.next_timeout(), None);
}

#[test]
fn what_tells_of_room_changes_with_what_is_full() {
    let mut host = Host::new(Fake::with_device(1));
    host.fake.refuse(SendError::WouldBlock);
    host.send_all();
    // Room in the socket, none in the device: a writable socket would keep the loop awake.
    host.fake.refuse(SendError::NoBuffers);
    host.writable();
    assert_eq!(host.fake.interest(), Some(Interest::Read));
    host.fake.refuse(SendError::WouldBlock);
    host.pass(GRANULARITY);
    host.turn();
    assert_eq!(host.fake.interest(), Some(Interest::ReadWrite));
    assert_eq!(host.links.next_timeout(), None);
    host.writable();
    assert_eq!(host.fake.sent(), 1);
}

#[test]
fn a_device_that_goes_takes_its_burst_along_and_returns_with_a_new_socket() {
    let mut host = Host::new(Fake::with_device(1));
    host.fake.refuse(SendError::WouldBlock);
    host.send_all();
    host.fake.unplug();
    assert_eq!(
        host.look(),
        ["link 0 (10.0.0.1) is down: no device has this address now"]
    );
    assert!(!host.is_up() && host.fake.0.borrow().open.is_empty());
    // Nothing is produced for it meanwhile, and nothing tried.
    host.pass(Duration::from_secs(5));
    host.node.handle_timeout(host.now);
    assert_eq!(host.send_all(), 0);
    assert_eq!(host.fake.tried(), 1);

    host.fake.plug_in(1);
    assert_eq!(host.look(), ["link 0 (10.0.0.1) is up on eth0"]);
    assert_eq!(host.fake.interest(), Some(Interest::Read));
    host.pass(Duration::from_secs(5));
    host.node.handle_timeout(host.now);
    assert_eq!(host.send_all(), usize::from(PEERS));
    assert_eq!(host.fake.sent(), usize::from(PEERS));
    // Its neighbours are asked for until the switch forwards.
    host.links.wake_neighbours(host.now);
    assert_eq!(host.fake.0.borrow().asked, [DEVICE]);
}

#[test]
fn a_device_that_loses_its_carrier_is_down_until_it_is_plugged_in() {
    let mut host = Host::new(Fake::with_device(1));
    host.fake.0.borrow_mut().devices[0].carrier = false;
    let words = host.look();
    assert_eq!(words.len(), 1);
    assert!(words[0].contains("no carrier"), "{words:?}");
    assert_eq!(host.send_all(), 0);
    host.fake.0.borrow_mut().devices[0].carrier = true;
    assert_eq!(host.look(), ["link 0 (10.0.0.1) is up on eth0"]);
    host.pass(Duration::from_secs(5));
    host.node.handle_timeout(host.now);
    assert_eq!(host.send_all(), usize::from(PEERS));
}

#[test]
fn a_socket_that_cannot_be_opened_is_tried_until_it_can() {
    let fake = Fake::with_device(1);
    let address = SocketAddr::new(ip(1), PORT);
    fake.0.borrow_mut().taken.insert(address);
    let mut host = Host::new(fake);
    assert!(!host.is_up());
    // It was said when the links were made, and is not said again.
    for _ in 0..3 {
        assert!(host.links.recheck_due(host.now));
        assert_eq!(host.look(), [""; 0]);
        assert_eq!(host.links.next_timeout(), Some(host.now + RECHECK));
        assert!(!host.links.recheck_due(host.now));
        host.pass(RECHECK);
    }
    assert_eq!(host.send_all(), 0);
    host.fake.0.borrow_mut().taken.clear();
    host.pass(RECHECK);
    assert_eq!(host.look(), ["link 0 (10.0.0.1) is up on eth0"]);
    host.node.handle_timeout(host.now);
    assert!(host.send_all() > 0);
}

#[test]
fn devices_that_cannot_be_listed_are_not_gone() {
    let mut host = Host::new(Fake::with_device(1));
    host.fake.0.borrow_mut().is_deaf = true;
    let told = host.look();
    assert!(told[0].contains("no descriptor is left"), "{told:?}");
    // Nobody takes what was seen last for what is there.
    assert!(host.links.devices().is_none());
    assert!(host.is_up());
    assert_eq!(host.links.next_timeout(), Some(host.now + RECHECK));
    assert_eq!(host.send_all(), usize::from(PEERS));
    // It is looked ever later, whatever changes meanwhile, and told once.
    host.fake.0.borrow_mut().changes.push(Change::Resync);
    assert!(!host.links.hear());
    assert_eq!(host.look(), [""; 0]);
    assert_eq!(host.links.next_timeout(), Some(host.now + 2 * RECHECK));
    host.fake.0.borrow_mut().is_deaf = false;
    assert_eq!(host.look(), ["the kernel tells this host's devices again"]);
    assert_eq!(host.links.devices().map(<[_]>::len), Some(1));
    host.fake.0.borrow_mut().is_deaf = true;
    assert_eq!(host.look().len(), 1);
}

#[test]
fn a_link_that_refuses_for_a_while_is_looked_at_and_comes_back() {
    let mut host = Host::new(Fake::with_device(1));
    let down = || io::Error::from(io::ErrorKind::NetworkDown);
    host.fake.refuse(SendError::LinkDown(down()));
    // The others are not tried: the node knows that the link is down.
    assert_eq!(host.send_all(), 1);
    assert!(!host.is_up());
    host.pass(RECHECK);
    assert!(host.links.recheck_due(host.now));
    host.look();
    assert!(host.is_up());
    host.pass(Duration::from_secs(5));
    host.node.handle_timeout(host.now);
    assert_eq!(host.send_all(), usize::from(PEERS));
}

#[test]
fn what_a_firewall_refuses_is_counted_and_stops_nothing() {
    let mut host = Host::new(Fake::with_device(1));
    let refused = io::Error::from(io::ErrorKind::PermissionDenied);
    host.fake.refuse(SendError::Other(refused));
    assert_eq!(host.send_all(), usize::from(PEERS));
    assert_eq!(host.fake.sent(), usize::from(PEERS) - 1);
    assert_eq!(host.links.status()[0].refused, 1);
    assert!(host.is_up());
}

#[test]
fn a_change_of_another_device_is_no_news_for_the_peers() {
    let mut host = Host::new(Fake::with_device(1));
    let mut hear = |change: Change| {
        // As if it had been told that the link is down: only a word about this link mends that.
        host.node.handle_link(host.now, LINK, false);
        assert!(
            host.node
                .poll_transmit(host.now, &mut vec![0; 65_535])
                .is_none()
        );
        host.fake.0.borrow_mut().changes.push(change);
        assert!(host.links.hear());
        host.links.reconcile(host.now, Some(&mut host.node));
        let asked = host.node.may_transmit();
        let mut buffer = vec![0; 65_535];
        while host.node.poll_transmit(host.now, &mut buffer).is_some() {}
        asked
    };
    let about = |index| Change::Link {
        index,
        name: "any".into(),
        up: true,
        carrier: true,
    };
    assert!(!hear(about(DEVICE + 1)));
    assert!(hear(about(DEVICE)));
    assert!(hear(Change::Resync));
    assert!(!hear(about(DEVICE + 1)));
}

#[test]
fn a_link_that_is_taken_away_sends_nothing_and_closes_its_socket() {
    let mut host = Host::new(Fake::with_device(1));
    host.links.set(host.now, &mut host.node, &[]);
    assert!(host.fake.0.borrow().open.is_empty());
    assert_eq!(host.send_all(), 0);
    let transmit = Transmit {
        link: LINK,
        to: SocketAddr::new(ip(2), PORT),
        bytes: 1,
        segment_bytes: 1,
        peer_was_heard: false,
    };
    host.links.send(host.now, &mut host.node, transmit, &[0]);
    assert_eq!(host.fake.tried(), 0);
}
