//! Errors, by who must act.

use core::fmt;
use std::io;
use std::net::IpAddr;

use tabane_cluster::ConfigError;
use tabane_engine::EngineError;
use tabane_proto::op::OpError;

/// The node is not there for the caller, or the caller not for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// [`Node::close`](crate::Node::close) was called.
    Closed,
    /// This process is a fork of the one that opened the node. Open another one here.
    Forked,
    /// The node stopped: waiting for the network failed, in a system out of memory, or the library has a fault
    /// that keeps recurring.
    Broken,
    /// A signal handler ran in the thread that waited ([`Options::interruptible`](crate::Options::interruptible)).
    /// The node goes on, and the call can be made again.
    Interrupted,
}

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Gone::Closed => "the node was closed",
            Gone::Forked => {
                "the node belongs to the process that opened it; open another one after fork"
            }
            Gone::Broken => {
                "the node stopped: waiting for the network failed, or the library has a fault"
            }
            Gone::Interrupted => "a signal handler ran while the call waited",
        })
    }
}

impl core::error::Error for Gone {}

impl Gone {
    const fn kind(self) -> io::ErrorKind {
        match self {
            Gone::Interrupted => io::ErrorKind::Interrupted,
            Gone::Closed | Gone::Forked | Gone::Broken => io::ErrorKind::NotConnected,
        }
    }
}

/// A node cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The cluster file is wrong, or this machine is none of its nodes: for the operator.
    File(ConfigError),
    /// The options are at fault: the program's part.
    Options(String),
    /// No link can be used now; why, one by one.
    NoLink(Vec<String>),
    /// The system refused something.
    System(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::File(error) => error.fmt(f),
            OpenError::Options(why) => f.write_str(why),
            OpenError::NoLink(why) => write!(f, "no link can be used: {}", why.join("; ")),
            OpenError::System(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for OpenError {}

impl From<EngineError> for OpenError {
    fn from(error: EngineError) -> OpenError {
        match error {
            EngineError::Config(error) => OpenError::Options(error.to_string()),
            EngineError::System(error) => OpenError::System(error),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::System(error)
    }
}

/// A service cannot be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// No node of this name is known here.
    UnknownPeer(String),
    /// The node is there, and nothing listens for the service.
    Refused,
    /// The node is there, and has as many connections waiting to be accepted as it keeps.
    Busy,
    /// Nobody answered in time.
    TimedOut,
    /// As many streams are open with this peer as may be.
    TooManyStreams,
    /// The peer restarted meanwhile. Try again.
    Restarted,
    /// See [`Gone`].
    Gone(Gone),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::UnknownPeer(name) => write!(f, "no node named {name:?} is known"),
            ConnectError::Refused => f.write_str("nothing listens for this service there"),
            ConnectError::Busy => {
                f.write_str("too many connections wait to be accepted there; try again")
            }
            ConnectError::TimedOut => f.write_str("the node did not answer in time"),
            ConnectError::TooManyStreams => OpError::TooManyStreams.fmt(f),
            ConnectError::Restarted => f.write_str("the node started afresh; try again"),
            ConnectError::Gone(gone) => gone.fmt(f),
        }
    }
}

impl core::error::Error for ConnectError {}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> io::Error {
        let kind = match error {
            ConnectError::UnknownPeer(_) => io::ErrorKind::NotFound,
            ConnectError::Refused | ConnectError::Busy => io::ErrorKind::ConnectionRefused,
            ConnectError::TimedOut => io::ErrorKind::TimedOut,
            ConnectError::TooManyStreams => io::ErrorKind::QuotaExceeded,
            ConnectError::Restarted => io::ErrorKind::ConnectionReset,
            ConnectError::Gone(gone) => gone.kind(),
        };
        io::Error::new(kind, error)
    }
}

/// A stream will not go on. Comes as the inner error of an [`io::Error`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// The peer reset its side, with this code of its own; unread data is lost.
    Reset(u32),
    /// The peer refuses further data, with this code of its own.
    Stopped(u32),
    /// The peer restarted, and the stream is gone with all its data.
    Broken,
    /// No link reached the peer for [`Options::peer_timeout`](crate::Options::peer_timeout): its process or host
    /// has died, or no network leads there. The last written data may or may not have arrived.
    Unreachable,
    /// This end finished or reset this direction before.
    Finished,
    /// See [`Gone`].
    Gone(Gone),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::Reset(code) => write!(f, "the peer reset the stream with code {code}"),
            StreamError::Stopped(code) => {
                write!(f, "the peer wants no more of the stream (code {code})")
            }
            StreamError::Broken => {
                f.write_str("the peer has stopped or started afresh, and the stream is gone")
            }
            StreamError::Unreachable => f.write_str(
                "no link to the peer has worked for too long: it does not run, or no network leads there",
            ),
            StreamError::Finished => f.write_str("this end has finished this direction before"),
            StreamError::Gone(gone) => gone.fmt(f),
        }
    }
}

impl core::error::Error for StreamError {}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> io::Error {
        let kind = match error {
            StreamError::Reset(_) | StreamError::Broken => io::ErrorKind::ConnectionReset,
            StreamError::Unreachable => io::ErrorKind::HostUnreachable,
            StreamError::Stopped(_) | StreamError::Finished => io::ErrorKind::BrokenPipe,
            StreamError::Gone(gone) => gone.kind(),
        };
        io::Error::new(kind, error)
    }
}

impl From<Gone> for io::Error {
    fn from(gone: Gone) -> io::Error {
        io::Error::new(gone.kind(), gone)
    }
}

/// A service cannot be listened for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenError {
    /// This program listens for it already.
    InUse(u32),
    /// See [`Gone`].
    Gone(Gone),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::InUse(service) => {
                write!(f, "this node listens for service {service} already")
            }
            ListenError::Gone(gone) => gone.fmt(f),
        }
    }
}

impl core::error::Error for ListenError {}

/// A message cannot be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SendError {
    /// No node of this name is known here.
    UnknownPeer(String),
    /// It has more bytes than a message may have; how many it may have.
    TooLarge(usize),
    /// As many flows are in use with this peer as may be.
    TooManyFlows,
    /// The peer was not there in time: it does not run, or no link reaches it.
    NotConnected,
    /// There was no room in time: the peer takes none, or less than is sent.
    TimedOut,
    /// See [`Gone`].
    Gone(Gone),
}

impl SendError {
    /// Whether the error is temporary: waiting helps.
    pub(crate) const fn passes(&self) -> bool {
        matches!(self, SendError::NotConnected | SendError::TimedOut)
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::UnknownPeer(name) => write!(f, "no node named {name:?} is known"),
            SendError::TooLarge(bytes_max) => OpError::TooLarge {
                bytes_max: *bytes_max,
            }
            .fmt(f),
            SendError::TooManyFlows => OpError::TooManyFlows.fmt(f),
            SendError::NotConnected => f.write_str("the node was not connected in time"),
            SendError::TimedOut => f.write_str("there was no room for the message in time"),
            SendError::Gone(gone) => gone.fmt(f),
        }
    }
}

impl core::error::Error for SendError {}

/// A message cannot be received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveError {
    /// The next message is longer than the receiver wants it. It is kept.
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// See [`Gone`].
    Gone(Gone),
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReceiveError::TooLong { bytes } => {
                write!(
                    f,
                    "the next message has {bytes} bytes, more than there is room for"
                )
            }
            ReceiveError::Gone(gone) => gone.fmt(f),
        }
    }
}

impl core::error::Error for ReceiveError {}

/// An address that is given twice.
pub(crate) fn given_twice(address: IpAddr) -> OpenError {
    OpenError::Options(format!("link {address} is given twice"))
}
