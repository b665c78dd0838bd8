//! Sending a burst.

use std::io;
use std::mem;
use std::net::SocketAddr;

use socket2::{MsgHdr, SockAddr};

use super::error::is_stray;
use super::{LinkSocket, SendError};
use crate::sys::retry;

/// Datagrams in one burst at most (`UDP_MAX_SEGMENTS` of Linux before 6.8).
pub const SEGMENTS_MAX: usize = 64;

/// Bytes in one burst at most: the largest UDP payload over IPv4 (RFC 768, 791).
pub const BURST_BYTES_MAX: usize = 65_507;

/// After a device refused to segment a burst, this many bursts are sent piecewise before it
/// is tried again (the route may lead to another device by then).
const PIECEWISE_BURSTS: u32 = 1000;

/// A control message with a 16-bit value, laid out as `CMSG_FIRSTHDR` and
/// `CMSG_DATA` of the C library would (cmsg(3)).
#[repr(C)]
struct SegmentControl {
    header: libc::cmsghdr,
    segment_bytes: u16,
    padding: [u8; size_of::<usize>() - size_of::<u16>()],
}

impl SegmentControl {
    fn new(segment_bytes: u16) -> SegmentControl {
        // SAFETY: `cmsghdr` consists of integers (and padding on some C libraries), for
        // which zero is a value.
        let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
        header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<u16>()) as _;
        header.cmsg_level = libc::SOL_UDP;
        header.cmsg_type = libc::UDP_SEGMENT;
        SegmentControl {
            header,
            segment_bytes,
            padding: Default::default(),
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the structure is `repr(C)`, its size is a multiple of its
        // alignment without implicit padding, and it was initialised in full.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), size_of::<Self>()) }
    }
}

impl LinkSocket {
    /// Sends `datagrams`, which lie one after another, each `segment_bytes`
    /// long except the last, which may be shorter, to `to`.
    ///
    /// All or nothing, with one exception: if the device refuses to segment and its queue
    /// fills up on the way, an error is returned though the first datagrams went out.
    /// Sending them again is harmless to a receiver that recognises duplicates by their
    /// number.
    ///
    /// # Errors
    /// [`SendError`] says what to do next. More than [`SEGMENTS_MAX`] datagrams,
    /// more than [`BURST_BYTES_MAX`] bytes or a `segment_bytes` of 0 give
    /// [`SendError::Other`] of kind `InvalidInput`.
    pub fn send(
        &self,
        to: SocketAddr,
        datagrams: &[u8],
        segment_bytes: usize,
    ) -> Result<(), SendError> {
        self.send_burst(to, datagrams, segment_bytes, 0)
    }

    /// Like [`send`](LinkSocket::send), to a peer that was heard lately: for a lone
    /// datagram the kernel keeps the neighbour's Ethernet address (MSG_CONFIRM, send(2)).
    /// Otherwise probes of a failed link would lose it after a while and, when the link is
    /// back, wait up to a second for the next solicitation.
    ///
    /// # Errors
    /// As of [`send`](LinkSocket::send).
    pub fn send_confirming(
        &self,
        to: SocketAddr,
        datagrams: &[u8],
        segment_bytes: usize,
    ) -> Result<(), SendError> {
        self.send_burst(to, datagrams, segment_bytes, libc::MSG_CONFIRM)
    }

    fn send_burst(
        &self,
        to: SocketAddr,
        datagrams: &[u8],
        segment_bytes: usize,
        flags: libc::c_int,
    ) -> Result<(), SendError> {
        if segment_bytes == 0
            || datagrams.len() > BURST_BYTES_MAX
            || datagrams.len().div_ceil(segment_bytes) > SEGMENTS_MAX
        {
            let limits = "a burst has 1 to 64 datagrams of at least one byte, 65507 bytes in all";
            return Err(SendError::Other(io::Error::new(
                io::ErrorKind::InvalidInput,
                limits,
            )));
        }
        let to = SockAddr::from(to);
        if datagrams.len() <= segment_bytes {
            return Ok(self.send_one(&to, datagrams, flags)?);
        }
        if self.piecewise.get() == 0 {
            match self.send_segmented(&to, datagrams, segment_bytes as u16) {
                // EIO: the device cannot checksum. EINVAL: it cannot segment, or
                // a datagram exceeds the MTU (Linux before 6.14), or the address
                // is gone; sent singly, they tell which.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => {
                    self.send_pieces(&to, datagrams, segment_bytes)?;
                    self.piecewise.set(PIECEWISE_BURSTS);
                    return Ok(());
                }
                result => return Ok(result?),
            }
        }
        self.piecewise.set(self.piecewise.get() - 1);
        self.send_pieces(&to, datagrams, segment_bytes)
    }

    fn send_pieces(
        &self,
        to: &SockAddr,
        all: &[u8],
        segment_bytes: usize,
    ) -> Result<(), SendError> {
        for datagram in all.chunks(segment_bytes) {
            self.send_one(to, datagram, 0)?;
        }
        self.count(|c| c.gso_refused += 1);
        Ok(())
    }

    fn send_one(&self, to: &SockAddr, datagram: &[u8], flags: libc::c_int) -> io::Result<()> {
        let socket = &self.socket;
        self.past_stray_errors(|| socket.send_to_with_flags(datagram, to, flags))
    }

    fn send_segmented(&self, to: &SockAddr, datagrams: &[u8], segment: u16) -> io::Result<()> {
        let control = SegmentControl::new(segment);
        let buffers = [io::IoSlice::new(datagrams)];
        let message = MsgHdr::new()
            .with_addr(to)
            .with_buffers(&buffers)
            .with_control(control.bytes());
        self.past_stray_errors(|| self.socket.sendmsg(&message, 0))
    }

    /// An error left behind by ICMP is reported instead of doing the call, once
    /// each, so the call is made again; the bound is against a host that keeps
    /// them coming.
    fn past_stray_errors(&self, mut call: impl FnMut() -> io::Result<usize>) -> io::Result<()> {
        const TRIES: usize = 8;
        let mut result = retry(&mut call);
        for _ in 1..TRIES {
            match &result {
                Err(error) if is_stray(error) => self.count(|c| c.stray_errors += 1),
                _ => break,
            }
            result = retry(&mut call);
        }
        result.map(drop)
    }
}
