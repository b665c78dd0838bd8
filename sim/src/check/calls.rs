//! The handshakes that a node begins: not one after the other without a pause, whatever becomes of them.

use super::{Checked, Rule, Violation};
use crate::net::{MS, Ns};
use std::collections::VecDeque;
use tabane_proto::wire::Kind;

const WINDOW_NS: Ns = 2_500 * MS;
/// With each other host, in that time: one at a start, and some more for what changes meanwhile (keys, links, a peer
/// that starts anew).
const PER_PEER_MAX: usize = 8;

/// What one host has begun lately: when, and under which session number.
#[derive(Clone, Debug, Default)]
pub struct Calls(VecDeque<(Ns, [u8; 4])>);

impl Calls {
    /// A host with so many peers sends a datagram.
    ///
    /// # Errors
    /// [`Rule::Calls`]: it begins handshakes without a pause.
    pub fn sent(&mut self, now: Ns, peers: usize, datagram: &[u8]) -> Checked {
        let Some((&[kind, _, s0, s1, s2, s3], _)) = datagram.split_first_chunk::<6>() else {
            return Ok(());
        };
        let number = [s0, s1, s2, s3];
        if kind != Kind::Init as u8 || self.0.iter().any(|(_, known)| *known == number) {
            return Ok(());
        }
        self.0.push_back((now, number));
        while self.0.front().is_some_and(|(at, _)| at + WINDOW_NS < now) {
            self.0.pop_front();
        }
        let count = self.0.len();
        if count <= peers * PER_PEER_MAX {
            return Ok(());
        }
        let what = format!("{count} handshakes are begun within 2.5 s, with {peers} others");
        Err(Violation::new(Rule::Calls, now, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_messages_are_one_handshake_and_many_in_a_second_are_seen() {
        let message = |number: u8| [Kind::Init as u8, 0, 0, 0, 0, number, 1, 2];
        let mut calls = Calls::default();
        for _ in 0..100 {
            assert!(calls.sent(MS, 1, &message(0)).is_ok());
        }
        let mut slow = (1..100).map(|n| calls.sent(Ns::from(n) * 400 * MS, 1, &message(n)));
        assert!(slow.all(|sent| sent.is_ok()));
        let mut fast = (100..120).map(|n| calls.sent(60_000 * MS, 1, &message(n)));
        assert!(fast.any(|sent| sent.is_err()));
    }
}
