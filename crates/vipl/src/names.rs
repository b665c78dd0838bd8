//! The name service: names of nodes from `TABANE_VI_HOSTS`, or from the cluster file.

use std::net::IpAddr;
use std::path::Path;

use tabane_cluster::Cluster;

use crate::abi::{ERROR_NAMESERVICE, NetAddress, Outcome};
use crate::address::{HOST_BYTES, Host, Place};
use crate::guard;

/// The names of nodes, and where they are.
pub struct Names(Vec<(String, Host)>);

/// One of `NAME=ADDRESS`, or `NAME=ADDRESS+ADDRESS` for a node with several links.
fn pair(text: &str) -> Option<(String, Vec<IpAddr>)> {
    let (name, addresses) = text.split_once('=')?;
    let addresses = addresses.split('+').map(|address| address.parse().ok());
    let addresses = addresses.collect::<Option<Vec<_>>>()?;
    (!name.is_empty()).then(|| (name.to_owned(), addresses))
}

impl Names {
    /// Parses a list of pairs; a repeated name has several addresses.
    ///
    /// # Errors
    /// One line that says what is wrong.
    pub fn parse(list: &str) -> Result<Names, String> {
        let words = list
            .split(|c: char| c == ',' || c.is_ascii_whitespace())
            .filter(|word| !word.is_empty());
        let mut nodes = Vec::<(String, Vec<IpAddr>)>::new();
        for word in words {
            let (name, addresses) = pair(word).ok_or_else(|| {
                let shown: String = word.chars().take(80).flat_map(char::escape_debug).collect();
                format!(
                    "TABANE_VI_HOSTS: \"{shown}\" is no NAME=ADDRESS; it is as n0=10.77.0.1+10.77.1.1, with commas between"
                )
            })?;
            match nodes.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => known.extend(addresses),
                None => nodes.push((name, addresses)),
            }
        }
        let host = |(name, addresses): (String, Vec<IpAddr>)| Some((name, Host::of(addresses)?));
        Ok(Names(nodes.into_iter().filter_map(host).collect()))
    }

    /// The names from the environment, or else from the cluster file.
    ///
    /// # Errors
    /// The content is wrong.
    pub fn load(list: Option<&str>, cluster_file: &Path) -> Outcome<Names> {
        match list {
            Some(list) => Names::parse(list).map_err(|line| {
                guard::say(&line);
                ERROR_NAMESERVICE
            }),
            // Without a cluster file there are only the names that every process knows.
            None => Ok(
                Cluster::load(cluster_file).map_or(Names(Vec::new()), |(cluster, _)| {
                    let host = |node: &tabane_cluster::NodeSpec| {
                        let addresses = node.addresses().map(|(_, address)| address);
                        Some((node.name.clone(), Host::of(addresses)?))
                    };
                    Names(cluster.nodes.iter().filter_map(host).collect())
                }),
            ),
        }
    }

    /// The node with this name. An address is its own name, and `localhost` is this
    /// node.
    ///
    /// # Errors
    /// There is none.
    pub fn by_name(&self, name: &str, own: &Host) -> Outcome<Host> {
        let found = self.0.iter().find(|(known, _)| known == name);
        let address = || Host::of([name.parse::<IpAddr>().ok()?]);
        let local = || (name == "localhost").then_some(*own);
        (found.map(|(_, host)| *host))
            .or_else(address)
            .or_else(local)
            .ok_or(ERROR_NAMESERVICE)
    }

    /// The name of a node.
    ///
    /// # Errors
    /// It has none.
    pub fn by_host(&self, host: &Host) -> Outcome<&str> {
        let found = self.0.iter().find(|(_, known)| known.is_same(host));
        found.map(|(name, _)| &name[..]).ok_or(ERROR_NAMESERVICE)
    }

    /// All nodes.
    pub fn hosts(&self) -> impl Iterator<Item = Host> + '_ {
        self.0.iter().map(|(_, host)| *host)
    }
}

/// Addresses given to the program, kept for it.
pub struct Told {
    _addresses: Vec<Box<[u16]>>,
    pointers: Box<[*mut NetAddress]>,
}

// SAFETY: the pointers are to what it owns, which is not used here.
unsafe impl Send for Told {}

impl Told {
    /// These nodes, without discriminators.
    pub fn new(hosts: impl Iterator<Item = Host>) -> Told {
        let mut addresses = Vec::new();
        for host in hosts {
            // Two numbers and the bytes, aligned as the numbers are.
            let mut words = vec![0u16; 2 + HOST_BYTES / 2].into_boxed_slice();
            let place = Place {
                host,
                discriminator: Vec::new(),
            };
            // SAFETY: there is room for the address.
            let written = unsafe { place.write(words.as_mut_ptr().cast()) };
            if written.is_ok() {
                addresses.push(words);
            }
        }
        let pointers = addresses.iter_mut().map(|words| words.as_mut_ptr().cast());
        Told {
            pointers: pointers.collect(),
            _addresses: addresses,
        }
    }

    /// Pointers to them, and how many there are.
    pub fn list(&mut self) -> (*mut *mut NetAddress, usize) {
        (self.pointers.as_mut_ptr(), self.pointers.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(addresses: &[&str]) -> Host {
        Host::of(addresses.iter().map(|a| a.parse().expect("is one"))).expect("is one")
    }

    #[test]
    fn pairs_name_nodes() {
        let names = Names::parse("n0=10.77.0.1+10.77.1.1, n1=10.77.0.2 n1=10.77.1.2")
            .unwrap_or_else(|line| panic!("{line}"));
        let own = host(&["10.77.0.9"]);
        let n1 = host(&["10.77.0.2", "10.77.1.2"]);
        assert_eq!(names.by_name("n1", &own), Ok(n1));
        assert_eq!(names.by_name("localhost", &own), Ok(own));
        assert_eq!(names.by_name("10.0.0.1", &own), Ok(host(&["10.0.0.1"])));
        assert_eq!(names.by_name("n2", &own), Err(ERROR_NAMESERVICE));
        assert_eq!(names.by_host(&host(&["10.77.1.1"])), Ok("n0"));
        assert_eq!(names.by_host(&own), Err(ERROR_NAMESERVICE));
        assert_eq!(names.hosts().count(), 2);
    }

    #[test]
    fn what_is_no_pair_is_said() {
        for wrong in [
            "n0",
            "=10.77.0.1",
            "n0=",
            "n0=ten",
            "n0=10.77.0.1+",
            "n0=1,n1",
        ] {
            let Err(line) = Names::parse(wrong) else {
                panic!("{wrong} was taken");
            };
            assert!(line.starts_with("TABANE_VI_HOSTS: "), "{line}");
        }
        assert!(Names::parse("").is_ok());
    }
}
