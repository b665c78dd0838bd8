//! Measurements: by this node, for itself or for a peer that asked, and by peers for this node.

use super::{Node, Peer, met};
use crate::context::Event;
use crate::mesh::{Measurement, Step};
use crate::wire::{Measure, Measured, NodeId};
use crate::{PeerId, Time};

impl Node {
    /// Measures the path to a peer: [`Event::Measured`] says what came of it. With `in_trains` each probe has two more
    /// right behind it.
    pub fn measure(&mut self, now: Time, token: u32, to: PeerId, how: Measure, in_trains: bool) {
        if self.context.measuring.is_some() || !how.is_sound() {
            self.tell_own(token, Measured::Busy);
            return;
        }
        let new = Measurement::new(now, None, token, to, how, in_trains);
        self.context.measuring = Some(Box::new(new));
    }

    /// Asks the peer `by` to measure its path to another one, or to this node (none): [`Event::Measured`] says what came
    /// of it, if the question and its answer arrive. Of several questions only the last one's answer is told. Returns
    /// false if it cannot be asked.
    pub fn ask_to_measure(
        &mut self,
        token: u32,
        by: PeerId,
        to: Option<PeerId>,
        how: Measure,
    ) -> bool {
        let mesh = &self.context.mesh;
        let to: Option<NodeId> = to.map_or(Some(mesh.me()), |to| mesh.id(to));
        let Some(to) = to.filter(|_| how.is_sound()) else {
            return false;
        };
        let asked =
            met(&mut self.peers, by).is_some_and(|bundle| bundle.ask_to_measure(token, to, how));
        self.turns.touch(by);
        asked
    }

    fn tell_own(&mut self, token: u32, outcome: Measured) {
        let behind = None;
        self.context.event(Event::Measured {
            token,
            outcome,
            behind,
        });
    }

    /// Goes on with the measurement, if something of it is due.
    pub(super) fn tend_measurement(&mut self, now: Time) {
        let due = self.context.measuring.as_ref();
        let Some((to, how)) = due
            .filter(|m| m.next_timeout() <= now)
            .map(|m| (m.to, m.how))
        else {
            return;
        };
        let works = met(&mut self.peers, to).is_some_and(|bundle| bundle.takes_probes(&how));
        let mut all = self.peers.iter().flatten().filter_map(Peer::met);
        let idle = !all.any(|bundle| bundle.is_loaded(how.link));
        let share = self.context.random.below(1024);
        let Some(measuring) = &mut self.context.measuring else {
            return;
        };
        match measuring.on_timeout(now, works, idle, share) {
            Step::Wait => {}
            Step::Probe => self.touch(to),
            Step::Over(outcome) => self.end_measurement(outcome),
        }
    }

    /// Tells who wanted the measurement what came of it.
    fn end_measurement(&mut self, outcome: Measured) {
        let Some(over) = self.context.measuring.take() else {
            return;
        };
        let Some(asker) = over.asker else {
            return self.context.event(Event::Measured {
                token: over.token,
                outcome,
                behind: over.behind(),
            });
        };
        if let Some(bundle) = met(&mut self.peers, asker) {
            let has_room = bundle.tell_measured(over.token, outcome);
            self.context.stats.violation += u64::from(!has_room);
            self.touch(asker);
        }
    }

    /// A peer goes: nothing of it is measured any more, nor for it.
    pub(super) fn end_measurements_of(&mut self, peer: PeerId) {
        let of_it = |m: &Measurement| m.to == peer || m.asker == Some(peer);
        if self.context.measuring.as_deref().is_some_and(of_it) {
            self.end_measurement(Measured::Unreached);
        }
    }
}
