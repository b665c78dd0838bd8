//! What the agent counts, and what it says of itself.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::Agent;
use crate::daemon::log;
use crate::status::{ProgramStatus, RunStatus};

/// What was counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct AgentStats {
    /// Connections that were carried by a bundle.
    pub carried: u64,
    /// Connections of programs that were carried by plain TCP.
    pub plain: u64,
    /// Connections that were refused, by the far end or since nobody was there.
    pub refused: u64,
    /// Connections that came from programs of other nodes.
    pub accepted: u64,
    /// Connections that were reset since no link to the far end had worked for too long.
    pub cut_off: u64,
    /// Connections from elsewhere that were said to be from or to an address of somebody else.
    pub misaddressed: u64,
    /// Connections that plain TCP might have carried, and that were refused since the file forbids it.
    pub kept_from_plain: u64,
    /// Programs that were turned away.
    pub places_full: u64,
    /// Connections that were reset or not begun since there are too many.
    pub connections_full: u64,
    /// Connections and programs that were turned away for want of a descriptor.
    pub descriptors_full: u64,
}

impl Agent {
    /// How often each limit was hit; their names are those of `limits_hit` in docs/status.md.
    pub fn limits_hit(&self) -> [(&'static str, u64); 5] {
        [
            ("run_programs_full", self.stats.places_full),
            ("run_connections_full", self.stats.connections_full),
            ("run_descriptors_full", self.stats.descriptors_full),
            ("run_flows_full", self.flows.full),
            ("run_ports_full", self.hosted.full),
        ]
    }

    /// Has the log say of each limit once that it was hit.
    pub(super) fn tell_limits(&mut self) {
        for (limit, count) in self.limits_hit() {
            if count > 0 && self.told.insert(limit) {
                log::line(format!("limit hit: {limit} (see `tabane status`)"));
            }
        }
    }

    /// Counts a connection that may not go in the clear, and has the log say of the first one why it was
    /// refused.
    pub(super) fn tell_kept_from_plain(&mut self, to: SocketAddr) {
        self.stats.kept_from_plain += 1;
        if self.told.insert("kept_from_plain") {
            log::line(format!(
                "a program's connection to {to} was refused: nothing there can be reached by a bundle, and \
                 the cluster file forbids plain TCP (plain_tcp = false); others are counted (`tabane status --json`)"
            ));
        }
    }

    /// How it is, for a report.
    pub fn status(&self) -> RunStatus {
        let mut of_places: HashMap<u64, usize> = HashMap::new();
        let mut connections = 0;
        for (_, relay) in &self.relays {
            *of_places.entry(relay.place()).or_default() += 1;
            connections += usize::from(relay.stream().is_some());
        }
        let programs = self.places.iter().filter_map(|(_, place)| {
            let program = place.program.as_ref()?;
            Some(ProgramStatus {
                pid: program.pid,
                uid: place.uid,
                command: program.command.clone(),
                connections: of_places.get(&place.number).copied().unwrap_or_default(),
            })
        });
        RunStatus {
            programs: programs.collect(),
            connections,
            plain_connections: self.relays.len() - connections,
            datagram_flows: self.flows.len(),
            ports: self.hosted.len(),
            carried: self.stats.carried,
            plain: self.stats.plain,
            accepted: self.stats.accepted,
            refused: self.stats.refused,
            cut_off: self.stats.cut_off,
            misaddressed: self.stats.misaddressed,
            kept_from_plain: self.stats.kept_from_plain,
        }
    }
}
