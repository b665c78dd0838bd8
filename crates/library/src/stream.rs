//! A stream of bytes in both directions, like a TCP connection, over all links.

use core::task::Poll;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tabane_engine::BULK_BYTES;

use tabane_proto::op::{OpError, Policy};

use crate::hub::{Hub, State};
use crate::loopback::Operations;
use crate::sockets::{CODE_CUT_OFF, CODE_DROPPED, Slot, SlotId};
use crate::waiting::{Place, Waiter};
use crate::{Descriptor, Gone, StreamError};

/// A stream of bytes both ways. Reading and writing work on `&Stream` as well, from several
/// threads at once.
///
/// If you drop it, written data still arrives, and then the end; the peer learns that its own data is
/// no longer read.
pub struct Stream {
    pub(crate) hub: Arc<Hub>,
    pub(crate) slot: SlotId,
    peer: String,
    is_nonblocking: AtomicBool,
}

impl Stream {
    pub(crate) const fn new(hub: Arc<Hub>, slot: SlotId, peer: String) -> Stream {
        Stream {
            hub,
            slot,
            peer,
            is_nonblocking: AtomicBool::new(false),
        }
    }

    /// The node at the other end.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Whether reads and writes return [`io::ErrorKind::WouldBlock`] instead of waiting.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.is_nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// Sets how written data is spread over the links: see [`Policy`]. On a stream that has already
    /// ended it does nothing: reading and writing report the end.
    ///
    /// # Errors
    /// [`StreamError::Gone`].
    pub fn set_policy(&self, policy: Policy) -> Result<(), StreamError> {
        self.act(|state| {
            let slot = &state.sockets.slots[self.slot];
            let (peer, stream) = (slot.peer, slot.stream);
            if slot.sends() {
                state.operations().set_policy(peer, stream, policy);
            }
            Ok(())
        })
    }

    /// Ends the writing half: the peer reads the end after the written data.
    ///
    /// # Errors
    /// [`StreamError`]: either side had ended it before.
    pub fn finish(&self) -> Result<(), StreamError> {
        self.act(|state| {
            let now = state.now;
            let slot = &state.sockets.slots[self.slot];
            let (peer, stream) = (slot.peer, slot.stream);
            let finished = match slot.writing_ended {
                Some(error) => Err(error),
                None => {
                    let finished = state.operations().finish(now, peer, stream);
                    finished.map_err(|_| StreamError::Finished)
                }
            };
            if finished.is_ok() {
                state.sockets.slots[self.slot].writing_ended = Some(StreamError::Finished);
            }
            finished
        })
    }

    /// Aborts both halves: undelivered data is lost, and the peer gets an error with this code.
    ///
    /// # Errors
    /// [`StreamError::Gone`].
    pub fn reset(&self, code: u32) -> Result<(), StreamError> {
        self.act(|state| {
            let now = state.now;
            let sockets = &mut state.sockets;
            let slot = &mut sockets.slots[self.slot];
            let (peer, stream) = (slot.peer, slot.stream);
            let mut operations = Operations {
                node: &mut state.engine.node,
                own: &mut sockets.own,
            };
            if slot.sends() {
                let reset = operations.reset(now, peer, stream, code);
                slot.is_reset |= reset.is_ok();
            }
            if slot.receives() {
                // Its end may have come without having been read.
                let _ = operations.stop(now, peer, stream, code);
            }
            slot.reading_ended = slot.reading_ended.or(Some(StreamError::Finished));
            slot.writing_ended = slot.writing_ended.or(Some(StreamError::Finished));
            state.sockets.wake_slot(self.slot);
            Ok(())
        })
    }

    /// Waits until everything written and the end have arrived at the peer; returns whether they have
    /// within `timeout`. While the stream is not [finished](Stream::finish) there is no end that
    /// could arrive.
    ///
    /// # Errors
    /// [`StreamError`]: it will not arrive. [`StreamError::Finished`]: this end reset the stream.
    pub fn wait_finished(&self, timeout: Duration) -> Result<bool, StreamError> {
        let until = Instant::now().checked_add(timeout);
        let arrived = self.hub.wait_for(until, |state, waiter| {
            let slot = &mut state.sockets.slots[self.slot];
            match slot.writing_ended {
                _ if slot.is_finished => Poll::Ready(Ok(())),
                Some(error) if error != StreamError::Finished || slot.is_reset => {
                    Poll::Ready(Err(error))
                }
                _ => {
                    state.sockets.wait(Place::Write(self.slot), waiter);
                    Poll::Pending
                }
            }
        });
        match arrived.map_err(StreamError::Gone)? {
            Ok(arrived) => arrived.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// A descriptor that poll and epoll find readable while there is something to read: bytes, the
    /// end, or an error.
    ///
    /// # Errors
    /// [`Gone`] inside of an [`io::Error`], or the process has no descriptors left.
    pub fn read_descriptor(&self) -> io::Result<Descriptor> {
        let descriptor = self.hub.descriptor(|state| {
            let slot = &state.sockets.slots[self.slot];
            let (peer, stream) = (slot.peer, slot.stream);
            let is_readable = state.operations().is_readable(peer, stream);
            let slot = &mut state.sockets.slots[self.slot];
            let is_over = slot.reading_ended.is_some() || slot.is_cut_off;
            let descriptor = slot.readers.descriptor();
            if !is_over && !is_readable {
                slot.readers.lower();
            }
            descriptor
        });
        descriptor.map(Descriptor)
    }

    /// A descriptor that poll and epoll find readable (not writable) while there is room to write,
    /// or writing gives an error. Room is there until a write could not take all it was given; again
    /// when a good part of it is free.
    ///
    /// # Errors
    /// As [`read_descriptor`](Stream::read_descriptor).
    pub fn write_descriptor(&self) -> io::Result<Descriptor> {
        let descriptor = self
            .hub
            .descriptor(|state| state.sockets.slots[self.slot].writers.descriptor());
        descriptor.map(Descriptor)
    }

    /// Waits at most `timeout` for something to read. Returns 0 at the end.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`], or a [`StreamError`] inside of an [`io::Error`].
    pub fn read_timeout(&self, into: &mut [u8], timeout: Duration) -> io::Result<usize> {
        self.read_until(into, Instant::now().checked_add(timeout))
    }

    /// Waits at most `timeout` for room, and writes as much as fits. Returns the number of bytes, at
    /// least one unless `data` is empty.
    ///
    /// # Errors
    /// As [`read_timeout`](Stream::read_timeout); nothing was written then.
    pub fn write_timeout(&self, data: &[u8], timeout: Duration) -> io::Result<usize> {
        self.write_until(data, Instant::now().checked_add(timeout))
    }

    fn write_until(&self, data: &[u8], until: Option<Instant>) -> io::Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let written = self.write_now(data)??;
        if written > 0 {
            return Ok(written);
        }
        let written = self.hub.wait_to_act(until, |state, waiter| {
            let written = poll_write(state, self.slot, waiter, data);
            written.map(|written| (written, *written.as_ref().unwrap_or(&0)))
        })?;
        match written {
            Ok(written) => Ok(written?),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn read_until(&self, into: &mut [u8], until: Option<Instant>) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let read = self.hub.wait_for(until, |state, waiter| {
            poll_read(state, self.slot, waiter, into)
        });
        match read? {
            Ok(read) => Ok(read?),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn act<R>(
        &self,
        act: impl FnOnce(&mut State) -> Result<R, StreamError>,
    ) -> Result<R, StreamError> {
        let acted = self.hub.act(|state| (act(state), 0));
        acted.map_err(StreamError::Gone)?
    }

    /// Writes as much as fits.
    fn write_now(&self, data: &[u8]) -> Result<Result<usize, StreamError>, Gone> {
        self.hub.act(|state| {
            let written = write(state, self.slot, data);
            (written, *written.as_ref().unwrap_or(&0))
        })
    }
}

/// Reads what has arrived on a stream; registers the caller if nothing has.
pub(crate) fn poll_read(
    state: &mut State,
    id: SlotId,
    waiter: &mut Waiter,
    into: &mut [u8],
) -> Poll<Result<usize, StreamError>> {
    let now = state.now;
    let sockets = &mut state.sockets;
    let slot = &mut sockets.slots[id];
    let mut operations = Operations {
        node: &mut state.engine.node,
        own: &mut sockets.own,
    };
    if let Some(len) = read_rest(slot, into) {
        return Poll::Ready(Ok(len));
    }
    if let Some(error) = slot.reading_ended {
        return Poll::Ready(at_end(error));
    }
    match operations.read(now, slot.peer, slot.stream, into) {
        Ok(read) if read.len > 0 || read.fin => {
            if read.fin {
                slot.reading_ended = Some(StreamError::Finished);
            } else if slot.readers.has_descriptor()
                && !operations.is_readable(slot.peer, slot.stream)
            {
                slot.readers.lower();
            }
            Poll::Ready(Ok(read.len))
        }
        Ok(_) if slot.is_cut_off => {
            // Nothing more of it is wanted, should the peer come back.
            let _ = operations.stop(now, slot.peer, slot.stream, CODE_CUT_OFF);
            slot.reading_ended = Some(StreamError::Unreachable);
            Poll::Ready(Err(StreamError::Unreachable))
        }
        Ok(_) => {
            slot.readers.lower();
            state.sockets.wait(Place::Read(id), waiter);
            Poll::Pending
        }
        Err(error) => Poll::Ready(Err(ended(error))),
    }
}

/// Reads what had arrived before the stream broke; `None` if nothing is left.
fn read_rest(slot: &mut Slot, into: &mut [u8]) -> Option<usize> {
    let read = slot.rest.as_mut()?.read(into);
    if read.fin {
        // All of it had arrived.
        slot.reading_ended = Some(StreamError::Finished);
    }
    if read.fin || read.len == 0 {
        slot.rest = None;
    }
    (read.fin || read.len > 0).then_some(read.len)
}

/// Writes as much as fits.
fn write(state: &mut State, slot: SlotId, data: &[u8]) -> Result<usize, StreamError> {
    let now = state.now;
    let sockets = &mut state.sockets;
    let slot = &mut sockets.slots[slot];
    if let Some(error) = slot.writing_ended {
        return Err(error);
    }
    let mut operations = Operations {
        node: &mut state.engine.node,
        own: &mut sockets.own,
    };
    let written = operations.write(now, slot.peer, slot.stream, data);
    if written.as_ref().is_ok_and(|written| *written < data.len()) {
        slot.writers.lower();
    }
    // What is no longer than this waits for an answer, as far as anyone can tell.
    state.sockets.wrote_small |= data.len() <= BULK_BYTES;
    written.map_err(ended)
}

/// The same; registers the caller if there is no room.
pub(crate) fn poll_write(
    state: &mut State,
    slot: SlotId,
    waiter: &mut Waiter,
    data: &[u8],
) -> Poll<Result<usize, StreamError>> {
    match write(state, slot, data) {
        Ok(0) => {
            state.sockets.wait(Place::Write(slot), waiter);
            Poll::Pending
        }
        written => Poll::Ready(written),
    }
}

/// What reading beyond the end of a stream returns.
const fn at_end(error: StreamError) -> Result<usize, StreamError> {
    match error {
        StreamError::Finished => Ok(0),
        error => Err(error),
    }
}

const fn ended(error: OpError) -> StreamError {
    match error {
        OpError::Reset(code) => StreamError::Reset(code),
        OpError::UnknownPeer => StreamError::Broken,
        _ => StreamError::Finished,
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.is_nonblocking.load(Ordering::Relaxed) {
            return match self.read_until(into, Some(Instant::now())) {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                read => read,
            };
        }
        self.read_until(into, None)
    }
}

impl Write for &Stream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if !self.is_nonblocking.load(Ordering::Relaxed) {
            return self.write_until(data, None);
        }
        match self.write_now(data)?? {
            0 if !data.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            written => Ok(written),
        }
    }

    /// Written data is already on its way.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for Stream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // A node that is gone has no streams.
        let _ = self.hub.act(|state| (drop_slot(state, self.slot), 0));
    }
}

/// The program is done with a stream. Drop the result without the lock: its wakers may own tasks.
#[must_use]
pub(crate) fn drop_slot(state: &mut State, slot: SlotId) -> Slot {
    let now = state.now;
    let slot = state.sockets.remove(slot);
    let (peer, stream) = (slot.peer, slot.stream);
    let mut operations = state.operations();
    if slot.writing_ended.is_none() {
        let _ = operations.finish(now, peer, stream);
    }
    if slot.receives() {
        let _ = operations.stop(now, peer, stream, CODE_DROPPED);
    }
    slot
}
