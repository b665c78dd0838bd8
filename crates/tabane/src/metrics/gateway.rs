//! Metrics of the cluster's outside address.

use super::families::{Family, Kind, Unit, flag};
use crate::status::{GatewayStatus, StatusReport};

fn gateway(report: &StatusReport) -> Option<&GatewayStatus> {
    report.node.gateway.as_ref()
}

/// All of them, in the order of the exposition.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "tabane_gateway_serving",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["node"],
        help: "Always 1; the node that serves the cluster's outside address, as this node knows. Absent if none is known to, or there is no gateway.",
        samples: |report, out| {
            if let Some(serving) = gateway(report).and_then(|it| it.serving.as_deref()) {
                out.add(&[serving], 1.0);
            }
        },
    },
    Family {
        name: "tabane_gateway_standby_ready",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["node"],
        help: "Whether a gateway that does not serve could (1 or 0).",
        samples: |report, out| {
            for standby in gateway(report).iter().flat_map(|it| &it.standby) {
                out.add(&[&standby.node], flag(standby.ready));
            }
        },
    },
    Family {
        name: "tabane_gateway_connections",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &[],
        help: "Conversations with the outside: on the gateway that serves all, on others those of their own programs.",
        samples: |report, out| {
            if let Some(gateway) = gateway(report) {
                out.add(&[], gateway.connections as f64);
            }
        },
    },
    Family {
        name: "tabane_gateway_ports",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &[],
        help: "Ports of the outside address that programs have: on the gateway that serves all, on others those of their own programs.",
        samples: |report, out| {
            if let Some(gateway) = gateway(report) {
                out.add(&[], gateway.ports.len() as f64);
            }
        },
    },
    Family {
        name: "tabane_gateway_queue_seconds",
        kind: Kind::Gauge,
        unit: Unit::Seconds,
        labels: &[],
        help: "How long what waits for the outside line takes to leave, where this node serves and the line's rate is known.",
        samples: |report, out| {
            if let Some(queue_us) = gateway(report).and_then(|it| it.queue_us) {
                out.add(&[], queue_us as f64 / 1e6);
            }
        },
    },
    Family {
        name: "tabane_gateway_info",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["interface", "queue", "qdisc"],
        help: "Always 1; on a gateway the device that leads outside, who keeps what waits for it, and the device's own queueing discipline.",
        samples: |report, out| {
            if let Some(gateway) = gateway(report)
                && let Some(interface) = &gateway.interface
            {
                let qdisc = gateway.qdisc.as_deref().unwrap_or_default();
                out.add(&[interface, &gateway.queue, qdisc], 1.0);
            }
        },
    },
    Family {
        name: "tabane_gateway_ready",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &[],
        help: "Whether this gateway serves, or could (1 or 0). Absent on nodes that are no gateways.",
        samples: |report, out| {
            if let Some(ready) = gateway(report).and_then(|it| it.ready) {
                out.add(&[], flag(ready));
            }
        },
    },
    Family {
        name: "tabane_gateway_serving_seconds",
        kind: Kind::Gauge,
        unit: Unit::Seconds,
        labels: &[],
        help: "For how long this node has known who serves.",
        samples: |report, out| {
            if let Some(gateway) = gateway(report).filter(|it| it.serving.is_some()) {
                out.add(&[], gateway.since_s as f64);
            }
        },
    },
    Family {
        name: "tabane_gateway_rate_bytes_per_second",
        kind: Kind::Gauge,
        unit: Unit::BytesPerSecond,
        labels: &[],
        help: "The rate of the outside line, where this node is a gateway and the file or the device says it.",
        samples: |report, out| {
            if let Some(mbps) = gateway(report).and_then(|it| it.rate_mbps) {
                out.add(&[], mbps as f64 * 125_000.0);
            }
        },
    },
    Family {
        name: "tabane_gateway_qdisc_queued_bytes",
        kind: Kind::Gauge,
        unit: Unit::Bytes,
        labels: &[],
        help: "What waits in the queueing discipline of the device outside, of all who send by it.",
        samples: |report, out| {
            if let Some(bytes) = gateway(report).and_then(|it| it.qdisc_queued_bytes) {
                out.add(&[], bytes as f64);
            }
        },
    },
    Family {
        name: "tabane_gateway_transmit_bytes",
        kind: Kind::Counter,
        unit: Unit::Bytes,
        labels: &[],
        help: "Bytes of IP that this node has sent outside as a gateway.",
        samples: |report, out| {
            if let Some(gateway) = gateway(report) {
                out.add(&[], gateway.tx_bytes as f64);
            }
        },
    },
    Family {
        name: "tabane_gateway_receive_bytes",
        kind: Kind::Counter,
        unit: Unit::Bytes,
        labels: &[],
        help: "Bytes of IP from outside that this node has handed to programs as a gateway.",
        samples: |report, out| {
            if let Some(gateway) = gateway(report) {
                out.add(&[], gateway.rx_bytes as f64);
            }
        },
    },
    Family {
        name: "tabane_gateway_router_answers",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["router"],
        help: "Whether a router answers when the gateway that serves asks where it is (1 or 0). Absent while that is not known.",
        samples: |report, out| {
            for router in gateway(report).iter().flat_map(|it| &it.routers) {
                if let Some(answers) = router.answers {
                    out.add(&[&router.address.to_string()], flag(answers));
                }
            }
        },
    },
    Family {
        name: "tabane_gateway_votes_missing",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &[],
        help: "Nodes that have not lent their vote to this gateway, which serves, or has asked for them in vain.",
        samples: |report, out| {
            if let Some(gateway) = gateway(report).filter(|it| it.ready.is_some()) {
                out.add(&[], gateway.voters_missing.len() as f64);
            }
        },
    },
    Family {
        name: "tabane_gateway_ports_refused",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &[],
        help: "Ports of the outside address that were refused since a node had as many as one may have.",
        samples: |report, out| {
            if let Some(gateway) = gateway(report) {
                out.add(&[], gateway.ports_refused as f64);
            }
        },
    },
    Family {
        name: "tabane_gateway_dropped_packets",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &["reason"],
        help: "Packets between programs and the outside that went nowhere here, by reason.",
        samples: |report, out| {
            for (reason, count) in gateway(report).iter().flat_map(|it| &it.dropped) {
                out.add(&[reason], *count as f64);
            }
        },
    },
];
