//! Endpoints of the same node: how they find each other, and the rings by which they talk.
//!
//! The sender makes a ring and hands it over with a proof of the key, by a unix socket whose name is derived from the receiver's
//! address and the key. The kernel confirms that both are of one user. No answer is awaited: records written before the receiver
//! looks are there when it does. Afterwards no descriptor remains. Names belong to the network namespace: endpoints that share a
//! kernel but no network do not find each other.

mod hello;
mod record;
mod ring;
#[cfg(test)]
mod tests;

use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use slab::Slab;
use tabane_io::credentials;
use tabane_io::handover::{Handover, HandoverListener};
use tabane_io::poll::{Interest, Poller};
use tabane_io::shared_memory::read_process;
use tabane_proto::Time;

use hello::Hello;
pub use hello::{Keyed, PROBE_BYTES};
pub use record::Record;
use ring::{Broken, Taken};
pub use ring::{Reader, Writer};

use crate::{Address, Peer};

/// Endpoints of this node that one may have rings with before it calls another one; others are reached over the loopback device.
const NEIGHBOURS_MAX: usize = 1024;
/// The most incoming rings. More than outgoing ones, because a caller writes to its ring before it could use the loopback device
/// instead: if the ring is refused, its records are lost to this end.
const ADMITTED_MAX: usize = 8 * NEIGHBOURS_MAX;
/// The most connections that are accepted at a time, and that may be silent.
const CALLS_MAX: usize = 64;
/// A connection that is silent for this long is closed.
const SILENT_MAX: Duration = Duration::from_secs(1);
/// The most bytes that wait for room in a ring. Only a peer that asks and does not read makes it more.
const OUTBOX_BYTES_MAX: usize = 16 << 20;
/// Puts, gets and atomic operations that may be under way to one: the answers to all of them find room in its outbox.
pub const ASKED_MAX: u32 = 4096;
/// A ring that was not written for this long keeps no memory.
const COOL_AFTER: Duration = Duration::from_secs(5);

/// An address at which no process has anything.
const NOWHERE: u64 = 0;

/// The names of an endpoint's sockets.
const LISTENER: &str = "rings";
const BELL: &str = "bell";

/// All of an endpoint that the others of its node see.
pub struct Local {
    own: Address,
    keyed: Keyed,
    listener: HandoverListener,
    /// A datagram here only wakes this endpoint.
    bell: UnixDatagram,
    /// Whoever can read these bytes can read this process's memory.
    probe: Box<[u8; PROBE_BYTES]>,
    /// Whether others may try, and this end does.
    pulls: bool,
    /// Connections that have sent nothing yet.
    silent: Vec<(Handover, i32, Time)>,
    neighbours: Slab<Neighbour>,
    beat: u64,
    /// Bytes written to rings and read from them.
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

/// Another endpoint of this node.
pub struct Neighbour {
    pub peer: Peer,
    bell: SocketAddr,
    writer: Option<Writer>,
    reader: Option<Reader>,
    /// Its process, if its memory can be read.
    pid: Option<i32>,
    outbox: VecDeque<(u32, Vec<u8>)>,
    outbox_bytes: usize,
    /// Operations under way that it is to answer.
    pub asked: u32,
    /// The neighbour's operations that take this end more than a moment.
    pub serves: u32,
    /// Its life counters, as last seen, and when they last changed.
    beats: (u64, u64),
    seen_at: Time,
    /// When it was last known to have the ring to it, or no reason to have it: one that is not taken was lost.
    taken_at: Time,
    /// Bytes that were written to it when that was looked at last, and when they became more.
    written: u64,
    used_at: Time,
}

/// Result of looking for an endpoint on this node.
pub enum Called {
    /// It is here.
    At(usize),
    /// It is not, or does not take part.
    Elsewhere,
    /// Try again.
    Later,
}

/// A caller that has handed over a ring.
pub struct Caller {
    pub address: Address,
    reader: Reader,
    pid: Option<i32>,
}

impl Caller {
    /// It is not wanted, and may know.
    pub fn refuse(&self) {
        self.reader.close();
    }
}

fn bell_of(keyed: &Keyed, address: &Address) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(keyed.name(BELL, address))
}

impl Local {
    /// Can be found from now on.
    ///
    /// # Errors
    /// The system has no such sockets, or no descriptor left.
    pub fn open(
        key: &[u8; 32],
        own: &Address,
        probe: [u8; PROBE_BYTES],
        pulls: bool,
    ) -> io::Result<Local> {
        let keyed = Keyed::new(key);
        let bell = UnixDatagram::bind_addr(&bell_of(&keyed, own)?)?;
        bell.set_nonblocking(true)?;
        Ok(Local {
            own: *own,
            listener: HandoverListener::bind(&keyed.path(LISTENER, own))?,
            keyed,
            bell,
            probe: Box::new(probe),
            pulls,
            silent: Vec::new(),
            neighbours: Slab::new(),
            beat: 0,
            sent_bytes: 0,
            received_bytes: 0,
        })
    }

    /// Callers and rings wake this poller.
    ///
    /// # Errors
    /// The kernel is out of memory.
    pub fn register(&self, poller: &Poller, token: u64) -> io::Result<()> {
        poller.register(&self.listener, token, Interest::Read)?;
        poller.register(&self.bell, token, Interest::Read)
    }

    fn neighbour(&self, peer: Peer, address: &Address, now: Time) -> io::Result<Neighbour> {
        Ok(Neighbour {
            peer,
            bell: bell_of(&self.keyed, address)?,
            writer: None,
            reader: None,
            pid: None,
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            asked: 0,
            serves: 0,
            beats: (0, 0),
            seen_at: now,
            taken_at: now,
            written: 0,
            used_at: now,
        })
    }

    /// Makes a ring to a peer, which may have made one hither (`slot`).
    pub fn call(
        &mut self,
        now: Time,
        peer: Peer,
        address: &Address,
        slot: Option<usize>,
    ) -> Called {
        if slot.is_none() && self.neighbours.len() >= NEIGHBOURS_MAX {
            return Called::Elsewhere;
        }
        let (writer, bell) = match self.hand_over(address) {
            Ok(made) => made,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Called::Later,
            // Nobody is there, or of another user; or this process has no descriptor left.
            Err(_) => return Called::Elsewhere,
        };
        let slot = match slot {
            Some(slot) => slot,
            None => match self.neighbour(peer, address, now) {
                Ok(neighbour) => self.neighbours.insert(neighbour),
                Err(_) => return Called::Elsewhere,
            },
        };
        if let Some(neighbour) = self.neighbours.get_mut(slot) {
            (neighbour.writer, neighbour.taken_at) = (Some(writer), now);
        }
        self.ring(&bell);
        Called::At(slot)
    }

    fn hand_over(&self, to: &Address) -> io::Result<(Writer, SocketAddr)> {
        let there = Handover::connect_now(&self.keyed.path(LISTENER, to))?;
        if there.credentials()?.uid != credentials::own_uid() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (writer, file) = Writer::create()?;
        let hello = Hello {
            from: self.own,
            probe_at: match self.pulls {
                true => self.probe.as_ptr().expose_provenance() as u64,
                false => NOWHERE,
            },
            probe: *self.probe,
        };
        there.send(&self.keyed.write(&hello, to), &[file.as_fd()])?;
        Ok((writer, bell_of(&self.keyed, to)?))
    }

    fn ring(&self, bell: &SocketAddr) {
        // If it is full, or nobody is there, nobody must be woken.
        let _ = self.bell.send_to_addr(&[0], bell);
    }

    /// Clears the wake-ups so far.
    pub fn hush(&self) {
        let mut byte = [0];
        for _ in 0..CALLS_MAX {
            if self.bell.recv(&mut byte).is_err() {
                return;
            }
        }
    }

    /// Whether a caller has not sent its hello yet: nothing announces that it does.
    pub const fn has_silent(&self) -> bool {
        !self.silent.is_empty()
    }

    /// The new callers.
    pub fn callers(&mut self, now: Time) -> Vec<Caller> {
        while self.silent.len() < CALLS_MAX {
            let Ok(Some((call, who))) = self.listener.accept() else {
                break;
            };
            // Ignore what another user hands over.
            if who.uid == credentials::own_uid() {
                self.silent.push((call, who.pid, now));
            }
        }
        let mut callers = Vec::new();
        let (own, keyed, pulls) = (&self.own, &self.keyed, self.pulls);
        self.silent.retain(|(call, pid, since)| {
            let is_late = now.since(*since) >= SILENT_MAX;
            if is_late {
                // A caller that sends its hello later sees the end. A hello sent before is read below.
                call.end();
            }
            match call.receive_now() {
                Ok((message, files)) => {
                    let hello = keyed.read(&message, own);
                    callers.extend(hello.and_then(|hello| {
                        answer(&hello, files.first()?, Some(*pid).filter(|_| pulls))
                    }));
                    false
                }
                Err(error) => error.kind() == io::ErrorKind::WouldBlock && !is_late,
            }
        });
        callers
    }

    /// Reads a caller's ring from now on. Returns its slot; `None`: there are too many neighbours, or it has called before. It
    /// learns of that, because nobody would ever read its ring.
    pub fn admit(
        &mut self,
        now: Time,
        peer: Peer,
        slot: Option<usize>,
        caller: Caller,
    ) -> Option<usize> {
        let slot = slot.or_else(|| self.place(now, peer, &caller.address));
        let neighbour = slot.and_then(|slot| self.neighbours.get_mut(slot));
        let Some(neighbour) = neighbour.filter(|neighbour| neighbour.reader.is_none()) else {
            caller.refuse();
            return None;
        };
        let taken = match caller.pid {
            Some(_) => Taken::Pulls,
            None => Taken::Yes,
        };
        caller.reader.take(taken);
        (neighbour.reader, neighbour.pid) = (Some(caller.reader), caller.pid);
        slot
    }

    /// A slot for one that has called and is no neighbour yet.
    fn place(&mut self, now: Time, peer: Peer, address: &Address) -> Option<usize> {
        if self.neighbours.len() >= ADMITTED_MAX {
            return None;
        }
        let neighbour = self.neighbour(peer, address, now).ok()?;
        Some(self.neighbours.insert(neighbour))
    }

    /// The neighbour in this slot.
    pub fn get(&mut self, slot: usize) -> Option<&mut Neighbour> {
        self.neighbours.get_mut(slot)
    }

    /// Slots are below this.
    pub fn slots(&self) -> usize {
        self.neighbours.capacity().min(ADMITTED_MAX)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Neighbour)> {
        self.neighbours.iter()
    }

    /// Writes a record to a neighbour. Whether it found room.
    ///
    /// # Errors
    /// It has broken the ring.
    pub fn say<'a>(
        &mut self,
        slot: usize,
        kind: u32,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<bool, Broken> {
        let neighbour = self.neighbours.get_mut(slot).ok_or(Broken)?;
        if !neighbour.outbox.is_empty() {
            return Ok(false);
        }
        neighbour.say(&self.bell, kind, parts, &mut self.sent_bytes)
    }

    /// The same for a record that must not be dropped: when there is room.
    ///
    /// # Errors
    /// It has broken the ring, or does not read what it asks for.
    pub fn owe(&mut self, slot: usize, kind: u32, parts: &[&[u8]]) -> Result<(), Broken> {
        if self.say(slot, kind, parts.iter().copied())? {
            return Ok(());
        }
        let neighbour = self.neighbours.get_mut(slot).ok_or(Broken)?;
        let body = parts.concat();
        neighbour.outbox_bytes += body.len();
        neighbour.outbox.push_back((kind, body));
        match neighbour.outbox_bytes <= OUTBOX_BYTES_MAX {
            true => Ok(()),
            false => Err(Broken),
        }
    }

    /// Sends waiting records, as far as there is room.
    ///
    /// # Errors
    /// The neighbour has broken the ring.
    pub fn say_owed(&mut self, slot: usize) -> Result<(), Broken> {
        let neighbour = self.neighbours.get_mut(slot).ok_or(Broken)?;
        while let Some((kind, body)) = neighbour.outbox.pop_front() {
            let part = core::iter::once(&body[..]);
            if !neighbour.say(&self.bell, kind, part, &mut self.sent_bytes)? {
                neighbour.outbox.push_front((kind, body));
                break;
            }
            neighbour.outbox_bytes -= body.len();
        }
        Ok(())
    }

    /// Whether records wait for a neighbour, or a neighbour has not answered a request.
    pub fn owes(&self) -> bool {
        let is_busy = |n: &Neighbour| n.has_owed() || n.asked > 0;
        self.iter().any(|(_, neighbour)| is_busy(neighbour))
    }

    /// The next record of a neighbour: its kind.
    ///
    /// # Errors
    /// It has broken the ring.
    pub fn read(&mut self, slot: usize, body: &mut Vec<u8>) -> Result<Option<u32>, Broken> {
        let Some(neighbour) = self.neighbours.get_mut(slot) else {
            return Ok(None);
        };
        let Some(reader) = &mut neighbour.reader else {
            return Ok(None);
        };
        let kind = reader.read(body)?;
        self.received_bytes += kind.map_or(0, |_| body.len() as u64);
        Ok(kind)
    }

    /// Reports the reading progress to a neighbour.
    pub fn tell(&mut self, slot: usize) {
        if let Some(neighbour) = self.neighbours.get_mut(slot)
            && let Some(reader) = &mut neighbour.reader
            && reader.tell()
        {
            let _ = self.bell.send_to_addr(&[0], &neighbour.bell);
        }
    }

    /// This endpoint is about to sleep: neighbours are to wake it. Whether it may; if not, something is there already.
    pub fn sleep(&mut self) -> bool {
        for (_, neighbour) in &self.neighbours {
            neighbour.reader.iter().for_each(Reader::sleep);
            neighbour.writer.iter().for_each(Writer::sleep);
        }
        fence(Ordering::SeqCst);
        !self.neighbours.iter_mut().any(|(_, neighbour)| {
            neighbour.has_record() || (neighbour.writer.as_mut()).is_some_and(Writer::is_relieved)
        })
    }

    /// Shows that this endpoint lives, and checks the neighbours. `is_late`: the last check was long ago, so the beginning of a silence is
    /// unknown.
    pub fn beat(&mut self, now: Time, is_late: bool) {
        self.beat += 1;
        for (_, neighbour) in &mut self.neighbours {
            let beats = (
                neighbour.writer.as_ref().map_or(0, |w| w.beat(self.beat)),
                neighbour.reader.as_ref().map_or(0, |r| r.beat(self.beat)),
            );
            if beats != neighbour.beats || is_late {
                (neighbour.beats, neighbour.seen_at) = (beats, now);
            }
            let Some(writer) = &mut neighbour.writer else {
                neighbour.taken_at = now;
                continue;
            };
            if is_late || writer.taken() != Taken::No || !writer.has_unread() {
                neighbour.taken_at = now;
            }
            if neighbour.written != writer.written() {
                (neighbour.written, neighbour.used_at) = (writer.written(), now);
            } else if now.since(neighbour.used_at) >= COOL_AFTER {
                writer.cool();
            }
        }
    }

    /// Whether a neighbour's process has ended: the kernel knows its sockets no more.
    pub fn is_dead(&self, slot: usize) -> bool {
        let Some(neighbour) = self.neighbours.get(slot) else {
            return false;
        };
        // If the check fails, the answer is unknown.
        let looked = UnixDatagram::unbound().and_then(|by| by.connect_addr(&neighbour.bell));
        looked.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Has no more to do with a neighbour, and lets it know.
    pub fn part(&mut self, slot: usize) {
        let Some(neighbour) = self.neighbours.try_remove(slot) else {
            return;
        };
        neighbour.writer.iter().for_each(Writer::close);
        neighbour.reader.iter().for_each(Reader::close);
        self.ring(&neighbour.bell);
    }

    /// Ends all contacts. Neighbours can still read what was written.
    pub fn close(&mut self) {
        let all: Vec<_> = self.neighbours.iter().map(|(slot, _)| slot).collect();
        all.into_iter().for_each(|slot| self.part(slot));
    }
}

/// Checks a hello.
fn answer(hello: &Hello, file: &OwnedFd, pid: Option<i32>) -> Option<Caller> {
    let mut seen = [0u8; PROBE_BYTES];
    let to = (
        seen.as_mut_ptr().expose_provenance() as u64,
        PROBE_BYTES as u64,
    );
    let from = (hello.probe_at, PROBE_BYTES as u64);
    // A process of another PID namespace has the number 0 here.
    let pid = pid.filter(|pid| *pid > 0 && hello.probe_at != NOWHERE);
    let can_read = |pid: &i32| {
        // SAFETY: `to` is `seen`.
        let read = unsafe { read_process(*pid, &[from], &[to]) };
        read.is_ok() && seen == hello.probe
    };
    Some(Caller {
        address: hello.from,
        reader: Reader::open(file).ok()?,
        pid: pid.filter(can_read),
    })
}

impl Neighbour {
    fn say<'a>(
        &mut self,
        bell: &UnixDatagram,
        kind: u32,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
        sent_bytes: &mut u64,
    ) -> Result<bool, Broken> {
        let writer = self.writer.as_mut().ok_or(Broken)?;
        let bytes: usize = parts.clone().map(<[u8]>::len).sum();
        if !writer.write(kind, parts)? {
            return Ok(false);
        }
        *sent_bytes += bytes as u64;
        if writer.wakes_reader() {
            let _ = bell.send_to_addr(&[0], &self.bell);
        }
        Ok(true)
    }

    /// Whether something can be said to it.
    pub fn is_called(&self) -> bool {
        self.writer.is_some()
    }

    /// The process, if its memory can be read.
    pub fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// Whether it can read this process's memory.
    pub fn pulls(&self) -> bool {
        self.writer.as_ref().map(Writer::taken) == Some(Taken::Pulls)
    }

    /// Whether it has been heard of.
    pub fn has_come_in(&self) -> bool {
        let taken = self.writer.as_ref().map(Writer::taken);
        self.reader.is_some() || taken.is_some_and(|taken| taken != Taken::No)
    }

    /// Whether it has said something that was not read.
    pub fn has_record(&self) -> bool {
        self.reader.as_ref().is_some_and(Reader::has_record)
    }

    /// Whether something waits for room in its ring.
    pub fn has_owed(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Whether something that was said is not read.
    pub fn has_unread(&self) -> bool {
        self.has_owed() || self.writer.as_ref().is_some_and(Writer::has_unread)
    }

    /// Whether it has closed, and everything of it was read.
    pub fn is_closed(&self) -> bool {
        let is_told = self.reader.as_ref().is_some_and(Reader::is_at_end)
            || self.writer.as_ref().is_some_and(Writer::is_closed);
        // It closes after its last word: this is looked at last.
        is_told && !self.has_record()
    }

    /// When it last showed that it lives and reads its ring, or had nothing to read.
    pub fn heard_at(&self) -> Time {
        self.seen_at.min(self.taken_at)
    }

    /// When it was last seen to live.
    pub fn seen_at(&self) -> Time {
        self.seen_at
    }
}
