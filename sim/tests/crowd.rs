//! Many send to one, or all to all: the links are used, everybody has an equal share, and the
//! queue before them is short.

use tabane_sim::crowd::Crowd;
use tabane_sim::snapshot::Traffic;

/// `receivers`: how many the links of which together bear `crowd`.
fn shared_fairly(crowd: &Crowd, receivers: usize, goal: f64, traffic: Traffic) {
    let each = crowd.mbps_of_each(traffic);
    let sum: f64 = each.iter().sum();
    let links = 2.0 * (crowd.mbps * receivers as u64) as f64;
    // Headers of 66 bytes and more in 1514, and what acknowledgements tell.
    eprintln!("{} of links", sum / links);
    assert!(sum > goal * 0.93 * links, "{sum} of {links}: {each:?}");
    let squares: f64 = each.iter().map(|mbps| mbps * mbps).sum();
    let jain = sum * sum / (each.len() as f64 * squares);
    eprintln!("jain {jain}");
    assert!(jain > 0.98, "{jain}: {each:?}");
}

#[test]
fn eight_streams_to_one() {
    shared_fairly(&Crowd::to_one(8, 200), 1, 0.95, Traffic::Stream);
}

#[test]
fn eight_flows_of_frames_to_one() {
    shared_fairly(&Crowd::to_one(8, 200), 1, 0.95, Traffic::Frames);
}

#[test]
fn two_to_one() {
    shared_fairly(&Crowd::to_one(2, 500), 1, 0.95, Traffic::Stream);
    shared_fairly(&Crowd::to_one(2, 500), 1, 0.95, Traffic::Frames);
}

#[test]
fn eight_streams_to_one_slow() {
    shared_fairly(&Crowd::to_one(8, 40), 1, 0.95, Traffic::Stream);
}

#[test]
fn eight_flows_of_frames_to_one_slow() {
    shared_fairly(&Crowd::to_one(8, 40), 1, 0.95, Traffic::Frames);
}

#[test]
fn streams_of_eight_to_all() {
    shared_fairly(&Crowd::to_all(8, 100), 8, 0.95, Traffic::Stream);
}

#[test]
fn frames_of_eight_to_all() {
    shared_fairly(&Crowd::to_all(8, 100), 8, 0.95, Traffic::Frames);
}
#[test]
fn streams_of_eight_to_all_slow() {
    shared_fairly(&Crowd::to_all(8, 40), 8, 0.95, Traffic::Stream);
}

#[test]
fn frames_of_eight_to_all_slow() {
    shared_fairly(&Crowd::to_all(8, 40), 8, 0.95, Traffic::Frames);
}
