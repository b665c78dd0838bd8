//! Filling the bundle on purpose, to see what its links carry.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Instant;

/// "Discard" (RFC 863): a listener there discards the data; without one, the host says
/// so now and then.
const PORT: u16 = 9;
/// Fits the virtual NIC's MTU of 62,000 with its headers.
const DATAGRAM_BYTES: usize = 60_000;

/// Sends to a peer's virtual NIC, as much as is taken, until it is time to stop.
pub fn fill(own: IpAddr, peer: IpAddr, until: Instant) -> std::io::Result<()> {
    let socket = UdpSocket::bind(SocketAddr::new(own, 0))?;
    socket.connect(SocketAddr::new(peer, PORT))?;
    let datagram = vec![0; DATAGRAM_BYTES];
    while Instant::now() < until {
        // "Port unreachable" or a full queue are both expected.
        if socket.send(&datagram).is_err() {
            std::thread::yield_now();
        }
    }
    Ok(())
}
