//! The gateway: the cluster's one outside address, for programs of all nodes. Being built: nothing begins it yet (`ARCHITECTURE.md`).

pub mod fragments;
pub mod front;
pub mod neighbours;
pub mod packet;
pub mod programs;
pub mod serving;
