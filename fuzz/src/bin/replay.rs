//! `replay TARGET FILE…`: a target on the bytes of files, one after the other; with
//! `TABANE_FUZZ_TRACE` set, `pair` tells what it does.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use tabane_fuzz::TARGETS;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let target = words.next().unwrap_or_default();
    let Some((_, run)) = TARGETS.iter().find(|(name, _)| *name == target) else {
        let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!(
            "replay: no target {target:?}; there are: {}",
            names.join(", ")
        );
        return ExitCode::from(2);
    };
    for file in words {
        match std::fs::read(&file) {
            Ok(bytes) => run(&bytes),
            Err(error) => {
                eprintln!("replay: {file}: {error}");
                return ExitCode::FAILURE;
            }
        }
        println!("{file}: passed");
    }
    ExitCode::SUCCESS
}
