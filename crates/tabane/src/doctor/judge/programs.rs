//! The programs at both ends: whether the bundle waits for them.

use std::collections::BTreeMap;

use super::{host, shared, words};
use crate::doctor::facts::{Facts, Flow};
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::status::{PathState, Reader, StatusReport, UnreadConnection, unread_program};

/// A connection that was busy for less than this proves nothing.
const BUSY_S_MIN: f64 = 0.3;
/// Of that, waiting for the receiver's window from here on makes it the limit.
const LIMITED_MIN: f64 = 0.5;
/// So much always waiting to be read: the program here is slow.
const UNREAD_MIN: u64 = 32 * 1024;
/// A bundle used to this share is full: then everybody waits for it, not it for them.
const FULL: f64 = 0.8;
/// A bundle counts as backlogged if one in this many readings had something queued.
const QUEUED_ONE_IN: usize = 4;
/// Connections told of.
const TOLD_MAX: usize = 5;

/// A program that has not read for this long, seconds, has stopped.
const UNREAD_S_MIN: u64 = 5;

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    unread(facts, found);
    let mut slow_here: Vec<&Flow> = facts.flows.iter().filter(|f| reads_slowly(f)).collect();
    slow_here.sort_by_key(|f| core::cmp::Reverse(f.unread_bytes_min));
    found.extend(slow_here.into_iter().take(TOLD_MAX).map(|f| here(facts, f)));
    if is_full(facts) || host::is_starved(facts) {
        return;
    }
    let waits = |f: &&Flow| f.busy_s >= BUSY_S_MIN && f.window_limited_s >= f.busy_s * LIMITED_MIN;
    let mut waiting: Vec<&Flow> = facts.flows.iter().filter(waits).collect();
    waiting.sort_by(|a, b| b.window_limited_s.total_cmp(&a.window_limited_s));
    found.extend(waiting.into_iter().take(TOLD_MAX).map(|f| there(facts, f)));
}

fn reads_slowly(flow: &Flow) -> bool {
    flow.unread_bytes_min >= UNREAD_MIN
}

/// Whether the connections wait for the bundle: their data queues in it repeatedly, or it sends as much as
/// the links can carry, or as a peer grants.
fn is_full(facts: &Facts) -> bool {
    let Some(daemon) = &facts.daemon else {
        return false;
    };
    let queues = |report: &&StatusReport| report.peers.iter().any(|p| p.queued_bytes > 0);
    let waiting = daemon.readings().filter(queues).count();
    if waiting * QUEUED_ONE_IN >= daemon.readings().count() {
        return true;
    }
    let (mut used, mut capacity) = (0.0, 0.0);
    for path in &facts.paths {
        let Some(watch) = facts.path_status(&path.peer, path.link) else {
            continue;
        };
        if shared::is_limited(&watch) {
            return true;
        }
        let last = watch.last;
        if last.state == PathState::Up && last.capacity_proven {
            used += watch.sent_mbps();
            // The lowest reading: bursts from buffers make the capacity seem larger.
            let read = watch.readings().filter_map(|p| p.capacity_mbps);
            capacity += read.fold(f64::INFINITY, f64::min);
        }
    }
    capacity > 0.0 && used >= capacity * FULL
}

fn mbps(bytes: u64, facts: &Facts) -> f64 {
    bytes as f64 * 8e-6 / facts.seconds.max(1e-3)
}

/// Programs under `tabane run` whose connections stand still, each with its longest one.
fn unread(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(daemon) = &facts.daemon else {
        return;
    };
    // Only the last report: anything that has stood still for seconds is in it.
    let run = &daemon.last.node.run;
    let unread = &run.unread;
    let mut of_program: BTreeMap<_, Vec<&UnreadConnection>> = BTreeMap::new();
    for connection in unread.listed.iter().filter(|it| it.since_s >= UNREAD_S_MIN) {
        let peer = match connection.reader {
            Reader::Program => None,
            Reader::Peer => connection.peer.as_deref(),
        };
        let key = (connection.reader, connection.pid, connection.uid, peer);
        of_program.entry(key).or_default().push(connection);
    }
    let mut of_program: Vec<_> = of_program.into_values().collect();
    of_program.sort_by_key(|of| core::cmp::Reverse((of[0].since_s, of.len())));
    for of_program in of_program.into_iter().take(TOLD_MAX) {
        let finding = match of_program[0].reader {
            Reader::Program => unread_here(&of_program),
            Reader::Peer => unread_there(&of_program),
        };
        let listed = unread.listed.len();
        let all = unread.connections + unread.connections_at_peers();
        let note = format!(
            "of all {all} connections that are not read the {listed} longest were looked at"
        );
        found.push(finding.maybe_seen((all > listed).then_some(note)));
    }
}

/// `connections`: those of one program, the longest first.
fn unread_here(connections: &[&UnreadConnection]) -> Finding {
    let worst = connections[0];
    let program = unread_program(worst);
    let bytes: u64 = connections.iter().map(|it| it.bytes).sum();
    let finding = Finding::new(
        Cause::UnreadProgram,
        Severity::Slow,
        format!(
            "Program {program} has not read from {} for {} s",
            worst.remote, worst.since_s
        ),
    )
    .seen(format!(
        "{} KiB wait here for its connection {}; of its connections {} are not read, and {} KiB wait for them",
        worst.bytes / 1024,
        worst.local,
        connections.len(),
        bytes / 1024
    ))
    .costs(0.0, "its own connections stand still; others do not")
    .mend(match worst.pid {
        Some(pid) => format!(
            "`cat /proc/{pid}/status /proc/{pid}/wchan`: was it stopped (T), or does it wait for something \
             else? What it started may have the connection"
        ),
        None => "what it was started by has ended; `ss -tnp` in its network namespace names what is left".to_owned(),
    })
    .mend("if it is not to read any more, end it: its connections are reset");
    with_peer(finding, worst)
}

fn unread_there(connections: &[&UnreadConnection]) -> Finding {
    let worst = connections[0];
    let program = unread_program(worst);
    let finding = Finding::new(
        Cause::UnreadProgram,
        Severity::Slow,
        format!(
            "{} has not read what program {program} says for {} s",
            worst.remote, worst.since_s
        ),
    )
    .seen(format!(
        "{} of its connections stand still, {} for longest; the links work",
        connections.len(),
        worst.local
    ))
    .costs(0.0, "its own connections stand still; others do not")
    .mend(match &worst.peer {
        Some(peer) => format!("on {peer}: `tabane status` names the program that does not read"),
        None => format!(
            "on {}: `ss -tnp` names the program that has the connection",
            worst.remote.ip()
        ),
    });
    with_peer(finding, worst)
}

fn with_peer(finding: Finding, connection: &UnreadConnection) -> Finding {
    match &connection.peer {
        Some(peer) => finding.peer(peer),
        None => finding,
    }
}

fn here(facts: &Facts, flow: &Flow) -> Finding {
    let (local, remote) = (flow.local, flow.remote);
    Finding::new(
        Cause::SlowProgram,
        Severity::Slow,
        format!("The program here that has {local} reads slowly what {remote} sends"),
    )
    .seen(format!(
        "at least {} KiB always waited to be read; {:.1} Mb/s arrived",
        flow.unread_bytes_min / 1024,
        mbps(flow.received_bytes, facts)
    ))
    .costs(
        0.1,
        "this connection is as fast as its reader; the links have room",
    )
    .mend(format!(
        "`ss -tnp src {local}` names the program: is it short of processor time, or \
                   does it wait for a disk?"
    ))
}

fn there(facts: &Facts, flow: &Flow) -> Finding {
    let (local, remote) = (flow.local, flow.remote);
    Finding::new(
        Cause::SlowProgram,
        Severity::Slow,
        format!("{remote} does not take what {local} here has to send"),
    )
    .seen(format!(
        "for {} of the time that there was something to send, the receiver granted no window; \
         {:.1} Mb/s got through",
        words::percent((flow.window_limited_s / flow.busy_s).min(1.0)),
        mbps(flow.sent_bytes, facts)
    ))
    .costs(
        0.1,
        "this connection is as fast as its reader; the links have room",
    )
    .mend(format!(
        "on the machine of {}: `ss -tnp src {remote}` names the program: is it short \
                   of processor time, or does it wait for a disk?",
        remote.ip()
    ))
    .mend("if its Recv-Q is empty there, its buffer is small: raise `sysctl net.ipv4.tcp_rmem`")
}
