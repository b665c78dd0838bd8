//! Closing what users have handed over, aside: a socket may linger for as long as its user likes (SO_LINGER),
//! and a file be of a file system that its user serves. Only a thread for that user's waits meanwhile.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use tabane_io::alarm::Alarm;

/// A socket that lingers is closed after so long, whatever it is set to: what it had still to send was for a
/// namespace of this node.
const LINGERS_MAX: Duration = Duration::from_millis(10);
/// A user of whom more than so much waits to be closed may have nothing new, and who hands over more than
/// that has ended: so no more of it is kept than there was.
const BEHIND_MAX: usize = 4096;
/// Of all users. When there is more, nobody is welcome until there is less.
const ALL_MAX: usize = 16_384;

type Thing = Box<dyn Send>;

/// What one user handed over.
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
            for thing in things {
                match &alarm {
                    Some(alarm) => alarm.bounds(LINGERS_MAX, || drop(thing)),
                    None => drop(thing),
                }
                left.fetch_sub(1, Ordering::Relaxed);
            }
        };
        named.spawn(closes).ok()?;
        Some(Queue { to_thread, waiting })
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Gives it back if the thread is gone.
    fn push(&self, thing: Thing) -> Result<(), Thing> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.to_thread.send(thing).map_err(|error| error.0)
    }
}

/// Of each user.
#[derive(Debug, Default)]
pub struct Closing {
    of_user: HashMap<u32, Queue>,
}

impl Closing {
    /// Closes something that a user has handed over, or that may have such a thing in it.
    pub fn close(&mut self, uid: u32, thing: impl Send + 'static) {
        let mut thing: Thing = Box::new(thing);
        if let Some(queue) = self.of_user.get(&uid) {
            match queue.push(thing) {
                Ok(()) => return,
                Err(back) => thing = back,
            }
        }
        // Without a thread there is no other way.
        if let Some(queue) = Queue::begin()
            && queue.push(thing).is_ok()
        {
            self.of_user.insert(uid, queue);
        }
    }

    /// Whether so much of this user's waits that it may have nothing new.
    pub fn is_behind(&self, uid: u32) -> bool {
        let queue = self.of_user.get(&uid);
        queue.is_some_and(|queue| queue.waiting() > BEHIND_MAX)
    }

    /// Whether so much of all users' waits that nobody may have anything new.
    pub fn is_full(&self) -> bool {
        let waiting = self.of_user.values().map(Queue::waiting);
        waiting.sum::<usize>() > ALL_MAX
    }

    /// Threads that have nothing to do end.
    pub fn forget_idle(&mut self) {
        self.of_user.retain(|_, queue| queue.waiting() > 0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use super::*;

    /// It is closed when somebody lets it.
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
}
