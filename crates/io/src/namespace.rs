//! Tests that make devices do so in a network namespace of their own.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::sys::check;

/// Set in the process that already is in its namespace, to the test's name.
const INSIDE: &str = "TABANE_IO_TEST_NAMESPACE";

/// Runs `body` as the whole content of the test `name` (its full path within
/// the crate) in a fresh network namespace, as root or, with a user namespace
/// around it, as anyone else: the test program is started again for this one
/// test. The host's devices are never in reach.
pub(crate) fn isolated(name: &str, body: impl FnOnce()) {
    if std::env::var(INSIDE).as_deref() == Ok(name) {
        return body();
    }
    // SAFETY: no arguments, cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let maps = [
        (c"/proc/self/setgroups", "deny".to_owned()),
        (c"/proc/self/uid_map", format!("0 {uid} 1")),
        (c"/proc/self/gid_map", format!("0 {gid} 1")),
    ];
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, name);
    // SAFETY: between fork and exec only system calls are made, on strings that
    // were made before; nothing allocates.
    unsafe {
        command.pre_exec(move || {
            if uid == 0 {
                return check(libc::unshare(libc::CLONE_NEWNET)).map(drop);
            }
            check(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET))?;
            for (path, content) in &maps {
                let fd = check(libc::open(path.as_ptr(), libc::O_WRONLY))?;
                let written = libc::write(fd, content.as_ptr().cast(), content.len());
                libc::close(fd);
                if written != content.len() as isize {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let output = command.output().unwrap_or_else(|error| {
        panic!("{name}: no namespace (are user namespaces permitted?): {error}")
    });
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{name} failed in its namespace:\n{text}{errors}"
    );
    assert!(
        text.contains("1 passed"),
        "{name} is not the name of a test:\n{text}"
    );
}
