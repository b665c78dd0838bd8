//! A NIC: an endpoint, its objects, and who runs it.
//!
//! Any thread that asks for something, or waits for it, takes in arrivals. Of the waiting threads one waits at the endpoint, the
//! others for that one. While nobody does, the NIC's own thread does: so handlers are called, errors reported and lost peers
//! noticed even if the program computes, and the status of a descriptor changes for a program that polls nothing else.

use core::ffi::c_void;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tabane_io::process::Forks;
use tabane_rank::environment::{self, Problem};
use tabane_rank::{Address, Core, Endpoint};

use crate::abi::{self, ERROR_RESOURCE, ErrorDescriptor, INVALID_PARAMETER, Outcome};
use crate::address::Host;
use crate::completion::TICK;
use crate::guard;
use crate::memory::{NO_TAG, Secrets};
use crate::rendezvous::{PORT, Question, Rendezvous};
use crate::state::{Call, Side, State};

/// The NIC's own thread leaves a program that polls alone for this long.
const LEAVE: Duration = Duration::from_millis(2);
/// A waiting thread spins this long before it sleeps: an answer is often quicker than a wake-up.
const SPIN: Duration = Duration::from_micros(30);

/// The kind of a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// `VIP_NIC_HANDLE`
    Nic = 1,
    /// `VIP_VI_HANDLE`
    Vi = 2,
    /// `VIP_CQ_HANDLE`
    Cq = 3,
    /// `VIP_PROTECTION_HANDLE`
    Ptag = 4,
    /// `VIP_CONN_HANDLE`
    Caller = 5,
}

/// All NICs of the process, by number.
static NICS: RwLock<BTreeMap<u32, Arc<Nic>>> = RwLock::new(BTreeMap::new());
static LAST: AtomicU32 = AtomicU32::new(0);

/// Time for sent data to arrive when the program ends without closing its NICs.
const END_MAX: Duration = Duration::from_millis(1500);

/// NICs have 24 bits of a handle.
const NIC_MAX: u32 = (1 << 24) - 1;

/// A NIC.
pub struct Nic {
    /// Its number.
    number: u32,
    /// The process that has opened it: a fork has neither its threads nor, perhaps, its locks.
    process: Forks,
    /// As it was opened.
    pub name: String,
    /// Carries all traffic.
    pub endpoint: Endpoint,
    /// This node's part of addresses; never freed, for the program has it.
    pub host: &'static Host,
    /// Finds processes, and is found by them.
    pub rendezvous: Rendezvous,
    state: Mutex<State>,
    news: Condvar,
    ends: AtomicBool,
    /// The program has asked for something since the NIC's own thread last looked.
    was_run: AtomicBool,
    threads: Mutex<Threads>,
    prints: bool,
}

#[derive(Default)]
struct Threads {
    service: Option<JoinHandle<()>>,
    rendezvous: Option<JoinHandle<()>>,
}

/// The parts of a handle: the NIC, the kind, and the number.
fn parts(handle: *mut c_void) -> (u32, u32, u32) {
    let bits = handle.addr() as u64;
    ((bits >> 40) as u32, (bits >> 32) as u32 & 0xff, bits as u32)
}

/// The NIC of a handle.
///
/// # Errors
/// There is none, or it is closed.
pub fn nic(handle: *mut c_void) -> Outcome<Arc<Nic>> {
    match parts(handle) {
        (number, kind, 0) if kind == Kind::Nic as u32 => numbered(number),
        _ => Err(INVALID_PARAMETER),
    }
}

/// The NIC and the number of a handle.
///
/// # Errors
/// The handle is not of this kind, or its NIC is closed.
pub fn of(handle: *mut c_void, kind: Kind) -> Outcome<(Arc<Nic>, u32)> {
    match parts(handle) {
        (number, found, id) if found == kind as u32 => Ok((numbered(number)?, id)),
        _ => Err(INVALID_PARAMETER),
    }
}

fn numbered(number: u32) -> Outcome<Arc<Nic>> {
    let nics = NICS.read().unwrap_or_else(PoisonError::into_inner);
    let nic = nics.get(&number).filter(|nic| nic.process.is_here());
    nic.map(Arc::clone).ok_or(INVALID_PARAMETER)
}

/// Closes NICs that the program has left open when it ends: data that was reported as sent is not lost.
extern "C" fn close_all() {
    // A panic must not come back into C.
    let _ = std::panic::catch_unwind(|| {
        let nics: Vec<_> = {
            let nics = NICS.read().unwrap_or_else(PoisonError::into_inner);
            let own = nics.values().filter(|nic| nic.process.is_here());
            own.map(Arc::clone).collect()
        };
        let until = Instant::now() + END_MAX;
        for nic in nics {
            let rest = Arc::downgrade(&nic);
            if nic.close().is_ok() {
                // A thread that waits for something of it has it still, for a moment.
                while rest.strong_count() > 0 && Instant::now() < until {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
    });
}

/// Has [`close_all`] called when the program ends.
fn close_at_exit() {
    unsafe extern "C" {
        safe fn atexit(handler: extern "C" fn()) -> core::ffi::c_int;
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    // If it cannot be registered, the program must close what it has opened.
    ONCE.call_once(|| {
        atexit(close_all);
    });
}

/// The number that a device's name ends in.
fn device(name: &str) -> u64 {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    // A number that does not fit is no valid one.
    match &name[name.len() - digits..] {
        "" => 0,
        digits => digits.parse().unwrap_or(u64::MAX),
    }
}

/// A variable of the environment by its name without `TABANE_`; an empty one counts as none.
fn variable(name: &str) -> Option<String> {
    environment::value(&format!("TABANE_{name}"))
}

/// The first port of doors.
fn door_port() -> Outcome<u16> {
    let Some(value) = variable("VI_PORT") else {
        return Ok(PORT);
    };
    let port = value.trim().parse::<u16>().ok().filter(|port| *port > 0);
    port.ok_or_else(|| {
        let right = "it is the number of a UDP port, the first of 64, the same for all of the job";
        guard::say(&Problem::of("VI_PORT", &value, "this is no port", right).0);
        ERROR_RESOURCE
    })
}

impl Nic {
    /// Opens the device of this name.
    ///
    /// # Errors
    /// There is no such device, or the environment does not say what it must; a line on standard error says what.
    pub fn open(name: &str) -> Outcome<*mut c_void> {
        // There is one device, under any name that programs use; a program that counts devices finds one.
        if name.is_empty() || name.len() >= 64 || device(name) != 0 {
            return Err(INVALID_PARAMETER);
        }
        let (configuration, odd) = environment::here(&variable).map_err(|Problem(line)| {
            guard::say(&line);
            ERROR_RESOURCE
        })?;
        for Problem(line) in odd {
            guard::say(&line);
        }
        let port = door_port()?;
        let settings = &configuration.settings;
        let endpoint = Endpoint::open(settings).map_err(|error| {
            let links = environment::shown(&settings.links);
            guard::say(&format!(
                "no endpoint can be made on the links {links}: {error}"
            ));
            ERROR_RESOURCE
        })?;
        let links: Vec<_> = settings.links.iter().map(|(_, address)| *address).collect();
        let host = Host::of(links.clone()).ok_or(ERROR_RESOURCE)?;
        let rendezvous = Rendezvous::new(links, &settings.key, port).map_err(|_| ERROR_RESOURCE)?;
        let mut state = State::new(*endpoint.address(), host);
        let secrets = State::new_secrets()?;
        state.ptags.insert(
            0,
            Secrets {
                users: 1,
                ..secrets
            },
        );
        state.listen(&mut *endpoint.lock())?;
        let number = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if number > NIC_MAX {
            return Err(ERROR_RESOURCE);
        }
        let nic = Arc::new(Nic {
            number,
            process: Forks::here().map_err(|_| ERROR_RESOURCE)?,
            name: name.to_owned(),
            endpoint,
            host: Box::leak(Box::new(host)),
            rendezvous,
            state: Mutex::new(state),
            news: Condvar::new(),
            ends: AtomicBool::new(false),
            was_run: AtomicBool::new(true),
            threads: Mutex::default(),
            prints: configuration.stats,
        });
        nic.start(|threads| &mut threads.service, || Ok(Nic::serve))?;
        close_at_exit();
        let mut nics = NICS.write().unwrap_or_else(PoisonError::into_inner);
        nics.insert(number, Arc::clone(&nic));
        Ok(nic.handle(Kind::Nic, 0))
    }

    /// Starts one of its threads, if it does not run. Its loop is made here, where errors can be reported.
    fn start<L: FnOnce(&Nic) + Send + 'static>(
        self: &Arc<Nic>,
        which: fn(&mut Threads) -> &mut Option<JoinHandle<()>>,
        life: impl FnOnce() -> Outcome<L>,
    ) -> Outcome<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = which(&mut threads);
        if thread.is_none() {
            let (nic, life) = (Arc::clone(self), life()?);
            let builder = thread::Builder::new().name("tabane-vi".into());
            let spawned = builder.spawn(move || life(&nic));
            *thread = Some(spawned.map_err(|_| ERROR_RESOURCE)?);
        }
        Ok(())
    }

    /// Looks for other processes from now on.
    ///
    /// # Errors
    /// No thread can be started, or no descriptor is left.
    pub fn seek(self: &Arc<Nic>) -> Outcome<()> {
        self.start(
            |threads| &mut threads.rendezvous,
            || self.rendezvous.life().map_err(|_| ERROR_RESOURCE),
        )
    }

    /// From now on other processes can find it.
    ///
    /// # Errors
    /// There is no door left; a line on standard error says so.
    pub fn open_door(self: &Arc<Nic>) -> Outcome<()> {
        self.rendezvous.open().map_err(|_| ERROR_RESOURCE)?;
        self.seek()
    }

    /// Closes it: every handle of it is stale, and who waits for something of it waits no longer.
    ///
    /// # Errors
    /// It was closed already.
    pub fn close(self: Arc<Nic>) -> Outcome<()> {
        let mut nics = NICS.write().unwrap_or_else(PoisonError::into_inner);
        nics.remove(&self.number).ok_or(INVALID_PARAMETER)?;
        drop(nics);
        self.lock().is_closed = true;
        self.ends.store(true, Ordering::Release);
        self.rendezvous.ends.store(true, Ordering::Release);
        self.rendezvous.wake.notify();
        self.news.notify_all();
        self.endpoint.interrupt();
        let threads = {
            let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            [threads.service.take(), threads.rendezvous.take()]
        };
        for thread in threads.into_iter().flatten() {
            // A handler may close it: then the thread ends when that returns.
            if thread.thread().id() != thread::current().id() {
                thread.thread().unpark();
                let _ = thread.join();
            }
        }
        Ok(())
    }

    /// The handle of something of it.
    pub fn handle(&self, kind: Kind, id: u32) -> *mut c_void {
        let bits = u64::from(self.number) << 40 | (kind as u64) << 32 | u64::from(id);
        core::ptr::without_provenance_mut(bits as usize)
    }

    /// The number of one of its objects, by handle.
    ///
    /// # Errors
    /// The handle is of nothing of this kind and NIC.
    pub fn id(&self, handle: *mut c_void, kind: Kind) -> Outcome<u32> {
        match parts(handle) {
            (nic, found, id) if nic == self.number && found == kind as u32 => Ok(id),
            _ => Err(INVALID_PARAMETER),
        }
    }

    /// The handle of a tag.
    pub fn ptag_handle(&self, ptag: u32) -> *mut c_void {
        match ptag {
            NO_TAG => core::ptr::null_mut(),
            ptag => self.handle(Kind::Ptag, ptag),
        }
    }

    /// The tag of a handle; NULL is the tag of objects without one.
    ///
    /// # Errors
    /// [`abi::INVALID_PTAG`]
    pub fn ptag(&self, handle: *mut c_void) -> Outcome<u32> {
        match handle.is_null() {
            true => Ok(NO_TAG),
            false => (self.id(handle, Kind::Ptag)).map_err(|_| abi::INVALID_PTAG),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes its state.
    ///
    /// # Errors
    /// It is closed, or the error of `act`.
    pub fn with<T>(&self, act: impl FnOnce(&mut State, &mut dyn Core) -> Outcome<T>) -> Outcome<T> {
        self.was_run.store(true, Ordering::Release);
        let mut state = self.lock();
        if state.is_closed {
            return Err(INVALID_PARAMETER);
        }
        let mut core = self.endpoint.lock();
        let done = act(&mut state, &mut *core);
        state.drain(&mut *core);
        drop(core);
        self.tell(&mut state);
        done
    }

    /// The same, after taking in arrivals.
    ///
    /// # Errors
    /// As of [`with`](Nic::with).
    pub fn look<T>(&self, act: impl FnOnce(&mut State) -> Outcome<T>) -> Outcome<T> {
        self.with(|state, core| {
            core.progress();
            state.drain(core);
            act(state)
        })
    }

    /// Wakes who waits, if there is something new.
    fn tell(&self, state: &mut State) {
        if !core::mem::take(&mut state.is_news) {
            return;
        }
        if state.has_driver {
            self.endpoint.interrupt();
        }
        if state.followers > 0 {
            self.news.notify_all();
        }
        if !state.calls.is_empty() {
            self.unpark();
        }
    }

    fn unpark(&self) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(service) = &threads.service {
            service.thread().unpark();
        }
    }

    /// Waits until `check` finds something, or until then; takes in arrivals meanwhile.
    ///
    /// # Errors
    /// It is closed, or the error of `check`.
    pub fn wait<T>(
        &self,
        until: Option<Instant>,
        mut check: impl FnMut(&mut State) -> Outcome<Option<T>>,
    ) -> Outcome<Option<T>> {
        let began = Instant::now();
        self.was_run.store(true, Ordering::Release);
        let mut state = self.lock();
        let mut is_first = true;
        loop {
            if state.is_closed {
                return Err(INVALID_PARAMETER);
            }
            // Return what is there already before taking in more.
            if core::mem::take(&mut is_first)
                && let found @ (Ok(Some(_)) | Err(_)) = check(&mut state)
            {
                return found;
            }
            {
                let mut core = self.endpoint.lock();
                core.progress();
                state.drain(&mut *core);
            }
            let found = check(&mut state);
            let now = Instant::now();
            let is_over = until.is_some_and(|until| until <= now);
            if is_over || !matches!(found, Ok(None)) {
                // Another one waits at the endpoint in this one's place.
                state.is_news |= state.followers > 0;
                self.tell(&mut state);
                return found;
            }
            self.tell(&mut state);
            let patience = until.map_or(TICK, |until| (until - now).min(TICK));
            if now.duration_since(began) < SPIN {
                drop(state);
                thread::yield_now();
                state = self.lock();
            } else if state.has_driver {
                state.followers += 1;
                let waited = self.news.wait_timeout(state, patience);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                state.followers -= 1;
            } else {
                state.has_driver = true;
                drop(state);
                self.endpoint.wait_a_turn(patience);
                state = self.lock();
                state.has_driver = false;
            }
        }
    }

    /// The life of its own thread.
    fn serve(&self) {
        while !self.ends.load(Ordering::Acquire) {
            self.call();
            let has_notices = self.lock().notices > 0;
            if self.was_run.swap(false, Ordering::AcqRel) && !has_notices {
                thread::park_timeout(LEAVE);
                continue;
            }
            let until = Instant::now() + TICK;
            // It ends when the NIC is closed.
            let _ = self.wait(Some(until), |state| {
                Ok((!state.calls.is_empty()).then_some(()))
            });
            // That was not the program.
            self.was_run.store(false, Ordering::Release);
        }
    }

    /// Calls the program's handlers.
    fn call(&self) {
        loop {
            let Some(call) = self.lock().calls.pop_front() else {
                return;
            };
            let own = self.handle(Kind::Nic, 0);
            // SAFETY: the program has given the handlers and their arguments. They are C's, so no panic comes back from them.
            unsafe {
                match call {
                    Call::Vi {
                        notice,
                        vi,
                        descriptor,
                    } => {
                        let context = context(notice.context);
                        (notice.handler)(context, own, self.handle(Kind::Vi, vi), descriptor);
                    }
                    Call::Cq {
                        context: given,
                        handler,
                        vi,
                        side,
                    } => {
                        let is_receive = (side == Side::Receive).into();
                        handler(context(given), own, self.handle(Kind::Vi, vi), is_receive);
                    }
                    Call::Error {
                        context: given,
                        handler,
                        vi,
                        code,
                    } => {
                        let mut descriptor = ErrorDescriptor {
                            nic: own,
                            vi: self.handle(Kind::Vi, vi),
                            cq: core::ptr::null_mut(),
                            descriptor: core::ptr::null_mut(),
                            op_code: 0,
                            resource_code: abi::RESOURCE_VI,
                            error_code: code,
                        };
                        handler(context(given), &raw mut descriptor);
                    }
                }
            }
        }
    }

    /// The questions to ask now; see [`State::questions`]. Arrivals are taken in before any request is declared to have timed
    /// out.
    pub fn questions(&self) -> (Vec<Question>, Option<Instant>) {
        let found = self.quietly(|state, core| {
            let now = Instant::now();
            core.progress();
            state.drain(core);
            state.questions(core, now)
        });
        found.unwrap_or_default()
    }

    /// Whether somebody is sought here.
    pub fn awaits(&self, question: &Question) -> bool {
        self.quietly(|state, _| state.awaits(question)) == Some(true)
    }

    /// A process was found.
    pub fn found(&self, line: u32, there: &Address) {
        self.quietly(|state, core| state.found(core, line, there));
    }

    /// Sets whether there is a way to a sought process.
    pub fn reaches(&self, line: u32, is_reachable: bool) {
        self.quietly(|state, _| state.reaches(line, is_reachable));
    }

    /// Does something that the program has not asked for. `None`: it is closed.
    fn quietly<T>(&self, act: impl FnOnce(&mut State, &mut dyn Core) -> T) -> Option<T> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        let mut core = self.endpoint.lock();
        let done = act(&mut state, &mut *core);
        drop(core);
        self.tell(&mut state);
        Some(done)
    }
}

fn context(given: usize) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(given)
}

impl Drop for Nic {
    fn drop(&mut self) {
        if self.prints {
            let done = self.endpoint.lock().statistics();
            guard::say(&done.summary(self.endpoint.address()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_counts_devices_finds_one() {
        for one in ["tabane0", "/dev/clanvi0", "VINIC", "nic00", "/dev/via_lo"] {
            assert_eq!(device(one), 0, "{one}");
        }
        for other in ["tabane1", "/dev/clanvi12", "nic99999999999999999999999"] {
            assert_ne!(device(other), 0, "{other}");
        }
    }

    #[test]
    fn a_handle_has_three_parts() {
        let bits = 5u64 << 40 | 2 << 32 | 0xffff_fff0;
        let handle = core::ptr::without_provenance_mut(bits as usize);
        assert_eq!(parts(handle), (5, 2, 0xffff_fff0));
        assert!(nic(handle).is_err());
        assert!(of(handle, Kind::Vi).is_err());
        assert!(nic(core::ptr::null_mut()).is_err());
    }
}
