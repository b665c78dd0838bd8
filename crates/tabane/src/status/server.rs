//! The control socket of a daemon, to be turned by the daemon's loop.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use tabane_io::credentials::{own_uid, peer};
use tabane_io::poll::{Interest, Poller};
use tabane_io::sockets::Lease;

use super::control::{Client, Progress, Request, Response};
use crate::closing::Closing;

/// Name of the socket among a daemon's sockets.
pub const SOCKET_NAME: &str = "control";

/// Most clients at a time; the one that came first goes for the next, but no owner for anyone.
pub const CLIENTS_MAX: usize = 8;

/// Ordinary users get the same report for this long, however many ask: a report of a large cluster takes
/// the daemon's loop milliseconds.
const REPORT_AGE_MIN: Duration = Duration::from_millis(100);

/// The client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// Some user of this machine: may ask.
    Anyone,
    /// Root, or the user that the daemon runs as: may also tell it to do something.
    Owner,
}

/// A connection, its client, and its sequence number.
type Slot = Option<(Client, Caller, u64)>;

/// The last report, as a line.
#[derive(Debug, Default)]
pub(super) struct Shown(Option<(Vec<u8>, Instant)>);

impl Shown {
    /// The report to send now, `now` being the beginning of this turn of the loop; `make` makes it if
    /// necessary.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        caller: Caller,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Vec<u8> {
        let least = match caller {
            Caller::Anyone => REPORT_AGE_MIN,
            Caller::Owner => Duration::ZERO,
        };
        match &self.0 {
            Some((line, made)) if now == *made || now.duration_since(*made) < least => line.clone(),
            _ => {
                let line = make();
                self.0 = Some((line.clone(), now));
                line
            }
        }
    }

    /// A large one need not be kept for longer than it may be shown.
    fn forget_old(&mut self, now: Instant) {
        self.0
            .take_if(|(_, made)| now.duration_since(*made) >= REPORT_AGE_MIN);
    }
}

/// The listening socket and its clients, registered with the daemon's poller.
#[derive(Debug)]
pub struct ControlServer {
    listener: UnixListener,
    first_token: u64,
    slots: [Slot; CLIENTS_MAX],
    accepted: u64,
    shown: Shown,
    /// Given up to turn a client away when no descriptor is left to serve it.
    spare: Option<File>,
    closing: Closing,
    /// Whether the last client could not be taken in.
    is_failing: bool,
}

/// No more descriptors for this process, or for the machine.
const EXHAUSTED: [i32; 2] = [24, 23];
const SPARE: &str = "/dev/null";

impl ControlServer {
    /// How many tokens of the poller it uses, from the first one on.
    pub const TOKENS: u64 = 1 + CLIENTS_MAX as u64;

    /// Listens at [`SOCKET_NAME`] of the daemon that has the lease, registered with `poller` under the
    /// tokens `first_token..first_token + TOKENS`.
    ///
    /// # Errors
    /// Those of the file system and of the poller.
    pub fn bind(lease: &mut Lease, poller: &Poller, first_token: u64) -> io::Result<Self> {
        let listener = lease.bind(SOCKET_NAME, |path| UnixListener::bind(path))?;
        listener.set_nonblocking(true)?;
        poller.register(&listener, first_token, Interest::Read)?;
        Ok(Self {
            listener,
            first_token,
            slots: Default::default(),
            accepted: 0,
            shown: Shown::default(),
            spare: File::open(SPARE).ok(),
            closing: Closing::default(),
            is_failing: false,
        })
    }

    /// Is this token one of its own? Then call [`ControlServer::turn`].
    pub fn owns(&self, token: u64) -> bool {
        (self.first_token..self.first_token + Self::TOKENS).contains(&token)
    }

    /// Accepts, reads, answers and writes as much as possible without waiting. `answer` is called once for
    /// each request, with the caller and the client's number, except for status requests that get the same
    /// report as others just before.
    ///
    /// # Errors
    /// A client could not be accepted, for example for want of descriptors (the first error of several); the
    /// server goes on with the next call.
    pub fn turn(
        &mut self,
        poller: &Poller,
        mut answer: impl FnMut(Request, Caller, u64) -> Response,
    ) -> io::Result<()> {
        self.closing.forget_idle();
        let accepted = self.accept(poller);
        let now = Instant::now();
        self.shown.forget_old(now);
        for (token, slot) in (self.first_token + 1..).zip(&mut self.slots) {
            let Some((client, caller, number)) = slot else {
                continue;
            };
            let (caller, number, shown) = (*caller, *number, &mut self.shown);
            let mut goes_on = false;
            let mut answer = |request| {
                let response = answer(request, caller, number);
                goes_on = response.goes_on();
                response.to_line()
            };
            let line = |request| match request {
                Request::Status => shown.answer(now, caller, || answer(request)),
                Request::Nodes
                | Request::Members
                | Request::Leave
                | Request::Gateway { .. }
                | Request::Topo { .. }
                | Request::Trace { .. }
                | Request::Bench { .. }
                | Request::Ping { .. }
                | Request::Consult { .. }
                | Request::Reload { .. } => answer(request),
            };
            let progress = client.advance(line);
            if goes_on {
                client.go_on();
            }
            match progress {
                // Unsent data goes with the next addition.
                _ if goes_on => {}
                Progress::WaitReadable => {}
                Progress::WaitWritable
                    if poller.modify(&*client, token, Interest::ReadWrite).is_ok() => {}
                // A client that would never get the rest is ended.
                Progress::WaitWritable | Progress::Done => {
                    close(poller, &mut self.closing, slot.take());
                }
            }
        }
        accepted
    }

    /// The client of this number, if it is still there.
    pub fn client(&mut self, number: u64) -> Option<&mut Client> {
        let mut there = self.slots.iter_mut().flatten();
        let found = there.find(|(_, _, came)| *came == number);
        found.map(|(client, _, _)| client)
    }

    fn accept(&mut self, poller: &Poller) -> io::Result<()> {
        // Bounded, so that a storm of clients does not hold up the daemon's loop.
        for _ in 0..CLIENTS_MAX {
            let mut is_left = false;
            let taken_in = match self.listener.accept() {
                Ok((stream, _)) => self.take_in(poller, stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    is_left = !is_exhausted(&error) || !self.turn_away();
                    Err(error)
                }
            };
            let is_known = std::mem::replace(&mut self.is_failing, taken_in.is_err());
            if is_left {
                poller.stumble();
            }
            match taken_in {
                Err(error) if !is_known => return Err(error),
                Err(_) if is_left => return Ok(()),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn take_in(&mut self, poller: &Poller, stream: UnixStream) -> io::Result<()> {
        let uid = peer(&stream).map(|who| who.uid);
        let is_owner = uid.is_ok_and(|uid| uid == 0 || uid == own_uid());
        let caller = match is_owner {
            true => Caller::Owner,
            false => Caller::Anyone,
        };
        let occupants = self.slots.each_ref();
        let occupants =
            occupants.map(|slot| slot.as_ref().map(|(_, caller, came)| (*caller, *came)));
        let client = Client::new(stream)?;
        let Some(index) = place_for(caller, occupants) else {
            close(poller, &mut self.closing, Some((client, caller, 0)));
            return Ok(());
        };
        close(poller, &mut self.closing, self.slots[index].take());
        let token = self.first_token + 1 + index as u64;
        poller.register(&client, token, Interest::Read)?;
        self.accepted += 1;
        self.slots[index] = Some((client, caller, self.accepted));
        Ok(())
    }

    /// Ends the connection of a client that cannot be served: were it left
    /// waiting, the daemon's loop would be woken for it without a pause. Returns whether that could be done.
    fn turn_away(&mut self) -> bool {
        drop(self.spare.take());
        let is_turned_away = self.listener.accept().is_ok();
        self.spare = File::open(SPARE).ok();
        is_turned_away
    }
}

/// Closes a connection, and any unread descriptors that its user may have handed over: in another thread,
/// unless the user is trusted.
fn close(poller: &Poller, closing: &mut Closing, slot: Slot) {
    let Some((client, caller, _)) = slot else {
        return;
    };
    // One that never had a place was never in it.
    let _ = poller.deregister(&client);
    if caller == Caller::Anyone {
        let uid = peer(&client).map_or(u32::MAX, |who| who.uid);
        closing.close(uid, client);
    }
}

/// The slot for a newcomer, given the present clients and when they came; `None`: it must go.
pub(super) fn place_for(
    newcomer: Caller,
    occupants: [Option<(Caller, u64)>; CLIENTS_MAX],
) -> Option<usize> {
    let places = occupants.into_iter().enumerate();
    let may_take = |(_, occupant): &(usize, Option<(Caller, u64)>)| {
        let is_owner = occupant.is_some_and(|(caller, _)| caller == Caller::Owner);
        newcomer == Caller::Owner || !is_owner
    };
    // Free ones count as oldest.
    let rank = |(_, occupant): &(usize, Option<(Caller, u64)>)| {
        occupant.map_or((false, 0), |(caller, came)| (caller == Caller::Owner, came))
    };
    places.filter(may_take).min_by_key(rank).map(|(at, _)| at)
}

/// Whether this process, or the machine, has no descriptors left.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number.is_some_and(|number| EXHAUSTED.contains(&number))
}
