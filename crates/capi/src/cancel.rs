//! Threads that the program cancels (`pthread_cancel`): not in the middle of a call.
//!
//! Cancelling unwinds the stack from the system call in which the thread waits, through code that
//! must not be left like that: the process would be aborted.

use core::ffi::c_int;

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
const DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// As long as it is there, the thread that made it is not cancelled.
pub struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    pub fn new() -> Uncancelled {
        let mut before = DISABLE;
        // SAFETY: `before` outlives the call, which does not fail for a state that exists.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Uncancelled { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut disabled = DISABLE;
        // SAFETY: as above. This itself does not cancel: the program's next system call that is a
        // cancellation point does.
        unsafe { pthread_setcancelstate(self.before, &raw mut disabled) };
    }
}
