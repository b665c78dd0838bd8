//! Any text as a cluster key: only 64 digits are one, and what is shown of it is nothing.

use tabane_cluster::ClusterKey;

/// Feeds it `bytes`.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match ClusterKey::from_hex(text) {
        Ok(key) => {
            assert_eq!(key.to_hex(), text.to_ascii_lowercase());
            assert_eq!(format!("{key:?}"), "ClusterKey(secret)");
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}
