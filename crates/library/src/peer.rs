//! Other nodes, as the program names them.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::sync::Arc;

use tabane_proto::PeerId;

/// A node, this one too, looked up once by its name ([`Node::peer`](crate::Node::peer)): cheap to keep and to copy. Of
/// use to the node that gave it, and no other.
#[derive(Clone)]
pub struct Peer {
    pub(crate) id: PeerId,
    name: Arc<str>,
}

impl Peer {
    pub(crate) fn new(id: PeerId, name: &str) -> Peer {
        Peer {
            id,
            name: name.into(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both were given by the same node, too.
    pub(crate) fn is_same(&self, other: &Peer) -> bool {
        Arc::ptr_eq(&self.name, &other.name)
    }
}

/// Nodes are the same if their names are.
impl PartialEq for Peer {
    fn eq(&self, other: &Peer) -> bool {
        self.name == other.name
    }
}

impl Eq for Peer {}

impl Hash for Peer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, f)
    }
}
