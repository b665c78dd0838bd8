//! Errors on their way to C: a number, and the words of this thread's last one.

use core::ffi::{c_char, c_int};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::CString;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tabane_library::{
    ConnectError, Gone, ListenError, OpenError, ReceiveError, SendError, StreamError,
};

use crate::abi::{
    TABANE_E_ARGUMENT, TABANE_E_BUG, TABANE_E_BUSY, TABANE_E_CLOSED, TABANE_E_FILE, TABANE_E_FLOWS,
    TABANE_E_FORKED, TABANE_E_IN_USE, TABANE_E_INTERRUPTED, TABANE_E_NO_LINK, TABANE_E_PIPE,
    TABANE_E_REFUSED, TABANE_E_RESET, TABANE_E_SYSTEM, TABANE_E_TIMED_OUT, TABANE_E_TOO_LARGE,
    TABANE_E_UNKNOWN_PEER, TABANE_E_UNREACHABLE, TABANE_E_WOULD_BLOCK,
};
use crate::cancel::Uncancelled;

/// An error.
pub struct Failure {
    code: c_int,
    text: String,
}

impl Failure {
    pub fn argument(text: impl Into<String>) -> Failure {
        let (code, text) = (TABANE_E_ARGUMENT, text.into());
        Failure { code, text }
    }

    fn of(code: c_int, error: &dyn core::fmt::Display) -> Failure {
        let text = error.to_string();
        Failure { code, text }
    }

    fn bug(panic: &(dyn Any + Send)) -> Failure {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or(panic.downcast_ref::<&str>().copied());
        let said = said.unwrap_or("a panic");
        let text = format!("a fault of libtabane itself: {said}");
        let code = TABANE_E_BUG;
        Failure { code, text }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the words, returns the number.
fn fail(failure: Failure) -> c_int {
    let text = CString::new(failure.text.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending has nobody to read it.
    let _ = LAST.try_with(|last| last.replace(text));
    failure.code
}

/// `tabane_error`.
#[unsafe(no_mangle)]
extern "C" fn tabane_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

fn caught<R>(act: impl FnOnce() -> Result<R, Failure>) -> Result<R, c_int> {
    let _uncancelled = Uncancelled::new();
    // A panic leaves only the library's own values behind, which tolerate it: see its `hub`.
    let result = catch_unwind(AssertUnwindSafe(act));
    let result = result.unwrap_or_else(|panic| Err(Failure::bug(&*panic)));
    result.map_err(fail)
}

/// Runs a function that returns a number.
pub fn number(act: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    caught(act).unwrap_or_else(|code| code)
}

/// Runs a function that returns 0.
pub fn nothing(act: impl FnOnce() -> Result<(), Failure>) -> c_int {
    number(|| act().map(|()| 0))
}

/// Runs a function that returns a number of bytes.
pub fn size(act: impl FnOnce() -> Result<usize, Failure>) -> isize {
    // No slice is longer than isize::MAX.
    caught(act).map_or_else(|code| code as isize, |size| size as isize)
}

/// Runs a function that makes an object.
pub fn made<T>(make: impl FnOnce() -> Result<T, Failure>) -> *mut T {
    let made = caught(|| Ok(Box::into_raw(Box::new(make()?))));
    made.unwrap_or(core::ptr::null_mut())
}

impl From<Gone> for Failure {
    fn from(gone: Gone) -> Failure {
        let code = match gone {
            Gone::Closed => TABANE_E_CLOSED,
            Gone::Forked => TABANE_E_FORKED,
            Gone::Broken => TABANE_E_SYSTEM,
            Gone::Interrupted => TABANE_E_INTERRUPTED,
        };
        Failure::of(code, &gone)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        let code = match error {
            OpenError::File(_) => TABANE_E_FILE,
            OpenError::Options(_) => TABANE_E_ARGUMENT,
            OpenError::NoLink(_) => TABANE_E_NO_LINK,
            OpenError::System(_) => TABANE_E_SYSTEM,
        };
        Failure::of(code, &error)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Failure {
        let code = match error {
            ConnectError::UnknownPeer(_) => TABANE_E_UNKNOWN_PEER,
            ConnectError::Refused => TABANE_E_REFUSED,
            ConnectError::Busy | ConnectError::TooManyStreams => TABANE_E_BUSY,
            ConnectError::TimedOut => TABANE_E_TIMED_OUT,
            ConnectError::Restarted => TABANE_E_RESET,
            ConnectError::Gone(gone) => return gone.into(),
        };
        Failure::of(code, &error)
    }
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Failure {
        match error {
            ListenError::InUse(_) => Failure::of(TABANE_E_IN_USE, &error),
            ListenError::Gone(gone) => gone.into(),
        }
    }
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Failure {
        let code = match error {
            StreamError::Reset(_) | StreamError::Broken => TABANE_E_RESET,
            StreamError::Unreachable => TABANE_E_UNREACHABLE,
            StreamError::Stopped(_) | StreamError::Finished => TABANE_E_PIPE,
            StreamError::Gone(gone) => return gone.into(),
        };
        Failure::of(code, &error)
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Failure {
        let code = match error {
            SendError::UnknownPeer(_) => TABANE_E_UNKNOWN_PEER,
            SendError::TooLarge(_) => TABANE_E_TOO_LARGE,
            SendError::TooManyFlows => TABANE_E_FLOWS,
            SendError::NotConnected | SendError::TimedOut => TABANE_E_TIMED_OUT,
            SendError::Gone(gone) => return gone.into(),
        };
        Failure::of(code, &error)
    }
}

impl From<ReceiveError> for Failure {
    fn from(error: ReceiveError) -> Failure {
        match error {
            ReceiveError::TooLong { .. } => Failure::of(TABANE_E_TOO_LARGE, &error),
            ReceiveError::Gone(gone) => gone.into(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let inner = error.get_ref();
        if let Some(stream) = inner.and_then(|inner| inner.downcast_ref::<StreamError>()) {
            return (*stream).into();
        }
        if let Some(gone) = inner.and_then(|inner| inner.downcast_ref::<Gone>()) {
            return (*gone).into();
        }
        match error.kind() {
            io::ErrorKind::WouldBlock => {
                let text = "there is nothing to read, or no room to write, now";
                Failure::of(TABANE_E_WOULD_BLOCK, &text)
            }
            io::ErrorKind::TimedOut => Failure::of(TABANE_E_TIMED_OUT, &"it did not come in time"),
            _ => Failure::of(TABANE_E_SYSTEM, &error),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;

    use super::*;

    fn words() -> String {
        // SAFETY: it is never null, and ends in a zero byte.
        let words = unsafe { CStr::from_ptr(tabane_error()) };
        words.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_is_an_error_like_others() {
        let what = "on purpose";
        assert_eq!(number(|| panic!("{what}")), TABANE_E_BUG);
        assert_eq!(words(), "a fault of libtabane itself: on purpose");
        assert!(made::<u32>(|| panic!("again")).is_null());
        assert!(words().ends_with("again"));
        // Success keeps the text of the last error.
        assert_eq!(size(|| Ok(3)), 3);
        assert!(words().ends_with("again"));
    }
}
