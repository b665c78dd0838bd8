//! Changes of links and addresses, as reported by the kernel.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::message::messages;
use super::socket::Socket;
use super::{AddressFacts, LinkFacts};

/// Receive buffer asked for, bytes: thousands of changes at once.
const BUFFER_BYTES: usize = 1 << 20;

/// How many datagrams one [`LinkMonitor::poll`] reads at most, so that a storm
/// of changes does not keep the loop from its packets. The rest stays readable.
const DATAGRAMS_PER_POLL: usize = 64;

/// Something that happened to a link of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A device appeared or its state, name or any other property changed. Sent
    /// by the kernel also when neither `up` nor `carrier` did.
    Link {
        /// The kernel's number of the device.
        index: u32,
        /// Its name.
        name: String,
        /// Switched on by the administrator.
        up: bool,
        /// Switched on and connected.
        carrier: bool,
    },
    /// A device is gone, or was moved to another network namespace.
    LinkGone {
        /// The kernel's number it had.
        index: u32,
        /// Its name.
        name: String,
    },
    /// A device was given an address (or one it has was given anew).
    AddressAdded {
        /// The kernel's number of the device.
        index: u32,
        /// The address.
        address: IpAddr,
        /// Length of the network prefix, bits.
        prefix: u8,
    },
    /// An address was taken away.
    AddressRemoved {
        /// The kernel's number of the device.
        index: u32,
        /// The address.
        address: IpAddr,
        /// Length of the network prefix, bits.
        prefix: u8,
    },
    /// Changes were lost: read everything anew with [`super::interfaces()`].
    Resync,
}

impl Change {
    /// The kernel's number of the device that it is about; `None`: it may be about any.
    #[must_use]
    pub const fn device(&self) -> Option<u32> {
        match *self {
            Change::Link { index, .. }
            | Change::LinkGone { index, .. }
            | Change::AddressAdded { index, .. }
            | Change::AddressRemoved { index, .. } => Some(index),
            Change::Resync => None,
        }
    }
}

/// A subscription to link and address changes of one network namespace.
#[derive(Debug)]
pub struct LinkMonitor {
    socket: Socket,
}

impl LinkMonitor {
    /// Subscribes. Read [`super::interfaces()`] afterwards, not before, so that no
    /// change is missed.
    ///
    /// # Errors
    /// Where the kernel refuses the socket. Needs no privileges.
    pub fn new() -> io::Result<LinkMonitor> {
        let groups = [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_IPV4_IFADDR,
            libc::RTNLGRP_IPV6_IFADDR,
        ];
        let socket = Socket::subscribed(&groups)?;
        socket.grow(BUFFER_BYTES)?;
        Ok(LinkMonitor { socket })
    }

    /// The changes since the last call, in order; empty if there were none. Lost or
    /// unreadable messages become a [`Change::Resync`].
    ///
    /// # Errors
    /// They cannot be read now, which says nothing else.
    pub fn poll(&mut self) -> io::Result<Vec<Change>> {
        let mut changes = Vec::new();
        for _ in 0..DATAGRAMS_PER_POLL {
            match self.socket.receive() {
                Ok(datagram) => read_changes(datagram, &mut changes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    changes.push(Change::Resync);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(changes)
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Appends the changes in a datagram from the kernel.
pub(super) fn read_changes(datagram: &[u8], changes: &mut Vec<Change>) {
    for message in messages(datagram) {
        let Some(message) = message else {
            changes.push(Change::Resync);
            return;
        };
        let link = LinkFacts::read(message);
        let address = AddressFacts::read(message).map(|facts| (facts.index, facts.address));
        changes.extend(match (message.kind, link, address) {
            (
                libc::RTM_NEWLINK,
                Some(LinkFacts {
                    index,
                    name,
                    up,
                    carrier,
                    ..
                }),
                _,
            ) => Some(Change::Link {
                index,
                name,
                up,
                carrier,
            }),
            (libc::RTM_DELLINK, Some(LinkFacts { index, name, .. }), _) => {
                Some(Change::LinkGone { index, name })
            }
            (libc::RTM_NEWADDR, _, Some((index, a))) => Some(Change::AddressAdded {
                index,
                address: a.ip,
                prefix: a.prefix,
            }),
            (libc::RTM_DELADDR, _, Some((index, a))) => Some(Change::AddressRemoved {
                index,
                address: a.ip,
                prefix: a.prefix,
            }),
            _ => None,
        });
    }
}
