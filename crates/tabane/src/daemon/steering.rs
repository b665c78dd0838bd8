//! The daemon's side of the keeper of Multipath TCP.

use core::time::Duration;
use std::process::Child;

use tabane_engine::{LoopTurn, Setback};
use tabane_io::poll::{Interest, Poller};
use tabane_proto::link::PathState;
use tabane_proto::{Event, Node, PeerId, PeerState, PeerStats, Time};

use super::run::{Daemon, TOKEN_KEEPER};
use crate::log;
use crate::steer::{Loss, PathPicture, PeerPicture, Picture, Report, Steering};

/// A path that was never answered has failed when the peer has been there for this long.
const SETTLING: Duration = Duration::from_secs(1);

/// A keeper that ran this long has steered.
const HAS_STEERED: Duration = Duration::from_secs(60);

/// The keeper, if it is wanted and there.
#[derive(Debug, Default)]
pub struct Helm {
    steering: Option<Steering>,
    /// When to start a keeper, if none runs.
    start_at: Option<Time>,
    /// When the last one was, and how often they have ended soon.
    started: Time,
    setback: Setback,
    /// The one before, if it was not seen to end.
    former: Option<Child>,
    /// When to tell it the links anew.
    draw_at: Option<Time>,
    /// Why nothing can be steered.
    failed: Option<String>,
}

impl Helm {
    /// Starts a keeper. Without one everything else works.
    pub fn start(poller: &Poller, now: Time) -> Helm {
        let mut helm = Helm::default();
        helm.begin(poller, now);
        helm
    }

    fn begin(&mut self, poller: &Poller, now: Time) {
        (self.start_at, self.started) = (None, now);
        let started = Steering::start().and_then(|steering| {
            poller.register(&steering, TOKEN_KEEPER, Interest::Read)?;
            Ok(steering)
        });
        match started {
            Ok(steering) => {
                self.steering = Some(steering);
                self.draw_at = Some(now);
            }
            Err(error) => self.fail(now, error.to_string()),
        }
    }

    /// Nothing can be steered: logs that once, and retries at growing intervals.
    fn fail(&mut self, now: Time, why: String) {
        if self.failed.as_ref() != Some(&why) {
            log::warn(format!("Multipath TCP is not steered: {why}; still trying"));
        }
        self.failed = Some(why);
        self.start_later(now);
    }

    fn start_later(&mut self, now: Time) {
        if now.since(self.started) > HAS_STEERED {
            self.setback.end();
        }
        self.start_at = Some(now + self.setback.pause());
    }

    /// The keeper's report; `None`: nothing is steered.
    pub fn report(&self) -> Option<&Report> {
        self.steering.as_ref().map(|steering| &steering.report)
    }

    /// Why nothing is steered though it should be, in words.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Whether it is there, or will be.
    pub fn is_steering(&self) -> bool {
        self.steering.is_some() || self.start_at.is_some()
    }

    /// Something happened to a peer or a path.
    pub fn event(&mut self, now: Time, event: &Event) {
        if matches!(
            event,
            Event::PeerUp { .. }
                | Event::PeerDown { .. }
                | Event::LinkUp { .. }
                | Event::LinkDown { .. }
        ) {
            self.draw_at = Some(now);
        }
    }

    /// The cluster is another one.
    pub fn redraw(&mut self, now: Time) {
        self.draw_at = Some(now);
        self.start_at = self.start_at.map(|_| now);
    }

    /// Makes the keeper restore everything.
    pub fn stop(&mut self, poller: &Poller) {
        self.start_at = None;
        self.failed = None;
        self.let_go(poller);
    }

    fn let_go(&mut self, poller: &Poller) {
        if let Some(steering) = self.steering.take() {
            let _ = poller.deregister(&steering);
            self.former = Some(steering.stop());
        }
    }

    /// Starts another keeper, if that is due. It first removes the routes that the one before has left.
    fn start_again(&mut self, poller: &Poller) {
        let now = tabane_engine::now();
        if self.start_at.is_some_and(|at| at <= now) {
            if let Some(former) = &mut self.former {
                let _ = former.try_wait();
            }
            self.begin(poller, now);
        }
    }
}

impl Daemon {
    /// Tells the keeper how the links are, if that is due.
    pub(super) fn draw(&mut self, node: &Node, poller: &Poller) {
        if self.helm.start_at.is_some() {
            self.helm.start_again(poller);
        }
        let Some(mut steering) = self.helm.steering.take() else {
            return;
        };
        let due = self.helm.draw_at.and_then(|at| {
            let now = tabane_engine::now();
            (at <= now).then_some(now)
        });
        if let Some(now) = due {
            let (picture, is_settling) = self.picture(now, node);
            self.helm.draw_at = is_settling.then(|| now + SETTLING);
            steering.draw(picture);
        } else {
            steering.push();
        }
        self.helm.steering = Some(steering);
    }

    /// How the links are; and whether that may change without an event.
    fn picture(&self, now: Time, node: &Node) -> (Picture, bool) {
        let own = &self.cluster.nodes[self.me];
        let mut is_settling = false;
        let peer = |(id, index): &(PeerId, usize)| {
            let spec = &self.cluster.nodes[*index];
            let stats = node.peer_stats(*id)?;
            let paths = stats.paths.iter().filter_map(|path| {
                let link = path.link.index();
                let works = works(now, &stats, path.state);
                is_settling |= works.is_none() && stats.state == PeerState::Up;
                Some(PathPicture {
                    own: own.links.get(link).copied().flatten()?,
                    peer: spec.links.get(link).copied().flatten()?,
                    works,
                })
            });
            Some(PeerPicture {
                name: spec.name.clone(),
                paths: paths.collect(),
            })
        };
        let peers = self.peers.iter().filter_map(peer).collect();
        let links = own.addresses().map(|(_, address)| address).collect();
        (Picture { links, peers }, is_settling)
    }

    /// The keeper says something.
    pub(super) fn steered(&mut self, turn: &mut LoopTurn<'_>) {
        let Some(mut steering) = self.helm.steering.take() else {
            return;
        };
        match steering.ready(turn.poller) {
            Ok(said) => {
                self.helm.failed = None;
                said.iter().for_each(log::line);
                for (peer, index) in &self.peers {
                    let serves = steering.serves(&self.cluster.nodes[*index].name);
                    turn.node.watch(*peer, serves);
                }
                self.helm.steering = Some(steering);
            }
            Err(loss) => {
                self.helm.steering = Some(steering);
                self.helm.let_go(turn.poller);
                self.watch_no_more(turn);
                match loss {
                    Loss::Failed(why) => self.helm.fail(turn.now, why),
                    Loss::Ended => {
                        log::warn("the keeper of Multipath TCP has ended; another one is started");
                        self.helm.start_later(turn.now);
                    }
                }
            }
        }
    }

    /// Applies a reloaded cluster file.
    pub(super) fn set_helm(&mut self, turn: &mut LoopTurn<'_>) {
        match (
            self.cluster.mptcp && self.is_for_all(),
            self.helm.is_steering(),
        ) {
            (false, true) => self.leave_helm(turn),
            (true, false) => self.helm = Helm::start(turn.poller, turn.now),
            (true, true) => self.helm.redraw(turn.now),
            (false, false) => self.helm.failed = None,
        }
    }

    /// Steers no more.
    pub(super) fn leave_helm(&mut self, turn: &mut LoopTurn<'_>) {
        self.helm.stop(turn.poller);
        self.watch_no_more(turn);
    }

    fn watch_no_more(&self, turn: &mut LoopTurn<'_>) {
        for (peer, _) in &self.peers {
            turn.node.watch(*peer, false);
        }
    }
}

/// Whether a path works, as far as anybody can tell.
fn works(now: Time, peer: &PeerStats, path: PathState) -> Option<bool> {
    if peer.state != PeerState::Up {
        return None;
    }
    match path {
        PathState::Up | PathState::Suspect => Some(true),
        PathState::Down => Some(false),
        PathState::Untested => (now.since(peer.since) > SETTLING).then_some(false),
    }
}
