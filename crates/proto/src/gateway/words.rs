//! Messages between nodes and gateways, one message of the bundle each (docs/protocol.md, 9.11). Numbers are big endian.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::command::Command;
use super::election::{Stamp, Word};
use super::ports::{Claim, Family, Port, Refused, Transport};
use super::throttle::Shifts;
use super::tracker::Ends;
use crate::wire::{NodeId, Reader};

/// The tag of messages that are such words: "GATE".
pub const TAG: u64 = 0x4741_5445;
const VERSION: u8 = 1;

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// Of the election.
    Election(Word),
    /// To the gateway: a program wants a port.
    Claim {
        /// For the answer; 0 wants none.
        id: u32,
        /// Which; of number 0 any that is free.
        port: Port,
        /// For whom.
        claim: Claim,
    },
    /// The answer: the number of the port.
    Claimed {
        /// The question's id.
        id: u32,
        /// Or why not.
        result: Result<u16, Refused>,
    },
    /// To the gateway: a port is given back, claimed once less.
    Released {
        /// Which.
        port: Port,
    },
    /// To a gateway that has just begun to serve: a conversation that stands.
    Stands {
        /// As the node has it.
        inside: Ends,
        /// Its port outside.
        outer: u16,
        /// By how many bits the windows of both ends are shifted, if that is known.
        shifts: Option<Shifts>,
    },
    /// End of that list.
    Told,
    /// From the gateway: a conversation's outside port differs from its inside port.
    Translated {
        /// As the node has it.
        inside: Ends,
        /// Its port outside.
        outer: u16,
    },
    /// To the gateway: a conversation is over, for its program is.
    Over {
        /// As the node has it.
        inside: Ends,
    },
    /// From a gateway to all: whether it could serve.
    Able {
        /// It has its device, and the right to use it.
        is_able: bool,
    },
    /// To the gateway: another one is to serve.
    Move {
        /// That one; else the next one that can.
        to: Option<NodeId>,
    },
    /// To the gateway: who has a port?
    Whose {
        /// For the answer.
        id: u32,
        /// Which.
        port: Port,
    },
    /// The answer.
    Has {
        /// The question's id.
        id: u32,
        /// The node for the next connection; `None`: nobody has the port.
        node: Option<NodeId>,
    },
    /// To the gateway: the name of the program that has a port there. Gateways that do not know this message ignore it.
    Named {
        /// Which.
        port: Port,
        /// The program.
        command: Command,
    },
}

const ASK: u8 = 0;
const LENT: u8 = 1;
const LET_GO: u8 = 2;
const SERVES: u8 = 3;
const CLAIM: u8 = 4;
const CLAIMED: u8 = 5;
const RELEASED: u8 = 6;
const STANDS: u8 = 7;
const TOLD: u8 = 8;
const TRANSLATED: u8 = 9;
const OVER: u8 = 10;
const ABLE: u8 = 11;
const MOVE: u8 = 12;
const WHOSE: u8 = 13;
const HAS: u8 = 14;
const NAMED: u8 = 15;

/// Encodes an absent number.
const NONE: u8 = 0;
const SOME: u8 = 1;
const IN_USE: u8 = 1;
const TOO_MANY: u8 = 2;

impl Said {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        match *self {
            Said::Election(word) => put_word(&mut bytes, word),
            Said::Claim { id, port, claim } => {
                bytes.push(CLAIM);
                bytes.extend(id.to_be_bytes());
                put_port(&mut bytes, port);
                bytes.extend(claim.user.to_be_bytes());
                bytes.push(claim.is_shared.into());
            }
            Said::Claimed { id, result } => {
                bytes.push(CLAIMED);
                bytes.extend(id.to_be_bytes());
                let (why, number) = match result {
                    Ok(number) => (NONE, number),
                    Err(Refused::InUse) => (IN_USE, 0),
                    Err(Refused::TooMany) => (TOO_MANY, 0),
                };
                bytes.push(why);
                bytes.extend(number.to_be_bytes());
            }
            Said::Released { port } => {
                bytes.push(RELEASED);
                put_port(&mut bytes, port);
            }
            Said::Stands {
                inside,
                outer,
                shifts,
            } => {
                bytes.push(STANDS);
                put_ends(&mut bytes, inside);
                bytes.extend(outer.to_be_bytes());
                bytes.extend(shifts.map_or([NONE, 0, 0], |shifts| [SOME, shifts.own, shifts.far]));
            }
            Said::Told => bytes.push(TOLD),
            Said::Translated { inside, outer } => {
                bytes.push(TRANSLATED);
                put_ends(&mut bytes, inside);
                bytes.extend(outer.to_be_bytes());
            }
            Said::Over { inside } => {
                bytes.push(OVER);
                put_ends(&mut bytes, inside);
            }
            Said::Able { is_able } => bytes.extend([ABLE, is_able.into()]),
            Said::Move { to } => {
                bytes.push(MOVE);
                put_number(&mut bytes, to.map(|to| to.0));
            }
            Said::Whose { id, port } => {
                bytes.push(WHOSE);
                bytes.extend(id.to_be_bytes());
                put_port(&mut bytes, port);
            }
            Said::Has { id, node } => {
                bytes.push(HAS);
                bytes.extend(id.to_be_bytes());
                put_number(&mut bytes, node.map(|node| node.0));
            }
            Said::Named { port, command } => {
                bytes.push(NAMED);
                put_port(&mut bytes, port);
                bytes.extend(command.as_bytes());
            }
        }
        bytes
    }

    /// Parses a message; `None` if it is malformed, or of another version.
    pub fn parse(message: &[u8]) -> Option<Said> {
        let mut rest = Reader::new(message);
        if rest.u8().ok()? != VERSION {
            return None;
        }
        let kind = rest.u8().ok()?;
        let said = match kind {
            ASK | LENT | LET_GO | SERVES => Said::Election(take_word(kind, &mut rest)?),
            CLAIM => Said::Claim {
                id: rest.u32().ok()?,
                port: take_port(&mut rest)?,
                claim: Claim {
                    user: rest.u32().ok()?,
                    is_shared: take_bool(&mut rest)?,
                },
            },
            CLAIMED => {
                let id = rest.u32().ok()?;
                let why = rest.u8().ok()?;
                let number = rest.u16().ok()?;
                let result = match (why, number) {
                    (NONE, number) => Ok(number),
                    (IN_USE, 0) => Err(Refused::InUse),
                    (TOO_MANY, 0) => Err(Refused::TooMany),
                    _ => return None,
                };
                Said::Claimed { id, result }
            }
            RELEASED => Said::Released {
                port: take_port(&mut rest)?,
            },
            STANDS => Said::Stands {
                inside: take_ends(&mut rest)?,
                outer: rest.u16().ok()?,
                shifts: match rest.array().ok()? {
                    [NONE, 0, 0] => None,
                    [SOME, own, far] => Some(Shifts { own, far }),
                    _ => return None,
                },
            },
            TOLD => Said::Told,
            TRANSLATED => Said::Translated {
                inside: take_ends(&mut rest)?,
                outer: rest.u16().ok()?,
            },
            OVER => Said::Over {
                inside: take_ends(&mut rest)?,
            },
            ABLE => Said::Able {
                is_able: take_bool(&mut rest)?,
            },
            MOVE => Said::Move {
                to: take_number(&mut rest)?.map(NodeId),
            },
            WHOSE => Said::Whose {
                id: rest.u32().ok()?,
                port: take_port(&mut rest)?,
            },
            HAS => Said::Has {
                id: rest.u32().ok()?,
                node: take_number(&mut rest)?.map(NodeId),
            },
            NAMED => Said::Named {
                port: take_port(&mut rest)?,
                command: Command::parse(rest.take(rest.remaining()).ok()?)?,
            },
            _ => return None,
        };
        (rest.remaining() == 0).then_some(said)
    }
}

fn take_bool(rest: &mut Reader<'_>) -> Option<bool> {
    match rest.array().ok()? {
        [NONE] => Some(false),
        [SOME] => Some(true),
        _ => None,
    }
}

fn put_number(bytes: &mut Vec<u8>, number: Option<u64>) {
    bytes.push(if number.is_some() { SOME } else { NONE });
    bytes.extend(number.unwrap_or_default().to_be_bytes());
}

fn take_number(rest: &mut Reader<'_>) -> Option<Option<u64>> {
    let is_there = take_bool(rest)?;
    let number = rest.u64().ok()?;
    match is_there {
        true => Some(Some(number)),
        false => (number == 0).then_some(None),
    }
}

fn put_stamp(bytes: &mut Vec<u8>, stamp: Stamp) {
    bytes.extend(stamp.life.to_be_bytes());
    bytes.extend(stamp.at_ns.to_be_bytes());
}

fn take_stamp(rest: &mut Reader<'_>) -> Option<Stamp> {
    Some(Stamp {
        life: rest.u64().ok()?,
        at_ns: rest.u64().ok()?,
    })
}

fn put_word(bytes: &mut Vec<u8>, word: Word) {
    match word {
        Word::Ask { stamp, serves } => {
            bytes.push(ASK);
            put_stamp(bytes, stamp);
            put_number(bytes, serves);
        }
        Word::Lent { stamp, term } => {
            bytes.push(LENT);
            put_stamp(bytes, stamp);
            bytes.extend(term.to_be_bytes());
        }
        Word::Released { stamp, to } => {
            bytes.push(LET_GO);
            put_stamp(bytes, stamp);
            put_number(bytes, to.map(|to| to.0));
        }
        Word::Serves { term } => {
            bytes.push(SERVES);
            bytes.extend(term.to_be_bytes());
        }
    }
}

fn take_word(kind: u8, rest: &mut Reader<'_>) -> Option<Word> {
    Some(match kind {
        ASK => Word::Ask {
            stamp: take_stamp(rest)?,
            serves: take_number(rest)?,
        },
        LENT => Word::Lent {
            stamp: take_stamp(rest)?,
            term: rest.u64().ok()?,
        },
        LET_GO => Word::Released {
            stamp: take_stamp(rest)?,
            to: take_number(rest)?.map(NodeId),
        },
        _ => Word::Serves {
            term: rest.u64().ok()?,
        },
    })
}

const fn number_of(transport: Transport) -> u8 {
    match transport {
        Transport::Tcp => 6,
        Transport::Udp => 17,
        Transport::Echo => 1,
    }
}

fn take_transport(rest: &mut Reader<'_>) -> Option<Transport> {
    // Those of their protocols.
    match rest.array().ok()? {
        [6] => Some(Transport::Tcp),
        [17] => Some(Transport::Udp),
        [1] => Some(Transport::Echo),
        _ => None,
    }
}

fn put_port(bytes: &mut Vec<u8>, port: Port) {
    bytes.push(number_of(port.transport));
    bytes.push(match port.family {
        Family::V4 => 4,
        Family::V6 => 6,
    });
    bytes.extend(port.number.to_be_bytes());
}

fn take_port(rest: &mut Reader<'_>) -> Option<Port> {
    Some(Port {
        transport: take_transport(rest)?,
        family: match rest.array().ok()? {
            [4] => Family::V4,
            [6] => Family::V6,
            _ => return None,
        },
        number: rest.u16().ok()?,
    })
}

fn put_ends(bytes: &mut Vec<u8>, ends: Ends) {
    put_port(bytes, ends.port());
    match ends.far.ip() {
        IpAddr::V4(v4) => bytes.extend(v4.octets()),
        IpAddr::V6(v6) => bytes.extend(v6.octets()),
    }
    bytes.extend(ends.far.port().to_be_bytes());
}

fn take_ends(rest: &mut Reader<'_>) -> Option<Ends> {
    let port = take_port(rest)?;
    let ip: IpAddr = match port.family {
        Family::V4 => Ipv4Addr::from(rest.array::<4>().ok()?).into(),
        Family::V6 => Ipv6Addr::from(rest.array::<16>().ok()?).into(),
    };
    Some(Ends {
        transport: port.transport,
        own: port.number,
        far: SocketAddr::new(ip, rest.u16().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        life: 0x0102_0304_0506_0708,
        at_ns: 9,
    };

    fn all() -> Vec<Said> {
        let ends = |far: &str| Ends {
            transport: Transport::Tcp,
            own: 80,
            far: far.parse().unwrap(),
        };
        let (v4, v6) = (ends("198.51.100.7:5000"), ends("[2001:db8::7]:5000"));
        let claim = |is_shared| Claim {
            user: 1000,
            is_shared,
        };
        let mut all: Vec<_> = [
            Word::Ask {
                stamp: STAMP,
                serves: Some(7),
            },
            Word::Ask {
                stamp: STAMP,
                serves: None,
            },
            Word::Lent {
                stamp: STAMP,
                term: 7,
            },
            Word::Released {
                stamp: STAMP,
                to: Some(NodeId(5)),
            },
            Word::Released {
                stamp: STAMP,
                to: None,
            },
            Word::Serves { term: 7 },
        ]
        .map(Said::Election)
        .into();
        for (port, is_shared) in [(v4.port(), true), (v6.port(), false)] {
            all.push(Said::Claim {
                id: 3,
                port,
                claim: claim(is_shared),
            });
            all.push(Said::Released { port });
        }
        for result in [Ok(80), Err(Refused::InUse), Err(Refused::TooMany)] {
            all.push(Said::Claimed { id: 3, result });
        }
        for (inside, shifts) in [(v4, Some(Shifts { own: 7, far: 9 })), (v6, None)] {
            all.push(Said::Stands {
                inside,
                outer: 81,
                shifts,
            });
            all.push(Said::Translated { inside, outer: 81 });
            all.push(Said::Over { inside });
        }
        for node in [None, Some(NodeId(5))] {
            all.push(Said::Move { to: node });
            all.push(Said::Has { id: 3, node });
        }
        let (id, port) = (3, v4.port());
        all.push(Said::Whose { id, port });
        all.push(Said::Able { is_able: true });
        // One byte: a longer name, cut, leaves a valid shorter one.
        let command = Command::new("x").unwrap();
        all.push(Said::Named { port, command });
        all.push(Said::Told);
        all
    }

    #[test]
    fn what_is_said_is_heard_and_nothing_less_or_more() {
        for said in all() {
            let bytes = said.encode();
            assert_eq!(Said::parse(&bytes), Some(said));
            for cut in 0..bytes.len() {
                assert_eq!(Said::parse(&bytes[..cut]), None, "{said:?}");
            }
            assert_eq!(Said::parse(&[&bytes[..], &[0]].concat()), None);
        }
    }

    /// Other implementations have these bytes, and older daemons (docs/protocol.md, 9.11).
    #[test]
    fn a_name_is_said_in_these_bytes() {
        let port = Port {
            transport: Transport::Tcp,
            family: Family::V6,
            number: 443,
        };
        let command = Command::new("nginx").unwrap();
        let bytes = b"\x01\x0f\x06\x06\x01\xbbnginx";
        assert_eq!(Said::Named { port, command }.encode(), bytes);
        assert_eq!(Said::parse(b"\x01\x0f\x06\x06\x01\xbb"), None, "no name");
        assert_eq!(Said::parse(b"\x01\x0f\x06\x06\x01\xbbng\ninx"), None);
        let long = [&bytes[..6], &[b'x'; 65]].concat();
        assert_eq!(Said::parse(&long), None);
        assert!(Said::parse(&long[..70]).is_some());
    }

    #[test]
    fn whatever_is_understood_has_one_form() {
        let mut random = crate::Random::from_seed([3; 32]);
        for said in all() {
            let bytes = said.encode();
            for _ in 0..2000 {
                let mut changed = bytes.clone();
                let at = random.below(changed.len() as u64) as usize;
                changed[at] = random.u32() as u8;
                if let Some(other) = Said::parse(&changed) {
                    assert_eq!(other.encode(), changed);
                }
            }
        }
    }
}
