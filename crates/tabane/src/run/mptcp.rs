//! `tabane run --via mptcp -- PROGRAM…`: runs an unmodified program whose TCP is the kernel's
//! Multipath TCP, without a privilege or a namespace.
//!
//! When the program calls socket(2) for TCP, a supervisor beside it makes a socket of Multipath TCP,
//! which the call returns. No other call is touched. On any failure the call goes on and makes a
//! socket of TCP.

use std::io::{self, ErrorKind};

use tabane_cluster::plain;
use tabane_io::capture::is_inside;
use tabane_io::poll::{Interest, Poller};
use tabane_io::socket_calls::{Mptcp, SocketCalls, mptcp_here, tcp_is_mptcp};

use super::{leave_supervisor, take_over};
use crate::say;
use crate::status::{self, StatusReport};
use crate::steer::{MISSING, SWITCHED_OFF};

/// Makes the TCP sockets of the program that this process becomes those of Multipath TCP, if that is
/// available; if not, says why.
///
/// # Errors
/// The program must not be run, in words for people: nobody would answer its calls.
pub(super) fn prepare() -> Result<(), String> {
    if is_inside().unwrap_or(false) {
        warn("the bundle carries it: this runs under `tabane run` already");
        return Ok(());
    }
    // Under another `tabane run --via mptcp`, say.
    if tcp_is_mptcp().unwrap_or(false) {
        return Ok(());
    }
    let why_not = match mptcp_here() {
        Ok(Mptcp::On) => None,
        Ok(Mptcp::SwitchedOff) => Some(SWITCHED_OFF.to_owned()),
        Ok(Mptcp::Missing) => Some(MISSING.to_owned()),
        Err(error) => Some(plain(&error)),
    };
    if let Some(why_not) = why_not {
        warn(&why_not);
        return Ok(());
    }
    let supervisor = leave_supervisor(&[], |calls| {
        if let Some(calls) = calls {
            // The program has plain TCP, or fails to make sockets, if this fails, which it does not.
            let _ = supervise(&calls);
        }
    })?;
    let calls = match SocketCalls::of_tcp() {
        Ok(calls) => calls,
        Err(error) => {
            warn(&match error.kind() {
                ErrorKind::ResourceBusy => {
                    "another supervisor is told of its calls (seccomp), a container's perhaps"
                        .to_owned()
                }
                _ => format!("its calls cannot be told (seccomp): {}", plain(&error)),
            });
            return Ok(());
        }
    };
    take_over(&supervisor, &calls)?;
    if !calls.can_give() {
        warn("it takes Linux 5.14");
    } else if !is_steered() {
        say::warn(
            "nothing steers Multipath TCP here (`mptcp = true` and `tabane up`): which links it \
             uses, and what happens when one fails, is the system's affair",
        );
    }
    Ok(())
}

fn warn(why: &str) {
    say::warn(format!("no Multipath TCP for the program: {why}"));
}

/// Whether a daemon is here that steers.
fn is_steered() -> bool {
    let report = status::ask_here(status::ask_status)
        .ok()
        .and_then(|value| serde_json::from_value::<StatusReport>(value).ok());
    report.is_some_and(|report| report.node.mptcp.is_some())
}

/// Answers calls until no process is left that could call.
fn supervise(calls: &SocketCalls) -> io::Result<()> {
    let poller = Poller::new()?;
    poller.register(calls, 0, Interest::Read)?;
    let mut ready = Vec::new();
    loop {
        poller.wait(None, &mut ready)?;
        if ready.iter().any(|ready| ready.failed) {
            return Ok(());
        }
        // Asked without need, it would wait.
        if !ready.is_empty()
            && let Some(call) = calls.next()?
            && calls.give_mptcp(call).is_err()
        {
            calls.go_on(call);
        }
    }
}
