//! The machine, from `/proc` and `/sys`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tabane_io::clock;

use super::{Machine, since};

/// Number of batches of clock readings to measure their cost: an interruption does not affect all batches.
const CLOCK_READINGS: u32 = 100;
const CLOCK_BATCHES: u32 = 50;

/// Counters when the watching began.
pub struct Before {
    processors: Vec<Processor>,
    daemon: Option<Scheduled>,
    daemon_pid: Option<u32>,
    throttled: Throttled,
    port: u16,
    socket_drops: u64,
    checksum_errors: u64,
    backlog_drops: u64,
    wall: Duration,
    steady_ns: u64,
    began: Instant,
}

/// Time of one processor, in ticks.
#[derive(Clone, Copy, Default)]
struct Processor {
    softirq: u64,
    stolen: u64,
    all: u64,
}

/// For how long a quota kept each control group from running that a process is in, by its path, nanoseconds.
type Throttled = BTreeMap<PathBuf, u64>;

/// Time of one process, all its threads that live.
#[derive(Clone, Copy)]
struct Scheduled {
    ran_ns: u64,
    waited_ns: u64,
}

impl Before {
    /// Reads the counters. `daemon_pid` is the daemon's process.
    pub fn take(daemon_pid: Option<u32>, port: u16) -> Before {
        Before {
            processors: processors(),
            daemon: daemon_pid.and_then(scheduled),
            daemon_pid,
            throttled: daemon_pid.map(throttled).unwrap_or_default(),
            port,
            socket_drops: socket_drops(port),
            checksum_errors: checksum_errors(),
            backlog_drops: backlog_drops(),
            wall: wall(),
            steady_ns: clock::now_ns(),
            began: Instant::now(),
        }
    }

    /// The results.
    pub fn finish(self) -> Machine {
        let elapsed_ns = self.began.elapsed().as_nanos().max(1) as f64;
        let now = self.daemon_pid.and_then(scheduled);
        let daemon = self.daemon.zip(now);
        let share = |of: fn(&Scheduled) -> u64| {
            daemon.map(|(a, b)| since(of(&a), of(&b)) as f64 / elapsed_ns)
        };
        let (softirq_share_max, stolen_share) = processor_shares(&self.processors, &processors());
        let held_back_ns = self
            .daemon_pid
            .and_then(|pid| grown(&self.throttled, &throttled(pid)));
        let steady_s = since(self.steady_ns, clock::now_ns()) as f64 * 1e-9;
        let wall_now = wall();
        Machine {
            rmem_max_bytes: number("/proc/sys/net/core/rmem_max"),
            wmem_max_bytes: number("/proc/sys/net/core/wmem_max"),
            softirq_share_max,
            stolen_share,
            daemon_ran_share: share(|s| s.ran_ns),
            daemon_waited_share: share(|s| s.waited_ns),
            daemon_throttled_share: held_back_ns.map(|ns| (ns as f64 / elapsed_ns).min(1.0)),
            socket_drops: since(self.socket_drops, socket_drops(self.port)),
            checksum_errors: since(self.checksum_errors, checksum_errors()),
            backlog_drops: since(self.backlog_drops, backlog_drops()),
            clocksource: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            clock_read_ns: clock_read_ns(),
            wall_jump_s: wall_now.as_secs_f64() - self.wall.as_secs_f64() - steady_s,
            wall_unix_s: wall_now.as_secs(),
        }
    }
}

fn text(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &str) -> Option<u64> {
    text(path)?.parse().ok()
}

fn wall() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// `/proc/stat` (proc_stat(5)): user nice system idle iowait irq softirq steal.
fn processors() -> Vec<Processor> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_one = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.strip_prefix("cpu")?;
        let ticks: Vec<u64> = words.map_while(|w| w.parse().ok()).take(8).collect();
        let is_one = !name.is_empty() && ticks.len() == 8;
        is_one.then(|| Processor {
            softirq: ticks[6],
            stolen: ticks[7],
            all: ticks.iter().sum(),
        })
    };
    stat.lines().filter_map(of_one).collect()
}

/// The largest share of interrupts of one processor, the stolen share of all.
fn processor_shares(first: &[Processor], last: &[Processor]) -> (f64, f64) {
    let pairs = first.iter().zip(last);
    let grown = pairs.map(|(a, b)| Processor {
        softirq: since(a.softirq, b.softirq),
        stolen: since(a.stolen, b.stolen),
        all: since(a.all, b.all).max(1),
    });
    let grown: Vec<Processor> = grown.collect();
    let softirq = grown.iter().map(|p| p.softirq as f64 / p.all as f64);
    let stolen: u64 = grown.iter().map(|p| p.stolen).sum();
    let all: u64 = grown.iter().map(|p| p.all).sum();
    (
        softirq.fold(0.0, f64::max),
        stolen as f64 / all.max(1) as f64,
    )
}

/// `/proc/PID/schedstat`: time on a processor, time ready but without one.
fn scheduled(pid: u32) -> Option<Scheduled> {
    let text = text(&format!("/proc/{pid}/schedstat"))?;
    let mut words = text.split_whitespace().map_while(|w| w.parse().ok());
    Some(Scheduled {
        ran_ns: words.next()?,
        waited_ns: words.next()?,
    })
}

/// Directory of control groups: of version 2, and of version 1's cpu controller.
const CGROUPS: &str = "/sys/fs/cgroup";
const CGROUPS_OF_PROCESSOR: &str = "/sys/fs/cgroup/cpu";

/// `/proc/PID/cgroup` (cgroups(7)) names the groups; `cpu.stat` of each, and of its ancestors, counts.
fn throttled(pid: u32) -> Throttled {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mut found = Throttled::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let root = match controllers {
            "" => Path::new(CGROUPS),
            some if some.split(',').any(|c| c == "cpu") => Path::new(CGROUPS_OF_PROCESSOR),
            _ => continue,
        };
        let group = root.join(path.trim_start_matches('/'));
        for group in group.ancestors().take_while(|g| g.starts_with(root)) {
            let stat = fs::read_to_string(group.join("cpu.stat")).unwrap_or_default();
            if let Some(ns) = throttled_ns(&stat) {
                found.insert(group.to_owned(), ns);
            }
        }
    }
    found
}

/// The throttled time in `cpu.stat`, of version 2 in microseconds, of version 1 in nanoseconds.
fn throttled_ns(stat: &str) -> Option<u64> {
    let of = |name: &str| {
        let value = |line: &str| line.strip_prefix(name)?.trim().parse::<u64>().ok();
        stat.lines().find_map(value)
    };
    let version_2 = of("throttled_usec ").map(|us| us.saturating_mul(1000));
    version_2.or_else(|| of("throttled_time "))
}

/// The increase for the most throttled group.
fn grown(first: &Throttled, last: &Throttled) -> Option<u64> {
    let of_one = |(group, ns): (&PathBuf, &u64)| Some(since(*first.get(group)?, *ns));
    last.iter().filter_map(of_one).max()
}

/// `/proc/net/udp`: the last column counts datagrams a socket had no room for.
fn socket_drops(port: u16) -> u64 {
    let wanted = format!(":{port:04X}");
    let of_one = |line: &str| -> Option<u64> {
        let mut words = line.split_whitespace();
        let local = words.nth(1)?;
        local
            .ends_with(&wanted)
            .then(|| words.last()?.parse().ok())?
    };
    let tables = ["/proc/net/udp", "/proc/net/udp6"].map(fs::read_to_string);
    let texts = tables.iter().flatten();
    texts.flat_map(|t| t.lines()).filter_map(of_one).sum()
}

/// `InCsumErrors` of UDP: of IPv4 in `/proc/net/snmp`, whose lines come in pairs of names and numbers, of IPv6 in `snmp6`.
fn checksum_errors() -> u64 {
    let of_ipv4 = fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let of_ipv6 = fs::read_to_string("/proc/net/snmp6").unwrap_or_default();
    let (mut udp, mut all) = (of_ipv4.lines().filter_map(|l| l.strip_prefix("Udp: ")), 0);
    if let (Some(names), Some(numbers)) = (udp.next(), udp.next()) {
        let mut pairs = names.split_whitespace().zip(numbers.split_whitespace());
        let wanted = pairs.find(|(name, _)| *name == "InCsumErrors");
        all += wanted.and_then(|(_, n)| n.parse().ok()).unwrap_or(0);
    }
    let wanted = of_ipv6
        .lines()
        .find_map(|l| l.strip_prefix("Udp6InCsumErrors"));
    all + wanted.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

/// `/proc/net/softnet_stat`: the second column, hexadecimal.
fn backlog_drops() -> u64 {
    let text = fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let of_one = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(of_one).sum()
}

fn clock_read_ns() -> f64 {
    let batch = |_| {
        let began = clock::now_ns();
        for _ in 1..CLOCK_READINGS {
            std::hint::black_box(clock::now_ns());
        }
        since(began, clock::now_ns()) as f64 / f64::from(CLOCK_READINGS)
    };
    (0..CLOCK_BATCHES).map(batch).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::throttled_ns;

    #[test]
    fn both_versions_of_control_groups_count() {
        let version_2 = "usage_usec 7\nnr_throttled 3\nthrottled_usec 2500\nburst_usec 0\n";
        assert_eq!(throttled_ns(version_2), Some(2_500_000));
        let version_1 = "nr_periods 9\nnr_throttled 3\nthrottled_time 2500\n";
        assert_eq!(throttled_ns(version_1), Some(2500));
        assert_eq!(
            throttled_ns("usage_usec 7\n"),
            None,
            "the root has no quota"
        );
    }
}
