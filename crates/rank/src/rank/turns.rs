//! A rank's turns: what it does when the program asks, and when it was waited for.

use core::time::Duration;

use tabane_engine::Wait;
use tabane_io::poll::Ready;
use tabane_proto::Time;

use super::Rank;
use crate::local::Local;

/// It is looked so often whether those are there that something is wanted of.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The sockets of a rank whose peers are all beside it are tried so often.
const POLL_EVERY: Duration = Duration::from_micros(20);
/// Who looks in vain for so long gives the processor away each time (`tabane_engine` looks for as long before it sleeps) …
const YIELD_LATE: Duration = Duration::from_micros(100);
/// … and after so long where somebody takes it: those who do may be the very ones that it waits for.
const YIELD_SOON: Duration = Duration::from_micros(5);
/// Somebody has taken it if it was away for so long: to come back at once takes less than a microsecond.
const TAKEN: Duration = Duration::from_micros(20);
/// Who took it lately takes it again.
const CROWDED_FOR: Duration = Duration::from_millis(100);

impl Rank {
    /// As [`Core::progress`](crate::Core::progress).
    pub(super) fn take_a_turn(&mut self) {
        let now = self.engine.now();
        let came = self.take_beside(now);
        // Whoever has only neighbours, or just heard of one, can wait for the links.
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

    /// Others may wait for the very processor on which this rank looks in vain for their messages. Whether there are any, be they
    /// ranks or not, shows when it is given away.
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

    /// Whether there is more to do than to tell the program what has ended, for which it waits.
    fn has_work(&self, now: Time) -> bool {
        self.unsent_bytes > 0
            || !self.owed.is_empty()
            || !self.owed_gets.is_empty()
            || now.since(self.looked_at) >= LOOK_EVERY
    }

    /// Acts on what the engine has told.
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
        // What `look_after` did.
        self.take_events(now);
    }

    /// How to wait for what comes, for so long at most.
    pub(crate) fn before_wait(&mut self, patience: Duration) -> Wait {
        let patience = patience.min(LOOK_EVERY);
        let may_sleep = self.local.as_mut().is_none_or(Local::sleep);
        self.host.is_eager = !may_sleep || self.has_more();
        self.engine.before_wait(&mut self.host, Some(patience))
    }

    /// Takes in what has come, now that these descriptors are ready.
    pub(crate) fn after_wait(&mut self, ready: &[Ready]) {
        let now = self.engine.now();
        self.engine.after_wait(&mut self.host, now, ready);
        let has_rung = self.hear_neighbours(now);
        self.take_beside(now);
        if has_rung {
            // What was said before the goodbye was heard.
            self.part_from_closed(now);
        }
        self.digest(now);
    }
}
