//! The gateway in `tabane status`.

use tabane_cluster::{GatewaySpec, LineQueue};
use tabane_io::netlink::{Qdisc, qdisc};
use tabane_proto::Time;
use tabane_proto::gateway::{Command, Family, Transport};
use tabane_proto::wire::NodeId;

use super::super::run::Daemon;
use super::{device, id_of};
use crate::gateway::{Held, Report};
use crate::status::{GatewayStatus, PortStatus, RouterStatus, StandbyStatus};

/// The speed that a device says it has, in bits per second.
fn speed_bps(device: &str) -> Option<u64> {
    let said = std::fs::read_to_string(format!("/sys/class/net/{device}/speed")).ok()?;
    // -1: it does not know.
    let mbps: u64 = said.trim().parse().ok()?;
    Some(mbps * 1_000_000)
}

/// The queueing discipline of a device, which is in addition to the gateway's queue.
fn qdisc_of(device: &str) -> Option<Qdisc> {
    let index = std::fs::read_to_string(format!("/sys/class/net/{device}/ifindex")).ok()?;
    // If the kernel does not say it, it is unknown.
    qdisc(index.trim().parse().ok()?).ok().flatten()
}

impl Daemon {
    /// The gateway in `tabane status`.
    pub(in crate::daemon) fn gateway_status(&self, now: Time) -> Option<GatewayStatus> {
        let spec = self.cluster.gateway.as_ref()?;
        let agent = self.agent.as_ref()?;
        let report = agent.gateway.as_ref()?.report(now);
        let ports = report.ports.iter().map(|held| self.port_status(held));
        let ports = ports.collect();
        Some(GatewayStatus {
            ports,
            ..self.status_without_ports(spec, &report)
        })
    }

    fn status_without_ports(&self, spec: &GatewaySpec, report: &Report) -> GatewayStatus {
        let own_device = device(spec, self.me);
        let rate_bps = spec.rate_bps.or_else(|| own_device.and_then(speed_bps));
        let wait_us = |bytes: usize| rate_bps.map(|bps| bytes as u64 * 8 * 1_000_000 / bps.max(1));
        let standby = report.standby.iter().map(|(id, ready)| StandbyStatus {
            node: self.name_of(*id),
            ready: *ready,
        });
        let names = |all: &[NodeId]| all.iter().map(|id| self.name_of(*id)).collect();
        let routers = report.routers.iter();
        let dropped = report.dropped.iter().filter(|(_, count)| *count > 0);
        let qdisc = own_device.and_then(qdisc_of);
        GatewayStatus {
            serving: report.serving.map(|id| self.name_of(id)),
            since_s: report.since.as_secs(),
            addresses: spec.addresses.iter().map(|(address, _)| *address).collect(),
            interface: own_device.map(str::to_owned),
            ready: report.is_ready,
            trouble: report.trouble.clone(),
            rate_mbps: rate_bps.map(|bps| bps / 1_000_000),
            queue: match spec.queue {
                LineQueue::Fair => "fair",
                LineQueue::Kernel => "kernel",
            }
            .to_owned(),
            queue_us: report.queued_bytes.and_then(wait_us),
            qdisc_queued_bytes: qdisc.as_ref().map(|qdisc| qdisc.queued_bytes),
            qdisc: qdisc.map(|qdisc| qdisc.kind),
            tx_bytes: report.carried.sent_bytes,
            rx_bytes: report.carried.received_bytes,
            connections: report.conversations,
            voters: names(&report.voters),
            voters_missing: names(&report.voters_missing),
            routers: routers
                .map(|(address, answers)| RouterStatus {
                    address: *address,
                    answers: *answers,
                })
                .collect(),
            standby: standby.collect(),
            ports: Vec::new(),
            ports_refused: report.ports_refused,
            dropped: dropped
                .map(|(why, count)| ((*why).to_owned(), *count))
                .collect(),
        }
    }

    fn port_status(&self, held: &Held) -> PortStatus {
        let agent = self.agent.as_ref();
        let own = |place| agent.and_then(|agent| agent.command(place));
        PortStatus {
            transport: match held.port.transport {
                Transport::Tcp => "tcp",
                Transport::Udp => "udp",
                Transport::Echo => "echo",
            }
            .to_owned(),
            family: match held.port.family {
                Family::V4 => 4,
                Family::V6 => 6,
            },
            port: held.port.number,
            node: self.name_of(held.node),
            command: match held.place {
                Some(place) => own(place),
                None => held
                    .command
                    .as_ref()
                    .map(Command::as_str)
                    .map(str::to_owned),
            },
            connections: held.connections,
        }
    }

    fn name_of(&self, id: NodeId) -> String {
        let mut nodes = self.cluster.nodes.iter();
        let node = nodes.find(|node| id_of(node) == Some(id));
        node.map_or_else(|| "?".to_owned(), |node| node.name.clone())
    }
}
