//! The cluster key: 32 bytes, written as 64 hexadecimal digits.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::document::right_for_unreadable;
use super::{Problem, Severity, plain};

/// Permission bits for users outside of owner and group.
const OTHERS: u32 = 0o006;

/// Length of the cluster key in bytes.
pub const KEY_BYTES: usize = 32;

/// Most bytes read from a `key_file`: the key, and some white space around it.
pub const KEY_FILE_BYTES_MAX: u64 = 1024;

/// The secret all nodes of a cluster share. Whoever has it is admitted.
///
/// Its `Debug` shows nothing of it, and it has no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey([u8; KEY_BYTES]);

impl ClusterKey {
    /// From raw bytes.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The raw bytes, for the handshake.
    pub const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Parses 64 hexadecimal digits of either case.
    ///
    /// # Errors
    /// Says what is wrong without quoting any of the text, which may be a mistyped secret.
    pub fn from_hex(text: &str) -> Result<Self, BadKey> {
        let digits = text.as_bytes();
        let values: Option<Vec<u8>> = digits.iter().map(|&d| hex_value(d)).collect();
        let Some(values) = values else {
            return Err(BadKey::NotHex);
        };
        if values.len() != 2 * KEY_BYTES {
            return Err(BadKey::Length {
                digits: values.len(),
            });
        }
        let mut bytes = [0; KEY_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(values.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        if bytes.iter().all(|&b| b == bytes[0]) {
            return Err(BadKey::Guessable);
        }
        Ok(Self(bytes))
    }

    /// Reads the file `path`, which holds the key and nothing else.
    ///
    /// # Errors
    /// It cannot be read, holds no key, or others than owner and group may use it.
    pub fn load(path: &Path) -> Result<Self, Problem> {
        let wrong = |(what, right): (String, String)| Problem {
            file: path.to_owned(),
            line: None,
            severity: Severity::Error,
            what,
            right,
        };
        let (content, access) = read_file(path, KEY_FILE_BYTES_MAX).map_err(|error| {
            let what = format!("cannot be read: {}", plain(&error));
            wrong((what, right_for_unreadable(&error).to_owned()))
        })?;
        if let Some(found) = access.wrong_for_secret("this file, a key", OTHERS) {
            return Err(wrong(found));
        }
        let text = String::from_utf8_lossy(&content);
        Self::from_hex(text.trim_ascii())
            .map_err(|bad| wrong((format!("the key in it {bad}"), RIGHT_KEY.to_owned())))
    }

    /// The key as it stands in a cluster file. Only for writing one.
    pub fn to_hex(&self) -> String {
        use fmt::Write;
        self.0.iter().fold(String::new(), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(secret)")
    }
}

fn hex_value(digit: u8) -> Option<u8> {
    // to_digit(16) is below 16.
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Why a text is no cluster key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadKey {
    /// It has other characters than 0-9, a-f, A-F.
    NotHex,
    /// It is hexadecimal, but does not have 64 digits.
    Length {
        /// The digits it has.
        digits: usize,
    },
    /// All its bytes are the same: a placeholder, not a secret.
    Guessable,
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHex => f.write_str("has characters that are not hexadecimal digits"),
            Self::Length { digits } if *digits < 2 * KEY_BYTES => {
                write!(f, "is too short: {digits} of 64 digits")
            }
            Self::Length { digits } => write!(f, "is too long: {digits} digits instead of 64"),
            Self::Guessable => f.write_str("can be guessed: all its bytes are the same"),
        }
    }
}

/// The remedy for every [`BadKey`].
pub(crate) const RIGHT_KEY: &str = "a key is 64 hexadecimal digits (32 bytes), the same on every \
     node; `tabane init` or `openssl rand -hex 32` makes one";

/// Access rights of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// Its permission bits.
    pub mode: u32,
    /// Its owner.
    pub owner: u32,
}

impl Access {
    /// What is wrong with these access rights for a file that holds a secret, and the remedy; `named` says
    /// which file it is. Like ssh this refuses a key that others may use: a warning in the log of a machine
    /// that starts anyway is a leaked key that nobody noticed. Group access is the operator's decision.
    pub fn wrong_for_secret(self, named: &str, others: u32) -> Option<(String, String)> {
        let Access { mode, owner } = self;
        if mode & others != 0 {
            let what =
                format!("every user of this machine can read or write {named} (mode {mode:04o})");
            return Some((what, "run `chmod 600` on it".to_owned()));
        }
        let own = rustix::process::geteuid().as_raw();
        if owner != own && owner != ROOT {
            let what = format!("user {owner} can read and write {named}, whose it is");
            let right = format!("run `chown {own}` on it, or `chown 0` if it is root's");
            return Some((what, right));
        }
        None
    }
}

/// Root, who can read and write all files anyway.
pub(crate) const ROOT: u32 = 0;

/// Reads a small regular file whole, and who may use it.
///
/// # Errors
/// Those of the system; `InvalidInput` for anything but a regular file (a
/// pipe would hang the start), `FileTooLarge` beyond `bytes_max`.
pub(crate) fn read_file(path: &Path, bytes_max: u64) -> io::Result<(Vec<u8>, Access)> {
    // Asked before opening: opening a pipe waits for its other end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let access = Access {
        mode: metadata.mode() & 0o7777,
        owner: metadata.uid(),
    };
    let mut content = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {bytes_max} bytes"),
        ));
    }
    Ok((content, access))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_its_readers_or_roots_alone() {
        let own = rustix::process::geteuid().as_raw();
        let wrong = |owner, mode| Access { mode, owner }.wrong_for_secret("it", 0o007);
        for mode in [0o600, 0o400, 0o660] {
            assert_eq!(wrong(own, mode), None);
            assert_eq!(wrong(ROOT, mode), None);
        }
        let (what, right) = wrong(ROOT, 0o604).unwrap();
        assert!(what.contains("mode 0604") && right.contains("chmod 600"));
        let (what, right) = wrong(own + 1, 0o600).unwrap();
        assert!(what.contains(&format!("user {}", own + 1)), "{what}");
        assert!(right.contains(&format!("chown {own}")), "{right}");
    }

    const GOOD: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

    #[test]
    fn hex_is_read_and_written() {
        let key = ClusterKey::from_hex(GOOD).unwrap();
        assert_eq!(key.bytes()[..3], [0, 1, 2]);
        assert_eq!(key.bytes()[31], 0x1f);
        assert_eq!(key.to_hex(), GOOD.to_lowercase());
    }

    #[test]
    fn debug_shows_nothing() {
        let key = ClusterKey::from_hex(GOOD).unwrap();
        assert_eq!(format!("{key:?}"), "ClusterKey(secret)");
    }

    #[test]
    fn a_file_holds_a_key_for_those_who_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let wrong = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            ClusterKey::load(&path).unwrap_err().to_string()
        };
        assert!(wrong(GOOD, 0o644).contains("chmod 600"));
        assert!(wrong("0123", 0o600).contains("too short"));
        std::fs::write(&path, format!(" {GOOD}\n")).unwrap();
        assert_eq!(
            ClusterKey::load(&path).unwrap(),
            ClusterKey::from_hex(GOOD).unwrap()
        );
        std::fs::remove_file(&path).unwrap();
        let gone = ClusterKey::load(&path).unwrap_err().to_string();
        assert!(gone.contains("cannot be read"), "{gone}");
    }

    #[test]
    fn bad_keys() {
        let error = |text: &str| ClusterKey::from_hex(text).unwrap_err();
        assert_eq!(error(""), BadKey::Length { digits: 0 });
        assert_eq!(error(&GOOD[1..]), BadKey::Length { digits: 63 });
        assert_eq!(error(&format!("{GOOD}0")), BadKey::Length { digits: 65 });
        assert_eq!(error(&GOOD.replace('f', "g")), BadKey::NotHex);
        assert_eq!(error(&GOOD.replace('0', "ü")), BadKey::NotHex);
        assert_eq!(error(&"0".repeat(64)), BadKey::Guessable);
    }
}
