//! The node, as the program sees it.

use core::task::Poll;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use tabane_proto::GRANULARITY;

use tabane_engine::Engine;
use tabane_io::signals::Blocked;
use tabane_proto::link::PathState;
use tabane_proto::op::{OpError, Policy};
use tabane_proto::{Node as Protocol, PeerId, PeerState};

use crate::hub::{Hub, State};
use crate::loopback::Loopback;
use crate::options::PeerOptions;
use crate::sockets::{Backlog, SlotId, Sockets, refusal};
use crate::stream::poll_read;
use crate::waiting::{Place, Waiter};
use crate::{
    ConnectError, Descriptor, Event, Gone, ListenError, Listener, Message, OpenError, Options,
    Peer, ReceiveError, SendError, Stream, StreamError,
};

/// A node of the cluster in this process. It and its streams end when it is [closed](Node::close) or dropped. Its
/// own name is a peer like others; traffic to it stays in the process.
///
/// If the process ends otherwise (`std::process::exit`, a signal, a node that was forgotten), written data that
/// has not arrived is lost: unlike with TCP, no kernel sends it afterwards. Once [`Stream::wait_finished`] has
/// returned `true`, all has arrived.
pub struct Node {
    pub(crate) hub: Arc<Hub>,
    peers: BTreeMap<String, Peer>,
    timeout: Duration,
    linger: Duration,
}

/// What is known of a peer.
#[derive(Clone, PartialEq, Debug)]
pub struct PeerInfo {
    /// Its name.
    pub name: String,
    /// Whether it can be reached.
    pub is_up: bool,
    /// The paths to it.
    pub paths: Vec<PathInfo>,
}

/// State of a path.
#[derive(Clone, PartialEq, Debug)]
pub struct PathInfo {
    /// Its number: the number of the links at both ends.
    pub link: u8,
    /// Whether it works.
    pub is_up: bool,
    /// Smoothed round trip; zero before anything is known.
    pub rtt: Duration,
    /// Estimated rate, in bytes per second; 0 before anything is known.
    pub rate_bytes_per_s: f64,
    /// Bytes sent by it that arrived.
    pub bytes_acked: u64,
    /// Bytes that came by it.
    pub bytes_received: u64,
    /// Packets sent by it that were lost.
    pub packets_lost: u64,
}

impl Node {
    /// Opens a node: from now on it answers its peers, and connects to them.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(options: Options) -> Result<Node, OpenError> {
        let (mut engine, words) = Engine::new(options.engine_config()?)?;
        if engine.link_status().iter().all(|link| !link.up) {
            return Err(OpenError::NoLink(words));
        }
        let (mut peers, mut sockets) = (BTreeMap::new(), Sockets::default());
        sockets.peer_timeout = options.peer_timeout;
        for options in &options.peers {
            let id = add_peer(&mut engine, options)?;
            let peer = Peer::new(id, &options.name);
            sockets.know(peer.clone());
            peers.insert(options.name.clone(), peer);
        }
        // The own name is a peer like others.
        let numbers = peers.values().map(|peer| peer.id.0 + 1);
        let own = Peer::new(PeerId(numbers.max().unwrap_or(0)), &options.name);
        sockets.own = Loopback::new(own.id);
        sockets.know(own.clone());
        peers.insert(options.name.clone(), own);
        let hub = Hub::new(engine, sockets)?.interruptible(options.is_interruptible);
        let hub = Arc::new(hub);
        let helped = Arc::clone(&hub);
        let helper = thread::Builder::new().name("tabane".into());
        // Signals belong to the program, which may not expect them in a thread that it does not know.
        let blocked = Blocked::new()?;
        helper.spawn(move || helped.help())?;
        drop(blocked);
        Ok(Node {
            hub,
            peers,
            timeout: options.timeout,
            linger: options.linger,
        })
    }

    /// Opens a stream to a service of another node, or of this one by its own name, and waits until it is accepted there.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(&self, peer: &str, service: u32) -> Result<Stream, ConnectError> {
        self.connect_timeout(peer, service, self.timeout)
    }

    /// Like [`connect`](Node::connect), but waits at most `timeout`.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect_timeout(
        &self,
        peer: &str,
        service: u32,
        timeout: Duration,
    ) -> Result<Stream, ConnectError> {
        let known = self.peers.get(peer);
        let known = known.ok_or_else(|| ConnectError::UnknownPeer(peer.to_owned()))?;
        let until = Instant::now().checked_add(timeout);
        loop {
            match self.try_connect(peer, known.id, service, until) {
                // The stream was gone before anybody there had seen it.
                Err(ConnectError::Restarted) => {}
                result => return result,
            }
        }
    }

    fn try_connect(
        &self,
        name: &str,
        peer: PeerId,
        service: u32,
        until: Option<Instant>,
    ) -> Result<Stream, ConnectError> {
        let opened = self.hub.wait_for(until, |state, waiter| {
            poll_opened(state, peer, service, waiter)
        });
        let opened = opened.map_err(ConnectError::Gone)?;
        let slot = opened.unwrap_or(Err(ConnectError::TimedOut))?;
        let stream = Stream::new(Arc::clone(&self.hub), slot, name.to_owned());
        let answer = self
            .hub
            .wait_for(until, |state, waiter| poll_accepted(state, slot, waiter));
        match answer {
            Ok(Ok(accepted)) => accepted.map(|()| stream),
            given_up => {
                let _ = stream.reset(0);
                Err(given_up
                    .err()
                    .map_or(ConnectError::TimedOut, ConnectError::Gone))
            }
        }
    }

    /// Listens for a service: a number of the program's choice.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&self, service: u32) -> Result<Listener, ListenError> {
        let listens = self.hub.look(|state| {
            let free = !state.sockets.listeners.contains_key(&service);
            if free {
                let backlog = Backlog::default();
                state.sockets.listeners.insert(service, backlog);
            }
            free
        });
        match listens.map_err(ListenError::Gone)? {
            true => Ok(Listener::new(Arc::clone(&self.hub), service)),
            false => Err(ListenError::InUse(service)),
        }
    }

    /// Sends a message. Messages of one `flow` to one peer arrive in the order of sending. Waits until the peer
    /// is there and the send queue has room, at most [`Options::timeout`]. If the peer restarts, messages under
    /// way may or may not have arrived: [`Event::MessagesBroken`].
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send(&self, peer: &str, flow: u32, data: &[u8]) -> Result<(), SendError> {
        self.send_with(peer, flow, None, data, Policy::default())
    }

    /// Like [`send`](Node::send), with a tag for the receiver, and a choice of how to spread it over the links.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send_with(
        &self,
        peer: &str,
        flow: u32,
        tag: Option<u64>,
        data: &[u8],
        policy: Policy,
    ) -> Result<(), SendError> {
        let peer = self.known(peer)?;
        let message = self.outgoing(&peer, flow, tag, data, policy)?;
        let sent = self.hub.act(|state| (message.send(state), data.len()));
        let mut waits_for = match sent.map_err(SendError::Gone)? {
            Err(error) if error.passes() => error,
            sent => return sent,
        };
        let until = Instant::now().checked_add(self.timeout);
        let sent = self.hub.wait_to_act(until, |state, waiter| {
            let polled = message.poll(state, waiter, &mut waits_for);
            polled.map(|sent| (sent, data.len()))
        });
        sent.map_err(SendError::Gone)?.unwrap_or(Err(waits_for))
    }

    /// Posts a message: it is sent soon, together with others that are posted before and after it. Posting does
    /// not wait and mostly makes no system call, the most expensive part of a small message. Posted messages are
    /// sent by [`flush`](Node::flush), when 64 KB are posted, when any thread of the program next waits for
    /// something of this node or sends something else, and after a millisecond or two in any case.
    ///
    /// # Errors
    /// [`SendError`]. [`SendError::NotConnected`] and [`SendError::TimedOut`] (no room) are temporary: post the
    /// message again later, or [send](Node::send_with) it, which waits.
    pub fn post(
        &self,
        peer: &Peer,
        flow: u32,
        tag: Option<u64>,
        data: &[u8],
        policy: Policy,
    ) -> Result<(), SendError> {
        let message = self.outgoing(peer, flow, tag, data, policy)?;
        let post = || {
            let posted = self.hub.post(|state| (message.send(state), data.len()));
            posted.map_err(SendError::Gone)?
        };
        match post() {
            // Acknowledgements that make room may have arrived and not been read yet.
            Err(SendError::TimedOut) => {
                self.hub.refresh().map_err(SendError::Gone)?;
                post()
            }
            posted => posted,
        }
    }

    /// Sends posted messages.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn flush(&self) -> Result<(), Gone> {
        self.hub.act(|_| ((), 0))
    }

    /// Prepares a message to a known peer.
    pub(crate) fn outgoing<'a>(
        &self,
        peer: &'a Peer,
        flow: u32,
        tag: Option<u64>,
        data: &'a [u8],
        policy: Policy,
    ) -> Result<Outgoing<'a>, SendError> {
        let known = self.peers.get(peer.name());
        if !known.is_some_and(|known| known.is_same(peer)) {
            return Err(SendError::UnknownPeer(peer.name().to_owned()));
        }
        Ok(Outgoing {
            peer,
            flow,
            tag,
            data,
            policy,
        })
    }

    /// Waits for the next message of whomever.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn receive(&self) -> Result<Message, Gone> {
        loop {
            if let Some(message) = self.receive_until(None)? {
                return Ok(message);
            }
        }
    }

    /// Waits at most `timeout` for the next message.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn receive_timeout(&self, timeout: Duration) -> Result<Option<Message>, Gone> {
        self.receive_until(Instant::now().checked_add(timeout))
    }

    /// Waits at most `timeout` for messages, and appends at most `count_max` of those that are there to `into`.
    /// Returns their number; 0 if none came in time.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn receive_many(
        &self,
        into: &mut Vec<Message>,
        count_max: usize,
        timeout: Duration,
    ) -> Result<usize, Gone> {
        if count_max == 0 {
            return Ok(0);
        }
        let until = Instant::now().checked_add(timeout);
        let received = self.hub.wait_for(until, |state, waiter| {
            poll_messages(state, waiter, count_max, into)
        });
        Ok(received?.unwrap_or(0))
    }

    /// Waits at most `timeout` for the next message, if it has at most `bytes_max` bytes. A longer one is kept
    /// for the next call.
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn receive_up_to(
        &self,
        bytes_max: usize,
        timeout: Duration,
    ) -> Result<Option<Message>, ReceiveError> {
        let until = Instant::now().checked_add(timeout);
        let received = self.hub.wait_for(until, |state, waiter| {
            poll_message(state, waiter).map(|message| {
                let bytes = message.data.len();
                if bytes <= bytes_max {
                    return Ok(Some(message));
                }
                state.sockets.keep(message);
                Err(ReceiveError::TooLong { bytes })
            })
        });
        received.map_err(ReceiveError::Gone)?.unwrap_or(Ok(None))
    }

    /// A descriptor that poll and epoll find readable while a message may be there: from when one
    /// came until a call found none.
    ///
    /// # Errors
    /// [`Gone`] inside of an [`io::Error`], or the process has no descriptors left.
    pub fn message_descriptor(&self) -> io::Result<Descriptor> {
        let descriptor = self
            .hub
            .descriptor(|state| state.sockets.mail_waiters.descriptor());
        descriptor.map(Descriptor)
    }

    /// A descriptor that poll and epoll find readable while there is an event.
    ///
    /// # Errors
    /// As [`message_descriptor`](Node::message_descriptor).
    pub fn event_descriptor(&self) -> io::Result<Descriptor> {
        let descriptor = self.hub.descriptor(|state| {
            let descriptor = state.sockets.event_waiters.descriptor();
            if state.sockets.events.is_empty() {
                state.sockets.event_waiters.lower();
            }
            descriptor
        });
        descriptor.map(Descriptor)
    }

    fn receive_until(&self, until: Option<Instant>) -> Result<Option<Message>, Gone> {
        Ok(self.hub.wait_for(until, poll_message)?.ok())
    }

    /// Waits at most `timeout` for the next event of a peer or a link. The last 1024 are kept for a program that
    /// asks late; [`Event::Missed`] counts the others.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn next_event(&self, timeout: Duration) -> Result<Option<Event>, Gone> {
        let until = Instant::now().checked_add(timeout);
        let event = self
            .hub
            .wait_for(until, |state, waiter| state.sockets.poll_event(waiter));
        Ok(event?.ok())
    }

    /// State of the other nodes and the paths to them.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn peers(&self) -> Result<Vec<PeerInfo>, Gone> {
        self.hub.look(|state| {
            let peers = self.peers.values();
            let infos = peers.filter_map(|peer| peer_info(&state.engine.node, peer.id));
            infos.collect()
        })
    }

    /// Waits until everything written has arrived at the reachable peers (at most [`Options::linger`]), tells
    /// them that this node stops, and ends it.
    pub fn close(&self) {
        let until = Instant::now().checked_add(self.linger);
        while until.is_none_or(|until| Instant::now() < until) {
            match self.hub.look(|state| self.has_arrived(state)) {
                Ok(false) => {}
                Ok(true) | Err(_) => break,
            }
            let soon = Some(Instant::now() + GRANULARITY);
            // Nothing can be waited for; but meanwhile the node is run.
            let _ = self.hub.wait_for(soon, |_, _| Poll::<()>::Pending);
        }
        self.hub.close();
    }

    /// Whether everything written to peers that can be reached has arrived there.
    pub(crate) fn has_arrived(&self, state: &State) -> bool {
        let node = &state.engine.node;
        self.peers.values().all(|peer| {
            let peer = peer.id;
            let Some(stats) = node.peer_stats(peer).filter(|_| node.is_connected(peer)) else {
                return true;
            };
            // Behind the last byte the peer has to see the end, or it takes the stream for broken.
            let waits = node.queued_bytes(peer) as u64 + stats.op.in_flight_bytes;
            waits == 0 && stats.op.ends_owed == 0
        })
    }

    /// The node of this name.
    pub fn peer(&self, name: &str) -> Option<Peer> {
        self.peers.get(name).cloned()
    }

    pub(crate) fn known(&self, name: &str) -> Result<Peer, SendError> {
        let peer = self.peer(name);
        peer.ok_or_else(|| SendError::UnknownPeer(name.to_owned()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.close();
    }
}

/// A message to be sent.
pub(crate) struct Outgoing<'a> {
    peer: &'a Peer,
    flow: u32,
    tag: Option<u64>,
    data: &'a [u8],
    policy: Policy,
}

impl Outgoing<'_> {
    /// Hands it over as a whole, or not at all.
    fn send(&self, state: &mut State) -> Result<(), SendError> {
        let now = state.now;
        let mut operations = state.operations();
        if !operations.connects(now, self.peer.id) {
            return Err(SendError::NotConnected);
        }
        let message = (self.flow, self.tag, self.data);
        let sent = operations.send(now, self.peer.id, message, self.policy);
        sent.map_err(|error| match error {
            OpError::TooLarge { bytes_max } => SendError::TooLarge(bytes_max),
            OpError::TooManyFlows => SendError::TooManyFlows,
            OpError::Full => SendError::TimedOut,
            _ => SendError::UnknownPeer(self.peer.name().to_owned()),
        })
    }

    /// Like the above, for a caller that waits: registers in `waits_for` if it cannot be sent now.
    pub(crate) fn poll(
        &self,
        state: &mut State,
        waiter: &mut Waiter,
        waits_for: &mut SendError,
    ) -> Poll<Result<(), SendError>> {
        match self.send(state) {
            Err(error) if error.passes() => {
                *waits_for = error;
                state.sockets.wait(Place::Room(self.peer.id), waiter);
                state.sockets.wait(Place::Peer(self.peer.id), waiter);
                Poll::Pending
            }
            sent => Poll::Ready(sent),
        }
    }
}

pub(crate) fn add_peer(engine: &mut Engine, peer: &PeerOptions) -> Result<PeerId, OpenError> {
    let now = engine.now();
    let added = engine.node.add_peer(now, peer.config()?);
    added.map_err(|error| OpenError::Options(error.to_string()))
}

/// A new stream, as soon as the peer is there.
pub(crate) fn poll_opened(
    state: &mut State,
    peer: PeerId,
    service: u32,
    waiter: &mut Waiter,
) -> Poll<Result<SlotId, ConnectError>> {
    let now = state.now;
    if state.operations().connects(now, peer) {
        return Poll::Ready(open_stream(state, peer, service));
    }
    state.sockets.wait(Place::Peer(peer), waiter);
    Poll::Pending
}

fn open_stream(state: &mut State, peer: PeerId, service: u32) -> Result<SlotId, ConnectError> {
    let now = state.now;
    match state.operations().open(now, peer, service) {
        Ok(stream) => {
            state.sockets.wrote_small = true;
            Ok(state.sockets.insert(peer, stream))
        }
        Err(_) => Err(ConnectError::TooManyStreams),
    }
}

/// Whether the other end has accepted a stream.
pub(crate) fn poll_accepted(
    state: &mut State,
    slot: SlotId,
    waiter: &mut Waiter,
) -> Poll<Result<(), ConnectError>> {
    let mut accepted = [0];
    let refused = |error| match error {
        StreamError::Reset(code) => refusal(code).unwrap_or(ConnectError::Refused),
        _ => ConnectError::Restarted,
    };
    poll_read(state, slot, waiter, &mut accepted).map(|read| match read {
        Ok(1..) => Ok(()),
        Ok(0) => Err(ConnectError::Refused),
        Err(error) => Err(refused(error)),
    })
}

pub(crate) fn poll_message(state: &mut State, waiter: &mut Waiter) -> Poll<Message> {
    match take_message(state) {
        Some(message) => {
            leave_others(state, waiter);
            Poll::Ready(message)
        }
        None => no_message(state, waiter),
    }
}

/// Takes at most this many of the messages that are there.
fn poll_messages(
    state: &mut State,
    waiter: &mut Waiter,
    count_max: usize,
    into: &mut Vec<Message>,
) -> Poll<usize> {
    let before = into.len();
    into.extend(core::iter::from_fn(|| take_message(state)).take(count_max));
    match into.len() - before {
        0 => no_message(state, waiter),
        count => {
            leave_others(state, waiter);
            Poll::Ready(count)
        }
    }
}

fn no_message<R>(state: &mut State, waiter: &mut Waiter) -> Poll<R> {
    state.sockets.mail_waiters.lower();
    state.sockets.wait(Place::Mail, waiter);
    Poll::Pending
}

/// One was woken for all that came: whether there is another message shows when it is taken out.
fn leave_others(state: &mut State, waiter: &mut Waiter) {
    state.sockets.serve(Place::Mail, waiter);
    if !state.sockets.mail_waiters.is_empty()
        && let Some(another) = take_message(state)
    {
        state.sockets.keep(another);
    }
}

fn take_message(state: &mut State) -> Option<Message> {
    let kept = state.sockets.kept.take();
    kept.or_else(|| next_message(state))
}

fn next_message(state: &mut State) -> Option<Message> {
    let now = state.now;
    while let Some(&peer) = state.sockets.mail.front() {
        if let Some(message) = state.operations().receive(now, peer) {
            // The next one has its turn, however much this one sends.
            state.sockets.mail.rotate_left(1);
            return Some(Message {
                from: state.sockets.peer(peer),
                flow: message.flow,
                tag: message.tag,
                data: message.data,
            });
        }
        state.sockets.mail.pop_front();
    }
    None
}

fn peer_info(node: &Protocol, peer: PeerId) -> Option<PeerInfo> {
    let stats = node.peer_stats(peer)?;
    let paths = stats.paths.into_iter().map(|path| PathInfo {
        link: path.link.0,
        is_up: path.state == PathState::Up,
        rtt: path.stats.rtt.unwrap_or_default(),
        rate_bytes_per_s: path.stats.capacity_bytes_per_s,
        bytes_acked: path.stats.bytes_acked,
        bytes_received: path.stats.bytes_received,
        packets_lost: path.stats.packets_lost,
    });
    Some(PeerInfo {
        name: stats.name,
        is_up: stats.state == PeerState::Up,
        paths: paths.collect(),
    })
}

impl State {
    /// The name of the node at the other end of a stream.
    pub fn peer_of(&self, slot: SlotId) -> String {
        let peer = self.sockets.slots[slot].peer;
        self.sockets.peer(peer).name().to_owned()
    }
}
