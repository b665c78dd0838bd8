//! Datagrams to any address, with their destinations.

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};

use super::{bind_aside, make_transparent, unmapped};
use crate::sys::{self, Ancillary, check_len, retry, set_option};

// linux/in6.h
const IPV6_ORIGDSTADDR: libc::c_int = 74;

/// A socket that receives datagrams to any address.
pub(super) fn open() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    socket.set_only_v6(false)?;
    make_transparent(&socket, true)?;
    make_transparent(&socket, false)?;
    set_option(&socket, libc::SOL_IP, libc::IP_RECVORIGDSTADDR, 1)?;
    set_option(&socket, libc::SOL_IPV6, IPV6_ORIGDSTADDR, 1)?;
    bind_aside(&socket)?;
    Ok(socket)
}

/// A received datagram.
pub(super) struct Received {
    pub from: SocketAddr,
    /// Its destination (with port 0 if the socket only reports the address), if the socket reports
    /// it.
    pub to: Option<SocketAddr>,
    /// Of a queued error: its number.
    pub error: Option<u32>,
    pub bytes: usize,
}

/// The next datagram or, with the flag MSG_ERRQUEUE, error; `None` if there is none. Never waits.
pub(super) fn receive(
    socket: &Socket,
    buffer: &mut [u8],
    flags: libc::c_int,
) -> io::Result<Option<Received>> {
    let mut ancillary = [MaybeUninit::<u64>::uninit(); 32];
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
    let flags = flags | libc::MSG_DONTWAIT;
    let received = retry(|| {
        // SAFETY: `header` names buffers that outlive the call.
        check_len(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) })
    });
    let bytes = match received {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    // SAFETY: the kernel has written an address of this length.
    let from = unsafe { SockAddr::new(from, header.msg_namelen) };
    let from = from.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    let mut received = Received {
        from: unmapped(from),
        to: None,
        error: None,
        bytes,
    };
    // SAFETY: the kernel has filled in `header`, and `ancillary` is still there.
    unsafe { sys::ancillary(&header) }.for_each(|message| note(&mut received, &message));
    Ok(Some(received))
}

/// Notes what an ancillary message says.
fn note(received: &mut Received, message: &Ancillary<'_>) {
    match message.kind {
        (libc::SOL_IP, libc::IP_RECVORIGDSTADDR) => {
            let told = message.read::<libc::sockaddr_in>();
            received.to = told.map(|it| {
                let ip = Ipv4Addr::from(u32::from_be(it.sin_addr.s_addr));
                (ip, u16::from_be(it.sin_port)).into()
            });
        }
        (libc::SOL_IPV6, IPV6_ORIGDSTADDR) => {
            let told = message.read::<libc::sockaddr_in6>();
            received.to = told.map(|it| {
                let ip = Ipv6Addr::from(it.sin6_addr.s6_addr);
                unmapped((ip, u16::from_be(it.sin6_port)).into())
            });
        }
        (libc::SOL_IP, libc::IP_PKTINFO) => {
            // Of a broadcast this is the node's own address on that network.
            let told = message.read::<libc::in_pktinfo>();
            received.to = told.map(|it| {
                let ip = Ipv4Addr::from(u32::from_be(it.ipi_spec_dst.s_addr));
                (ip, 0).into()
            });
        }
        (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
            let told = message.read::<libc::in6_pktinfo>();
            let to = told.map(|it| unmapped((Ipv6Addr::from(it.ipi6_addr.s6_addr), 0).into()));
            received.to = to;
        }
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
            let told = message.read::<libc::sock_extended_err>();
            received.error = told.map(|it| it.ee_errno);
        }
        _ => {}
    }
}
