//! Programs nobody here wrote, unmodified, on a node, and their clients outside, who know the cluster by its outside address.
//! In the middle of it a switch of the cluster dies, or the gateway that serves crashes: nobody notices, and logs have
//! the addresses of whoever asked.

#[path = "../common/mod.rs"]
mod common;
#[path = "../programs/site.rs"]
mod site;

#[macro_use]
mod scene;

mod flows;
mod names;
mod outward;
mod shells;
mod stores;
mod web;
