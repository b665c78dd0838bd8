//! `tabane status --check`: one line and an exit code, as Nagios, Icinga and health checks of containers want them
//! (Monitoring Plugins Development Guidelines).

use super::{PeerState, PeerStatus, Severity, StatusReport};
use crate::exit_codes;

/// What a check says.
#[derive(Debug, PartialEq, Eq)]
pub struct Check {
    /// 0 all is well, 1 something is lost, 2 something cannot be reached.
    pub code: u8,
    /// One line.
    pub line: String,
}

impl Check {
    /// There is nothing to look at: why, in words.
    pub fn failed(why: &str) -> Check {
        Check {
            code: exit_codes::CHECK_CRITICAL,
            line: format!("TABANE CRITICAL: {why}\n"),
        }
    }

    /// How a node is, as it says.
    pub fn of(report: &StatusReport) -> Check {
        let mut critical: Vec<String> = report.peers.iter().filter_map(unreached).collect();
        let mut lost: Vec<String> = report.peers.iter().filter_map(less).collect();
        if let Some(gateway) = &report.node.gateway {
            if gateway.serving.is_none() {
                critical.push("no gateway serves the outside addresses".to_owned());
            } else if let Some(trouble) = &gateway.trouble {
                lost.push(format!("gateway: {trouble}"));
            }
        }
        for finding in &report.node.findings {
            let said = || format!("{} [{}]", finding.what, finding.code);
            match finding.severity {
                Severity::Unreachable => critical.push(said()),
                Severity::Degraded => lost.push(said()),
                Severity::Slow | Severity::Note => {}
            }
        }
        let (code, word) = match (critical.is_empty(), lost.is_empty()) {
            (false, _) => (exit_codes::CHECK_CRITICAL, "CRITICAL"),
            (true, false) => (exit_codes::CHECK_WARNING, "WARNING"),
            (true, true) => (exit_codes::OK, "OK"),
        };
        let connected = |peer: &&PeerStatus| peer.state == PeerState::Up;
        let up = report.peers.iter().filter(connected).count();
        let sum = |count: fn(&PeerStatus) -> usize| report.peers.iter().map(count).sum::<usize>();
        let paths_up = sum(|peer| peer.paths_up);
        // Of a peer to which nothing is carried no path is used, and none is missed.
        let paths = sum(|peer| match peer.state {
            PeerState::OnDemand => 0,
            _ => peer.paths_configured,
        });
        critical.append(&mut lost);
        let said = match critical.as_slice() {
            [] => format!("{up} of {} peers connected", report.peers.len()),
            all => all.join(", "),
        };
        let name = &report.node.name;
        Check {
            code,
            line: format!(
                "TABANE {word}: {name}: {said} | peers_up={up};;;0;{} paths_up={paths_up};;;0;{paths}\n",
                report.peers.len()
            ),
        }
    }
}

fn unreached(peer: &PeerStatus) -> Option<String> {
    let is_reached = matches!(peer.state, PeerState::Up | PeerState::OnDemand);
    let state = match peer.state {
        PeerState::Connecting => "not connected yet",
        _ => "down",
    };
    (!is_reached).then(|| format!("{} is {state}", peer.name))
}

fn less(peer: &PeerStatus) -> Option<String> {
    if peer.state != PeerState::Up {
        return None;
    }
    let PeerStatus {
        name,
        paths_up,
        paths_configured,
        ..
    } = peer;
    if *paths_up == 0 && !peer.relayed.is_empty() {
        return Some(format!("{name} is reached through other nodes only"));
    }
    (paths_up < paths_configured)
        .then(|| format!("{paths_up} of {paths_configured} links to {name} work"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::super::{GatewayStatus, PathState, RelayedStatus};
    use super::*;

    /// A report in which all is well, changed.
    fn check(change: impl Fn(&mut StatusReport)) -> Check {
        let mut report = example();
        report.node.gateway = None;
        report.node.findings.clear();
        for peer in &mut report.peers {
            (peer.state, peer.paths_up, peer.paths_configured) = (PeerState::Up, 2, 2);
            peer.relayed.clear();
        }
        change(&mut report);
        Check::of(&report)
    }

    fn says(check: &Check, code: u8, words: &[&str]) {
        assert_eq!(check.code, code, "{check:?}");
        for word in words {
            assert!(check.line.contains(word), "{check:?}");
        }
        assert_eq!(check.line.lines().count(), 1);
    }

    #[test]
    fn the_code_follows_from_what_is_lost() {
        says(
            &check(|_| {}),
            0,
            &["TABANE OK: ", "connected |", " paths_up="],
        );
        let idle = check(|report| {
            report.peers[0].state = PeerState::OnDemand;
            report.peers[0].paths_up = 0;
        });
        says(&idle, 0, &["OK"]);
        let less = check(|report| report.peers[0].paths_up = 1);
        says(&less, 1, &["WARNING", "1 of 2 links to "]);
        let relayed = check(|report| {
            report.peers[0].paths_up = 0;
            report.peers[0].relayed.push(RelayedStatus {
                via: vec!["n9".to_owned()],
                state: PathState::Up,
                since_unix_ms: 0,
                since_s: 0,
                rtt_us: None,
                tx_bytes: 0,
                rx_bytes: 0,
            });
        });
        says(&relayed, 1, &["through other nodes only"]);
        let down = check(|report| {
            report.peers[0].state = PeerState::Down;
            report.peers[1].paths_up = 1;
        });
        says(&down, 2, &["CRITICAL", " is down, 1 of 2 links to "]);
        let found = |severity| {
            move |report: &mut StatusReport| {
                let mut finding = example().node.findings[0].clone();
                finding.severity = severity;
                report.node.findings = vec![finding];
            }
        };
        says(&check(found(Severity::Slow)), 0, &["OK"]);
        let degraded = check(found(Severity::Degraded));
        says(&degraded, 1, &["WARNING", "[vnic_route]"]);
        says(&check(found(Severity::Unreachable)), 2, &["CRITICAL"]);
        let nobody = check(|report| report.node.gateway = Some(GatewayStatus::default()));
        says(&nobody, 2, &["no gateway serves"]);
        says(
            &Check::failed("no daemon runs here"),
            2,
            &["CRITICAL: no daemon"],
        );
    }
}
