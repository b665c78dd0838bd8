//! The unread data of a broken stream.

use super::receive::ReceiveHalf;
use crate::op::Read;
use crate::segment::ChunkPool;

/// Data of a stream that had arrived unread when the peer went. It was acknowledged, so the peer may
/// have ended properly, sure that it would be read.
#[derive(Debug)]
pub struct Rest {
    receive: Box<ReceiveHalf>,
    pool: ChunkPool,
}

impl Rest {
    /// The unread data of `receive`, if there is any.
    pub(super) fn of(receive: ReceiveHalf) -> Option<Rest> {
        let is_wanted = receive.stop.is_none() && receive.reset.is_none();
        (is_wanted && receive.has_news()).then(|| Rest {
            receive: Box::new(receive),
            pool: ChunkPool::new(0),
        })
    }

    /// Reads on where [`read_stream`](crate::op::Ops::read_stream) was. Nothing and no end: no more had
    /// arrived in order.
    pub fn read(&mut self, into: &mut [u8]) -> Read {
        self.receive.read(into, &mut self.pool)
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<ReceiveHalf>() + self.receive.heap_bytes()
    }
}
