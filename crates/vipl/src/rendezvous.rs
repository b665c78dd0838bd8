//! Finds the process of a node that waits for a discriminator, when only the node's address is known.
//!
//! Each waiting process has a *door*: the first of a few well-known UDP ports that is free on its links. The seeker asks all of
//! these ports repeatedly, at each of the node's addresses; a process answers with its endpoint's address if it waits for that
//! discriminator. All other traffic goes between the endpoints. No process depends on another one: nothing must be taken over
//! when one ends.
//!
//! Questions and answers are sealed ([`tabane_rank::sealed`]). Whoever repeats a recorded question is answered, but cannot read
//! the answer; an answer counts only once, for the question that it names.
//!
//! A process that did this for all others of its node was considered: it would have to be replaced when it ends. So was a
//! rank with a fixed port and number: whoever called before it was there would take it for gone.

use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tabane_io::notify::Notify;
use tabane_io::poll::{Interest, Poller};
use tabane_rank::Address;
use tabane_rank::sealed::{self, DATAGRAM_BYTES, PLAIN_BYTES, random};

use crate::address::{DISCRIMINATOR_BYTES_MAX, HOST_BYTES, Host, Place};
use crate::guard;
use crate::nic::Nic;

/// The first port that doors have, unless `TABANE_VI_PORT` says another.
pub const PORT: u16 = 7580;
/// Doors of a node at most.
pub const DOORS_MAX: u16 = 64;

/// The beginning of each datagram: type and version.
const MAGIC: [u8; 4] = *b"tVI1";
/// A question that has no answer is forgotten.
const FORGET: Duration = Duration::from_secs(2);
/// Nobody sleeps for longer.
const SLEEP_MAX: Duration = Duration::from_millis(500);
const TOKEN_WAKE: u64 = u64::MAX;

/// The target and the asker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The asking line.
    pub line: u32,
    /// The other end asks, too.
    pub is_peer: bool,
    /// Whom it asks for.
    pub to: Place,
    /// The asker.
    pub from: Place,
}

/// Content of a datagram.
#[derive(PartialEq, Eq, Debug)]
pub enum Plain {
    Question { id: [u8; 16], question: Question },
    Answer { id: [u8; 16], there: Address },
}

fn write_bytes(plain: &mut Vec<u8>, bytes: &[u8]) {
    // None of them is longer than 255.
    plain.push(bytes.len() as u8);
    plain.extend_from_slice(bytes);
}

fn read_bytes<'a>(plain: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = plain.split_first()?;
    let (bytes, rest) = rest.split_at_checked((*len).into())?;
    *plain = rest;
    Some(bytes)
}

fn read_place(plain: &mut &[u8]) -> Option<Place> {
    let host = Host::from_bytes(read_bytes(plain)?).ok()?;
    let discriminator = read_bytes(plain)?.to_vec();
    (discriminator.len() <= DISCRIMINATOR_BYTES_MAX).then_some(Place {
        host,
        discriminator,
    })
}

impl Plain {
    /// As bytes, of one length.
    pub fn write(&self) -> Vec<u8> {
        let mut plain = Vec::with_capacity(PLAIN_BYTES);
        match self {
            Plain::Question { id, question } => {
                plain.push(1 + u8::from(question.is_peer));
                plain.extend_from_slice(id);
                for place in [&question.to, &question.from] {
                    write_bytes(&mut plain, &place.host.0);
                    write_bytes(&mut plain, &place.discriminator);
                }
            }
            Plain::Answer { id, there } => {
                plain.push(3);
                plain.extend_from_slice(id);
                write_bytes(&mut plain, there.as_bytes());
            }
        }
        plain
    }

    /// Parses unsealed content; `None` if it is malformed.
    pub fn read(mut plain: &[u8]) -> Option<Plain> {
        let (kind, rest) = plain.split_first()?;
        let (id, rest) = rest.split_first_chunk::<16>()?;
        plain = rest;
        match kind {
            1 | 2 => Some(Plain::Question {
                id: *id,
                question: Question {
                    line: 0,
                    is_peer: *kind == 2,
                    to: read_place(&mut plain)?,
                    from: read_place(&mut plain)?,
                },
            }),
            3 => Some(Plain::Answer {
                id: *id,
                there: Address::from_bytes(read_bytes(&mut plain)?).ok()?,
            }),
            _ => None,
        }
    }
}

const _: () = assert!(1 + 16 + 2 * (2 + HOST_BYTES + DISCRIMINATOR_BYTES_MAX) <= PLAIN_BYTES);

/// Seals and opens datagrams.
pub struct Seal(sealed::Seal);

impl Seal {
    /// Under the job's key.
    pub fn new(key: &[u8; 32]) -> Option<Seal> {
        sealed::Seal::new(key, "tabane VI rendezvous 1", MAGIC).map(Seal)
    }

    fn seal(&self, plain: &Plain) -> Option<Vec<u8>> {
        self.0.seal(&plain.write())
    }

    /// The content of a datagram; `None`: its sender does not have the key.
    pub fn open(&self, datagram: &[u8]) -> Option<Plain> {
        Plain::read(&self.0.open(datagram)?)
    }
}

/// A NIC's sockets for asking and answering. A thread of its own uses them, from the first question or wait on.
pub struct Rendezvous {
    /// Ends the thread's sleep.
    pub wake: Notify,
    /// It is to end.
    pub ends: AtomicBool,
    seal: Seal,
    port: u16,
    links: Vec<IpAddr>,
    doors: Mutex<Doors>,
}

/// Sockets at which others ask.
#[derive(Default)]
struct Doors {
    /// They are open.
    are_open: bool,
    /// Sockets that the thread has not taken yet.
    new: Vec<UdpSocket>,
}

/// Sockets on all links, at the first of these ports that is free on all of them.
fn open_doors(links: &[IpAddr], first: u16) -> io::Result<Vec<UdpSocket>> {
    let in_use = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for port in (0..DOORS_MAX).filter_map(|n| first.checked_add(n)) {
        let mut doors = Vec::new();
        let mut is_taken = false;
        for link in links {
            match UdpSocket::bind((*link, port)) {
                Ok(door) => {
                    door.set_nonblocking(true)?;
                    doors.push(door);
                }
                Err(error) => {
                    // A link may be away.
                    is_taken |= in_use(&error);
                    last = error;
                }
            }
        }
        if !is_taken && !doors.is_empty() {
            return Ok(doors);
        }
    }
    Err(last)
}

impl Rendezvous {
    /// Of an endpoint with these links, under the job's key; doors from this port on.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(links: Vec<IpAddr>, key: &[u8; 32], port: u16) -> io::Result<Rendezvous> {
        Ok(Rendezvous {
            wake: Notify::new()?,
            ends: AtomicBool::new(false),
            seal: Seal::new(key).ok_or(io::ErrorKind::InvalidInput)?,
            port,
            links,
            doors: Mutex::default(),
        })
    }

    /// Opens the door, if it is not open.
    ///
    /// # Errors
    /// All ports are in use, or none of the links is there.
    pub fn open(&self) -> io::Result<()> {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        if !doors.are_open {
            doors.new = open_doors(&self.links, self.port).inspect_err(|error| {
                let last = self.port.saturating_add(DOORS_MAX - 1);
                guard::say(&format!(
                    "nobody can be waited for at UDP ports {} to {last}: {error}; {DOORS_MAX} processes of a node can wait \
                     at once, and TABANE_VI_PORT sets the first port, the same for all of the job",
                    self.port
                ));
            })?;
            doors.are_open = true;
            self.wake.notify();
        }
        Ok(())
    }

    /// The thread's life.
    ///
    /// # Errors
    /// No descriptor is left for it.
    pub fn life(&self) -> io::Result<impl FnOnce(&Nic) + Send + use<>> {
        let asker = Asker::new(&self.wake)?;
        Ok(|nic: &Nic| asker.live(nic))
    }
}

/// The thread's own.
struct Asker {
    poller: Poller,
    /// The first two ask, over IPv4 and IPv6; the others are doors.
    sockets: Vec<Option<UdpSocket>>,
    /// Lines with open questions, and since when, by the question's number.
    asked: BTreeMap<[u8; 16], (u32, Instant)>,
}

impl Asker {
    fn new(wake: &Notify) -> io::Result<Asker> {
        let mut asker = Asker {
            poller: Poller::new()?,
            sockets: Vec::new(),
            asked: BTreeMap::new(),
        };
        asker.poller.register(wake, TOKEN_WAKE, Interest::Read)?;
        for any in [
            IpAddr::from(Ipv4Addr::UNSPECIFIED),
            Ipv6Addr::UNSPECIFIED.into(),
        ] {
            match UdpSocket::bind((any, 0)) {
                Ok(socket) => {
                    socket.set_nonblocking(true)?;
                    asker.add(socket)?;
                }
                // There may be no IPv6.
                Err(_) => asker.sockets.push(None),
            }
        }
        Ok(asker)
    }

    fn live(mut self, nic: &Nic) {
        let rendezvous = &nic.rendezvous;
        while !rendezvous.ends.load(Ordering::Acquire) {
            rendezvous.wake.clear();
            let new = {
                let doors = rendezvous.doors.lock();
                let mut doors = doors.unwrap_or_else(PoisonError::into_inner);
                core::mem::take(&mut doors.new)
            };
            if new.into_iter().any(|door| self.add(door).is_err()) {
                guard::say("no descriptor is left to be found at");
            }
            let (questions, next) = nic.questions();
            for question in questions {
                self.ask(nic, question);
            }
            self.wait(next);
            self.read(nic);
        }
    }

    fn add(&mut self, socket: UdpSocket) -> io::Result<()> {
        let token = self.sockets.len() as u64;
        self.poller.register(&socket, token, Interest::Read)?;
        self.sockets.push(Some(socket));
        Ok(())
    }

    /// Asks at each door of each address.
    fn ask(&mut self, nic: &Nic, question: Question) {
        let now = Instant::now();
        (self.asked).retain(|_, (_, since)| now.duration_since(*since) < FORGET);
        let Some(id) = random().and_then(|bytes| bytes.first_chunk().copied()) else {
            return;
        };
        let line = question.line;
        let addresses = question.to.host.addresses();
        let plain = Plain::Question { id, question };
        let Some(datagram) = nic.rendezvous.seal.seal(&plain) else {
            return;
        };
        self.asked.insert(id, (line, now));
        let mut is_sent = false;
        for address in addresses {
            let index = usize::from(address.is_ipv6());
            let Some(Some(socket)) = self.sockets.get(index) else {
                continue;
            };
            let first = nic.rendezvous.port;
            for port in (0..DOORS_MAX).filter_map(|n| first.checked_add(n)) {
                is_sent |= socket.send_to(&datagram, (address, port)).is_ok();
            }
        }
        nic.reaches(line, is_sent);
    }

    fn wait(&mut self, next: Option<Instant>) {
        let patience = next.map_or(SLEEP_MAX, |next| {
            next.saturating_duration_since(Instant::now())
                .min(SLEEP_MAX)
        });
        let mut ready = Vec::new();
        // If waiting fails, it polls again.
        if self.poller.wait(Some(patience), &mut ready).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes in arrivals.
    fn read(&mut self, nic: &Nic) {
        let mut buffer = [0; DATAGRAM_BYTES + 1];
        for index in 0..self.sockets.len() {
            let mut budget = 256;
            while let Some(Some(socket)) = self.sockets.get(index)
                && budget > 0
                && let Ok((bytes, from)) = socket.recv_from(&mut buffer)
            {
                budget -= 1;
                if let Some(plain) = nic.rendezvous.seal.open(&buffer[..bytes]) {
                    self.on_plain(nic, index, from, plain);
                }
            }
        }
    }

    fn on_plain(&mut self, nic: &Nic, index: usize, from: SocketAddr, plain: Plain) {
        match plain {
            Plain::Question { id, question } => {
                let is_door = index >= 2;
                if !is_door || !nic.awaits(&question) {
                    return;
                }
                let there = *nic.endpoint.address();
                let answer = nic.rendezvous.seal.seal(&Plain::Answer { id, there });
                if let (Some(answer), Some(Some(door))) = (answer, self.sockets.get(index)) {
                    // The asker repeats its question.
                    let _ = door.send_to(&answer, from);
                }
            }
            Plain::Answer { id, there } => {
                if let Some((line, _)) = self.asked.remove(&id) {
                    nic.found(line, &there);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(last: u8, who: &[u8]) -> Place {
        Place {
            host: Host::of([1, 2, 3, last].map(|n| IpAddr::from([10, 77, n, last])))
                .expect("is one"),
            discriminator: who.to_vec(),
        }
    }

    fn question(is_peer: bool) -> Plain {
        let longest = [7; DISCRIMINATOR_BYTES_MAX];
        Plain::Question {
            id: [9; 16],
            question: Question {
                line: 0,
                is_peer,
                to: place(4, &longest),
                from: place(5, &longest),
            },
        }
    }

    #[test]
    fn who_has_the_key_understands() {
        let seal = Seal::new(&[1; 32]).expect("a key");
        let links: Vec<_> = (0..8u8)
            .map(|n| (n, IpAddr::from([10, 77, n, 1])))
            .collect();
        let there = Address::new(&links, 9, 1).expect("is one");
        for plain in [
            question(false),
            question(true),
            Plain::Answer { id: [8; 16], there },
        ] {
            let datagram = seal.seal(&plain).expect("seals");
            assert_eq!(datagram.len(), DATAGRAM_BYTES);
            assert_eq!(seal.open(&datagram), Some(plain));
        }
    }

    #[test]
    fn a_door_is_free_on_all_links() {
        let links = [IpAddr::from([127, 0, 0, 1]), [127, 0, 0, 2].into()];
        // Ports that other tests do not use.
        let first = open_doors(&links, 7_700).expect("one is free");
        let second = open_doors(&links, 7_700).expect("another is free");
        let port = |doors: &[UdpSocket]| doors[0].local_addr().expect("is known").port();
        assert_eq!((first.len(), second.len()), (2, 2));
        assert_eq!(port(&second), port(&first) + 1);
        let away = [IpAddr::from([127, 0, 0, 1]), [192, 0, 2, 1].into()];
        assert_eq!(open_doors(&away, 7_700).expect("a link is enough").len(), 1);
        assert!(open_doors(&away[1..], 7_700).is_err());
    }
}
