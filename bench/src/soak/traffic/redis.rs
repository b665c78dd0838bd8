//! redis on the last node: redis-benchmark, and a client that checks that it
//! reads what it wrote.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddrV4, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::{Attempt, POLL, Traffic};
use crate::soak::ledger::unix_ms;
use tabane_lab::LabError;
use tabane_lab::cluster::Program;

const PORT: u16 = 6379;
/// How long one call waits before it looks whether to go on waiting.
const LOOK: Duration = Duration::from_millis(100);
/// Between one check and the next, as a program that does something else too.
const PAUSE: Duration = Duration::from_millis(5);
const KEYS: u64 = 64;
const VALUE_BYTES: u64 = 20_000;

pub(super) fn keep_running(traffic: &Traffic) {
    let nodes = traffic.cluster.lab().nodes();
    let server_node = nodes - 1;
    let mut server = traffic.cluster.lab().command(server_node, "redis-server");
    server.args([
        "--port",
        &PORT.to_string(),
        "--save",
        "",
        "--bind",
        "0.0.0.0",
    ]);
    server.args(["--protected-mode", "no", "--dir"]);
    server.arg(traffic.cluster.directory());
    let started = Program::start_quiet("redis-server", server);
    let server = started.and_then(|mut server| server.listens(PORT).map(|()| server));
    match server {
        Err(error) => traffic.fail(error.to_string()),
        Ok(_server) => thread::scope(|scope| {
            scope.spawn(|| keep_checking(traffic, [nodes.saturating_sub(2), server_node]));
            keep_benchmarking(traffic, [0, server_node]);
        }),
    }
}

fn keep_benchmarking(traffic: &Traffic, nodes: [usize; 2]) {
    let [from, to] = nodes;
    let mut random = traffic.random(20);
    while traffic.goes_on() {
        let requests = random.within(500..=5_000);
        let bytes = random.one_of(&["3", "1000", "20000"]);
        let mut command: Command = traffic.cluster.lab().command(from, "redis-benchmark");
        command.args(["-h", &traffic.cluster.address(to).to_string()]);
        command.args(["-p", &PORT.to_string(), "-c", "8", "-q", "--csv"]);
        command.args(["-t", "set,get", "-n", &requests.to_string(), "-d", bytes]);
        let attempt = Attempt {
            kind: "redis-benchmark",
            what: format!("redis-benchmark n{from} to n{to}, {requests} of {bytes} bytes"),
            nodes,
            command,
        };
        traffic.attempt(attempt, |_| Some(2 * requests));
        traffic.pause(Duration::from_secs(1));
    }
}

/// A counter that is increased, and values that are set and read back.
fn keep_checking(traffic: &Traffic, nodes: [usize; 2]) {
    // What the counter is known to be at least.
    let mut counted = 0;
    while traffic.goes_on() {
        let begin_ms = unix_ms();
        let checked = Client::connect(traffic, nodes)
            .and_then(|mut client| check(traffic, &mut client, &mut counted));
        if let Err(error) = checked {
            let [from, to] = nodes;
            let why = format!("redis client n{from} to n{to}: {error}");
            if error.kind() == io::ErrorKind::InvalidData {
                traffic.fail(why);
            } else {
                traffic.broken("redis check", nodes, begin_ms, why);
            }
        }
    }
}

fn check(traffic: &Traffic, client: &mut Client, counted: &mut u64) -> io::Result<()> {
    let mut random = traffic.random(21 + *counted);
    let text = client.ask(&["GET", "counter"])?;
    let now = text.parse().unwrap_or(0);
    // An increment whose answer was lost may have been done, or not.
    if !(*counted..=*counted + 1).contains(&now) {
        return Err(wrong(format!("the counter is {now}, it was {counted}")));
    }
    *counted = now;
    while traffic.goes_on() {
        let begin = Instant::now();
        let now = client.ask(&["INCR", "counter"])?;
        if now != (*counted + 1).to_string() {
            return Err(wrong(format!("INCR gave {now} after {counted}")));
        }
        *counted += 1;
        let key = format!("key{}", random.within(0..=KEYS - 1));
        let length = random.within(1..=VALUE_BYTES) as usize;
        let value = format!("{:016x}", random.next()).repeat(length.div_ceil(16));
        client.ask(&["SET", &key, &value])?;
        if client.ask(&["GET", &key])? != value {
            return Err(wrong(format!("{key} is not what was written")));
        }
        traffic.done("redis check", 3, begin.elapsed());
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("WRONG DATA: {what}"))
}

/// A connection made on a node, used from here.
struct Client<'t, 'a> {
    traffic: &'t Traffic<'a>,
    nodes: [usize; 2],
    stream: TcpStream,
    received: Vec<u8>,
}

impl<'t, 'a> Client<'t, 'a> {
    fn connect(traffic: &'t Traffic<'a>, nodes: [usize; 2]) -> io::Result<Self> {
        let [from, to] = nodes;
        let IpAddr::V4(address) = traffic.cluster.address(to) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let patience = Patience::new(traffic, nodes);
        let lab = traffic.cluster.lab();
        let to = SocketAddrV4::new(address, PORT);
        let stream = lab.connect(from, to, LOOK, || patience.check("connecting"))?;
        Ok(Client {
            traffic,
            nodes,
            stream,
            received: Vec::new(),
        })
    }

    /// Send a command, return its answer: the protocol of redis, RESP.
    fn ask(&mut self, words: &[&str]) -> io::Result<String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        let patience = Patience::new(self.traffic, self.nodes);
        let mut rest = request.as_bytes();
        while !rest.is_empty() {
            let sent = patience.until(words[0], || self.stream.write(rest))?;
            rest = &rest[sent..];
        }
        let head = self.line(&patience, words[0])?;
        let (kind, text) = head.split_at(head.len().min(1));
        match (kind, text.parse::<usize>()) {
            ("+" | ":", _) => Ok(text.to_owned()),
            ("$", Ok(length)) => {
                while self.received.len() < length + 2 {
                    self.receive(&patience, words[0])?;
                }
                let value = self.received.drain(..length + 2).take(length).collect();
                Ok(String::from_utf8(value).unwrap_or_default())
            }
            // There is no such key.
            ("$", Err(_)) => Ok(String::new()),
            _ => Err(wrong(format!("{} was answered {head:?}", words[0]))),
        }
    }

    fn line(&mut self, patience: &Patience, what: &str) -> io::Result<String> {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.received.drain(..end + 2).take(end).collect();
                return Ok(String::from_utf8(line).unwrap_or_default());
            }
            self.receive(patience, what)?;
        }
    }

    fn receive(&mut self, patience: &Patience, what: &str) -> io::Result<()> {
        let mut block = [0; 16 << 10];
        let got = patience.until(what, || self.stream.read(&mut block))?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.received.extend_from_slice(&block[..got]);
        Ok(())
    }
}

/// For how long to wait for one answer.
struct Patience<'t, 'a> {
    traffic: &'t Traffic<'a>,
    nodes: [usize; 2],
    since: Instant,
    since_ms: u64,
}

impl<'t, 'a> Patience<'t, 'a> {
    fn new(traffic: &'t Traffic<'a>, nodes: [usize; 2]) -> Self {
        Patience {
            traffic,
            nodes,
            since: Instant::now(),
            since_ms: unix_ms(),
        }
    }

    fn check(&self, what: &str) -> io::Result<()> {
        if self.traffic.is_aborted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.since.elapsed() > self.traffic.patience(self.nodes, self.since_ms) {
            let error = LabError::io(what)(io::ErrorKind::TimedOut.into());
            return Err(io::Error::new(io::ErrorKind::TimedOut, error));
        }
        Ok(())
    }

    fn until<T>(&self, what: &str, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match call() {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) =>
                {
                    self.check(what)?;
                    thread::sleep(POLL / 10);
                }
                done => return done,
            }
        }
    }
}
