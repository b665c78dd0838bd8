//! A program's TCP connection, carried on: by a stream of a bundle, or, to where there is none, by
//! a plain TCP connection of this node.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};

use tabane_io::capture::{
    Silence, break_when_closed, end_when_closed, is_at_mark, keep_little_unsent, read_now,
    write_more, write_now, write_urgent,
};
use tabane_io::poll::{Interest, Poller, Ready};
use tabane_proto::{Node, PeerId, StreamId, Time};

use super::opening::CODE_RESET;
use super::pipe::Pipe;
use super::unread::Stands;
use crate::daemon::closing::Lent;
use crate::status::Reader;

/// What one connection moves in a turn, each way; then others have theirs.
const TURN_BYTES: usize = 1024 * 1024;

/// How often a socket may fail and nothing come of it.
const FAILURES_MAX: u32 = 256;

/// What is read of a program at once, if the stream takes so much.
const READ_BYTES: usize = 64 * 1024;

/// The side that is not the program's.
#[derive(Debug)]
pub enum Far {
    /// A stream to the agent of another node.
    Stream(PeerId, StreamId),
    /// A plain connection.
    Plain(Lent<TcpStream>),
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

/// What the poller says of a socket: reads that would only say "nothing now" are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Readable {
    /// It says nothing, and will.
    #[default]
    Untold,
    /// There is something, and the first byte of it is not urgent.
    Told,
    /// There may be something, and it may be urgent.
    Perhaps,
}

impl Readable {
    /// What an event says.
    pub fn of(ready: Ready) -> Readable {
        match ready {
            Ready { urgent: true, .. } => Readable::Perhaps,
            Ready { readable: true, .. } => Readable::Told,
            _ => Readable::Untold,
        }
    }
}

/// What the poller says of the sockets of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Told {
    /// The program's.
    pub near: Readable,
    /// The other side's, if it is a plain one.
    pub plain: Readable,
}

impl Told {
    /// By an event of the program's socket, or else of the plain one.
    pub fn by(is_near: bool, ready: Ready) -> Told {
        let (told, untold) = (Readable::of(ready), Readable::Untold);
        match is_near {
            true => Told {
                near: told,
                plain: untold,
            },
            false => Told {
                near: untold,
                plain: told,
            },
        }
    }

    /// It was interrupted.
    pub const INTERRUPTED: Told = Told {
        near: Readable::Perhaps,
        plain: Readable::Perhaps,
    };
}

/// A connection that is carried on.
#[derive(Debug)]
pub struct Relay {
    place: u64,
    near: Lent<TcpStream>,
    far: Far,
    out: Pipe,
    /// The stream takes nothing more now, and the poller is not to say what the program has.
    is_out_full: bool,
    back: Pipe,
    /// The program takes nothing more now, and the stream has more.
    is_back_full: bool,
    /// An urgent byte of the program's that the other agent is to hear of first, and the stream that
    /// tells it.
    urgent: Option<(u8, Option<StreamId>)>,
    /// `Nothing` before they are watched.
    near_interest: Interest,
    plain_interest: Interest,
    /// What its last turn moved, both ways.
    moved: usize,
    /// How often its sockets have failed since it last moved anything.
    failures: u32,
    /// No link to the far end works, and the program hears nothing.
    silence: Option<Silence>,
    /// It waits for a turn.
    pub in_line: bool,
    /// Whether it waits for somebody to read.
    pub stands: Stands,
    /// Its place in the list of those that do.
    pub unread_at: Option<usize>,
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
    pub fn new(place: u64, near: Lent<TcpStream>, far: Far) -> Relay {
        let sockets = [
            Some(&near),
            match &far {
                Far::Plain(plain) => Some(plain),
                Far::Stream(..) => None,
            },
        ];
        for socket in sockets.into_iter().flatten() {
            break_when_closed(socket);
            keep_little_unsent(socket);
        }
        Relay {
            place,
            near,
            far,
            out: Pipe::default(),
            is_out_full: false,
            back: Pipe::default(),
            is_back_full: false,
            urgent: None,
            near_interest: Interest::Nothing,
            plain_interest: Interest::Nothing,
            moved: 0,
            failures: 0,
            silence: None,
            in_line: false,
            stands: Stands::default(),
            unread_at: None,
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
    pub fn near(&self) -> &TcpStream {
        &self.near
    }

    /// The plain connection, if it is carried by one.
    pub fn plain(&self) -> Option<&TcpStream> {
        match &self.far {
            Far::Plain(plain) => Some(plain),
            Far::Stream(..) => None,
        }
    }

    /// Moves what can be moved without waiting, through `buffer`.
    pub fn turn(&mut self, now: Time, node: &mut Node, told: Told, buffer: &mut [u8]) -> Standing {
        let taken = (self.out.taken(), self.back.taken());
        let moved = self.move_out(now, node, told.near, buffer);
        let moved = moved.and_then(|more| {
            let more_back = self.move_back(now, node, told.plain, buffer)?;
            Ok(more | more_back)
        });
        let Ok(eager) = moved else {
            return Standing::Reset;
        };
        self.look(now, taken);
        if self.out.is_over() && self.back.is_over() {
            return Standing::Over;
        }
        Standing::Goes { eager }
    }

    /// Notes what was moved, and for whom it waits now; `before`: what both had taken before the turn.
    fn look(&mut self, now: Time, before: (u64, u64)) {
        let moved = (self.out.taken() - before.0, self.back.taken() - before.1);
        self.moved = (moved.0 + moved.1) as usize;
        if self.moved > 0 {
            self.failures = 0;
        }
        let since = |waits: bool, has_moved: bool, before: Option<Time>| match (waits, has_moved) {
            (false, _) => None,
            (true, true) => Some(now),
            (true, false) => before.or(Some(now)),
        };
        let Stands { here, there } = self.stands;
        self.stands = Stands {
            here: since(self.waits_for_program(), moved.1 > 0, here),
            there: since(self.waits_for_far(), moved.0 > 0, there),
        };
    }

    /// Whether the program takes nothing more now of what is there for it.
    fn waits_for_program(&self) -> bool {
        self.is_back_full || !self.back.is_empty()
    }

    /// Whether the far end takes nothing more now of what the program says.
    fn waits_for_far(&self) -> bool {
        self.is_out_full || !self.out.is_empty()
    }

    /// What its last turn moved, both ways.
    pub const fn moved(&self) -> usize {
        self.moved
    }

    /// How many bytes are known to wait here for one to read them. What waits at a peer is known there.
    pub fn waiting_bytes(&self, node: &Node, reader: Reader) -> u64 {
        let bytes = match (reader, self.stream()) {
            (Reader::Peer, _) => self.out.bytes().len(),
            (Reader::Program, None) => self.back.bytes().len(),
            (Reader::Program, Some((peer, stream))) => {
                self.back.bytes().len() + node.readable_bytes(peer, stream)
            }
        };
        bytes as u64
    }

    /// From the program on. Returns whether there may be more at once.
    fn move_out(
        &mut self,
        now: Time,
        node: &mut Node,
        told: Readable,
        buffer: &mut [u8],
    ) -> Result<bool, Broken> {
        let Relay { near, far, out, .. } = self;
        let has_waited = self.is_out_full || !out.is_empty();
        let mut readable = after_waiting(told, has_waited);
        self.is_out_full = false;
        out.flush(|bytes, is_urgent| write_far(far, now, node, bytes, is_urgent))?;
        let mut moved = 0;
        while readable != Readable::Untold && out.wants() && moved < TURN_BYTES {
            if readable == Readable::Perhaps && is_at_mark(near) {
                let Some(byte) = read_one(near)? else {
                    break;
                };
                match far {
                    Far::Plain(_) => drop(out.mark(out.total())),
                    Far::Stream(..) => {
                        self.urgent = Some((byte, None));
                        out.rest(true);
                        break;
                    }
                }
                out.pass(&[byte], |bytes, is_urgent| {
                    write_far(far, now, node, bytes, is_urgent)
                })?;
                continue;
            }
            let read = match far {
                Far::Stream(peer, stream) => near_to_stream(near, now, node, *peer, *stream)?,
                Far::Plain(_) => Some((received(read_now(near, buffer)), buffer.len())),
            };
            let Some((read, most)) = read else {
                self.is_out_full = true;
                break;
            };
            match read {
                Moved::Bytes(bytes) => {
                    readable = after_reading(bytes, most);
                    match far {
                        Far::Stream(..) => out.passed(bytes),
                        Far::Plain(plain) => out.pass(&buffer[..bytes], |bytes, is_urgent| {
                            write(plain, bytes, is_urgent)
                        })?,
                    }
                    moved += bytes;
                }
                Moved::Blocked => break,
                Moved::End => out.end(),
                Moved::Broken => return Err(Broken),
            }
        }
        if out.tells_end() {
            match far {
                // It was ended by the other side, which a read will tell.
                Far::Stream(peer, stream) => drop(node.finish_stream(now, *peer, *stream)),
                Far::Plain(plain) => drop(plain.shutdown(Shutdown::Write)),
            }
        }
        Ok(moved >= TURN_BYTES && out.wants() && !self.is_out_full)
    }

    /// To the program. Returns whether there may be more at once.
    fn move_back(
        &mut self,
        now: Time,
        node: &mut Node,
        told: Readable,
        buffer: &mut [u8],
    ) -> Result<bool, Broken> {
        let Relay {
            near, far, back, ..
        } = self;
        let told = after_waiting(told, !back.is_empty());
        back.flush(|bytes, is_urgent| write(near, bytes, is_urgent))?;
        self.is_back_full = false;
        let moved = match far {
            Far::Stream(peer, stream) => {
                let (moved, is_full) = stream_to_near((*peer, *stream), now, node, near, back)?;
                self.is_back_full = is_full;
                moved
            }
            Far::Plain(plain) => plain_to_near(plain, told, near, back, buffer)?,
        };
        if back.tells_end() {
            // A program that is gone already need not be told.
            drop(near.shutdown(Shutdown::Write));
        }
        Ok(moved >= TURN_BYTES && back.wants() && !self.is_back_full)
    }

    /// Has the program's kernel hear nothing of the far end, as long as no link to it works, or hear it again.
    pub fn silence(&mut self, is_silent: bool) {
        match &self.silence {
            // If it cannot be, the program waits for longer than it has asked for.
            None if is_silent => self.silence = Silence::begin(&self.near).ok(),
            Some(silence) if !is_silent && silence.end(&self.near).is_ok() => self.silence = None,
            _ => {}
        }
    }

    /// Where the urgent byte is that the other agent is to hear of, if there is one that nobody tells
    /// it of yet.
    pub fn announces(&self) -> Option<u64> {
        matches!(self.urgent, Some((_, None))).then(|| self.out.total())
    }

    /// The stream that tells of it.
    pub fn announced_by(&mut self, stream: StreamId) {
        if let Some((_, by)) = &mut self.urgent {
            *by = Some(stream);
        }
    }

    /// The stream that tells of the urgent byte now.
    pub fn announcement(&self) -> Option<StreamId> {
        self.urgent?.1
    }

    /// The other agent has heard of the urgent byte: it may go.
    pub fn is_announced(&mut self) {
        if let Some((byte, _)) = self.urgent.take() {
            self.out.rest(false);
            self.out.keep(byte);
        }
    }

    /// A byte of the other side's is urgent. Returns `false` if there are too many.
    pub fn mark(&mut self, at: u64) -> bool {
        self.back.mark(at)
    }

    /// Whether a socket has failed from which nothing is wanted now: no read and no write would tell.
    pub fn has_failed(&self, is_near: bool) -> bool {
        let (socket, interest) = match is_near {
            true => (Some(self.near()), self.near_interest),
            false => (self.plain(), self.plain_interest),
        };
        let has_error = |socket: &TcpStream| !matches!(socket.take_error(), Ok(None));
        interest == Interest::Failure && socket.is_some_and(has_error)
    }

    /// Has the poller wake the loop for what can go on then, or is broken, and for nothing else.
    ///
    /// # Errors
    /// Those of the poller.
    pub fn watch(&mut self, poller: &Poller, near_token: u64, plain_token: u64) -> io::Result<()> {
        let near = interest(
            self.out.wants() && !self.is_out_full,
            self.is_back_full || !self.back.is_empty(),
        );
        watch(
            poller,
            &self.near,
            near_token,
            &mut self.near_interest,
            near,
        )?;
        let Far::Plain(plain) = &self.far else {
            return Ok(());
        };
        let interest = interest(self.back.wants(), !self.out.is_empty());
        watch(
            poller,
            plain,
            plain_token,
            &mut self.plain_interest,
            interest,
        )
    }

    /// Both sides have said everything.
    pub fn finish(mut self) {
        self.silence(false);
        end_when_closed(&self.near);
        if let Far::Plain(plain) = &self.far {
            end_when_closed(plain);
        }
    }

    /// Ends both sides as a reset does.
    pub fn reset(mut self, now: Time, node: &mut Node) {
        self.silence(false);
        if let (Some(urgent), Some((peer, _))) = (self.announcement(), self.stream()) {
            give_up(now, node, peer, urgent, CODE_RESET);
        }
        reset_far(self.far, now, node, CODE_RESET);
        break_when_closed(&self.near);
    }

    /// The poller says that a socket has failed. Returns whether it has so often, though nothing came of it,
    /// that it wakes the loop for nothing: who else has it does not fetch what it has to tell (its error
    /// queue).
    pub fn is_failing(&mut self) -> bool {
        self.failures += 1;
        self.failures > FAILURES_MAX
    }
}

/// Ends the side that is not the program's as a reset does.
pub fn reset_far(far: Far, now: Time, node: &mut Node, code: u32) {
    match far {
        Far::Stream(peer, stream) => give_up(now, node, peer, stream, code),
        Far::Plain(plain) => break_when_closed(&plain),
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

fn watch(
    poller: &Poller,
    socket: &TcpStream,
    token: u64,
    before: &mut Interest,
    interest: Interest,
) -> io::Result<()> {
    if interest == *before {
        return Ok(());
    }
    match (*before, interest) {
        (Interest::Nothing, _) => poller.register(socket, token, interest)?,
        _ => poller.modify(socket, token, interest)?,
    }
    *before = interest;
    Ok(())
}

/// Whoever waited to write was not watched for reading meanwhile.
const fn after_waiting(told: Readable, has_waited: bool) -> Readable {
    match told {
        Readable::Untold if has_waited => Readable::Perhaps,
        told => told,
    }
}

/// A read that does not fill the buffer has taken all there was, or stops before an urgent byte: the
/// poller will tell.
const fn after_reading(bytes: usize, most: usize) -> Readable {
    match bytes < most {
        true => Readable::Untold,
        false => Readable::Perhaps,
    }
}

/// The next byte, if it is there.
fn read_one(from: &mut TcpStream) -> Result<Option<u8>, Broken> {
    let mut byte = [0];
    match received(read_now(from, &mut byte)) {
        Moved::Bytes(_) => Ok(Some(byte[0])),
        Moved::Blocked | Moved::End => Ok(None),
        Moved::Broken => Err(Broken),
    }
}

const fn interest(reads: bool, writes: bool) -> Interest {
    match (reads, writes) {
        (true, true) => Interest::ReadUrgentWrite,
        (true, false) => Interest::ReadUrgent,
        (false, true) => Interest::Write,
        (false, false) => Interest::Failure,
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

fn write(to: &mut TcpStream, bytes: &[u8], is_urgent: bool) -> Result<usize, Broken> {
    written(match is_urgent {
        true => write_urgent(to, bytes),
        false => write_now(to, bytes),
    })
}

fn written(written: io::Result<usize>) -> Result<usize, Broken> {
    match received(written) {
        Moved::Bytes(bytes) => Ok(bytes),
        Moved::Blocked | Moved::End => Ok(0),
        Moved::Broken => Err(Broken),
    }
}

fn write_far(
    far: &mut Far,
    now: Time,
    node: &mut Node,
    bytes: &[u8],
    is_urgent: bool,
) -> Result<usize, Broken> {
    match far {
        Far::Stream(peer, stream) => {
            let written = node.write_stream(now, *peer, *stream, bytes);
            written.map_err(|_| Broken)
        }
        Far::Plain(plain) => write(plain, bytes, is_urgent),
    }
}

/// Has the stream take what the program said, straight to where it is sent from. Returns what was read,
/// and how much it could have been; `None`: the stream takes nothing now.
fn near_to_stream(
    near: &mut TcpStream,
    now: Time,
    node: &mut Node,
    peer: PeerId,
    stream: StreamId,
) -> Result<Option<(Moved, usize)>, Broken> {
    let mut read = None;
    let filled = node.fill_stream(now, peer, stream, READ_BYTES, |room| {
        let moved = received(read_now(near, room));
        let bytes = match moved {
            Moved::Bytes(bytes) => bytes,
            _ => 0,
        };
        read = Some((moved, room.len()));
        bytes
    });
    match filled {
        Ok(_) => Ok(read),
        // It was ended by the other side: only an end may still come.
        Err(_) => match received(read_now(near, &mut [0])) {
            Moved::Bytes(_) => Err(Broken),
            moved => Ok(Some((moved, 1))),
        },
    }
}

/// Has the program take what has come on the stream, straight from where it came to. Returns how much
/// it was, and whether the program takes nothing more now.
fn stream_to_near(
    (peer, stream): (PeerId, StreamId),
    now: Time,
    node: &mut Node,
    near: &mut TcpStream,
    back: &mut Pipe,
) -> Result<(usize, bool), Broken> {
    let mut moved = 0;
    while back.wants() && moved < TURN_BYTES {
        let (mut offered, mut taken) = (0, Ok(0));
        let there = node.readable_bytes(peer, stream);
        let read = node.take_stream(now, peer, stream, |bytes| {
            offered = bytes.len();
            // What does not lie together is to reach the program together.
            let more = there > offered;
            taken = back.offer(bytes, |bytes, is_urgent| match more && !is_urgent {
                true => written(write_more(near, bytes)),
                false => write(near, bytes, is_urgent),
            });
            *taken.as_ref().unwrap_or(&0)
        });
        let taken = taken?;
        moved += taken;
        match read {
            Ok(read) if read.fin => back.end(),
            Ok(_) if taken < offered => return Ok((moved, true)),
            Ok(_) if taken == 0 => break,
            Ok(_) => {}
            // Also of a stream that is gone: it broke, of which an event is yet to tell, since its end
            // is read here before it may be forgotten.
            Err(_) => return Err(Broken),
        }
    }
    Ok((moved, false))
}

/// Has the program take what has come on a plain connection. Returns how much it was.
fn plain_to_near(
    plain: &mut TcpStream,
    told: Readable,
    near: &mut TcpStream,
    back: &mut Pipe,
    buffer: &mut [u8],
) -> Result<usize, Broken> {
    let mut readable = told;
    let mut moved = 0;
    while readable != Readable::Untold && back.wants() && moved < TURN_BYTES {
        if readable == Readable::Perhaps && is_at_mark(plain) {
            let Some(byte) = read_one(plain)? else {
                break;
            };
            back.mark(back.total());
            back.pass(&[byte], |bytes, is_urgent| write(near, bytes, is_urgent))?;
            continue;
        }
        match received(read_now(plain, buffer)) {
            Moved::Bytes(bytes) => {
                readable = after_reading(bytes, buffer.len());
                back.pass(&buffer[..bytes], |bytes, is_urgent| {
                    write(near, bytes, is_urgent)
                })?;
                moved += bytes;
            }
            Moved::Blocked => break,
            Moved::End => back.end(),
            Moved::Broken => return Err(Broken),
        }
    }
    Ok(moved)
}
