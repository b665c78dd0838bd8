//! The bytes of a stream between a write and an acknowledgement, or between arrival and a read. They
//! are addressed by stream offset and held in chunks, so that memory follows the content and growing
//! moves nothing.

use std::collections::VecDeque;

/// Length of a chunk: large enough that few segments end at one, small enough
/// that a stream with little in it costs little.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// The least that is [lent](Chunks::fill) of a chunk that can grow: of ten thousand streams that say
/// little at once, each costs this.
const LENT_BYTES_MIN: usize = 512;

/// Empty chunks, up to a bound.
#[derive(Debug)]
pub struct ChunkPool {
    chunks: Vec<Vec<u8>>,
    count_max: usize,
}

impl ChunkPool {
    /// An empty pool that will keep at most `bytes_max`.
    pub const fn new(bytes_max: usize) -> ChunkPool {
        ChunkPool {
            chunks: Vec::new(),
            count_max: bytes_max / CHUNK_BYTES,
        }
    }

    /// A spare chunk, with its old content, or an empty one that grows.
    fn take(&mut self) -> Vec<u8> {
        self.chunks.pop().unwrap_or_default()
    }

    /// Keeps a chunk that has grown to full size, if there is room.
    fn give(&mut self, chunk: Vec<u8>) {
        if chunk.capacity() >= CHUNK_BYTES && self.chunks.len() < self.count_max {
            self.chunks.push(chunk);
        }
    }

    /// Keeps no more than this from now on.
    pub const fn set_held_bytes_max(&mut self, bytes: usize) {
        self.count_max = bytes / CHUNK_BYTES;
    }

    /// Frees all chunks.
    pub fn trim(&mut self) {
        self.chunks = Vec::new();
    }

    /// Memory held, in bytes.
    pub const fn memory_bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES + self.chunks.capacity() * size_of::<Vec<u8>>()
    }
}

/// Bytes of a stream from some offset on, possibly with gaps.
#[derive(Debug, Default)]
pub struct Chunks {
    /// Stream offset of the first byte of the first chunk.
    base: u64,
    /// Each but the last stands for [`CHUNK_BYTES`] bytes of the stream, but may hold fewer: nothing
    /// beyond its length was written yet. Bytes in gaps are undefined.
    chunks: VecDeque<Vec<u8>>,
    /// Behind the last byte that was written.
    end: u64,
    /// Capacity of all chunks.
    held_bytes: usize,
}

impl Chunks {
    /// Puts `data` at `offset`, which must not have been [released](Chunks::release).
    pub fn write(&mut self, offset: u64, data: &[u8], pool: &mut ChunkPool) {
        let (mut at, mut data) = ((offset - self.base) as usize, data);
        self.end = self.end.max(offset + data.len() as u64);
        while !data.is_empty() {
            let start = at % CHUNK_BYTES;
            let (now, later) = data.split_at(data.len().min(CHUNK_BYTES - start));
            self.change(at, pool, |chunk| put(chunk, start, now));
            at += now.len();
            data = later;
        }
        debug_assert!(self.is_sound());
    }

    /// Lends contiguous memory for at most `len_max` bytes behind the last one to `fill`, which
    /// returns how many it wrote. Returns that.
    pub fn fill(
        &mut self,
        len_max: usize,
        pool: &mut ChunkPool,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> usize {
        let at = (self.end - self.base) as usize;
        let start = at % CHUNK_BYTES;
        let filled = self.change(at, pool, |chunk| {
            let lent = lend(chunk, start, len_max);
            fill(lent).min(lent.len())
        });
        self.end += filled as u64;
        if filled == 0 && start == 0 {
            // The chunk is empty, and may stay so for long.
            self.drop_last(pool);
        }
        debug_assert!(self.is_sound());
        filled
    }

    /// Changes the chunk that byte `at` from the first chunk's on belongs to.
    fn change<R>(
        &mut self,
        at: usize,
        pool: &mut ChunkPool,
        change: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> R {
        let index = at / CHUNK_BYTES;
        while self.chunks.len() <= index {
            let chunk = pool.take();
            self.held_bytes += chunk.capacity();
            self.chunks.push_back(chunk);
        }
        let chunk = &mut self.chunks[index];
        self.held_bytes -= chunk.capacity();
        let result = change(chunk);
        debug_assert!(chunk.len() <= CHUNK_BYTES);
        self.held_bytes += chunk.capacity();
        result
    }

    fn drop_last(&mut self, pool: &mut ChunkPool) {
        if let Some(chunk) = self.chunks.pop_back() {
            self.held_bytes -= chunk.capacity();
            pool.give(chunk);
        }
    }

    /// At most `len_max` bytes from `offset` on, as far as they lie together in
    /// memory. All of them must have been written and not released.
    #[inline]
    pub fn slice(&self, offset: u64, len_max: usize) -> &[u8] {
        let at = (offset - self.base) as usize;
        let start = at % CHUNK_BYTES;
        let Some(chunk) = self.chunks.get(at / CHUNK_BYTES) else {
            return &[];
        };
        let written = start.saturating_add(self.end.saturating_sub(offset) as usize);
        let end = chunk.len().min(written).min(start.saturating_add(len_max));
        &chunk[start.min(end)..end]
    }

    /// Forgets everything before `to`.
    pub fn release(&mut self, to: u64, pool: &mut ChunkPool) {
        if to >= self.end {
            while let Some(chunk) = self.chunks.pop_front() {
                pool.give(chunk);
            }
            self.held_bytes = 0;
            self.base = to;
            self.end = to;
            return;
        }
        while self.base + CHUNK_BYTES as u64 <= to {
            let Some(chunk) = self.chunks.pop_front() else {
                break;
            };
            self.held_bytes -= chunk.capacity();
            pool.give(chunk);
            self.base += CHUNK_BYTES as u64;
        }
        debug_assert!(self.is_sound());
    }

    /// Whether there are no more chunks than the content needs, and only chunks hold memory.
    fn is_sound(&self) -> bool {
        let needed = (self.end - self.base).div_ceil(CHUNK_BYTES as u64);
        self.chunks.len() as u64 <= needed && (self.held_bytes == 0 || !self.chunks.is_empty())
    }

    /// Forgets everything, and that there was anything before `to`.
    pub fn clear(&mut self, to: u64, pool: &mut ChunkPool) {
        self.release(self.end.max(to), pool);
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.held_bytes + self.chunks.capacity() * size_of::<Vec<u8>>()
    }
}

/// Memory of `chunk` for at most `len_max` bytes from `start` on. A chunk that is not full yet
/// doubles when little of it is left.
fn lend(chunk: &mut Vec<u8>, start: usize, len_max: usize) -> &mut [u8] {
    let wanted = start + len_max.min(CHUNK_BYTES - start);
    if chunk.capacity() < wanted.min(start + LENT_BYTES_MIN) {
        let capacity = (chunk.capacity() * 2).max(start + LENT_BYTES_MIN);
        chunk.reserve_exact(capacity.min(CHUNK_BYTES) - chunk.len());
    }
    let end = wanted.min(chunk.capacity());
    if chunk.len() < end {
        chunk.resize(end, 0);
    }
    &mut chunk[start..end]
}

/// Copies `piece` into `chunk` at `start`; pieces in order are appended. The chunk never grows
/// beyond [`CHUNK_BYTES`].
fn put(chunk: &mut Vec<u8>, start: usize, piece: &[u8]) {
    let end = start + piece.len();
    if end > chunk.capacity() {
        let capacity = end.max(chunk.capacity() * 2).min(CHUNK_BYTES);
        chunk.reserve_exact(capacity - chunk.len());
    }
    if start > chunk.len() {
        chunk.resize(start, 0);
    }
    let (inside, beyond) = piece.split_at(piece.len().min(chunk.len() - start));
    chunk[start..start + inside.len()].copy_from_slice(inside);
    chunk.extend_from_slice(beyond);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(offset: u64) -> u8 {
        ((offset * 31) >> 3) as u8
    }

    fn bytes(offset: u64, len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| byte(offset + i)).collect()
    }

    #[test]
    fn what_is_written_in_any_order_is_read() {
        let mut pool = ChunkPool::new(1 << 20);
        let mut c = Chunks::default();
        for (offset, len) in [
            (70_000u64, 5_000),
            (0, 100),
            (100, 40_000),
            (40_100, 29_900),
        ] {
            c.write(offset, &bytes(offset, len), &mut pool);
        }
        let mut at = 0u64;
        while at < 75_000 {
            let s = c.slice(at, 1000);
            assert!(!s.is_empty());
            assert_eq!(s, bytes(at, s.len()));
            at += s.len() as u64;
            c.release(at, &mut pool);
        }
        assert!(c.memory_bytes() <= 64 * size_of::<Vec<u8>>());
        c.write(at, &bytes(at, 10), &mut pool);
        assert_eq!(c.slice(at, 100), bytes(at, 10));
    }

    #[test]
    fn what_is_filled_in_is_as_what_is_written() {
        let mut pool = ChunkPool::new(1 << 20);
        let mut c = Chunks::default();
        let mut end = 0u64;
        // Twice: the second time with chunks that held something before.
        for _ in 0..2 {
            let start = end;
            while end < start + 300_000 {
                let filled = c.fill(9_000, &mut pool, |lent| {
                    let len = lent.len().min(7_001);
                    lent[..len].copy_from_slice(&bytes(end, len));
                    len
                });
                assert!(filled > 0);
                end += filled as u64;
                c.write(end, &bytes(end, 100), &mut pool);
                end += 100;
            }
            let mut at = start;
            while at < end {
                let s = c.slice(at, 1000);
                assert_eq!(s, bytes(at, s.len()));
                at += s.len() as u64;
            }
            assert_eq!(at, end);
            c.release(end, &mut pool);
        }
    }

    #[test]
    fn what_is_lent_and_not_filled_is_not_kept() {
        let mut pool = ChunkPool::new(1 << 20);
        let mut c = Chunks::default();
        c.write(0, &bytes(0, 2 * CHUNK_BYTES), &mut pool);
        c.release(2 * CHUNK_BYTES as u64, &mut pool);
        let before = (c.memory_bytes(), pool.memory_bytes());
        let filled = c.fill(CHUNK_BYTES, &mut pool, |lent| {
            assert_eq!(lent.len(), CHUNK_BYTES);
            0
        });
        assert_eq!(filled, 0);
        assert_eq!((c.memory_bytes(), pool.memory_bytes()), before);
        // And without a chunk at hand, little is lent first.
        pool.trim();
        c.fill(CHUNK_BYTES, &mut pool, |lent| {
            assert_eq!(lent.len(), LENT_BYTES_MIN);
            1
        });
        assert!(c.memory_bytes() < 2 * LENT_BYTES_MIN);
    }

    #[test]
    fn little_data_costs_little_memory() {
        let mut pool = ChunkPool::new(1 << 20);
        let mut c = Chunks::default();
        c.write(0, b"hello", &mut pool);
        assert!(c.memory_bytes() < 1024);
    }
}
