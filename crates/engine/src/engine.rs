//! The loop itself.

use crate::batch::REST_MIN;
use core::fmt;
use core::time::Duration;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use tabane_proto::GRANULARITY;
use tabane_proto::link::thresholds::BURST_BYTES_MAX;

use tabane_io::poll::{Poller, Ready, sleep};
use tabane_io::udp::{Claim, ReceiveBatch, RecvError};
use tabane_io::{clock, entropy};
use tabane_proto::op::OpLimits;
use tabane_proto::wire::{FEATURE_RELAYS, FEATURE_SURVEYS, WireMode};
use tabane_proto::{ConfigError, Event, Guests, LinkId, Node, NodeConfig, RelayConfig, Time};

use crate::batch::{Batching, Moved};
use crate::host::{HOST_TOKENS, Host, LoopTurn};
use crate::link::{LinkSpec, LinkStatus};
use crate::links::{LinkTable, Links};
use crate::spin::Spin;
use crate::system::{Kernel, Socket, System, TOKEN_MONITOR};

/// The node's buffer for one burst.
const BURST_BYTES: usize = 65_535;
/// The most batches taken in from a link in one turn.
const BATCHES_MAX: usize = 64;
/// … and bytes after which no further one is: one burst.
const TAKEN_BYTES: usize = BURST_BYTES_MAX;
/// Frames that may wait for a peer: as much as the kernel's queue in front of a device holds. Each flow has a turn of its
/// own here, so that nobody waits for it; with less, many TCP connections with packets of 62,000 bytes
/// have not one each, and lose them.
const FRAME_QUEUE_BYTES: usize = 16 * 1024 * 1024;

/// What an engine is made from.
#[derive(Clone)]
pub struct EngineConfig {
    /// This node's name.
    pub name: String,
    /// Cluster keys; the first one is used to connect, all are accepted.
    pub keys: Vec<[u8; 32]>,
    /// This node's private key, if it has one.
    pub private: Option<[u8; 32]>,
    /// The public key that its peers know it by, if they do.
    pub public: Option<[u8; 32]>,
    /// Encrypted or plain.
    pub wire: WireMode,
    /// UDP port of every node.
    pub port: u16,
    /// This node's links.
    pub links: Vec<LinkSpec>,
    /// How long to look again instead of sleeping after small traffic; zero: never.
    /// [`SPIN`](crate::SPIN) is a good choice.
    pub spin: Duration,
    /// Optional features beyond the protocol's version, one bit each; see [`NodeConfig`].
    pub features: u64,
    /// How this node relays for others; `None`: it does not reach peers through others.
    pub relay: Option<RelayConfig>,
    /// Which unknown peers may connect; `None`: nobody.
    pub guests: Option<Guests>,
}

/// An engine could not be made.
#[derive(Debug)]
pub enum EngineError {
    /// The configuration is at fault.
    Config(ConfigError),
    /// The system refused something.
    System(io::Error),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Config(e) => e.fmt(f),
            EngineError::System(e) => e.fmt(f),
        }
    }
}

impl core::error::Error for EngineError {}

impl From<ConfigError> for EngineError {
    fn from(e: ConfigError) -> Self {
        EngineError::Config(e)
    }
}

impl From<io::Error> for EngineError {
    fn from(e: io::Error) -> Self {
        EngineError::System(e)
    }
}

/// A node, its sockets, and the loop between them.
pub struct Engine<S: System = Kernel> {
    /// The protocol.
    pub node: Node,
    poller: Arc<Poller>,
    links: Links<S>,
    batch: ReceiveBatch,
    burst: Box<[u8]>,
    ready: Vec<Ready>,
    /// Of this turn.
    moved: Moved,
    batching: Batching,
    spin: Spin,
    busy: Busy,
    /// When [`poll`](Engine::poll) last did more than content.
    rested_at: Time,
    /// When [`poll`](Engine::poll) last ran everything.
    looked_at: Time,
}

/// How long the loop has worked, from the clock readings it makes anyway.
#[derive(Default)]
struct Busy {
    total: Duration,
    /// When the current turn's work began; `None` if it is an idle spin.
    working_since: Option<Time>,
}

impl Busy {
    /// The loop is about to wait.
    fn pause(&mut self, now: Time) {
        if let Some(since) = self.working_since.take() {
            self.total += now.since(since);
        }
    }
}

/// The engines' clock, for callers that have no engine at hand.
pub fn now() -> Time {
    Time::from_ns(clock::now_ns())
}

impl Engine {
    /// Opens the links that are there; others are opened when they appear. Returns the engine and messages about the
    /// links.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn new(config: EngineConfig) -> Result<(Engine, Vec<String>), EngineError> {
        Engine::with_claims(config, Vec::new())
    }

    /// Like [`new`](Engine::new), for a node whose port was chosen because it was free: `claims` hold that port on the
    /// links that are there.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn with_claims(
        config: EngineConfig,
        claims: Vec<Claim>,
    ) -> Result<(Engine, Vec<String>), EngineError> {
        let poller = Arc::new(Poller::new()?);
        let kernel = Kernel::new(&poller, claims)?;
        Engine::on(kernel, poller, config)
    }
}

impl<S: System> Engine<S> {
    /// Like [`with_claims`](Engine::with_claims), on the given system.
    pub(crate) fn on(
        system: S,
        poller: Arc<Poller>,
        config: EngineConfig,
    ) -> Result<(Engine<S>, Vec<String>), EngineError> {
        let mut links = Links::new(system, &config.links, config.port);
        let words = links.reconcile(now(), None);
        let node = NodeConfig {
            name: config.name,
            keys: config.keys,
            private: config.private,
            public: config.public,
            wire: config.wire,
            cipher_aes: aes_is_fast(),
            receive_buffer_bytes: links.receive_buffer_bytes(),
            links: links.configs(),
            op_limits: OpLimits {
                frame_queue_bytes: FRAME_QUEUE_BYTES,
                ..OpLimits::default()
            },
            features: match config.relay {
                Some(_) => config.features | FEATURE_RELAYS | FEATURE_SURVEYS,
                None => config.features,
            },
            relay: config.relay.unwrap_or_default(),
            guests: config.guests,
            congestion: tabane_proto::CongestionControl::default(),
        };
        let mut node = Node::new(now(), node, entropy::seed()?)?;
        for status in links.status() {
            node.handle_link(now(), status.id, status.up);
        }
        let engine = Engine {
            node,
            poller,
            links,
            batch: ReceiveBatch::new(),
            burst: vec![0; BURST_BYTES].into_boxed_slice(),
            ready: Vec::new(),
            moved: Moved::default(),
            batching: Batching::default(),
            spin: Spin::new(config.spin),
            busy: Busy::default(),
            rested_at: Time::ZERO,
            looked_at: Time::ZERO,
        };
        Ok((engine, words))
    }

    /// The clock the engine runs by.
    pub fn now(&self) -> Time {
        now()
    }

    /// What the operating system says of the links.
    pub fn link_status(&self) -> Vec<LinkStatus> {
        self.links.status()
    }

    /// What wakes the loop: the host registers its descriptors with tokens from
    /// [`HOST_TOKENS`] on.
    pub fn poller(&self) -> &Arc<Poller> {
        &self.poller
    }

    /// One turn of the loop: waits at most `patience`, then does everything
    /// there is to do.
    ///
    /// # Errors
    /// Only if waiting itself fails. Then nothing else is done, because a node that hears nothing must not judge who is
    /// silent; the next turn rests first.
    pub fn turn(&mut self, host: &mut impl Host, patience: Option<Duration>) -> io::Result<()> {
        let wait = self.before_wait(host, patience);
        let mut ready = core::mem::take(&mut self.ready);
        let waited = wait.wait(&self.poller, &[], &mut ready);
        match waited {
            Ok(()) => self.after_wait(host, now(), &ready),
            Err(_) => self.poller.stumble(),
        }
        self.ready = ready;
        waited
    }

    /// The first half of a [`turn`](Engine::turn): decides how to wait. For a host that lets others use the engine during
    /// the wait.
    pub fn before_wait(&mut self, host: &mut impl Host, patience: Option<Duration>) -> Wait {
        // The host may have queued something in an event or between turns, and no timer announces that.
        if self.node.may_transmit() {
            self.send_all(now());
        }
        let eager = host.before_wait(&self.node, &self.poller);
        let before = now();
        self.busy.pause(before);
        let due = [self.node.poll_timeout(), self.links.next_timeout()];
        let due = due.into_iter().flatten().min();
        let spins = self.spin.spinning(before);
        let timeout = match eager || spins {
            true => Some(Duration::ZERO),
            false => [due.map(|at| at.since(before)), patience]
                .into_iter()
                .flatten()
                .min(),
        };
        Wait {
            rest: self.batching.rest(before).filter(|_| !eager),
            timeout,
            spins,
            since: before,
            until: timeout.map_or(Time::NEVER, |timeout| before + timeout),
        }
    }

    /// The second half of a [`turn`](Engine::turn): does everything there is to do. `ready`: the descriptors found ready;
    /// `now`: read after the wait.
    pub fn after_wait(&mut self, host: &mut impl Host, now: Time, ready: &[Ready]) {
        let idle_spin = self.spin.spinning(now) && ready.is_empty();
        self.busy.working_since = (!idle_spin).then_some(now);
        self.take_in(now, host, ready);
        // Probes and acknowledgements do not justify spinning: nobody answers them later.
        let content_arrived = self.node.take_content_arrived();
        let small = host.produce(now, &mut self.node) || content_arrived;
        self.run_timers(now, host);
        self.shield(now, host);
        self.send_all(now);
        self.deliver(now, host);
        let mut moved = core::mem::take(&mut self.moved);
        moved.of_several |= self.node.is_crowded(now);
        moved.ran_out = self.node.take_ran_out();
        let worked = self.busy.total;
        let more_waits = || self.node.has_more_to_send();
        let message = self.batching.turn(now, worked, moved, more_waits);
        self.spin.turn(now, small, moved.bytes(), message);
    }

    /// A turn that does not wait, for a host whose thread polls. It delivers arrived content first; timers and
    /// acknowledgements wait for a turn without content, but at most [`REST_MIN`].
    pub fn poll(&mut self, now: Time, host: &mut impl Host) {
        let mut ready = core::mem::take(&mut self.ready);
        // One poll of all sockets costs less than a receive on each empty one.
        match self.poller.wait(Some(Duration::ZERO), &mut ready) {
            Ok(()) => self.take_in(now, host, &ready),
            Err(_) => self.poller.stumble(),
        }
        self.ready = ready;
        self.moved = Moved::default();
        if self.node.take_content_arrived() {
            self.deliver(now, host);
            if now.since(self.rested_at) < REST_MIN {
                return;
            }
        }
        self.rested_at = now;
        let looks = now.since(self.looked_at) > GRANULARITY;
        if looks || self.node.poll_timeout().is_some_and(|at| at <= now) {
            self.looked_at = now;
            self.run_timers(now, host);
            self.shield(now, host);
        }
        self.flush(now);
        self.deliver(now, host);
        self.flush(now);
    }

    /// Sends what was queued since the last turn, without waiting. Cheap if nothing is queued.
    pub fn flush(&mut self, now: Time) {
        if self.node.may_transmit() {
            self.send_all(now);
        }
    }

    /// Closes the links' sockets for good, so that another node can be opened at their addresses. Nothing is sent or
    /// received afterwards.
    pub fn shut(&mut self) {
        self.links.close();
    }

    /// Takes in everything that ended the wait.
    fn take_in(&mut self, now: Time, host: &mut impl Host, ready: &[Ready]) {
        for &ready in ready {
            if ready.token >= HOST_TOKENS {
                let mut turn = LoopTurn {
                    now,
                    node: &mut self.node,
                    poller: &self.poller,
                    links: &mut self.links,
                    busy: self.busy.total,
                };
                host.ready(&mut turn, ready);
            } else if ready.token == TOKEN_MONITOR {
                if self.links.hear() {
                    self.reconcile(now, host);
                }
            } else {
                if ready.readable {
                    self.receive(now, LinkId(ready.token as u8), host);
                }
                if ready.writable {
                    self.links.retry(now, &mut self.node, Some(ready.token));
                }
            }
        }
    }

    /// Hands in what has arrived on a link. Under bulk, the rest waits for the next turn, so that acknowledgements go out
    /// in between. Small packets, mostly answers, are all read before any timer runs: a process that seldom gets a
    /// processor would otherwise retransmit what was answered long ago, and fall ever further behind.
    ///
    /// A turn once took in 16 datagrams of a link, then ran its timers. 64 ranks on two processors, each of which ran
    /// every 100 ms or so, then found answers behind some thousand other packets, and asked again. After three seconds
    /// seven of ten packets had not been read, and no job of theirs began.
    fn receive(&mut self, now: Time, link: LinkId, host: &mut impl Host) {
        let before = self.moved.received;
        for _ in 0..BATCHES_MAX {
            let is_more = self.receive_batch(now, link, host);
            if !is_more || self.moved.received - before >= TAKEN_BYTES {
                self.moved.more_arrived |= is_more;
                return;
            }
        }
        self.moved.more_arrived = true;
    }

    /// Hands in one batch and gives the host its results. Returns whether more may have arrived.
    fn receive_batch(&mut self, now: Time, link: LinkId, host: &mut impl Host) -> bool {
        let Some(socket) = self.links.get(u64::from(link.0)) else {
            return false;
        };
        match socket.recv(&mut self.batch) {
            Ok(1..) => {}
            // Netlink reports that, too.
            Ok(0) | Err(RecvError::LinkDown(_)) => return false,
            Err(RecvError::Other(_)) => {
                self.poller.stumble();
                return false;
            }
        }
        let before = *self.node.node_stats();
        let mut sender = None;
        self.batch.datagrams().for_each(|(from, datagram)| {
            self.moved.received += datagram.len();
            self.moved.of_several |= *sender.get_or_insert(from) != from;
            self.node.handle_datagram(now, link, from, datagram);
        });
        self.links.count(link, &before, self.node.node_stats());
        self.deliver(now, host);
        self.batch.is_full()
    }

    fn run_timers(&mut self, now: Time, host: &mut impl Host) {
        if self.node.poll_timeout().is_some_and(|at| at <= now) {
            self.node.handle_timeout(now);
        }
        self.links.retry(now, &mut self.node, None);
        self.links.wake_neighbours(now);
        if self.links.recheck_due(now) {
            self.reconcile(now, host);
        }
    }

    fn shield(&mut self, now: Time, host: &mut impl Host) {
        for text in self.links.shield(now, &self.node) {
            host.link_changed(&text);
        }
    }

    fn reconcile(&mut self, now: Time, host: &mut impl Host) {
        for text in self.links.reconcile(now, Some(&mut self.node)) {
            host.link_changed(&text);
        }
        if let Some(devices) = self.links.devices() {
            host.devices_changed(devices);
        }
    }

    fn send_all(&mut self, now: Time) {
        while let Some(transmit) = self.node.poll_transmit(now, &mut self.burst) {
            self.moved.sent += transmit.bytes;
            self.links.send(now, &mut self.node, transmit, &self.burst);
        }
    }

    fn deliver(&mut self, now: Time, host: &mut impl Host) {
        while let Some((peer, mut frame)) = self.node.receive_frame() {
            host.frame(peer, &mut frame);
            self.node.recycle_frame(frame);
        }
        host.frames_end();
        while let Some(event) = self.node.poll_event() {
            let event: Event = event;
            host.event(now, &mut self.node, event);
        }
    }
}

/// How to wait for the second part of a turn; see [`Engine::before_wait`].
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Sleep this long first without polling, amid bulk.
    rest: Option<Duration>,
    timeout: Option<Duration>,
    /// If nothing is ready, yield the processor and poll again at once.
    spins: bool,
    since: Time,
    until: Time,
}

impl Wait {
    /// Waits, and replaces the content of `ready`. A readable descriptor of `urgent` (at most two, which `poller` has,
    /// too) ends the wait even amid bulk, when packets have to wait.
    ///
    /// # Errors
    /// Only if waiting itself fails.
    pub fn wait(
        &self,
        poller: &Poller,
        urgent: &[BorrowedFd<'_>],
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        let rest = self.rest.unwrap_or_default();
        if !rest.is_zero() {
            sleep(rest, urgent)?;
        }
        poller.wait(self.timeout.map(|t| t.saturating_sub(rest)), ready)?;
        if self.spins && ready.is_empty() {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// The same without a timer, the most expensive part of a wait for a small message. For callers that somebody else
    /// wakes in time.
    #[must_use]
    pub const fn untimed(self) -> Wait {
        Wait {
            timeout: None,
            ..self
        }
    }

    /// When the wait began.
    pub const fn since(&self) -> Time {
        self.since
    }

    /// When the wait ends at the latest, if nothing becomes ready.
    pub const fn until(&self) -> Time {
        self.until
    }
}

/// Whether the CPU has AES instructions; without them ChaCha20 is faster.
fn aes_is_fast() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[allow(unreachable_code, reason = "other machines have no such instructions")]
    false
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use tabane_io::notify::Notify;
    use tabane_io::poll::Interest;

    use super::*;

    #[test]
    fn who_is_called_does_not_rest_amid_bulk() {
        let (poller, kick) = (Poller::new().unwrap(), Notify::new().unwrap());
        poller.register(&kick, HOST_TOKENS, Interest::Read).unwrap();
        kick.notify();
        let hour = Duration::from_secs(3600);
        let wait = Wait {
            rest: Some(hour),
            timeout: None,
            spins: false,
            since: Time::ZERO,
            until: Time::NEVER,
        };
        let mut ready = Vec::new();
        wait.wait(&poller, &[kick.as_fd()], &mut ready).unwrap();
        assert_eq!(ready.len(), 1);
    }
}
