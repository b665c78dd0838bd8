//! Clients that mean no good.

use std::fs;
use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tabane_io::checksum::{fold, pseudo_header, sum};
use tabane_io::netlink::{Interface, interfaces};
use tabane_io::outside::Outside;
use tabane_io::process::raise_descriptor_limit;

use super::asked::Asked;
use super::say_ready;

/// By which a client reaches others, and a program of a node the outside.
const DEVICES: [&str; 2] = ["eth0", "tab-out"];
/// Of a flood: each packet is of another one of these addresses, which are set aside for measurements (RFC 2544).
const STRANGERS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const STRANGERS_COUNT: u32 = 1 << 17;
/// So often a flood goes on; what a longer pause held up is not caught up with.
const TICK: Duration = Duration::from_millis(1);
const LATE_MAX: Duration = Duration::from_millis(20);
/// A device's queue for a flood, bytes.
const QUEUE_BYTES: usize = 4 << 20;
/// How long whoever has an address is asked for.
const ARP_MAX: Duration = Duration::from_secs(2);
/// A slow reader takes a byte so often.
const SIP_EVERY: Duration = Duration::from_millis(500);
/// Ports that are tried at once, each for so long.
const SCANNERS: usize = 16;
const SCAN_MAX: Duration = Duration::from_secs(1);

/// Begin connections of strangers who are not there, so many a second. Returns how many it was.
///
/// # Errors
/// It may not, or nobody says that it has the address.
pub fn flood(to: SocketAddr, lasting: Duration, per_s: u32, from: Ipv4Addr) -> io::Result<f64> {
    let SocketAddr::V4(to) = to else {
        return Err(ErrorKind::Unsupported.into());
    };
    let is_it = |device: &Interface| device.up && DEVICES.contains(&device.name.as_str());
    let own = interfaces()?.into_iter().find(is_it);
    let own = own.ok_or(ErrorKind::NotFound)?;
    let ethernet = match own.mac {
        Some(mac) => [&mac_of(to)?[..], &mac, &[8, 0]].concat(),
        None => Vec::new(),
    };
    let device = Outside::open(own.index, &[], QUEUE_BYTES)?;
    let mut random = 88_172_645_463_325_252_u64;
    let (begin, mut sent) = (Instant::now(), 0_u64);
    let mut due = begin;
    say_ready()?;
    while begin.elapsed() < lasting {
        let now = Instant::now();
        due = due.max(now.checked_sub(LATE_MAX).unwrap_or(begin));
        while due <= now {
            due += Duration::from_secs(1) / per_s;
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let packet = syn(stranger(from, random), to, random);
            // With a `virtio_net_hdr` in front that asks for nothing.
            let parts = [[0; 10].as_slice(), &ethernet, &packet].map(IoSlice::new);
            sent += u64::from(matches!(device.write(&parts), Ok(true)));
        }
        thread::sleep(TICK);
    }
    Ok(sent as f64 / begin.elapsed().as_secs_f64())
}

/// Where a packet says that it is from: `from`, or one of the strangers.
fn stranger(from: Ipv4Addr, random: u64) -> SocketAddrV4 {
    let ip = match from.is_unspecified() {
        true => Ipv4Addr::from_bits(STRANGERS.to_bits() | (random as u32 % STRANGERS_COUNT)),
        false => from,
    };
    SocketAddrV4::new(ip, 1024 + ((random >> 32) % 60_000) as u16)
}

/// Where on this network an address is.
fn mac_of(to: SocketAddrV4) -> io::Result<[u8; 6]> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let until = Instant::now() + ARP_MAX;
    loop {
        socket.send_to(&[], to)?;
        let table = fs::read_to_string("/proc/net/arp")?;
        if let Some(mac) = mac_in(&table, *to.ip()) {
            return Ok(mac);
        }
        if Instant::now() > until {
            return Err(ErrorKind::HostUnreachable.into());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// What proc(5) says of it in `/proc/net/arp`.
fn mac_in(table: &str, ip: Ipv4Addr) -> Option<[u8; 6]> {
    let of = |line: &str| line.split_whitespace().next()?.parse::<Ipv4Addr>().ok();
    let line = table.lines().find(|line| of(line) == Some(ip))?;
    let mut mac = [0; 6];
    let digits = line.split_whitespace().nth(3)?.split(':');
    for (byte, digits) in mac.iter_mut().zip(digits) {
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    (mac != [0; 6]).then_some(mac)
}

/// A packet of IP that begins a connection, as Linux begins one (RFC 791, RFC 9293), but for what it says of times.
fn syn(from: SocketAddrV4, to: SocketAddrV4, random: u64) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 48, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend(from.ip().octets());
    ip.extend(to.ip().octets());
    let of_header = !fold(sum(&ip));
    ip[10..12].copy_from_slice(&of_header.to_be_bytes());
    let mut tcp = Vec::with_capacity(28);
    tcp.extend(from.port().to_be_bytes());
    tcp.extend(to.port().to_be_bytes());
    tcp.extend((random as u32).to_be_bytes());
    tcp.extend([0, 0, 0, 0, 0x70, 2, 0xfa, 0xf0, 0, 0, 0, 0]);
    // The longest segment, and the shift of windows.
    tcp.extend([2, 4, 5, 0xb4, 1, 3, 3, 7]);
    let of_all = !fold(pseudo(from, to, tcp.len()) + sum(&tcp));
    tcp[16..18].copy_from_slice(&of_all.to_be_bytes());
    ip.extend(tcp);
    ip
}

fn pseudo(from: SocketAddrV4, to: SocketAddrV4, bytes: usize) -> u64 {
    let (from, to) = (IpAddr::V4(*from.ip()), IpAddr::V4(*to.ip()));
    pseudo_header(from, to, 6, bytes)
}

/// Ask for so many streams without end, and read next to nothing of them. Returns how many were read until the end.
///
/// # Errors
/// One cannot begin.
pub fn sip(to: SocketAddr, lasting: Duration, count: usize) -> io::Result<usize> {
    raise_descriptor_limit()?;
    let streams = (0..count).map(|_| Asked::Endless.of(to));
    let mut streams: Vec<TcpStream> = streams.collect::<io::Result<_>>()?;
    say_ready()?;
    let end = Instant::now() + lasting;
    while Instant::now() < end {
        streams.retain_mut(|stream| matches!(stream.read(&mut [0]), Ok(1)));
        thread::sleep(SIP_EVERY);
    }
    Ok(streams.len())
}

/// What whoever asks at every port has learned.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Scanned {
    /// Ports that somebody listens at.
    pub open: u64,
    /// Those of which it is said that nobody does.
    pub refused: u64,
    /// Those of which nothing is said.
    pub silent: u64,
    /// So many a second.
    pub per_s: f64,
}

/// Ask at one port after the other whether anybody listens, for so long, so many a second.
///
/// # Errors
/// Not expected.
pub fn scan(to: SocketAddr, lasting: Duration, per_s: u32) -> io::Result<Scanned> {
    let (begin, next) = (Instant::now(), AtomicU32::new(0));
    let counts = [const { AtomicU64::new(0) }; 3];
    say_ready()?;
    thread::scope(|scope| {
        for _ in 0..SCANNERS {
            scope.spawn(|| {
                while begin.elapsed() < lasting {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let due = begin + Duration::from_secs(1) * place / per_s;
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    let port = 1 + place % u32::from(u16::MAX);
                    let to = SocketAddr::new(to.ip(), port as u16);
                    let place = match TcpStream::connect_timeout(&to, SCAN_MAX) {
                        Ok(_) => 0,
                        Err(error) if error.kind() == ErrorKind::ConnectionRefused => 1,
                        Err(_) => 2,
                    };
                    counts[place].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let [open, refused, silent] = counts.map(AtomicU64::into_inner);
    Ok(Scanned {
        open,
        refused,
        silent,
        per_s: (open + refused + silent) as f64 / begin.elapsed().as_secs_f64(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::server::serve_in_test;
    use super::*;

    #[test]
    fn a_forged_packet_has_the_sums_of_a_true_one() {
        let of = |text: &str| text.parse().expect("an address");
        let (from, to) = (of("198.18.0.7:1024"), of("203.0.113.1:80"));
        let packet = syn(from, to, 7);
        // Over what a sum covers, with the sum itself, it has all bits (RFC 1071).
        assert_eq!((packet.len(), fold(sum(&packet[..20]))), (48, 0xffff));
        assert_eq!(fold(pseudo(from, to, 28) + sum(&packet[20..])), 0xffff);
    }

    #[test]
    fn who_has_an_address_is_read() {
        let table = "IP address HW type Flags HW address Mask Device\n\
            203.0.113.1 0x1 0x2 02:00:00:00:00:1f * eth0\n203.0.113.9 0x1 0x0 00:00:00:00:00:00 * eth0\n";
        let of = |last| mac_in(table, Ipv4Addr::new(203, 0, 113, last));
        assert_eq!(of(1), Some([2, 0, 0, 0, 0, 0x1f]));
        assert_eq!((of(9), of(7)), (None, None));
    }

    #[test]
    fn slow_readers_are_served_and_ports_are_found() {
        let server = serve_in_test();
        let lasting = Duration::from_millis(20);
        assert_eq!(sip(server, lasting, 3).expect("begins"), 3);
        let scanned = scan(server, lasting, 10_000).expect("scans");
        assert!(scanned.refused + scanned.open > 0 && scanned.silent == 0);
    }
}
