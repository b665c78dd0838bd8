//! The examples, on two nodes of a lab, as a reader of them would run them.

mod example;

use std::path::{Path, PathBuf};

/// Cargo builds examples beside the directory of the tests.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("is known");
    let target = test.parent().and_then(Path::parent).expect("is there");
    target.join("examples").join(name)
}

#[test]
fn echo() {
    example::echoes(&program("echo"));
}

#[test]
fn copy() {
    example::copies(&program("copy"));
}

#[test]
fn failover() {
    let is_up = |link| format!("LinkUp {{ peer: \"n1\", link: {link} }}");
    let is_down = |link| format!("LinkDown {{ peer: \"n1\", link: {link} }}");
    example::survives_failures(&program("failover"), is_up, is_down);
}
