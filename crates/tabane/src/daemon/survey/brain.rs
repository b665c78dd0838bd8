//! The thread that evaluates the measurements: with many nodes that takes longer than the daemon's loop can wait.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tabane_io::notify::Notify;
use tabane_proto::topology::{Config, Map, Probe, Survey};

/// Results of a round, for each pair: the least round trip in ns, if there was one.
pub type Results = Vec<(Probe, Option<u64>)>;

/// The next step.
#[derive(Debug)]
pub enum Said {
    /// Measure these pairs.
    Round(Vec<Probe>),
    /// Nothing is left to measure: this is the result.
    Done(Map),
}

/// The thread, for one network; it ends when this is dropped.
#[derive(Debug)]
pub struct Brain {
    results: Sender<Results>,
    said: Receiver<Said>,
}

impl Brain {
    /// For this many nodes. Raises `notify` whenever there is something to [`take`](Brain::take).
    ///
    /// # Errors
    /// No thread is left.
    pub fn start(nodes: usize, config: Config, notify: Arc<Notify>) -> io::Result<Brain> {
        let (results, taken) = channel::<Results>();
        let (say, said) = channel();
        let think = move || {
            let mut survey = Survey::new(nodes, config);
            loop {
                let round = survey.next_round();
                let is_over = round.is_empty();
                let next = match is_over {
                    true => Said::Done(survey.map()),
                    false => Said::Round(round),
                };
                if say.send(next).is_err() {
                    return;
                }
                notify.notify();
                let Ok(results) = taken.recv() else {
                    return;
                };
                for (probe, least_ns) in results {
                    survey.record(probe, least_ns);
                }
            }
        };
        let named = thread::Builder::new().name("survey".to_owned());
        named.spawn(think)?;
        Ok(Brain { results, said })
    }

    /// Its next step, if it has one. `None` for ever once the thread has failed, which [`tell`](Brain::tell) finds out.
    pub fn take(&self) -> Option<Said> {
        self.said.try_recv().ok()
    }

    /// Gives it results; returns whether it still works.
    pub fn tell(&self, results: Results) -> bool {
        self.results.send(results).is_ok()
    }
}
