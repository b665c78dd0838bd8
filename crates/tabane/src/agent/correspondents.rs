//! Whom a program speaks with by datagrams that has bound all addresses: the answer comes from the
//! address of this node that it was asked at, and goes to the address that the program's socket has.

use core::time::Duration;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use tabane_proto::Time;

/// The most correspondents; beyond it the port with most forgets its least recent one, which is then
/// answered from the address that the route to it has.
pub const CORRESPONDENTS_MAX: usize = 4096;
/// A correspondent that was silent for this long is forgotten.
const IDLE_MAX: Duration = Duration::from_secs(120);

#[derive(Debug)]
struct Addresses {
    /// This node's address that the correspondent asked last.
    outside: Option<IpAddr>,
    /// The address of the program's socket, if the program has not chosen one.
    inside: Option<IpAddr>,
    used: Time,
}

/// All correspondents, by port and address.
#[derive(Debug, Default)]
pub struct Correspondents(HashMap<(usize, SocketAddr), Addresses>);

impl Correspondents {
    /// `from` has sent to port `index` at an address. Returns the address to deliver it to.
    pub fn asked(&mut self, now: Time, index: usize, from: SocketAddr, at: IpAddr) -> IpAddr {
        let entry = self.entry(now, (index, from));
        entry.outside = Some(at);
        entry.inside.unwrap_or(at)
    }

    /// The program of port `index` sends, from an address that it has chosen, or else `None`. Returns
    /// the source address to use, if the correspondent has asked at one.
    pub fn sent(
        &mut self,
        now: Time,
        index: usize,
        to: SocketAddr,
        from: Option<IpAddr>,
    ) -> Option<IpAddr> {
        let entry = self.entry(now, (index, to));
        entry.inside = from;
        entry.outside
    }

    fn entry(&mut self, now: Time, key: (usize, SocketAddr)) -> &mut Addresses {
        if self.0.len() >= CORRESPONDENTS_MAX && !self.0.contains_key(&key) {
            self.forget_oldest_of_most();
        }
        let entry = self.0.entry(key).or_insert(Addresses {
            outside: None,
            inside: None,
            used: now,
        });
        entry.used = now;
        entry
    }

    /// Forgets the least recent correspondent of the port with most: other ports lose none.
    fn forget_oldest_of_most(&mut self) {
        let mut of_port: HashMap<usize, usize> = HashMap::new();
        for (index, _) in self.0.keys() {
            *of_port.entry(*index).or_default() += 1;
        }
        let most = of_port
            .into_iter()
            .max_by_key(|(index, count)| (*count, *index));
        let of_most = self
            .0
            .iter()
            .filter(|((index, _), _)| most.is_some_and(|(most, _)| *index == most));
        let oldest = of_most.min_by_key(|(_, of)| of.used);
        if let Some(key) = oldest.map(|(key, _)| *key) {
            self.0.remove(&key);
        }
    }

    /// Forgets silent correspondents.
    pub fn forget_old(&mut self, now: Time) {
        self.0.retain(|_, of| now.since(of.used) < IDLE_MAX);
    }

    /// Forgets correspondents of ports that are gone.
    pub fn retain(&mut self, is_there: impl Fn(usize) -> bool) {
        self.0.retain(|(index, _), _| is_there(*index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    fn host(port: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 1, 1], port as u16))
    }

    fn time(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_answer_comes_from_where_it_was_asked() {
        let mut with = Correspondents::default();
        assert_eq!(with.sent(time(1), 3, host(1), Some(at(9))), None);
        assert_eq!(with.asked(time(1), 3, host(1), at(1)), at(9));
        assert_eq!(with.sent(time(1), 3, host(1), Some(at(9))), Some(at(1)));
        // A program that has chosen an address gets what is sent to it.
        assert_eq!(with.sent(time(1), 3, host(1), None), Some(at(1)));
        assert_eq!(with.asked(time(1), 3, host(1), at(2)), at(2));
        // Another port is another matter.
        assert_eq!(with.asked(time(1), 4, host(1), at(2)), at(2));
        with.retain(|index| index == 4);
        assert_eq!(with.sent(time(1), 3, host(1), None), None);
        assert_eq!(with.sent(time(1), 4, host(1), None), Some(at(2)));
    }

    #[test]
    fn who_was_heard_of_least_lately_is_forgotten() {
        let mut with = Correspondents::default();
        for port in 0..CORRESPONDENTS_MAX {
            with.asked(time(1), 3, host(port), at(1));
        }
        with.asked(time(2), 3, host(0), at(1));
        with.asked(time(2), 4, host(0), at(1));
        assert_eq!(with.0.len(), CORRESPONDENTS_MAX);
        assert_eq!(with.sent(time(2), 3, host(0), None), Some(at(1)));
        // Of the port with most: the other one keeps its correspondent.
        for port in 0..CORRESPONDENTS_MAX {
            with.asked(time(3), 3, host(CORRESPONDENTS_MAX + port), at(1));
        }
        assert_eq!(with.sent(time(3), 4, host(0), None), Some(at(1)));
        with.forget_old(time(122));
        assert_eq!(with.0.len(), CORRESPONDENTS_MAX);
    }
}
