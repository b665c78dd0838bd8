//! What bundles on demand want from their node, and what nodes tell each other about it.
//!
//! Links are asked for, and not taken: the question goes through others, in the session that there is. So a refusal costs
//! nothing. Links that are given are to the bundle what links are that came back: it probes them, then uses them.

/// A wish for the bundle on demand with a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// It carries so much that it deserves links.
    Links,
    /// No way leads to the peer.
    Stranded,
    /// The peer asks for links.
    Asked,
    /// The peer grants links.
    Given,
    /// The peer has no links left.
    Refused,
}

impl Wish {
    /// The data of a [`RelayRecord::LINKS`](crate::wire::RelayRecord::LINKS).
    pub const ASK: &[u8] = &[0];
    pub const GIVE: &[u8] = &[1];
    pub const REFUSE: &[u8] = &[2];

    /// Parses the peer's wish.
    pub const fn read(data: &[u8]) -> Option<Wish> {
        match data {
            Wish::ASK => Some(Wish::Asked),
            Wish::GIVE => Some(Wish::Given),
            Wish::REFUSE => Some(Wish::Refused),
            _ => None,
        }
    }
}
