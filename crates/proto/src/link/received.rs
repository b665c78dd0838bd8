//! What arrived on a path: replay window and acknowledgement state in one ring of bits.

use core::time::Duration;

use super::thresholds::{
    ACK_DELAY_MAX, ACK_GAP_INTERVAL, ACK_PACKETS, ACK_REPEATS, KEEPALIVE_IDLE,
};
use crate::Time;
use crate::limits::REPLAY_WINDOW_PACKETS;
use crate::wire::Ack;

/// Words that the ring has at most …
const WORDS: usize = REPLAY_WINDOW_PACKETS / 64;
/// … and at first, and again once nothing came for [`KEEPALIVE_IDLE`].
const WORDS_IDLE: usize = 2;
/// One word less than the ring holds: the word of the newest packet is only partly used.
const WINDOW: u64 = (REPLAY_WINDOW_PACKETS - 64) as u64;
/// Words an [`Ack`] has room for (the compiler checks that it is so).
const ACK_WORDS: usize = 16;

/// Packets that arrived on one path.
#[derive(Debug)]
pub struct Received {
    /// A ring: the word of number n is n / 64 modulo its length, a power of two.
    bits: Vec<u64>,
    /// One more than the highest number that arrived.
    next: u64,
    /// Lower numbers are too old, wherever the window begins: of what came before the path fell idle nothing is kept.
    floor: u64,
    largest_at: Time,
    /// Packets wanting an answer that no acknowledgement has reported.
    unreported: u32,
    due: Option<Time>,
    /// How long an acknowledgement may wait.
    delay_max: Duration,
    last_ack: Option<Time>,
    /// Lowest number that arrived since the last acknowledgement, and since those before it.
    lowest: [u64; ACK_REPEATS],
}

impl Received {
    pub fn new() -> Received {
        Received {
            bits: Vec::new(),
            next: 0,
            floor: 0,
            largest_at: Time::ZERO,
            unreported: 0,
            due: None,
            delay_max: ACK_DELAY_MAX,
            last_ack: None,
            lowest: [u64::MAX; ACK_REPEATS],
        }
    }

    /// One more than the highest number that arrived; 0 if nothing did.
    pub const fn next_number(&self) -> u64 {
        self.next
    }

    fn word(&self, number: u64) -> usize {
        (number / 64) as usize & (self.bits.len() - 1)
    }

    fn has(&self, number: u64) -> bool {
        self.bits[self.word(number)] >> (number % 64) & 1 == 1
    }

    /// Whether a packet of this number is neither a duplicate nor too old to tell.
    pub fn may_accept(&self, number: u64) -> bool {
        number >= self.next || (!self.is_too_old(number) && !self.has(number))
    }

    /// How long an acknowledgement may wait.
    pub const fn set_delay_max(&mut self, delay_max: Duration) {
        self.delay_max = delay_max;
    }

    /// Whether `number` lies so far back that it is not known whether it came before.
    pub fn is_too_old(&self, number: u64) -> bool {
        number < self.floor || number + WINDOW < self.next
    }

    /// Records an authenticated packet. Returns `false` if it must be dropped: a duplicate, or too old.
    pub fn on_received(&mut self, now: Time, number: u64, eliciting: bool) -> bool {
        if !self.may_accept(number) {
            return false;
        }
        let in_order = number == self.next;
        if number >= self.next {
            if now.since(self.largest_at) > KEEPALIVE_IDLE {
                self.shrink();
            }
            self.make_room(number);
            self.clear(number);
            self.next = number + 1;
            self.largest_at = now;
        }
        let word = self.word(number);
        self.bits[word] |= 1 << (number % 64);
        self.lowest[0] = self.lowest[0].min(number);
        if eliciting {
            self.unreported += 1;
        }
        if self.unreported > 0 {
            self.schedule(now, in_order);
        }
        true
    }

    /// Forgets all but the newest word: what is older does not come any more.
    fn shrink(&mut self) {
        self.floor = self.floor.max(self.newest_word() * 64);
        if self.bits.len() > WORDS_IDLE {
            self.resize(WORDS_IDLE);
        }
    }

    /// The ring becomes long enough for all from the floor to `number`, or for a whole window.
    fn make_room(&mut self, number: u64) {
        let needed = (number / 64 + 1 - self.floor / 64).min(WORDS as u64) as usize;
        if needed > self.bits.len() {
            self.resize(needed.next_power_of_two().max(WORDS_IDLE));
        }
    }

    /// Lays the newest words out in a ring of so many.
    fn resize(&mut self, words: usize) {
        debug_assert!(words.is_power_of_two() && words <= WORDS);
        let mut bits = vec![0; words];
        let newest = self.newest_word();
        let kept = words.min(self.bits.len()) as u64;
        for word in (newest + 1).saturating_sub(kept)..=newest {
            if let Some(from) = self
                .bits
                .get(word as usize & self.bits.len().wrapping_sub(1))
            {
                bits[word as usize & (words - 1)] = *from;
            }
        }
        self.bits = bits;
    }

    fn newest_word(&self) -> u64 {
        self.next.saturating_sub(1) / 64
    }

    /// Zeroes the words that the window moves into on its way to `number`.
    fn clear(&mut self, number: u64) {
        let words = (number / 64).saturating_sub(self.newest_word());
        for w in 0..words.min(self.bits.len() as u64) {
            let word = self.word(number - 64 * w);
            self.bits[word] = 0;
        }
    }

    /// Memory held beside its own, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.bits.capacity() * size_of::<u64>()
    }

    fn schedule(&mut self, now: Time, in_order: bool) {
        let wait = if self.unreported >= ACK_PACKETS {
            Duration::ZERO
        } else if in_order {
            self.delay_max
        } else {
            // A gap: at once, but not for every one of a lossy path.
            self.last_ack.map_or(Duration::ZERO, |at| {
                ACK_GAP_INTERVAL.saturating_sub(now.since(at))
            })
        };
        let due = now + wait;
        self.due = Some(self.due.map_or(due, |d| d.min(due)));
    }

    /// Whether something wants to be acknowledged.
    pub const fn ack_pending(&self) -> bool {
        self.unreported > 0
    }

    /// When an acknowledgement must go even if nothing else does.
    pub const fn ack_deadline(&self) -> Option<Time> {
        self.due
    }

    /// The acknowledgement to send now: all that arrived since the eighth last one. `None` if nothing new arrived.
    pub fn take_ack(&mut self, now: Time, path: u8) -> Option<Ack> {
        if self.lowest[0] == u64::MAX {
            return None;
        }
        let largest = self.next - 1;
        let lowest = self.lowest.iter().copied().fold(largest, u64::min);
        let count = ((largest - lowest).div_ceil(64) as usize).clamp(1, ACK_WORDS);
        let mut words = [0; ACK_WORDS];
        for (w, word) in words.iter_mut().take(count).enumerate() {
            *word = self.word_behind(largest, 64 * w as u64);
        }
        self.lowest.copy_within(0..ACK_REPEATS - 1, 1);
        self.lowest[0] = u64::MAX;
        self.unreported = 0;
        self.due = None;
        self.last_ack = Some(now);
        let delay_us = now.since(self.largest_at).as_micros();
        Some(Ack {
            path,
            largest,
            delay_us: delay_us.min(u128::from(u16::MAX)) as u16,
            arrived_us: self.largest_at.as_us_wrapping(),
            word_count: count as u8,
            words,
        })
    }

    /// A word of the ring; of what is forgotten nothing arrived, as far as anybody can tell.
    fn kept(&self, word: u64) -> u64 {
        match word + self.bits.len() as u64 > self.newest_word() {
            true => self.bits[word as usize & (self.bits.len() - 1)],
            false => 0,
        }
    }

    /// Bits of the 64 packets `largest − 1 − skip` downwards, the highest number in bit 0.
    fn word_behind(&self, largest: u64, skip: u64) -> u64 {
        let Some(high) = largest.checked_sub(1 + skip) else {
            return 0;
        };
        let upper = self.kept(high / 64) << (63 - high % 64);
        let lower = match (high / 64).checked_sub(1) {
            Some(w) if high % 64 != 63 => self.kept(w) >> (high % 64 + 1),
            _ => 0,
        };
        // Bit 63 is packet `high` now; the wire wants it in bit 0.
        (upper | lower).reverse_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(ack: &Ack) -> Vec<u64> {
        let mut all = vec![ack.largest];
        for w in 0..ack.word_count as usize {
            for i in 0..64 {
                if ack.words[w] >> i & 1 == 1 {
                    all.push(ack.largest - 1 - (64 * w as u64 + i));
                }
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn reports_exactly_what_arrived() {
        let mut r = Received::new();
        let numbers = [0, 1, 2, 5, 63, 64, 65, 127, 128, 190, 3];
        for n in numbers {
            assert!(r.on_received(Time::from_us(n), n, true));
        }
        let mut expected = numbers.to_vec();
        expected.sort_unstable();
        assert_eq!(acked(&r.take_ack(Time::from_us(200), 0).unwrap()), expected);
    }

    #[test]
    fn refuses_duplicates_and_the_too_old() {
        let mut r = Received::new();
        assert!(r.on_received(Time::ZERO, 10, true));
        assert!(!r.on_received(Time::ZERO, 10, true));
        assert!(r.on_received(Time::ZERO, 10 + WINDOW - 1, true));
        assert!(!r.may_accept(10));
        assert!(r.may_accept(11));
        assert!(!r.may_accept(9));
        assert!(r.on_received(Time::ZERO, 1_000_000, true));
        for n in 0..1_000_000 - WINDOW + 1 {
            assert!(!r.may_accept(n), "{n}");
        }
        for n in 1_000_000 - WINDOW + 1..1_000_000 {
            assert!(r.may_accept(n), "{n}");
        }
    }

    #[test]
    fn the_ring_grows_with_what_comes_and_is_small_again_after_a_rest() {
        let mut r = Received::new();
        assert_eq!(r.heap_bytes(), 0);
        assert!(r.may_accept(0) && r.may_accept(5));
        let mut now = Time::from_ms(1);
        for n in 0..20_000u64 {
            now += Duration::from_micros(10);
            // Every other packet overtakes the one before it.
            assert!(r.on_received(now, n ^ 1, false), "{n}");
            assert!(!r.may_accept(n ^ 1));
        }
        assert_eq!(r.heap_bytes(), WORDS * 8);
        assert!(!r.may_accept(20_000 - WINDOW / 2));
        for rest in 1..2_000u64 {
            now += KEEPALIVE_IDLE * 2;
            let number = 20_000 + rest * 3;
            assert!(r.on_received(now, number, true), "{number}");
            assert!(!r.may_accept(number) && r.may_accept(number - 1));
            assert!(!r.may_accept(20_000 - WINDOW / 2), "accepted twice");
            assert_eq!(acked(&r.take_ack(now, 0).unwrap()).last(), Some(&number));
            assert_eq!(r.heap_bytes(), WORDS_IDLE * 8);
        }
    }

    #[test]
    fn a_leap_makes_the_ring_as_long_as_the_window_and_no_longer() {
        let mut r = Received::new();
        assert!(r.on_received(Time::ZERO, 0, false));
        assert!(r.on_received(Time::ZERO, 1_000_000, false));
        assert_eq!(r.heap_bytes(), WORDS * 8);
        assert!(!r.may_accept(0) && r.may_accept(1_000_000 - WINDOW + 1));
    }

    #[test]
    fn every_packet_is_reported_again_and_again() {
        let mut r = Received::new();
        let mut times = vec![0; 1000];
        for n in 0..1000u64 {
            r.on_received(Time::from_us(n), n, true);
            if n % 10 == 9 {
                let ack = r.take_ack(Time::from_us(n), 0).unwrap();
                assert!(ack.word_count <= 2);
                for n in acked(&ack) {
                    times[n as usize] += 1;
                }
            }
        }
        assert!(times[..920].iter().all(|&t| t >= ACK_REPEATS));
    }

    #[test]
    fn the_ring_is_laid_out_anew_only_to_grow() {
        let mut r = Received::new();
        let mut layouts = 1;
        let mut ring = r.bits.as_ptr();
        for n in 0..4 * WINDOW {
            r.on_received(Time::from_us(n), n, true);
            layouts += usize::from(core::mem::replace(&mut ring, r.bits.as_ptr()) != ring);
        }
        assert!(
            layouts <= 2 + (WORDS / WORDS_IDLE).ilog2() as usize,
            "{layouts}"
        );
    }

    #[test]
    fn due_after_a_burst_a_delay_or_a_gap() {
        let mut r = Received::new();
        r.on_received(Time::from_us(1), 0, false);
        assert_eq!(r.ack_deadline(), None);
        r.on_received(Time::from_us(2), 1, true);
        assert_eq!(r.ack_deadline(), Some(Time::from_us(2) + ACK_DELAY_MAX));
        r.on_received(Time::from_us(3), 3, true);
        assert_eq!(r.ack_deadline(), Some(Time::from_us(3)));
        assert!(r.take_ack(Time::from_us(3), 0).is_some());
        assert_eq!(r.ack_deadline(), None);
        assert!(r.take_ack(Time::from_us(3), 0).is_none());
        r.on_received(Time::from_us(10), 5, true);
        assert_eq!(r.ack_deadline(), Some(Time::from_us(3) + ACK_GAP_INTERVAL));
        for n in 6..6 + u64::from(ACK_PACKETS) {
            r.on_received(Time::from_us(20), n, true);
        }
        assert_eq!(r.ack_deadline(), Some(Time::from_us(20)));
    }
}
