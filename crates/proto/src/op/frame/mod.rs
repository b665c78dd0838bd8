//! Frames, the packets of the virtual NIC: ordered per flow, given up when they are too late to be of use.
//!
//! A queue that stands is brought here, where flows take turns (`send.rs`). The kernel drops TCP's account of a packet
//! when that enters `tab0`. So TCP feels nothing of what waits there but the delay, and keeps all it may under way: four
//! streams over 2 × 8 Mb/s made a ping wait for two to eight seconds. While every frame of a flow waits for longer than 5
//! ms, for 100 ms on end, everything is read from the device (`crates/tabane/src/daemon/read_ahead.rs`), turns are a
//! packet or two instead of a burst, and 16 MB at most wait; the flow that holds most then loses its oldest frame. If
//! frames of a flow wait for more than half a second for half a second on end, one is dropped, and no other before its
//! effect has shown (`sojourn.rs`). Links of 1 Gb/s never come so far, nor does a link that hangs for a moment.

mod receive;
mod send;
mod sojourn;

pub(super) use receive::FrameReceiver;
pub(super) use send::FrameSender;
