//! `[run]`: settings for connections of programs under `tabane run`.

use core::time::Duration;

use toml::de::{DeTable, DeValue};

use super::document::{entry, read_bool, unknown_keys};
use super::problem::Findings;

/// Default time that they wait while no link to the far end works: about as long as TCP itself
/// retransmits (Linux, tcp_retries2).
pub const ALL_LINKS_DOWN: Duration = Duration::from_secs(900);
/// A year: in effect for ever.
const ALL_LINKS_DOWN_S_MAX: u32 = 31_536_000;

const KEYS: &[&str] = &["all_links_down_s", "group", "off", "plain_tcp", "users"];

/// `[run]` of the cluster file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSpec {
    /// How long a connection waits while no link to the far end works; then it is reset.
    pub all_links_down: Duration,
    /// May plain TCP, in the clear, carry a connection to another node that the bundle cannot carry?
    pub plain_tcp: bool,
}

/// Who may use the daemon of `tabane up` for `tabane run`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunUsers {
    /// Nobody may.
    pub off: bool,
    /// Root and these users may, by name or number.
    pub users: Option<Vec<String>>,
    /// Members of this group may as well, by name or number. Without both everybody may.
    pub group: Option<String>,
}

impl Default for RunSpec {
    fn default() -> Self {
        Self {
            all_links_down: ALL_LINKS_DOWN,
            plain_tcp: true,
        }
    }
}

/// Reads the table, if it is there. Errors are reported, and their entries left out.
pub(super) fn read(root: &DeTable<'_>, findings: &mut Findings) -> (RunSpec, RunUsers) {
    let (mut run, mut users) = (RunSpec::default(), RunUsers::default());
    let Some((value, line)) = entry(root, "run", findings) else {
        return (run, users);
    };
    let DeValue::Table(table) = value else {
        let right = "write `[run]` on a line of its own, and `all_links_down_s = 900` below it";
        findings.error(line, "`run` is not a table", right);
        return (run, users);
    };
    unknown_keys(table, KEYS, " of `[run]`", findings);
    read_all_links_down(table, &mut run, findings);
    read_plain_tcp(table, &mut run, findings);
    read_users(table, &mut users, findings);
    (run, users)
}

fn read_users(table: &DeTable<'_>, users: &mut RunUsers, findings: &mut Findings) {
    const RIGHT_OFF: &str =
        "write `off = true` to have nobody use this daemon for `tabane run`, or leave it out";
    const RIGHT_USERS: &str =
        "write `users = [\"alice\", \"1000\"]`, or leave it out for everybody";
    const RIGHT_GROUP: &str = "write `group = \"hpc\"`, or leave it out for everybody";
    users.off = read_bool(table, "off", RIGHT_OFF, findings).unwrap_or(false);
    let name = |value: &DeValue<'_>| value.as_str().filter(|it| is_name(it)).map(str::to_owned);
    if let Some((value, line)) = entry(table, "group", findings) {
        users.group = name(value);
        if users.group.is_none() {
            findings.error(line, "group is not the name of a group", RIGHT_GROUP);
        }
    }
    if let Some((value, line)) = entry(table, "users", findings) {
        let all = value.as_array().and_then(|array| {
            let names = array.iter().map(|item| name(item.get_ref()));
            names.collect::<Option<Vec<String>>>()
        });
        if all.is_none() {
            findings.error(line, "users is not a list of names of users", RIGHT_USERS);
        }
        // Nobody else, also if it cannot be read: then the file is refused anyway.
        users.users = Some(all.unwrap_or_default());
    }
}

/// Whether it may be looked up: no longer than a name can be, and without what ends one in C.
fn is_name(text: &str) -> bool {
    (1..=256).contains(&text.len()) && !text.contains(['\0', ':', '\n'])
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
