//! Writing big-endian fields into a packet under construction.

/// Appends fields to a fixed piece of memory: a slot of the transmit buffer.
///
/// The caller checks [`room`](Writer::room) first; writing past the end is a
/// bug of the caller and panics (it can only be reached from local code, never
/// from the network).
#[derive(Debug)]
pub struct Writer<'a> {
    slot: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// A writer that fills `slot` from its start.
    pub const fn new(slot: &'a mut [u8]) -> Writer<'a> {
        Writer { slot, len: 0 }
    }

    /// Bytes that can still be written.
    pub const fn room(&self) -> usize {
        self.slot.len() - self.len
    }

    /// Bytes written so far.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written yet.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends `bytes`.
    pub fn put(&mut self, bytes: &[u8]) {
        self.slot[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Appends `n` bytes, which the caller fills.
    pub fn space(&mut self, n: usize) -> &mut [u8] {
        self.len += n;
        &mut self.slot[self.len - n..self.len]
    }

    /// Appends `n` zero bytes.
    pub fn zeros(&mut self, n: usize) {
        self.slot[self.len..self.len + n].fill(0);
        self.len += n;
    }

    /// Appends one byte.
    pub fn u8(&mut self, v: u8) {
        self.put(&[v]);
    }

    /// Appends two bytes.
    pub fn u16(&mut self, v: u16) {
        self.put(&v.to_be_bytes());
    }

    /// Appends the low three bytes of `v`.
    pub fn u24(&mut self, v: u32) {
        self.put(&v.to_be_bytes()[1..]);
    }

    /// Appends four bytes.
    pub fn u32(&mut self, v: u32) {
        self.put(&v.to_be_bytes());
    }

    /// Appends the low six bytes of `v`.
    pub fn u48(&mut self, v: u64) {
        self.put(&v.to_be_bytes()[2..]);
    }

    /// Appends `v`, below 2^62, in the fewest of 1, 2, 4 or 8 bytes: the first two bits say how
    /// many (RFC 9000 section 16).
    pub fn varint(&mut self, v: u64) {
        match varint_len(v) {
            1 => self.u8(v as u8),
            2 => self.u16(v as u16 | 1 << 14),
            4 => self.u32(v as u32 | 2 << 30),
            _ => self.u64(v | 3 << 62),
        }
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, v: u64) {
        self.put(&v.to_be_bytes());
    }
}

/// Bytes of `v`, below 2^62, as a [`varint`](Writer::varint).
pub const fn varint_len(v: u64) -> usize {
    match v {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}
