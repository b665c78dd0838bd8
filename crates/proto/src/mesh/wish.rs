//! What bundles that are there on demand want of their node, and what nodes say each other of that.

/// What is wanted of the node for the bundle with a peer that is there on demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// It carries so much that it is worth the links.
    Links,
    /// No way leads to the peer.
    Stranded,
    /// The peer asks for the links, …
    Asked,
    /// … or gives them, …
    Given,
    /// … or has none left.
    Refused,
}

impl Wish {
    /// The data of a [`RelayRecord::LINKS`](crate::wire::RelayRecord::LINKS).
    pub const ASK: &[u8] = &[0];
    pub const GIVE: &[u8] = &[1];
    pub const REFUSE: &[u8] = &[2];

    /// What the peer says.
    pub const fn read(data: &[u8]) -> Option<Wish> {
        match data {
            Wish::ASK => Some(Wish::Asked),
            Wish::GIVE => Some(Wish::Given),
            Wish::REFUSE => Some(Wish::Refused),
            _ => None,
        }
    }
}
