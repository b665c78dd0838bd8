//! For tasks: nothing waits in the thread that asks, the helper runs the node.

use core::future::poll_fn;
use core::task::Poll;
use std::sync::Arc;

use crate::node::{poll_accepted, poll_message, poll_opened};
use crate::{ConnectError, Event, Gone, Listener, Message, Node, Stream};

impl Node {
    /// [`connect`](Node::connect) for tasks. Waits for ever: the runtime knows how to end that.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect_async(&self, peer: &str, service: u32) -> Result<Stream, ConnectError> {
        let id = self.peer(peer);
        let id = id.ok_or_else(|| ConnectError::UnknownPeer(peer.to_owned()))?;
        loop {
            let slot = poll_fn(|context| {
                let opened = self.hub.poll(context, |state, context| {
                    poll_opened(state, id, service, context)
                });
                opened.unwrap_or_else(|gone| Poll::Ready(Err(ConnectError::Gone(gone))))
            });
            let slot = slot.await?;
            let stream = Stream::new(Arc::clone(&self.hub), slot, peer.to_owned());
            let accepted = poll_fn(|context| {
                let accepted = self.hub.poll(context, |state, context| {
                    poll_accepted(state, slot, context)
                });
                accepted.unwrap_or_else(|gone| Poll::Ready(Err(ConnectError::Gone(gone))))
            });
            match accepted.await {
                // The stream was gone before anybody there had seen it.
                Err(ConnectError::Restarted) => {}
                accepted => return accepted.map(|()| stream),
            }
        }
    }

    /// [`receive`](Node::receive) for tasks.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn receive_async(&self) -> Result<Message, Gone> {
        poll_fn(|context| ready(self.hub.poll(context, poll_message))).await
    }

    /// [`next_event`](Node::next_event) for tasks.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn next_event_async(&self) -> Result<Event, Gone> {
        poll_fn(|context| {
            let event = self
                .hub
                .poll(context, |state, context| state.sockets.poll_event(context));
            ready(event)
        })
        .await
    }
}

impl Listener {
    /// [`accept`](Listener::accept) for tasks.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn accept_async(&self) -> Result<Stream, Gone> {
        let accepted = poll_fn(|context| {
            let accepted = self
                .hub
                .poll(context, |state, context| self.poll_accept(state, context));
            ready(accepted)
        });
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
