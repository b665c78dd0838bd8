use super::*;

fn address(host: usize, link: usize) -> SocketAddr {
    SocketAddr::from(([10, 77, link as u8, host as u8 + 1], 7577))
}

fn network(hosts: usize, links: usize, conditions: Conditions) -> Network {
    let mut random = Random::new(3);
    let port = |host, link, random: &mut Random| Port {
        up: Channel::new(conditions, random.fork(1)),
        down: Channel::new(conditions, random.fork(2)),
        address: Some(address(host, link)),
        carrier: true,
        excused_until: 0,
    };
    let ports = (0..hosts)
        .map(|h| (0..links).map(|l| port(h, l, &mut random)).collect())
        .collect();
    Network::new(ports, random)
}

/// Runs until nothing is under way; what arrived, when and where.
fn run(network: &mut Network, events: &mut Events) -> Vec<(Ns, usize, Vec<u8>)> {
    let mut arrived = Vec::new();
    while let Some((now, what)) = events.next_before(Ns::MAX) {
        match what {
            Happening::AtSwitch(id) => network.at_switch(now, id, events),
            Happening::AtHost(id) => {
                if let Some(packet) = network.at_host(id) {
                    arrived.push((now, packet.to_host, packet.bytes));
                }
            }
            _ => {}
        }
    }
    arrived
}

#[test]
fn a_segmented_transmit_arrives_as_its_datagrams_in_order() {
    let mut n = network(2, 1, Conditions::clean(1_000_000_000, MS, 1_000_000));
    let mut events = Events::default();
    let bytes: Vec<u8> = (0..2500u32).map(|i| i as u8).collect();
    n.transmit(0, (0, 0), address(1, 0), &bytes, 1000, &mut events);
    let arrived = run(&mut n, &mut events);
    let lengths: Vec<usize> = arrived.iter().map(|(_, _, b)| b.len()).collect();
    assert_eq!(lengths, [1000, 1000, 500]);
    assert_eq!(
        arrived
            .iter()
            .flat_map(|a| a.2.iter().copied())
            .collect::<Vec<_>>(),
        bytes
    );
    assert!(arrived.iter().all(|(at, to, _)| *at >= 2 * MS && *to == 1));
}

#[test]
fn silent_failures_of_wires_switches_and_pairs_stop_exactly_what_they_should() {
    let mut n = network(3, 2, Conditions::clean(1_000_000_000, MS, 1_000_000));
    let reach = |n: &mut Network, from: usize, to: usize, link: usize| {
        let mut events = Events::default();
        n.transmit(0, (from, link), address(to, link), &[1], 1, &mut events);
        !run(n, &mut events).is_empty()
    };
    n.change_switch(0, 0, |s| s.cut.push((0, 1)));
    assert!(!reach(&mut n, 0, 1, 0) && reach(&mut n, 1, 0, 0) && reach(&mut n, 0, 2, 0));
    assert_eq!(n.history(0, 1, 0).now(), Quality::Dead);
    assert_eq!(n.history(0, 2, 0).now(), Quality::Clean);
    n.change_switch(5, 0, |s| s.dead = true);
    assert!(!reach(&mut n, 0, 2, 0) && reach(&mut n, 0, 2, 1));
    n.change_switch(10, 0, |s| *s = Switch::default());
    assert!(reach(&mut n, 0, 1, 0));
    assert_eq!(n.history(0, 1, 0).at_least_since(Quality::Clean), Some(10));
    n.change_port(20, 2, 1, |p| p.carrier = false);
    assert!(!reach(&mut n, 0, 2, 1) && !reach(&mut n, 2, 0, 1));
    n.change_port(30, 2, 1, |p| {
        p.carrier = true;
        p.address = None;
    });
    assert!(!reach(&mut n, 0, 2, 1));
    assert_eq!(n.history(2, 0, 1).now(), Quality::Dead);
}

#[test]
fn corruption_changes_bytes_and_duplication_brings_a_packet_twice() {
    let conditions = Conditions {
        corrupt_ppm: 1_000_000,
        duplicate_ppm: 1_000_000,
        ..Conditions::clean(1_000_000_000, 0, 1_000_000)
    };
    let mut n = network(2, 1, conditions);
    let mut events = Events::default();
    n.transmit(0, (0, 0), address(1, 0), &[0; 1000], 1000, &mut events);
    let arrived = run(&mut n, &mut events);
    assert_eq!(arrived.len(), 4);
    assert!(arrived.iter().any(|(_, _, b)| b.iter().any(|b| *b != 0)));
}

#[test]
fn loss_in_both_wires_counts_together() {
    let conditions = Conditions {
        loss_ppm: 290_000,
        ..Conditions::clean(1_000_000_000, 0, 100_000)
    };
    let mut n = network(2, 1, conditions);
    assert_eq!(n.history(0, 1, 0).now(), Quality::Working);
    n.change_port(1, 0, 0, |p| p.up.conditions.loss_ppm = 350_000);
    assert_eq!(n.history(0, 1, 0).now(), Quality::Poor);
}
