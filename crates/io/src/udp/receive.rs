//! Receiving a batch of bursts.

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;

use socket2::{SockAddr, SockAddrStorage};

use super::error::is_stray;
use super::{LinkSocket, RecvError};
use crate::sys::{self, check, retry};

/// Receives per system call. Each may hold a whole burst, so this many already
/// carry a megabyte; more would only leave the processor's cache.
pub const BATCH_RECEIVES: usize = 16;

/// The buffer of one receive, bytes: no burst the kernel joins is larger than
/// an IP packet.
pub const RECEIVE_BYTES: usize = 1 << 16;

/// Room for the control messages of one receive (segment size, drop counter,
/// each 24 bytes on 64-bit machines) and some to spare.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Source of one receive, and how to cut it.
#[derive(Clone, Copy)]
struct Burst {
    from: SocketAddr,
    bytes: usize,
    segment_bytes: usize,
}

const NO_BURST: Burst = Burst {
    from: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    bytes: 0,
    segment_bytes: 1,
};

/// Buffers for [`LinkSocket::recv`], made once and used for all links in turn.
pub struct ReceiveBatch {
    memory: Box<[u8]>,
    /// The kernel writes the source address of a receive here.
    names: Box<[SockAddrStorage; BATCH_RECEIVES]>,
    /// The kernel writes control messages here.
    controls: Box<[Control; BATCH_RECEIVES]>,
    buffer_bytes: usize,
    bursts: [Burst; BATCH_RECEIVES],
    count: usize,
}

impl ReceiveBatch {
    /// Buffers for [`BATCH_RECEIVES`] receives of [`RECEIVE_BYTES`]: 1 MiB.
    #[must_use]
    pub fn new() -> ReceiveBatch {
        ReceiveBatch::with_buffer_bytes(RECEIVE_BYTES)
    }

    pub(super) fn with_buffer_bytes(buffer_bytes: usize) -> ReceiveBatch {
        ReceiveBatch {
            memory: vec![0; BATCH_RECEIVES * buffer_bytes].into_boxed_slice(),
            names: Box::new([(); BATCH_RECEIVES].map(|()| SockAddrStorage::zeroed())),
            controls: Box::new([Control([0; 64]); BATCH_RECEIVES]),
            buffer_bytes,
            bursts: [NO_BURST; BATCH_RECEIVES],
            count: 0,
        }
    }

    /// Whether more may have arrived than there was room for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.count == BATCH_RECEIVES
    }

    /// Forgets its datagrams.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds a datagram that came otherwise than by a [`LinkSocket`]. False: it is full, or the
    /// datagram is longer than [`RECEIVE_BYTES`].
    pub fn push(&mut self, from: SocketAddr, datagram: &[u8]) -> bool {
        if self.is_full() || datagram.len() > self.buffer_bytes {
            return false;
        }
        let at = self.count * self.buffer_bytes;
        self.memory[at..at + datagram.len()].copy_from_slice(datagram);
        self.bursts[self.count] = Burst {
            from,
            bytes: datagram.len(),
            segment_bytes: datagram.len().max(1),
        };
        self.count += 1;
        true
    }

    /// The datagrams of the last [`LinkSocket::recv`] in the order of arrival,
    /// with their senders, to be read and overwritten in place. Empty datagrams
    /// do not appear.
    pub fn datagrams(&mut self) -> impl Iterator<Item = (SocketAddr, &mut [u8])> {
        let buffers = self.memory.chunks_mut(self.buffer_bytes);
        self.bursts[..self.count]
            .iter()
            .zip(buffers)
            .flat_map(|(burst, buffer)| {
                let datagrams = buffer[..burst.bytes].chunks_mut(burst.segment_bytes);
                datagrams.map(move |datagram| (burst.from, datagram))
            })
    }
}

impl Default for ReceiveBatch {
    fn default() -> ReceiveBatch {
        ReceiveBatch::new()
    }
}

impl std::fmt::Debug for ReceiveBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiveBatch")
            .field("bursts", &self.count)
            .finish_non_exhaustive()
    }
}

impl LinkSocket {
    /// Receives into `batch`, replacing its content, and returns the number of
    /// datagrams: 0 if nothing is there (or all of it was unusable and counted). More
    /// may be waiting: the socket stays readable.
    ///
    /// # Errors
    /// [`RecvError`]. ICMP errors about earlier datagrams are counted, not reported.
    pub fn recv(&self, batch: &mut ReceiveBatch) -> Result<usize, RecvError> {
        match self.receive_batch(batch) {
            Ok(datagrams) => Ok(datagrams),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) if is_stray(&error) => {
                self.count(|c| c.stray_errors += 1);
                Ok(0)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn receive_batch(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        batch.count = 0;
        // SAFETY: plain C structures for which zero is a value (null pointers with
        // length 0).
        let mut vectors: [libc::iovec; BATCH_RECEIVES] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; BATCH_RECEIVES] = unsafe { mem::zeroed() };
        for (index, buffer) in batch.memory.chunks_mut(batch.buffer_bytes).enumerate() {
            vectors[index].iov_base = buffer.as_mut_ptr().cast();
            vectors[index].iov_len = buffer.len();
            let header = &mut headers[index].msg_hdr;
            header.msg_name = (&raw mut batch.names[index]).cast();
            header.msg_namelen = batch.names[index].size_of();
            header.msg_iov = &raw mut vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut batch.controls[index]).cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        let received = retry(|| {
            let (fd, count) = (self.socket.as_raw_fd(), BATCH_RECEIVES as u32);
            // SAFETY: every header points to a name, a vector and a control
            // buffer of its own, and every vector to a part of `memory` of its
            // own; all of them outlive the call.
            check(unsafe {
                libc::recvmmsg(fd, headers.as_mut_ptr(), count, 0, std::ptr::null_mut())
            })
        })? as usize;

        let mut datagrams = 0;
        for (index, header) in headers[..received].iter().enumerate() {
            datagrams += self.keep(batch, header, index);
        }
        self.count(|c| {
            c.receives += received as u64;
            c.datagrams_received += datagrams as u64;
        });
        Ok(datagrams)
    }

    /// Notes one receive in `batch`; returns its number of datagrams.
    fn keep(&self, batch: &mut ReceiveBatch, header: &libc::mmsghdr, index: usize) -> usize {
        let bytes = header.msg_len as usize;
        // SAFETY: the kernel has filled in this header and its control buffer, both of
        // which still exist.
        let (segment_bytes, drops) = unsafe { read_control(&header.msg_hdr) };
        if let Some(drops) = drops {
            let more = drops.wrapping_sub(self.drops_seen.replace(drops));
            self.count(|c| c.kernel_drops += u64::from(more));
        }
        let truncated = header.msg_hdr.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
        let name = mem::replace(&mut batch.names[index], SockAddrStorage::zeroed());
        // SAFETY: the kernel wrote an address of this length into `name`.
        let from = unsafe { SockAddr::new(name, header.msg_hdr.msg_namelen) }.as_socket();
        let burst = match from.filter(|_| !truncated) {
            Some(from) => Burst {
                from,
                bytes,
                segment_bytes: segment_bytes.unwrap_or(bytes).max(1),
            },
            None => {
                self.count(|c| c.truncated += 1);
                NO_BURST
            }
        };
        batch.bursts[batch.count] = burst;
        batch.count += 1;
        burst.bytes.div_ceil(burst.segment_bytes)
    }
}

/// The segment size (`UDP_GRO`) and the drop counter (`SO_RXQ_OVFL`), if present.
///
/// # Safety
/// `header` was filled in by the kernel and its control buffer still exists.
unsafe fn read_control(header: &libc::msghdr) -> (Option<usize>, Option<u32>) {
    let (mut segment_bytes, mut drops) = (None, None);
    // SAFETY: the caller's promise.
    for message in unsafe { sys::ancillary(header) } {
        match message.kind {
            // udp_cmsg_recv, sock_recv_drops
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let bytes = message.read::<libc::c_int>();
                segment_bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => drops = message.read::<u32>(),
            _ => {}
        }
    }
    (segment_bytes, drops)
}
