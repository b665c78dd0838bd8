//! The sending end.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::{BLOCK_WORDS, Sent, WORD_BYTES, fill};

/// Send as fast as the connection takes it, for this long; then wait until the
/// receiver has all of it.
pub fn send(mut stream: TcpStream, lasting: Duration) -> Sent {
    let mut sent = Sent::default();
    if let Err(error) = all(&mut stream, lasting, &mut sent.bytes) {
        sent.error = Some(error.to_string());
    }
    sent
}

fn all(stream: &mut TcpStream, lasting: Duration, sent: &mut u64) -> std::io::Result<()> {
    let mut block = vec![0; BLOCK_WORDS * WORD_BYTES];
    let until = Instant::now() + lasting;
    while Instant::now() < until {
        fill(&mut block, *sent / WORD_BYTES as u64);
        stream.write_all(&block)?;
        *sent += block.len() as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    stream.read(&mut [0]).map(drop)
}
