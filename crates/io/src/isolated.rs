//! Tests that make devices do so in a network namespace of their own.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::credentials::own_uid;
use crate::namespaces::{Kinds, OwnIds, unshare};

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
    let (is_root, ids) = (own_uid() == 0, OwnIds::as_root());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, name);
    // SAFETY: between fork and exec only system calls are made, on strings that
    // were made before; nothing allocates.
    unsafe {
        command.pre_exec(move || {
            if is_root {
                return unshare(Kinds::NET);
            }
            unshare(Kinds::USER | Kinds::NET)?;
            ids.take_effect()
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
