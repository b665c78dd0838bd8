//! A datagram to a peer's UDP port, and the network's answer.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// The answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KnockAnswer {
    /// Nothing: a listener is silent, or the datagram did not get there.
    Silence,
    /// "Port unreachable": the machine is there and nobody has the port, or its
    /// firewall claims that.
    Closed,
    /// "Prohibited": a firewall on the way says so.
    Prohibited,
    /// This machine does not let it out: a rule of its own firewall.
    RefusedHere,
}

/// A socket of this machine that is connected to one port of another.
#[derive(Debug)]
pub struct Knock {
    socket: UdpSocket,
}

impl Knock {
    /// From `local`, and through `device` where that is permitted, to `remote`.
    ///
    /// # Errors
    /// `local` is not this machine's, or there is no way to `remote`.
    pub fn open(local: IpAddr, device: Option<&str>, remote: SocketAddr) -> io::Result<Knock> {
        let socket = Socket::new(
            Domain::for_address(remote),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        // Without it the routing table chooses, most likely the same device.
        let _ = device.map(|name| socket.bind_device(Some(name.as_bytes())));
        socket.bind(&SocketAddr::new(local, 0).into())?;
        socket.connect(&remote.into())?;
        Ok(Knock {
            socket: socket.into(),
        })
    }

    /// Sends one datagram of one zero byte, which no program can mistake for a message,
    /// and waits at most `patience` for an answer.
    ///
    /// # Errors
    /// Other errors of the system, for example that the link is down.
    pub fn knock(&self, patience: Duration) -> io::Result<KnockAnswer> {
        match self.socket.send(&[0]) {
            Ok(_) => {}
            Err(error) => return answer(error),
        }
        self.socket
            .set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        match self.socket.recv(&mut [0; 64]) {
            // Somebody answers to anything; the port is open all the same.
            Ok(_) => Ok(KnockAnswer::Silence),
            Err(error) => answer(error),
        }
    }
}

/// A connected socket without `IP_RECVERR` gets only final errors: "host unreachable"
/// is final only when a firewall says "prohibited" (icmp(7), `icmp_err_convert` of the
/// kernel).
fn answer(error: io::Error) -> io::Result<KnockAnswer> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
            Ok(KnockAnswer::Silence)
        }
        ErrorKind::ConnectionRefused => Ok(KnockAnswer::Closed),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Ok(KnockAnswer::Prohibited),
        ErrorKind::PermissionDenied => match error.raw_os_error() {
            Some(libc::EACCES) => Ok(KnockAnswer::Prohibited),
            _ => Ok(KnockAnswer::RefusedHere),
        },
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn a_closed_port_says_so_and_an_open_one_is_silent() {
        let open = UdpSocket::bind((LOOPBACK, 0)).unwrap();
        let closed = UdpSocket::bind((LOOPBACK, 0)).unwrap();
        let (there, gone) = (open.local_addr().unwrap(), closed.local_addr().unwrap());
        drop(closed);
        let knock = |to| Knock::open(LOOPBACK, None, to).unwrap();
        let patience = Duration::from_millis(200);
        assert_eq!(knock(there).knock(patience).unwrap(), KnockAnswer::Silence);
        let (count, from) = open.recv_from(&mut [0; 9]).unwrap();
        assert_eq!((count, from.ip()), (1, LOOPBACK));
        // Loopback answers within the call; a long wait costs nothing.
        let patience = Duration::from_secs(20);
        assert_eq!(knock(gone).knock(patience).unwrap(), KnockAnswer::Closed);
    }
}
