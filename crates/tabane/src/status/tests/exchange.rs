//! The control socket: questions, answers, and bad clients.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tabane_io::poll::Poller;
use tabane_io::sockets::Sockets;

use super::super::control::{Client, Progress, REQUEST_BYTES_MAX, Request, Response};
use super::super::server::{SOCKET_NAME, Shown, place_for};
use super::super::*;
use super::example;

fn ok(request: Request) -> Vec<u8> {
    assert_eq!(request, Request::Status);
    Response::Status(Box::new(example())).to_line()
}

/// A connected pair: the client's blocking end and the daemon's [`Client`].
fn pair() -> (UnixStream, Client) {
    let (here, there) = UnixStream::pair().unwrap();
    (here, Client::new(there).unwrap())
}

fn read_all(mut stream: UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn one_line_asks_and_one_line_answers() {
    let (mut here, mut client) = pair();
    assert_eq!(client.advance(ok), Progress::WaitReadable);
    here.write_all(b"{\"comm").unwrap();
    assert_eq!(client.advance(ok), Progress::WaitReadable);
    here.write_all(b"and\": \"status\"}\n").unwrap();
    assert_eq!(client.advance(ok), Progress::Done);
    drop(client);
    let answer = read_all(here);
    assert_eq!(
        answer,
        format!(
            "{{\"status\":{}}}\n",
            serde_json::to_string(&example()).unwrap()
        )
    );
}

#[test]
fn what_is_no_request_gets_an_error() {
    let long = "x".repeat(REQUEST_BYTES_MAX);
    let nested = "[".repeat(REQUEST_BYTES_MAX - 1) + "\n";
    let table: [(&[u8], &str); 7] = [
        (b"\n", "{\"error\":\"not understood: "),
        (b"status\n", "{\"error\":\"not understood: "),
        (
            b"{\"command\":\"reboot\"}\n",
            "{\"error\":\"not understood: unknown variant `reboot`",
        ),
        (
            b"{}\n",
            "{\"error\":\"not understood: missing field `command`",
        ),
        (b"\xff\xfe\n", "{\"error\":\"not understood: "),
        (nested.as_bytes(), "{\"error\":\"not understood: "),
        (
            long.as_bytes(),
            "{\"error\":\"a request has at most 4096 bytes\"}",
        ),
    ];
    for (request, expected) in table {
        let (mut here, mut client) = pair();
        here.write_all(request).unwrap();
        let never = |_| panic!("no request to be answered");
        assert_eq!(client.advance(never), Progress::Done);
        drop(client);
        let answer = read_all(here);
        assert!(answer.starts_with(expected), "{answer}");
        assert!(matches!(
            serde_json::from_str(&answer).unwrap(),
            Response::Error(_)
        ));
    }
}

#[test]
fn a_client_that_goes_is_dropped() {
    let (here, mut client) = pair();
    drop(here);
    assert_eq!(client.advance(ok), Progress::Done);

    let (mut here, mut client) = pair();
    here.write_all(b"{\"command\"").unwrap();
    drop(here);
    assert_eq!(client.advance(ok), Progress::Done);
}

/// A report too large for the socket's buffer goes out as the client reads.
#[test]
fn a_slow_reader_gets_everything() {
    let mut large = example();
    large.peers = (0..3000).flat_map(|_| large.peers.clone()).collect();
    let expected = Response::Status(Box::new(large.clone())).to_line();
    let (mut here, mut client) = pair();
    here.write_all(&Request::Status.to_line()).unwrap();
    let mut progress = client.advance(|_| Response::Status(Box::new(large)).to_line());
    assert_eq!(progress, Progress::WaitWritable);
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while progress != Progress::Done {
        let length = here.read(&mut chunk).unwrap();
        answer.extend_from_slice(&chunk[..length]);
        progress = client.advance(|_| panic!("answered twice"));
    }
    drop(client);
    here.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, expected);
}

#[test]
fn a_reader_that_goes_while_its_answer_waits_is_dropped() {
    let mut large = example();
    large.peers = (0..3000).flat_map(|_| large.peers.clone()).collect();
    let (mut here, mut client) = pair();
    here.write_all(&Request::Status.to_line()).unwrap();
    let progress = client.advance(|_| Response::Status(Box::new(large)).to_line());
    assert_eq!(progress, Progress::WaitWritable);
    drop(here);
    assert_eq!(client.advance(ok), Progress::Done);
}

/// Runs a control server while `body` runs with its sockets.
fn with_server(body: impl FnOnce(&Sockets)) {
    let base = tempfile::tempdir().unwrap();
    let sockets = Sockets::at(base.path().join("net"));
    let mut lease = sockets.take().unwrap();
    let poller = Poller::new().unwrap();
    let mut server = ControlServer::bind(&mut lease, &poller, 100).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut ready = Vec::new();
            while !done.load(Ordering::Relaxed) {
                poller
                    .wait(Some(Duration::from_millis(10)), &mut ready)
                    .unwrap();
                if ready.iter().any(|r| server.owns(r.token)) {
                    let answer = |_, _, _| Response::Status(Box::new(example()));
                    server.turn(&poller, answer).unwrap();
                }
            }
        });
        // The server is to end also if `body` fails.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&sockets)));
        done.store(true, Ordering::Relaxed);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

#[test]
fn the_daemon_answers_again_and_again() {
    with_server(|sockets| {
        for _ in 0..3 * CLIENTS_MAX {
            let value = ask_status(sockets).unwrap();
            let report: StatusReport = serde_json::from_value(value).unwrap();
            assert_eq!(report, example());
        }
    });
}

#[test]
fn clients_that_say_nothing_do_not_lock_others_out() {
    with_server(|sockets| {
        let connect = || sockets.connect(SOCKET_NAME, |path| UnixStream::connect(path));
        let mute: Vec<UnixStream> = (0..5 * CLIENTS_MAX).map(|_| connect().unwrap()).collect();
        assert!(ask_status(sockets).is_ok());
        drop(mute);
        assert!(ask_status(sockets).is_ok());
    });
}

#[test]
fn who_may_only_ask_takes_no_place_of_an_owner() {
    use Caller::{Anyone, Owner};
    let place = |callers: &[Caller], newcomer| {
        let came = |n| callers.get(n).map(|caller| (*caller, n as u64 + 1));
        place_for(newcomer, std::array::from_fn(came))
    };
    assert_eq!(place(&[Owner, Anyone], Anyone), Some(2), "a free one");
    let all = |caller| vec![caller; CLIENTS_MAX];
    assert_eq!(place(&all(Anyone), Anyone), Some(0), "that of the first");
    assert_eq!(place(&all(Owner), Owner), Some(0));
    assert_eq!(place(&all(Owner), Anyone), None);
    let mut mixed = all(Owner);
    mixed[5] = Anyone;
    assert_eq!(place(&mixed, Anyone), Some(5));
    assert_eq!(place(&mixed, Owner), Some(5));
}

#[test]
fn who_may_only_ask_has_no_report_made_for_each_time() {
    use Caller::{Anyone, Owner};
    let (mut shown, start) = (Shown::default(), Instant::now());
    let mut made = 0;
    let mut ask = |ms, caller| {
        let now = start + Duration::from_millis(ms);
        let make = || {
            made += 1;
            vec![made]
        };
        shown.answer(now, caller, make)[0]
    };
    assert_eq!([ask(0, Anyone), ask(0, Owner)], [1, 1], "in one turn");
    assert_eq!([ask(50, Anyone), ask(99, Anyone)], [1, 1]);
    assert_eq!([ask(99, Owner), ask(120, Anyone)], [2, 2]);
    assert_eq!([ask(199, Anyone), ask(200, Owner)], [3, 4]);
}

#[test]
fn without_a_daemon_the_error_says_so() {
    let base = tempfile::tempdir().unwrap();
    let nobodys = Sockets::at(base.path().join("net"));
    let error = ask_status(&nobodys).unwrap_err();
    assert_eq!(error.exit_code(), crate::exit_codes::NO_DAEMON);
    assert_eq!(
        error.to_string(),
        "no daemon runs here; start one with `tabane up` (each network namespace has its own)"
    );
}
