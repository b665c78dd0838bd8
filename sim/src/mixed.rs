//! Links of all sorts together, drawn from a seed: more of them never carry less than the best one alone.

use crate::bulk::{EFFICIENCY, Traffic};
use crate::net::{Conditions, MS, Ns, US};
use crate::random::Random;
use crate::run::goodput_between;
use crate::schedule::Schedule;
use std::fmt;

/// When it is measured: what has to be found out has been.
const WINDOW: (Ns, Ns) = (1500 * MS, 3500 * MS);
/// Less than the best link alone carries by more than this is harm.
const HARM: f64 = 0.98;
/// The least buffer of a port: some twenty packets.
const BUFFER_BYTES_MIN: u64 = 32 << 10;

/// One link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Rate in Mb/s.
    pub mbps: u64,
    /// The way from one host to the other without queues, in microseconds.
    pub delay_us: u64,
    /// Packets lost by chance, of a million.
    pub loss_ppm: u32,
    /// What waits before it at most, as the time that takes, in milliseconds.
    pub buffer_ms: u64,
}

/// Bulk from one host to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mixed {
    /// The links.
    pub links: Vec<Link>,
    /// What is carried.
    pub traffic: Traffic,
}

/// What a mixture of links carries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share {
    /// As a part of what the best of them alone does.
    pub of_best: f64,
    /// As a part of what all of them could.
    pub of_sum: f64,
}

impl Share {
    /// Whether the best link alone would carry more.
    #[must_use]
    pub fn is_harm(&self) -> bool {
        self.of_best < HARM
    }
}

impl Mixed {
    /// The mixture of a seed: two to four links, in half of them far ones; one of three has a link that loses.
    #[must_use]
    pub fn draw(seed: u64) -> Mixed {
        let mut random = Random::new(seed);
        let fastest = random.pick(&[20, 100, 300, 1000]);
        let common = random.pick(&[100, 100, 1000, 4000, 10_000]);
        let count = random.between(2, 4);
        let mut links: Vec<Link> = (0..count)
            .map(|_| {
                let delay_us = random.pick(&[100, 500, 2000, 5000, 15_000, 30_000]);
                Link {
                    mbps: (fastest / random.pick(&[1, 1, 1, 2, 3, 5, 20])).max(2),
                    delay_us: random.pick(&[common, delay_us]),
                    loss_ppm: 0,
                    buffer_ms: random.pick(&[5, 20, 50, 100]),
                }
            })
            .collect();
        if random.below(3) == 0 {
            let lossy = random.below(count) as usize;
            links[lossy].loss_ppm = random.pick(&[100, 1000, 10_000, 50_000, 300_000]);
        }
        let traffic = random.pick(&[Traffic::Stream, Traffic::Frames]);
        Mixed { links, traffic }
    }

    fn schedule(&self, links: &[Link]) -> Schedule {
        let mut s = Schedule::quiet(2, links.len());
        for host in &mut s.hosts {
            host.wires = links.iter().map(Link::wires).collect();
        }
        for (wires, link) in s.hosts[0].wires.iter_mut().zip(links) {
            wires.0.loss_ppm = link.loss_ppm;
        }
        self.traffic.add_to(&mut s, (0, 1), 0);
        s
    }

    /// Bytes of content that arrive over these of the links.
    fn carried(&self, links: &[Link]) -> f64 {
        let carried = goodput_between(&self.schedule(links), WINDOW, &[(0, 1)]);
        carried.unwrap_or_else(|violation| panic!("{self}: {violation}"))[0].0 as f64
    }

    /// Lets it run, and each link alone.
    ///
    /// # Panics
    /// If a rule of the simulator is broken.
    #[must_use]
    pub fn share(&self) -> Share {
        let together = self.carried(&self.links);
        let alone = self.links.chunks(1).map(|link| self.carried(link));
        let could: f64 = self.links.iter().map(Link::could_bps).sum();
        let seconds = (WINDOW.1 - WINDOW.0) as f64 / 1e9;
        Share {
            of_best: together / alone.fold(1.0, f64::max),
            of_sum: together * 8.0 / seconds / could,
        }
    }
}

impl Link {
    /// From a host to the switch, which is the narrow place, and from there to a host.
    fn wires(&self) -> (Conditions, Conditions) {
        let bps = self.mbps * 1_000_000;
        let buffer = (bps / 8 * self.buffer_ms / 1000).max(BUFFER_BYTES_MIN);
        let half = self.delay_us * US / 2;
        (
            Conditions::clean(bps, half, buffer),
            Conditions::clean(bps * 10, half, buffer.max(1 << 20)),
        )
    }

    /// Bits of content a second that a perfect protocol would carry.
    fn could_bps(&self) -> f64 {
        let arrives = 1.0 - f64::from(self.loss_ppm) / 1e6;
        self.mbps as f64 * 1e6 * arrives * EFFICIENCY
    }
}

impl fmt::Display for Mixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} over", self.traffic)?;
        for link in &self.links {
            let Link {
                mbps,
                delay_us,
                buffer_ms,
                ..
            } = link;
            let loss = f64::from(link.loss_ppm) / 1e4;
            write!(
                f,
                " [{mbps} Mb/s, {delay_us} µs, loses {loss}%, holds {buffer_ms} ms]"
            )?;
        }
        Ok(())
    }
}
