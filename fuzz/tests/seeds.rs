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

/// Other bytes each time would be a test that nobody can repeat.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

#[test]
fn a_little_noise_passes() {
    let mut noise = Noise(1);
    for (target, run) in TARGETS {
        for round in 0..20 {
            let bytes: Vec<u8> = (0..noise.below(600)).map(|_| noise.next() as u8).collect();
            println!("{target}, round {round}");
            run(&bytes);
        }
    }
}

/// What mere noise never comes to: bytes that are almost right.
#[test]
fn seeds_with_a_few_bytes_changed_pass() {
    let mut noise = Noise(2);
    for (target, run) in TARGETS {
        let directory = seeds().join(target);
        for name in names(&directory) {
            let seed = fs::read(directory.join(&name)).expect("a seed");
            for round in 0..4 {
                let mut bytes = seed.clone();
                for _ in 0..=noise.below(4) {
                    let at = noise.below(bytes.len());
                    match (noise.below(4), bytes.get_mut(at)) {
                        (0, _) => bytes.truncate(at),
                        (1, Some(byte)) => *byte ^= 1 << noise.below(8),
                        (2, Some(byte)) => *byte = 0_u8.wrapping_sub(noise.below(2) as u8),
                        (_, Some(byte)) => *byte = noise.next() as u8,
                        (_, None) => bytes.push(noise.next() as u8),
                    }
                }
                println!("{target}/{name}, round {round}: {bytes:02x?}");
                run(&bytes);
            }
        }
    }
}
