//! Datagrams of programs: forwarded by sockets of this node that belong to the program's user; answers go back in
//! their senders' names. This is what a NAT does, with its time limit (RFC 4787 section 4.3).

use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use slab::Slab;
use tabane_io::capture::{Capture, Outward, Unreachable};
use tabane_io::poll::{Interest, Poller};
use tabane_proto::Time;

use super::datagrams::TURN_DATAGRAMS;
use crate::closing::Lent;

/// Pairs of a program's socket and another host's at once; beyond it the place that has most
/// loses the one that was used least lately.
pub const FLOWS_MAX: usize = 4096;
/// A flow that was idle for this long is forgotten.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// The most failures of a socket without a result.
const FAILURES_MAX: u32 = 64;
/// The place, the program's end, and the correspondent.
pub type Ends = (usize, SocketAddr, SocketAddr);

#[derive(Debug)]
struct Flow {
    outward: Lent<Outward>,
    ends: Ends,
    used: Time,
    /// How often its socket has failed since something came.
    failures: u32,
}

impl Flow {
    /// Tells the program that nobody receives its datagrams.
    fn refuse(&self, capture: &Capture) {
        let (_, source, destination) = self.ends;
        let _ = capture.refuse_datagram(source, destination, Unreachable::Port);
    }
}

/// All flows of datagrams.
#[derive(Debug, Default)]
pub struct Flows {
    flows: Slab<Flow>,
    by_ends: HashMap<Ends, usize>,
    /// How many were forgotten to make room for others.
    pub full: u64,
}

impl Flows {
    /// Forwards a program's datagram; `None`: the first one between these ends.
    ///
    /// # Errors
    /// Those of send(2), but not errors of earlier datagrams.
    pub fn send(
        &mut self,
        now: Time,
        ends: Ends,
        capture: &Capture,
        data: &[u8],
    ) -> Option<io::Result<()>> {
        let index = self.by_ends.get(&ends)?;
        let flow = self.flows.get_mut(*index)?;
        flow.used = now;
        Some(match flow.outward.send(data) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // That was said of an earlier one.
                flow.refuse(capture);
                flow.outward.send(data)
            }
            sent => sent,
        })
    }

    /// Begins a flow by this socket, to a correspondent that is reached at `to`. `token` makes the poller's tokens
    /// of flows.
    ///
    /// # Errors
    /// They cannot be reached; the socket cannot be watched.
    pub fn begin(
        &mut self,
        now: Time,
        ends: Ends,
        to: SocketAddr,
        outward: Lent<Outward>,
        poller: &Poller,
        token: impl Fn(usize) -> u64,
    ) -> io::Result<()> {
        outward.connect(None, to)?;
        if self.flows.len() >= FLOWS_MAX {
            self.full += 1;
            let oldest = self.oldest_of_most();
            oldest
                .into_iter()
                .for_each(|index| self.forget(index, poller));
        }
        let entry = self.flows.vacant_entry();
        let index = entry.key();
        poller.register(&*outward, token(index), Interest::Read)?;
        entry.insert(Flow {
            outward,
            ends,
            used: now,
            failures: 0,
        });
        self.by_ends.insert(ends, index);
        Ok(())
    }

    /// The least recently used flow of the place with most: whoever begins many loses its own.
    fn oldest_of_most(&self) -> Option<usize> {
        let mut flows_of: HashMap<usize, usize> = HashMap::new();
        for (_, flow) in &self.flows {
            *flows_of.entry(flow.ends.0).or_default() += 1;
        }
        let most = flows_of
            .into_iter()
            .max_by_key(|(place, flows)| (*flows, *place));
        let of_most = |flow: &Flow| most.is_some_and(|(place, _)| flow.ends.0 == place);
        let flows = self.flows.iter().filter(|(_, flow)| of_most(flow));
        let oldest = flows.min_by_key(|(_, flow)| flow.used);
        oldest.map(|(index, _)| index)
    }

    /// The place of a flow's program.
    pub fn place_of(&self, index: usize) -> Option<usize> {
        Some(self.flows.get(index)?.ends.0)
    }

    /// The socket of a flow has failed. If it does so again and again without data, another owner of it does not
    /// fetch its error queue: the flow is forgotten. Returns whether it was.
    pub fn has_failed(&mut self, index: usize, poller: &Poller) -> bool {
        let Some(flow) = self.flows.get_mut(index) else {
            return true;
        };
        flow.failures += 1;
        let is_failing = flow.failures > FAILURES_MAX;
        if is_failing {
            self.forget(index, poller);
        }
        is_failing
    }

    /// Gives the program a datagram that has come for it.
    ///
    /// # Errors
    /// No more can be read now: in most cases, there is no more.
    pub fn give_back(
        &mut self,
        now: Time,
        index: usize,
        capture: &Capture,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let Some(flow) = self.flows.get_mut(index) else {
            return Ok(());
        };
        let (_, source, destination) = flow.ends;
        for _ in 0..TURN_DATAGRAMS {
            let bytes = match flow.outward.receive(buffer) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    flow.failures = 0;
                    flow.refuse(capture);
                    continue;
                }
                Err(error) => return Err(error),
            };
            flow.used = now;
            flow.failures = 0;
            let _ = capture.send_datagram(destination, source, &buffer[..bytes]);
        }
        Ok(())
    }

    /// Forgets idle flows.
    pub fn forget_old(&mut self, now: Time, poller: &Poller) {
        self.retain(poller, |flow| now.since(flow.used) < IDLE_MAX);
    }

    /// Forgets all of a place.
    pub fn forget_place(&mut self, place: usize, poller: &Poller) {
        self.retain(poller, |flow| flow.ends.0 != place);
    }

    fn retain(&mut self, poller: &Poller, keeps: impl Fn(&Flow) -> bool) {
        let goes = |(index, flow): (usize, &Flow)| (!keeps(flow)).then_some(index);
        let gone: Vec<usize> = self.flows.iter().filter_map(goes).collect();
        gone.into_iter()
            .for_each(|index| self.forget(index, poller));
    }

    fn forget(&mut self, index: usize, poller: &Poller) {
        if let Some(flow) = self.flows.try_remove(index) {
            self.by_ends.remove(&flow.ends);
            // Its user may have the socket still, so that closing it is not enough.
            let _ = poller.deregister(&*flow.outward);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.flows.len()
    }
}
