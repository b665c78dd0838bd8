//! The service manager (systemd), if there is one: it is told when the node is ready
//! and when it ends, and periodically that the loop runs.

use core::time::Duration;

use tabane_io::systemd::{Notifier, State, watchdog_interval};
use tabane_proto::Time;

use crate::log;

/// Interval for repeating a message that it did not accept: its queue may be full for a
/// moment.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The channel to the service manager, and pending messages.
pub(super) struct Manager {
    notifier: Option<Notifier>,
    /// Interval of feeding the watchdog: half of the unit's `WatchdogSec=`.
    interval: Option<Duration>,
    due: Time,
    /// It has not yet accepted that the node is ready.
    owes_ready: bool,
    /// It did not take the last word; the log has it.
    is_deaf: bool,
}

impl Manager {
    /// As the environment says; silent outside of systemd.
    pub fn from_environment() -> Manager {
        let notifier = Notifier::from_environment().unwrap_or_else(|error| {
            log::warn(format!("cannot notify the service manager: {error}"));
            None
        });
        // Without a channel there is no watchdog to feed.
        let interval = notifier.as_ref().and_then(|_| watchdog_interval());
        Manager {
            notifier,
            interval,
            due: Time::ZERO,
            owes_ready: false,
            is_deaf: false,
        }
    }

    /// Tells it. A manager that does not listen is not a reason to stop.
    pub fn tell(&mut self, state: State<'_>) {
        let is_told = self.say(state);
        self.owes_ready = state == State::Ready && !is_told;
    }

    /// Whether it has taken it.
    fn say(&mut self, state: State<'_>) -> bool {
        let said = self.notifier.as_ref().map_or(Ok(()), |n| n.notify(state));
        if let (Err(error), false) = (&said, self.is_deaf) {
            log::warn(format!("cannot notify the service manager: {error}"));
        }
        self.is_deaf = said.is_err();
        !self.is_deaf
    }

    /// How long the loop may sleep, if it may sleep `patience` otherwise.
    pub fn patience(&self, patience: Duration) -> Duration {
        self.interval.map_or(patience, |due| due.min(patience))
    }

    /// Call it after each turn of the loop, and nowhere else: the watchdog checks that
    /// packets, timers and frames had their turn.
    pub fn turned(&mut self, now: Time) {
        if now < self.due || (self.interval.is_none() && !self.owes_ready) {
            return;
        }
        if self.owes_ready {
            self.tell(State::Ready);
        }
        let is_fed = self.interval.is_none() || self.say(State::Watchdog);
        let interval = self.interval.unwrap_or(AGAIN_AFTER);
        self.due = now
            + match is_fed && !self.owes_ready {
                true => interval,
                false => interval.min(AGAIN_AFTER),
            };
    }
}
