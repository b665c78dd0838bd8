//! The examples in C, on two nodes of a lab, as a reader of them would run them.

mod common;
#[path = "../../library/tests/example/mod.rs"]
mod example;

use std::path::Path;

use common::{C, Workshop, package};

/// Compiles an example, which is there until `does` has returned.
fn compiled(name: &str, does: impl FnOnce(&Path)) {
    let workshop = Workshop::new();
    let source = package("examples").join(name).with_extension("c");
    does(&workshop.program(C, &source, name));
}

#[test]
fn echo() {
    compiled("echo", example::echoes);
}

#[test]
fn copy() {
    compiled("copy", example::copies);
}

#[test]
fn failover() {
    let is_up = |link| format!("link {link} to n1 is up");
    let is_down = |link| format!("link {link} to n1 is down");
    compiled("failover", |program| {
        example::survives_failures(program, is_up, is_down);
    });
}
