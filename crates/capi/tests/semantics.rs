//! What a C programmer relies on: `c/semantics.c`, case by case, with two nodes in one process over
//! 127.0.0.1 and ::1.

mod common;

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::{Command, Stdio};

use common::{C, Workshop, package};
use tabane_lab::cluster::{PATIENCE, Program};

/// A port that is free on both links at this moment.
fn free_port() -> u16 {
    loop {
        let first = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = first.local_addr().expect("is known").port();
        if UdpSocket::bind((Ipv6Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

fn holds(case: &str) {
    let workshop = Workshop::new();
    let program = workshop.program(C, &package("tests/c/semantics.c"), "semantics");
    let mut command = Command::new(program);
    command
        .arg(case)
        .args([free_port(), free_port()].map(|port| port.to_string()));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let said = Program::start(case, command).and_then(|program| program.output(PATIENCE));
    let said = said.expect("ends");
    let words = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{}: {words}", said.status);
}

#[test]
fn after_fork_the_child_gets_an_error_and_the_parent_goes_on() {
    holds("fork");
}

#[test]
fn a_fork_that_lives_on_does_not_hold_the_port() {
    holds("fork_port");
}

#[test]
fn a_thread_that_is_cancelled_in_a_call_ends_after_it() {
    holds("cancel");
}

#[test]
fn poll_finds_the_stream_that_has_something() {
    holds("poll");
}

#[test]
fn poll_finds_room_streams_messages_and_events() {
    holds("poll_others");
}

#[test]
fn a_program_that_only_polls_goes_back_and_forth() {
    holds("ping_pong");
}

#[test]
fn what_cannot_be_is_an_error_with_words() {
    holds("arguments");
}

#[test]
fn failures_have_their_numbers() {
    holds("failures");
}

#[test]
fn signals_are_the_programs() {
    holds("signals");
}

#[test]
fn a_message_that_is_too_long_is_kept() {
    holds("messages");
}

#[test]
fn one_flow_of_messages_too_many_has_an_error_of_its_own() {
    holds("flows");
}

#[test]
fn shutting_down_ends_calls_that_wait() {
    holds("shutdown");
}

#[test]
fn reads_and_writes_wait_as_long_as_they_are_told() {
    holds("timeouts");
}

#[test]
fn a_signal_handler_ends_calls_that_are_to_be_interrupted() {
    holds("interruptible");
}

#[test]
fn streams_to_a_process_that_was_killed_break_in_time() {
    holds("killed");
}

#[test]
fn the_own_name_is_a_peer_like_others() {
    holds("own");
}
