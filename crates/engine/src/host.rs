//! What a host of the loop does.

use core::time::Duration;

use tabane_io::netlink::Interface;
use tabane_io::poll::{Poller, Ready};
use tabane_proto::{Event, Node, PeerId, Time};

use crate::link::{LinkSpec, LinkStatus};
use crate::links::LinkTable;

/// The program around the loop.
pub trait Host {
    /// Something happened to a peer, a link, a stream.
    fn event(&mut self, now: Time, node: &mut Node, event: Event);

    /// A frame for the virtual NIC arrived. It may be taken; what is left in
    /// `frame` afterwards goes back to the pool.
    fn frame(&mut self, from: PeerId, frame: &mut Vec<u8>);

    /// All frames that have arrived were given.
    fn frames_end(&mut self) {}

    /// A descriptor that the host registered (with a token from [`HOST_TOKENS`] on) is ready.
    fn ready(&mut self, turn: &mut LoopTurn<'_>, ready: Ready);

    /// Once a turn, after everything that arrived was taken in: put in what
    /// there is to send (frames read from the virtual NIC). Returns whether it
    /// was small traffic that waits for an answer, so that a short spin is worth it.
    fn produce(&mut self, now: Time, node: &mut Node) -> bool;

    /// The loop is about to wait: arm exactly the descriptors that should wake
    /// it. Returns whether it must not wait, because there is more to produce.
    fn before_wait(&mut self, node: &Node, poller: &Poller) -> bool;

    /// Links changed state at the operating system's level.
    fn link_changed(&mut self, text: &str);

    /// Some device or address of this host changed; these are all there are.
    fn devices_changed(&mut self, _devices: &[Interface]) {}
}

/// What the host may see and touch in one turn of the loop.
pub struct LoopTurn<'a> {
    /// The time of this turn.
    pub now: Time,
    /// The protocol.
    pub node: &'a mut Node,
    /// What wakes the loop.
    pub poller: &'a Poller,
    pub(crate) links: &'a mut dyn LinkTable,
    /// How long the loop has worked since it began, waiting and idle spinning left out.
    pub busy: Duration,
}

impl LoopTurn<'_> {
    /// What the operating system says of the links.
    pub fn link_status(&self) -> Vec<LinkStatus> {
        self.links.status()
    }

    /// Makes these the links of the node. Returns what changed, in words.
    pub fn set_links(&mut self, links: &[LinkSpec]) -> Vec<String> {
        self.links.set(self.now, self.node, links)
    }
}

/// Tokens from here on are the host's; those below are the engine's.
pub const HOST_TOKENS: u64 = 16;
