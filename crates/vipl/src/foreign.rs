//! What reads other processes' bytes, for who feeds it noise (`fuzz`): nothing here is for programs.
//!
//! What was read is returned as it would be written: what is understood and what is said are the same.

use crate::rendezvous::{self, Seal};
use crate::wire::{Label, Said, Why};

/// What two ends say to each other to connect their VIs.
pub fn said(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(Said::read(bytes)?.write())
}

/// The eight bytes that go with a descriptor's content, and why a line ends.
pub fn data(data: u64) -> (u64, u8) {
    (
        Label::from_data(data).to_data(),
        Why::from_data(Some(data)) as u8,
    )
}

/// A question where somebody is, or an answer, as it is sealed.
pub fn sealed(plain: &[u8]) -> Option<Vec<u8>> {
    Some(rendezvous::Plain::read(plain)?.write())
}

/// A datagram as it comes: whether it was believed.
pub fn is_sealed(datagram: &[u8]) -> bool {
    Seal::new(&[5; 32]).is_some_and(|seal| seal.open(datagram).is_some())
}
