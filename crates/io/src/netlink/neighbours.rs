//! The kernel's neighbours: the Ethernet addresses on a network (ARP, RFC 4861).

use std::io;
use std::net::IpAddr;

use super::message::{Message, Request, attributes, neighbour_header, u16_at, u32_at};
use super::socket::Socket;

/// A neighbour as the kernel knows it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the device it is on.
    pub device: u32,
    /// Its IP address.
    pub ip: IpAddr,
    /// Its Ethernet address; `None` while it is being asked for or when nobody answered.
    pub mac: Option<[u8; 6]>,
    /// It confirmed its Ethernet address a moment ago (`NUD_REACHABLE`).
    pub confirmed: bool,
    /// Nobody answered for it (`NUD_FAILED`).
    pub failed: bool,
}

/// All neighbours the kernel knows or asks for, on all devices.
///
/// # Errors
/// Where the kernel refuses. Needs no privileges.
pub fn neighbours() -> io::Result<Vec<Neighbour>> {
    let list = || {
        let header = neighbour_header(0, 0);
        Request::new(libc::RTM_GETNEIGH, libc::NLM_F_DUMP, &header)
    };
    Ok(Socket::new()?.dump(list, Neighbour::read)?)
}

impl Neighbour {
    fn read(message: Message<'_>) -> Option<Neighbour> {
        let body = message.body;
        if message.kind != libc::RTM_NEWNEIGH {
            return None;
        }
        let state = u16_at(body, 8)?;
        let (mut ip, mut mac) = (None, None);
        for (kind, value) in attributes(body.get(HEADER_BYTES..)?) {
            match kind {
                libc::NDA_DST => ip = super::read_ip(value),
                libc::NDA_LLADDR => mac = value.try_into().ok(),
                _ => {}
            }
        }
        Some(Neighbour {
            device: u32_at(body, 4)?,
            ip: ip?,
            mac: mac.filter(|_| state & UNRESOLVED == 0),
            confirmed: state & libc::NUD_REACHABLE != 0,
            failed: state & libc::NUD_FAILED != 0,
        })
    }
}

/// `struct ndmsg`, in front of the attributes.
const HEADER_BYTES: usize = 12;
/// Asked for without an answer so far, or given up.
const UNRESOLVED: u16 = libc::NUD_INCOMPLETE | libc::NUD_FAILED;

/// Makes the kernel look for neighbours sooner than it would by itself.
///
/// After a switch port comes up, the first question for a neighbour is usually lost, since the switch does not forward
/// yet, and the kernel asks again only after a second (`retrans_time_ms`). Nothing else can be sent to that neighbour
/// meanwhile. So the engine sends nothing on a link that the kernel reports down, and for three seconds after its return
/// has unanswered neighbours forgotten ten times a second (`crates/engine/src/links.rs`).
#[derive(Debug)]
pub struct Neighbours {
    route: Socket,
}

/// A neighbour whose Ethernet address is not known.
struct Unresolved {
    family: u8,
    address: Vec<u8>,
}

impl Neighbours {
    /// For the network namespace of the calling thread.
    ///
    /// # Errors
    /// Where the kernel refuses the socket. Needs no privileges.
    pub fn new() -> io::Result<Neighbours> {
        Ok(Neighbours {
            route: Socket::new()?,
        })
    }

    /// Forgets the neighbours on `device` (an index) that did not answer so far: the
    /// next packet to one of them asks at once. Packets that already wait for the answer
    /// are lost. Returns how many neighbours there were.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_NET_ADMIN; then the kernel's own pace must do.
    pub fn forget_unresolved(&mut self, device: u32) -> io::Result<usize> {
        let list = || {
            let header = neighbour_header(0, 0);
            Request::new(libc::RTM_GETNEIGH, libc::NLM_F_DUMP, &header)
        };
        let found = self.route.dump(list, |m| Unresolved::read(m, device))?;
        for neighbour in &found {
            let header = neighbour_header(neighbour.family, device);
            let mut request = Request::new(libc::RTM_DELNEIGH, libc::NLM_F_ACK, &header);
            request.attribute(libc::NDA_DST, &neighbour.address);
            match self.route.execute(request).map_err(io::Error::from) {
                // Answered or given up in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result?,
            }
        }
        Ok(found.len())
    }
}

impl Unresolved {
    /// `None` for other messages, other devices and neighbours that are known.
    fn read(message: Message<'_>, device: u32) -> Option<Unresolved> {
        let body = message.body;
        let is_wanted = message.kind == libc::RTM_NEWNEIGH
            && u32_at(body, 4)? == device
            && u16_at(body, 8)? & UNRESOLVED != 0;
        let mut all = attributes(body.get(HEADER_BYTES..)?);
        let (_, address) = all.find(|(kind, _)| *kind == libc::NDA_DST)?;
        is_wanted.then(|| Unresolved {
            family: body[0],
            address: address.to_vec(),
        })
    }
}
