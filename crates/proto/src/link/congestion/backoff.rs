//! Less than the least window: what a path keeps in flight while its link is full of others.
//!
//! A window of a few packets is the least that keeps acknowledgements coming, and too much where thousands of paths
//! share a trunk: together they lose most of what they send, and each loss is sent again. A path that loses at its least
//! window therefore halves what it keeps in flight, to a packet and below; less than a packet per round trip is one packet
//! with a pause before the next (Kumar et al., "Swift", SIGCOMM 2020, section 3.2). What is acknowledged opens it again: at once
//! while nothing waits in queues, slowly while others' packets do.
//!
//! Such a case: 16 nodes of a switch that each send to a hundred others over one trunk have 1,800 least windows in a
//! queue of 350 packets. A path goes down to a packet every 16 round trips. A bound on how many peers a node sends to at
//! once was considered instead; it would let one peer's loss hold up another peer.
//!
//! The same collapse had further causes. A path in doubt asks the peer's *other* path for comparison, and that had no
//! bound (`Path::asks_in_doubt`). A relayed datagram met the one link of its neighbour that carries packets shorter by 20
//! bytes, and was dropped (`RelayQueue::write_next`). Questions of liveness were paid for out of what content may take
//! (`Flight::on_sent`). With all of it mended, an all-to-all-v of 64 KB between 64 nodes (simulated), which never ended
//! before, takes 1.6 times what the trunks need.

use core::time::Duration;

use crate::Time;
use crate::link::thresholds::{BACKOFF_LEAST, QUEUE_TARGET, WINDOW_MIN_PACKETS};

/// How much less than the least window may be in flight.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// In packets, less than the least window.
    window: f64,
    /// What was sent before was decided under an earlier one: its loss is no news.
    since: Time,
}

impl Backoff {
    /// The first one: something was lost although the window was at its least.
    pub const fn new(now: Time) -> Backoff {
        Backoff {
            window: WINDOW_MIN_PACKETS as f64 / 2.0,
            since: now,
        }
    }

    /// More was lost, the newest of it or of what was answered beside it `sent` at that time.
    pub fn on_lost(&mut self, now: Time, sent: Time) {
        if sent >= self.since {
            self.window = (self.window / 2.0).max(BACKOFF_LEAST);
            self.since = now;
        }
    }

    /// So many packets arrived, the newest of which waited so long in queues (`Duration::MAX`: not known). Returns whether the
    /// window is what it is at least.
    pub fn on_acked(&mut self, packets: u32, queue: Duration) -> bool {
        let packets = f64::from(packets);
        self.window += match queue < QUEUE_TARGET / 2 {
            true => packets.min(self.window),
            false => packets * BACKOFF_LEAST / 2.0,
        };
        self.window >= WINDOW_MIN_PACKETS as f64
    }

    /// Packets that may be in flight; less than one is one now and then.
    pub const fn packets(&self) -> f64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(4);
    const SHORT: Duration = Duration::from_micros(100);

    /// After so many losses, each of something that was sent after the one before.
    fn after(losses: u64) -> Backoff {
        let mut backoff = Backoff::new(Time::from_ms(1));
        for n in 1..losses {
            backoff.on_lost(Time::from_ms(1 + 2 * n), Time::from_ms(2 * n));
        }
        backoff
    }

    #[test]
    fn each_loss_halves_it_and_what_was_lost_together_counts_once() {
        assert_eq!(
            [1, 2, 3, 4].map(|n| after(n).packets()),
            [2.0, 1.0, 0.5, 0.25]
        );
        assert_eq!(after(100).packets(), BACKOFF_LEAST);
        let mut backoff = after(2);
        backoff.on_lost(Time::from_ms(4), Time::from_ms(2));
        assert_eq!(backoff.packets(), 1.0);
    }

    #[test]
    fn an_empty_queue_opens_it_at_once_and_a_long_one_slowly() {
        let acks = |queue| {
            let mut backoff = after(100);
            (1..1000).find(|_| backoff.on_acked(1, queue))
        };
        // Doubling up to a packet, and then as many more as arrive.
        assert_eq!(acks(SHORT), Some(7));
        let slowly = acks(LONG).expect("opens");
        assert!((100..200).contains(&slowly), "{slowly}");
        assert_eq!(acks(Duration::MAX), Some(slowly));
    }

    #[test]
    fn who_loses_one_packet_of_six_goes_on_with_less_than_one() {
        let (mut backoff, mut now) = (after(5), Time::from_ms(100));
        for n in 0..600 {
            now += Duration::from_millis(5);
            if n % 6 == 0 {
                backoff.on_lost(now, now);
            } else {
                assert!(!backoff.on_acked(1, LONG));
            }
        }
        assert!((0.1..0.6).contains(&backoff.packets()), "{backoff:?}");
    }
}
