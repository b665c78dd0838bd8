//! One direction of a carried connection: bytes read from one side that the other has not accepted
//! yet, the marks of urgent ones among them, and the end behind them.

use std::collections::VecDeque;

/// The most urgent bytes at once; further ones become ordinary bytes. TCP itself knows at most
/// one.
pub const MARKS_MAX: usize = 16;

/// Bytes on their way from one side to the other.
#[derive(Debug, Default)]
pub struct Pipe {
    bytes: Vec<u8>,
    /// How many of them the other side has accepted.
    taken: usize,
    /// Bytes that the other side has accepted since the beginning.
    total: u64,
    /// Offsets of urgent bytes since the beginning, in order.
    marks: VecDeque<u64>,
    /// Reading pauses.
    rests: bool,
    /// The one side has said everything.
    ended: bool,
    /// The other side knows that.
    end_told: bool,
}

impl Pipe {
    /// Whether it is empty: the time to read more.
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// Whether more may be read from the one side.
    pub fn wants(&self) -> bool {
        self.is_empty() && !self.ended && !self.rests
    }

    /// The bytes for the other side.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Offers the bytes to the other side.
    ///
    /// # Errors
    /// Those of `write`. It gets bytes, and whether they are an urgent one, and returns how many
    /// of them were accepted.
    pub fn flush<E>(
        &mut self,
        write: impl FnMut(&[u8], bool) -> Result<usize, E>,
    ) -> Result<(), E> {
        if self.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.bytes);
        let taken = self.offer(&bytes[self.taken..], write);
        self.bytes = bytes;
        self.taken += taken?;
        if self.is_empty() {
            self.bytes.clear();
            self.taken = 0;
        }
        Ok(())
    }

    /// Offers bytes that were just read to the other side, and keeps the rest.
    ///
    /// # Errors
    /// As [`Pipe::flush`].
    pub fn pass<E>(
        &mut self,
        bytes: &[u8],
        write: impl FnMut(&[u8], bool) -> Result<usize, E>,
    ) -> Result<(), E> {
        let taken = self.offer(bytes, write)?;
        self.bytes.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    /// Offers bytes that are stored elsewhere to the other side; returns how many it accepted.
    ///
    /// # Errors
    /// As [`Pipe::flush`].
    pub fn offer<E>(
        &mut self,
        bytes: &[u8],
        mut write: impl FnMut(&[u8], bool) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let mut done = 0;
        while done < bytes.len() {
            let (length, is_urgent) = self.piece(bytes.len() - done);
            let taken = write(&bytes[done..done + length], is_urgent)?;
            self.total += taken as u64;
            done += taken;
            if taken < length {
                break;
            }
        }
        Ok(done)
    }

    /// The other side has accepted bytes that never were here.
    pub fn passed(&mut self, bytes: usize) {
        self.total += bytes as u64;
    }

    /// How many of the next bytes go together, and whether they are an urgent one.
    fn piece(&mut self, length: usize) -> (usize, bool) {
        while let Some(mark) = self.marks.front() {
            match mark.checked_sub(self.total) {
                None => drop(self.marks.pop_front()),
                Some(0) => return (1, true),
                Some(ahead) => {
                    return (length.min(usize::try_from(ahead).unwrap_or(length)), false);
                }
            }
        }
        (length, false)
    }

    /// Bytes that the other side has accepted since the beginning.
    pub const fn taken(&self) -> u64 {
        self.total
    }

    /// How many bytes there were since the beginning.
    pub fn total(&self) -> u64 {
        self.total + self.bytes().len() as u64
    }

    /// A byte is urgent, counted from the beginning. Returns `false` if there are too many.
    pub fn mark(&mut self, at: u64) -> bool {
        let is_next = self.marks.back().is_none_or(|last| *last < at);
        let has_room = is_next && self.marks.len() < MARKS_MAX;
        if has_room {
            self.marks.push_back(at);
        }
        has_room
    }

    /// Inserts a byte that was read before.
    pub fn keep(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Sets whether reading pauses.
    pub fn rest(&mut self, rests: bool) {
        self.rests = rests;
    }

    /// The one side has said everything.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Whether to tell the other side now that this was all. True once.
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
    use core::convert::Infallible;

    use super::*;

    /// Accepts this many bytes at once.
    fn taking<'a>(
        most: usize,
        said: &'a mut Vec<(Vec<u8>, bool)>,
    ) -> impl FnMut(&[u8], bool) -> Result<usize, Infallible> + 'a {
        let mut left = most;
        move |bytes, is_urgent| {
            let taken = bytes.len().min(left);
            left -= taken;
            if taken > 0 {
                said.push((bytes[..taken].to_vec(), is_urgent));
            }
            Ok(taken)
        }
    }

    #[test]
    fn the_end_is_told_once_behind_the_last_byte() {
        let (mut pipe, mut said) = (Pipe::default(), Vec::new());
        assert!(pipe.wants());
        pipe.pass(b"hello", taking(0, &mut said)).unwrap();
        pipe.end();
        assert!(!pipe.wants() && !pipe.tells_end());
        pipe.flush(taking(2, &mut said)).unwrap();
        assert_eq!(pipe.bytes(), b"llo");
        assert!(!pipe.tells_end());
        pipe.flush(taking(3, &mut said)).unwrap();
        assert!(pipe.tells_end() && !pipe.tells_end());
        assert!(pipe.is_over() && !pipe.wants());
    }

    #[test]
    fn urgent_bytes_are_taken_by_themselves() {
        let (mut pipe, mut said) = (Pipe::default(), Vec::new());
        pipe.pass(b"ab", taking(9, &mut said)).unwrap();
        assert!(pipe.mark(4) && pipe.mark(5) && !pipe.mark(5));
        pipe.pass(b"cdXYe", taking(1, &mut said)).unwrap();
        assert_eq!(pipe.total(), 7);
        pipe.flush(taking(9, &mut said)).unwrap();
        let said: Vec<_> = said.iter().map(|(bytes, is)| (&bytes[..], *is)).collect();
        let all = [&b"ab"[..], b"c", b"d", b"X", b"Y", b"e"];
        assert_eq!(
            said,
            all.map(|bytes| (bytes, bytes == b"X" || bytes == b"Y"))
        );
        // One that comes too late is a byte as others.
        assert!(pipe.mark(6));
        assert_eq!(pipe.piece(3), (3, false));
        assert!((7..).take(MARKS_MAX).all(|at| pipe.mark(at)) && !pipe.mark(100));
    }
}
