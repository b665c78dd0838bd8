//! What a client asks the server for, with the first bytes of a connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Nothing that is measured takes so long: a connection that stands still this long is broken.
pub const STILL_MAX: Duration = Duration::from_secs(10);

const BYTES: usize = 9;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// So many bytes.
    Bytes(u32),
    /// A stream without end.
    Endless,
    /// A stream of a steady rate whose bytes are counted, for so long.
    Steady { ms: u32, mbit: u32 },
    /// The client's stream is read, and noted when it comes.
    Take,
    /// The same of one whose bytes are counted.
    Check,
    /// Messages of so many bytes are echoed.
    Echo(u32),
    /// Whatever was noted since this was asked last.
    Tell,
}

impl Asked {
    fn words(self) -> (u8, u32, u32) {
        match self {
            Asked::Bytes(count) => (0, count, 0),
            Asked::Endless => (1, 0, 0),
            Asked::Steady { ms, mbit } => (2, ms, mbit),
            Asked::Take => (3, 0, 0),
            Asked::Check => (4, 0, 0),
            Asked::Echo(bytes) => (5, bytes, 0),
            Asked::Tell => (6, 0, 0),
        }
    }

    /// A connection on which this is asked.
    ///
    /// # Errors
    /// Nobody answers within [`STILL_MAX`].
    pub fn of(self, to: SocketAddr) -> io::Result<TcpStream> {
        self.within(to, STILL_MAX)
    }

    /// As [`Asked::of`], with another bound.
    ///
    /// # Errors
    /// Nobody answers so soon.
    pub fn within(self, to: SocketAddr, at_most: Duration) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&to, at_most)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(at_most))?;
        stream.set_write_timeout(Some(at_most))?;
        let (kind, first, second) = self.words();
        let mut said = vec![kind];
        said.extend(first.to_be_bytes());
        said.extend(second.to_be_bytes());
        stream.write_all(&said)?;
        Ok(stream)
    }

    /// What a client asks on this connection.
    ///
    /// # Errors
    /// It asks for nothing, or for something unknown.
    pub fn read(mut stream: &TcpStream) -> io::Result<Asked> {
        let mut said = [0; BYTES];
        stream.read_exact(&mut said)?;
        let [kind, a, b, c, d, e, f, g, h] = said;
        let first = u32::from_be_bytes([a, b, c, d]);
        let second = u32::from_be_bytes([e, f, g, h]);
        Ok(match kind {
            0 => Asked::Bytes(first),
            1 => Asked::Endless,
            2 => Asked::Steady {
                ms: first,
                mbit: second,
            },
            3 => Asked::Take,
            4 => Asked::Check,
            5 => Asked::Echo(first),
            6 => Asked::Tell,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn what_is_asked_is_understood() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("is bound");
        let (ms, mbit) = (4_000, 200);
        for asked in [
            Asked::Bytes(100_000),
            Asked::Endless,
            Asked::Steady { ms, mbit },
            Asked::Take,
            Asked::Check,
            Asked::Echo(64),
            Asked::Tell,
        ] {
            let _client = asked.of(address).expect("connects");
            let (stream, _) = listener.accept().expect("comes");
            assert_eq!(Asked::read(&stream).expect("asks"), asked);
        }
    }
}
