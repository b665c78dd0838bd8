//! The thread that serves the metrics. The clients, the bytes of a request, the time for each, and the
//! rates of asking the daemon and of accepting are bounded: whatever a scraper does, the daemon's loop does
//! not feel it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tabane_cluster::plain;
use tabane_io::poll::{Interest, Poller, Ready};

use super::exposition;
use super::http::{self, Asked};
use crate::status::{AskError, StatusReport};

/// The most clients at a time. For another one, the oldest client that has not asked is dropped; if all
/// have asked, the oldest of all.
pub const CLIENTS_MAX: usize = 8;

/// How long a client may take, from its first byte to its last. Prometheus
/// waits as long by default.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A report is shown again for this long, however many ask.
pub const REPORT_AGE_MIN: Duration = Duration::from_millis(250);

/// A report is shown for this many times as long as it took to make.
const AGE_PER_WORK: u32 = 4;

/// The longest time that a report is shown: changes must be visible within a second.
const REPORT_AGE_MAX: Duration = Duration::from_millis(900);

/// How long to wait before another attempt to listen.
pub const LISTEN_RETRY: Duration = Duration::from_secs(5);

/// A previous server that is ending may still have the port: for this long the bind is retried more often,
/// and not logged.
const SUCCESSION_MAX: Duration = Duration::from_secs(1);
const SUCCESSION_RETRY: Duration = Duration::from_millis(20);

/// After new clients, the thread rests this long. With [`CLIENTS_MAX`] clients
/// accepted at once, a storm of them costs some thousand a second, not a processor.
const REST: Duration = Duration::from_millis(5);

/// After the answer, this many further bytes of a client are read and discarded, so that closing does not
/// reset the connection before the answer is read.
const DISCARD_BYTES_MAX: usize = 64 << 10;

const TOKEN_STOP: u64 = 0;
const TOKEN_LISTENER: u64 = 1;
const TOKEN_CLIENT: u64 = 2;

/// The running thread; it ends when this is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    // The thread sees its end.
    _stop: UnixStream,
}

impl MetricsServer {
    /// Serves the metrics of the node `own_name` at `address`, from the reports of `ask`. If the address
    /// cannot be bound, logs that once to `log`, and retries.
    ///
    /// # Errors
    /// No descriptor or no thread is left.
    pub fn start(
        address: SocketAddr,
        own_name: &str,
        ask: impl FnMut() -> Result<StatusReport, AskError> + Send + 'static,
        log: impl FnMut(String) + Send + 'static,
    ) -> io::Result<MetricsServer> {
        let (here, there) = UnixStream::pair()?;
        let poller = Poller::new()?;
        poller.register(&there, TOKEN_STOP, Interest::Read)?;
        let mut service = Service {
            address,
            poller,
            begun: Instant::now(),
            listening: Listening::Not {
                again: Instant::now(),
                told: false,
            },
            slots: Default::default(),
            accepted: 0,
            page: Page {
                own_name: own_name.to_owned(),
                ask: Box::new(ask),
                shown: None,
            },
            log: Box::new(log),
            _stop: there,
        };
        // Not left to the thread: a daemon that says it is ready serves them.
        service.listen();
        let named = thread::Builder::new().name("metrics".to_owned());
        named.spawn(move || service.run())?;
        Ok(MetricsServer { _stop: here })
    }
}

/// The thread's state.
struct Service {
    address: SocketAddr,
    poller: Poller,
    begun: Instant,
    listening: Listening,
    /// A client and when it came, counted in clients.
    slots: [Option<(Client, u64)>; CLIENTS_MAX],
    accepted: u64,
    page: Page,
    log: Box<dyn FnMut(String) + Send>,
    // Kept open for as long as the poller waits for it.
    _stop: UnixStream,
}

enum Listening {
    Yes(TcpListener),
    Not {
        /// When to try.
        again: Instant,
        /// The log has it.
        told: bool,
    },
}

impl Service {
    fn run(mut self) {
        let mut ready: Vec<Ready> = Vec::new();
        let mut is_told = false;
        loop {
            self.listen();
            let timeout = self.next_timeout();
            if let Err(error) = self.poller.wait(timeout, &mut ready) {
                if !std::mem::replace(&mut is_told, true) {
                    let why = plain(&error);
                    (self.log)(format!("metrics cannot be served: {why}; still trying"));
                }
                self.poller.stumble();
                continue;
            }
            if ready.iter().any(|r| r.token == TOKEN_STOP) {
                return;
            }
            if ready.iter().any(|r| r.token == TOKEN_LISTENER) {
                self.accept();
            }
            self.advance();
            self.page.forget_old();
        }
    }

    /// When something is due without an event.
    fn next_timeout(&self) -> Option<Duration> {
        let clients = self.slots.iter().flatten().map(|(c, _)| c.deadline);
        let again = match &self.listening {
            Listening::Not { again, .. } => Some(*again),
            Listening::Yes(_) => None,
        };
        let page = self.page.shown.as_ref().map(|shown| shown.until);
        let next = clients.chain(again).chain(page).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn listen(&mut self) {
        let Listening::Not { again, told } = self.listening else {
            return;
        };
        if Instant::now() < again {
            return;
        }
        let listener = TcpListener::bind(self.address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            self.poller
                .register(&listener, TOKEN_LISTENER, Interest::Read)?;
            Ok(listener)
        });
        let address = self.address;
        match listener {
            Ok(listener) => {
                (self.log)(format!("metrics are at http://{address}{}", http::PATH));
                self.listening = Listening::Yes(listener);
            }
            Err(error)
                if error.kind() == ErrorKind::AddrInUse
                    && self.begun.elapsed() < SUCCESSION_MAX =>
            {
                let again = Instant::now() + SUCCESSION_RETRY;
                self.listening = Listening::Not { again, told };
            }
            Err(error) => {
                if !told {
                    let why = plain(&error);
                    (self.log)(format!(
                        "warning: metrics cannot be served at {address}: {why}; still trying"
                    ));
                }
                let again = Instant::now() + LISTEN_RETRY;
                self.listening = Listening::Not { again, told: true };
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..CLIENTS_MAX {
            let Listening::Yes(listener) = &self.listening else {
                return;
            };
            // The error is one client's, or temporary (no descriptor left).
            let Ok((stream, _)) = listener.accept() else {
                break;
            };
            let Ok(client) = Client::new(stream) else {
                continue;
            };
            let index = self.free_slot();
            self.slots[index] = None;
            let token = TOKEN_CLIENT + index as u64;
            let registered = self.poller.register(&client.stream, token, Interest::Read);
            if registered.is_ok() {
                self.accepted += 1;
                self.slots[index] = Some((client, self.accepted));
            }
        }
        thread::sleep(REST);
    }

    /// One that is free, or else the one to be freed.
    fn free_slot(&self) -> usize {
        let rank = |index: &usize| match &self.slots[*index] {
            None => (false, 0),
            Some((client, came)) => (client.answer.is_some(), *came),
        };
        (0..CLIENTS_MAX).min_by_key(rank).unwrap_or_default()
    }

    fn advance(&mut self) {
        for (token, slot) in (TOKEN_CLIENT..).zip(&mut self.slots) {
            let Some((client, _)) = slot else {
                continue;
            };
            let interest = match client.advance(&mut self.page) {
                Ok(interest) if Instant::now() < client.deadline => interest,
                // Closing it takes it out of the poller.
                _ => {
                    *slot = None;
                    continue;
                }
            };
            if interest != client.interest {
                client.interest = interest;
                if self.poller.modify(&client.stream, token, interest).is_err() {
                    *slot = None;
                }
            }
        }
    }
}

/// The metrics as they are shown now.
struct Page {
    /// Of this node.
    own_name: String,
    ask: Box<dyn FnMut() -> Result<StatusReport, AskError> + Send>,
    shown: Option<Shown>,
}

struct Shown {
    answer: Result<Arc<[u8]>, String>,
    until: Instant,
}

impl Page {
    fn get(&mut self) -> Result<Arc<[u8]>, String> {
        self.forget_old();
        if let Some(shown) = &self.shown {
            return shown.answer.clone();
        }
        let began = Instant::now();
        let answer = match (self.ask)() {
            Ok(report) => Ok(exposition::render(&report).into_bytes().into()),
            Err(error) => Err(error.to_string()),
        };
        let age = (began.elapsed() * AGE_PER_WORK).clamp(REPORT_AGE_MIN, REPORT_AGE_MAX);
        self.shown = Some(Shown {
            answer: answer.clone(),
            until: Instant::now() + age,
        });
        answer
    }

    fn forget_old(&mut self) {
        let now = Instant::now();
        self.shown.take_if(|shown| shown.until <= now);
    }
}

/// An answer: its own bytes, and the metrics behind them.
type Answer = (Vec<u8>, Option<Arc<[u8]>>);

/// One connection.
struct Client {
    stream: TcpStream,
    deadline: Instant,
    interest: Interest,
    request: Vec<u8>,
    /// Once it is known.
    answer: Option<Answer>,
    sent: usize,
    discarded: usize,
}

impl Client {
    fn new(stream: TcpStream) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream,
            deadline: Instant::now() + PATIENCE,
            interest: Interest::Read,
            request: Vec::new(),
            answer: None,
            sent: 0,
            discarded: 0,
        })
    }

    /// Does as much as possible now; returns what to wait for.
    ///
    /// # Errors
    /// The client is finished, one way or another.
    fn advance(&mut self, page: &mut Page) -> io::Result<Interest> {
        while self.answer.is_none() {
            match http::parse(&self.request, &page.own_name) {
                Some(asked) => self.answer = Some(answer(asked, page)),
                None if !self.read_request()? => return Ok(Interest::Read),
                None => {}
            }
        }
        let interest = match self.write_answer()? {
            true => Interest::Read,
            false => Interest::ReadWrite,
        };
        self.discard()?;
        Ok(interest)
    }

    /// Whether there was something to read.
    fn read_request(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 1024];
        let room = http::HEAD_BYTES_MAX.saturating_sub(self.request.len());
        let room = room.min(chunk.len());
        match read(&mut self.stream, &mut chunk[..room])? {
            Some(0) => Err(ErrorKind::UnexpectedEof.into()),
            Some(length) => {
                self.request.extend_from_slice(&chunk[..length]);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Whether all of it is written.
    fn write_answer(&mut self) -> io::Result<bool> {
        let Some((own, metrics)) = &self.answer else {
            return Ok(true);
        };
        let metrics = metrics.as_deref().unwrap_or_default();
        let total = own.len() + metrics.len();
        if self.sent == total {
            return Ok(true);
        }
        while self.sent < total {
            let rest = match self.sent.checked_sub(own.len()) {
                None => &own[self.sent..],
                Some(sent) => &metrics[sent..],
            };
            match self.stream.write(rest) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.stream.shutdown(Shutdown::Write)?;
        Ok(true)
    }

    /// Discards input beyond the request.
    ///
    /// # Errors
    /// The client closed, or sent too much.
    fn discard(&mut self) -> io::Result<()> {
        let mut chunk = [0; 4096];
        while self.discarded < DISCARD_BYTES_MAX {
            match read(&mut self.stream, &mut chunk)? {
                Some(0) => break,
                Some(length) => self.discarded += length,
                None => return Ok(()),
            }
        }
        Err(ErrorKind::UnexpectedEof.into())
    }
}

/// `None` if there is nothing now.
fn read(stream: &mut TcpStream, into: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            result => return result.map(Some),
        }
    }
}

fn answer(asked: Asked, page: &mut Page) -> Answer {
    match asked {
        Asked::Refused(refusal) => (refusal.answer(), None),
        Asked::Metrics { with_body } => match page.get() {
            Ok(metrics) => {
                let head = http::ok_head(metrics.len());
                (head, with_body.then_some(metrics))
            }
            Err(why) => (http::unavailable(&why), None),
        },
    }
}
