//! A program's TCP connection, carried by a stream of a bundle, or by a plain TCP connection of this node
//! where there is no bundle.

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
use crate::closing::Lent;
use crate::flow_rules::RuleId;
use crate::status::Reader;

/// The most bytes that one connection moves in a turn, each way.
const TURN_BYTES: usize = 1024 * 1024;

/// The most failures of a socket without a result.
const FAILURES_MAX: u32 = 256;

/// The most bytes read from a program at once, if the stream accepts as many.
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
    /// One side was reset, so the other must be.
    Reset,
}

/// The poller's knowledge of a socket: reads that would only return "nothing now" are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Readable {
    /// Nothing to read now; the poller will report.
    #[default]
    Untold,
    /// There is something, and the first byte of it is not urgent.
    Told,
    /// There may be something, and it may be urgent.
    Perhaps,
}

impl Readable {
    /// The state after an event.
    pub fn of(ready: Ready) -> Readable {
        match ready {
            Ready { urgent: true, .. } => Readable::Perhaps,
            Ready { readable: true, .. } => Readable::Told,
            _ => Readable::Untold,
        }
    }
}

/// The poller's knowledge of a connection's sockets.
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
    /// The stream accepts nothing now, so the poller need not report the program's data.
    is_out_full: bool,
    back: Pipe,
    /// The program accepts nothing now, and the stream has more.
    is_back_full: bool,
    /// An urgent byte of the program's that the other agent must hear of first, and the stream that
    /// announces it.
    urgent: Option<(u8, Option<StreamId>)>,
    /// `Nothing` before they are watched.
    near_interest: Interest,
    plain_interest: Interest,
    /// Bytes that its last turn moved, to the far end and to the program.
    moved: (usize, usize),
    /// The `[[flow]]` that speaks of it, if one does.
    pub rule: Option<RuleId>,
    /// In its last turn, its rate held back what there may have been.
    pub is_held: bool,
    /// It is among those that wait for their rate.
    pub is_paced: bool,
    /// How often its sockets have failed since it last moved anything.
    failures: u32,
    /// No link to the far end works, and the program gets no answers.
    silence: Option<Silence>,
    /// It waits for a turn.
    pub in_line: bool,
    /// Whether it waits for a reader.
    pub stands: Stands,
    /// Its index in the list of such relays.
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
            moved: (0, 0),
            rule: None,
            is_held: false,
            is_paced: false,
            failures: 0,
            silence: None,
            in_line: false,
            stands: Stands::default(),
            unread_at: None,
        }
    }

    /// The number of the program's place.
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

    /// Moves as much as possible without waiting, through `buffer`.
    /// About `out_bytes_max` of the program's at most.
    pub fn turn(
        &mut self,
        now: Time,
        node: &mut Node,
        told: Told,
        buffer: &mut [u8],
        out_bytes_max: usize,
    ) -> Standing {
        let taken = (self.out.taken(), self.back.taken());
        let moved = self.move_out(now, node, told.near, (buffer, out_bytes_max));
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

    /// Records progress, and whom it waits for now; `before`: what both had taken before the turn.
    fn look(&mut self, now: Time, before: (u64, u64)) {
        let moved = (self.out.taken() - before.0, self.back.taken() - before.1);
        self.moved = (moved.0 as usize, moved.1 as usize);
        if self.moved() > 0 {
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

    /// Whether data waits that the program does not accept now.
    fn waits_for_program(&self) -> bool {
        self.is_back_full || !self.back.is_empty()
    }

    /// Whether the program's data waits that the far end does not accept now.
    fn waits_for_far(&self) -> bool {
        self.is_out_full || !self.out.is_empty()
    }

    /// Bytes that its last turn moved, both ways.
    pub const fn moved(&self) -> usize {
        self.moved.0 + self.moved.1
    }

    /// Those of them that are the program's.
    pub const fn moved_out(&self) -> usize {
        self.moved.0
    }

    /// Bytes known to wait here for a reader. Those that wait at a peer are known there.
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
        (buffer, bytes_max): (&mut [u8], usize),
    ) -> Result<bool, Broken> {
        let Relay { near, far, out, .. } = self;
        let bytes_max = bytes_max.min(TURN_BYTES);
        let has_waited = self.is_out_full || !out.is_empty();
        let mut readable = after_waiting(told, has_waited);
        self.is_out_full = false;
        out.flush(|bytes, is_urgent| write_far(far, now, node, bytes, is_urgent))?;
        let mut moved = 0;
        while readable != Readable::Untold && out.wants() && moved < bytes_max {
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
        self.is_held = bytes_max < TURN_BYTES && moved >= bytes_max && readable != Readable::Untold;
        // Nor need the poller report what its rate holds back.
        self.is_out_full |= self.is_held;
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

    /// Silences the far end towards the program's kernel, while no link to it works, or ends that.
    pub fn silence(&mut self, is_silent: bool) {
        match &self.silence {
            // If it cannot be, the program waits for longer than it has asked for.
            None if is_silent => self.silence = Silence::begin(&self.near).ok(),
            Some(silence) if !is_silent && silence.end(&self.near).is_ok() => self.silence = None,
            _ => {}
        }
    }

    /// The offset of the urgent byte that must be announced to the other agent, if nothing announces it yet.
    pub fn announces(&self) -> Option<u64> {
        matches!(self.urgent, Some((_, None))).then(|| self.out.total())
    }

    /// Sets the stream that announces it.
    pub fn announced_by(&mut self, stream: StreamId) {
        if let Some((_, by)) = &mut self.urgent {
            *by = Some(stream);
        }
    }

    /// The stream that announces the urgent byte now.
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

    /// Whether a socket has failed from which nothing is wanted now: no read and no write would show it.
    pub fn has_failed(&self, is_near: bool) -> bool {
        let (socket, interest) = match is_near {
            true => (Some(self.near()), self.near_interest),
            false => (self.plain(), self.plain_interest),
        };
        let has_error = |socket: &TcpStream| !matches!(socket.take_error(), Ok(None));
        interest == Interest::Failure && socket.is_some_and(has_error)
    }

    /// Makes the poller wake the loop exactly for what can go on then, or is broken.
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

    /// The poller reports that a socket has failed. Returns whether that has happened so often without a
    /// result that the wake-ups are useless: another owner of the socket does not fetch its error queue.
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

/// A socket that waited to write was not watched for reading meanwhile.
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

/// Moves the program's data straight into the stream's send buffer. Returns the bytes read and the room
/// there was; `None`: the stream accepts nothing now.
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

/// Moves the stream's data straight from its receive buffer to the program. Returns the bytes moved, and
/// whether the program accepts nothing more now.
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
            // Data in several pieces should reach the program together.
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
            // Also if the stream is gone: it broke, which an event will report, because its end is read here
            // before it may be forgotten.
            Err(_) => return Err(Broken),
        }
    }
    Ok((moved, false))
}

/// Moves data of a plain connection to the program. Returns how much.
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
