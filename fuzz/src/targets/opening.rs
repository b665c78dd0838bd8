//! Any bytes as what another node's agent says first of a TCP connection, or of an urgent byte of one:
//! read as they come, and nothing behind it.

use tabane_program::agent::{Announcement, Opening};

/// Feeds it `bytes`.
pub fn run(bytes: &[u8]) {
    let mut read = 0;
    let opening = loop {
        match Opening::decode(&bytes[..read]) {
            Ok(Some(opening)) => break Some(opening),
            Err(_) => break None,
            Ok(None) => {}
        }
        let missing = Opening::missing_bytes(&bytes[..read]);
        assert!(missing > 0, "an agent that waits for nothing");
        read += missing;
        if read > bytes.len() {
            return;
        }
    };
    if let Some(opening) = opening {
        assert_eq!(opening.encode(), bytes[..read]);
    }
    if let Some(said) = Announcement::decode(bytes) {
        assert_eq!(said.encode(), bytes);
    }
}
