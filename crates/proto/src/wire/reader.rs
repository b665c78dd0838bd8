//! Reading big-endian fields from untrusted bytes.

use core::fmt;

use super::writer::varint_len;

/// Why bytes from the network could not be understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The bytes end inside a field.
    Truncated,
    /// The first byte is no known packet kind.
    BadKind,
    /// A record type this version does not know.
    BadRecord,
    /// A field whose value is outside its documented range.
    BadValue,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WireError::Truncated => "the packet ends inside a field",
            WireError::BadKind => "unknown packet kind",
            WireError::BadRecord => "unknown record type",
            WireError::BadValue => "field out of range",
        })
    }
}

impl core::error::Error for WireError {}

/// A cursor over received bytes. Every read is checked and never panics.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of all of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// Bytes not read yet.
    pub const fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if there are fewer; nothing is consumed then.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        let (head, tail) = self.bytes.split_at_checked(n).ok_or(WireError::Truncated)?;
        self.bytes = tail;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if there are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.array_ref().copied()
    }

    /// The next `N` bytes, not copied.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if there are fewer.
    pub fn array_ref<const N: usize>(&mut self) -> Result<&'a [u8; N], WireError> {
        let (head, tail) = self
            .bytes
            .split_first_chunk::<N>()
            .ok_or(WireError::Truncated)?;
        self.bytes = tail;
        Ok(head)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    pub fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Three bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    pub fn u24(&mut self) -> Result<u32, WireError> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    /// Four bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    pub fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Six bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    pub fn u48(&mut self) -> Result<u64, WireError> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// A number below 2^62 in 1, 2, 4 or 8 bytes, as its first two bits say (RFC 9000 section 16).
    ///
    /// # Errors
    /// [`WireError::Truncated`]; [`WireError::BadValue`] if fewer bytes would have done.
    pub fn varint(&mut self) -> Result<u64, WireError> {
        let first = *self.bytes.first().ok_or(WireError::Truncated)?;
        let (v, len) = match first >> 6 {
            0 => (u64::from(self.u8()?), 1),
            1 => (u64::from(self.u16()? & 0x3fff), 2),
            2 => (u64::from(self.u32()? & 0x3fff_ffff), 4),
            _ => (self.u64()? & (u64::MAX >> 2), 8),
        };
        if varint_len(v) == len {
            Ok(v)
        } else {
            Err(WireError::BadValue)
        }
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// [`WireError::Truncated`].
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_be_bytes(self.array()?))
    }
}
