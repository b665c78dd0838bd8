//! Deliberate breaks, to show that each checker sees what it is for. They are made where the town drives a host.

use core::time::Duration;

use tabane_proto::Time;
use tabane_proto::gateway::Election;
use tabane_sim::net::Ns;

use super::host::{Host, electorate, id};
use crate::gateway::node::Gateway;

/// A break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// A gateway that begins to serve waits for nobody to say what it has.
    LearnsNothing,
    /// A node says nothing of its ports and conversations to a gateway that begins.
    TellsNothing,
    /// A node forgets to whom it has lent its vote.
    LendsTwice,
    /// What leaves is sent twice, now and then.
    Doubles,
    /// What leaves has another byte at its end, now and then, and a right checksum.
    Changes,
    /// What leaves acknowledges more than was heard, now and then.
    AcknowledgesMore,
    /// The kernel of a gateway whose daemon is dead answers for the addresses.
    KernelSpeaks,
    /// The gateway gives each port to whoever asks.
    GivesTwice,
}

impl Host {
    /// Forgets to whom its vote is lent, and who serves.
    fn forget_votes(&self, now: Time, gateway: &mut Gateway) {
        let long_ago = now - Duration::from_secs(1);
        let (gateways, hosts) = self.size;
        gateway.election = Election::new(long_ago, id(self.index), 1, electorate(gateways, hosts));
    }

    /// A gateway forgets that another one serves, once, and could serve itself.
    pub fn forgets_who_serves(&mut self, now: Ns) {
        let local = self.clock.time(now);
        if let Some(mut gateway) = self.gateway.take() {
            self.forget_votes(local, &mut gateway);
            gateway.is_free = true;
            self.gateway = Some(gateway);
        }
    }

    /// Breaks what is broken in the state of its gateway.
    pub fn tamper(&self, now: Time, gateway: &mut Gateway) {
        match self.mutant {
            Some(Mutant::LearnsNothing) => {
                if let Some(service) = &mut gateway.serving {
                    service.learning.clear();
                    service.has_learned = true;
                }
            }
            Some(Mutant::TellsNothing) => gateway.told = gateway.serves(),
            Some(Mutant::LendsTwice) => self.forget_votes(now, gateway),
            Some(Mutant::GivesTwice) => {
                if let Some(service) = &mut gateway.serving {
                    let serving = &mut service.serving;
                    let had: Vec<_> = serving.front.ports().collect();
                    for (port, owner, _) in had {
                        serving.front.release(&mut serving.machine, owner, port);
                    }
                }
            }
            _ => {}
        }
    }
}
