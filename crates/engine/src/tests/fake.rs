//! A network in memory: devices that come and go, sockets that refuse what the test says.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use tabane_io::netlink::{Change, Interface, InterfaceAddress};
use tabane_io::poll::Interest;
use tabane_io::udp::{BufferSizes, Instruction, ReceiveBatch, RecvError, SendError, UdpCounters};
use tabane_proto::Transmit;

use crate::system::{Socket, System};

/// The number of every fake device.
pub const DEVICE: u32 = 7;
const MTU: u32 = 1500;

/// What a host, or several on one network, are made of.
#[derive(Default)]
pub struct World {
    pub devices: Vec<Interface>,
    /// What the kernel tells next.
    pub changes: Vec<Change>,
    /// The devices cannot be listed.
    pub is_deaf: bool,
    /// Sockets on these addresses cannot be opened.
    pub taken: BTreeSet<SocketAddr>,
    /// What the next sends fail with; then they succeed.
    pub refusals: VecDeque<SendError>,
    /// Bursts handed to a socket, whether it took them or not.
    pub tried: usize,
    /// What was sent, by whom to whom.
    pub sent: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// Datagrams that wait at a socket, and from whom.
    queues: BTreeMap<SocketAddr, VecDeque<(SocketAddr, Vec<u8>)>>,
    /// What sockets wake the loop for, by token.
    pub interests: BTreeMap<u64, Interest>,
    /// Sockets that are open.
    pub open: BTreeSet<SocketAddr>,
    /// Devices whose neighbours were asked for again.
    pub asked: Vec<u32>,
    /// What was counted at a socket, for those who look.
    pub counters: UdpCounters,
    /// Filters set on sockets so far, `None` where one was cleared.
    pub filters: Vec<Option<Vec<Instruction>>>,
    /// More instructions the kernel does not take.
    pub filter_max: Option<usize>,
}

/// A handle on the world.
#[derive(Clone, Default)]
pub struct Fake(pub Rc<RefCell<World>>);

pub struct FakeSocket {
    world: Rc<RefCell<World>>,
    token: u64,
    address: SocketAddr,
}

/// The address of node `node` on network 0.
pub fn ip(node: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, node).into()
}

impl Fake {
    /// With one device that has the address of this node.
    pub fn with_device(node: u8) -> Fake {
        let fake = Fake::default();
        fake.plug_in(node);
        fake
    }

    /// The device with the address of this node is there.
    pub fn plug_in(&self, node: u8) {
        let mut world = self.0.borrow_mut();
        world.devices.push(Interface {
            index: DEVICE,
            name: "eth0".into(),
            mac: None,
            mtu: MTU,
            up: true,
            carrier: true,
            addresses: vec![InterfaceAddress {
                ip: ip(node),
                prefix: 24,
            }],
        });
    }

    /// All devices are gone.
    pub fn unplug(&self) {
        self.0.borrow_mut().devices.clear();
    }

    /// The next send fails so.
    pub fn refuse(&self, error: SendError) {
        self.0.borrow_mut().refusals.push_back(error);
    }

    pub fn tried(&self) -> usize {
        self.0.borrow().tried
    }

    pub fn sent(&self) -> usize {
        self.0.borrow().sent.len()
    }

    pub fn interest(&self) -> Option<Interest> {
        self.0.borrow().interests.get(&0).copied()
    }

    /// Datagrams that wait at its sockets.
    pub fn waiting(&self) -> usize {
        self.0.borrow().queues.values().map(VecDeque::len).sum()
    }

    /// Brings everything sent since the last time to the sockets of `other`.
    pub fn carry_to(&self, other: &Fake) -> usize {
        let sent = core::mem::take(&mut self.0.borrow_mut().sent);
        let mut other = other.0.borrow_mut();
        let count = sent.len();
        for (from, to, bytes) in sent {
            if other.open.contains(&to) {
                other.queues.entry(to).or_default().push_back((from, bytes));
            }
        }
        count
    }
}

impl System for Fake {
    type Socket = FakeSocket;

    fn interfaces(&mut self) -> io::Result<Vec<Interface>> {
        let world = self.0.borrow();
        match world.is_deaf {
            true => Err(io::Error::other("no descriptor is left")),
            false => Ok(world.devices.clone()),
        }
    }

    fn changes(&mut self) -> Vec<Change> {
        core::mem::take(&mut self.0.borrow_mut().changes)
    }

    fn open(
        &mut self,
        token: u64,
        address: SocketAddr,
        _device: Option<&str>,
    ) -> Result<(FakeSocket, BufferSizes), String> {
        let mut world = self.0.borrow_mut();
        if world.taken.contains(&address) {
            return Err(format!("{address}: in use"));
        }
        assert!(world.open.insert(address), "{address} is open twice");
        world.interests.insert(token, Interest::Read);
        let buffers = BufferSizes {
            receive_bytes: 1 << 20,
            send_bytes: 1 << 20,
        };
        let socket = FakeSocket {
            world: Rc::clone(&self.0),
            token,
            address,
        };
        Ok((socket, buffers))
    }

    fn watch(&mut self, socket: &FakeSocket, token: u64, interest: Interest) -> io::Result<()> {
        assert_eq!(socket.token, token);
        self.0.borrow_mut().interests.insert(token, interest);
        Ok(())
    }

    fn close(&mut self, socket: FakeSocket) {
        let mut world = self.0.borrow_mut();
        world.interests.remove(&socket.token);
        world.queues.remove(&socket.address);
        assert!(world.open.remove(&socket.address));
    }

    fn ask_again(&mut self, device: u32) {
        self.0.borrow_mut().asked.push(device);
    }
}

impl Socket for FakeSocket {
    fn send(&self, transmit: &Transmit, bytes: &[u8]) -> Result<(), SendError> {
        let mut world = self.world.borrow_mut();
        world.tried += 1;
        if let Some(refusal) = world.refusals.pop_front() {
            return Err(refusal);
        }
        for datagram in bytes.chunks(transmit.segment_bytes) {
            let datagram = (self.address, transmit.to, datagram.to_vec());
            world.sent.push(datagram);
        }
        Ok(())
    }

    fn recv(&self, batch: &mut ReceiveBatch) -> Result<usize, RecvError> {
        batch.clear();
        let mut world = self.world.borrow_mut();
        let queue = world.queues.entry(self.address).or_default();
        let mut count = 0;
        while let Some((from, bytes)) = queue.front()
            && batch.push(*from, bytes)
        {
            queue.pop_front();
            count += 1;
        }
        Ok(count)
    }

    fn counters(&self) -> UdpCounters {
        self.world.borrow().counters
    }

    fn set_filter(&self, filter: &[Instruction]) -> io::Result<()> {
        let mut world = self.world.borrow_mut();
        if world.filter_max.is_some_and(|max| filter.len() > max) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        world.filters.push(Some(filter.to_vec()));
        Ok(())
    }

    fn clear_filter(&self) -> io::Result<()> {
        self.world.borrow_mut().filters.push(None);
        Ok(())
    }
}
