//! The programs that bench runs on the nodes: itself, with hidden words.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::pingpong::MESSAGE_BYTES;
use super::ways::Arena;
use super::{Settings, pingpong, sink, timeline};
use crate::LabError;
use crate::cluster::{PATIENCE, Program, socket_address};

/// Where the helpers on node 1 listen.
pub const PORT: u16 = 7000;

/// Where those that take many streams listen.
pub const SINK_PORT: u16 = 7001;

/// What a helper does; its result goes to standard output, as JSON.
#[derive(Debug, Clone, Subcommand)]
pub enum Helper {
    /// Send for so many milliseconds
    Send {
        /// To whom
        to: SocketAddr,
        /// How long
        ms: u64,
    },
    /// Receive one stream and note when
    Receive,
    /// Send a stream to each for so many milliseconds
    Flood {
        /// How long
        ms: u64,
        /// To whom
        #[arg(required = true)]
        to: Vec<SocketAddr>,
    },
    /// Receive so many streams and note when
    Sink {
        /// How many
        count: usize,
    },
    /// Send messages for so many milliseconds and await their echo
    Ping {
        /// To whom
        to: SocketAddr,
        /// How long
        ms: u64,
        /// Length of a message
        #[arg(long, default_value_t = MESSAGE_BYTES)]
        bytes: usize,
    },
    /// Hold the UDP port that is flooded, and read nothing, until killed
    Unread,
    /// Echo the messages of one stream
    Echo {
        /// Length of a message
        #[arg(long, default_value_t = MESSAGE_BYTES)]
        bytes: usize,
    },
}

impl Helper {
    /// Do it.
    ///
    /// # Errors
    /// The network is not as it should be.
    pub fn run(&self) -> std::io::Result<()> {
        match *self {
            Helper::Send { to, ms } => {
                let stream = TcpStream::connect(to)?;
                say(&timeline::send(stream, Duration::from_millis(ms)))
            }
            Helper::Flood { ms, ref to } => sink::flood(to, Duration::from_millis(ms)),
            Helper::Sink { count } => {
                let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, SINK_PORT))?;
                say(&sink::take(&listener, count)?)
            }
            Helper::Receive => say(&timeline::receive(&listener()?)),
            Helper::Ping { to, ms, bytes } => {
                let stream = TcpStream::connect(to)?;
                say(&pingpong::ping(stream, bytes, Duration::from_millis(ms))?)
            }
            Helper::Unread => {
                let any = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), crate::flood::PORT);
                let _socket = UdpSocket::bind(any)?;
                loop {
                    std::thread::park();
                }
            }
            Helper::Echo { bytes } => pingpong::echo(&listener()?, bytes),
        }
    }
}

/// On every address, as MPTCP needs.
fn listener() -> std::io::Result<TcpListener> {
    TcpListener::bind((IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT))
}

fn say(result: &impl Serialize) -> std::io::Result<()> {
    println!("{}", serde_json::to_string(result)?);
    Ok(())
}

/// A pair of helpers: the one on node 1 listens, the one on node 0 has
/// connected or is about to.
pub struct Pair {
    client: Program,
    server: Program,
}

impl Pair {
    /// Start them: `words` are the client's and the server's.
    ///
    /// # Errors
    /// They do not start.
    pub fn start(
        settings: &Settings,
        arena: &Arena,
        words: (&str, &str),
        lasting: Duration,
    ) -> Result<Pair, LabError> {
        Pair::start_with(settings, arena, words, lasting, &[])
    }

    /// As [`Pair::start`], with options that both get.
    ///
    /// # Errors
    /// They do not start.
    pub fn start_with(
        settings: &Settings,
        arena: &Arena,
        words: (&str, &str),
        lasting: Duration,
        options: &[String],
    ) -> Result<Pair, LabError> {
        let mut server = arena.command(1, &settings.helper)?;
        server.args(["helper", words.1]).args(options);
        server.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut server = Program::start("bench helper", server)?;
        server.listens(PORT)?;
        let mut client = arena.command(0, &settings.helper)?;
        let to = socket_address(arena.address(1), PORT);
        client.args(["helper", words.0, &to, &lasting.as_millis().to_string()]);
        client.args(options);
        client.stdin(Stdio::null()).stdout(Stdio::piped());
        let client = Program::start("bench helper", client)?;
        Ok(Pair { client, server })
    }

    /// Wait for the end of both and return what they said; a default if they
    /// said nothing.
    ///
    /// # Errors
    /// They hang.
    pub fn results<C, S>(self) -> Result<(C, S), LabError>
    where
        C: DeserializeOwned + Default,
        S: DeserializeOwned + Default,
    {
        let said = |program: Program| program.output(PATIENCE).map(|output| output.stdout);
        let (client, server) = (said(self.client)?, said(self.server)?);
        Ok((understand(&client), understand(&server)))
    }
}

/// What a helper said; a default if it said nothing.
pub fn understand<T: DeserializeOwned + Default>(said: &[u8]) -> T {
    serde_json::from_slice(said).unwrap_or_default()
}
