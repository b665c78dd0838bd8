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

    /// Appends eight bytes.
    pub fn u64(&mut self, v: u64) {
        self.put(&v.to_be_bytes());
    }
}
