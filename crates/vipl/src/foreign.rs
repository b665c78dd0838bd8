//! Entry points to the parsers of other processes' bytes, for `fuzz` only.
//!
//! Parsed data is returned re-encoded, so that a test can compare both.

use crate::rendezvous::{self, Seal};
use crate::wire::{Label, Said, Why};

/// A message of two ends that connect their VIs.
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

/// The content of a sealed question or answer.
pub fn sealed(plain: &[u8]) -> Option<Vec<u8>> {
    Some(rendezvous::Plain::read(plain)?.write())
}

/// A datagram as it comes: whether it was believed.
pub fn is_sealed(datagram: &[u8]) -> bool {
    Seal::new(&[5; 32]).is_some_and(|seal| seal.open(datagram).is_some())
}
