//! Reusable buffers, so that no frame needs an allocation.

/// A short message.
const TINY_BUFFER_BYTES: usize = 256;
/// Frames up to this long live in small buffers: a wire's packet with its virtio header.
pub const SMALL_BUFFER_BYTES: usize = 2 * 1024;
/// A jumbo packet with its virtio header.
const MEDIUM_BUFFER_BYTES: usize = 10 * 1024;
/// Capacity that a large buffer starts with: a full TSO packet.
pub const LARGE_BUFFER_BYTES: usize = 68 * 1024;
/// A buffer that once grew for the longest packets of a device with BIG TCP. These have a shelf
/// of their own: frames that each take five times their length would fill the memory for
/// frames.
const GROWN_BUFFER_BYTES: usize = 256 * 1024;

/// The least capacity of each shelf's buffers, in bytes.
const SHELVES: [usize; 5] = [
    TINY_BUFFER_BYTES,
    SMALL_BUFFER_BYTES,
    MEDIUM_BUFFER_BYTES,
    LARGE_BUFFER_BYTES,
    GROWN_BUFFER_BYTES,
];
const LARGE: usize = 3;
const GROWN: usize = 4;

/// Empty buffers of five sizes, up to a bound; beyond it they are freed.
#[derive(Debug)]
pub struct Pool {
    shelves: [Vec<Vec<u8>>; SHELVES.len()],
    /// Capacity of all buffers here.
    held_bytes: usize,
    /// No buffer is kept beyond this.
    held_bytes_max: usize,
}

impl Pool {
    /// An empty pool that will keep at most `held_bytes_max`.
    pub const fn new(held_bytes_max: usize) -> Pool {
        Pool {
            shelves: [const { Vec::new() }; SHELVES.len()],
            held_bytes: 0,
            held_bytes_max,
        }
    }

    /// An empty buffer with room for at least `bytes`.
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        let shelf = SHELVES
            .iter()
            .position(|size| bytes <= *size)
            .unwrap_or(GROWN);
        let capacity = bytes.max(SHELVES[shelf.min(LARGE)]);
        let Some(mut buffer) = self.take_from(shelf) else {
            return Vec::with_capacity(capacity);
        };
        if buffer.capacity() < bytes {
            buffer.reserve_exact(capacity);
        }
        buffer
    }

    /// Like [`take`](Pool::take), but hardly longer than twice the need: for data that a peer
    /// is granted by its length.
    pub fn take_close(&mut self, bytes: usize) -> Vec<u8> {
        match SHELVES.iter().find(|size| bytes <= **size) {
            Some(size) if *size > TINY_BUFFER_BYTES && *size > 2 * bytes => {
                Vec::with_capacity(bytes)
            }
            _ => self.take(bytes),
        }
    }

    /// The largest kind of empty buffer that was ever needed here.
    pub fn take_largest(&mut self) -> Vec<u8> {
        let spare = self.take_spare();
        spare.unwrap_or_else(|| Vec::with_capacity(LARGE_BUFFER_BYTES))
    }

    /// As [`take_largest`](Pool::take_largest), but `None` rather than allocating.
    pub fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.take_from(GROWN).or_else(|| self.take_from(LARGE))
    }

    fn take_from(&mut self, shelf: usize) -> Option<Vec<u8>> {
        let buffer = self.shelves[shelf].pop()?;
        debug_assert!(buffer.is_empty() && buffer.capacity() >= SHELVES[shelf]);
        self.held_bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Puts a buffer back; its contents are forgotten.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let Some(shelf) = SHELVES.iter().rposition(|size| capacity >= *size) else {
            return;
        };
        if self.held_bytes + capacity > self.held_bytes_max {
            return;
        }
        buffer.clear();
        self.held_bytes += capacity;
        self.shelves[shelf].push(buffer);
    }

    /// Keeps no buffer beyond this from now on.
    pub const fn set_held_bytes_max(&mut self, bytes: usize) {
        self.held_bytes_max = bytes;
    }

    /// Frees all buffers.
    pub fn trim(&mut self) {
        *self = Pool::new(self.held_bytes_max);
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let lists: usize = self.shelves.iter().map(Vec::capacity).sum();
        self.held_bytes + lists * size_of::<Vec<u8>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_with_their_capacity() {
        let mut pool = Pool::new(1 << 20);
        let mut b = pool.take(200_000);
        b.extend_from_slice(&[7; 200_000]);
        pool.give(b);
        let b = pool.take(MEDIUM_BUFFER_BYTES + 1);
        assert!(b.is_empty() && b.capacity() >= 200_000);
        assert!(pool.take(60).capacity() < LARGE_BUFFER_BYTES);
    }

    #[test]
    fn a_grown_buffer_is_for_what_may_be_as_long() {
        let mut pool = Pool::new(1 << 20);
        pool.give(Vec::with_capacity(350_000));
        assert!(pool.take(MEDIUM_BUFFER_BYTES + 1).capacity() < GROWN_BUFFER_BYTES);
        assert!(pool.take(LARGE_BUFFER_BYTES).capacity() < GROWN_BUFFER_BYTES);
        assert!(pool.take_largest().capacity() >= 350_000);
        assert_eq!(pool.take_largest().capacity(), LARGE_BUFFER_BYTES);
    }

    #[test]
    fn what_is_granted_by_its_length_takes_hardly_twice_as_much() {
        let mut pool = Pool::new(1 << 20);
        for bytes in [257usize, 1024, 2049, 10_241, 34_000, 70_000, 300_000] {
            pool.give(Vec::with_capacity(bytes.next_power_of_two() * 2));
            assert!(
                pool.take_close(bytes).capacity() <= bytes * 2 + bytes / 8,
                "{bytes}"
            );
        }
    }

    #[test]
    fn the_bound_holds() {
        let mut pool = Pool::new(3 * LARGE_BUFFER_BYTES);
        for _ in 0..10 {
            pool.give(Vec::with_capacity(LARGE_BUFFER_BYTES));
        }
        assert!(pool.memory_bytes() <= 3 * LARGE_BUFFER_BYTES + 1024);
        pool.trim();
        assert_eq!(pool.memory_bytes(), 0);
    }
}
