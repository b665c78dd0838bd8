//! Bulk from one host to another, and the wires it is measured on.

use crate::net::{Ns, US};
use crate::schedule::Schedule;
use crate::workload::{Ending, FlowPlan, Pace, Reader, StreamPlan, UnitKind};
use tabane_proto::op::Policy;

/// What is carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traffic {
    /// A stream of the bundle.
    Stream,
    /// Frames of the size of the virtual NIC's MTU, as a TCP connection over it sends
    /// them: under a window.
    Frames,
}

/// What TCP has under way at most with Linux's default limits.
const TCP_WINDOW_BYTES: u64 = 5 << 19;
/// What fits into the virtual NIC's MTU.
const FRAME_BYTES: u32 = 62_014;

/// One way delay of a sound link, wire to switch and switch to wire together.
pub(crate) const DELAY_NS: Ns = 100 * US;
/// Bytes of content in a full packet of 1472, for each 1538 on the wire: what a
/// perfect protocol would get.
pub(crate) const EFFICIENCY: f64 = 1430.0 / 1538.0;

/// From the first host to the second, without end.
pub(crate) const STREAM: StreamPlan = StreamPlan {
    from: 0,
    to: 1,
    policy: Policy::Stripe,
    forward_bytes: 1 << 40,
    back_bytes: 0,
    start: 0,
    pace: Pace::Bulk,
    reader: Reader::Eager,
    ending: Ending::Finish,
};

/// The same as frames.
pub(crate) const FRAMES: FlowPlan = FlowPlan {
    kind: UnitKind::Frame,
    from: 0,
    to: 1,
    flow: 0,
    tagged: false,
    policy: Policy::Auto,
    count: u32::MAX,
    bytes_min: FRAME_BYTES,
    bytes_max: FRAME_BYTES,
    start: 0,
    every_ns: 0,
    window_bytes: TCP_WINDOW_BYTES,
};

impl Traffic {
    /// Has it flow from one host to another, from `start` on.
    pub(crate) fn add_to(self, schedule: &mut Schedule, (from, to): (usize, usize), start: Ns) {
        let plan = &mut schedule.plan;
        match self {
            Traffic::Stream => plan.streams.push(StreamPlan {
                from,
                to,
                start,
                ..STREAM
            }),
            Traffic::Frames => plan.flows.push(FlowPlan {
                from,
                to,
                start,
                ..FRAMES
            }),
        }
    }
}
