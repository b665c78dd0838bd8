//! The nodes' ids and connections, for the gateway's messages.

use std::collections::{BTreeMap, VecDeque};

use tabane_proto::gateway::{Said, TAG};
use tabane_proto::op::Policy;
use tabane_proto::wire::NodeId;
use tabane_proto::{Node, PeerId, Time};

/// Messages of the election do not wait behind others.
const FLOW_OF_ELECTION: u32 = 1;
const FLOW_OF_OTHERS: u32 = 2;
/// The most messages that wait for room on the way to a node: all that a node with 50,000 conversations has to say, twice.
/// Further ones are dropped; whoever waits for an answer goes on without.
const UNSAID_MAX: usize = 131_072;

/// The nodes, and the messages that wait for them.
#[derive(Debug, Default)]
pub struct Roster {
    peers: BTreeMap<NodeId, PeerId>,
    ids: BTreeMap<PeerId, NodeId>,
    unsaid: BTreeMap<PeerId, VecDeque<Vec<u8>>>,
}

impl Roster {
    /// These are the peers.
    pub fn set(&mut self, peers: impl IntoIterator<Item = (NodeId, PeerId)>) {
        self.peers = peers.into_iter().collect();
        self.ids = self.peers.iter().map(|(id, peer)| (*peer, *id)).collect();
        self.unsaid.retain(|peer, _| self.ids.contains_key(peer));
    }

    /// Which node a peer is.
    pub fn id(&self, peer: PeerId) -> Option<NodeId> {
        self.ids.get(&peer).copied()
    }

    /// Which peer a node is; `None`: it is this one, or none.
    pub fn peer(&self, id: NodeId) -> Option<PeerId> {
        self.peers.get(&id).copied()
    }

    /// All peers.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.ids.keys().copied()
    }

    /// Sends a message of the election, or drops it if it cannot be sent now: it would be out of date later.
    pub fn say_now(&self, now: Time, node: &mut Node, to: NodeId, said: Said) {
        let Some(peer) = self.peer(to) else {
            return;
        };
        if !node.is_connected(peer) {
            node.want(now, peer);
            return;
        }
        let bytes = said.encode();
        // If there is no room, the next one says the same.
        let _ = node.send_message(now, peer, FLOW_OF_ELECTION, Some(TAG), &bytes, Policy::Auto);
    }

    /// Sends a message as soon as there is room, in order with others sent like this.
    pub fn say(&mut self, now: Time, node: &mut Node, peer: PeerId, said: Said) {
        let unsaid = self.unsaid.entry(peer).or_default();
        if unsaid.len() >= UNSAID_MAX {
            return;
        }
        unsaid.push_back(said.encode());
        if unsaid.len() == 1 {
            self.go_on(now, node);
        }
    }

    /// Sends waiting messages as far as there is room.
    pub fn go_on(&mut self, now: Time, node: &mut Node) {
        for (peer, unsaid) in &mut self.unsaid {
            while let Some(bytes) = unsaid.front() {
                let sent =
                    node.send_message(now, *peer, FLOW_OF_OTHERS, Some(TAG), bytes, Policy::Auto);
                if sent.is_err() {
                    break;
                }
                unsaid.pop_front();
            }
        }
        self.unsaid.retain(|_, unsaid| !unsaid.is_empty());
    }

    /// A peer has restarted, or is gone: messages that wait for it are out of date.
    pub fn forget_unsaid(&mut self, peer: PeerId) {
        self.unsaid.remove(&peer);
    }
}
