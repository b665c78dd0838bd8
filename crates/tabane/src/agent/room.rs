//! How much room there is. Descriptors are the scarce resource: the system limits them for each process.

use std::fs::File;
use std::io;

use tabane_io::failure::says_nothing;
use tabane_io::process::raise_descriptor_limit;

use super::flows::FLOWS_MAX;
use super::hosted::HOSTED_MAX;
use super::spares::SPARES_MAX;
use super::{Agent, PLACES_MAX, RELAYS_MAX};
use crate::log;
use crate::status::is_exhausted;

/// Descriptors for everything but connections, including the daemon itself.
const OTHER_DESCRIPTORS: u64 =
    (8 + SPARES_MAX) as u64 * PLACES_MAX as u64 + (FLOWS_MAX + HOSTED_MAX) as u64 + 256;
/// If there are too few for all of that, connections may have three of four of those that the daemon does not
/// need in any case.
const SHARE_OF_CONNECTIONS: (u64, u64) = (3, 4);
const DAEMON_DESCRIPTORS: u64 = 64;
/// Descriptors of a connection that plain TCP carries; one that a bundle carries needs half.
pub(super) const PLAIN_DESCRIPTORS: usize = 2;
/// The assumed limit if the system does not say.
const USUAL_DESCRIPTORS: u64 = 1024;
const SPARE: &str = "/dev/null";

/// The room there is.
#[derive(Debug)]
pub(super) struct Room {
    descriptors_max: usize,
    /// Given up to turn somebody away when no descriptor is left.
    spare: Option<File>,
}

impl Room {
    /// As much as this process may have.
    pub fn new() -> Room {
        let descriptors = raise_descriptor_limit().unwrap_or(USUAL_DESCRIPTORS);
        let (share, whole) = SHARE_OF_CONNECTIONS;
        let rest = descriptors
            .saturating_sub(OTHER_DESCRIPTORS)
            .max(descriptors.saturating_sub(DAEMON_DESCRIPTORS) * share / whole);
        Room {
            descriptors_max: usize::try_from(rest).unwrap_or(usize::MAX),
            spare: File::open(SPARE).ok(),
        }
    }
}

impl Agent {
    /// Whether one more connection may be asked for; if not, that is counted.
    pub(super) fn has_room(&mut self) -> bool {
        self.is_below_limit(self.used_descriptors())
    }

    /// Descriptors of connections, begun and asked for.
    fn used_descriptors(&self) -> usize {
        // A connection that is only being asked for has a stream or an attempt.
        let plain = self.plain_relays + self.attempts.len() + self.inbound.len();
        self.owners.len() + plain * PLAIN_DESCRIPTORS
    }

    /// Descriptors that connections may have more.
    pub(super) fn free_descriptors(&self) -> usize {
        let used = self.used_descriptors();
        self.room.descriptors_max.saturating_sub(used)
    }

    /// Whether one more of the connections being asked for may be carried; if not, counts that.
    pub(super) fn has_room_to_carry(&mut self) -> bool {
        let carried = self.relays.len() - self.plain_relays;
        self.is_below_limit(carried + self.plain_relays * PLAIN_DESCRIPTORS)
    }

    fn is_below_limit(&mut self, descriptors: usize) -> bool {
        let is_below = self.relays.len() < RELAYS_MAX
            && descriptors + PLAIN_DESCRIPTORS <= self.room.descriptors_max;
        self.stats.connections_full += u64::from(!is_below);
        is_below
    }

    /// An accepted connection, if there was one. One for which there is no descriptor is turned away: left
    /// waiting, it would wake the loop without a pause. If even that fails it is left, and the loop rests.
    pub(super) fn accepted<T>(
        &mut self,
        accept: impl Fn(&Agent) -> io::Result<Option<T>>,
        turn_away: impl FnOnce(T),
    ) -> Option<T> {
        let error = match accept(self) {
            Ok(accepted) => return accepted,
            Err(error) => error,
        };
        if is_exhausted(&error) {
            self.stats.descriptors_full += 1;
            self.room.spare = None;
            let other = accept(self);
            self.room.spare = File::open(SPARE).ok();
            if let Ok(other) = other {
                other.map(turn_away);
                return None;
            }
        }
        if says_nothing(&error) {
            self.stumble("connections cannot be accepted", &error);
        }
        None
    }

    /// Something that is ready cannot be taken now: it is tried again, less often than the loop could. The log
    /// tells it once.
    pub(super) fn stumble(&mut self, what: &'static str, error: &io::Error) {
        self.poller.stumble();
        if self.told.insert(what) {
            log::line(format!("tabane run: {what}: {error}; still trying"));
        }
    }

    /// The result of a read, unless it must be repeated: then the loop rests first.
    ///
    /// # Errors
    /// Those of the read.
    pub(super) fn taken<T>(&mut self, read: io::Result<Option<T>>) -> io::Result<Option<T>> {
        match read {
            Err(error) if says_nothing(&error) => {
                self.stumble("what programs send cannot be read", &error);
                Ok(None)
            }
            read => read,
        }
    }
}
