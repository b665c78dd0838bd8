//! What the host of a virtual machine takes of its processors while figures are taken: what was
//! measured meanwhile says little of what was to be measured.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::figures::{Table, digits};
use super::machine::Processors;

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// What was taken during one measurement. Shares of all processors' time, 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stolen {
    /// Which measurement.
    pub during: String,
    /// Of all of it.
    pub share: f64,
    /// Of its worst second.
    pub worst_share: f64,
}

/// Watches until it is told that the measurement is over.
pub struct Watch {
    over: mpsc::Sender<()>,
    watcher: JoinHandle<Option<(f64, f64)>>,
}

impl Watch {
    /// From now on.
    pub fn begin() -> Watch {
        let (over, is_over) = mpsc::channel();
        let watcher = thread::spawn(move || watch(&is_over));
        Watch { over, watcher }
    }

    /// What was taken since; `None` if that cannot be told.
    pub fn end(self, during: String) -> Option<Stolen> {
        let _ = self.over.send(());
        let (share, worst_share) = self.watcher.join().ok().flatten()?;
        Some(Stolen {
            during,
            share,
            worst_share,
        })
    }
}

fn watch(is_over: &mpsc::Receiver<()>) -> Option<(f64, f64)> {
    let began = Processors::now().ok()?;
    let (mut before, mut worst) = (began, 0.0_f64);
    while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let now = Processors::now().ok()?;
        worst = worst.max(now.stolen_share_since(before));
        before = now;
    }
    let share = Processors::now().ok()?.stolen_share_since(began);
    Some((share, worst.max(share)))
}

/// All of it, if anything was taken.
pub fn table(all: &[Stolen]) -> Option<Table> {
    let columns = ["during", "of the processors, %", "in the worst second, %"];
    let what = "Figures of a time in which it took much are not to be trusted.";
    let mut table = Table::new("Taken by the host of this machine", what, &columns);
    for stolen in all {
        let percent = |share: f64| digits(share * 100.0).into();
        table.rows.push(vec![
            stolen.during.clone().into(),
            percent(stolen.share),
            percent(stolen.worst_share),
        ]);
    }
    all.iter().any(|one| one.worst_share > 0.0).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_ones_own_has_no_table() {
        let stolen = |worst_share| Stolen {
            during: "Crowd".into(),
            share: 0.0,
            worst_share,
        };
        assert!(table(&[stolen(0.0)]).is_none());
        assert!(table(&[stolen(0.0), stolen(0.5)]).is_some());
    }

    #[test]
    fn a_watch_ends_when_it_is_told_to() {
        let stolen = Watch::begin().end("Ping".into()).unwrap();
        assert!((0.0..=1.0).contains(&stolen.share), "{stolen:?}");
        assert!(stolen.worst_share >= stolen.share, "{stolen:?}");
    }
}
