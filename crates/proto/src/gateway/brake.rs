//! Keeps a TCP sender's excess data in its socket: the advertised window ends a little behind what has left the gateway (paper
//! 004, 2.2.2, without a change to the sender's TCP).

use super::windows::{Windows, is_after};

/// Of one direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Brake {
    windows: Windows,
    /// Up to where the sender's bytes have left; unknown until some have.
    passed: Option<u32>,
}

/// The window's end advances by at most this many bytes at once: senders cut their segments at it.
const STEP_BYTES_MAX: usize = 48 * 1024;

impl Brake {
    /// For a receiver with this window shift.
    pub const fn new(shift: u8) -> Brake {
        Brake {
            windows: Windows::new(shift),
            passed: None,
        }
    }

    /// By how many bits the receiver's windows are shifted.
    pub const fn shift(&self) -> u8 {
        self.windows.shift()
    }

    /// The sender's bytes in front of this sequence number have left.
    pub fn has_passed(&mut self, end: u32) {
        if self.passed.is_none_or(|passed| is_after(end, passed)) {
            self.passed = Some(end);
        }
    }

    /// The window to advertise to the sender in place of the receiver's, for a segment with this acknowledgement number. `room`:
    /// how far it may go ahead of what has left, in bytes.
    pub fn window(&mut self, acknowledged: u32, window: u16, room: usize) -> u16 {
        let Some(passed) = self.passed else {
            return window;
        };
        let base = if is_after(acknowledged, passed) {
            acknowledged
        } else {
            passed
        };
        let mut edge = base.wrapping_add(room as u32);
        // Smaller steps would make the sender send small pieces; it always keeps at least half of the room.
        let step = (room / 2).min(STEP_BYTES_MAX) as u32;
        if let Some(shown) =
            (self.windows.edge()).filter(|shown| is_after(shown.wrapping_add(step), edge))
        {
            edge = shown;
        }
        self.windows.show(acknowledged, window, edge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_sees_no_more_than_its_room() {
        let mut brake = Brake::new(7);
        assert_eq!(brake.window(1000, 512, 10_000), 512, "nothing has left yet");
        brake.has_passed(5000);
        // 5000 + 10240 - 1000, in steps of 128.
        assert_eq!(brake.window(1000, 512, 10_240), 112);
        assert_eq!(brake.window(1000, 50, 10_240), 50, "the receiver has less");
        brake.has_passed(4000);
        assert_eq!(brake.window(5000, 512, 10_240), 80, "sent again");
    }

    #[test]
    fn what_was_shown_is_not_taken_back() {
        let mut brake = Brake::new(0);
        brake.has_passed(1000);
        assert_eq!(brake.window(1000, 60_000, 20_000), 20_000);
        assert_eq!(brake.window(2000, 60_000, 5_000), 19_000);
        brake.has_passed(19_000);
        assert_eq!(brake.window(15_000, 60_000, 5_000), 9_000);
    }

    #[test]
    fn numbers_begin_anew_at_the_end() {
        let mut brake = Brake::new(0);
        brake.has_passed(u32::MAX - 100);
        assert_eq!(brake.window(u32::MAX - 200, 60_000, 1000), 1100);
        brake.has_passed(500);
        assert_eq!(brake.window(200, 60_000, 1000), 1300);
        brake.has_passed(u32::MAX);
        assert_eq!(brake.window(200, 60_000, 1000), 1300);
    }

    #[test]
    fn an_acknowledgement_of_what_was_not_seen_counts_as_passed() {
        let mut brake = Brake::new(0);
        brake.has_passed(1000);
        assert_eq!(brake.window(9000, 60_000, 1000), 1000);
        assert_eq!(Brake::new(99).shift(), 14);
    }
}
