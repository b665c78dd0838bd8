//! Changing network devices by rtnetlink(7), without starting a program: a
//! fault takes effect within a fraction of a millisecond.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use crate::namespace::Place;
use crate::sys;

const HEADER_BYTES: usize = 16;
const LINK_BYTES: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
/// Longest wait for the kernel's answer; it comes at once or never.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A change of one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    /// Into the bridge of this index; 0 is out of any.
    Master(u32),
    /// Administratively up or down.
    Up(bool),
}

/// An rtnetlink socket inside a lab's namespace, used from outside.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    pub fn inside(place: &Place) -> io::Result<Self> {
        let route = (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE);
        let socket = place
            .sockets(&[route])?
            .pop()
            .ok_or_else(|| io::Error::other("no socket came"))?;
        let timeout = libc::timeval {
            tv_sec: ANSWER_TIMEOUT.as_secs() as _,
            tv_usec: 0,
        };
        let size = size_of::<libc::timeval>() as libc::socklen_t;
        // SAFETY: `timeout` is a timeval and `size` says so.
        sys::check(unsafe {
            let value = (&raw const timeout).cast();
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVTIMEO,
                value,
                size,
            )
        })?;
        Ok(Netlink(socket))
    }

    /// Make these changes, in order; all are tried, the first error is returned.
    pub fn change(&self, changes: &[(String, Change)]) -> io::Result<()> {
        let mut first_error = Ok(());
        for (sequence, (device, change)) in (1..).zip(changes) {
            let request = request(sequence, device, *change);
            // SAFETY: `request` is readable for its whole length.
            let sent = unsafe {
                libc::send(
                    self.0.as_raw_fd(),
                    request.as_ptr().cast(),
                    request.len(),
                    0,
                )
            };
            if sent < 0 {
                return Err(io::Error::last_os_error());
            }
            let answer = self.answer(sequence);
            first_error = first_error.and(answer);
        }
        first_error
    }

    /// Wait for the acknowledgement of one request.
    fn answer(&self, sequence: u32) -> io::Result<()> {
        let mut buffer = [0u8; 4096];
        loop {
            // SAFETY: `buffer` is writable for its whole length.
            let got = unsafe {
                libc::recv(
                    self.0.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                )
            };
            if got < 0 {
                return Err(io::Error::last_os_error());
            }
            let message = &buffer[..got as usize];
            let word = |at: usize| {
                message
                    .get(at..at + 4)
                    .map(|b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
            };
            // An answer to an earlier request that timed out is passed over.
            if let (Some(number), Some(error)) = (word(8), word(HEADER_BYTES))
                && number as u32 == sequence
            {
                return if error == 0 {
                    Ok(())
                } else {
                    Err(io::Error::from_raw_os_error(-error))
                };
            }
        }
    }
}

/// An RTM_NEWLINK request: nlmsghdr, ifinfomsg, attributes.
fn request(sequence: u32, device: &str, change: Change) -> Vec<u8> {
    let mut body = Vec::with_capacity(64);
    body.resize(HEADER_BYTES + LINK_BYTES, 0);
    attribute(&mut body, IFLA_IFNAME, &[device.as_bytes(), &[0]].concat());
    match change {
        Change::Master(index) => attribute(&mut body, IFLA_MASTER, &index.to_ne_bytes()),
        Change::Up(up) => {
            let flag = libc::IFF_UP as u32;
            body[24..28].copy_from_slice(&(if up { flag } else { 0 }).to_ne_bytes());
            body[28..32].copy_from_slice(&flag.to_ne_bytes());
        }
    }
    let length = body.len() as u32;
    body[0..4].copy_from_slice(&length.to_ne_bytes());
    body[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
    body[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    body[8..12].copy_from_slice(&sequence.to_ne_bytes());
    body
}

fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}
