#![forbid(unsafe_code)]
//! (being built)
