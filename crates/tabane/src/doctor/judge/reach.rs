//! Why a path does not work.

use tabane_io::probe::KnockAnswer;

use super::host::kept_off;
use super::{refusals, words};
use crate::doctor::facts::{Facts, OwnLink, PathFacts, since};
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::status::{PathState, PeerState, StatusReport};

/// One path that does not work, and why.
struct Case {
    cause: Cause,
    peer: String,
    link: u8,
    evidence: Vec<String>,
}

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    // A peer's address on this machine explains its silence.
    let others = facts.paths.iter().filter(|p| p.own_device.is_none());
    let silent = others.filter(|p| !works(facts, p));
    let explained = |p: &&PathFacts| {
        found.iter().any(|f| {
            f.cause == Cause::WrongNeighbour && f.peers == [p.peer.as_str()] && f.links == [p.link]
        })
    };
    let unexplained = silent.filter(|p| !explained(p));
    let cases = unexplained.filter_map(|path| case(facts, path)).collect();
    for group in grouped(cases) {
        found.push(finding(facts, &group));
    }
}

/// Without a daemon, only the network tells whether a path works. An idle daemon notices a failure
/// late: if neither ping nor ARP is answered, it has not noticed yet.
fn works(facts: &Facts, path: &PathFacts) -> bool {
    let Some(watch) = facts.path_status(&path.peer, path.link) else {
        return false;
    };
    let no_ping = path
        .small
        .is_some_and(|p| p.sent >= PINGS_MIN && p.answered == 0);
    let no_arp = path.macs.as_ref().is_some_and(Vec::is_empty);
    // A moment's doubt is no failure.
    let was_up = watch.readings().any(|p| p.state == PathState::Up);
    was_up && !(no_ping && no_arp)
}

/// So many pings without an answer are no chance.
const PINGS_MIN: u32 = 10;

fn case(facts: &Facts, path: &PathFacts) -> Option<Case> {
    let link = facts.link(path.link)?;
    let usable = link.device.as_ref().is_some_and(|d| d.up && d.carrier);
    if !usable || refusals::explains(facts, &path.peer, path.link) {
        // That is a finding of its own.
        return None;
    }
    let mut evidence = Vec::new();
    let cause = cause(facts, path, &mut evidence)?;
    if let Some(why) = facts
        .path_status(&path.peer, path.link)
        .and_then(|watch| watch.last.why.as_ref())
    {
        evidence.push(format!("the daemon on link {}: {why}", path.link));
    }
    Some(Case {
        cause,
        peer: path.peer.clone(),
        link: path.link,
        evidence,
    })
}

/// The checks, the most conclusive first.
fn cause(facts: &Facts, path: &PathFacts, evidence: &mut Vec<String>) -> Option<Cause> {
    let (ip, port) = (path.remote.ip(), path.remote.port());
    let watch = facts.link_status(path.link);
    let refused = watch.map_or(0, |w| w.grown(|l| l.tx_refused));
    if path.knock == Some(KnockAnswer::RefusedHere) || refused > 0 {
        evidence.push(format!(
            "the kernel does not let packets to {ip}, UDP {port}, out (EPERM)"
        ));
        return Some(Cause::FirewallHere);
    }
    if path.knock == Some(KnockAnswer::Prohibited) {
        evidence.push(format!(
            "ICMP answers \"administratively prohibited\" to {ip}, UDP {port}"
        ));
        return Some(Cause::FirewallThere);
    }
    if let Some((arrived, other)) = arrived_elsewhere(facts, path) {
        let device = other.device.as_ref().map_or("the NIC", |d| &d.name);
        evidence.push(format!(
            "{} from {ip}, which is {}'s address on link {}, arrived at {device}, the NIC of link {}",
            words::counted(arrived, "packet"),
            path.peer,
            path.link,
            other.number
        ));
        return Some(Cause::SwappedLinks);
    }
    if let Some((arrived, taken)) = dropped_here(facts, path) {
        evidence.push(format!(
            "{} from {ip} to UDP {port} arrived at the NIC of link {}, {taken} reached the daemon",
            words::counted(arrived, "packet"),
            path.link
        ));
        return Some(Cause::FirewallHere);
    }
    let strangers = strangers(facts);
    if strangers > 0 && is_connecting(facts, path) && !arrivals_lack(facts, path) {
        evidence.push(format!(
            "{} arrived that were not made with this cluster's key; {ip} is not connected",
            words::counted(strangers, "handshake")
        ));
        return Some(Cause::WrongKey);
    }
    if path.knock == Some(KnockAnswer::Closed) {
        evidence.push(format!("{ip} answers \"port unreachable\" to UDP {port}"));
        let is_elsewhere = facts
            .peer(&path.peer)
            .is_some_and(|p| p.state == PeerState::Up);
        return Some(if is_elsewhere {
            Cause::FirewallThere
        } else {
            Cause::NoDaemonThere
        });
    }
    by_answers(facts, path, evidence)
}

/// Conclusion from pings, ARP and arrivals together.
fn by_answers(facts: &Facts, path: &PathFacts, evidence: &mut Vec<String>) -> Option<Cause> {
    let ip = path.remote.ip();
    let pings = path.small;
    let ponged = pings.is_some_and(|p| p.answered > 0);
    if let Some(pings) = pings {
        evidence.push(format!(
            "{} of {} pings to {ip} were answered",
            pings.answered, pings.sent
        ));
    }
    let heard = heard(facts, path);
    let arp = path.macs.as_ref().map(|macs| !macs.is_empty());
    evidence.push(match heard {
        0 => format!("nothing arrived from {}", path.remote),
        more => format!(
            "{} of {} arrived from {ip}",
            words::counted(more, "packet"),
            path.peer
        ),
    });
    match arp {
        Some(true) => evidence.push(format!("{ip} answers ARP")),
        Some(false) => evidence.push(format!("{ip} does not answer ARP")),
        None if path.neighbour_failed => evidence.push(format!("{ip} does not answer ARP")),
        None => {}
    }
    if facts.daemon.is_none() && (ponged || arp == Some(true)) {
        // The machine is there; only a daemon here could tell more.
        return None;
    }
    match (ponged || arp == Some(true), heard > 0) {
        (true, _) => Some(Cause::FirewallThere),
        (false, true) => Some(Cause::OneWay),
        (false, false) => Some(Cause::LinkDead),
    }
}

/// Handshakes that came meanwhile and were made with another key.
fn strangers(facts: &Facts) -> u64 {
    facts.daemon.as_ref().map_or(0, |daemon| {
        let count = |report: &StatusReport| report.node.dropped.get("stranger").copied();
        let (first, last) = (count(&daemon.first), count(&daemon.last));
        since(first.unwrap_or(0), last.unwrap_or(0))
    })
}

fn is_connecting(facts: &Facts, path: &PathFacts) -> bool {
    let peer = facts.peer(&path.peer);
    peer.is_some_and(|p| p.state == PeerState::Connecting)
}

/// Whether arrivals were captured, and none came from this peer.
fn arrivals_lack(facts: &Facts, path: &PathFacts) -> bool {
    let arrivals = facts.link(path.link).and_then(|l| l.arrivals.as_ref());
    arrivals.is_some_and(|a| !a.contains_key(&path.remote.ip()))
}

/// Packets for our port that arrived at the NIC and not at the daemon: from this
/// peer, and how many reached the daemon on this link in all.
fn dropped_here(facts: &Facts, path: &PathFacts) -> Option<(u64, u64)> {
    let arrivals = facts.link(path.link)?.arrivals.as_ref()?;
    let of_peer = arrivals.get(&path.remote.ip()).copied().unwrap_or(0);
    let all: u64 = arrivals.values().sum();
    let watch = facts.link_status(path.link)?;
    let taken = watch.grown(|l| l.rx_datagrams);
    // These came as far as the daemon's socket.
    let refused = watch.grown(|l| l.rx_dropped) + kept_off(facts);
    // A packet may be on its way when counting begins or ends.
    let missing = all.saturating_sub(taken + refused);
    (of_peer > 0 && missing * 2 >= of_peer).then_some((of_peer, taken))
}

/// Packets for our port from this peer's address that arrived at the NIC of another link, and not at
/// the right one: how many, and which link.
fn arrived_elsewhere<'a>(facts: &'a Facts, path: &PathFacts) -> Option<(u64, &'a OwnLink)> {
    let from_peer = |link: &OwnLink| {
        let arrivals = link.arrivals.as_ref()?;
        arrivals.get(&path.remote.ip()).copied()
    };
    let own = facts.link(path.link)?;
    if from_peer(own).is_some() {
        return None;
    }
    let mut links = facts.links.iter();
    links.find_map(|link| Some((from_peer(link)?, link)))
}

/// Packets from the peer on this link, whoever counted them.
fn heard(facts: &Facts, path: &PathFacts) -> u64 {
    let by_daemon = facts
        .path_status(&path.peer, path.link)
        .map_or(0, |watch| watch.received());
    let arrivals = facts.link(path.link).and_then(|l| l.arrivals.as_ref());
    let at_nic = arrivals.and_then(|a| a.get(&path.remote.ip()));
    by_daemon.max(at_nic.copied().unwrap_or(0))
}

/// One cause on several links of a peer is one case; so is one cause on the same links of several
/// peers.
fn grouped(cases: Vec<Case>) -> Vec<Group> {
    let mut by_peer: Vec<Group> = Vec::new();
    for case in cases {
        let same = |g: &&mut Group| g.cause == case.cause && g.peers[0] == case.peer;
        match by_peer.iter_mut().find(same) {
            Some(group) => {
                group.links.push(case.link);
                group.evidence.extend(case.evidence);
            }
            None => by_peer.push(Group {
                cause: case.cause,
                peers: vec![case.peer],
                links: vec![case.link],
                evidence: case.evidence,
            }),
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    for one in by_peer {
        let same = |g: &&mut Group| (g.cause, &g.links) == (one.cause, &one.links);
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.peers.extend(one.peers);
                if group.evidence.len() < EVIDENCE_MAX {
                    group.evidence.extend(one.evidence);
                }
            }
            None => groups.push(one),
        }
    }
    groups
}

/// Lines of evidence after which other peers' are left out.
const EVIDENCE_MAX: usize = 8;

struct Group {
    cause: Cause,
    peers: Vec<String>,
    links: Vec<u8>,
    evidence: Vec<String>,
}

impl Group {
    /// Whether the machines are reachable on all links while their daemons are silent on all: from
    /// here a hanging daemon looks like a firewall that drops both ways.
    fn may_hang(&self, facts: &Facts) -> bool {
        let mut paths = facts.paths.iter().filter(|p| self.peers.contains(&p.peer));
        // Any answer from the port is a firewall's.
        let is_quiet = |p: &PathFacts| {
            self.links.contains(&p.link)
                && heard(facts, p) == 0
                && matches!(p.knock, None | Some(KnockAnswer::Silence))
        };
        self.cause == Cause::FirewallThere && paths.all(is_quiet)
    }
}

/// Whether none of the peers was connected since the daemon began.
fn all_connecting(facts: &Facts, group: &Group) -> bool {
    let connecting = |name: &String| {
        let peer = facts.peer(name);
        peer.is_some_and(|p| p.state == PeerState::Connecting)
    };
    group.peers.iter().all(connecting)
}

fn finding(facts: &Facts, group: &Group) -> Finding {
    let (who, on) = (words::nodes(&group.peers), words::links(&group.links));
    let reachable = |name: &String| facts.peer(name).is_some_and(|p| p.state == PeerState::Up);
    let all_reachable = group.peers.iter().all(reachable);
    let severity = if all_reachable {
        Severity::Degraded
    } else {
        Severity::Unreachable
    };
    let links = facts.links.len().max(1) as f64;
    let carry = if group.links.len() == 1 {
        "carries"
    } else {
        "carry"
    };
    let (share, cost) = match all_reachable {
        true => (
            group.links.len() as f64 / links,
            format!("{on} {carry} nothing to {who}"),
        ),
        false => (1.0, format!("no bundle with {who}")),
    };
    let mut finding =
        Finding::new(group.cause, severity, what(facts, group, &who, &on)).costs(share, cost);
    finding.peers.clone_from(&group.peers);
    finding.links.clone_from(&group.links);
    finding.evidence.clone_from(&group.evidence);
    finding.mend = mend(facts, group, &who);
    finding
}

fn what(facts: &Facts, group: &Group, who: &str, on: &str) -> String {
    let port = facts.port;
    let text = match group.cause {
        Cause::WrongKey | Cause::SwappedLinks => {
            return refusals::what(group.cause, who, &group.peers);
        }
        Cause::NoDaemonThere => format!("no tabane runs on {who}, or not at UDP port {port}"),
        Cause::FirewallHere => {
            format!("a firewall of this machine drops UDP port {port} of {who} on {on}")
        }
        Cause::FirewallThere => {
            let hangs = match (group.may_hang(facts), all_connecting(facts, group)) {
                (true, true) => {
                    ", the daemon there hangs, or its cluster file does not have this node"
                }
                (true, false) => ", or the daemon there hangs",
                (false, _) => "",
            };
            format!(
                "{who} is there, but UDP port {port} does not get through on {on}: a firewall \
                 there or on the way drops it{hangs}"
            )
        }
        Cause::OneWay => {
            format!("on {on}, what {who} sends arrives here, but not what is sent to {who}")
        }
        _ if group.links.len() == facts.links.len() && group.links.len() > 1 => {
            format!("nothing of {who} answers on any link")
        }
        _ => format!("nothing of {who} arrives on {on}"),
    };
    words::sentence(&text, &group.peers)
}

fn mend(facts: &Facts, group: &Group, who: &str) -> Vec<String> {
    let device = |link: &u8| facts.device(*link).map_or("the NIC", |d| d.name.as_str());
    let devices = words::list(group.links.iter().map(device));
    let port = words::open_port(facts.port);
    match group.cause {
        Cause::WrongKey => vec![refusals::mend(group.cause, who)],
        Cause::SwappedLinks => vec![
            refusals::mend(group.cause, who),
            format!(
                "`ip -brief address` here and on {who}: is every address on the NIC it should be?"
            ),
        ],
        Cause::NoDaemonThere => vec![
            format!(
                "on {who}: `systemctl status tabane`; start it: `systemctl start tabane`, or `tabane up`"
            ),
            format!(
                "`port` must be the same in the cluster files; here it is {}",
                facts.port
            ),
        ],
        Cause::FirewallHere => vec![
            format!("here, {port}"),
            "`nft list ruleset` (or `iptables -S`) shows which rule it is".to_owned(),
        ],
        Cause::FirewallThere => {
            let may_hang = group.may_hang(facts);
            let file = (may_hang && all_connecting(facts, group)).then(|| {
                format!(
                    "copy the cluster file of this node to {who}, and `tabane reload` there: a node that is \
                     not in it gets no answer"
                )
            });
            let hangs = may_hang.then(|| {
                format!(
                    "`tabane status` on {who}: if its daemon does not answer, it hangs: \
                     `systemctl restart tabane`"
                )
            });
            let open = format!("on {who}, {port}");
            let address = format!(
                "does {who} have this address on the NIC of this network, and does its daemon use it? \
                 `tabane doctor` on {who} tells"
            );
            [Some(open), file, hangs, Some(address)]
                .into_iter()
                .flatten()
                .collect()
        }
        Cause::OneWay => vec![
            format!("replace the cable of {devices} (one pair, or one fibre, is broken)"),
            format!(
                "try another switch port; `ethtool -S {devices} | grep -i err` here and on {who}"
            ),
        ],
        _ => vec![
            format!("look at {who}: power, cable, switch port; `ip -brief link` there"),
            format!(
                "does the switch of {devices} work? `tabane doctor` on {who} tells what it hears"
            ),
        ],
    }
}
