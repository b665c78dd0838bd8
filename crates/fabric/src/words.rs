//! Why operations fail: numbers for programs, words for people.

use core::ffi::{CStr, c_char, c_int};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use tabane_rank::{Failure, Lost, Misfit, OpenError, PostError};

use crate::abi::errors::{self, Errno};
use crate::guard;

/// The kinds of failures: number, errno, words. The number is what `prov_errno` has.
const FAILURES: [(c_int, Errno, &CStr); 9] = [
    (1, errors::CANCELED, c"the operation was cancelled"),
    (2, errors::TRUNC, c"the message was longer than the buffer"),
    (3, errors::NOMSG, c"no such message has come"),
    (4, errors::NOKEY, c"the peer has no region of this key now"),
    (
        5,
        errors::ACCES,
        c"the peer's region does not allow this access",
    ),
    (
        6,
        errors::FAULT,
        c"the operation goes beyond the peer's region",
    ),
    (7, errors::CONNRESET, c"the peer is gone, or started afresh"),
    (
        8,
        errors::HOSTUNREACH,
        c"nobody is at the peer's address, or no link leads there",
    ),
    (
        9,
        errors::OPNOTSUPP,
        c"the numbers do not take the operation",
    ),
];

/// The number of one that was not in the address vector.
pub const STRANGER: c_int = 10;
/// The other end rejected the connection.
pub const REJECTED: c_int = 11;
/// Nobody was found to connect to.
const NOBODY_LISTENS: c_int = 12;

/// Messages for numbers other than failures.
const OTHERS: [(c_int, &CStr); 3] = [
    (STRANGER, c"the sender is not in the address vector"),
    (REJECTED, c"the peer has rejected the connection"),
    (
        NOBODY_LISTENS,
        c"nobody listens at that address under this job's key",
    ),
];

/// Why nobody was found to connect to.
pub fn not_found(kind: ErrorKind) -> (Errno, c_int) {
    let errno = match kind {
        ErrorKind::ConnectionRefused => errors::CONNREFUSED,
        ErrorKind::TimedOut => errors::TIMEDOUT,
        _ => errors::HOSTUNREACH,
    };
    (errno, NOBODY_LISTENS)
}

/// The same as a line, with the remedy.
pub fn nobody_listens(at: SocketAddr, error: &io::Error) -> String {
    format!(
        "nobody listens at {at} ({error}): fi_listen was not called there, its TABANE_KEY is another than here, or a \
         firewall drops UDP"
    )
}

/// A failure's numbers for libfabric and for [`explain`].
pub fn failure(failure: Failure) -> (Errno, c_int) {
    let row = match failure {
        Failure::Cancelled => 0,
        Failure::Truncated(_) => 1,
        Failure::NoMessage => 2,
        Failure::BadKey => 3,
        Failure::NoAccess => 4,
        Failure::OutOfBounds => 5,
        Failure::PeerGone => 6,
        Failure::Unreachable => 7,
        Failure::Unsupported => 8,
    };
    let (number, errno, _) = FAILURES[row];
    (errno, number)
}

/// What has become of a peer, and the remedy, in a line.
pub fn lost(lost: &Lost) -> String {
    const SAME: &str = "it has to be the same for all of the job";
    let peer = lost.address;
    match (lost.misfit, lost.why) {
        (Some(Misfit::Key), _) => {
            format!("{peer} has another key: TABANE_KEY, or what TABANE_KEY_FILE names; {SAME}")
        }
        (Some(Misfit::Wire), _) => format!("{peer} has another TABANE_WIRE; {SAME}"),
        (Some(Misfit::Version), _) => {
            format!("{peer} has another version of libtabane-fi.so; {SAME}")
        }
        (None, Failure::PeerGone) => {
            format!("{peer} is gone: it has ended, or no link leads there any more")
        }
        (None, _) => format!(
            "nobody answers at {peer}: it has ended, no link leads there, a firewall drops UDP, or its TABANE_KEY or \
             TABANE_WIRE is another than here"
        ),
    }
}

/// Why an operation was not posted.
pub fn post_error(error: PostError) -> Errno {
    match error {
        PostError::Again => errors::AGAIN,
        PostError::TooLarge => errors::MSGSIZE,
        PostError::NoPeer | PostError::Invalid => errors::INVAL,
    }
}

/// Why an endpoint was not opened.
pub fn open_error(error: &OpenError) -> Errno {
    match error {
        OpenError::NoLink(_) => errors::NODEV,
        OpenError::NoPort(_) => errors::ADDRINUSE,
        OpenError::System(error) => Errno(error.raw_os_error().unwrap_or(errors::IO.0)),
        OpenError::Settings(_) => errors::INVAL,
    }
}

/// `strerror` of a queue: the words for a `prov_errno`, copied if there is room.
///
/// # Safety
/// The buffer is null, or has `len` bytes that nobody else uses now.
pub unsafe fn explain(number: c_int, buffer: *mut c_char, len: usize) -> *const c_char {
    let known = FAILURES.iter().find(|(known, ..)| *known == number);
    let words = match known {
        Some((_, _, words)) => words,
        None => (OTHERS.iter().find(|(known, _)| *known == number))
            .map_or(c"no further explanation", |(_, words)| words),
    };
    if buffer.is_null() || len == 0 {
        return words.as_ptr();
    }
    // SAFETY: as above; all words are ASCII.
    unsafe { guard::text(buffer, len, words.to_str().unwrap_or_default()) }
}

/// A time to wait, of milliseconds; negative: for ever.
pub fn timeout(timeout_ms: c_int) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tabane_rank::Address;

    #[test]
    fn a_lost_peer_is_named_with_what_would_be_right() {
        let ip = "10.77.0.2".parse().expect("is one");
        let address = Address::new(&[(0, ip)], 40_000, 0xab << 56).expect("is one");
        let said = |why, misfit| {
            let said = lost(&Lost {
                address,
                why,
                misfit,
            });
            assert!(said.contains("10.77.0.2:40000#ab00"), "{said}");
            said
        };
        let silent = said(Failure::Unreachable, None);
        assert!(silent.contains("TABANE_KEY") && silent.contains("TABANE_WIRE"));
        assert!(said(Failure::Unreachable, Some(Misfit::Key)).contains("TABANE_KEY"));
        let wire = said(Failure::Unreachable, Some(Misfit::Wire));
        assert!(wire.contains("TABANE_WIRE") && !wire.contains("TABANE_KEY"));
        assert!(said(Failure::PeerGone, None).contains("is gone"));
    }
}
