//! The few shapes every system call of this crate has.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::c_int;

/// Turns the C convention "-1 and errno" into a `Result`.
pub(crate) fn check(returned: c_int) -> io::Result<c_int> {
    if returned < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(returned)
    }
}

/// As [`check`], for calls that return a byte count.
pub(crate) fn check_len(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// As [`check`], for calls that return a new descriptor.
pub(crate) fn check_fd(returned: RawFd) -> io::Result<OwnedFd> {
    let fd = check(returned)?;
    // SAFETY: the kernel has just handed us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Repeats a call that a signal handler interrupted.
pub(crate) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => return result,
        }
    }
}

/// Values that may be handed to the kernel as socket options: plain old data
/// for which every bit pattern is valid and which have no padding to leak.
///
/// # Safety
/// Implementors must be `repr(C)` or primitive, without references.
pub(crate) unsafe trait SocketOption: Copy {}
// SAFETY: a primitive.
unsafe impl SocketOption for c_int {}
// SAFETY: three integers of 32 bits, no padding.
unsafe impl SocketOption for libc::ucred {}
// SAFETY: two integers, no padding.
unsafe impl<const N: usize> SocketOption for [u32; N] {}
// SAFETY: two integers of register width, no padding.
unsafe impl SocketOption for libc::timeval {}
// SAFETY: integers, no padding.
unsafe impl SocketOption for u32 {}
// SAFETY: a primitive.
unsafe impl SocketOption for u64 {}
// SAFETY: integers, no padding.
unsafe impl SocketOption for libc::sockaddr_in {}
// SAFETY: integers, no padding.
unsafe impl SocketOption for libc::sockaddr_in6 {}
// SAFETY: integers, no padding.
unsafe impl SocketOption for libc::in_pktinfo {}
// SAFETY: integers, no padding.
unsafe impl SocketOption for libc::in6_pktinfo {}
// SAFETY: integers, no padding.
unsafe impl SocketOption for libc::sock_extended_err {}

/// An ancillary message (cmsg(3)) beside one that was received.
pub(crate) struct Ancillary<'a> {
    /// Its level and type.
    pub kind: (c_int, c_int),
    data: &'a [u8],
}

impl Ancillary<'_> {
    /// Its data; `None`: it is shorter.
    pub(crate) fn read<T: SocketOption>(&self) -> Option<T> {
        self.values().next()
    }

    /// As many as it has.
    pub(crate) fn values<T: SocketOption>(&self) -> impl Iterator<Item = T> {
        // SAFETY: the slice has so many bytes, and all bytes are a value.
        let read = |bytes: &[u8]| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() };
        self.data.chunks_exact(size_of::<T>()).map(read)
    }
}

/// The ancillary messages beside one that was received.
///
/// # Safety
/// The kernel has filled in `header`, and the buffer for them is still there.
pub(crate) unsafe fn ancillary(header: &libc::msghdr) -> impl Iterator<Item = Ancillary<'_>> {
    // SAFETY: by the caller's promise this, and what follows, is null or a whole message within the buffer.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    std::iter::from_fn(move || {
        // SAFETY: as above.
        let message = unsafe { next.as_ref() }?;
        // SAFETY: as above; the second is arithmetic only.
        let (data, header_bytes) = unsafe { (libc::CMSG_DATA(next), libc::CMSG_LEN(0)) };
        // musl counts it in 32 bits.
        #[allow(clippy::unnecessary_cast)]
        let bytes = (message.cmsg_len as usize).saturating_sub(header_bytes as usize);
        // SAFETY: so many bytes of data are behind the header.
        let data = unsafe { std::slice::from_raw_parts(data, bytes) };
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(header, next) };
        Some(Ancillary {
            kind: (message.cmsg_level, message.cmsg_type),
            data,
        })
    })
}

/// `setsockopt(2)`.
pub(crate) fn set_option<T: SocketOption>(
    fd: impl AsFd,
    level: c_int,
    name: c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// One step of a program of classic BPF (linux/filter.h); where it compares, it leaves out `yes` steps if
/// it is so, and `no` if not.
pub(crate) const fn step(code: u32, yes: u8, no: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k,
    }
}

/// Hands the kernel a program of classic BPF as a socket option.
pub(crate) fn set_program(
    fd: impl AsFd,
    level: c_int,
    name: c_int,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: it points to as many instructions as it says; the kernel copies and checks them within
    // the call and writes nothing there.
    check(unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// `getsockopt(2)`, starting from `initial`.
pub(crate) fn get_option<T: SocketOption>(
    fd: impl AsFd,
    level: c_int,
    name: c_int,
    initial: T,
) -> io::Result<T> {
    let mut value = initial;
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `value`, and every
    // bit pattern of a `SocketOption` is valid.
    check(unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    })?;
    Ok(value)
}

/// Asks for a kernel socket buffer of `wanted` bytes and says how many were
/// granted. `force` (CAP_NET_ADMIN) may exceed `net.core.[rw]mem_max`,
/// `plain` may not.
pub(crate) fn grow_buffer(
    fd: BorrowedFd<'_>,
    force: c_int,
    plain: c_int,
    wanted: usize,
) -> io::Result<usize> {
    let bytes = c_int::try_from(wanted).unwrap_or(c_int::MAX / 2);
    if set_option(fd, libc::SOL_SOCKET, force, bytes).is_err() {
        set_option(fd, libc::SOL_SOCKET, plain, bytes)?;
    }
    let doubled = get_option(fd, libc::SOL_SOCKET, plain, 0)?;
    // The kernel doubles what one asks for, to pay for its own bookkeeping
    // (socket(7)), and reports the double.
    Ok(usize::try_from(doubled).unwrap_or(0) / 2)
}

/// The address of a device as a packet socket wants it: the device's index and
/// the protocol in network order.
pub(crate) fn packet_address(device: u32, protocol: u16) -> socket2::SockAddr {
    let mut storage = socket2::SockAddrStorage::zeroed();
    // SAFETY: `sockaddr_ll` consists of integers and bytes, for which zero is a
    // value, and is a kind of socket address that the storage has room for.
    let address = unsafe { storage.view_as::<libc::sockaddr_ll>() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = protocol;
    address.sll_ifindex = device as libc::c_int;
    // SAFETY: the storage holds an address of this length.
    unsafe { socket2::SockAddr::new(storage, size_of::<libc::sockaddr_ll>() as libc::socklen_t) }
}

/// A `struct ifreq` for the device `name`.
///
/// # Errors
/// `InvalidInput` where no device can have that name.
pub(crate) fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: integers and a union with pointers; all zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}
