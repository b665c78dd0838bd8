//! The orders that make a lab's cables and switches, and heal them.
//!
//! Every cable is a veth pair, `ethLINK` in the node and `pNODE` in the
//! switch, with `tc tbf` at both ends: NICs and switches alike send at line
//! rate. A cable with a delay is two pairs and the emulator between them, in
//! the switch's namespace:
//! ```text
//! eth0 ─── uNODE ──emulator──► wNODE ─── pNODE ─ bridge
//!          uNODE ◄──nft fwd─── wNODE
//! ```
//! Only the way from node to switch passes the emulator, so every frame is
//! delayed once and copied once; the way back is the kernel's.

use std::fmt::Write;

use crate::config::{LabConfig, LinkSpec, address};

pub(crate) const BRIDGE: &str = "switch";
/// Fixed, so that a port can be put back in one message.
pub(crate) const BRIDGE_INDEX: u32 = 1000;
pub(crate) const ETHERNET_HEADER_BYTES: u32 = 14;
/// What a switch holds back for a full port before it drops.
const QUEUE: Held = Held::Milliseconds(50);
/// `rate 1gbit` gets the 128 KiB that measured best; other rates as much time.
const BURST_US: u64 = 1049;
/// `tbf` insists on a rate; this one never limits.
const UNLIMITED_BITS_PER_S: u64 = 400_000_000_000;

pub(crate) fn port(node: usize) -> String {
    format!("p{node}")
}

/// Of a node's NIC.
pub(crate) fn hardware_address(link: usize, node: usize) -> [u8; 6] {
    [2, 0x7a, 0x62, 0, link as u8, (node + 1) as u8]
}

/// The switch-side end of the pair whose other end is the node's NIC.
pub(crate) fn cable_end(node: usize, link: &LinkSpec) -> String {
    if link.delay.is_zero() {
        port(node)
    } else {
        emulator_input(node)
    }
}

pub(crate) fn emulator_input(node: usize) -> String {
    format!("u{node}")
}

pub(crate) fn emulator_output(node: usize) -> String {
    format!("w{node}")
}

pub(crate) fn nic(link: usize) -> String {
    format!("eth{link}")
}

/// Shell orders for a switch: no firewall of a host sees its frames, which where the kernel has
/// that built in costs a tenth of the processor.
pub(crate) const NO_FIREWALL: &str = "for rules in /proc/sys/net/bridge/bridge-nf-call-*; do
    [ ! -e \"$rules\" ] || echo 0 > \"$rules\"
done
";

/// `ip` orders for a switch; `node_paths` are the nodes' namespaces.
pub(crate) fn switch_links(config: &LabConfig, link: usize, node_paths: &[String]) -> String {
    let mut orders = String::new();
    let (mtu, spec) = (config.mtu, &config.links[link]);
    let mut say = |order: String| orders.extend([order.as_str(), "\n"]);
    say("link set lo up".into());
    if !config.tree.is_empty() {
        let ports = node_paths.iter().enumerate();
        ports.for_each(|(node, path)| say(cable_alone(spec, mtu, link, node, path)));
        return orders;
    }
    say(new_bridge(BRIDGE, &format!(" index {BRIDGE_INDEX}"), mtu));
    for (node, path) in node_paths.iter().enumerate() {
        say(cable(spec, mtu, link, node, path));
    }
    orders
}

/// `ip` orders for a switch: the cable to one node, whose namespace is `path`.
pub(crate) fn cable(spec: &LinkSpec, mtu: u32, link: usize, node: usize, path: &str) -> String {
    let port = port(node);
    let mut orders = vec![cable_alone(spec, mtu, link, node, path)];
    if !spec.delay.is_zero() {
        let inner = emulator_output(node);
        orders.push(format!(
            "link add name {port} mtu {mtu} type veth peer name {inner} mtu {mtu}"
        ));
        orders.push(quietly_up(&inner));
    }
    orders.push(plugged_into(&port, BRIDGE));
    orders.join("\n")
}

/// The same without a port of a bridge at its end.
fn cable_alone(spec: &LinkSpec, mtu: u32, link: usize, node: usize, path: &str) -> String {
    let address = hardware_address(link, node);
    cable_to(&cable_end(node, spec), &nic(link), address, mtu, path)
}

/// `ip` orders: a bridge, that is up.
pub(crate) fn new_bridge(name: &str, index: &str, mtu: u32) -> String {
    let made =
        format!("link add name {name}{index} mtu {mtu} type bridge stp_state 0 mcast_snooping 0");
    [made, quietly_up(name)].join("\n")
}

/// `ip` orders: a cable from `end` here, which is up then, to a device in the namespace `path`.
pub(crate) fn cable_to(end: &str, nic: &str, address: [u8; 6], mtu: u32, path: &str) -> String {
    let [a, b, c, d, e, f] = address;
    let address = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
    let cable = format!(
        "link add name {end} mtu {mtu} type veth peer name {nic} address {address} mtu {mtu} netns {path}"
    );
    [cable, quietly_up(end)].join("\n")
}

/// Up without an IPv6 address, whose discovery chatters on an idle link. One
/// order would do the second half first.
pub(crate) fn quietly_up(device: &str) -> String {
    format!("link set {device} addrgenmode none\nlink set {device} up")
}

/// `ip` orders that make a device a port of its switch.
pub(crate) fn plugged(device: &str) -> String {
    plugged_into(device, BRIDGE) + "\n"
}

/// The same of a bridge of this name.
pub(crate) fn plugged_into(device: &str, bridge: &str) -> String {
    format!("link set {device} master {bridge}\n{}", quietly_up(device))
}

/// `ip` orders for a node.
pub(crate) fn node_links(links: usize, node: usize) -> String {
    let mut orders = String::from("link set lo up\n");
    for link in 0..links {
        let _ = writeln!(orders, "{}", node_link(link, node));
    }
    orders
}

/// `ip` orders for a node: one NIC with its address.
pub(crate) fn node_link(link: usize, node: usize) -> String {
    let (nic, address) = (nic(link), address(node, link));
    format!("{}\naddress add {address}/24 dev {nic}", quietly_up(&nic))
}

/// `nft` orders for a switch: its own loss, and the way around the emulator.
pub(crate) fn switch_rules(link: &LinkSpec, nodes: usize) -> String {
    let mut orders = String::new();
    if link.loss_percent > 0.0 {
        let loss = lose(link.loss_percent);
        let _ = writeln!(
            orders,
            "table bridge line {{ chain c {{ {FORWARD} {loss}; }}\n}}"
        );
    }
    if !link.delay.is_zero() {
        for node in 0..nodes {
            let (from, to) = (emulator_output(node), emulator_input(node));
            let hook =
                |device: &str| format!("type filter hook ingress device \"{device}\" priority 0;");
            let (back, dead) = (hook(&from), hook(&to));
            let _ = writeln!(orders, "table netdev cable{node} {{");
            let _ = writeln!(orders, "  chain back {{ {back} fwd to \"{to}\"; }}");
            // The emulator has its copy by now.
            let _ = writeln!(orders, "  chain taken {{ {dead} drop; }}\n}}");
        }
    }
    orders
}

/// Head of a chain every forwarded frame passes.
pub(crate) const FORWARD: &str = "type filter hook forward priority 0; policy accept;";

/// A verdict that drops so many of a hundred frames.
pub(crate) fn lose(percent: f64) -> String {
    const SCALE: f64 = 1_000_000.0;
    if percent >= 100.0 {
        return "drop".into();
    }
    format!(
        "numgen random mod {SCALE} < {} drop",
        (percent / 100.0 * SCALE).round()
    )
}

/// What the shaper of one end of a cable does besides its rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pieces {
    /// Passes packets of up to 64 KiB whole (TSO), as veth does.
    Whole,
    /// Cuts them to single frames and silently drops frames longer than this
    /// MTU (bytes without the Ethernet header).
    Frames(u32),
}

/// What a full port holds back before it drops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Held {
    /// What it sends in this time.
    Milliseconds(u32),
    /// So many bytes.
    Bytes(u32),
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Held::Milliseconds(ms) => write!(f, "latency {ms}ms"),
            Held::Bytes(bytes) => write!(f, "limit {bytes}"),
        }
    }
}

/// `tc` order for one end of a cable, whatever was there before.
pub(crate) fn shaper(
    rate_bits_per_s: Option<u64>,
    mtu: u32,
    pieces: Pieces,
    device: &str,
) -> String {
    shaper_holding(rate_bits_per_s, mtu, pieces, QUEUE, device)
}

/// As [`shaper`], with a queue of one's own.
///
/// `tbf` cuts a segmentation-offloaded packet when it is longer than its
/// largest allowed packet, and drops it if even its segments are. A peak rate
/// with the MTU as its burst sets that size exactly without slowing anything.
pub(crate) fn shaper_holding(
    rate_bits_per_s: Option<u64>,
    mtu: u32,
    pieces: Pieces,
    held: Held,
    device: &str,
) -> String {
    let unlimited = format!("qdisc replace dev {device} root noqueue\n");
    let (before, largest) = match (rate_bits_per_s, pieces) {
        (None, Pieces::Whole) => return unlimited,
        (_, Pieces::Whole) => (String::new(), String::new()),
        (rate, Pieces::Frames(bytes)) => {
            let peak = rate
                .unwrap_or(UNLIMITED_BITS_PER_S)
                .saturating_mul(10)
                .max(UNLIMITED_BITS_PER_S)
                * 2;
            let largest = format!(" peakrate {peak} mtu {}", bytes + ETHERNET_HEADER_BYTES);
            // A queue that holds a longer packet already would never send it,
            // nor anything behind it: begin with an empty one.
            (unlimited, largest)
        }
    };
    let rate = rate_bits_per_s.unwrap_or(UNLIMITED_BITS_PER_S);
    let floor = u64::from(2 * (mtu + ETHERNET_HEADER_BYTES));
    let burst = (rate / 8 * BURST_US / 1_000_000).clamp(floor, 16 << 20);
    format!(
        "{before}qdisc replace dev {device} root tbf rate {rate} burst {burst} {held}{largest}\n"
    )
}

/// How a link's senders cut their packets when it is in order: a lossy link
/// loses frames, not bursts of forty.
pub(crate) fn usual_pieces(link: &LinkSpec, mtu: u32) -> Pieces {
    if link.loss_percent > 0.0 {
        Pieces::Frames(mtu)
    } else {
        Pieces::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_line_gets_its_measured_burst() {
        let order = shaper(Some(1_000_000_000), 1500, Pieces::Whole, "eth0");
        assert_eq!(
            order,
            "qdisc replace dev eth0 root tbf rate 1000000000 burst 131125 latency 50ms\n"
        );
    }

    #[test]
    fn a_slow_line_still_passes_full_frames() {
        let order = shaper(Some(64_000), 9000, Pieces::Whole, "eth0");
        assert!(order.contains("burst 18028 "), "{order}");
    }

    #[test]
    fn unshaped_means_no_queue_at_all() {
        assert_eq!(
            shaper(None, 1500, Pieces::Whole, "eth0"),
            "qdisc replace dev eth0 root noqueue\n"
        );
        assert!(shaper(None, 1500, Pieces::Frames(1400), "eth0").contains("mtu 1414"));
    }

    #[test]
    fn loss_is_spelled_in_millionths() {
        assert_eq!(lose(5.0), "numgen random mod 1000000 < 50000 drop");
        assert_eq!(lose(100.0), "drop");
    }
}
