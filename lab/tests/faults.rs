//! Every fault does what it says to real traffic, and healing undoes it.

mod common;

use std::process::Stdio;
use std::time::Duration;

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
            let route = "route replace 10.77.0.0/24 dev eth0 advmss 1300";
            let words: Vec<_> = route.split(' ').collect();
            lab.ip(node, &words).expect("is replaced");
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

#[test]
fn a_nic_is_taken_out_and_put_in_again() {
    let lab = lab();
    assert!(works(&lab, 0) && works(&lab, 1));
    lab.unplug(0, 1).expect("is taken out");
    assert!(!carrier(&lab, 1, 0), "it is not there");
    assert!(!carrier(&lab, 0, 0) || pings(&lab, 0, 1, 0, 3, 56) == 0);
    assert!(works(&lab, 1), "the other link is untouched");
    lab.plug(0, 1).expect("is put in");
    assert!(works(&lab, 0));
}

#[test]
fn a_delay_grows_and_shrinks() {
    let slow = LinkSpec {
        delay: Duration::from_millis(1),
        ..LinkSpec::default()
    };
    let lab = lab_with(2, vec![slow, LinkSpec::default()]);
    assert!(works(&lab, 0));
    let added = Duration::from_millis(300);
    let within_100_ms = || {
        let mut ping = lab.command(0, "ping");
        ping.args(["-q", "-c1", "-W", "0.2", "10.77.0.2"]);
        run(ping).status.success()
    };
    lab.fail(0, Fault::Delay { added }, None).expect("grows");
    assert!(!within_100_ms());
    lab.heal(0).expect("shrinks");
    assert!(eventually(within_100_ms));
    let refused = lab.fail(1, Fault::Delay { added }, None);
    assert!(refused.is_err_and(|error| error.is_bad_input()));
}

#[test]
fn a_port_becomes_slow_or_short_of_memory_and_recovers() {
    let lab = lab();
    assert!(works(&lab, 0));
    let answered_large = || pings(&lab, 0, 1, 0, 50, 1_400);
    // 1.1 Mb/s are asked for, the port holds 50 ms of this.
    let bits_per_s = 200_000;
    lab.fail(0, Fault::Rate { bits_per_s }, None).expect("slow");
    assert!(answered_large() < 50);
    lab.heal(0).expect("heals");
    lab.fail(0, Fault::Buffer { bytes: 8_000 }, None)
        .expect("short");
    assert!(works(&lab, 0));
    lab.heal(0).expect("heals");
    assert!(eventually(|| answered_large() == 50));
}

fn sent_bytes(lab: &Lab) -> u64 {
    let mut read = lab.command(0, "cat");
    read.arg("/sys/class/net/eth0/statistics/tx_bytes");
    text(&run(read).stdout).trim().parse().unwrap_or(0)
}

/// A queue that was cut into frames while it held longer packets must go on.
#[test]
fn a_busy_link_survives_a_change_of_its_shapers() {
    let lab = lab_with(2, vec![LinkSpec::mbit(100)]);
    assert!(works(&lab, 0));
    let mut server = lab.command(1, "iperf3");
    server.args(["-s", "-1"]).stdout(Stdio::null());
    let mut server = server.spawn().expect("iperf3 starts");
    let mut client = lab.command(0, "iperf3");
    client.args(["-c", "10.77.0.2", "-t", "60", "-P", "4"]);
    client.stdout(Stdio::null()).stderr(Stdio::null());
    let connected = eventually(|| {
        let mut client = client.spawn().expect("iperf3 starts");
        let mut ended = || client.try_wait().expect("is asked").is_some();
        // It ends at once if the server does not listen yet.
        if !eventually(|| sent_bytes(&lab) > 2_000_000 || ended()) || ended() {
            return false;
        }
        for _ in 0..5 {
            let percent = 0.1;
            lab.fail(0, Fault::Loss { percent }, None).expect("fails");
            assert!(works(&lab, 0));
            lab.heal(0).expect("heals");
        }
        client.kill().and_then(|()| client.wait()).expect("ends");
        true
    });
    assert!(connected);
    server.kill().and_then(|()| server.wait()).expect("ends");
}
