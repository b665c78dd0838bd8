//! Traces of peers: on, off, and fetched ([`crate::trace`]).

use super::{Node, met};
use crate::trace::Traced;
use crate::{PeerId, Time};

impl Node {
    /// Has what is done for a peer, and why, be recorded for [`poll_trace`](Node::poll_trace), or no longer. To say so
    /// again changes nothing. Of a peer that is removed the trace ends. Returns whether there is such a peer.
    pub fn trace(&mut self, now: Time, peer: PeerId, on: bool) -> bool {
        let is_known = self.peers.get(peer.0 as usize).is_some_and(Option::is_some);
        let is_on = self.context.is_traced(peer);
        if on && is_known && !is_on {
            self.context.traced.push(peer);
        } else if !on && is_on {
            self.context.traced.retain(|traced| *traced != peer);
        }
        if let Some(bundle) = met(&mut self.peers, peer) {
            bundle.set_traced(now, on);
        }
        is_known
    }

    /// The next event of a traced peer, oldest first for each peer. To be asked after each turn until it is `None`: what
    /// is not fetched in time is left out and counted
    /// ([`EVENTS_WAITING_MAX`](crate::trace::EVENTS_WAITING_MAX)).
    pub fn poll_trace(&mut self) -> Option<Traced> {
        let (traced, peers) = (&self.context.traced, &mut self.peers);
        traced.iter().find_map(|&peer| {
            let (at, event) = met(peers, peer)?.poll_trace()?;
            Some(Traced { at, peer, event })
        })
    }
}
