//! Connections that are being begun: the window options of their first packets, until there is a conversation to store them in.
//!
//! A window is shifted as both ends agreed when the connection began, and the next gateway must be told.

use std::collections::{BTreeMap, VecDeque};

use tabane_proto::gateway::{Ends, Shifts, Throttle, Tracker};

use super::packet::End;

/// As many as are remembered: of a flood of first packets the last ones.
const BEGUN_MAX: usize = 8192;

/// Each end's option: whether it wants windows to be shifted (RFC 7323), and by how many bits.
#[derive(Clone, Copy, Debug, Default)]
struct Scales {
    own: Option<Option<u8>>,
    far: Option<Option<u8>>,
}

/// How windows are shifted of connections that are only just being begun.
#[derive(Debug, Default)]
pub struct Begun {
    scales: BTreeMap<Ends, Scales>,
    order: VecDeque<Ends>,
}

impl Begun {
    /// Somebody begins a connection between these ends; or answers so.
    pub fn hear<O: Copy + Ord>(
        &mut self,
        tracker: &mut Tracker<O>,
        ends: Ends,
        from: End,
        scale: Option<u8>,
    ) {
        self.note(ends, from, scale);
        if let Some(known) = tracker.get_mut(ends)
            && let Some(shifts) = self.shifts(ends)
            && known.throttle.as_ref().map(Throttle::shifts) != Some(shifts)
        {
            known.throttle = Some(Throttle::new(shifts));
        }
    }

    /// If there is a conversation between these ends now, stores the options there.
    pub fn hand_over<O: Copy + Ord>(&self, tracker: &mut Tracker<O>, ends: Ends) {
        if let Some(known) = tracker.get_mut(ends)
            && known.throttle.is_none()
        {
            known.throttle = self.shifts(ends).map(Throttle::new);
        }
    }

    /// The conversation between these ends is over: another one may be begun there.
    pub fn forget(&mut self, ends: Ends) {
        self.scales.remove(&ends);
    }

    fn shifts(&self, ends: Ends) -> Option<Shifts> {
        let scales = self.scales.get(&ends)?;
        Some(Shifts::of(scales.own?, scales.far?))
    }

    fn note(&mut self, ends: Ends, from: End, scale: Option<u8>) {
        let scales = self.scales.entry(ends).or_insert_with(|| {
            self.order.push_back(ends);
            Scales::default()
        });
        match from {
            End::Source => scales.own = Some(scale),
            End::Destination => scales.far = Some(scale),
        }
        while self.order.len() > BEGUN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.scales.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use tabane_proto::gateway::Transport;

    use super::*;

    fn ends(port: u16) -> Ends {
        Ends {
            transport: Transport::Tcp,
            own: 80,
            far: ([192, 0, 2, 1], port).into(),
        }
    }

    #[test]
    fn of_a_flood_the_last_ones_are_remembered() {
        let mut begun = Begun::default();
        for port in 0..10_000 {
            begun.note(ends(port), End::Destination, Some(7));
            begun.note(ends(port), End::Destination, Some(8));
            begun.note(ends(port), End::Source, Some(3));
        }
        let shifts = |own, far| Some(Shifts { own, far });
        assert_eq!(begun.shifts(ends(0)), None);
        assert_eq!(begun.shifts(ends(9_999)), shifts(3, 8));
        assert!(begun.scales.len() <= BEGUN_MAX && begun.order.len() <= BEGUN_MAX);
    }

    #[test]
    fn windows_are_shifted_if_both_want_it() {
        let mut begun = Begun::default();
        begun.note(ends(1), End::Source, Some(7));
        assert_eq!(begun.shifts(ends(1)), None, "the far end has not answered");
        begun.note(ends(1), End::Destination, None);
        assert_eq!(begun.shifts(ends(1)), Some(Shifts { own: 0, far: 0 }));
    }
}
