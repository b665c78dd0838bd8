//! Completion queues: one place that reports for many VIs' queues.

use crate::abi::{ERROR_RESOURCE, INVALID_PARAMETER, NOT_DONE, Outcome};
use crate::state::{Cq, Side, State};

/// Completion queues of a NIC at most.
pub const CQS_MAX: usize = 1 << 16;
/// Entries that a program may ask for.
pub const ENTRIES_MAX: u64 = 1 << 20;

fn entries(count: u64) -> Outcome<usize> {
    match count {
        0 => Err(INVALID_PARAMETER),
        count if count > ENTRIES_MAX => Err(ERROR_RESOURCE),
        count => Ok(count as usize),
    }
}

impl State {
    /// Makes a completion queue.
    ///
    /// # Errors
    /// It would have no entries, or too many; or there are too many.
    pub fn create_cq(&mut self, count: u64) -> Outcome<u32> {
        let asked = entries(count)?;
        if self.cqs.len() >= CQS_MAX {
            return Err(ERROR_RESOURCE);
        }
        let id = self.new_id();
        let cq = Cq {
            asked,
            ..Cq::default()
        };
        self.cqs.insert(id, cq);
        Ok(id)
    }

    /// The completion queue of this number.
    ///
    /// # Errors
    /// There is none.
    pub fn cq(&mut self, id: u32) -> Outcome<&mut Cq> {
        self.cqs.get_mut(&id).ok_or(INVALID_PARAMETER)
    }

    /// Destroys one.
    ///
    /// # Errors
    /// VIs use it, or there is none.
    pub fn destroy_cq(&mut self, id: u32) -> Outcome<()> {
        if self.cq(id)?.users > 0 {
            return Err(ERROR_RESOURCE);
        }
        let has_notice = self.cqs.remove(&id).is_some_and(|cq| cq.notice.is_some());
        self.notices -= usize::from(has_notice);
        Ok(())
    }

    /// Asks for another number of entries.
    ///
    /// # Errors
    /// There are more in it, or it would have none or too many.
    pub fn resize_cq(&mut self, id: u32, count: u64) -> Outcome<()> {
        let cq = self.cq(id)?;
        let asked = entries(count)?;
        if cq.done.len() > asked {
            return Err(ERROR_RESOURCE);
        }
        cq.asked = asked;
        Ok(())
    }

    /// The VI and queue of the next descriptor that is done.
    ///
    /// # Errors
    /// None is.
    pub fn next_done(&mut self, id: u32) -> Outcome<(u32, Side)> {
        self.cq(id)?.done.pop_front().ok_or(NOT_DONE)
    }
}
