//! Virtual time: what will happen, in order. Events of one instant happen in the
//! order in which they were planned, so a run is the same every time.

use super::PacketId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds of virtual time since the run began, as an observer outside of all
/// nodes would measure them.
pub type Ns = u64;

/// One microsecond.
pub const US: Ns = 1_000;
/// One millisecond.
pub const MS: Ns = 1_000_000;
/// One second.
pub const SECOND: Ns = 1_000_000_000;

/// Something that happens at an instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Happening {
    /// A packet has left its sender's wire and is at the switch.
    AtSwitch(PacketId),
    /// A packet has reached a host's socket.
    AtHost(PacketId),
    /// A host is due: packets wait, a timer ran out, or its application wants to act.
    Wake(usize),
    /// The schedule's fault with this index.
    Fault(usize),
    /// The attacker acts.
    Attack,
    /// The checkers that look at regular intervals look.
    Check,
}

impl Happening {
    /// A number for each kind of event and whom it concerns: to tell runs apart.
    pub const fn code(self) -> u64 {
        match self {
            Happening::AtSwitch(_) => 1,
            Happening::AtHost(_) => 2,
            Happening::Wake(host) => 16 + host as u64,
            Happening::Fault(i) => 32 + i as u64,
            Happening::Attack => 3,
            Happening::Check => 4,
        }
    }
}

/// The heap of everything planned.
#[derive(Debug)]
pub struct Events<T = Happening> {
    heap: BinaryHeap<Reverse<(Ns, u64, T)>>,
    planned: u64,
}

impl<T: Ord> Default for Events<T> {
    fn default() -> Events<T> {
        Events {
            heap: BinaryHeap::new(),
            planned: 0,
        }
    }
}

impl<T: Ord> Events<T> {
    /// Plans `what` for the instant `at`.
    pub fn plan(&mut self, at: Ns, what: T) {
        self.planned += 1;
        self.heap.push(Reverse((at, self.planned, what)));
    }

    /// The next thing that happens before `end`, and when.
    pub fn next_before(&mut self, end: Ns) -> Option<(Ns, T)> {
        let Reverse((at, ..)) = self.heap.peek()?;
        if *at >= end {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }

    /// How many events were ever planned: the run's length in steps.
    pub fn planned(&self) -> u64 {
        self.planned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_by_order_of_planning() {
        let mut events = Events::default();
        events.plan(5, Happening::Wake(1));
        events.plan(3, Happening::Check);
        events.plan(5, Happening::Attack);
        let order: Vec<_> = std::iter::from_fn(|| events.next_before(Ns::MAX)).collect();
        assert_eq!(
            order,
            [
                (3, Happening::Check),
                (5, Happening::Wake(1)),
                (5, Happening::Attack)
            ]
        );
    }
}
