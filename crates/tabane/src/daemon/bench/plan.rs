//! What is measured one after the other, and for how long.

use core::time::Duration;
use std::collections::VecDeque;

use crate::bench::sample::Way;

/// Of the time of a phase, so much passes before anything counts: rates settle.
const WARM_PART: u32 = 4;

/// What is sent in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// Small messages alone.
    Idle,
    /// A stream each way.
    Streams,
    /// Datagrams.
    Datagrams,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    pub traffic: Traffic,
    /// Which ways.
    pub ways: Vec<Way>,
    /// Over this link alone.
    pub link: Option<u8>,
    /// How long it lasts.
    pub lasting: Duration,
}

impl Phase {
    /// How long it lasts before anything counts.
    pub fn warm(&self) -> Duration {
        self.lasting / WARM_PART
    }

    /// Whether small messages compete with bulk over all links.
    pub fn is_loaded(&self) -> bool {
        self.traffic == Traffic::Streams && self.link.is_none()
    }

    /// For people.
    pub fn name(&self, peer: &str) -> String {
        let ways = match self.ways.as_slice() {
            [Way::Out] => format!("to {peer}"),
            [Way::Back] => format!("from {peer}"),
            _ => "both ways".to_owned(),
        };
        match (self.traffic, self.link) {
            (Traffic::Idle, _) => "round trips while idle".to_owned(),
            (Traffic::Datagrams, _) => format!("datagrams {ways}"),
            (Traffic::Streams, Some(link)) => format!("link {link} alone, {ways}"),
            (Traffic::Streams, None) => format!("all links, {ways}"),
        }
    }
}

/// All phases of a measurement of so many seconds over these links.
pub fn plan(seconds: u32, links: &[u8], datagrams: bool) -> VecDeque<Phase> {
    let phase = |traffic, ways: &[Way], link, parts| Phase {
        traffic,
        ways: ways.to_vec(),
        link,
        lasting: Duration::from_secs(parts),
    };
    let mut phases = VecDeque::from([phase(Traffic::Idle, &[], None, 1)]);
    // The only one is measured as all.
    for link in links.iter().filter(|_| links.len() > 1) {
        for way in [Way::Out, Way::Back] {
            phases.push_back(phase(Traffic::Streams, &[way], Some(*link), 1));
        }
    }
    for ways in [&[Way::Out][..], &[Way::Back], &[Way::Out, Way::Back]] {
        phases.push_back(phase(Traffic::Streams, ways, None, 2));
    }
    for way in [Way::Out, Way::Back].iter().filter(|_| datagrams) {
        phases.push_back(phase(Traffic::Datagrams, &[*way], None, 2));
    }
    // So far in parts: each is this long.
    let parts: Duration = phases.iter().map(|phase| phase.lasting).sum();
    let part = f64::from(seconds) / parts.as_secs_f64();
    for phase in &mut phases {
        phase.lasting = phase.lasting.mul_f64(part);
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_take_the_time_that_there_is() {
        for (links, phases) in [
            (&[][..], 4),
            (&[3], 4),
            (&[0, 1], 8),
            (&[0, 1, 2, 3, 4, 5, 6, 7], 20),
        ] {
            for datagrams in [false, true] {
                let plan = plan(15, links, datagrams);
                let sum: Duration = plan.iter().map(|phase| phase.lasting).sum();
                assert!(sum.abs_diff(Duration::from_secs(15)) < Duration::from_millis(1));
                assert_eq!(plan.len(), phases + 2 * usize::from(datagrams));
                assert!(plan.iter().all(|phase| phase.warm() < phase.lasting));
            }
        }
    }

    #[test]
    fn each_phase_has_a_name() {
        let names: Vec<String> = plan(9, &[0, 1], true)
            .iter()
            .map(|phase| phase.name("n1"))
            .collect();
        assert_eq!(
            names,
            [
                "round trips while idle",
                "link 0 alone, to n1",
                "link 0 alone, from n1",
                "link 1 alone, to n1",
                "link 1 alone, from n1",
                "all links, to n1",
                "all links, from n1",
                "all links, both ways",
                "datagrams to n1",
                "datagrams from n1",
            ]
        );
    }
}
