//! libtabane: what `include/tabane.h` declares, over `tabane-library`.
//!
//! The header says what the functions do. This crate only translates C's types into Rust's and
//! back, and decides nothing. Obligations of callers, for every function alike:
//!
//! - a pointer is null, or what the header says: to a value of a type of this library that was not
//!   freed yet, to text that ends in a zero byte, to as many elements as the length beside it says;
//! - what is freed is in use in no other thread, and not used again.
//!
//! Null where something is needed, text that is not UTF-8 and numbers that say nothing are
//! errors, and so is a panic: none crosses into C.

pub mod abi;
mod cancel;
mod failure;
mod given;
mod message;
mod node;
mod options;
mod stream;
