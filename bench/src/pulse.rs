//! A datagram every 2 ms, and when their echoes came.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use tabane_lab::monotonic_ns;

/// Where they are sent back.
pub const PULSE_PORT: u16 = 7002;
/// So often one is sent.
pub const EVERY: Duration = Duration::from_millis(2);
/// The last ones have so long to come back.
const LINGER: Duration = Duration::from_millis(200);

/// What came back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pulses {
    /// When, nanoseconds of [`monotonic_ns`], ascending.
    pub echoes_ns: Vec<u64>,
}

impl Pulses {
    /// The longest time without an echo between two instants, ms.
    pub fn gap_ms(&self, from_ns: u64, until_ns: u64) -> f64 {
        let inside = |at: &u64| (from_ns..until_ns).contains(at);
        let echoes = self.echoes_ns.iter().copied().filter(inside);
        let marks = echoes.chain([until_ns]);
        let mut last_ns = from_ns;
        let gaps = marks.map(|at| at - core::mem::replace(&mut last_ns, at));
        gaps.max().unwrap_or(0) as f64 / 1e6
    }
}

/// Send one every 2 ms for so long. That one cannot be sent is as if it were lost.
///
/// # Errors
/// There is no socket.
pub fn beat(to: SocketAddr, lasting: Duration) -> std::io::Result<Pulses> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(LINGER))?;
    let end = Instant::now() + lasting;
    let mut pulses = Pulses::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut at = Instant::now();
            while at < end {
                let _ = socket.send_to(&[7; 8], to);
                at += EVERY;
                thread::sleep(at.saturating_duration_since(Instant::now()));
            }
        });
        while Instant::now() < end + LINGER {
            if socket.recv_from(&mut [0; 8]).is_ok() {
                pulses.echoes_ns.push(monotonic_ns());
            }
        }
    });
    Ok(pulses)
}

/// Send back what comes, until killed.
///
/// # Errors
/// The port is taken.
pub fn beat_back() -> std::io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PULSE_PORT))?;
    let mut buffer = [0; 8];
    loop {
        if let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..bytes], from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_longest_silence_is_found_also_at_the_ends() {
        let echoes_ns = [100, 102, 130, 132].map(|ms| ms * MS).to_vec();
        let pulses = Pulses { echoes_ns };
        assert_eq!(pulses.gap_ms(100 * MS, 133 * MS), 28.0);
        assert_eq!(pulses.gap_ms(110 * MS, 120 * MS), 10.0);
        assert_eq!(pulses.gap_ms(131 * MS, 200 * MS), 68.0);
        assert_eq!(Pulses::default().gap_ms(0, 5 * MS), 5.0);
    }
}
