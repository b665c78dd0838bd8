//! The header of a session packet: 12 bytes in the clear, authenticated.

use super::{Reader, WireError, Writer};

/// Length of [`Header`] on the wire.
pub const HEADER_BYTES: usize = 12;

/// Offset of the path in [`Header`].
pub const PATH_OFFSET: usize = 1;
/// Offset of the session's number, also in handshakes.
pub const SESSION_OFFSET: usize = 2;

/// Kind of a datagram: its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// First handshake message, from the initiator.
    Init = 0x01,
    /// Second handshake message, from the responder.
    Response = 0x02,
    /// A stateless demand to repeat [`Kind::Init`] with this cookie.
    Cookie = 0x03,
    /// A question that needs no session, padded or not.
    Echo = 0x04,
    /// Its answer.
    EchoReply = 0x05,
    /// Records under a session's keys.
    Data = 0x10,
}

impl Kind {
    /// The kind with this code, if any.
    pub const fn from_byte(byte: u8) -> Option<Kind> {
        match byte {
            0x01 => Some(Kind::Init),
            0x02 => Some(Kind::Response),
            0x03 => Some(Kind::Cookie),
            0x04 => Some(Kind::Echo),
            0x05 => Some(Kind::EchoReply),
            0x10 => Some(Kind::Data),
            _ => None,
        }
    }
}

/// The header of a [`Kind::Data`] packet.
///
/// ```text
///  0      1      2             6                    12
///  ┌──────┬──────┬─────────────┬─────────────────────┐
///  │ kind │ path │ session u32 │ number u48          │  big endian
///  └──────┴──────┴─────────────┴─────────────────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The path it is sent on: 0 to 7 are the links, from 8 on is for relayed paths, of which there are none yet.
    pub path: u8,
    /// The receiver's number for the session, chosen by it in the handshake.
    pub session: u32,
    /// The packet's number on this path; below 2^48, never used twice on a path under the same keys.
    pub number: u64,
}

impl Header {
    /// Writes the 12 bytes.
    pub fn write(&self, w: &mut Writer<'_>) {
        w.u8(Kind::Data as u8);
        w.u8(self.path);
        w.u32(self.session);
        w.u48(self.number);
    }

    /// Reads the 12 bytes.
    ///
    /// # Errors
    /// Too short, or another kind.
    pub fn read(r: &mut Reader<'_>) -> Result<Header, WireError> {
        if r.u8()? != Kind::Data as u8 {
            return Err(WireError::BadKind);
        }
        Ok(Header {
            path: r.u8()?,
            session: r.u32()?,
            number: r.u48()?,
        })
    }
}
