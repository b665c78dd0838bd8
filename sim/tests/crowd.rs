//! Many send to one, or all to all: the links are used, everybody has an equal share, and the
//! queue before them is short.

use tabane_sim::bulk::Traffic;
use tabane_sim::crowd::Crowd;
use tabane_sim::net::MS;

/// `receivers`: so many nodes' links carry it.
fn shared_fairly(crowd: &Crowd, receivers: usize, traffic: Traffic) {
    let each = crowd.mbps_of_each(traffic);
    let sum: f64 = each.iter().sum();
    let links = 2.0 * (crowd.mbps * receivers as u64) as f64;
    // Headers of 66 bytes and more in 1514, and what acknowledgements tell.
    assert!(sum > 0.95 * 0.93 * links, "{sum} of {links}: {each:?}");
    let squares: f64 = each.iter().map(|mbps| mbps * mbps).sum();
    let jain = sum * sum / (each.len() as f64 * squares);
    assert!(jain > 0.98, "{jain}: {each:?}");
}

#[test]
fn eight_streams_to_one() {
    shared_fairly(&Crowd::to_one(8, 200), 1, Traffic::Stream);
    shared_fairly(&Crowd::to_one(8, 40), 1, Traffic::Stream);
}

#[test]
fn eight_flows_of_frames_to_one() {
    shared_fairly(&Crowd::to_one(8, 200), 1, Traffic::Frames);
    shared_fairly(&Crowd::to_one(8, 40), 1, Traffic::Frames);
}

#[test]
fn two_to_one() {
    shared_fairly(&Crowd::to_one(2, 500), 1, Traffic::Stream);
    shared_fairly(&Crowd::to_one(2, 500), 1, Traffic::Frames);
}

#[test]
fn streams_of_eight_to_all() {
    shared_fairly(&Crowd::to_all(8, 40), 8, Traffic::Stream);
}

#[test]
fn frames_of_eight_to_all() {
    shared_fairly(&Crowd::to_all(8, 40), 8, Traffic::Frames);
}

/// Acknowledgements that waited behind the other way's bulk, for longer and longer, passed for a slow link.
#[test]
fn both_ways_over_far_links() {
    for (mbps, delay_ms, traffic, least) in [
        (300, 20, Traffic::Stream, 0.85),
        (40, 10, Traffic::Stream, 0.7),
        (40, 10, Traffic::Frames, 0.7),
    ] {
        let crowd = Crowd {
            delay: delay_ms * MS,
            ..Crowd::to_all(2, mbps)
        };
        for carried in crowd.mbps_of_each(traffic) {
            let part = carried / (2 * mbps) as f64;
            assert!(part > least, "{part} of {crowd:?}, {traffic:?}");
        }
    }
}
