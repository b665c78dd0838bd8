//! Many send to one: its links are used, everybody has an equal share, and the queue
//! before them is short.

use tabane_sim::crowd::Crowd;
use tabane_sim::snapshot::Traffic;

fn shared_fairly(senders: usize, mbps: u64, traffic: Traffic) {
    let crowd = Crowd { senders, mbps };
    let each = crowd.mbps_of_each(traffic);
    let sum: f64 = each.iter().sum();
    let links = 2.0 * mbps as f64;
    // Headers of 66 bytes and more in 1514, and what acknowledgements tell.
    assert!(sum > 0.95 * 0.93 * links, "{sum} of {links}: {each:?}");
    let squares: f64 = each.iter().map(|mbps| mbps * mbps).sum();
    let jain = sum * sum / (senders as f64 * squares);
    assert!(jain > 0.98, "{jain}: {each:?}");
}

#[test]
fn eight_streams_to_one() {
    shared_fairly(8, 200, Traffic::Stream);
}

#[test]
fn eight_flows_of_frames_to_one() {
    shared_fairly(8, 200, Traffic::Frames);
}

#[test]
fn two_to_one() {
    shared_fairly(2, 500, Traffic::Stream);
    shared_fairly(2, 500, Traffic::Frames);
}
