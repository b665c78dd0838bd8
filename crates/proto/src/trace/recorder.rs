//! The events of one peer that wait for the driver, and the last told state of each path.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::{Chosen, EVENTS_WAITING_MAX, End, PathMetrics, TraceEvent};
use crate::bundle::{PeerState, Standby};
use crate::limits::PATHS_MAX;
use crate::link::{Decided, PathState};
use crate::wire::{LinkVerdict, Witness};
use crate::{LinkId, Time};

/// The state of a path whose changes are told.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PathView {
    pub remote: SocketAddr,
    pub state: PathState,
    /// The witness of the state.
    pub witness: Witness,
    /// This end's verdict and the peer's, and what told each.
    pub verdicts: [(LinkVerdict, Witness); 2],
    pub congestion: &'static str,
    pub mtu_bytes: u32,
    pub granted_bytes_per_s: Option<f64>,
}

/// The last told state of a path.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    view: Option<PathView>,
    metrics: Option<PathMetrics>,
    standby: Option<Standby>,
}

/// Records the events of one peer.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    events: VecDeque<(Time, TraceEvent)>,
    left_out: u64,
    state: Option<PeerState>,
    /// When the keys came into use that were told last.
    session_since: Option<Time>,
    paths: [Told; PATHS_MAX],
}

impl Recorder {
    /// Something happened.
    pub fn push(&mut self, now: Time, event: TraceEvent) {
        if self.events.len() >= EVENTS_WAITING_MAX {
            self.left_out += 1;
            return;
        }
        if self.left_out > 0 {
            let events = core::mem::take(&mut self.left_out);
            self.events.push_back((now, TraceEvent::LeftOut { events }));
        }
        self.events.push_back((now, event));
    }

    /// The oldest event that waits, and when it happened.
    pub fn pop(&mut self) -> Option<(Time, TraceEvent)> {
        self.events.pop_front()
    }

    /// Memory held, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Recorder>() + self.events.capacity() * size_of::<(Time, TraceEvent)>()
    }

    /// The peer is in this state, under keys that came into use then.
    pub fn see_peer(&mut self, now: Time, state: PeerState, session_since: Option<Time>) {
        if self.state != Some(state) {
            let before = self.state.replace(state);
            self.push(now, TraceEvent::PeerState { before, now: state });
        }
        if session_since.is_some() && self.session_since != session_since {
            self.session_since = session_since;
            self.push(now, TraceEvent::Session);
        }
    }

    /// Tells what has changed in a path since the last time.
    pub fn see_path(&mut self, now: Time, path: LinkId, view: &PathView) {
        let before = self.paths[path.index()].view.replace(*view);
        if before.as_ref() == Some(view) {
            return;
        }
        let was = before.as_ref();
        if was.map(|was| was.remote) != Some(view.remote) {
            let remote = view.remote;
            self.push(now, TraceEvent::Address { path, remote });
        }
        for (i, end) in [End::Own, End::Peer].into_iter().enumerate() {
            if was.map(|was| was.verdicts[i]) != Some(view.verdicts[i]) {
                let (verdict, witness) = view.verdicts[i];
                self.push(
                    now,
                    TraceEvent::Verdict {
                        path,
                        end,
                        verdict,
                        witness,
                    },
                );
            }
        }
        if was.map(|was| was.state) != Some(view.state) {
            self.push(
                now,
                TraceEvent::PathState {
                    path,
                    before: was.map(|was| was.state),
                    now: view.state,
                    witness: view.witness,
                },
            );
        }
        self.tell_speed(now, path, was, view);
    }

    /// Tells what of a path's speed and packets is not as it was.
    fn tell_speed(&mut self, now: Time, path: LinkId, was: Option<&PathView>, view: &PathView) {
        if was.map(|was| was.congestion) != Some(view.congestion) {
            self.push(
                now,
                TraceEvent::Congestion {
                    path,
                    before: was.map(|was| was.congestion),
                    now: view.congestion,
                },
            );
        }
        if was.map(|was| was.mtu_bytes) != Some(view.mtu_bytes) {
            self.push(
                now,
                TraceEvent::Mtu {
                    path,
                    before: was.map(|was| was.mtu_bytes),
                    now: view.mtu_bytes,
                },
            );
        }
        let granted = was.and_then(|was| was.granted_bytes_per_s);
        if granted != view.granted_bytes_per_s {
            let bytes_per_s = view.granted_bytes_per_s;
            self.push(now, TraceEvent::Granted { path, bytes_per_s });
        }
    }

    /// A path's figures are these now.
    pub fn see_metrics(&mut self, now: Time, path: LinkId, metrics: PathMetrics) {
        let before = self.paths[path.index()].metrics.replace(metrics);
        if before != Some(metrics) {
            self.push(now, TraceEvent::Metrics { path, metrics });
        }
    }

    /// A path was chosen; `standby` says of each path whether it is on standby, and why.
    pub fn see_choice(
        &mut self,
        now: Time,
        chosen: Chosen,
        standby: impl Iterator<Item = (LinkId, Option<Standby>)>,
    ) {
        for (path, why) in standby {
            let before = core::mem::replace(&mut self.paths[path.index()].standby, why);
            if before != why {
                self.push(
                    now,
                    TraceEvent::Standby {
                        path,
                        before,
                        now: why,
                    },
                );
            }
        }
        self.push(now, TraceEvent::Chosen(chosen));
    }

    /// Fates of packets of a path, in the order in which they were decided.
    pub fn see_decided(
        &mut self,
        now: Time,
        path: LinkId,
        decided: impl Iterator<Item = (u64, Decided)>,
    ) {
        let mut run: Option<(u64, u32)> = None;
        for (number, decided) in decided {
            match (decided, &mut run) {
                (Decided::Acked, Some((first, count))) if number == *first + u64::from(*count) => {
                    *count += 1;
                }
                (Decided::Acked, _) => {
                    self.tell_acked(now, path, run.replace((number, 1)));
                }
                (Decided::Lost { bytes, cause }, _) => {
                    self.tell_acked(now, path, run.take());
                    self.push(
                        now,
                        TraceEvent::Lost {
                            path,
                            number,
                            bytes,
                            cause,
                        },
                    );
                }
            }
        }
        self.tell_acked(now, path, run);
    }

    fn tell_acked(&mut self, now: Time, path: LinkId, run: Option<(u64, u32)>) {
        if let Some((first, count)) = run {
            self.push(now, TraceEvent::Acked { path, first, count });
        }
    }
}
