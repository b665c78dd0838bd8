//! libfabric's interface as its compiled code has it, on Linux with 64-bit pointers: structures, tables of functions,
//! numbers. Facts of the public headers of 1.17 to 2.6, declared anew; the layouts are checked at compile time.
//!
//! Structures that libfabric allocates are no longer here than 1.17 has them, since an older library gives no more.
//! Structures that are given to it are as long as the newest has them.

pub mod constants;
pub mod domain;
pub mod endpoint;
pub mod errors;
pub mod fabric;
pub mod queues;
pub mod transfers;

mod layout;
