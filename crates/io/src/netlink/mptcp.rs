//! The kernel's Multipath TCP path manager of this network namespace: endpoints and
//! limits (linux/mptcp_pm.h, Documentation/networking/mptcp.rst, ip-mptcp(8)).

use std::io;
use std::net::IpAddr;

use super::message::{Message, Request, attributes, u16_at, u32_at};
use super::read_ip;
use super::socket::{Refused, Socket};

/// The generic family's name and the version of its messages.
const FAMILY: &str = "mptcp_pm";
const VERSION: u8 = 1;

// linux/mptcp_pm.h; not in the libc crate.
const CMD_ADD_ADDR: u8 = 1;
const CMD_DEL_ADDR: u8 = 2;
const CMD_GET_ADDR: u8 = 3;
const CMD_SET_LIMITS: u8 = 5;
const CMD_GET_LIMITS: u8 = 6;
const ATTR_ADDR: u16 = 1;
const ATTR_RCV_ADD_ADDRS: u16 = 2;
const ATTR_SUBFLOWS: u16 = 3;
const ADDR_ATTR_FAMILY: u16 = 1;
const ADDR_ATTR_ID: u16 = 2;
const ADDR_ATTR_ADDR4: u16 = 3;
const ADDR_ATTR_ADDR6: u16 = 4;
const ADDR_ATTR_PORT: u16 = 5;
const ADDR_ATTR_FLAGS: u16 = 6;
const ADDR_ATTR_DEVICE: u16 = 7;
const FLAG_SIGNAL: u32 = 1;
const FLAG_SUBFLOW: u32 = 2;
const FLAG_FULLMESH: u32 = 8;

/// `struct genlmsghdr`.
const GENERIC_HEADER_BYTES: usize = 4;

/// The most that either limit can be (`MPTCP_SUBFLOWS_MAX` of the kernel).
pub const MPTCP_LIMIT_MAX: u32 = 8;

/// How far connections spread: `ip mptcp limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MptcpLimits {
    /// Subflows that a connection opens beside its first.
    pub subflows: u32,
    /// The most addresses that it accepts from the other end.
    pub add_addr_accepted: u32,
}

/// An address that connections use beside their first: `ip mptcp endpoint`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MptcpEndpoint {
    /// The kernel's number of it.
    pub id: u8,
    /// The address.
    pub address: IpAddr,
    /// Peers are told of it, and it has no port or other attributes: as [`MptcpPaths::announce`]
    /// makes them.
    pub is_plain_signal: bool,
    /// The number of the device that subflows made by it are bound to, if it makes any and has one.
    pub device: Option<u32>,
}

/// The path manager of the network namespace that it was opened in.
#[derive(Debug)]
pub struct MptcpPaths {
    socket: Socket,
    family: u16,
}

impl MptcpPaths {
    /// Finds it.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: this kernel has no MPTCP.
    pub fn open() -> io::Result<MptcpPaths> {
        let mut socket = Socket::generic()?;
        let header = [libc::CTRL_CMD_GETFAMILY as u8, 1, 0, 0];
        let kind = libc::GENL_ID_CTRL as u16;
        let mut request = Request::new(kind, libc::NLM_F_ACK, &header);
        request.text(libc::CTRL_ATTR_FAMILY_NAME as u16, FAMILY);
        let read = |message: Message<'_>| {
            let (_, value) = attributes(message.body.get(GENERIC_HEADER_BYTES..)?)
                .find(|(kind, _)| *kind == libc::CTRL_ATTR_FAMILY_ID as u16)?;
            u16_at(value, 0)
        };
        let family = socket.ask(request, read)?;
        let family = family.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(MptcpPaths { socket, family })
    }

    fn request(&self, command: u8, flags: i32) -> Request {
        Request::new(self.family, flags, &[command, VERSION, 0, 0])
    }

    /// All endpoints, whoever made them.
    ///
    /// # Errors
    /// The kernel refuses. Needs no privileges.
    pub fn endpoints(&mut self) -> io::Result<Vec<MptcpEndpoint>> {
        let family = self.family;
        let header = [CMD_GET_ADDR, VERSION, 0, 0];
        let make = || Request::new(family, libc::NLM_F_DUMP, &header);
        Ok(self.socket.dump(make, read_endpoint)?)
    }

    /// Has every connection, now and later, tell its peer of this address of ours, under this
    /// number (1 to 255).
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]: there is an endpoint with this address;
    /// [`io::ErrorKind::ResourceBusy`]: one with this number, or as many
    /// as there can be. Needs
    /// CAP_NET_ADMIN over the network namespace.
    pub fn announce(&mut self, address: IpAddr, id: u8) -> io::Result<()> {
        let mut request = self.request(CMD_ADD_ADDR, libc::NLM_F_ACK);
        request.nested(ATTR_ADDR | libc::NLA_F_NESTED as u16, |inner| {
            write_address(inner, address)
                .attribute(ADDR_ATTR_ID, &[id])
                .number(ADDR_ATTR_FLAGS, FLAG_SIGNAL);
        });
        self.execute(request)
    }

    /// Removes an endpoint, and the subflows from its address from connections, including the
    /// last one, which breaks a connection.
    ///
    /// # Errors
    /// There is none of this number (anymore). Needs CAP_NET_ADMIN.
    pub fn withdraw(&mut self, endpoint: &MptcpEndpoint) -> io::Result<()> {
        let mut request = self.request(CMD_DEL_ADDR, libc::NLM_F_ACK);
        request.nested(ATTR_ADDR | libc::NLA_F_NESTED as u16, |inner| {
            write_address(inner, endpoint.address).attribute(ADDR_ATTR_ID, &[endpoint.id]);
        });
        self.execute(request)
    }

    /// How far connections spread.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn limits(&mut self) -> io::Result<MptcpLimits> {
        let request = self.request(CMD_GET_LIMITS, libc::NLM_F_ACK);
        let found = self.socket.ask(request, read_limits)?;
        found.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Lets connections spread so far from now on.
    ///
    /// # Errors
    /// More than [`MPTCP_LIMIT_MAX`]. Needs CAP_NET_ADMIN.
    pub fn set_limits(&mut self, limits: MptcpLimits) -> io::Result<()> {
        let mut request = self.request(CMD_SET_LIMITS, libc::NLM_F_ACK);
        request
            .number(ATTR_RCV_ADD_ADDRS, limits.add_addr_accepted)
            .number(ATTR_SUBFLOWS, limits.subflows);
        self.execute(request)
    }

    fn execute(&mut self, request: Request) -> io::Result<()> {
        self.socket
            .execute(request)
            .map_err(|refused: Refused| refused.into())
    }
}

fn write_address(request: &mut Request, address: IpAddr) -> &mut Request {
    let (family, kind, octets) = match address {
        IpAddr::V4(ip) => (libc::AF_INET, ADDR_ATTR_ADDR4, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6, ADDR_ATTR_ADDR6, ip.octets().to_vec()),
    };
    request
        .attribute(ADDR_ATTR_FAMILY, &(family as u16).to_ne_bytes())
        .attribute(kind, &octets)
}

fn read_endpoint(message: Message<'_>) -> Option<MptcpEndpoint> {
    let (_, entry) = attributes(message.body.get(GENERIC_HEADER_BYTES..)?)
        .find(|(kind, _)| *kind == ATTR_ADDR)?;
    let (mut id, mut address, mut flags, mut port, mut device) = (None, None, 0, 0, 0);
    for (kind, value) in attributes(entry) {
        match kind {
            ADDR_ATTR_ID => id = value.first().copied(),
            ADDR_ATTR_ADDR4 | ADDR_ATTR_ADDR6 => address = read_ip(value),
            ADDR_ATTR_FLAGS => flags = u32_at(value, 0)?,
            ADDR_ATTR_PORT => port = u16_at(value, 0)?,
            ADDR_ATTR_DEVICE => device = u32_at(value, 0)?,
            _ => {}
        }
    }
    // One that peers are only told of makes none.
    let makes_subflows = flags & (FLAG_SUBFLOW | FLAG_FULLMESH) != 0;
    Some(MptcpEndpoint {
        id: id?,
        address: address?,
        is_plain_signal: flags == FLAG_SIGNAL && port == 0 && device == 0,
        device: Some(device).filter(|device| *device != 0 && makes_subflows),
    })
}

fn read_limits(message: Message<'_>) -> Option<MptcpLimits> {
    let mut limits = MptcpLimits::default();
    for (kind, value) in attributes(message.body.get(GENERIC_HEADER_BYTES..)?) {
        match kind {
            ATTR_RCV_ADD_ADDRS => limits.add_addr_accepted = u32_at(value, 0)?,
            ATTR_SUBFLOWS => limits.subflows = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some(limits)
}
