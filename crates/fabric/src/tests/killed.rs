//! The provider over engines as programs have them, in two processes of which one is killed.

use std::env;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

use tabane_rank::SharedMemory;

use super::c_side::{Given, close, control};
use super::connections::{Program, accept, receive};
use super::here;
use crate::abi::constants as c;
use crate::abi::errors;
use crate::name;

/// Where the other process listens, as it says to the one that it has started; and how they talk.
const PORT: &str = "TEST_PORT";
const IS_BESIDE: &str = "TEST_IS_BESIDE";

/// A process that is ended with the test.
struct Other(Child);

impl Other {
    fn start(port: u16, is_beside: bool) -> Other {
        let mut command = Command::new(env::current_exe().expect("is known"));
        command.args([
            "--exact",
            "tests::killed::who_is_killed_is_gone_for_its_peer",
        ]);
        command.env(PORT, port.to_string());
        command.env(IS_BESIDE, is_beside.to_string());
        Other(command.stdout(Stdio::null()).spawn().expect("starts"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn with_engines(is_beside: bool, act: impl FnOnce()) {
    let shared_memory = match is_beside {
        true => SharedMemory::Pull,
        false => SharedMemory::Off,
    };
    here::with_engines(shared_memory, act);
}

#[test]
fn who_is_killed_is_gone_for_its_peer() {
    if let Ok(port) = env::var(PORT) {
        return call_and_stay(&port);
    }
    for is_beside in [true, false] {
        with_engines(is_beside, || {
            let b = Program::new();
            let (pep, at) = b.listen();
            let at = name::parse_socket(&at).expect("is one");
            let mut other = Other::start(at.port(), is_beside);
            let call = Given(b.event(c::CONNREQ, &[]).info);
            let (first, second) = (b.endpoint(call.0), b.endpoint(b.given().0));
            assert_eq!(accept(first, b"welcome"), 0);
            // It calls again once its first call is answered, maybe before this end has heard that it knows of that.
            let unanswered = [(); 2].map(|()| b.wait(&[]).expect("no error"));
            let unanswered = match unanswered.each_ref().map(|event| event.number) {
                [c::CONNECTED, c::CONNREQ] => unanswered[1].info,
                [c::CONNREQ, c::CONNECTED] => unanswered[0].info,
                others => panic!("{others:?}"),
            };
            let mut buffer = [0; 8];
            assert_eq!(receive(first, &mut buffer, 1), 0);
            other.kill();
            assert_eq!(b.event(c::SHUTDOWN, &[]).fid, first.cast());
            assert_eq!(b.done(), (1, Some(errors::SHUTDOWN)));
            // Who is answered now is not there.
            let call = Given(unanswered);
            let late = b.endpoint(call.0);
            assert_eq!(accept(late, b""), 0);
            assert_eq!(b.error(late, &[]).0, errors::CONNABORTED);
            assert_eq!(control(second, c::ENABLE, core::ptr::null_mut()), 0);
            for ep in [first, second, late] {
                assert_eq!(close(ep), 0);
            }
            assert_eq!(close(pep), 0);
        });
    }
}

/// What the other process does.
fn call_and_stay(port: &str) {
    let port: u16 = port.parse().expect("is one");
    let is_beside = env::var(IS_BESIDE).expect("is set") == "true";
    with_engines(is_beside, || {
        let a = Program::new();
        let at = name::socket(&(Ipv4Addr::LOCALHOST, port).into());
        let _first = a.call(&at, b"");
        a.event(c::CONNECTED, &[]);
        let _second = a.call(&at, b"");
        // Until it is killed.
        let _ = a.wait(&[]);
    });
}
