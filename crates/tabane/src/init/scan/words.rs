//! What `tabane init --scan` and `tabane init --answer` say to each other: one datagram each way, bounded, and an answer is never longer
//! than its question. Nothing in it is secret, and nothing of it is believed but as a proposal that a person confirms.
//!
//! ```text
//! magic "tabaneS1" (8) | kind (1) | asker (16) | answerer (16) | …
//! question:  padded with zeros to QUESTION_BYTES
//! answer:    name length (1), name | interface length (1), interface | addresses (1), each: 4 or 6 (1), address, prefix length (1)
//! written:   nothing more: the file is written, the answerer may end
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tabane_cluster::{INTERFACE_BYTES_MAX, NAME_BYTES_MAX, is_node_name};

const MAGIC: &[u8; 8] = b"tabaneS1";
/// A question is as long as the longest answer could be.
pub const QUESTION_BYTES: usize = 512;
/// Addresses of an interface that are told.
pub const ADDRESSES_MAX: usize = 8;

/// A random number of one run of the program.
pub type Run = [u8; 16];

/// One datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Words {
    /// Who is on this network?
    Question {
        /// The run that asks.
        asker: Run,
    },
    /// This one.
    Answer(Answer),
    /// The file is written: whoever answered may end. Only who had the answer knows the answerer's number.
    Written {
        /// The run that asked.
        asker: Run,
        /// The run that has answered.
        answerer: Run,
    },
}

/// Who is on a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The run that asked.
    pub asker: Run,
    /// The run that answers: one machine.
    pub answerer: Run,
    /// The machine's name, which can be a node's.
    pub name: String,
    /// Its interface on the network where the question was heard.
    pub interface: String,
    /// The addresses of that interface and the lengths of their networks, at most [`ADDRESSES_MAX`].
    pub addresses: Vec<(IpAddr, u8)>,
}

impl Words {
    /// As a datagram. Of an answer that is too long, as much is left out as must be.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        match self {
            Words::Question { asker } => {
                head(&mut bytes, 0, asker, &Run::default());
                bytes.resize(QUESTION_BYTES, 0);
            }
            Words::Answer(answer) => {
                head(&mut bytes, 1, &answer.asker, &answer.answerer);
                text(&mut bytes, &answer.name);
                text(&mut bytes, &answer.interface);
                let addresses = answer.addresses.iter().take(ADDRESSES_MAX);
                bytes.push(addresses.len() as u8);
                for (address, prefix) in addresses {
                    match address {
                        IpAddr::V4(v4) => {
                            bytes.push(4);
                            bytes.extend(v4.octets());
                        }
                        IpAddr::V6(v6) => {
                            bytes.push(6);
                            bytes.extend(v6.octets());
                        }
                    }
                    bytes.push(*prefix);
                }
            }
            Words::Written { asker, answerer } => head(&mut bytes, 2, asker, answerer),
        }
        bytes
    }

    /// `None`: it is none of ours, or says what nobody of ours says.
    pub fn parse(datagram: &[u8]) -> Option<Words> {
        if datagram.len() > QUESTION_BYTES {
            return None;
        }
        let mut rest = datagram.strip_prefix(MAGIC)?;
        let [kind] = take(&mut rest)?;
        let (asker, answerer): (Run, Run) = (take(&mut rest)?, take(&mut rest)?);
        match kind {
            0 if datagram.len() == QUESTION_BYTES
                && answerer == Run::default()
                && rest.iter().all(|byte| *byte == 0) =>
            {
                Some(Words::Question { asker })
            }
            1 => {
                let name = take_text(&mut rest, NAME_BYTES_MAX)?;
                let interface = take_text(&mut rest, INTERFACE_BYTES_MAX)?;
                let addresses = take_addresses(&mut rest)?;
                let is_right = is_node_name(&name) && is_interface(&interface) && rest.is_empty();
                is_right.then_some(Words::Answer(Answer {
                    asker,
                    answerer,
                    name,
                    interface,
                    addresses,
                }))
            }
            2 if rest.is_empty() => Some(Words::Written { asker, answerer }),
            _ => None,
        }
    }
}

fn head(bytes: &mut Vec<u8>, kind: u8, asker: &Run, answerer: &Run) {
    bytes.push(kind);
    bytes.extend(asker);
    bytes.extend(answerer);
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(text.len() as u8);
    bytes.extend(text.as_bytes());
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*first)
}

fn take_text(rest: &mut &[u8], bytes_max: usize) -> Option<String> {
    let [length] = take(rest)?;
    let (text, behind) = rest.split_at_checked(length.into())?;
    *rest = behind;
    let text = (text.len() <= bytes_max).then_some(text)?;
    String::from_utf8(text.to_vec()).ok()
}

fn take_addresses(rest: &mut &[u8]) -> Option<Vec<(IpAddr, u8)>> {
    let [count] = take(rest)?;
    if usize::from(count) > ADDRESSES_MAX {
        return None;
    }
    let mut addresses = Vec::new();
    for _ in 0..count {
        let (address, most): (IpAddr, u8) = match take(rest)? {
            [4] => (Ipv4Addr::from(take::<4>(rest)?).into(), 32),
            [6] => (Ipv6Addr::from(take::<16>(rest)?).into(), 128),
            _ => return None,
        };
        let [prefix] = take(rest)?;
        addresses.push(((prefix <= most).then_some(address)?, prefix));
    }
    Some(addresses)
}

/// It goes to a terminal.
fn is_interface(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && c != '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        Answer {
            asker: [7; 16],
            answerer: [9; 16],
            name: "n1".to_owned(),
            interface: "eth0".to_owned(),
            addresses: vec![
                ("10.77.0.2".parse().unwrap(), 24),
                ("fd77::2".parse().unwrap(), 64),
            ],
        }
    }

    #[test]
    fn what_is_said_is_understood() {
        let (asker, answerer) = ([7; 16], [9; 16]);
        for words in [
            Words::Question { asker },
            Words::Answer(answer()),
            Words::Written { asker, answerer },
        ] {
            assert_eq!(Words::parse(&words.encode()), Some(words));
        }
    }

    #[test]
    fn the_longest_answer_is_no_longer_than_a_question() {
        let longest = Words::Answer(Answer {
            name: "n".repeat(NAME_BYTES_MAX),
            interface: "e".repeat(INTERFACE_BYTES_MAX),
            addresses: vec![("fd77::2".parse().unwrap(), 128); ADDRESSES_MAX],
            ..answer()
        });
        assert!(longest.encode().len() <= QUESTION_BYTES);
        assert_eq!(Words::parse(&longest.encode()), Some(longest));
        let question = Words::Question { asker: [7; 16] };
        assert_eq!(question.encode().len(), QUESTION_BYTES);
    }

    #[test]
    fn forged_words_are_not_understood() {
        let with = |change: &dyn Fn(&mut Answer)| {
            let mut forged = answer();
            change(&mut forged);
            Words::parse(&Words::Answer(forged).encode())
        };
        for name in [
            "",
            "-n",
            "a b",
            "a\"\nkey",
            "localhost",
            "10.0.0.1",
            "\u{1b}[2J",
        ] {
            assert_eq!(with(&|it| it.name = name.to_owned()), None, "{name:?}");
        }
        assert_eq!(with(&|it| it.name = "n".repeat(64)), None);
        for interface in ["", "eth 0", "\u{1b}[2J", "a/b", "0123456789abcdef"] {
            assert_eq!(with(&|it| it.interface = interface.to_owned()), None);
        }
        assert_eq!(with(&|it| it.addresses[0].1 = 33), None);
        // Cut short or longer at any place, nothing is understood, and nothing panics.
        let whole = Words::Answer(answer()).encode();
        for length in 0..whole.len() {
            assert_eq!(Words::parse(&whole[..length]), None);
        }
        assert_eq!(Words::parse(&[&whole[..], b"x"].concat()), None);
        let question = Words::Question { asker: [7; 16] }.encode();
        assert_eq!(
            Words::parse(&question[..QUESTION_BYTES - 1]),
            None,
            "it would amplify"
        );
        // Whatever single byte is another one: what is understood is what would be said.
        for place in 0..whole.len() {
            for byte in 0..=255 {
                let mut forged = whole.clone();
                forged[place] = byte;
                if let Some(words) = Words::parse(&forged) {
                    assert_eq!(words.encode(), forged);
                }
            }
        }
    }
}
