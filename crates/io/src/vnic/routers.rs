//! Keeps the host from accepting routers and routes from the device.

use std::io;
use std::path::Path;

use crate::netlink::RouteSocket;

/// Settings of IPv6 that must be 0: advertised default routers and addresses, and better routes.
const SETTINGS: [&str; 3] = ["accept_ra", "autoconf", "accept_redirects"];

/// Switches all of it off on the device with this index and name. Returns the settings for which that
/// failed, as sysctl(8) names them: /proc/sys may be read-only. Without IPv6, nothing needs to be done.
pub(super) fn disbelieve(route: &mut RouteSocket, index: u32, name: &str) -> Vec<String> {
    let mut failed = Vec::new();
    if route.refuse_redirects(index).is_err() {
        failed.push(format!("net.ipv4.conf.{name}.accept_redirects"));
    }
    for setting in SETTINGS {
        let path = Path::new("/proc/sys/net/ipv6/conf")
            .join(name)
            .join(setting);
        let is_off = std::fs::read(&path).is_ok_and(|value| value.trim_ascii() == b"0");
        if is_off {
            continue;
        }
        match std::fs::write(&path, "0") {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                failed.push(format!("net.ipv6.conf.{name}.{setting}"));
            }
            _ => {}
        }
    }
    failed
}
