//! Which path the next burst goes on: earliest expected delivery.
//!
//! A path's expected delivery is its queue (what is in flight over its measured
//! rate) plus its delay plus a penalty for loss. Equal paths degenerate to
//! round-robin, since the one just used has the longer queue. While the best
//! path is full, another is used if much is queued, or if all that is queued
//! would not be delivered over the best path before a burst over the other
//! (ECF, Lim et al., CoNEXT 2017): so a stream of bulk uses every path, and the
//! tail of a transfer never sits behind a slow one.
//!
//! One gate: a path without [room](Flight::has_room) is given nothing, however small
//! or urgent. What is small passes others in their queue ([`crate::op`]), not the window.
//!
//! Do no harm: content that was lost once goes where next to nothing is lost,
//! and a path that would add less than it may cost carries nothing of its own.

use crate::GRANULARITY;
use crate::link::thresholds::LOSS_TOLERATED;

use smallvec::SmallVec;

use super::explore::Doubted;
use crate::LinkId;
use crate::limits::PATHS_MAX;
use crate::link::{Flight, Path, PathState};
use crate::trace::Why;

/// Largest difference in arrival, in microseconds, between a path for new bulk content and the best path. The receiver
/// holds everything else for that long.
const SKEW_MAX_US: u64 = 40_000;
/// When this much is queued the sender is expected to go on, and every path is used.
const BULK_BYTES: usize = 128 * 1024;

/// Lost content is resent on a lossy path only if that path delivers all of it at least this many times sooner.
const MUCH_SOONER: f64 = 2.0;

/// A path is used if the bundle gains at least this factor by it, …
const GAIN_MIN: f64 = 1.05;
/// … and never if it is slower than the fastest by more than this factor: 6% more speed is not worth waiting for its packets.
const SLOWER_MAX: f64 = 16.0;
/// Share of the sender's window that is in flight when the window sets the pace. The rest waits to be read, or waits
/// for its acknowledgement. (Simulated: 0.77 with three links and a far one.)
const WINDOW_USED: f64 = 0.8;

/// What is to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand<'a> {
    /// Bytes that wait to be sent, first time or again.
    pub queued_bytes: usize,
    /// Bytes of these that were lost: they are first.
    pub lost_bytes: usize,
    /// What who sends it has under way at most.
    pub window_bytes: u64,
    /// Paths that were slow and may still be.
    pub doubted: &'a Doubted,
}

/// How a path may be used now.
#[derive(Clone, Copy)]
struct Candidate {
    id: LinkId,
    /// Until a burst handed to it now would have been delivered.
    delivery_us: u64,
    /// Until all that is queued would have been delivered over it alone.
    all_us: u64,
    open: bool,
}

/// Paths, a few at most.
type Paths<'a> = SmallVec<[(LinkId, &'a Flight); PATHS_MAX]>;

/// The paths that may carry content: those that are up, or, while none is, the
/// suspect ones.
fn eligible<'a>(paths: impl Iterator<Item = (LinkId, &'a Path)> + Clone) -> Paths<'a> {
    let any_up = paths.clone().any(|(_, p)| p.state() == PathState::Up);
    let eligible = paths.filter(|(_, p)| match p.state() {
        PathState::Up => true,
        PathState::Suspect => !any_up,
        PathState::Untested | PathState::Down => false,
    });
    eligible.map(|(id, p)| (id, p.flight())).collect()
}

/// Whether any path may carry content.
pub(super) fn any_eligible<'a>(mut paths: impl Iterator<Item = (LinkId, &'a Path)>) -> bool {
    paths.any(|(_, p)| matches!(p.state(), PathState::Up | PathState::Suspect))
}

/// The path for the next burst; `None` to wait.
///
/// `paths` are those whose socket takes datagrams now.
pub(super) fn choose<'a>(
    paths: impl Iterator<Item = (LinkId, &'a Path)> + Clone,
    demand: Demand<'_>,
) -> Option<(LinkId, Why)> {
    let mut paths = eligible(paths);
    let standby = decide_standby(&paths, demand.window_bytes, demand.doubted);
    paths.retain(|(id, _)| standby.of(*id).is_none());
    if demand.lost_bytes > 0 {
        retain_sure(&mut paths, demand.lost_bytes as u64);
    }
    let queued = demand.queued_bytes as u64;
    let candidates = paths.iter().map(|&(id, p)| Candidate {
        id,
        delivery_us: p.delivery_us((p.burst_bytes() as u64).min(queued)) as u64,
        all_us: p.delivery_us(queued) as u64,
        open: p.has_room(),
    });
    let best = candidates.clone().min_by_key(|c| c.delivery_us)?;
    if best.open {
        let why = match (paths.len(), demand.lost_bytes) {
            (1, 0) => Why::Only,
            (_, 0) => Why::Fastest,
            _ => Why::Resent,
        };
        return Some((best.id, why));
    }
    let open = candidates
        .filter(|c| c.open)
        .min_by_key(|c| c.delivery_us)?;
    let bulk =
        demand.queued_bytes >= BULK_BYTES && open.delivery_us <= best.delivery_us + SKEW_MAX_US;
    let sooner = open.delivery_us <= best.all_us;
    match (demand.lost_bytes > 0, bulk, sooner) {
        (_, false, false) => None,
        (true, ..) => Some((open.id, Why::Resent)),
        (false, true, _) => Some((open.id, Why::Bulk)),
        (false, false, true) => Some((open.id, Why::Sooner)),
    }
}

/// How a path was weighed for a choice: for a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighed {
    pub id: LinkId,
    /// Until a burst handed to it now would have been delivered, in microseconds.
    pub delivery_us: u64,
    /// Why it is on standby, if it is.
    pub standby: Option<Standby>,
}

/// How [`choose`] weighs the paths for new content.
pub(super) fn weigh<'a>(
    paths: impl Iterator<Item = (LinkId, &'a Path)> + Clone,
    demand: &Demand<'_>,
) -> SmallVec<[Weighed; PATHS_MAX]> {
    let paths = eligible(paths);
    let standby = decide_standby(&paths, demand.window_bytes, demand.doubted);
    let queued = demand.queued_bytes as u64;
    let weighed = paths.iter().map(|&(id, p)| Weighed {
        id,
        delivery_us: p.delivery_us((p.burst_bytes() as u64).min(queued)) as u64,
        standby: standby.of(id),
    });
    weighed.collect()
}

/// Leaves those that lose next to nothing more than the most reliable one, and of them the
/// nearest: everything that is carried in order waits for what was lost. Unless so much was
/// lost that a path which may lose it again has it there sooner.
fn retain_sure(paths: &mut Paths<'_>, lost_bytes: u64) {
    // Of those that may carry it: a slow path that loses nothing is no reason to
    // leave it to nobody.
    let least_loss = paths
        .iter()
        .map(|(_, p)| p.loss_ratio())
        .fold(1.0, f64::min);
    let sure = |p: &Flight| p.loss_ratio() <= least_loss + LOSS_TOLERATED;
    let soonest = |paths: &Paths<'_>, is_sure| {
        let of = paths.iter().filter(|(_, p)| sure(p) == is_sure);
        let all_us = of.map(|(_, p)| p.delivery_us(lost_bytes));
        all_us.fold(f64::INFINITY, f64::min)
    };
    if soonest(paths, false) * MUCH_SOONER < soonest(paths, true) {
        return;
    }
    paths.retain(|(_, p)| sure(p));
    let nearest = paths.iter().map(|(_, p)| p.rtt_base()).min();
    let near = nearest.unwrap_or_default() + GRANULARITY;
    paths.retain(|(_, p)| p.rtt_base() <= near);
}

/// The paths on standby (a bit each), by the reason for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct StandbySet {
    slow: u16,
    on_trial: u16,
    unsettled: u16,
    late: u16,
}

/// Why a path is on standby.
///
/// A path on *standby* is up and carries no content of its own. It is given copies now and then, lest nobody notices
/// that it has become better (`explore.rs`); acknowledgements, probes and verdicts go on it as on any other. This is
/// decided anew for each burst, in [`decide_standby`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standby {
    /// It adds next to nothing.
    Slow,
    /// It was slow, and has not shown yet that it no longer is.
    OnTrial,
    /// It seems to add next to nothing, but its rate is [not settled](Flight::rate_is_settled).
    Unsettled,
    /// All that is carried in order would wait for it.
    Late,
    /// It may carry content, but what it lost would come so late that the scheduler chooses others for everything.
    NeverChosen,
}

impl StandbySet {
    fn of(self, id: LinkId) -> Option<Standby> {
        let bit = id.bit();
        let why = [
            (self.slow, Standby::Slow),
            (self.on_trial, Standby::OnTrial),
            (self.unsettled, Standby::Unsettled),
            (self.late, Standby::Late),
        ];
        why.iter().find(|(of, _)| of & bit != 0).map(|why| why.1)
    }
}

/// Which paths are on standby while what is sent has `window_bytes` under way at most. (Whether a path is
/// [never chosen](Standby::NeverChosen) shows only later.)
fn decide_standby(paths: &Paths<'_>, window_bytes: u64, doubted: &Doubted) -> StandbySet {
    let believed = |(id, p): &(LinkId, &Flight)| doubted.believed(*id, p.rate());
    let fastest = paths.iter().map(believed).fold(0.0, f64::max);
    let mut standby = StandbySet::default();
    let is_slow = |rate: f64| rate * SLOWER_MAX < fastest;
    for path in paths {
        let (id, p) = path;
        let bit = id.bit();
        // One that was never given much to carry, or still becomes faster, may be as fast as any.
        let is_known = p.rate_is_settled() || doubted.has(*id);
        if is_known && is_slow(p.rate()) {
            standby.slow |= bit;
        } else if is_slow(believed(path)) && doubted.has(*id) {
            standby.on_trial |= bit;
        }
    }
    let slow = standby.slow | standby.on_trial;
    let quick = |(id, _): &&(LinkId, &Flight)| slow & id.bit() == 0;
    let bases = paths.iter().filter(quick).map(|(_, p)| p.rtt_base());
    if let (Some(nearest), Some(farthest)) = (bases.clone().min(), bases.max())
        && farthest > nearest + GRANULARITY
    {
        let use_of = |(id, p): &(LinkId, &Flight)| Use {
            lag_s: p.lag(nearest).as_secs_f64(),
            goodput: p.goodput(),
            bit: id.bit(),
        };
        let mut uses: SmallVec<[Use; PATHS_MAX]> = paths.iter().filter(quick).map(use_of).collect();
        let (little, late) = late(&mut uses, window_bytes);
        let settled = paths.iter().filter(|(_, p)| p.rate_is_settled());
        let settled = settled.fold(0, |bits, (id, _)| bits | id.bit());
        standby.slow |= little & settled;
        standby.unsettled = little & !settled;
        standby.late = late;
    }
    standby
}

/// What a path is good for.
struct Use {
    /// How long what is carried in order waits for what is sent here.
    lag_s: f64,
    /// Bytes per second.
    goodput: f64,
    /// The path's bit.
    bit: u16,
}

/// Paths (a bit each) that add next to nothing to nearer ones, and those that would slow
/// the bundle down: what is carried in order waits for them so long that the sender's
/// window, and not the links, sets the pace. Taken in the order of their lag, each must be
/// worth it: together they carry what they can, or what is used of a window in each lag of
/// the last one.
fn late(paths: &mut [Use], window_bytes: u64) -> (u16, u16) {
    let window = window_bytes as f64 * WINDOW_USED;
    paths.sort_unstable_by(|a, b| a.lag_s.total_cmp(&b.lag_s));
    let (mut little, mut late, mut in_use, mut best) = (0, 0, 0.0, 0.0);
    for path in paths {
        let together = (in_use + path.goodput).min(window / path.lag_s);
        if together > best * GAIN_MIN {
            best = together;
            in_use += path.goodput;
        } else if in_use + path.goodput <= best * GAIN_MIN {
            little |= path.bit;
        } else {
            late |= path.bit;
        }
    }
    (little, late)
}

/// A path on standby.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct StandbyPath {
    pub id: LinkId,
    pub why: Standby,
    /// What it seems to carry, in bytes per second.
    pub rate: f64,
    /// Packets that fit into its window.
    pub window_packets: u32,
}

/// The paths on standby. One is never chosen if others were given a whole window since it was given anything, though it may
/// be.
pub(super) fn on_standby<'a>(
    paths: impl Iterator<Item = (LinkId, &'a Path)> + Clone,
    demand: &Demand<'_>,
    given_others_bytes: impl Fn(LinkId) -> u64,
) -> SmallVec<[StandbyPath; PATHS_MAX]> {
    let paths = eligible(paths);
    let standby = decide_standby(&paths, demand.window_bytes, demand.doubted);
    let is_bulk = demand.queued_bytes >= BULK_BYTES;
    let on_standby = paths.iter().filter_map(|&(id, path)| {
        let never_chosen = is_bulk && given_others_bytes(id) > demand.window_bytes;
        let never_chosen = never_chosen.then_some(Standby::NeverChosen);
        Some(StandbyPath {
            id,
            why: standby.of(id).or(never_chosen)?,
            rate: path.rate(),
            window_packets: path.window_packets(),
        })
    });
    on_standby.collect()
}

/// The best path for something small that is not `except`: acknowledgements,
/// verdicts, the second copy of mirrored content.
pub(super) fn fastest<'a>(
    paths: impl Iterator<Item = (LinkId, &'a Path)> + Clone,
    except: Option<LinkId>,
) -> Option<LinkId> {
    let paths = eligible(paths);
    let others = paths.iter().filter(|(id, _)| Some(*id) != except);
    others
        .min_by_key(|(_, p)| p.delivery_us(64) as u64)
        .map(|(id, _)| *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 MB under way at most; paths of so many Mb/s with a lag of so many milliseconds. Those that add next to
    /// nothing, and those that are late.
    fn judged(paths: &[(f64, f64)]) -> (u16, u16) {
        let use_of = |(i, &(mbps, lag_ms)): (usize, &(f64, f64))| Use {
            lag_s: lag_ms / 1e3,
            goodput: mbps * 1e6 / 8.0,
            bit: 1 << i,
        };
        let mut uses: Vec<Use> = paths.iter().enumerate().map(use_of).collect();
        late(&mut uses, 3 << 20)
    }

    fn late_of(paths: &[(f64, f64)]) -> u16 {
        judged(paths).1
    }

    #[test]
    fn a_far_path_is_used_while_the_window_fills_more_than_the_near_one() {
        assert_eq!(late_of(&[(1000.0, 2.0), (1000.0, 12.0)]), 0);
        assert_eq!(late_of(&[(1000.0, 2.0), (1000.0, 18.0)]), 0);
        assert_eq!(late_of(&[(1000.0, 2.0), (1000.0, 20.0)]), 0b10);
        assert_eq!(late_of(&[(1000.0, 20.0), (1000.0, 2.0)]), 0b01);
        // A window is enough for slower links.
        assert_eq!(late_of(&[(200.0, 2.0), (200.0, 50.0)]), 0);
        assert_eq!(late_of(&[(1000.0, 2.0), (100.0, 18.0)]), 0);
    }

    #[test]
    fn what_adds_next_to_nothing_is_not_late() {
        assert_eq!(judged(&[(1000.0, 2.0), (40.0, 18.0)]), (0b10, 0));
        assert_eq!(judged(&[(1000.0, 2.0), (60.0, 18.0)]), (0, 0));
        // Nor would it be used if it were faster.
        assert_eq!(judged(&[(1000.0, 2.0), (40.0, 40.0)]), (0b10, 0));
    }

    #[test]
    fn the_only_path_is_used_however_far() {
        assert_eq!(late_of(&[(1000.0, 500.0)]), 0);
        assert_eq!(late_of(&[]), 0);
    }

    #[test]
    fn near_paths_stay_when_a_far_one_is_on_standby() {
        let sound = (1000.0, 2.0);
        assert_eq!(late_of(&[sound, (1000.0, 40.0), sound, sound]), 0b0010);
    }
}
