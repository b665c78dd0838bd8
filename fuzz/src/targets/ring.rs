//! The memory that two processes of a node share, in which each may write anything at any time: no record is longer than it may
//! be, and nothing is read that is not there.

use arbitrary::{Arbitrary, Unstructured};
use tabane_rank::foreign::Ring;

/// Bytes of a record at most, with some to spare.
const BODY_BYTES_MAX: usize = 17 * 1024;

#[derive(Arbitrary, Debug)]
enum Step {
    /// Writes a record of so many bytes.
    Write(u16),
    Read,
    /// Writes a number over one of the words.
    Word(u8, u64),
    /// Writes bytes anywhere.
    Bytes(u32, Vec<u8>),
}

/// Feeds it `bytes`.
pub fn run(bytes: &[u8]) {
    let Some(mut ring) = Ring::new() else {
        return;
    };
    let mut steps = Unstructured::new(bytes);
    while let (false, Ok(step)) = (steps.is_empty(), Step::arbitrary(&mut steps)) {
        match step {
            Step::Write(len) => {
                let body = vec![len as u8; len.into()];
                if ring.write(len.into(), &body).is_none() {
                    return;
                }
            }
            Step::Read => match ring.read() {
                Some(record) => {
                    assert!(record.is_none_or(|(_, body)| body.len() < BODY_BYTES_MAX));
                }
                None => return,
            },
            Step::Word(word, value) => ring.scribble(usize::from(word) * 8, &value.to_ne_bytes()),
            Step::Bytes(at, bytes) => ring.scribble(at as usize, &bytes),
        }
    }
}
