//! How fast a path is used, over toy links in virtual time.

use core::time::Duration;

use super::toy::{Toy, Wire, ms, us};

/// Payload of a full packet as a share of what it takes of the wire.
const PAYLOAD: f64 = 1430.0 / 1538.0;

/// A toy whose end 0 has begun to send without end.
fn bulk(wire: Wire) -> Toy {
    let mut toy = Toy::new(&[wire], 1);
    toy.run_for(ms(500));
    toy.ends[0].backlog = u64::MAX;
    toy
}

/// Share of the wire of `path` 0 that new bytes took in the next while, and the longest queue meanwhile.
fn share(toy: &mut Toy, run: Duration) -> (f64, Duration) {
    let before = toy.ends[1].got_bytes;
    toy.wires[0][0].queue_max = Duration::ZERO;
    toy.run_for(run);
    let got = (toy.ends[1].got_bytes - before) as f64;
    let wire = &toy.wires[0][0];
    let possible = wire.bytes_per_s * run.as_secs_f64() * PAYLOAD;
    (got / possible, wire.queue_max)
}

#[test]
fn fills_links_of_every_kind_with_a_short_queue() {
    for (mbit, delay, queue_max) in [
        (10.0, us(100), ms(10)),
        (100.0, us(50), ms(5)),
        (1000.0, us(15), ms(3)),
        (1000.0, us(100), ms(3)),
        (1000.0, ms(5), ms(4)),
        (100.0, ms(50), ms(30)),
        (10_000.0, us(30), ms(2)),
        (40_000.0, us(15), ms(2)),
    ] {
        let mut toy = bulk(Wire::new(mbit, delay));
        let run = ms(if mbit > 5000.0 { 50 } else { 300 }) + delay * 40;
        toy.run_for(run);
        let (share, queue) = share(&mut toy, run);
        assert!(share > 0.95, "{mbit} Mb/s, {delay:?}: {share}");
        assert!(queue < queue_max, "{mbit} Mb/s, {delay:?}: {queue:?}");
    }
}

/// Answers stand in the queue of the other end's bulk: that must not be taken for a queue of one's own.
#[test]
fn two_ends_that_send_at_once_each_have_the_whole_link() {
    // On a slow link every packet carries an acknowledgement.
    for (mbit, delay, least) in [
        (10.0, us(100), 0.9),
        (1000.0, us(15), 0.93),
        (1000.0, ms(2), 0.93),
    ] {
        let mut toy = bulk(Wire::new(mbit, delay));
        toy.run_for(ms(100));
        toy.ends[1].backlog = u64::MAX;
        toy.run_for(ms(500));
        for _ in 0..3 {
            let before = toy.ends[0].got_bytes;
            let run = ms(1000);
            let (there, queue) = share(&mut toy, run);
            let got = (toy.ends[0].got_bytes - before) as f64;
            let back = got / (toy.wires[1][0].bytes_per_s * run.as_secs_f64() * PAYLOAD);
            let shares = there.min(back);
            assert!(shares > least, "{mbit} Mb/s, {delay:?}: {there} {back}");
            assert!(queue < ms(15), "{mbit} Mb/s, {delay:?}: {queue:?}");
        }
    }
}

#[test]
fn full_rate_within_a_few_round_trips() {
    for (mbit, delay, least) in [
        (1000.0, us(50), 0.95),
        (1000.0, us(150), 0.95),
        (10_000.0, us(20), 0.9),
    ] {
        let mut toy = bulk(Wire::new(mbit, delay));
        toy.run_for(delay * 10);
        let (share, _) = share(&mut toy, ms(5));
        assert!(share > least, "{mbit} Mb/s, {delay:?}: {share}");
    }
}

/// A way that carried next to nothing, behind the queue of others, is not known to be slow: bulk starts up on it.
#[test]
fn small_talk_that_waited_says_nothing_of_the_rate() {
    let mut toy = Toy::new(&[Wire::new(1000.0, us(50))], 1);
    toy.run_for(ms(500));
    for _ in 0..100 {
        let now = toy.now;
        toy.wires[0][0].crowd(now, ms(12));
        toy.ends[0].backlog = 200;
        toy.run_for(ms(13));
    }
    toy.run_for(ms(50));
    toy.ends[0].backlog = u64::MAX;
    toy.run_for(ms(1));
    assert!(
        !toy.ends[0].paths[0].flight().rate_is_settled(),
        "it has only begun"
    );
    toy.run_for(ms(9));
    let (share, _) = share(&mut toy, ms(20));
    assert!(share > 0.95, "{share}");
}

#[test]
fn random_loss_costs_only_what_is_lost() {
    for (delay, loss, least) in [
        (us(50), 0.01, 0.98),
        (us(50), 0.3, 0.98),
        (us(50), 0.5, 0.95),
        (ms(2), 0.05, 0.98),
        (ms(2), 0.3, 0.95),
    ] {
        let mut wire = Wire::new(1000.0, delay);
        wire.loss = loss;
        let mut toy = bulk(wire);
        toy.run_for(ms(300));
        let (share, queue) = share(&mut toy, ms(500));
        let of_possible = share / (1.0 - loss);
        assert!(of_possible > least, "{loss} {delay:?}: {of_possible}");
        assert!(queue < ms(10), "{loss} {delay:?}: {queue:?}");
    }
}

/// A burst of loss may have been an overflow, so that a short queue is tried: not shorter than what the peer's
/// rests call for.
#[test]
fn a_burst_of_loss_leaves_the_link_busy_though_the_peer_rests() {
    for (rest, sender_rest) in [(us(500), us(0)), (ms(1), us(0)), (ms(1), us(500))] {
        let mut toy = bulk(Wire::new(1000.0, us(15)));
        toy.ends[0].rest = sender_rest;
        toy.ends[1].rest = rest;
        toy.run_for(ms(500));
        for _ in 0..3 {
            toy.both(0, |w| w.loss = 0.1);
            toy.run_for(ms(25));
            toy.both(0, |w| w.loss = 0.0);
            for _ in 0..10 {
                let (share, queue) = share(&mut toy, ms(50));
                assert!(share > 0.97, "{rest:?}: {share}");
                assert!(queue < ms(3), "{rest:?}: {queue:?}");
            }
        }
    }
}

#[test]
fn follows_a_link_that_becomes_slower_and_faster() {
    let mut toy = bulk(Wire::new(1000.0, us(50)));
    toy.run_for(ms(200));
    let now = toy.now;
    toy.both(0, |w| w.set_mbit(now, 100.0));
    toy.run_for(ms(100));
    let (slow, queue) = share(&mut toy, ms(50));
    assert!(slow > 0.95 && queue < ms(6), "{slow} {queue:?}");
    let now = toy.now;
    toy.both(0, |w| w.set_mbit(now, 1000.0));
    toy.run_for(ms(20));
    let (fast, queue) = share(&mut toy, ms(50));
    assert!(fast > 0.95 && queue < ms(4), "{fast} {queue:?}");
}

#[test]
fn a_token_bucket_does_not_pass_for_a_fast_link() {
    let mut wire = Wire::new(1000.0, us(50));
    wire.burst_bytes = 128e3;
    let mut toy = bulk(wire);
    for _ in 0..5 {
        toy.ends[0].backlog = u64::MAX;
        let (busy, queue) = share(&mut toy, ms(100));
        assert!(busy > 0.95 && queue < ms(8), "{busy} {queue:?}");
        let (_, queue) = share(&mut toy, ms(100));
        assert!(queue < ms(5), "still fooled after 100 ms: {queue:?}");
        toy.ends[0].backlog = 0;
        toy.run_for(ms(100));
    }
}

#[test]
fn senders_on_one_link_share_it() {
    for delay in [us(50), ms(2)] {
        let wire = Wire::new(1000.0, delay);
        let mut toy = Toy::new(&[wire.clone(), wire.clone(), wire], 1);
        toy.shared = true;
        toy.run_for(ms(500));
        toy.ends[0].allowed = vec![true, false, false];
        toy.ends[0].backlog = u64::MAX;
        toy.run_for(ms(500));
        toy.ends[0].allowed = vec![true; 3];
        toy.run_for(ms(1500));
        let before = toy.ends[1].path_bytes.clone();
        let (share, queue) = share(&mut toy, ms(500));
        assert!(share > 0.95 && queue < ms(8), "{share} {queue:?}");
        let got: Vec<u64> = (0..3)
            .map(|p| toy.ends[1].path_bytes[p] - before[p])
            .collect();
        let least = *got.iter().min().unwrap() as f64;
        let most = *got.iter().max().unwrap() as f64;
        assert!(least / most > 0.6, "{got:?}");
    }
}

#[test]
fn its_own_queue_does_not_pass_for_distance() {
    let mut toy = bulk(Wire::new(100.0, us(50)));
    toy.run_for(Duration::from_secs(30));
    let least = toy.ends[0].paths[0].stats().rtt_least;
    assert!(least < us(500), "{least:?}");
    let (share, queue) = share(&mut toy, Duration::from_secs(6));
    assert!(share > 0.99 && queue < ms(5), "{share} {queue:?}");
}

#[test]
fn a_small_buffer_is_not_overrun() {
    let mut wire = Wire::new(1000.0, us(50));
    wire.fifo = us(800);
    let mut toy = bulk(wire);
    toy.run_for(ms(300));
    let sent = toy.ends[0].paths[0].stats().packets_sent;
    let dropped = toy.wires[0][0].dropped;
    let (share, _) = share(&mut toy, ms(500));
    let sent = toy.ends[0].paths[0].stats().packets_sent - sent;
    let dropped = toy.wires[0][0].dropped - dropped;
    assert!(share > 0.95, "{share}");
    assert!(dropped < sent / 50, "{dropped} of {sent}");
}

#[test]
fn a_way_that_becomes_longer_does_not_pass_for_a_queue() {
    for (mbit, delay) in [(1000.0, ms(5)), (100.0, ms(10))] {
        let mut toy = bulk(Wire::new(mbit, us(100)));
        toy.run_for(ms(300));
        toy.both(0, |w| w.delay = delay);
        toy.run_for(ms(800));
        let (share, queue) = share(&mut toy, ms(200));
        assert!(share > 0.95, "{mbit} Mb/s, {delay:?}: {share}");
        assert!(queue < ms(15), "{mbit} Mb/s, {delay:?}: {queue:?}");
    }
}

#[test]
fn unequal_paths_are_all_filled() {
    for (mbit, delay, loss) in [
        (250.0, us(50), 0.0),
        (10.0, us(50), 0.0),
        (1000.0, us(50), 0.3),
        (1000.0, ms(5), 0.0),
    ] {
        let mut second = Wire::new(mbit, delay);
        second.loss = loss;
        let mut toy = Toy::new(&[Wire::new(1000.0, us(50)), second], 1);
        toy.run_for(ms(500));
        toy.ends[0].backlog = u64::MAX;
        toy.run_for(ms(400));
        let before = toy.ends[1].got_bytes;
        toy.run_for(ms(300));
        let got = (toy.ends[1].got_bytes - before) as f64 / 0.3;
        let possible = (1000.0 + mbit * (1.0 - loss)) * 125e3 * PAYLOAD;
        assert!(
            got > 0.95 * possible,
            "{mbit} {delay:?} {loss}: {}",
            got / possible
        );
    }
}

#[test]
fn half_of_the_receive_buffer_is_the_most_in_flight() {
    let config = super::PathConfig {
        receive_buffer_bytes: 200_000,
        ..super::PathConfig::default()
    };
    let mut toy = Toy::with(&[Wire::new(1000.0, ms(5))], 1, &config);
    toy.run_for(ms(300));
    toy.ends[0].backlog = u64::MAX;
    for _ in 0..100 {
        toy.run_for(ms(1));
        assert!(toy.ends[0].paths[0].stats().in_flight_bytes < 100_000 + 2000);
    }
}

#[test]
fn expected_delivery_grows_with_queue_distance_and_slowness() {
    let mut toy = Toy::new(
        &[
            Wire::new(1000.0, us(50)),
            Wire::new(100.0, us(50)),
            Wire::new(1000.0, ms(5)),
        ],
        1,
    );
    toy.run_for(ms(300));
    toy.ends[0].backlog = u64::MAX;
    toy.run_for(ms(500));
    toy.ends[0].backlog = 0;
    let queued = toy.ends[0].paths[0].flight().delivery_us(1000);
    toy.run_for(ms(100));
    let us: Vec<f64> = (0..3)
        .map(|p| toy.ends[0].paths[p].flight().delivery_us(10_000))
        .collect();
    assert!(queued > us[0] + 1000.0, "{queued} {us:?}");
    assert!(us[0] < us[1] && us[1] < us[2], "{us:?}");
    assert!((us[0] - 130.0).abs() < 30.0, "{us:?}");
    assert!((us[1] - 870.0).abs() < 150.0, "{us:?}");
}
