//! The host of the loop: the program around it.

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

    /// All arrived frames have been delivered.
    fn frames_end(&mut self) {}

    /// A descriptor that the host registered (with a token from [`HOST_TOKENS`] on) is ready.
    fn ready(&mut self, turn: &mut LoopTurn<'_>, ready: Ready);

    /// Once a turn, after all arrivals: queue what there is to send (frames read from the
    /// virtual NIC). Returns whether that was small traffic that expects an answer, so that a
    /// short spin is worthwhile.
    fn produce(&mut self, now: Time, node: &mut Node) -> bool;

    /// Before the loop waits: arm exactly the descriptors that should wake it. Returns
    /// whether it must not wait, because there is more to produce.
    fn before_wait(&mut self, node: &Node, poller: &Poller) -> bool;

    /// The operating system changed the state of links.
    fn link_changed(&mut self, text: &str);

    /// A device or address of this host changed; `devices` are all of them now.
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
