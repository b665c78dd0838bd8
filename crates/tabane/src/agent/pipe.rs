//! One direction of a connection that is carried on: bytes read from one side that the other has
//! not taken yet, and the end behind them.

/// Bytes on their way from one side to the other.
#[derive(Debug, Default)]
pub struct Pipe {
    bytes: Vec<u8>,
    /// What the other side has taken of them.
    taken: usize,
    /// The one side has said everything.
    ended: bool,
    /// The other side knows that.
    end_told: bool,
}

impl Pipe {
    /// Whether there is nothing to be taken: the time to read more.
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// Whether more may be read from the one side.
    pub fn wants(&self) -> bool {
        self.is_empty() && !self.ended
    }

    /// What is to be taken.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// So many of them were taken.
    pub fn take(&mut self, bytes: usize) {
        self.taken += bytes;
        if self.is_empty() {
            self.bytes.clear();
            self.taken = 0;
        }
    }

    /// These were read and not taken at once.
    pub fn keep(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The one side has said everything.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether the other side is to be told now that this was all. True once.
    pub fn tells_end(&mut self) -> bool {
        let tells = self.ended && self.is_empty() && !self.end_told;
        self.end_told |= tells;
        tells
    }

    /// Whether everything has been said and told.
    pub fn is_over(&self) -> bool {
        self.end_told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_once_behind_the_last_byte() {
        let mut pipe = Pipe::default();
        assert!(pipe.wants());
        pipe.keep(b"hello");
        pipe.end();
        assert!(!pipe.wants() && !pipe.tells_end());
        pipe.take(2);
        assert_eq!(pipe.bytes(), b"llo");
        assert!(!pipe.tells_end());
        pipe.take(3);
        assert!(pipe.tells_end() && !pipe.tells_end());
        assert!(pipe.is_over() && !pipe.wants());
    }
}
