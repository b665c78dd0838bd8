//! The table of waiting calls.
//!
//! Each waiting call has its own number, and so a place in each list in which it waits: when the call
//! ends or is given up, its entries are found there at once, however many wait. If a thing is for one
//! caller only (a message, a stream to be accepted), one is woken for it; if that one is given up
//! meanwhile, the next one is woken.

#[cfg(feature = "tokio")]
use core::task::Context;
use core::task::Waker;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tabane_io::notify::Notify;
use tabane_proto::PeerId;

use crate::sockets::SlotId;

/// Something to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// A message.
    Mail,
    /// An event.
    Events,
    /// Room for a message to this peer.
    Room(PeerId),
    /// The peer.
    Peer(PeerId),
    /// A stream to this service.
    Accept(u32),
    /// Something to read of a stream, or its end.
    Read(SlotId),
    /// Room to write, or for everything to have arrived.
    Write(SlotId),
}

/// Distinguishes the waiters of one list; first come, first served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    /// A call.
    Call(u64),
    /// The last poller of a stream that has a single poller.
    #[cfg(feature = "tokio")]
    Owner,
    /// A task that polls a stream that others may poll, too.
    #[cfg(feature = "tokio")]
    Task(usize, usize),
}

/// A call that may have to wait.
pub(crate) struct Waiter {
    /// Given when it first waits.
    key: Option<Key>,
    waker: Waker,
    /// Where it waits: in at most two places.
    places: [Option<Place>; 2],
}

impl Waiter {
    /// A call that this waker wakes.
    pub const fn new(waker: Waker) -> Waiter {
        Waiter {
            key: None,
            waker,
            places: [None; 2],
        }
    }

    /// A poller of a stream, which does not report when it gives up: the next poller replaces it.
    #[cfg(feature = "tokio")]
    pub fn owner(context: &Context<'_>) -> Waiter {
        Waiter {
            key: Some(Key::Owner),
            ..Waiter::new(context.waker().clone())
        }
    }

    /// A task that polls a stream. It may do so in several calls, and is woken once for all of them.
    #[cfg(feature = "tokio")]
    pub fn task(context: &Context<'_>) -> Waiter {
        let waker = context.waker().clone();
        let vtable: *const _ = waker.vtable();
        Waiter {
            key: Some(Key::Task(waker.data() as usize, vtable as usize)),
            ..Waiter::new(waker)
        }
    }

    /// From now on this one wakes it. Returns the one before, if it is another.
    pub fn set_waker(&mut self, waker: &Waker) -> Option<Waker> {
        if self.waker.will_wake(waker) {
            return None;
        }
        Some(core::mem::replace(&mut self.waker, waker.clone()))
    }

    /// Its number, if it has waited.
    pub const fn key(&self) -> Option<Key> {
        self.key
    }

    /// Whether it may have left something behind.
    pub fn waits(&self) -> bool {
        self.places.iter().any(Option::is_some)
    }

    /// The places where it waits, or waited until it was woken; clears them.
    pub fn take_places(&mut self) -> impl Iterator<Item = Place> {
        core::mem::take(&mut self.places).into_iter().flatten()
    }

    /// It does not wait there any more.
    pub fn strike(&mut self, place: Place) {
        let own = self.places.iter_mut();
        own.filter(|own| **own == Some(place))
            .for_each(|own| *own = None);
    }

    /// It waits there, too.
    pub fn note(&mut self, place: Place, next: &mut u64) -> (Key, &Waker) {
        let key = *self.key.get_or_insert_with(|| {
            *next += 1;
            Key::Call(*next)
        });
        if !self.places.contains(&Some(place)) {
            let free = self.places.iter_mut().find(|place| place.is_none());
            debug_assert!(free.is_some(), "a call waits for more than two things");
            if let Some(free) = free {
                *free = Some(place);
            }
        }
        (key, &self.waker)
    }
}

/// The waiters for something: their wakers, and the descriptor for poll and epoll.
#[derive(Default)]
pub(crate) struct Wakers {
    wakers: BTreeMap<Key, Waker>,
    descriptor: Option<Arc<Notify>>,
    /// Whether the descriptor is readable.
    is_raised: bool,
}

impl Wakers {
    /// Returns the waker that it had, if that is another.
    pub fn add(&mut self, key: Key, waker: &Waker) -> Option<Waker> {
        match self.wakers.get_mut(&key) {
            Some(own) if own.will_wake(waker) => None,
            Some(own) => Some(core::mem::replace(own, waker.clone())),
            None => self.wakers.insert(key, waker.clone()),
        }
    }

    /// `None`: it was woken, and is not there any more.
    pub fn remove(&mut self, key: Key) -> Option<Waker> {
        self.wakers.remove(&key)
    }

    pub fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.wakers.len()
    }

    /// It may be there: adds all waiters to `woken`.
    pub fn wake(&mut self, woken: &mut Vec<Waker>) {
        while let Some((_, waker)) = self.wakers.pop_first() {
            woken.push(waker);
        }
        self.raise();
    }

    /// The same for something that one of them will take: the first, or `driver`, which is already
    /// awake.
    pub fn wake_one(&mut self, driver: Option<Key>, woken: &mut Vec<Waker>) {
        let driver = driver.and_then(|key| self.wakers.remove(&key));
        let first = driver.or_else(|| self.wakers.pop_first().map(|(_, waker)| waker));
        woken.extend(first);
        self.raise();
    }

    fn raise(&mut self) {
        if let Some(descriptor) = self.descriptor.as_ref().filter(|_| !self.is_raised) {
            descriptor.notify();
            self.is_raised = true;
        }
    }

    /// It is not there now: the descriptor is readable again when it is.
    pub fn lower(&mut self) {
        if let Some(descriptor) = self.descriptor.as_ref().filter(|_| self.is_raised) {
            descriptor.clear();
            self.is_raised = false;
        }
    }

    pub const fn has_descriptor(&self) -> bool {
        self.descriptor.is_some()
    }

    /// The descriptor; at first as if it were there.
    pub fn descriptor(&mut self) -> io::Result<Arc<Notify>> {
        if let Some(descriptor) = &self.descriptor {
            return Ok(Arc::clone(descriptor));
        }
        let descriptor = Arc::new(Notify::new()?);
        descriptor.notify();
        self.is_raised = true;
        self.descriptor = Some(Arc::clone(&descriptor));
        Ok(descriptor)
    }
}
