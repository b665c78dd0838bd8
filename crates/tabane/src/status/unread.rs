//! Connections that are not read, for people.

use super::run::{Reader, UnreadConnection, UnreadStatus};
use super::table::{clean, duration, metric};

/// Connections named at most.
const NAMED_MAX: usize = 10;

/// Lines for stalled readers here and elsewhere, and for each of the worst; none if everything is read.
pub(super) fn lines(unread: &UnreadStatus) -> Vec<String> {
    let mut lines = Vec::new();
    let mut named = 0;
    for reader in [Reader::Program, Reader::Peer] {
        let of_users = unread.of_users.iter().filter(|it| it.reader == reader);
        let all = of_users.fold((0, 0, 0), |(count, bytes, longest_s), it| {
            let longest_s = it.longest_s.max(longest_s);
            (count + it.connections, bytes + it.bytes, longest_s)
        });
        let (count, bytes, longest_s) = all;
        if count == 0 {
            continue;
        }
        let longest = duration(longest_s);
        let plural = if count == 1 { "" } else { "s" };
        lines.push(match reader {
            Reader::Program => {
                let bytes = metric(bytes as f64);
                format!("not read by programs here: {count} connection{plural}, {bytes}B, for up to {longest}")
            }
            Reader::Peer => format!("not read at the other end: {count} connection{plural}, for up to {longest}"),
        });
        let listed = unread.listed.iter().filter(|it| it.reader == reader);
        let before = lines.len();
        lines.extend(listed.take(NAMED_MAX - named).map(one));
        let told = lines.len() - before;
        named += told;
        if told < count {
            lines.push(format!("  and {} more", count - told));
        }
    }
    lines
}

fn one(unread: &UnreadConnection) -> String {
    let UnreadConnection { local, remote, .. } = unread;
    let program = program(unread);
    let peer = unread
        .peer
        .as_deref()
        .map_or_else(String::new, |name| format!("{} ", clean(name)));
    let for_s = duration(unread.since_s);
    match unread.reader {
        Reader::Program => {
            let bytes = metric(unread.bytes as f64);
            format!("  {program}, {local} from {peer}{remote}, {bytes}B, {for_s}")
        }
        Reader::Peer => format!("  {program}, {local} to {peer}{remote}, {for_s}"),
    }
}

/// `redis-server (4711)`.
pub(crate) fn program(unread: &UnreadConnection) -> String {
    match (&unread.command, unread.pid) {
        (Some(command), Some(pid)) => format!("{} ({pid})", clean(command)),
        _ => "a program".to_owned(),
    }
}
