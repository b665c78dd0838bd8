//! An endpoint: what threads share of it.

use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tabane_io::notify::Notify;

use crate::{Address, Core, OpenError, Settings};

/// One process's end of everything.
pub struct Endpoint {
    address: Address,
    core: Mutex<Box<dyn Core + Send>>,
    /// Raised while completions wait and nobody looks.
    ready: Notify,
}

impl Endpoint {
    /// Makes one.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(settings: &Settings) -> Result<Endpoint, OpenError> {
        let _ = settings;
        Err(OpenError::Settings("not there yet".into()))
    }

    /// One whose work something else does.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn of(address: Address, core: Box<dyn Core + Send>) -> Result<Endpoint, OpenError> {
        Ok(Endpoint {
            address,
            core: Mutex::new(core),
            ready: Notify::new().map_err(OpenError::System)?,
        })
    }

    /// What others are to be told.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What it does.
    pub fn lock(&self) -> MutexGuard<'_, Box<dyn Core + Send>> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has ended, or for so long; progress is made meanwhile. Whether something has.
    pub fn wait(&self, patience: Option<Duration>) -> bool {
        let _ = patience;
        false
    }

    /// Readable while something has ended that nobody has looked at. Who is about to wait for it calls
    /// [`arm`](Endpoint::arm) first.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// The caller is about to wait for the descriptor: the helper thread makes progress from now on. Whether it may wait;
    /// if not, something has ended already.
    pub fn arm(&self) -> bool {
        true
    }
}
