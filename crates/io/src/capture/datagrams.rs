//! Datagrams to any address, and to which.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

use super::{make_transparent, unmapped};
use crate::sys::{check_len, retry, set_option};

// linux/in6.h
const IPV6_ORIGDSTADDR: libc::c_int = 74;

/// What receives datagrams to any address.
pub(super) fn open() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    socket.set_only_v6(false)?;
    make_transparent(&socket, true)?;
    make_transparent(&socket, false)?;
    set_option(&socket, libc::SOL_IP, libc::IP_RECVORIGDSTADDR, 1)?;
    set_option(&socket, libc::SOL_IPV6, IPV6_ORIGDSTADDR, 1)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)).into())?;
    Ok(socket)
}

/// The next datagram: from whom, to whom, and how many bytes of it are in `buffer`.
pub(super) fn receive(
    socket: &Socket,
    buffer: &mut [u8],
) -> io::Result<(SocketAddr, SocketAddr, usize)> {
    let mut ancillary = [MaybeUninit::<u64>::uninit(); 16];
    let mut content = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut from = SockAddrStorage::zeroed();
    // SAFETY: integers and pointers; all zero is a value.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = (&raw mut from).cast();
    header.msg_namelen = size_of_val(&from) as _;
    header.msg_iov = &raw mut content;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&ancillary) as _;
    let bytes = retry(|| {
        // SAFETY: `header` names buffers that outlive the call.
        check_len(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0) })
    })?;
    // SAFETY: the kernel has written an address of this length.
    let from = unsafe { SockAddr::new(from, header.msg_namelen) };
    let mut to = None;
    // SAFETY: the kernel has filled in `header`, and its macros stay within the ancillary data; a
    // message of these types holds an address of this kind, aligned or not.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&raw const header);
        while let Some(control) = next.as_ref() {
            let data = libc::CMSG_DATA(next);
            match (control.cmsg_level, control.cmsg_type) {
                (libc::SOL_IP, libc::IP_RECVORIGDSTADDR) => {
                    let address = data.cast::<libc::sockaddr_in>().read_unaligned();
                    let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
                    to = Some(SocketAddr::from((ip, u16::from_be(address.sin_port))));
                }
                (libc::SOL_IPV6, IPV6_ORIGDSTADDR) => {
                    let address = data.cast::<libc::sockaddr_in6>().read_unaligned();
                    let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
                    to = Some(SocketAddr::from((ip, u16::from_be(address.sin6_port))));
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(&raw const header, next);
        }
    }
    let ends = from.as_socket().zip(to);
    let (from, to) = ends.ok_or(io::ErrorKind::InvalidData)?;
    Ok((unmapped(from), unmapped(to), bytes))
}
