//! A program's TCP connection, carried on: by a stream of a bundle, or, to where there is none, by
//! a plain TCP connection of this node.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use tabane_io::capture::{break_when_closed, finish, reset};
use tabane_io::poll::{Interest, Poller};
use tabane_proto::op::OpError;
use tabane_proto::{Node, PeerId, StreamId, Time};

use super::opening::CODE_RESET;
use super::pipe::Pipe;

/// What one connection moves in a turn, each way; then others have theirs.
const TURN_BYTES: usize = 1024 * 1024;

/// The side that is not the program's.
#[derive(Debug)]
pub enum Far {
    /// A stream to the agent of another node.
    Stream(PeerId, StreamId),
    /// A plain connection.
    Plain(TcpStream),
}

/// How a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It goes on; with more to do at once if `eager`.
    Goes {
        /// It was interrupted for others to have their turn.
        eager: bool,
    },
    /// Both sides have said everything.
    Over,
    /// One side was reset: the other is to be.
    Reset,
}

/// A connection that is carried on.
#[derive(Debug)]
pub struct Relay {
    place: u64,
    near: TcpStream,
    far: Far,
    out: Pipe,
    back: Pipe,
    near_interest: Interest,
    plain_interest: Interest,
}

/// One read or write that does not wait.
enum Moved {
    Bytes(usize),
    /// Nothing now.
    Blocked,
    End,
    Broken,
}

impl Relay {
    /// For a socket of the program of this place, which does not block. Unless it [finishes](Relay::finish), both
    /// sides are reset, also when this process is killed.
    pub fn new(place: u64, near: TcpStream, far: Far) -> Relay {
        break_when_closed(&near);
        if let Far::Plain(plain) = &far {
            break_when_closed(plain);
        }
        Relay {
            place,
            near,
            far,
            out: Pipe::default(),
            back: Pipe::default(),
            near_interest: Interest::Nothing,
            plain_interest: Interest::Nothing,
        }
    }

    /// The number of the place whose program has it.
    pub const fn place(&self) -> u64 {
        self.place
    }

    /// The stream it is carried by, if it is.
    pub fn stream(&self) -> Option<(PeerId, StreamId)> {
        match self.far {
            Far::Stream(peer, stream) => Some((peer, stream)),
            Far::Plain(_) => None,
        }
    }

    /// The program's socket.
    pub const fn near(&self) -> &TcpStream {
        &self.near
    }

    /// The plain connection, if it is carried by one.
    pub const fn plain(&self) -> Option<&TcpStream> {
        match &self.far {
            Far::Plain(plain) => Some(plain),
            Far::Stream(..) => None,
        }
    }

    /// Moves what can be moved without waiting, through `buffer`.
    pub fn turn(&mut self, now: Time, node: &mut Node, buffer: &mut [u8]) -> Standing {
        let mut eager = false;
        for moves in [Relay::move_out, Relay::move_back] {
            match moves(self, now, node, buffer) {
                Ok(more) => eager |= more,
                Err(Broken) => return Standing::Reset,
            }
        }
        if self.out.is_over() && self.back.is_over() {
            return Standing::Over;
        }
        Standing::Goes { eager }
    }

    /// From the program on. Returns whether there may be more at once.
    fn move_out(&mut self, now: Time, node: &mut Node, buffer: &mut [u8]) -> Result<bool, Broken> {
        let mut moved = 0;
        loop {
            if !self.out.is_empty() {
                let taken = write_far(&mut self.far, now, node, self.out.bytes())?;
                self.out.take(taken);
            }
            if !self.out.wants() || moved >= TURN_BYTES {
                break;
            }
            match received(self.near.read(buffer)) {
                Moved::Bytes(bytes) => {
                    let taken = write_far(&mut self.far, now, node, &buffer[..bytes])?;
                    self.out.keep(&buffer[taken..bytes]);
                    moved += bytes;
                }
                Moved::Blocked => break,
                Moved::End => self.out.end(),
                Moved::Broken => return Err(Broken),
            }
        }
        if self.out.tells_end() {
            match &self.far {
                // It was ended by the other side, which a read will tell.
                Far::Stream(peer, stream) => drop(node.finish_stream(now, *peer, *stream)),
                Far::Plain(plain) => drop(plain.shutdown(Shutdown::Write)),
            }
        }
        Ok(moved >= TURN_BYTES && self.out.wants())
    }

    /// To the program. Returns whether there may be more at once.
    fn move_back(&mut self, now: Time, node: &mut Node, buffer: &mut [u8]) -> Result<bool, Broken> {
        let mut moved = 0;
        loop {
            if !self.back.is_empty() {
                let taken = write(&mut self.near, self.back.bytes())?;
                self.back.take(taken);
            }
            if !self.back.wants() || moved >= TURN_BYTES {
                break;
            }
            let (bytes, ends) = match read_far(&mut self.far, now, node, buffer)? {
                None => break,
                Some(read) => read,
            };
            let taken = write(&mut self.near, &buffer[..bytes])?;
            self.back.keep(&buffer[taken..bytes]);
            moved += bytes;
            if ends {
                self.back.end();
            }
        }
        if self.back.tells_end() {
            // A program that is gone already need not be told.
            drop(self.near.shutdown(Shutdown::Write));
        }
        Ok(moved >= TURN_BYTES && self.back.wants())
    }

    /// Has the poller wake the loop for what can go on then, and for nothing else.
    ///
    /// # Errors
    /// Those of the poller.
    pub fn watch(&mut self, poller: &Poller, near_token: u64, plain_token: u64) -> io::Result<()> {
        let near = interest(self.out.wants(), !self.back.is_empty());
        if near != self.near_interest {
            poller.modify(&self.near, near_token, near)?;
            self.near_interest = near;
        }
        let Far::Plain(plain) = &self.far else {
            return Ok(());
        };
        let interest = interest(self.back.wants(), !self.out.is_empty());
        if interest != self.plain_interest {
            poller.modify(plain, plain_token, interest)?;
            self.plain_interest = interest;
        }
        Ok(())
    }

    /// Both sides have said everything.
    pub fn finish(self) {
        finish(self.near);
        if let Far::Plain(plain) = self.far {
            finish(plain);
        }
    }

    /// Ends both sides as a reset does.
    pub fn reset(self, now: Time, node: &mut Node) {
        reset_far(self.far, now, node, CODE_RESET);
        reset(self.near);
    }
}

/// Ends the side that is not the program's as a reset does.
pub fn reset_far(far: Far, now: Time, node: &mut Node, code: u32) {
    match far {
        Far::Stream(peer, stream) => give_up(now, node, peer, stream, code),
        Far::Plain(plain) => reset(plain),
    }
}

/// Ends both directions of a stream.
pub fn give_up(now: Time, node: &mut Node, peer: PeerId, stream: StreamId, code: u32) {
    // A half that is over already needs no end.
    let _ = node.reset_stream(now, peer, stream, code);
    let _ = node.stop_stream(now, peer, stream, code);
}

/// A side that does not go on.
struct Broken;

const fn interest(reads: bool, writes: bool) -> Interest {
    match (reads, writes) {
        (true, true) => Interest::ReadWrite,
        (true, false) => Interest::Read,
        (false, true) => Interest::Write,
        (false, false) => Interest::Nothing,
    }
}

fn received(read: io::Result<usize>) -> Moved {
    match read {
        Ok(0) => Moved::End,
        Ok(bytes) => Moved::Bytes(bytes),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Moved::Blocked,
        Err(error) if error.kind() == ErrorKind::Interrupted => Moved::Blocked,
        Err(_) => Moved::Broken,
    }
}

fn write(to: &mut TcpStream, bytes: &[u8]) -> Result<usize, Broken> {
    if bytes.is_empty() {
        return Ok(0);
    }
    match received(to.write(bytes)) {
        Moved::Bytes(bytes) => Ok(bytes),
        Moved::Blocked | Moved::End => Ok(0),
        Moved::Broken => Err(Broken),
    }
}

fn write_far(far: &mut Far, now: Time, node: &mut Node, bytes: &[u8]) -> Result<usize, Broken> {
    match far {
        Far::Stream(peer, stream) => {
            let written = node.write_stream(now, *peer, *stream, bytes);
            written.map_err(|_| Broken)
        }
        Far::Plain(plain) => write(plain, bytes),
    }
}

/// How many bytes were read, and whether they are the last; `None`: none now.
fn read_far(
    far: &mut Far,
    now: Time,
    node: &mut Node,
    buffer: &mut [u8],
) -> Result<Option<(usize, bool)>, Broken> {
    match far {
        Far::Stream(peer, stream) => match node.read_stream(now, *peer, *stream, buffer) {
            Ok(read) if read.len == 0 && !read.fin => Ok(None),
            Ok(read) => Ok(Some((read.len, read.fin))),
            // Over in both directions: its end was read before.
            Err(OpError::UnknownStream) => Ok(Some((0, true))),
            Err(_) => Err(Broken),
        },
        Far::Plain(plain) => match received(plain.read(buffer)) {
            Moved::Bytes(bytes) => Ok(Some((bytes, false))),
            Moved::End => Ok(Some((0, true))),
            Moved::Blocked => Ok(None),
            Moved::Broken => Err(Broken),
        },
    }
}
