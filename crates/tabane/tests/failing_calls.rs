//! That the kernel refuses a call is not that anything is gone. Errors are put into the daemon's system calls
//! (strace(1), `inject`), one kind of call at a time, while links fail and return and programs begin and end: all
//! stays as it was, the log tells it, and it is tried again, not without a pause.

mod common;
mod refusals;

use refusals::{Refusal, Stage};

fn refuse(calls: &[Refusal]) {
    let mut stage = Stage::set();
    for call in calls {
        // `failing_calls_all.rs` has them all.
        stage.refuse(call, call.errors[0]);
    }
}

#[test]
fn what_the_daemon_asks_of_the_kernel_may_be_refused() {
    refuse(refusals::ASKED);
}

#[test]
fn what_the_daemon_waits_for_and_carries_may_be_refused() {
    refuse(refusals::CARRIED);
}

#[test]
fn what_the_keeper_asks_of_the_kernel_may_be_refused() {
    refuse(refusals::OF_THE_KEEPER);
}

/// It took the daemon with it.
#[test]
fn a_tab0_that_cannot_be_made_again_is_made_as_soon_as_it_can() {
    let stage = Stage::set();
    let told = "tab0 cannot be made again";
    stage.strike(("ioctl", "ENOMEM"), "ip link delete tab0", told);
}

#[test]
fn a_keeper_that_cannot_be_started_again_is_started_as_soon_as_it_can() {
    let stage = Stage::set();
    let kill = format!("kill -9 {}", stage.keeper());
    let told = "Multipath TCP is not steered: Too many open files";
    stage.strike(("socketpair", "EMFILE"), &kill, told);
}
