//! Frames, the packets of the virtual NIC: ordered per flow, given up when they
//! are too late to be of use.

mod receive;
mod send;
mod sojourn;

pub(super) use receive::FrameReceiver;
pub(super) use send::FrameSender;
