//! The listener for callers.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tabane_rank::{Address, Completion, Core, Peer, PostError};

use super::caller::{Caller, Who};
use super::talk::{Said, Talk};
use crate::abi::constants as c;
use crate::allocate;
use crate::event_queue::EventQueue;
use crate::fabric::Fabric;
use crate::info::Offer;
use crate::name;
use crate::object::Held;
use crate::station::Station;

/// Buffers for callers' messages.
const LISTENS: usize = 16;
/// Callers that wait for an answer, unless the program says how many.
pub const BACKLOG: usize = 1024;

/// The part of a [`Station`] that hears callers.
pub struct Ears {
    own: Weak<Station>,
    /// The program's id for it.
    fid: usize,
    fabric: Arc<Fabric>,
    events: Held<EventQueue>,
    /// The offer for callers.
    offer: Offer,
    /// Callers that may wait for an answer.
    pub backlog: AtomicUsize,
    talk: Mutex<Talk>,
}

/// An endpoint's address as a socket address: that of its first link.
pub fn place(address: &Address) -> Option<SocketAddr> {
    address.links().into_iter().flatten().next()
}

impl Ears {
    pub fn new(
        own: Weak<Station>,
        fid: usize,
        fabric: Arc<Fabric>,
        events: Held<EventQueue>,
        offer: Offer,
    ) -> Ears {
        Ears {
            own,
            fid,
            fabric,
            events,
            offer,
            backlog: AtomicUsize::new(BACKLOG),
            talk: Mutex::default(),
        }
    }

    /// The queue for events about callers.
    pub fn events(&self) -> &EventQueue {
        &self.events
    }

    /// Hears from now on.
    pub fn listen(&self, core: &mut dyn Core) -> Result<(), PostError> {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        (0..LISTENS).try_for_each(|_| talk.listen(core))
    }

    /// Sends messages for which there was no room.
    pub fn go_on(&self, core: &mut dyn Core) {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        talk.go_on(core);
    }

    /// Says no.
    pub fn reject(&self, core: &mut dyn Core, peer: Peer, data: &[u8]) {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        talk.say(core, peer, Said::Reject(data));
    }

    /// Something was said to it, or by it.
    pub fn on_done(&self, core: &mut dyn Core, done: &Completion) {
        let mut talk = self.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = talk.heard(done);
        let Some((peer, bytes)) = heard else {
            return;
        };
        // There was room for as many before.
        let _ = talk.listen(core);
        let (Some(Said::Request(from, data)), Some(address)) =
            (Said::read(&bytes), core.address_of(peer))
        else {
            return;
        };
        // It must be answered.
        let peer = core.peer(&address);
        if self.fabric.callers().count(&self.own) >= self.backlog.load(Ordering::Relaxed) {
            return talk.say(core, peer, Said::Reject(&[]));
        }
        let who = Who {
            address,
            from: from.or(place(&address)),
            at: name::parse_socket(&self.offer.source),
        };
        let caller = Caller::new(who, peer, Weak::clone(&self.own));
        let offer = Offer {
            destination: who.from.as_ref().map(name::socket),
            handle: caller.handle(),
            ..self.offer.clone()
        };
        match allocate::info(&offer) {
            Ok(info) => {
                self.fabric.callers().insert(caller);
                self.events.connection(c::CONNREQ, self.fid, info, data);
            }
            Err(_) => {
                // Dropped, it would want the lock that is held here.
                let _ = caller.accept();
                talk.say(core, peer, Said::Reject(&[]));
            }
        }
    }
}
