//! `tabane nodes`: all other nodes, and how they are reached.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::table::clean;

/// All other nodes, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembersReport {
    /// The version of this form.
    pub schema: u32,
    /// The daemon's own node.
    pub node: String,
    /// The others.
    pub nodes: Vec<MemberStatus>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its name.
    pub name: String,
    /// It is not in this node's cluster file, but has joined.
    pub joined: bool,
    /// The larger, the newer is what is known of it: it begins with the milliseconds since 1970 at its start. Null until it
    /// was heard of.
    pub incarnation: Option<u64>,
    /// Its links that are up, as it says itself; none while it is not reached.
    pub links_up: Vec<u8>,
    /// How it is reached, null if it is not.
    pub reached: Option<Reached>,
    /// Its switch on each network, null where that is not known.
    pub switches: Vec<Option<String>>,
}

/// How a node is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", untagged)]
pub enum Reached {
    /// Over a link.
    #[serde(with = "direct")]
    Direct,
    /// Through these nodes, in this order.
    Through(Vec<String>),
}

/// The word `"direct"`, beside lists.
mod direct {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    const WORD: &str = "direct";

    pub fn serialize<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(WORD)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            WORD => Ok(()),
            other => Err(D::Error::custom(format!("\"{other}\" is not \"{WORD}\""))),
        }
    }
}

impl MembersReport {
    /// As a table for people.
    pub fn render(&self) -> String {
        let names = self
            .nodes
            .iter()
            .map(|node| clean(&node.name).chars().count());
        let width = names.max().unwrap_or(0).max("NODE".len());
        let mut out = format!("{:width$}  {:8}  REACHED\n", "NODE", "LINKS UP");
        for node in &self.nodes {
            let links: Vec<String> = node.links_up.iter().map(u8::to_string).collect();
            let links = if links.is_empty() {
                "-".to_owned()
            } else {
                links.join(",")
            };
            let reached = match &node.reached {
                Some(Reached::Direct) => "direct".to_owned(),
                Some(Reached::Through(relays)) => format!("through {}", clean(&relays.join(", "))),
                None => "no".to_owned(),
            };
            let joined = if node.joined { ", joined" } else { "" };
            // Writing to text does not fail.
            let _ = writeln!(
                out,
                "{:width$}  {links:8}  {reached}{joined}",
                clean(&node.name)
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> MembersReport {
        let node = |name: &str, reached: Option<Reached>| MemberStatus {
            name: name.to_owned(),
            joined: name == "n3",
            incarnation: reached.as_ref().map(|_| 3),
            links_up: if reached.is_some() {
                vec![0, 1]
            } else {
                Vec::new()
            },
            reached,
            switches: vec![None, None],
        };
        MembersReport {
            schema: 1,
            node: "n0".to_owned(),
            nodes: vec![
                node("n1", Some(Reached::Direct)),
                node("n2", None),
                node(
                    "n3",
                    Some(Reached::Through(vec!["n1".to_owned(), "n4".to_owned()])),
                ),
            ],
        }
    }

    #[test]
    fn programs_read_it_as_json() {
        let text = serde_json::to_string(&report()).unwrap();
        assert_eq!(
            text,
            "{\"schema\":1,\"node\":\"n0\",\"nodes\":[\
             {\"name\":\"n1\",\"joined\":false,\"incarnation\":3,\"links_up\":[0,1],\"reached\":\"direct\",\"switches\":[null,null]},\
             {\"name\":\"n2\",\"joined\":false,\"incarnation\":null,\"links_up\":[],\"reached\":null,\"switches\":[null,null]},\
             {\"name\":\"n3\",\"joined\":true,\"incarnation\":3,\"links_up\":[0,1],\"reached\":[\"n1\",\"n4\"],\"switches\":[null,null]}]}"
        );
        assert_eq!(
            serde_json::from_str::<MembersReport>(&text).unwrap(),
            report()
        );
        assert!(serde_json::from_str::<Reached>("\"somehow\"").is_err());
    }

    #[test]
    fn people_read_it_as_a_table() {
        assert_eq!(
            report().render(),
            "NODE  LINKS UP  REACHED\n\
             n1    0,1       direct\n\
             n2    -         no\n\
             n3    0,1       through n1, n4, joined\n"
        );
    }
}
