//! What stands in the queue of a device, looked at again and again.

use std::io::Write;
use std::process::{Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use crate::tools::TC;
use tabane_lab::cluster::{PATIENCE, Program};
use tabane_lab::{Lab, LabError};

/// So often.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Looks until it is told to end. One `tc` is asked again and again: to start one each time would take a processor.
pub struct Watch {
    over: mpsc::Sender<()>,
    asker: JoinHandle<()>,
    said: JoinHandle<Result<Output, LabError>>,
}

impl Watch {
    /// From now on, at a device of a node.
    ///
    /// # Errors
    /// `tc` is not installed.
    pub fn begin(lab: &Lab, node: usize, device: &str) -> Result<Watch, LabError> {
        let mut tc = lab.command(node, TC.find()?);
        tc.args(["-s", "-j", "-batch", "-"]);
        tc.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut tc = Program::start("tc", tc)?;
        let input = tc.take_stdin();
        let (over, is_over) = mpsc::channel();
        let question = format!("qdisc show dev {device}\n");
        let asker = thread::spawn(move || {
            let Some(mut input) = input else {
                return;
            };
            // Its input ends with this, and so does it.
            while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if input.write_all(question.as_bytes()).is_err() {
                    return;
                }
            }
        });
        // Read meanwhile: `tc` would wait for room otherwise, and look too late.
        let said = thread::spawn(move || tc.output(PATIENCE));
        Ok(Watch { over, asker, said })
    }

    /// What stood in it on average, bytes.
    ///
    /// # Errors
    /// `tc` hangs.
    pub fn end(self) -> Result<f64, LabError> {
        let Watch { over, asker, said } = self;
        let _ = over.send(());
        let _ = asker.join();
        let said = said.join().unwrap_or_else(|_| {
            let why = std::io::Error::other("a panic");
            Err(LabError::io("tc")(why))
        })?;
        let each = standing(&said.stdout);
        Ok(each.iter().sum::<f64>() / each.len() as f64)
    }
}

/// The bytes that each answer tells.
fn standing(said: &[u8]) -> Vec<f64> {
    let answers = serde_json::Deserializer::from_slice(said).into_iter::<Value>();
    let answers = answers.map_while(Result::ok);
    let each = answers.filter_map(|answer| answer[0]["backlog"].as_f64());
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tc_says_is_understood() {
        let said = br#"[{"kind":"tbf","backlog":3028,"qlen":2}]
[{"kind":"tbf","backlog":0,"qlen":0}]"#;
        assert_eq!(standing(said), [3028.0, 0.0]);
    }
}
