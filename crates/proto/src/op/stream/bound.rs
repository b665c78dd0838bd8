//! How much written data of a stream may wait to be sent: as little as keeps the links busy.
//!
//! Data that waits behind more than 1 MB has left the processor's own cache when it is sent: with 4 MB the daemons of
//! `tabane run` take 7% more processor time. But an application that waits for its processor comes too late to refill 1
//! MB: two links carried 1.1 instead of 1.3 Gb/s. So the bound doubles, up to 4 MB, when everything was sent after the
//! application was told of room and before it wrote again. It halves when that has not happened for 64 times its size.

/// The least bound.
const BYTES_MIN: u64 = 1024 * 1024;
/// So many times its own size must go without it being too little before it shrinks.
const CALM: u64 = 64;

/// The bound of one stream.
#[derive(Debug)]
pub(super) struct QueueBound {
    bytes: u64,
    /// The application was offered room, and has not written since.
    is_offered: bool,
    /// Sent since it was changed or was too little.
    calm_bytes: u64,
}

impl QueueBound {
    pub const fn new() -> QueueBound {
        QueueBound {
            bytes: BYTES_MIN,
            is_offered: false,
            calm_bytes: 0,
        }
    }

    /// Bytes; never more than `most`.
    pub fn bytes(&self, most: usize) -> u64 {
        self.bytes.min(most as u64)
    }

    /// The application was offered room again.
    pub const fn on_offered(&mut self) {
        self.is_offered = true;
    }

    /// The application has written.
    pub const fn on_written(&mut self) {
        self.is_offered = false;
    }

    /// `bytes` were sent; `is_dry`: nothing waits any more.
    pub fn on_sent(&mut self, bytes: u64, is_dry: bool, most: usize) {
        self.calm_bytes += bytes;
        if is_dry && self.is_offered {
            self.is_offered = false;
            self.calm_bytes = 0;
            self.bytes = (self.bytes * 2).min(BYTES_MIN.max(most as u64));
        } else if self.calm_bytes > self.bytes * CALM {
            self.calm_bytes = 0;
            self.bytes = (self.bytes / 2).max(BYTES_MIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 4 << 20;

    #[test]
    fn it_grows_when_all_was_sent_before_the_application_came_and_shrinks_in_time() {
        let mut bound = QueueBound::new();
        // Nobody waited for room.
        bound.on_sent(1000, true, MOST);
        assert_eq!(bound.bytes(MOST), BYTES_MIN);
        for expected in [2, 4, 4] {
            bound.on_offered();
            bound.on_sent(1000, true, MOST);
            assert_eq!(bound.bytes(MOST), expected * BYTES_MIN);
        }
        // It came in time.
        for expected in [4, 2, 1, 1] {
            bound.on_offered();
            bound.on_written();
            bound.on_sent(CALM * BYTES_MIN * 2 + 1, true, MOST);
            assert_eq!(bound.bytes(MOST), expected * BYTES_MIN, "{bound:?}");
        }
    }

    #[test]
    fn it_keeps_to_the_limit() {
        let mut bound = QueueBound::new();
        assert_eq!(bound.bytes(10_000), 10_000);
        bound.on_offered();
        bound.on_sent(1000, true, 10_000);
        assert_eq!(bound.bytes(10_000), 10_000);
    }
}
