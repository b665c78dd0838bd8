//! An endpoint: what threads share of it, and who runs it.
//!
//! The thread that asks for completions runs it. While none does, because the program computes, the helper thread receives,
//! acknowledges and retransmits. It checks every [`TICK`] whether somebody has run the endpoint since; so it costs a program
//! that polls next to nothing.

use core::ops::{Deref, DerefMut};
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tabane_io::notify::Notify;
use tabane_io::poll::{Interest, Poller, Ready};

use crate::rank::{Rank, TOKEN_INTERRUPT};
use crate::{Address, Core, OpenError, Settings};

/// The helper leaves a program that does not poll alone for this long: liveness tolerates it.
const TICK: Duration = Duration::from_millis(2);
/// Nobody sleeps for longer without looking whether it is to end.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Who does the work.
enum Work {
    Rank(Box<Rank>),
    Other(Box<dyn Core + Send>),
}

/// What the threads share.
struct Shared {
    work: Mutex<Work>,
    /// The poller for the rank's sockets.
    poller: Option<Arc<Poller>>,
    /// Somebody has run it since the helper last looked.
    was_run: AtomicBool,
    /// Somebody is going to wait for `ready`.
    is_armed: AtomicBool,
    /// Raised when something has ended while somebody waits for that.
    ready: Notify,
    /// Raised to end a wait.
    interrupt: Notify,
    ends: AtomicBool,
}

/// One process's end of everything.
pub struct Endpoint {
    address: Address,
    shared: Arc<Shared>,
    helper: Option<JoinHandle<()>>,
}

/// Exclusive access to an endpoint's work.
pub struct Locked<'a>(MutexGuard<'a, Work>);

impl Deref for Locked<'_> {
    type Target = dyn Core;

    fn deref(&self) -> &(dyn Core + 'static) {
        match &*self.0 {
            Work::Rank(rank) => &**rank,
            Work::Other(other) => &**other,
        }
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut (dyn Core + 'static) {
        match &mut *self.0 {
            Work::Rank(rank) => &mut **rank,
            Work::Other(other) => &mut **other,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for arrivals, at most for `patience`, and runs the endpoint. Returns whether an operation has ended and not been
    /// reported. With `waits_for_end` it does not wait if that is so already.
    fn turn(&self, patience: Duration, waits_for_end: bool, ready: &mut Vec<Ready>) -> bool {
        let (wait, poller) = match (&mut *self.lock(), &self.poller) {
            (Work::Rank(rank), Some(poller)) => {
                if waits_for_end && rank.has_news() {
                    return true;
                }
                (rank.before_wait(patience), poller)
            }
            _ => {
                thread::sleep(patience.min(TICK));
                return false;
            }
        };
        ready.clear();
        // If waiting fails, the caller polls again.
        let _ = wait.wait(poller, &[], ready);
        if ready.iter().any(|ready| ready.token == TOKEN_INTERRUPT) {
            self.interrupt.clear();
        }
        match &mut *self.lock() {
            Work::Rank(rank) => {
                rank.after_wait(ready);
                rank.has_news()
            }
            Work::Other(_) => false,
        }
    }

    /// The helper's life.
    fn help(&self) {
        let mut ready = Vec::new();
        while !self.ends.load(Ordering::Acquire) {
            let is_armed = self.is_armed.load(Ordering::Acquire);
            if self.was_run.swap(false, Ordering::AcqRel) && !is_armed {
                thread::park_timeout(TICK);
                continue;
            }
            let has_ended = self.turn(SLEEP_MAX, false, &mut ready);
            if has_ended && self.is_armed.swap(false, Ordering::AcqRel) {
                self.ready.notify();
            }
            if has_ended {
                // Completions wait for the program; arrivals are taken in now and then.
                thread::park_timeout(TICK);
            }
        }
    }
}

impl Endpoint {
    /// Makes one.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(settings: &Settings) -> Result<Endpoint, OpenError> {
        let mut rank = Rank::open(settings)?;
        let address = *rank.address();
        let poller = Arc::clone(rank.engine().poller());
        let mut endpoint = Endpoint::with(address, Work::Rank(Box::new(rank)), Some(poller))?;
        let shared = Arc::clone(&endpoint.shared);
        if let Some(poller) = &shared.poller {
            let registered = poller.register(&shared.interrupt, TOKEN_INTERRUPT, Interest::Read);
            registered.map_err(OpenError::System)?;
        }
        let helper = thread::Builder::new().name("tabane".into());
        let helper = helper.spawn(move || shared.help());
        endpoint.helper = Some(helper.map_err(OpenError::System)?);
        Ok(endpoint)
    }

    /// An endpoint with the given work.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn of(address: Address, core: Box<dyn Core + Send>) -> Result<Endpoint, OpenError> {
        Endpoint::with(address, Work::Other(core), None)
    }

    fn with(
        address: Address,
        work: Work,
        poller: Option<Arc<Poller>>,
    ) -> Result<Endpoint, OpenError> {
        let shared = Shared {
            work: Mutex::new(work),
            poller,
            was_run: AtomicBool::new(true),
            is_armed: AtomicBool::new(false),
            ready: Notify::new().map_err(OpenError::System)?,
            interrupt: Notify::new().map_err(OpenError::System)?,
            ends: AtomicBool::new(false),
        };
        Ok(Endpoint {
            address,
            shared: Arc::new(shared),
            helper: None,
        })
    }

    /// The address for the other processes.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Locks its work.
    pub fn lock(&self) -> Locked<'_> {
        self.shared.was_run.store(true, Ordering::Release);
        Locked(self.shared.lock())
    }

    /// Waits for one turn: until something arrives, [`interrupt`](Endpoint::interrupt) is called, or `patience` (at most 50 ms)
    /// is over. Returns whether something has ended.
    pub fn wait_a_turn(&self, patience: Duration) -> bool {
        self.shared.was_run.store(true, Ordering::Release);
        self.shared
            .turn(patience.min(SLEEP_MAX), true, &mut Vec::new())
    }

    /// Ends the current or the next wait: something has changed that the waiter cannot see.
    pub fn interrupt(&self) {
        self.shared.interrupt.notify();
    }

    /// Waits until something has ended, at most for `patience`, and makes progress meanwhile. Returns whether something has.
    pub fn wait(&self, patience: Option<Duration>) -> bool {
        let until = patience.map(|patience| Instant::now() + patience);
        let mut ready = Vec::new();
        loop {
            self.shared.was_run.store(true, Ordering::Release);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let patience = left.unwrap_or(SLEEP_MAX).min(SLEEP_MAX);
            if self.shared.turn(patience, true, &mut ready) {
                return true;
            }
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
        }
    }

    /// Readable while something has ended and was not fetched. Call [`arm`](Endpoint::arm) before you wait for it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.ready.as_fd()
    }

    /// The caller is about to wait for the descriptor: the helper thread makes progress from now on. Whether it may wait;
    /// if not, something has ended already.
    pub fn arm(&self) -> bool {
        self.shared.ready.clear();
        self.shared.is_armed.store(true, Ordering::Release);
        let has_ended = match &mut *self.shared.lock() {
            Work::Rank(rank) => rank.has_news(),
            Work::Other(_) => false,
        };
        if let Some(helper) = &self.helper {
            helper.thread().unpark();
        }
        if has_ended {
            self.shared.is_armed.store(false, Ordering::Release);
        }
        !has_ended
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        if let Some(helper) = self.helper.take() {
            helper.thread().unpark();
            // It ends by itself; a panic has already printed its message.
            let _ = helper.join();
        }
        if let Work::Rank(rank) = &mut *self.shared.lock() {
            rank.close();
        }
    }
}
