//! Unpredictable numbers.

use crate::abi::errors::{self, Outcome};

/// 64 bits of the kernel's.
///
/// # Errors
/// The system gives none.
pub fn word() -> Outcome<u64> {
    let seed = tabane_io::entropy::seed().map_err(|_| errors::IO)?;
    let mut word = [0; 8];
    word.copy_from_slice(&seed[..8]);
    Ok(u64::from_ne_bytes(word))
}
