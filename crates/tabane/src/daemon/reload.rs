//! Rereading the cluster file while the node runs: everything in it is applied, or, if any of it cannot be, nothing.
//! Flows between nodes that stay do not break.

use std::net::IpAddr;

use tabane_cluster::{Cluster, NodeIndex, NodeSpec, Problem, Severity, VNIC_NAME, Wire};
use tabane_engine::LoopTurn;
use tabane_io::clock::monotonic_us;
use tabane_io::systemd::State;
use tabane_proto::crypto::public_key;
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::{LinkId, PeerId};

use super::configured::{link_specs, peer_config, peers_with_nic, relay_config};
use super::outside::{gateway_differences, gateway_words};
use super::run::Daemon;
use crate::here::own_addresses;
use crate::log;
use crate::metrics::MetricsServer;
use crate::status::ReloadReport;

impl Daemon {
    /// Rereads the cluster file and applies it; with `check`, only says what would change. Logs it, too.
    pub(super) fn reload(&mut self, turn: &mut LoopTurn<'_>, check: bool) -> ReloadReport {
        if check {
            return match self.plan() {
                Ok(plan) => plan.report(),
                Err(problems) => refusal(&problems),
            };
        }
        let monotonic_us = monotonic_us();
        self.manager.tell(State::Reloading { monotonic_us });
        let possible = self.plan().and_then(|plan| {
            let metrics = self.open_metrics(&plan)?;
            Ok((plan, metrics))
        });
        let report = match possible {
            Ok((plan, metrics)) => {
                let report = plan.report();
                log::line(summary(&report));
                report.problems.iter().for_each(log::warn);
                if let Some(metrics) = metrics {
                    self.metrics = metrics;
                }
                let why = "the cluster file was read anew; measure again";
                self.surveys.abandon(turn.now, why);
                self.apply(plan, turn);
                // The operator has corrected something, perhaps for absent peers.
                turn.node.call_absent(turn.now);
                report
            }
            Err(problems) => {
                let report = refusal(&problems);
                report.problems.iter().for_each(log::warn);
                log::warn("the cluster file is refused; everything stays as it was");
                report
            }
        };
        self.manager.tell(State::Ready);
        report
    }

    /// The changes that the file asks for, if they are possible.
    fn plan(&self) -> Result<Plan, Vec<Problem>> {
        let (mut new, mut problems) =
            Cluster::load(&self.cluster.file).map_err(|error| error.problems)?;
        let old = &self.cluster;
        let name = &old.nodes[self.me].name;
        self.add_joined_to(&mut new);
        let Some(me) = new.nodes.iter().position(|node| node.name == *name) else {
            let what = format!("this node, \"{name}\", is no longer in it");
            let right = "stop its daemon instead; one that is to have another name is restarted";
            problems.push(error(&new, None, what, right));
            return Err(problems);
        };
        problems.extend(unchangeable(old, self.me, &new, me));
        if problems.iter().all(|p| p.severity != Severity::Error)
            && let Err([what, right]) = self.may_vote(&new)
        {
            problems.push(error(&new, None, what, &right));
        }
        problems.extend(new.read_node_key(me, public_key).err());
        match own_addresses() {
            Ok(mut own) => {
                let name = self.nic.as_ref().map_or(VNIC_NAME, |nic| nic.name());
                own.retain(|address| address.interface != name);
                problems.extend(tabane_cluster::check_here(&new, me, &own));
            }
            Err(failed) => {
                let what = format!("the addresses of this machine cannot be listed: {failed}");
                problems.push(error(&new, None, what, "try again"));
            }
        }
        if problems.iter().any(|p| p.severity == Severity::Error) {
            return Err(problems);
        }
        let changes = changes(old, self.me, &new, me);
        Ok(Plan {
            new,
            me,
            changes,
            warnings: problems,
        })
    }

    /// The metrics at their new address, if they have one: the only thing that can
    /// be known to work by doing it alone.
    fn open_metrics(&mut self, plan: &Plan) -> Result<Option<Option<MetricsServer>>, Vec<Problem>> {
        let (wanted, now) = (
            plan.new.metrics_of(plan.me),
            self.cluster.metrics_of(self.me),
        );
        if wanted == now {
            return Ok(None);
        }
        // A port can be bound only once, whatever the addresses.
        if wanted.map(|address| address.port()) == now.map(|address| address.port()) {
            self.metrics = None;
        }
        let own_name = &self.cluster.nodes[self.me].name;
        let serve = |address| super::metrics::serve_metrics(address, own_name);
        let opened = wanted.map(serve).transpose();
        let right = "take another address or port for `metrics`";
        let failed = |what| vec![error(&plan.new, None, what, right)];
        opened.map(Some).map_err(failed)
    }

    /// Does what was found to be possible.
    fn apply(&mut self, plan: Plan, turn: &mut LoopTurn<'_>) {
        let (new, me) = (plan.new, plan.me);
        if new.keys() != self.cluster.keys()
            && let Err(error) = turn.node.set_keys(turn.now, new.keys())
        {
            log::line(error);
        }
        let private = new.node_key.as_ref().map(|key| *key.bytes());
        let public = new.nodes[me].public.map(|key| key.0);
        if let Err(error) = turn.node.set_identity(turn.now, private, public) {
            log::line(error);
        }
        self.adopt_named(turn, &new);
        let index_of = |name: &str| new.nodes.iter().position(|node| node.name == name);
        let mut peers = Vec::new();
        for (peer, before) in core::mem::take(&mut self.peers) {
            let before = &self.cluster.nodes[before];
            match index_of(&before.name) {
                Some(index) => {
                    move_peer(turn, peer, before, &new.nodes[index], new.port);
                    let public = new.nodes[index].public.map(|key| key.0);
                    turn.node.set_peer_public(turn.now, peer, public);
                    peers.push((peer, index));
                }
                None => turn.node.remove_peer(turn.now, peer),
            }
        }
        let before = link_specs(&self.cluster.nodes[self.me]);
        let links = link_specs(&new.nodes[me]);
        if links != before {
            turn.set_links(&links).iter().for_each(log::line);
        }
        for (index, node) in new.nodes.iter().enumerate() {
            let is_known = peers.iter().any(|(_, known)| *known == index);
            if index == me || is_known {
                continue;
            }
            match turn.node.add_peer(turn.now, peer_config(node, new.port)) {
                Ok(peer) => {
                    self.rates.forget(peer);
                    self.redundancy.forget(peer);
                    self.peer_lines.forget(peer);
                    peers.push((peer, index));
                }
                Err(error) => log::line(error),
            }
        }
        peers.sort_by_key(|(_, index)| *index);
        let is_for_all = self.is_for_all();
        if new.run_users != self.cluster.run_users
            && let Some(agent) = &mut self.agent
        {
            agent.set_access(super::run::access(&new, is_for_all));
        }
        self.tell_nic(&new, me, &peers);
        self.flow_rules.borrow_mut().set(&new.flows);
        turn.node.set_relay(turn.now, relay_config(new.mesh));
        if new.join != self.cluster.join {
            turn.node
                .set_seeds(turn.now, &super::members::seeds(&new, me));
        }
        (self.cluster, self.me, self.peers) = (new, me, peers);
        self.set_outside_peers();
        self.change_outside();
        self.set_helm(turn);
        self.naming.changed();
    }

    /// Tells the virtual NIC of its peers and its size.
    fn tell_nic(&mut self, new: &Cluster, me: NodeIndex, peers: &[(PeerId, NodeIndex)]) {
        let (Some(nic), Some((own, _))) = (&mut self.nic, new.nodes[me].vnic) else {
            return;
        };
        nic.set_peers(own, &peers_with_nic(new, peers));
        let mtu_bytes = new.vnic.mtu_bytes;
        if mtu_bytes != self.cluster.vnic.mtu_bytes
            && let Err(error) = nic.set_mtu(mtu_bytes)
        {
            log::line(format!(
                "{}: cannot set its MTU to {mtu_bytes}: {error}",
                nic.name()
            ));
        }
    }
}

/// A cluster file that can be used.
struct Plan {
    new: Cluster,
    me: NodeIndex,
    changes: Vec<String>,
    warnings: Vec<Problem>,
}

impl Plan {
    fn report(&self) -> ReloadReport {
        ReloadReport {
            accepted: true,
            changes: self.changes.clone(),
            problems: self.warnings.iter().map(ToString::to_string).collect(),
        }
    }
}

fn refusal(problems: &[Problem]) -> ReloadReport {
    ReloadReport {
        accepted: false,
        changes: Vec::new(),
        problems: problems.iter().map(ToString::to_string).collect(),
    }
}

fn summary(report: &ReloadReport) -> String {
    if report.changes.is_empty() {
        return "cluster file read anew: nothing has changed".to_owned();
    }
    format!("cluster file read anew: {}", report.changes.join("; "))
}

fn error(cluster: &Cluster, line: Option<u32>, what: String, right: &str) -> Problem {
    Problem {
        file: cluster.file.clone(),
        line,
        severity: Severity::Error,
        what,
        right: right.to_owned(),
    }
}

/// Changes that are impossible while a node runs: each an error of its own.
fn unchangeable(old: &Cluster, was: NodeIndex, new: &Cluster, me: NodeIndex) -> Vec<Problem> {
    const RESTART: &str = "restart `tabane up` for that, or put it back";
    let mut problems = Vec::new();
    let mut differs = |line, what| problems.push(error(new, line, what, RESTART));
    if old.wire != new.wire {
        let word = |wire| match wire {
            Wire::Encrypted => "encrypted",
            Wire::Plain => "plain",
        };
        let (old, new) = (word(old.wire), word(new.wire));
        differs(
            None,
            format!("wire is \"{new}\", but the node runs with \"{old}\""),
        );
    }
    if old.port != new.port {
        let (old, new) = (old.port, new.port);
        differs(None, format!("port is {new}, but the node runs with {old}"));
    }
    let admits = |cluster: &Cluster| cluster.join.as_ref().map(|join| join.forget_after);
    if admits(old) != admits(new) {
        differs(None, joining_words(new));
    }
    for what in gateway_differences(old, new) {
        differs(None, what);
    }
    let (before, after) = (&old.nodes[was], &new.nodes[me]);
    if before.vnic != after.vnic {
        let lines = &after.lines;
        let line = if lines.vnic > 0 {
            lines.vnic
        } else {
            lines.node
        };
        let what = format!(
            "this node's vnic is {}, but the node runs with {}",
            vnic(after),
            vnic(before)
        );
        differs(Some(line), what);
    }
    problems
}

fn joining_words(new: &Cluster) -> String {
    match &new.join {
        None => {
            "`[mesh]` has no `join` any more, but nodes may join while the node runs".to_owned()
        }
        Some(join) => format!(
            "nodes may join, and are forgotten after {} s, which is not as the node runs",
            join.forget_after.as_secs()
        ),
    }
}

fn vnic(node: &NodeSpec) -> String {
    let shown = node
        .vnic
        .map(|(address, prefix)| format!("{address}/{prefix}"));
    shown.unwrap_or_else(|| "none".to_owned())
}

/// Changes for programs under `tabane run`, in words.
fn run_words(before: &Cluster, after: &Cluster) -> impl Iterator<Item = String> {
    let (old, new) = (before.run, after.run);
    let plain_tcp = match new.plain_tcp {
        true => "plain TCP may carry connections under `tabane run`",
        false => "plain TCP carries no more connections between nodes under `tabane run`",
    };
    let wait_s = new.all_links_down.as_secs();
    let waits = format!("connections under `tabane run` wait {wait_s} s for a link");
    let plain_tcp = (old.plain_tcp != new.plain_tcp).then(|| plain_tcp.to_owned());
    let waits = (old.all_links_down != new.all_links_down).then_some(waits);
    let users = "other users may begin programs under `tabane run`";
    let users = (before.run_users != after.run_users).then(|| users.to_owned());
    plain_tcp.into_iter().chain(waits).chain(users)
}

/// Changes of what this node does for others, of its bundles, and of where it asks for admission, in words.
fn mesh_words(before: &Cluster, after: &Cluster) -> impl Iterator<Item = String> {
    let (old, new) = (before.mesh, after.mesh);
    let bundles = match new.bundles {
        None => "has bundles over links with every node".to_owned(),
        Some(most) => format!("has at most {most} bundles over links"),
    };
    let bundles = (old.bundles != new.bundles).then_some(bundles);
    let words = match (after.mesh.relay, after.mesh.relay_mbps) {
        (false, _) => "relays nothing for others".to_owned(),
        (true, None) => "relays for others".to_owned(),
        (true, Some(mbps)) => format!("relays at most {mbps} Mb/s for others"),
    };
    let relays = (old.relay, old.relay_mbps) != (new.relay, new.relay_mbps);
    let asks = "asks at other addresses whether it may join";
    let asks = (before.join != after.join).then(|| asks.to_owned());
    let words = bundles.into_iter().chain(relays.then_some(words));
    words.chain(asks)
}

/// Changes of this node's identity, in words.
fn identity_words(old: &Cluster, was: NodeIndex, new: &Cluster, me: NodeIndex) -> Option<String> {
    let (before, after) = (old.nodes[was].public, new.nodes[me].public);
    if before != after {
        return Some(public_words(after.is_some(), before.is_some()));
    }
    (old.node_key != new.node_key).then(|| "has another private key".to_owned())
}

/// The change of a node's public key, in words.
fn public_words(is: bool, was: bool) -> String {
    match (is, was) {
        (true, true) => "has another public key",
        (true, false) => "has a public key now",
        (false, _) => "has no public key any more: whoever has the cluster key may use its name",
    }
    .to_owned()
}

/// Changes that all virtual NICs have in common, in words.
fn vnic_words(before: &Cluster, after: &Cluster) -> impl Iterator<Item = String> {
    let (old, new) = (before.vnic, after.vnic);
    let hosts = match new.hosts {
        true => "the nodes' names are in /etc/hosts",
        false => "the nodes' names are in /etc/hosts no more",
    };
    let hosts = (old.hosts != new.hosts).then(|| hosts.to_owned());
    let mtu = format!("the MTU of the virtual NIC is {}", new.mtu_bytes);
    hosts
        .into_iter()
        .chain((old.mtu_bytes != new.mtu_bytes).then_some(mtu))
}

/// Changes of how traffic is carried, in words.
fn flow_words(before: &Cluster, after: &Cluster) -> Vec<String> {
    let (old, new) = (&before.flows, &after.flows);
    let added = new.iter().filter(|flow| !old.contains(flow));
    let removed = old.iter().filter(|flow| !new.contains(flow));
    let mut words: Vec<_> = added.map(|flow| format!("flow added, {flow}")).collect();
    words.extend(removed.map(|flow| format!("flow removed, {flow}")));
    if words.is_empty() && old != new {
        words.push("the flows have another order".to_owned());
    }
    words
}

/// The differences, in words.
fn changes(old: &Cluster, was: NodeIndex, new: &Cluster, me: NodeIndex) -> Vec<String> {
    let mut words = Vec::new();
    if old.key != new.key {
        words.push("connects with another key".to_owned());
    }
    if old.second_key != new.second_key {
        words.push(match new.second_key {
            Some(_) => "accepts another second key".to_owned(),
            None => "accepts no second key any more".to_owned(),
        });
    }
    words.extend(identity_words(old, was, new, me));
    let metrics = new.metrics_of(me);
    if old.metrics_of(was) != metrics {
        words.push(match metrics {
            Some(address) => format!("metrics are at {address}"),
            None => "metrics are served no more".to_owned(),
        });
    }
    if old.mptcp != new.mptcp {
        words.push(match new.mptcp {
            true => "Multipath TCP is steered".to_owned(),
            false => "Multipath TCP is steered no more".to_owned(),
        });
    }
    words.extend(run_words(old, new).chain(gateway_words(old, new)));
    words.extend(mesh_words(old, new));
    words.extend(vnic_words(old, new));
    words.extend(flow_words(old, new));
    let link_words = |before: &NodeSpec, after: &NodeSpec| {
        let both = (0..LINKS_MAX).map(|i| (i, link(before, i), link(after, i)));
        let changed = both.filter_map(|(i, before, after)| match (before, after) {
            (None, Some(address)) => Some(format!("link {i} added, {address}")),
            (Some(_), None) => Some(format!("link {i} removed")),
            (Some(a), Some(b)) if a != b => Some(format!("link {i} is now {b}, was {a}")),
            _ => None,
        });
        changed.collect::<Vec<_>>()
    };
    words.extend(link_words(&old.nodes[was], &new.nodes[me]));
    let named = |cluster: &Cluster, name: &str| {
        let mut nodes = cluster.nodes.iter();
        nodes.find(|node| node.name == name).cloned()
    };
    for after in new.nodes.iter().filter(|n| n.name != new.nodes[me].name) {
        let name = &after.name;
        let Some(before) = named(old, name) else {
            words.push(format!("{name} added"));
            continue;
        };
        let of_peer = |text| format!("{name}: {text}");
        words.extend(link_words(&before, after).into_iter().map(of_peer));
        if before.public != after.public {
            let text = public_words(after.public.is_some(), before.public.is_some());
            words.push(format!("{name} {text}"));
        }
        if before.vnic != after.vnic {
            words.push(format!(
                "{name}: vnic is now {}, was {}",
                vnic(after),
                vnic(&before)
            ));
        }
    }
    let gone = old
        .nodes
        .iter()
        .filter(|node| named(new, &node.name).is_none());
    words.extend(gone.map(|node| format!("{} removed", node.name)));
    words
}

fn link(node: &NodeSpec, number: usize) -> Option<IpAddr> {
    node.links.get(number).copied().flatten()
}

/// Tells the node where a peer is now.
fn move_peer(
    turn: &mut LoopTurn<'_>,
    peer: PeerId,
    before: &NodeSpec,
    after: &NodeSpec,
    port: u16,
) {
    for number in 0..LINKS_MAX {
        let address = link(after, number);
        if address != link(before, number) {
            let id = LinkId(number as u8);
            let address = address.map(|address| (address, port).into());
            turn.node.set_peer_address(turn.now, peer, id, address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn cluster(text: &str) -> Cluster {
        let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
        let text = text.replace("KEY", &format!("key = \"{key}\""));
        Cluster::parse(Path::new("c"), &text, 0o600).unwrap().0
    }

    const OLD: &str = r#"KEY
[[node]]
name = "n0"
links = ["10.77.0.1", "10.77.1.1"]
vnic = "10.99.0.1/24"
[[node]]
name = "n1"
links = ["10.77.0.2", "10.77.1.2"]
vnic = "10.99.0.2/24"
[[node]]
name = "n2"
links = ["10.77.0.3"]
"#;

    #[test]
    fn every_difference_is_told_in_words() {
        let (old, told) = (cluster(OLD), |new: &Cluster| {
            changes(&cluster(OLD), 0, new, 0)
        });
        assert_eq!(told(&old), [""; 0]);
        let new = OLD.replace("KEY", &format!("key = \"{}\"", "ab".repeat(31) + "cd"));
        let new = new.replace("10.77.1.1\"", "10.77.1.9\", \"10.77.2.1\"");
        let new = new
            .replace(", \"10.77.1.2\"", "")
            .replace("0.2/24", "0.7/24");
        let new = new.replace("n2", "n3");
        assert_eq!(
            told(&cluster(&new)),
            [
                "connects with another key",
                "link 1 is now 10.77.1.9, was 10.77.1.1",
                "link 2 added, 10.77.2.1",
                "n1: link 1 removed",
                "n1: vnic is now 10.99.0.7/24, was 10.99.0.2/24",
                "n3 added",
                "n2 removed",
            ]
        );
        let second = OLD.replace(
            "KEY",
            &format!("KEY\nsecond_key = \"{}\"", "ab".repeat(31) + "cd"),
        );
        assert_eq!(told(&cluster(&second)), ["accepts another second key"]);
        let public = "public = \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"\n[[node]]";
        let public = OLD.replacen(
            "[[node]]\nname = \"n2\"",
            &format!("{public}\nname = \"n2\""),
            1,
        );
        assert_eq!(told(&cluster(&public)), ["n1 has a public key now"]);
        let mptcp = OLD.replace("KEY", "KEY\nmptcp = true");
        assert_eq!(told(&cluster(&mptcp)), ["Multipath TCP is steered"]);
        let run = format!("{OLD}[run]\nall_links_down_s = 7\n");
        assert_eq!(
            told(&cluster(&run)),
            ["connections under `tabane run` wait 7 s for a link"]
        );
        let run = format!("{OLD}[run]\nplain_tcp = false\n");
        assert_eq!(
            told(&cluster(&run)),
            ["plain TCP carries no more connections between nodes under `tabane run`"]
        );
        for (text, words) in [
            ("relay = false", "relays nothing for others"),
            ("relay_mbps = 500", "relays at most 500 Mb/s for others"),
            ("bundles = 12", "has at most 12 bundles over links"),
            (
                "bundles = \"all\"",
                "has bundles over links with every node",
            ),
        ] {
            assert_eq!(told(&cluster(&format!("{OLD}[mesh]\n{text}\n"))), [words]);
        }
        let vnic = format!("{OLD}[vnic]\nmtu = 1500\n");
        assert_eq!(
            told(&cluster(&vnic)),
            ["the MTU of the virtual NIC is 1500"]
        );
        let hosts = format!("{OLD}[vnic]\nhosts = true\n");
        assert_eq!(
            told(&cluster(&hosts)),
            ["the nodes' names are in /etc/hosts"]
        );
    }

    #[test]
    fn what_cannot_change_is_refused_one_by_one() {
        let new = OLD.replace("KEY", "KEY\nwire = \"plain\"\nport = 99");
        let new = cluster(&new.replacen("vnic = \"10.99.0.1/24\"", "", 1));
        let problems = unchangeable(&cluster(OLD), 0, &new, 0);
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "c: wire is \"plain\", but the node runs with \"encrypted\"; restart `tabane up` for that, or put it back",
                "c: port is 99, but the node runs with 7577; restart `tabane up` for that, or put it back",
                "c:4: this node's vnic is none, but the node runs with 10.99.0.1/24; restart `tabane up` for that, or put it back",
            ]
        );
    }
}
