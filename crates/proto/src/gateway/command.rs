//! A program's name, as its node reports it.

use core::fmt;

/// The longest name, in bytes.
pub const COMMAND_BYTES_MAX: usize = 64;

/// A program's name, in 1 to [`COMMAND_BYTES_MAX`] bytes of UTF-8: for people to read, and for nothing else. Other nodes' names
/// are untrusted, so they contain nothing that a terminal would interpret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Command {
    bytes: [u8; COMMAND_BYTES_MAX],
    length: u8,
}

/// Not so: control characters, and what turns text round or hides it (UAX 9, and characters without width).
fn is_shown(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

impl Command {
    /// The beginning of a text, in whole characters, without unprintable ones; `None`: nothing is left of it.
    pub fn new(text: &str) -> Option<Command> {
        let mut command = Command {
            bytes: [0; COMMAND_BYTES_MAX],
            length: 0,
        };
        for c in text.chars().filter(|c| is_shown(*c)) {
            let (from, bytes) = (usize::from(command.length), c.len_utf8());
            let Some(room) = command.bytes.get_mut(from..from + bytes) else {
                break;
            };
            c.encode_utf8(room);
            command.length += bytes as u8;
        }
        (command.length > 0).then_some(command)
    }

    /// Parses another node's name; `None` if [`Command::new`] would change it.
    pub fn parse(bytes: &[u8]) -> Option<Command> {
        let command = Command::new(core::str::from_utf8(bytes).ok()?)?;
        (command.as_bytes() == bytes).then_some(command)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_to_be_seen_is_left_out_and_what_is_too_long_cut() {
        let said = |text: &str| Command::new(text).map(|it| it.as_str().to_owned());
        assert_eq!(said("nginx").as_deref(), Some("nginx"));
        assert_eq!(
            said("\u{1b}[31mng\ninx\u{202e}").as_deref(),
            Some("[31mnginx")
        );
        assert_eq!((said(""), said("\0\r\u{feff}")), (None, None));
        let long = "ä".repeat(COMMAND_BYTES_MAX);
        assert_eq!(said(&long), Some("ä".repeat(COMMAND_BYTES_MAX / 2)));
        // Half a character is dropped.
        let odd = format!("x{long}");
        assert_eq!(said(&odd).map(|it| it.len()), Some(COMMAND_BYTES_MAX - 1));
    }

    #[test]
    fn of_another_node_only_what_is_to_be_seen_is_taken() {
        assert_eq!(Command::parse(b"nginx"), Command::new("nginx"));
        for bad in [
            &b""[..],
            b"ng\ninx",
            b"\xff",
            &[b'x'; COMMAND_BYTES_MAX + 1],
        ] {
            assert_eq!(Command::parse(bad), None, "{bad:?}");
        }
    }
}
