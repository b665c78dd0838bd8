//! Switching for the virtual NIC: which node a frame is for.

mod mac;

pub use mac::{Mac, mac_of};
