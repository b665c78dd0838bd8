//! What keeps a flood of strangers' packets off a link: while more come than are
//! worth a system call each, the kernel drops all that cannot be ours.
//!
//! Otherwise everything is taken in, and counted by reason. The filter knows what
//! the first bytes of a datagram tell: which session it is of (the receiver chose
//! that number at random), on which link it must come. The first message of a
//! handshake bears nothing that a stranger cannot invent, so only so many of them
//! are taken, by lot: a node that begins while a flood of them lasts needs more
//! tries.

use core::time::Duration;
use std::io;

use tabane_io::udp::{FILTER_PAYLOAD, Instruction};
use tabane_proto::limits::DATAGRAM_BYTES_MIN;
use tabane_proto::wire::{INIT_BYTES, Kind, PATH_OFFSET, SESSION_OFFSET};
use tabane_proto::{LinkId, Node, Time};

use crate::system::Socket;

/// Strangers' packets a second on one link at which the shield goes up: some 2% of
/// a processor. No set of nodes that begin at once, nor an old session's rest, comes near.
const RAISE_PER_S: u64 = 20_000;
/// They are counted over this time.
const SAMPLE: Duration = Duration::from_millis(50);
/// The shield stays up for so long after the last sample that would raise it.
const HOLD: Duration = Duration::from_secs(10);
/// First messages of handshakes taken a second, about, while it is up: 0.2% of a processor.
const FIRST_MESSAGES_PER_S: u64 = 2_000;
/// One of 2^16 first messages, at least, is taken.
const LOT_BITS_MAX: u32 = 16;
/// With more sessions than these (two instructions each, and `net.core.optmem_max` is
/// 20 KB on older systems) the filter does not look at their numbers.
const SESSIONS_MAX: usize = 1_000;
/// What is longer is a burst that the kernel has joined. A filter sees its first
/// packet only, and must not drop a peer's packets for a stranger's in front of them.
const ALONE_BYTES_MAX: u32 = 2 * DATAGRAM_BYTES_MIN as u32;

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
    /// Of 2^this first messages one is taken.
    lot_bits: u32,
    sessions: Vec<u32>,
}

/// The shield of one link's socket.
#[derive(Default)]
pub(crate) struct Shield {
    sample: Sample,
    raised: Option<Raised>,
    /// The kernel would not: not asked again before.
    refused_until: Time,
    /// Dropped by the kernel while it was up.
    dropped: u64,
}

impl Shield {
    /// Packets the kernel dropped at the filter's word (and, while it was up, for
    /// want of room).
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// So many packets of strangers came, so many of them first messages of handshakes.
    pub fn count(&mut self, strangers: u64, first_messages: u64) {
        self.sample.strangers += strangers;
        self.sample.first_messages += first_messages;
    }

    /// To be called before anything is sent: a peer may answer to a session that
    /// is new. Returns news for the log.
    pub fn turn(
        &mut self,
        now: Time,
        link: LinkId,
        socket: &impl Socket,
        node: &Node,
    ) -> Option<String> {
        let news = self.judge(now, link, socket, node);
        if let Some(raised) = &mut self.raised
            && !node.session_numbers().eq(raised.sessions.iter().copied())
        {
            raised.sessions = node.session_numbers().collect();
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
        let raised = Raised {
            until: now + HOLD,
            lot_bits: too_many.next_power_of_two().ilog2().min(LOT_BITS_MAX),
            sessions: node.session_numbers().collect(),
        };
        let what = format!("link {}: a flood of packets that are no peer's", link.0);
        match set(socket, link, &raised) {
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

    /// A socket that does not take the new filter must not keep the old one.
    fn renew(&mut self, link: LinkId, socket: &impl Socket) {
        if let Some(raised) = &self.raised
            && set(socket, link, raised).is_err()
        {
            self.lower(socket);
        }
    }

    fn lower(&mut self, socket: &impl Socket) {
        self.raised = None;
        // It is there; and if not, all is as it should be.
        let _ = socket.clear_filter();
    }
}

fn set(socket: &impl Socket, link: LinkId, raised: &Raised) -> io::Result<()> {
    socket.set_filter(&filter(link, &raised.sessions, raised.lot_bits))
}

/// Accepts what may be a peer's on `link`, and one first message of a handshake in
/// 2^`lot_bits`.
fn filter(link: LinkId, sessions: &[u32], lot_bits: u32) -> Vec<Instruction> {
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
    if sessions.len() > SESSIONS_MAX {
        filter.push(Accept);
        return filter;
    }
    let ours = |&number: &u32| [SkipUnlessEqual(number, 1), Accept];
    filter.extend(sessions.iter().flat_map(ours));
    filter.push(Drop);
    filter
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use tabane_io::udp::{LinkSocket, ReceiveBatch};

    use super::*;

    const LINK: LinkId = LinkId(3);

    /// Which of `datagrams` come through `filter` (loopback delivers at once).
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
        assert_eq!(through(&filter(LINK, &[7, u32::MAX], 0), &all), ours);
    }

    #[test]
    fn first_messages_are_taken_by_lot() {
        let all = vec![datagram(Kind::Init, 0, 1, INIT_BYTES); 2_000];
        let taken = through(&filter(LINK, &[], 4), &all).len();
        // One of 16: 125. So far off only once in many more runs than there will be.
        assert!((25..400).contains(&taken), "{taken}");
    }

    #[test]
    fn a_cluster_too_large_for_the_filter_is_not_cut_off() {
        let sessions: Vec<u32> = (0..=SESSIONS_MAX as u32).collect();
        let ours = vec![datagram(Kind::Data, LINK.0, 5_000, 40)];
        assert_eq!(through(&filter(LINK, &sessions, 0), &ours), ours);
        let most = filter(LINK, &sessions[..SESSIONS_MAX], 0);
        let ours = vec![datagram(Kind::Data, LINK.0, SESSIONS_MAX as u32 - 1, 40)];
        assert_eq!(through(&most, &ours), ours);
    }
}
