//! How good a path is that works: loss and speed.

use super::{host, is_said, mtu, shared, words};
use crate::doctor::facts::{Device, Facts, PathFacts, PathWatch};
use crate::doctor::finding::{Cause, Finding, Severity};
use crate::status::{PathState, PathStatus};

/// A path that sent at least this many packets during the watch shows its own loss.
const BUSY_PACKETS: u64 = 500;
/// Loss is a finding from this share on; less costs less than looking for it.
const LOSS_MIN: f64 = 0.01;
/// The same where the daemon waits for a processor: then it sends in bursts, which overflow a
/// short queue on the way.
const LOSS_MIN_STARVED: f64 = 0.05;
/// Fewer lost packets than this are chance.
const LOST_MIN: u64 = 5;
/// Losses at fewer points in time than this are chance: somebody paused.
const LOST_TIMES_MIN: usize = 3;
/// Pings are fewer, and both directions count.
const PING_LOSS_MIN: f64 = 0.02;
/// The same on a link that receives bulk: there answers also wait in the peer's full queue.
const PING_LOSS_MIN_RECEIVING: f64 = 0.05;
/// Pings lost at fewer points in time are chance, or somebody was away for a moment.
const PINGS_LOST_MIN: u32 = 3;
/// A path in use carries at least this share of its capacity.
const USED_MIN: f64 = 0.4;
/// A path with less than this share of its sibling's capacity gets only copies
/// (ARCHITECTURE.md, "Do no harm"), so its use proves nothing.
const STANDBY_BELOW: f64 = 1.0 / 16.0;
/// Below this share of a sibling's rate a path is slow.
const SLOW_BELOW: f64 = 0.6;
/// The same where processor time is short and may keep a path from being filled: then it is
/// slow only if it is clearly full, and far behind.
const USED_MIN_STARVED: f64 = 0.7;
const SLOW_BELOW_STARVED: f64 = 0.3;
/// The assumed capacity is this quantile of the readings: a momentary low one does not count.
const CAPACITY_QUANTILE: f64 = 0.75;

pub fn judge(facts: &Facts, found: &mut Vec<Finding>) {
    let working: Vec<_> = facts.paths.iter().filter_map(|p| up(facts, p)).collect();
    for (path, watch) in &working {
        found.extend(lossy(facts, path, *watch));
        found.extend(mtu::judge(facts, path, *watch));
    }
    for link in &facts.links {
        if let Some(device) = &link.device {
            found.extend(duplex(facts, link.number, device));
            if !is_said(found, Cause::Mtu, link.number) {
                found.extend(mtu::small_nic(facts, link.number, device));
            }
        }
    }
    let starved = found.iter().any(|f| f.cause == Cause::Cpu);
    for (path, watch) in &working {
        let is_explained = is_said(found, Cause::LossyLink, path.link) || shared::is_limited(watch);
        if !is_explained {
            found.extend(slow(facts, path, *watch, starved));
        }
    }
    for link in &facts.links {
        let said = is_said(found, Cause::SlowLink, link.number)
            || is_said(found, Cause::HalfDuplex, link.number);
        if let (Some(device), false) = (&link.device, said) {
            found.extend(slow_nic(facts, link.number, device));
        }
    }
}

fn up<'a>(facts: &'a Facts, path: &'a PathFacts) -> Option<(&'a PathFacts, PathWatch<'a>)> {
    let watch = facts.path_status(&path.peer, path.link)?;
    (watch.last.state == PathState::Up).then_some((path, watch))
}

fn name(facts: &Facts, link: u8) -> &str {
    facts.device(link).map_or("the NIC", |d| d.name.as_str())
}

/// A link's share of the bundle, if all are alike.
pub fn share(facts: &Facts) -> f64 {
    1.0 / facts.links.len().max(1) as f64
}

fn loss_min(facts: &Facts) -> f64 {
    match host::is_starved(facts) {
        true => LOSS_MIN_STARVED,
        false => LOSS_MIN,
    }
}

/// The lost share, and how it is known.
fn loss(facts: &Facts, path: &PathFacts, watch: PathWatch<'_>) -> Option<(f64, String)> {
    if watch.sent() < BUSY_PACKETS {
        return loss_of_pings(path, PING_LOSS_MIN, "on an idle link");
    }
    let loss = watch.lost() as f64 / watch.sent() as f64;
    let (times, of) = watch.lost_times();
    if loss >= loss_min(facts) && watch.lost() >= LOST_MIN && times >= LOST_TIMES_MIN.min(of) {
        let evidence = format!(
            "{} of {} packets sent on it were lost ({})",
            watch.lost(),
            watch.sent(),
            words::percent(loss)
        );
        return Some((loss, evidence));
    }
    let at_the_receiver = "on a link that receives";
    let tell = || loss_of_pings(path, PING_LOSS_MIN_RECEIVING, at_the_receiver);
    watch.mostly_received().then(tell).flatten()
}

/// The same by pings, from `loss_min` on.
fn loss_of_pings(path: &PathFacts, loss_min: f64, on: &str) -> Option<(f64, String)> {
    let pings = path.small?;
    let lost = pings.sent.saturating_sub(pings.answered);
    let loss = f64::from(lost) / f64::from(pings.sent.max(1));
    let times = path.lost_times.unwrap_or(lost);
    // No answer at all, on a path that works: they are not answered there.
    if pings.answered == 0 || loss < loss_min || times < PINGS_LOST_MIN {
        return None;
    }
    let evidence = format!("{lost} of {} pings were not answered, {on}", pings.sent);
    Some((loss, evidence))
}

fn lossy(facts: &Facts, path: &PathFacts, watch: PathWatch<'_>) -> Option<Finding> {
    let (loss, evidence) = loss(facts, path, watch)?;
    let (peer, link) = (&path.peer, path.link);
    let device = facts.device(link);
    let nic = name(facts, link);
    let errors = device.filter(|d| !d.errors.is_empty()).map(|d| {
        let grown = d
            .errors
            .iter()
            .map(|(name, count)| format!("{name} +{count}"));
        format!("meanwhile {nic} counted {}", words::list(grown))
    });
    let backlog = (facts.machine.backlog_drops > 0).then(|| {
        format!(
            "this machine dropped {} before any socket (net.core.netdev_max_backlog)",
            words::counted(facts.machine.backlog_drops, "packet")
        )
    });
    Some(
        Finding::new(
            Cause::LossyLink,
            Severity::Slow,
            format!("Link {link} to {peer} loses packets"),
        )
        .peer(peer)
        .link(link)
        .seen(evidence)
        .maybe_seen(errors)
        .maybe_seen(backlog)
        .costs(
            loss * share(facts),
            format!(
                "about {} of what link {link} carries is sent twice, and waits for it",
                words::percent(loss)
            ),
        )
        .mend(format!(
            "replace the cable of {nic}, here and at {peer}; try another switch port"
        ))
        .mend(format!(
            "`ethtool -S {nic} | grep -iE 'err|drop|crc'`, here and on {peer}: the end \
                       that counts errors has the bad cable or NIC"
        )),
    )
}

fn duplex(facts: &Facts, link: u8, device: &Device) -> Option<Finding> {
    if !device.half_duplex {
        return None;
    }
    let speed = device
        .speed_mbps
        .map(|s| format!(" at {s} Mb/s"))
        .unwrap_or_default();
    Some(
        Finding::new(
            Cause::HalfDuplex,
            Severity::Slow,
            format!("Link {link}: {} runs half duplex{speed}", device.name),
        )
        .link(link)
        .seen(format!("`ethtool {}` says Duplex: Half", device.name))
        .costs(
            share(facts) * 0.8,
            "it sends or receives, never both; with a full-duplex partner most large packets collide",
        )
        .mend(format!("`ethtool -s {} autoneg on`, and auto-negotiation at the switch port", device.name))
        .mend("replace the cable: a broken pair ends in this, too"),
    )
}

/// The rate that a path carried during the watch, Mb/s; `None` if it was idle.
fn carried(watch: &PathWatch<'_>) -> f64 {
    if watch.sent() < BUSY_PACKETS {
        return 0.0;
    }
    let arrived = 1.0 - watch.lost() as f64 / watch.sent() as f64;
    watch.sent_mbps() * arrived.max(0.0)
}

/// The capacity of a path, as the daemon estimated it most of the time, Mb/s; `None` until it
/// was once given more than it can take.
fn capacity(watch: &PathWatch<'_>) -> Option<f64> {
    let known = watch.readings().filter(|p| p.capacity_proven);
    let mut read: Vec<f64> = known.filter_map(|p| p.capacity_mbps).collect();
    read.sort_by(f64::total_cmp);
    let at = (read.len() as f64 * CAPACITY_QUANTILE) as usize;
    read.get(at.min(read.len().saturating_sub(1))).copied()
}

/// A path that can carry less than a sibling carried all the time. Estimates alone prove
/// nothing: tokens saved up in a bucket, or buffers of a switch, look like speed at first. So
/// the sibling counts with what it carried, and without load there is no finding.
fn slow(facts: &Facts, path: &PathFacts, watch: PathWatch<'_>, starved: bool) -> Option<Finding> {
    let (used_min, below) = match starved {
        true => (USED_MIN_STARVED, SLOW_BELOW_STARVED),
        false => (USED_MIN, SLOW_BELOW),
    };
    let siblings = facts
        .paths
        .iter()
        .filter(|p| p.peer == path.peer && p.link != path.link);
    let of_sibling = |p: &PathFacts| Some((p.link, carried(&up(facts, p)?.1)));
    let (other, best) = siblings
        .filter_map(of_sibling)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let carried = carried(&watch);
    let own = capacity(&watch)?.max(carried);
    let in_use = carried >= own * used_min;
    let is_standby = own < best * STANDBY_BELOW && !starved;
    // A path that did not work all the time carried less because of that.
    let works = |p: &PathStatus| matches!(p.state, PathState::Up | PathState::Suspect);
    let was_away = !watch.readings().all(works);
    if own >= best * below || !(in_use || is_standby) || was_away {
        return None;
    }
    let (peer, link, nic) = (&path.peer, path.link, name(facts, path.link));
    let speed = facts
        .device(link)
        .filter(|d| d.physical)
        .and_then(|d| d.speed_mbps);
    Some(
        Finding::new(
            Cause::SlowLink,
            Severity::Slow,
            format!("Link {link} to {peer} is slow: {own:.0} Mb/s, link {other} does {best:.0}"),
        )
        .peer(peer)
        .link(link)
        .seen(format!(
            "under load link {other} carried {best:.0} Mb/s for {:.1} s, link {link} {carried:.0} \
             and could carry {own:.0}",
            facts.seconds
        ))
        .maybe_seen(speed.map(|s| format!("{nic} says {s} Mb/s")))
        .costs(
            (1.0 - own / best) * share(facts),
            format!(
                "{:.0} Mb/s, compared with a link like link {other}",
                best - own
            ),
        )
        .mend(format!(
            "`ethtool {nic}` here and on {peer}: Speed as it should be? If not: cable \
                       (all four pairs), switch port, `ethtool -s {nic} autoneg on`"
        ))
        .mend(
            "does other traffic use this link or its switch? If the link is meant to be slower, \
               all is well: tabane gives it what it can carry",
        ),
    )
}

/// The NICs' own link speeds, if nothing was measured.
fn slow_nic(facts: &Facts, link: u8, device: &Device) -> Option<Finding> {
    let own = device.speed_mbps.filter(|_| device.physical)?;
    let others = facts.links.iter().filter(|l| l.number != link);
    let speeds = others.filter_map(|l| Some((l.number, l.device.as_ref()?.speed_mbps?)));
    let (other, best) = speeds.max_by_key(|(_, speed)| *speed)?;
    if f64::from(own) >= f64::from(best) * SLOW_BELOW {
        return None;
    }
    let nic = &device.name;
    Some(
        Finding::new(
            Cause::SlowLink,
            Severity::Slow,
            format!(
                "Link {link} is slow: {nic} runs at {own} Mb/s, the NIC of link {other} at {best}"
            ),
        )
        .link(link)
        .seen(format!("`ethtool {nic}` says Speed: {own}Mb/s"))
        .costs(
            (1.0 - f64::from(own) / f64::from(best)) * share(facts),
            format!(
                "{} Mb/s, compared with a link like link {other}",
                best - own
            ),
        )
        .mend(format!(
            "`ethtool {nic}`: do both sides advertise more? Then it is the cable (all \
                       four pairs are needed); else the NIC or the switch port cannot do more"
        ))
        .mend("if the link is meant to be slower, all is well"),
    )
}
