//! What the others notice of a rank that is killed while they wait for it.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::mpi::{Carrier, Contestant, Control, Job, contestants};
use crate::measure::two_nodes;
use crate::{Bound, Goal, Report, Samples, Settings, Table};
use tabane_lab::cluster::{Program, Scratch, Wire};
use tabane_lab::{LabError, LinkSpec};

const NODES: usize = 2;
const RANKS_PER_NODE: usize = 4;
/// All but the one that is killed.
const OTHERS: usize = NODES * RANKS_PER_NODE - 1;
const OWN: Carrier = Carrier::Provider(Wire::Encrypted);
const CARRIERS: [Carrier; 2] = [Carrier::Tcp1, OWN];
const JOB: Job = Job {
    name: "killed",
    arguments: &[],
};
/// Who has no error by then waits for ever.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// `TABANE_PEER_TIMEOUT`, unless it is set.
const PROMISED_MS: f64 = 3000.0;

/// On 2 links of 1 Gb/s.
pub fn measure(settings: &Settings, report: &mut Report) {
    let config = two_nodes(vec![LinkSpec::default(); 2]);
    let columns = ["by", "every other one had an error", "the last, ms"];
    let note = format!(
        "{} ranks on {NODES} nodes; all others wait for a message of the one that is killed (SIGKILL), with MPI_ERRORS_RETURN. \
         `mpirun` is told to let them go on. The last of them that has an error counts.",
        OTHERS + 1
    );
    let mut table = Table::new("A rank is killed, 2 × 1 Gb/s", note, &columns);
    for contestant in contestants(
        settings,
        &CARRIERS,
        &config,
        ("killed.c", Control::Links),
        report,
    ) {
        let is_own = contestant.carrier == OWN;
        // What the others do is seen at once.
        let times = if is_own { settings.times } else { 1 };
        let mut last_ms = Samples::default();
        for _ in 0..times {
            match kill_one(&contestant) {
                Ok(noticed) => last_ms.0.extend(noticed),
                Err(error) => report.leave_out(contestant.carrier.name(), error),
            }
        }
        let all = last_ms.0.len();
        if is_own {
            let slowest = last_ms.max().filter(|_| all == times);
            let what = format!("A rank is killed, {times} times: the last error, ms");
            report
                .goals
                .push(Goal::new(what, slowest, Bound::AtMost(PROMISED_MS)));
        }
        table.rows.push(vec![
            contestant.carrier.name().into(),
            format!("{all} of {times}").into(),
            last_ms.into(),
        ]);
    }
    report.tables.push(table);
}

/// After how many ms the last of the others had an error; none: not all of them had one.
fn kill_one(contestant: &Contestant) -> Result<Option<f64>, LabError> {
    let here = Scratch::new().map_err(LabError::io("a directory"))?;
    let told = here.path().join("told");
    let mut mpirun = contestant.mpirun(&JOB, (NODES, RANKS_PER_NODE))?;
    mpirun.arg(&told);
    // Else it ends the others.
    mpirun.env("OMPI_MCA_orte_enable_recovery", "1");
    let mut job = Program::start_quiet("mpirun", mpirun)?;
    let until = Instant::now() + PATIENCE;
    let errors_ms = loop {
        let errors_ms = understand(&fs::read_to_string(&told).unwrap_or_default());
        if errors_ms.len() == OTHERS || Instant::now() >= until {
            break errors_ms;
        }
        sleep(POLL);
    };
    // With a rank that was killed it does not end by itself.
    job.kill();
    Ok(last(&errors_ms))
}

/// One that had no error says so in words.
fn understand(told: &str) -> Vec<f64> {
    let lines = told.lines().map(|line| line.trim().parse::<f64>());
    lines.filter_map(Result::ok).collect()
}

fn last(errors_ms: &[f64]) -> Option<f64> {
    let all = errors_ms.len() == OTHERS;
    errors_ms.iter().copied().reduce(f64::max).filter(|_| all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_if_all_others_noticed_it_counts() {
        let noticed: Vec<f64> = (0..OTHERS).map(|n| n as f64).collect();
        assert_eq!(last(&noticed), Some((OTHERS - 1) as f64));
        assert_eq!(last(&noticed[1..]), None);
        assert_eq!(understand("7\n9 and it was no error\n12\n"), [7.0, 12.0]);
    }
}
