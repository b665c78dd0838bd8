//! A filter in the kernel (classic BPF, socket(7) SO_ATTACH_FILTER): what it does
//! not accept never takes room in the receive buffer, nor a system call.

use std::io;

use super::LinkSocket;
use crate::sys::{set_option, set_program};

/// Most instructions of a filter (`BPF_MAXINSNS`).
pub const FILTER_INSTRUCTIONS_MAX: usize = 4096;

/// Where a datagram begins, in what a filter sees: behind its UDP header.
pub const FILTER_PAYLOAD: u32 = 8;

/// One instruction of a filter. Conditions compare the accumulator, which the
/// loads set, and skip the given number of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Load the length of UDP header and datagram. Datagrams that the kernel has
    /// joined are one here.
    LoadLength,
    /// Load the byte at an offset; a packet that is too short is dropped.
    LoadByte(u32),
    /// Load four bytes at an offset, big endian; a packet that is too short is dropped.
    LoadWord(u32),
    /// Load a random number of 32 bits.
    LoadRandom,
    /// Equal to the number: skip so many.
    SkipIfEqual(u32, u8),
    /// Not equal: skip so many.
    SkipUnlessEqual(u32, u8),
    /// Greater than the number: skip so many.
    SkipIfGreater(u32, u8),
    /// None of these bits set: skip so many.
    SkipUnlessBits(u32, u8),
    /// Take the packet.
    Accept,
    /// Drop it.
    Drop,
}

/// Where the kernel shows its own numbers to a filter (linux/filter.h).
const ANCILLARY: u32 = -0x1000_i32 as u32;
const ANCILLARY_RANDOM: u32 = 56;

impl Instruction {
    fn encode(self) -> libc::sock_filter {
        use libc::{BPF_ABS, BPF_B, BPF_JEQ, BPF_JGT, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_LEN};
        use libc::{BPF_RET, BPF_W};
        let (code, jt, jf, k) = match self {
            Instruction::LoadLength => (BPF_LD | BPF_W | BPF_LEN, 0, 0, 0),
            Instruction::LoadByte(at) => (BPF_LD | BPF_B | BPF_ABS, 0, 0, at),
            Instruction::LoadWord(at) => (BPF_LD | BPF_W | BPF_ABS, 0, 0, at),
            Instruction::LoadRandom => {
                let at = ANCILLARY.wrapping_add(ANCILLARY_RANDOM);
                (BPF_LD | BPF_W | BPF_ABS, 0, 0, at)
            }
            Instruction::SkipIfEqual(k, skip) => (BPF_JMP | BPF_JEQ | BPF_K, skip, 0, k),
            Instruction::SkipUnlessEqual(k, skip) => (BPF_JMP | BPF_JEQ | BPF_K, 0, skip, k),
            Instruction::SkipIfGreater(k, skip) => (BPF_JMP | BPF_JGT | BPF_K, skip, 0, k),
            Instruction::SkipUnlessBits(k, skip) => (BPF_JMP | BPF_JSET | BPF_K, 0, skip, k),
            Instruction::Accept => (BPF_RET | BPF_K, 0, 0, u32::MAX),
            Instruction::Drop => (BPF_RET | BPF_K, 0, 0, 0),
        };
        libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        }
    }
}

impl LinkSocket {
    /// Has the kernel drop what `filter` does not accept, from now on, in place of
    /// any filter before. What is dropped counts in
    /// [`kernel_drops`](super::UdpCounters::kernel_drops). Needs no privileges.
    ///
    /// # Errors
    /// More than [`FILTER_INSTRUCTIONS_MAX`], a skip beyond the end, or more than
    /// `net.core.optmem_max` allows.
    pub fn set_filter(&self, filter: &[Instruction]) -> io::Result<()> {
        let program: Vec<_> = filter.iter().map(|i| i.encode()).collect();
        let option = libc::SO_ATTACH_FILTER;
        set_program(&self.socket, libc::SOL_SOCKET, option, &program)
    }

    /// Takes everything again.
    ///
    /// # Errors
    /// `ENOENT`: there was no filter.
    pub fn clear_filter(&self) -> io::Result<()> {
        set_option(&self.socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0)
    }
}
