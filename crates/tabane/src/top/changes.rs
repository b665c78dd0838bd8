//! Changes from one report to the next, in words.

use std::collections::HashMap;

use crate::status::{PathState, PathStatus, PeerState, PeerStatus, StatusReport};

/// How a state should look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mood {
    /// As it should be.
    #[default]
    Good,
    /// May become either.
    Uncertain,
    /// Needs action.
    Bad,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When, milliseconds since 1970-01-01 UTC.
    pub unix_ms: u64,
    /// The change.
    pub text: String,
    /// Good or bad news.
    pub mood: Mood,
}

/// The state of a peer: a word of at most seven letters, and what it means.
pub fn peer_state(state: PeerState) -> (&'static str, Mood) {
    match state {
        PeerState::Connecting => ("connect", Mood::Uncertain),
        PeerState::Up => ("up", Mood::Good),
        PeerState::Down => ("down", Mood::Bad),
        PeerState::OnDemand => ("idle", Mood::Good),
    }
}

/// The state of a path, likewise.
pub fn path_state(state: PathState) -> (&'static str, Mood) {
    match state {
        PathState::Connecting => ("connect", Mood::Uncertain),
        PathState::Up => ("up", Mood::Good),
        PathState::Suspect => ("suspect", Mood::Uncertain),
        PathState::Down => ("down", Mood::Bad),
    }
}

/// The changes between two reports, as of `now_ms`.
pub fn between(old: &StatusReport, new: &StatusReport, now_ms: u64) -> Vec<Change> {
    if old.node.started_unix_ms != new.node.started_unix_ms {
        return vec![Change {
            unix_ms: new.node.started_unix_ms,
            text: "the daemon was started anew".to_owned(),
            mood: Mood::Uncertain,
        }];
    }
    let before: HashMap<&str, &PeerStatus> = old.peers.iter().map(|p| (&*p.name, p)).collect();
    let mut changes = Vec::new();
    for peer in &new.peers {
        if let Some(before) = before.get(&*peer.name) {
            of_peer(before, peer, now_ms, &mut changes);
        }
    }
    changes.extend(of_gateway(old, new, now_ms));
    changes.sort_by_key(|change| change.unix_ms);
    changes
}

/// Another gateway serves, or none does.
fn of_gateway(old: &StatusReport, new: &StatusReport, now_ms: u64) -> Option<Change> {
    let (before, after) = (old.node.gateway.as_ref()?, new.node.gateway.as_ref()?);
    let (text, mood) = match &after.serving {
        serving if *serving == before.serving => return None,
        Some(serving) => (format!("gateway: {serving} serves"), Mood::Good),
        None => ("gateway: nobody serves".to_owned(), Mood::Bad),
    };
    Some(Change {
        unix_ms: now_ms,
        text,
        mood,
    })
}

fn of_peer(old: &PeerStatus, new: &PeerStatus, now_ms: u64, changes: &mut Vec<Change>) {
    for path in &new.paths {
        if let Some(before) = old.paths.iter().find(|p| p.link == path.link) {
            changes.extend(of_path(before, path, &new.name, now_ms));
        }
    }
    let mut add = |unix_ms, text: &str, mood| {
        let text = format!("{}: {text}", new.name);
        changes.push(Change {
            unix_ms,
            text,
            mood,
        });
    };
    if old.state != new.state {
        let text = match new.state {
            PeerState::Connecting => "not seen yet",
            PeerState::Up => "connected",
            PeerState::Down => "not connected",
            PeerState::OnDemand => "has nothing to carry",
        };
        add(new.since_unix_ms, text, peer_state(new.state).1);
    } else if old.failures < new.failures {
        add(
            new.since_unix_ms,
            "was not connected for a moment",
            Mood::Bad,
        );
    }
    let was_connected = old.state == PeerState::Up && new.state == PeerState::Up;
    match (old.redundancy_lost, new.redundancy_lost) {
        (false, true) if was_connected => {
            let (up, all) = (new.paths_up, new.paths_configured);
            let text = format!("redundancy lost: {up} of {all} links works");
            add(now_ms, &text, Mood::Bad);
        }
        (true, false) => add(now_ms, "redundancy regained", Mood::Good),
        _ => {}
    }
}

fn of_path(old: &PathStatus, new: &PathStatus, peer: &str, now_ms: u64) -> Option<Change> {
    let link = format!("link {} to {peer}", new.link);
    if old.state == new.state {
        let has_failed = old.failures < new.failures;
        return has_failed.then(|| Change {
            unix_ms: now_ms,
            text: format!("{link} failed and came back"),
            mood: Mood::Bad,
        });
    }
    let why = new.why.as_deref().map(|why| format!(": {why}"));
    let text = match new.state {
        PathState::Connecting => "is tried",
        PathState::Up => "works",
        PathState::Suspect => "may have failed",
        PathState::Down => "failed",
    };
    Some(Change {
        unix_ms: new.since_unix_ms,
        text: format!("{link} {text}{}", why.unwrap_or_default()),
        mood: path_state(new.state).1,
    })
}
