//! One direction of one wire: a queue, a rate, a delay, and what can go wrong.

use super::events::{Ns, SECOND, US};
use crate::random::Random;
use tabane_proto::wire::Kind;

/// Bytes that a datagram costs on an Ethernet beyond its payload: UDP and IPv4
/// headers, Ethernet header and check sequence, preamble and gap.
pub const WIRE_OVERHEAD_BYTES: u64 = 28 + 18 + 20;

/// How a wire behaves. All of it may change while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conditions {
    /// Line rate in bits a second.
    pub rate_bps: u64,
    /// Bytes that may pass at once after a rest (the `burst` of `tc tbf`).
    pub burst_bytes: u64,
    /// Bytes that may wait; what comes on top is dropped.
    pub queue_bytes: u64,
    /// Time on the wire.
    pub delay_ns: Ns,
    /// Up to this much more, drawn for each packet.
    pub jitter_ns: Ns,
    /// Whether jitter may bring a packet past an earlier one.
    pub reorders: bool,
    /// Packets lost, of a million.
    pub loss_ppm: u32,
    /// Loss that comes in bursts (Gilbert's model): packets of a million at which a
    /// burst begins.
    pub burst_begins_ppm: u32,
    /// Packets of a million at which a burst ends; within it all are lost.
    pub burst_ends_ppm: u32,
    /// Packets that come twice, of a million.
    pub duplicate_ppm: u32,
    /// Packets with bits flipped, of a million.
    pub corrupt_ppm: u32,
    /// Largest datagram (UDP payload) that passes; larger ones vanish silently.
    pub datagram_bytes_max: usize,
    /// Nothing passes, and nobody is told.
    pub dead: bool,
    /// Handshakes pass, and nothing else: a firewall that knows these alone, say.
    pub handshakes_only: bool,
}

impl Conditions {
    /// A wire without faults.
    pub const fn clean(rate_bps: u64, delay_ns: Ns, queue_bytes: u64) -> Conditions {
        Conditions {
            rate_bps,
            burst_bytes: 16 * 1024,
            queue_bytes,
            delay_ns,
            jitter_ns: 0,
            reorders: false,
            loss_ppm: 0,
            burst_begins_ppm: 0,
            burst_ends_ppm: 0,
            duplicate_ppm: 0,
            corrupt_ppm: 0,
            datagram_bytes_max: 1472,
            dead: false,
            handshakes_only: false,
        }
    }

    /// The longest that a packet of full size can take to pass.
    pub const fn delay_max_ns(&self) -> Ns {
        self.delay_ns + self.jitter_ns + transmission_ns(self.queue_bytes + 1538, self.rate_bps)
    }
}

/// Time that `bytes` take at `rate_bps`.
pub const fn transmission_ns(bytes: u64, rate_bps: u64) -> Ns {
    let rate = if rate_bps == 0 { 1 } else { rate_bps };
    (bytes as u128 * 8 * SECOND as u128 / rate as u128) as Ns
}

/// Why a packet did not pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The wire is dead.
    Dead,
    /// Larger than the wire carries.
    TooLarge,
    /// The queue was full.
    Overflow,
    /// Chance.
    Random,
    /// A burst.
    Burst,
    /// It was altered, and the kernel of the host that it came to saw it by the checksum of UDP.
    Altered,
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passage {
    /// It is gone.
    Lost(Loss),
    /// It comes out at the other end.
    Passes {
        /// When.
        at: Ns,
        /// When it comes a second time, if it does.
        again_at: Option<Ns>,
        /// Whether bits were flipped on the way.
        corrupt: bool,
    },
}

impl Passage {
    /// Why it is gone, if it is.
    pub const fn loss(self) -> Option<Loss> {
        match self {
            Passage::Lost(why) => Some(why),
            Passage::Passes { .. } => None,
        }
    }
}

/// A wire in one direction.
///
/// The queue is not stored: a rate and a line ("virtual scheduling", ITU-T I.371,
/// the algorithm of `tc tbf`) tell when each packet leaves. A change of rate
/// therefore holds for packets sent after it.
#[derive(Clone, Debug)]
pub struct Channel {
    /// How it behaves now.
    pub conditions: Conditions,
    /// When everything sent so far will have left at the line rate; lies in the past
    /// by up to the burst allowance after a rest.
    free_at: Ns,
    last_arrival: Ns,
    in_burst: bool,
    longest_wait: (Ns, Ns),
    random: Random,
}

impl Channel {
    /// A wire at rest.
    pub fn new(conditions: Conditions, random: Random) -> Channel {
        Channel {
            conditions,
            free_at: 0,
            last_arrival: 0,
            in_burst: false,
            longest_wait: (0, 0),
            random,
        }
    }

    /// Bytes waiting at `now`.
    pub fn backlog_bytes(&self, now: Ns) -> u64 {
        let wait = self.free_at.saturating_sub(now);
        (u128::from(wait) * u128::from(self.conditions.rate_bps) / (8 * u128::from(SECOND))) as u64
    }

    /// When no more than `bytes` will be waiting.
    pub fn drained_to_at(&self, bytes: u64) -> Ns {
        self.free_at
            .saturating_sub(transmission_ns(bytes, self.conditions.rate_bps))
    }

    /// The longest wait in the queue that a packet had during the last 100 ms or so.
    pub fn recent_wait_ns(&self, now: Ns) -> Ns {
        let (wait, at) = self.longest_wait;
        if now.saturating_sub(at) < 200_000 * US {
            wait.max(self.free_at.saturating_sub(now))
        } else {
            self.free_at.saturating_sub(now)
        }
    }

    /// As [`Channel::send`], for what is in the datagram.
    pub fn send_datagram(&mut self, now: Ns, datagram: &[u8]) -> Passage {
        let is_data = datagram.first() == Some(&(Kind::Data as u8));
        match self.conditions.handshakes_only && is_data {
            true => Passage::Lost(Loss::Dead),
            false => self.send(now, datagram.len()),
        }
    }

    /// Sends a datagram of `bytes` at `now`.
    pub fn send(&mut self, now: Ns, bytes: usize) -> Passage {
        let c = self.conditions;
        if c.dead {
            return Passage::Lost(Loss::Dead);
        }
        if bytes > c.datagram_bytes_max {
            return Passage::Lost(Loss::TooLarge);
        }
        let wire_bytes = bytes as u64 + WIRE_OVERHEAD_BYTES;
        if self.backlog_bytes(now) + wire_bytes > c.queue_bytes.max(wire_bytes) {
            return Passage::Lost(Loss::Overflow);
        }
        let rested = now.saturating_sub(transmission_ns(c.burst_bytes, c.rate_bps));
        self.free_at = self.free_at.max(rested) + transmission_ns(wire_bytes, c.rate_bps);
        let leaves = self.free_at.max(now);
        self.note_wait(now, leaves - now);
        if let Some(loss) = self.chance_of_loss() {
            return Passage::Lost(loss);
        }
        let at = self.arrival(leaves);
        let again_at = self
            .random
            .chance(c.duplicate_ppm)
            .then(|| at + self.random.between(1, 300 * US));
        Passage::Passes {
            at,
            again_at,
            corrupt: self.random.chance(c.corrupt_ppm),
        }
    }

    fn arrival(&mut self, leaves: Ns) -> Ns {
        let c = &self.conditions;
        let jitter = match c.jitter_ns {
            0 => 0,
            most => self.random.below(most),
        };
        let mut at = leaves + c.delay_ns + jitter;
        if !c.reorders {
            at = at.max(self.last_arrival);
        }
        self.last_arrival = self.last_arrival.max(at);
        at
    }

    fn chance_of_loss(&mut self) -> Option<Loss> {
        let c = &self.conditions;
        if c.burst_begins_ppm == 0 {
            self.in_burst = false;
        } else if self.in_burst {
            self.in_burst = !self.random.chance(c.burst_ends_ppm);
        } else {
            self.in_burst = self.random.chance(c.burst_begins_ppm);
        }
        if self.in_burst {
            return Some(Loss::Burst);
        }
        self.random.chance(c.loss_ppm).then_some(Loss::Random)
    }

    fn note_wait(&mut self, now: Ns, wait: Ns) {
        let (longest, at) = self.longest_wait;
        if wait >= longest || now.saturating_sub(at) > 100_000 * US {
            self.longest_wait = (wait, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::MS;
    use super::*;

    fn channel(conditions: Conditions) -> Channel {
        Channel::new(conditions, Random::new(1))
    }

    fn arrival(passage: Passage) -> Option<Ns> {
        match passage {
            Passage::Passes { at, .. } => Some(at),
            Passage::Lost(_) => None,
        }
    }

    #[test]
    fn a_full_wire_delivers_exactly_its_rate_in_order_and_drops_what_does_not_fit() {
        let mut c = channel(Conditions::clean(100_000_000, MS, 100_000));
        let arrivals: Vec<Ns> = (0..1000)
            .filter_map(|_| arrival(c.send(SECOND, 1434)))
            .collect();
        assert!(arrivals.is_sorted());
        // 1500 bytes on the wire each: 120 µs; what fits is the queue and the burst.
        let fits = (100_000 + 16 * 1024) / 1500;
        assert!((fits - 1..=fits + 1).contains(&arrivals.len()));
        assert_eq!(
            arrivals[arrivals.len() - 1] - arrivals[arrivals.len() - 2],
            120 * US
        );
    }

    #[test]
    fn dead_and_too_small_wires_let_nothing_pass() {
        let mut c = channel(Conditions::clean(1_000_000_000, 0, 100_000));
        assert_eq!(c.send(0, 1473), Passage::Lost(Loss::TooLarge));
        c.conditions.dead = true;
        assert_eq!(c.send(0, 100), Passage::Lost(Loss::Dead));
    }

    #[test]
    fn loss_is_as_frequent_as_stated_and_bursts_are_bursts() {
        let mut c = channel(Conditions {
            loss_ppm: 300_000,
            ..Conditions::clean(1_000_000_000_000, 0, 1_000_000_000)
        });
        let lost = (0..10_000)
            .filter(|_| arrival(c.send(0, 100)).is_none())
            .count();
        assert!((2_800..3_200).contains(&lost), "{lost}");

        c.conditions.loss_ppm = 0;
        c.conditions.burst_begins_ppm = 10_000;
        c.conditions.burst_ends_ppm = 100_000;
        let fates: Vec<bool> = (0..20_000)
            .map(|_| arrival(c.send(0, 100)).is_none())
            .collect();
        let lost = fates.iter().filter(|lost| **lost).count();
        let bursts = fates.windows(2).filter(|w| !w[0] && w[1]).count();
        let mean = lost / bursts.max(1);
        assert!((7..=13).contains(&mean), "{lost} in {bursts}");
    }

    #[test]
    fn jitter_reorders_only_where_it_may() {
        let jittery = Conditions {
            jitter_ns: MS,
            ..Conditions::clean(10_000_000_000, 0, 1_000_000)
        };
        let run = |conditions| {
            let mut c = channel(conditions);
            (0..100)
                .filter_map(|i| arrival(c.send(i * US, 100)))
                .collect::<Vec<_>>()
        };
        assert!(run(jittery).is_sorted());
        let reordering = Conditions {
            reorders: true,
            ..jittery
        };
        assert!(!run(reordering).is_sorted());
    }
}
