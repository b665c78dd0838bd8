//! The service manager (systemd), where there is one: told when the node is
//! ready and when it ends, and at short intervals that the loop turns.

use core::time::Duration;

use tabane_io::systemd::{Notifier, State, watchdog_interval};
use tabane_proto::Time;

use super::log;

/// The way to the service manager, and what it waits for.
pub(super) struct Manager {
    notifier: Option<Notifier>,
    /// How often the watchdog is fed: half of what the unit's `WatchdogSec=` allows.
    interval: Option<Duration>,
    due: Time,
}

impl Manager {
    /// As the environment says; silent outside of systemd.
    pub fn from_environment() -> Manager {
        let notifier = Notifier::from_environment().unwrap_or_else(|error| {
            log::line(format!("cannot notify the service manager: {error}"));
            None
        });
        // Without a way to tell there is nobody to keep content.
        let interval = notifier.as_ref().and_then(|_| watchdog_interval());
        Manager {
            notifier,
            interval,
            due: Time::ZERO,
        }
    }

    /// Tells it. A manager that does not listen is not a reason to stop.
    pub fn tell(&self, state: State<'_>) {
        if let Some(Err(error)) = self.notifier.as_ref().map(|n| n.notify(state)) {
            log::line(format!("cannot notify the service manager: {error}"));
        }
    }

    /// How long the loop may sleep, if it may sleep `patience` otherwise.
    pub fn patience(&self, patience: Duration) -> Duration {
        self.interval.map_or(patience, |due| due.min(patience))
    }

    /// To be called after each turn of the loop, and from nowhere else: that is
    /// what the watchdog is to know, that packets, timers and frames had their turn.
    pub fn turned(&mut self, now: Time) {
        let Some(interval) = self.interval else {
            return;
        };
        if now >= self.due {
            self.due = now + interval;
            self.tell(State::Watchdog);
        }
    }
}
