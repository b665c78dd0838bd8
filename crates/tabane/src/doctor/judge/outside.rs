//! The cluster's outside address: which gateway serves, which could, and the line.

use super::words;
use crate::doctor::facts::{Facts, OutsideFacts, Watched, since};
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::status::{GatewayStatus, PeerState, StatusReport};

/// A longer wait in the device's queue is a finding, milliseconds.
const QUEUE_MS: u64 = 5;
/// The same in bytes, if the line's rate is not known.
const QUEUE_BYTES: u64 = 1_000_000;
/// Packets that were dropped since strangers begin too many connections.
const GREYLISTED: &str = "greylisted";
/// Packets that were dropped since a node had as many conversations as it may.
const FULL: [&str; 2] = ["node_full", "program_full"];

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(watched) = &facts.daemon else {
        return;
    };
    let Some(gateway) = &watched.last.node.gateway else {
        return;
    };
    if is_served(watched) {
        found.extend(not_ready(facts, watched, gateway).or_else(|| no_standby(watched, gateway)));
    } else {
        found.push(no_gateway(facts, watched, gateway));
    }
    if gateway.serving.as_ref() == Some(&watched.last.node.name) {
        found.extend(conflict(gateway));
        found.extend(address_missing(facts, gateway));
        found.extend(silent_routers(gateway));
    }
    found.extend(slow(facts, gateway));
    found.extend(queue(watched, gateway));
    found.extend(full(watched, gateway));
    found.extend(flood(watched, gateway));
}

/// The daemon's reports of the gateway, in order.
fn readings(watched: &Watched) -> impl Iterator<Item = &GatewayStatus> {
    let reports = watched.readings();
    reports.filter_map(|report| report.node.gateway.as_ref())
}

fn is_connected(report: &StatusReport, name: &str) -> bool {
    let mut peers = report.peers.iter();
    let is_there = |state| matches!(state, PeerState::Up | PeerState::OnDemand);
    peers.any(|peer| peer.name == name && is_there(peer.state))
}

/// Whether a gateway served at any time and is still there. Nodes believe in one until they hear of another.
fn is_served(watched: &Watched) -> bool {
    let last = &watched.last;
    let now = |name: &String| *name == last.node.name || is_connected(last, name);
    readings(watched).any(|gateway| gateway.serving.as_ref().is_some_and(now))
}

fn addresses(gateway: &GatewayStatus) -> String {
    words::list(&gateway.addresses)
}

/// Why this gateway cannot serve, and what mends that.
fn own_reason(gateway: &GatewayStatus, outside: &OutsideFacts) -> (String, String) {
    let name = &outside.name;
    match &outside.device {
        None => {
            let mend = "`ip link` lists the devices that there are; correct `interface` of `[gateway]`, on every node";
            return (format!("there is no device {name}"), mend.to_owned());
        }
        Some(device) if !device.up => {
            let mend = format!("`ip link set {name} up`");
            return (format!("{name} is switched off"), mend);
        }
        Some(device) if !device.carrier => {
            let mend = format!("the cable of {name}, and the switch port that it is in");
            return (format!("{name} has no carrier"), mend);
        }
        Some(_) => {}
    }
    let why = gateway.trouble.clone();
    let why = why.unwrap_or_else(|| "its daemon says so, and not why: see its log".to_owned());
    let mend = if why.contains("another host") {
        let at = addresses(gateway);
        format!(
            "find that machine by its Ethernet address, and take {at} off it; `arping -I {name} ADDRESS` shows who answers"
        )
    } else if why.contains("not permitted") || why.contains("denied") {
        "start the daemon as root, or give it CAP_NET_ADMIN and CAP_NET_RAW, as the unit of tabane does".to_owned()
    } else {
        "what the log of the daemon says: `journalctl -u tabane -e`; docs/gateway.md has the words"
            .to_owned()
    };
    (why, mend)
}

/// Adds what is known of the other gateways that do not serve.
fn others(watched: &Watched, gateway: &GatewayStatus, mut finding: Finding) -> Finding {
    let last = &watched.last;
    for standby in gateway
        .standby
        .iter()
        .filter(|it| it.node != last.node.name)
    {
        let name = &standby.node;
        let is_there = is_connected(last, name);
        finding = match (is_there, standby.ready) {
            (false, _) => finding
                .seen(format!("{name} is a gateway, and not connected"))
                .mend(format!("start tabane on {name}, or mend the links to it")),
            (true, false) => finding
                .seen(format!("{name} says that it could not serve"))
                .mend(format!("`tabane doctor` on {name} says why")),
            (true, true) => finding.seen(format!("{name} could serve")),
        };
    }
    finding
}

fn no_gateway(facts: &Facts, watched: &Watched, gateway: &GatewayStatus) -> Finding {
    let mut finding = Finding::new(
        Cause::NoGateway,
        Severity::Unreachable,
        format!(
            "No gateway serves the outside addresses, {}",
            addresses(gateway)
        ),
    )
    .costs(
        0.9,
        "programs of all nodes reach nobody outside, and nobody there them",
    );
    if gateway.ready == Some(false)
        && let Some(outside) = &facts.outside
    {
        let (why, mend) = own_reason(gateway, outside);
        finding = finding
            .seen(format!("this node is a gateway: {why}"))
            .mend(mend);
    }
    let missing = &gateway.voters_missing;
    if gateway.ready == Some(true) && !missing.is_empty() {
        let (names, all) = (words::nodes(missing), gateway.voters.len());
        finding = finding
            .seen(format!("of {all} nodes that vote, {names} did not vote for this one"))
            .mend(format!("have more than half of the nodes that vote run and reach each other: start {names}, or mend the links to them"));
    }
    if let Some(last) = gateway.serving.as_ref() {
        finding = finding
            .seen(format!("{last} served last, and is not connected"))
            .mend(format!("start tabane on {last}, or mend the links to it"));
    }
    others(watched, gateway, finding)
}

/// This node could not serve, all the time.
fn not_ready(facts: &Facts, watched: &Watched, gateway: &GatewayStatus) -> Option<Finding> {
    let outside = facts.outside.as_ref()?;
    if readings(watched).any(|it| it.ready != Some(false)) {
        return None;
    }
    let (why, mend) = own_reason(gateway, outside);
    Some(
        Finding::new(
            Cause::GatewayNotReady,
            Severity::Degraded,
            "This node is a gateway, and could not serve if the other one failed",
        )
        .seen(why)
        .costs(0.2, "with the gateway that serves the outside addresses would be lost, if no other one is ready")
        .mend(mend),
    )
}

/// None of the others could, all the time.
fn no_standby(watched: &Watched, gateway: &GatewayStatus) -> Option<Finding> {
    let some_ready = |it: &GatewayStatus| it.standby.iter().any(|standby| standby.ready);
    if gateway.standby.is_empty() || readings(watched).any(some_ready) {
        return None;
    }
    let serving = gateway.serving.as_deref().unwrap_or("the gateway");
    let finding = Finding::new(
        Cause::NoStandby,
        Severity::Degraded,
        format!("No gateway stands by for {serving}"),
    )
    .costs(
        0.2,
        format!("if {serving} fails, programs reach nobody outside"),
    );
    Some(others(watched, gateway, finding))
}

/// Another host has the addresses, too.
fn conflict(gateway: &GatewayStatus) -> Option<Finding> {
    let trouble = gateway.trouble.as_ref()?;
    Some(
        Finding::new(
            Cause::AddressConflict,
            Severity::Unreachable,
            "Another host outside has an address of the cluster's",
        )
        .seen(trouble)
        .costs(
            0.8,
            "what is sent to it from outside arrives there or here, as it happens",
        )
        .mend("find that machine by its Ethernet address, and take the address off it"),
    )
}

fn address_missing(facts: &Facts, gateway: &GatewayStatus) -> Option<Finding> {
    let outside = facts.outside.as_ref()?;
    let device = outside.device.as_ref()?;
    let has = |address| device.addresses.iter().any(|own| own.ip == address);
    let missing = gateway.addresses.iter().filter(|address| !has(**address));
    let missing: Vec<_> = missing.collect();
    if missing.is_empty() {
        return None;
    }
    let (name, list) = (&outside.name, words::list(&missing));
    Some(
        Finding::new(
            Cause::OutsideAddressMissing,
            Severity::Degraded,
            format!("This node serves the outside addresses, and {name} has not {list}"),
        )
        .seen(format!(
            "`ip address show dev {name}` does not list {list}; somebody has taken it off"
        ))
        .costs(
            0.3,
            "programs get no ports there, and this host's own ones are not reached",
        )
        .mend(
            "`tabane gateway move`, and move it back: who begins to serve puts the addresses there",
        )
        .mend(format!(
            "tell what manages {name} (NetworkManager, networkd) to leave it alone"
        )),
    )
}

fn silent_routers(gateway: &GatewayStatus) -> Option<Finding> {
    let silent = gateway
        .routers
        .iter()
        .filter(|it| it.answers == Some(false));
    let silent: Vec<_> = silent.map(|router| router.address).collect();
    if silent.is_empty() {
        return None;
    }
    let (list, name) = (
        words::list(&silent),
        gateway.interface.as_deref().unwrap_or("?"),
    );
    Some(
        Finding::new(
            Cause::RouterSilent,
            Severity::Unreachable,
            format!("The router outside does not answer: {list}"),
        )
        .seen(format!(
            "nobody on the network of {name} says that it has {list} (ARP, neighbour discovery)"
        ))
        .costs(
            0.7,
            "programs reach only the network outside, nothing behind the router",
        )
        .mend("correct `routers` of `[gateway]` on every node, and `tabane reload`")
        .mend(format!(
            "the router itself, the cable of {name}, and the VLAN of its switch port"
        )),
    )
}

fn slow(facts: &Facts, gateway: &GatewayStatus) -> Option<Finding> {
    let outside = facts.outside.as_ref()?;
    let (speed, rate) = (u64::from(outside.speed_mbps?), gateway.rate_mbps?);
    if speed >= rate {
        return None;
    }
    let name = &outside.name;
    Some(
        Finding::new(
            Cause::OutsideSlow,
            Severity::Slow,
            format!("{name} is slower than the `rate` of `[gateway]`"),
        )
        .seen(format!(
            "{name} runs at {speed} Mb/s, and the file says {rate} Mb/s"
        ))
        .costs(
            0.1,
            "the gateway sends faster than the line, so packets wait behind their turns",
        )
        .mend(format!(
            "`ethtool {name}`: the negotiated speed, the cable, the port"
        ))
        .mend("or leave `rate` out of the cluster file, on every node, and `tabane reload`"),
    )
}

/// Much waits in the device's own queue, most of the time.
fn queue(watched: &Watched, gateway: &GatewayStatus) -> Option<Finding> {
    let name = gateway.interface.as_ref()?;
    let most = gateway
        .rate_mbps
        .map_or(QUEUE_BYTES, |mbps| (mbps * 125 * QUEUE_MS).max(256_000));
    let queued: Vec<u64> = readings(watched)
        .filter_map(|it| it.qdisc_queued_bytes)
        .collect();
    let much = queued.iter().filter(|bytes| **bytes > most).count();
    if much == 0 || 2 * much < queued.len() {
        return None;
    }
    let largest = queued.iter().max().copied().unwrap_or_default();
    let qdisc = gateway.qdisc.as_deref().unwrap_or("?");
    let mend = match &*gateway.queue {
        "kernel" => "`queue = \"fair\"` in `[gateway]` on every node, and `tabane reload`: then little waits there".to_owned(),
        _ => format!("something else sends by {name}: `tc -s qdisc show dev {name}` counts it; `tc qdisc replace dev {name} root fq_codel` keeps it short"),
    };
    Some(
        Finding::new(
            Cause::OutsideQueue,
            Severity::Slow,
            format!("Much waits in the queue of {name} itself"),
        )
        .seen(format!(
            "its {qdisc} held up to {largest} bytes, and more than {most} at {much} of {} looks",
            queued.len()
        ))
        .costs(
            0.2,
            "new connections to the outside wait behind what stands there",
        )
        .mend(mend),
    )
}

/// Nodes have as many ports or connections as they may.
/// Strangers begin connections that they do not confirm, while it is looked.
fn flood(watched: &Watched, gateway: &GatewayStatus) -> Option<Finding> {
    let first = watched.first.node.gateway.as_ref()?;
    let dropped = |it: &GatewayStatus| it.dropped.get(GREYLISTED).copied().unwrap_or_default();
    let grown = since(dropped(first), dropped(gateway));
    let finding = Finding::new(
        Cause::OutsideFlood,
        Severity::Degraded,
        "Hosts outside begin more connections than they confirm: a SYN flood, most likely",
    )
    .costs(
        0.3,
        "hosts that have not been there in the last minutes connect a second later; the others notice nothing",
    )
    .seen(format!("{} dropped while it was watched", words::counted(grown, "first SYN")))
    .mend(format!(
        "`tcpdump -ni {} 'tcp[tcpflags] == tcp-syn'` shows which port they want, and where from",
        gateway.interface.as_deref().unwrap_or("DEVICE")
    ))
    .mend("a filter in front of the gateway, at the router or the provider");
    (grown > 0).then_some(finding)
}

fn full(watched: &Watched, gateway: &GatewayStatus) -> Option<Finding> {
    let first = watched.first.node.gateway.as_ref()?;
    let dropped =
        |it: &GatewayStatus| -> u64 { FULL.iter().filter_map(|why| it.dropped.get(*why)).sum() };
    let all = [gateway.ports_refused, dropped(gateway)];
    let grown = [
        since(first.ports_refused, all[0]),
        since(dropped(first), all[1]),
    ];
    if all == [0, 0] {
        return None;
    }
    let is_now = grown != [0, 0];
    let severity = if is_now {
        Severity::Degraded
    } else {
        Severity::Note
    };
    let mut finding = Finding::new(
        Cause::OutsideFull,
        severity,
        "A node has as many ports or connections outside as it may, and more were refused",
    )
    .costs(if is_now { 0.3 } else { 0.0 }, "programs of that node get no more; others do")
    .mend("`tabane status --json` on the gateway names the nodes and programs that have them")
    .mend("`ports_per_node` or `connections_per_node` of `[gateway]` on every node, and `tabane reload`");
    let things = ["port", "packet"];
    for ((thing, all), grown) in things
        .into_iter()
        .zip(all)
        .zip(grown)
        .filter(|((_, all), _)| *all > 0)
    {
        let (all, grown) = (words::counted(all, thing), words::counted(grown, thing));
        finding = finding.seen(format!(
            "{all} refused since the daemon started, {grown} of them while it was watched"
        ));
    }
    Some(finding)
}
