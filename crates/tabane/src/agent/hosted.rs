//! Ports of programs, repeated in this node's own network namespace, so that others reach them as if
//! there were no `tabane run`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

use slab::Slab;
use tabane_io::capture::{Datagrams, Listener, Sharing};
use tabane_io::poll::{Interest, Poller};
use tabane_proto::Time;

use super::Opening;
use super::books::{OF_PLACE, OF_USER, is_within_share};
use super::correspondents::Correspondents;
use super::words::{Claim, EACCES, Transport};

/// Ports of all programs together; further ones are reached by other programs under `tabane run`
/// alone (TCP), or as through a NAT (UDP).
pub const HOSTED_MAX: usize = 4096;
/// Below this a port is root's, if the system does not say.
const UNPRIVILEGED_PORT_MIN: u16 = 1024;
const ROOT: u32 = 0;
/// The [age](Port::age) of what is no longer new: one to two seconds.
const OLD: u8 = 2;

/// Whose program it is.
#[derive(Clone, Copy, Debug)]
pub struct Claimant {
    /// Its place.
    pub place: usize,
    /// Its user.
    pub uid: u32,
    /// Whether the address that it claims is one of its place's own.
    pub has_address: bool,
}

/// A port cannot be had.
#[derive(Debug)]
pub enum Denied {
    /// Nor could it without `tabane run`.
    Error(io::Error),
    /// A program of this place has it, or had it.
    Taken(usize),
}

#[derive(Debug)]
enum Socket {
    Listener(Listener),
    Datagrams(Datagrams),
}

#[derive(Debug)]
struct Port {
    place: usize,
    uid: u32,
    transport: Transport,
    address: SocketAddr,
    socket: Socket,
    /// Others reach it: one of TCP may be held only, for a program that does not listen yet.
    is_open: bool,
    /// How often it was looked whether anything is old, since then.
    age: u8,
}

impl Port {
    fn is_of_tcp(&self, port: u16) -> bool {
        self.transport == Transport::Tcp && self.address.port() == port
    }

    /// Its program may be about to listen: the agent does a moment before it.
    fn is_new(&self) -> bool {
        self.age < OLD
    }
}

/// All such ports.
#[derive(Debug, Default)]
pub struct Hosted {
    ports: Slab<Port>,
    by_address: HashMap<(usize, Transport, SocketAddr), usize>,
    correspondents: Correspondents,
    /// How many found no room.
    pub full: u64,
    /// How many found a user with all of its share.
    pub share_full: u64,
}

impl Hosted {
    /// Gives the program of a place a port: which (0: its kernel may choose, and it is not reached by
    /// others until it listens). `token` makes the poller's tokens.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn claim(
        &mut self,
        who: Claimant,
        claim: &Claim,
        poller: &Poller,
        token: impl Fn(usize) -> u64,
    ) -> Result<u16, Denied> {
        let (transport, mut address) = (claim.transport, claim.address);
        if let Some(&index) = self.by_address.get(&(who.place, transport, address)) {
            // It is one of several that share the port, or listens now.
            if !claim.is_held {
                self.open(index, poller, token)
                    .map_err(|error| self.denied(who.place, claim, error))?;
            }
            return Ok(address.port());
        }
        if self.ports.len() >= HOSTED_MAX {
            self.full += 1;
            return Ok(address.port());
        }
        let count = |is_of: &dyn Fn(&Port) -> bool| {
            let of = self.ports.iter().filter(|(_, port)| is_of(port));
            of.count()
        };
        let of_place = count(&|port| port.place == who.place);
        let of_user = count(&|port| port.uid == who.uid);
        let free = HOSTED_MAX - self.ports.len();
        if !is_within_share(of_place, free, OF_PLACE) || !is_within_share(of_user, free, OF_USER) {
            self.share_full += 1;
            return Ok(address.port());
        }
        if who.uid != ROOT && (1..unprivileged_port_min()).contains(&address.port()) {
            return Err(Denied::Error(io::Error::from_raw_os_error(EACCES)));
        }
        let sharing = self.sharing(who, claim);
        let socket = match transport {
            Transport::Tcp => Listener::bind(address, sharing).map(Socket::Listener),
            Transport::Udp => Datagrams::bind(address, sharing).map(Socket::Datagrams),
        };
        let socket = match socket {
            Ok(socket) => socket,
            // The virtual NIC is not there, if only this user's programs have a daemon.
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && who.has_address => {
                return Ok(address.port());
            }
            Err(error) => return Err(self.denied(who.place, claim, error)),
        };
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
            socket,
            is_open: false,
            age: 0,
        });
        let key = (who.place, transport, address);
        self.by_address.insert(key, index);
        if !claim.is_held {
            self.open(index, poller, token)
                .map_err(|error| self.denied(who.place, claim, error))?;
        }
        Ok(address.port())
    }

    /// Others reach a port from now on, if they did not before. If that cannot be, it is nobody's any more.
    fn open(
        &mut self,
        index: usize,
        poller: &Poller,
        token: impl Fn(usize) -> u64,
    ) -> io::Result<()> {
        let port = &mut self.ports[index];
        if port.is_open {
            return Ok(());
        }
        let opened = match &port.socket {
            Socket::Listener(listener) => listener
                .listen()
                .and_then(|()| poller.register(listener, token(index), Interest::Read)),
            Socket::Datagrams(datagrams) => {
                poller.register(datagrams, token(index), Interest::Read)
            }
        };
        port.is_open = true;
        port.age = 0;
        if opened.is_err() {
            let address = (port.place, port.transport, port.address);
            self.by_address.remove(&address);
            self.ports.remove(index);
        }
        opened
    }

    /// Ports are shared among the programs of one user: to the kernel, all of them are the agent's.
    fn sharing(&self, who: Claimant, claim: &Claim) -> Sharing {
        let is_others = self.ports.iter().any(|(_, port)| {
            port.uid != who.uid
                && port.transport == claim.transport
                && port.address.port() == claim.address.port()
        });
        Sharing {
            only_v6: claim.only_v6,
            by_address: claim.reuse_address && !is_others,
            by_port: claim.reuse_port && !is_others,
        }
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

    /// The next datagram: from whom, to whom, and how many bytes of it are in `buffer`.
    pub fn receive(
        &mut self,
        now: Time,
        index: usize,
        buffer: &mut [u8],
    ) -> Option<(SocketAddr, SocketAddr, usize)> {
        let port = self.ports.get(index)?;
        let Socket::Datagrams(datagrams) = &port.socket else {
            return None;
        };
        let (from, mut to, bytes) = datagrams.receive(buffer).ok()??;
        if port.address.ip().is_unspecified() {
            to = self.correspondents.asked(now, index, from, to);
        }
        Some((from, (to, port.address.port()).into(), bytes))
    }

    /// Whom the program of a port has sent something to though there is nobody, and from which
    /// address, where it has bound one.
    pub fn next_refusal(&self, index: usize) -> Option<(SocketAddr, SocketAddr)> {
        let port = self.ports.get(index)?;
        let Socket::Datagrams(datagrams) = &port.socket else {
            return None;
        };
        Some((port.address, datagrams.next_refusal()?))
    }

    /// Sends a datagram from the port that a program has sent it from. `is_chosen`: the program
    /// chose that address. Returns `false` if there is no such port.
    pub fn send(
        &mut self,
        now: Time,
        place: usize,
        from: SocketAddr,
        is_chosen: bool,
        to: SocketAddr,
        data: &[u8],
    ) -> bool {
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
        let Some(index) = index else {
            return false;
        };
        let port = &self.ports[index];
        if let Socket::Datagrams(datagrams) = &port.socket {
            let mut source = is_chosen.then_some(from.ip());
            if port.address.ip().is_unspecified() {
                let inside = (!is_chosen).then_some(from.ip());
                let asked = self.correspondents.sent(now, index, to, inside);
                source = source.or(asked);
            }
            // What is lost here might have been lost anywhere.
            let _ = datagrams.send(source, to, data);
        }
        true
    }

    /// A place has said that its programs have no such port any more.
    pub fn close(&mut self, place: usize, transport: Transport, port: u16) {
        self.retain(|it| (it.place, it.transport, it.address.port()) != (place, transport, port));
    }

    /// Nothing listens at a port in a place.
    pub fn doubt(&mut self, place: usize, port: u16) {
        let is_it = |it: &Port| it.place == place && it.is_of_tcp(port);
        self.retain(|it| it.is_new() || !is_it(it));
    }

    /// The places whose programs have this port.
    pub fn places_at(&self, transport: Transport, port: u16) -> HashSet<usize> {
        let ports = self.ports.iter().map(|(_, it)| it);
        let at = ports.filter(|it| (it.transport, it.address.port()) == (transport, port));
        at.map(|it| it.place).collect()
    }

    /// No program listens at this port any more. Returns whether one did.
    pub fn close_port(&mut self, port: u16) -> bool {
        let was_there = self.ports.iter().any(|(_, it)| it.is_of_tcp(port));
        self.retain(|it| it.is_new() || !it.is_of_tcp(port));
        was_there
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ports.len()
    }

    /// All of a place.
    pub fn forget_place(&mut self, place: usize) {
        self.retain(|it| it.place != place);
    }

    /// Forgets who asked long ago.
    pub fn forget_old(&mut self, now: Time) {
        self.correspondents.forget_old(now);
        for (_, port) in &mut self.ports {
            port.age = port.age.saturating_add(1);
        }
    }

    /// Closing a socket takes it out of the poller.
    fn retain(&mut self, keeps: impl Fn(&Port) -> bool) {
        self.ports.retain(|_, port| keeps(port));
        let ports = &self.ports;
        self.by_address.retain(|_, index| ports.contains(*index));
        self.correspondents.retain(|index| ports.contains(index));
    }
}

/// ip_unprivileged_port_start (ip-sysctl.rst).
fn unprivileged_port_min() -> u16 {
    let said = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let number = said.ok().and_then(|said| said.trim().parse().ok());
    number.unwrap_or(UNPRIVILEGED_PORT_MIN)
}
