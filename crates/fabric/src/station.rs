//! An endpoint at work: its engine, its address vector, and the queues and counters for its
//! completions.

use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, PoisonError, RwLock};

use tabane_rank::{
    Address, Completion, Core, Ended, Endpoint, Failure, Lost, Peek, Peer, PostError, Receive,
    Source,
};

use crate::abi::constants as c;
use crate::abi::errors::{self, Outcome};
use crate::completions::{Entry, Queue, Wrong};
use crate::connection::caller::Who;
use crate::connection::ears::Ears;
use crate::connection::{Connection, TALK};
use crate::counter::{Counter, OfRegions};
use crate::object::Held;
use crate::{log, name, words};

/// A flag of a ticket, beside those of completions: no completion on success.
pub const QUIET: u64 = 1 << 63;

/// Bits of an address in a vector for its index; the bits above distinguish it from its predecessors at
/// the same index.
const PLACE_BITS: u32 = 32;

/// The index of a `fi_addr_t` in its vector.
pub fn place(fi_addr: u64) -> usize {
    (fi_addr & ((1 << PLACE_BITS) - 1)) as usize
}

/// The `fi_addr_t` of an index that was used this many times before.
pub fn fi_addr(place: usize, times: u32) -> u64 {
    u64::from(times) << PLACE_BITS | place as u64
}

/// Receivers of completions.
#[derive(Default)]
pub struct Sinks {
    /// For operations that this end began.
    pub sent: Option<Held<Queue>>,
    /// Of what others began.
    pub received: Option<Held<Queue>>,
    /// Counters, and the operations that each counts (`FI_SEND`, …).
    pub counters: Vec<(u64, Held<Counter>)>,
    /// The domain's, of its regions; none if it is not told what others do with them.
    pub of_regions: Option<Arc<OfRegions>>,
}

impl Sinks {
    /// Whether an endpoint's own binding has this counter.
    pub fn has(&self, counter: &Arc<Counter>) -> bool {
        self.counters.iter().any(|(_, have)| have.is(counter))
    }
}

/// An endpoint that is enabled. Locks are taken in this order: the engine, its reach, a queue.
pub struct Station {
    endpoint: Endpoint,
    reach: Reach,
    sinks: Sinks,
    options: Options,
}

/// With whom an endpoint has to do.
pub enum Reach {
    /// All whose addresses are in a vector.
    Many(RwLock<Routes>),
    /// With the one that it is connected with.
    One(Connection),
    /// Callers who want to connect.
    Callers(Box<Ears>),
}

/// The endpoint's options.
#[derive(Clone, Copy, Default)]
pub struct Options {
    /// Completions say whom they are from.
    pub has_source: bool,
    /// A message from a sender who is not in the address vector is an error with the address.
    pub has_strangers: bool,
    /// A summary is printed at the end.
    pub stats: bool,
}

/// Addresses in the vector, and the engine's numbers of them.
#[derive(Default)]
pub struct Routes {
    /// By place.
    peers: Vec<Option<(u64, Peer)>>,
    addresses: HashMap<Peer, u64>,
}

impl Station {
    pub fn new(endpoint: Endpoint, reach: Reach, sinks: Sinks, options: Options) -> Station {
        Station {
            endpoint,
            reach,
            sinks,
            options,
        }
    }

    /// The address for others.
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

    /// Waits until something has ended, at most this long.
    pub fn wait(&self, at_most: Duration) {
        self.endpoint.wait(Some(at_most));
    }

    /// Whether others' accesses to the regions are reported.
    pub fn is_told(&self) -> bool {
        self.sinks.of_regions.is_some()
    }

    /// The receivers of completions.
    pub fn sinks(&self) -> &Sinks {
        &self.sinks
    }

    /// The routes, if the endpoint has any.
    fn routes(&self) -> Option<&RwLock<Routes>> {
        match &self.reach {
            Reach::Many(routes) => Some(routes),
            _ => None,
        }
    }

    /// An address is in the vector as `fi_addr`.
    pub fn name(&self, fi_addr: u64, address: &Address) {
        let Some(routes) = self.routes() else {
            return;
        };
        let mut core = self.endpoint.lock();
        let peer = core.peer(address);
        let mut routes = routes.write().unwrap_or_else(PoisonError::into_inner);
        let place = place(fi_addr);
        if routes.peers.len() <= place {
            routes.peers.resize(place + 1, None);
        }
        routes.peers[place] = Some((fi_addr, peer));
        routes.addresses.entry(peer).or_insert(fi_addr);
    }

    /// It is not any more.
    pub fn forget(&self, fi_addr: u64) {
        let Some(routes) = self.routes() else {
            return;
        };
        let mut core = self.endpoint.lock();
        let mut routes = routes.write().unwrap_or_else(PoisonError::into_inner);
        let Some(gone) = routes.peers.get_mut(place(fi_addr)) else {
            return;
        };
        let Some((_, peer)) = gone.take_if(|(have, _)| *have == fi_addr) else {
            return;
        };
        // The same address may be in the vector twice.
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

    /// The engine's number of an address in the vector, or of the peer that the endpoint is connected with.
    ///
    /// # Errors
    /// `-FI_EINVAL`: it is not there, or not any more. `-FI_ENOTCONN`.
    fn peer(&self, fi_addr: u64) -> Outcome<Peer> {
        let routes = match &self.reach {
            Reach::Many(routes) => routes.read().unwrap_or_else(PoisonError::into_inner),
            Reach::One(one) => return one.peer(),
            Reach::Callers(_) => return Err(errors::NOSYS),
        };
        let found = routes.peers.get(place(fi_addr)).copied().flatten();
        match found {
            Some((have, peer)) if have == fi_addr => Ok(peer),
            _ => Err(errors::INVAL),
        }
    }

    /// Lets the engine do something.
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

    /// Lets the engine do something with a peer.
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

    /// Posts a buffer for messages from this address, or from anybody; or peeks.
    ///
    /// # Errors
    /// Those of posting, or the peer is not known.
    ///
    /// # Safety
    /// As of [`Core::receive`].
    pub unsafe fn receive(
        &self,
        fi_addr: u64,
        receive: &Receive<'_>,
        peek: Option<Peek>,
    ) -> Outcome<()> {
        let from = match &self.reach {
            Reach::One(one) => {
                if peek.is_none() {
                    // SAFETY: as above.
                    return unsafe { one.receive(&mut *self.endpoint.lock(), receive) };
                }
                Some(one.peer()?)
            }
            _ if fi_addr == c::NOT_AVAILABLE => None,
            _ => Some(self.peer(fi_addr)?),
        };
        let receive = Receive { from, ..*receive };
        self.act(|core| match peek {
            Some(peek) => core.peek(&receive, peek),
            // SAFETY: as above.
            None => unsafe { core.receive(&receive) },
        })
    }

    /// Cancels what was posted with this context. Returns whether there was anything.
    pub fn cancel(&self, context: usize) -> bool {
        let mut core = self.endpoint.lock();
        if let Reach::One(one) = &self.reach
            && let Some(cancelled) = one.cancel(context)
        {
            self.tell(&*core, &cancelled);
            return true;
        }
        core.cancel(context)
    }

    /// The connection, if it is of a kind that has one.
    ///
    /// # Errors
    /// `-FI_ENOSYS`: it is not.
    pub fn connection(&self) -> Outcome<&Connection> {
        match &self.reach {
            Reach::One(one) => Ok(one),
            _ => Err(errors::NOSYS),
        }
    }

    /// The listener for callers, if there is one.
    pub fn ears(&self) -> Option<&Ears> {
        match &self.reach {
            Reach::Callers(ears) => Some(ears),
            _ => None,
        }
    }

    /// The search for the listener at a called address has ended.
    pub fn found(&self, at: SocketAddr, found: io::Result<Address>) {
        if let Reach::One(one) = &self.reach {
            let mut core = self.endpoint.lock();
            one.on_found(&mut *core, at, found, &mut |core, done| {
                self.tell(core, done);
            });
        }
    }

    /// Answers who has called.
    ///
    /// # Errors
    /// Those of [`Connection::accept`].
    pub fn accept(&self, caller: &Who, data: &[u8]) -> Outcome<()> {
        let connection = self.connection()?;
        let mut core = self.endpoint.lock();
        connection.accept(&mut *core, caller, data)?;
        // A caller who is answered may call again at once: report first that the connection stands.
        self.tell_all(&mut *core);
        Ok(())
    }

    /// Rejects a caller.
    pub fn reject(&self, peer: Peer, data: &[u8]) {
        if let Reach::Callers(ears) = &self.reach {
            ears.reject(&mut *self.endpoint.lock(), peer, data);
        }
    }

    /// Ends the connection. Sent data arrives before; other operations under way are cancelled.
    ///
    /// # Errors
    /// `-FI_ENOTCONN`: there was none.
    pub fn shut(&self) -> Outcome<()> {
        let connection = self.connection()?;
        let stood = {
            let mut core = self.endpoint.lock();
            let stood = connection.end(&mut *core, &mut |core, done| self.tell(core, done))?;
            core.close();
            stood
        };
        self.progress();
        if stood {
            connection.ended();
        }
        Ok(())
    }

    /// Makes the engine progress, and reports completions.
    pub fn progress(&self) {
        let mut core = self.endpoint.lock();
        core.progress();
        match &self.reach {
            Reach::Many(_) => {}
            Reach::One(one) => one.go_on(&mut *core, &mut |core, done| {
                self.tell(core, done);
            }),
            Reach::Callers(ears) => ears.go_on(&mut *core),
        }
        self.tell_all(&mut *core);
    }

    /// Reports completions and lost peers.
    fn tell_all(&self, core: &mut dyn Core) {
        let is_full = |queue: &Option<Held<Queue>>| queue.as_ref().is_some_and(|q| q.is_full());
        while !is_full(&self.sinks.sent) && !is_full(&self.sinks.received) {
            let Some(done) = core.completion() else {
                break;
            };
            match done.ticket.flags & TALK {
                0 => self.tell(core, &done),
                _ => self.on_talk(core, &done),
            }
        }
        while let Some(lost) = core.lost() {
            self.on_lost(core, &lost);
        }
    }

    fn on_talk(&self, core: &mut dyn Core, done: &Completion) {
        match &self.reach {
            Reach::Many(_) => {}
            Reach::One(one) => one.on_done(core, done, &mut |core, done| {
                self.tell(core, done);
            }),
            Reach::Callers(ears) => ears.on_done(core, done),
        }
    }

    fn on_lost(&self, core: &mut dyn Core, lost: &Lost) {
        match (&self.reach, lost.why) {
            (Reach::One(one), _) => one.on_lost(core, lost, &mut |core, done| {
                self.tell(core, done);
            }),
            // It has done its work.
            (Reach::Callers(_), Failure::PeerGone) => {}
            // It may have ended because it was done.
            (Reach::Many(_), Failure::PeerGone) => log::warn(&words::lost(lost)),
            _ => log::fatal(&words::lost(lost)),
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
            Ended::Written { .. } if done.data.is_some() => (c::REMOTE_WRITE, &self.sinks.received),
            Ended::Written { .. } => (c::REMOTE_WRITE, &None),
            Ended::WasRead { .. } => (c::REMOTE_READ, &None),
        };
        if let (Some(queue), true) = (queue, flags & QUIET == 0 || done.failure.is_some()) {
            queue.put(self.entry(core, done));
        }
        // Last: whoever sees the counter looks for the completion.
        for (of, counter) in &self.sinks.counters {
            if of & counted != 0 {
                counter.count(done.failure.is_some());
            }
        }
        if let Some(counters) = &self.sinks.of_regions {
            match done.ended {
                Ended::Written { key } => counters.count(key, c::REMOTE_WRITE),
                // An endpoint counts the access that it returns data for, a region all kinds of access.
                Ended::WasRead { key, written: true } => {
                    counters.count(key, c::REMOTE_READ | c::REMOTE_WRITE);
                }
                Ended::WasRead { key, .. } => counters.count(key, c::REMOTE_READ),
                _ => {}
            }
        }
    }

    fn entry(&self, core: &dyn Core, done: &Completion) -> Entry {
        let (source, stranger) = self.source(done.source);
        let (flags, buffer) = described(done);
        let wrong = match done.failure {
            Some(failure) => Some(wrong(failure, &self.reach)),
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

    /// The sender by the address vector; or the peer, if it must be reported that it is not there.
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
                let known = self.routes().and_then(|routes| {
                    let routes = routes.read().unwrap_or_else(PoisonError::into_inner);
                    routes.addresses.get(&peer).copied()
                });
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
        Ended::Written { .. } => (c::RMA | c::REMOTE_WRITE | c::REMOTE_CQ_DATA, 0),
        Ended::WasRead { .. } => (c::RMA | c::REMOTE_READ, 0),
        Ended::Send | Ended::Write | Ended::Read | Ended::Atomic => (kind, 0),
    }
}

fn wrong(failure: Failure, reach: &Reach) -> Wrong {
    let (errno, prov_errno) = match (failure, reach) {
        // The connection is no more.
        (Failure::PeerGone, Reach::One(_)) => (errors::SHUTDOWN, words::failure(failure).1),
        _ => words::failure(failure),
    };
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
            bundles: 2,
            peer_bytes: 9 << 10,
            local_sent_bytes: 6,
            local_received_bytes: 0,
            packets_lost: 4,
            refused_accesses: 5,
        };
        assert_eq!(
            done.summary(&address),
            "10.77.0.1:40000#ab00: link 0 (10.77.0.1) sent 1000 bytes, received 20, failed 1 times; \
             shared memory sent 6 bytes, received 0; 3 peers, 2 bundles, 9 KB held for them, 4 packets sent again, 5 accesses refused"
        );
    }
}
