//! Key pairs of nodes: `public` of a `[[node]]`, and the file with the private key that only the
//! node itself has.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::document::{entry, right_for_unreadable};
use super::key::{KEY_BYTES, KEY_FILE_BYTES_MAX, read_file};
use super::problem::Findings;
use super::{Cluster, NodeIndex, Problem, Severity, plain};

/// Default name of the file with a node's private key, beside the cluster file.
pub const NODE_KEY_FILE: &str = "node.key";

/// Characters of a key in Base64 (RFC 4648, section 4), the `=` at the end included.
const BASE64_CHARS: usize = 44;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// First word of a private key's file, so that nobody takes it for a public one.
const PRIVATE_WORD: &str = "tabane-private-key";
/// Permission bits for users outside of owner and group.
const OTHERS: u32 = 0o007;

/// The public key of a node, as the cluster file has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PublicKey(pub [u8; KEY_BYTES]);

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_base64(&self.0))
    }
}

/// The private key of a node. Its `Debug` shows nothing of it, and it has no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeKey([u8; KEY_BYTES]);

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeKey(secret)")
    }
}

impl NodeKey {
    /// From 32 random bytes.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> NodeKey {
        NodeKey(bytes)
    }

    /// The raw bytes, for the handshake.
    pub const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The content of its file. Only for writing one.
    pub fn to_text(&self) -> String {
        format!("{PRIVATE_WORD} {}\n", to_base64(&self.0))
    }

    /// Reads the file `path`; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, is no such file, or others than owner and group may use it.
    pub fn load(path: &Path) -> Result<Option<NodeKey>, Problem> {
        let (content, access) = match read_file(path, KEY_FILE_BYTES_MAX) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let what = format!("cannot be read: {}", plain(&error));
                return Err(problem(path, None, what, right_for_unreadable(&error)));
            }
        };
        let named = "this file, the private key of a node";
        if let Some((what, right)) = access.wrong_for_secret(named, OTHERS) {
            return Err(problem(path, None, what, right));
        }
        let text = String::from_utf8(content).unwrap_or_default();
        let mut words = text.split_whitespace();
        let is_private = words.next() == Some(PRIVATE_WORD);
        match (words.next().map(from_base64), words.next()) {
            (Some(Ok(bytes)), None) if is_private => Ok(Some(NodeKey(bytes))),
            _ => {
                let what = "is not the private key of a node";
                let right = "put back the file that `tabane key` made; or move it away, have \
                             `tabane key` make another one, and replace this node's `public` in \
                             every cluster file";
                Err(problem(path, None, what, right))
            }
        }
    }
}

impl Cluster {
    /// The file with the private key of the node that reads the cluster file `file`, which need not
    /// be valid or exist.
    pub fn node_key_file_of(file: &Path) -> PathBuf {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let (root, _) = DeTable::parse_recoverable(&text);
        let named = root.get_ref().get("node_key_file");
        beside(file, named.and_then(|value| value.get_ref().as_str()))
    }

    /// Reads the private key of node `me`, if it has one, and whether it fits the `public` in the
    /// cluster file. `public_of` computes the public key of a private one.
    ///
    /// # Errors
    /// The key is wanted and not there, or not the right one, or its file cannot be used.
    pub fn read_node_key(
        &mut self,
        me: NodeIndex,
        public_of: fn(&[u8; KEY_BYTES]) -> [u8; KEY_BYTES],
    ) -> Result<(), Problem> {
        let path = &self.node_key_file;
        let node = &self.nodes[me];
        let shown = path.display();
        self.node_key = match (NodeKey::load(path), node.public) {
            (Ok(key), None) => key,
            // Nobody asks for it: an ordinary user's program may do without.
            (Err(_), None) if is_forbidden(path) => None,
            (Err(error), _) => return Err(error),
            (Ok(None), Some(_)) => {
                let what = format!(
                    "node \"{}\" has a `public` key, but the private one is not on this machine ({shown})",
                    node.name
                );
                let right = "put back its file; or run `tabane key` here, and write the line that \
                             it prints instead, in every node's cluster file";
                return Err(problem(&self.file, Some(node.lines.public), what, right));
            }
            (Ok(Some(key)), Some(public)) => {
                let ours = PublicKey(public_of(key.bytes()));
                if ours != public {
                    let what = format!(
                        "the `public` key of node \"{}\" is not that of the private one in {shown}",
                        node.name
                    );
                    let right = format!(
                        "write public = \"{ours}\" in every node's cluster file; or, if this key \
                         is another machine's, move it away and run `tabane key`"
                    );
                    return Err(problem(&self.file, Some(node.lines.public), what, right));
                }
                Some(key)
            }
        };
        Ok(())
    }
}

fn is_forbidden(path: &Path) -> bool {
    let error = std::fs::File::open(path).err();
    error.is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
}

fn problem(
    file: &Path,
    line: Option<u32>,
    what: impl Into<String>,
    right: impl Into<String>,
) -> Problem {
    Problem {
        file: file.to_owned(),
        line,
        severity: Severity::Error,
        what: what.into(),
        right: right.into(),
    }
}

/// `named`, or the usual name, in the directory of the cluster file.
fn beside(file: &Path, named: Option<&str>) -> PathBuf {
    let directory = file.parent().unwrap_or(Path::new(""));
    directory.join(named.unwrap_or(NODE_KEY_FILE))
}

/// The entry `node_key_file`.
pub(super) fn read_file_name(file: &Path, root: &DeTable<'_>, findings: &mut Findings) -> PathBuf {
    let named = entry(root, "node_key_file", findings);
    let text = named.and_then(|(value, _)| value.as_str());
    if let (Some((_, line)), None | Some("")) = (named, text) {
        let right = "write the path at which every node has its own private key, or leave it out";
        findings.error(line, "`node_key_file` is not a path in quotes", right);
    }
    beside(file, text)
}

/// The entry `public` of a node, and its line.
pub(super) fn read_public(
    table: &DeTable<'_>,
    findings: &mut Findings,
) -> Option<(PublicKey, u32)> {
    const RIGHT: &str = "run `tabane key` on that node, and write the line that it prints";
    let (value, line) = entry(table, "public", findings)?;
    let Some(text) = value.as_str() else {
        findings.error(line, "`public` is not a text in quotes", RIGHT);
        return None;
    };
    match from_base64(text) {
        // All zeros: everybody knows the result of a handshake with this key.
        Ok(bytes) if bytes == [0; KEY_BYTES] => {
            findings.error(line, "`public` is no key: all its bytes are 0", RIGHT);
            None
        }
        Ok(bytes) => Some((PublicKey(bytes), line)),
        Err(bad) => {
            findings.error(line, format!("`public` {bad}"), RIGHT);
            None
        }
    }
}

fn to_base64(bytes: &[u8; KEY_BYTES]) -> String {
    let mut text = String::with_capacity(BASE64_CHARS);
    for group in bytes.chunks(3) {
        let byte = |i: usize| group.get(i).copied().map_or(0, u32::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > group.len() {
                '='
            } else {
                digit.into()
            });
        }
    }
    text
}

/// Why a text is no key in Base64. Nothing of it is shown: it may be a secret in a wrong place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BadBase64 {
    /// It has characters that are not Base64.
    Characters,
    /// It has another length.
    Length(usize),
    /// It does not end as a key does.
    End,
}

impl fmt::Display for BadBase64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadBase64::Characters => f.write_str("has characters that are not Base64"),
            BadBase64::Length(chars) => {
                write!(f, "has {chars} characters, but a key has {BASE64_CHARS}")
            }
            BadBase64::End => f.write_str("does not end as a key does, so some of it is missing"),
        }
    }
}

/// Parses the canonical encoding of 32 bytes.
fn from_base64(text: &str) -> Result<[u8; KEY_BYTES], BadBase64> {
    let value = |c: u8| DIGITS.iter().position(|&d| d == c);
    let digits = text.trim_end_matches('=');
    if digits.bytes().any(|c| value(c).is_none()) {
        return Err(BadBase64::Characters);
    }
    if text.len() != BASE64_CHARS {
        return Err(BadBase64::Length(text.len()));
    }
    let mut bytes = [0; KEY_BYTES];
    let (mut bits, mut held, mut at) = (0u32, 0, 0);
    for digit in digits.bytes().filter_map(value) {
        bits = bits << 6 | digit as u32;
        held += 6;
        if held >= 8 && at < KEY_BYTES {
            held -= 8;
            bytes[at] = (bits >> held) as u8;
            bits &= (1 << held) - 1;
            at += 1;
        }
    }
    // The two surplus bits must be zero, too: one key, one text.
    if at < KEY_BYTES || to_base64(&bytes) != text {
        return Err(BadBase64::End);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const KEY: [u8; KEY_BYTES] = [0xfb; KEY_BYTES];
    const TEXT: &str = "+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/s=";

    #[test]
    fn a_key_has_one_text() {
        assert_eq!(to_base64(&KEY), TEXT);
        assert_eq!(from_base64(TEXT), Ok(KEY));
        let counted: [u8; KEY_BYTES] = std::array::from_fn(|i| i as u8);
        let text = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        assert_eq!(to_base64(&counted), text);
        assert_eq!(from_base64(text), Ok(counted));
        assert_eq!(from_base64(&TEXT[1..]), Err(BadBase64::Length(43)));
        assert_eq!(from_base64(""), Err(BadBase64::Length(0)));
        assert_eq!(from_base64(&"0".repeat(64)), Err(BadBase64::Length(64)));
        assert_eq!(
            from_base64(&TEXT.replace('/', "_")),
            Err(BadBase64::Characters)
        );
        assert_eq!(from_base64(&TEXT.replace("s=", "t=")), Err(BadBase64::End));
        assert_eq!(from_base64(&TEXT.replace('=', "A")), Err(BadBase64::End));
        assert_eq!(
            from_base64(&TEXT.replace("/s=", "s==")),
            Err(BadBase64::End)
        );
    }

    #[test]
    fn the_file_of_a_private_key_is_read_back_and_is_no_public_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NODE_KEY_FILE);
        assert_eq!(NodeKey::load(&path), Ok(None));
        let key = NodeKey::new(KEY);
        std::fs::write(&path, key.to_text()).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o640);
        assert_eq!(NodeKey::load(&path), Ok(Some(key.clone())));
        mode(0o604);
        let error = NodeKey::load(&path).unwrap_err().to_string();
        assert!(error.ends_with("run `chmod 600` on it"), "{error}");
        mode(0o600);
        assert!(from_base64(key.to_text().trim()).is_err());
        for wrong in [
            "",
            TEXT,
            "tabane-private-key",
            "tabane-private-key AAAA",
            "x y",
        ] {
            std::fs::write(&path, wrong).unwrap();
            let error = NodeKey::load(&path).unwrap_err();
            assert_eq!(error.what, "is not the private key of a node", "{wrong}");
        }
        assert_eq!(format!("{key:?}"), "NodeKey(secret)");
    }
}
