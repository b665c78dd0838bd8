//! Who means harm, from outside and from within: a stranger on the switch, and users of a node who run
//! programs that are written against the daemon. None of it uses tabane's own code on the hostile side.

mod access;
#[path = "../common/mod.rs"]
mod common;
mod egress;
mod ports;
mod sockets;
mod stall;
mod stranger;
mod users;
