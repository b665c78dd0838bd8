//! `[run]`: what becomes of the connections of programs under `tabane run`.

use core::time::Duration;

use toml::de::{DeTable, DeValue};

use super::document::{entry, read_bool, unknown_keys};
use super::problem::Findings;

/// How long they wait while no link to the far end works, if the file does not say: about as long as
/// TCP itself sends once more what is not acknowledged (Linux, tcp_retries2).
pub const ALL_LINKS_DOWN: Duration = Duration::from_secs(900);
/// A year: who wants them to wait for ever gets that.
const ALL_LINKS_DOWN_S_MAX: u32 = 31_536_000;

const KEYS: &[&str] = &["all_links_down_s", "plain_tcp"];

/// `[run]` of the cluster file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSpec {
    /// How long a connection waits while no link to the far end works; then it is reset.
    pub all_links_down: Duration,
    /// May plain TCP, in the clear, carry a connection to another node that the bundle cannot carry?
    pub plain_tcp: bool,
}

impl Default for RunSpec {
    fn default() -> Self {
        Self {
            all_links_down: ALL_LINKS_DOWN,
            plain_tcp: true,
        }
    }
}

/// Reads the table, if it is there. What is wrong is reported and left out.
pub(super) fn read(root: &DeTable<'_>, findings: &mut Findings) -> RunSpec {
    let mut run = RunSpec::default();
    let Some((value, line)) = entry(root, "run", findings) else {
        return run;
    };
    let DeValue::Table(table) = value else {
        let right = "write `[run]` on a line of its own, and `all_links_down_s = 900` below it";
        findings.error(line, "`run` is not a table", right);
        return run;
    };
    unknown_keys(table, KEYS, " of `[run]`", findings);
    read_all_links_down(table, &mut run, findings);
    read_plain_tcp(table, &mut run, findings);
    run
}

fn read_all_links_down(table: &DeTable<'_>, run: &mut RunSpec, findings: &mut Findings) {
    let Some((value, line)) = entry(table, "all_links_down_s", findings) else {
        return;
    };
    let number = value
        .as_integer()
        .and_then(|n| u32::from_str_radix(n.as_str(), n.radix()).ok())
        .filter(|s| (1..=ALL_LINKS_DOWN_S_MAX).contains(s));
    match number {
        Some(s) => run.all_links_down = Duration::from_secs(s.into()),
        None => findings.error(
            line,
            "all_links_down_s is not a number of seconds that connections could wait",
            format!(
                "write one from 1 to {ALL_LINKS_DOWN_S_MAX} without quotes, or leave it out for {}",
                ALL_LINKS_DOWN.as_secs()
            ),
        ),
    }
}

fn read_plain_tcp(table: &DeTable<'_>, run: &mut RunSpec, findings: &mut Findings) {
    const RIGHT: &str = "write `plain_tcp = false` to have nothing between nodes carried in the clear, or leave it out";
    if let Some(may) = read_bool(table, "plain_tcp", RIGHT, findings) {
        run.plain_tcp = may;
    }
}
