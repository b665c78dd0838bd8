//! Any bytes as a daemon's answer: read or refused, and whatever is shown of it
//! on a terminal has no control characters.

use tabane_program::status::{AskError, Colours, Detail, StatusReport, read_answer, render};

/// Feeds it `line`.
pub fn run(line: &[u8]) {
    let shown = match read_answer(line) {
        Ok(value) => match serde_json::from_value::<StatusReport>(value) {
            Ok(report) => render(&report, Detail::Whole, Colours::Off),
            Err(error) => AskError::NotUnderstood(error.to_string()).to_string(),
        },
        Err(error) => error.to_string(),
    };
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!shown.contains(control), "{shown:?}");
}
