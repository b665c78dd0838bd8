//! The programs on both sides of the outside address: a server that does what each client asks for, and its clients.

mod asked;
mod bulk;
mod fetch;
mod server;
mod streams;
mod takeover;

pub use bulk::Bulk;
pub use fetch::Fetched;
pub use takeover::{Borne, STEADY_MBIT, TALKERS, WORD_BYTES, WORD_EVERY};

use std::io::{self, Write};
use std::net::SocketAddr;
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
