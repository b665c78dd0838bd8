//! A door: a UDP port at which others ask for the address of the endpoint behind it. So a process can be found by host and port
//! alone; all other traffic goes between the endpoints.

use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::Address;
use crate::sealed::{DATAGRAM_BYTES, PLAIN_BYTES, Seal, random};

/// The first pause between two questions, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// Interval at which the answering thread checks whether to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Content of a datagram: a question's number, or that and an address.
const QUESTION: u8 = 1;
const ANSWER: u8 = 2;
const ID_BYTES: usize = 16;

type Id = [u8; ID_BYTES];

fn seal(key: &[u8; 32]) -> io::Result<Seal> {
    Seal::new(key, "tabane door 1", *b"tDR1").ok_or_else(|| ErrorKind::InvalidInput.into())
}

fn question(plain: &[u8]) -> Option<Id> {
    let (kind, rest) = plain.split_first()?;
    (*kind == QUESTION).then_some(())?;
    rest.first_chunk().copied()
}

fn answer(plain: &[u8], to: &Id) -> Option<Address> {
    let (kind, rest) = plain.split_first()?;
    let (id, there) = rest.split_first_chunk::<ID_BYTES>()?;
    (*kind == ANSWER && id == to).then_some(())?;
    Address::from_bytes(there).ok()
}

const _: () = assert!(1 + ID_BYTES + crate::address::BYTES_MAX <= PLAIN_BYTES);

/// A door. Nobody is answered before [`Door::open`].
pub struct Door {
    socket: UdpSocket,
    seal: Arc<Seal>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Door {
    /// A door at this address, for holders of this key.
    ///
    /// # Errors
    /// The address is in use, or not of this node.
    pub fn at(address: SocketAddr, key: &[u8; 32]) -> io::Result<Door> {
        let socket = UdpSocket::bind(address)?;
        socket.set_read_timeout(Some(LOOK_EVERY))?;
        Ok(Door {
            socket,
            seal: Arc::new(seal(key)?),
            ends: Arc::new(AtomicBool::new(false)),
            thread: None,
        })
    }

    /// Its address.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// From now on, answers with this endpoint's address.
    ///
    /// # Errors
    /// The system has no descriptor or thread left.
    pub fn open(&mut self, endpoint: Address) -> io::Result<()> {
        let socket = self.socket.try_clone()?;
        let (seal, ends) = (Arc::clone(&self.seal), Arc::clone(&self.ends));
        let builder = thread::Builder::new().name("tabane-door".into());
        let thread = builder.spawn(move || answer_all(&socket, &seal, &endpoint, &ends))?;
        self.thread = Some(thread);
        Ok(())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic has already printed its message.
            let _ = thread.join();
        }
    }
}

fn answer_all(socket: &UdpSocket, seal: &Seal, endpoint: &Address, ends: &AtomicBool) {
    let mut buffer = [0; DATAGRAM_BYTES + 1];
    while !ends.load(Ordering::Acquire) {
        // An ICMP error about an unread answer is no question.
        let Ok((bytes, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let Some(id) = seal.open(&buffer[..bytes]).as_deref().and_then(question) else {
            continue;
        };
        let plain = [&[ANSWER][..], &id, endpoint.as_bytes()].concat();
        if let Some(answer) = seal.seal(&plain) {
            // The asker repeats its question.
            let _ = socket.send_to(&answer, from);
        }
    }
}

/// Asks a door for its endpoint's address, at most this long, and while it is `wanted`.
///
/// # Errors
/// [`ErrorKind::ConnectionRefused`]: there is no door. [`ErrorKind::TimedOut`]: nobody has answered. Others: nothing leads there.
pub fn ask(
    at: SocketAddr,
    key: &[u8; 32],
    patience: Duration,
    wanted: impl Fn() -> bool,
) -> io::Result<Address> {
    let any = match at {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let seal = seal(key)?;
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(at)?;
    let until = Instant::now() + patience;
    let mut pause = PAUSE;
    let mut failed = io::Error::from(ErrorKind::TimedOut);
    while Instant::now() < until && wanted() {
        let random = random().ok_or(ErrorKind::Other)?;
        let id: Id = *random.first_chunk().ok_or(ErrorKind::Other)?;
        let plain = [&[QUESTION][..], &id].concat();
        let datagram = seal.seal(&plain).ok_or(ErrorKind::Other)?;
        let next = Instant::now() + pause;
        if let Err(error) = socket.send(&datagram) {
            failed = error;
        }
        if let Some(there) = wait(&socket, &seal, &id, next, &mut failed)? {
            return Ok(there);
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Err(failed)
}

/// Waits until then for the answer.
fn wait(
    socket: &UdpSocket,
    seal: &Seal,
    id: &Id,
    until: Instant,
    failed: &mut io::Error,
) -> io::Result<Option<Address>> {
    let mut buffer = [0; DATAGRAM_BYTES + 1];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut buffer) {
            Ok(bytes) => {
                let plain = seal.open(&buffer[..bytes]);
                if let Some(there) = plain.and_then(|plain| answer(&plain, id)) {
                    return Ok(Some(there));
                }
            }
            Err(error) if is_nothing(&error) => {}
            Err(error) => {
                // There may be a door soon.
                *failed = error;
                thread::sleep(until.saturating_duration_since(Instant::now()));
            }
        }
    }
}

/// Whether the error only means that nothing has come.
fn is_nothing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [1; 32];
    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(300);

    fn here() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    fn endpoint() -> Address {
        let links: Vec<_> = (0..8u8)
            .map(|n| (n, IpAddr::from([10, 77, n, 1])))
            .collect();
        Address::new(&links, 9, 1).expect("is one")
    }

    #[test]
    fn who_asks_at_a_door_is_told_who_is_behind_it() {
        let mut door = Door::at(here(), &KEY).expect("a port is free");
        let at = door.address().expect("is known");
        // An early asker waits until it is open.
        let early = thread::spawn(move || ask(at, &KEY, LONG, || true));
        door.open(endpoint()).expect("opens");
        assert_eq!(early.join().expect("ends").expect("is told"), endpoint());
        assert_eq!(ask(at, &KEY, LONG, || true).expect("is told"), endpoint());
        assert!(Door::at(at, &KEY).is_err());
    }

    #[test]
    fn who_has_another_key_is_not_answered() {
        let mut door = Door::at(here(), &KEY).expect("a port is free");
        let at = door.address().expect("is known");
        door.open(endpoint()).expect("opens");
        let failed = ask(at, &[2; 32], SHORT, || true).expect_err("nobody answers");
        assert_eq!(failed.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn where_no_door_is_nobody_is_found() {
        let door = Door::at(here(), &KEY).expect("a port is free");
        let at = door.address().expect("is known");
        drop(door);
        let failed = ask(at, &KEY, SHORT, || true).expect_err("there is none");
        assert_eq!(failed.kind(), ErrorKind::ConnectionRefused);
    }

    #[test]
    fn who_is_not_wanted_any_more_is_not_asked_for() {
        let door = Door::at(here(), &KEY).expect("a port is free");
        let at = door.address().expect("is known");
        assert!(ask(at, &KEY, LONG, || false).is_err());
    }
}
