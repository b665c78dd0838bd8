//! Ctrl-C ends a long program in good order: what it made is removed as its
//! stack unwinds.

use std::io::{self, Write};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::LabError;
use crate::cluster::Scratch;
use crate::sys;

/// Exit code of what a signal ended, as shells have it: 128 and SIGINT.
pub const EXIT_CODE: u8 = 130;
/// How soon a signal is seen by a program that does not ask for it.
const LOOK: Duration = Duration::from_millis(50);

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn ask(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

/// From now on SIGINT, SIGTERM and SIGHUP are only noted.
///
/// # Errors
/// The kernel refuses.
pub fn note_signals() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        sys::on_signal(signal, ask)?;
    }
    Ok(())
}

/// For a program that is not asked everywhere whether to end: a signal ends it wherever
/// it is. Its temporary directories, keys and all, are removed; its labs end with it.
///
/// # Errors
/// The kernel refuses.
pub fn end_at_signal(name: &'static str) -> io::Result<()> {
    note_signals()?;
    thread::Builder::new().spawn(move || {
        while !asked() {
            thread::sleep(LOOK);
        }
        Scratch::remove_all();
        // It ends also if nobody hears that: a program that read it may have had the same signal.
        let _ = writeln!(io::stderr(), "{name}: interrupted; all it made is removed");
        process::exit(EXIT_CODE.into())
    })?;
    Ok(())
}

/// Whether to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// An error if the demo should end.
///
/// # Errors
/// It should.
pub fn check() -> Result<(), LabError> {
    if asked() {
        return Err(LabError::io("demo")(io::ErrorKind::Interrupted.into()));
    }
    Ok(())
}

/// Whether this error says that.
pub fn is_one(error: &LabError) -> bool {
    matches!(error, LabError::Io { source, .. } if source.kind() == io::ErrorKind::Interrupted)
}
