//! Which path the next burst goes on: earliest expected delivery.
//!
//! A path's expected delivery is its queue (what is in flight over its measured
//! rate) plus its delay plus a penalty for loss. Equal paths degenerate to
//! round-robin, since the one just used has the longer queue. While the best
//! path is full, another is used if much is queued, or if all that is queued
//! would not be delivered over the best path before a burst over the other
//! (ECF, Lim et al., CoNEXT 2017): so a stream of bulk uses every path, and the
//! tail of a transfer never sits behind a slow one.

use crate::LinkId;
use crate::link::{Path, PathState};
use crate::op::Pending;

/// A path is not used for new bulk content if what is sent on it would arrive
/// this much later than over the best path: the receiver would have to hold
/// everything else for that long (microseconds).
const SKEW_MAX_US: u64 = 40_000;
/// With this much queued more is expected to follow: use every path.
const BULK_BYTES: usize = 128 * 1024;

/// How a path may be used now.
struct Candidate {
    id: LinkId,
    /// Until a burst handed to it now would have been delivered.
    delivery_us: u64,
    /// Until all that is queued would have been delivered over it alone.
    all_us: u64,
    open: bool,
}

/// Whether `path` may carry content: an up one, or, while none is up, a suspect one.
fn eligible(path: &Path, any_up: bool) -> bool {
    match path.state() {
        PathState::Up => true,
        PathState::Suspect => !any_up,
        PathState::Untested | PathState::Down => false,
    }
}

/// The path for the next burst of `pending` content; `None` to wait.
///
/// `paths` are those whose socket takes datagrams now; `queued_bytes` is all
/// that waits to be sent.
pub(crate) fn choose<'a>(
    paths: impl Iterator<Item = (LinkId, &'a Path)> + Clone,
    pending: Pending,
    queued_bytes: usize,
) -> Option<LinkId> {
    let any_up = paths.clone().any(|(_, p)| p.state() == PathState::Up);
    let candidates = paths
        .filter(|(_, p)| eligible(p, any_up))
        .map(|(id, p)| Candidate {
            id,
            delivery_us: p.delivery_us(p.burst_bytes().min(queued_bytes.max(1)) as u64) as u64,
            all_us: p.delivery_us(queued_bytes as u64) as u64,
            open: p.room_bytes() >= p.mtu_bytes() as u64,
        });
    if pending == Pending::Urgent {
        return candidates.min_by_key(|c| c.delivery_us).map(|c| c.id);
    }
    let best = candidates.clone().min_by_key(|c| c.delivery_us)?;
    if best.open {
        return Some(best.id);
    }
    let open = candidates
        .filter(|c| c.open)
        .min_by_key(|c| c.delivery_us)?;
    let bulk = queued_bytes >= BULK_BYTES && open.delivery_us <= best.delivery_us + SKEW_MAX_US;
    (bulk || open.delivery_us <= best.all_us).then_some(open.id)
}

/// The best path for something small that is not `except`: acknowledgements,
/// verdicts, the second copy of mirrored content.
pub(crate) fn fastest<'a>(
    paths: impl Iterator<Item = (LinkId, &'a Path)> + Clone,
    except: Option<LinkId>,
) -> Option<LinkId> {
    let any_up = paths.clone().any(|(_, p)| p.state() == PathState::Up);
    paths
        .filter(|(id, p)| Some(*id) != except && eligible(p, any_up))
        .min_by_key(|(_, p)| p.delivery_us(64) as u64)
        .map(|(id, _)| id)
}
