//! Jobs of Open MPI while a switch hangs.

use std::fmt;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use super::mpi::{CARRIERS, Carrier, Contestant, Control, Job, contestants};
use super::mpi_killed;
use crate::measure::two_nodes;
use crate::{Report, Samples, Settings, Table};
use tabane_lab::cluster::{Program, Wire};
use tabane_lab::{Fault, LabConfig, LabError, LinkSpec};

/// Until the switch hangs: the job has started by then.
const BEFORE: Duration = Duration::from_millis(2500);
/// A job that takes so much longer than without the failure has stopped, and is stopped.
const STANDS: Duration = Duration::from_secs(20);
const BYTES: f64 = 1048576.0;
/// What is left out before a rate is taken, and over what one is.
const SETTLING_NS: u64 = 100_000_000;
/// Both links are used again if this share of the rate before is there.
const AGAIN: f64 = 0.9;

/// How long the switch hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hangs {
    ForGood,
    /// Five seconds.
    AWhile,
}

impl Hangs {
    const fn lasting(self) -> Duration {
        match self {
            Hangs::ForGood => Duration::from_secs(3),
            Hangs::AWhile => Duration::from_secs(5),
        }
    }
}

/// One of the switches, and for how long.
#[derive(Debug, Clone, Copy)]
struct Failure {
    link: usize,
    hangs: Hangs,
}

const FAILURES: [Failure; 4] = [
    Failure {
        link: 0,
        hangs: Hangs::ForGood,
    },
    Failure {
        link: 1,
        hangs: Hangs::ForGood,
    },
    Failure {
        link: 0,
        hangs: Hangs::AWhile,
    },
    Failure {
        link: 1,
        hangs: Hangs::AWhile,
    },
];

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lasting = match self.hangs {
            Hangs::ForGood => "for good",
            Hangs::AWhile => "5 s",
        };
        write!(f, "switch {} hangs, {lasting}", self.link)
    }
}

/// An exchange that lasts beyond the failure.
const EXCHANGE: Job = Job {
    name: "exchange of 1 MB",
    arguments: &["watch", "1048576", "10"],
};

/// The kernels, so often that the failure comes amid.
const KERNELS: [Job; 6] = [
    Job {
        name: "integer sort",
        arguments: &["is", "4"],
    },
    Job {
        name: "CG",
        arguments: &["cg", "8"],
    },
    Job {
        name: "MG",
        arguments: &["mg", "2"],
    },
    Job {
        name: "FT",
        arguments: &["ft", "2"],
    },
    Job {
        name: "3-D halo",
        arguments: &["halo", "6"],
    },
    Job {
        name: "one-sided",
        arguments: &["onesided", "30"],
    },
];

const OWN: Carrier = Carrier::Provider(Wire::Encrypted);

/// On 2 links of 1 Gb/s.
pub fn measure(settings: &Settings) -> Result<Report, LabError> {
    let mut report = Report::default();
    exchanges(settings, &mut report);
    kernels(settings, &mut report);
    mpi_killed::measure(settings, &mut report);
    Ok(report)
}

/// What an exchange did across a failure.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bore {
    /// The longest time from the end of one exchange to that of the next, since the failure.
    longest_ms: f64,
    /// One way, MB/s: before, and while the switch hung.
    before_mbps: f64,
    during_mbps: f64,
    /// From the switch's return until both links were used.
    again_ms: Option<f64>,
}

/// Exchanges ended at these times, ns; in between a switch hung.
fn judge(ended_ns: &[u64], failed_ns: u64, healed_ns: Option<u64>) -> Option<Bore> {
    let (first, last) = (*ended_ns.first()?, *ended_ns.last()?);
    let until = healed_ns.unwrap_or(last);
    let gaps = ended_ns.windows(2).filter(|pair| pair[1] > failed_ns);
    let longest_ns = gaps.map(|pair| pair[1] - pair[0]).max()?;
    let mbps = |from: u64, to: u64| {
        let ended = ended_ns.iter().filter(|at| (from..to).contains(at)).count();
        ended as f64 * BYTES / 1e6 / (to.saturating_sub(from) as f64 / 1e9)
    };
    let before_mbps = mbps(first, failed_ns);
    let again = |healed: u64| {
        let has_window = |at: &&u64| **at >= healed && **at + SETTLING_NS <= last;
        let mut since = ended_ns.iter().filter(has_window);
        let at = since.find(|at| mbps(**at, **at + SETTLING_NS) >= AGAIN * before_mbps)?;
        Some((at - healed) as f64 / 1e6)
    };
    Some(Bore {
        longest_ms: longest_ns as f64 / 1e6,
        before_mbps,
        during_mbps: mbps(failed_ns + SETTLING_NS, until),
        again_ms: healed_ns.and_then(again),
    })
}

/// How a job ended.
struct Ended {
    failed_ns: u64,
    healed_ns: Option<u64>,
    said: String,
}

impl Contestant {
    /// Runs a job across a failure; none: it did not end, or not well.
    fn across(
        &self,
        job: &Job,
        ranks: (usize, usize),
        failure: Failure,
    ) -> Result<Option<Ended>, LabError> {
        let lab = self.stand.lab();
        let mut mpirun = self.mpirun(job, ranks)?;
        mpirun.stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = Program::start("mpirun", mpirun)?;
        // What it says is more than a pipe holds: it is read meanwhile.
        let reader =
            std::thread::spawn(move || program.output(BEFORE + Hangs::AWhile.lasting() + STANDS));
        sleep(BEFORE);
        let failed_ns = lab.fail(failure.link, Fault::Silent, None)?.begun_ns;
        sleep(failure.hangs.lasting());
        let healed_ns = match failure.hangs {
            Hangs::ForGood => None,
            Hangs::AWhile => Some(lab.heal(failure.link)?.begun_ns),
        };
        let output = reader.join();
        lab.heal(failure.link)?;
        let Ok(Ok(output)) = output else {
            return Ok(None);
        };
        if !output.status.success() {
            eprintln!(
                "bench: {}: {}, {failure}: {}",
                self.carrier.name(),
                job.name,
                String::from_utf8_lossy(&output.stderr)
            );
            return Ok(None);
        }
        Ok(Some(Ended {
            failed_ns,
            healed_ns,
            said: String::from_utf8_lossy(&output.stdout).into_owned(),
        }))
    }
}

fn exchanges(settings: &Settings, report: &mut Report) {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let columns = [
        "by",
        "failure",
        "ended right",
        "longest, ms",
        "before, MB/s each way",
        "while it hung",
        "both links again, ms",
    ];
    let note = format!(
        "Two ranks send each other 1 MB, two at a time. \"Longest\" is from the end of one exchange to that of the next; over one link \
         that is 26 ms at best. A job that has not ended {} s later is stopped. What `mpirun` itself says to other nodes goes over \
         the virtual NIC where tabane carries the messages, else over the links: Open MPI's daemons end a job whose launcher they lose.",
        STANDS.as_secs()
    );
    let mut table = Table::new(
        "An exchange while a switch hangs, 2 × 1 Gb/s",
        note,
        &columns,
    );
    let source = ("pairs.c", Control::Nic);
    for contestant in contestants(settings, &CARRIERS, &config, source, report) {
        // What the others do is seen at once.
        let times = if contestant.carrier == OWN {
            settings.times.div_ceil(2)
        } else {
            1
        };
        for failure in FAILURES {
            let mut bores = Vec::new();
            for _ in 0..times {
                match contestant.across(&EXCHANGE, (2, 1), failure) {
                    Ok(Some(ended)) => {
                        let lines = ended.said.lines().filter_map(|line| line.parse().ok());
                        let ended_ns: Vec<u64> = lines.collect();
                        bores.extend(judge(&ended_ns, ended.failed_ns, ended.healed_ns));
                    }
                    Ok(None) => {}
                    Err(error) => report.leave_out(contestant.carrier.name(), error),
                }
            }
            let samples = |of: fn(&Bore) -> f64| Samples(bores.iter().map(of).collect());
            table.rows.push(vec![
                contestant.carrier.name().into(),
                failure.to_string().into(),
                format!("{} of {times}", bores.len()).into(),
                samples(|it| it.longest_ms).into(),
                samples(|it| it.before_mbps).into(),
                samples(|it| it.during_mbps).into(),
                Samples(bores.iter().filter_map(|it| it.again_ms).collect()).into(),
            ]);
        }
    }
    report.tables.push(table);
}

fn kernels(settings: &Settings, report: &mut Report) {
    const NODES: usize = 4;
    let config = LabConfig {
        nodes: NODES,
        ..two_nodes(vec![LinkSpec::default(); 2])
    };
    let columns = ["kernel", "ended right", "seconds"];
    let title = format!(
        "Kernels on {NODES} nodes while a switch hangs, {}",
        OWN.name()
    );
    let note = "Either switch in turn, for good and for 5 s in turn.";
    let mut table = Table::new(title, note, &columns);
    let source = ("kernels.c", Control::Nic);
    for contestant in contestants(settings, &[OWN], &config, source, report) {
        for job in &KERNELS {
            let mut seconds = Vec::new();
            for failure in FAILURES.iter().cycle().take(settings.times) {
                match contestant.across(job, (NODES, 1), *failure) {
                    Ok(Some(ended)) => seconds.extend(ended.said.trim().parse::<f64>()),
                    Ok(None) => {}
                    Err(error) => report.leave_out(job.name, error),
                }
            }
            table.rows.push(vec![
                job.name.into(),
                format!("{} of {}", seconds.len(), settings.times).into(),
                seconds.into(),
            ]);
        }
    }
    report.tables.push(table);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// One every 4 ms, but a gap of 20 ms at 1,000, then one every 8 ms until 2,000 ms.
    fn ended() -> Vec<u64> {
        let before = (0..250).map(|n| n * 4);
        let during = (0..123).map(|n| 1_016 + n * 8);
        let after = (500..750).map(|n| n * 4);
        before
            .chain(during)
            .chain(after)
            .map(|ms| ms * MS)
            .collect()
    }

    #[test]
    fn a_failure_is_judged_by_what_ended_when() {
        let bore = judge(&ended(), 998 * MS, Some(1_998 * MS)).expect("enough ended");
        assert_eq!(bore.longest_ms, 20.0);
        assert!((bore.before_mbps - BYTES / 4_000.0).abs() < 2.0, "{bore:?}");
        assert!((bore.during_mbps - BYTES / 8_000.0).abs() < 2.0, "{bore:?}");
        assert!(bore.again_ms.is_some_and(|ms| ms < 10.0), "{bore:?}");
    }

    #[test]
    fn what_never_comes_back_is_said_so() {
        let ended: Vec<u64> = ended().into_iter().filter(|at| *at < 2_000 * MS).collect();
        let bore = judge(&ended, 998 * MS, Some(1_500 * MS)).expect("enough ended");
        assert_eq!(bore.again_ms, None);
        assert_eq!(judge(&[], 0, None), None);
    }
}
