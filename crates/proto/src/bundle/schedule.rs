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
//! Do no harm: content that was lost once goes where next to nothing is lost,
//! and a path that would add less than it may cost carries nothing of its own.

use crate::LinkId;
use crate::link::{Path, PathState};
use crate::op::Pending;

/// A path is not used for new bulk content if what is sent on it would arrive
/// this much later than over the best path: the receiver would have to hold
/// everything else for that long (microseconds).
const SKEW_MAX_US: u64 = 40_000;
/// With this much queued more is expected to follow: use every path.
const BULK_BYTES: usize = 128 * 1024;
/// A path slower than the fastest by more than this factor carries no content of
/// its own: 6% more speed is not worth waiting for its packets.
const SLOWER_MAX: f64 = 16.0;
/// A path that loses this much more than the most reliable one does not carry
/// what was lost before: it would be lost again.
const LOSS_MORE_MAX: f64 = 0.02;

/// What is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Demand {
    pub pending: Pending,
    /// Bytes that wait to be sent, first time or again.
    pub queued_bytes: usize,
    /// Whether content that was lost is first in the queue.
    pub lost: bool,
}

/// How a path may be used now.
struct Candidate {
    id: LinkId,
    /// Until a burst handed to it now would have been delivered.
    delivery_us: u64,
    /// Until all that is queued would have been delivered over it alone.
    all_us: u64,
    open: bool,
}

/// The paths that may carry content: those that are up, or, while none is, the
/// suspect ones.
fn eligible<'a>(
    paths: impl Iterator<Item = (LinkId, &'a Path)> + Clone,
) -> impl Iterator<Item = (LinkId, &'a Path)> + Clone {
    let any_up = paths.clone().any(|(_, p)| p.state() == PathState::Up);
    paths.filter(move |(_, p)| match p.state() {
        PathState::Up => true,
        PathState::Suspect => !any_up,
        PathState::Untested | PathState::Down => false,
    })
}

/// The path for the next burst; `None` to wait.
///
/// `paths` are those whose socket takes datagrams now.
pub(crate) fn choose<'a>(
    paths: impl Iterator<Item = (LinkId, &'a Path)> + Clone,
    demand: Demand,
) -> Option<LinkId> {
    let eligible = eligible(paths);
    let fastest = eligible.clone().map(|(_, p)| p.rate()).fold(0.0, f64::max);
    let quick = eligible.filter(|(_, p)| !is_slow(p, fastest));
    // Among those that may carry it: a slow path that loses nothing is no reason
    // to leave it to nobody.
    let least_loss = quick
        .clone()
        .map(|(_, p)| p.loss_ratio())
        .fold(1.0, f64::min);
    let queued = demand.queued_bytes as u64;
    let candidates = quick
        .filter(|(_, p)| !demand.lost || p.loss_ratio() <= least_loss + LOSS_MORE_MAX)
        .map(|(id, p)| Candidate {
            id,
            delivery_us: p.delivery_us((p.burst_bytes() as u64).min(queued)) as u64,
            all_us: p.delivery_us(queued) as u64,
            open: p.room_bytes() >= p.mtu_bytes() as u64,
        });
    if demand.pending == Pending::Urgent {
        return candidates.min_by_key(|c| c.delivery_us).map(|c| c.id);
    }
    let best = candidates.clone().min_by_key(|c| c.delivery_us)?;
    if best.open {
        return Some(best.id);
    }
    let open = candidates
        .filter(|c| c.open)
        .min_by_key(|c| c.delivery_us)?;
    let bulk =
        demand.queued_bytes >= BULK_BYTES && open.delivery_us <= best.delivery_us + SKEW_MAX_US;
    (bulk || open.delivery_us <= best.all_us).then_some(open.id)
}

/// Whether the path was seen to be slow: one that was never given much to carry may
/// be as fast as any.
fn is_slow(path: &Path, fastest: f64) -> bool {
    path.rate_is_proven() && path.rate() * SLOWER_MAX < fastest
}

/// A path that is up but too slow to carry content of its own: it is given
/// copies now and then, lest nobody notices that it has become fast.
pub(crate) fn neglected<'a>(
    paths: impl Iterator<Item = (LinkId, &'a Path)> + Clone,
) -> Option<LinkId> {
    let eligible = eligible(paths);
    let fastest = eligible.clone().map(|(_, p)| p.rate()).fold(0.0, f64::max);
    let mut slow = eligible.filter(|(_, p)| is_slow(p, fastest));
    slow.next().map(|(id, _)| id)
}

/// The best path for something small that is not `except`: acknowledgements,
/// verdicts, the second copy of mirrored content.
pub(crate) fn fastest<'a>(
    paths: impl Iterator<Item = (LinkId, &'a Path)> + Clone,
    except: Option<LinkId>,
) -> Option<LinkId> {
    eligible(paths)
        .filter(|(id, _)| Some(*id) != except)
        .min_by_key(|(_, p)| p.delivery_us(64) as u64)
        .map(|(id, _)| id)
}
