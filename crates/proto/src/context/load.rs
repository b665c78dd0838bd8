//! What this node has handed to its links and they have not carried yet, as far as can be told: every bundle knows what it has in flight
//! itself, and they would all begin with the same link.

use core::time::Duration;

use crate::limits::LINKS_MAX;
use crate::link::thresholds::RATE_INITIAL;
use crate::{LinkId, Time};

/// The load of all links.
#[derive(Debug)]
pub(crate) struct Load {
    links: [Link; LINKS_MAX],
}

#[derive(Clone, Copy, Debug)]
struct Link {
    /// When all that was handed to it has left.
    idle_at: Time,
    /// What it carries at least, in bytes per second: as much as any path over it was seen to.
    rate: f64,
}

impl Load {
    pub const fn new() -> Load {
        let link = Link {
            idle_at: Time::ZERO,
            rate: RATE_INITIAL,
        };
        Load {
            links: [link; LINKS_MAX],
        }
    }

    /// So many bytes go over a link, on a path that carries `rate` bytes per second.
    pub fn on_sent(&mut self, now: Time, link: LinkId, bytes: usize, rate: f64) {
        if let Some(link) = self.links.get_mut(link.index()) {
            link.rate = link.rate.max(rate);
            let takes = Duration::from_secs_f64(bytes as f64 / link.rate);
            link.idle_at = link.idle_at.max(now) + takes;
        }
    }

    /// How long what is handed to a link now waits for what was before. Never of a path through other nodes.
    pub fn wait(&self, now: Time, link: LinkId) -> Duration {
        let link = self.links.get(link.index());
        link.map_or(Duration::ZERO, |link| link.idle_at.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_handed_over_leaves_at_the_rate_of_the_fastest_path() {
        let (now, us) = (Time::from_ms(5), Duration::from_micros);
        let mut load = Load::new();
        load.on_sent(now, LinkId(1), 12_500, 1e6);
        assert_eq!(load.wait(now, LinkId(1)), us(100));
        assert_eq!(load.wait(now, LinkId(0)), us(0));
        load.on_sent(now, LinkId(1), 125_000, RATE_INITIAL * 10.0);
        assert_eq!(load.wait(now + us(50), LinkId(1)), us(150));
        assert_eq!(load.wait(now + us(500), LinkId(1)), us(0));
        // Ways through others lead over links, but who knows which.
        load.on_sent(now, LinkId(8), 125_000, 1e6);
        assert_eq!(load.wait(now, LinkId(8)), us(0));
    }
}
