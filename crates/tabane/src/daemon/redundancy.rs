//! Whether a peer could be lost with one more link: told once when it becomes
//! so, once when it is over, and in every report while it is.

use core::time::Duration;
use std::collections::BTreeMap;

use tabane_proto::link::PathState;
use tabane_proto::{DownReason, Event, Node, PeerId, PeerState, PeerStats, Time};

use crate::log::Line;

/// Until a new connection is this old its missing paths are not reported: they come up
/// one after the other.
const SETTLING: Duration = Duration::from_secs(5);

/// How many paths to a peer there are, and how many of them work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redundancy {
    /// Paths that work; a suspected one counts until it is judged.
    pub paths_up: usize,
    /// Paths the cluster file makes possible.
    pub paths_configured: usize,
    /// There could be several working paths, and there are fewer than two. Not
    /// before the peer was connected once.
    pub is_lost: bool,
}

impl Redundancy {
    /// As of `now`.
    pub fn of(stats: &PeerStats, now: Time) -> Redundancy {
        let states: Vec<_> = stats.paths.iter().map(|p| p.state).collect();
        Self::judge(stats.state, now.since(stats.since), &states)
    }

    fn judge(peer: PeerState, since: Duration, paths: &[PathState]) -> Redundancy {
        let count = |wanted: &[PathState]| paths.iter().filter(|s| wanted.contains(s)).count();
        let paths_up = match peer {
            PeerState::Up => count(&[PathState::Up, PathState::Suspect]),
            PeerState::Connecting | PeerState::Down | PeerState::OnDemand => 0,
        };
        let may_still_come = match peer {
            PeerState::Connecting => paths.len(),
            PeerState::Up if since < SETTLING => count(&[PathState::Untested]),
            PeerState::Up | PeerState::Down | PeerState::OnDemand => 0,
        };
        Redundancy {
            paths_up,
            paths_configured: paths.len(),
            is_lost: paths.len() >= 2 && paths_up + may_still_come < 2,
        }
    }
}

/// State of a peer.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The log says that redundancy is lost.
    told: bool,
    /// Something happened less than [`SETTLING`] ago: look again.
    is_settling: bool,
    /// How often it went down.
    failures: u64,
}

/// What the log was told about each peer.
#[derive(Debug, Default)]
pub struct Watch {
    peers: BTreeMap<PeerId, Seen>,
}

impl Watch {
    /// Handles an event. Returns a line for the log, without the peer's name in front.
    pub fn event(&mut self, now: Time, node: &Node, event: &Event) -> Option<(PeerId, Line)> {
        let peer = match *event {
            Event::PeerUp { peer, .. }
            | Event::LinkDown { peer, .. }
            | Event::LinkUp { peer, .. } => peer,
            Event::PeerDown {
                peer,
                reason: DownReason::Removed,
            } => {
                self.peers.remove(&peer);
                return None;
            }
            Event::PeerDown { peer, .. } => {
                self.peers.entry(peer).or_default().failures += 1;
                peer
            }
            Event::Op { .. }
            | Event::Guest { .. }
            | Event::Member { .. }
            | Event::Parted { .. }
            | Event::NotAdmitted { .. }
            | Event::Measured { .. }
            | Event::Refused { .. } => return None,
        };
        let line = self.look(peer, &node.peer_stats(peer)?, now)?;
        Some((peer, line))
    }

    /// Handles the passing of time. Returns lines for the log.
    pub fn turn(&mut self, now: Time, node: &Node) -> Vec<(PeerId, Line)> {
        let settling = self.peers.iter().filter(|(_, seen)| seen.is_settling);
        let settling: Vec<_> = settling.map(|(peer, _)| *peer).collect();
        let mut told = Vec::new();
        for peer in settling {
            match node.peer_stats(peer) {
                Some(stats) => told.extend(self.look(peer, &stats, now).map(|line| (peer, line))),
                // It was removed from the cluster file.
                None => drop(self.peers.remove(&peer)),
            }
        }
        told
    }

    /// This number is another peer's now.
    pub fn forget(&mut self, peer: PeerId) {
        self.peers.remove(&peer);
    }

    /// How often a peer went down since the daemon started.
    pub fn failures(&self, peer: PeerId) -> u64 {
        self.peers.get(&peer).map_or(0, |seen| seen.failures)
    }

    fn look(&mut self, peer: PeerId, stats: &PeerStats, now: Time) -> Option<Line> {
        let is_up = stats.state == PeerState::Up;
        let redundancy = Redundancy::of(stats, now);
        let seen = self.peers.entry(peer).or_default();
        seen.is_settling = is_up && now.since(stats.since) < SETTLING;
        // That a peer is not connected is reported separately, and its redundancy only
        // shows when it is back.
        if !is_up || redundancy.is_lost == seen.told {
            return None;
        }
        if !redundancy.is_lost && redundancy.paths_up < 2 {
            return None;
        }
        seen.told = redundancy.is_lost;
        let (up, all) = (redundancy.paths_up, redundancy.paths_configured);
        Some(if redundancy.is_lost {
            Line::warning(format!(
                "redundancy lost: {up} of {all} links works, one more failure cuts it off"
            ))
        } else {
            Line::info(format!("redundancy regained: {up} of {all} links work"))
        })
    }
}

#[cfg(test)]
mod tests {
    use tabane_proto::link::PathStats;
    use tabane_proto::wire::Witness;
    use tabane_proto::{LinkId, PathStatus};

    use super::*;

    use PathState::{Down, Suspect, Untested, Up};

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn one_working_path_of_several_is_no_redundancy() {
        let is_lost = |paths: &[PathState]| Redundancy::judge(PeerState::Up, LONG, paths).is_lost;
        for lost in [
            &[Up, Down][..],
            &[Down, Up, Down],
            &[Suspect, Down],
            &[Up, Untested],
        ] {
            assert!(is_lost(lost), "{lost:?}");
        }
        for fine in [&[Up, Up][..], &[Up, Suspect], &[Up, Up, Down], &[Up], &[]] {
            assert!(!is_lost(fine), "{fine:?}");
        }
    }

    #[test]
    fn a_peer_that_is_gone_has_none_and_one_that_never_came_lacks_none() {
        let both = [Up, Up];
        let gone = Redundancy::judge(PeerState::Down, LONG, &both);
        assert_eq!((gone.paths_up, gone.is_lost), (0, true));
        assert!(!Redundancy::judge(PeerState::Connecting, LONG, &[Untested; 2]).is_lost);
    }

    fn stats(state: PeerState, paths: &[PathState]) -> PeerStats {
        let path = |(link, state): (usize, &PathState)| PathStatus {
            link: LinkId(link as u8),
            remote: "10.77.0.2:7577".parse().unwrap(),
            state: *state,
            since: Time::ZERO,
            witness: Witness::ArrivalSkew,
            stats: PathStats::default(),
        };
        PeerStats {
            name: "n1".to_owned(),
            state,
            since: Time::ZERO,
            session_since: None,
            public: None,
            features: 0,
            paths: paths.iter().enumerate().map(path).collect(),
            relayed: Vec::new(),
            op: Default::default(),
            memory_bytes: 0,
        }
    }

    #[test]
    fn the_log_is_told_each_change_once() {
        let (mut watch, peer) = (Watch::default(), PeerId(0));
        let mut look = |seconds: u64, state, paths: &[PathState]| {
            let now = Time::from_ms(seconds * 1000);
            watch.look(peer, &stats(state, paths), now)
        };
        // Paths that come up one by one are not reported; a path that stays down is.
        assert_eq!(look(0, PeerState::Up, &[Up, Untested]), None);
        let lost = "redundancy lost: 1 of 2 links works, one more failure cuts it off";
        let lost = Some(Line::warning(lost.to_owned()));
        assert_eq!(look(9, PeerState::Up, &[Up, Untested]), lost);
        assert_eq!(look(10, PeerState::Up, &[Up, Untested]), None);
        let regained = "redundancy regained: 2 of 2 links work".to_owned();
        let regained = Some(Line::info(regained));
        assert_eq!(look(11, PeerState::Up, &[Up, Up]), regained);
        assert_eq!(look(12, PeerState::Up, &[Up, Up]), None);
        // A path that failed with all others is not reported separately.
        assert_eq!(look(13, PeerState::Up, &[Up, Down]), lost);
        assert_eq!(look(14, PeerState::Down, &[Down, Down]), None);
        assert_eq!(look(15, PeerState::Up, &[Up, Down]), None);
        assert_eq!(look(16, PeerState::Up, &[Up, Up]), regained);
        assert_eq!(look(17, PeerState::Down, &[Down, Down]), None);
        assert_eq!(look(18, PeerState::Up, &[Up, Up]), None);
    }

    #[test]
    fn a_path_that_failed_at_once_is_told_at_once() {
        let mut watch = Watch::default();
        let told = watch.look(PeerId(0), &stats(PeerState::Up, &[Up, Down]), Time::ZERO);
        assert!(told.is_some());
    }
}
