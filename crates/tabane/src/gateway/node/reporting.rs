//! A node's knowledge of the gateway, for its status.

use tabane_cluster::mac_text;
use tabane_proto::Time;

use super::super::front::Owner;
use super::super::report::{Held, Report};
use super::{Gateway, Serves};

impl Gateway {
    /// All of it.
    pub fn report(&self, now: Time) -> Report {
        let me = self.part.me;
        let serving = match self.serves() {
            Some((Serves::Here, _)) => Some(me),
            Some((Serves::Peer(peer), _)) => self.roster.id(peer),
            None => None,
        };
        // Nodes believe in a gateway until they hear of another; but not in one that says it
        // cannot serve.
        let serving = serving.filter(|id| self.able.get(id) != Some(&false));
        let standby = self.gateways().filter(|(id, _)| Some(*id) != serving);
        let mine = self.gateways().find(|(id, _)| *id == me);
        let mut report = Report {
            serving,
            since: now.since(self.since),
            standby: standby.collect(),
            is_ready: mine.map(|(_, is_ready)| is_ready),
            trouble: mine.and_then(|_| self.trouble()),
            voters: self.election.voters(),
            voters_missing: self.election.missing(now),
            routers: Vec::new(),
            ports: self.ports_of_here().collect(),
            ports_refused: self.ports_refused,
            conversations: self.inside.programs.conversations().count(),
            queued_bytes: None,
            carried: self.carried,
            dropped: vec![
                ("foreign", self.inside.programs.dropped.foreign),
                ("stray", self.inside.programs.dropped.stray),
                ("program_full", self.inside.programs.dropped.full),
                (
                    "program_ports_full",
                    self.inside.programs.dropped.ports_full,
                ),
                ("not_carried", self.inside.carriage.lost),
            ],
        };
        self.add_service(&mut report);
        report
    }

    fn ports_of_here(&self) -> impl Iterator<Item = Held> {
        let ports = self.inside.programs.ports();
        ports.map(|(port, _, place, connections)| Held {
            port,
            node: self.part.me,
            place: Some(place),
            command: None,
            connections,
        })
    }

    /// Adds what only the serving gateway knows.
    fn add_service(&self, report: &mut Report) {
        let Some(service) = &self.serving else {
            return;
        };
        let serving = &service.serving;
        let front = &serving.front;
        let held = front.ports().filter_map(|(port, owner, connections)| {
            let Owner::Peer(peer) = owner else {
                return None;
            };
            Some(Held {
                port,
                node: self.roster.id(peer)?,
                place: None,
                command: front.command_of(owner, port),
                connections,
            })
        });
        report.ports.extend(held);
        report.conversations = front.conversations();
        report.queued_bytes = Some(serving.queued_bytes());
        report.routers = serving.routers().collect();
        let (dropped, lost) = (front.dropped, serving.lost);
        report.dropped.extend([
            ("spoofed", dropped.spoofed),
            ("lies", dropped.lies),
            ("greylisted", dropped.greylisted),
            ("node_full", dropped.full),
            ("node_ports_full", dropped.ports_full),
            ("queue_full", dropped.queue_full),
            ("not_read", lost.not_read),
            ("refused_by_device", lost.refused),
            ("no_way", lost.no_way),
            ("early", serving.early.lost),
        ]);
    }

    /// Why this gateway cannot serve, or what is wrong while it does, in words.
    fn trouble(&self) -> Option<String> {
        if let Some(service) = &self.serving {
            let (address, mac) = service.serving.taken_by?;
            return Some(format!("another host, {}, has {address}", mac_text(&mac)));
        }
        match self.election.is_able() {
            true => None,
            false => self.has_not.clone().or_else(|| self.told_why.clone()),
        }
    }
}
