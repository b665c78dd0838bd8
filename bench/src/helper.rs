//! The programs that bench runs on the nodes: itself, with hidden words.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::Stdio;
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::connections::{self, Load};
use super::measure::gateway::Outside;
use super::pingpong::MESSAGE_BYTES;
use super::timeline::Content;
use super::transport::Transport;
use super::unread::{self, UNREAD_PORT, Unread};
use super::{Stand, pingpong, pulse, sink, timeline};
use tabane_lab::LabError;
use tabane_lab::cluster::{PATIENCE, Program, socket_address};
use tabane_lab::ways::{Arena, Way};

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
        to: String,
        /// How long
        ms: u64,
        /// Send the same bytes again and again, as iperf3 does, which are not looked at
        #[arg(long)]
        careless: bool,
        /// How it reaches the other one
        #[command(flatten)]
        transport: Transport,
    },
    /// Receive one stream and note when
    Receive {
        /// Do not look at the bytes
        #[arg(long)]
        careless: bool,
        /// How it reaches the other one
        #[command(flatten)]
        transport: Transport,
    },
    /// Send and receive at once for so many milliseconds, and note when bytes come
    Exchange {
        /// With whom; without it, with whoever comes
        #[arg(long)]
        to: Option<String>,
        /// How long
        ms: u64,
        /// As of sending and receiving
        #[arg(long)]
        careless: bool,
        /// How it reaches the other one
        #[command(flatten)]
        transport: Transport,
    },
    /// Open connections, say something on each, await the answers
    Connect {
        /// To whom
        to: String,
        /// How many connections
        #[command(flatten)]
        load: Load,
        /// How it reaches the other one
        #[command(flatten)]
        transport: Transport,
    },
    /// Take connections and answer on each
    Accept {
        /// How many connections
        #[command(flatten)]
        load: Load,
        /// How it reaches the other one
        #[command(flatten)]
        transport: Transport,
    },
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
        to: String,
        /// How long
        ms: u64,
        /// Length of a message
        #[arg(long, default_value_t = MESSAGE_BYTES)]
        bytes: usize,
        /// How it reaches the other one
        #[command(flatten)]
        transport: Transport,
    },
    /// Send a datagram of 8 bytes and look for its echo without ever sleeping, many times
    Spin {
        /// To whom; without it, echo them, until killed
        to: Option<SocketAddr>,
    },
    /// Send a datagram every 2 ms for so many milliseconds, and note when their echoes come
    Pulse {
        /// To whom
        to: SocketAddr,
        /// How long
        ms: u64,
    },
    /// Echo them, until killed
    PulseBack,
    /// Hold the UDP port that is flooded, and read nothing, until killed
    Unread,
    /// Hold connections that nobody reads, until killed; says what was written to them once all are full
    Stuff {
        /// To whom; without it, from whoever comes
        #[arg(long)]
        to: Option<String>,
        /// How many
        count: usize,
        /// They are read at 1 KB/s each, once all are full
        #[arg(long)]
        sip: bool,
        /// How it reaches the other one
        #[command(flatten)]
        transport: Transport,
    },
    /// Connect, and send, perhaps among connections that nobody reads
    Beside {
        /// To whom; without it, from whoever comes
        #[arg(long)]
        to: Option<String>,
        /// How much
        #[command(flatten)]
        load: unread::Load,
        /// How it reaches the other one
        #[command(flatten)]
        transport: Transport,
    },
    /// On one side of the cluster's outside address
    #[command(subcommand)]
    Outside(Outside),
    /// Echo the messages of one stream
    Echo {
        /// Length of a message
        #[arg(long, default_value_t = MESSAGE_BYTES)]
        bytes: usize,
        /// How it reaches the other one
        #[command(flatten)]
        transport: Transport,
    },
}

impl Helper {
    /// Do it.
    ///
    /// # Errors
    /// The network is not as it should be.
    pub fn run(&self) -> std::io::Result<()> {
        match self {
            Helper::Send {
                to,
                ms,
                careless,
                transport,
            } => {
                let (_end, stream) = transport.stream(Some(to))?;
                let (lasting, bytes) = (Duration::from_millis(*ms), content(*careless));
                say(&timeline::send(&stream, lasting, bytes))
            }
            Helper::Exchange {
                to,
                ms,
                careless,
                transport,
            } => {
                let (_end, stream) = transport.stream(to.as_deref())?;
                let (lasting, bytes) = (Duration::from_millis(*ms), content(*careless));
                say(&timeline::exchange(&stream, lasting, bytes))
            }
            Helper::Connect {
                to,
                load,
                transport,
            } => say(&connections::connect(&transport.open()?, to, load)?),
            Helper::Accept { load, transport } => {
                let end = transport.open()?;
                say(&connections::accept(&end.listen(PORT)?, load)?)
            }
            Helper::Flood { ms, to } => sink::flood(to, Duration::from_millis(*ms)),
            Helper::Sink { count } => {
                let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, SINK_PORT))?;
                say(&sink::take(&listener, *count)?)
            }
            Helper::Receive {
                careless,
                transport,
            } => {
                let end = transport.open()?;
                say(&timeline::receive(&end.listen(PORT)?, content(*careless)))
            }
            Helper::Ping {
                to,
                ms,
                bytes,
                transport,
            } => {
                let (_end, stream) = transport.stream(Some(to))?;
                let lasting = Duration::from_millis(*ms);
                say(&pingpong::ping(&stream, *bytes, lasting)?)
            }
            Helper::Echo { bytes, transport } => {
                let end = transport.open()?;
                pingpong::echo(&end.listen(PORT)?, *bytes)
            }
            Helper::Spin { to: Some(to) } => say(&pingpong::spin(*to)?),
            Helper::Spin { to: None } => pingpong::spin_back(PORT),
            Helper::Pulse { to, ms } => say(&pulse::beat(*to, Duration::from_millis(*ms))?),
            Helper::PulseBack => pulse::beat_back(),
            Helper::Outside(outside) => outside.run(),
            Helper::Unread | Helper::Stuff { .. } | Helper::Beside { .. } => self.hold(),
        }
    }

    /// Those that read nothing, and those beside them.
    fn hold(&self) -> std::io::Result<()> {
        match self {
            Helper::Unread => {
                let any = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), tabane_lab::flood::PORT);
                let _socket = UdpSocket::bind(any)?;
                loop {
                    std::thread::park();
                }
            }
            Helper::Stuff {
                to,
                count,
                sip,
                transport,
            } => {
                let end = transport.open()?;
                let held = match to {
                    Some(to) => Unread::connect(&end, to, *count)?,
                    None => Unread::accept(&end.listen(UNREAD_PORT)?, *count)?,
                };
                say(&held.wait_full())?;
                if *sip {
                    held.sip();
                }
                loop {
                    std::thread::park();
                }
            }
            Helper::Beside {
                to,
                load,
                transport,
            } => {
                let end = transport.open()?;
                match to {
                    Some(to) => say(&unread::connect(&end, to, load)?),
                    None => unread::accept(&end, load),
                }
            }
            _ => Ok(()),
        }
    }
}

fn say(result: &impl Serialize) -> std::io::Result<()> {
    println!("{}", serde_json::to_string(result)?);
    Ok(())
}

const fn content(careless: bool) -> Content {
    if careless {
        Content::Any
    } else {
        Content::Counted
    }
}

/// A pair of helpers on nodes 0 and 1: one listens (on node 1, if nothing else is said), the other has connected or
/// is about to.
pub struct Pair {
    client: Program,
    server: Program,
}

impl Pair {
    /// Start them: `words` are the client's and the server's.
    ///
    /// # Errors
    /// They do not start.
    pub fn start(stand: &Stand, words: (&str, &str), lasting: Duration) -> Result<Pair, LabError> {
        Pair::start_with(stand, words, lasting, &[])
    }

    /// As [`Pair::start`], with options that both get.
    ///
    /// # Errors
    /// They do not start.
    pub fn start_with(
        stand: &Stand,
        words: (&str, &str),
        lasting: Duration,
        options: &[String],
    ) -> Result<Pair, LabError> {
        let client = vec![target(stand, 1), lasting.as_millis().to_string()];
        let client = [client, options.to_vec()].concat();
        Pair::begin(stand, (words.0, &client), (words.1, options))
    }

    /// Start them, each with its word and arguments of its own.
    ///
    /// # Errors
    /// They do not start.
    pub fn begin(
        stand: &Stand,
        client: (&str, &[String]),
        server: (&str, &[String]),
    ) -> Result<Pair, LabError> {
        Pair::begin_from(0, stand, client, server)
    }

    /// The same, the client on node `from`.
    ///
    /// # Errors
    /// They do not start.
    pub fn begin_from(
        from: usize,
        stand: &Stand,
        client: (&str, &[String]),
        server: (&str, &[String]),
    ) -> Result<Pair, LabError> {
        let start = |node: usize, (word, arguments): (&str, &[String])| {
            let mut command = stand.command(node, &stand.helper)?;
            command.args(["helper", word]).args(arguments);
            command.args(transport(stand, node));
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            Program::start("bench helper", command)
        };
        let mut server = start(1 - from, server)?;
        stand.listens(1 - from, &mut server, PORT)?;
        let client = start(from, client)?;
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

/// What a helper on a node is told of the way.
fn transport(arena: &Arena, node: usize) -> Vec<String> {
    let (Way::Library { spins, .. }, Some(file)) = (arena.way(), arena.cluster_file()) else {
        return Vec::new();
    };
    let (file, node) = (file.display().to_string(), format!("n{node}"));
    let mut words = vec!["--cluster".to_owned(), file, "--node".to_owned(), node];
    if !spins {
        words.extend(["--spin-us".to_owned(), "0".to_owned()]);
    }
    words
}

/// How a helper is told of the one on this node.
pub fn target(arena: &Arena, node: usize) -> String {
    match arena.way() {
        Way::Library { .. } => format!("n{node}"),
        _ => socket_address(arena.address(node), PORT),
    }
}

/// What a helper said; a default if it said nothing.
pub fn understand<T: DeserializeOwned + Default>(said: &[u8]) -> T {
    serde_json::from_slice(said).unwrap_or_default()
}
