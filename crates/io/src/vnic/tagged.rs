//! Reading frames with their VLAN tags.
//!
//! Frames at the far end of a veth pair have lost their first tag on the way: the kernel keeps it beside
//! the frame and returns it in an ancillary message (packet(7), PACKET_AUXDATA). Here it is put back.

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, OwnedFd};

use super::HEADER_BYTES;
use crate::sys::{self, SocketOption, check_len, retry, set_option};

// linux/if_packet.h
const PACKET_AUXDATA: libc::c_int = 8;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

/// Length of a tag.
const TAG_BYTES: usize = 4;
/// Position of the tag: behind the two addresses.
const TAG_AT: usize = HEADER_BYTES + 12;

/// `struct tpacket_auxdata`.
#[repr(C)]
#[derive(Clone, Copy)]
struct AuxData {
    status: u32,
    length: u32,
    captured: u32,
    mac: u16,
    net: u16,
    vlan_tci: u16,
    vlan_tpid: u16,
}

// SAFETY: integers, no padding.
unsafe impl SocketOption for AuxData {}

/// Makes the kernel return the tag of each frame.
pub(super) fn ask_for_tags(socket: &OwnedFd) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, PACKET_AUXDATA, 1)
}

/// Reads a frame with its tag, if it has one; returns its true length, which may exceed `buffer`.
pub(super) fn receive(socket: &OwnedFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let mut header = [0; HEADER_BYTES];
    let (bytes, tag) = receive_apart(socket, &mut header, &mut buffer[HEADER_BYTES..])?;
    let Some(tag) = tag else {
        put(buffer, 0, &header);
        return Ok(bytes);
    };
    let with_tag = bytes + TAG_BYTES;
    if bytes < TAG_AT || with_tag > buffer.len() {
        return Ok(with_tag.max(buffer.len() + 1));
    }
    buffer.copy_within(TAG_AT..bytes, TAG_AT + TAG_BYTES);
    put(buffer, TAG_AT, &tag);
    put(buffer, 0, &behind_tag(header));
    Ok(with_tag)
}

fn put(buffer: &mut [MaybeUninit<u8>], at: usize, bytes: &[u8]) {
    for (to, from) in buffer[at..].iter_mut().zip(bytes) {
        to.write(*from);
    }
}

/// The `virtio_net_hdr`, adjusted for a tag in front of the packet.
fn behind_tag(mut header: [u8; HEADER_BYTES]) -> [u8; HEADER_BYTES] {
    const NEEDS_CSUM: u8 = 1;
    // hdr_len and csum_start, where they say something.
    let (is_cut, is_summed) = (header[1] != 0, header[0] & NEEDS_CSUM != 0);
    for (at, _) in [(2, is_cut), (6, is_summed)]
        .iter()
        .filter(|(_, says)| *says)
    {
        let value = u16::from_ne_bytes([header[*at], header[at + 1]]);
        let shifted = value.saturating_add(TAG_BYTES as u16);
        header[*at..at + 2].copy_from_slice(&shifted.to_ne_bytes());
    }
    header
}

/// Reads a frame: its `virtio_net_hdr`, the rest, and the tag that the kernel removed. Returns the true
/// length of the first two.
fn receive_apart(
    socket: &OwnedFd,
    header: &mut [u8; HEADER_BYTES],
    rest: &mut [MaybeUninit<u8>],
) -> io::Result<(usize, Option<[u8; TAG_BYTES]>)> {
    let mut ancillary = [MaybeUninit::<u64>::uninit(); 16];
    let mut parts = [
        libc::iovec {
            iov_base: header.as_mut_ptr().cast(),
            iov_len: header.len(),
        },
        libc::iovec {
            iov_base: rest.as_mut_ptr().cast(),
            iov_len: rest.len(),
        },
    ];
    // SAFETY: integers and pointers; all zero is a value.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    message.msg_control = ancillary.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&ancillary) as _;
    let bytes = retry(|| {
        // SAFETY: `message` names buffers that outlive the call. MSG_TRUNC makes the kernel return the
        // frame's true length, not write beyond them.
        check_len(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) })
    })?;
    // SAFETY: the kernel has filled in `message`, and `ancillary` is still there.
    let mut messages = unsafe { sys::ancillary(&message) };
    let told = messages.find(|it| it.kind == (libc::SOL_PACKET, PACKET_AUXDATA));
    let tag = told.and_then(|it| tag_of(&it.read::<AuxData>()?));
    Ok((bytes, tag))
}

/// Type and number of the tag, as they stand in a frame.
fn tag_of(told: &AuxData) -> Option<[u8; TAG_BYTES]> {
    if told.status & TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = if told.status & TP_STATUS_VLAN_TPID_VALID != 0 {
        told.vlan_tpid
    } else {
        libc::ETH_P_8021Q as u16
    };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), told.vlan_tci.to_be_bytes());
    Some([a, b, c, d])
}
