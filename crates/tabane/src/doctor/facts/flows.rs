//! TCP connections over the virtual NIC.

use std::net::IpAddr;

use tabane_io::netlink::{TcpConnection, tcp_connections};

use super::Flow;

/// Connections looked at, at most.
const FLOWS_MAX: usize = 256;

/// Connections of this machine's virtual NIC, looked at again and again.
pub struct Flows {
    /// Its address.
    own: IpAddr,
    watched: Vec<(TcpConnection, TcpConnection, u32)>,
}

impl Flows {
    /// A first look.
    pub fn begin(own: IpAddr) -> Flows {
        let watched = connections(own).into_iter().take(FLOWS_MAX);
        Flows {
            own,
            watched: watched.map(|c| (c, c, c.unread_bytes)).collect(),
        }
    }

    /// Another look. Connections that ended are forgotten, new ones not begun with.
    pub fn look(&mut self) {
        let now = connections(self.own);
        self.watched.retain_mut(|(first, last, unread)| {
            let same = |c: &&TcpConnection| (c.local, c.remote) == (first.local, first.remote);
            let Some(found) = now.iter().find(same) else {
                return false;
            };
            *last = *found;
            *unread = (*unread).min(found.unread_bytes);
            true
        });
    }

    /// The results.
    pub fn finish(mut self) -> Vec<Flow> {
        self.look();
        let flow = |(first, last, unread): (TcpConnection, TcpConnection, u32)| Flow {
            local: last.local,
            remote: last.remote,
            busy_s: last.busy.saturating_sub(first.busy).as_secs_f64(),
            window_limited_s: last
                .window_limited
                .saturating_sub(first.window_limited)
                .as_secs_f64(),
            unread_bytes_min: u64::from(unread),
            sent_bytes: last.acked_bytes.saturating_sub(first.acked_bytes),
            received_bytes: last.received_bytes.saturating_sub(first.received_bytes),
        };
        self.watched.into_iter().map(flow).collect()
    }
}

fn connections(own: IpAddr) -> Vec<TcpConnection> {
    let mut all = tcp_connections().unwrap_or_default();
    // A connection to itself does not pass the bundle.
    all.retain(|c| c.local.ip() == own && c.remote.ip() != own);
    all
}
