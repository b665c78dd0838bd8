//! A socket that speaks to everybody on one interface's network, and hears what is said there: for machines that do not know
//! each other's addresses.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// Sockets of one interface, of each family that it has an address of.
#[derive(Debug)]
pub struct Broadcast(Vec<(UdpSocket, SocketAddr)>);

impl Broadcast {
    /// On the interface of this name and index, at this port, by IPv4 (255.255.255.255) and by IPv6 (`ff02::1`, all nodes of
    /// the link, RFC 4291), as `ipv4` and `ipv6` say. No privilege is needed (Linux 5.7 or later).
    ///
    /// # Errors
    /// No family can be used: the port is taken (`AddrInUse`), say.
    pub fn open(
        interface: &str,
        index: u32,
        port: u16,
        ipv4: bool,
        ipv6: bool,
    ) -> io::Result<Broadcast> {
        let four = SocketAddr::from((Ipv4Addr::BROADCAST, port));
        let all = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let six = SocketAddr::V6(SocketAddrV6::new(all, port, 0, index));
        let wanted = [(four, ipv4), (six, ipv6)];
        let wanted = wanted.into_iter().filter_map(|(to, is)| is.then_some(to));
        let (mut open, mut error) = (Vec::new(), ErrorKind::AddrNotAvailable.into());
        for everybody in wanted {
            match socket(interface, everybody) {
                Ok(socket) => open.push((socket, everybody)),
                Err(refused) => error = refused,
            }
        }
        match open.is_empty() {
            true => Err(error),
            false => Ok(Broadcast(open)),
        }
    }

    /// Says it to everybody, as far as it can be said now.
    pub fn say(&self, datagram: &[u8]) {
        for (socket, everybody) in &self.0 {
            // A cable that is pulled, or a firewall: who asks again is heard later.
            let _ = socket.send_to(datagram, everybody);
        }
    }

    /// The length of what somebody has said, if anybody has; own words may be among that.
    pub fn hear(&self, buffer: &mut [u8]) -> Option<usize> {
        let mut heard = self.0.iter();
        heard.find_map(|(socket, _)| socket.recv(buffer).ok())
    }
}

fn socket(interface: &str, everybody: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(everybody),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.set_nonblocking(true)?;
    let any = match everybody {
        SocketAddr::V4(_) => {
            socket.set_broadcast(true)?;
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, everybody.port()))
        }
        SocketAddr::V6(_) => {
            socket.set_only_v6(true)?;
            // Nobody beyond the link.
            socket.set_multicast_hops_v6(1)?;
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, everybody.port()))
        }
    };
    socket.bind(&any.into())?;
    Ok(socket.into())
}
