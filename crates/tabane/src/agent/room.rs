//! How much there is room for. Descriptors are what is scarce: of one process the system permits so
//! many and no more.

use std::fs::File;
use std::io;

use tabane_io::process::raise_descriptor_limit;

use super::flows::FLOWS_MAX;
use super::hosted::HOSTED_MAX;
use super::{Agent, PLACES_MAX, RELAYS_MAX};
use crate::status::is_exhausted;

/// What everything but connections may need, and the daemon itself besides.
const OTHER_DESCRIPTORS: u64 = 8 * PLACES_MAX as u64 + (FLOWS_MAX + HOSTED_MAX) as u64 + 256;
/// What a connection needs that is carried by plain TCP; one that is carried by a bundle needs half.
const DESCRIPTORS_OF_CONNECTION: u64 = 2;
/// What there is if the system does not say.
const USUAL_DESCRIPTORS: u64 = 1024;
const SPARE: &str = "/dev/null";

/// The room there is.
#[derive(Debug)]
pub(super) struct Room {
    connections_max: usize,
    /// Given up to turn somebody away when there is no descriptor for them.
    spare: Option<File>,
}

impl Room {
    /// As much as this process may have.
    pub fn new() -> Room {
        let descriptors = raise_descriptor_limit().unwrap_or(USUAL_DESCRIPTORS);
        let rest = descriptors
            .saturating_sub(OTHER_DESCRIPTORS)
            .max(descriptors / 2);
        let connections = usize::try_from(rest / DESCRIPTORS_OF_CONNECTION);
        Room {
            connections_max: connections.map_or(RELAYS_MAX, |count| count.min(RELAYS_MAX)),
            spare: File::open(SPARE).ok(),
        }
    }
}

impl Agent {
    /// Whether one more connection may be asked for; if not, that is counted.
    pub(super) fn has_room(&mut self) -> bool {
        let begun = self.inbound.len() + self.relays.len();
        // Of those that are only asked for there is a stream, or an attempt.
        let begun = self.owners.len().max(begun) + self.attempts.len();
        self.is_below_limit(begun)
    }

    /// Whether one more of those that were asked for may be carried; if not, that is counted.
    pub(super) fn has_room_to_carry(&mut self) -> bool {
        self.is_below_limit(self.relays.len())
    }

    fn is_below_limit(&mut self, connections: usize) -> bool {
        let is_below = connections < self.room.connections_max;
        self.stats.connections_full += u64::from(!is_below);
        is_below
    }

    /// What was accepted, if anything was. One for whom there is no descriptor is turned away: were it
    /// left waiting, the loop would be woken for it without a pause.
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
            if let Ok(Some(one)) = accept(self) {
                turn_away(one);
            }
            self.room.spare = File::open(SPARE).ok();
        }
        None
    }
}
