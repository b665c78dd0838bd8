//! Limits both ends of a TCP connection through their advertised windows.

use super::{Brake, Intake};

/// By how many bits the windows of both ends are shifted (RFC 7323).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shifts {
    /// Those of the end inside.
    pub own: u8,
    /// Those of the far end.
    pub far: u8,
}

impl Shifts {
    /// By what both say at the beginning: they are shifted if both ask for it (section 2.2).
    pub fn of(own: Option<u8>, far: Option<u8>) -> Shifts {
        match (own, far) {
            (Some(own), Some(far)) => Shifts { own, far },
            _ => Shifts { own: 0, far: 0 },
        }
    }
}

/// Limits both ends.
#[derive(Debug)]
pub struct Throttle {
    /// The end inside.
    pub brake: Brake,
    /// The far end.
    pub intake: Intake,
}

impl Throttle {
    /// For a connection with these window shifts.
    pub const fn new(shifts: Shifts) -> Throttle {
        Throttle {
            brake: Brake::new(shifts.far),
            intake: Intake::new(shifts.own),
        }
    }

    /// How its windows are shifted.
    pub const fn shifts(&self) -> Shifts {
        Shifts {
            own: self.intake.shift(),
            far: self.brake.shift(),
        }
    }
}
