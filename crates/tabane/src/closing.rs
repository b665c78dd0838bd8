//! Closing what users have handed over, aside: a socket may linger for as long as its user likes (SO_LINGER),
//! and a file be of a file system that its user serves. Only a thread for that user's waits meanwhile.

use core::iter;
use core::ops::{Deref, DerefMut};
use core::time::Duration;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use tabane_io::alarm::Alarm;

/// A lingering socket is closed after this time, whatever it is set to: its unsent data was for a namespace of
/// this node.
const LINGERS_MAX: Duration = Duration::from_millis(10);
/// If more than this of a user's waits to be closed, the user gets nothing new, and a user who hands over more
/// than this has ended: so the backlog does not grow further.
const BEHIND_MAX: usize = 4096;
/// The same for all users together: above it nobody gets anything new.
const ALL_MAX: usize = 16_384;

/// After closing something the thread waits this long for more: waking it costs as much as all else of a short
/// connection's close.
const PAUSE: Duration = Duration::from_millis(1);

type Thing = Box<dyn Send>;

/// Something that a user handed over.
#[derive(Debug)]
struct Queue {
    to_thread: Sender<Thing>,
    /// How many things wait, the one that is being closed included.
    waiting: Arc<AtomicUsize>,
}

impl Queue {
    /// With a thread of its own, which ends with this.
    fn begin() -> Option<Queue> {
        let (to_thread, things) = channel::<Thing>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        let named = thread::Builder::new().name("closing".to_owned());
        let closes = move || {
            let alarm = Alarm::new().ok();
            while let Ok(first) = things.recv() {
                for thing in iter::once(first).chain(things.try_iter()) {
                    match &alarm {
                        Some(alarm) => alarm.bounds(LINGERS_MAX, || drop(thing)),
                        None => drop(thing),
                    }
                    left.fetch_sub(1, Ordering::Relaxed);
                }
                thread::sleep(PAUSE);
            }
        };
        named.spawn(closes).ok()?;
        Some(Queue { to_thread, waiting })
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Gives it to the thread to close.
    fn push(&self, thing: Thing) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The thread ends only when no queue is left.
        let _ = self.to_thread.send(thing);
    }
}

/// Something that a user has handed over. Wherever it is dropped, a thread of that user's closes it.
#[derive(Debug)]
pub struct Lent<T: Send + 'static> {
    /// None: it was taken out.
    thing: Option<T>,
    /// None: it is closed where it is dropped.
    queue: Option<Arc<Queue>>,
}

impl<T: Send + 'static> Lent<T> {
    /// Something that no user has as well: it is closed where it is dropped.
    pub const fn ours(thing: T) -> Lent<T> {
        Lent {
            thing: Some(thing),
            queue: None,
        }
    }

    /// It is closed where this is dropped.
    pub fn here(mut self) -> T {
        self.thing.take().expect("taken out only at its end")
    }

    /// The result is lent as well.
    pub fn map<U: Send + 'static>(mut self, change: impl FnOnce(T) -> U) -> Lent<U> {
        Lent {
            thing: self.thing.take().map(change),
            queue: self.queue.take(),
        }
    }
}

impl<T: Send + 'static> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.thing.as_ref().expect("taken out only at its end")
    }
}

impl<T: Send + 'static> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.thing.as_mut().expect("taken out only at its end")
    }
}

impl<T: Send + AsFd + 'static> AsFd for Lent<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

impl<T: Send + 'static> Drop for Lent<T> {
    fn drop(&mut self) {
        if let (Some(thing), Some(queue)) = (self.thing.take(), &self.queue) {
            queue.push(Box::new(thing));
        }
    }
}

/// Of each user.
#[derive(Debug, Default)]
pub struct Closing {
    of_user: HashMap<u32, Arc<Queue>>,
}

impl Closing {
    /// A user has handed something over, or something that may have such a thing in it.
    pub fn lend<T: Send + 'static>(&mut self, uid: u32, thing: T) -> Lent<T> {
        let known = self.of_user.get(&uid).cloned();
        // Without a thread it must be closed here.
        let queue = known.or_else(|| {
            let queue = Arc::new(Queue::begin()?);
            self.of_user.insert(uid, Arc::clone(&queue));
            Some(queue)
        });
        Lent {
            thing: Some(thing),
            queue,
        }
    }

    /// Closes such a thing.
    pub fn close(&mut self, uid: u32, thing: impl Send + 'static) {
        drop(self.lend(uid, thing));
    }

    /// Whether this user's backlog is so long that it gets nothing new.
    pub fn is_behind(&self, uid: u32) -> bool {
        let queue = self.of_user.get(&uid);
        queue.is_some_and(|queue| queue.waiting() > BEHIND_MAX)
    }

    /// Whether the backlog of all users is so long that nobody gets anything new.
    pub fn is_full(&self) -> bool {
        let waiting = self.of_user.values().map(|queue| queue.waiting());
        waiting.sum::<usize>() > ALL_MAX
    }

    /// Ends idle threads.
    pub fn forget_idle(&mut self) {
        let has_lent = |queue: &Arc<Queue>| Arc::strong_count(queue) > 1;
        self.of_user
            .retain(|_, queue| queue.waiting() > 0 || has_lent(queue));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use super::*;

    /// Its closing waits until the test permits it.
    struct Waits(Receiver<()>);

    impl Drop for Waits {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }

    #[test]
    fn what_one_user_has_closed_is_nobody_elses_wait() {
        let mut closing = Closing::default();
        let (lets, waits) = channel();
        closing.close(7, Waits(waits));
        for _ in 0..=BEHIND_MAX {
            closing.close(7, ());
        }
        assert!(closing.is_behind(7) && !closing.is_behind(9));
        let (tells, told) = channel::<()>();
        closing.close(9, tells);
        assert!(told.recv().is_err(), "it was closed");
        drop(lets);
        while !closing.of_user.is_empty() {
            thread::yield_now();
            closing.forget_idle();
        }
        assert!(!closing.is_behind(7) && !closing.is_full());
    }

    #[test]
    fn what_is_lent_is_closed_by_its_users_thread() {
        /// Says where it was dropped.
        struct Tells(Sender<thread::ThreadId>);
        impl Drop for Tells {
            fn drop(&mut self) {
                let _ = self.0.send(thread::current().id());
            }
        }
        let here = thread::current().id();
        let mut closing = Closing::default();
        let (tells, told) = channel();
        let lent = closing.lend(7, tells.clone());
        closing.forget_idle();
        assert_eq!(closing.of_user.len(), 1, "it is lent still");
        drop(lent.map(Tells));
        assert_ne!(told.recv(), Ok(here));
        drop(Lent::ours(Tells(tells)));
        assert_eq!(told.recv(), Ok(here));
    }
}
