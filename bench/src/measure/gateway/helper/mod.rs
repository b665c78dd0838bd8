//! The programs on both sides of the outside address: a server that does what each client asks for, and its clients.

mod asked;
mod bulk;
mod fetch;
mod hostile;
mod others;
mod ports;
mod server;
mod streams;
mod takeover;

pub use bulk::Bulk;
pub use fetch::Fetched;
pub use hostile::Scanned;
pub use others::Served;
pub use ports::Grabbed;
pub use takeover::{Borne, STEADY_MBIT, TALKERS, WORD_BYTES, WORD_EVERY};

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;

/// Where the server listens.
pub const OUTSIDE_PORT: u16 = 7010;
/// What a client says once all that it has begun is under way.
pub const READY: &str = "ready\n";

/// What a helper does on one side of the outside address; its result goes to standard output, as JSON.
#[derive(Debug, Clone, Subcommand)]
pub enum Outside {
    /// Do what clients ask for, until killed
    Serve,
    /// Get and give streams without end at once; "ready" is said when all of them have begun
    Bulk {
        /// From whom
        to: SocketAddr,
        /// How long, from then on
        ms: u64,
        /// How many are got
        #[arg(long, default_value_t = 0)]
        down: usize,
        /// How many are given
        #[arg(long, default_value_t = 0)]
        up: usize,
    },
    /// Fetch so many bytes by a new connection, again and again, at least once
    Fetch {
        /// From whom
        to: SocketAddr,
        /// How long
        ms: u64,
        /// How many bytes
        #[arg(long, default_value_t = fetch::BYTES)]
        bytes: u32,
    },
    /// Send messages on one connection and await the echo of each
    Talk {
        /// To whom
        to: SocketAddr,
        /// How long
        ms: u64,
        /// Length of a message
        #[arg(long, default_value_t = 4)]
        bytes: u32,
    },
    /// Connect, have a byte echoed, close: again and again, several at once; the result is how many a second
    Greet {
        /// Whom
        to: SocketAddr,
        /// How long
        ms: u64,
        /// How many at once
        #[arg(long, default_value_t = 50)]
        at_once: usize,
    },
    /// Begin a new connection every 10 ms and note when each had a byte echoed
    Knock {
        /// Where
        to: SocketAddr,
        /// How long
        ms: u64,
    },
    /// Streams each way whose bytes are looked at, and connections that talk; "ready" is said when all of them have begun
    Bear {
        /// With whom
        to: SocketAddr,
        /// How long
        ms: u64,
    },
    /// Connect, have a byte echoed, close: again and again, several at once, some of them in vain
    Visit {
        /// Whom
        to: SocketAddr,
        /// How long
        ms: u64,
        /// How many at once
        #[arg(long)]
        at_once: usize,
    },
    /// Send a datagram every few milliseconds and await its echo
    Words {
        /// To whom
        to: SocketAddr,
        /// How long
        ms: u64,
    },
    /// Have many clients send one datagram each and await its echo; "ready" is said before
    Ask {
        /// Whom
        to: SocketAddr,
        /// Nothing: it lasts as long as all need
        ms: u64,
        /// How many
        #[arg(long)]
        count: usize,
        /// How many of them in a second
        #[arg(long)]
        per_s: u32,
    },
    /// Begin connections of strangers who are not there; the result is how many a second
    Flood {
        /// With whom
        to: SocketAddr,
        /// How long
        ms: u64,
        /// How many a second
        #[arg(long)]
        per_s: u32,
        /// All of this one
        #[arg(long, default_value_t = Ipv4Addr::UNSPECIFIED)]
        from: Ipv4Addr,
    },
    /// The same of a program on a node, in another name than the cluster's
    Lie {
        /// How long
        ms: u64,
        /// With whom
        #[arg(long)]
        to: SocketAddr,
        /// How many a second
        #[arg(long)]
        per_s: u32,
        /// All of this one
        #[arg(long)]
        from: Ipv4Addr,
    },
    /// Get streams without end and read next to nothing of them; "ready" is said when all have begun
    Sip {
        /// From whom
        to: SocketAddr,
        /// How long
        ms: u64,
        /// How many
        #[arg(long)]
        count: usize,
    },
    /// Try every port
    Scan {
        /// Whose
        to: SocketAddr,
        /// How long
        ms: u64,
        /// How many a second
        #[arg(long)]
        per_s: u32,
    },
    /// Listen at one port after the other and close at once
    Churn {
        /// How long
        ms: u64,
        /// How many a second
        #[arg(long)]
        per_s: u32,
    },
    /// The same now and then; the result is how long each took
    Ports {
        /// How long
        ms: u64,
    },
    /// Listen at all ports that can be had, and go on trying the others
    Grab {
        /// How long
        ms: u64,
        /// How many of these a second
        #[arg(long)]
        per_s: u32,
    },
}

impl Outside {
    /// Do it.
    ///
    /// # Errors
    /// The network is not as it should be.
    pub fn run(&self) -> io::Result<()> {
        let lasting = |ms: &u64| Duration::from_millis(*ms);
        match self {
            Outside::Serve => server::serve(),
            Outside::Bulk { to, ms, down, up } => say(&bulk::run(*to, lasting(ms), *down, *up)?),
            Outside::Fetch { to, ms, bytes } => say(&fetch::fetch(*to, lasting(ms), *bytes)),
            Outside::Talk { to, ms, bytes } => say(&fetch::talk(*to, lasting(ms), *bytes)?),
            Outside::Greet { to, ms, at_once } => say(&fetch::greet(*to, lasting(ms), *at_once)?),
            Outside::Knock { to, ms } => say(&takeover::knock(*to, lasting(ms))),
            Outside::Bear { to, ms } => say(&takeover::bear(*to, lasting(ms))?),
            other => other.run_of_abuse(),
        }
    }

    /// Those who abuse it, and those who are to be served meanwhile.
    fn run_of_abuse(&self) -> io::Result<()> {
        let lasting = |ms: &u64| Duration::from_millis(*ms);
        match self {
            Outside::Visit { to, ms, at_once } => say(&others::visit(*to, lasting(ms), *at_once)),
            Outside::Words { to, ms } => say(&others::say_words(*to, lasting(ms))?),
            Outside::Ask {
                to, count, per_s, ..
            } => say(&others::ask_once(*to, *count, *per_s)?),
            Outside::Flood {
                to,
                ms,
                per_s,
                from,
            }
            | Outside::Lie {
                ms,
                to,
                per_s,
                from,
            } => say(&hostile::flood(*to, lasting(ms), *per_s, *from)?),
            Outside::Sip { to, ms, count } => say(&hostile::sip(*to, lasting(ms), *count)?),
            Outside::Scan { to, ms, per_s } => say(&hostile::scan(*to, lasting(ms), *per_s)?),
            Outside::Churn { ms, per_s } => say(&ports::churn(lasting(ms), *per_s)?),
            Outside::Ports { ms } => say(&ports::have_ports(lasting(ms))),
            Outside::Grab { ms, per_s } => say(&ports::grab(lasting(ms), *per_s)?),
            _ => Ok(()),
        }
    }
}

fn say(result: &impl Serialize) -> io::Result<()> {
    println!("{}", serde_json::to_string(result)?);
    Ok(())
}

fn say_ready() -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(READY.as_bytes())?;
    stdout.flush()
}
