//! The cluster's one outside address (paper 004): which gateway serves, who has which port, who may send how much.
//!
//! The outside's packets are carried whole between the gateway and the kernel of the program's socket, and connections
//! end there: every option, error and address is what that kernel says. All of the gateway's state can be rebuilt, for it
//! keeps neither bytes nor sequence numbers. Paper 004 ends connections at the gateway: then what it has must be copied
//! to another gateway beforehand, and acknowledgements must be held back.

mod brake;
mod command;
mod election;
mod greylist;
mod intake;
mod ports;
mod queue;
mod throttle;
mod tracker;
mod windows;
mod words;

pub use brake::Brake;
pub use command::{COMMAND_BYTES_MAX, Command};
pub use election::{
    DRIFT, Election, Electorate, LEASE, Serving, Stamp, Unchangeable, VOTERS_MAX, Word,
};
pub use intake::{Inflow, Intake};
pub use ports::{Claim, Family, Port, Ports, Refused, Transport};
pub use queue::{FairQueue, LaneId, Parcel};
pub use throttle::{Shifts, Throttle};
pub use tracker::{Conversation, Ends, Flags, Head, Inward, Outward, Tracker};
pub use words::{Said, TAG};
