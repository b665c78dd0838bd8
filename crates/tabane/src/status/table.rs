//! The status report for people.

use std::fmt::Write;

use tabane_cluster::Wire;

use super::finding::FindingStatus;
use super::gateway::GatewayStatus;
use super::mptcp::UnsteeredStatus;
use super::refused::RefusedStatus;
use super::report::{
    FlowStatus, LinkStatus, NodeStatus, PathState, PathStatus, PeerState, PeerStatus,
    RelayedStatus, StatusReport,
};

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    /// Plain text.
    Off,
    /// ANSI sequences, for a terminal.
    On,
}

impl Colours {
    /// On for a terminal that is not dumb, unless `NO_COLOR` is set and not
    /// empty (<https://no-color.org>).
    pub fn wanted(is_terminal: bool) -> Self {
        let var = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let is_dumb = var("TERM").is_none_or(|term| term == "dumb");
        if is_terminal && !is_dumb && var("NO_COLOR").is_none() {
            Self::On
        } else {
            Self::Off
        }
    }
}

/// How a state should look.
#[derive(Clone, Copy)]
enum Mood {
    Good,
    Uncertain,
    Bad,
}

/// How much is said of each path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A row.
    Row,
    /// Also what it leads over, and what it carries at most.
    Whole,
}

/// The report as a table. At most 80 columns wide as long as names are short
/// and addresses are IPv4.
pub fn render(report: &StatusReport, detail: Detail, colours: Colours) -> String {
    let mut out = String::new();
    head(report, &mut out);
    if report.peers.is_empty() {
        return out;
    }
    let links = match detail {
        Detail::Row => None,
        Detail::Whole => Some(report.node.links.as_slice()),
    };
    let label_width = label_width(report);
    let titles = [
        "STATE", "SINCE", "RTT", "OUT b/s", "IN b/s", "LOSS", "RESENT",
    ];
    row(
        &mut out,
        ("PEER, LINK", label_width),
        titles.map(str::to_owned),
        None,
    );
    for peer in &report.peers {
        peer_rows(peer, links, label_width, colours, &mut out);
    }
    if !report.refused.is_empty() {
        out.push('\n');
    }
    for refused in &report.refused {
        refused_lines(refused, &mut out);
    }
    out
}

fn refused_lines(refused: &RefusedStatus, out: &mut String) {
    let peer = refused.peer.as_deref();
    let peer = peer.map_or_else(String::new, |name| format!(" ({})", clean(name)));
    let text = format!(
        "refused: {}{peer} on link {}, {}x, last {} ago",
        refused.address.ip(),
        refused.link,
        refused.count,
        duration(refused.last_s)
    );
    line(out, &text);
    why_line(Some(&refused.text), "  ", out);
}

fn head(report: &StatusReport, out: &mut String) {
    let node = &report.node;
    let wire = match node.wire {
        Wire::Encrypted => "encrypted",
        Wire::Plain => "plain, not encrypted",
    };
    line(
        out,
        &format!(
            "{}: tabane {}, up {}, wire {wire}",
            clean(&node.name),
            clean(&node.version),
            duration(node.uptime_s)
        ),
    );
    if let Some(vnic) = &node.vnic {
        let trouble = vnic.trouble.as_ref();
        let trouble = trouble.map_or_else(String::new, |text| format!("; {}", clean(text)));
        line(
            out,
            &format!(
                "{}: {}, MTU {}, {}{trouble}",
                clean(&vnic.name),
                clean(&vnic.address),
                vnic.mtu_bytes,
                clean(&vnic.backend)
            ),
        );
    }
    if !node.links.is_empty() {
        let links: Vec<String> = node.links.iter().map(own_link).collect();
        line(out, &format!("links: {}", links.join(", ")));
    }
    if let Some(summary) = node.run.summary() {
        line(out, &format!("tabane run: {summary}"));
    }
    for text in super::unread::lines(&node.run.unread) {
        line(out, &text);
    }
    if let Some(mptcp) = &node.mptcp {
        line(out, &format!("Multipath TCP: {}", mptcp.summary()));
        for unsteered in &mptcp.unsteered {
            line(out, &unsteered_line(node, unsteered));
            line(out, &format!("    ({})", clean(&unsteered.why)));
        }
    }
    if let Some(why) = &node.mptcp_trouble {
        line(
            out,
            &format!("Multipath TCP is not steered: {}", clean(why)),
        );
    }
    if let Some(gateway) = &node.gateway {
        gateway_lines(out, gateway);
    }
    let flows = node.flows.iter();
    flows.for_each(|flow| flow_lines(flow, &report.peers, out));
    let findings = node.findings.iter();
    findings.for_each(|finding| finding_lines(finding, out));
    if let Some(most) = node.bundles_max {
        let direct = node.bundles_direct;
        let text = format!(
            "bundles over links: {direct}, at most {most}; others are reached through nodes"
        );
        line(out, &text);
    }
    counted_lines(node, out);
    if !report.peers.is_empty() {
        out.push('\n');
    }
}

/// What was counted lately that should not be there.
fn counted_lines(node: &NodeStatus, out: &mut String) {
    for (limit, count) in &node.limits_hit_lately {
        line(out, &format!("limit hit: {} {count}", clean(limit)));
    }
    for (reason, count) in &node.dropped_lately {
        line(
            out,
            &format!("datagrams dropped: {} {count}", clean(reason)),
        );
    }
}

/// How some traffic is carried, and whether it is as the cluster file says.
fn flow_lines(flow: &FlowStatus, peers: &[PeerStatus], out: &mut String) {
    let (which, how) = (clean(&flow.which), clean(&flow.how));
    line(
        out,
        &format!("flow {which}: {how}; {}B sent", metric(flow.bytes as f64)),
    );
    let counts = [
        (flow.connections, "connection", "of `tabane run`"),
        (flow.packets_dropped, "packet", "dropped by its rate"),
    ];
    for (count, thing, which) in counts.into_iter().filter(|(count, ..)| *count > 0) {
        line(out, &format!("    ({} {which})", counted(count, thing)));
    }
    let Some(link) = flow.link else {
        return;
    };
    let misses = |peer: &&PeerStatus| {
        let works = |path: &PathStatus| path.link == link && path.state == PathState::Up;
        peer.state == PeerState::Up && !peer.paths.iter().any(works)
    };
    for peer in peers.iter().filter(misses) {
        let peer = clean(&peer.name);
        line(
            out,
            &format!("    (link {link} to {peer} does not work: the others carry it)"),
        );
    }
}

/// One of this node's own links: `0 eth0`, `1 eth1 (off)`.
fn own_link(link: &LinkStatus) -> String {
    let number = link.link;
    match (&link.device, link.up) {
        (Some(device), true) => format!("{number} {}", clean(device)),
        (Some(device), false) => format!("{number} {} (off)", clean(device)),
        (None, _) => format!("{number} (no device has {})", link.address.ip()),
    }
}

/// What is wrong, and what to do: its code is what `tabane doctor`'s document explains.
fn finding_lines(finding: &FindingStatus, out: &mut String) {
    let (code, what) = (clean(&finding.code), clean(&finding.what));
    line(out, &format!("found: {what} [{code}]"));
    if let Some(mend) = &finding.mend {
        line(out, &format!("    ({})", clean(mend)));
    }
}

fn unsteered_line(node: &NodeStatus, unsteered: &UnsteeredStatus) -> String {
    let local = unsteered.local;
    let link = node.links.iter().find(|link| link.address.ip() == local);
    let from = link.map_or_else(|| local.to_string(), |link| format!("link {}", link.link));
    format!("  {from} to {} is not steered", clean(&unsteered.to_whom()))
}

/// Width of the first column.
fn label_width(report: &StatusReport) -> usize {
    let peers = report.peers.iter().map(|p| clean(&p.name).chars().count());
    let paths = report
        .peers
        .iter()
        .flat_map(|p| &p.paths)
        .map(|p| path_label(p).len());
    let relayed = (report.peers.iter()).flat_map(|p| &p.relayed);
    let relayed = relayed.map(|path| relayed_label(path).chars().count());
    peers
        .chain(paths)
        .chain(relayed)
        .max()
        .unwrap_or(0)
        .max("PEER, LINK".len())
}

fn path_label(path: &PathStatus) -> String {
    format!("  {} {}", path.link, path.remote.ip())
}

fn relayed_label(path: &RelayedStatus) -> String {
    format!("  via {}", clean(&path.via.join(", ")))
}

/// `links` are this node's, if what each path leads over is to be said.
fn peer_rows(
    peer: &PeerStatus,
    links: Option<&[LinkStatus]>,
    label_width: usize,
    colours: Colours,
    out: &mut String,
) {
    let (state, mood) = match peer.state {
        PeerState::Connecting => ("connecting", Mood::Uncertain),
        PeerState::Up => ("up", Mood::Good),
        PeerState::Down => ("down", Mood::Bad),
        PeerState::OnDemand => ("on demand", Mood::Good),
    };
    let mut cells: [String; 7] = Default::default();
    cells[0] = state.to_owned();
    cells[1] = duration(peer.since_s);
    let painted = Some((colours, mood));
    row(out, (&clean(&peer.name), label_width), cells, painted);
    why_line(peer.why.as_deref(), "  ", out);
    redundancy_line(peer, colours, out);
    if let Some(public) = &peer.public {
        line(out, &format!("  has shown its key: {}", clean(public)));
    }
    for path in &peer.paths {
        path_row(path, label_width, colours, out);
        if let Some(links) = links {
            line(out, &path_details(path, links));
        }
        why_line(path.why.as_deref(), "    ", out);
    }
    for path in &peer.relayed {
        relayed_row(path, label_width, colours, out);
    }
}

fn relayed_row(path: &RelayedStatus, label_width: usize, colours: Colours, out: &mut String) {
    let (state, mood) = path_state(path.state);
    let mut cells: [String; 7] = Default::default();
    cells[0] = state.to_owned();
    cells[1] = duration(path.since_s);
    cells[2] = round_trip_if_known(path.rtt_us);
    let label = relayed_label(path);
    row(out, (&label, label_width), cells, Some((colours, mood)));
}

fn path_state(state: PathState) -> (&'static str, Mood) {
    match state {
        PathState::Connecting => ("connecting", Mood::Uncertain),
        PathState::Up => ("up", Mood::Good),
        PathState::Suspect => ("suspect", Mood::Uncertain),
        PathState::Down => ("down", Mood::Bad),
    }
}

fn path_row(path: &PathStatus, label_width: usize, colours: Colours, out: &mut String) {
    let (state, mood) = path_state(path.state);
    let unknown = || "-".to_owned();
    let cells = [
        state.to_owned(),
        duration(path.since_s),
        path.rtt_us.map_or_else(unknown, round_trip),
        metric(path.tx_rate_mbps * 1e6),
        metric(path.rx_rate_mbps * 1e6),
        path.loss_percent
            .map_or_else(unknown, |loss| format!("{loss:.1}%")),
        metric(path.resent_bytes as f64) + "B",
    ];
    let painted = Some((colours, mood));
    row(out, (&path_label(path), label_width), cells, painted);
}

/// This node's device, the largest payload of UDP that passes, and what the path carries at most, if that is proven.
fn path_details(path: &PathStatus, links: &[LinkStatus]) -> String {
    let link = links.iter().find(|link| link.link == path.link);
    let device = link.and_then(|link| link.device.as_deref());
    let mut text = format!(
        "    {} {}, MTU {}",
        device.map_or_else(|| "no device".to_owned(), clean),
        path.local,
        path.mtu_bytes
    );
    if let (Some(mbps), true) = (path.capacity_mbps, path.capacity_proven) {
        text += &format!(", carries {}b/s at most", metric(mbps * 1e6));
    }
    if let Some(mbps) = path.granted_mbps {
        text += &format!(", the peer grants {}b/s", metric(mbps * 1e6));
    }
    text
}

fn why_line(why: Option<&str>, indent: &str, out: &mut String) {
    if let Some(why) = why {
        line(out, &format!("{indent}({})", clean(why)));
    }
}

fn redundancy_line(peer: &PeerStatus, colours: Colours, out: &mut String) {
    if peer.redundancy_lost && peer.state == PeerState::Up {
        let lost = paint("redundancy lost", colours, Mood::Bad);
        let (up, all) = (peer.paths_up, peer.paths_configured);
        line(out, &format!("  {lost}: {up} of {all} links works"));
    }
}

fn paint(text: &str, colours: Colours, mood: Mood) -> String {
    let colour = match mood {
        Mood::Good => 32,
        Mood::Uncertain => 33,
        Mood::Bad => 31,
    };
    match colours {
        Colours::On => format!("\x1b[{colour}m{text}\x1b[0m"),
        Colours::Off => text.to_owned(),
    }
}

/// Widths of the columns behind the first; all but the state are right-aligned.
const WIDTHS: [usize; 7] = [10, 6, 6, 7, 6, 6, 6];

fn row(
    out: &mut String,
    (label, label_width): (&str, usize),
    cells: [String; 7],
    painted: Option<(Colours, Mood)>,
) {
    let mut text = format!("{label:label_width$}");
    let [state, others @ ..] = cells;
    let padding = " ".repeat(WIDTHS[0].saturating_sub(state.len()));
    let state = match painted {
        Some((colours, mood)) => paint(&state, colours, mood),
        None => state,
    };
    // Writing to a String cannot fail.
    let _ = write!(text, "  {state}{padding}");
    for (cell, width) in others.iter().zip(&WIDTHS[1..]) {
        let _ = write!(text, "  {cell:>width$}");
    }
    line(out, &text);
}

fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

/// Text from the daemon as it may go to a terminal.
pub(crate) fn clean(text: &str) -> String {
    let is_safe = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(is_safe).collect()
}

/// At most six characters: `59s`, `3m12s`, `23h59m`, `999d`.
pub(crate) fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86400 => format!("{hours}h{:02}m", minutes % 60),
        86400..8_640_000 => format!("{days}d{:02}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// `850us`, `1.2ms`, `120ms`, `2.1s`.
pub(crate) fn round_trip(us: u32) -> String {
    let ms = f64::from(us) / 1e3;
    match us {
        0..1000 => format!("{us}us"),
        1000..100_000 => format!("{ms:.1}ms"),
        100_000..1_000_000 => format!("{ms:.0}ms"),
        _ => format!("{:.1}s", ms / 1e3),
    }
}

/// The same, or `-`.
pub(crate) fn round_trip_if_known(us: Option<u32>) -> String {
    us.map_or_else(|| "-".to_owned(), round_trip)
}

/// Three digits and a decimal prefix: `0`, `950`, `9.5k`, `941M`, `1.88G`.
pub(crate) fn metric(value: f64) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    if !value.is_finite() || value < 0.5 {
        return "0".to_owned();
    }
    let mut scaled = value;
    let mut prefix = 0;
    // 999.5 would be shown as 1000.
    while scaled >= 999.5 && prefix + 1 < PREFIXES.len() {
        scaled /= 1000.0;
        prefix += 1;
    }
    let digits = match scaled {
        _ if prefix == 0 => 0,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.digits$}{}", PREFIXES[prefix])
}

/// The device outside, and what waits there.
fn outside_words(device: &str, gateway: &GatewayStatus) -> String {
    let rate = gateway
        .rate_mbps
        .map_or_else(String::new, |mbps| format!(", {mbps} Mb/s"));
    let waits = match &*gateway.queue {
        "fair" => "what waits takes turns",
        _ => "what waits does so in the kernel",
    };
    let queue = gateway
        .queue_us
        .map_or_else(String::new, |us| format!(" for {us} us"));
    let qdisc = gateway
        .qdisc
        .as_ref()
        .map_or_else(String::new, |kind| format!(", qdisc {}", clean(kind)));
    format!("{}{rate}, {waits}{queue}{qdisc}", clean(device))
}

/// `3 ports`, `1 port`.
pub fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// The cluster's outside address: who serves, and who could.
fn gateway_lines(out: &mut String, gateway: &GatewayStatus) {
    let addresses: Vec<_> = gateway.addresses.iter().map(ToString::to_string).collect();
    let at = addresses.join(", ");
    let text = match &gateway.serving {
        Some(node) => format!(
            "gateway: {} serves {at} for {}, {}, {}",
            clean(node),
            duration(gateway.since_s),
            counted(gateway.connections as u64, "conversation"),
            counted(gateway.ports.len() as u64, "port")
        ),
        None => format!("gateway: nobody serves {at}"),
    };
    line(out, &text);
    if let Some(device) = &gateway.interface {
        line(out, &format!("  {}", outside_words(device, gateway)));
    }
    if let Some(trouble) = &gateway.trouble {
        line(out, &format!("  {}", clean(trouble)));
    }
    for router in gateway
        .routers
        .iter()
        .filter(|it| it.answers == Some(false))
    {
        line(out, &format!("  router {} does not answer", router.address));
    }
    if !gateway.voters_missing.is_empty() {
        let missing = clean(&gateway.voters_missing.join(", "));
        let all = gateway.voters.len();
        line(
            out,
            &format!("  of {all} votes those of {missing} are missing"),
        );
    }
    for standby in &gateway.standby {
        let how = if standby.ready { "ready" } else { "not ready" };
        line(out, &format!("  {} stands by, {how}", clean(&standby.node)));
    }
    if gateway.ports_refused > 0 {
        let count = gateway.ports_refused;
        line(
            out,
            &format!("  ports refused to nodes that have as many as they may: {count}"),
        );
    }
    for (reason, count) in &gateway.dropped {
        line(
            out,
            &format!("  packets dropped: {} {count}", clean(reason)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let durations = [(0, "0s"), (59, "59s"), (192, "3m12s"), (3599, "59m59s")];
        let long = [
            (11520, "3h12m"),
            (86399, "23h59m"),
            (90000, "1d01h"),
            (8_640_000, "100d"),
        ];
        for (seconds, expected) in durations.into_iter().chain(long) {
            assert_eq!(duration(seconds), expected);
        }
        let trips = [
            (0, "0us"),
            (999, "999us"),
            (1250, "1.2ms"),
            (250_000, "250ms"),
        ];
        for (us, expected) in trips.into_iter().chain([(2_100_000, "2.1s")]) {
            assert_eq!(round_trip(us), expected);
        }
        let metrics = [
            (0.0, "0"),
            (f64::NAN, "0"),
            (-3.0, "0"),
            (950.0, "950"),
            (999.6, "1.00k"),
            (9_500.0, "9.50k"),
            (12_345.0, "12.3k"),
            (941e6, "941M"),
            (1.88e9, "1.88G"),
            (99.96e9, "100G"),
        ];
        for (value, expected) in metrics {
            assert_eq!(metric(value), expected);
        }
    }

    #[test]
    fn nothing_of_the_daemon_controls_the_terminal() {
        assert_eq!(clean("a\x1b[31mb\nc\u{9b}"), "a?[31mb?c?");
    }
}
