//! The sending end.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::{Content, Sent};
use crate::transport::Stream;
use tabane_lab::pattern::fill;

const BLOCK_BYTES: usize = 128 * 1024;

/// Send as fast as the connection takes it, for this long; then wait until the
/// receiver has all of it.
pub fn send(stream: &Stream, lasting: Duration, content: Content) -> Sent {
    let mut sent = Sent::default();
    if let Err(error) = all(stream, lasting, content, &mut sent.bytes) {
        sent.error = Some(error.to_string());
    }
    sent
}

fn all(
    mut stream: &Stream,
    lasting: Duration,
    content: Content,
    sent: &mut u64,
) -> std::io::Result<()> {
    write_all(stream, lasting, content, sent)?;
    stream.read(&mut [0]).map(drop)
}

/// Send for this long. What comes is another's to read, who sees what goes wrong, too.
pub fn fill_up(stream: &Stream, lasting: Duration, content: Content) {
    let _ = write_all(stream, lasting, content, &mut 0);
}

fn write_all(
    mut stream: &Stream,
    lasting: Duration,
    content: Content,
    sent: &mut u64,
) -> std::io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    let until = Instant::now() + lasting;
    while Instant::now() < until {
        if content == Content::Counted {
            fill(&mut block, *sent);
        }
        stream.write_all(&block)?;
        *sent += block.len() as u64;
    }
    stream.finish()
}
