//! `tabane status`: the daemon's report, the protocol for asking, and its presentation.

mod check;
mod client;
pub mod control;
mod finding;
mod gateway;
mod members;
mod mptcp;
mod nodes;
mod refused;
mod report;
mod run;
mod server;
mod table;
#[cfg(test)]
mod tests;
pub mod topology;
mod unread;
#[cfg(test)]
pub(crate) use tests::example as example_report;

pub use check::Check;
pub use client::{
    ANSWER_BYTES_MAX, AskError, SILENCE_MAX, ask_bench, ask_consult, ask_gateway_move, ask_here,
    ask_leave, ask_members, ask_nodes, ask_ping, ask_reload, ask_report, ask_status, ask_topo,
    ask_trace, read_answer,
};
pub(crate) use control::to_line;
pub use control::{
    BenchBegun, ConsultBegun, MoveReport, PingBegun, ReloadReport, Request, Response, TraceReport,
};
pub use finding::{FindingStatus, Severity};
pub use gateway::{GatewayStatus, PortStatus, RouterStatus, StandbyStatus};
pub use members::{MemberStatus, MembersReport, Reached};
pub use mptcp::{ConnectionStatus, DetourStatus, MptcpStatus, SubflowStatus, UnsteeredStatus};
pub use nodes::{NodeAddresses, NodesReport};
pub use refused::{RefusedReason, RefusedStatus};
pub use report::{
    FlowStatus, LinkStatus, NodeStatus, PathState, PathStatus, PeerState, PeerStatus,
    RelayedStatus, SCHEMA, StatusReport, VnicStatus,
};
pub use run::{
    ProgramStatus, Reader, RunStatus, UNREAD_LISTED_MAX, UNREAD_USERS_MAX, UnreadConnection,
    UnreadOfUser, UnreadStatus,
};
pub(crate) use server::is_exhausted;
pub use server::{CLIENTS_MAX, Caller, ControlServer};
pub use table::{Colours, Detail, render};
pub(crate) use table::{clean, counted, duration, metric, round_trip, round_trip_if_known};
pub(crate) use unread::program as unread_program;
