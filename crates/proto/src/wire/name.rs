//! Node names: short, and safe to print wherever they came from.

use crate::limits::NAME_BYTES_MAX;
use core::fmt;
use core::str::FromStr;

/// A node's name: 1 to [`NAME_BYTES_MAX`] letters, digits, `-`, `_` and `.` of
/// ASCII. `Copy`, so that it needs no allocation, and ordered as text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name {
    len: u8,
    bytes: [u8; NAME_BYTES_MAX],
}

/// Why a text is no node name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    /// It is empty.
    Empty,
    /// It is longer than [`NAME_BYTES_MAX`] bytes.
    TooLong,
    /// It has this character.
    BadCharacter(char),
}

impl Name {
    /// The name `text`.
    ///
    /// # Errors
    /// Empty, too long, or with a character other than letters, digits, `-`, `_`, `.`.
    pub fn new(text: &str) -> Result<Name, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > NAME_BYTES_MAX {
            return Err(NameError::TooLong);
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if let Some(c) = text.chars().find(|&c| !allowed(c)) {
            return Err(NameError::BadCharacter(c));
        }
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Name {
            len: text.len() as u8,
            bytes,
        })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        // Only ASCII gets in, so that this never falls back.
        core::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl FromStr for Name {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Name, NameError> {
        Name::new(text)
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Name) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Name) -> core::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => f.write_str("a node name must not be empty"),
            NameError::TooLong => {
                write!(f, "a node name has at most {NAME_BYTES_MAX} characters")
            }
            NameError::BadCharacter(c) => write!(
                f,
                "a node name has only letters, digits, '-', '_' and '.', not {c:?}"
            ),
        }
    }
}

impl core::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_come_back_as_they_are() {
        for text in ["n0", "a", "rack-1.node_7", &"x".repeat(63)] {
            let name: Name = text.parse().unwrap();
            assert_eq!(name.as_str(), text);
            assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn bad_names_say_why() {
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert_eq!(Name::new(&"x".repeat(64)), Err(NameError::TooLong));
        assert_eq!(Name::new("a b"), Err(NameError::BadCharacter(' ')));
        assert_eq!(Name::new("nö"), Err(NameError::BadCharacter('ö')));
    }

    #[test]
    fn names_sort_as_text() {
        let name = |text| Name::new(text).unwrap();
        assert!(name("n1") < name("n10"));
        assert!(name("n10") < name("n2"));
    }
}
