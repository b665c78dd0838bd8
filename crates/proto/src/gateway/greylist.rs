//! What a flood of first packets (SYN flooding, RFC 4987) may cost the nodes behind a gateway.
//!
//! A stranger who begins connections in the names of others never hears the answers. So the gateway counts the connections that
//! began and were not confirmed. While there are few, every SYN goes to its node. When there are many, a gateway drops the first SYN of
//! a connection and lets the second one pass: a true client repeats it after a second (RFC 6298, section 2), and a flood whose
//! sources are random does not. A host that has confirmed a connection lately is a true one, and does not wait.
//! (Mail servers call it greylisting.)

use core::time::Duration;
use std::net::IpAddr;

use super::Ends;
use crate::Time;
use crate::allowance::Allowance;

/// Connections that may have begun and not be confirmed yet, while nobody has to ask twice. A web server's clients a round trip of
/// 0.1 s away begin 10,000 a second with it.
const UNCONFIRMED_BURST: u32 = 1024;
/// One of them is taken for given up after this: the nodes answer 1,000 SYNs a second of a flood.
const UNCONFIRMED_INTERVAL: Duration = Duration::from_millis(1);
/// Who asks for the second time does so within this at the latest: Linux asks again after 1, 3 and 7 s.
const ASKED_LIFETIME: Duration = Duration::from_secs(4);
/// 40,000 SYNs a second for 4 s fill a sixth of it: one in a thousand passes as a second one.
const ASKED_BITS: usize = 1 << 22;
/// So long at least it is remembered that a host is a true one.
const TRUE_LIFETIME: Duration = Duration::from_secs(300);
/// 50,000 hosts fill a third of it: one stranger in a hundred passes for one of them.
const TRUE_BITS: usize = 1 << 19;
/// Bits for each item.
const HASHES: u64 = 4;

/// What was seen lately: a Bloom filter (Bloom, 1970) of what came since a moment, and the one before it.
#[derive(Debug)]
struct Recent {
    lifetime: Duration,
    bits: usize,
    began: Time,
    /// Of this period and of the one before, empty until something was seen.
    periods: [Vec<u64>; 2],
}

impl Recent {
    const fn new(bits: usize, lifetime: Duration) -> Recent {
        Recent {
            lifetime,
            bits,
            began: Time::ZERO,
            periods: [Vec::new(), Vec::new()],
        }
    }

    /// Places of an item, by double hashing (Kirsch and Mitzenmacher, 2006).
    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (first, step, bits) = (hash, hash.rotate_left(32) | 1, self.bits);
        (0..HASHES).map(move |n| {
            let place = first.wrapping_add(n.wrapping_mul(step)) as usize % bits;
            (place / 64, 1 << (place % 64))
        })
    }

    fn turn(&mut self, now: Time) {
        let passed = now.since(self.began);
        if passed < self.lifetime {
            return;
        }
        self.began = now;
        self.periods.swap(0, 1);
        self.periods[0].clear();
        if passed >= 2 * self.lifetime {
            self.periods[1].clear();
        }
    }

    fn insert(&mut self, now: Time, hash: u64) {
        self.turn(now);
        self.periods[0].resize(self.bits / 64, 0);
        for (word, bit) in self.places(hash) {
            self.periods[0][word] |= bit;
        }
    }

    fn contains(&mut self, now: Time, hash: u64) -> bool {
        self.turn(now);
        let has = |period: &Vec<u64>| {
            let is_set = |(word, bit): (usize, u64)| period[word] & bit != 0;
            !period.is_empty() && self.places(hash).all(is_set)
        };
        self.periods.iter().any(has)
    }
}

/// Who may begin a connection now.
#[derive(Debug)]
pub struct Greylist {
    unconfirmed: Allowance,
    /// The same for those who ask twice: a flood may do that, too.
    again: Allowance,
    asked: Recent,
    true_hosts: Recent,
}

impl Default for Greylist {
    fn default() -> Greylist {
        let allowance = Allowance::new(UNCONFIRMED_BURST, UNCONFIRMED_INTERVAL);
        Greylist {
            unconfirmed: allowance,
            again: allowance,
            asked: Recent::new(ASKED_BITS, ASKED_LIFETIME),
            true_hosts: Recent::new(TRUE_BITS, TRUE_LIFETIME),
        }
    }
}

impl Greylist {
    /// A SYN came for a connection that is not known. Returns whether its node is to hear of it now.
    pub fn admits(&mut self, now: Time, ends: Ends) -> bool {
        if self.true_hosts.contains(now, hash_of_host(ends.far.ip())) || self.unconfirmed.take(now)
        {
            return true;
        }
        let hash = mix(hash_of_host(ends.far.ip()) ^ u64::from(ends.far.port()) << 16)
            ^ u64::from(ends.own);
        let hash = mix(hash);
        if self.asked.contains(now, hash) {
            return self.again.take(now);
        }
        self.asked.insert(now, hash);
        false
    }

    /// A host has confirmed a connection that it began, so it hears what is sent to it.
    pub fn is_true(&mut self, now: Time, host: IpAddr) {
        self.unconfirmed.give_back();
        self.true_hosts.insert(now, hash_of_host(host));
    }
}

fn hash_of_host(host: IpAddr) -> u64 {
    match host {
        IpAddr::V4(v4) => mix(u64::from(v4.to_bits())),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            mix(mix((bits >> 64) as u64) ^ bits as u64)
        }
    }
}

/// SplitMix64's finalizer (Steele, Lea, Flood, 2014).
const fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::Transport;
    use super::*;

    fn ends(host: u32, port: u16) -> Ends {
        Ends {
            transport: Transport::Tcp,
            own: 80,
            far: (IpAddr::V4(host.into()), port).into(),
        }
    }

    const CLIENT: u32 = 0x0a00_0001;
    const STRANGERS: u32 = 0xc612_0000;

    /// A flood of so many SYNs a second, each from elsewhere, from `from` on for so long. Returns how many passed.
    fn flood(list: &mut Greylist, from: Time, lasting: Duration, per_s: u32) -> u32 {
        let count = (f64::from(per_s) * lasting.as_secs_f64()) as u32;
        let begun = from.as_ns() as u32;
        let passes = |n: &u32| {
            let source =
                STRANGERS.wrapping_add(begun.wrapping_add(*n).wrapping_mul(0x9e37_79b1) >> 8);
            let at = from + lasting * *n / count;
            list.admits(at, ends(source, (*n % 60_000) as u16 + 1024))
        };
        (0..count).filter(passes).count() as u32
    }

    #[test]
    fn many_who_confirm_wait_for_nothing() {
        let mut list = Greylist::default();
        for n in 0..100_000 {
            let now = Time::from_ms(1000) + Duration::from_micros(10) * n;
            assert!(list.admits(now, ends(CLIENT + n, 4000)), "{n}");
            list.is_true(now, ends(CLIENT + n, 4000).far.ip());
        }
    }

    #[test]
    fn few_of_a_flood_pass_and_a_client_does_when_it_asks_again() {
        let mut list = Greylist::default();
        let (mut now, step) = (Time::from_ms(1000), Duration::from_secs(1));
        let _ = flood(&mut list, now, step, 40_000);
        now += step;
        let mut passed = 0;
        for client in 0..20 {
            let asks = ends(CLIENT + client, 4000);
            if list.admits(now, asks) {
                continue;
            }
            passed += flood(&mut list, now, step, 40_000);
            now += step;
            assert!(list.admits(now, asks), "{client}");
        }
        assert!(passed < 20 * 1500, "{passed}");
    }

    #[test]
    fn who_has_been_there_lately_does_not_wait() {
        let mut list = Greylist::default();
        let (mut now, step) = (Time::from_ms(1000), Duration::from_secs(2));
        assert!(list.admits(now, ends(CLIENT, 4000)));
        list.is_true(now, ends(CLIENT, 4000).far.ip());
        for port in 5000..5100 {
            let _ = flood(&mut list, now, step, 5_000);
            now += step;
            assert!(list.admits(now, ends(CLIENT, port)), "{port}");
        }
        let mut passed = |now, host| (0..50).filter(|n| list.admits(now, ends(host, *n))).count();
        assert!(passed(now, CLIENT + 1) < 3);
        assert_eq!(passed(now, CLIENT), 50);
        now += 2 * TRUE_LIFETIME;
        let _ = flood(&mut list, now, step, 5_000);
        now += step;
        let passed = (50..100).filter(|n| list.admits(now, ends(CLIENT, *n)));
        assert!(passed.count() < 3, "that was long ago");
    }

    #[test]
    fn a_flood_that_asks_twice_has_as_many_again_and_no_more() {
        let mut list = Greylist::default();
        let now = Time::from_ms(1000);
        let asks = |n: u32| ends(STRANGERS + n % 20_000, 4000);
        let passes = |n: &u32| list.admits(now + Duration::from_micros(25) * *n, asks(*n));
        let passed = (0..80_000).filter(passes).count();
        assert!(
            passed < 2 * (UNCONFIRMED_BURST as usize + 2_000),
            "{passed}"
        );
    }
}
