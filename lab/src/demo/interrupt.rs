//! Ctrl-C ends a long program in good order: what it made is removed as its
//! stack unwinds.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::LabError;
use crate::sys;

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
