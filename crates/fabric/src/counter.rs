//! Counters of completions.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use crate::abi::constants as c;
use crate::abi::errors::{self, Outcome};
use crate::abi::fabric::{Fid, FidOps};
use crate::abi::queues::{CntrAttr, CntrOps, FidCntr};
use crate::domain::Domain;
use crate::object::{self, Face, Held, Object, Users};
use crate::waiting::Waiter;
use crate::{guard, words};

/// The object of `fi_cntr_open`.
#[repr(C)]
pub struct Counter {
    face: Face<FidCntr>,
    users: Users,
    domain: Held<Domain>,
    succeeded: AtomicU64,
    failed: AtomicU64,
    waiter: Waiter,
}

// SAFETY: the first field is a Face of a FidCntr, which begins with a Fid.
unsafe impl Object for Counter {
    const CLASS: usize = c::CLASS_CNTR;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Counter {
    /// The waiter for its endpoints.
    pub fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    /// The program's context for it.
    pub fn context(&self) -> *mut c_void {
        self.face.context()
    }

    /// Its counts of successes and failures.
    pub fn counted(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        (read(&self.succeeded), read(&self.failed))
    }

    /// Whether it belongs to this domain.
    pub fn is_of(&self, domain: &Held<Domain>) -> bool {
        self.domain.is(domain.shared())
    }

    /// One more.
    pub fn count(&self, is_failure: bool) {
        let counter = if is_failure {
            &self.failed
        } else {
            &self.succeeded
        };
        counter.fetch_add(1, Ordering::SeqCst);
        self.waiter.ring();
    }

    /// Whether waiting for the descriptor is right.
    pub fn may_wait(&self) -> bool {
        self.waiter.progress();
        self.waiter.may_sleep(|| false)
    }

    fn wait(&self, threshold: u64, timeout: Option<Duration>) -> Outcome<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let failed = self.failed.load(Ordering::SeqCst);
        loop {
            self.waiter.progress();
            let is_there = || {
                self.succeeded.load(Ordering::SeqCst) >= threshold
                    || self.failed.load(Ordering::SeqCst) != failed
            };
            if self.succeeded.load(Ordering::SeqCst) >= threshold {
                return Ok(());
            }
            if is_there() {
                return Err(errors::AVAIL);
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(errors::TIMEDOUT);
            }
            if self.waiter.may_sleep(is_there) {
                self.waiter.sleep(left);
            }
        }
    }
}

/// The counters of each region, by its key, and what they count.
type ByRegion = HashMap<u64, Vec<(u64, Held<Counter>)>>;

/// The counters of a domain's regions, by the regions' keys, with the kinds of access that each counts (`FI_REMOTE_READ`,
/// `FI_REMOTE_WRITE`). An endpoint that was opened for it (`FI_RMA_EVENT`) is told of accesses to every region, so that a
/// counter may be bound to a region at any time. Endpoints ask here while their engines are locked, so nothing else is
/// locked meanwhile.
#[derive(Default)]
pub struct OfRegions(RwLock<ByRegion>);

impl OfRegions {
    fn read(&self) -> RwLockReadGuard<'_, ByRegion> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ByRegion> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more counter of a region.
    pub fn add(&self, key: u64, of: u64, counter: Arc<Counter>) {
        let mut all = self.write();
        all.entry(key).or_default().push((of, Held::new(counter)));
    }

    /// The region is gone; returns its counters.
    pub fn remove(&self, key: u64) -> Vec<(u64, Held<Counter>)> {
        self.write().remove(&key).unwrap_or_default()
    }

    /// Others did this with a region (one or both flags). A counter of both counts it once.
    pub fn count(&self, key: u64, done: u64) {
        for (of, counter) in self.read().get(&key).into_iter().flatten() {
            if of & done != 0 {
                counter.count(false);
            }
        }
    }

    /// Of which accesses a region has counters.
    pub fn counted(&self, key: u64) -> u64 {
        let all = self.read();
        let region = all.get(&key).into_iter().flatten();
        region.fold(0, |counted, (of, _)| counted | of)
    }

    /// Whether any region has this counter.
    pub fn has(&self, counter: &Arc<Counter>) -> bool {
        let all = self.read();
        let mut bound = all.values().flatten();
        bound.any(|(_, have)| have.is(counter))
    }

    /// The counters of one region, or of all.
    pub fn counters(&self, key: Option<u64>) -> Vec<Arc<Counter>> {
        let all = self.read();
        let shared = |(_, counter): &(u64, Held<Counter>)| Arc::clone(counter.shared());
        match key {
            Some(key) => all.get(&key).into_iter().flatten().map(shared).collect(),
            None => all.values().flatten().map(shared).collect(),
        }
    }
}

static FID_OPS: FidOps = FidOps {
    size: size_of::<FidOps>(),
    close: object::close::<Counter>,
    bind: guard::no_bind,
    control,
    ops_open: guard::absent,
    tostr: guard::absent,
    ops_set: guard::absent,
};

static OPS: CntrOps = CntrOps {
    size: size_of::<CntrOps>(),
    read,
    readerr,
    add,
    set,
    wait,
    adderr,
    seterr,
    export_xpu: guard::absent,
};

/// `fi_cntr_open`.
///
/// # Safety
/// The attributes and the place are null or valid.
pub unsafe fn open(
    domain: Held<Domain>,
    attr: *const CntrAttr,
    place: *mut *mut FidCntr,
    context: *mut c_void,
) -> Outcome<()> {
    // SAFETY: as above. No field is read that came after 1.17.
    let attr = unsafe { attr.as_ref() };
    if attr.is_some_and(|attr| attr.events != c::CNTR_EVENTS_COMP) {
        return Err(errors::NOSYS);
    }
    let counter = Counter {
        face: Face::new(FidCntr {
            fid: object::fid::<Counter>(context, &FID_OPS),
            ops: &raw const OPS,
        }),
        users: Users::default(),
        domain,
        succeeded: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        waiter: Waiter::new(attr.map_or(c::WAIT_NONE, |attr| attr.wait_obj))?,
    };
    // SAFETY: as above.
    unsafe { object::give(place, Arc::new(counter)) }
}

/// The counter that C speaks of.
///
/// # Safety
/// As of [`object::object`].
unsafe fn counter<'a>(counter: *mut FidCntr) -> Outcome<&'a Counter> {
    // SAFETY: as above.
    unsafe { object::object(counter.cast()) }
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a counter of ours, and a place of the type that the command has.
        unsafe {
            let waiter = counter(fid.cast())?.waiter();
            match command {
                c::GETWAIT => guard::put(argument.cast(), waiter.descriptor()?),
                c::GETWAITOBJ => guard::put(argument.cast(), waiter.wait_object()),
                _ => Err(errors::NOSYS),
            }
        }
    })
}

unsafe extern "C" fn read(given: *mut FidCntr) -> u64 {
    guard::value(0, || {
        // SAFETY: C gives a counter of ours.
        let counter = unsafe { counter(given) }?;
        counter.waiter.progress();
        Ok(counter.succeeded.load(Ordering::SeqCst))
    })
}

unsafe extern "C" fn readerr(given: *mut FidCntr) -> u64 {
    guard::value(0, || {
        // SAFETY: C gives a counter of ours.
        let counter = unsafe { counter(given) }?;
        counter.waiter.progress();
        Ok(counter.failed.load(Ordering::SeqCst))
    })
}

unsafe extern "C" fn add(given: *mut FidCntr, value: u64) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a counter of ours.
        let counter = unsafe { counter(given) }?;
        counter.succeeded.fetch_add(value, Ordering::SeqCst);
        counter.waiter.ring();
        Ok(())
    })
}

unsafe extern "C" fn set(given: *mut FidCntr, value: u64) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a counter of ours.
        let counter = unsafe { counter(given) }?;
        counter.succeeded.store(value, Ordering::SeqCst);
        counter.waiter.ring();
        Ok(())
    })
}

unsafe extern "C" fn adderr(given: *mut FidCntr, value: u64) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a counter of ours.
        let counter = unsafe { counter(given) }?;
        counter.failed.fetch_add(value, Ordering::SeqCst);
        counter.waiter.ring();
        Ok(())
    })
}

unsafe extern "C" fn seterr(given: *mut FidCntr, value: u64) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a counter of ours.
        let counter = unsafe { counter(given) }?;
        counter.failed.store(value, Ordering::SeqCst);
        counter.waiter.ring();
        Ok(())
    })
}

unsafe extern "C" fn wait(given: *mut FidCntr, threshold: u64, timeout: c_int) -> c_int {
    guard::status(|| {
        // SAFETY: C gives a counter of ours.
        let counter = unsafe { counter(given) }?;
        counter.wait(threshold, words::timeout(timeout))
    })
}
