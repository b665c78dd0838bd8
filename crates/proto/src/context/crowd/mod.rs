//! Many senders to one receiver: who may send how much on each of our links.
//!
//! Only the receiver sees all that share its port. It measures what arrives, is
//! told by the senders how long their packets wait in queues, and grants each its
//! share of a little less than the port carries, so that the port's queue stays
//! nearly empty: nothing is dropped, and a small message of anyone passes quickly.
//! (Receiver-driven transport as in Homa, Montazeri et al., SIGCOMM 2018, but by
//! rate: a dumb switch has no priorities.)
//!
//! The first design granted windows. On a LAN the share of one sender in eight is a packet or two in flight. The least
//! windows of all together fill the port's queue, and a queue that never empties passes for distance: so whoever came
//! first keeps what it has (Jain's index was 0.5 to 0.8). What arrives while packets wait is what the port carries
//! (`capacity.rs`), so no switch has to help. A sender also keeps its own window below the grant, for what happens at its
//! own port.

mod capacity;

use crate::link::thresholds::SILENCE_BUSY;
use crate::time::times;
use core::time::Duration;

use crate::limits::LINKS_MAX;
use crate::{LinkId, PeerId, Time};

use capacity::{Capacity, Period, USED};

/// What arrives is measured over this: as long as nothing of a path under load is missed for the pause of a process, and
/// twenty bursts of each of eight senders.
const PERIOD: Duration = SILENCE_BUSY;
/// After a period ten times as long nothing is known.
const PERIOD_MAX: Duration = times(PERIOD, 10);
/// A peer that sends at least this, in bytes per second, …
const BULK_MIN: f64 = 100e3;
/// … and at least this part of what the busiest one sends, sends in bulk.
const BULK_PART: f64 = 1.0 / 16.0;
/// A peer that sends less than this part of so little is forgotten until something comes again: its share is nothing.
const RATE_MIN: f64 = BULK_MIN * BULK_PART;
/// Periods without a crowd after which there is none.
const CALM_PERIODS: u8 = 4;

/// What arrives on each link, and from whom.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    links: [Port; LINKS_MAX],
    /// When a peer last granted us something.
    granted_at: Option<Time>,
}

/// One link of ours: the port of its switch towards us.
#[derive(Debug, Default)]
struct Port {
    began: Time,
    /// Who sends, by their numbers, ascending.
    senders: Vec<Sender>,
    /// Of all, in the last period.
    total: Option<f64>,
    /// Periods since there was a crowd, while one is thought to be there.
    calm: Option<u8>,
    capacity: Capacity,
    /// What each may send, in bytes per second.
    grant: f64,
}

/// A peer that something came from lately.
#[derive(Debug)]
struct Sender {
    peer: PeerId,
    /// In this period.
    bytes: u64,
    /// In bytes per second, averaged.
    rate: f64,
    /// Shortest wait that it told of in this period.
    queue: Option<Duration>,
}

impl Crowd {
    /// So many bytes of `peer` came on `link`.
    pub fn on_arrival(&mut self, now: Time, link: LinkId, peer: PeerId, bytes: usize) {
        let port = &mut self.links[link.index()];
        if now.since(port.began) >= PERIOD {
            port.end_period(now);
        }
        port.sender(peer).bytes += bytes as u64;
    }

    /// `peer` says that its packets wait at least so long on their way to `link`.
    pub fn on_waited(&mut self, link: LinkId, peer: PeerId, queue: Duration) {
        let least = &mut self.links[link.index()].sender(peer).queue;
        *least = Some(least.map_or(queue, |least| least.min(queue)));
    }

    /// What `peer`, which sends in bulk here or on another link, may send on `link`, in bytes
    /// per second; `None` if nobody is in the way, infinity if that is not known yet.
    pub fn grant(&self, link: LinkId, peer: PeerId) -> Option<f64> {
        let port = &self.links[link.index()];
        port.calm?;
        let in_bulk = |port: &Port| port.calm.is_some() && port.rate(peer) >= BULK_MIN;
        self.links.iter().any(in_bulk).then_some(port.grant)
    }

    /// A peer grants us something.
    pub const fn on_grant(&mut self, now: Time) {
        self.granted_at = Some(now);
    }

    /// Whether this node is one of a crowd, or before one.
    pub fn is_near(&self, now: Time) -> bool {
        let granted = self.granted_at.is_some_and(|at| now.since(at) < PERIOD_MAX);
        granted || self.links.iter().any(|port| port.calm.is_some())
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        let of = |port: &Port| port.senders.capacity() * size_of::<Sender>();
        self.links.iter().map(of).sum()
    }
}

impl Port {
    fn rate(&self, peer: PeerId) -> f64 {
        let place = self.senders.binary_search_by_key(&peer, |s| s.peer);
        place.map_or(0.0, |place| self.senders[place].rate)
    }

    /// What is known of `peer`.
    fn sender(&mut self, peer: PeerId) -> &mut Sender {
        let place = self.senders.binary_search_by_key(&peer, |s| s.peer);
        let place = place.unwrap_or_else(|place| {
            let new = Sender {
                peer,
                bytes: 0,
                rate: 0.0,
                queue: None,
            };
            self.senders.insert(place, new);
            place
        });
        &mut self.senders[place]
    }

    /// Forgets those that send no more.
    fn forget_idle(&mut self) {
        self.senders.retain(|s| s.rate >= RATE_MIN);
        if self.senders.len() < self.senders.capacity() / 4 {
            self.senders.shrink_to(self.senders.len() * 2);
        }
    }

    fn end_period(&mut self, now: Time) {
        let elapsed = now.since(self.began);
        if elapsed > PERIOD_MAX {
            *self = Port {
                began: now,
                ..Port::default()
            };
            return;
        }
        self.began = now;
        let bytes: u64 = self.senders.iter().map(|s| s.bytes).sum();
        let total = bytes as f64 / elapsed.as_secs_f64();
        let before = self.total.replace(total).unwrap_or(total);
        for sender in &mut self.senders {
            let latest = core::mem::take(&mut sender.bytes) as f64 / elapsed.as_secs_f64();
            sender.rate = (sender.rate + latest) / 2.0;
        }
        let period = Period {
            elapsed,
            total,
            average: (before + total) / 2.0,
            senders: self.in_bulk(),
            queue: self.queue(),
        };
        self.decide(&period);
        self.forget_idle();
    }

    fn decide(&mut self, period: &Period) {
        self.capacity.observe(period.total);
        self.calm = match self.calm {
            _ if period.senders > 1 => Some(0),
            Some(periods) if periods < CALM_PERIODS => Some(periods + 1),
            _ => None,
        };
        if self.calm.is_none() {
            self.capacity.rest();
            self.grant = f64::INFINITY;
            return;
        }
        self.capacity.judge(period);
        self.grant = self.level(self.capacity.bytes_per_s());
    }

    /// How many peers send in bulk.
    fn in_bulk(&self) -> usize {
        let rates = self.senders.iter().map(|s| s.rate);
        let busiest = rates.clone().fold(0.0, f64::max);
        let bulk = BULK_MIN.max(busiest * BULK_PART);
        rates.filter(|&rate| rate >= bulk).count()
    }

    /// What the senders told of, their median: one may take a queue for distance, and
    /// another wait somewhere else.
    fn queue(&mut self) -> Option<Duration> {
        let told = self.senders.iter_mut().filter_map(|s| s.queue.take());
        let mut told: Vec<Duration> = told.collect();
        let middle = told.len() / 2;
        let (_, median, _) = (middle < told.len()).then(|| told.select_nth_unstable(middle))?;
        Some(*median)
    }

    /// The highest equal share of `all`: who uses less than was granted leaves the rest to the others.
    fn level(&self, all: f64) -> f64 {
        let granted = self.grant.min(all);
        let rates = self
            .senders
            .iter()
            .map(|s| s.rate)
            .filter(|&rate| rate > 0.0);
        let wanted = rates.map(|rate| match rate > granted * USED {
            true => f64::INFINITY,
            false => rate,
        });
        let mut wanted: Vec<f64> = wanted.collect();
        wanted.sort_unstable_by(f64::total_cmp);
        let (mut left, count) = (all, wanted.len());
        for (i, wanted) in wanted.into_iter().enumerate() {
            let share = left / (count - i) as f64;
            if wanted >= share {
                return share;
            }
            left -= wanted;
        }
        all
    }
}

#[cfg(test)]
mod tests;
