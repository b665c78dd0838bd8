//! Many endpoints with few bundles, over the loopback device: everybody reaches everybody through others.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use tabane_rank::*;

const PATIENCE: Duration = Duration::from_secs(60);
const COUNT: usize = 24;
/// Of 24, each keeps 6.
const BUNDLES_MAX: u16 = 8;

fn settings(bundles_max: Option<u16>) -> Settings {
    Settings {
        links: vec![(0, IpAddr::V4(Ipv4Addr::LOCALHOST))],
        key: [5; 32],
        encrypted: true,
        ports: 20_000..=60_000,
        peer_timeout: Duration::from_secs(20),
        eager_bytes: 16 * 1024,
        unexpected_bytes: 256 * 1024,
        shared_memory: SharedMemory::Off,
        bundles_max,
    }
}

/// Endpoints that name each other, and what each of them calls each.
fn all(bundles_max: Option<u16>) -> (Vec<Endpoint>, Vec<Vec<Peer>>) {
    let open = |_| Endpoint::open(&settings(bundles_max)).expect("opens");
    let ends: Vec<Endpoint> = (0..COUNT).map(open).collect();
    let name = |end: &Endpoint| {
        let all = ends.iter();
        all.map(|other| end.lock().peer(other.address())).collect()
    };
    let named = ends.iter().map(name).collect();
    (ends, named)
}

fn piece(bytes: &mut [u8]) -> [Piece; 1] {
    [Piece {
        base: bytes.as_mut_ptr(),
        bytes: bytes.len(),
    }]
}

/// Everybody sends everybody so many bytes, and has all that was sent to it.
fn exchange(ends: &[Endpoint], named: &[Vec<Peer>], len: usize) {
    let mut sent: Vec<Vec<u8>> = (0..COUNT).map(|n| vec![n as u8; len]).collect();
    let mut received = vec![vec![vec![0xff; len]; COUNT]; COUNT];
    let until = Instant::now() + PATIENCE;
    for (end, (named, received)) in ends.iter().zip(named.iter().zip(&mut received)) {
        for (from, there) in received.iter_mut().enumerate() {
            let receive = Receive {
                from: None,
                tag: Some((from as u64, 0)),
                pieces: &piece(there),
                multi: None,
                ticket: Ticket {
                    context: from,
                    flags: 0,
                },
            };
            if named[from] != end.lock().peer(end.address()) {
                // SAFETY: what is received outlives the exchange.
                unsafe { end.lock().receive(&receive) }.expect("is posted");
            }
        }
    }
    let mut left = 2 * COUNT * (COUNT - 1);
    let mut turn = || {
        assert!(Instant::now() < until, "{left} have not ended");
        for end in ends {
            let mut core = end.lock();
            core.progress();
            while let Some(completion) = core.completion() {
                assert_eq!(completion.failure, None);
                left -= 1;
            }
        }
        left
    };
    for (from, bytes) in sent.iter_mut().enumerate() {
        for to in (0..COUNT).filter(|to| *to != from) {
            let send = Send {
                to: named[from][to],
                tag: Some(from as u64),
                data: None,
                pieces: &piece(bytes),
                inject: false,
                until: Until::Reusable,
                ticket: Ticket {
                    context: to,
                    flags: 0,
                },
            };
            // SAFETY: what is sent outlives the exchange.
            while unsafe { ends[from].lock().send(&send) } == Err(PostError::Again) {
                turn();
            }
        }
    }
    while turn() > 0 {}
    for (to, received) in received.iter().enumerate() {
        for (from, there) in received.iter().enumerate().filter(|(from, _)| *from != to) {
            assert!(there.iter().all(|byte| *byte == from as u8));
        }
    }
}

#[test]
fn everybody_reaches_everybody_and_has_few_bundles() {
    let (ends, named) = all(Some(BUNDLES_MAX));
    for len in [8, 1400, 100_000] {
        exchange(&ends, &named, len);
        for end in &ends {
            let done = end.lock().statistics();
            assert!(done.bundles <= usize::from(BUNDLES_MAX), "{done:?}");
            assert_eq!(done.peers, COUNT - 1);
        }
    }
}

#[test]
fn without_a_limit_there_is_a_bundle_with_each() {
    let (ends, named) = all(None);
    exchange(&ends, &named, 8);
    for end in &ends {
        assert_eq!(end.lock().statistics().bundles, COUNT - 1);
    }
}
