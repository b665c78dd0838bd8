//! The subflows of the kernel's MPTCP connections (sock_diag(7), `MPTCP_SUBFLOW_ATTR_…` of
//! linux/mptcp.h).

use std::io;
use std::net::SocketAddr;

use super::message::{Message, attributes, text, u32_at};
use super::socket::Socket;
use super::tcp;

// linux/inet_diag.h, linux/mptcp.h; not in the libc crate.
const INET_DIAG_ULP_INFO: u16 = 19;
const ULP_INFO_NAME: u16 = 1;
const ULP_INFO_MPTCP: u16 = 3;
const SUBFLOW_TOKEN_LOCAL: u16 = 2;

/// One subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subflow {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Which connection it belongs to; no two of this namespace have the same. 0 of one that is
    /// being opened.
    pub connection: u32,
}

/// Lists subflows, in the network namespace that it was opened in.
#[derive(Debug)]
pub struct Subflows {
    socket: Socket,
}

impl Subflows {
    /// # Errors
    /// The kernel has no sock_diag.
    pub fn open() -> io::Result<Subflows> {
        let socket = Socket::diagnosis()?;
        Ok(Subflows { socket })
    }

    /// All that are established or being opened, of any program. Without CAP_NET_ADMIN over the
    /// network namespace none are visible.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn list(&mut self) -> io::Result<Vec<Subflow>> {
        tcp::list(&mut self.socket, tcp::ESTABLISHED | tcp::SYN_SENT, read)
    }
}

fn read(message: Message<'_>) -> Option<Subflow> {
    let (_, ulp) =
        attributes(tcp::details(message)?).find(|(kind, _)| *kind == INET_DIAG_ULP_INFO)?;
    let of_ulp = |wanted| attributes(ulp).find(|(kind, _)| *kind == wanted);
    if text(of_ulp(ULP_INFO_NAME)?.1) != "mptcp" {
        return None;
    }
    let (_, facts) = of_ulp(ULP_INFO_MPTCP)?;
    let (_, token) = attributes(facts).find(|(kind, _)| *kind == SUBFLOW_TOKEN_LOCAL)?;
    let (local, remote) = tcp::ends(message)?;
    Some(Subflow {
        local,
        remote,
        connection: u32_at(token, 0)?,
    })
}
