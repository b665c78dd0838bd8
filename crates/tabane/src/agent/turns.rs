//! Turns of moving bytes: a turn of the loop is bounded, and the rest waits, by owner, so that an owner
//! with much to move does not take the others' turns.

use std::collections::{BTreeMap, VecDeque};

use tabane_proto::{Node, Time};

use super::Agent;
use super::relay::Told;

/// The most bytes that all connections together move in a turn of the loop, each way: some milliseconds
/// of copying. Liveness decides within 25 ms.
pub(super) const TURN_BYTES_OF_ALL: usize = 8 * 1024 * 1024;
/// A turn of a relay costs as much as moving this, however little it moves.
const TURN_BYTES_MIN: usize = 4 * 1024;

/// Relays that have more to move than a turn lets them.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// By owner, in the order of arrival.
    waiting: BTreeMap<u32, VecDeque<usize>>,
    /// The owner of the last relay that had its turn.
    last: u32,
    /// Bytes left in this turn.
    left: usize,
}

impl Turns {
    /// A turn of the loop begins.
    fn begin(&mut self) {
        self.left = TURN_BYTES_OF_ALL;
    }

    /// Whether nothing more may be moved in this turn.
    pub fn is_over(&self) -> bool {
        self.left == 0
    }

    /// A relay has moved this many bytes.
    pub fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes.max(TURN_BYTES_MIN));
    }

    /// A relay of an owner is to have a turn. It does not wait already.
    pub fn wait(&mut self, owner: u32, relay: usize) {
        self.waiting.entry(owner).or_default().push_back(relay);
    }

    /// The relay whose turn it is: one of each owner in turn.
    fn next(&mut self) -> Option<usize> {
        let after = self.last.saturating_add(1)..;
        let next = self.waiting.range(after).next().map(|(owner, _)| *owner);
        let owner = next.or_else(|| self.waiting.keys().next().copied())?;
        self.last = owner;
        let of_owner = self.waiting.get_mut(&owner)?;
        let relay = of_owner.pop_front();
        if of_owner.is_empty() {
            self.waiting.remove(&owner);
        }
        relay
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    fn len(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }
}

impl Agent {
    /// A turn of the loop begins: waiting relays go on, those of each owner in turn.
    pub(super) fn take_turns(&mut self, now: Time, node: &mut Node) {
        self.turns.begin();
        // A relay that still has more waits for the next turn.
        for _ in 0..self.turns.len() {
            if self.turns.is_over() {
                break;
            }
            let Some(index) = self.turns.next() else {
                break;
            };
            // A finished one, or another one at its index, has nothing to move.
            if let Some(relay) = self.relays.get_mut(index).filter(|relay| relay.in_line) {
                relay.in_line = false;
                self.relay(now, node, index, Told::INTERRUPTED);
            }
        }
    }

    /// A relay has more to move than it may now.
    pub(super) fn wait_for_turn(&mut self, index: usize) {
        let Some(relay) = self.relays.get_mut(index).filter(|relay| !relay.in_line) else {
            return;
        };
        relay.in_line = true;
        let owner = self.books.owner(relay.place());
        self.turns.wait(owner, index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_take_turns_however_many_relays_one_has() {
        let mut turns = Turns::default();
        (0..100).for_each(|relay| turns.wait(7, relay));
        turns.wait(9, 200);
        turns.wait(3, 300);
        let order: Vec<_> = std::iter::from_fn(|| turns.next()).take(5).collect();
        assert_eq!(order, [300, 0, 200, 1, 2]);
        assert_eq!(turns.len(), 97);
    }

    #[test]
    fn a_turn_ends_also_for_those_who_move_nothing() {
        let mut turns = Turns::default();
        turns.begin();
        let most = TURN_BYTES_OF_ALL / TURN_BYTES_MIN;
        for _ in 0..most {
            assert!(!turns.is_over());
            turns.spend(0);
        }
        assert!(turns.is_over());
    }
}
