//! Messages of two ends that connect their VIs, and the numbers of their messages: encoding
//! and decoding.

use crate::address::{DISCRIMINATOR_BYTES_MAX, HOST_BYTES, Host, Place};

/// Bytes of the longest thing said.
pub const SAID_BYTES_MAX: usize = 192;

/// Tags: the purpose of a message, in the highest byte, and its line.
const FOR_LINE: u64 = 1 << 56;
const OF_LINE: u64 = 2 << 56;
/// Sets lines up.
pub const TAG_SAID: u64 = 3 << 56;

/// Content: one descriptor's.
pub const fn tag_content(line: u32) -> u64 {
    FOR_LINE | line as u64
}

/// Word of the line itself: why it ends.
pub const fn tag_word(line: u32) -> u64 {
    OF_LINE | line as u64
}

/// The ignored bits of a tag when looking for any content.
pub const ANY_LINE: u64 = u32::MAX as u64;

/// What a message has besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Label {
    /// Immediate data.
    pub immediate: Option<u32>,
    /// It announces a write to memory of this many bytes (below 2^30), and has no bytes of
    /// its own.
    pub written: Option<u32>,
}

impl Label {
    /// As the eight bytes that go with a message.
    pub fn to_data(self) -> u64 {
        let immediate = self.immediate.map_or(0, |value| 1 << 32 | u64::from(value));
        let written = self
            .written
            .map_or(0, |bytes| 1 << 33 | u64::from(bytes) << 34);
        immediate | written
    }

    /// Decodes a label.
    pub fn from_data(data: u64) -> Label {
        Label {
            immediate: (data >> 32 & 1 == 1).then_some(data as u32),
            written: (data >> 33 & 1 == 1).then_some((data >> 34) as u32),
        }
    }
}

/// Why a line ends, for its other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Why {
    /// The program wants it no longer.
    Disconnected = 1,
    /// There was no descriptor for a message.
    NoDescriptor = 2,
    /// The descriptor for a message was too short.
    TooShort = 3,
    /// A write was refused here.
    WriteRefused = 4,
    /// A read was refused here.
    ReadRefused = 5,
    /// A descriptor of the other end's was wrong.
    BadDescriptor = 6,
}

impl Why {
    /// Decodes a reason; an invalid number is the mildest reason.
    pub fn from_data(data: Option<u64>) -> Why {
        match data {
            Some(2) => Why::NoDescriptor,
            Some(3) => Why::TooShort,
            Some(4) => Why::WriteRefused,
            Some(5) => Why::ReadRefused,
            Some(6) => Why::BadDescriptor,
            _ => Why::Disconnected,
        }
    }
}

/// Why there will be no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Refusal {
    /// Nobody waits for that discriminator now.
    NoMatch = 1,
    /// The program does not want it.
    Rejected = 2,
    /// Another reliability level.
    Reliability = 3,
    /// Another size of transfers.
    Size = 4,
    /// Another quality of service.
    Quality = 5,
}

/// An end's description of its VI.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Manner {
    /// `VIP_RELIABILITY_LEVEL`.
    pub reliability: u16,
    /// Bytes of one descriptor at most.
    pub transfer_bytes_max: u64,
    /// Unused here.
    pub quality: u64,
    /// Added to a region's handle it gives the key for writing there; `None`: not allowed.
    pub writes: Option<u64>,
    /// The same for reading.
    pub reads: Option<u64>,
}

impl Manner {
    /// Why VIs of these two manners cannot be connected.
    pub fn refusal(&self, other: &Manner) -> Option<Refusal> {
        if self.reliability != other.reliability {
            Some(Refusal::Reliability)
        } else if self.transfer_bytes_max != other.transfer_bytes_max {
            Some(Refusal::Size)
        } else {
            (self.quality != other.quality).then_some(Refusal::Quality)
        }
    }
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// Somebody wants a connection.
    Request {
        /// The caller's line.
        line: u32,
        /// The other end is to ask, too.
        is_peer: bool,
        /// The target, at the receiver's node.
        to: Place,
        /// The asker.
        from: Place,
        /// The caller's VI.
        manner: Manner,
    },
    /// He has it.
    Accept {
        /// The caller's line.
        to: u32,
        /// The accepting end's.
        line: u32,
        /// Its VI.
        manner: Manner,
    },
    /// He has it not.
    Refuse {
        /// The caller's line.
        to: u32,
        /// Why.
        why: Refusal,
    },
    /// He wants it no more.
    Withdraw {
        /// The caller's line.
        line: u32,
    },
}

/// Reads numbers, one after the other.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn place(&mut self) -> Option<Place> {
        let host = Host::from_bytes(&self.take::<HOST_BYTES>()?).ok()?;
        let len = usize::from(self.u8()?);
        let (who, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        (len <= DISCRIMINATOR_BYTES_MAX).then(|| Place {
            host,
            discriminator: who.to_vec(),
        })
    }

    fn manner(&mut self) -> Option<Manner> {
        let reliability = self.u16()?;
        let (transfer_bytes_max, quality) = (self.u64()?, self.u64()?);
        let flags = self.u8()?;
        let (writes, reads) = (self.u64()?, self.u64()?);
        Some(Manner {
            reliability,
            transfer_bytes_max,
            quality,
            writes: (flags & 1 != 0).then_some(writes),
            reads: (flags & 2 != 0).then_some(reads),
        })
    }
}

fn write_place(bytes: &mut Vec<u8>, place: &Place) {
    bytes.extend_from_slice(&place.host.0);
    // It has DISCRIMINATOR_BYTES_MAX at most.
    bytes.push(place.discriminator.len() as u8);
    bytes.extend_from_slice(&place.discriminator);
}

fn write_manner(bytes: &mut Vec<u8>, manner: &Manner) {
    bytes.extend(manner.reliability.to_le_bytes());
    bytes.extend(manner.transfer_bytes_max.to_le_bytes());
    bytes.extend(manner.quality.to_le_bytes());
    bytes.push(u8::from(manner.writes.is_some()) | u8::from(manner.reads.is_some()) << 1);
    bytes.extend(manner.writes.unwrap_or(0).to_le_bytes());
    bytes.extend(manner.reads.unwrap_or(0).to_le_bytes());
}

impl Said {
    /// As bytes: [`SAID_BYTES_MAX`] at most.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Said::Request {
                line,
                is_peer,
                to,
                from,
                manner,
            } => {
                bytes.push(1 + u8::from(*is_peer));
                bytes.extend(line.to_le_bytes());
                write_place(&mut bytes, to);
                write_place(&mut bytes, from);
                write_manner(&mut bytes, manner);
            }
            Said::Accept { to, line, manner } => {
                bytes.push(3);
                bytes.extend(to.to_le_bytes());
                bytes.extend(line.to_le_bytes());
                write_manner(&mut bytes, manner);
            }
            Said::Refuse { to, why } => {
                bytes.push(4);
                bytes.extend(to.to_le_bytes());
                bytes.push(*why as u8);
            }
            Said::Withdraw { line } => {
                bytes.push(5);
                bytes.extend(line.to_le_bytes());
            }
        }
        bytes
    }

    /// Parses a message; `None` if it is malformed.
    pub fn read(bytes: &[u8]) -> Option<Said> {
        let mut reader = Reader(bytes);
        let said = match reader.u8()? {
            kind @ (1 | 2) => Said::Request {
                line: reader.u32()?,
                is_peer: kind == 2,
                to: reader.place()?,
                from: reader.place()?,
                manner: reader.manner()?,
            },
            3 => Said::Accept {
                to: reader.u32()?,
                line: reader.u32()?,
                manner: reader.manner()?,
            },
            4 => Said::Refuse {
                to: reader.u32()?,
                why: match reader.u8()? {
                    1 => Refusal::NoMatch,
                    2 => Refusal::Rejected,
                    3 => Refusal::Reliability,
                    4 => Refusal::Size,
                    5 => Refusal::Quality,
                    _ => return None,
                },
            },
            5 => Said::Withdraw {
                line: reader.u32()?,
            },
            _ => return None,
        };
        reader.0.is_empty().then_some(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Said> {
        let place = |last: u8, who: &[u8]| Place {
            host: Host::of([[10, 77, 0, last].into()]).expect("is one"),
            discriminator: who.to_vec(),
        };
        let manner = Manner {
            reliability: 2,
            transfer_bytes_max: 1 << 20,
            quality: 7,
            writes: Some(u64::MAX - 5),
            reads: None,
        };
        let longest = [9; DISCRIMINATOR_BYTES_MAX];
        vec![
            Said::Request {
                line: 1,
                is_peer: false,
                to: place(1, &longest),
                from: place(2, &longest),
                manner,
            },
            Said::Request {
                line: 2,
                is_peer: true,
                to: place(1, b""),
                from: place(2, b"x"),
                manner: Manner {
                    reads: Some(0),
                    writes: None,
                    ..manner
                },
            },
            Said::Accept {
                to: 1,
                line: u32::MAX,
                manner,
            },
            Said::Refuse {
                to: 3,
                why: Refusal::Quality,
            },
            Said::Withdraw { line: 5 },
        ]
    }

    #[test]
    fn what_is_said_is_understood() {
        for said in all() {
            let bytes = said.write();
            assert!(bytes.len() <= SAID_BYTES_MAX);
            assert_eq!(Said::read(&bytes), Some(said));
        }
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_nothing() {
        for said in all() {
            let mut bytes = said.write();
            for len in 0..bytes.len() {
                assert_eq!(Said::read(&bytes[..len]), None);
            }
            bytes.push(0);
            assert_eq!(Said::read(&bytes), None);
        }
        assert_eq!(Said::read(&[6, 0, 0, 0, 0]), None);
    }

    #[test]
    fn noise_is_nothing_or_something_but_no_harm() {
        for said in all() {
            let good = said.write();
            for index in 0..good.len() {
                for value in 0..=u8::MAX {
                    let mut noisy = good.clone();
                    noisy[index] = value;
                    if let Some(said) = Said::read(&noisy) {
                        assert_eq!(Said::read(&said.write()), Some(said));
                    }
                }
            }
        }
    }

    #[test]
    fn a_label_fits_into_eight_bytes() {
        for immediate in [None, Some(0), Some(u32::MAX)] {
            for written in [None, Some(0), Some((1 << 30) - 1)] {
                let label = Label { immediate, written };
                assert_eq!(Label::from_data(label.to_data()), label);
            }
        }
    }

    #[test]
    fn vis_are_connected_only_if_they_agree() {
        let one = Manner {
            reliability: 2,
            transfer_bytes_max: 10,
            quality: 1,
            ..Manner::default()
        };
        let refusal = |change: fn(&mut Manner)| {
            let mut other = one;
            change(&mut other);
            one.refusal(&other)
        };
        assert_eq!(refusal(|m| m.writes = Some(1)), None);
        assert_eq!(refusal(|m| m.reliability = 4), Some(Refusal::Reliability));
        assert_eq!(refusal(|m| m.transfer_bytes_max = 9), Some(Refusal::Size));
        assert_eq!(refusal(|m| m.quality = 0), Some(Refusal::Quality));
    }
}
