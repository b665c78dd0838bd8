//! From what was heard on each of this machine's networks to the nodes and links of a cluster. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tabane_cluster::{NAME_BYTES_MAX, Network, is_for_others};

use super::words::{Answer, Run};

/// An interface of this machine, with its private addresses and the lengths of their networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// Its name.
    pub interface: String,
    /// Its addresses.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// A node's name, and its address on each network.
pub type Found = (String, Vec<Option<IpAddr>>);

/// What is proposed; a person says yes to each node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposal {
    /// This machine comes first.
    pub nodes: Vec<Found>,
    /// The interface here of each network.
    pub interfaces: Vec<String>,
    /// What somebody should know, or mend first.
    pub warnings: Vec<String>,
}

/// The cluster of this machine, which is called `name`, and of those that have answered, each on the interface of this number.
pub fn propose(name: &str, own: &[Own], heard: &[(usize, Answer)]) -> Proposal {
    let mut machines: BTreeMap<Run, &str> = BTreeMap::new();
    for (_, answer) in heard {
        machines.insert(answer.answerer, &answer.name);
    }
    let mut nodes = vec![(None, name.to_owned(), Vec::new())];
    let mut others: Vec<(Run, &str)> = machines.into_iter().collect();
    others.sort_by_key(|(run, name)| (*name, *run));
    for (run, name) in others {
        let is_free = |name: &str| {
            !nodes
                .iter()
                .any(|(_, has, _)| name.eq_ignore_ascii_case(has))
        };
        let name = free_name(name, is_free);
        nodes.push((Some(run), name, Vec::new()));
    }
    let mut proposal = Proposal::default();
    for (number, here) in own.iter().enumerate() {
        let answers: Vec<&Answer> = heard
            .iter()
            .filter(|(on, _)| *on == number)
            .map(|(_, answer)| answer)
            .collect();
        if answers.is_empty() {
            continue;
        }
        let Some(network) = network_of(here, &answers) else {
            let there = answers
                .iter()
                .map(|it| format!("{} of {}", it.interface, it.name));
            proposal.warnings.push(format!(
                "{} here and {} are on one network, but have no addresses of one: give them some, such as 10.77.0.1/24 and 10.77.0.2/24",
                here.interface,
                there.collect::<Vec<_>>().join(", ")
            ));
            continue;
        };
        proposal.interfaces.push(here.interface.clone());
        for (run, _, links) in &mut nodes {
            links.push(match run {
                None => Some(network.0),
                Some(run) => {
                    let mut theirs = answers.iter().filter(|it| it.answerer == *run);
                    theirs.find_map(|it| address_in(network, &it.addresses))
                }
            });
        }
    }
    nodes.retain(|(run, _, links)| run.is_none() || links.iter().any(Option::is_some));
    proposal.nodes = nodes
        .into_iter()
        .map(|(_, name, links)| (name, links))
        .collect();
    proposal.warnings.extend(shared_switches(own, heard));
    proposal
}

/// Machines may have one name, as images of one disk do.
fn free_name(name: &str, is_free: impl Fn(&str) -> bool) -> String {
    let others = (2..).map(|number| {
        let end = format!("-{number}");
        let room = name.len().min(NAME_BYTES_MAX - end.len());
        format!("{}{end}", &name[..room])
    });
    let mut names = std::iter::once(name.to_owned()).chain(others);
    names.find(|name| is_free(name)).unwrap_or_default()
}

/// The own address whose network most others have addresses in.
fn network_of(here: &Own, answers: &[&Answer]) -> Option<(IpAddr, u8)> {
    let count = |network: (IpAddr, u8)| {
        let is_in = |it: &&&Answer| address_in(network, &it.addresses).is_some();
        answers.iter().filter(is_in).count()
    };
    let mut best = None;
    for network in &here.addresses {
        let is_better = best.is_none_or(|best| count(*network) > count(best));
        if count(*network) > 0 && is_better {
            best = Some(*network);
        }
    }
    best
}

/// Link-local addresses have no meaning in the file.
fn address_in((own, prefix): (IpAddr, u8), addresses: &[(IpAddr, u8)]) -> Option<IpAddr> {
    let network = Network::new(own, prefix);
    let is_in =
        |address: &IpAddr| *address != own && is_for_others(*address) && network.contains(*address);
    addresses.iter().map(|(address, _)| *address).find(is_in)
}

/// A machine that hears one interface by two of its own, or two of ours by one, shows that two networks are one switch.
fn shared_switches(own: &[Own], heard: &[(usize, Answer)]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, (on, a)) in heard.iter().enumerate() {
        for (other, b) in &heard[..index] {
            if a.answerer != b.answerer {
                continue;
            }
            let (one, two, at) = if on == other && a.interface != b.interface {
                let at = own.get(*on).map_or("", |own| &own.interface);
                (
                    &b.interface,
                    &a.interface,
                    format!("{at} here is heard by both"),
                )
            } else if on != other && a.interface == b.interface {
                let name = |on: &usize| own.get(*on).map(|own| &own.interface);
                let (Some(one), Some(two)) = (name(other), name(on)) else {
                    continue;
                };
                (one, two, format!("{} hears both", a.interface))
            } else {
                continue;
            };
            found.push(format!(
                "{one} and {two} are on one switch, as {} shows ({at}): links fail together then; part the switches, or use VLANs",
                a.name
            ));
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(networks: &[&str]) -> Vec<Own> {
        let one = |(number, address): (usize, &&str)| Own {
            interface: format!("eth{number}"),
            addresses: addresses(address),
        };
        networks.iter().enumerate().map(one).collect()
    }

    fn addresses(text: &str) -> Vec<(IpAddr, u8)> {
        let one = |text: &str| {
            let (address, prefix) = text.split_once('/').unwrap();
            (address.parse().unwrap(), prefix.parse().unwrap())
        };
        text.split(' ').map(one).collect()
    }

    fn answer(run: u8, name: &str, interface: &str, text: &str) -> Answer {
        Answer {
            asker: [0; 16],
            answerer: [run; 16],
            name: name.to_owned(),
            interface: interface.to_owned(),
            addresses: addresses(text),
        }
    }

    fn shown(proposal: &Proposal) -> Vec<String> {
        let link = |link: &Option<IpAddr>| link.map_or("-".to_owned(), |it| it.to_string());
        let node = |(name, links): &Found| {
            format!(
                "{name} {}",
                links.iter().map(link).collect::<Vec<_>>().join(" ")
            )
        };
        proposal.nodes.iter().map(node).collect()
    }

    #[test]
    fn addresses_that_face_each_other_are_links() {
        let own = own(&["10.77.0.1/24", "192.168.5.1/24", "fd77::1/64 10.77.1.1/24"]);
        let heard = [
            (2, answer(2, "b", "eth1", "fe80::2/64 fd77::2/64")),
            (0, answer(2, "b", "eth0", "10.77.0.2/24")),
            (0, answer(1, "c", "enp3s0", "10.77.0.3/24")),
        ];
        let proposal = propose("a", &own, &heard);
        assert_eq!(
            shown(&proposal),
            [
                "a 10.77.0.1 fd77::1",
                "b 10.77.0.2 fd77::2",
                "c 10.77.0.3 -"
            ]
        );
        assert_eq!(proposal.interfaces, ["eth0", "eth2"]);
        assert_eq!(proposal.warnings, [""; 0]);
    }

    #[test]
    fn machines_of_one_name_are_told_apart() {
        let heard = [
            (0, answer(2, "A", "eth0", "10.77.0.2/24")),
            (0, answer(1, "A", "eth0", "10.77.0.3/24")),
        ];
        let proposal = propose("a", &own(&["10.77.0.1/24"]), &heard);
        assert_eq!(
            shown(&proposal),
            ["a 10.77.0.1", "A-2 10.77.0.3", "A-3 10.77.0.2"]
        );
    }

    #[test]
    fn what_is_wrong_with_networks_is_told() {
        let here = own(&["10.77.0.1/24", "10.77.1.1/24"]);
        let far = [(0, answer(1, "b", "eth0", "10.78.0.2/24"))];
        let proposal = propose("a", &here, &far);
        assert_eq!(shown(&proposal), ["a "]);
        assert!(proposal.warnings[0].starts_with("eth0 here and eth0 of b are on one network"));
        let both = [
            (0, answer(1, "b", "eth0", "10.77.0.2/24")),
            (0, answer(1, "b", "eth1", "10.77.1.2/24")),
            (1, answer(1, "b", "eth1", "10.77.1.2/24")),
        ];
        let proposal = propose("a", &here, &both);
        assert_eq!(
            shown(&proposal),
            ["a 10.77.0.1 10.77.1.1", "b 10.77.0.2 10.77.1.2"]
        );
        assert_eq!(
            proposal.warnings.len(),
            2,
            "one from each end: {:?}",
            proposal.warnings
        );
        assert!(proposal.warnings[0].starts_with("eth0 and eth1 are on one switch, as b shows"));
    }

    #[test]
    fn nobody_is_no_cluster() {
        let proposal = propose("a", &own(&["10.77.0.1/24"]), &[]);
        assert_eq!(shown(&proposal), ["a "]);
        assert!(proposal.interfaces.is_empty());
    }
}
