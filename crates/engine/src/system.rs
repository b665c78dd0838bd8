//! What the loop needs of the operating system: devices, and a socket for each link.
//!
//! Two traits, so that the tests can put a network in memory with faults of its own in the
//! kernel's place. Everything is generic over them: there is no indirect call per packet.

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

/// The poller's token of the netlink socket; links have their own numbers below.
pub(crate) const TOKEN_MONITOR: u64 = LINKS_MAX as u64;

/// The socket of one link.
pub trait Socket {
    /// Sends one burst, all of it or nothing.
    ///
    /// # Errors
    /// [`SendError`].
    fn send(&self, transmit: &Transmit, bytes: &[u8]) -> Result<(), SendError>;

    /// Takes in what has arrived; returns how many datagrams that are.
    ///
    /// # Errors
    /// [`RecvError`].
    fn recv(&self, batch: &mut ReceiveBatch) -> Result<usize, RecvError>;

    /// What it has counted so far.
    fn counters(&self) -> UdpCounters;

    /// Has the kernel drop what `filter` does not accept.
    ///
    /// # Errors
    /// The kernel does not take it.
    fn set_filter(&self, filter: &[Instruction]) -> io::Result<()>;

    /// Takes everything again.
    ///
    /// # Errors
    /// There was no filter.
    fn clear_filter(&self) -> io::Result<()>;
}

/// The host that the links are on.
pub trait System {
    /// What a link sends and receives by.
    type Socket: Socket;

    /// The devices there are.
    ///
    /// # Errors
    /// The kernel could not be asked, which says nothing of the devices.
    fn interfaces(&mut self) -> io::Result<Vec<Interface>>;

    /// What happened to devices and addresses since the last call.
    fn changes(&mut self) -> Vec<Change>;

    /// A socket on `address`, held to `device`, that wakes the loop with `token` when there is
    /// something to read.
    ///
    /// # Errors
    /// Why not, in words.
    fn open(
        &mut self,
        token: u64,
        address: SocketAddr,
        device: Option<&str>,
    ) -> Result<(Self::Socket, BufferSizes), String>;

    /// From now on that socket wakes the loop for this.
    ///
    /// # Errors
    /// Then it wakes the loop for what it did before.
    fn watch(&mut self, socket: &Self::Socket, token: u64, interest: Interest) -> io::Result<()>;

    /// Closes a socket; it does not wake the loop any more.
    fn close(&mut self, socket: Self::Socket);

    /// Has the kernel ask again for the neighbours on the device `device` (its index) that it
    /// asked for in vain, where that is permitted.
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
    /// None: not permitted.
    neighbours: Option<Neighbours>,
    /// Ports that links will have.
    claims: Vec<Claim>,
}

impl Kernel {
    /// Sockets wake this poller, as do changes of devices, with [`TOKEN_MONITOR`]. Where a port was claimed, that is the one
    /// that is used.
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
        // Whatever an error is, the answer is to look again.
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
        // The descriptor is closed next, which would end the registration too.
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
