//! ping, every 50 ms: what was lost, and for how long nothing came.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::Traffic;
use crate::soak::ledger::Struck;
use tabane_lab::LabError;
use tabane_lab::cluster::Program;

const LOOK: Duration = Duration::from_millis(100);
/// Shorter gaps than this are not kept.
const GAP_MS: u64 = 200;
const GAPS_MAX: usize = 10_000;
/// After the end of an outage, a gap may last a little longer.
const AFTER_MS: u64 = 1_000;

/// What became of the pings between two nodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pings {
    /// The nodes.
    pub nodes: [usize; 2],
    /// Sent.
    pub sent: u64,
    /// Answered.
    pub answered: u64,
    /// Sent by earlier runs of the program, which counts from one each time.
    earlier: u64,
    /// Longer times without an answer: from when to when, Unix milliseconds.
    pub gaps: Vec<(u64, u64)>,
    last_ms: u64,
}

impl Pings {
    /// Note an answer: its sequence number of 16 bits, and when it came.
    fn note(&mut self, sequence: u16, at_ms: u64) {
        let ahead = sequence.wrapping_sub((self.sent - self.earlier) as u16) as i16;
        if ahead > 0 {
            self.sent += ahead as u64;
        }
        self.answered += 1;
        if self.last_ms > 0
            && at_ms.saturating_sub(self.last_ms) > GAP_MS
            && self.gaps.len() < GAPS_MAX
        {
            self.gaps.push((self.last_ms, at_ms));
        }
        self.last_ms = self.last_ms.max(at_ms);
    }

    /// The longest time without an answer, from when to when, Unix milliseconds: of all, and of
    /// those in which no fault by itself left the nodes without a link or a daemon. (Several
    /// together may have.)
    pub fn longest(&self, struck: &[Struck]) -> [(u64, u64); 2] {
        let long = |(begin, end): &&(u64, u64)| end - begin;
        let parted = |&&(begin, end): &&(u64, u64)| {
            let mut parting = struck.iter().filter(|one| one.strike.parts(self.nodes));
            parting.any(|one| one.meets(begin.saturating_sub(AFTER_MS), end))
        };
        let all = self.gaps.iter().max_by_key(long);
        let linked = self.gaps.iter().filter(|gap| !parted(gap));
        [all, linked.max_by_key(long)].map(|gap| gap.copied().unwrap_or_default())
    }
}

pub(super) fn keep_running(traffic: &Traffic, nodes: [usize; 2]) {
    let mut pings = Pings {
        nodes,
        ..Pings::default()
    };
    while traffic.goes_on() {
        let [from, to] = nodes;
        let mut ping = traffic.cluster.lab().command(from, "ping");
        ping.args(["-n", "-D", "-i", "0.05"])
            .arg(traffic.cluster.address(to).to_string());
        if let Err(error) = listen(traffic, ping, &mut pings) {
            traffic.fail(error.to_string());
            break;
        }
        traffic.pause(super::POLL * 20);
        pings.earlier = pings.sent;
    }
    traffic.lock(&traffic.pings).push(pings);
}

/// Until it ends by itself (`tab0` was away) or the traffic does.
fn listen(traffic: &Traffic, mut ping: Command, pings: &mut Pings) -> Result<(), LabError> {
    let [from, to] = pings.nodes;
    let path = traffic.cluster.directory().join(format!("ping{from}{to}"));
    let reading = || LabError::io("what ping says");
    let out = File::create(&path).map_err(reading())?;
    ping.stdin(Stdio::null()).stdout(out).stderr(Stdio::null());
    let mut said = File::open(&path).map_err(reading())?;
    let mut ping = Program::start("ping", ping)?;
    let mut rest = String::new();
    loop {
        // In this order: the last words come before the end.
        let ended = ping.ended()?.is_some() || !traffic.goes_on();
        said.read_to_string(&mut rest).map_err(reading())?;
        let whole = rest.rfind('\n').map_or(0, |end| end + 1);
        for line in rest.drain(..whole).collect::<String>().lines() {
            if let Some((sequence, at_ms)) = answer(line) {
                pings.note(sequence, at_ms);
            }
        }
        if ended {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

/// `[1795256399.999000] 64 bytes from 10.99.0.2: icmp_seq=5 ttl=64 time=0.1 ms`
fn answer(line: &str) -> Option<(u16, u64)> {
    let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (_, rest) = rest.split_once("bytes from ")?;
    let (_, sequence) = rest.split_once("icmp_seq=")?;
    let sequence = sequence.split_whitespace().next()?.parse().ok()?;
    Some((sequence, (time.parse::<f64>().ok()? * 1e3) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_gaps_noted() {
        let line = |seq: u16, at: &str| {
            format!("[{at}] 64 bytes from 10.99.0.2: icmp_seq={seq} ttl=64 time=0.1 ms")
        };
        let mut pings = Pings::default();
        for (seq, at) in [(1, "100.000"), (2, "100.050"), (9, "100.400")] {
            let (sequence, at_ms) = answer(&line(seq, at)).unwrap();
            pings.note(sequence, at_ms);
        }
        assert_eq!((pings.sent, pings.answered), (9, 3));
        assert_eq!(pings.gaps, [(100_050, 100_400)]);
        assert_eq!(pings.longest(&[]), [(100_050, 100_400); 2]);
        assert_eq!(answer("ping: sendmsg: Network is unreachable"), None);
        // After 65535 comes 0.
        pings.sent = 65_535;
        pings.note(0, 100_450);
        assert_eq!(pings.sent, 65_536);
    }
}
