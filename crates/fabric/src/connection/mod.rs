//! Connections: how an endpoint of type `FI_EP_MSG` finds its one peer, and how they part.
//!
//! Each endpoint has an engine of its own, and so has each passive one ([`passive`]). A caller knows a host and a port: there is
//! a door ([`tabane_rank::door`]) to the engine of the listener. The listener gets the request. The endpoint that answers it
//! sends its acceptance itself; a rejection comes from the listener. All are ordinary messages, but the first ones: a caller
//! posts a buffer for the answer before the program's buffers, which wait until the peer is known and then accept only the peer's
//! messages.
//!
//! A connection is over when either end says goodbye, or is gone.
//!
//! An endpoint of its own, and not a number in another one's messages (as VIPL's lines are): all 64 bits of a tag are the
//! program's, writes with data and atomic operations have no room for a number, and counters belong to an endpoint. That
//! costs sockets and a thread each, and makes the end of a connection what the end of a process is.

pub mod caller;
pub mod ears;
pub mod passive;
mod talk;

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tabane_rank::{
    Address, Completion, Core, Ended, Failure, Lost, Peer, Piece, Receive, Source, Ticket, door,
};

use crate::abi::constants as c;
use crate::abi::errors::{self, Errno, Outcome};
use crate::event_queue::EventQueue;
use crate::object::Held;
use crate::station::Station;
use crate::{log, words};

pub use talk::{DATA_BYTES_MAX, TALK};

use caller::Who;
use talk::{Said, Talk};

/// Nobody.
const NO_PEER: u32 = u32::MAX;

/// The part of a [`Station`] that is connected with one peer.
pub struct Connection {
    /// The program's id for it.
    fid: usize,
    events: Held<EventQueue>,
    /// Whom messages go to.
    connected: AtomicU32,
    state: Mutex<State>,
    /// Asks at a door.
    asker: Mutex<Option<JoinHandle<()>>>,
    is_wanted: Arc<AtomicBool>,
    /// A peer that is silent for this long is not there.
    patience: Duration,
}

#[derive(Default)]
struct State {
    condition: Condition,
    talk: Talk,
    /// The program's data for its request, and its address if it is not here.
    data: Vec<u8>,
    from: Option<SocketAddr>,
    /// Buffers that wait for the peer to be known.
    buffers: Vec<Waiting>,
    /// The peer's address, as the program knows it.
    place: Option<SocketAddr>,
    /// The listener is gone; until then its other endpoint's answer may still be under way.
    until: Option<Instant>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Condition {
    /// Nothing was done.
    #[default]
    New,
    /// The listener is being found.
    Seeking,
    /// He was asked.
    Asked(Peer),
    /// The acceptance is being sent to the caller.
    Accepting(Peer),
    /// It stands.
    Connected(Peer),
    /// It stands no longer, or never will.
    Over,
}

/// A buffer of the program's.
struct Waiting {
    tag: Option<(u64, u64)>,
    pieces: Vec<Piece>,
    multi: Option<usize>,
    ticket: Ticket,
}

// SAFETY: the pointers are the program's memory, which it has lent.
unsafe impl Send for Waiting {}

/// A completion for a buffer that nothing came to.
fn unfilled(ticket: Ticket) -> Completion {
    Completion {
        ticket,
        ended: Ended::Receive {
            at: core::ptr::null_mut(),
            released: true,
        },
        bytes: 0,
        tag: None,
        data: None,
        source: Source::Own,
        failure: Some(Failure::Cancelled),
    }
}

/// Reports completions.
pub type Teller<'a> = &'a mut dyn FnMut(&mut dyn Core, &Completion);

impl Connection {
    pub fn new(fid: usize, events: Held<EventQueue>, patience: Duration) -> Connection {
        Connection {
            fid,
            events,
            connected: AtomicU32::new(NO_PEER),
            state: Mutex::default(),
            asker: Mutex::default(),
            is_wanted: Arc::new(AtomicBool::new(true)),
            patience,
        }
    }

    /// The queue for its events.
    pub fn events(&self) -> &EventQueue {
        &self.events
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whom messages go to.
    ///
    /// # Errors
    /// `-FI_ENOTCONN`.
    pub fn peer(&self) -> Outcome<Peer> {
        match self.connected.load(Ordering::Acquire) {
            NO_PEER => Err(errors::NOTCONN),
            peer => Ok(Peer(peer)),
        }
    }

    /// The peer's address.
    pub fn place(&self) -> Outcome<SocketAddr> {
        self.state().place.ok_or(errors::NOTCONN)
    }

    /// Posts a buffer for the peer's messages, or keeps it until the peer is known.
    ///
    /// # Errors
    /// Those of posting; `-FI_ENOTCONN`: there will be no peer.
    ///
    /// # Safety
    /// As of [`Core::receive`].
    pub unsafe fn receive(&self, core: &mut dyn Core, receive: &Receive<'_>) -> Outcome<()> {
        let from = match self.peer() {
            Ok(peer) => Some(peer),
            Err(_) => {
                let mut state = self.state();
                match state.condition {
                    Condition::Accepting(peer) | Condition::Connected(peer) => Some(peer),
                    Condition::Over => return Err(errors::NOTCONN),
                    _ => {
                        state.buffers.push(Waiting {
                            tag: receive.tag,
                            pieces: receive.pieces.to_vec(),
                            multi: receive.multi,
                            ticket: receive.ticket,
                        });
                        return Ok(());
                    }
                }
            }
        };
        // SAFETY: as above.
        unsafe { core.receive(&Receive { from, ..*receive }) }.map_err(words::post_error)
    }

    /// Takes a buffer back that waits here.
    pub fn cancel(&self, context: usize) -> Option<Completion> {
        let mut state = self.state();
        let mut all = state.buffers.iter();
        let index = all.position(|waiting| waiting.ticket.context == context)?;
        Some(unfilled(state.buffers.remove(index).ticket))
    }

    /// Calls who listens at this address, from another if that is not this endpoint's, with these bytes.
    ///
    /// # Errors
    /// It has called before, or there is no thread left.
    pub fn call(
        &self,
        station: &Arc<Station>,
        (at, key): (SocketAddr, [u8; 32]),
        (from, data): (Option<SocketAddr>, &[u8]),
    ) -> Outcome<()> {
        let mut state = self.state();
        if state.condition != Condition::New {
            return Err(errors::OPBADSTATE);
        }
        let (own, is_wanted) = (Arc::downgrade(station), Arc::clone(&self.is_wanted));
        let patience = self.patience;
        let builder = thread::Builder::new().name("tabane-call".into());
        let asker = builder.spawn(move || {
            let is_wanted = || is_wanted.load(Ordering::Acquire);
            let found = door::ask(at, &key, patience, is_wanted);
            if let (true, Some(station)) = (is_wanted(), Weak::upgrade(&own)) {
                station.found(at, found);
            }
        });
        let asker = asker.map_err(|_| errors::NOMEM)?;
        *self.asker.lock().unwrap_or_else(PoisonError::into_inner) = Some(asker);
        state.condition = Condition::Seeking;
        (state.from, state.data) = (from, data.to_vec());
        state.place = Some(at);
        Ok(())
    }

    /// Nobody is asked for any more when this returns.
    pub fn stop(&self) {
        self.is_wanted.store(false, Ordering::Release);
        let asker = (self.asker.lock().unwrap_or_else(PoisonError::into_inner)).take();
        if let Some(asker) = asker {
            // A panic has already printed its message.
            let _ = asker.join();
        }
    }

    /// The search for the listener has ended.
    pub fn on_found(
        &self,
        core: &mut dyn Core,
        at: SocketAddr,
        found: io::Result<Address>,
        tell: Teller<'_>,
    ) {
        let mut state = self.state();
        if state.condition != Condition::Seeking {
            return;
        }
        let there = match found {
            Ok(there) => there,
            Err(error) => {
                let (errno, prov_errno) = words::not_found(error.kind());
                log::warn(&words::nobody_listens(at, &error));
                return self.fail(core, state, (errno, prov_errno), &[], tell);
            }
        };
        let peer = core.peer(&there);
        core.watch(peer);
        state.condition = Condition::Asked(peer);
        // The answer is the first message to come: no other buffer is posted.
        if state.talk.listen(core).is_err() {
            return self.fail(core, state, (errors::NOMEM, 0), &[], tell);
        }
        let (from, data) = (state.from, core::mem::take(&mut state.data));
        state.talk.say(core, peer, Said::Request(from, &data));
    }

    /// Accepts a caller.
    ///
    /// # Errors
    /// It is connected, or calls itself.
    pub fn accept(&self, core: &mut dyn Core, caller: &Who, data: &[u8]) -> Outcome<()> {
        let mut state = self.state();
        if state.condition != Condition::New {
            return Err(errors::OPBADSTATE);
        }
        let peer = core.peer(&caller.address);
        core.watch(peer);
        state.condition = Condition::Accepting(peer);
        state.place = caller.from;
        self.post_waiting(core, &mut state, peer)?;
        state.talk.say(core, peer, Said::Accept(data));
        Ok(())
    }

    fn post_waiting(&self, core: &mut dyn Core, state: &mut State, peer: Peer) -> Outcome<()> {
        for waiting in state.buffers.drain(..) {
            let receive = Receive {
                from: Some(peer),
                tag: waiting.tag,
                pieces: &waiting.pieces,
                multi: waiting.multi,
                ticket: waiting.ticket,
            };
            // SAFETY: the program has lent the memory until the completion.
            unsafe { core.receive(&receive) }.map_err(words::post_error)?;
        }
        Ok(())
    }

    /// Sends messages for which there was no room, and gives up what takes too long.
    pub fn go_on(&self, core: &mut dyn Core, tell: Teller<'_>) {
        if self.peer().is_ok() {
            return;
        }
        let mut state = self.state();
        state.talk.go_on(core);
        let is_late = state.until.is_some_and(|until| until <= Instant::now());
        if is_late && matches!(state.condition, Condition::Asked(_)) {
            let gone = words::failure(Failure::PeerGone);
            self.fail(core, state, gone, &[], tell);
        }
    }

    /// Something was said to it, or by it.
    pub fn on_done(&self, core: &mut dyn Core, done: &Completion, tell: Teller<'_>) {
        let mut state = self.state();
        if let Some((from, bytes)) = state.talk.heard(done) {
            return self.on_heard(core, state, from, &bytes, tell);
        }
        let is_said = matches!(done.ended, Ended::Send);
        match (state.condition, done.failure) {
            (Condition::Accepting(peer), None) if is_said => {
                self.stands(&mut state, peer, &[]);
            }
            (Condition::Asked(_), Some(why)) => {
                self.fail(core, state, words::failure(why), &[], tell);
            }
            (Condition::Accepting(_), Some(why)) => {
                let aborted = (errors::CONNABORTED, words::failure(why).1);
                self.fail(core, state, aborted, &[], tell);
            }
            _ => {}
        }
    }

    fn on_heard(
        &self,
        core: &mut dyn Core,
        mut state: MutexGuard<'_, State>,
        from: Peer,
        bytes: &[u8],
        tell: Teller<'_>,
    ) {
        let Condition::Asked(asked) = state.condition else {
            return;
        };
        match (Said::read(bytes), core.address_of(from)) {
            (Some(Said::Accept(data)), Some(address)) => {
                let peer = core.peer(&address);
                core.watch(peer);
                match self.post_waiting(core, &mut state, peer) {
                    Ok(()) => self.stands(&mut state, peer, data),
                    Err(errno) => self.fail(core, state, (errno, 0), &[], tell),
                }
            }
            (Some(Said::Reject(data)), _) if from == asked => {
                let refused = (errors::CONNREFUSED, words::REJECTED);
                self.fail(core, state, refused, data, tell);
            }
            // It is another connection's.
            _ => {
                if state.talk.listen(core).is_err() {
                    self.fail(core, state, (errors::NOMEM, 0), &[], tell);
                }
            }
        }
    }

    fn stands(&self, state: &mut State, peer: Peer, data: &[u8]) {
        state.condition = Condition::Connected(peer);
        self.connected.store(peer.0, Ordering::Release);
        let no_info = core::ptr::null_mut();
        self.events
            .connection(c::CONNECTED, self.fid, no_info, data);
    }

    /// There will be no connection.
    fn fail(
        &self,
        core: &mut dyn Core,
        mut state: MutexGuard<'_, State>,
        (errno, prov_errno): (Errno, core::ffi::c_int),
        data: &[u8],
        tell: Teller<'_>,
    ) {
        state.condition = Condition::Over;
        let buffers = core::mem::take(&mut state.buffers);
        drop(state);
        for waiting in buffers {
            tell(core, &unfilled(waiting.ticket));
        }
        self.events
            .not_connected(self.fid, (errno, prov_errno), data);
    }

    /// Somebody is gone.
    pub fn on_lost(&self, core: &mut dyn Core, lost: &Lost, tell: Teller<'_>) {
        let mut state = self.state();
        let is_of = |peer| core.address_of(peer) == Some(lost.address);
        match state.condition {
            Condition::Connected(peer) if is_of(peer) => {
                state.condition = Condition::Over;
                drop(state);
                if lost.why != Failure::PeerGone {
                    log::warn(&words::lost(lost));
                }
                let no_info = core::ptr::null_mut();
                self.events.connection(c::SHUTDOWN, self.fid, no_info, &[]);
            }
            // The listener may have ended after it had answered.
            Condition::Asked(peer) if is_of(peer) && lost.why == Failure::PeerGone => {
                state.until = Some(Instant::now() + self.patience);
                core.wake_after(self.patience);
            }
            Condition::Asked(peer) if is_of(peer) => {
                log::warn(&words::lost(lost));
                self.fail(core, state, words::failure(lost.why), &[], tell);
            }
            Condition::Accepting(peer) if is_of(peer) => {
                let (_, prov_errno) = words::failure(lost.why);
                self.fail(core, state, (errors::CONNABORTED, prov_errno), &[], tell);
            }
            _ => {}
        }
    }

    /// It is over from now on. Whether it stood.
    ///
    /// # Errors
    /// `-FI_ENOTCONN`: it was never begun.
    pub fn end(&self, core: &mut dyn Core, tell: Teller<'_>) -> Outcome<bool> {
        let mut state = self.state();
        let before = state.condition;
        if before == Condition::New {
            return Err(errors::NOTCONN);
        }
        state.condition = Condition::Over;
        let buffers = core::mem::take(&mut state.buffers);
        drop(state);
        for waiting in buffers {
            tell(core, &unfilled(waiting.ticket));
        }
        Ok(matches!(before, Condition::Connected(_)))
    }

    /// The program has ended the connection: reports the end.
    pub fn ended(&self) {
        let no_info = core::ptr::null_mut();
        self.events.connection(c::SHUTDOWN, self.fid, no_info, &[]);
    }
}
