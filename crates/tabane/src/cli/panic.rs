//! No panic reaches a user as Rust prints it.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::panic::PanicHookInfo;

/// From here on a panic prints one line, with what to report. Unwinding then removes
/// whatever the program made, and `main` ends it with
/// [`INTERNAL`](crate::exit_codes::INTERNAL). A backtrace follows the line if
/// `RUST_BACKTRACE` asks for one.
pub(super) fn install_hook() {
    std::panic::set_hook(Box::new(|info| {
        if is_broken_pipe(info.payload()) {
            return;
        }
        let mut err = io::stderr().lock();
        // Nobody is left to tell if standard error is gone.
        let _ = writeln!(err, "{}", line(info));
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            let _ = writeln!(err, "{backtrace}");
        }
    }));
}

/// Is this the panic of `println!` because the reader of standard output went
/// away (`| head`)? That is no bug, and ends the program quietly.
pub(super) fn is_broken_pipe(payload: &(dyn Any + Send)) -> bool {
    let message = text(payload);
    message.starts_with("failed printing to stdout") && message.contains("Broken pipe")
}

fn text(payload: &(dyn Any + Send)) -> &str {
    match payload.downcast_ref::<&str>() {
        Some(text) => text,
        None => payload
            .downcast_ref::<String>()
            .map_or("no message", String::as_str),
    }
}

fn line(info: &PanicHookInfo<'_>) -> String {
    let place = match info.location() {
        Some(location) => format!(" at {}:{}", location.file(), location.line()),
        None => String::new(),
    };
    format!(
        "tabane: this is a bug in tabane {}, please report it with this line and what you did: {}{place}",
        env!("CARGO_PKG_VERSION"),
        text(info.payload()).replace('\n', " "),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_panic_is_one_line_that_says_where() {
        let (sender, receiver) = mpsc::channel();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // The receiver lives until the end of this test.
            let _ = sender.send(line(info));
        }));
        let caught = std::panic::catch_unwind(|| panic!("first\nsecond {}", 3));
        std::panic::set_hook(before);
        assert!(caught.is_err());
        let told = receiver.recv().unwrap();
        assert!(
            told.starts_with("tabane: this is a bug in tabane "),
            "{told}"
        );
        assert!(told.contains("first second 3 at "), "{told}");
        assert!(told.contains("panic.rs:"), "{told}");
        assert_eq!(told.lines().count(), 1);
    }

    #[test]
    fn a_broken_pipe_is_told_from_other_panics() {
        let of_println = "failed printing to stdout: Broken pipe (os error 32)".to_owned();
        assert!(is_broken_pipe(&of_println));
        assert!(!is_broken_pipe(&"Broken pipe"));
        assert!(!is_broken_pipe(&3));
    }
}
