//! Asking the daemon of this network namespace.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::Value;
use tabane_cluster::plain;
use tabane_io::sockets::{Audience, Sockets};

use super::control::{ConsultBegun, MoveReport, PingBegun, ReloadReport, Request, Response};
use super::members::MembersReport;
use super::nodes::NodesReport;
use super::report::StatusReport;
use super::server::SOCKET_NAME;
use crate::exit_codes;

use super::topology::TopoReport;

/// How long a daemon may be silent before it counts as hung.
pub const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Longest answer that is read.
pub const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Why there is no answer. To be acted on by the operator.
#[derive(Debug)]
pub enum AskError {
    /// Nobody listens: no daemon runs in this network namespace.
    NoDaemon,
    /// The daemon does not answer.
    Silent,
    /// The daemon refused; its words.
    Refused(String),
    /// The answer makes no sense here; a daemon of another version, perhaps.
    NotUnderstood(String),
    /// The connection failed.
    Connection(io::Error),
}

impl AskError {
    /// The exit code of a program that fails for this.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoDaemon => exit_codes::NO_DAEMON,
            _ => exit_codes::FAILURE,
        }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDaemon => f.write_str(
                "no daemon runs here; start one with `tabane up` (each network namespace has its own)",
            ),
            Self::Silent => write!(
                f,
                "the daemon did not answer within {} s; look at its log, restart it if it hangs",
                SILENCE_MAX.as_secs()
            ),
            Self::Refused(words) => {
                let words: String = words.chars().flat_map(char::escape_debug).collect();
                write!(f, "the daemon refused: {words}")
            }
            Self::NotUnderstood(what) => write!(
                f,
                "the daemon's answer is not understood ({what}); is it of another version than this program?"
            ),
            Self::Connection(error) => {
                write!(f, "the connection to the daemon failed: {}", plain(error))
            }
        }
    }
}

impl std::error::Error for AskError {}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => Self::NoDaemon,
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Silent,
            _ => Self::Connection(error),
        }
    }
}

/// Asks the daemon that is here: the one for everybody, or, if none is, the one that runs for
/// programs of this user (`tabane run`). `ask` is given its sockets.
///
/// # Errors
/// Those of `ask`.
pub fn ask_here<T>(ask: impl Fn(&Sockets) -> Result<T, AskError>) -> Result<T, AskError> {
    match ask(&Sockets::of(Audience::Everybody)) {
        Err(AskError::NoDaemon) => ask(&Sockets::of(Audience::User)),
        answer => answer,
    }
}

/// Asks the daemon that has these sockets for its status:
/// the JSON of a [`StatusReport`], as it came.
///
/// # Errors
/// As [`AskError`] says.
pub fn ask_status(sockets: &Sockets) -> Result<Value, AskError> {
    ask_for(sockets, &Request::Status, "status")
}

/// Makes the daemon with these sockets reread its cluster file; with `check`, it only says what would change.
///
/// # Errors
/// As [`AskError`] says. An unusable file is no error: the report says so.
pub fn ask_reload(sockets: &Sockets, check: bool) -> Result<ReloadReport, AskError> {
    let report = ask_for(sockets, &Request::Reload { check }, "reload")?;
    serde_json::from_value(report).map_err(|e| AskError::NotUnderstood(e.to_string()))
}

/// The nodes that the daemon that has these sockets knows.
///
/// # Errors
/// As [`AskError`] says.
pub fn ask_nodes(sockets: &Sockets) -> Result<NodesReport, AskError> {
    let nodes = ask_for(sockets, &Request::Nodes, "nodes")?;
    serde_json::from_value(nodes).map_err(|e| AskError::NotUnderstood(e.to_string()))
}

/// All other nodes, as the daemon that has these sockets reaches them: the JSON of a [`MembersReport`], as it came.
///
/// # Errors
/// As [`AskError`] says.
pub fn ask_members(sockets: &Sockets) -> Result<Value, AskError> {
    ask_for(sockets, &Request::Members, "members")
}

/// Makes the daemon with these sockets leave its cluster. Returns the nodes that are told.
///
/// # Errors
/// As [`AskError`] says.
pub fn ask_leave(sockets: &Sockets) -> Result<MembersReport, AskError> {
    let told = ask_for(sockets, &Request::Leave, "members")?;
    serde_json::from_value(told).map_err(|e| AskError::NotUnderstood(e.to_string()))
}

/// Makes another gateway of the cluster serve: this one, or the next one that can. Returns what was done, in words.
///
/// # Errors
/// As [`AskError`] says.
pub fn ask_gateway_move(sockets: &Sockets, to: Option<&str>) -> Result<String, AskError> {
    let to = to.map(str::to_owned);
    let told = ask_for(sockets, &Request::Gateway { to }, "gateway")?;
    let report: Result<MoveReport, _> = serde_json::from_value(told);
    report
        .map(|report| report.done)
        .map_err(|e| AskError::NotUnderstood(e.to_string()))
}

/// The daemon's knowledge of switches; with `measure`, it starts a new survey.
///
/// # Errors
/// As [`AskError`] says.
pub fn ask_topo(sockets: &Sockets, measure: bool) -> Result<TopoReport, AskError> {
    let report = ask_for(sockets, &Request::Topo { measure }, "topo")?;
    serde_json::from_value(report).map_err(|e| AskError::NotUnderstood(e.to_string()))
}

/// Makes the daemon with these sockets trace a peer, in the form that qvis reads, or else the newest. Returns the
/// source of records, which blocks while nothing happens; dropping it ends the trace.
///
/// # Errors
/// As [`AskError`] says.
pub fn ask_trace(
    sockets: &Sockets,
    peer: &str,
    qvis: bool,
) -> Result<BufReader<UnixStream>, AskError> {
    let peer = peer.to_owned();
    let (line, stream) = converse(sockets, &Request::Trace { peer, qvis })?;
    read_line(&line, "trace")?;
    Ok(stream)
}

/// Makes the daemon with these sockets measure its bundle to a peer. Returns the source of lines of
/// [`Told`](crate::bench::Told); dropping it ends the measurement.
///
/// # Errors
/// As [`AskError`] says.
pub fn ask_bench(
    sockets: &Sockets,
    peer: &str,
    seconds: u32,
    udp: bool,
) -> Result<BufReader<UnixStream>, AskError> {
    let peer = peer.to_owned();
    let (line, stream) = converse(sockets, &Request::Bench { peer, seconds, udp })?;
    read_line(&line, "bench")?;
    Ok(stream)
}

/// Makes the daemon with these sockets probe all paths to a peer, one round every `interval_ms`. Returns the source of
/// lines of [`Round`](crate::ping::Round); dropping it ends the rounds.
///
/// # Errors
/// As [`AskError`] says.
pub fn ask_ping(
    sockets: &Sockets,
    peer: &str,
    interval_ms: u64,
) -> Result<(PingBegun, BufReader<UnixStream>), AskError> {
    let peer = peer.to_owned();
    let (line, stream) = converse(sockets, &Request::Ping { peer, interval_ms })?;
    let begun = serde_json::from_value(read_line(&line, "ping")?);
    let begun = begun.map_err(|e| AskError::NotUnderstood(e.to_string()))?;
    Ok((begun, stream))
}

/// Makes the daemon with these sockets ask its connected peers, or this one, what they find wrong. Returns which it asks, and
/// the source of lines of [`Opinion`](crate::doctor::finding::Opinion), one of each; dropping it ends the question.
///
/// # Errors
/// As [`AskError`] says.
pub fn ask_consult(
    sockets: &Sockets,
    peer: Option<&str>,
) -> Result<(ConsultBegun, BufReader<UnixStream>), AskError> {
    let peer = peer.map(str::to_owned);
    let (line, stream) = converse(sockets, &Request::Consult { peer })?;
    let begun = serde_json::from_value(read_line(&line, "consult")?);
    let begun = begun.map_err(|e| AskError::NotUnderstood(e.to_string()))?;
    Ok((begun, stream))
}

/// Sends `request`; returns the answer's value under `what`.
fn ask_for(sockets: &Sockets, request: &Request, what: &str) -> Result<Value, AskError> {
    let line = ask(sockets, request)?;
    read_line(&line, what)
}

/// The report in a daemon's answer, a line with its newline.
///
/// # Errors
/// The daemon refused, or the answer is not understood.
pub fn read_answer(line: &[u8]) -> Result<Value, AskError> {
    read_line(line, "status")
}

/// An answer's value under `what`.
fn read_line(line: &[u8], what: &str) -> Result<Value, AskError> {
    let mut answer: Value =
        serde_json::from_slice(line).map_err(|e| AskError::NotUnderstood(e.to_string()))?;
    if let Some(words) = answer.get("error").and_then(Value::as_str) {
        return Err(AskError::Refused(words.to_owned()));
    }
    match answer.get_mut(what).map(Value::take) {
        Some(answer) if answer.is_object() => Ok(answer),
        _ => Err(AskError::NotUnderstood(format!("there is no {what} in it"))),
    }
}

/// As [`ask_status`], read into the report this program knows.
///
/// # Errors
/// As [`AskError`] says.
pub fn ask_report(sockets: &Sockets) -> Result<StatusReport, AskError> {
    let line = ask(sockets, &Request::Status)?;
    match serde_json::from_slice(&line) {
        Ok(Response::Status(report)) => Ok(*report),
        Ok(Response::Error(words)) => Err(AskError::Refused(words)),
        Ok(_) => Err(AskError::NotUnderstood("it is no status".to_owned())),
        Err(error) => Err(AskError::NotUnderstood(error.to_string())),
    }
}

/// The line that answers `request`.
fn ask(sockets: &Sockets, request: &Request) -> Result<Vec<u8>, AskError> {
    Ok(converse(sockets, request)?.0)
}

/// The line that answers `request`, and where more may come.
fn converse(
    sockets: &Sockets,
    request: &Request,
) -> Result<(Vec<u8>, BufReader<UnixStream>), AskError> {
    let mut stream = sockets.connect(SOCKET_NAME, |path| UnixStream::connect(path))?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    stream.write_all(&request.to_line())?;
    let mut line = Vec::new();
    let mut limited = BufReader::new(stream).take(ANSWER_BYTES_MAX);
    limited.read_until(b'\n', &mut line)?;
    let stream = limited.into_inner();
    if line.last() != Some(&b'\n') {
        return Err(AskError::NotUnderstood("it was cut short".to_owned()));
    }
    Ok((line, stream))
}
