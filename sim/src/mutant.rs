//! Protocols that are broken on purpose, to show that the checkers see it. The
//! breakage sits between the node and what surrounds it, never in the protocol.

use crate::attack::strangers_address;
use crate::net::{MS, Ns};
use crate::workload::Reader;
use tabane_proto::crypto::PublicKey;
use tabane_proto::op::Message;
use tabane_proto::wire::{EXTENSION_HEADER_BYTES, HEADER_BYTES, Kind, RelayRecord, Witness};
use tabane_proto::{Event, LinkId, PathStats, PeerId, RelayConfig, Time, Transmit};

/// A way to be broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A byte of a stream is another one.
    FlipStreamByte,
    /// Bytes of a stream are left out.
    SwallowStreamBytes,
    /// A stream ends too early.
    EndStreamEarly,
    /// A message comes twice.
    RepeatMessage,
    /// Two messages change places.
    SwapMessages,
    /// A byte of a message is another one.
    FlipMessageByte,
    /// A message is left out.
    DropMessage,
    /// A message that nobody sent.
    ForgeMessage,
    /// A frame comes twice.
    RepeatFrame,
    /// Two frames change places.
    SwapFrames,
    /// A byte of a frame is another one.
    FlipFrameByte,
    /// A frame is left out.
    DropFrame,
    /// Bytes of a memory operation lie one place too far on.
    MisplaceBytes,
    /// Bytes of a memory operation are placed twice.
    PlaceTwice,
    /// A memory operation ends twice.
    EndTwice,
    /// More memory at every look.
    HoardMemory,
    /// Has twice as much in flight as there is room for.
    Overfill,
    /// Says that link 0 failed.
    FalseLinkDown,
    /// Says that a peer restarted.
    FalseRestart,
    /// Sends nothing any more.
    FallSilent,
    /// Lets a few bytes of a stream through now and then only.
    Crawl,
    /// Lets nothing of two streams through, while all else moves on.
    Starve,
    /// Says in the end that link 0 is down.
    WrongInTheEnd,
    /// Ends without a word.
    LeaveUnsaid,
    /// Wants its timer at once, always.
    BusyTimer,
    /// Sends datagrams larger than allowed.
    Oversize,
    /// Sends everything where nobody is.
    Divert,
    /// Sends packets twice.
    RepeatPackets,
    /// Begins a hundred handshakes for one.
    CallAnew,
    /// Takes whoever has the cluster key for the one it says it is.
    TrustAnybody,
    /// Relays nothing for others.
    RelayNothing,
    /// Relays everything twice.
    RelayTwice,
    /// Keeps a bundle over links with everybody.
    KeepAll,
}

/// Mutants begin to act at this time; before, connections are made.
const BEGIN: Ns = 150 * MS;
/// By then every path counts as steady.
const STEADY: Ns = 1_300 * MS;
/// What acts on one of many acts on the one with this number from then on.
const TURN: u64 = 7;

/// What stands between a node and what surrounds it. Without a mutant everything
/// passes as it is.
#[derive(Debug, Default)]
pub struct Tap {
    mutant: Option<Mutant>,
    now: Ns,
    seen: u64,
    withheld_frame: Option<Vec<u8>>,
    withheld_message: Option<Message>,
    told: bool,
}

impl Tap {
    /// A tap that lets `mutant` act.
    pub fn new(mutant: Option<Mutant>) -> Tap {
        Tap {
            mutant,
            ..Tap::default()
        }
    }

    /// Time goes on.
    pub fn at(&mut self, now: Ns) {
        self.now = now;
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant) && self.now >= BEGIN
    }

    /// Whether it is this mutant's turn among many occasions.
    fn turn(&mut self, mutant: Mutant) -> bool {
        self.seen += u64::from(self.is(mutant));
        self.is(mutant) && self.seen == TURN
    }

    /// What the application reads from a stream, and whether it ends there.
    pub fn stream<'a>(&mut self, data: &'a mut [u8], fin: bool) -> (&'a [u8], bool) {
        if data.is_empty() || self.mutant.is_none() {
            return (data, fin);
        }
        if self.turn(Mutant::FlipStreamByte) {
            data[data.len() / 2] ^= 1;
        } else if self.turn(Mutant::SwallowStreamBytes) {
            return (&data[data.len().div_ceil(2)..], fin);
        } else if self.turn(Mutant::EndStreamEarly) {
            return (data, true);
        }
        (data, fin)
    }

    /// How the application reads from a stream, if the protocol lets so little through.
    pub fn reader(&self, reader: Reader) -> Reader {
        match self.is(Mutant::Crawl) {
            true => Reader::Slow {
                bytes: 16,
                every_ns: 200 * MS,
            },
            false => reader,
        }
    }

    /// Whether the application gets nothing of the stream for this service.
    pub fn withholds(&self, service: u32) -> bool {
        self.is(Mutant::Starve) && service <= 1
    }

    /// What the application gets for a frame.
    pub fn frame(&mut self, frame: Vec<u8>) -> Vec<Vec<u8>> {
        self.unit(
            frame,
            [
                Mutant::RepeatFrame,
                Mutant::SwapFrames,
                Mutant::FlipFrameByte,
                Mutant::DropFrame,
            ],
            |tap| &mut tap.withheld_frame,
            |frame| frame,
        )
    }

    /// What the application gets for a message.
    pub fn message(&mut self, message: Message) -> Vec<Message> {
        if self.turn(Mutant::ForgeMessage) {
            let data = vec![7; message.data.len()];
            let forged = Message { data, ..message };
            return vec![forged];
        }
        self.unit(
            message,
            [
                Mutant::RepeatMessage,
                Mutant::SwapMessages,
                Mutant::FlipMessageByte,
                Mutant::DropMessage,
            ],
            |tap| &mut tap.withheld_message,
            |message| &mut message.data,
        )
    }

    fn unit<T: Clone>(
        &mut self,
        mut unit: T,
        [repeat, swap, flip, drop]: [Mutant; 4],
        withheld: impl Fn(&mut Tap) -> &mut Option<T>,
        bytes: impl Fn(&mut T) -> &mut Vec<u8>,
    ) -> Vec<T> {
        if self.mutant.is_none() {
            return vec![unit];
        }
        if let Some(earlier) = withheld(self).take() {
            return vec![unit, earlier];
        }
        if self.turn(repeat) {
            return vec![unit.clone(), unit];
        } else if self.turn(swap) {
            *withheld(self) = Some(unit);
            return Vec::new();
        } else if self.turn(flip) {
            if let Some(last) = bytes(&mut unit).last_mut() {
                *last ^= 1;
            }
        } else if self.turn(drop) {
            return Vec::new();
        }
        vec![unit]
    }

    /// How it is broken, if it is.
    pub const fn mutant(&self) -> Option<Mutant> {
        self.mutant
    }

    /// How often it is told that a memory operation has ended.
    pub fn endings(&self) -> usize {
        if self.mutant == Some(Mutant::EndTwice) {
            2
        } else {
            1
        }
    }

    /// What the node is said to hold.
    pub fn memory_bytes(&mut self, bytes: usize) -> usize {
        if self.is(Mutant::HoardMemory) {
            self.seen += 1;
            return bytes + self.seen as usize * 50_000_000;
        }
        bytes
    }

    /// What a path is said to do.
    pub fn path_stats(&self, mut stats: PathStats) -> PathStats {
        if self.is(Mutant::Overfill) {
            stats.in_flight_bytes += 2 * stats.window_bytes;
        }
        stats
    }

    /// An event that the node never made.
    pub fn event(&mut self, local: Time) -> Option<Event> {
        if self.told || self.now < STEADY {
            return None;
        }
        let peer = PeerId(0);
        self.told = true;
        match self.mutant {
            Some(Mutant::FalseLinkDown) => Some(Event::LinkDown {
                peer,
                link: LinkId(0),
                witness: Witness::UnackedAge,
                at: local,
            }),
            Some(Mutant::FalseRestart) => Some(Event::PeerUp {
                peer,
                restarted: true,
            }),
            _ => None,
        }
    }

    /// What is sent of what the node wants to send; `None`: nothing.
    pub fn transmit(&mut self, transmit: Transmit) -> Option<Transmit> {
        if self.is(Mutant::FallSilent) {
            return None;
        }
        if self.is(Mutant::Oversize) {
            let bytes = transmit.bytes.max(9_100);
            return Some(Transmit {
                bytes,
                segment_bytes: bytes,
                ..transmit
            });
        }
        if self.is(Mutant::Divert) {
            let to = strangers_address(transmit.link.index(), 4_711);
            return Some(Transmit { to, ..transmit });
        }
        Some(transmit)
    }

    /// How often a transmit is sent.
    pub fn copies(&self, datagrams: &[u8]) -> usize {
        let is_call = datagrams.first() == Some(&(Kind::Init as u8));
        // In the clear: the first record, and its place on the way.
        let is_relayed = datagrams.get(HEADER_BYTES) == Some(&RelayRecord::RELAYED)
            && datagrams.get(HEADER_BYTES + EXTENSION_HEADER_BYTES) > Some(&1);
        if self.is(Mutant::RepeatPackets) || self.is(Mutant::RelayTwice) && is_relayed {
            2
        } else if self.mutant == Some(Mutant::CallAnew) && is_call {
            // From the beginning: later there may be no more of them.
            100
        } else {
            1
        }
    }

    /// What of a transmit goes out that is sent once more.
    pub fn copy(&self, datagrams: &mut [u8]) {
        if self.mutant == Some(Mutant::CallAnew) {
            // The last byte of the session's number.
            datagrams[5] = datagrams[5].wrapping_add(1);
        }
    }

    /// When the node is said to want its timer.
    pub fn timeout(&self, local: Time, timeout: Option<Time>) -> Option<Time> {
        if self.is(Mutant::BusyTimer) {
            return Some(local);
        }
        timeout
    }

    /// Whether the node hears that it is to end.
    pub fn hears_close(&self) -> bool {
        !self.is(Mutant::LeaveUnsaid)
    }

    /// The public key of a peer, as the node is told.
    pub fn public(&self, public: Option<PublicKey>) -> Option<PublicKey> {
        public.filter(|_| self.mutant != Some(Mutant::TrustAnybody))
    }

    /// What the node is told of relays.
    pub fn relay(&self, bundles_max: Option<u16>) -> RelayConfig {
        RelayConfig {
            bundles_max: bundles_max.filter(|_| self.mutant != Some(Mutant::KeepAll)),
            forwards: self.mutant != Some(Mutant::RelayNothing),
            ..RelayConfig::default()
        }
    }

    /// Whether a path is said to work.
    pub fn path_works(&self, link: LinkId, works: bool) -> bool {
        works && !(self.mutant == Some(Mutant::WrongInTheEnd) && link == LinkId(0))
    }
}
