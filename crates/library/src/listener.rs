//! Listening for a service.

use core::task::Poll;
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::hub::{Hub, State};
use crate::sockets::SlotId;
use crate::stream::drop_slot;
use crate::waiting::{Place, Waiter, Wakers};
use crate::{Descriptor, Gone, Stream};

/// Accepts streams that nodes open to a service of this one, until it is dropped.
pub struct Listener {
    pub(crate) hub: Arc<Hub>,
    service: u32,
}

impl Listener {
    pub(crate) const fn new(hub: Arc<Hub>, service: u32) -> Listener {
        Listener { hub, service }
    }

    /// The service.
    pub const fn service(&self) -> u32 {
        self.service
    }

    /// Waits for the next stream.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn accept(&self) -> Result<Stream, Gone> {
        loop {
            if let Some(stream) = self.accept_until(None)? {
                return Ok(stream);
            }
        }
    }

    /// Waits at most `timeout` for the next stream.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`], [`Gone`] inside of an [`io::Error`].
    pub fn accept_timeout(&self, timeout: Duration) -> io::Result<Stream> {
        let accepted = self.accept_until(Instant::now().checked_add(timeout))?;
        accepted.ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    /// A descriptor that poll and epoll find readable while a stream waits to be accepted.
    ///
    /// # Errors
    /// [`Gone`] inside of an [`io::Error`], or the process has no descriptors left.
    pub fn descriptor(&self) -> io::Result<Descriptor> {
        let descriptor = self.hub.descriptor(|state| {
            let backlog = state.sockets.listeners.entry(self.service).or_default();
            let descriptor = backlog.acceptors.descriptor();
            if backlog.streams.is_empty() {
                backlog.acceptors.lower();
            }
            descriptor
        });
        descriptor.map(Descriptor)
    }

    fn accept_until(&self, until: Option<Instant>) -> Result<Option<Stream>, Gone> {
        let accepted = self
            .hub
            .wait_for(until, |state, waiter| self.poll_accept(state, waiter))?;
        let accepted = accepted.ok();
        Ok(accepted.map(|(slot, peer)| Stream::new(Arc::clone(&self.hub), slot, peer)))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A node that is gone has no listeners.
        let _ = self.hub.act(|state| (self.close(state), 0));
    }
}

impl Listener {
    /// The next stream and the name of its other end.
    pub(crate) fn poll_accept(
        &self,
        state: &mut State,
        waiter: &mut Waiter,
    ) -> Poll<(SlotId, String)> {
        let Some(backlog) = state.sockets.listeners.get_mut(&self.service) else {
            return Poll::Pending;
        };
        let Some(slot) = backlog.streams.pop_front() else {
            backlog.acceptors.lower();
            state.sockets.wait(Place::Accept(self.service), waiter);
            return Poll::Pending;
        };
        if backlog.streams.is_empty() {
            backlog.acceptors.lower();
        }
        Poll::Ready((slot, state.peer_of(slot)))
    }

    fn close(&self, state: &mut State) -> Option<Wakers> {
        let backlog = state.sockets.listeners.remove(&self.service)?;
        for slot in backlog.streams {
            // The stream was never handed out, so no call waits for it.
            let _ = drop_slot(state, slot);
        }
        Some(backlog.acceptors)
    }
}
