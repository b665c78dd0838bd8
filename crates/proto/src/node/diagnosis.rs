//! What an operator's tools (`tabane bench`, `tabane ping`) have a node do with one bundle.

use super::{Node, met};
use crate::{LinkId, PeerId, StreamId};

impl Node {
    /// Has this node's content for `peer` go over one link alone, as long as that works; `None`: over all links again.
    /// That is everybody's content, so it is only for moments in which nobody else sends much there.
    pub fn confine(&mut self, peer: PeerId, link: Option<LinkId>) {
        if let Some(bundle) = met(&mut self.peers, peer) {
            bundle.confine(link);
            self.touch(peer);
        }
    }

    /// Probes all paths to `peer` in use now, at most one on each in a millisecond or a round trip.
    /// [`PathStats::probes_answered`](crate::PathStats::probes_answered) and
    /// [`probe_rtt`](crate::PathStats::probe_rtt) tell of the answers, and of those to probes that went anyway.
    pub fn probe(&mut self, peer: PeerId) {
        if let Some(bundle) = met(&mut self.peers, peer) {
            bundle.probe();
            self.touch(peer);
        }
    }

    /// Bytes of one stream that wait to be sent for the first time.
    pub fn queued_stream_bytes(&self, peer: PeerId, stream: StreamId) -> usize {
        let bundle = self.known(peer);
        bundle.map_or(0, |b| b.ops.queued_stream_bytes(stream))
    }
}
