//! The provider over engines as programs have them, in two processes of which one is killed.

use std::env;
use std::io::{BufRead, BufReader, Lines};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Command, Stdio};

use tabane_rank::SharedMemory;

use super::c_side::{Given, close, control, minus};
use super::here;
use super::program::{Program, accept, receive};
use crate::abi::constants as c;
use crate::abi::errors;
use crate::name;

/// Where the process that has started it listens; and how they talk.
const PORT: &str = "TEST_PORT";
const IS_BESIDE: &str = "TEST_IS_BESIDE";
/// What the other process says, before the port; and when somebody has called that it does not answer.
const LISTENS_AT: &str = "listens at ";
const IS_CALLED: &str = "is called";

/// A process that is ended with the test.
struct Other {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// One that does what a test does if `PORT` is set.
    fn start(test: &str, port: u16, is_beside: bool) -> Other {
        let mut command = Command::new(env::current_exe().expect("is known"));
        command.args(["--exact", "--nocapture", &format!("tests::killed::{test}")]);
        command.env(PORT, port.to_string());
        command.env(IS_BESIDE, is_beside.to_string());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
        let said = BufReader::new(child.stdout.take().expect("is a pipe")).lines();
        Other { child, said }
    }

    /// Waits until it says this; what stands behind it.
    fn says(&mut self, what: &str) -> String {
        let mut said = self.said.by_ref().map(|line| line.expect("is read"));
        let behind = said.find_map(|line| line.strip_prefix(what).map(str::to_owned));
        behind.expect("it says so")
    }

    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_engines(is_beside: bool, act: impl FnOnce()) {
    let shared_memory = match is_beside {
        true => SharedMemory::Pull,
        false => SharedMemory::Off,
    };
    here::with_engines(shared_memory, act);
}

/// What the other process does: it is one if it was told a port. Whether it was.
fn is_other(act: fn(u16)) -> bool {
    let Ok(port) = env::var(PORT) else {
        return false;
    };
    let is_beside = env::var(IS_BESIDE).expect("is set") == "true";
    with_engines(is_beside, || act(port.parse().expect("is one")));
    true
}

fn port(at: &[u8]) -> u16 {
    name::parse_socket(at).as_ref().map_or(0, SocketAddr::port)
}

#[test]
fn who_is_killed_is_gone_for_its_peer() {
    if is_other(call_and_stay) {
        return;
    }
    for is_beside in [true, false] {
        with_engines(is_beside, || {
            let b = Program::new();
            let (pep, at) = b.listen();
            let mut other =
                Other::start("who_is_killed_is_gone_for_its_peer", port(&at), is_beside);
            let call = Given(b.event(c::CONNREQ, &[]).info);
            let (first, second) = (b.endpoint(call.0), b.endpoint(b.given().0));
            assert_eq!(accept(first, b"welcome"), 0);
            b.event(c::CONNECTED, &[]);
            // It calls again once its first call is answered.
            let unanswered = Given(b.event(c::CONNREQ, &[]).info);
            let mut buffer = [0; 8];
            assert_eq!(receive(first, &mut buffer, 1), 0);
            other.kill();
            assert_eq!(b.event(c::SHUTDOWN, &[]).fid, first.cast());
            assert_eq!(b.done(), (1, Some(errors::SHUTDOWN)));
            // Who is answered now is not there, which shows later.
            let late = b.endpoint(unanswered.0);
            assert_eq!(accept(late, b""), 0);
            for number in [c::CONNECTED, c::SHUTDOWN] {
                assert_eq!(b.event(number, &[]).fid, late.cast());
            }
            assert_eq!(control(second, c::ENABLE, core::ptr::null_mut()), 0);
            for ep in [first, second, late] {
                assert_eq!(close(ep), 0);
            }
            assert_eq!(close(pep), 0);
        });
    }
}

fn call_and_stay(port: u16) {
    let a = Program::new();
    let at = name::socket(&(Ipv4Addr::LOCALHOST, port).into());
    let _first = a.call(&at, b"");
    a.event(c::CONNECTED, &[]);
    let _second = a.call(&at, b"");
    // Until it is killed.
    let _ = a.wait(&[]);
}

/// Nothing is posted, and the program does nothing but sleep: who has been answered, and who has not.
#[test]
fn who_sleeps_is_woken_when_its_peer_is_killed() {
    if is_other(answer_one) {
        return;
    }
    for is_beside in [true, false] {
        with_engines(is_beside, || {
            let a = Program::new();
            let mut other =
                Other::start("who_sleeps_is_woken_when_its_peer_is_killed", 0, is_beside);
            let port: u16 = other.says(LISTENS_AT).parse().expect("is one");
            let at = name::socket(&(Ipv4Addr::LOCALHOST, port).into());
            let first = a.call(&at, b"");
            assert_eq!(a.sleep().expect("no error").number, c::CONNECTED);
            let second = a.call(&at, b"");
            other.says(IS_CALLED);
            other.kill();
            let event = a.sleep().expect("no error");
            assert_eq!((event.number, event.fid), (c::SHUTDOWN, first.cast()));
            // Another endpoint might have answered before the end, so this takes its time.
            assert_eq!(a.sleep().err(), Some(minus(errors::AVAIL)));
            assert_eq!(a.read_error(second).0, errors::CONNRESET);
            assert_eq!((close(first), close(second)), (0, 0));
        });
    }
}

fn answer_one(_: u16) {
    let b = Program::new();
    let (_pep, at) = b.listen();
    println!("\n{LISTENS_AT}{}", port(&at));
    let event = b.sleep().expect("no error");
    let first = b.endpoint(Given(event.info).0);
    assert_eq!(accept(first, b""), 0);
    assert_eq!(b.sleep().expect("no error").number, c::CONNECTED);
    let event = b.sleep().expect("no error");
    assert_eq!(event.number, c::CONNREQ);
    println!("\n{IS_CALLED}");
    // Until it is killed.
    let _ = b.sleep();
}
