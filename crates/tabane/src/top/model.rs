//! The state of `tabane top`: the last report, recent traffic, changes, and the
//! selection. Pure: time is an argument.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::changes::{self, Change, Mood};
use super::history::Traffic;
use super::keys::Action;
use crate::status::{PathState, PathStatus, PeerState, PeerStatus, StatusReport};

/// Changes remembered.
pub const CHANGES_MAX: usize = 200;

/// When something was learnt.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// Since the program started, by a clock that never jumps.
    pub at: Duration,
    /// Milliseconds since 1970-01-01 UTC.
    pub unix_ms: u64,
}

/// Sort key of the peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// As in the cluster file.
    File,
    /// Those with the worst trouble first.
    State,
    /// Those that carry most first.
    Traffic,
    /// Those that lose most first.
    Loss,
    /// The farthest first.
    Rtt,
    /// By name.
    Name,
}

impl Sort {
    const ALL: [Sort; 6] = [
        Sort::File,
        Sort::State,
        Sort::Traffic,
        Sort::Loss,
        Sort::Rtt,
        Sort::Name,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Sort::File => "file",
            Sort::State => "state",
            Sort::Traffic => "traffic",
            Sort::Loss => "loss",
            Sort::Rtt => "rtt",
            Sort::Name => "name",
        }
    }

    fn next(self) -> Sort {
        let place = Sort::ALL.iter().position(|s| *s == self).unwrap_or(0);
        Sort::ALL[(place + 1) % Sort::ALL.len()]
    }
}

/// Recent traffic to and from one peer.
#[derive(Debug, Clone, Default)]
pub struct PeerHistory {
    /// On all paths together.
    pub all: Traffic,
    paths: Vec<PathHistory>,
}

#[derive(Debug, Clone, Default)]
struct PathHistory {
    link: u8,
    /// Counters of the last report.
    bytes: (u64, u64),
    traffic: Traffic,
}

impl PeerHistory {
    /// On one path.
    pub fn path(&self, link: u8) -> Option<&Traffic> {
        let path = self.paths.iter().find(|path| path.link == link);
        path.map(|path| &path.traffic)
    }
}

/// The daemon does not answer.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// In words.
    pub why: String,
    /// Since when.
    pub since: Duration,
}

/// All of it.
#[derive(Debug)]
pub struct Model {
    /// The last report.
    pub report: Option<StatusReport>,
    /// When that was.
    pub told: Option<Stamp>,
    /// Why there is no report now.
    pub trouble: Option<Trouble>,
    /// Changes, the newest last.
    pub changes: VecDeque<Change>,
    /// Sort key of the peers.
    pub sort: Sort,
    /// The other way round.
    pub is_reversed: bool,
    /// The graphs of the selected peer are shown, not all peers.
    pub shows_graphs: bool,
    /// What keys and bars mean is shown.
    pub shows_help: bool,
    /// How many peers are above the first one shown.
    pub scrolled: usize,
    /// Places in the report, sorted.
    order: Vec<usize>,
    /// The name of the selected peer: it stays selected wherever it is sorted.
    selected: Option<String>,
    history: HashMap<String, PeerHistory>,
    outside: Option<(f64, f64)>,
}

impl Model {
    /// Nothing known yet.
    pub fn new() -> Model {
        Model {
            report: None,
            told: None,
            trouble: None,
            changes: VecDeque::new(),
            sort: Sort::File,
            is_reversed: false,
            shows_graphs: false,
            shows_help: false,
            scrolled: 0,
            order: Vec::new(),
            selected: None,
            history: HashMap::new(),
            outside: None,
        }
    }

    /// The daemon told this, or why it did not.
    pub fn take(&mut self, stamp: Stamp, told: Result<StatusReport, String>) {
        let report = match told {
            Ok(report) => report,
            Err(why) => return self.take_trouble(stamp, why),
        };
        if self.trouble.take().is_some() && self.report.is_some() {
            self.note(stamp, "the daemon answers again", Mood::Good);
        }
        if let Some(old) = &self.report {
            let news = changes::between(old, &report, stamp.unix_ms);
            self.changes.extend(news);
            let excess = self.changes.len().saturating_sub(CHANGES_MAX);
            self.changes.drain(..excess);
        }
        self.take_rates(stamp, &report);
        self.report = Some(report);
        self.told = Some(stamp);
        self.arrange();
    }

    fn take_trouble(&mut self, stamp: Stamp, why: String) {
        match &mut self.trouble {
            Some(trouble) => trouble.why = why,
            None => {
                if self.report.is_some() {
                    self.note(stamp, "the daemon does not answer", Mood::Bad);
                }
                let since = stamp.at;
                self.trouble = Some(Trouble { why, since });
            }
        }
    }

    fn note(&mut self, stamp: Stamp, text: &str, mood: Mood) {
        self.changes.push_back(Change {
            unix_ms: stamp.unix_ms,
            text: text.to_owned(),
            mood,
        });
        if self.changes.len() > CHANGES_MAX {
            self.changes.pop_front();
        }
    }

    /// Rates since the last report. If there is none, the daemon's own rates for its
    /// last second.
    fn take_rates(&mut self, stamp: Stamp, report: &StatusReport) {
        let is_same_daemon = self.report.as_ref().is_some_and(|old| {
            (&old.node.name, old.node.started_unix_ms)
                == (&report.node.name, report.node.started_unix_ms)
        });
        let elapsed = self
            .told
            .filter(|_| is_same_daemon)
            .map(|told| stamp.at.saturating_sub(told.at).as_secs_f64())
            .filter(|seconds| *seconds > 0.0);
        let old = self.report.as_ref().map(outside_bytes);
        let rate =
            |old: u64, new: u64, seconds: f64| new.saturating_sub(old) as f64 * 8.0 / seconds;
        self.outside = elapsed.zip(old).map(|(seconds, (sent, received))| {
            let now = outside_bytes(report);
            (rate(sent, now.0, seconds), rate(received, now.1, seconds))
        });
        let mut before = std::mem::take(&mut self.history);
        for peer in &report.peers {
            let mut history = before.remove(&peer.name).unwrap_or_default();
            history.take(peer, elapsed);
            self.history.insert(peer.name.clone(), history);
        }
    }

    fn arrange(&mut self) {
        let Some(report) = &self.report else {
            return;
        };
        let peers = &report.peers;
        let mut order: Vec<usize> = (0..peers.len()).collect();
        // Of equals, the one that is earlier in the file comes first.
        match self.sort {
            Sort::File => {}
            Sort::State => order.sort_by_key(|&i| trouble_rank(&peers[i])),
            Sort::Traffic => order.sort_by_key(|&i| {
                let all = self.history.get(&peers[i].name).map(|h| &h.all);
                Reverse(all.map_or(0, |t| (t.out.last() + t.back.last()) as u64))
            }),
            Sort::Loss => order.sort_by_key(|&i| {
                Reverse(loss_percent(&peers[i]).map(|percent| (percent * 1e3) as u64))
            }),
            Sort::Rtt => order.sort_by_key(|&i| Reverse(rtt_us(&peers[i]))),
            Sort::Name => order.sort_by(|&a, &b| peers[a].name.cmp(&peers[b].name)),
        }
        if self.is_reversed {
            order.reverse();
        }
        self.order = order;
        if self.selected_place().is_none() {
            self.select(0);
        }
    }

    /// Performs a key's action, except leaving; `page` is the number of peers on the
    /// screen.
    pub fn act(&mut self, action: Action, page: usize) {
        let place = self.selected_place().unwrap_or(0);
        let page = isize::try_from(page).unwrap_or(isize::MAX).max(1);
        match action {
            Action::Move(by) => self.select(place.saturating_add_signed(by)),
            Action::Page(by) => {
                self.select(place.saturating_add_signed(by.saturating_mul(page)));
            }
            Action::First => self.select(0),
            Action::Last => self.select(usize::MAX),
            Action::Graphs => self.shows_graphs = !self.shows_graphs,
            Action::Help => self.shows_help = !self.shows_help,
            Action::Back if self.shows_help => self.shows_help = false,
            Action::Back => self.shows_graphs = false,
            Action::Sort => {
                self.sort = self.sort.next();
                self.arrange();
            }
            Action::Reverse => {
                self.is_reversed = !self.is_reversed;
                self.arrange();
            }
            Action::Quit | Action::Redraw => {}
        }
    }

    fn select(&mut self, place: usize) {
        let last = self.order.len().saturating_sub(1);
        let peer = self.peer_at(place.min(last)).map(|peer| peer.name.clone());
        self.selected = peer;
    }

    /// Scrolls so that the selected peer is among the `rows` shown.
    pub fn scroll_to_selected(&mut self, rows: usize) {
        let place = self.selected_place().unwrap_or(0);
        let most = self.order.len().saturating_sub(rows);
        let least = (place + 1).saturating_sub(rows);
        self.scrolled = self.scrolled.min(place).max(least).min(most);
    }

    /// The peer at this place of the order.
    pub fn peer_at(&self, place: usize) -> Option<&PeerStatus> {
        let index = *self.order.get(place)?;
        self.report.as_ref()?.peers.get(index)
    }

    /// The place of the selected peer.
    pub fn selected_place(&self) -> Option<usize> {
        let selected = self.selected.as_deref()?;
        let peers = &self.report.as_ref()?.peers;
        let is_it = |index: &usize| peers.get(*index).is_some_and(|p| p.name == selected);
        self.order.iter().position(is_it)
    }

    /// The selected peer.
    pub fn selected(&self) -> Option<&PeerStatus> {
        self.peer_at(self.selected_place()?)
    }

    /// Recent traffic to and from a peer.
    pub fn history(&self, peer: &str) -> Option<&PeerHistory> {
        self.history.get(peer)
    }

    /// This node's current traffic to and from outside as the gateway, in bits per
    /// second; `None`: not known yet.
    pub const fn outside(&self) -> Option<(f64, f64)> {
        self.outside
    }

    /// Current traffic to and from all peers, in bits per second.
    pub fn totals(&self) -> (f64, f64) {
        let all = self.history.values().map(|peer| &peer.all);
        all.fold((0.0, 0.0), |(out, back), traffic| {
            (out + traffic.out.last(), back + traffic.back.last())
        })
    }
}

/// Bytes that this node has sent outside and received from there as a gateway.
fn outside_bytes(report: &StatusReport) -> (u64, u64) {
    let gateway = report.node.gateway.as_ref();
    gateway.map_or((0, 0), |gateway| (gateway.tx_bytes, gateway.rx_bytes))
}

impl PeerHistory {
    fn take(&mut self, peer: &PeerStatus, elapsed_s: Option<f64>) {
        self.paths
            .retain(|old| peer.paths.iter().any(|p| p.link == old.link));
        let mut sum = (0.0, 0.0);
        for path in &peer.paths {
            let bytes = (path.tx_bytes, path.rx_bytes);
            let known = self.paths.iter().position(|old| old.link == path.link);
            let index = known.unwrap_or_else(|| {
                self.paths.push(PathHistory {
                    link: path.link,
                    ..PathHistory::default()
                });
                self.paths.len() - 1
            });
            let history = &mut self.paths[index];
            let rate = |new: u64, old: u64, told_mbps: f64| match elapsed_s {
                Some(seconds) if known.is_some() && new >= old => {
                    (new - old) as f64 * 8.0 / seconds
                }
                _ => told_mbps * 1e6,
            };
            let out = rate(bytes.0, history.bytes.0, path.tx_rate_mbps);
            let back = rate(bytes.1, history.bytes.1, path.rx_rate_mbps);
            history.bytes = bytes;
            history.traffic.push(out, back);
            sum = (sum.0 + out, sum.1 + back);
        }
        self.all.push(sum.0, sum.1);
    }
}

fn trouble_rank(peer: &PeerStatus) -> u8 {
    match peer.state {
        PeerState::Down => 0,
        PeerState::Up if peer.redundancy_lost => 1,
        PeerState::Up if peer.paths.iter().any(|p| p.state != PathState::Up) => 2,
        PeerState::Connecting => 3,
        PeerState::Up => 4,
        PeerState::OnDemand => 5,
    }
}

/// The worst loss among a peer's paths that work.
pub fn loss_percent(peer: &PeerStatus) -> Option<f64> {
    let losses = working(peer).filter_map(|path| path.loss_percent);
    losses.reduce(f64::max)
}

/// The shortest round trip among a peer's paths that work.
pub fn rtt_us(peer: &PeerStatus) -> Option<u32> {
    working(peer).filter_map(|path| path.rtt_us).min()
}

fn working(peer: &PeerStatus) -> impl Iterator<Item = &PathStatus> {
    let works = |path: &&PathStatus| matches!(path.state, PathState::Up | PathState::Suspect);
    peer.paths.iter().filter(works)
}
