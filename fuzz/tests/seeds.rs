//! Every seed through its target: what a fuzzer found once stays mended, with
//! any Rust and in a moment.

use std::fs;
use std::path::{Path, PathBuf};

use tabane_fuzz::TARGETS;

fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the directory is there");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("it is listed").file_name();
        name.into_string().expect("names are ASCII")
    };
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}

#[test]
fn every_target_has_seeds_and_a_program() {
    let targets: Vec<_> = TARGETS.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(names(&seeds()), targets);
    let programs = seeds().join("../libfuzzer/fuzz_targets");
    let files: Vec<_> = targets.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names(&programs), files);
}

#[test]
fn every_seed_passes() {
    for (target, run) in TARGETS {
        let directory = seeds().join(target);
        for name in names(&directory) {
            let bytes = fs::read(directory.join(&name)).expect("a seed");
            // Shown if it fails.
            println!("{target}/{name}");
            run(&bytes);
        }
    }
}

/// Without a fuzzer: other bytes each time would be a test that nobody can repeat.
#[test]
fn a_little_noise_passes() {
    let mut word = 1_u64;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word
    };
    for (target, run) in TARGETS {
        for round in 0..20 {
            let bytes: Vec<u8> = (0..next() % 600).map(|_| next() as u8).collect();
            println!("{target}, round {round}");
            run(&bytes);
        }
    }
}
