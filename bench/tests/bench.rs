//! `bench` ends as it should.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tabane_lab::cluster::Scratch;

/// Generous: only a hang is longer.
const PATIENCE: Duration = Duration::from_secs(30);

fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if holds() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn a_signal_ends_it_and_its_directories() {
    let here = Scratch::new().expect("is made");
    let temporary = here.path().join("tmp");
    fs::create_dir(&temporary).expect("is made");
    // Asked for a key, it does not answer while this test lasts: the directory is there
    // by then.
    let tabane = here.path().join("tabane");
    fs::write(
        &tabane,
        "#!/bin/sh\nwhile [ -e \"$0\" ]; do sleep 0.1; done\n",
    )
    .expect("is written");
    fs::set_permissions(&tabane, fs::Permissions::from_mode(0o700)).expect("may be run");

    let mut bench = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["--quick", "--only", "idle", "--tabane"])
        .arg(&tabane)
        .env("TMPDIR", &temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bench starts");
    let is_empty = || {
        let mut entries = fs::read_dir(&temporary).expect("is there");
        entries.next().is_none()
    };
    assert!(eventually(|| !is_empty()), "it makes a directory");
    let pid = bench.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.expect("kill starts").success());
    let status = bench.wait().expect("it ends");
    let mut said = bench.stderr.take().expect("is a pipe");
    let said = std::io::read_to_string(&mut said).expect("is read");
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("bench: interrupted"), "{said}");
    assert!(is_empty(), "{said}");
}
