//! What an operator's tools have a node do with one bundle.

use super::*;

/// More than any packet without content.
const FULL_BYTES: usize = 1000;

impl Pair {
    /// Node 0 writes so much on a new stream, and node 1 reads it. Returns the links (a bit each) that full packets took.
    fn carry(&mut self, bytes: usize) -> u8 {
        self.carry_by(bytes, Policy::Stripe)
    }

    /// The same with this policy.
    pub(super) fn carry_by(&mut self, bytes: usize, policy: Policy) -> u8 {
        let before = self.seen.len();
        let (now, to) = (self.now, self.peers[0]);
        let stream = self.nodes[0].open_stream(now, to, 1, policy);
        let stream = stream.expect("can be opened");
        let (mut left, mut read) = (bytes, 0);
        while read < bytes {
            let piece = vec![1; left.min(64 * 1024)];
            let taken = self.nodes[0].write_stream(self.now, to, stream, &piece);
            left -= taken.expect("is taken");
            self.run(Duration::from_millis(10));
            let (from, mut buffer) = (self.peers[1], vec![0; 256 * 1024]);
            let came = self.nodes[1].read_stream(self.now, from, stream, &mut buffer);
            read += came.map_or(0, |came| came.len);
        }
        let new = self.seen[before..].iter();
        let full = new.filter(|(_, _, _, datagram)| datagram.len() > FULL_BYTES);
        full.fold(0, |links, (link, ..)| links | 1 << link.0)
    }
}

#[test]
fn what_is_confined_goes_over_one_link_while_that_works() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    pair.carry(500_000);
    assert_eq!(pair.carry(500_000), 0b11);
    for link in [0, 1] {
        pair.nodes[0].confine(pair.peers[0], Some(LinkId(link)));
        assert_eq!(pair.carry(500_000), 1 << link);
    }
    // One that fails, and one that never was, hold nothing back.
    pair.dead = 0b10;
    assert_ne!(pair.carry(500_000) & 0b01, 0);
    pair.dead = 0;
    pair.run(Duration::from_secs(2));
    pair.nodes[0].confine(pair.peers[0], Some(LinkId(7)));
    assert_eq!(pair.carry(500_000), 0b11);
    pair.nodes[0].confine(pair.peers[0], None);
    assert_eq!(pair.carry(500_000), 0b11);
}

#[test]
fn each_path_is_probed_when_that_is_asked_for() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let to = pair.peers[0];
    let answered = |pair: &Pair, link| {
        let path = pair.nodes[0].path_stats(to, LinkId(link));
        path.expect("there is one").probes_answered
    };
    pair.run(Duration::from_secs(20));
    for _ in 0..3 {
        let before = [0, 1].map(|link| answered(&pair, link));
        pair.nodes[0].probe(to);
        pair.run_slowly(5);
        for link in [0, 1] {
            assert_eq!(answered(&pair, link), before[usize::from(link)] + 1);
            let path = pair.nodes[0]
                .path_stats(to, LinkId(link))
                .expect("is there");
            assert_eq!(path.probe_rtt, Some(Duration::from_millis(2)));
        }
    }
}

#[test]
fn what_waits_of_one_stream_is_known() {
    let mut pair = Pair::connected(WireMode::Encrypted);
    let (now, to) = (pair.now, pair.peers[0]);
    let mut open = || {
        let opened = pair.nodes[0].open_stream(now, to, 1, Policy::Stripe);
        opened.expect("can be opened")
    };
    let (one, other) = (open(), open());
    let written = pair.nodes[0].write_stream(now, to, one, &[0; 5000]);
    assert_eq!(written, Ok(5000));
    assert_eq!(pair.nodes[0].queued_stream_bytes(to, one), 5000);
    assert_eq!(pair.nodes[0].queued_stream_bytes(to, other), 0);
    pair.run(Duration::from_millis(10));
    assert_eq!(pair.nodes[0].queued_stream_bytes(to, one), 0);
}
