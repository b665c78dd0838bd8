//! What the devices of a lab have counted.

use serde_json::Value;

use crate::LabError;
use crate::lab::Lab;
use crate::tools::{IP, TC};
use crate::wiring::{nic, port};

/// Packets a device has sent and received since the lab is up. One of a
/// segmentation-offloaded burst is one packet as long as nothing cuts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Packets it sent.
    pub tx_packets: u64,
    /// Bytes it sent, with Ethernet headers.
    pub tx_bytes: u64,
    /// Packets it received.
    pub rx_packets: u64,
    /// Bytes it received, with Ethernet headers.
    pub rx_bytes: u64,
}

/// What the queue of a switch's port towards a node has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets it let through.
    pub packets: u64,
    /// Packets it had no room for.
    pub drops: u64,
}

impl DeviceCounters {
    /// What was counted since `before`.
    pub fn since(self, before: DeviceCounters) -> DeviceCounters {
        DeviceCounters {
            tx_packets: self.tx_packets.saturating_sub(before.tx_packets),
            tx_bytes: self.tx_bytes.saturating_sub(before.tx_bytes),
            rx_packets: self.rx_packets.saturating_sub(before.rx_packets),
            rx_bytes: self.rx_bytes.saturating_sub(before.rx_bytes),
        }
    }

    /// Both together.
    pub fn and(self, other: DeviceCounters) -> DeviceCounters {
        DeviceCounters {
            tx_packets: self.tx_packets + other.tx_packets,
            tx_bytes: self.tx_bytes + other.tx_bytes,
            rx_packets: self.rx_packets + other.rx_packets,
            rx_bytes: self.rx_bytes + other.rx_bytes,
        }
    }
}

impl Lab {
    /// What a device of a node has counted: `eth0`, `tab0`.
    ///
    /// # Errors
    /// There is no such node or device.
    pub fn device_counters(&self, node: usize, device: &str) -> Result<DeviceCounters, LabError> {
        self.check_node(node)?;
        let arguments = ["-s", "-j", "link", "show", "dev", device];
        let said = json(&IP.ask(self.node(node), &arguments)?);
        let stats = &said[0]["stats64"];
        let number = |way: &str, what: &str| stats[way][what].as_u64().unwrap_or(0);
        Ok(DeviceCounters {
            tx_packets: number("tx", "packets"),
            tx_bytes: number("tx", "bytes"),
            rx_packets: number("rx", "packets"),
            rx_bytes: number("rx", "bytes"),
        })
    }

    /// What the NICs of a node have counted together.
    ///
    /// # Errors
    /// There is no such node.
    pub fn nic_counters(&self, node: usize) -> Result<DeviceCounters, LabError> {
        (0..self.links()).try_fold(DeviceCounters::default(), |sum, link| {
            Ok(sum.and(self.device_counters(node, &nic(link))?))
        })
    }

    /// What the ports of all switches towards a node have done together.
    ///
    /// # Errors
    /// There is no such node.
    pub fn port_counters(&self, node: usize) -> Result<PortCounters, LabError> {
        self.check_node(node)?;
        (0..self.links()).try_fold(PortCounters::default(), |sum, link| {
            let arguments = ["-s", "-j", "qdisc", "show", "dev", &port(node)];
            let said = json(&TC.ask(self.switch(link), &arguments)?);
            let number = |what: &str| said[0][what].as_u64().unwrap_or(0);
            Ok(PortCounters {
                packets: sum.packets + number("packets"),
                drops: sum.drops + number("drops"),
            })
        })
    }
}

/// What `ip -j` or `tc -j` said; what cannot be read counts as nothing.
fn json(said: &[u8]) -> Value {
    serde_json::from_slice(said).unwrap_or_default()
}
