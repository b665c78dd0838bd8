//! At which of this node's addresses a program was asked, that has bound all of them: its answer is
//! to come from there.

use core::time::Duration;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use tabane_proto::Time;

/// Who asks, at once; beyond it whoever asked least lately is forgotten, and answered from the
/// address that the route to there has.
pub const ASKED_MAX: usize = 4096;
/// Who says nothing for so long is forgotten.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// Who asked, which port.
#[derive(Debug, Default)]
pub struct Asked(HashMap<(usize, SocketAddr), (IpAddr, Time)>);

impl Asked {
    /// `from` has asked port `index` at an address.
    pub fn note(&mut self, now: Time, index: usize, from: SocketAddr, at: IpAddr) {
        let key = (index, from);
        if self.0.len() >= ASKED_MAX && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(key, _)| *key);
            if let Some(key) = oldest {
                self.0.remove(&key);
            }
        }
        self.0.insert(key, (at, now));
    }

    /// Where `from` asked port `index` last.
    pub fn at(&mut self, now: Time, index: usize, from: SocketAddr) -> Option<IpAddr> {
        let (at, used) = self.0.get_mut(&(index, from))?;
        *used = now;
        Some(*at)
    }

    /// Forgets who says nothing any more.
    pub fn forget_old(&mut self, now: Time) {
        self.0.retain(|_, (_, used)| now.since(*used) < IDLE_MAX);
    }

    /// Forgets who asked ports that are gone.
    pub fn retain(&mut self, is_there: impl Fn(usize) -> bool) {
        self.0.retain(|(index, _), _| is_there(*index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_address_counts_and_the_oldest_is_forgotten() {
        let mut asked = Asked::default();
        let at = |number: u8| IpAddr::from([10, 0, 0, number]);
        let from = |port: usize| SocketAddr::from(([10, 0, 1, 1], port as u16));
        let time = |seconds| Time::ZERO + Duration::from_secs(seconds);
        for port in 0..ASKED_MAX {
            asked.note(time(1), 3, from(port), at(1));
        }
        asked.note(time(2), 3, from(1), at(2));
        assert_eq!(asked.at(time(3), 3, from(1)), Some(at(2)));
        assert_eq!(asked.at(time(3), 4, from(1)), None);
        asked.note(time(3), 4, from(1), at(1));
        assert_eq!(asked.0.len(), ASKED_MAX);
        asked.forget_old(time(122));
        assert_eq!(asked.0.len(), 2);
        asked.retain(|index| index == 4);
        assert_eq!(asked.at(time(123), 3, from(1)), None);
        assert_eq!(asked.at(time(123), 4, from(1)), Some(at(1)));
    }
}
