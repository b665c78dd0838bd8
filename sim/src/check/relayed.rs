//! What goes through other hosts, where packets travel in the clear: a host hands on what it was given, and nothing else.

use super::{Checked, Rule, Violation};
use crate::net::Ns;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use tabane_proto::wire::{HEADER_BYTES, Kind, NodeId, Record, Records, RelayRecord, advance};

/// Behind the records of a packet in the clear: token and checksum.
const TRAILER_BYTES: usize = 8;

/// What hosts were given to hand on.
#[derive(Debug, Default)]
pub struct Relayed {
    /// Whose place on ways each number is.
    hosts: BTreeMap<NodeId, usize>,
    /// By host and record, as it is to be handed on: how often it was given, and not handed on yet.
    given: BTreeMap<(usize, u64), u32>,
    /// Packets that hosts were given, each once: what comes again must not be handed on again.
    seen: BTreeSet<(usize, u64)>,
}

impl Relayed {
    /// A host handles a datagram.
    pub fn comes(&mut self, host: usize, datagram: &[u8]) {
        let mut records = relayed(datagram).peekable();
        if records.peek().is_none() || !self.seen.insert((host, digest(datagram))) {
            return;
        }
        for data in records {
            let mut data = data.to_vec();
            advance(&mut data);
            *self.given.entry((host, digest(&data))).or_default() += 1;
        }
    }

    /// A host sends a datagram. What is relayed in it begins its way there, which has three hosts between its ends at
    /// most and none twice; or was given to it by the host before it on the way, as often.
    pub fn goes(&mut self, now: Ns, host: usize, datagram: &[u8]) -> Checked {
        let broken = |what: &str, way: &dyn std::fmt::Debug| {
            let what = format!("host {host} {what}: {way:?}");
            Err(Violation::new(Rule::Relayed, now, what))
        };
        for data in relayed(datagram) {
            let read = RelayRecord::read(RelayRecord::RELAYED, data);
            let Ok(RelayRecord::Relayed { steps, .. }) = read else {
                return broken("sends something on no way", &data);
            };
            let before = steps.beside(-1);
            let is_its = |id| *self.hosts.entry(id).or_insert(host) == host;
            if !before.is_some_and(is_its) {
                return broken("relays in the place of another one", &steps);
            }
            if before == Some(steps.first()) {
                continue;
            }
            match self.given.get_mut(&(host, digest(data))) {
                Some(given) if *given > 0 => *given -= 1,
                _ => return broken("relays what it was not given, or once more", &steps),
            }
        }
        Ok(())
    }
}

/// The data of the records of a packet in the clear that are relayed.
fn relayed(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = datagram.len().saturating_sub(TRAILER_BYTES);
    let is_data = datagram.first() == Some(&(Kind::Data as u8));
    let records = datagram.get(HEADER_BYTES..end).filter(|_| is_data);
    let records = Records::new(records.unwrap_or_default());
    records.filter_map(|record| match record {
        Ok(Record::Extension { code, data }) if code == RelayRecord::RELAYED => Some(data),
        _ => None,
    })
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
