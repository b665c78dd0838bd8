//! What the loop needs from the operating system: devices, and a socket for each link.
//!
//! Two traits, so that tests can replace the kernel by a network in memory with faults of its
//! own. Everything is generic over them: there is no indirect call per packet.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tabane_io::netlink::{Change, Interface, LinkMonitor, Neighbours, interfaces};
use tabane_io::poll::{Interest, Poller};
use tabane_io::udp::{
    BufferSizes, Claim, Instruction, LinkSocket, ReceiveBatch, RecvError, SendError, UdpCounters,
};
use tabane_proto::Transmit;
use tabane_proto::limits::LINKS_MAX;

/// The poller's token for the netlink socket; links have their own numbers below.
pub(crate) const TOKEN_MONITOR: u64 = LINKS_MAX as u64;

/// The socket of one link.
pub trait Socket {
    /// Sends one burst, all of it or nothing.
    ///
    /// # Errors
    /// [`SendError`].
    fn send(&self, transmit: &Transmit, bytes: &[u8]) -> Result<(), SendError>;

    /// Receives what has arrived; returns the number of datagrams.
    ///
    /// # Errors
    /// [`RecvError`].
    fn recv(&self, batch: &mut ReceiveBatch) -> Result<usize, RecvError>;

    /// Its counters so far.
    fn counters(&self) -> UdpCounters;

    /// Makes the kernel drop what `filter` does not accept.
    ///
    /// # Errors
    /// The kernel refuses the filter.
    fn set_filter(&self, filter: &[Instruction]) -> io::Result<()>;

    /// Removes the filter.
    ///
    /// # Errors
    /// There was no filter.
    fn clear_filter(&self) -> io::Result<()>;
}

/// The host that the links are on.
pub trait System {
    /// The socket of a link.
    type Socket: Socket;

    /// All devices.
    ///
    /// # Errors
    /// The kernel could not be asked, which says nothing about the devices.
    fn interfaces(&mut self) -> io::Result<Vec<Interface>>;

    /// Changes of devices and addresses since the last call.
    fn changes(&mut self) -> Vec<Change>;

    /// Opens a socket on `address`, bound to `device`, that wakes the loop with `token` when
    /// it is readable.
    ///
    /// # Errors
    /// Why not, in words.
    fn open(
        &mut self,
        token: u64,
        address: SocketAddr,
        device: Option<&str>,
    ) -> Result<(Self::Socket, BufferSizes), String>;

    /// From now on that socket wakes the loop for `interest`.
    ///
    /// # Errors
    /// Then it wakes the loop for the same as before.
    fn watch(&mut self, socket: &Self::Socket, token: u64, interest: Interest) -> io::Result<()>;

    /// Closes a socket; it no longer wakes the loop.
    fn close(&mut self, socket: Self::Socket);

    /// Makes the kernel solicit again the neighbours on `device` (an index) that did not
    /// answer, where that is permitted.
    fn ask_again(&mut self, device: u32);
}

impl Socket for LinkSocket {
    fn send(&self, transmit: &Transmit, bytes: &[u8]) -> Result<(), SendError> {
        if transmit.peer_was_heard {
            self.send_confirming(transmit.to, bytes, transmit.segment_bytes)
        } else {
            LinkSocket::send(self, transmit.to, bytes, transmit.segment_bytes)
        }
    }

    fn recv(&self, batch: &mut ReceiveBatch) -> Result<usize, RecvError> {
        LinkSocket::recv(self, batch)
    }

    fn counters(&self) -> UdpCounters {
        LinkSocket::counters(self)
    }

    fn set_filter(&self, filter: &[Instruction]) -> io::Result<()> {
        LinkSocket::set_filter(self, filter)
    }

    fn clear_filter(&self) -> io::Result<()> {
        LinkSocket::clear_filter(self)
    }
}

/// The kernel of this host.
pub struct Kernel {
    poller: Arc<Poller>,
    monitor: LinkMonitor,
    /// `None`: not permitted.
    neighbours: Option<Neighbours>,
    /// Ports reserved for links.
    claims: Vec<Claim>,
}

impl Kernel {
    /// Sockets and changes of devices (with [`TOKEN_MONITOR`]) wake this poller. Links use
    /// claimed ports where there are any.
    pub(crate) fn new(poller: &Arc<Poller>, claims: Vec<Claim>) -> io::Result<Kernel> {
        let monitor = LinkMonitor::new()?;
        poller.register(&monitor, TOKEN_MONITOR, Interest::Read)?;
        Ok(Kernel {
            poller: Arc::clone(poller),
            monitor,
            neighbours: Some(Neighbours::new()?),
            claims,
        })
    }
}

impl System for Kernel {
    type Socket = LinkSocket;

    fn interfaces(&mut self) -> io::Result<Vec<Interface>> {
        interfaces()
    }

    fn changes(&mut self) -> Vec<Change> {
        // Whatever the error is, the answer is to look again.
        let polled = self.monitor.poll();
        let changes = polled.unwrap_or_else(|_| vec![Change::Resync]);
        if changes.contains(&Change::Resync) {
            self.poller.stumble();
        }
        changes
    }

    fn open(
        &mut self,
        token: u64,
        address: SocketAddr,
        device: Option<&str>,
    ) -> Result<(LinkSocket, BufferSizes), String> {
        let claimed = self.claims.iter().position(|c| c.address() == address);
        let opened = match claimed {
            Some(at) => LinkSocket::of(self.claims.swap_remove(at), device),
            None => LinkSocket::bind(address, device),
        };
        let (socket, buffers) = opened.map_err(|e| e.to_string())?;
        let registered = self.poller.register(&socket, token, Interest::Read);
        registered.map_err(|e| e.to_string())?;
        Ok((socket, buffers))
    }

    fn watch(&mut self, socket: &LinkSocket, token: u64, interest: Interest) -> io::Result<()> {
        self.poller.modify(socket, token, interest)
    }

    fn close(&mut self, socket: LinkSocket) {
        // Closing the descriptor, which comes next, would end the registration too.
        let _ = self.poller.deregister(&socket);
    }

    fn ask_again(&mut self, device: u32) {
        if let Some(neighbours) = &mut self.neighbours
            && let Err(error) = neighbours.forget_unresolved(device)
            && error.kind() == io::ErrorKind::PermissionDenied
        {
            self.neighbours = None;
        }
    }
}
