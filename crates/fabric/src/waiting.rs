//! Waiting on queues and counters: for endpoints with something new, and for each other.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tabane_io::notify::Notify;
use tabane_io::poll::{Interest, Poller};

use crate::abi::constants as c;
use crate::abi::errors::{self, Outcome};
use crate::station::Station;

/// The longest that is slept without looking again.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Longest sleep if nobody can wake the sleeper, because no descriptor was asked for.
const NAP_MAX: Duration = Duration::from_millis(1);

/// The endpoints that a queue or counter is bound to.
pub struct Waiter {
    stations: Mutex<Vec<Arc<Station>>>,
    bell: Option<Bell>,
    wait_object: u32,
}

/// Wakes the sleepers.
struct Bell {
    /// Readable while an endpoint has something, or somebody rang.
    poller: Poller,
    notify: Notify,
    /// Somebody may sleep.
    is_armed: AtomicBool,
}

impl Waiter {
    /// A waiter with this wait object (`FI_WAIT_…`).
    ///
    /// # Errors
    /// The kind is not supported, or no descriptor is left.
    pub fn new(wait_object: u32) -> Outcome<Waiter> {
        let bell = match wait_object {
            c::WAIT_NONE => None,
            c::WAIT_UNSPEC | c::WAIT_FD | c::WAIT_YIELD => {
                Some(Bell::new().map_err(|_| errors::NOMEM)?)
            }
            _ => return Err(errors::NOSYS),
        };
        Ok(Waiter {
            stations: Mutex::default(),
            bell,
            wait_object,
        })
    }

    /// Its kind.
    pub fn wait_object(&self) -> u32 {
        self.wait_object
    }

    /// Whether it was made to be slept at.
    pub fn can_sleep(&self) -> bool {
        self.bell.is_some()
    }

    /// The descriptor, if the program was promised one.
    pub fn descriptor(&self) -> Outcome<RawFd> {
        match &self.bell {
            Some(bell) if self.wait_object == c::WAIT_FD => Ok(bell.poller.as_fd().as_raw_fd()),
            _ => Err(errors::NODATA),
        }
    }

    /// Sleepers here also wake up while this descriptor is readable.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn watch(&self, descriptor: &impl AsFd) -> Outcome<()> {
        let Some(bell) = &self.bell else {
            return Ok(());
        };
        let registered = bell.poller.register(descriptor, 0, Interest::Read);
        registered.map_err(|_| errors::NOMEM)
    }

    fn stations(&self) -> MutexGuard<'_, Vec<Arc<Station>>> {
        self.stations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an endpoint that reports its completions here.
    pub fn add(&self, station: &Arc<Station>) -> Outcome<()> {
        let mut stations = self.stations();
        if stations.iter().any(|have| Arc::ptr_eq(have, station)) {
            return Ok(());
        }
        if let Some(bell) = &self.bell {
            let registered = bell
                .poller
                .register(station.descriptor(), 0, Interest::Read);
            registered.map_err(|_| errors::NOMEM)?;
        }
        stations.push(Arc::clone(station));
        Ok(())
    }

    /// It does not any more.
    pub fn remove(&self, station: &Arc<Station>) {
        let mut stations = self.stations();
        if let Some(place) = stations.iter().position(|have| Arc::ptr_eq(have, station)) {
            stations.swap_remove(place);
            if let Some(bell) = &self.bell {
                // It fails only if it is not registered.
                let _ = bell.poller.deregister(station.descriptor());
            }
        }
    }

    /// Makes all endpoints progress and report their completions.
    pub fn progress(&self) {
        for station in self.stations().iter() {
            station.progress();
        }
    }

    /// Wakes the sleepers here, if there are any.
    pub fn ring(&self) {
        if let Some(bell) = &self.bell
            && bell.is_armed.swap(false, Ordering::SeqCst)
        {
            bell.notify.notify();
        }
    }

    /// The caller is about to sleep, unless `is_there` something to be done already. Whether it may.
    pub fn may_sleep(&self, is_there: impl Fn() -> bool) -> bool {
        if let Some(bell) = &self.bell {
            bell.notify.clear();
            bell.is_armed.store(true, Ordering::SeqCst);
        }
        !is_there() && self.stations().iter().all(|station| station.arm())
    }

    /// Sleeps until something may have ended, at most this long.
    pub fn sleep(&self, at_most: Option<Duration>) {
        let at_most = at_most.unwrap_or(SLEEP_MAX).min(SLEEP_MAX);
        if let Some(bell) = &self.bell {
            let mut ready = Vec::new();
            if bell.poller.wait(Some(at_most), &mut ready).is_ok() {
                return;
            }
        }
        let first = self.stations().first().cloned();
        match first {
            Some(station) => {
                station.wait(at_most.min(NAP_MAX));
            }
            None => std::thread::sleep(at_most.min(NAP_MAX)),
        }
    }
}

impl Bell {
    fn new() -> std::io::Result<Bell> {
        let (poller, notify) = (Poller::new()?, Notify::new()?);
        poller.register(&notify, 0, Interest::Read)?;
        Ok(Bell {
            poller,
            notify,
            is_armed: AtomicBool::new(false),
        })
    }
}
