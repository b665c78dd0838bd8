use super::super::Claim;
use super::*;

const NOW: Time = Time::from_ms(1000);
const ALONE: Claim = Claim {
    user: 0,
    is_shared: false,
};
const SHARED: Claim = Claim {
    user: 0,
    is_shared: true,
};
const SYN: Flags = flags(true, false, false, false);
const SYN_ACK: Flags = flags(true, true, false, false);
const ACK: Flags = flags(false, true, false, false);
const FIN: Flags = flags(false, true, true, false);
const RST: Flags = flags(false, false, false, true);

const fn flags(syn: bool, ack: bool, fin: bool, rst: bool) -> Flags {
    Flags { syn, ack, fin, rst }
}

fn ends(transport: Transport, own: u16, far: u16) -> Ends {
    Ends {
        transport,
        own,
        far: SocketAddr::from(([198, 51, 100, 7], far)),
    }
}

fn tcp(own: u16, far: u16, flags: Flags) -> Head {
    let ends = ends(Transport::Tcp, own, far);
    Head { ends, flags }
}

fn udp(own: u16, far: u16) -> Head {
    Head {
        ends: ends(Transport::Udp, own, far),
        flags: Flags::default(),
    }
}

fn tracker() -> Tracker<char> {
    let mut tracker = Tracker::new(100, 100);
    let http = ends(Transport::Tcp, 80, 1).port();
    tracker.ports.claim('a', http, ALONE).unwrap();
    tracker
}

fn everybody(_: char) -> bool {
    true
}

#[test]
fn first_packets_alone_leave_nothing_behind() {
    let mut tracker = tracker();
    for far in 1..1000 {
        let to = tracker.inward(NOW, tcp(80, far, SYN), everybody);
        assert_eq!(to, Inward::To('a', 80));
        let goes = tracker.outward(NOW, 'a', tcp(80, far, SYN_ACK));
        assert_eq!(goes, Outward::Goes(80, LANE_OF_OTHERS));
        let goes = tracker.outward(NOW, 'a', tcp(80, far, RST));
        assert_eq!(goes, Outward::Goes(80, LANE_OF_OTHERS));
    }
    assert_eq!(tracker.count(), 0);
    let Outward::Goes(80, lane) = tracker.outward(NOW, 'a', tcp(80, 7, ACK)) else {
        panic!("it is open");
    };
    assert!(lane != LANE_OF_OTHERS && tracker.count() == 1);
    assert_eq!(tracker.ports.all().next().map(|(.., count)| count), Some(1));
}

#[test]
fn nobody_speaks_from_what_is_not_its_own() {
    let mut tracker = tracker();
    assert_eq!(
        tracker.outward(NOW, 'b', tcp(80, 7, SYN_ACK)),
        Outward::Stray
    );
    assert_eq!(tracker.outward(NOW, 'b', tcp(80, 7, ACK)), Outward::Stray);
    assert_eq!(
        tracker.outward(NOW, 'b', tcp(80, 7, SYN)),
        Outward::Opens(None)
    );
    assert_eq!(
        tracker.outward(NOW, 'b', udp(53, 7)),
        Outward::Opens(Some(53))
    );
    assert_eq!(
        tracker.inward(NOW, tcp(81, 7, SYN), everybody),
        Inward::Unclaimed
    );
    assert_eq!(
        tracker.inward(NOW, udp(80, 7), everybody),
        Inward::Unclaimed
    );
    assert_eq!(
        tracker.inward(NOW, tcp(80, 7, SYN), |_| false),
        Inward::Away
    );
}

#[test]
fn two_that_begin_from_the_same_port_have_different_ones_outside() {
    let mut tracker = tracker();
    let head = tcp(5000, 443, SYN);
    assert_eq!(tracker.outward(NOW, 'a', head), Outward::Opens(Some(5000)));
    let lane_a = tracker.open(NOW, 'a', head.ends, 5000).unwrap();
    assert_eq!(tracker.outward(NOW, 'b', head), Outward::Opens(None));
    assert_eq!(tracker.open(NOW, 'b', head.ends, 5000), Err(Refused::InUse));
    let lane_b = tracker.open(NOW, 'b', head.ends, 6000).unwrap();
    assert_ne!(lane_a, lane_b);
    let data = tcp(5000, 443, ACK);
    assert_eq!(tracker.outward(NOW, 'a', data), Outward::Goes(5000, lane_a));
    assert_eq!(tracker.outward(NOW, 'b', data), Outward::Goes(6000, lane_b));
    assert_eq!(tracker.inward(NOW, data, everybody), Inward::To('a', 5000));
    assert_eq!(
        tracker.inward(NOW, tcp(6000, 443, ACK), everybody),
        Inward::To('b', 5000)
    );
    // Another far end may be reached from the same port.
    let other = tcp(5000, 444, SYN);
    assert_eq!(tracker.lent_port(other.ends), Some(5000));
    assert_eq!(tracker.lent_port(head.ends), None);
    assert_eq!(
        tracker.forget(ends(Transport::Tcp, 6000, 443)),
        Some(lane_b)
    );
    assert_eq!(tracker.poll_freed().map(|port| port.number), Some(6000));
    assert_eq!(tracker.outward(NOW, 'b', data), Outward::Stray);
}

#[test]
fn who_shares_a_port_keeps_what_it_was_given() {
    let mut tracker = Tracker::new(10, 10);
    let port = ends(Transport::Tcp, 80, 1).port();
    for owner in ['a', 'b'] {
        tracker.ports.claim(owner, port, SHARED).unwrap();
    }
    let mut given = Vec::new();
    for far in 1..=4 {
        let Inward::To(owner, 80) = tracker.inward(NOW, tcp(80, far, SYN), everybody) else {
            panic!("it is given");
        };
        for flags in [SYN, ACK] {
            let again = tracker.inward(NOW, tcp(80, far, flags), everybody);
            assert_eq!(again, Inward::To(owner, 80));
        }
        given.push(owner);
    }
    assert_eq!(given, ['a', 'b', 'a', 'b']);
    let unknown = tracker.inward(NOW, tcp(80, 9, ACK), everybody);
    assert_eq!(unknown, Inward::Perhaps(vec!['a', 'b']));
    assert_eq!(
        tracker.outward(NOW, 'a', tcp(80, 2, ACK)),
        Outward::Stray,
        "it is the other's"
    );
}

#[test]
fn what_is_over_is_forgotten() {
    let mut tracker = tracker();
    let begin = |tracker: &mut Tracker<char>, own, far| {
        let head = tcp(own, far, SYN);
        tracker.open(NOW, 'b', head.ends, own).unwrap();
        tracker.inward(NOW, tcp(own, far, SYN_ACK), everybody);
    };
    for own in 1..=4 {
        begin(&mut tracker, own, 443);
    }
    tracker
        .open(NOW, 'b', ends(Transport::Tcp, 5, 443), 5)
        .unwrap();
    tracker.outward(NOW, 'b', tcp(1, 443, FIN));
    tracker.outward(NOW, 'b', tcp(2, 443, FIN));
    tracker.inward(NOW, tcp(2, 443, FIN), everybody);
    tracker.inward(NOW, tcp(3, 443, RST), everybody);
    let left = |tracker: &mut Tracker<char>, after: Duration| {
        tracker.look(NOW + after);
        tracker.all().map(|(ends, _)| ends.own).collect::<Vec<_>>()
    };
    let second = Duration::from_secs(1);
    assert_eq!(left(&mut tracker, RESET_MAX + second), [1, 2, 4, 5]);
    assert_eq!(left(&mut tracker, CLOSED_MAX + second), [1, 4, 5]);
    assert_eq!(left(&mut tracker, UNANSWERED_MAX + second), [1, 4]);
    assert_eq!(left(&mut tracker, HALF_CLOSED_MAX + second), [4]);
    assert_eq!(left(&mut tracker, REST_MAX + second), [0; 0]);
    assert_eq!(tracker.count_of('b'), 0);
    assert_eq!(core::iter::from_fn(|| tracker.poll_over()).count(), 5);
}

#[test]
fn a_far_end_that_begins_anew_from_the_same_port_is_a_new_one() {
    let mut tracker = tracker();
    tracker.outward(NOW, 'a', tcp(80, 7, ACK));
    tracker.outward(NOW, 'a', tcp(80, 7, FIN));
    tracker.inward(NOW, tcp(80, 7, FIN), everybody);
    assert_eq!(
        tracker.inward(NOW, tcp(80, 7, SYN), everybody),
        Inward::To('a', 80)
    );
    assert_eq!(tracker.count(), 0);
}

#[test]
fn one_has_so_many_and_loses_them_when_it_is_gone() {
    let mut tracker = Tracker::new(10, 3);
    for far in 1..=3 {
        let head = udp(9, far);
        tracker.open(NOW, 'a', head.ends, 9).unwrap();
        tracker.inward(NOW, head, everybody);
    }
    assert_eq!(tracker.outward(NOW, 'a', udp(9, 4)), Outward::Full);
    assert_eq!(
        tracker.outward(NOW, 'b', udp(9, 4)),
        Outward::Opens(Some(9))
    );
    tracker.forget_owner('a');
    assert_eq!((tracker.count(), tracker.count_of('a')), (0, 0));
    assert_eq!(tracker.poll_freed().map(|port| port.number), Some(9));
    assert_eq!(tracker.poll_freed(), None);
}

/// As many short connections as a busy server has in a minute, and more than are remembered.
#[test]
fn who_is_full_of_what_is_over_has_room() {
    let mut tracker = Tracker::new(10, 50);
    let port = ends(Transport::Tcp, 80, 1).port();
    tracker.ports.claim('a', port, ALONE).unwrap();
    let talks = |tracker: &mut Tracker<char>, far| {
        let goes = tracker.outward(NOW, 'a', tcp(80, far, ACK));
        tracker.inward(NOW, tcp(80, far, ACK), everybody);
        matches!(goes, Outward::Goes(80, lane) if lane != LANE_OF_OTHERS)
    };
    assert!(talks(&mut tracker, 1), "it goes on");
    for far in 2..1000 {
        assert!(talks(&mut tracker, far));
        tracker.outward(NOW, 'a', tcp(80, far, FIN));
        tracker.inward(NOW, tcp(80, far, FIN), everybody);
        // Others that begin inside have it as well.
        let begins = tcp(9000, far, SYN);
        assert_eq!(
            tracker.outward(NOW, 'a', begins),
            Outward::Opens(Some(9000))
        );
    }
    assert_eq!((tracker.count(), tracker.fading.len()), (50, 49));
    assert!(tracker.get_mut(ends(Transport::Tcp, 80, 1)).is_some());
    // As many as may be that go on are as many as may be.
    for far in 2000..2049 {
        assert!(talks(&mut tracker, far));
    }
    assert!(!talks(&mut tracker, 3000));
    assert_eq!(tracker.outward(NOW, 'a', tcp(9000, 1, SYN)), Outward::Full);
}

/// Where two share a port, each first packet makes an entry: those of whoever does not hear the answer go first.
#[test]
fn a_flood_leaves_room_for_true_ones() {
    let mut tracker = Tracker::new(10, 50);
    let port = ends(Transport::Tcp, 80, 1).port();
    for owner in ['a', 'b'] {
        tracker.ports.claim(owner, port, SHARED).unwrap();
    }
    let begins = |tracker: &mut Tracker<char>, far| {
        let to = tracker.inward(NOW, tcp(80, far, SYN), everybody);
        let Inward::To(owner, 80) = to else {
            panic!("it is given: {to:?}");
        };
        let answer = tracker.outward(NOW, owner, tcp(80, far, SYN_ACK));
        assert!(matches!(answer, Outward::Goes(80, _)), "{answer:?}");
        owner
    };
    let mut owners = Vec::new();
    for far in 1..=40 {
        owners.push(begins(&mut tracker, far));
        tracker.inward(NOW, tcp(80, far, ACK), everybody);
    }
    for far in 1000..5000 {
        begins(&mut tracker, far);
    }
    assert_eq!(tracker.count(), 100);
    for (far, owner) in (1..=40).zip(owners) {
        let known = tracker.inward(NOW, tcp(80, far, ACK), everybody);
        assert_eq!(known, Inward::To(owner, 80));
    }
    // They are over as soon as any that nobody has confirmed.
    for _ in 0..2 {
        tracker.look(NOW + UNANSWERED_MAX + LOOK_EVERY);
    }
    assert_eq!((tracker.count(), tracker.fading.len()), (40, 0));
}

/// Datagrams in the names of others, answered by a server, take no room from connections.
#[test]
fn datagrams_at_a_port_of_ones_own_go_first() {
    let mut tracker = Tracker::new(10, 50);
    let port = ends(Transport::Udp, 53, 1).port();
    tracker.ports.claim('a', port, ALONE).unwrap();
    for far in 1..1000 {
        for _ in 0..2 {
            let to = tracker.inward(NOW, udp(53, far), everybody);
            assert_eq!(to, Inward::To('a', 53));
            let goes = tracker.outward(NOW, 'a', udp(53, far));
            assert!(matches!(goes, Outward::Goes(53, _)), "{goes:?}");
        }
    }
    assert_eq!(tracker.count(), 50);
    let begins = tcp(9000, 443, SYN);
    assert_eq!(
        tracker.outward(NOW, 'a', begins),
        Outward::Opens(Some(9000))
    );
    assert!(tracker.open(NOW, 'a', begins.ends, 9000).is_ok());
}

#[test]
fn so_many_ports_are_tried_that_may_be_shared() {
    let mut tracker = Tracker::new(10, 1000);
    let taken = 5000..5000 + LENT_TRIES as u16;
    for own in taken.clone() {
        tracker
            .open(NOW, 'a', ends(Transport::Tcp, own, 443), own)
            .unwrap();
    }
    tracker
        .open(NOW, 'a', ends(Transport::Tcp, 4000, 444), 4000)
        .unwrap();
    let lent = |own| tracker.lent_port(ends(Transport::Tcp, own, 443));
    assert_eq!(
        (lent(taken.start), lent(taken.start + 1)),
        (None, Some(4000))
    );
}

#[test]
fn looking_for_what_is_silent_takes_a_bounded_time() {
    let mut tracker = Tracker::new(10, 10_000);
    for far in 1..=3000 {
        tracker
            .open(NOW, 'a', ends(Transport::Udp, 9, far), 9)
            .unwrap();
    }
    let mut now = NOW + SPOKEN_MAX;
    for left in [3000 - LOOK_AT_MAX, 3000 - 2 * LOOK_AT_MAX, 0] {
        tracker.look(now);
        assert_eq!(tracker.count(), left);
        now += LOOK_EVERY;
    }
}

/// Strangers who never hear an answer use up what may begin; who has confirmed a connection, and begins another one, does not ask in vain.
#[test]
fn who_has_confirmed_a_connection_begins_others_while_strangers_flood() {
    let mut tracker = tracker().with_greylist();
    let of = |host: u8, flags: Flags| {
        let mut head = tcp(80, 5000, flags);
        head.ends.far.set_ip([198, 18, 0, host].into());
        head
    };
    tracker.inward(NOW, of(1, SYN), everybody);
    tracker.outward(NOW, 'a', of(1, SYN_ACK));
    tracker.inward(NOW, of(1, ACK), everybody);
    tracker.outward(NOW, 'a', of(1, ACK));
    tracker.inward(NOW, of(1, ACK), everybody);
    tracker.outward(NOW, 'a', of(1, RST));
    let mut passed = 0;
    for far in 1..20_000 {
        let to = tracker.inward(NOW, tcp(80, far, SYN), everybody);
        passed += usize::from(to == Inward::To('a', 80));
    }
    assert!((1..2_000).contains(&passed), "{passed}");
    let stranger = tracker.inward(NOW, of(2, SYN), everybody);
    assert_eq!(stranger, Inward::Greylisted);
    let again = tracker.inward(NOW, of(2, SYN), everybody);
    assert_eq!(again, Inward::To('a', 80), "it has asked twice");
    let mut another = of(1, SYN);
    another.ends.far.set_port(6000);
    let known = tracker.inward(NOW, another, everybody);
    assert_eq!(known, Inward::To('a', 80));
}
