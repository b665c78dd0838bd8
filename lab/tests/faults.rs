//! Every fault does what it says to real traffic, and healing undoes it.

mod common;

use common::*;
use tabane_lab::{Fault, Lab, LinkSpec};

fn carrier(lab: &Lab, node: usize, link: usize) -> bool {
    let mut read = lab.command(node, "cat");
    read.arg(format!("/sys/class/net/eth{link}/carrier"));
    text(&run(read).stdout).trim() == "1"
}

#[test]
fn silent_keeps_carrier_and_passes_nothing() {
    let lab = lab();
    assert!(works(&lab, 0) && works(&lab, 1));
    let injected = lab.fail(1, Fault::Silent, None).expect("fails");
    assert!(
        injected.begun_ns <= injected.done_ns && injected.done_ns <= tabane_lab::monotonic_ns()
    );
    assert_eq!(pings(&lab, 0, 1, 1, 5, 56), 0);
    assert!(carrier(&lab, 0, 1) && carrier(&lab, 1, 1));
    assert!(works(&lab, 0), "the other link is untouched");
    lab.heal(1).expect("heals");
    assert!(works(&lab, 1));
}

#[test]
fn silent_for_one_node_leaves_the_others_talking() {
    let lab = lab_with(3, vec![LinkSpec::default()]);
    lab.fail(0, Fault::Silent, Some(2)).expect("fails");
    assert_eq!(pings(&lab, 0, 2, 0, 5, 56), 0);
    assert!(works(&lab, 0));
    lab.heal(0).expect("heals");
    assert!(eventually(|| pings(&lab, 0, 2, 0, 3, 56) == 3));
}

#[test]
fn carrier_is_lost_and_comes_back() {
    let lab = lab();
    assert!(eventually(|| carrier(&lab, 0, 0) && carrier(&lab, 1, 0)));
    lab.fail(0, Fault::Carrier, None).expect("fails");
    assert!(eventually(|| !carrier(&lab, 0, 0) && !carrier(&lab, 1, 0)));
    assert_eq!(pings(&lab, 0, 1, 0, 5, 56), 0);
    lab.heal(0).expect("heals");
    assert!(eventually(|| carrier(&lab, 0, 0) && carrier(&lab, 1, 0)));
    assert!(works(&lab, 0));
}

#[test]
fn carrier_is_lost_through_the_emulator_too() {
    let delay = std::time::Duration::from_millis(1);
    let lab = lab_with(
        2,
        vec![LinkSpec {
            delay,
            ..LinkSpec::default()
        }],
    );
    assert!(works(&lab, 0));
    lab.fail(0, Fault::Carrier, Some(1)).expect("fails");
    assert!(eventually(|| !carrier(&lab, 1, 0)));
    assert!(carrier(&lab, 0, 0), "only n1's cable is pulled");
    assert_eq!(pings(&lab, 0, 1, 0, 5, 56), 0);
    lab.heal(0).expect("heals");
    assert!(works(&lab, 0));
}

/// Counts what arrives, for a ping needs both directions.
fn received(lab: &Lab, node: usize, link: usize) -> u64 {
    let mut read = lab.command(node, "cat");
    read.arg(format!("/sys/class/net/eth{link}/statistics/rx_packets"));
    text(&run(read).stdout).trim().parse().expect("a number")
}

#[test]
fn oneway_stops_what_the_node_sends_and_only_that() {
    let lab = lab();
    assert!(works(&lab, 0));
    for (node, other, chosen) in [(0, 1, None), (1, 0, Some(1))] {
        lab.fail(0, Fault::OneWay, chosen).expect("fails");
        let (before_node, before_other) = (received(&lab, node, 0), received(&lab, other, 0));
        assert_eq!(pings(&lab, node, other, 0, 5, 56), 0);
        assert_eq!(
            received(&lab, other, 0),
            before_other,
            "n{node} is not heard"
        );
        assert_eq!(pings(&lab, other, node, 0, 5, 56), 0);
        assert!(received(&lab, node, 0) >= before_node + 5, "n{node} hears");
        lab.heal(0).expect("heals");
        assert!(works(&lab, 0));
    }
}

#[test]
fn loss_takes_its_share_of_frames() {
    let lab = lab();
    assert!(works(&lab, 0));
    lab.fail(0, Fault::Loss { percent: 50.0 }, None)
        .expect("fails");
    // A ping passes twice: a quarter is answered, 100 of 400; ±50 is 5.8 sigma.
    let answered = pings(&lab, 0, 1, 0, 400, 56);
    assert!((50..150).contains(&answered), "{answered} of 400");
    lab.heal(0).expect("heals");
    assert!(works(&lab, 0));
    assert_eq!(pings(&lab, 0, 1, 0, 50, 56), 50);
}

#[test]
fn loss_for_one_node_spares_the_others() {
    let lab = lab_with(3, vec![LinkSpec::default()]);
    assert!(works(&lab, 0));
    lab.fail(0, Fault::Loss { percent: 100.0 }, Some(2))
        .expect("fails");
    assert_eq!(pings(&lab, 0, 2, 0, 5, 56), 0);
    assert_eq!(pings(&lab, 2, 0, 0, 5, 56), 0);
    assert_eq!(pings(&lab, 0, 1, 0, 20, 56), 20);
}

/// Bytes a TCP transfer of at most two seconds gets across.
fn tcp_bytes(lab: &Lab) -> u64 {
    let mut sink = lab.command(1, "sh");
    sink.args([
        "-c",
        "timeout 2 socat -u TCP-LISTEN:5000,reuseaddr - | wc -c",
    ]);
    let sink = sink
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("socat starts");
    let source = "head -c 1000000 /dev/zero | timeout 2 socat -u - TCP:10.77.0.2:5000,retry=100,interval=0.02";
    let mut send = lab.command(0, "sh");
    send.args(["-c", source]);
    run(send);
    text(&sink.wait_with_output().expect("ends").stdout)
        .trim()
        .parse()
        .expect("a number")
}

#[test]
fn mtu_swallows_longer_packets_and_passes_the_rest() {
    for link in [LinkSpec::default(), LinkSpec::unshaped()] {
        let lab = lab_with(2, vec![link]);
        assert!(works(&lab, 0));
        assert_eq!(tcp_bytes(&lab), 1_000_000);
        lab.fail(0, Fault::Mtu { bytes: 1400 }, None)
            .expect("fails");
        assert_eq!(pings(&lab, 0, 1, 0, 5, 1400 - 28), 5);
        assert_eq!(pings(&lab, 0, 1, 0, 5, 1400 - 27), 0);
        // Offloaded segments of 1500 bytes are longer, too.
        assert_eq!(tcp_bytes(&lab), 0);
        // And shorter ones pass, though the packet they are offloaded as is longer.
        for node in 0..2 {
            let mut route = lab.command(node, "ip");
            route.args([
                "route",
                "replace",
                "10.77.0.0/24",
                "dev",
                "eth0",
                "advmss",
                "1300",
            ]);
            assert!(run(route).status.success());
        }
        assert_eq!(tcp_bytes(&lab), 1_000_000);
        lab.heal(0).expect("heals");
        assert_eq!(pings(&lab, 0, 1, 0, 5, 1500 - 28), 5);
    }
}

#[test]
fn faults_of_several_links_hold_at_once_and_heal_one_by_one() {
    let lab = lab_with(2, vec![LinkSpec::default(); 3]);
    lab.fail(0, Fault::Silent, None).expect("fails");
    lab.fail(1, Fault::Loss { percent: 100.0 }, None)
        .expect("fails");
    lab.fail(1, Fault::OneWay, Some(1)).expect("fails");
    lab.fail(1, Fault::Carrier, Some(0)).expect("fails");
    assert_eq!(pings(&lab, 0, 1, 0, 3, 56), 0);
    assert_eq!(pings(&lab, 0, 1, 1, 3, 56), 0);
    assert!(works(&lab, 2));
    lab.heal(1).expect("heals");
    assert!(works(&lab, 1), "one healing undoes all of a link");
    assert_eq!(pings(&lab, 0, 1, 0, 3, 56), 0);
    lab.heal(0).expect("heals");
    lab.heal(0).expect("healing what is whole does nothing");
    assert!(works(&lab, 0));
}
