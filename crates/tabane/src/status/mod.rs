//! `tabane status`: what a daemon tells, how it is asked, how people see it.

mod client;
pub mod control;
mod refused;
mod report;
mod server;
mod table;
#[cfg(test)]
mod tests;

pub use client::{ANSWER_BYTES_MAX, AskError, SILENCE_MAX, ask_status};
pub use refused::{RefusedReason, RefusedStatus};
pub use report::{
    LinkStatus, NodeStatus, PathState, PathStatus, PeerState, PeerStatus, SCHEMA, StatusReport,
    VnicStatus,
};
pub use server::{CLIENTS_MAX, ControlServer, SOCKET_NAME};
pub use table::{Colours, render};
