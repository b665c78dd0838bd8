//! A network device, from netlink, `/sys/class/net` and ethtool.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use tabane_cluster::mac_of;
use tabane_io::netlink::Interface;

use super::{Device, since};
use crate::doctor::judge::words::mac;
use crate::status::VnicStatus;

/// Counters that grow when something goes wrong.
const ERRORS: [&str; 9] = [
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_length_errors",
    "rx_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
    "rx_dropped",
    "tx_errors",
    "tx_dropped",
];

/// The device that has `address`, if one does.
pub fn with_address(interfaces: &[Interface], address: IpAddr) -> Option<Device> {
    let has = |i: &&Interface| i.addresses.iter().any(|a| a.ip == address);
    let interface = interfaces.iter().find(has)?;
    let own = interface.addresses.iter().find(|a| a.ip == address)?;
    let speed: Option<i64> = read(&interface.name, "speed").and_then(|t| t.parse().ok());
    Some(Device {
        name: interface.name.clone(),
        index: interface.index,
        mac: interface.mac,
        mtu_bytes: interface.mtu,
        up: interface.up,
        carrier: interface.carrier,
        prefix: own.prefix,
        // -1, and with some drivers 0 or 4294967295, means that it is not known.
        speed_mbps: speed
            .filter(|s| (1..=10_000_000).contains(s))
            .and_then(|s| u32::try_from(s).ok()),
        half_duplex: read(&interface.name, "duplex").as_deref() == Some("half"),
        physical: path(&interface.name, "device").exists(),
        features: tabane_io::ethtool::features(&interface.name).ok(),
        errors: BTreeMap::new(),
    })
}

/// How the virtual NIC is not as the daemon made it, and what mends that.
pub fn changes(vnic: &VnicStatus, interfaces: &[Interface]) -> Vec<(String, String)> {
    let (name, address) = (&vnic.name, &vnic.address);
    let Some(device) = interfaces.iter().find(|i| i.name == *name) else {
        let mend = "restart the daemon: `systemctl restart tabane`";
        return vec![(format!("`ip link` does not list {name}"), mend.to_owned())];
    };
    let mut found = Vec::new();
    if !device.up {
        let mend = format!("`ip link set {name} up`");
        found.push((format!("{name} is switched off"), mend));
    }
    let ip: Option<IpAddr> = address.split('/').next().and_then(|ip| ip.parse().ok());
    let has = |ip| device.addresses.iter().any(|a| a.ip == ip);
    if !ip.is_some_and(has) {
        let mend = format!("`ip address add {address} dev {name}`");
        found.push((
            format!("`ip address` does not list {address} of {name}"),
            mend,
        ));
    }
    if let (Some(own), Some(now)) = (ip.map(mac_of), device.mac)
        && own != now
    {
        let (own, now) = (mac(&own), mac(&now));
        let mend = format!("`ip link set {name} address {own}`");
        found.push((
            format!("the Ethernet address of {name} is {now}, not {own}"),
            mend,
        ));
    }
    found
}

/// The error counters of a device now.
pub fn errors(name: &str) -> BTreeMap<String, u64> {
    let value = |counter: &str| read(name, &format!("statistics/{counter}"))?.parse().ok();
    let found = ERRORS
        .iter()
        .filter_map(|c| Some(((*c).to_owned(), value(c)?)));
    found.collect()
}

/// Those that grew.
pub fn grown(first: &BTreeMap<String, u64>, last: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let before = |name: &str| first.get(name).copied().unwrap_or(0);
    last.into_iter()
        .map(|(name, count)| {
            let more = since(before(&name), count);
            (name, more)
        })
        .filter(|(_, more)| *more > 0)
        .collect()
}

fn path(name: &str, file: &str) -> PathBuf {
    PathBuf::from("/sys/class/net").join(name).join(file)
}

fn read(name: &str, file: &str) -> Option<String> {
    let text = fs::read_to_string(path(name, file)).ok()?;
    Some(text.trim().to_owned())
}
