//! Nodes that are not in the cluster file: they join, leave, and are forgotten. The daemon adds them to its cluster as if
//! the file named them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tabane_cluster::{Cluster, JoinSpec, NodeIndex, NodeSpec, PublicKey};
use tabane_engine::LoopTurn;
use tabane_proto::limits::LINKS_MAX;
use tabane_proto::link::PathState;
use tabane_proto::wire::{Member, Verdict};
use tabane_proto::{Event, Guests, Joining, LinkId, Node, PartedWhy, PeerId, Time};

use super::configured::{peer_config, peers_with_nic};
use super::run::Daemon;
use crate::agent::Directory;
use crate::log::{self, Line};
use crate::status::topology;
use crate::status::{MemberStatus, MembersReport, Reached, SCHEMA};
use tabane_io::clock::unix_ms;

/// Nodes that can have joined at once: as many as a file can name.
const JOINED_MAX: usize = tabane_cluster::NODES_MAX;
/// Time until a leaving node's farewell has reached all others.
const LEAVES_WITHIN: Duration = Duration::from_millis(300);
/// Where the file names all nodes, a node that joined would be forgotten after this: it never happens.
const NEVER: Duration = Duration::from_secs(31_536_000);

/// This node's own data for the others, and whether nodes may join.
pub(super) fn guests(cluster: &Cluster, me: NodeIndex) -> Guests {
    let join = cluster.join.as_ref();
    Guests::Joining(Joining {
        admits: join.is_some(),
        count_max: JOINED_MAX,
        incarnation: unix_ms(),
        inside: cluster.nodes[me].vnic,
        needs_key: cluster.nodes.iter().any(|node| node.public.is_some()),
        forget_after: join.map_or(NEVER, |join| join.forget_after),
    })
}

/// Addresses of nodes that may admit this one, each on the own link with the nearest address: one of the same network, if
/// there is one.
pub(super) fn seeds(cluster: &Cluster, me: NodeIndex) -> Vec<(LinkId, SocketAddr)> {
    let Some(JoinSpec { seeds, .. }) = &cluster.join else {
        return Vec::new();
    };
    let own: Vec<(usize, IpAddr)> = cluster.nodes[me].addresses().collect();
    let others = seeds
        .iter()
        .filter(|seed| !cluster.nodes[me].has_address(**seed));
    let nearest = |seed: &IpAddr| {
        let of_family = own
            .iter()
            .filter(|(_, ours)| ours.is_ipv4() == seed.is_ipv4());
        // The first of several: on ties it is the one with the lowest number.
        let nearest = of_family
            .rev()
            .max_by_key(|(_, ours)| bits_in_common(*ours, *seed))?;
        Some((LinkId(nearest.0 as u8), (*seed, cluster.port).into()))
    };
    others.filter_map(nearest).collect()
}

fn bits_in_common(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}

/// A node that has joined, as the file would name it.
fn spec(member: &Member) -> NodeSpec {
    let links = member.addresses.map(|address| Some(address?.ip()));
    let count = links
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |last| last + 1);
    NodeSpec {
        name: member.name.as_str().to_owned(),
        links: links[..count].to_vec(),
        vnic: member.inside,
        public: member.public.map(PublicKey),
        ..NodeSpec::default()
    }
}

impl Daemon {
    /// Handles that a node joined or left, and logs it.
    pub(super) fn on_members_event(&mut self, now: Time, node: &mut Node, event: &Event) {
        match event {
            Event::Member { peer } if node.is_guest(*peer) => self.on_joined(now, node, *peer),
            Event::Parted { peer, name, why } => {
                let text = match why {
                    PartedWhy::Left => "left the cluster",
                    PartedWhy::Silent => "forgotten: nothing was heard of it for long",
                    PartedWhy::Taken => {
                        "not admitted: another node has its name or an address of it"
                    }
                };
                if self.peers.iter().any(|(id, _)| id == peer) {
                    log::line(format!("{name}: {text}"));
                    self.forget_member(*peer);
                }
            }
            Event::NotAdmitted {
                address,
                by,
                verdict,
                ..
            } => {
                log::warn(format!(
                    "not admitted by {by} at {}: {}",
                    address.ip(),
                    verdict_words(*verdict)
                ));
            }
            _ => {}
        }
    }

    fn on_joined(&mut self, now: Time, node: &mut Node, peer: PeerId) {
        let Some(spec) = node.member(peer).map(spec) else {
            return;
        };
        let name = spec.name.clone();
        let known = self
            .peers
            .iter()
            .find(|(id, _)| *id == peer)
            .map(|(_, index)| *index);
        if let Some(index) = known {
            self.cluster.nodes[index] = spec;
            log::line(format!("{name}: has other addresses"));
        } else {
            self.rates.forget(peer);
            self.redundancy.forget(peer);
            self.peer_lines.forget(peer);
            self.peers.push((peer, self.cluster.nodes.len()));
            self.cluster.nodes.push(spec);
            self.tell_of(now, peer, Line::info(format!("{name}: has joined")));
        }
        self.joined.insert(name);
        self.members_changed(now);
        if known.is_none() && node.is_connected(peer) {
            let restarted = false;
            tabane_engine::Host::event(self, now, node, Event::PeerUp { peer, restarted });
        }
    }

    fn forget_member(&mut self, peer: PeerId) {
        let Some(place) = self.peers.iter().position(|(id, _)| *id == peer) else {
            return;
        };
        let (_, gone) = self.peers.remove(place);
        let spec = self.cluster.nodes.remove(gone);
        self.joined.remove(&spec.name);
        let indices = self
            .peers
            .iter_mut()
            .map(|(_, index)| index)
            .chain([&mut self.me]);
        indices
            .filter(|index| **index > gone)
            .for_each(|index| *index -= 1);
        self.redundancy.forget(peer);
        self.members_changed(tabane_engine::now());
    }

    /// The virtual NIC, the keeper of Multipath TCP and the scribe of names know the peers, too.
    fn members_changed(&mut self, now: Time) {
        if let (Some(nic), Some((own, _))) = (&mut self.nic, self.cluster.nodes[self.me].vnic) {
            nic.set_peers(own, &peers_with_nic(&self.cluster, &self.peers));
        }
        self.set_outside_peers();
        self.helm.redraw(now);
        self.naming.changed();
    }

    /// Adds the nodes that have joined to a cluster that was read from the file, as far as that does not name them.
    pub(super) fn add_joined_to(&self, new: &mut Cluster) {
        if new.join.is_none() {
            return;
        }
        let is_new = |joined: &NodeSpec, named: &[NodeSpec]| {
            let clashes = |node: &NodeSpec| {
                node.name == joined.name
                    || joined
                        .addresses()
                        .any(|(_, address)| node.has_address(address))
                    || joined.vnic.is_some_and(|(address, _)| {
                        node.vnic.is_some_and(|(taken, _)| taken == address)
                    })
            };
            !named.iter().any(clashes)
        };
        let joined = self
            .cluster
            .nodes
            .iter()
            .filter(|node| self.joined.contains(&node.name));
        let kept: Vec<NodeSpec> = joined
            .filter(|node| is_new(node, &new.nodes))
            .cloned()
            .collect();
        new.nodes.extend(kept);
    }

    /// Nodes that had joined and that the file names now belong to it.
    pub(super) fn adopt_named(&mut self, turn: &mut LoopTurn<'_>, new: &Cluster) {
        for node in new.nodes.iter().filter(|node| node.lines.node > 0) {
            if self.joined.remove(&node.name)
                && let Err(error) = turn.node.add_peer(turn.now, peer_config(node, new.port))
            {
                log::warn(error);
            }
        }
    }

    /// This node leaves the cluster and ends a moment later.
    ///
    /// # Errors
    /// The file has all nodes.
    pub(super) fn leave(&mut self, turn: &mut LoopTurn<'_>) -> Result<MembersReport, String> {
        if self.cluster.join.is_none() {
            return Err(format!(
                "there is no `join` in `[mesh]` of {}: the files have all nodes; stop the daemon, take {} out of every node's file, \
                 and run `tabane reload` there",
                self.cluster.file.display(),
                self.cluster.nodes[self.me].name
            ));
        }
        log::line("leaves the cluster");
        turn.node.leave();
        self.stop_at.get_or_insert(turn.now + LEAVES_WITHIN);
        Ok(self.members(turn))
    }

    /// All other nodes, by name.
    pub(super) fn members(&self, turn: &LoopTurn<'_>) -> MembersReport {
        let status =
            |(peer, index): &(PeerId, NodeIndex)| self.member_status(turn.node, *peer, *index);
        let mut nodes: Vec<MemberStatus> = self.peers.iter().map(status).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        MembersReport {
            schema: SCHEMA,
            node: self.cluster.nodes[self.me].name.clone(),
            nodes,
        }
    }

    fn member_status(&self, node: &Node, peer: PeerId, index: NodeIndex) -> MemberStatus {
        let stats = node.peer_stats(peer);
        let works = |state: PathState| matches!(state, PathState::Up | PathState::Suspect);
        let paths = stats.iter().flat_map(|stats| &stats.paths);
        let working: Vec<u8> = paths
            .filter(|path| works(path.state))
            .map(|path| path.link.0)
            .collect();
        let relayed = stats
            .iter()
            .flat_map(|stats| &stats.relayed)
            .find(|way| works(way.state));
        let names = |relays: &[PeerId]| {
            relays
                .iter()
                .map(|relay| node.peer_name(*relay).unwrap_or("?").to_owned())
                .collect()
        };
        let reached = match (node.is_connected(peer), working.is_empty(), relayed) {
            (true, false, _) => Some(Reached::Direct),
            (true, true, Some(way)) => Some(Reached::Through(names(&way.relays))),
            _ => None,
        };
        let said = node.links_of(peer).map(|links| {
            (0..LINKS_MAX as u8)
                .filter(|link| links & 1 << link != 0)
                .collect()
        });
        let spec = &self.cluster.nodes[index];
        MemberStatus {
            name: spec.name.clone(),
            joined: node.is_guest(peer),
            incarnation: node.member(peer).map(|member| member.incarnation),
            links_up: if reached.is_some() {
                said.unwrap_or(working)
            } else {
                Vec::new()
            },
            reached,
            switches: switches(node, peer, spec.links.len()),
        }
    }
}

/// The peer's own statement of its switch on each of its networks.
fn switches(node: &Node, peer: PeerId, links: usize) -> Vec<Option<String>> {
    let known = node
        .switches(Some(peer))
        .map_or([None; LINKS_MAX], |s| s.of);
    let called = known.map(|switch| switch.map(|number| topology::name_of(number.into())));
    called.into_iter().take(links).collect()
}

fn verdict_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Welcome => "it admits this node",
        Verdict::FileOnly => {
            "there is no `join` in `[mesh]` of its cluster file, which has all nodes that it knows"
        }
        Verdict::NameTaken => "another node has this one's name; each needs a name of its own",
        Verdict::AddressTaken => {
            "another node has an address of this one; each link needs an address of its own"
        }
        Verdict::NeedsKey => {
            "its nodes have key pairs: run `tabane key`, and write the line that it prints into this node's `[[node]]`"
        }
        Verdict::Full => "as many nodes have joined as may",
    }
}

impl Directory for Daemon {
    fn peer_at(&self, address: IpAddr) -> Option<PeerId> {
        let is_there =
            |(_, node): &&(PeerId, usize)| has_for_programs(&self.cluster.nodes[*node], address);
        self.peers.iter().find(is_there).map(|(peer, _)| *peer)
    }

    fn is_own(&self, address: IpAddr) -> bool {
        has_for_programs(&self.cluster.nodes[self.me], address)
    }
}

/// Whether a node has this address, for programs: of its virtual NIC or of a link.
fn has_for_programs(node: &NodeSpec, address: IpAddr) -> bool {
    node.has_address(address) || node.vnic.is_some_and(|(vnic, _)| vnic == address)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_seed_is_asked_on_the_link_of_its_network() {
        let key = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
        let text = format!(
            "key = \"{key}\"\n[mesh]\njoin = [\"10.77.0.1\", \"10.77.1.1\", \"10.77.0.9\", \"fd00::1\"]\n\
             [[node]]\nname = \"n9\"\nlinks = [\"10.77.0.9\", \"10.77.1.9\"]\n"
        );
        let (cluster, _) = Cluster::parse(Path::new("c"), &text, 0o600).unwrap();
        let at = |address: &str| address.parse::<SocketAddr>().unwrap();
        assert_eq!(
            seeds(&cluster, 0),
            [
                (LinkId(0), at("10.77.0.1:7577")),
                (LinkId(1), at("10.77.1.1:7577"))
            ],
            "neither itself nor where no link leads"
        );
    }
}
