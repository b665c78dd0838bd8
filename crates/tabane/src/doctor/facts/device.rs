//! A network device, from netlink, `/sys/class/net` and ethtool.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use tabane_io::netlink::Interface;

use super::{Device, since};

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
    Some(Device {
        name: interface.name.clone(),
        index: interface.index,
        mac: interface.mac,
        mtu_bytes: interface.mtu,
        up: interface.up,
        carrier: interface.carrier,
        prefix: own.prefix,
        speed_mbps: speed_mbps(&interface.name),
        half_duplex: read(&interface.name, "duplex").as_deref() == Some("half"),
        physical: path(&interface.name, "device").exists(),
        features: tabane_io::ethtool::features(&interface.name).ok(),
        errors: BTreeMap::new(),
    })
}

/// The speed of a device, Mb/s, if it is known.
pub fn speed_mbps(name: &str) -> Option<u32> {
    let speed: i64 = read(name, "speed")?.parse().ok()?;
    // -1, and with some drivers 0 or 4294967295, means that it is not.
    let is_known = (1..=10_000_000).contains(&speed);
    u32::try_from(speed).ok().filter(|_| is_known)
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
