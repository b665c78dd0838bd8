//! A program's network namespace, seen by the agent.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};

use tabane_io::capture::{Capture, Syn};
use tabane_io::control::Credentials;
use tabane_io::handover::Handover;
use tabane_proto::{PeerId, StreamId, Time};

use super::relay::Far;
use super::words::ToSupervisor;

/// What a connection that begins here waits for.
#[derive(Debug)]
pub enum Awaited {
    /// The answer of another node's agent, by this stream.
    Stream(PeerId, StreamId),
    /// A plain connection of this node.
    Plain,
    /// The program's kernel, which has been told.
    Admitted(Far),
}

/// A program connects, and nobody has answered it yet.
#[derive(Debug)]
pub struct Held {
    pub syn: Syn,
    pub awaited: Awaited,
    pub since: Time,
}

impl Held {
    /// The stream that it waits for, or that is to carry it.
    pub const fn stream(&self) -> Option<(PeerId, StreamId)> {
        match self.awaited {
            Awaited::Stream(peer, stream) | Awaited::Admitted(Far::Stream(peer, stream)) => {
                Some((peer, stream))
            }
            _ => None,
        }
    }
}

/// One namespace.
#[derive(Debug)]
pub struct Place {
    pub supervisor: Handover,
    /// Who runs the program.
    pub who: Credentials,
    /// Its sockets, once its supervisor has handed them over.
    pub capture: Option<Capture>,
    own: Vec<IpAddr>,
    /// What its supervisor had no room for.
    pub unsaid: VecDeque<Vec<u8>>,
    pub held: HashMap<(SocketAddr, SocketAddr), Held>,
}

impl Place {
    pub fn new(supervisor: Handover, who: Credentials) -> Place {
        Place {
            supervisor,
            who,
            capture: None,
            own: Vec::new(),
            unsaid: VecDeque::new(),
            held: HashMap::new(),
        }
    }

    /// Its sockets are watched now: the program may begin.
    pub fn begin(&mut self, capture: Capture, own: Vec<IpAddr>) -> io::Result<()> {
        self.capture = Some(capture);
        self.own = own;
        self.supervisor.send(&ToSupervisor::Go.encode(), &[])
    }

    /// Says what is left to be said, as far as there is room; `false`: the supervisor is gone.
    pub fn say(&mut self) -> bool {
        while let Some(said) = self.unsaid.front() {
            match self.supervisor.send(said, &[]) {
                Ok(()) => drop(self.unsaid.pop_front()),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    pub fn has_begun(&self) -> bool {
        self.capture.is_some()
    }

    /// The addresses it has.
    pub fn own(&self) -> &[IpAddr] {
        &self.own
    }

    /// The address that packets to another one come from, if the program does not choose.
    pub fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        let is_v4 = destination.is_ipv4();
        let mut own = self.own.iter().copied();
        own.find(|address| address.is_ipv4() == is_v4)
    }

    /// Whether packets to this address never leave the namespace.
    pub fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.own.contains(&address)
    }
}
