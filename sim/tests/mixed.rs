//! Links of all sorts together never carry less than the best of them alone.

use tabane_sim::bulk::Traffic;
use tabane_sim::mixed::{Link, Mixed};

/// A link of so many Mb/s and so many microseconds one way, before which so many milliseconds fit.
const fn link(mbps: u64, delay_us: u64, buffer_ms: u64) -> Link {
    Link {
        mbps,
        delay_us,
        loss_ppm: 0,
        buffer_ms,
    }
}

fn does_no_harm(mixed: &Mixed, of_sum_min: f64) {
    let share = mixed.share();
    assert!(
        !share.is_harm() && share.of_sum > of_sum_min,
        "{share:?}: {mixed}"
    );
}

/// The start overflowed the far link's short queue. What the loss was due to was found out while it still did: chance,
/// it seemed, and what chance takes is made up for, so half of what was sent was lost from then on.
#[test]
fn a_start_that_overflows_a_short_queue_is_no_lossy_link() {
    let links = vec![link(5, 100, 50), link(100, 5000, 5)];
    let traffic = Traffic::Frames;
    does_no_harm(&Mixed { links, traffic }, 0.9);
    let lossy = Link {
        loss_ppm: 50_000,
        ..link(100, 100, 100)
    };
    let links = vec![lossy, link(20, 100, 20), link(50, 15_000, 5)];
    let traffic = Traffic::Stream;
    does_no_harm(&Mixed { links, traffic }, 0.9);
}

/// What was found lost freed so much of a far window at once that the switch had no room for what then came at once.
/// And a path that had lost three quarters was given nothing any more, neither content nor copies to show that it is well.
#[test]
fn a_far_link_with_a_short_queue_is_not_sent_a_window_at_once() {
    let far = link(1000, 10_000, 5);
    let links = vec![far, link(200, 500, 50), far, link(333, 30_000, 100)];
    let traffic = Traffic::Stream;
    does_no_harm(&Mixed { links, traffic }, 0.8);
    let far = [link(300, 15_000, 5), link(300, 30_000, 100)];
    let links = vec![link(60, 100, 50), far[0], far[1]];
    let traffic = Traffic::Frames;
    does_no_harm(&Mixed { links, traffic }, 0.9);
}

/// What a fast link loses was sent again on the slow one that loses nothing, though that could not carry as much: the
/// receiver waited for it.
#[test]
fn what_a_fast_link_loses_is_not_left_to_a_slow_one() {
    let lossy = |mbps, loss_ppm| Link {
        loss_ppm,
        ..link(mbps, 100, 50)
    };
    for links in [
        vec![lossy(1000, 300_000), link(50, 500, 50)],
        vec![lossy(200, 100_000), link(20, 100, 50)],
    ] {
        for traffic in [Traffic::Stream, Traffic::Frames] {
            let links = links.clone();
            does_no_harm(&Mixed { links, traffic }, 0.95);
        }
    }
}

#[test]
fn whatever_links_are_drawn() {
    for seed in 0..6 {
        // TCP's window, not the links, may set the pace of frames over far links.
        does_no_harm(&Mixed::draw(seed), 0.4);
    }
}
