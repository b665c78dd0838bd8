//! For tasks: nothing waits in the thread that asks, the helper runs the node.

use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use tabane_proto::op::Policy;

use crate::hub::{Hub, State};
use crate::node::{poll_accepted, poll_message, poll_opened};
use crate::{ConnectError, Event, Gone, Listener, Message, Node, SendError, Stream};

/// Wakes the task that waits, in place of its own waker, of which the node may have several by as
/// many calls: this one can be told from them.
struct Relay(Mutex<Option<Waker>>);

impl Relay {
    /// Takes another waker in place of the one it had.
    fn set(&self, waker: Option<Waker>) -> Option<Waker> {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut *own, waker)
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        if let Some(waker) = self.set(None) {
            waker.wake();
        }
    }
}

/// A task's call that waits. A task that gives up leaves nothing behind: the node would have it until
/// what it waited for comes about, perhaps never, and many like it.
struct Waiting<'a> {
    hub: &'a Hub,
    relay: Arc<Relay>,
    waker: Waker,
    is_pending: bool,
}

impl<'a> Waiting<'a> {
    fn new(hub: &'a Hub) -> Waiting<'a> {
        let relay = Arc::new(Relay(Mutex::new(None)));
        let waker = Waker::from(Arc::clone(&relay));
        Waiting {
            hub,
            relay,
            waker,
            is_pending: false,
        }
    }

    /// Waits until `poll` has something.
    async fn until<R>(
        &mut self,
        mut poll: impl FnMut(&mut State, &Context<'_>) -> Poll<R>,
    ) -> Result<R, Gone> {
        poll_fn(|context| {
            drop(self.relay.set(Some(context.waker().clone())));
            let relayed = Context::from_waker(&self.waker);
            let polled = ready(self.hub.poll(&relayed, &mut poll));
            self.is_pending = polled.is_pending();
            polled
        })
        .await
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        drop(self.relay.set(None));
        if self.is_pending {
            // A node that is gone has woken all.
            let _ = self.hub.look(|state| state.sockets.forget(&self.waker));
        }
    }
}

impl Node {
    /// [`connect`](Node::connect) for tasks. Waits for ever: the runtime knows how to end that.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect_async(&self, peer: &str, service: u32) -> Result<Stream, ConnectError> {
        let id = self.peer(peer);
        let id = id.ok_or_else(|| ConnectError::UnknownPeer(peer.to_owned()))?;
        loop {
            let mut waiting = Waiting::new(&self.hub);
            let opened = waiting.until(|state, context| poll_opened(state, id, service, context));
            let slot = opened.await.map_err(ConnectError::Gone)??;
            let stream = Stream::new(Arc::clone(&self.hub), slot, peer.to_owned());
            let accepted = waiting.until(|state, context| poll_accepted(state, slot, context));
            match accepted.await.map_err(ConnectError::Gone)? {
                // The stream was gone before anybody there had seen it.
                Err(ConnectError::Restarted) => {}
                accepted => return accepted.map(|()| stream),
            }
        }
    }

    /// [`send`](Node::send) for tasks. Waits for ever: the runtime knows how to end that, and what it has
    /// ended was not sent.
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
        let message = self.outgoing(peer, flow, tag, data, policy)?;
        let mut waits_for = SendError::NotConnected;
        let mut waiting = Waiting::new(&self.hub);
        let sent = waiting.until(|state, context| message.poll(state, context, &mut waits_for));
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
        let event = waiting.until(|state, context| state.sockets.poll_event(context));
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
        let accepted = waiting.until(|state, context| self.poll_accept(state, context));
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
    use crate::{Gone, Stream, StreamError};

    /// What is wrong, whoever says so, as an [`io::Error`].
    fn flat<R>(polled: Poll<Result<Result<R, StreamError>, Gone>>) -> Poll<io::Result<R>> {
        polled.map(|result| Ok(result??))
    }

    impl AsyncRead for &Stream {
        fn poll_read(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if into.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let read = self.hub.poll(context, |state, context| {
                poll_read(state, self.slot, context, into.initialize_unfilled())
            });
            flat(ready(read)).map_ok(|bytes| into.advance(bytes))
        }
    }

    impl AsyncWrite for &Stream {
        fn poll_write(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            data: &[u8],
        ) -> Poll<io::Result<usize>> {
            if data.is_empty() {
                return Poll::Ready(Ok(0));
            }
            let written = self.hub.poll(context, |state, context| {
                poll_write(state, self.slot, context, data)
            });
            flat(ready(written))
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

    impl AsyncRead for Stream {
        fn poll_read(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut &*self).poll_read(context, into)
        }
    }

    impl AsyncWrite for Stream {
        fn poll_write(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            data: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut &*self).poll_write(context, data)
        }

        fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut &*self).poll_flush(context)
        }

        fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut &*self).poll_shutdown(context)
        }
    }
}
