//! Calls for tasks: nothing waits in the calling thread, the helper runs the node.

use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::sync::Arc;

use tabane_proto::op::Policy;

use crate::hub::{Hub, State};
use crate::node::{poll_accepted, poll_message, poll_opened};
use crate::waiting::Waiter;
use crate::{ConnectError, Event, Gone, Listener, Message, Node, SendError, Stream};

/// A task's waiting call. If the task gives up, it removes its entry: otherwise the node would keep it,
/// and many like it, until the awaited thing happens, perhaps never.
pub(crate) struct Waiting<'a> {
    hub: &'a Hub,
    waiter: Waiter,
}

impl<'a> Waiting<'a> {
    pub fn new(hub: &'a Hub) -> Waiting<'a> {
        Waiting {
            hub,
            waiter: Waiter::new(Waker::noop().clone()),
        }
    }

    /// Waits until `poll` has something.
    pub async fn until<R>(
        &mut self,
        mut poll: impl FnMut(&mut State, &mut Waiter) -> Poll<R>,
    ) -> Result<R, Gone> {
        poll_fn(|context| {
            drop(self.waiter.set_waker(context.waker()));
            ready(self.hub.poll(&mut self.waiter, |state, waiter| {
                let polled = poll(state, waiter);
                if polled.is_ready() {
                    state.sockets.forget(waiter);
                }
                polled
            }))
        })
        .await
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.hub.give_up(&mut self.waiter);
    }
}

impl Node {
    /// [`connect`](Node::connect) for tasks. Waits for ever: the runtime knows how to end that.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect_async(&self, peer: &str, service: u32) -> Result<Stream, ConnectError> {
        let known = self.peer(peer);
        let id = known.ok_or_else(|| ConnectError::UnknownPeer(peer.to_owned()))?;
        let id = id.id;
        loop {
            let mut waiting = Waiting::new(&self.hub);
            let opened = waiting.until(|state, waiter| poll_opened(state, id, service, waiter));
            let slot = opened.await.map_err(ConnectError::Gone)??;
            let stream = Stream::new(Arc::clone(&self.hub), slot, peer.to_owned());
            let accepted = waiting.until(|state, waiter| poll_accepted(state, slot, waiter));
            match accepted.await.map_err(ConnectError::Gone)? {
                // The stream was gone before anybody there had seen it.
                Err(ConnectError::Restarted) => {}
                accepted => return accepted.map(|()| stream),
            }
        }
    }

    /// [`send`](Node::send) for tasks. Waits for ever: end it with the runtime's means; then the message
    /// was not sent.
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send_async(&self, peer: &str, flow: u32, data: &[u8]) -> Result<(), SendError> {
        let sent = self.send_with_async(peer, flow, None, data, Policy::default());
        sent.await
    }

    /// [`send_with`](Node::send_with) for tasks, as [`send_async`](Node::send_async).
    ///
    /// # Errors
    /// [`SendError`].
    pub async fn send_with_async(
        &self,
        peer: &str,
        flow: u32,
        tag: Option<u64>,
        data: &[u8],
        policy: Policy,
    ) -> Result<(), SendError> {
        let peer = self.known(peer)?;
        let message = self.outgoing(&peer, flow, tag, data, policy)?;
        let mut waits_for = SendError::NotConnected;
        let mut waiting = Waiting::new(&self.hub);
        let sent = waiting.until(|state, waiter| message.poll(state, waiter, &mut waits_for));
        sent.await.map_err(SendError::Gone)?
    }

    /// [`receive`](Node::receive) for tasks.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn receive_async(&self) -> Result<Message, Gone> {
        Waiting::new(&self.hub).until(poll_message).await
    }

    /// [`next_event`](Node::next_event) for tasks.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn next_event_async(&self) -> Result<Event, Gone> {
        let mut waiting = Waiting::new(&self.hub);
        let event = waiting.until(|state, waiter| state.sockets.poll_event(waiter));
        event.await
    }
}

impl Listener {
    /// [`accept`](Listener::accept) for tasks.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn accept_async(&self) -> Result<Stream, Gone> {
        let mut waiting = Waiting::new(&self.hub);
        let accepted = waiting.until(|state, waiter| self.poll_accept(state, waiter));
        let (slot, peer) = accepted.await?;
        Ok(Stream::new(Arc::clone(&self.hub), slot, peer))
    }
}

fn ready<R>(polled: Result<Poll<R>, Gone>) -> Poll<Result<R, Gone>> {
    match polled {
        Ok(polled) => polled.map(Ok),
        Err(gone) => Poll::Ready(Err(gone)),
    }
}

#[cfg(feature = "tokio")]
mod tokio_traits {
    use core::pin::Pin;
    use core::task::{Context, Poll};
    use std::io;

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use super::ready;
    use crate::stream::{poll_read, poll_write};
    use crate::waiting::Waiter;
    use crate::{Gone, Stream, StreamError};

    /// Any error, whichever layer reports it, as an [`io::Error`].
    fn flat<R>(polled: Poll<Result<Result<R, StreamError>, Gone>>) -> Poll<io::Result<R>> {
        polled.map(|result| Ok(result??))
    }

    impl Stream {
        fn poll_read_by(&self, mut waiter: Waiter, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if into.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let read = self.hub.poll(&mut waiter, |state, waiter| {
                poll_read(state, self.slot, waiter, into.initialize_unfilled())
            });
            flat(ready(read)).map_ok(|bytes| into.advance(bytes))
        }

        fn poll_write_by(&self, mut waiter: Waiter, data: &[u8]) -> Poll<io::Result<usize>> {
            if data.is_empty() {
                return Poll::Ready(Ok(0));
            }
            let written = self.hub.poll(&mut waiter, |state, waiter| {
                poll_write(state, self.slot, waiter, data)
            });
            flat(ready(written))
        }
    }

    impl AsyncRead for &Stream {
        fn poll_read(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.poll_read_by(Waiter::task(context), into)
        }
    }

    impl AsyncWrite for &Stream {
        fn poll_write(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            data: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_write_by(Waiter::task(context), data)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            match self.finish() {
                Ok(()) | Err(StreamError::Finished) => Poll::Ready(Ok(())),
                Err(error) => Poll::Ready(Err(error.into())),
            }
        }
    }

    /// The stream's owner is its only poller. An abandoned call, which reports nothing, leaves one waker
    /// behind until the next call.
    impl AsyncRead for Stream {
        fn poll_read(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.poll_read_by(Waiter::owner(context), into)
        }
    }

    impl AsyncWrite for Stream {
        fn poll_write(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            data: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_write_by(Waiter::owner(context), data)
        }

        fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut &*self).poll_flush(context)
        }

        fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut &*self).poll_shutdown(context)
        }
    }
}
