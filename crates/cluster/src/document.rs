//! From the text of a cluster file to its entries, each checked by itself.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::flow::{self, FlowSpec};
use super::gateway::{self, GatewaySpec};
use super::identity;
use super::key::{self, Access, ClusterKey, KEY_FILE_BYTES_MAX, RIGHT_KEY};
use super::mesh::{self, JoinSpec, MeshSpec};
use super::problem::Findings;
use super::run::{self, RunSpec, RunUsers};
use super::vnic::{self, VnicSpec};
use super::{DEFAULT_PORT, NODES_MAX, NodeSpec, Wire, metrics, node, plain};

/// The entries of a cluster file; errors are already reported.
pub(super) struct Document {
    pub(super) key: Option<ClusterKey>,
    pub(super) second_key: Option<ClusterKey>,
    pub(super) node_key_file: PathBuf,
    pub(super) wire: Wire,
    pub(super) port: u16,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) mptcp: bool,
    pub(super) run: RunSpec,
    pub(super) run_users: RunUsers,
    pub(super) vnic: VnicSpec,
    pub(super) mesh: MeshSpec,
    pub(super) join: Option<JoinSpec>,
    pub(super) gateway: Option<GatewaySpec>,
    pub(super) flows: Vec<FlowSpec>,
    pub(super) nodes: Vec<NodeSpec>,
}

pub(super) const KEYS: &[&str] = &[
    "key",
    "key_file",
    "second_key",
    "second_key_file",
    "node_key_file",
    "wire",
    "port",
    "metrics",
    "mptcp",
    "run",
    "vnic",
    "mesh",
    "gateway",
    "flow",
    "node",
];

/// Permission bits that let users outside owner and group read or write.
const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;

/// Reads the entries; `None` if the text is not TOML at all.
pub(super) fn read(
    file: &Path,
    text: &str,
    access: Access,
    findings: &mut Findings,
) -> Option<Document> {
    let (root, syntax_errors) = DeTable::parse_recoverable(text);
    for error in &syntax_errors {
        // Only the message: the error's own display quotes the line, which may be the key.
        let line = error.span().map(|span| findings.line_of(&span));
        let right = match error.message() {
            "duplicate key" => "keep one of the two",
            _ => "write `word = \"text\"`, and `[[node]]` before each node, as `tabane init` shows",
        };
        let what = format!("is not TOML: {}", error.message().replace('\n', ", "));
        findings.error(line, what, right);
    }
    if !syntax_errors.is_empty() {
        return None;
    }
    let root = root.get_ref();
    unknown_keys(root, KEYS, "", findings);
    check_access(root, access, findings);
    let (key, second_key) = read_keys(file, root, findings);
    let (run, run_users) = run::read(root, findings);
    let nodes = read_nodes(root, findings);
    Some(Document {
        key,
        second_key,
        node_key_file: identity::read_file_name(file, root, findings),
        wire: read_wire(root, findings),
        port: read_port(root, findings),
        metrics: metrics::read(root, findings),
        mptcp: read_mptcp(root, findings),
        run,
        run_users,
        vnic: vnic::read(root, findings),
        mesh: mesh::read(root, findings),
        join: mesh::read_join(root, findings),
        gateway: gateway::read(root, &nodes, findings),
        flows: flow::read(root, &nodes, findings),
        nodes,
    })
}

/// Reports every key of `table` that is not in `known`. `of_what` is " of a node" or the like.
pub(super) fn unknown_keys(
    table: &DeTable<'_>,
    known: &[&str],
    of_what: &str,
    findings: &mut Findings,
) {
    for name in table.keys() {
        let text = name.get_ref().as_ref();
        if known.contains(&text) {
            continue;
        }
        let line = findings.line_of(&name.span());
        let right = match nearest(text, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the keys{of_what} are {}", known.join(", ")),
        };
        findings.error(line, format!("unknown key `{}`", printable(text)), right);
    }
}

/// The known word that was probably meant: at most a third of the letters differ.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |k: &str| strsim::osa_distance(&word.to_lowercase(), k);
    let best = known.iter().min_by_key(|k| distance(k))?;
    (distance(best) * 3 <= best.len()).then_some(*best)
}

/// Text of the file as it may go to a terminal: no control characters, not endless.
pub(super) fn printable(text: &str) -> String {
    let mut shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        shown.push('…');
    }
    shown
}

/// The value of `key` and its line.
pub(super) fn entry<'a, 'i>(
    table: &'a DeTable<'i>,
    key: &str,
    findings: &Findings,
) -> Option<(&'a DeValue<'i>, u32)> {
    let value: &Spanned<DeValue<'i>> = table.get(key)?;
    Some((value.get_ref(), findings.line_of(&value.span())))
}

/// A file that holds the key is a secret; any other one must at least not be everybody's to write.
fn check_access(root: &DeTable<'_>, access: Access, findings: &mut Findings) {
    let mut inline = [FIRST_KEY.inline, SECOND_KEY.inline].into_iter();
    let line = inline
        .find_map(|name| entry(root, name, findings))
        .map(|it| it.1);
    let named = "this file, which holds the key";
    if line.is_some()
        && let Some((what, right)) = access.wrong_for_secret(named, OTHERS_READ | OTHERS_WRITE)
    {
        let right = format!("{right}, or move the key into a key_file of mode 0600");
        findings.error(line, what, right);
    } else if access.mode & OTHERS_WRITE != 0 {
        let what = format!(
            "every user of this machine can write this file (mode {:04o})",
            access.mode
        );
        findings.error(None, what, "run `chmod 644` on it");
    }
}

/// The two ways to give a key.
struct KeyNames {
    inline: &'static str,
    file: &'static str,
}

/// The key that is used to connect.
const FIRST_KEY: KeyNames = KeyNames {
    inline: "key",
    file: "key_file",
};
/// The one that is accepted beside it, while the key is being changed.
const SECOND_KEY: KeyNames = KeyNames {
    inline: "second_key",
    file: "second_key_file",
};

/// The key, and the second one.
fn read_keys(
    file: &Path,
    root: &DeTable<'_>,
    findings: &mut Findings,
) -> (Option<ClusterKey>, Option<ClusterKey>) {
    let has = |name| root.get(name).is_some();
    if !has(FIRST_KEY.inline) && !has(FIRST_KEY.file) {
        let right = format!("add one; {RIGHT_KEY}");
        findings.error(None, "there is neither `key` nor `key_file`", right);
    }
    let first = read_key(file, root, &FIRST_KEY, findings);
    let second = read_key(file, root, &SECOND_KEY, findings);
    if first.is_some() && first == second {
        let line = [SECOND_KEY.inline, SECOND_KEY.file]
            .into_iter()
            .find_map(|name| entry(root, name, findings))
            .map(|(_, line)| line);
        findings.error(
            line,
            "the second key is the same as the key",
            "leave it out, unless the key is being changed: then one of the two is the old one",
        );
    }
    (first, second)
}

fn read_key(
    file: &Path,
    root: &DeTable<'_>,
    names: &KeyNames,
    findings: &mut Findings,
) -> Option<ClusterKey> {
    let KeyNames {
        inline: key,
        file: key_file,
    } = names;
    match (entry(root, key, findings), entry(root, key_file, findings)) {
        (Some(_), Some((_, line))) => {
            let what = format!("there are both `{key}` and `{key_file}`");
            findings.error(line, what, "keep one of them");
            None
        }
        (None, None) => None,
        (Some((DeValue::String(text), line)), None) => match ClusterKey::from_hex(text) {
            Ok(key) => Some(key),
            Err(bad) => {
                findings.error(
                    line,
                    format!("the {} {bad}", key.replace('_', " ")),
                    RIGHT_KEY,
                );
                None
            }
        },
        (Some((_, line)), None) => {
            let what = format!("`{key}` is not a text in quotes");
            findings.error(line, what, RIGHT_KEY);
            None
        }
        (None, Some((DeValue::String(path), line))) => {
            read_key_file(file, Path::new(path.as_ref()), (key_file, line), findings)
        }
        (None, Some((_, line))) => {
            findings.error(
                line,
                format!("`{key_file}` is not a text in quotes"),
                "write the path of the file that holds the key",
            );
            None
        }
    }
}

/// Reads the key from `named`, relative to the directory of the cluster file.
fn read_key_file(
    file: &Path,
    named: &Path,
    (name, line): (&str, u32),
    findings: &mut Findings,
) -> Option<ClusterKey> {
    let path = file.parent().unwrap_or(Path::new("")).join(named);
    let shown = printable(&path.to_string_lossy());
    let (content, access) = match key::read_file(&path, KEY_FILE_BYTES_MAX) {
        Ok(read) => read,
        Err(error) => {
            let what = format!("{name} {shown} cannot be read: {}", plain(&error));
            findings.error(line, what, right_for_unreadable(&error));
            return None;
        }
    };
    let others = OTHERS_READ | OTHERS_WRITE;
    if let Some((what, right)) = access.wrong_for_secret(&format!("{name} {shown}"), others) {
        findings.error(line, what, right);
    }
    let text = String::from_utf8_lossy(&content);
    ClusterKey::from_hex(text.trim_ascii())
        .inspect_err(|bad| {
            findings.error(line, format!("the key in {name} {shown} {bad}"), RIGHT_KEY);
        })
        .ok()
}

/// What an operator can do about an unreadable file.
pub(super) fn right_for_unreadable(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "run as root or as the owner of the file",
        io::ErrorKind::InvalidInput => "name a regular file, not a directory, pipe or device",
        io::ErrorKind::FileTooLarge => "check that this is the file you mean",
        _ => "check the disk and the path",
    }
}

fn read_wire(root: &DeTable<'_>, findings: &mut Findings) -> Wire {
    let Some((value, line)) = entry(root, "wire", findings) else {
        return Wire::default();
    };
    match value.as_str() {
        Some("encrypted") => Wire::Encrypted,
        Some("plain") => Wire::Plain,
        other => {
            let what = match other {
                Some(text) => format!("wire cannot be \"{}\"", printable(text)),
                None => "`wire` is not a text in quotes".to_owned(),
            };
            findings.error(
                line,
                what,
                "write \"encrypted\" (the default), or \"plain\" for trusted wires only",
            );
            Wire::default()
        }
    }
}

fn read_port(root: &DeTable<'_>, findings: &mut Findings) -> u16 {
    let Some((value, line)) = entry(root, "port", findings) else {
        return DEFAULT_PORT;
    };
    let number = value
        .as_integer()
        .and_then(|n| u16::from_str_radix(n.as_str(), n.radix()).ok())
        .filter(|&port| port != 0);
    number.unwrap_or_else(|| {
        findings.error(
            line,
            "port is not a UDP port",
            format!(
                "write a number from 1 to 65535 without quotes, or leave it out for {DEFAULT_PORT}"
            ),
        );
        DEFAULT_PORT
    })
}

fn read_mptcp(root: &DeTable<'_>, findings: &mut Findings) -> bool {
    const RIGHT: &str =
        "write `mptcp = true` to have tabane steer the kernel's Multipath TCP, or leave it out";
    read_bool(root, "mptcp", RIGHT, findings).unwrap_or(false)
}

/// `true` or `false`, if `key` has one. `right`: what to write instead of anything else.
pub(super) fn read_bool(
    table: &DeTable<'_>,
    key: &str,
    right: &str,
    findings: &mut Findings,
) -> Option<bool> {
    let (value, line) = entry(table, key, findings)?;
    let read = value.as_bool();
    if read.is_none() {
        findings.error(line, format!("{key} is neither true nor false"), right);
    }
    read
}

fn read_nodes(root: &DeTable<'_>, findings: &mut Findings) -> Vec<NodeSpec> {
    const RIGHT: &str = "write `[[node]]` on a line of its own before each node, with `name` and \
                         `links` below it";
    let found = entry(root, "node", findings);
    let Some((value, line)) = found.filter(|(v, _)| v.as_array().is_none_or(|a| !a.is_empty()))
    else {
        findings.error(
            found.map(|(_, line)| line),
            "there are no nodes yet",
            "add a `[[node]]` with `name` and `links` for each machine; in a file made by \
             `tabane init`, fill in the examples and remove the `#` before them",
        );
        return Vec::new();
    };
    let Some(array) = value.as_array() else {
        findings.error(line, "`node` is not a list of nodes", RIGHT);
        return Vec::new();
    };
    let too_many = |line, count, findings: &mut Findings| {
        let what = format!("there are {count} nodes");
        findings.error(line, what, format!("at most {NODES_MAX} are possible"));
        Vec::new()
    };
    if array.len() > NODES_MAX {
        return too_many(line, array.len(), findings);
    }
    let mut nodes = Vec::with_capacity(array.len());
    for item in array.iter() {
        let line = findings.line_of(&item.span());
        match item.get_ref() {
            DeValue::Table(table) => nodes.extend(node::read(table, line, findings)),
            _ => findings.error(line, "`node` has an entry that is no node", RIGHT),
        }
        if nodes.len() > NODES_MAX {
            return too_many(line, nodes.len(), findings);
        }
    }
    nodes
}
