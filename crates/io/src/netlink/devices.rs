//! Changing devices of a network namespace from outside of it, without starting a program: a change
//! takes effect within a fraction of a millisecond.

use std::io;
use std::os::fd::OwnedFd;

use super::message::{Request, link_header};
use super::socket::Socket;

/// A change of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChange {
    /// Into the bridge of this index; 0 is out of any.
    Master(u32),
    /// Administratively up or down.
    Up(bool),
}

/// The devices of the namespace in which a socket was made.
#[derive(Debug)]
pub struct Devices(Socket);

impl Devices {
    /// By a socket of AF_NETLINK, SOCK_RAW and NETLINK_ROUTE, in whichever namespace it was made.
    ///
    /// # Errors
    /// It is another kind of socket.
    pub fn of(socket: OwnedFd) -> io::Result<Devices> {
        Socket::over(socket).map(Devices)
    }

    /// Changes the device with this name.
    ///
    /// # Errors
    /// There is none, or the kernel refuses.
    pub fn change(&mut self, device: &str, change: DeviceChange) -> io::Result<()> {
        let (flags, mask) = match change {
            DeviceChange::Up(true) => (libc::IFF_UP, libc::IFF_UP),
            DeviceChange::Up(false) => (0, libc::IFF_UP),
            DeviceChange::Master(_) => (0, 0),
        };
        let header = link_header(0, flags as u32, mask as u32);
        let mut request = Request::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &header);
        request.text(libc::IFLA_IFNAME, device);
        if let DeviceChange::Master(index) = change {
            request.number(libc::IFLA_MASTER, index);
        }
        Ok(self.0.execute(request)?)
    }
}
