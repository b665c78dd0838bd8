//! Draws a model.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use tabane_cluster::Wire;

use super::changes::{Mood, path_state, peer_state};
use super::history::Traffic;
use super::model::{Model, loss_percent, rtt_us};
use super::rows::{Cells, Columns, Look, MARK, cut};
use super::{help, outside};
use crate::log::time_of_day;
use crate::status::{PathStatus, PeerState, PeerStatus, StatusReport};
use crate::status::{clean, duration, metric, round_trip_if_known};

/// A graph's full height is at least this much: an idle link's probes are no traffic.
const SCALE_MIN_BITS: f64 = 100_000.0;

/// Characters of a figure or a short word.
const FIGURE_MAX: usize = 12;

/// [`MARK`], where the terminal has only ASCII.
const MARK_ASCII: &str = "~";

/// Of the lines below the peers, no more than this many are changes.
const CHANGES_SHOWN_MAX: usize = 8;

/// How the lines of the screen are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Peers.
    pub peers: usize,
    /// Paths of the selected one.
    paths: usize,
    /// Changes, the newest last.
    changes: usize,
}

impl Layout {
    /// For a screen with this many lines. On small screens the less important parts are
    /// left out.
    pub fn of(model: &Model, height: usize) -> Layout {
        // One line of titles, one of help.
        let room = height.saturating_sub(head_lines(model) + 2);
        let wanted = model.selected().map_or(0, |peer| peer.paths.len());
        let peers = model.report.as_ref().map_or(0, |report| report.peers.len());
        // A line above each part, and three peers at least.
        let mut rest = room.saturating_sub(3.min(peers));
        let mut part = |wanted: usize| {
            let lines = if rest > 1 { wanted.min(rest - 1) } else { 0 };
            rest -= if lines > 0 { lines + 1 } else { 0 };
            lines
        };
        let paths = part(wanted);
        let changes = part(
            model
                .changes
                .len()
                .clamp(1, CHANGES_SHOWN_MAX)
                .min(height / 4),
        );
        let used = [paths, changes]
            .iter()
            .filter(|n| **n > 0)
            .map(|n| n + 1)
            .sum();
        Layout {
            peers: room.saturating_sub(used),
            paths,
            changes,
        }
    }
}

/// Draws all of it; `now_s` is the age of the program.
pub fn draw(model: &Model, look: Look, now_s: u64, area: Rect, buffer: &mut Buffer) {
    let mut page = Page {
        look,
        width: area.width.into(),
        lines: Vec::new(),
    };
    page.head(model, now_s);
    let height = usize::from(area.height);
    match model.selected() {
        Some(peer) if model.shows_graphs => page.graphs(model, peer, height),
        _ => page.table(model, height),
    }
    page.lines.resize(height.saturating_sub(1), Line::default());
    page.lines.push(keys(model));
    for (line, y) in page.lines.iter().take(height).zip(area.y..) {
        buffer.set_line(area.x, y, line, area.width);
        if line.width() > page.width {
            mark_cut(area, y, buffer);
        }
    }
    if model.shows_help {
        help::draw(look, area, buffer);
    }
    if !look.blocks {
        let marks = buffer.content.iter_mut();
        marks
            .filter(|cell| cell.symbol() == MARK)
            .for_each(|cell| _ = cell.set_symbol(MARK_ASCII));
    }
}

/// Marks a line that goes on beyond the screen. A figure that was cut would look like another one, so it goes.
fn mark_cut(area: Rect, y: u16, buffer: &mut Buffer) {
    let Some(last) = area.right().checked_sub(1).filter(|last| *last >= area.x) else {
        return;
    };
    let columns = (area.x..=last).rev().take(FIGURE_MAX + 1);
    let is_of_a_word = |x: &u16| buffer[(*x, y)].symbol() != " ";
    let word: Vec<u16> = columns.take_while(is_of_a_word).collect();
    if word.len() <= FIGURE_MAX {
        for x in word {
            buffer[(x, y)].set_symbol(" ");
        }
    }
    buffer[(last, y)].set_symbol(MARK);
}

fn keys(model: &Model) -> Line<'static> {
    let text = if model.shows_graphs {
        " q quit  ? help  esc all peers  up/down other peer".to_owned()
    } else {
        let order = if model.is_reversed { ", reversed" } else { "" };
        format!(
            " q quit  ? help  enter graphs  s sort: {}{order}  r reverse",
            model.sort.name()
        )
    };
    Line::styled(text, Style::new().add_modifier(Modifier::DIM))
}

struct Page {
    look: Look,
    width: usize,
    lines: Vec<Line<'static>>,
}

impl Page {
    /// `left`, and `right` at the other end if there is room.
    fn ends(&mut self, left: Vec<Span<'static>>, right: &str) {
        let mut line = Line::from(left);
        let space = self.width.saturating_sub(line.width());
        if space > right.chars().count() {
            line.push_span(format!("{right:>space$}"));
        }
        self.lines.push(line);
    }

    fn head(&mut self, model: &Model, now_s: u64) {
        let told = model
            .told
            .map_or(String::new(), |told| time_of_day(told.unix_ms));
        let Some(report) = &model.report else {
            self.ends(vec!["tabane top".into()], "");
            let why = model.trouble.as_ref().map(|trouble| &*trouble.why);
            let text = why.map_or("asking the daemon".to_owned(), |why| {
                format!("{}; trying again", clean(why))
            });
            return self.ends(vec![text.into()], "");
        };
        self.ends(vec![identity(report).into()], &told);
        if let Some(trouble) = &model.trouble {
            let silent = duration(now_s.saturating_sub(trouble.since.as_secs()));
            let text = format!(
                "no answer for {silent}, trying again: {}",
                clean(&trouble.why)
            );
            let style = self.look.style(Mood::Bad).add_modifier(Modifier::REVERSED);
            let text = cut(&text, self.width);
            return self.lines.push(Line::styled(text, style));
        }
        let (out, back) = model.totals();
        let totals = format!("out {} in {} b/s", metric(out), metric(back));
        let summary = self.summary(report);
        self.ends(summary, &totals);
        if let Some(programs) = report.node.run.summary() {
            let unread = &report.node.run.unread;
            let unread = match unread.connections + unread.connections_at_peers() {
                0 => String::new(),
                count => format!(", {count} not read"),
            };
            let text = format!("tabane run: {programs}{unread}");
            self.lines.push(Line::raw(cut(&text, self.width)));
        }
        for (text, mood) in outside::lines(model, report, self.width) {
            self.lines.push(match mood {
                Mood::Good => Line::raw(text),
                _ => Line::styled(text, self.look.style(mood)),
            });
        }
    }

    /// Number of peers in each state.
    fn summary(&self, report: &StatusReport) -> Vec<Span<'static>> {
        let count = |holds: &dyn Fn(&PeerStatus) -> bool| {
            report.peers.iter().filter(|peer| holds(peer)).count()
        };
        let all = report.peers.len();
        let plural = if all == 1 { "" } else { "s" };
        let mut spans = vec![Span::raw(format!("{all} peer{plural}"))];
        let mut separator = ": ";
        for (words, mood, number) in [
            ("up", Mood::Good, count(&|p| p.state == PeerState::Up)),
            ("down", Mood::Bad, count(&|p| p.state == PeerState::Down)),
            (
                "not seen yet",
                Mood::Uncertain,
                count(&|p| p.state == PeerState::Connecting),
            ),
            (
                "with redundancy lost",
                Mood::Bad,
                count(&|p| p.redundancy_lost && p.state == PeerState::Up),
            ),
        ] {
            if number > 0 {
                spans.push(Span::raw(separator));
                spans.push(Span::styled(
                    format!("{number} {words}"),
                    self.look.style(mood),
                ));
                separator = ", ";
            }
        }
        spans
    }

    /// A line between two parts of the screen.
    fn rule(&mut self, text: &str) {
        let dash = if self.look.blocks { "─" } else { "-" };
        let text = cut(&format!("{} {text} ", dash.repeat(2)), self.width);
        let rest = self.width.saturating_sub(text.chars().count());
        let style = Style::new().add_modifier(Modifier::DIM);
        self.lines
            .push(Line::styled(text + &dash.repeat(rest), style));
    }

    fn table(&mut self, model: &Model, height: usize) {
        let Some(report) = &model.report else {
            return;
        };
        let layout = Layout::of(model, height);
        let names = report.peers.iter().map(|p| p.name.chars().count());
        let selected = model.selected();
        let paths = selected.map_or(&[][..], |peer| &peer.paths[..]);
        let labels = paths.iter().map(|path| path_label(path).chars().count());
        let columns = Columns::fit(self.width, names.chain(labels).max().unwrap_or(0));
        self.lines.push(columns.titles("PEER"));

        let shown = model.scrolled..model.scrolled + layout.peers;
        let visible: Vec<_> = shown.map_while(|place| model.peer_at(place)).collect();
        let traffic = |peer: &PeerStatus| model.history(&peer.name).map(|history| &history.all);
        let max = scale(visible.iter().filter_map(|peer| traffic(peer)));
        let selected_name = selected.map(|peer| &peer.name);
        for peer in &visible {
            let cells = peer_cells(peer, traffic(peer), max, columns, self.look);
            let is_selected = Some(&peer.name) == selected_name;
            self.lines
                .push(columns.line(&cells, self.look, is_selected));
        }
        let unused = layout.peers - visible.len();
        self.lines
            .extend(std::iter::repeat_n(Line::default(), unused));
        if let Some(peer) = selected.filter(|_| layout.paths > 0) {
            self.paths(model, peer, &paths[..layout.paths], columns);
        }
        if layout.changes > 0 {
            self.changes(model, layout.changes);
        }
    }

    fn paths(&mut self, model: &Model, peer: &PeerStatus, paths: &[PathStatus], columns: Columns) {
        self.rule(&format!(
            "paths to {}{}{}",
            clean(&peer.name),
            redundancy(peer),
            shared(peer)
        ));
        let traffic = |path: &PathStatus| model.history(&peer.name)?.path(path.link);
        let max = scale(paths.iter().filter_map(traffic));
        for path in paths {
            let cells = path_cells(path, traffic(path), max, columns, self.look);
            self.lines.push(columns.line(&cells, self.look, false));
        }
    }

    fn changes(&mut self, model: &Model, count: usize) {
        self.rule("changes");
        let skipped = model.changes.len().saturating_sub(count);
        for change in model.changes.iter().skip(skipped) {
            let time = format!("{} ", time_of_day(change.unix_ms));
            let room = self.width.saturating_sub(time.len());
            let text = cut(&clean(&change.text), room);
            let style = self.look.style(change.mood);
            self.lines
                .push(Line::from(vec![Span::raw(time), Span::styled(text, style)]));
        }
        if model.changes.is_empty() {
            self.lines.push(Line::raw("none since this was started"));
        }
    }

    /// The selected peer's paths, with as high a graph of each as there is room for.
    fn graphs(&mut self, model: &Model, peer: &PeerStatus, height: usize) {
        let (word, mood) = peer_state(peer.state);
        let since = duration(peer.since_s);
        let text = format!(
            " for {since}{}{}",
            redundancy(peer),
            why(peer.why.as_deref())
        );
        let history = model.history(&peer.name);
        let traffic = |path: &PathStatus| history?.path(path.link);
        let max = scale(peer.paths.iter().filter_map(traffic));
        let peer_words = vec![
            Span::styled(clean(&peer.name), Style::new().add_modifier(Modifier::BOLD)),
            Span::raw(" "),
            Span::styled(word, self.look.style(mood)),
            Span::raw(text),
        ];
        let axes = format!("left out, right in, full is {} b/s", metric(max));
        self.ends(peer_words, &axes);
        // One line of the peer, one of help.
        let room = height.saturating_sub(head_lines(model) + 2);
        let rows = (room / peer.paths.len().max(1)).saturating_sub(2);
        for path in &peer.paths {
            self.path_words(path, traffic(path));
            if let Some(traffic) = traffic(path) {
                self.graph(traffic, max, rows);
            }
        }
    }

    fn path_words(&mut self, path: &PathStatus, traffic: Option<&Traffic>) {
        let (word, mood) = path_state(path.state);
        let rtt = round_trip_if_known(path.rtt_us);
        let loss = path
            .loss_percent
            .map_or("-".to_owned(), |loss| format!("{loss:.1}%"));
        self.lines.push(Line::from(vec![
            Span::raw(format!(
                "link {}  {} - {}  ",
                path.link,
                path.local,
                path.remote.ip()
            )),
            Span::styled(word, self.look.style(mood)),
            Span::raw(format!(
                " {}{}  rtt {rtt}  loss {loss}",
                duration(path.since_s),
                why(path.why.as_deref())
            )),
        ]));
        let (out, back) = traffic.map_or((0.0, 0.0), |t| (t.out.last(), t.back.last()));
        let capacity = path
            .capacity_proven_mbps()
            .map_or("-".to_owned(), |mbps| metric(mbps * 1e6));
        self.lines.push(Line::raw(format!(
            "  out {:>5}  in {:>5}  capacity {capacity}{}  resent {}B  failures {}  MTU {}",
            metric(out),
            metric(back),
            granted(path).map_or(String::new(), |granted| format!("  granted {granted}")),
            metric(path.resent_bytes as f64),
            path.failures,
            path.mtu_bytes
        )));
    }

    /// Sent to the left, received to the right.
    fn graph(&mut self, traffic: &Traffic, max: f64, rows: usize) {
        let columns = self.width.saturating_sub(3) / 2;
        let bars = |samples: Vec<f64>| self.look.bars(&samples, max, rows);
        let out = bars(traffic.out.columns(columns));
        let back = bars(traffic.back.columns(columns));
        for (out, back) in out.into_iter().zip(back) {
            self.lines.push(Line::raw(format!(" {out} {back}")));
        }
    }
}

/// Two, and one for the programs under `tabane run`, if there are any.
fn head_lines(model: &Model) -> usize {
    let Some(report) = &model.report else {
        return 2;
    };
    2 + usize::from(report.node.run.summary().is_some()) + outside::count(report)
}

fn identity(report: &StatusReport) -> String {
    let node = &report.node;
    let wire = match node.wire {
        Wire::Encrypted => "encrypted",
        Wire::Plain => "plain, not encrypted",
    };
    let nic = node
        .vnic
        .as_ref()
        .map(|nic| format!(", {} {}", clean(&nic.name), clean(&nic.address)));
    format!(
        "{}: tabane {}, up {}, {wire}{}",
        clean(&node.name),
        clean(&node.version),
        duration(node.uptime_s),
        nic.unwrap_or_default()
    )
}

fn redundancy(peer: &PeerStatus) -> &'static str {
    if peer.redundancy_lost && peer.state == PeerState::Up {
        ": redundancy lost"
    } else {
        ""
    }
}

/// How the number of a peer's working paths looks. Of one that is not connected, its state tells.
fn links_mood(peer: &PeerStatus) -> Mood {
    match peer.state {
        PeerState::Up if peer.redundancy_lost => Mood::Bad,
        PeerState::Up if peer.paths_up < peer.paths_configured => Mood::Uncertain,
        _ => Mood::Good,
    }
}

/// The peer's grant on a path, if that limits it.
fn granted(path: &PathStatus) -> Option<String> {
    let granted = path.granted_mbps.filter(|_| path.is_limited_by_grant())?;
    Some(metric(granted * 1e6))
}

/// Whether the peer shares its links among several that send to it.
fn shared(peer: &PeerStatus) -> String {
    let paths = peer.paths.iter();
    let granted = paths.filter_map(|path| Some(format!("{} on {}", granted(path)?, path.link)));
    match granted.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        granted => format!(": several send to it, granted {granted}"),
    }
}

fn why(why: Option<&str>) -> String {
    why.map_or(String::new(), |why| format!(" ({})", clean(why)))
}

/// The value of a graph's full height: the same for all graphs that are compared.
fn scale<'a>(of: impl Iterator<Item = &'a Traffic>) -> f64 {
    of.map(Traffic::max).fold(SCALE_MIN_BITS, f64::max)
}

fn path_label(path: &PathStatus) -> String {
    format!("{} {}", path.link, path.remote.ip())
}

fn rates(traffic: Option<&Traffic>, max: f64, columns: Columns, look: Look) -> [(f64, String); 2] {
    let idle = Traffic::default();
    let traffic = traffic.unwrap_or(&idle);
    [&traffic.out, &traffic.back].map(|series| {
        let samples = series.columns(columns.graph_chars());
        let bars = look.bars(&samples, max, 1);
        (series.last(), bars.into_iter().next().unwrap_or_default())
    })
}

fn peer_cells(
    peer: &PeerStatus,
    traffic: Option<&Traffic>,
    max: f64,
    columns: Columns,
    look: Look,
) -> Cells {
    let [out, back] = rates(traffic, max, columns, look);
    let resent: u64 = peer.paths.iter().map(|path| path.resent_bytes).sum();
    Cells {
        label: clean(&peer.name),
        state: Some(peer_state(peer.state)),
        links: (
            format!("{}/{}", peer.paths_up, peer.paths_configured),
            links_mood(peer),
        ),
        since: duration(peer.since_s),
        rtt: round_trip_if_known(rtt_us(peer)),
        out,
        back,
        loss: loss_percent(peer).map_or("-".to_owned(), |loss| format!("{loss:.1}%")),
        resent: metric(resent as f64) + "B",
    }
}

fn path_cells(
    path: &PathStatus,
    traffic: Option<&Traffic>,
    max: f64,
    columns: Columns,
    look: Look,
) -> Cells {
    let [out, back] = rates(traffic, max, columns, look);
    Cells {
        label: path_label(path),
        state: Some(path_state(path.state)),
        links: (String::new(), Mood::Good),
        since: duration(path.since_s),
        rtt: round_trip_if_known(path.rtt_us),
        out,
        back,
        loss: path
            .loss_percent
            .map_or("-".to_owned(), |loss| format!("{loss:.1}%")),
        resent: metric(path.resent_bytes as f64) + "B",
    }
}
