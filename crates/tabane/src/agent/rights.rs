//! Which ports a user may have, by the kernel's rules and the kernel's word on who asks (SO_PEERCRED): not by
//! what is said in a namespace, in which a user may do everything.

use std::fs;
use std::net::SocketAddr;

/// Below this a port is root's, if the system does not say.
const UNPRIVILEGED_PORT_MIN: u16 = 1024;
pub(super) const ROOT: u32 = 0;

/// The kernel's rules, as they were when they were looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    unprivileged_port_min: u16,
}

impl Rights {
    /// As they are in this network namespace: ip_unprivileged_port_start (ip-sysctl.rst).
    pub fn look() -> Rights {
        let said = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        let number = said.ok().and_then(|said| said.trim().parse().ok());
        Rights {
            unprivileged_port_min: number.unwrap_or(UNPRIVILEGED_PORT_MIN),
        }
    }

    /// Whether a user may have this port at this node, if nobody else has it. Instead of port 0 the kernel
    /// chooses one that anybody may have.
    pub fn may_have(self, uid: u32, port: u16) -> bool {
        uid == ROOT || port == 0 || port >= self.unprivileged_port_min
    }

    /// The end that other nodes are shown for a connection of a user: as it is, or, if its port is one that
    /// the user may not have, with a port of the far end's choice (0). Servers that trust the ports of root
    /// may go on doing so.
    pub fn shown(self, uid: u32, from: SocketAddr) -> SocketAddr {
        match self.may_have(uid, from.port()) {
            true => from,
            false => (from.ip(), 0).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_root_are_had_and_shown_by_root_alone() {
        let rights = Rights {
            unprivileged_port_min: 1024,
        };
        for (uid, port, may) in [
            (ROOT, 1, true),
            (1000, 1023, false),
            (1000, 1024, true),
            (1000, 65_535, true),
            (1000, 0, true),
        ] {
            assert_eq!(rights.may_have(uid, port), may, "{uid}, {port}");
            let from = SocketAddr::from(([10, 0, 0, 1], port));
            let expected = if may { port } else { 0 };
            assert_eq!(rights.shown(uid, from).port(), expected);
            assert_eq!(rights.shown(uid, from).ip(), from.ip());
        }
    }
}
