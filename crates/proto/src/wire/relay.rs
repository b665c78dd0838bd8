//! Records of relays: extensions (`docs/protocol.md`, 7.13), written and read side by side.

use super::codec::EXTENSION_HEADER_BYTES;
use super::{Name, Reader, Switches, WireError, Writer};
use crate::limits::{DATAGRAM_BYTES_MAX, RELAYS_MAX};

/// The first byte of each.
mod code {
    /// A datagram on its way through other nodes.
    pub const RELAYED: u8 = 0x50;
    /// Whom a node reaches.
    pub const REACH: u8 = 0x51;
    /// Somebody seeks a way to a node.
    pub const SOUGHT: u8 = 0x54;
    /// A node cannot relay something.
    pub const REFUSED: u8 = 0x60;
    /// Whether two nodes that are connected through others may use their links.
    pub const LINKS: u8 = 0x61;
}

/// The most nodes of a way: sender, relays, receiver.
pub const STEPS_MAX: usize = RELAYS_MAX + 2;
/// Bytes of a node's number.
const NODE_ID_BYTES: usize = 8;
/// Bytes before the nodes of a way.
const STEPS_HEADER_BYTES: usize = 2;
/// The shortest datagram there is: a plain packet without records.
const DATAGRAM_BYTES_LEAST: usize = 20;
/// Nodes that a [`Reach`] names at most: it fits into the smallest datagram.
pub const REACH_NODES_MAX: usize = 53;
/// Bytes of a [`Reach`] before its switches and nodes.
const REACH_HEADER_BYTES: usize = 18;

/// Names a node in records: the first eight bytes of SHA-256 of its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The id of the node with this name.
    pub fn of(name: &Name) -> NodeId {
        let digest = ring::digest::digest(&ring::digest::SHA256, name.as_str().as_bytes());
        let mut first = [0; NODE_ID_BYTES];
        first.copy_from_slice(&digest.as_ref()[..NODE_ID_BYTES]);
        NodeId(u64::from_be_bytes(first))
    }
}

/// The nodes of a way, and which of them has the packet now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    nodes: [NodeId; STEPS_MAX],
    count: u8,
    /// The index of the record's receiver.
    pub at: u8,
}

impl Steps {
    /// The way over these nodes: sender, 1 to [`RELAYS_MAX`] relays, receiver.
    ///
    /// # Errors
    /// There are too few or too many, or one comes twice, which would be a loop.
    pub fn new(nodes: &[NodeId], at: u8) -> Result<Steps, WireError> {
        let twice = |(i, node): (usize, &NodeId)| nodes[..i].contains(node);
        let is_loop = nodes.iter().enumerate().any(twice);
        if !(3..=STEPS_MAX).contains(&nodes.len()) || is_loop || usize::from(at) >= nodes.len() {
            return Err(WireError::BadValue);
        }
        let mut all = [NodeId(0); STEPS_MAX];
        all[..nodes.len()].copy_from_slice(nodes);
        Ok(Steps {
            nodes: all,
            count: nodes.len() as u8,
            at,
        })
    }

    /// All nodes, in order.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes[..usize::from(self.count)]
    }

    /// The sender of traffic that goes this way.
    pub const fn first(&self) -> NodeId {
        self.nodes[0]
    }

    /// The node this many places behind the record's receiver; before, if negative.
    pub fn beside(&self, places: isize) -> Option<NodeId> {
        let place = usize::from(self.at).checked_add_signed(places)?;
        self.nodes().get(place).copied()
    }

    /// The way as the previous node receives it; `None` at the beginning of the way.
    pub fn back(mut self) -> Option<Steps> {
        self.at = self.at.checked_sub(1)?;
        Some(self)
    }

    fn read(r: &mut Reader<'_>) -> Result<Steps, WireError> {
        let (at, count) = (r.u8()?, usize::from(r.u8()?));
        let mut nodes = [NodeId(0); STEPS_MAX];
        let nodes = nodes.get_mut(..count).ok_or(WireError::BadValue)?;
        for node in nodes.iter_mut() {
            *node = NodeId(r.u64()?);
        }
        Steps::new(nodes, at)
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.put(&[self.at, self.count]);
        self.nodes().iter().for_each(|node| w.u64(node.0));
    }

    const fn encoded_len(&self) -> usize {
        STEPS_HEADER_BYTES + NODE_ID_BYTES * self.count as usize
    }
}

/// Why a node does not relay something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RefusedWhy {
    /// It does not reach the next node.
    Unreached = 0,
    /// It relays for nobody.
    Unwilling = 1,
}

/// Whom a node reaches over a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    /// The node.
    pub node: NodeId,
    /// Version of the node's statement: older ones than the known one are ignored.
    pub version: u64,
    /// Its links that are up, a bit each.
    pub links: u8,
    /// It does not relay for others.
    pub unwilling: bool,
    /// `nodes` lists those that it does *not* reach.
    pub all_but: bool,
    /// On which switches it is, if a survey has told it.
    pub switches: Option<Switches>,
    /// Ascending; [`REACH_NODES_MAX`] at most.
    pub nodes: Box<[NodeId]>,
}

impl Reach {
    /// Whether the node says that it reaches `other`.
    pub fn reaches(&self, other: NodeId) -> bool {
        self.nodes.binary_search(&other).is_ok() != self.all_but
    }

    /// How many bytes [`write`](Reach::write) appends.
    pub fn encoded_len(&self) -> usize {
        let switches = self.switches.as_ref().map_or(0, Switches::encoded_len);
        EXTENSION_HEADER_BYTES + REACH_HEADER_BYTES + switches + NODE_ID_BYTES * self.nodes.len()
    }

    /// Appends it as a record.
    pub fn write(&self, w: &mut Writer<'_>) {
        w.u8(code::REACH);
        w.u16((self.encoded_len() - EXTENSION_HEADER_BYTES) as u16);
        w.u64(self.node.0);
        w.u64(self.version);
        let marks = [self.all_but, self.unwilling, self.switches.is_some()];
        let marks = (0..).zip(marks).map(|(bit, mark)| u8::from(mark) << bit);
        w.put(&[self.links, marks.sum()]);
        self.switches.iter().for_each(|switches| switches.write(w));
        self.nodes.iter().for_each(|node| w.u64(node.0));
    }

    fn read(r: &mut Reader<'_>) -> Result<Reach, WireError> {
        let (node, version) = (NodeId(r.u64()?), r.u64()?);
        if version == 0 {
            return Err(WireError::BadValue);
        }
        let (links, marks) = (r.u8()?, r.u8()?);
        let has_switches = marks & 4 != 0;
        let switches = has_switches.then(|| Switches::read(r)).transpose()?;
        let count = r.remaining() / NODE_ID_BYTES;
        if marks > 7 || count > REACH_NODES_MAX {
            return Err(WireError::BadValue);
        }
        let mut nodes = Vec::with_capacity(count);
        while r.remaining() > 0 {
            nodes.push(NodeId(r.u64()?));
        }
        if !nodes.is_sorted_by(|a, b| a < b) {
            return Err(WireError::BadValue);
        }
        Ok(Reach {
            node,
            version,
            links,
            unwilling: marks & 2 != 0,
            all_but: marks & 1 != 0,
            switches,
            nodes: nodes.into(),
        })
    }
}

/// One record of relays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RelayRecord<'a> {
    /// A datagram of a bundle between the ends of the way.
    Relayed {
        /// By which nodes it goes.
        steps: Steps,
        /// The datagram, which is opaque to the relays.
        datagram: &'a [u8],
    },
    /// Whom a node reaches.
    Reach(Reach),
    /// The sender seeks a way to a node.
    Sought {
        /// The node.
        name: Name,
    },
    /// Goes back to the sender of something on the way `steps`.
    Refused {
        /// The way; this record's receiver precedes the node that refuses.
        steps: Steps,
        /// The index of the node that refuses.
        by: u8,
        /// Why.
        why: RefusedWhy,
    },
}

/// Bytes that a way over this many relays adds to a datagram.
pub const fn relayed_header_bytes(relays: usize) -> usize {
    EXTENSION_HEADER_BYTES + STEPS_HEADER_BYTES + NODE_ID_BYTES * (relays + 2)
}

/// The data of a [`RelayRecord::Relayed`], after type and length; write it with [`write_relayed`].
pub fn relayed_data(steps: &Steps, datagram: &[u8]) -> Vec<u8> {
    let mut data = vec![0; steps.encoded_len() + datagram.len()];
    let mut w = Writer::new(&mut data);
    steps.write(&mut w);
    w.put(datagram);
    data
}

/// Notes in the data of a [`RelayRecord::Relayed`] that it goes one step further.
pub fn advance(data: &mut [u8]) {
    if let Some(at) = data.first_mut() {
        *at = at.saturating_add(1);
    }
}

/// Appends a [`RelayRecord::Relayed`] of this data.
pub fn write_relayed(data: &[u8], w: &mut Writer<'_>) {
    w.u8(code::RELAYED);
    w.u16(data.len() as u16);
    w.put(data);
}

impl<'a> RelayRecord<'a> {
    /// The type of [`RelayRecord::Relayed`].
    pub const RELAYED: u8 = code::RELAYED;
    /// The type of a record of one byte: 0 asks for the links between both ends, 1 gives them, 2 refuses.
    pub const LINKS: u8 = code::LINKS;

    /// Whether the extension `code` is one of these.
    pub const fn is_one(code: u8) -> bool {
        matches!(
            code,
            code::RELAYED | code::REACH | code::SOUGHT | code::REFUSED
        )
    }

    /// The record of an extension.
    ///
    /// # Errors
    /// Cut short, or a field out of its range.
    pub fn read(code: u8, data: &'a [u8]) -> Result<RelayRecord<'a>, WireError> {
        let mut r = Reader::new(data);
        match code {
            code::RELAYED => {
                let steps = Steps::read(&mut r)?;
                let datagram = r.take(r.remaining())?;
                let sane = DATAGRAM_BYTES_LEAST..=DATAGRAM_BYTES_MAX;
                match steps.at > 0 && sane.contains(&datagram.len()) {
                    true => Ok(RelayRecord::Relayed { steps, datagram }),
                    false => Err(WireError::BadValue),
                }
            }
            code::REACH => Ok(RelayRecord::Reach(Reach::read(&mut r)?)),
            code::SOUGHT => {
                let name = core::str::from_utf8(data).map_err(|_| WireError::BadValue)?;
                let name = Name::new(name).map_err(|_| WireError::BadValue)?;
                Ok(RelayRecord::Sought { name })
            }
            code::REFUSED => {
                let steps = Steps::read(&mut r)?;
                let (by, why) = (r.u8()?, r.u8()?);
                let why = match why {
                    0 => RefusedWhy::Unreached,
                    1 => RefusedWhy::Unwilling,
                    _ => return Err(WireError::BadValue),
                };
                let refuser = usize::from(by);
                let relays = 1..steps.nodes().len() - 1;
                let is_on_way = relays.contains(&refuser) && usize::from(steps.at) < refuser;
                match is_on_way && r.remaining() == 0 {
                    true => Ok(RelayRecord::Refused { steps, by, why }),
                    false => Err(WireError::BadValue),
                }
            }
            _ => Err(WireError::BadRecord),
        }
    }

    /// How many bytes [`write`](RelayRecord::write) appends.
    pub fn encoded_len(&self) -> usize {
        let data = match self {
            RelayRecord::Relayed { steps, datagram } => steps.encoded_len() + datagram.len(),
            RelayRecord::Reach(reach) => return reach.encoded_len(),
            RelayRecord::Sought { name } => name.as_str().len(),
            RelayRecord::Refused { steps, .. } => steps.encoded_len() + 2,
        };
        EXTENSION_HEADER_BYTES + data
    }

    /// Appends the record. The caller has checked the room.
    pub fn write(&self, w: &mut Writer<'_>) {
        match self {
            RelayRecord::Relayed { steps, datagram } => {
                write_relayed(&relayed_data(steps, datagram), w);
            }
            RelayRecord::Reach(reach) => reach.write(w),
            RelayRecord::Sought { name } => {
                w.u8(code::SOUGHT);
                w.u16(name.as_str().len() as u16);
                w.put(name.as_str().as_bytes());
            }
            RelayRecord::Refused { steps, by, why } => {
                w.u8(code::REFUSED);
                w.u16(steps.encoded_len() as u16 + 2);
                steps.write(w);
                w.put(&[*by, *why as u8]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LINKS_MAX;

    const NODES: [NodeId; 5] = [NodeId(5), NodeId(1), NodeId(4), NodeId(2), NodeId(3)];

    fn written(record: &RelayRecord<'_>) -> Vec<u8> {
        let mut buffer = [0; 1500];
        let mut w = Writer::new(&mut buffer);
        record.write(&mut w);
        let len = w.len();
        buffer[..len].to_vec()
    }

    fn read(bytes: &[u8]) -> Result<RelayRecord<'_>, WireError> {
        let len = usize::from(u16::from_be_bytes([bytes[1], bytes[2]]));
        assert_eq!(len, bytes.len() - EXTENSION_HEADER_BYTES);
        assert!(RelayRecord::is_one(bytes[0]));
        RelayRecord::read(bytes[0], &bytes[EXTENSION_HEADER_BYTES..])
    }

    fn reach(nodes: &[u64], all_but: bool) -> Reach {
        Reach {
            node: NodeId(9),
            version: 7,
            links: 3,
            unwilling: true,
            all_but,
            switches: None,
            nodes: nodes.iter().copied().map(NodeId).collect(),
        }
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        for count in 3..=STEPS_MAX {
            let steps = Steps::new(&NODES[..count], 1).unwrap();
            let datagram = &[8; 400][..];
            let relayed = RelayRecord::Relayed { steps, datagram };
            let bytes = written(&relayed);
            assert_eq!(bytes.len(), relayed_header_bytes(count - 2) + 400);
            assert_eq!(read(&bytes), Ok(relayed));
            let (by, why) = (count as u8 - 2, RefusedWhy::Unwilling);
            let steps = Steps { at: 0, ..steps };
            let refused = RelayRecord::Refused { steps, by, why };
            assert_eq!(read(&written(&refused)), Ok(refused));
        }
        for all_but in [false, true] {
            let mut reach = reach(&[1, 2, 9], all_but);
            for known in 0..=LINKS_MAX {
                let record = RelayRecord::Reach(reach.clone());
                assert_eq!(read(&written(&record)), Ok(record));
                let of = core::array::from_fn(|link| (link < known).then_some(7));
                reach.switches = Some(Switches { survey: 3, of });
            }
        }
    }

    #[test]
    fn a_reach_of_either_form_answers_whom_the_node_reaches() {
        let (these, others) = (reach(&[1, 3], false), reach(&[1, 3], true));
        for node in 0..5 {
            let is_named = node == 1 || node == 3;
            assert_eq!(these.reaches(NodeId(node)), is_named);
            assert_eq!(others.reaches(NodeId(node)), !is_named);
        }
    }

    #[test]
    fn one_step_further_is_one_byte() {
        let steps = Steps::new(&NODES[..4], 1).unwrap();
        let mut data = relayed_data(&steps, &[1; 30]);
        advance(&mut data);
        let steps = Steps { at: 2, ..steps };
        assert_eq!(data, relayed_data(&steps, &[1; 30]));
    }

    #[test]
    fn loops_and_long_ways_are_refused() {
        let again = [NODES[0], NODES[1], NODES[0]];
        assert_eq!(Steps::new(&again, 1), Err(WireError::BadValue));
        assert_eq!(Steps::new(&NODES[..2], 1), Err(WireError::BadValue));
        assert_eq!(Steps::new(&NODES[..3], 3), Err(WireError::BadValue));
        let mut long = vec![1, 6];
        (0..6u64).for_each(|node| long.extend(node.to_be_bytes()));
        long.extend([0; 30]);
        let long = RelayRecord::read(code::RELAYED, &long);
        assert_eq!(long, Err(WireError::BadValue));
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let steps = Steps::new(&NODES[..3], 0).unwrap();
        let at_sender = relayed_data(&steps, &[1; 30]);
        let tiny = relayed_data(&Steps { at: 1, ..steps }, &[1; 19]);
        for data in [at_sender, tiny] {
            let read = RelayRecord::read(code::RELAYED, &data);
            assert_eq!(read, Err(WireError::BadValue));
        }
        let mut unsorted = written(&RelayRecord::Reach(reach(&[2, 1], false)));
        assert_eq!(read(&unsorted), Err(WireError::BadValue));
        unsorted.pop();
        let cut = RelayRecord::read(unsorted[0], &unsorted[EXTENSION_HEADER_BYTES..]);
        assert!(cut.is_err());
        for (at, by) in [(1, 1), (0, 2), (0, 0)] {
            let steps = Steps { at, ..steps };
            let why = RefusedWhy::Unreached;
            let refused = written(&RelayRecord::Refused { steps, by, why });
            assert_eq!(read(&refused), Err(WireError::BadValue), "{at} {by}");
        }
    }
}
