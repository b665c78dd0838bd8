//! Which ports the programs of this network namespace have.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use tabane_io::capture::PORT;
use tabane_io::netlink::listening_ports;

use crate::agent::Transport;

/// `TCP_LISTEN` in the tables below.
const LISTENING: &str = "0A";

/// All ports of a transport that programs listen at, or have bound (proc_pid_net(5)).
pub fn in_use(transport: Transport) -> io::Result<Vec<u16>> {
    // Of a kernel without sock_diag the table is read, which takes it milliseconds.
    if transport == Transport::Tcp
        && let Ok(ports) = listening_ports()
    {
        return Ok(ports);
    }
    let files = match transport {
        Transport::Tcp => ["/proc/self/net/tcp", "/proc/self/net/tcp6"],
        Transport::Udp => ["/proc/self/net/udp", "/proc/self/net/udp6"],
    };
    let mut ports = Vec::new();
    for file in files {
        match File::open(file) {
            Ok(file) => read(BufReader::new(file), transport, &mut ports)?,
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(ports)
}

/// Whether there are any, besides the capture's own.
///
/// # Errors
/// The system has no descriptors left.
pub fn are_in_use() -> io::Result<bool> {
    let of_programs = |transport| {
        let ports = in_use(transport)?;
        Ok::<_, io::Error>(ports.into_iter().any(|port| port != PORT))
    };
    Ok(of_programs(Transport::Tcp)? || of_programs(Transport::Udp)?)
}

fn read(table: impl BufRead, transport: Transport, ports: &mut Vec<u16>) -> io::Result<()> {
    for line in table.lines().skip(1) {
        let line = line?;
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        // Listeners come first, before perhaps many thousand connections.
        if transport == Transport::Tcp && state != Some(LISTENING) {
            break;
        }
        let port = local.and_then(|local| local.rsplit_once(':'));
        ports.extend(port.and_then(|(_, port)| u16::from_str_radix(port, 16).ok()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0
   1: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0
   2: 0100007F:0050 0200007F:8000 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0
";
    const UDP_V6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue
  99: 00000000000000000000000000000000:0035 00000000000000000000000000000000:0000 07 00000000:00000000
";

    #[test]
    fn listeners_and_bound_sockets_are_found() {
        let mut ports = Vec::new();
        read(TCP.as_bytes(), Transport::Tcp, &mut ports).unwrap();
        read(UDP_V6.as_bytes(), Transport::Udp, &mut ports).unwrap();
        assert_eq!(ports, [8080, 22, 53]);
    }
}
