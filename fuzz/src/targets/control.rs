//! Any bytes from a client of the control socket, in pieces of any size: one
//! line of JSON comes back, or nothing.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;
use tabane_program::status::control::{Client, Progress, REQUEST_BYTES_MAX, Request, Response};

/// Feeds it `bytes`: the first says how long the pieces are.
pub fn run(bytes: &[u8]) {
    let Some((&piece_bytes, bytes)) = bytes.split_first() else {
        return;
    };
    // What the socket holds, so that neither end waits.
    let bytes = &bytes[..bytes.len().min(3 * REQUEST_BYTES_MAX)];
    let (mut far, near) = UnixStream::pair().expect("a pair of sockets");
    let mut client = Client::new(near).expect("a client");
    let answer = |request: Request| Response::Error(format!("{request:?}")).to_line();
    let mut done = false;
    for piece in bytes.chunks(usize::from(piece_bytes) + 1) {
        if far.write_all(piece).is_err() || client.advance(answer) == Progress::Done {
            done = true;
            break;
        }
    }
    if !done {
        far.shutdown(std::net::Shutdown::Write).expect("half close");
        while client.advance(answer) == Progress::WaitReadable {}
    }
    drop(client);
    let mut said = Vec::new();
    // Bytes it did not read make the end a reset; what it said is there all the same.
    let _ = far.read_to_end(&mut said);
    if said.is_empty() {
        let has_line = bytes.len() >= REQUEST_BYTES_MAX || bytes.contains(&b'\n');
        assert!(!has_line, "a request was not answered");
        return;
    }
    assert_eq!(said.iter().position(|&b| b == b'\n'), Some(said.len() - 1));
    let said: Value = serde_json::from_slice(&said).expect("the answer is JSON");
    assert!(said.get("error").is_some());
}
