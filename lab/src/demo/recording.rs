//! What one run of the script gave.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::cluster::Program;
use crate::ways::Way;
use crate::{LabError, monotonic_ns};

/// How often the receiver's count is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// A stream slower than this has stalled: 2% of one link. MPTCP's trickle of
/// retransmissions is no transfer.
const STALLED_GBPS: f64 = 0.02;
const STALL_BIN_S: f64 = 0.02;

/// A switch that passes nothing for a while, in seconds of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outage {
    /// Which.
    pub switch: usize,
    /// From when on.
    pub begin_s: f64,
    /// Until when.
    pub end_s: f64,
}

/// One run of the script.
#[derive(Debug, Clone)]
pub struct Recording {
    /// What was running.
    pub way: Way,
    /// Seconds since the first byte, and how many the receiver had by then.
    pub samples: Vec<(f64, u64)>,
    /// What happened meanwhile.
    pub outages: Vec<Outage>,
    /// Segments the program's TCP sent again; unknown if iperf3 did not end well.
    pub retransmits: Option<u64>,
    /// Whether the connection lived to the end.
    pub survived: bool,
}

impl Recording {
    /// Bytes the receiver had at an instant.
    fn bytes_at(&self, at_s: f64) -> f64 {
        let next = self.samples.partition_point(|&(when_s, _)| when_s < at_s);
        match (
            next.checked_sub(1).map(|i| self.samples[i]),
            self.samples.get(next),
        ) {
            (Some((t0, b0)), Some(&(t1, b1))) => {
                let share = (at_s - t0) / (t1 - t0).max(1e-9);
                b0 as f64 + share * (b1 - b0) as f64
            }
            (Some((_, bytes)), None) => bytes as f64,
            (None, _) => 0.0,
        }
    }

    /// Rate over a part of the run, Gb/s.
    pub fn gbps(&self, from_s: f64, until_s: f64) -> f64 {
        let bytes = self.bytes_at(until_s) - self.bytes_at(from_s);
        bytes * 8e-9 / (until_s - from_s).max(1e-9)
    }

    /// Longest time in which next to nothing arrived (see [`STALLED_GBPS`])
    /// within a part of the run, seconds.
    pub fn longest_stall_s(&self, from_s: f64, until_s: f64) -> f64 {
        let mut longest_s = self.longest_silence_s(from_s, until_s);
        let bins = ((until_s - from_s) / STALL_BIN_S) as usize;
        let mut stalled = 0;
        for bin in 0..bins {
            let begin_s = from_s + bin as f64 * STALL_BIN_S;
            let is_stalled = self.gbps(begin_s, begin_s + STALL_BIN_S) < STALLED_GBPS;
            stalled = if is_stalled { stalled + 1 } else { 0 };
            longest_s = longest_s.max(stalled as f64 * STALL_BIN_S);
        }
        longest_s
    }

    /// Longest time between two arrivals.
    fn longest_silence_s(&self, from_s: f64, until_s: f64) -> f64 {
        let mut grew_s = from_s;
        let mut longest_s: f64 = 0.0;
        for pair in self.samples.windows(2) {
            let (at_s, grew) = (pair[1].0, pair[1].1 > pair[0].1);
            if grew && at_s > from_s {
                longest_s = longest_s.max(at_s.min(until_s) - grew_s);
                grew_s = at_s;
                if at_s >= until_s {
                    return longest_s;
                }
            }
        }
        longest_s.max(until_s - grew_s)
    }

    /// Until when it was watched, seconds.
    pub fn end_s(&self) -> f64 {
        self.samples.last().map_or(0.0, |&(at_s, _)| at_s)
    }

    /// The switch that is silent at this time, if one is.
    pub fn silent_at(&self, at_s: f64) -> Option<usize> {
        let mut outages = self.outages.iter();
        let outage = outages.find(|outage| (outage.begin_s..outage.end_s).contains(&at_s));
        outage.map(|outage| outage.switch)
    }
}

/// Looks at the receiver's count all the time, beside everything else.
pub struct Sampler {
    samples: Arc<Mutex<Vec<(u64, u64)>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Begin to watch a program that receives; this is its count.
    ///
    /// # Errors
    /// The kernel does not count.
    pub fn start(receiver: Arc<Program>) -> Result<Sampler, LabError> {
        let before = receiver.read_bytes()?;
        let samples = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (to, end) = (samples.clone(), stop.clone());
        let watch = move || {
            while !end.load(Ordering::Relaxed) {
                let Ok(bytes) = receiver.read_bytes() else {
                    return;
                };
                let sample = (monotonic_ns(), bytes.saturating_sub(before));
                lock(&to).push(sample);
                thread::sleep(LOOK);
            }
        };
        let thread = thread::Builder::new()
            .name("demo-sampler".into())
            .spawn(watch);
        let thread = thread.map_err(LabError::io("starting a thread"))?;
        Ok(Sampler {
            samples,
            stop,
            thread: Some(thread),
        })
    }

    /// When the stream began (it had more than iperf3's few words of greeting),
    /// by [`monotonic_ns`].
    pub fn begun_ns(&self) -> Option<u64> {
        const GREETING_BYTES: u64 = 10_000;
        let samples = lock(&self.samples);
        let begin = samples.partition_point(|&(_, bytes)| bytes <= GREETING_BYTES);
        samples.get(begin).map(|&(at_ns, _)| at_ns)
    }

    /// The count so far, in seconds since `begin_ns`.
    pub fn samples(&self, begin_ns: u64) -> Vec<(f64, u64)> {
        let samples = lock(&self.samples);
        let first = samples.partition_point(|&(at_ns, _)| at_ns < begin_ns);
        let since = |&(at_ns, bytes): &(u64, u64)| ((at_ns - begin_ns) as f64 / 1e9, bytes);
        samples[first..].iter().map(since).collect()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A panic elsewhere leaves samples that are as good as before.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For the tests of what draws it: two links for 1 s, one for 1 s with a
/// gap of 50 ms at its beginning, two again for 1 s.
#[cfg(test)]
pub(crate) fn example() -> Recording {
    let mut bytes = 0.0;
    let mut samples = Vec::new();
    for ms in 0..=3000u32 {
        let gbps = match ms {
            1000..1050 => 0.0,
            1050..2000 => 1.0,
            _ => 2.0,
        };
        samples.push((f64::from(ms) / 1000.0, bytes as u64));
        bytes += gbps * 1e9 / 8.0 / 1000.0;
    }
    Recording {
        way: Way::Mptcp,
        samples,
        outages: vec![Outage {
            switch: 1,
            begin_s: 1.0,
            end_s: 2.0,
        }],
        retransmits: Some(0),
        survived: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_stalls_of_a_run() {
        let recording = example();
        assert!((recording.gbps(0.0, 1.0) - 2.0).abs() < 0.01);
        assert!((recording.gbps(1.0, 2.0) - 0.95).abs() < 0.01);
        assert!((recording.longest_stall_s(0.5, 3.0) - 0.051).abs() < 0.002);
        assert!(recording.longest_stall_s(1.2, 1.8) < 0.002);
        assert_eq!(recording.silent_at(1.5), Some(1));
        assert_eq!(recording.silent_at(2.5), None);
        assert_eq!(recording.end_s(), 3.0);
    }

    #[test]
    fn silence_to_the_end_is_a_stall() {
        let mut recording = example();
        recording.samples.retain(|&(at_s, _)| at_s <= 1.0);
        let last = recording.samples[recording.samples.len() - 1].1;
        recording.samples.push((3.0, last));
        assert!((recording.longest_stall_s(0.5, 3.0) - 2.0).abs() < 0.01);
    }
}
