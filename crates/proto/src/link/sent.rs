//! What was sent on a path and is not forgotten yet: two rings, packets and
//! their contents. Nothing is allocated once the rings have grown.

use std::collections::VecDeque;

use super::thresholds::ACK_DELAY_MAX;
use crate::Time;
use crate::limits::REPLAY_WINDOW_PACKETS;
use crate::segment::{Content, Fate};

/// What is known of a sent packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nobody waits for it: it only carried acknowledgements and the like.
    Silent,
    /// No news yet.
    InFlight,
    /// It arrived.
    Acked,
    /// Given up because later ones arrived; may still turn out to have arrived.
    Lost,
    /// Given up because nothing was heard; may still turn out to have arrived.
    TimedOut,
}

/// Why a packet was given up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GivenUp {
    /// Later ones arrived, or nothing was heard for longer than its round trip.
    Overtaken,
    /// The newest packets were not answered in time: a probe timeout.
    Overdue,
    /// Its path is silent, has failed or begins anew.
    Released,
}

impl GivenUp {
    const fn state(self) -> State {
        match self {
            GivenUp::Overtaken => State::Lost,
            GivenUp::Overdue | GivenUp::Released => State::TimedOut,
        }
    }
}

/// What became of a packet: for a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decided {
    /// The peer has it.
    Acked,
    /// It was given up.
    Lost {
        /// Length of its datagram.
        bytes: u32,
        /// Why.
        cause: GivenUp,
    },
}

/// What became of packets, by their numbers. In a box: hardly any path is traced, and each has room for this.
#[derive(Debug, Default)]
struct Noted {
    decided: Vec<(u64, Decided)>,
}

/// One sent packet.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket {
    /// When it was sent.
    pub sent: Time,
    /// Bytes delivered on this path when it was sent, …
    pub delivered: u64,
    /// … when that count was reached, …
    pub delivered_at: Time,
    /// … and when the packet that reached it had been sent.
    pub delivered_sent: Time,
    /// How many occasions for an answer there had been on the path, this one included.
    pub occasions: u64,
    /// Length of the datagram.
    pub bytes: u32,
    contents_at: u64,
    contents: u32,
    /// Its fate so far.
    pub state: State,
}

/// The rate sampler's view at the moment of sending (see `rate.rs`).
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    pub bytes: u64,
    pub at: Time,
    pub sent: Time,
}

/// The packets of one path from the oldest not forgotten to the newest.
#[derive(Debug)]
pub struct SentRing {
    packets: VecDeque<SentPacket>,
    /// Number of the front packet.
    base: u64,
    contents: VecDeque<Content>,
    contents_base: u64,
    /// Every packet below this number is decided (or nobody waits for it).
    undecided: u64,
    in_flight_bytes: u64,
    in_flight_packets: u32,
    occasions: u64,
    occasion_at: Time,
    newest_eliciting: u64,
    /// While a trace is on: what became of which packet, until it is [drained](SentRing::drain_decided).
    noted: Option<Box<Noted>>,
}

impl SentRing {
    pub const fn new() -> SentRing {
        SentRing {
            packets: VecDeque::new(),
            base: 0,
            contents: VecDeque::new(),
            contents_base: 0,
            undecided: 0,
            in_flight_bytes: 0,
            in_flight_packets: 0,
            occasions: 0,
            occasion_at: Time::ZERO,
            newest_eliciting: 0,
            noted: None,
        }
    }

    /// The number the next packet will have.
    pub fn next_number(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    pub const fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    pub const fn in_flight_packets(&self) -> u32 {
        self.in_flight_packets
    }

    /// Occasions for an answer so far: packets that want one, those within an acknowledgement delay taken together,
    /// for they are answered together.
    pub const fn occasions(&self) -> u64 {
        self.occasions
    }

    /// Whether so many packets await their fate that another would leave the peer's window.
    pub fn is_full(&self) -> bool {
        self.next_number() - self.undecided >= (REPLAY_WINDOW_PACKETS / 2) as u64
    }

    /// Records a packet under [`next_number`](SentRing::next_number).
    pub fn push(
        &mut self,
        now: Time,
        bytes: usize,
        contents: &[Content],
        eliciting: bool,
        delivery: Delivery,
    ) {
        if !eliciting && self.packets.is_empty() {
            self.base += 1;
            self.undecided = self.base;
            return;
        }
        if eliciting {
            if self.occasions == 0 || now.since(self.occasion_at) >= ACK_DELAY_MAX {
                self.occasions += 1;
                self.occasion_at = now;
            }
            self.newest_eliciting = self.next_number();
            self.in_flight_bytes += bytes as u64;
            self.in_flight_packets += 1;
        }
        self.packets.push_back(SentPacket {
            sent: now,
            delivered: delivery.bytes,
            delivered_at: delivery.at,
            delivered_sent: delivery.sent,
            occasions: self.occasions,
            bytes: bytes as u32,
            contents_at: self.contents_base + self.contents.len() as u64,
            contents: contents.len() as u32,
            state: if eliciting {
                State::InFlight
            } else {
                State::Silent
            },
        });
        self.contents.extend(contents);
        if !eliciting {
            self.advance();
        }
        debug_assert!(self.is_sound());
    }

    /// The number of the oldest packet not forgotten.
    pub const fn base(&self) -> u64 {
        self.base
    }

    fn index(&self, number: u64) -> Option<usize> {
        let i = number.checked_sub(self.base)?;
        (i < self.packets.len() as u64).then_some(i as usize)
    }

    /// Marks a packet arrived; returns it as it was before, or `None` if that was known or it is forgotten.
    pub fn ack(&mut self, number: u64, fates: &mut Vec<(Content, Fate)>) -> Option<SentPacket> {
        let i = self.index(number)?;
        let before = self.packets[i];
        if before.state == State::Acked {
            return None;
        }
        if before.state == State::InFlight {
            self.in_flight_bytes -= u64::from(before.bytes);
            self.in_flight_packets -= 1;
        }
        self.packets[i].state = State::Acked;
        self.tell(before, Fate::Acked, fates);
        if let Some(noted) = &mut self.noted {
            noted.decided.push((number, Decided::Acked));
        }
        debug_assert!(self.is_sound());
        Some(before)
    }

    /// Gives up the oldest packets in flight: those below number `below` that `is_lost` says are, up to the
    /// first that is not, and at most `count`. Each packet is looked at once in its life (amortised).
    pub fn lose(
        &mut self,
        below: u64,
        count: usize,
        cause: GivenUp,
        mut is_lost: impl FnMut(&SentPacket) -> bool,
        fates: &mut Vec<(Content, Fate)>,
    ) -> Lost {
        let mut lost = Lost::default();
        self.advance();
        while self.undecided < below
            && let Some(i) = self.index(self.undecided)
        {
            let packet = self.packets[i];
            if packet.state == State::InFlight {
                if lost.packets as usize >= count || !is_lost(&packet) {
                    break;
                }
                self.in_flight_bytes -= u64::from(packet.bytes);
                self.in_flight_packets -= 1;
                self.packets[i].state = cause.state();
                self.tell(packet, Fate::Lost, fates);
                if let Some(noted) = &mut self.noted {
                    let lost = Decided::Lost {
                        bytes: packet.bytes,
                        cause,
                    };
                    noted.decided.push((self.undecided, lost));
                }
                lost.packets += 1;
                lost.bytes += u64::from(packet.bytes);
                lost.with_content += u32::from(packet.contents > 0);
                lost.largest_bytes = lost.largest_bytes.max(packet.bytes);
            }
            self.undecided += 1;
        }
        self.advance();
        debug_assert!(self.is_sound());
        lost
    }

    /// Whether what becomes of packets is noted for [`drain_decided`](SentRing::drain_decided).
    pub fn note_decided(&mut self, on: bool) {
        if self.noted.is_some() != on {
            self.noted = on.then(Box::default);
        }
    }

    /// What became of which packet since it was last asked.
    pub fn drain_decided(&mut self) -> impl Iterator<Item = (u64, Decided)> {
        let noted = self.noted.iter_mut();
        noted.flat_map(|noted| noted.decided.drain(..))
    }

    /// The oldest packet in flight.
    pub fn oldest(&self) -> Option<(u64, &SentPacket)> {
        if self.in_flight_packets == 0 {
            return None;
        }
        let packet = &self.packets[self.index(self.undecided)?];
        debug_assert_eq!(packet.state, State::InFlight);
        Some((self.undecided, packet))
    }

    /// Moves on to the oldest packet in flight; to be called after acknowledgements.
    pub fn advance(&mut self) {
        self.undecided = self.undecided.max(self.base);
        while let Some(i) = self.index(self.undecided) {
            if self.packets[i].state == State::InFlight {
                break;
            }
            self.undecided += 1;
        }
    }

    /// Whether anything in flight carries content.
    pub fn carries_content(&self) -> bool {
        self.packets
            .iter()
            .any(|p| p.contents > 0 && p.state == State::InFlight)
    }

    /// Whether a packet of this number or a higher one wants an answer.
    pub const fn wants_answer_from(&self, number: u64) -> bool {
        self.occasions > 0 && self.newest_eliciting >= number
    }

    /// How many occasions for an answer there had been by `time`.
    pub fn occasions_by(&self, time: Time) -> u64 {
        match self.packets.partition_point(|p| p.sent <= time) {
            0 => self
                .packets
                .front()
                .map_or(self.occasions, |p| p.occasions.saturating_sub(1)),
            i => self.packets[i - 1].occasions,
        }
    }

    /// Forgets decided packets at the front; lost ones only when sent before `lost_before` or the ring is long.
    pub fn forget(&mut self, lost_before: Time) {
        while let Some(front) = self.packets.front() {
            let keep = match front.state {
                State::InFlight => true,
                State::Lost | State::TimedOut => {
                    front.sent >= lost_before && self.packets.len() <= REPLAY_WINDOW_PACKETS / 2
                }
                State::Silent | State::Acked => false,
            };
            if keep {
                break;
            }
            let contents = front.contents as usize;
            self.contents.drain(..contents);
            self.contents_base += contents as u64;
            self.packets.pop_front();
            self.base += 1;
        }
        self.advance();
        debug_assert!(self.is_sound());
    }

    /// Whether what is in flight is counted in packets and in bytes alike, the oldest undecided packet is one of the
    /// ring or the next, and the ring of contents begins with those of the oldest packet.
    fn is_sound(&self) -> bool {
        (self.in_flight_packets == 0) == (self.in_flight_bytes == 0)
            && self.in_flight_packets as usize <= self.packets.len()
            && self.undecided <= self.next_number()
            && self
                .packets
                .front()
                .is_none_or(|oldest| oldest.contents_at == self.contents_base)
            && (!self.packets.is_empty() || self.contents.is_empty())
    }

    /// Gives memory back when nothing is under way, but for that of `kept` packets.
    pub fn shrink(&mut self, kept: usize) {
        if self.packets.is_empty() {
            self.packets.shrink_to(kept);
            self.contents.shrink_to(kept);
        }
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.packets.capacity() * size_of::<SentPacket>()
            + self.contents.capacity() * size_of::<Content>()
    }

    fn tell(&self, packet: SentPacket, fate: Fate, fates: &mut Vec<(Content, Fate)>) {
        let from = (packet.contents_at - self.contents_base) as usize;
        for i in from..from + packet.contents as usize {
            fates.push((self.contents[i], fate));
        }
    }
}

/// What [`SentRing::lose`] gave up.
#[derive(Clone, Copy, Default, Debug)]
pub struct Lost {
    pub packets: u32,
    pub bytes: u64,
    /// Packets that carried content.
    pub with_content: u32,
    /// Length of the longest.
    pub largest_bytes: u32,
}
