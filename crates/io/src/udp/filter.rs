//! A filter in the kernel (classic BPF, socket(7) SO_ATTACH_FILTER): rejected packets
//! take neither room in the receive buffer nor a system call.

use std::io;

use super::LinkSocket;
use crate::sys::{set_option, set_program};

/// Most instructions of a filter (`BPF_MAXINSNS`).
pub const FILTER_INSTRUCTIONS_MAX: usize = 4096;

/// Offset of a datagram, in a filter's view: behind its UDP header.
pub const FILTER_PAYLOAD: u32 = 8;

/// One instruction of a filter. Conditions compare the accumulator, which the
/// loads set, and skip the given number of instructions. There is an index beside it, which
/// begins as 0, and room to keep numbers in.
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
    /// Load this number.
    Load(u32),
    /// Store the accumulator in this slot (0 to 15).
    Keep(u32),
    /// Load from this slot.
    Recall(u32),
    /// Copy the accumulator to the index.
    ToIndex,
    /// Leave these bits of the accumulator.
    And(u32),
    /// Leave the remainder of a division by this number, which is not 0.
    Modulo(u32),
    /// Shift the accumulator right by this many bits (0 to 31).
    ShiftRight(u32),
    /// Shift the accumulator left by the index (0 to 31).
    ShiftLeftByIndex,
    /// Skip this many.
    Skip(u32),
    /// Equal to the number: skip this many.
    SkipIfEqual(u32, u8),
    /// Not equal: skip this many.
    SkipUnlessEqual(u32, u8),
    /// Greater than the number: skip this many.
    SkipIfGreater(u32, u8),
    /// Not greater: skip this many.
    SkipUnlessGreater(u32, u8),
    /// None of these bits set: skip this many.
    SkipUnlessBits(u32, u8),
    /// A bit of the index set: skip so many.
    SkipIfIndexBits(u8),
    /// Take the packet.
    Accept,
    /// Drop it.
    Drop,
}

/// Offset of the kernel's own numbers in a filter's view (linux/filter.h).
const ANCILLARY: u32 = -0x1000_i32 as u32;
const ANCILLARY_RANDOM: u32 = 56;

impl Instruction {
    fn encode(self) -> libc::sock_filter {
        use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_IMM, BPF_JA, BPF_JEQ, BPF_JGT, BPF_JMP};
        use libc::{
            BPF_JSET, BPF_K, BPF_LD, BPF_LEN, BPF_LSH, BPF_MEM, BPF_MISC, BPF_MOD, BPF_RET,
        };
        use libc::{BPF_RSH, BPF_ST, BPF_TAX, BPF_W, BPF_X};
        let (code, jt, jf, k) = match self {
            Instruction::LoadLength => (BPF_LD | BPF_W | BPF_LEN, 0, 0, 0),
            Instruction::LoadByte(at) => (BPF_LD | BPF_B | BPF_ABS, 0, 0, at),
            Instruction::LoadWord(at) => (BPF_LD | BPF_W | BPF_ABS, 0, 0, at),
            Instruction::LoadRandom => {
                let at = ANCILLARY.wrapping_add(ANCILLARY_RANDOM);
                (BPF_LD | BPF_W | BPF_ABS, 0, 0, at)
            }
            Instruction::Load(k) => (BPF_LD | BPF_IMM, 0, 0, k),
            Instruction::Keep(place) => (BPF_ST, 0, 0, place),
            Instruction::Recall(place) => (BPF_LD | BPF_MEM, 0, 0, place),
            Instruction::ToIndex => (BPF_MISC | BPF_TAX, 0, 0, 0),
            Instruction::And(k) => (BPF_ALU | BPF_AND | BPF_K, 0, 0, k),
            Instruction::Modulo(k) => (BPF_ALU | BPF_MOD | BPF_K, 0, 0, k),
            Instruction::ShiftRight(k) => (BPF_ALU | BPF_RSH | BPF_K, 0, 0, k),
            Instruction::ShiftLeftByIndex => (BPF_ALU | BPF_LSH | BPF_X, 0, 0, 0),
            Instruction::Skip(skip) => (BPF_JMP | BPF_JA, 0, 0, skip),
            Instruction::SkipIfEqual(k, skip) => (BPF_JMP | BPF_JEQ | BPF_K, skip, 0, k),
            Instruction::SkipUnlessEqual(k, skip) => (BPF_JMP | BPF_JEQ | BPF_K, 0, skip, k),
            Instruction::SkipIfGreater(k, skip) => (BPF_JMP | BPF_JGT | BPF_K, skip, 0, k),
            Instruction::SkipUnlessGreater(k, skip) => (BPF_JMP | BPF_JGT | BPF_K, 0, skip, k),
            Instruction::SkipIfIndexBits(skip) => (BPF_JMP | BPF_JSET | BPF_X, skip, 0, 0),
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
    /// From now on the kernel drops what `filter` does not accept; replaces any filter
    /// before. Drops count in [`kernel_drops`](super::UdpCounters::kernel_drops). Needs
    /// no privileges.
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
