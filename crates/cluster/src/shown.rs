//! A cluster file that may be shown to strangers: without its keys.

use std::path::Path;

use serde::Serialize;

use super::{FILE_BYTES_MAX, plain};

/// Entries that hold a secret.
const SECRET: [&str; 2] = ["key", "second_key"];
/// What stands in the place of a secret.
const REMOVED: &str = "[removed]";

/// The content of the cluster file at `path` without its keys, comments, and entries that no cluster file has: these may be
/// mistyped keys.
///
/// # Errors
/// Why it cannot be shown; nothing of the file is quoted.
pub fn without_keys(path: &Path) -> Result<impl Serialize + use<>, String> {
    let (content, _) =
        super::key::read_file(path, FILE_BYTES_MAX).map_err(|error| plain(&error).to_string())?;
    let text = String::from_utf8(content).map_err(|_| "it is not text in UTF-8".to_owned())?;
    stripped(&text)
}

/// The same of a text.
fn stripped(text: &str) -> Result<toml::Table, String> {
    // The error's own words quote the line, which may be the key.
    let mut table: toml::Table = text.parse().map_err(|_| "it is not TOML".to_owned())?;
    table.retain(|name, _| super::document::KEYS.contains(&name));
    for (name, value) in &mut table {
        if SECRET.contains(&name.as_str()) {
            *value = REMOVED.into();
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_comments_and_what_may_be_a_key_are_left_out() {
        let text = "
            # key = \"aaaa\"
            key = \"\"\"
            bbbb\"\"\"
            second_key = [\"cccc\"]
            kay = \"dddd\"
            key_file = \"/etc/tabane/key\"
            [[node]]
            name = \"n0\" # eeee
            links = [\"10.77.0.1\"]
        ";
        let shown = format!("{:?}", stripped(text).expect("is TOML"));
        for secret in ["aaaa", "bbbb", "cccc", "dddd", "eeee"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        for kept in ["10.77.0.1", "n0", "/etc/tabane/key", REMOVED] {
            assert!(shown.contains(kept), "{shown}");
        }
    }

    #[test]
    fn of_what_is_no_toml_nothing_is_quoted() {
        assert_eq!(
            stripped("key = \"secret").err().as_deref(),
            Some("it is not TOML")
        );
    }
}
