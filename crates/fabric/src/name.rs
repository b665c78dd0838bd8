//! Addresses of endpoints as programs exchange them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use tabane_rank::Address;

use crate::abi::constants as c;

/// Length of an address among several, in bytes: that of the longest and one more. Shorter ones are padded with zeros,
/// since programs concatenate them.
pub const BYTES: usize = 48;

/// Stands for the unknown address of an endpoint on a named host. It is no valid address.
pub const UNKNOWN: [u8; BYTES] = [0; BYTES];

/// Prefix of a printed address.
const SCHEME: &str = "fi_addr_tabane://";

/// The address with zeros behind it.
pub fn raw(address: &Address) -> [u8; BYTES] {
    let mut raw = [0; BYTES];
    let bytes = address.as_bytes();
    raw[..bytes.len()].copy_from_slice(bytes);
    raw
}

/// An address to be printed.
pub fn shown(address: &Address) -> String {
    format!("{SCHEME}{}", address.to_name())
}

/// An address that was printed.
pub fn parse(text: &str) -> Option<Address> {
    Address::from_name(text.strip_prefix(SCHEME)?).ok()
}

/// Length of a `sockaddr_in` and of a `sockaddr_in6`.
const SOCKET_V4_BYTES: usize = 16;
const SOCKET_V6_BYTES: usize = 28;
/// The longer of them.
pub const SOCKET_BYTES_MAX: usize = SOCKET_V6_BYTES;

/// The address of a socket as C has it.
pub fn socket(at: &SocketAddr) -> Vec<u8> {
    let family = match at {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let mut bytes = (family as u16).to_ne_bytes().to_vec();
    bytes.extend(at.port().to_be_bytes());
    match at {
        SocketAddr::V4(v4) => {
            bytes.extend(v4.ip().octets());
            bytes.resize(SOCKET_V4_BYTES, 0);
        }
        SocketAddr::V6(v6) => {
            bytes.extend(v6.flowinfo().to_ne_bytes());
            bytes.extend(v6.ip().octets());
            bytes.extend(v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// How long the address of a socket is that begins so; none: it is of a family that is not known.
pub fn socket_bytes(family: [u8; 2]) -> Option<usize> {
    match i32::from(u16::from_ne_bytes(family)) {
        libc::AF_INET => Some(SOCKET_V4_BYTES),
        libc::AF_INET6 => Some(SOCKET_V6_BYTES),
        _ => None,
    }
}

/// Parses a socket address from C; trailing bytes are ignored.
pub fn parse_socket(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, _) = bytes.split_first_chunk::<2>()?;
    let bytes = bytes.get(..socket_bytes(*family)?)?;
    let (port, rest) = bytes[2..].split_first_chunk()?;
    let port = u16::from_be_bytes(*port);
    if bytes.len() == SOCKET_V4_BYTES {
        let octets: [u8; 4] = *rest.first_chunk()?;
        return Some((Ipv4Addr::from(octets), port).into());
    }
    let (flow, rest) = rest.split_first_chunk()?;
    let (octets, rest) = rest.split_first_chunk::<16>()?;
    let scope = rest.first_chunk()?;
    let (flow, scope) = (u32::from_ne_bytes(*flow), u32::from_ne_bytes(*scope));
    Some(SocketAddrV6::new(Ipv6Addr::from(*octets), port, flow, scope).into())
}

/// The format of the address of a socket.
pub fn socket_format(at: &SocketAddr) -> u32 {
    match at {
        SocketAddr::V4(_) => c::SOCKADDR_IN,
        SocketAddr::V6(_) => c::SOCKADDR_IN6,
    }
}

/// The socket address of a host's name and a port's number, in a format (`FI_SOCKADDR_IN`, …).
pub fn resolve(node: Option<&str>, service: Option<&str>, format: u32) -> Option<SocketAddr> {
    let port = service.map_or(Some(0), |service| service.parse().ok())?;
    let fits = |at: &SocketAddr| match format {
        c::SOCKADDR_IN | c::SOCKADDR_IN6 => socket_format(at) == format,
        _ => true,
    };
    let Some(node) = node else {
        let any: IpAddr = match format {
            c::SOCKADDR_IN6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        return Some((any, port).into());
    };
    let mut found: Vec<_> = (node, port).to_socket_addrs().ok()?.filter(fits).collect();
    // Links are of IPv4 as a rule.
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied()
}

/// An address of a host, by its name.
pub fn host(node: &str) -> Option<IpAddr> {
    resolve(Some(node), None, c::FORMAT_UNSPEC).map(|at| at.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_socket_comes_back() {
        for (text, bytes, format) in [
            ("10.77.0.1:9228", 16, c::SOCKADDR_IN),
            ("[fd00::1%3]:1", 28, c::SOCKADDR_IN6),
        ] {
            let at: SocketAddr = text.parse().expect("is one");
            let mut raw = socket(&at);
            assert_eq!(raw.len(), bytes);
            assert_eq!(parse_socket(&raw[..bytes - 1]), None);
            raw.push(7);
            assert_eq!(parse_socket(&raw), Some(at));
            assert_eq!(socket_format(&at), format);
        }
        assert_eq!(parse_socket(&[0; 16]), None);
        assert_eq!(parse_socket(&[]), None);
    }

    #[test]
    fn hosts_and_ports_are_found() {
        let any = |format| resolve(None, Some("9228"), format).map(|at| at.to_string());
        assert_eq!(any(0).as_deref(), Some("0.0.0.0:9228"));
        assert_eq!(any(c::SOCKADDR_IN6).as_deref(), Some("[::]:9228"));
        let here = |node, format| resolve(Some(node), None, format).map(|at| at.to_string());
        assert_eq!(here("127.0.0.1", 0).as_deref(), Some("127.0.0.1:0"));
        assert_eq!(here("127.0.0.1", c::SOCKADDR_IN6), None);
        assert_eq!(resolve(None, Some("http"), 0), None);
        assert_eq!(resolve(None, Some("65536"), 0), None);
    }
}
