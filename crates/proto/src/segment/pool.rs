//! Buffers that are used again, so that nothing is allocated per frame.

/// Frames up to this long live in small buffers: a wire's packet with its virtio header.
pub const SMALL_BUFFER_BYTES: usize = 2048;
/// Capacity that a large buffer starts with: a full TSO packet. Larger ones grow
/// once and keep it.
pub const LARGE_BUFFER_BYTES: usize = 68 * 1024;

/// Empty buffers of two sizes, up to a bound; beyond it they are freed.
#[derive(Debug)]
pub struct Pool {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
    /// Capacity of all buffers here.
    held_bytes: usize,
    /// No buffer is kept beyond this.
    held_bytes_max: usize,
}

impl Pool {
    /// An empty pool that will keep at most `held_bytes_max`.
    pub const fn new(held_bytes_max: usize) -> Pool {
        Pool {
            small: Vec::new(),
            large: Vec::new(),
            held_bytes: 0,
            held_bytes_max,
        }
    }

    /// An empty buffer with room for at least `bytes`.
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        let (shelf, capacity) = if bytes <= SMALL_BUFFER_BYTES {
            (&mut self.small, SMALL_BUFFER_BYTES)
        } else {
            (&mut self.large, bytes.max(LARGE_BUFFER_BYTES))
        };
        let Some(mut buffer) = shelf.pop() else {
            return Vec::with_capacity(capacity);
        };
        self.held_bytes -= buffer.capacity();
        if buffer.capacity() < bytes {
            buffer.reserve_exact(capacity);
        }
        buffer
    }

    /// A large empty buffer if there is one.
    pub fn take_spare(&mut self) -> Option<Vec<u8>> {
        let buffer = self.large.pop()?;
        self.held_bytes -= buffer.capacity();
        Some(buffer)
    }

    /// Puts a buffer back; its contents are forgotten.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if capacity < SMALL_BUFFER_BYTES || self.held_bytes + capacity > self.held_bytes_max {
            return;
        }
        buffer.clear();
        self.held_bytes += capacity;
        if capacity < LARGE_BUFFER_BYTES {
            self.small.push(buffer);
        } else {
            self.large.push(buffer);
        }
    }

    /// Frees all buffers.
    pub fn trim(&mut self) {
        self.small = Vec::new();
        self.large = Vec::new();
        self.held_bytes = 0;
    }

    /// Memory held, in bytes.
    pub const fn memory_bytes(&self) -> usize {
        self.held_bytes + (self.small.capacity() + self.large.capacity()) * size_of::<Vec<u8>>()
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
        let b = pool.take(SMALL_BUFFER_BYTES + 1);
        assert!(b.is_empty() && b.capacity() >= 200_000);
        assert!(pool.take(60).capacity() < LARGE_BUFFER_BYTES);
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
