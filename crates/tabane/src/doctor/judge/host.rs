//! This machine: processor, buffers, offloads, clocks.

use tabane_io::udp::{RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES};

use super::{flood, words};
use crate::doctor::facts::{Device, Facts, since};
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::status::StatusReport;

/// A loop that is busy for this share of the time has no reserve.
const BUSY_MIN: f64 = 0.9;
/// Packets a second that are traffic to speak of.
const BUSY_PER_S: f64 = 500.0;
/// Of that, waiting for a processor from here on means that others have it.
const WAITED_MIN: f64 = 0.2;
/// If a quota throttles the daemon for this share of the time, nothing is on time.
const THROTTLED_MIN: f64 = 0.1;
/// A processor that is busy with network interrupts for this share of the time is a
/// limit of its own.
const SOFTIRQ_MIN: f64 = 0.8;
const STOLEN_MIN: f64 = 0.1;
/// Rate of datagrams above which GRO matters.
const BULK_PER_S: f64 = 5000.0;
/// Datagrams per receive that show that GRO works.
const JOINED_MIN: f64 = 1.5;
/// A reading of the clock through a system call costs more than this.
const CLOCK_READ_NS_MAX: f64 = 1000.0;
/// A step of the wall clock worth telling.
const WALL_JUMP_S: f64 = 0.5;
/// 2020-01-01: a wall clock before this was never set.
const WALL_UNIX_S_MIN: u64 = 1_577_836_800;

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    found.extend(processor(facts));
    found.extend(interrupts(facts));
    found.extend(buffers(facts));
    for link in &facts.links {
        if let Some(device) = &link.device {
            found.extend(offloads(facts, link.number, device));
        }
    }
    found.extend(slow_clock(facts));
    found.extend(wrong_clock(facts));
}

fn processor(facts: &Facts) -> Option<Finding> {
    let daemon = facts.daemon.as_ref()?;
    if is_throttled(facts) {
        return Some(throttled(facts));
    }
    let worked_us = since(daemon.first.node.busy_us, daemon.last.node.busy_us);
    let busy = worked_us as f64 * 1e-6 / facts.seconds.max(1e-3);
    let machine = &facts.machine;
    let waited = machine.daemon_waited_share.unwrap_or(0.0);
    // An idle daemon that wakes up late costs no rate.
    let wanted = match carries(facts) {
        true => machine.daemon_ran_share.unwrap_or(0.0) + waited,
        false => 0.0,
    };
    if busy < BUSY_MIN && wanted < BUSY_MIN {
        return is_starved(facts).then(|| starved(waited));
    }
    let ran = machine.daemon_ran_share.map(|ran| {
        format!(
            "it ran for {} of the time and waited {} for a processor",
            words::percent(ran),
            words::percent(waited)
        )
    });
    let finding = Finding::new(
        Cause::Cpu,
        Severity::Slow,
        match waited >= WAITED_MIN {
            true => {
                "The daemon does not get enough processor time; that is the limit, not the links"
            }
            false => "The daemon uses all of one processor; that is the limit, not the links",
        },
    )
    .seen(format!(
        "its one loop worked for {} of the time",
        words::percent(busy.min(1.0))
    ))
    .maybe_seen(ran)
    .costs(0.5, "the links could carry more than the processor does");
    Some(match waited >= WAITED_MIN {
        true => finding
            .mend("`top` tells what else uses the processors; give it less, or the daemon more: \
                   `renice -n -10 -p $(pidof tabane)`, or CPUWeight=1000 in its unit")
            .mend("a virtual machine: give it another processor"),
        false => finding
            .mend("jumbo frames, where all of the network can: `ip link set NIC mtu 9000`")
            .mend("on wires that you trust, `wire = \"plain\"` in the cluster file saves the encryption")
            .mend("a faster processor; let it use its top speed: `cpupower frequency-set -g performance`"),
    })
}

fn is_throttled(facts: &Facts) -> bool {
    let share = facts.machine.daemon_throttled_share;
    share.is_some_and(|share| share >= THROTTLED_MIN)
}

fn throttled(facts: &Facts) -> Finding {
    let share = facts.machine.daemon_throttled_share.unwrap_or(0.0);
    Finding::new(
        Cause::Cpu,
        Severity::Slow,
        "A quota keeps the daemon from running; that is the limit, not the links",
    )
    .seen(format!(
        "`cpu.stat` of its control group: throttled for {} of the time",
        words::percent(share)
    ))
    .costs(0.5, "what arrives meanwhile waits; the links could carry more")
    .mend("a service: `systemctl show -p CPUQuotaPerSecUSec tabane`; `systemctl set-property tabane CPUQuota=` lifts it")
    .mend("a container: give it more processors, such as `docker update --cpus 2 CONTAINER`")
}

/// Whether there was traffic to speak of.
fn carries(facts: &Facts) -> bool {
    let watches = facts
        .paths
        .iter()
        .filter_map(|p| facts.path_status(&p.peer, p.link));
    let packets: u64 = watches.map(|w| w.sent() + w.received()).sum();
    packets as f64 / facts.seconds.max(1e-3) >= BUSY_PER_S
}

/// Whether the daemon often waits for a processor: then rates say little of links.
pub fn is_starved(facts: &Facts) -> bool {
    let waited = facts.machine.daemon_waited_share;
    waited.is_some_and(|w| w >= WAITED_MIN) || is_throttled(facts)
}

fn starved(waited: f64) -> Finding {
    Finding::new(
        Cause::Cpu,
        Severity::Note,
        "The daemon often waits for a processor, so links were judged with caution",
    )
    .seen(format!(
        "it waited for a processor {} of the time",
        words::percent(waited)
    ))
    .costs(0.0, "delay; less speed under load")
    .mend("`top` tells what else uses the processors")
}

fn interrupts(facts: &Facts) -> Option<Finding> {
    let machine = &facts.machine;
    if machine.softirq_share_max < SOFTIRQ_MIN && machine.stolen_share < STOLEN_MIN {
        return None;
    }
    let finding = Finding::new(
        Cause::Cpu,
        Severity::Note,
        match machine.stolen_share >= STOLEN_MIN {
            true => "The hypervisor gives this machine's processors to others",
            false => "One processor does almost nothing but network interrupts",
        },
    )
    .costs(0.1, "packets wait; under load the rate is limited by it");
    Some(match machine.stolen_share >= STOLEN_MIN {
        true => finding
            .seen(format!(
                "{} of the time was stolen",
                words::percent(machine.stolen_share)
            ))
            .mend("a host with fewer guests, or reserved processors"),
        false => finding
            .seen(format!(
                "softirq took {} of one processor",
                words::percent(machine.softirq_share_max)
            ))
            .mend("spread the NIC's queues: `ethtool -L NIC combined N`, or run irqbalance"),
    })
}

fn buffers(facts: &Facts) -> Option<Finding> {
    let watches = || {
        facts
            .links
            .iter()
            .filter_map(|l| facts.link_status(l.number))
    };
    let dropped = no_room(facts);
    let lost = (dropped > 0).then(|| {
        format!(
            "{} had no room in the sockets",
            words::counted(dropped, "packet")
        )
    });
    let receive = watches().filter_map(|w| w.last.receive_buffer_bytes).min();
    let send = watches().filter_map(|w| w.last.send_buffer_bytes).min();
    let less = |granted: Option<u64>, wanted: usize| granted.is_some_and(|g| g < wanted as u64);
    if less(receive, RECEIVE_BUFFER_BYTES) || less(send, SEND_BUFFER_BYTES) {
        return Some(small_buffers(receive.unwrap_or(0), send.unwrap_or(0), lost));
    }
    if flood::is_flooded(facts) {
        // It is what fills them.
        return None;
    }
    let lost = lost?;
    Some(
        Finding::new(
            Cause::Cpu,
            Severity::Slow,
            "The daemon comes too late to its sockets",
        )
        .seen(format!(
            "{lost}, though they are as large as they should be"
        ))
        .costs(0.2, "what finds no room is lost and sent again")
        .mend(
            "`top` tells what else uses the processors; give the daemon more: \
                 `renice -n -10 -p $(pidof tabane)`, or CPUWeight=1000 in its unit",
        ),
    )
}

/// Packets that found no room in the sockets.
pub(super) fn no_room(facts: &Facts) -> u64 {
    let links = facts.links.iter();
    let watches = links.filter_map(|l| facts.link_status(l.number));
    let by_daemon: u64 = watches.map(|watch| watch.grown(|l| l.rx_dropped)).sum();
    // The socket also counts packets that the filter drops during a flood.
    let by_system = facts.machine.socket_drops.saturating_sub(kept_off(facts));
    by_system.max(by_daemon)
}

/// Packets of a flood that the kernel dropped at the daemon's word.
pub(super) fn kept_off(facts: &Facts) -> u64 {
    facts.daemon.as_ref().map_or(0, |daemon| {
        let count = |report: &StatusReport| report.node.dropped.get("flood").copied();
        let (first, last) = (count(&daemon.first), count(&daemon.last));
        since(first.unwrap_or(0), last.unwrap_or(0))
    })
}

fn small_buffers(receive: u64, send: u64, lost: Option<String>) -> Finding {
    let (severity, share, cost) = match lost {
        None => (
            Severity::Note,
            0.0,
            "nothing now; under load, bursts that find no room are lost",
        ),
        Some(_) => (
            Severity::Slow,
            0.3,
            "what finds no room is lost and sent again",
        ),
    };
    let (want_receive, want_send) = (RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES);
    Finding::new(
        Cause::Buffers,
        severity,
        "The kernel grants small socket buffers",
    )
    .seen(format!(
        "receive buffers of {receive} bytes instead of {want_receive}, send buffers of \
             {send} instead of {want_send}"
    ))
    .maybe_seen(lost)
    .costs(share, cost)
    .mend(format!(
        "`sysctl -w net.core.rmem_max={want_receive} net.core.wmem_max={want_send}` (and in \
             /etc/sysctl.d/tabane.conf), then restart the daemon"
    ))
    .mend("or run the daemon with CAP_NET_ADMIN")
}

fn offloads(facts: &Facts, link: u8, device: &Device) -> Option<Finding> {
    let features = device.features.as_ref()?;
    let has = |part: &str| features.iter().any(|f| f.starts_with(part));
    let watch = facts.link_status(link);
    let grown = |of: fn(&crate::status::LinkStatus) -> u64| watch.map_or(0, |w| w.grown(of));
    let (receives, datagrams) = (grown(|l| l.rx_receives), grown(|l| l.rx_datagrams));
    let piecewise = grown(|l| l.tx_piecewise);
    let each = datagrams as f64 / receives.max(1) as f64;
    let is_bulk = datagrams as f64 / facts.seconds.max(1e-3) >= BULK_PER_S;
    // Strangers' packets cannot be joined.
    let one_by_one = is_bulk && each < JOINED_MIN && !flood::is_flooded(facts);
    let mut missing = Vec::new();
    if !has("tx-checksum-") {
        missing.push(("tx", "checksums of what is sent (tx-checksum)"));
    }
    if !has("tx-generic-segmentation") {
        missing.push(("gso", "cutting of bursts (generic-segmentation-offload)"));
    }
    // A virtual device gets bursts whole and need not join anything.
    if !has("rx-gro") && (device.physical || one_by_one) {
        missing.push(("gro", "joining of what arrives (generic-receive-offload)"));
    }
    if missing.is_empty() && piecewise == 0 {
        return None;
    }
    let nic = &device.name;
    let off = words::list(missing.iter().map(|(_, words)| *words));
    let switches: String = missing
        .iter()
        .map(|(short, _)| format!(" {short} on"))
        .collect();
    let finding = Finding::new(
        Cause::Offloads,
        Severity::Slow,
        format!("Link {link}: {nic} handles packets one by one"),
    )
    .link(link)
    .maybe_seen((!missing.is_empty()).then(|| format!("switched off: {off}")))
    .maybe_seen((piecewise > 0).then(|| {
        format!(
            "{} had to be sent packet by packet",
            words::counted(piecewise, "burst")
        )
    }))
    .maybe_seen(
        one_by_one.then(|| format!("{datagrams} packets were received in {receives} calls")),
    )
    .costs(0.15, "several times the processor time for each packet");
    Some(match missing.is_empty() {
        true => finding.mend(format!(
            "`ethtool -k {nic}`: the driver cannot segment UDP; a newer \
                                      kernel or driver may"
        )),
        false => finding.mend(format!("`ethtool -K {nic}{switches}`")),
    })
}

fn slow_clock(facts: &Facts) -> Option<Finding> {
    let machine = &facts.machine;
    if machine.clock_read_ns < CLOCK_READ_NS_MAX {
        return None;
    }
    let source = machine.clocksource.as_deref().unwrap_or("unknown");
    Some(
        Finding::new(Cause::Clock, Severity::Slow, "Reading the clock is slow")
            .seen(format!(
                "one reading takes {:.0} ns instead of some 30; the clock source is {source}",
                machine.clock_read_ns
            ))
            .costs(
                0.1,
                "the daemon reads the clock several times for each burst",
            )
            .mend(
                "`dmesg | grep -i -e tsc -e clocksource` tells why the kernel gave up tsc; in a \
                   virtual machine choose kvm-clock or tsc: \
                   `echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource`",
            ),
    )
}

/// tabane uses a clock that nobody sets; people and logs do not.
fn wrong_clock(facts: &Facts) -> Option<Finding> {
    let machine = &facts.machine;
    let jumped = machine.wall_jump_s.abs() >= WALL_JUMP_S;
    let unset = machine.wall_unix_s > 0 && machine.wall_unix_s < WALL_UNIX_S_MIN;
    if !jumped && !unset {
        return None;
    }
    let finding = Finding::new(
        Cause::Clock,
        Severity::Note,
        match unset {
            true => "The wall clock was never set",
            false => "The wall clock jumps",
        },
    );
    let finding = match unset {
        true => finding.seen(format!(
            "it says {} seconds after 1970",
            machine.wall_unix_s
        )),
        false => finding.seen(format!(
            "it went {:+.1} s while it was watched",
            machine.wall_jump_s
        )),
    };
    Some(
        finding
            .costs(
                0.0,
                "tabane does not use it, but for the times in its log and status; certificates \
                 and logs of other programs suffer",
            )
            .mend("`timedatectl set-ntp true`, or run chrony"),
    )
}
