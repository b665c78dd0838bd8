//! Who runs the node at any moment: the *driver*.
//!
//! A thread that waits for something becomes the driver if there is none: it takes turns of the
//! engine until it has what it waits for. While it sleeps in a turn the lock is free, so that others
//! can read and write. Other waiting threads sleep; their wakers wake them, and when the driver
//! leaves, one of them becomes the driver. If nobody waits, the helper thread drives after a delay:
//! a program that comes back at once should find the lock free, and need to wake no thread. To
//! notice that nobody drives, the helper checks periodically; so a new driver leaves timers to it.

#[cfg(test)]
mod tests;

use core::task::{Poll, Waker};
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Instant;
use tabane_proto::GRANULARITY;
use tabane_proto::link::thresholds::{BURST_BYTES_MAX, PAUSE};

use tabane_engine::{Engine, Wait};
use tabane_io::notify::Notify;
use tabane_io::poll::{Interest, Poller, Ready};
use tabane_io::process::Forks;
use tabane_proto::Time;

use crate::Gone;
use crate::interruptible::{self, Bell};
use crate::loopback::Operations;
use crate::sockets::{Sockets, TOKEN_KICK};
use crate::waiting::Waiter;

/// The helper leaves a program that computes alone for so long: liveness bears it, and acknowledgements are late by this at
/// most.
const GRACE: Duration = GRANULARITY;
/// A driver that waits for longer than this needs no helper that looks every now and then. It wakes the helper when it
/// leaves.
const LONG: Duration = PAUSE;
/// The helper looks every [`GRACE`]. A driver that has nothing due for longer than this sleeps without a timer, and the
/// helper wakes it when this much of the wait is left.
const AHEAD: Duration = Duration::from_millis(2 * GRACE.as_millis() as u64);
/// The helper survives a panic, which is a fault of this library, so often; then the node is broken,
/// for a fault that comes again at once would keep a processor busy for ever.
const PANICS_MAX: usize = 16;
/// After this many written bytes, arrivals are taken in.
const LOOK_BYTES: usize = 128 * 1024;
/// Bytes posted until they are sent: what one system call takes.
const POST_BYTES: usize = BURST_BYTES_MAX;
/// [`LOOK_BYTES`] as a time.
const LOOK_AFTER: Duration = Duration::from_micros(200);

/// Everything that the program's threads share.
pub(crate) struct State {
    pub engine: Engine,
    pub sockets: Sockets,
    driver: Option<Driver>,
    /// Numbers drivers.
    drivers: u64,
    /// Threads that would drive if they could.
    waiting: Vec<Thread>,
    /// When the last driver left, or looked.
    left_at: Time,
    written: usize,
    /// Posted, and not sent yet.
    posted_bytes: usize,
    /// The clock as the lock's last holder read it: reading it costs as much as checking a stream.
    pub now: Time,
    /// The helper thread, once it runs.
    helper: Option<Thread>,
    /// Until it is woken.
    helper_sleeps: bool,
    gone: Option<Gone>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Driver {
    number: u64,
    is_helper: bool,
    /// When it first slept.
    since: Option<Time>,
    /// It sleeps until then at most.
    until: Time,
    /// But only if the helper wakes it.
    is_untimed: bool,
}

impl Driver {
    const fn new(number: u64, is_helper: bool) -> Driver {
        Driver {
            number,
            is_helper,
            since: None,
            until: Time::ZERO,
            is_untimed: false,
        }
    }

    /// Whether it has been the driver for long.
    fn is_old(&self, now: Time) -> bool {
        self.since.is_some_and(|since| now.since(since) > LONG)
    }
}

/// A node and its users.
pub(crate) struct Hub {
    state: Mutex<State>,
    poller: Arc<Poller>,
    /// The helper sleeps on the poller and `shoo`.
    helpers_poller: Poller,
    /// Wakes the driver.
    kick: Notify,
    /// Wakes the helper out of its sleep as a driver.
    shoo: Notify,
    process: Forks,
    /// A signal handler ends calls that wait.
    is_interruptible: bool,
}

/// It did not happen in time.
#[derive(Debug)]
pub(crate) struct TimedOut;

impl Hub {
    pub fn new(engine: Engine, sockets: Sockets) -> io::Result<Hub> {
        let poller = Arc::clone(engine.poller());
        let (kick, shoo) = (Notify::new()?, Notify::new()?);
        poller.register(&kick, TOKEN_KICK, Interest::Read)?;
        let helpers_poller = Poller::new()?;
        helpers_poller.register(&*poller, 0, Interest::Read)?;
        helpers_poller.register(&shoo, 1, Interest::Read)?;
        let left_at = engine.now();
        Ok(Hub {
            state: Mutex::new(State {
                engine,
                sockets,
                driver: None,
                drivers: 0,
                waiting: Vec::new(),
                left_at,
                written: 0,
                posted_bytes: 0,
                now: left_at,
                helper: None,
                helper_sleeps: false,
                gone: None,
            }),
            poller,
            helpers_poller,
            kick,
            shoo,
            process: Forks::here()?,
            is_interruptible: false,
        })
    }

    /// Sets whether a signal handler that runs in a waiting thread ends its call.
    pub const fn interruptible(mut self, is_interruptible: bool) -> Hub {
        self.is_interruptible = is_interruptible;
        self
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>, Gone> {
        // Before the lock, which in a fork may be held for ever.
        if !self.process.is_here() {
            return Err(Gone::Forked);
        }
        let mut state = self.lock_here();
        state.now = state.engine.now();
        match state.gone {
            Some(gone) => Err(gone),
            None => Ok(state),
        }
    }

    /// A panic in a turn leaves the node as it was before the turn or after a part of it: both are
    /// states that it can go on from.
    fn lock_here(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Looks at the node.
    pub fn look<R>(&self, look: impl FnOnce(&mut State) -> R) -> Result<R, Gone> {
        Ok(look(&mut *self.lock()?))
    }

    /// Changes something in the node, and has it sent: `act` returns with how many bytes it wrote.
    pub fn act<R>(&self, act: impl FnOnce(&mut State) -> (R, usize)) -> Result<R, Gone> {
        let mut state = self.lock()?;
        let (result, bytes) = act(&mut state);
        state.written += bytes;
        self.send(&mut state)?;
        self.release(state);
        Ok(result)
    }

    /// Changes something in the node that is to be sent soon: `act` also returns the number of bytes
    /// it wrote. The next thread that runs the node sends it, or else the helper.
    pub fn post<R>(&self, act: impl FnOnce(&mut State) -> (R, usize)) -> Result<R, Gone> {
        let mut state = self.lock()?;
        let (result, bytes) = act(&mut state);
        let is_first = state.posted_bytes == 0;
        state.posted_bytes += bytes.max(1);
        if state.posted_bytes >= POST_BYTES {
            self.send(&mut state)?;
            self.release(state);
        } else if is_first {
            // A program's thread that drives may sleep for long: the helper, which then sleeps too,
            // sends in its stead.
            let kicks = state.driver.is_some_and(|driver| driver.is_helper);
            let helper = match state.helper_sleeps {
                true => state.helper.clone(),
                false => None,
            };
            drop(state);
            if kicks {
                self.kick.notify();
            }
            helper.iter().for_each(Thread::unpark);
        }
        Ok(result)
    }

    /// Sends what is queued, and takes in arrivals if nobody else does.
    pub fn refresh(&self) -> Result<(), Gone> {
        let mut state = self.lock()?;
        let now = state.now;
        state.flush(now);
        if state.driver.is_none() {
            self.take_in(&mut state).map_err(|_| Gone::Broken)?;
            state.flush(now);
        }
        self.release(state);
        Ok(())
    }

    /// Asks for something once; `poll` registers the waker if it is not there yet, and the helper
    /// runs the node until it is.
    pub fn poll<R>(
        &self,
        waiter: &mut Waiter,
        poll: impl FnOnce(&mut State, &mut Waiter) -> Poll<R>,
    ) -> Result<Poll<R>, Gone> {
        let mut state = self.lock()?;
        let polled = poll(&mut state, waiter);
        state.sockets.has_tasks = true;
        self.send(&mut state)?;
        self.release(state);
        Ok(polled)
    }

    /// A call that waited has ended. A node that is gone has woken all.
    pub fn give_up(&self, waiter: &mut Waiter) {
        if waiter.waits()
            && let Ok(mut state) = self.lock()
        {
            state.sockets.forget(waiter);
            self.release(state);
        }
    }

    /// Returns a descriptor to wait for: from now on the helper runs the node.
    pub fn descriptor(
        &self,
        take: impl FnOnce(&mut State) -> io::Result<Arc<Notify>>,
    ) -> io::Result<Arc<Notify>> {
        let mut state = self.lock()?;
        let taken = take(&mut state);
        state.sockets.has_tasks = true;
        self.release(state);
        taken
    }

    /// Sends what is queued; now and then also takes in arrivals.
    fn send(&self, state: &mut State) -> Result<(), Gone> {
        let now = state.now;
        // First, because somebody waits for it.
        state.flush(now);
        if state.driver.is_none()
            && (state.written > LOOK_BYTES || now.since(state.left_at) > LOOK_AFTER)
        {
            self.take_in(state).map_err(|_| Gone::Broken)?;
        } else {
            state.work(&[], self);
        }
        // Sends the answers to events: the driver already sleeps.
        state.flush(now);
        Ok(())
    }

    /// Takes in arrivals, if nobody drives.
    fn take_in(&self, state: &mut State) -> io::Result<()> {
        state.written = 0;
        state.left_at = state.now;
        let mut ready = Vec::new();
        self.poller.wait(Some(Duration::ZERO), &mut ready)?;
        state.work(&ready, self);
        Ok(())
    }

    /// Releases the lock and wakes those concerned by what happened.
    fn release(&self, mut state: MutexGuard<'_, State>) {
        let until = state.driver.map(|driver| driver.until);
        let due = until.and_then(|_| state.due());
        let kicks = due.zip(until).is_some_and(|(at, until)| at < until);
        // A helper that sleeps may have to look after a timer now.
        let sleeps = state.helper_sleeps || state.sockets.has_tasks;
        let helper = match state.driver {
            None if sleeps => state.helper.clone(),
            _ => None,
        };
        let awake = state.sockets.take_woken();
        let dropped = state.sockets.take_dropped();
        // One of them may be the driver, which its waker cannot wake.
        let kicks = kicks || (state.driver.is_some() && !awake.is_empty());
        drop(state);
        drop(dropped);
        wake(awake);
        if kicks {
            self.kick.notify();
        }
        helper.iter().for_each(Thread::unpark);
    }

    /// Runs the node in this thread until `poll` is satisfied. `poll` registers the waker if it is
    /// not, and is called again after every relevant change.
    pub fn wait_for<R>(
        &self,
        until: Option<Instant>,
        mut poll: impl FnMut(&mut State, &mut Waiter) -> Poll<R>,
    ) -> Result<Result<R, TimedOut>, Gone> {
        let may_sleep = || until.is_none_or(|until| until > Instant::now());
        // A process that has no descriptors left is not interrupted.
        if self.is_interruptible
            && may_sleep()
            && let Ok(bell) = Bell::new()
        {
            return interruptible::wait_for(self, &bell, until, poll);
        }
        let mut mine = Mine {
            hub: self,
            number: None,
            waiter: Waiter::new(own_waker()),
        };
        let mut state = self.lock()?;
        let mut has_looked = false;
        let result = loop {
            if let Some(gone) = state.gone {
                break Err(gone);
            }
            let polled = poll(&mut state, &mut mine.waiter);
            // For example, an opened stream, or credit from reading: nobody else would send it
            // before the next timer.
            let now = state.now;
            state.flush(now);
            if let Poll::Ready(result) = polled {
                break Ok(Ok(result));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                // A caller that polls repeatedly need not wait for the helper.
                if state.driver.is_none() && !has_looked {
                    has_looked = true;
                    if self.take_in(&mut state).is_err() {
                        break Err(Gone::Broken);
                    }
                    continue;
                }
                break Ok(Err(TimedOut));
            }
            let other = state
                .driver
                .filter(|d| Some(d.number) != mine.number && !d.is_helper);
            if other.is_some() {
                state.waiting.push(thread::current());
                self.release(state);
                match left {
                    Some(left) => thread::park_timeout(left),
                    None => thread::park(),
                }
                state = self.lock_here();
                state.now = state.engine.now();
                let me = thread::current().id();
                state.waiting.retain(|thread| thread.id() != me);
                continue;
            }
            let number = mine.number.unwrap_or_else(|| state.new_driver());
            mine.number = Some(number);
            if state.driver.is_none_or(|driver| driver.number != number) {
                self.take_over(&mut state, number);
            }
            state.sockets.driving = mine.waiter.key();
            state = self.turn(state, left);
            state.sockets.driving = None;
        };
        state.sockets.forget(&mut mine.waiter);
        self.leave(state, mine.number);
        result
    }

    /// The same for sending: `poll` also returns the number of bytes it wrote. They are sent at
    /// once, because nobody else may be there to do so when this thread has left.
    pub fn wait_to_act<R>(
        &self,
        until: Option<Instant>,
        poll: impl FnMut(&mut State, &mut Waiter) -> Poll<(R, usize)>,
    ) -> Result<Result<R, TimedOut>, Gone> {
        match self.wait_for(until, poll)? {
            Ok(acted) => self.act(|_| acted).map(Ok),
            Err(timed_out) => Ok(Err(timed_out)),
        }
    }

    /// Becomes the driver if the helper or nobody drives.
    fn take_over(&self, state: &mut State, number: u64) {
        if state.driver.is_some_and(|driver| driver.is_helper) {
            self.shoo.notify();
        }
        state.driver = Some(Driver::new(number, false));
    }

    /// One turn as the driver, the lock given back while it sleeps.
    fn turn<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        patience: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        let wait = state.before_wait(patience);
        let driver = state.driver;
        let mut ready = core::mem::take(&mut state.sockets.ready);
        let awake = state.sockets.take_woken();
        drop(state);
        wake(awake);
        let is_helper = driver.is_some_and(|driver| driver.is_helper);
        let waited = if is_helper {
            let urgent = [self.kick.as_fd(), self.shoo.as_fd()];
            let waited = wait.wait(&self.helpers_poller, &urgent, &mut ready);
            let look = Some(Duration::ZERO);
            waited.and_then(|()| self.poller.wait(look, &mut ready))
        } else {
            wait.wait(&self.poller, &[self.kick.as_fd()], &mut ready)
        };
        let mut state = self.lock_here();
        state.now = state.engine.now();
        if waited.is_err() {
            state.break_down();
        }
        // Another driver may have come meanwhile (only the helper is displaced); it will see the
        // ready descriptors as well.
        let is_mine = |d: Driver| driver.is_some_and(|driver| driver.number == d.number);
        if state.driver.is_some_and(is_mine) && state.gone.is_none() {
            state.work(&ready, self);
        }
        state.sockets.ready = ready;
        state
    }

    /// The driver leaves, and another takes its place.
    fn leave(&self, mut state: MutexGuard<'_, State>, mine: Option<u64>) {
        if mine.is_some() && state.driver.map(|driver| driver.number) == mine {
            state.driver = None;
            state.left_at = state.now;
        }
        if state.driver.is_none()
            && let Some(next) = state.waiting.pop()
        {
            next.unpark();
        }
        self.release(state);
    }

    /// The helper thread: runs until the node is gone.
    pub fn help(&self) {
        self.lock_here().helper = Some(thread::current());
        self.survive(|| self.help_until_gone());
    }

    /// Restarts the helper's work if it panics: for tasks and descriptors nobody else runs the node,
    /// nor would anybody tell them.
    fn survive(&self, help: impl Fn()) {
        for times in 1..=PANICS_MAX {
            if catch_unwind(AssertUnwindSafe(&help)).is_ok() {
                return;
            }
            self.shoo.clear();
            let mut state = self.lock_here();
            state.driver = state.driver.filter(|driver| !driver.is_helper);
            // Some may have been about to be woken.
            state.sockets.wake_all();
            if times == PANICS_MAX {
                state.break_down();
            }
            let awake = state.sockets.take_woken();
            let waiting = core::mem::take(&mut state.waiting);
            drop(state);
            wake(awake);
            self.kick.notify();
            waiting.iter().for_each(Thread::unpark);
        }
    }

    fn help_until_gone(&self) {
        loop {
            // The lock's holder works on the node, and wakes the helper if it is needed. If the
            // helper waited for the lock as well, every release would wake it.
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    thread::park_timeout(GRACE);
                    continue;
                }
            };
            if state.gone.is_some() {
                let awake = state.sockets.take_woken();
                drop(state);
                return wake(awake);
            }
            let now = state.engine.now();
            if state.posted_bytes > 0 && state.driver.is_some() {
                state.flush(now);
                self.release(state);
                continue;
            }
            match state.driver {
                Some(driver) if driver.is_untimed => {
                    if driver.until < now + AHEAD || driver.is_old(now) {
                        self.kick.notify();
                    }
                    helper_sleeps(state, Some(GRACE));
                }
                Some(driver) if driver.is_old(now) => helper_sleeps(state, None),
                Some(_) => helper_sleeps(state, Some(GRACE)),
                None => {
                    let grace = GRACE.saturating_sub(now.since(state.left_at));
                    if grace.is_zero() || state.sockets.has_tasks {
                        let number = state.new_driver();
                        state.driver = Some(Driver::new(number, true));
                        self.help_as(number, state);
                    } else {
                        helper_sleeps(state, Some(grace));
                    }
                }
            }
        }
    }

    /// Drives until a thread of the program wants to.
    fn help_as<'a>(&'a self, number: u64, mut state: MutexGuard<'a, State>) {
        let is_mine = |state: &State| state.driver.is_some_and(|d| d.number == number);
        while state.gone.is_none() && is_mine(&state) {
            state = self.turn(state, None);
        }
        self.shoo.clear();
    }

    /// Says goodbye to all peers, ends everything, and wakes all waiters.
    pub fn close(&self) {
        if !self.process.is_here() {
            return;
        }
        let mut state = self.lock_here();
        if state.gone.is_some() {
            return state.engine.shut();
        }
        let now = state.engine.now();
        state.engine.node.close(now);
        state.flush(now);
        // Streams and the helper have this node for some time yet.
        state.engine.shut();
        state.gone = Some(Gone::Closed);
        state.sockets.wake_all();
        let awake = state.sockets.take_woken();
        let waiting = core::mem::take(&mut state.waiting);
        let helper = state.helper.take();
        drop(state);
        wake(awake);
        waiting.iter().for_each(Thread::unpark);
        self.kick.notify();
        self.shoo.notify();
        helper.iter().for_each(Thread::unpark);
    }
}

/// Wakes them. If one waker fails (a task's runtime may panic), the others are still woken.
fn wake(awake: Vec<Waker>) {
    for waker in awake {
        // The panic has already printed its message.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

/// The helper sleeps until it is woken, at most this long.
fn helper_sleeps(mut state: MutexGuard<'_, State>, at_most: Option<Duration>) {
    state.helper_sleeps = at_most.is_none();
    drop(state);
    match at_most {
        None => thread::park(),
        Some(at_most) => thread::park_timeout(at_most),
    }
}

impl State {
    const fn new_driver(&mut self) -> u64 {
        self.drivers += 1;
        self.drivers
    }

    #[cfg(test)]
    pub const fn helper_sleeps(&self) -> bool {
        self.helper_sleeps
    }

    /// Sends what is queued.
    fn flush(&mut self, now: Time) {
        self.written += core::mem::take(&mut self.posted_bytes);
        self.sockets.tell_own(now, &mut self.engine.node);
        self.engine.flush(now);
    }

    /// Operations on streams and messages.
    pub const fn operations(&mut self) -> Operations<'_> {
        Operations {
            node: &mut self.engine.node,
            own: &mut self.sockets.own,
        }
    }

    /// When something is due, if nothing happens before.
    fn due(&mut self) -> Option<Time> {
        let due = [self.engine.node.poll_timeout(), self.sockets.next_cut_off()];
        due.into_iter().flatten().min()
    }

    /// The node cannot go on; wakes all waiters.
    fn break_down(&mut self) {
        self.gone = Some(Gone::Broken);
        self.engine.shut();
        self.sockets.wake_all();
        self.helper.iter().for_each(Thread::unpark);
    }

    fn before_wait(&mut self, patience: Option<Duration>) -> Wait {
        self.posted_bytes = 0;
        let cut_off = self.sockets.next_cut_off();
        let cut_off = cut_off.map(|at| at.since(self.engine.now()));
        let patience = [patience, cut_off].into_iter().flatten().min();
        let mut wait = self.engine.before_wait(&mut self.sockets, patience);
        self.now = wait.since();
        // Wakers of tasks are foreign code, which may hold the helper up.
        let helper_looks = self.helper.is_some() && !self.helper_sleeps && !self.sockets.has_tasks;
        if let Some(driver) = &mut self.driver {
            driver.since.get_or_insert(self.now);
            driver.until = wait.until();
            driver.is_untimed = helper_looks
                && !driver.is_helper
                && patience.is_none()
                && !driver.is_old(self.now)
                && driver.until >= self.now + AHEAD;
            if driver.is_untimed {
                wait = wait.untimed();
            }
        }
        wait
    }

    fn work(&mut self, ready: &[Ready], hub: &Hub) {
        if ready.iter().any(|ready| ready.token == TOKEN_KICK) {
            hub.kick.clear();
        }
        self.posted_bytes = 0;
        self.engine.after_wait(&mut self.sockets, self.now, ready);
        self.sockets.cut_off(self.now, &mut self.engine.node);
    }
}

/// The number that a thread has as the driver. If it panics it leaves all the same, so that
/// others get to drive.
struct Mine<'a> {
    hub: &'a Hub,
    number: Option<u64>,
    waiter: Waiter,
}

impl Drop for Mine<'_> {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let mut state = self.hub.lock_here();
        state.sockets.forget(&mut self.waiter);
        state.sockets.driving = None;
        if state.driver.map(|driver| driver.number) == self.number {
            state.driver = None;
        }
        state.waiting.pop().iter().for_each(Thread::unpark);
        state.helper.iter().for_each(Thread::unpark);
    }
}

thread_local! {
    static OWN: Waker = Waker::from(Arc::new(Parked(thread::current())));
}

/// A waker of this thread; always the same one, so that repeated vain waits leave only one behind.
fn own_waker() -> Waker {
    let own = OWN.try_with(Waker::clone);
    own.unwrap_or_else(|_| Waker::from(Arc::new(Parked(thread::current()))))
}

/// A thread that sleeps until it is woken.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
