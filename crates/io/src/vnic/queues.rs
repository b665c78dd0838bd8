//! The packet sockets through which the far end of the veth pair is read (packet(7), PACKET_FANOUT).
//!
//! The kernel drops packets that find no room in their socket. So UDP, the one protocol whose senders
//! need not adapt, is spread over sockets of its own, by its ports; everything else has the first. They
//! are read in turns: a ping or TCP beside a flood waits for its turn and is not dropped, nor is another
//! UDP flow, unless it shares the queue (one in 14). Frames with a VLAN tag have a socket, too, so that
//! no other is read in the slower way that returns tags ([`tagged`]).
//!
//! With one queue for all, a program that sent UDP without measure took three quarters of all pings with it. Queues for
//! TCP's flows, too, were tried: two streams of cubic, one each way, then had 1.5 instead of 1.85 Gb/s each, for
//! acknowledgements overtook the data that waited there. A TAP has one queue.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::tagged;
use crate::poll::{Interest, Poller, Ready};
use crate::sys::{
    check_fd, check_len, get_option, grow_buffer, retry, set_option, set_program, step,
};

/// How many there are.
pub const QUEUES: usize = 17;

/// Size of the first queue, bytes: a queue full of short packets is read in some 10 ms.
pub const QUEUE_BYTES: usize = 16 << 20;
/// Size of each other queue: 3 ms of 10 Gb/s. Together they limit the kernel memory for floods of many
/// flows (twice that, with its own overhead).
const DATAGRAM_QUEUE_BYTES: usize = 4 << 20;

/// The most bytes on their way into the host.
const SEND_BUFFER_BYTES: usize = 8 << 20;

/// After this many frames the queues are polled again: those that were empty have their turn then.
const LOOK_EVERY: u32 = 2 * QUEUES as u32;

// linux/if_packet.h
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_FANOUT: libc::c_int = 18;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_FANOUT_DATA: libc::c_int = 22;
/// As [`CHOOSE`] says, with a group number that the kernel chooses, without what we send ourselves.
const FANOUT: u32 =
    (PACKET_FANOUT_CBPF | PACKET_FANOUT_FLAG_UNIQUEID | PACKET_FANOUT_FLAG_IGNORE_OUTGOING) << 16;
const PACKET_FANOUT_CBPF: u32 = 6;
const PACKET_FANOUT_FLAG_UNIQUEID: u32 = 0x2000;
const PACKET_FANOUT_FLAG_IGNORE_OUTGOING: u32 = 0x4000;

/// The queue for UDP without accessible ports: fragments, and packets with options.
const WITHOUT_PORTS: u32 = QUEUES as u32 - 2;

/// The queue for frames with a VLAN tag, whatever is behind it.
const TAGGED: u32 = QUEUES as u32 - 1;

/// Chooses the queue of a packet, as a program in the kernel's classic BPF (linux/filter.h): the first,
/// or for UDP one of the others, by its ports, or the last for tagged frames.
const CHOOSE: [libc::sock_filter; 26] = {
    use libc::{BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_JA, BPF_JEQ, BPF_JMP};
    use libc::{BPF_JSET, BPF_K, BPF_LD, BPF_MISC, BPF_MOD, BPF_RET, BPF_RSH, BPF_TAX, BPF_W};
    use libc::{BPF_X, BPF_XOR};
    /// The protocol, and where the network's header is (SKF_AD_OFF, SKF_NET_OFF).
    const PROTOCOL: u32 = -0x1000_i32 as u32;
    const NETWORK: u32 = -0x10_0000_i32 as u32;
    /// Whether the kernel keeps a VLAN tag beside the frame (SKF_AD_VLAN_TAG_PRESENT).
    const HAS_TAG: u32 = PROTOCOL + 48;
    const UDP: u32 = libc::IPPROTO_UDP as u32;
    const fn load(size: u32, at: u32) -> libc::sock_filter {
        step(BPF_LD | size | BPF_ABS, 0, 0, at)
    }
    const fn is(k: u32, yes: u8, no: u8) -> libc::sock_filter {
        step(BPF_JMP | BPF_JEQ | BPF_K, yes, no, k)
    }
    const fn compute(how: u32, k: u32) -> libc::sock_filter {
        step(BPF_ALU | how, 0, 0, k)
    }
    [
        load(BPF_B, HAS_TAG),
        is(0, 1, 0),
        step(BPF_RET | BPF_K, 0, 0, TAGGED),
        load(BPF_H, PROTOCOL),
        is(libc::ETH_P_IP as u32, 3, 0),
        is(libc::ETH_P_IPV6 as u32, 0, 18),
        // IPv6: the next header.
        load(BPF_B, NETWORK + 6),
        is(UDP, 8, 16),
        // IPv4: the protocol; whether it is a fragment; whether its header has options.
        load(BPF_B, NETWORK + 9),
        is(UDP, 0, 14),
        load(BPF_H, NETWORK + 6),
        step(BPF_JMP | BPF_JSET | BPF_K, 13, 0, 0x3fff),
        load(BPF_B, NETWORK),
        is(0x45, 0, 11),
        // Both ports, of IPv4 and IPv6.
        load(BPF_W, NETWORK + 20),
        step(BPF_JMP | BPF_JA, 0, 0, 1),
        load(BPF_W, NETWORK + 40),
        step(BPF_MISC | BPF_TAX, 0, 0, 0),
        compute(BPF_RSH | BPF_K, 16),
        compute(BPF_XOR | BPF_X, 0),
        compute(BPF_AND | BPF_K, 0xffff),
        compute(BPF_MOD | BPF_K, WITHOUT_PORTS - 1),
        compute(BPF_ADD | BPF_K, 1),
        step(BPF_RET | BPF_A, 0, 0, 0),
        step(BPF_RET | BPF_K, 0, 0, 0),
        step(BPF_RET | BPF_K, 0, 0, WITHOUT_PORTS),
    ]
};

/// Two datagrams of a byte each, as a packet to be cut (linux/virtio_net.h, VIRTIO_NET_HDR_GSO_UDP_L4),
/// with no addresses.
const TO_BE_CUT: [u8; 54] = {
    let mut frame = [0; 54];
    // The header: checksum wanted, what to cut, 42 bytes of headers, one of content, the checksum 34 + 6.
    (frame[0], frame[1], frame[2], frame[4]) = (1, 5, 42, 1);
    (frame[6], frame[8]) = (34, 6);
    // Ethernet, for a locally administered address; IPv4; UDP.
    (frame[10], frame[16], frame[22]) = (2, 2, 8);
    (frame[24], frame[27], frame[32], frame[33]) = (0x45, 30, 64, 17);
    frame[49] = 10;
    frame
};

/// All protocols, as the packet socket wants it.
const EVERY_PROTOCOL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// The sockets.
#[derive(Debug)]
pub(super) struct Queues {
    /// Only one if the kernel has no fanout.
    sockets: Vec<OwnedFd>,
    /// The one which gets frames with a tag.
    tagged: usize,
    /// Of them all.
    poller: Poller,
    events: Vec<Ready>,
    /// Those that may have something to be read, a bit each.
    waiting: u32,
    /// The one that was read last.
    last: usize,
    /// Frames until it is looked who waits.
    look_in: u32,
    /// Size of the first queue, as granted.
    bytes: usize,
}

impl Queues {
    /// Sockets in the network namespace of this thread, which receive nothing yet.
    pub fn new() -> io::Result<Queues> {
        let poller = Poller::new()?;
        let mut sockets = Vec::with_capacity(QUEUES);
        let mut bytes = 0;
        for index in 0..QUEUES {
            let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            // SAFETY: takes no pointers.
            let socket = check_fd(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
            set_option(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
            set_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
            let (force, plain) = (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF);
            let wanted = if index == 0 {
                QUEUE_BYTES
            } else {
                DATAGRAM_QUEUE_BYTES
            };
            let granted = grow_buffer(socket.as_fd(), force, plain, wanted)?;
            if index == 0 {
                bytes = granted;
            }
            poller.register(&socket, index as u64, Interest::Read)?;
            sockets.push(socket);
        }
        tagged::ask_for_tags(&sockets[TAGGED as usize])?;
        let (force, plain) = (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF);
        grow_buffer(sockets[0].as_fd(), force, plain, SEND_BUFFER_BYTES)?;
        Ok(Queues {
            sockets,
            tagged: TAGGED as usize,
            poller,
            events: Vec::new(),
            waiting: 0,
            last: 0,
            look_in: 0,
            bytes,
        })
    }

    /// Has them hear, and the first of them speak for, the device `index`. Nothing may come from it
    /// yet: each would hear all of it until it has joined the others.
    pub fn listen(&mut self, index: u32) -> io::Result<()> {
        let address = crate::sys::packet_address(index, EVERY_PROTOCOL);
        let bind = |socket: &OwnedFd| socket2::SockRef::from(socket).bind(&address);
        let (first, others) = self.sockets.split_first().ok_or(io::ErrorKind::NotFound)?;
        bind(first)?;
        // Without a program it would be the first for all.
        let group = set_option(first, libc::SOL_PACKET, PACKET_FANOUT, FANOUT as i32)
            .and_then(|()| set_program(first, libc::SOL_PACKET, PACKET_FANOUT_DATA, &CHOOSE))
            .and_then(|()| get_option(first, libc::SOL_PACKET, PACKET_FANOUT, 0i32));
        let Ok(group) = group else {
            tagged::ask_for_tags(first)?;
            self.sockets.truncate(1);
            self.tagged = 0;
            return Ok(());
        };
        for other in others {
            bind(other)?;
            set_option(other, libc::SOL_PACKET, PACKET_FANOUT, group)?;
        }
        Ok(())
    }

    /// Size of the first queue, bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The one that is written to.
    pub fn speaker(&self) -> &OwnedFd {
        &self.sockets[0]
    }

    /// Whether the kernel accepts, and so delivers, UDP packets to be cut into datagrams.
    pub fn cuts_datagrams(&self) -> bool {
        let fd = self.speaker().as_raw_fd();
        // SAFETY: pointer and length describe `TO_BE_CUT`.
        let sent =
            check_len(unsafe { libc::send(fd, TO_BE_CUT.as_ptr().cast(), TO_BE_CUT.len(), 0) });
        // The device is not on yet: an accepted packet goes no farther.
        !sent.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
    }

    /// Reads a frame, from the waiting queues in turn; returns its true length, which may exceed
    /// `buffer`.
    pub fn read(&mut self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        if self.waiting == 0 || self.look_in == 0 {
            self.look()?;
        }
        while let Some(index) = self.next() {
            let socket = &self.sockets[index];
            let received = if index == self.tagged {
                tagged::receive(socket, buffer)
            } else {
                receive(socket, buffer)
            };
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.waiting &= !(1 << index);
                }
                result => {
                    self.last = index;
                    self.look_in -= 1;
                    return result;
                }
            }
        }
        // If there is more by now, waiting for it tells.
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn look(&mut self) -> io::Result<()> {
        self.poller.wait(Some(Duration::ZERO), &mut self.events)?;
        let bits = self.events.iter().map(|ready| 1 << ready.token);
        self.waiting = bits.fold(0, |all, bit: u32| all | bit);
        self.look_in = LOOK_EVERY;
        Ok(())
    }

    /// The first one after that which was read last.
    fn next(&self) -> Option<usize> {
        // The bits wrap later than the queues, but none is set between.
        let after = self.last as u32 + 1;
        let in_turn = self.waiting.rotate_right(after);
        (in_turn != 0).then(|| ((after + in_turn.trailing_zeros()) % u32::BITS) as usize)
    }

    /// The frames they had no room for since the last call.
    pub fn take_drops(&self) -> io::Result<u64> {
        // struct tpacket_stats: packets, drops
        let drops = |socket| get_option(socket, libc::SOL_PACKET, PACKET_STATISTICS, [0u32; 2]);
        let drops = self
            .sockets
            .iter()
            .map(|s| drops(s).map(|s| u64::from(s[1])));
        drops.sum()
    }
}

/// Reads a frame; returns its true length, which may exceed `buffer`.
fn receive(socket: &OwnedFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let (at, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    retry(|| {
        // SAFETY: pointer and length describe `buffer`. MSG_TRUNC makes the kernel return the frame's
        // true length, not write beyond the buffer.
        check_len(unsafe { libc::recv(socket.as_raw_fd(), at, length, libc::MSG_TRUNC) })
    })
}

impl AsFd for Queues {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}
