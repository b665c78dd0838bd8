//! An endpoint at work: its engine, whom it knows by which address, and who is told what has ended.

use core::time::Duration;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{PoisonError, RwLock};

use tabane_rank::{Address, Completion, Core, Ended, Endpoint, Failure, Peer, PostError, Source};

use crate::abi::constants as c;
use crate::abi::errors::{self, Outcome};
use crate::completions::{Entry, Queue, Wrong};
use crate::counter::Counter;
use crate::object::Held;
use crate::{log, name, words};

/// A flag of a ticket, beside those of completions: success is not told by a completion.
pub const QUIET: u64 = 1 << 63;

/// Bits of an address in a vector that are the place in it; above are those that tell one from the one before at the same
/// place.
const PLACE_BITS: u32 = 32;

/// Where a `fi_addr_t` is in its vector.
pub fn place(fi_addr: u64) -> usize {
    (fi_addr & ((1 << PLACE_BITS) - 1)) as usize
}

/// The `fi_addr_t` of a place that was used so many times before.
pub fn fi_addr(place: usize, times: u32) -> u64 {
    u64::from(times) << PLACE_BITS | place as u64
}

/// Who is told.
pub struct Sinks {
    /// Of what this end began.
    pub sent: Option<Held<Queue>>,
    /// Of what others began.
    pub received: Option<Held<Queue>>,
    /// And of which of these (`FI_SEND`, …).
    pub counters: Vec<(u64, Held<Counter>)>,
}

/// An endpoint that is enabled. Locks are taken in this order: the engine, routes, a queue.
pub struct Station {
    endpoint: Endpoint,
    routes: RwLock<Routes>,
    sinks: Sinks,
    options: Options,
}

/// What the endpoint was opened for.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Completions say whom they are from.
    pub has_source: bool,
    /// A message of somebody who is not in the address vector is an error that tells the address.
    pub has_strangers: bool,
    /// A summary is printed at the end.
    pub stats: bool,
}

/// Addresses in the vector, and the engine's numbers of them.
#[derive(Default)]
struct Routes {
    /// By place.
    peers: Vec<Option<(u64, Peer)>>,
    addresses: HashMap<Peer, u64>,
}

impl Station {
    pub fn new(endpoint: Endpoint, sinks: Sinks, options: Options) -> Station {
        Station {
            endpoint,
            routes: RwLock::default(),
            sinks,
            options,
        }
    }

    /// What others are to be told.
    pub fn address(&self) -> &Address {
        self.endpoint.address()
    }

    /// Readable while something has ended, after [`arm`](Station::arm).
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.endpoint.descriptor()
    }

    /// The caller is about to wait for the descriptor. Whether it may.
    pub fn arm(&self) -> bool {
        self.endpoint.arm()
    }

    /// Waits until something has ended, at most for so long.
    pub fn wait(&self, at_most: Duration) {
        self.endpoint.wait(Some(at_most));
    }

    /// Whom the queues and counters belong to that are told.
    pub fn sinks(&self) -> &Sinks {
        &self.sinks
    }

    /// An address is in the vector as `fi_addr`.
    pub fn name(&self, fi_addr: u64, address: &Address) {
        let mut core = self.endpoint.lock();
        let peer = core.peer(address);
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        let place = place(fi_addr);
        if routes.peers.len() <= place {
            routes.peers.resize(place + 1, None);
        }
        routes.peers[place] = Some((fi_addr, peer));
        routes.addresses.entry(peer).or_insert(fi_addr);
    }

    /// It is not any more.
    pub fn forget(&self, fi_addr: u64) {
        let mut core = self.endpoint.lock();
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        let Some(gone) = routes.peers.get_mut(place(fi_addr)) else {
            return;
        };
        let Some((_, peer)) = gone.take_if(|(have, _)| *have == fi_addr) else {
            return;
        };
        // The same address may have been inserted twice.
        let mut others = routes.peers.iter().flatten();
        let other = others
            .find(|(_, other)| *other == peer)
            .map(|(other, _)| *other);
        match other {
            Some(other) => {
                routes.addresses.insert(peer, other);
            }
            None => {
                routes.addresses.remove(&peer);
                core.forget(peer);
            }
        }
    }

    /// The engine's number of an address in the vector.
    ///
    /// # Errors
    /// `-FI_EINVAL`: it is not there, or not any more.
    fn peer(&self, fi_addr: u64) -> Outcome<Peer> {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        let found = routes.peers.get(place(fi_addr)).copied().flatten();
        match found {
            Some((have, peer)) if have == fi_addr => Ok(peer),
            _ => Err(errors::INVAL),
        }
    }

    /// Has the engine do something.
    ///
    /// # Errors
    /// Those of posting.
    pub fn act(&self, act: impl FnOnce(&mut dyn Core) -> Result<(), PostError>) -> Outcome<()> {
        let mut core = self.endpoint.lock();
        let acted = act(&mut *core);
        if acted == Err(PostError::Again) {
            // The next try is to find room, even if the program tries again at once.
            core.progress();
        }
        acted.map_err(words::post_error)
    }

    /// Has the engine do something with a peer.
    ///
    /// # Errors
    /// Those of posting, or the peer is not known.
    pub fn with_peer(
        &self,
        fi_addr: u64,
        act: impl FnOnce(&mut dyn Core, Peer) -> Result<(), PostError>,
    ) -> Outcome<()> {
        let peer = self.peer(fi_addr)?;
        self.act(|core| act(core, peer))
    }

    /// The peer that a receive is to wait for; none: any.
    pub fn from(&self, fi_addr: u64) -> Outcome<Option<Peer>> {
        match fi_addr {
            c::NOT_AVAILABLE => Ok(None),
            _ => self.peer(fi_addr).map(Some),
        }
    }

    /// Takes back what was posted with this context. Whether there was such.
    pub fn cancel(&self, context: usize) -> bool {
        self.endpoint.lock().cancel(context)
    }

    /// Has the engine go on with its work, and tells what has ended.
    pub fn progress(&self) {
        let mut core = self.endpoint.lock();
        core.progress();
        while let Some(lost) = core.lost() {
            match lost.why {
                // It may have ended because it was done.
                Failure::PeerGone => log::warn(&words::lost(&lost)),
                _ => log::fatal(&words::lost(&lost)),
            }
        }
        let is_full = |queue: &Option<Held<Queue>>| queue.as_ref().is_some_and(|q| q.is_full());
        while !is_full(&self.sinks.sent) && !is_full(&self.sinks.received) {
            let Some(done) = core.completion() else {
                return;
            };
            self.tell(&*core, &done);
        }
    }

    fn tell(&self, core: &dyn Core, done: &Completion) {
        let flags = done.ticket.flags;
        let (counted, queue) = match done.ended {
            Ended::Send => (c::SEND, &self.sinks.sent),
            Ended::Write => (c::WRITE, &self.sinks.sent),
            Ended::Read => (c::READ, &self.sinks.sent),
            Ended::Atomic => (flags & (c::READ | c::WRITE), &self.sinks.sent),
            Ended::Receive { .. } => (c::RECV, &self.sinks.received),
            Ended::Released | Ended::Peek => (0, &self.sinks.received),
            Ended::Written => (c::REMOTE_WRITE, &self.sinks.received),
        };
        if let (Some(queue), true) = (queue, flags & QUIET == 0 || done.failure.is_some()) {
            queue.put(self.entry(core, done));
        }
        // Last: who sees the counter looks for the completion.
        for (of, counter) in &self.sinks.counters {
            if of & counted != 0 {
                counter.count(done.failure.is_some());
            }
        }
    }

    fn entry(&self, core: &dyn Core, done: &Completion) -> Entry {
        let (source, stranger) = self.source(done.source);
        let (flags, buffer) = described(done);
        let wrong = match done.failure {
            Some(failure) => Some(wrong(failure)),
            None => stranger
                .and_then(|peer| core.address_of(peer))
                .map(|address| Wrong {
                    errno: errors::ADDRNOTAVAIL,
                    prov_errno: words::STRANGER,
                    cut_off: 0,
                    about: name::raw(&address).to_vec(),
                }),
        };
        Entry {
            context: done.ticket.context,
            flags,
            len: usize::try_from(done.bytes).unwrap_or(usize::MAX),
            buffer,
            data: done.data.unwrap_or(0),
            tag: done.tag.unwrap_or(0),
            source,
            wrong: wrong.map(Box::new),
        }
    }

    /// Whom it is from, by the address vector; or the peer, if it is to be told that it is not there.
    fn source(&self, source: Source) -> (u64, Option<Peer>) {
        if !self.options.has_source {
            return (c::NOT_AVAILABLE, None);
        }
        match source {
            Source::Own => (c::NOT_AVAILABLE, None),
            Source::Stranger(peer) => {
                let told = self.options.has_strangers.then_some(peer);
                (c::NOT_AVAILABLE, told)
            }
            Source::Peer(peer) => {
                let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
                let known = routes.addresses.get(&peer).copied();
                (known.unwrap_or(c::NOT_AVAILABLE), None)
            }
        }
    }
}

/// The flags of a completion, and where its data is if that is elsewhere than the program thinks.
fn described(done: &Completion) -> (u64, usize) {
    let kind = done.ticket.flags & !(QUIET | c::MULTI_RECV);
    let is_multi = done.ticket.flags & c::MULTI_RECV != 0;
    let data = if done.data.is_some() {
        c::REMOTE_CQ_DATA
    } else {
        0
    };
    match done.ended {
        Ended::Receive { at, released } if is_multi => {
            let last = if released { c::MULTI_RECV } else { 0 };
            (kind | data | last, at as usize)
        }
        Ended::Receive { .. } | Ended::Peek => (kind | data, 0),
        Ended::Released => (c::MULTI_RECV, 0),
        Ended::Written => (c::RMA | c::REMOTE_WRITE | c::REMOTE_CQ_DATA, 0),
        Ended::Send | Ended::Write | Ended::Read | Ended::Atomic => (kind, 0),
    }
}

fn wrong(failure: Failure) -> Wrong {
    let (errno, prov_errno) = words::failure(failure);
    let cut_off = match failure {
        Failure::Truncated(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
        _ => 0,
    };
    Wrong {
        errno,
        prov_errno,
        cut_off,
        about: Vec::new(),
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        if self.options.stats {
            let done = self.endpoint.lock().statistics();
            eprintln!("tabane: {}", done.summary(self.address()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_rank::{LinkStatistics, Statistics};

    #[test]
    fn an_address_in_a_vector_is_a_place_and_how_often_it_was_used() {
        for (at, times) in [(0, 0), (7, 1), (1 << 20, 9)] {
            assert_eq!(place(fi_addr(at, times)), at);
        }
        assert_eq!(fi_addr(5, 0), 5);
        assert_ne!(fi_addr(5, 1), fi_addr(5, 2));
    }

    #[test]
    fn the_summary_is_a_line() {
        let ip = "10.77.0.1".parse().expect("is one");
        let address = Address::new(&[(0, ip)], 40_000, 0xab << 56).expect("is one");
        let done = Statistics {
            links: vec![LinkStatistics {
                number: 0,
                address: ip,
                up: true,
                sent_bytes: 1000,
                received_bytes: 20,
                failures: 1,
            }],
            peers: 3,
            local_sent_bytes: 6,
            local_received_bytes: 0,
            packets_lost: 4,
            refused_accesses: 5,
        };
        assert_eq!(
            done.summary(&address),
            "10.77.0.1:40000#ab00: link 0 (10.77.0.1) sent 1000 bytes, received 20, failed 1 times; \
             shared memory sent 6 bytes, received 0; 3 peers, 4 packets sent again, 5 accesses refused"
        );
    }
}
