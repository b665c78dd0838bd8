//! What is seen for several reports, and what keys do to it.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

use super::changes::Mood;
use super::keys::Action;
use super::model::{CHANGES_MAX, Model, Sort, Stamp};
use super::rows::Look;
use super::view::{self, Layout};
use crate::status::{
    Colours, GatewayStatus, PathState, PeerState, PeerStatus, PortStatus, StatusReport,
    example_report,
};

const PLAIN: Look = Look {
    colours: Colours::Off,
    blocks: true,
};

const NOON_MS: u64 = 1_800_014_400_000;

fn stamp(second: u64) -> Stamp {
    Stamp {
        at: Duration::from_secs(second),
        unix_ms: NOON_MS + second * 1000,
    }
}

/// The screen, and with it what the program does before it draws.
fn screen(model: &mut Model, width: u16, height: u16, look: Look) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    model.scroll_to_selected(Layout::of(model, height.into()).peers);
    let drawn = |frame: &mut ratatui::Frame<'_>| {
        view::draw(model, look, 100, frame.area(), frame.buffer_mut());
    };
    terminal.draw(drawn).unwrap();
    terminal.backend().clone()
}

fn text_of(screen: &TestBackend) -> String {
    let buffer = screen.buffer();
    let width = usize::from(buffer.area.width);
    let rows = buffer.content.chunks(width.max(1));
    let text = |row: &[ratatui::buffer::Cell]| {
        let row: String = row.iter().map(|cell| cell.symbol()).collect();
        row.trim_end().to_owned() + "\n"
    };
    rows.map(text).collect()
}

fn draw(model: &mut Model, width: u16, height: u16) -> String {
    text_of(&screen(model, width, height, PLAIN))
}

/// The screen is as in the file of this name, next to this one.
fn assert_screen(model: &mut Model, (width, height): (u16, u16), name: &str) {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/top/tests");
    let expected = std::fs::read_to_string(format!("{directory}/{name}.txt")).unwrap();
    let actual = draw(model, width, height);
    assert_eq!(actual, expected, "{name}\n{actual}");
}

/// All is well; nothing is carried.
fn idle() -> StatusReport {
    let mut report = example_report();
    report.peers.truncate(2);
    report.node.gateway = None;
    for peer in &mut report.peers {
        (peer.paths_up, peer.redundancy_lost) = (2, false);
        for path in &mut peer.paths {
            path.state = PathState::Up;
            path.why = None;
            path.rtt_us = Some(120);
            path.loss_percent = Some(0.0);
            path.capacity_mbps = Some(956.0);
            (path.tx_rate_mbps, path.rx_rate_mbps) = (0.0, 0.0);
            (path.since_s, path.since_unix_ms) = (11_520, 1_800_000_000_000);
            (path.failures, path.resent_bytes) = (0, 0);
        }
    }
    report
}

/// The idle cluster after half a minute of traffic to and from its first peer.
fn busy() -> (Model, StatusReport) {
    let (mut model, mut report) = (Model::new(), idle());
    model.take(stamp(0), Ok(report.clone()));
    for second in 1..=30 {
        for (path, mbps) in report.peers[0].paths.iter_mut().zip([941, 480]) {
            path.tx_bytes += mbps * 125_000 * (second % 10) / 10;
            path.rx_bytes += 1_500_000;
        }
        model.take(stamp(second), Ok(report.clone()));
    }
    (model, report)
}

/// Link 1 to the first peer fails.
fn failed(mut report: StatusReport) -> StatusReport {
    let peer = &mut report.peers[0];
    (peer.paths_up, peer.redundancy_lost) = (1, true);
    let path = &mut peer.paths[1];
    (path.state, path.failures) = (PathState::Down, 1);
    (path.since_s, path.since_unix_ms) = (1, NOON_MS + 30_500);
    path.why = Some("probes are not answered".to_owned());
    path.loss_percent = Some(100.0);
    report
}

fn many() -> StatusReport {
    let mut report = idle();
    let one = report.peers[0].clone();
    let peer = |number| PeerStatus {
        name: format!("n{number}"),
        ..one.clone()
    };
    report.peers = (1..16_384).map(peer).collect();
    report
}

#[test]
fn idle_peers() {
    let mut model = Model::new();
    model.take(stamp(0), Ok(idle()));
    assert_screen(&mut model, (80, 24), "idle");
}

/// As [`busy`], after link 1 has failed.
fn degraded() -> Model {
    let (mut model, report) = busy();
    model.take(stamp(31), Ok(failed(report)));
    model
}

#[test]
fn a_link_that_failed() {
    assert_screen(&mut degraded(), (80, 24), "degraded");
}

#[test]
fn a_wide_terminal() {
    assert_screen(&mut degraded(), (132, 20), "wide");
}

#[test]
fn graphs_of_a_peer() {
    let mut model = degraded();
    model.act(Action::Graphs, 10);
    assert_screen(&mut model, (80, 24), "graphs");
}

#[test]
fn every_state() {
    let mut model = Model::new();
    model.take(stamp(0), Ok(example_report()));
    model.act(Action::Move(1), 10);
    assert_screen(&mut model, (80, 24), "states");
}

#[test]
fn many_peers() {
    let mut model = Model::new();
    model.take(stamp(0), Ok(many()));
    model.act(Action::Last, 10);
    model.act(Action::Move(-1), 10);
    assert_screen(&mut model, (80, 24), "many");
}

#[test]
fn a_small_terminal() {
    assert_screen(&mut degraded(), (40, 10), "small");
}

#[test]
fn any_size_is_drawn() {
    let mut model = degraded();
    for graphs in [false, true] {
        model.shows_graphs = graphs;
        for (width, height) in [(1, 1), (1, 30), (200, 2), (20, 5), (300, 100)] {
            let drawn = draw(&mut model, width, height);
            assert_eq!(drawn.lines().count(), usize::from(height));
        }
    }
}

#[test]
fn no_daemon_and_none_any_more() {
    let mut model = Model::new();
    let gone = || Err("no daemon runs here; start one".to_owned());
    assert!(draw(&mut model, 80, 24).contains("asking the daemon"));
    model.take(stamp(0), gone());
    assert!(draw(&mut model, 80, 24).contains("no daemon runs here; start one; trying again"));
    model.take(stamp(1), Ok(idle()));
    assert!(model.changes.is_empty());
    model.take(stamp(2), gone());
    model.take(stamp(60), gone());
    let lost = draw(&mut model, 80, 24);
    assert!(
        lost.contains("no answer for 1m38s, trying again: no daemon runs here"),
        "{lost}"
    );
    assert!(
        lost.contains("\nn1 "),
        "what was known is still shown: {lost}"
    );
    let mut anew = idle();
    anew.node.started_unix_ms += 5;
    model.take(stamp(61), Ok(anew));
    let words: Vec<_> = model.changes.iter().map(|c| c.text.as_str()).collect();
    let expected = [
        "the daemon does not answer",
        "the daemon answers again",
        "the daemon was started anew",
    ];
    assert_eq!(words, expected);
    assert!(!draw(&mut model, 80, 24).contains("no answer"));
}

#[test]
fn changes_are_told_once_and_bounded() {
    let mut model = Model::new();
    let (good, bad) = (idle(), failed(idle()));
    model.take(stamp(0), Ok(good.clone()));
    model.take(stamp(1), Ok(bad.clone()));
    model.take(stamp(2), Ok(bad.clone()));
    let words = |model: &Model| -> Vec<String> {
        model
            .changes
            .iter()
            .map(|change| change.text.clone())
            .collect()
    };
    let expected = [
        "n1: redundancy lost: 1 of 2 links works",
        "link 1 to n1 failed: probes are not answered",
    ];
    let mut told = words(&model);
    told.sort_by_key(|text| text.starts_with("link"));
    assert_eq!(told, expected);
    model.take(stamp(3), Ok(good.clone()));
    assert_eq!(
        words(&model)[2..].len(),
        2,
        "it works, and redundancy is back"
    );
    assert!(
        model
            .changes
            .iter()
            .skip(2)
            .all(|change| change.mood == Mood::Good)
    );

    // Down and up again between two looks.
    let mut flapped = good.clone();
    flapped.peers[1].paths[0].failures += 1;
    model.take(stamp(4), Ok(flapped));
    assert_eq!(
        words(&model).last().unwrap(),
        "link 0 to n2 failed and came back"
    );
    for second in 5..500 {
        let report = if second % 2 == 0 { &good } else { &bad };
        model.take(stamp(second), Ok(report.clone()));
    }
    assert_eq!(model.changes.len(), CHANGES_MAX);
}

#[test]
fn rates_are_of_the_time_between_two_looks() {
    let (mut model, mut report) = (Model::new(), idle());
    report.peers[0].paths[0].tx_rate_mbps = 7.0;
    model.take(stamp(0), Ok(report.clone()));
    let out = |model: &Model| model.history("n1").unwrap().all.out.last();
    assert_eq!(out(&model), 7e6, "the daemon's own at first");
    report.peers[0].paths[0].tx_bytes += 1_000_000;
    model.take(stamp(4), Ok(report.clone()));
    assert_eq!(out(&model), 2e6);
    assert_eq!(model.totals(), (2e6, 0.0));
    // A path that began anew counts from 0.
    report.peers[0].paths[0].tx_bytes = 500;
    model.take(stamp(5), Ok(report.clone()));
    assert_eq!(out(&model), 7e6);
    report.peers.remove(0);
    model.take(stamp(6), Ok(report));
    assert!(
        model.history("n1").is_none(),
        "nothing is kept of who is gone"
    );
}

#[test]
fn who_serves_the_outside_and_what_is_carried_there() {
    let (mut model, mut report) = (Model::new(), example_report());
    model.take(stamp(0), Ok(report.clone()));
    let gateway = |report: &mut StatusReport, change: &dyn Fn(&mut GatewayStatus)| {
        change(report.node.gateway.as_mut().unwrap());
    };
    gateway(&mut report, &|it| {
        (it.tx_bytes, it.rx_bytes) = (it.tx_bytes + 1_000_000, it.rx_bytes + 500_000);
        let busier = PortStatus {
            connections: 12,
            family: 6,
            command: None,
            ..it.ports[0].clone()
        };
        let idle = PortStatus {
            connections: 0,
            ..it.ports[0].clone()
        };
        it.ports.extend([busier, idle]);
    });
    model.take(stamp(4), Ok(report.clone()));
    let shown = draw(&mut model, 100, 24);
    let lines = "\ngateway: n0 serves, 12 connections, out 2.00M in 1.00M b/s, queue 250us\n  tcp6 80 n1: 12, tcp 80 n1 nginx: 11\n";
    assert!(shown.contains(lines), "{shown}");
    // What it is elsewhere this node does not know.
    gateway(&mut report, &|it| {
        it.serving = Some("n9".to_owned());
        (it.standby[0].node, it.standby[0].ready) = ("n0".to_owned(), false);
        it.ports.clear();
    });
    model.take(stamp(5), Ok(report.clone()));
    let shown = draw(&mut model, 100, 24);
    let line = "\ngateway: n9 serves, 12 connections, no standby is ready\nPEER";
    assert!(shown.contains(line), "{shown}");
    gateway(&mut report, &|it| {
        (it.serving, it.trouble) = (None, Some("ext0 has no carrier".to_owned()));
    });
    model.take(stamp(6), Ok(report));
    let shown = draw(&mut model, 100, 24);
    assert!(
        shown.contains("\ngateway: nobody serves: ext0 has no carrier\n"),
        "{shown}"
    );
    let told: Vec<_> = model.changes.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(told, ["gateway: n9 serves", "gateway: nobody serves"]);
}

#[test]
fn the_selected_peer_stays_selected() {
    let mut model = Model::new();
    let mut report = many();
    report.peers[9_999].state = PeerState::Down;
    report.peers[16_000].redundancy_lost = true;
    model.take(stamp(0), Ok(report.clone()));
    let name = |model: &Model| model.selected().unwrap().name.clone();
    assert_eq!(name(&model), "n1");
    model.act(Action::Page(1), 12);
    assert_eq!(name(&model), "n13");
    model.act(Action::Sort, 12);
    assert_eq!((model.sort, name(&model).as_str()), (Sort::State, "n13"));
    assert_eq!(model.peer_at(0).unwrap().name, "n10000");
    assert_eq!(model.peer_at(1).unwrap().name, "n16001");
    model.act(Action::Reverse, 12);
    assert_eq!(model.peer_at(16_382).unwrap().name, "n10000");
    let shown = draw(&mut model, 80, 24);
    assert!(shown.contains("\nn13 "), "{shown}");
    model.act(Action::Move(-30_000), 12);
    assert_eq!(model.selected_place(), Some(0));
    model.act(Action::Move(30_000), 12);
    assert_eq!(name(&model), "n10000");
    // Who is gone cannot stay selected.
    report.peers.remove(9_999);
    model.take(stamp(1), Ok(report));
    assert_eq!(model.selected_place(), Some(0));
}

#[test]
fn an_empty_cluster_has_nothing_to_select() {
    let mut model = Model::new();
    let mut report = idle();
    report.peers.clear();
    model.take(stamp(0), Ok(report));
    for action in [
        Action::Last,
        Action::Move(1),
        Action::Page(-1),
        Action::Sort,
        Action::Graphs,
    ] {
        model.act(action, 0);
        assert!(model.selected().is_none());
        draw(&mut model, 80, 24);
    }
}

#[test]
fn colours_only_where_they_are_wanted() {
    let mut model = Model::new();
    model.take(stamp(0), Ok(example_report()));
    let coloured = Look {
        colours: Colours::On,
        ..PLAIN
    };
    let has = |screen: &TestBackend, colour| screen.buffer().content.iter().any(|c| c.fg == colour);
    let with = screen(&mut model, 80, 24, coloured);
    assert!(has(&with, Color::Red) && has(&with, Color::Green));
    let without = screen(&mut model, 80, 24, PLAIN);
    assert!(
        without
            .buffer()
            .content
            .iter()
            .all(|c| c.fg == Color::Reset && c.bg == Color::Reset)
    );
    assert_eq!(text_of(&with), text_of(&without));
}

#[test]
fn what_is_wrong_is_red_and_what_is_well_is_no_bar() {
    let coloured = Look {
        colours: Colours::On,
        ..PLAIN
    };
    let mut model = degraded();
    let shown = screen(&mut model, 80, 24, coloured);
    let row: Vec<_> = (0..80).map(|x| shown.buffer()[(x, 4)].clone()).collect();
    let text: String = row.iter().map(|cell| cell.symbol()).collect();
    assert!(text.starts_with("n1           up        1/2"), "{text}");
    assert_eq!(row[13].fg, Color::Reset, "up, selected");
    assert_eq!((row[25].fg, row[25].bg), (Color::White, Color::Red), "1/2");
    assert!(!row[25].modifier.contains(Modifier::REVERSED), "1/2");
    assert_eq!(shown.buffer()[(13, 5)].fg, Color::Green, "up, not selected");
    assert_eq!(shown.buffer()[(25, 5)].fg, Color::Reset, "2/2");
}

#[test]
fn help_has_no_colours_of_what_is_below_and_all_of_it_fits_fifteen_lines() {
    let coloured = Look {
        colours: Colours::On,
        ..PLAIN
    };
    let mut model = degraded();
    model.act(Action::Help, 1);
    let shown = screen(&mut model, 60, 15, coloured);
    let text = text_of(&shown);
    assert!(text.contains("RESENT   bytes"), "{text}");
    let second: Vec<char> = text.lines().nth(1).expect("a line").chars().collect();
    let edge = |place: Option<usize>| place.expect("a frame") as u16;
    let left = edge(second.iter().position(|c| *c == '│'));
    let right = edge(second.iter().rposition(|c| *c == '│'));
    for (x, y) in (left..=right).flat_map(|x| (0..15).map(move |y| (x, y))) {
        let cell = &shown.buffer()[(x, y)];
        assert!(
            cell.fg == Color::Reset && cell.modifier.is_empty(),
            "{x} {y}: {cell:?}"
        );
    }
}

#[test]
fn ascii_where_the_locale_has_nothing_else() {
    let (mut model, _) = busy();
    let ascii = Look {
        blocks: false,
        ..PLAIN
    };
    for (graphs, help) in [(false, false), (true, false), (false, true)] {
        (model.shows_graphs, model.shows_help) = (graphs, help);
        for width in [80, 30] {
            let text = text_of(&screen(&mut model, width, 24, ascii));
            assert!(text.is_ascii(), "{text}");
        }
    }
}

#[test]
fn help_is_over_the_screen_until_it_is_left() {
    let (mut model, _) = busy();
    let before = draw(&mut model, 80, 24);
    assert!(before.contains(" ? help "), "{before}");
    model.act(Action::Help, 1);
    let over = draw(&mut model, 80, 24);
    for told in [
        "select another peer",
        "full is the highest",
        "└──",
        "n0: tabane",
    ] {
        assert!(over.contains(told), "{told}: {over}");
    }
    for (width, height) in [(0, 0), (1, 1), (5, 2), (20, 8), (300, 100)] {
        draw(&mut model, width, height);
    }
    let narrow = draw(&mut model, 30, 24);
    assert!(narrow.contains("select a…"), "{narrow}");
    model.act(Action::Back, 1);
    assert_eq!(draw(&mut model, 80, 24), before);
    model.act(Action::Help, 1);
    model.act(Action::Help, 1);
    assert_eq!(draw(&mut model, 80, 24), before);
}

#[test]
fn nothing_of_the_daemon_controls_the_terminal() {
    let mut report = example_report();
    report.peers[0].name = "a\x1b[31mb\n".to_owned();
    report.peers[0].why = Some("\x07".to_owned());
    report.peers[1].paths[1].why = Some("\x1b]0;x\x07".to_owned());
    let mut model = Model::new();
    model.take(stamp(0), Ok(example_report()));
    model.take(stamp(1), Ok(report));
    for graphs in [false, true] {
        model.shows_graphs = graphs;
        let text = draw(&mut model, 80, 24);
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
    }
}

#[test]
fn a_share_is_told_where_it_limits() {
    let (mut model, mut report) = busy();
    for path in &mut report.peers[0].paths {
        (path.granted_mbps, path.tx_rate_mbps) = (Some(118.0), 116.0);
    }
    report.peers[0].paths[1].tx_rate_mbps = 3.0;
    model.take(stamp(31), Ok(report.clone()));
    let table = draw(&mut model, 80, 24);
    let told = "paths to n1: several send to it, granted 118M on 0 ──";
    assert!(table.contains(told), "{table}");
    model.act(Action::Graphs, 1);
    let graphs = draw(&mut model, 80, 24);
    let granted = graphs.lines().filter(|line| line.contains("granted 118M"));
    assert_eq!(granted.count(), 1, "{graphs}");
}
