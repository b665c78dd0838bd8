//! A node of a tabane cluster inside of a program: no daemon, no privilege.
//!
//! A [`Node`] is opened from a cluster file or from a list of addresses. It
//! [connects](Node::connect) to services of other nodes and
//! [listens](Node::listen) for them; a [`Stream`] is like a TCP connection, but uses
//! all links at once, and goes on when some of them fail. [Messages](Node::send) keep their
//! boundaries. [Events](Node::next_event) report changes of links and peers.
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use tabane_library::{Node, Options};
//!
//! let node = Node::open(Options::from_cluster_file("/etc/tabane/cluster.toml", None)?)?;
//! let mut stream = node.connect("n1", 7)?;
//! stream.write_all(b"hello")?;
//! stream.finish()?;
//! let mut answer = Vec::new();
//! stream.read_to_end(&mut answer)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who does the work
//! Waking another thread costs more than a small message does. So there is no thread that
//! must be woken: **the thread that waits for something runs the node meanwhile**, sends what
//! others have written and receives for everybody. Only while no thread of the program waits
//! for anything does a helper thread run timers and acknowledge.
//!
//! A task of an asynchronous program cannot do that: there the helper thread runs the node, and
//! wakes the tasks. [`Node::connect_async`], [`Listener::accept_async`], [`Node::next_event_async`]
//! and the like work in any runtime; with the feature `tokio`, streams are `AsyncRead` and
//! `AsyncWrite`.
//!
//! # Threads and processes
//! Everything may be used from several threads at once. After `fork` the node belongs to the
//! parent: in the child every call returns [`Gone::Forked`] (as
//! [`std::io::ErrorKind::NotConnected`] where it is an [`std::io::Error`]).
#![forbid(unsafe_code)]

mod asynchronous;
mod descriptor;
mod error;
mod event;
mod hub;
mod interruptible;
mod listener;
mod loopback;
mod message;
mod node;
mod options;
mod peer;
mod sockets;
mod stream;
#[cfg(test)]
mod tests;
mod waiting;

pub use descriptor::Descriptor;
pub use error::{ConnectError, Gone, ListenError, OpenError, ReceiveError, SendError, StreamError};
pub use event::Event;
pub use listener::Listener;
pub use message::Message;
pub use node::{Node, PathInfo, PeerInfo};
pub use options::Options;
pub use peer::Peer;
pub use stream::Stream;
pub use tabane_proto::LinkId;
pub use tabane_proto::crypto::public_key;
pub use tabane_proto::op::Policy;
pub use tabane_proto::wire::WireMode;
