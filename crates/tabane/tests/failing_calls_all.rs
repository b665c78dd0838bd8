//! As `failing_calls.rs`, with every error for every call: minutes. Part of `make soak-lab`.

mod common;
mod refusals;

use refusals::{Refusal, Stage};

fn refuse_all(calls: &[Refusal]) {
    for call in calls {
        let mut stage = Stage::set();
        for error in call.errors {
            stage.refuse(call, error);
        }
    }
}

#[test]
fn every_call_of_the_daemon_may_be_refused_for_every_reason() {
    refuse_all(refusals::ASKED);
    refuse_all(refusals::CARRIED);
}

#[test]
fn every_call_of_the_keeper_may_be_refused_for_every_reason() {
    refuse_all(refusals::OF_THE_KEEPER);
}
