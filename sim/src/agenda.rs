//! What hosts have to do that are joined by switches which lose nothing: their timers, and the datagrams under way to them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

use tabane_proto::{LinkId, Node, Time};

/// A datagram under way.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Datagram {
    pub link: u8,
    pub from: SocketAddr,
    pub bytes: Vec<u8>,
}

/// Something that is to happen: ordered by when, and to whom.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Happening {
    at: Time,
    host: usize,
    number: u64,
    /// A datagram, or the host's timer.
    datagram: Option<Datagram>,
}

/// All that is to happen.
#[derive(Default)]
pub(crate) struct Agenda {
    happenings: BinaryHeap<Reverse<Happening>>,
    planned: u64,
}

impl Agenda {
    /// A datagram reaches a host then, or its timer runs out.
    pub fn plan(&mut self, at: Time, host: usize, datagram: Option<Datagram>) {
        self.planned += 1;
        self.happenings.push(Reverse(Happening {
            at,
            host,
            number: self.planned,
            datagram,
        }));
    }

    /// How much was ever planned.
    pub const fn planned(&self) -> u64 {
        self.planned
    }

    /// What happens next, if anything does until `until`: when, to which host, and the datagrams that it then takes in at once.
    pub fn next_until(&mut self, until: Time) -> Option<(Time, usize, Vec<Datagram>)> {
        let Reverse(first) = self.happenings.peek()?;
        let (at, host) = (first.at, first.host);
        if at > until {
            return None;
        }
        let mut datagrams = Vec::new();
        while let Some(Reverse(next)) = self.happenings.peek()
            && (next.at, next.host) == (at, host)
        {
            let next = self.happenings.pop().map(|Reverse(next)| next);
            datagrams.extend(next.and_then(|next| next.datagram));
        }
        Some((at, host, datagrams))
    }
}

/// A node takes in what has arrived, and does what is due.
pub(crate) fn take_in(node: &mut Node, now: Time, datagrams: Vec<Datagram>) {
    for mut d in datagrams {
        node.handle_datagram(now, LinkId(d.link), d.from, &mut d.bytes);
    }
    if node.poll_timeout().is_some_and(|at| at <= now) {
        node.handle_timeout(now);
    }
}

/// All that a node sends now: on which link, to whom, and what.
pub(crate) fn sends(
    node: &mut Node,
    now: Time,
    buffer: &mut [u8],
) -> Vec<(LinkId, SocketAddr, Vec<u8>)> {
    let mut outbox = Vec::new();
    while let Some(t) = node.poll_transmit(now, buffer) {
        for bytes in buffer[..t.bytes].chunks(t.segment_bytes) {
            outbox.push((t.link, t.to, bytes.to_vec()));
        }
    }
    outbox
}
