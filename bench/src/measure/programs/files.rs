//! Files to be carried.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use tabane_lab::LabError;
use tabane_lab::cluster::Scratch;

/// A directory in memory if there is one, so that no disk is measured.
pub fn scratch() -> Result<Scratch, LabError> {
    Scratch::within(Path::new("/dev/shm"))
        .or_else(|_| Scratch::new())
        .map_err(LabError::io("a directory for files"))
}

/// Write a file of so many bytes that no compression makes smaller.
pub fn write(path: &Path, bytes: u64) -> Result<(), LabError> {
    let file = File::create(path).map_err(LabError::io(path.display().to_string()))?;
    let mut file = BufWriter::with_capacity(1 << 16, file);
    // xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
    let mut state = bytes | 1;
    let mut left = bytes;
    while left > 0 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let count = left.min(8) as usize;
        file.write_all(&state.to_le_bytes()[..count])
            .map_err(LabError::io(path.display().to_string()))?;
        left -= count as u64;
    }
    file.flush()
        .map_err(LabError::io(path.display().to_string()))
}

/// A directory of so many files of so many bytes each, `0`, `1` and so on.
pub fn write_many(directory: &Path, count: usize, bytes: u64) -> Result<(), LabError> {
    make_directory(directory)?;
    (0..count).try_for_each(|number| write(&directory.join(number.to_string()), bytes))
}

/// Make a directory and those above it.
pub fn make_directory(path: &Path) -> Result<(), LabError> {
    fs::create_dir_all(path).map_err(LabError::io(path.display().to_string()))
}

/// Write a small file of text.
pub fn write_text(path: &Path, text: &str) -> Result<(), LabError> {
    fs::write(path, text).map_err(LabError::io(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_size_asked_for() {
        let scratch = scratch().expect("is made");
        write_many(scratch.path(), 3, 1001).expect("are written");
        let length = |name| fs::metadata(scratch.path().join(name)).map(|file| file.len());
        assert_eq!(
            ["0", "1", "2"].map(|name| length(name).ok()),
            [Some(1001); 3]
        );
        let content = fs::read(scratch.path().join("2")).expect("is there");
        assert!(content[..8] != content[8..16]);
    }
}
