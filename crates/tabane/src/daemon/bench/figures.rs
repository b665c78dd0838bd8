//! This node's counters, as both ends of a measurement compare them.

use tabane_engine::Engine;
use tabane_proto::link::PathState;
use tabane_proto::{PeerId, Time};

use super::flows::Counts;
use crate::bench::words::{Figures, LinkFigures};

/// What the kernel says of the processor time of the thread that reads it: nanoseconds that it ran, and waited to run.
const SCHEDULE: &str = "/proc/thread-self/schedstat";

/// The counters now, for the measurement with a peer.
pub fn figures(now: Time, engine: &Engine, peer: PeerId, counts: Counts) -> Figures {
    let schedule = std::fs::read_to_string(SCHEDULE).ok();
    let [cpu_us, waited_us] = schedule.map_or([None; 2], |text| times_us(&text));
    let dropped = |link: u8| {
        let links = engine.link_status().into_iter();
        let mut this = links.filter(|of| of.id.0 == link);
        this.next().map_or(0, |of| of.counters.kernel_drops)
    };
    let stats = engine.node.peer_stats(peer);
    let paths = stats.map_or_else(Vec::new, |stats| stats.paths);
    let links = paths.iter().map(|path| LinkFigures {
        link: path.link.0,
        is_up: path.state == PathState::Up,
        tx_packets: path.stats.packets_sent,
        tx_lost_packets: path.stats.packets_lost,
        rx_bytes: path.stats.bytes_received,
        rx_dropped: dropped(path.link.0),
    });
    Figures {
        now_us: now.as_ns() / 1000,
        cpu_us,
        waited_us,
        taken_bytes: counts.taken_bytes,
        datagrams_sent: counts.datagrams_sent,
        datagrams_taken: counts.datagrams_taken,
        in_the_way: counts.in_the_way,
        links: links.collect(),
    }
}

/// The first two numbers of a line, which are nanoseconds.
fn times_us(line: &str) -> [Option<u64>; 2] {
    let mut numbers = line.split_ascii_whitespace();
    [(); 2].map(|()| Some(numbers.next()?.parse::<u64>().ok()? / 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_read() {
        assert_eq!(times_us("5000 7000 9\n"), [Some(5), Some(7)]);
        assert_eq!(times_us("x 1000"), [None, Some(1)]);
        assert_eq!(times_us(""), [None, None]);
    }
}
