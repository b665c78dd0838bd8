//! Ports of programs, repeated in this node's own network namespace, so that others reach them as without
//! `tabane run`. The sockets belong to the programs' users, who may have them as well and do anything with
//! them: so nothing here waits for one, or trusts its state from when it was bound.
//!
//! The loop closes the socket of a port itself, within a millisecond, since another program may wait for the port;
//! everything else that a user has handed over is closed by a thread of that user's (`Lent` in `closing.rs`).

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;

use slab::Slab;
use tabane_io::alarm::Alarm;
use tabane_io::capture::{Datagrams, Listener, Outward, Sharing, Told};
use tabane_io::poll::{Interest, Poller};
use tabane_proto::Time;

use super::books::{OF_PLACE, OF_USER, is_within_share};
use super::correspondents::Correspondents;
use super::rights::Rights;
use super::words::{Claim, EACCES, Transport};
use super::{Opening, WAIT_MAX};
use crate::closing::Lent;

/// Ports of all programs together; further ones are reached by other programs under `tabane run`
/// alone (TCP), or as through a NAT (UDP).
pub const HOSTED_MAX: usize = 4096;
/// The [age](Port::age) from which a port is not new: one to two seconds.
const OLD: u8 = 2;
/// The age at which a lent port is given back if no connection has come meanwhile.
const LENT_MAX: u8 = 10;

/// Whose program it is.
#[derive(Clone, Copy, Debug)]
pub struct Claimant {
    /// Its place.
    pub place: usize,
    /// Its user.
    pub uid: u32,
    /// Its user's rights.
    pub rights: Rights,
    /// Whether the address that it claims is one of its place's own.
    pub has_address: bool,
}

impl Claimant {
    /// Whether its user may have such a port at all.
    pub fn may_have(&self, port: u16) -> bool {
        self.rights.may_have(self.uid, port)
    }

    /// The virtual NIC is not there, if only this user's programs have a daemon: then no plain program can
    /// have a port of its address.
    fn is_alone_there(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::AddrNotAvailable && self.has_address
    }
}

/// A port cannot be had.
#[derive(Debug)]
pub enum Denied {
    /// Nor could it without `tabane run`.
    Error(io::Error),
    /// A program of this place has it, or had it.
    Taken(usize),
    /// There is no socket to bind yet.
    Unready,
}

#[derive(Debug)]
enum Socket {
    Listener(Lent<Listener>),
    Datagrams(Lent<Datagrams>),
}

impl Socket {
    /// Binds one, and takes it then.
    fn bind(claim: &Claim, outward: Lent<Outward>) -> io::Result<Socket> {
        let sharing = Sharing {
            only_v6: claim.only_v6,
            by_address: claim.reuse_address,
            by_port: claim.reuse_port,
        };
        Ok(match claim.transport {
            Transport::Tcp => {
                outward.bind_to_listen(claim.address, sharing)?;
                Socket::Listener(outward.map(Listener::from))
            }
            Transport::Udp => {
                outward.bind_for_datagrams(claim.address, sharing)?;
                Socket::Datagrams(outward.map(Datagrams::from))
            }
        })
    }

    /// Closes it here.
    fn end(self) {
        match self {
            Socket::Listener(listener) => listener.here().end(),
            Socket::Datagrams(datagrams) => drop(datagrams.here()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Listener(listener) => listener.as_fd(),
            Socket::Datagrams(datagrams) => datagrams.as_fd(),
        }
    }
}

#[derive(Debug)]
struct Port {
    place: usize,
    uid: u32,
    transport: Transport,
    address: SocketAddr,
    /// One of IPv6 leaves IPv4 to others.
    only_v6: bool,
    socket: Socket,
    /// The program has not claimed it, but accepts connections there.
    is_lent: bool,
    /// Others reach it: one of TCP may be held only, for a program that does not listen yet.
    is_open: bool,
    /// How often it was looked whether anything is old, since then.
    age: u8,
}

impl Port {
    /// Whether it is what `address` is asked for, or one of both cannot be had beside the other.
    fn meets(&self, transport: Transport, address: SocketAddr, only_v6: bool) -> bool {
        let (one, other) = (
            self.address.ip().to_canonical(),
            address.ip().to_canonical(),
        );
        let covers = |any: IpAddr, only_v6: bool, ip: IpAddr| {
            any.is_unspecified() && (any.is_ipv6() == ip.is_ipv6() || any.is_ipv6() && !only_v6)
        };
        (self.transport, self.address.port()) == (transport, address.port())
            && (one == other || covers(one, self.only_v6, other) || covers(other, only_v6, one))
    }

    /// Whether it is a port of TCP that a connection for this end meets, and that its user still has.
    fn takes(&self, to: SocketAddr) -> bool {
        self.meets(Transport::Tcp, to, true) && self.is_had()
    }

    /// Whether the user still has it: it may have given it up through the socket. UDP ports are not checked.
    fn is_had(&self) -> bool {
        match &self.socket {
            Socket::Listener(listener) => listener.has(self.address, self.only_v6),
            Socket::Datagrams(_) => true,
        }
    }

    /// Whether others find a listener there.
    fn listens(&self) -> bool {
        matches!(&self.socket, Socket::Listener(listener) if listener.listens())
    }

    /// Its program may be about to listen: the agent does a moment before it. (One that was lent listened
    /// before.)
    fn is_new(&self) -> bool {
        self.age < OLD && !self.is_lent
    }
}

/// All such ports.
#[derive(Debug)]
pub struct Hosted {
    poller: Arc<Poller>,
    alarm: Rc<Alarm>,
    ports: Slab<Port>,
    by_address: HashMap<(usize, Transport, SocketAddr), usize>,
    correspondents: Correspondents,
    /// How many found no room.
    pub full: u64,
    /// How many found a user with all of its share.
    pub share_full: u64,
}

impl Hosted {
    /// Empty at first. The alarm is this thread's.
    pub fn new(poller: &Arc<Poller>, alarm: &Rc<Alarm>) -> Hosted {
        Hosted {
            poller: Arc::clone(poller),
            alarm: Rc::clone(alarm),
            ports: Slab::new(),
            by_address: HashMap::new(),
            correspondents: Correspondents::default(),
            full: 0,
            share_full: 0,
        }
    }

    /// Gives the program of a place a port: which (0: its kernel may choose, and it is not reached by
    /// others until it listens). `spare` is a socket of its user, if there is one, and taken if it is
    /// wanted. `token` makes the poller's tokens.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn claim(
        &mut self,
        who: Claimant,
        claim: &Claim,
        spare: &mut Option<Lent<Outward>>,
        token: impl Fn(usize) -> u64,
    ) -> Result<u16, Denied> {
        let (transport, address) = (claim.transport, claim.address);
        if let Some(&index) = self.by_address.get(&(who.place, transport, address)) {
            // It is one of several that share the port, or listens now.
            self.ports[index].is_lent = false;
            if !claim.is_held {
                self.open(index, token)
                    .map_err(|error| self.denied(who.place, claim, error))?;
            }
            return Ok(address.port());
        }
        self.may_claim(who, claim)?;
        if spare.is_none() {
            return Err(Denied::Unready);
        }
        // The user now claims the lent port, perhaps at more addresses.
        self.retain(|port| {
            let met = port.meets(transport, address, claim.only_v6);
            !(port.is_lent && port.uid == who.uid && met)
        });
        if !self.has_room(who) {
            return Ok(address.port());
        }
        let outward = spare.take().ok_or(Denied::Unready)?;
        let socket = match Socket::bind(claim, outward) {
            Ok(socket) => socket,
            Err(error) if who.is_alone_there(&error) => return Ok(address.port()),
            Err(error) => return Err(self.denied(who.place, claim, error)),
        };
        self.take(who, claim, socket, token)
    }

    /// The program of a place accepts connections to a port that it is not known to have claimed: it gets
    /// the port at this node for as long as it does so, and nobody else can have it. If that fails, it does
    /// not get it; nor without a socket, until it accepts the next time. (`spare` and `token`: as in
    /// [`Hosted::claim`].)
    pub fn lend(
        &mut self,
        who: Claimant,
        to: SocketAddr,
        spare: &mut Option<Lent<Outward>>,
        token: impl Fn(usize) -> u64,
    ) {
        let met = self.ports.iter_mut().map(|(_, port)| port);
        let mut met =
            met.filter(|port| port.uid == who.uid && port.meets(Transport::Tcp, to, true));
        if let Some(port) = met.next() {
            if port.is_lent {
                port.age = 0;
            }
            return;
        }
        let claim = exclusive(to);
        let can_be = self.may_claim(who, &claim).is_ok();
        if !can_be || spare.is_none() || !self.has_room(who) {
            return;
        }
        if let Some(outward) = spare.take()
            && let Ok(socket) = Socket::bind(&claim, outward)
            && self.take(who, &claim, socket, token).is_ok()
            && let Some(&index) = self.by_address.get(&(who.place, Transport::Tcp, to))
        {
            self.ports[index].is_lent = true;
        }
    }

    /// Whether the kernel would let a program of this user listen there: the user has the port already, or
    /// nobody has it, under `tabane run` or not.
    pub fn could_listen(&self, who: Claimant, to: SocketAddr) -> bool {
        if !who.may_have(to.port()) {
            return false;
        }
        let mut listens = false;
        for (_, port) in self.ports.iter().filter(|(_, port)| port.takes(to)) {
            if port.uid != who.uid {
                return false;
            }
            listens |= port.listens();
        }
        if listens {
            return true;
        }
        match try_to_listen(to) {
            Ok(()) => true,
            Err(error) => who.is_alone_there(&error),
        }
    }

    /// The users that listen at the port of TCP that a connection is for, and their places: one user, if the
    /// kernel had its way.
    pub fn holders(&self, to: SocketAddr) -> Vec<(u32, usize)> {
        let ports = self.ports.iter().map(|(_, port)| port);
        let met = ports.filter(|port| port.takes(to) && port.listens());
        met.map(|port| (port.uid, port.place)).collect()
    }

    /// Whether the claimant may have the port, as far as this node's kernel does not see to it when it is bound.
    fn may_claim(&self, who: Claimant, claim: &Claim) -> Result<(), Denied> {
        let (transport, address) = (claim.transport, claim.address);
        // The agent itself may bind root's ports.
        if !who.may_have(address.port()) {
            return Err(Denied::Error(io::Error::from_raw_os_error(EACCES)));
        }
        // For TCP the kernel lets two users have a port without a listener: all sockets here have
        // SO_REUSEADDR.
        let mut ports = self.ports.iter().map(|(_, port)| port);
        let others = ports.find(|port| {
            let met = address.port() != 0 && port.meets(transport, address, claim.only_v6);
            met && port.uid != who.uid && transport == Transport::Tcp && port.is_had()
        });
        match others {
            Some(other) => Err(Denied::Taken(other.place)),
            None => Ok(()),
        }
    }

    /// Whether there is room for another port of a place; if not, that is counted.
    fn has_room(&mut self, who: Claimant) -> bool {
        if self.ports.len() >= HOSTED_MAX {
            self.full += 1;
            return false;
        }
        let count = |is_of: &dyn Fn(&Port) -> bool| {
            let of = self.ports.iter().filter(|(_, port)| is_of(port));
            of.count()
        };
        let of_place = count(&|port| port.place == who.place);
        let of_user = count(&|port| port.uid == who.uid);
        let free = HOSTED_MAX - self.ports.len();
        let is_share =
            is_within_share(of_place, free, OF_PLACE) && is_within_share(of_user, free, OF_USER);
        self.share_full += u64::from(!is_share);
        is_share
    }

    /// Records that a bound port belongs to a place.
    fn take(
        &mut self,
        who: Claimant,
        claim: &Claim,
        socket: Socket,
        token: impl Fn(usize) -> u64,
    ) -> Result<u16, Denied> {
        let (transport, mut address) = (claim.transport, claim.address);
        let local = match &socket {
            Socket::Listener(listener) => listener.local_address(),
            Socket::Datagrams(datagrams) => datagrams.local_address(),
        };
        address.set_port(local.map_err(Denied::Error)?.port());
        let index = self.ports.insert(Port {
            place: who.place,
            uid: who.uid,
            transport,
            address,
            only_v6: claim.only_v6,
            socket,
            is_lent: false,
            is_open: false,
            age: 0,
        });
        let key = (who.place, transport, address);
        self.by_address.insert(key, index);
        if !claim.is_held {
            self.open(index, token)
                .map_err(|error| self.denied(who.place, claim, error))?;
        }
        Ok(address.port())
    }

    /// Opens a port to others, if it is not open. If that fails, it is nobody's any more.
    fn open(&mut self, index: usize, token: impl Fn(usize) -> u64) -> io::Result<()> {
        let port = &mut self.ports[index];
        if port.is_open {
            return Ok(());
        }
        let listens = match &port.socket {
            Socket::Listener(listener) => listener.listen(),
            Socket::Datagrams(_) => Ok(()),
        };
        let opened = listens.and_then(|()| {
            self.poller
                .register(&port.socket, token(index), Interest::Read)
        });
        port.is_open = true;
        port.age = 0;
        if opened.is_err() {
            self.forget(&[index]);
        }
        opened
    }

    fn denied(&self, place: usize, claim: &Claim, error: io::Error) -> Denied {
        let mut others = self.ports.iter().filter(|(_, port)| {
            port.place != place
                && port.transport == claim.transport
                && port.address.port() == claim.address.port()
        });
        match (error.kind(), others.next()) {
            (io::ErrorKind::AddrInUse, Some((_, other))) => Denied::Taken(other.place),
            _ => Denied::Error(error),
        }
    }

    /// The place that a port is of, and whether it is one of datagrams.
    pub fn place_of(&self, index: usize) -> Option<(usize, Transport)> {
        let port = self.ports.get(index)?;
        Some((port.place, port.transport))
    }

    /// The next connection to a listener: the socket, and both its ends.
    ///
    /// # Errors
    /// No descriptors are left; the connection still waits then.
    pub fn accept(&self, index: usize) -> io::Result<Option<(TcpStream, Opening)>> {
        let Some(Socket::Listener(listener)) = self.ports.get(index).map(|port| &port.socket)
        else {
            return Ok(None);
        };
        let accepted = listener.accept()?;
        Ok(accepted.map(|(plain, from, to)| (plain, Opening { from, to })))
    }

    /// Receives the next datagram: source, destination, and its length in `buffer`.
    ///
    /// # Errors
    /// It cannot be read now.
    pub fn receive(
        &mut self,
        now: Time,
        index: usize,
        buffer: &mut [u8],
    ) -> io::Result<Option<(SocketAddr, SocketAddr, usize)>> {
        let Some(port) = self.ports.get(index) else {
            return Ok(None);
        };
        let Socket::Datagrams(datagrams) = &port.socket else {
            return Ok(None);
        };
        let Some((from, mut to, bytes)) = datagrams.receive(buffer)? else {
            return Ok(None);
        };
        if port.address.ip().is_unspecified() {
            to = self.correspondents.asked(now, index, from, to);
        }
        Ok(Some((from, (to, port.address.port()).into(), bytes)))
    }

    /// The next error of a datagram that the program of a port has sent, and the address it was sent from,
    /// if the program has bound one.
    pub fn next_told(&self, index: usize) -> Option<(SocketAddr, Told)> {
        let port = self.ports.get(index)?;
        let Socket::Datagrams(datagrams) = &port.socket else {
            return None;
        };
        Some((port.address, datagrams.next_told()?))
    }

    /// Sends a datagram from the program's port. `is_chosen`: the program chose that address. `None`: there
    /// is no such port.
    ///
    /// # Errors
    /// Those of send(2), but not errors of earlier datagrams.
    pub fn send(
        &mut self,
        now: Time,
        place: usize,
        from: SocketAddr,
        is_chosen: bool,
        to: SocketAddr,
        data: &[u8],
    ) -> Option<io::Result<()>> {
        // One of IPv6 may be for both families.
        let any = match from {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let any = [from.ip(), any, Ipv6Addr::UNSPECIFIED.into()];
        let index = any.into_iter().find_map(|ip| {
            let address = (place, Transport::Udp, (ip, from.port()).into());
            self.by_address.get(&address).copied()
        });
        let index = index?;
        let port = &self.ports[index];
        let Socket::Datagrams(datagrams) = &port.socket else {
            return None;
        };
        let mut source = is_chosen.then_some(from.ip());
        if port.address.ip().is_unspecified() {
            let inside = (!is_chosen).then_some(from.ip());
            let asked = self.correspondents.sent(now, index, to, inside);
            source = source.or(asked);
        }
        Some(datagrams.send(source, to, data))
    }

    /// A place has said that its programs have no such port any more.
    pub fn close(&mut self, place: usize, transport: Transport, port: u16) {
        self.retain(|it| (it.place, it.transport, it.address.port()) != (place, transport, port));
    }

    /// Nothing listens in a place where a connection was for. Returns whether it had that port.
    pub fn doubt(&mut self, place: usize, to: SocketAddr) -> bool {
        let is_it = |it: &Port| it.place == place && it.meets(Transport::Tcp, to, true);
        let had = self.ports.iter().any(|(_, it)| is_it(it));
        if had {
            self.retain(|it| it.is_new() || !is_it(it));
        }
        had
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ports.len()
    }

    /// All of a place.
    pub fn forget_place(&mut self, place: usize) {
        self.retain(|it| it.place != place);
    }

    /// Forgets correspondents that asked long ago.
    pub fn forget_old(&mut self, now: Time) {
        self.correspondents.forget_old(now);
        for (_, port) in &mut self.ports {
            port.age = port.age.saturating_add(1);
        }
        self.retain(|port| !port.is_lent || port.age < LENT_MAX);
    }

    fn retain(&mut self, keeps: impl Fn(&Port) -> bool) {
        let goes = |(index, port): (usize, &Port)| (!keeps(port)).then_some(index);
        let gone: Vec<usize> = self.ports.iter().filter_map(goes).collect();
        self.forget(&gone);
    }

    /// Gives ports up.
    fn forget(&mut self, indexes: &[usize]) {
        if indexes.is_empty() {
            return;
        }
        let gone: Vec<Port> = indexes.iter().map(|it| self.ports.remove(*it)).collect();
        let ports = &self.ports;
        self.by_address.retain(|_, index| ports.contains(*index));
        self.correspondents.retain(|index| ports.contains(index));
        let poller = &self.poller;
        // Here, and not in their users' threads: others may wait for the ports, or are told at once that
        // they are free.
        self.alarm.bounds(WAIT_MAX, || {
            for port in gone {
                // Its user may have the socket still, so that closing it is not enough.
                let _ = poller.deregister(&port.socket);
                port.socket.end();
            }
        });
    }
}

/// Tests whether somebody could listen there, and nobody else does.
fn try_to_listen(at: SocketAddr) -> io::Result<()> {
    let socket = Outward::new(true, at.is_ipv6())?;
    socket.bind_to_listen(at, Sharing::default())?;
    Listener::from(socket).listen()
}

/// A port of TCP at one address that is not shared, and listens.
const fn exclusive(address: SocketAddr) -> Claim {
    Claim {
        transport: Transport::Tcp,
        address,
        only_v6: true,
        reuse_address: false,
        reuse_port: false,
        is_held: false,
    }
}
