//! The nodes that `tabane init --node …` writes into a new cluster file.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;

use tabane_cluster::{Cluster, Problem, Severity, names_in};

/// A node of the command line: `NAME=ADDRESS[,ADDRESS…]`, its address on each network in order. Both may have ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenNode {
    name: String,
    links: Vec<String>,
}

impl FromStr for GivenNode {
    type Err = String;

    fn from_str(text: &str) -> Result<GivenNode, String> {
        let right = "write NAME=ADDRESS,ADDRESS, such as n0=10.77.0.1,10.77.1.1";
        let (name, links) = text.split_once('=').ok_or(right)?;
        if name.is_empty() || links.is_empty() || text.contains(['"', '\\', '\n']) {
            return Err(right.to_owned());
        }
        Ok(GivenNode {
            name: name.to_owned(),
            links: split_links(links),
        })
    }
}

impl GivenNode {
    /// One that was found: its name, and its address on each network, empty where it has none.
    pub fn new(name: &str, links: Vec<String>) -> GivenNode {
        GivenNode {
            name: name.to_owned(),
            links,
        }
    }

    fn shown(&self) -> String {
        format!("--node {}={}", self.name, self.links.join(","))
    }
}

/// At the commas that are not in brackets.
fn split_links(text: &str) -> Vec<String> {
    let mut depth = 0;
    let is_end = |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(is_end).map(str::to_owned).collect()
}

/// The network of the nodes' addresses on the bundle: `10.99.0.0/24`, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VnicNetwork(Option<(IpAddr, u8)>);

impl FromStr for VnicNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<VnicNetwork, String> {
        if text == "none" {
            return Ok(VnicNetwork(None));
        }
        let right = "write a network that nothing else uses, such as 10.99.0.0/24, or none";
        let (address, prefix) = text.split_once('/').ok_or(right)?;
        let address: IpAddr = address.parse().map_err(|_| right)?;
        let prefix: u8 = prefix.parse().map_err(|_| right)?;
        let most = if address.is_ipv4() { 30 } else { 126 };
        match prefix {
            8.. if prefix <= most => Ok(VnicNetwork(Some((address, prefix)))),
            _ => Err(right.to_owned()),
        }
    }
}

impl VnicNetwork {
    /// The addresses of so many nodes, after the first `before`, as one text for the file.
    fn addresses(self, before: usize, count: usize) -> Option<Result<String, String>> {
        let (network, prefix) = self.0?;
        let (bits, width) = match network {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
            IpAddr::V6(v6) => (v6.to_bits(), 128),
        };
        let hosts = 1_u128 << (width - prefix);
        // The first is the network's own, and the last one everybody's.
        let at = |n: usize| -> Option<IpAddr> {
            let host = n as u128 + 1;
            let bits = (bits & !(hosts - 1)) | host;
            let address = match u32::try_from(bits) {
                Ok(v4) if network.is_ipv4() => Ipv4Addr::from_bits(v4).into(),
                _ => Ipv6Addr::from_bits(bits).into(),
            };
            (host < hosts - 1).then_some(address)
        };
        let full = || {
            format!(
                "--vnic {network}/{prefix} has no room for so many nodes; name a larger network"
            )
        };
        let ends = at(before).zip(at(before + count - 1));
        let Some((first, last)) = ends else {
            return Some(Err(full()));
        };
        if count == 1 {
            return Some(Ok(format!("{first}/{prefix}")));
        }
        let (first, last) = (first.to_string(), last.to_string());
        let split = |text: &str| {
            text.rsplit_once('.')
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
        };
        match (split(&first), split(&last)) {
            (Some((begin, first)), Some((same, last))) if begin == same => {
                Some(Ok(format!("{begin}.[{first}-{last}]/{prefix}")))
            }
            _ => Some(Err(
                "ranges get addresses on the bundle of one network of 254 only; write --vnic none, and `vnic` into the file".to_owned(),
            )),
        }
    }
}

/// Their part of the file.
///
/// # Errors
/// Which is wrong, and what would be right, a line each.
pub fn blocks(nodes: &[GivenNode], vnic: VnicNetwork) -> Result<String, String> {
    let mut text = String::new();
    let mut before = 0;
    for node in nodes {
        let links: Vec<String> = node
            .links
            .iter()
            .map(|link| format!("\"{link}\""))
            .collect();
        text.push_str(&format!(
            "\n[[node]]\nname  = \"{}\"\nlinks = [{}]\n",
            node.name,
            links.join(", ")
        ));
        // What is wrong with the name is said when the file is checked.
        let count = names_in(&node.name).unwrap_or(1);
        if let Some(addresses) = vnic.addresses(before, count) {
            text.push_str(&format!("vnic  = \"{}\"\n", addresses?));
        }
        before += count;
    }
    Ok(text)
}

/// Checks the whole file, which is about to be written.
///
/// # Errors
/// As [`blocks`] says.
pub fn check(path: &Path, text: &str, nodes: &[GivenNode]) -> Result<(), String> {
    let Err(error) = Cluster::parse(path, text, 0o600) else {
        return Ok(());
    };
    let lines: Vec<&str> = text.lines().collect();
    let of = |problem: &Problem| {
        let line = problem
            .line
            .map_or(0, |line| line as usize)
            .min(lines.len());
        let begun = lines[..line].iter().filter(|line| **line == "[[node]]");
        let node = begun.count().checked_sub(1).and_then(|n| nodes.get(n));
        let place = node.map_or_else(|| "--node".to_owned(), GivenNode::shown);
        format!("{place}: {}; {}", problem.what, problem.right)
    };
    let errors = error
        .problems
        .iter()
        .filter(|it| it.severity == Severity::Error);
    Err(errors.map(of).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(texts: &[&str]) -> Vec<GivenNode> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn nodes_and_ranges_become_blocks() {
        let nodes = given(&[
            "n0=10.77.0.1,10.77.1.1",
            "n[1-3]=10.77.0.[2,3,4],10.77.1.[2-4]",
        ]);
        let text = blocks(&nodes, "10.99.0.0/24".parse().unwrap()).unwrap();
        assert_eq!(
            text,
            "\n[[node]]\nname  = \"n0\"\nlinks = [\"10.77.0.1\", \"10.77.1.1\"]\nvnic  = \"10.99.0.1/24\"\n\
             \n[[node]]\nname  = \"n[1-3]\"\nlinks = [\"10.77.0.[2,3,4]\", \"10.77.1.[2-4]\"]\nvnic  = \"10.99.0.[2-4]/24\"\n"
        );
        let none = blocks(&nodes, "none".parse().unwrap()).unwrap();
        assert!(!none.contains("vnic"), "{none}");
        let six = blocks(&nodes[..1], "fd99::/64".parse().unwrap()).unwrap();
        assert!(six.contains("vnic  = \"fd99::1/64\""), "{six}");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for wrong in ["n0", "n0=", "=10.0.0.1", "n\"0=10.0.0.1"] {
            assert!(
                wrong
                    .parse::<GivenNode>()
                    .unwrap_err()
                    .contains("NAME=ADDRESS")
            );
        }
        for wrong in ["10.99.0.0", "10.99.0.0/31", "ten/24", "10.0.0.0/0"] {
            assert!(
                wrong
                    .parse::<VnicNetwork>()
                    .unwrap_err()
                    .contains("10.99.0.0/24")
            );
        }
        let nodes = given(&["n[0-5]=10.77.0.[1-6]"]);
        let full = blocks(&nodes, "10.99.0.0/29".parse().unwrap());
        assert!(full.is_ok());
        let nodes = given(&["n[0-6]=10.77.0.[1-7]"]);
        let full = blocks(&nodes, "10.99.0.0/29".parse().unwrap()).unwrap_err();
        assert!(full.contains("no room for so many nodes"), "{full}");
        let nodes = given(&["n[0-299]=10.77.[0-1].[1-150]"]);
        let far = blocks(&nodes, "10.99.0.0/16".parse().unwrap()).unwrap_err();
        assert!(far.contains("--vnic none"), "{far}");
    }
}
