//! Lines of JSON that daemons of two nodes say each other on a stream (docs/protocol.md, 9.6.3 and 9.6.4). Pure.

use serde::de::DeserializeOwned;

/// Longest line, with its newline.
pub const LINE_BYTES_MAX: usize = 4096;

/// A line was not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

/// What a line without its newline says.
///
/// # Errors
/// [`Malformed`].
pub fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, Malformed> {
    serde_json::from_slice(line).map_err(|error| Malformed(error.to_string()))
}

/// Lines that come in pieces.
#[derive(Debug, Default)]
pub struct Lines(Vec<u8>);

impl Lines {
    /// How many more bytes may be added.
    pub fn room(&self) -> usize {
        LINE_BYTES_MAX - self.0.len()
    }

    /// Adds what came, at most [`room`](Lines::room).
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole line.
    ///
    /// # Errors
    /// It is too long.
    pub fn take(&mut self) -> Result<Option<Vec<u8>>, Malformed> {
        let Some(end) = self.0.iter().position(|byte| *byte == b'\n') else {
            return match self.room() {
                0 => Err(Malformed(format!(
                    "a line has more than {LINE_BYTES_MAX} bytes"
                ))),
                _ => Ok(None),
            };
        };
        let mut line: Vec<u8> = self.0.drain(..=end).collect();
        line.pop();
        Ok(Some(line))
    }

    /// What came behind the last line that was taken.
    pub fn rest(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_pieces_and_have_a_bound() {
        let mut lines = Lines::default();
        lines.add(b"one\ntwo");
        assert_eq!(lines.take(), Ok(Some(b"one".to_vec())));
        assert_eq!(lines.take(), Ok(None));
        assert_eq!(lines.rest(), b"two");
        lines.add(b"\n");
        assert_eq!(lines.take(), Ok(Some(b"two".to_vec())));
        lines.add(&vec![b'x'; lines.room()]);
        assert!(lines.take().is_err());
    }
}
