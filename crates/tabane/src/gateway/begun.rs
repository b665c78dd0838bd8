//! Connections that are being begun: what their first packet said of windows, until there is a conversation to remember it with.

use std::collections::{BTreeMap, VecDeque};

use tabane_proto::gateway::{Brake, Ends, Tracker};

/// As many as are remembered: of a flood of first packets the last ones.
const BEGUN_MAX: usize = 8192;

/// By how many bits the windows of far ends are shifted (RFC 7323) whose connection is only just being begun.
#[derive(Debug, Default)]
pub struct Begun {
    shifts: BTreeMap<Ends, u8>,
    order: VecDeque<Ends>,
}

impl Begun {
    /// The far end between these ends shifts its windows so far: that is remembered with their conversation, or until there is one.
    pub fn hear<O: Copy + Ord>(&mut self, tracker: &mut Tracker<O>, ends: Ends, shift: u8) {
        match tracker.get_mut(ends) {
            Some(known) => known.brake = Some(Brake::new(shift)),
            None => self.note(ends, shift),
        }
    }

    /// There may be a conversation between these ends now, to remember what was heard.
    pub fn hand_over<O: Copy + Ord>(&mut self, tracker: &mut Tracker<O>, ends: Ends) {
        if let Some(known) = tracker.get_mut(ends)
            && known.brake.is_none()
        {
            known.brake = self.take(ends).map(Brake::new);
        }
    }

    fn note(&mut self, ends: Ends, shift: u8) {
        if self.shifts.insert(ends, shift).is_some() {
            return;
        }
        self.order.push_back(ends);
        if self.order.len() > BEGUN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.shifts.remove(&oldest);
        }
    }

    /// What was noted, which is somebody else's to remember now.
    pub fn take(&mut self, ends: Ends) -> Option<u8> {
        self.shifts.remove(&ends)
    }
}

#[cfg(test)]
mod tests {
    use tabane_proto::gateway::Transport;

    use super::*;

    #[test]
    fn of_a_flood_the_last_ones_are_remembered() {
        let ends = |port: u16| Ends {
            transport: Transport::Tcp,
            own: 80,
            far: ([192, 0, 2, 1], port).into(),
        };
        let mut begun = Begun::default();
        for port in 0..10_000 {
            begun.note(ends(port), 7);
            begun.note(ends(port), 8);
        }
        assert_eq!(begun.take(ends(0)), None);
        assert_eq!(begun.take(ends(9_999)), Some(8));
        assert_eq!(begun.take(ends(9_999)), None);
        assert!(begun.shifts.len() <= BEGUN_MAX && begun.order.len() <= BEGUN_MAX);
    }
}
