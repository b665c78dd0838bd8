//! Examining a link beside the daemon: does the peer's machine answer a ping, is its
//! port closed, who answers for an address, which packets arrive at the device. For
//! diagnosis, a few packets at a time; not for the data path.

mod arp;
mod broadcast;
mod knock;
mod packets;
mod ping;

pub use arp::{ArpKind, ArpPacket, ETHERNET_BROADCAST};
pub use broadcast::Broadcast;
pub use knock::{Knock, KnockAnswer};
pub use packets::{PacketSocket, Protocol, UdpSeen};
pub use ping::Ping;
