//! A rank's turns: its work when the program polls, and after a wait.

use core::time::Duration;

use tabane_engine::Wait;
use tabane_io::poll::Ready;
use tabane_proto::Time;

use super::Rank;
use crate::local::Local;

/// Interval of checking the peers that something is wanted of.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Interval of polling the sockets of a rank whose peers are all on its node.
const POLL_EVERY: Duration = Duration::from_micros(20);
/// After polling in vain for this long, the processor is yielded each time (`tabane_engine` polls as long before it sleeps).
const YIELD_LATE: Duration = Duration::from_micros(100);
/// The same, if somebody else uses the processor: it may be the very peer that this rank waits for.
const YIELD_SOON: Duration = Duration::from_micros(5);
/// If a yield takes this long, somebody used the processor: otherwise it returns in less than a microsecond.
const TAKEN: Duration = Duration::from_micros(20);
/// How long that is assumed to continue.
const CROWDED_FOR: Duration = Duration::from_millis(100);

impl Rank {
    /// As [`Core::progress`](crate::Core::progress).
    pub(super) fn take_a_turn(&mut self) {
        let now = self.engine.now();
        let came = self.take_beside(now);
        // A rank with only neighbours, or that just heard of one, can postpone the links.
        let is_far = !came && self.peers.met().next().is_some();
        if self.local.is_none() || is_far || now.since(self.polled_at) >= POLL_EVERY {
            self.polled_at = now;
            self.engine.poll(now, &mut self.host);
            if self.hear_neighbours(now) {
                self.take_beside(now);
                self.part_from_closed(now);
            }
        }
        self.make_way(now, came || !self.host.events.is_empty());
        self.take_events(now);
        if self.completions.is_empty() || self.has_work(now) {
            self.digest(now);
        }
    }

    /// Yields the processor, because others may need it to send the messages that this rank polls for. How long the yield
    /// takes shows whether there are others, ranks or not: nothing is counted, and nobody has to say how many share the
    /// processors.
    ///
    /// A rank once yielded only if it had more neighbours on its node than there are processors. Ranks that shared
    /// processors with anything else (another job, a daemon, other nodes of a lab) then held theirs to the end of their
    /// time slice, and each message between them took milliseconds. To sleep at the sockets until a packet comes was
    /// tried instead: beside foreign load CG took 3 to 6 s instead of up to 30, but without any load the halo exchange
    /// took 1.5 times as long.
    fn make_way(&mut self, now: Time, came: bool) {
        if came {
            self.came_at = now;
            return;
        }
        let patience = match now < self.crowded_until {
            true => YIELD_SOON,
            false => YIELD_LATE,
        };
        if now.since(self.came_at) < patience {
            return;
        }
        std::thread::yield_now();
        let back = self.engine.now();
        if back.since(now) >= TAKEN {
            self.crowded_until = back + CROWDED_FOR;
        }
    }

    fn take_events(&mut self, now: Time) {
        while let Some(event) = self.host.events.pop_front() {
            self.on_event(now, event);
        }
    }

    /// Whether there is work besides reporting to the program what has ended, for which it waits.
    fn has_work(&self, now: Time) -> bool {
        self.unsent_bytes > 0
            || !self.owed.is_empty()
            || !self.owed_gets.is_empty()
            || now.since(self.looked_at) >= LOOK_EVERY
    }

    /// Processes the engine's events.
    pub(crate) fn digest(&mut self, now: Time) {
        self.take_events(now);
        if !self.owed.is_empty() {
            self.say_owed(now);
        }
        for _ in 0..self.owed_gets.len() {
            if let Some((peer, get)) = self.owed_gets.pop_front() {
                self.begin_get(now, peer, get.token, get);
            }
        }
        if now.since(self.looked_at) >= LOOK_EVERY {
            self.look_beside(now);
            self.looked_at = now;
            self.look_after(now);
            let bundles = self.engine.node.bundle_count().direct;
            self.bundles_most = self.bundles_most.max(bundles);
        }
        self.flush(now);
        // Events of `look_after`.
        self.take_events(now);
    }

    /// How to wait for arrivals, at most for `patience`.
    pub(crate) fn before_wait(&mut self, patience: Duration) -> Wait {
        let patience = patience.min(LOOK_EVERY);
        let may_sleep = self.local.as_mut().is_none_or(Local::sleep);
        self.host.is_eager = !may_sleep || self.has_more();
        self.engine.before_wait(&mut self.host, Some(patience))
    }

    /// Takes in arrivals, now that these descriptors are ready.
    pub(crate) fn after_wait(&mut self, ready: &[Ready]) {
        let now = self.engine.now();
        self.engine.after_wait(&mut self.host, now, ready);
        let has_rung = self.hear_neighbours(now);
        self.take_beside(now);
        if has_rung {
            // Records from before the goodbye were processed.
            self.part_from_closed(now);
        }
        self.digest(now);
    }
}
