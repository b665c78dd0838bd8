//! The windows that one end of a connection of TCP is shown in place of the other end's.
//!
//! A window in a header ends at `acknowledged + window` (RFC 9293, 3.8.6). The receiver's own end holds as well; an end that was
//! shown is never taken back.

/// Shifts of windows beyond this mean this (RFC 7323, 2.3).
const SHIFT_MAX: u8 = 14;

/// Whether a sequence number is behind another one, which is less than half of all away.
pub(super) const fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

/// Of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Windows {
    /// By how many bits the receiver's window is shifted (RFC 7323).
    shift: u8,
    /// End of the last advertised window.
    edge: Option<u32>,
}

impl Windows {
    pub const fn new(shift: u8) -> Windows {
        Windows {
            shift: if shift > SHIFT_MAX { SHIFT_MAX } else { shift },
            edge: None,
        }
    }

    pub const fn shift(&self) -> u8 {
        self.shift
    }

    pub const fn edge(&self) -> Option<u32> {
        self.edge
    }

    /// The window that the sender is shown where the receiver shows it this one, of a segment that acknowledges this sequence number: up
    /// to `edge`, or where it was allowed to go before.
    pub fn show(&mut self, acknowledged: u32, window: u16, edge: u32) -> u16 {
        let far_edge = acknowledged.wrapping_add(u32::from(window) << self.shift);
        let edge = match self.edge {
            Some(shown) if is_after(shown, edge) => shown,
            _ => edge,
        };
        if !is_after(far_edge, edge) {
            self.edge = Some(far_edge);
            return window;
        }
        // Acknowledged bytes were allowed.
        let ahead = if is_after(edge, acknowledged) {
            edge.wrapping_sub(acknowledged)
        } else {
            0
        };
        // Rounded up: less than was shown would take some of that back.
        let shown = ahead.div_ceil(1 << self.shift).min(u32::from(window));
        self.edge = Some(acknowledged.wrapping_add(shown << self.shift));
        shown as u16
    }
}
