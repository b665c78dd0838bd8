//! The agent's counters and status.

use std::net::SocketAddr;

use tabane_proto::{Node, Time};

use super::Agent;
use crate::log;
use crate::status::{ProgramStatus, RunStatus};

/// The counters.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct AgentStats {
    /// Connections that were carried by a bundle.
    pub carried: u64,
    /// Connections of programs that were carried by plain TCP.
    pub plain: u64,
    /// Connections that were refused, by the far end or because nobody was there.
    pub refused: u64,
    /// Connections that came from programs of other nodes.
    pub accepted: u64,
    /// Connections that were reset since no link to the far end had worked for too long.
    pub cut_off: u64,
    /// Connections from other nodes with a source or destination address that belongs to somebody else.
    pub misaddressed: u64,
    /// Connections that plain TCP might have carried, and that were refused since the file forbids it.
    pub kept_from_plain: u64,
    /// Programs that were turned away.
    pub places_full: u64,
    /// Connections that were reset or not begun since there are too many.
    pub connections_full: u64,
    /// Connections and programs that were turned away for want of a descriptor.
    pub descriptors_full: u64,
    /// How often a place, or a user, was denied something because it had its whole share.
    pub share_full: u64,
    /// Programs that are no longer served because of what was handed over or said for them.
    pub ended: u64,
    /// Programs that were turned away, for their users may not use the daemon.
    pub forbidden: u64,
    /// How often a supervisor was asked something and did not answer.
    pub unanswered: u64,
}

impl Agent {
    /// How often each limit was hit; their names are those of `limits_hit` in docs/status.md.
    pub fn limits_hit(&self) -> [(&'static str, u64); 9] {
        [
            ("run_programs_full", self.stats.places_full),
            ("run_connections_full", self.stats.connections_full),
            ("run_descriptors_full", self.stats.descriptors_full),
            (
                "run_share_full",
                self.stats.share_full + self.hosted.share_full,
            ),
            ("run_unanswered", self.stats.unanswered),
            ("run_ended", self.stats.ended),
            ("run_forbidden", self.stats.forbidden),
            ("run_flows_full", self.flows.full),
            ("run_ports_full", self.hosted.full),
        ]
    }

    /// Logs each limit that was hit, once.
    pub(super) fn tell_limits(&mut self) {
        for (limit, count) in self.limits_hit() {
            if count > 0 && self.told.insert(limit) {
                log::line(format!("limit hit: {limit} (see `tabane status`)"));
            }
        }
    }

    /// Counts a connection that may not go in the clear; logs the first one, with the reason of its
    /// refusal.
    pub(super) fn tell_kept_from_plain(&mut self, to: SocketAddr) {
        self.stats.kept_from_plain += 1;
        if self.told.insert("kept_from_plain") {
            log::line(format!(
                "a program's connection to {to} was refused: nothing there can be reached by a bundle, and \
                 the cluster file forbids plain TCP (plain_tcp = false); others are counted (`tabane status --json`)"
            ));
        }
    }

    /// How it is, for a report that is made at a time of the wall clock.
    pub fn status(&self, now: Time, node: &Node, unix_ms: u64) -> RunStatus {
        let programs = self.places.iter().filter_map(|(_, place)| {
            let program = place.program.as_ref()?;
            Some(ProgramStatus {
                pid: program.pid,
                uid: place.uid,
                command: program.command.clone(),
                connections: self.books.get(place.number).map_or(0, |book| book.relays),
            })
        });
        RunStatus {
            programs: programs.collect(),
            connections: self.relays.len() - self.plain_relays,
            plain_connections: self.plain_relays,
            datagram_flows: self.flows.len(),
            ports: self.hosted.len(),
            carried: self.stats.carried,
            plain: self.stats.plain,
            accepted: self.stats.accepted,
            refused: self.stats.refused,
            cut_off: self.stats.cut_off,
            misaddressed: self.stats.misaddressed,
            kept_from_plain: self.stats.kept_from_plain,
            unread: self.unread_status(now, node, unix_ms),
        }
    }
}
