//! What the program says to the one who called it.

use std::io::{self, Write};

use tabane_cluster::ConfigError;

use crate::{exit_codes, log};

/// Tells the user what failed; returns the exit code for it.
pub fn failure(message: impl std::fmt::Display) -> u8 {
    eprintln_quietly(&format!("tabane: {message}"));
    exit_codes::FAILURE
}

/// Tells the user about something that is odd but does not matter much.
pub fn warn(message: impl std::fmt::Display) {
    eprintln_quietly(&format!("tabane: warning: {message}"));
}

/// Tells the user everything that is wrong with the configuration; returns the
/// exit code for it.
pub fn report(error: &ConfigError) -> u8 {
    eprintln_quietly(&error.to_string());
    exit_codes::CONFIGURATION
}

/// Writes to standard output; returns the exit code. A reader that went away
/// (`tabane status | head -1`) is no error.
pub fn print(text: &str) -> u8 {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => exit_codes::OK,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit_codes::OK,
        Err(error) => failure(format!(
            "standard output: {}",
            tabane_cluster::plain(&error)
        )),
    }
}

/// `eprintln!` panics if standard error is closed; then nobody can be told. In the journal these lines are warnings.
pub(crate) fn eprintln_quietly(text: &str) {
    let _ = match log::is_journal() {
        true => text.lines().try_for_each(|line| {
            writeln!(io::stderr(), "<{}>{line}", log::Priority::Warning as u8)
        }),
        false => writeln!(io::stderr(), "{text}"),
    };
}
