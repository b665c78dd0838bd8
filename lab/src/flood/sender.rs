//! Many frames with one system call.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use super::forge::FRAME_BYTES_MAX;
use crate::namespace::Place;
use crate::sys;

const PACKET_QDISC_BYPASS: libc::c_int = 20;
/// Frames a call.
const BATCH: usize = 64;
/// The device's queue is full: it is tried again after this.
const FULL: Duration = Duration::from_micros(20);

/// Sends frames by one device of a node.
pub(super) struct Sender {
    socket: OwnedFd,
    frames: Box<[[u8; FRAME_BYTES_MAX]; BATCH]>,
}

impl Sender {
    pub fn new(place: &Place, device: &str) -> io::Result<Sender> {
        let kinds = [(libc::AF_PACKET, libc::SOCK_RAW, 0)];
        let socket = place.sockets(&kinds)?.pop();
        let socket = socket.ok_or_else(|| io::Error::other("no socket came"))?;
        sys::set_option(socket.as_fd(), libc::SOL_PACKET, PACKET_QDISC_BYPASS, 1)?;
        sys::bind_packet(socket.as_fd(), device, 0)?;
        Ok(Sender {
            socket,
            frames: Box::new([[0; FRAME_BYTES_MAX]; BATCH]),
        })
    }

    /// Sends a batch, at most `left` frames, each made by `forge`; returns how
    /// many the kernel took.
    pub fn send(
        &mut self,
        left: u64,
        mut forge: impl FnMut(&mut [u8; FRAME_BYTES_MAX]) -> usize,
    ) -> u64 {
        let count = BATCH.min(usize::try_from(left).unwrap_or(BATCH));
        // SAFETY: plain C structures for which zero is a value.
        let mut vectors: [libc::iovec; BATCH] = unsafe { mem::zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for (index, frame) in self.frames[..count].iter_mut().enumerate() {
            vectors[index].iov_len = forge(frame);
            vectors[index].iov_base = frame.as_mut_ptr().cast();
            headers[index].msg_hdr.msg_iov = &raw mut vectors[index];
            headers[index].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `count` headers point to one vector each, and those
        // to a frame each with the length written; all outlive the call.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                count as libc::c_uint,
                0,
            )
        };
        let sent = u64::try_from(sent).unwrap_or(0);
        if sent == 0 {
            std::thread::sleep(FULL);
        }
        sent
    }
}
