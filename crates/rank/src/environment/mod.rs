//! The environment's settings: links and key. The same for every door (libfabric, VIPL).

pub mod links;

use core::ops::RangeInclusive;
use core::time::Duration;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tabane_cluster::{Cluster, ClusterKey, Wire};
use tabane_io::netlink::Interface;
use tabane_proto::BUNDLES_LEAST;

use crate::{Settings, SharedMemory};

/// Bytes of a message that travel at once, before anybody knows whether a buffer for them is there.
const EAGER_BYTES: usize = 32 << 10;
/// More would be most of the memory that is kept for a peer.
const EAGER_BYTES_MAX: usize = 512 << 10;
/// Bytes of messages without a buffer, kept for each peer.
const UNEXPECTED_BYTES: usize = 4 << 20;
/// Default range from which an endpoint takes a port: the dynamic ports (RFC 6335, section 6).
const PORTS: RangeInclusive<u16> = 49_152..=65_535;
const PEER_TIMEOUT: Duration = Duration::from_secs(3);
/// A longer timeout is a typing error.
const PEER_TIMEOUT_MAX_S: f64 = 3600.0;

/// Settings for opening endpoints.
#[derive(Clone)]
pub struct Configuration {
    /// For each.
    pub settings: Settings,
    /// Whether each prints a summary at its end.
    pub stats: bool,
}

/// Why there are no settings: one line that names the variable, its value, what is wrong, and what would be right.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl Problem {
    /// Of a variable and its value.
    pub fn of(variable: &str, value: &str, what: &str, right: &str) -> Problem {
        // Not endless, and no control characters: it goes to a terminal.
        let shown: String = value
            .chars()
            .take(80)
            .flat_map(char::escape_debug)
            .collect();
        Problem(format!("TABANE_{variable}={shown}: {what}; {right}"))
    }
}

/// The value of an environment variable. An empty one counts as none.
pub fn value(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Lines that are remembered so that they are not said twice.
const SAID_MAX: usize = 64;

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether this line for the user is new, so that it is printed once.
pub fn is_new(line: &str) -> bool {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.iter().any(|before| before == line) {
        return false;
    }
    if said.len() == SAID_MAX {
        said.remove(0);
    }
    said.push(line.to_owned());
    true
}

/// What `variable` (the value of a variable by its name without `TABANE_`) makes of this node, and what is odd about it without
/// being an error.
///
/// # Errors
/// One line that says what is wrong.
pub fn here(
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(Configuration, Vec<Problem>), Problem> {
    let interfaces = tabane_io::netlink::interfaces().map_err(|error| {
        Problem(format!(
            "the devices of this node cannot be listed: {error}"
        ))
    })?;
    let cluster_file = Path::new(tabane_cluster::DEFAULT_PATH);
    configure(variable, &interfaces, cluster_file)
}

/// The settings from variables and interfaces, and oddities that are no errors.
///
/// # Errors
/// One of them is wrong, or there is no key.
pub fn configure(
    variable: &dyn Fn(&str) -> Option<String>,
    interfaces: &[Interface],
    cluster_file: &Path,
) -> Result<(Configuration, Vec<Problem>), Problem> {
    let (links, odd) = links::choose(variable("LINKS").as_deref(), interfaces)?;
    Ok((with_links(variable, cluster_file, links)?, odd))
}

/// The same for known links, by number and address.
///
/// # Errors
/// A variable is wrong, or there is no key.
pub fn with_links(
    variable: &dyn Fn(&str) -> Option<String>,
    cluster_file: &Path,
    links: Vec<(u8, IpAddr)>,
) -> Result<Configuration, Problem> {
    let (key, wire) = key(variable, cluster_file)?;
    let encrypted = match variable("WIRE").as_deref() {
        None => wire == Wire::Encrypted,
        Some("encrypted") => true,
        Some("plain") => false,
        Some(other) => {
            let right = "it is encrypted or plain, the same for all of the job";
            return Err(Problem::of("WIRE", other, "there is no such wire", right));
        }
    };
    let settings = Settings {
        links,
        key: *key.bytes(),
        encrypted,
        ports: ports(variable("PORTS").as_deref())?,
        peer_timeout: peer_timeout(variable("PEER_TIMEOUT").as_deref())?,
        eager_bytes: eager_bytes(variable("EAGER").as_deref())?,
        unexpected_bytes: UNEXPECTED_BYTES,
        shared_memory: shared_memory(variable("SHM").as_deref())?,
        bundles_max: bundles_max(variable("BUNDLES").as_deref())?,
    };
    let stats = variable("STATS").is_some_and(|value| value != "0");
    Ok(Configuration { settings, stats })
}

fn key(
    variable: &dyn Fn(&str) -> Option<String>,
    cluster_file: &Path,
) -> Result<(ClusterKey, Wire), Problem> {
    if let Some(text) = variable("KEY") {
        let key = ClusterKey::from_hex(text.trim_ascii()).map_err(|bad| {
            // The value may be a mistyped secret: it is not shown.
            let right = "it is 64 hexadecimal digits (32 bytes), the same for all of the job; \
                         `openssl rand -hex 32` makes them";
            Problem::of("KEY", "(not shown)", &format!("the key {bad}"), right)
        })?;
        return Ok((key, Wire::Encrypted));
    }
    if let Some(path) = variable("KEY_FILE") {
        let key = ClusterKey::load(Path::new(&path))
            .map_err(|wrong| Problem::of("KEY_FILE", &path, &wrong.what, &wrong.right))?;
        return Ok((key, Wire::Encrypted));
    }
    // The file may be absent, for others to read, or wrong: here it is only one place where a key could be.
    Cluster::load(cluster_file).map_or_else(
        |_| {
            let path = cluster_file.display();
            Err(Problem(format!(
                "no key: TABANE_KEY_FILE and TABANE_KEY are not set, and {path} has none that this user can read; \
                 `openssl rand -hex 32` makes one: set TABANE_KEY to it, the same for all processes of the job, or \
                 TABANE_KEY_FILE to a file that holds it"
            )))
        },
        |(cluster, _)| Ok((cluster.key.clone(), cluster.wire)),
    )
}

fn ports(value: Option<&str>) -> Result<RangeInclusive<u16>, Problem> {
    let Some(value) = value else {
        return Ok(PORTS);
    };
    let range = value.split_once('-').and_then(|(low, high)| {
        let number = |text: &str| text.trim().parse::<u16>().ok();
        Some(number(low)?..=number(high)?)
    });
    range
        .filter(|range| *range.start() > 0 && !range.is_empty())
        .ok_or_else(|| {
            let right = "it is LOW-HIGH, two port numbers from 1 to 65535, as 40000-40999";
            Problem::of("PORTS", value, "this is no range of ports", right)
        })
}

fn eager_bytes(value: Option<&str>) -> Result<usize, Problem> {
    let Some(value) = value else {
        return Ok(EAGER_BYTES);
    };
    let bytes = value.trim().parse::<usize>().ok();
    bytes
        .filter(|bytes| *bytes <= EAGER_BYTES_MAX)
        .ok_or_else(|| {
            let right = "it is a number of bytes from 0 to 524288, as 32768";
            Problem::of("EAGER", value, "this is no length of a message", right)
        })
}

fn shared_memory(value: Option<&str>) -> Result<SharedMemory, Problem> {
    match value.map(str::trim) {
        None | Some("1") => Ok(SharedMemory::Pull),
        Some("copy") => Ok(SharedMemory::Copy),
        Some("0") => Ok(SharedMemory::Off),
        Some(other) => {
            let right = "it is 1, 0 or copy";
            Err(Problem::of("SHM", other, "there is no such way", right))
        }
    }
}

fn bundles_max(value: Option<&str>) -> Result<Option<u16>, Problem> {
    match value.map(str::trim) {
        None | Some("all") => Ok(None),
        Some(number) => match number.parse() {
            Ok(max) if max >= BUNDLES_LEAST => Ok(Some(max)),
            _ => {
                let right = format!("it is a number from {BUNDLES_LEAST} to 65535, or all");
                let what = "this is no number of bundles that an endpoint could do with";
                Err(Problem::of("BUNDLES", number, what, &right))
            }
        },
    }
}

fn peer_timeout(value: Option<&str>) -> Result<Duration, Problem> {
    let Some(value) = value else {
        return Ok(PEER_TIMEOUT);
    };
    let seconds = value.trim().parse::<f64>().ok();
    seconds
        .filter(|seconds| *seconds > 0.0 && *seconds <= PEER_TIMEOUT_MAX_S)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| {
            let right = "it is seconds, above 0 and up to 3600, as 3 or 0.5";
            Problem::of("PEER_TIMEOUT", value, "this is no timeout", right)
        })
}

/// One of this node's addresses, as messages show it.
pub fn shown(links: &[(u8, IpAddr)]) -> String {
    let each = links
        .iter()
        .map(|(number, address)| format!("{number}: {address}"));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use links::tests::nic;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn configured(set: &[(&str, &str)]) -> Result<Configuration, String> {
        let read = |name: &str| {
            let found = set.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let nics = [nic("eth0", &["10.77.0.1/24"])];
        let configured = configure(&read, &nics, Path::new("/nonexistent/cluster.toml"));
        configured.map(|(made, _)| made).map_err(|wrong| wrong.0)
    }

    fn wrong(set: &[(&str, &str)]) -> String {
        let Err(wrong) = configured(set) else {
            panic!("{set:?} was taken");
        };
        assert!(!wrong.contains('\n'), "{wrong}");
        wrong
    }

    #[test]
    fn a_key_is_enough() {
        let made = configured(&[("KEY", KEY)]).expect("is right");
        assert_eq!(made.settings.links, [(0, "10.77.0.1".parse().unwrap())]);
        assert_eq!(made.settings.key[..3], [0, 1, 2]);
        assert!(made.settings.encrypted && !made.stats);
        assert_eq!(made.settings.shared_memory, SharedMemory::Pull);
        assert_eq!(made.settings.ports, PORTS);
        assert_eq!(made.settings.peer_timeout, PEER_TIMEOUT);
        assert_eq!(made.settings.eager_bytes, EAGER_BYTES);
        assert_eq!(made.settings.bundles_max, None);
    }

    #[test]
    fn everything_can_be_said() {
        let made = configured(&[
            ("KEY", KEY),
            ("WIRE", "plain"),
            ("PORTS", "40000-40999"),
            ("PEER_TIMEOUT", "0.5"),
            ("STATS", "1"),
            ("SHM", "0"),
            ("EAGER", "524288"),
            ("BUNDLES", "12"),
        ]);
        let made = made.expect("is right");
        assert_eq!(made.settings.bundles_max, Some(12));
        assert!(!made.settings.encrypted && made.stats);
        assert_eq!(made.settings.shared_memory, SharedMemory::Off);
        assert_eq!(made.settings.ports, 40_000..=40_999);
        assert_eq!(made.settings.eager_bytes, 512 << 10);
        assert_eq!(made.settings.peer_timeout, Duration::from_millis(500));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        let none = wrong(&[]);
        assert!(none.contains("TABANE_KEY") && none.contains("openssl rand -hex 32"));
        let short = wrong(&[("KEY", "secret")]);
        assert!(short.starts_with("TABANE_KEY=(not shown)"), "{short}");
        assert!(!short.contains("secret"));
        let file = wrong(&[("KEY_FILE", "/nonexistent/key")]);
        assert!(
            file.starts_with("TABANE_KEY_FILE=/nonexistent/key: cannot be read"),
            "{file}"
        );
        for (name, value) in [
            ("WIRE", "Plain"),
            ("PORTS", "40000"),
            ("PORTS", "40000-65536"),
            ("PORTS", "0-10"),
            ("PORTS", "11-10"),
            ("PEER_TIMEOUT", "0"),
            ("PEER_TIMEOUT", "soon"),
            ("PEER_TIMEOUT", "NaN"),
            ("SHM", "no"),
            ("EAGER", "524289"),
            ("EAGER", "-1"),
            ("EAGER", "32K"),
            ("BUNDLES", "0"),
            ("BUNDLES", "few"),
            ("BUNDLES", "65536"),
            ("LINKS", "eth7"),
        ] {
            let said = wrong(&[("KEY", KEY), (name, value)]);
            let begins = format!("TABANE_{name}={value}: ");
            assert!(said.starts_with(&begins) && said.contains("; "), "{said}");
        }
    }
}
