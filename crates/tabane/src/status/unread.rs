//! Connections that are not read, for people.

use super::run::{Reader, UnreadConnection, UnreadStatus};
use super::table::{clean, duration, metric};

/// Connections named at most.
const NAMED_MAX: usize = 10;

/// A line for all of them and one for each of the worst; none if all are read.
pub(super) fn lines(unread: &UnreadStatus) -> Vec<String> {
    let at_peers = unread.connections_at_peers();
    if unread.connections + at_peers == 0 {
        return Vec::new();
    }
    let bytes = metric(unread.bytes as f64);
    let here = match unread.connections {
        0 => None,
        count => Some(format!(
            "{count} by programs here ({bytes}B wait, the longest for {})",
            duration(unread.longest_s)
        )),
    };
    let there = (at_peers > 0).then(|| format!("{at_peers} by the other end"));
    let all = [here, there].into_iter().flatten().collect::<Vec<_>>();
    let mut lines = vec![format!("connections not read: {}", all.join(", "))];
    let named = unread.listed.len().min(NAMED_MAX);
    lines.extend(unread.listed.iter().take(named).map(one));
    let others = (unread.connections + at_peers).saturating_sub(named);
    if others > 0 {
        lines.push(format!("  and {others} more (--json lists {} of all)", unread.listed.len()));
    }
    lines
}

fn one(unread: &UnreadConnection) -> String {
    let UnreadConnection { local, remote, .. } = unread;
    let peer = unread.peer.as_deref().map_or("plain TCP", |name| name);
    let program = program(unread);
    let for_s = duration(unread.since_s);
    match unread.reader {
        Reader::Program => format!(
            "  {program}: {local} from {remote} ({}), {}B wait, {for_s}",
            clean(peer),
            metric(unread.bytes as f64)
        ),
        Reader::Peer => format!(
            "  {program}: {local} to {remote} ({}), not read there, {for_s}",
            clean(peer)
        ),
    }
}

/// `redis-server (4711)`.
pub(crate) fn program(unread: &UnreadConnection) -> String {
    match (&unread.command, unread.pid) {
        (Some(command), Some(pid)) => format!("{} ({pid})", clean(command)),
        _ => "a program".to_owned(),
    }
}
