//! What a person says to a proposal: yes or no to each machine, or another name for it.

use std::io::{BufRead, Write};
use std::net::IpAddr;

use tabane_cluster::{RIGHT_NAME, is_node_name};

use super::links::{Found, Proposal};

/// The nodes that are taken.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken(pub Vec<Found>);

impl Taken {
    /// All of it, without asking.
    pub fn all(proposal: &Proposal) -> Taken {
        Taken(proposal.nodes.clone())
    }
}

/// Asks for each machine.
///
/// # Errors
/// Nothing is left to be written, or nobody answers: in words.
pub fn confirm(
    proposal: &Proposal,
    person: &mut impl BufRead,
    shown: &mut impl Write,
) -> Result<Taken, String> {
    let broken = |_| "the terminal is gone; nothing was written".to_owned();
    let networks = proposal.interfaces.iter().enumerate();
    for (number, interface) in networks {
        writeln!(shown, "Network {number}: {interface} of this machine.").map_err(broken)?;
    }
    let mut taken: Vec<Found> = Vec::new();
    for (index, (name, links)) in proposal.nodes.iter().enumerate() {
        let whose = match index {
            0 => ", this machine",
            _ => "",
        };
        loop {
            write!(
                shown,
                "{name} = {}{whose}. Take it? [Y, n, or another name] ",
                words(links)
            )
            .and_then(|()| shown.flush())
            .map_err(broken)?;
            let said = line(person)?;
            let name = match said.as_str() {
                "" | "y" | "Y" | "yes" => name.clone(),
                "n" | "N" | "no" => break,
                other => other.to_owned(),
            };
            let is_free = !taken.iter().any(|(has, _)| has.eq_ignore_ascii_case(&name));
            if is_node_name(&name) && is_free {
                taken.push((name, links.clone()));
                break;
            }
            let why = match is_free {
                true => RIGHT_NAME,
                false => "another machine has this name",
            };
            writeln!(shown, "{why}").map_err(broken)?;
        }
    }
    match taken.len() {
        0 | 1 => Err("a cluster has two nodes at least; nothing was written".to_owned()),
        _ => Ok(Taken(taken)),
    }
}

/// What was said, without what is around it.
fn line(person: &mut impl BufRead) -> Result<String, String> {
    let mut said = String::new();
    match person.read_line(&mut said) {
        Ok(1..) => Ok(said.trim().to_owned()),
        Ok(0) | Err(_) => Err(
            "nobody said yes; nothing was written (`--yes` takes all that is proposed)".to_owned(),
        ),
    }
}

fn words(links: &[Option<IpAddr>]) -> String {
    let link = |link: &Option<IpAddr>| link.map_or_else(|| "-".to_owned(), |ip| ip.to_string());
    links.iter().map(link).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal() -> Proposal {
        let links = |n: u8| vec![Some(IpAddr::from([10, 77, 0, n])), None];
        Proposal {
            nodes: vec![
                ("a".to_owned(), links(1)),
                ("b".to_owned(), links(2)),
                ("c".to_owned(), links(3)),
            ],
            interfaces: vec!["eth0".to_owned(), "eth1".to_owned()],
            warnings: Vec::new(),
        }
    }

    /// The names that are taken if this is said, and what was shown.
    fn said(words: &str) -> (Result<Vec<String>, String>, String) {
        let mut shown = Vec::new();
        let taken = confirm(&proposal(), &mut words.as_bytes(), &mut shown);
        let names = taken.map(|Taken(taken)| taken.into_iter().map(|(name, _)| name).collect());
        (names, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn each_machine_is_taken_left_out_or_renamed() {
        let (taken, shown) = said("\nn\nstorage\n");
        assert_eq!(taken.unwrap(), ["a", "storage"]);
        assert!(
            shown.starts_with("Network 0: eth0 of this machine.\n"),
            "{shown}"
        );
        assert!(
            shown.contains("a = 10.77.0.1, -, this machine. Take it?"),
            "{shown}"
        );
    }

    #[test]
    fn a_name_that_is_none_or_taken_is_asked_for_again() {
        let (taken, shown) = said("y\nA\n-x\nb\nyes\n");
        assert_eq!(taken.unwrap(), ["a", "b", "c"]);
        assert!(shown.contains("another machine has this name"), "{shown}");
        assert!(shown.contains("a name has 1 to 63 letters"), "{shown}");
    }

    #[test]
    fn without_an_answer_nothing_is_written() {
        let (taken, _) = said("y\ny\n");
        assert!(taken.unwrap_err().contains("nobody said yes"));
        let (taken, _) = said("y\nn\nn\n");
        assert!(taken.unwrap_err().contains("two nodes at least"));
    }
}
