//! Ports that this machine's own programs are not to have, since a program of another node has them.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

/// A port of an address of this machine, as long as this is there. Nothing comes to it from outside, and whoever connects to it on this machine is
/// refused.
#[derive(Debug)]
pub struct HeldPort {
    _socket: Socket,
    number: u16,
}

impl HeldPort {
    /// Takes the port of TCP, or else of UDP; of number 0 any that is free.
    ///
    /// # Errors
    /// `AddrInUse`: a program of this machine has it. `AddrNotAvailable`: the machine has not got the address. Or it may not, or has no
    /// descriptors left.
    pub fn take(is_tcp: bool, address: SocketAddr) -> io::Result<HeldPort> {
        let socket = match bound(is_tcp, address, false) {
            // Connections that this machine had there, and that are over, are no reason not to have it.
            Err(error) if is_tcp && error.kind() == io::ErrorKind::AddrInUse => {
                let socket = bound(is_tcp, address, true)?;
                // Else another one that takes this for no reason may have it, too.
                socket.listen(0)?;
                socket
            }
            bound => bound?,
        };
        let bound = socket.local_addr()?.as_socket();
        let number = bound
            .map(|bound| bound.port())
            .ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(HeldPort {
            _socket: socket,
            number,
        })
    }

    /// Which one it is.
    pub const fn number(&self) -> u16 {
        self.number
    }
}

/// A socket that is bound there; `reuse`: also where connections have been that are over.
fn bound(is_tcp: bool, address: SocketAddr, reuse: bool) -> io::Result<Socket> {
    let (kind, protocol) = match is_tcp {
        true => (Type::STREAM, Protocol::TCP),
        false => (Type::DGRAM, Protocol::UDP),
    };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(reuse)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
    use std::time::{Duration, Instant};

    use super::*;

    /// None that a socket of another test is bound to.
    const HERE: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 31);
    /// A fork of another test has a copy of every descriptor until it ends.
    const FORK_MAX: Duration = Duration::from_secs(10);

    #[test]
    fn a_held_port_is_nobody_elses_until_it_is_dropped() {
        for is_tcp in [true, false] {
            let held = HeldPort::take(is_tcp, (HERE, 0).into()).unwrap();
            let at = SocketAddr::from((HERE, held.number()));
            let other = |at: SocketAddr| match is_tcp {
                // With SO_REUSEADDR, as std has it.
                true => TcpListener::bind(at).map(drop),
                false => UdpSocket::bind(at).map(drop),
            };
            assert_eq!(other(at).unwrap_err().kind(), ErrorKind::AddrInUse);
            let again = HeldPort::take(is_tcp, at).unwrap_err();
            assert_eq!(again.kind(), ErrorKind::AddrInUse);
            if is_tcp {
                let refused = TcpStream::connect(at).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            }
            drop(held);
            let end = Instant::now() + FORK_MAX;
            while let Err(error) = other(at) {
                assert!(Instant::now() < end, "{error}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn what_a_program_has_cannot_be_held() {
        let program = TcpListener::bind((HERE, 0)).unwrap();
        let at = program.local_addr().unwrap();
        assert_eq!(
            HeldPort::take(true, at).unwrap_err().kind(),
            ErrorKind::AddrInUse
        );
        let far = SocketAddr::from(([192, 0, 2, 1], 0));
        assert_eq!(
            HeldPort::take(true, far).unwrap_err().kind(),
            ErrorKind::AddrNotAvailable
        );
    }
}
