//! libtabane-fi: tabane as a provider of libfabric, and through it of MPI.
//!
//! libfabric opens the library, asks for `fi_prov_ini`, and then calls functions by tables of their addresses. This crate
//! only translates its interface into that of `tabane-rank` and back: requests, objects, and reports of completions.
//! `tabane-rank` decides what is sent when, and how. Obligations of libfabric and programs, for every function alike:
//!
//! - a pointer is null, or what libfabric's manual pages say: to an object of this library that is not closed, to a
//!   structure of the program's version, to as many elements as the number beside it says;
//! - memory that an operation names stays, and is not used, until its completion;
//! - what is closed is in use in no other thread, and not used again.
//!
//! Other input is answered with the manual pages' error. No panic crosses into C.

mod abi;
mod address_vector;
mod allocate;
mod completions;
mod connection;
mod counter;
mod domain;
mod endpoint;
pub mod environment;
mod event_queue;
mod fabric;
mod guard;
mod here;
mod info;
mod log;
mod name;
mod numbers;
mod object;
mod poll_set;
mod provider;
mod random;
mod region;
mod station;
mod waiting;
mod words;

#[cfg(test)]
mod tests;
