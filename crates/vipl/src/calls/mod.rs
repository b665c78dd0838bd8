//! The functions of `vipl.h`.
//!
//! C's arguments are checked as far as possible: pointers for null, handles by their content. What a program promises beyond
//! that (for example, that there is room at a place) is the functions' safety condition, documented in `vipl.h` and the
//! Developer's Guide.
#![allow(
    clippy::missing_safety_doc,
    reason = "the pointers are C's: null, or to what `vipl.h` says, used by nobody else during the call"
)]
#![allow(
    missing_docs,
    reason = "the names are the specification's, which says what they do"
)]

mod connect;
mod cq;
mod memory;
mod names;
mod nic;
mod vi;
mod work;

pub use connect::*;
pub use cq::*;
pub use memory::*;
pub use names::*;
pub use nic::*;
pub use vi::*;
pub use work::*;

use core::ffi::c_ulong;
use core::time::Duration;
use std::time::Instant;

use crate::abi::INFINITE;

/// Until when to wait; none: for ever.
fn until(timeout_ms: c_ulong) -> Option<Instant> {
    match timeout_ms {
        INFINITE | c_ulong::MAX => None,
        // Beyond the clock's range is for ever, too.
        ms => Instant::now().checked_add(Duration::from_millis(ms)),
    }
}
