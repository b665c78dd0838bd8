//! Keeps a flood of strangers' packets off a link: while more of them come than deserve a system call
//! each, the kernel drops all that cannot be ours.
//!
//! Below that rate everything is received, and counted by reason. The filter judges the first bytes of
//! a datagram: the session (a number that the receiver chose at random, see [`sieve`](crate::sieve))
//! and the link it must come on. A stranger can forge the first message of a handshake, so only a
//! random sample of these is let through: a node that starts during such a flood needs more tries.

use core::time::Duration;
use std::io;
use tabane_proto::bundle::PEER_SILENT_MAX;

use tabane_io::udp::{FILTER_INSTRUCTIONS_MAX, FILTER_PAYLOAD, Instruction};
use tabane_proto::limits::DATAGRAM_BYTES_WIDE;
use tabane_proto::wire::{INIT_BYTES, Kind, PATH_OFFSET, SESSION_OFFSET};
use tabane_proto::{LinkId, Node, Time};

use crate::sieve::sieve;
use crate::system::Socket;

/// Strangers' packets a second on one link that raise the shield: some 2% of a processor. Neither many
/// nodes that start at once, nor the leftovers of an old session, come near.
const RAISE_PER_S: u64 = 20_000;
/// Period over which they are counted.
const SAMPLE: Duration = Duration::from_millis(50);
/// The shield stays up for so long after the last sample that would raise it: a peer that meant no harm would be given up by
/// then.
const HOLD: Duration = PEER_SILENT_MAX;
/// First messages of handshakes taken a second, about, while it is up: 0.2% of a processor.
const FIRST_MESSAGES_PER_S: u64 = 2_000;
/// At least one of 2^16 first messages is let through.
const LOT_BITS_MAX: u32 = 16;
/// Shortest interval between rebuilds of the filter: when many nodes start, sessions come and go in
/// crowds, and a filter of 3,000 sessions takes some 0.7 ms. Until the rebuild, all sessions pass if
/// some are new.
const RENEW_EVERY: Duration = Duration::from_millis(10);
/// Fewest instructions tried for sessions: `net.core.optmem_max` is 20 KB on older systems, which is
/// some 2,500, and 128 KB on newer ones.
const SIEVE_MIN: usize = 512;
/// Anything longer is a burst that the kernel has joined (GRO). A filter sees only its first packet,
/// and must not drop a peer's packets because of a stranger's in front of them.
const ALONE_BYTES_MAX: u32 = 2 * DATAGRAM_BYTES_WIDE as u32;

/// What happened since the last sample.
#[derive(Clone, Copy, Default)]
struct Sample {
    began: Time,
    strangers: u64,
    first_messages: u64,
    kernel_drops: u64,
}

/// The shield while it is up.
struct Raised {
    until: Time,
    /// One first message of 2^`lot_bits` is let through.
    lot_bits: u32,
    /// The sessions in the sieve, ascending; below, their generation and the time.
    sessions: Vec<u32>,
    generation: u64,
    sieved_at: Time,
    /// The last generation compared with them.
    seen: u64,
    /// Accepts them, and as few others as the kernel has room for.
    sieve: Vec<Instruction>,
    sieve_max: usize,
    /// All sessions pass, because some are newer than the sieve.
    is_open: bool,
}

impl Raised {
    fn new(now: Time, lot_bits: u32, node: &Node) -> Raised {
        let mut raised = Raised {
            until: now + HOLD,
            lot_bits,
            sessions: Vec::new(),
            generation: 0,
            sieved_at: now,
            seen: 0,
            sieve: Vec::new(),
            sieve_max: FILTER_INSTRUCTIONS_MAX - AROUND_SIEVE,
            is_open: false,
        };
        raised.make_sieve(now, node);
        raised
    }

    fn make_sieve(&mut self, now: Time, node: &Node) {
        self.sessions.clear();
        self.sessions.extend(node.session_numbers());
        self.sieve = sieve(&self.sessions, self.sieve_max);
        self.generation = node.sessions_generation();
        self.sieved_at = now;
        self.is_open = false;
    }

    /// Whether the filter must change because sessions came or went.
    fn follow(&mut self, now: Time, node: &Node) -> bool {
        let generation = node.sessions_generation();
        if generation == self.generation {
            return false;
        }
        if now.since(self.sieved_at) >= RENEW_EVERY {
            self.make_sieve(now, node);
            return true;
        }
        if self.is_open || generation == self.seen {
            return false;
        }
        self.seen = generation;
        self.is_open = !self.has_all(node.session_numbers());
        self.is_open
    }

    /// Whether the sieve has all of these, ascending.
    fn has_all(&self, numbers: impl Iterator<Item = u32>) -> bool {
        let mut sieved = self.sessions.iter();
        let mut has = |number| sieved.any(|other| *other == number);
        let mut numbers = numbers;
        numbers.all(&mut has)
    }

    /// Gives the filter to the kernel.
    fn set(&mut self, link: LinkId, socket: &impl Socket) -> io::Result<()> {
        loop {
            let set = socket.set_filter(&self.filter(link));
            if !is_too_long(&set) {
                return set;
            }
            // The kernel needs room for the old and the new one at once.
            if socket.clear_filter().is_ok() {
                let set = socket.set_filter(&self.filter(link));
                if !is_too_long(&set) {
                    return set;
                }
            }
            self.sieve_max = self.sieve.len().min(self.sieve_max) * 3 / 5;
            if self.sieve_max < SIEVE_MIN {
                return set;
            }
            self.sieve = sieve(&self.sessions, self.sieve_max);
        }
    }

    fn filter(&self, link: LinkId) -> Vec<Instruction> {
        let sieve = match self.is_open {
            true => &[Instruction::Accept],
            false => &self.sieve[..],
        };
        filter(link, sieve, self.lot_bits)
    }
}

/// The filter is larger than `net.core.optmem_max` allows.
fn is_too_long(set: &io::Result<()>) -> bool {
    set.as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::OutOfMemory)
}

/// The shield of one link's socket.
#[derive(Default)]
pub(crate) struct Shield {
    sample: Sample,
    raised: Option<Raised>,
    /// The kernel refused a filter: not tried again before this time.
    refused_until: Time,
    /// Packets that the kernel dropped while it was up.
    dropped: u64,
}

impl Shield {
    /// Packets that the kernel dropped because of the filter (and, while it was up, for want of room).
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Counts strangers' packets, and the first messages of handshakes among them.
    pub fn count(&mut self, strangers: u64, first_messages: u64) {
        self.sample.strangers += strangers;
        self.sample.first_messages += first_messages;
    }

    /// Call before anything is sent: a peer may answer to a new session. Returns a message for the
    /// log.
    pub fn turn(
        &mut self,
        now: Time,
        link: LinkId,
        socket: &impl Socket,
        node: &Node,
    ) -> Option<String> {
        let news = self.judge(now, link, socket, node);
        if let Some(raised) = &mut self.raised
            && raised.follow(now, node)
        {
            self.renew(link, socket);
        }
        news
    }

    fn judge(
        &mut self,
        now: Time,
        link: LinkId,
        socket: &impl Socket,
        node: &Node,
    ) -> Option<String> {
        let elapsed = now.since(self.sample.began);
        if elapsed < SAMPLE {
            return None;
        }
        let kernel_drops = socket.counters().kernel_drops;
        let dropped = kernel_drops - self.sample.kernel_drops;
        let per_s = |count: u64| (u128::from(count) * 1_000_000_000 / elapsed.as_nanos()) as u64;
        let strangers = per_s(self.sample.strangers);
        let first_messages = per_s(self.sample.first_messages);
        self.sample = Sample {
            began: now,
            kernel_drops,
            ..Sample::default()
        };
        let Some(raised) = &mut self.raised else {
            let wanted = strangers >= RAISE_PER_S && now >= self.refused_until;
            return wanted.then(|| self.raise(now, link, socket, node, first_messages));
        };
        self.dropped += dropped;
        if strangers + per_s(dropped) >= RAISE_PER_S / 2 {
            raised.until = now + HOLD;
        } else if now >= raised.until {
            self.lower(socket);
            return Some(format!("link {}: the flood of packets is over", link.0));
        }
        let lot_bits = if first_messages > FIRST_MESSAGES_PER_S {
            (raised.lot_bits + 1).min(LOT_BITS_MAX)
        } else if first_messages < FIRST_MESSAGES_PER_S / 4 {
            raised.lot_bits.saturating_sub(1)
        } else {
            raised.lot_bits
        };
        if lot_bits != raised.lot_bits {
            raised.lot_bits = lot_bits;
            self.renew(link, socket);
        }
        None
    }

    fn raise(
        &mut self,
        now: Time,
        link: LinkId,
        socket: &impl Socket,
        node: &Node,
        first_messages_per_s: u64,
    ) -> String {
        let too_many = first_messages_per_s.div_ceil(FIRST_MESSAGES_PER_S);
        let lot_bits = too_many.next_power_of_two().ilog2().min(LOT_BITS_MAX);
        let mut raised = Raised::new(now, lot_bits, node);
        let what = format!("link {}: a flood of packets that are no peer's", link.0);
        match raised.set(link, socket) {
            Ok(()) => {
                self.raised = Some(raised);
                format!("{what}; the kernel drops them now")
            }
            Err(error) => {
                self.refused_until = now + HOLD;
                format!("{what}; the kernel does not take a filter: {error}")
            }
        }
    }

    /// Replaces the filter; if the socket refuses the new one, removes the old one.
    fn renew(&mut self, link: LinkId, socket: &impl Socket) {
        if let Some(raised) = &mut self.raised
            && raised.set(link, socket).is_err()
        {
            self.lower(socket);
        }
    }

    fn lower(&mut self, socket: &impl Socket) {
        self.raised = None;
        // If there is no filter, nothing needs to be done.
        let _ = socket.clear_filter();
    }
}

/// Number of instructions in front of the sieve.
const AROUND_SIEVE: usize = 19;

/// Accepts packets that may be a peer's on `link`, and one first message of 2^`lot_bits`. `sieve`
/// checks the session.
fn filter(link: LinkId, sieve: &[Instruction], lot_bits: u32) -> Vec<Instruction> {
    use Instruction::{
        Accept, Drop, LoadByte, LoadLength, LoadRandom, LoadWord, SkipIfEqual, SkipIfGreater,
        SkipUnlessBits, SkipUnlessEqual,
    };
    let kind = |kind: Kind| kind as u32;
    let mut filter = vec![
        LoadLength,
        SkipIfGreater(FILTER_PAYLOAD + ALONE_BYTES_MAX, 6), // to 8
        LoadByte(FILTER_PAYLOAD),
        SkipIfEqual(kind(Kind::Init), 5),      // to 9
        SkipIfEqual(kind(Kind::Data), 10),     // to 15
        SkipIfEqual(kind(Kind::Response), 12), // to 18
        SkipIfEqual(kind(Kind::Cookie), 11),   // to 18
        Drop,
        Accept,
        LoadLength, // 9: the first message of a handshake
        SkipUnlessEqual(FILTER_PAYLOAD + INIT_BYTES as u32, 2), // to 13
        LoadRandom,
        SkipUnlessBits((1 << lot_bits) - 1, 1), // to 14
        Drop,
        Accept,
        LoadByte(FILTER_PAYLOAD + PATH_OFFSET as u32), // 15: a packet of a session
        SkipIfEqual(link.0.into(), 1),                 // to 18
        Drop,
        LoadWord(FILTER_PAYLOAD + SESSION_OFFSET as u32), // 18
    ];
    debug_assert_eq!(filter.len(), AROUND_SIEVE);
    filter.extend(sieve);
    filter
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::UdpSocket;

    use tabane_io::udp::{LinkSocket, ReceiveBatch};
    use tabane_proto::limits::LINKS_MAX;
    use tabane_proto::op::OpLimits;
    use tabane_proto::wire::WireMode;
    use tabane_proto::{LinkConfig, NodeConfig, PeerConfig, PeerId, Random, RelayConfig};

    use super::*;
    use crate::system::System;
    use crate::tests::fake::{Fake, FakeSocket};

    const LINK: LinkId = LinkId(3);

    /// The `datagrams` that pass `filter` (loopback delivers at once).
    fn through(filter: &[Instruction], datagrams: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (socket, _) = LinkSocket::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
        socket.set_filter(filter).unwrap();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_address().unwrap();
        let (mut batch, mut arrived) = (ReceiveBatch::new(), Vec::new());
        for datagram in datagrams {
            stranger.send_to(datagram, to).unwrap();
            socket.recv(&mut batch).unwrap();
            arrived.extend(batch.datagrams().map(|(_, bytes)| bytes.to_vec()));
        }
        arrived
    }

    fn datagram(kind: Kind, second: u8, session: u32, bytes: usize) -> Vec<u8> {
        let mut datagram = vec![kind as u8, second];
        datagram.extend_from_slice(&session.to_be_bytes());
        datagram.resize(bytes, 0);
        datagram
    }

    #[test]
    fn what_may_be_a_peers_comes_through_and_nothing_else() {
        let ours = vec![
            datagram(Kind::Data, LINK.0, 7, 40),
            datagram(Kind::Data, LINK.0, u32::MAX, 1472),
            datagram(Kind::Response, 0, 7, 244),
            datagram(Kind::Cookie, 0, u32::MAX, 72),
            datagram(Kind::Init, 0, 99, INIT_BYTES),
        ];
        let mut all = vec![
            datagram(Kind::Data, LINK.0, 8, 40),
            datagram(Kind::Data, LINK.0 + 1, 7, 40),
            datagram(Kind::Response, 0, 8, 244),
            datagram(Kind::Init, 0, 99, INIT_BYTES - 1),
            vec![0xff; 40],
            vec![Kind::Data as u8],
            vec![Kind::Data as u8, LINK.0, 0, 0],
        ];
        all.extend(ours.iter().cloned());
        assert_eq!(
            through(&filter(LINK, &sieve(&[7, u32::MAX], 1_000), 0), &all),
            ours
        );
    }

    #[test]
    fn first_messages_are_taken_by_lot() {
        let all = vec![datagram(Kind::Init, 0, 1, INIT_BYTES); 2_000];
        let taken = through(&filter(LINK, &sieve(&[], 1_000), 4), &all).len();
        // Expected: 125 (one of 16). The probability of leaving this range is negligible.
        assert!((25..400).contains(&taken), "{taken}");
    }

    /// Numbers as a node draws them, ascending; the same each time.
    fn drawn(count: usize, seed: u8) -> Vec<u32> {
        let mut random = Random::from_seed([seed; 32]);
        let mut numbers = BTreeSet::new();
        while numbers.len() < count {
            numbers.insert(random.u32());
        }
        numbers.into_iter().collect()
    }

    /// How many of these sessions pass.
    fn pass(filter: &[Instruction], sessions: &[u32]) -> usize {
        let datagram = |session: &u32| datagram(Kind::Data, LINK.0, *session, 40);
        let all: Vec<_> = sessions.iter().map(datagram).collect();
        through(filter, &all).len()
    }

    #[test]
    fn of_as_many_sessions_as_a_large_cluster_has_no_other_passes() {
        // At most three for each of 1,024 peers.
        for count in [0, 1, 2, 31, 33, 1_000, 3 * 1_024] {
            let ours = drawn(count, 1);
            let filter = filter(LINK, &sieve(&ours, 4_000), 0);
            assert!(filter.len() < 4_000);
            assert_eq!(pass(&filter, &ours), count);
            // Also neighbours of ours, and numbers in the other half.
            let mut others = drawn(500, 2);
            others.extend(ours.iter().take(500).map(|n| n.wrapping_add(1)));
            others.extend(ours.iter().take(500).map(|n| n ^ (1 << 31)));
            others.retain(|number| ours.binary_search(number).is_err());
            assert_eq!(pass(&filter, &others), 0, "{count} sessions");
        }
    }

    #[test]
    fn of_more_sessions_than_a_filter_holds_all_pass_and_few_others() {
        // A cluster of 3,000 nodes with much room in the kernel, one of 1,024 with little.
        for (count, instructions_max, others_max) in [(9_000, 4_000, 150), (3_072, 1_900, 60)] {
            let ours = drawn(count, 1);
            let sieve = sieve(&ours, instructions_max);
            assert!(sieve.len() <= instructions_max);
            let filter = filter(LINK, &sieve, 0);
            assert_eq!(pass(&filter, &ours), count);
            let others = pass(&filter, &drawn(1_000, 2));
            assert!(others <= others_max, "{others} of 1000 others");
        }
    }

    /// A node that starts to connect to this many peers: a session each.
    fn node(peers: usize) -> Node {
        let config = NodeConfig {
            name: "a".into(),
            keys: vec![[7; 32]],
            private: None,
            public: None,
            wire: WireMode::Encrypted,
            cipher_aes: true,
            receive_buffer_bytes: 1 << 20,
            links: vec![LinkConfig {
                id: LINK,
                address: ([10, 0, 0, 1], 4000).into(),
                datagram_bytes_max: 1472,
            }],
            op_limits: OpLimits::default(),
            features: 0,
            relay: RelayConfig::default(),
            guests: None,
            congestion: tabane_proto::CongestionControl::default(),
        };
        let mut node = Node::new(Time::ZERO, config, [1; 32]).unwrap();
        (0..peers).for_each(|number| add_peer(&mut node, number));
        call(&mut node);
        assert_eq!(node.session_numbers().len(), peers);
        node
    }

    /// Runs until the first calls, which leave one after the other.
    fn call(node: &mut Node) {
        node.handle_timeout(Time::from_ms(1_000));
    }

    fn add_peer(node: &mut Node, number: usize) {
        let mut addresses = [None; LINKS_MAX];
        addresses[LINK.index()] = Some(([10, 0, 0, 2], 4000).into());
        let name = format!("peer{number}");
        let peer = PeerConfig {
            name,
            addresses,
            public: None,
        };
        node.add_peer(Time::ZERO, peer).unwrap();
    }

    /// A shield raised by a flood, its socket, and the time.
    fn raised(fake: &Fake, node: &Node) -> (Shield, FakeSocket, Time) {
        let address = ([10, 0, 0, 1], 4000).into();
        let (socket, _) = fake.clone().open(0, address, None).unwrap();
        let mut shield = Shield::default();
        let now = Time::ZERO + SAMPLE;
        shield.count(RAISE_PER_S, 0);
        let said = shield.turn(now, LINK, &socket, node);
        assert!(said.unwrap().ends_with("the kernel drops them now"));
        (shield, socket, now)
    }

    fn filters(fake: &Fake) -> Vec<Option<usize>> {
        let set = core::mem::take(&mut fake.0.borrow_mut().filters);
        set.iter().map(|set| set.as_ref().map(Vec::len)).collect()
    }

    #[test]
    fn where_the_kernel_takes_only_short_filters_it_gets_one() {
        let fake = Fake::default();
        fake.0.borrow_mut().filter_max = Some(1_000);
        let node = node(1_500);
        raised(&fake, &node);
        let set = filters(&fake);
        // An earlier filter would have to fit in beside it.
        assert!(set[..set.len() - 1].iter().all(Option::is_none), "{set:?}");
        let set = set[set.len() - 1].unwrap();
        assert!((500..=1_000).contains(&set), "{set}");
    }

    #[test]
    fn sessions_that_come_fast_pass_at_once_and_are_looked_at_a_little_later() {
        let fake = Fake::default();
        let mut node = node(100);
        let (mut shield, socket, mut now) = raised(&fake, &node);
        assert_eq!(filters(&fake).len(), 1);
        assert_eq!(shield.turn(now, LINK, &socket, &node), None);
        assert_eq!(filters(&fake), []);
        // The first new one lets everything pass; the others change nothing.
        for number in 100..200 {
            add_peer(&mut node, number);
            call(&mut node);
            shield.turn(now, LINK, &socket, &node);
        }
        assert_eq!(filters(&fake), [Some(AROUND_SIEVE + 1)]);
        now += RENEW_EVERY;
        shield.turn(now, LINK, &socket, &node);
        let set = filters(&fake);
        assert!(set.len() == 1 && set[0] > Some(200), "{set:?}");
        // A session that ends can wait.
        node.remove_peer(now, PeerId(0));
        shield.turn(now, LINK, &socket, &node);
        assert_eq!(filters(&fake), []);
        now += RENEW_EVERY;
        shield.turn(now, LINK, &socket, &node);
        assert_eq!(filters(&fake).len(), 1);
    }
}
