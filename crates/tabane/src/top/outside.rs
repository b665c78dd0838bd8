//! The cluster's outside address in `tabane top`: who serves, the traffic, and the busiest ports.

use super::changes::Mood;
use super::model::Model;
use super::rows::cut;
use crate::status::{GatewayStatus, PortStatus, StatusReport, clean, counted, metric};

/// Ports that are named at most.
const PORTS_MAX: usize = 8;

/// How many lines [`lines`] has.
pub fn count(report: &StatusReport) -> usize {
    let gateway = report.node.gateway.as_ref();
    gateway.map_or(0, |gateway| 1 + usize::from(!busiest(gateway).is_empty()))
}

/// A line about the serving gateway, and one with the ports that have most connections, if any; of this
/// width.
pub fn lines(model: &Model, report: &StatusReport, width: usize) -> Vec<(String, Mood)> {
    let Some(gateway) = &report.node.gateway else {
        return Vec::new();
    };
    let mut lines = vec![first(model, report, gateway)];
    let ports: Vec<String> = busiest(gateway).into_iter().map(port_words).collect();
    if !ports.is_empty() {
        lines.push((format!("  {}", ports.join(", ")), Mood::Good));
    }
    for (text, _) in &mut lines {
        *text = cut(text, width);
    }
    lines
}

fn first(model: &Model, report: &StatusReport, gateway: &GatewayStatus) -> (String, Mood) {
    let Some(serving) = &gateway.serving else {
        let why = gateway.trouble.as_deref();
        let why = why.map_or_else(String::new, |why| format!(": {}", clean(why)));
        return (format!("gateway: nobody serves{why}"), Mood::Bad);
    };
    let mut text = format!(
        "gateway: {} serves, {}",
        clean(serving),
        counted(gateway.connections as u64, "connection")
    );
    if *serving == report.node.name {
        if let Some((out, back)) = model.outside() {
            text += &format!(", out {} in {} b/s", metric(out), metric(back));
        }
        if let Some(queue_us) = gateway.queue_us {
            text += &format!(", queue {queue_us}us");
        }
    }
    let is_alone = !gateway.standby.is_empty() && gateway.standby.iter().all(|it| !it.ready);
    match is_alone {
        true => (text + ", no standby is ready", Mood::Uncertain),
        false => (text, Mood::Good),
    }
}

/// The ports with most connections; those without any are left out.
fn busiest(gateway: &GatewayStatus) -> Vec<&PortStatus> {
    let mut ports: Vec<_> = gateway
        .ports
        .iter()
        .filter(|it| it.connections > 0)
        .collect();
    ports.sort_by_key(|port| std::cmp::Reverse(port.connections));
    ports.truncate(PORTS_MAX);
    ports
}

fn port_words(port: &PortStatus) -> String {
    let family = if port.family == 6 { "6" } else { "" };
    let command = port
        .command
        .as_ref()
        .map_or_else(String::new, |command| format!(" {}", clean(command)));
    format!(
        "{}{family} {} {}{command}: {}",
        clean(&port.transport),
        port.port,
        clean(&port.node),
        port.connections
    )
}
