//! How bench's own programs reach each other: by TCP (whose way the arena decides), or by a node
//! of the cluster inside of them, with the library.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use tabane_io::capture::keep_little_unsent;
use tabane_library::{self as library, ConnectError, Node, Options};

use super::helper::PORT;
use tabane_lab::cluster::PATIENCE;

/// How often it is looked whether the other one listens by now.
const RETRY: Duration = Duration::from_millis(5);

/// What a helper is told of it.
#[derive(Debug, Clone, Default, Args)]
pub struct Transport {
    /// Be a node of this cluster, by the library, instead of using TCP
    #[arg(long, value_name = "FILE", requires = "node")]
    cluster: Option<PathBuf>,
    /// Be this one
    #[arg(long, value_name = "NAME", requires = "cluster")]
    node: Option<String>,
    /// How long a waiting thread looks again before it sleeps
    #[arg(long)]
    spin_us: Option<u64>,
}

/// A helper's own end.
pub enum End {
    Tcp,
    Node(Box<Node>),
}

impl Transport {
    /// Become the node, if it is to be one.
    ///
    /// # Errors
    /// The cluster file does not say what is needed, or its port is taken.
    pub fn open(&self) -> io::Result<End> {
        let Some(file) = &self.cluster else {
            return Ok(End::Tcp);
        };
        let options = Options::from_cluster_file(file, self.node.as_deref());
        let mut options = options.map_err(io::Error::other)?;
        if let Some(spin_us) = self.spin_us {
            options = options.spin(Duration::from_micros(spin_us));
        }
        let node = Node::open(options).map_err(io::Error::other)?;
        Ok(End::Node(Box::new(node)))
    }

    /// The end, and a stream to another one; without one, from whoever comes.
    ///
    /// # Errors
    /// As [`open`](Transport::open) and [`End::connect`].
    pub fn stream(&self, to: Option<&str>) -> io::Result<(End, Stream)> {
        let end = self.open()?;
        let stream = match to {
            Some(to) => end.connect(to, PORT)?,
            None => end.listen(PORT)?.accept()?,
        };
        Ok((end, stream))
    }
}

impl End {
    /// Connect to another one: an address and a port, or the name of a node.
    ///
    /// # Errors
    /// It does not listen. For a node that is not there yet it is waited.
    pub fn connect(&self, to: &str, port: u16) -> io::Result<Stream> {
        let node = match self {
            End::Tcp => return TcpStream::connect(to).map(Stream::Tcp),
            End::Node(node) => node,
        };
        let until = Instant::now() + PATIENCE;
        loop {
            match node.connect(to, port.into()) {
                Ok(stream) => return Ok(Stream::Library(stream)),
                Err(ConnectError::Refused) if Instant::now() < until => sleep(RETRY),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }

    /// Listen, on every address, as MPTCP needs.
    ///
    /// # Errors
    /// Another one does.
    pub fn listen(&self, port: u16) -> io::Result<Listener> {
        match self {
            End::Tcp => {
                let any = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
                TcpListener::bind(any).map(Listener::Tcp)
            }
            End::Node(node) => {
                let listener = node.listen(port.into()).map_err(io::Error::other)?;
                Ok(Listener::Library(listener))
            }
        }
    }
}

/// Takes connections.
pub enum Listener {
    Tcp(TcpListener),
    Library(library::Listener),
}

impl Listener {
    /// Wait for the next one.
    ///
    /// # Errors
    /// The system's, or the node's.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => Ok(Stream::Tcp(listener.accept()?.0)),
            Listener::Library(listener) => {
                let stream = listener.accept().map_err(io::Error::other)?;
                Ok(Stream::Library(stream))
            }
        }
    }
}

/// A connection.
pub enum Stream {
    Tcp(TcpStream),
    Library(library::Stream),
}

impl Stream {
    /// Say that this was all; the other direction goes on.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn finish(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Stream::Library(stream) => stream.finish().map_err(io::Error::other),
        }
    }

    /// Have the kernel keep little of what is written, so that hundreds that nobody reads do not take all
    /// the memory that it has for TCP.
    pub fn keep_little(&self) {
        if let Stream::Tcp(stream) = self {
            keep_little_unsent(stream);
        }
    }

    /// Send what is written at once, however little it is.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nodelay(true),
            // It always does.
            Stream::Library(_) => Ok(()),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).read(into),
            Stream::Library(stream) => (&mut &*stream).read(into),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write(from),
            Stream::Library(stream) => (&mut &*stream).write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
