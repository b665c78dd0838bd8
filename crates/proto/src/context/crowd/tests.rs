use super::*;

const LINK: LinkId = LinkId(1);

/// Each peer sends `bytes_per_s`, for so long; each says that its packets wait for `queue`.
fn run(crowd: &mut Crowd, from_ms: u64, ms: u64, rates: &[f64], queue: Option<Duration>) {
    for at in from_ms..from_ms + ms {
        for (i, rate) in rates.iter().enumerate() {
            let peer = PeerId(i as u32);
            crowd.on_arrival(Time::from_ms(at), LINK, peer, (rate / 1e3) as usize);
            if let Some(queue) = queue {
                crowd.on_waited(LINK, peer, queue);
            }
        }
    }
}

fn grants(crowd: &Crowd, peers: u32) -> Vec<Option<f64>> {
    (0..peers).map(|i| crowd.grant(LINK, PeerId(i))).collect()
}

#[test]
fn one_sender_is_no_crowd() {
    let mut crowd = Crowd::default();
    let queue = Some(Duration::from_millis(5));
    run(&mut crowd, 0, 500, &[100e6, 50e3], queue);
    assert_eq!(grants(&crowd, 2), [None, None]);
    // Not even with the acknowledgements of a peer that is sent to.
    run(&mut crowd, 500, 500, &[100e6, 2e6], queue);
    assert_eq!(grants(&crowd, 2), [None, None]);
}

#[test]
fn two_senders_are_asked_and_limited_when_a_queue_stands() {
    let mut crowd = Crowd::default();
    run(&mut crowd, 0, 200, &[90e6, 30e6, 0.0], None);
    let asked = Some(f64::INFINITY);
    assert_eq!(grants(&crowd, 3), [asked, asked, None]);
    run(
        &mut crowd,
        200,
        200,
        &[90e6, 30e6, 0.0],
        Some(Duration::from_millis(3)),
    );
    // The busy one may have no more than the other leaves, and that one as much.
    let grant = crowd.grant(LINK, PeerId(0)).expect("granted");
    assert!((75e6..88e6).contains(&grant), "{grant}");
    assert_eq!(crowd.grant(LINK, PeerId(1)), Some(grant));
    assert_eq!(crowd.grant(LinkId(0), PeerId(0)), None);
}

#[test]
fn what_one_leaves_is_the_others() {
    let mut crowd = Crowd::default();
    let queue = Some(Duration::from_micros(500));
    run(&mut crowd, 0, 300, &[50e6, 50e6, 20e6], queue);
    let grant = crowd.grant(LINK, PeerId(0)).expect("granted");
    assert!((45e6..51e6).contains(&grant), "{grant}");
}

#[test]
fn the_crowd_is_over_when_one_is_left() {
    let mut crowd = Crowd::default();
    run(&mut crowd, 0, 200, &[60e6, 60e6], None);
    assert!(crowd.grant(LINK, PeerId(0)).is_some());
    run(&mut crowd, 200, 300, &[120e6, 0.0], None);
    assert_eq!(grants(&crowd, 2), [None, None]);
    // And after a silence nothing is known.
    run(&mut crowd, 500, 200, &[60e6, 60e6], None);
    run(&mut crowd, 2000, 25, &[60e6, 0.0], None);
    assert_eq!(grants(&crowd, 2), [None, None]);
}
