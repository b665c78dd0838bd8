//! Messages.

use crate::Peer;

/// A message that arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sender; also where to [post](crate::Node::post) an answer.
    pub from: Peer,
    /// The flow it was sent in: messages of one flow arrive in the order of sending.
    pub flow: u32,
    /// Its tag, if it was sent with one.
    pub tag: Option<u64>,
    /// Its bytes.
    pub data: Vec<u8>,
}
