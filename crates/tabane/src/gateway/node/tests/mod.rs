//! The whole of it in virtual time: nodes, gateways, their outside, and what happens to them.
//!
//! The gateways are the real ones, over real nodes; what they have of their machines ([`Devices`](crate::gateway::devices::Devices)) is simulated. Both ends of
//! each connection are small and honest: they check every byte.
//!
//! Checked are: each byte comes once and unchanged; nothing is acknowledged that is not there; nothing is reset; nobody
//! speaks for the addresses while another gateway has the votes; no port is two nodes'; how long connections wait. A fuse
//! in the machine counts the packets of one connection that its gateway has in its hands, so a gateway fails (its daemon,
//! its machine or its cable) before and after each of them. [`mutants`] shows that each checker sees what it is for.
//!
//! `TABANE_SIM_ROUNDS`, `TABANE_SIM_PARTITIONS`, `TABANE_SIM_MOVES` and `TABANE_SIM_ALONE` say how many runs there are;
//! with `TABANE_SIM_TRACE=1` a run is told.

mod crashes;
mod host;
mod machine;
mod mutant;
mod mutants;
mod outside;
mod packets;
mod partitions;
mod talk;
mod tcp;
mod town;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tabane_cluster::Mac;

/// The outside addresses.
const ADDRESSES: [(IpAddr, u8); 2] = [
    (IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), 24),
    (
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
        64,
    ),
];
/// Links between nodes.
const LINKS: u8 = 2;
/// The programs of a host.
const PLACE: usize = 1;
/// Hosts outside.
const CLIENTS: usize = 2;

/// How many of something a test does: what the variable says, or so many.
fn count(variable: &str, otherwise: usize) -> usize {
    let said = std::env::var(variable).ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(otherwise)
}
